// SPDX-License-Identifier: Apache-2.0
// Huffman codes the upper bits of each value: of a float its exponent, relative to that of most values of the chunk,
// its sign and the highest bit of its mantissa. The other bits, which hardly compress, are stored.
//
// Alone it suits weights, activations without zeros, and KV caches (DFloat11, Zhang et al., 2025, codes exponents).
// Tensors with many zeros want a chain: after rle or packed_zvc it codes the values that they leave. layout.hpp
// describes the format. The bytes are canonical: host and device write the same.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/huffman/layout.hpp>

#if defined(TUCK_HOST)
#include <tuck/codec/huffman/host_chunk.hpp>
#endif

namespace tuck::inline TUCK_ABI {

/// Codec for values whose bytes are unevenly distributed, such as weights. Lossless. Can be the last stage of a chain.
/// concept.hpp documents the members that are not described here.
/// @tparam T element type
template <element T> struct huffman : plain_codec<huffman<T>, T, codec_id::huffman> {
  template <element U> using rebind = huffman<U>;  ///< for by_width
  static constexpr uint32_t width = sizeof(T);     ///< bytes of a value

#if defined(TUCK_HOST)
  static constexpr uint32_t workspace_bytes(uint32_t) noexcept {
    return workspace::bytes_of<huffman_format::host_chunk<width>>();
  }
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept {
    return detail::with_workspace(workspace_bytes(0), incompressible,
                                  [&](workspace memory) { return encode_chunk(values, out, memory); });
  }
  uint32_t encode_chunk(span<const T> values, bytes out, workspace memory) const noexcept {
    if (values.empty() || values.size_bytes() > max_chunk_raw_bytes) return incompressible;
    const auto limit = static_cast<uint32_t>(values.size_bytes()) - 1;
    auto& chunk = memory.make<huffman_format::host_chunk<width>>(static_cast<uint32_t>(values.size()));
    const uint32_t used = chunk.encode(as_bytes(values).data(), how, out.data(), limit);
    return used <= limit ? used : incompressible;
  }
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
    return detail::with_workspace(workspace_bytes(0), status::out_of_memory,
                                  [&](workspace memory) { return decode_chunk(encoded, restored, memory); });
  }
  status decode_chunk(const_bytes encoded, span<T> restored, workspace memory) const noexcept {
    if (restored.size_bytes() > max_chunk_raw_bytes || encoded.size() >= restored.size_bytes())
      return status::bad_payload;
    auto& chunk = memory.make<huffman_format::host_chunk<width>>(static_cast<uint32_t>(restored.size()));
    return chunk.decode(encoded, as_writable_bytes(restored).data());
  }
#endif

  /// Returns the codec for values of type t, which may be another one than T of the same size.
  TUCK_HD constexpr huffman of_type(dtype t) const noexcept {
    huffman codec;
    codec.how = huffman_format::mapping_of(t);
    return codec;
  }

  huffman_format::mapping how = huffman_format::mapping_of(dtype_of<T>);  ///< how values become numbers
};

static_assert(codec<huffman<float>>);

}  // namespace tuck::inline TUCK_ABI
