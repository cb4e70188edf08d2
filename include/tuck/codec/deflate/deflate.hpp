// deflate-lite: valid DEFLATE (RFC 1951) with literals and runs only. The lanes of a warp decode its parts in parallel.
//
// A chunk begins with its stream, so any inflate can read it. The index after the stream tells lanes where to begin.
// layout.hpp has the format and the rules of the encoder. Host and device write the same bytes. The encoder finds only
// repeats at a distance of 1 byte or of one element. Text has many other repeats, tensors have few.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/deflate/host_chunk.hpp>

namespace tuck::inline TUCK_ABI {

/// Codec that writes valid DEFLATE with literals and runs: any inflate can restore a chunk. Lossless.
/// concept.hpp documents the members that are not described here.
/// @tparam T element type
template <element T> struct deflate {
  using value_type = T;

  static constexpr uint32_t width = sizeof(T);  ///< distance of matches in bytes; the other distance is 1
  static constexpr uint32_t chunk_bytes = 16 * 1024;

  /// Returns the stage that frame headers store; the codec has no parameters.
  TUCK_HD static constexpr stage description() noexcept { return {.id = codec_id::deflate, .version = 1}; }
  TUCK_HD constexpr stage_list stages() const noexcept { return {{description()}}; }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, deflate&) noexcept {
    return match_single_stage(stages, description());
  }
  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count * width; }
  /// Returns incompressible for more than 64 KiB of values.
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept;
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

  /// Returns the DEFLATE stream at the beginning of a chunk that encode_chunk wrote. For other bytes, returns an
  /// unspecified part of them.
  static const_bytes stream_of(const_bytes encoded) noexcept;
};

template <element T> uint32_t deflate<T>::encode_chunk(span<const T> values, bytes out) const noexcept {
  if (values.empty() || values.size_bytes() > max_chunk_raw_bytes) return incompressible;
  deflate_format::host_encoder<width> encoder;
  return encoder.encode(as_bytes(values), out.data());
}

template <element T> status deflate<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  deflate_format::host_decoder<width> decoder;
  return decoder.decode(encoded, as_writable_bytes(restored));
}

template <element T> const_bytes deflate<T>::stream_of(const_bytes encoded) noexcept {
  if (encoded.size() < 4) return {};
  const deflate_format::chunk_end end(load_unaligned<uint32_t>(encoded.data() + encoded.size() - 4));
  return end.stream <= encoded.size() ? encoded.subspan(0, end.stream) : const_bytes{};
}

static_assert(codec<deflate<float>>);

}  // namespace tuck::inline TUCK_ABI
