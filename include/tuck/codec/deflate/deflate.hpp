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
template <element T> struct deflate : plain_codec<deflate<T>, T, codec_id::deflate> {
  static constexpr uint32_t width = sizeof(T);  ///< distance of matches in bytes; the other distance is 1

  /// Returns incompressible for more than 64 KiB of values.
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept;
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

  /// Returns the DEFLATE stream at the beginning of a chunk that encode_chunk wrote. For other bytes, returns an
  /// unspecified part of them.
  static const_bytes stream_of(const_bytes encoded) noexcept;

  /// Returns the capacity in bytes that encode_stream needs for `count` values.
  static constexpr uint64_t max_stream_bytes(uint64_t count) noexcept {
    return count * width + 5 * std::max<uint64_t>(ceil_div<uint64_t>(count * width, deflate_format::max_stored), 1);
  }
  /// Writes a DEFLATE stream without an index, for other decoders. Uses stored blocks for incompressible values and for
  /// more than 64 KiB of values.
  /// @param out at least max_stream_bytes(values.size()) bytes
  /// @return the size of the stream in bytes
  static uint64_t encode_stream(span<const T> values, bytes out) noexcept;
};

namespace deflate_format {

// Writes as many stored blocks as needed, at least one. Returns their size in bytes.
inline uint64_t store_blocks(const_bytes values, std::byte* to) noexcept {
  const std::byte* const begin = to;
  uint64_t done = 0;
  do {
    const uint64_t size = std::min<uint64_t>(values.size() - done, max_stored);
    *to++ = static_cast<std::byte>(done + size == values.size());
    store_unaligned(to, static_cast<uint16_t>(size));
    store_unaligned(to + 2, static_cast<uint16_t>(~size));
    if (size != 0) std::memcpy(to + 4, values.data() + done, size);
    to += 4 + size;
    done += size;
  } while (done != values.size());
  return static_cast<uint64_t>(to - begin);
}

}  // namespace deflate_format

template <element T> uint32_t deflate<T>::encode_chunk(span<const T> values, bytes out) const noexcept {
  if (values.empty() || values.size_bytes() > max_chunk_raw_bytes) return incompressible;
  deflate_format::host_encoder<width> encoder;
  const uint32_t size = encoder.measure(as_bytes(values));
  if (size != incompressible) encoder.write(out.data());
  return size;
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

template <element T> uint64_t deflate<T>::encode_stream(span<const T> values, bytes out) noexcept {
  if (!values.empty() && values.size_bytes() <= max_chunk_raw_bytes) {
    deflate_format::host_encoder<width> encoder;
    encoder.measure(as_bytes(values));
    if (encoder.stream_bytes() < values.size_bytes()) return encoder.write_stream(out.data());
  }
  return deflate_format::store_blocks(as_bytes(values), out.data());
}

static_assert(codec<deflate<float>>);

}  // namespace tuck::inline TUCK_ABI
