// deflate-lite: valid DEFLATE (RFC 1951) of literals and runs, of which the lanes of a warp decode a part each.
//
// Any inflate reads a chunk, for it begins with its stream. An index behind that tells where lanes can begin;
// layout.hpp has the format, and the rules by which the encoder cuts. The bytes are canonical: host and device write
// the same. Repeats that are farther away than an element's size are not looked for: tensors have few, text has many.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/deflate/host_chunk.hpp>

namespace tuck::inline TUCK_ABI {

template <element T> struct deflate {
  using value_type = T;

  static constexpr uint32_t width = sizeof(T);  // the distance of matches, besides 1
  static constexpr uint32_t chunk_bytes = 16 * 1024;

  TUCK_HD static constexpr stage description() noexcept { return {.id = codec_id::deflate, .version = 1}; }
  TUCK_HD constexpr stage_list stages() const noexcept { return {{description()}}; }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, deflate&) noexcept {
    return match_single_stage(stages, description());
  }
  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count * width; }
  uint32_t encode_chunk(span<const T> values, bytes room) const noexcept;  // declines more than 64 KiB of values
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

  // The DEFLATE stream that a chunk begins with, which encode_chunk wrote; of other bytes, some part, or none.
  static const_bytes stream_of(const_bytes encoded) noexcept;

  // The stream alone, for other readers of DEFLATE, into max_stream_bytes. What would not shrink is stored, and so are
  // more than 64 KiB of values. Returns the stream's bytes.
  static constexpr uint64_t max_stream_bytes(uint64_t count) noexcept {
    return count * width + 5 * std::max<uint64_t>(ceil_div<uint64_t>(count * width, deflate_format::max_stored), 1);
  }
  static uint64_t encode_stream(span<const T> values, bytes room) noexcept;
};

namespace deflate_format {

// Stored blocks, as many as it takes; their bytes.
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

template <element T> uint32_t deflate<T>::encode_chunk(span<const T> values, bytes room) const noexcept {
  if (values.empty() || values.size_bytes() > max_chunk_raw_bytes) return declined;
  deflate_format::host_encoder<width> encoder;
  const uint32_t size = encoder.measure(as_bytes(values));
  if (size != declined) encoder.write(room.data());
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

template <element T> uint64_t deflate<T>::encode_stream(span<const T> values, bytes room) noexcept {
  if (!values.empty() && values.size_bytes() <= max_chunk_raw_bytes) {
    deflate_format::host_encoder<width> encoder;
    encoder.measure(as_bytes(values));
    if (encoder.stream_bytes() < values.size_bytes()) return encoder.write_stream(room.data());
  }
  return deflate_format::store_blocks(as_bytes(values), room.data());
}

static_assert(codec<deflate<float>>);

}  // namespace tuck::inline TUCK_ABI
