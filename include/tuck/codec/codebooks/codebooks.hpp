// SPDX-License-Identifier: Apache-2.0
// Codebooks stores floats without loss: weights, gradients, activations, keys and values. It codes their exponents by
// fixed codes, of which each 4 KiB of a chunk takes the one that suits it. Nothing is counted and no code is made, so
// that a GPU encodes and decodes at the speed of its memory. layout.hpp has the format.
#pragma once

#include <tuck/codec/codebooks/layout.hpp>
#include <tuck/codec/concept.hpp>

#if defined(TUCK_HOST)
#include <tuck/codec/codebooks/host_coder.hpp>
#endif

namespace tuck::inline TUCK_ABI {

/// Codec for floats of which most are not zero. Lossless.
/// concept.hpp documents the members that are not described here.
/// @tparam T f16, bf16, f32, f8e4m3 or f8e5m2
template <floating_element T> struct codebooks : plain_codec<codebooks<T>, T, codec_id::codebooks> {
  static_assert(sizeof(T) <= 4, "tuck: codebooks are of floats of 1, 2 or 4 bytes");

#if defined(TUCK_HOST)
  static constexpr uint32_t workspace_bytes(uint32_t) noexcept { return coder::workspace_bytes(); }
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept {
    return detail::with_workspace(coder::workspace_bytes(), incompressible,
                                  [&](workspace memory) { return encode_chunk(values, out, memory); });
  }
  uint32_t encode_chunk(span<const T> values, bytes out, workspace memory) const noexcept {
    if (values.empty() || values.size_bytes() > max_chunk_raw_bytes) return incompressible;
    return coder(mantissa, memory).encode(as_bytes(values), out);
  }
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
    return detail::with_workspace(coder::workspace_bytes(), status::out_of_memory,
                                  [&](workspace memory) { return decode_chunk(encoded, restored, memory); });
  }
  status decode_chunk(const_bytes encoded, span<T> restored, workspace memory) const noexcept {
    if (restored.size_bytes() > max_chunk_raw_bytes) return status::bad_payload;
    return coder(mantissa, memory).decode(encoded, as_writable_bytes(restored)) ? status::ok : status::bad_payload;
  }

 private:
  using coder = codebooks_format::host_coder<sizeof(T)>;
  static constexpr uint32_t mantissa = float_format<T>::mantissa_bits;
#endif
};

static_assert(codec<codebooks<float>>);

}  // namespace tuck::inline TUCK_ABI
