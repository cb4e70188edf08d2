// Huffman codes values by planes: byte k of all values is plane k. Each plane has its own code, or is stored.
//
// Alone it suits weights and KV caches: the exponents of floats compress, and the other bytes are stored (DFloat11,
// Zhang et al., 2025). As the last stage of a chain, after zvc or rle, it also codes their masks. layout.hpp describes
// the format. The bytes are canonical: host and device write the same.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/huffman/host_chunk.hpp>

namespace tuck::inline TUCK_ABI {

/// Codec for values whose bytes are unevenly distributed, such as weights. Lossless. Can be the last stage of a chain.
/// concept.hpp documents the members that are not described here.
/// @tparam T element type
template <element T> struct huffman : plain_codec<huffman<T>, T, codec_id::huffman> {
  static constexpr uint32_t width = sizeof(T);  ///< bytes of a value

  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept {
    return huffman_format::max_bytes(count * width, 0);
  }
  uint32_t encode_chunk(span<const T> values, bytes room) const noexcept;
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

  /// Returns the most bytes that encode_row writes for a row of `row` bytes.
  static constexpr uint32_t max_row_bytes(uint32_t row) noexcept { return huffman_format::max_bytes(row, row); }
  /// Encodes a row of a chain: the values of the stage before, then the side streams. Each is a section.
  /// @param to memory for max_row_bytes(row.size()) bytes
  /// @return the bytes used
  static uint32_t encode_row(const_bytes row, const section_list& sections, std::byte* to) noexcept;
  /// Restores a row with these sections from untrusted bytes.
  /// @return ok; or bad_payload, and `row` is unspecified
  static status decode_row(const_bytes encoded, const section_list& sections, bytes row) noexcept;
};

template <element T>
uint32_t huffman<T>::encode_row(const_bytes row, const section_list& sections, std::byte* to) noexcept {
  return huffman_format::host_chunk<T>(sections).encode(row.data(), to);
}
template <element T>
status huffman<T>::decode_row(const_bytes encoded, const section_list& sections, bytes row) noexcept {
  return huffman_format::host_chunk<T>(sections).decode(encoded, row.data());
}
template <element T> uint32_t huffman<T>::encode_chunk(span<const T> values, bytes room) const noexcept {
  if (values.empty() || values.size_bytes() > max_chunk_raw_bytes) return incompressible;
  section_list all{};
  all.add(static_cast<uint32_t>(values.size_bytes()));
  const uint32_t used = encode_row(as_bytes(values), all, room.data());
  return used < values.size_bytes() ? used : incompressible;
}
template <element T> status huffman<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  if (restored.size_bytes() > max_chunk_raw_bytes || encoded.size() >= restored.size_bytes())
    return status::bad_payload;
  section_list all{};
  all.add(static_cast<uint32_t>(restored.size_bytes()));
  return decode_row(encoded, all, as_writable_bytes(restored));
}

static_assert(codec<huffman<float>>);

}  // namespace tuck::inline TUCK_ABI
