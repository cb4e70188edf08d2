// deflate-lite: valid DEFLATE (RFC 1951) of literals and runs, which a whole thread block decodes at once.
//
// Any inflate reads a chunk, for it begins with its stream. An index behind that tells where lanes can begin;
// layout.hpp has the format, and the rules by which the encoder cuts. The bytes are canonical: host and device write
// the same. Repeats that are farther away than an element's size are not looked for: tensors have few, text has many.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/deflate/host_block.hpp>
#include <tuck/codec/deflate/host_restore.hpp>
#include <tuck/codec/deflate/sections.hpp>

namespace tuck::inline TUCK_ABI {

template <element T> struct deflate {
  using value_type = T;

  static constexpr uint32_t width = sizeof(T);  // the distance of matches, besides 1
  static constexpr uint32_t chunk_bytes = deflate_format::max_chunk_bytes;

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

  // As the last stage of a chain, which encodes sections; deflate/sections_layout.hpp has their format.
  using section_list = deflate_format::section_list;
  static constexpr uint32_t max_sections_bytes(uint32_t row) noexcept {
    return deflate_format::max_sections_bytes(row);
  }
  static constexpr uint32_t sections_width = width < 4 ? 4 : width;  // that of masks at least
  static uint32_t encode_sections(const_bytes row, const section_list& sections, std::byte* to) noexcept {
    return deflate_format::encode_sections<sections_width>(row, sections, to);
  }
  static status decode_sections(const_bytes encoded, const section_list& sections, bytes row) noexcept {
    return deflate_format::decode_sections(encoded, sections, row);
  }
};

namespace deflate_format {

// A stream that is this block alone, which was just measured.
template <uint32_t Width>
void write_stream(const host_block<Width>& block, sub_block_list& list, std::byte* to) noexcept {
  bit_writer out(to);
  block.write(out, true, list);
  out.finish_bytes();
}

inline status decode_chunk(const_bytes encoded, bytes restored) noexcept {
  if (encoded.empty()) return status::deflate_ends_early;
  const auto sub_blocks = static_cast<uint8_t>(encoded[encoded.size() - 1]);
  chunk_parts parts;
  if (!split(encoded, sub_blocks, parts)) return status::deflate_index;
  bit_input in(parts.stream);
  code_lengths lengths;
  precode_memory memory;
  if (const status s = read_block_header(in, true, lengths, memory); s != status::ok) return s;
  decode_tables tables;
  build_tables(lengths, tables);

  const auto size = static_cast<uint32_t>(restored.size());
  sub_block part{static_cast<uint32_t>(in.position()),
                 static_cast<uint32_t>(8 * parts.stream.size()),
                 0,
                 size,
                 sub_blocks != 0,
                 sub_blocks == 0};
  index_sums sums;
  for (uint32_t i = 0; i < sub_blocks; ++i) sums.add(read_entry(parts.index, i));
  if (sub_blocks != 0 && !sums.fit(size, part.first_bit, parts.stream.size())) return status::deflate_index;
  for (uint32_t i = 0; i < std::max<uint32_t>(sub_blocks, 1); ++i) {
    if (part.indexed) {
      const index_entry entry = read_entry(parts.index, i);
      part.end_bit = part.first_bit + entry.bits;
      part.end_byte = std::min(part.first_byte + entry.groups * group_bytes, size);
      part.is_last = i + 1 == sub_blocks;
    }
    memory_output out(restored.data() + part.first_byte, restored.data() + part.end_byte);
    if (const status s = decode_sub_block(tables, part, in, out); s != status::ok) return s;
    part.first_bit = part.end_bit;
    part.first_byte = part.end_byte;
  }
  return read_end(tables, in);
}

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
  if (values.empty() || values.size_bytes() > chunk_bytes) return declined;
  deflate_format::host_block<width> block;
  const uint32_t stream = ceil_div(block.measure(as_bytes(values)), 8u);
  const deflate_format::index_plan index = block.plan(stream);
  const uint32_t size = stream + deflate_format::index_bytes(index.entries);
  if (size >= values.size_bytes()) return declined;
  deflate_format::sub_block_list list;
  deflate_format::write_stream(block, list, room.data());
  *list.write(index, room.data() + stream) = static_cast<std::byte>(index.entries);
  return size;
}

template <element T> status deflate<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  return deflate_format::decode_chunk(encoded, as_writable_bytes(restored));
}

template <element T> const_bytes deflate<T>::stream_of(const_bytes encoded) noexcept {
  deflate_format::chunk_parts parts;
  return !encoded.empty() && deflate_format::split(encoded, static_cast<uint8_t>(encoded[encoded.size() - 1]), parts)
             ? parts.stream
             : const_bytes{};
}

template <element T> uint64_t deflate<T>::encode_stream(span<const T> values, bytes room) noexcept {
  if (!values.empty() && values.size_bytes() <= chunk_bytes) {
    deflate_format::host_block<width> block;
    const uint32_t stream = ceil_div(block.measure(as_bytes(values)), 8u);
    if (stream < max_stream_bytes(values.size())) {
      deflate_format::sub_block_list list;
      deflate_format::write_stream(block, list, room.data());
      return stream;
    }
  }
  return deflate_format::store_blocks(as_bytes(values), room.data());
}

static_assert(codec<deflate<float>>);

}  // namespace tuck::inline TUCK_ABI
