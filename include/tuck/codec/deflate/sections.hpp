// Rows of several sections as deflate-lite, by one thread: sections_layout.hpp has the format.
//
// Reading goes in two steps, on the device too, so that both come to one verdict on anything: first what does not take
// a lane each - the index, and how each block begins - then the sub-blocks.
#pragma once

#include <tuck/codec/deflate/host_block.hpp>
#include <tuck/codec/deflate/host_restore.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

// How a section's block begins; `in` is at its first bit, and left behind its header.
template <class Input>
TUCK_HD status read_section_header(Input& in, bool stored, bool is_last, uint32_t size, code_lengths& lengths,
                                   precode_memory& memory) noexcept {
  if (!stored) return read_block_header(in, is_last, lengths, memory);
  const uint32_t begin = in.take(3);
  if (in.overrun()) return status::deflate_ends_early;
  if (begin >> 1 == 3) return status::deflate_block_type;
  if (begin != ((is_last ? 1u : 0u) | block_type::stored << 1)) return status::deflate_index;
  in.align();
  const uint32_t length = in.take(16), complement = in.take(16);
  if (in.overrun()) return status::deflate_ends_early;
  if (length != (complement ^ 0xffff)) return status::deflate_stored_length;
  return length == size ? status::ok : length < size ? status::deflate_too_short : status::deflate_too_long;
}

// The sections that are in stored blocks, from the byte of the index; false where it names others than there are.
TUCK_HD constexpr bool stored_sections_fit(uint32_t stored, const section_list& sections) noexcept {
  for (uint32_t i = 0; i < max_sections; ++i)
    if ((stored >> i & 1) != 0 && (i >= sections.count || sections.size(i) == 0)) return false;
  return true;
}

// `row` is all sections one after the other, one byte at least and max_row_bytes at most; `to` has room for
// max_sections_bytes. Returns how many were used.
template <uint32_t Width>
uint32_t encode_sections(const_bytes row, const section_list& sections, std::byte* to) noexcept {
  bit_writer out(to);
  sub_block_list list;
  host_block<Width> block;
  uint32_t stored = 0;
  for (uint32_t i = 0; i < sections.count; ++i) {
    const uint32_t size = sections.size(i);
    if (size == 0) continue;
    const const_bytes section = row.subspan(sections.begin(i), size);
    if (!is_stored(size, block.measure(section))) {
      block.write(out, sections.is_last(i), list);
      continue;
    }
    stored |= 1u << i;
    out.put((sections.is_last(i) ? 1 : 0) | block_type::stored << 1, 3);
    out.put(0, static_cast<uint32_t>(-out.position() & 7));
    out.put(size, 16);
    out.put(size ^ 0xffff, 16);
    for (uint32_t k = 0; k < size; ++k) out.put(static_cast<uint8_t>(section[k]), 8);
  }
  const auto stream_bytes = static_cast<uint32_t>(ceil_div<uint64_t>(out.position(), 8));
  out.finish_bytes();
  const index_plan plan = list.plan_of_sections(stream_bytes);
  std::byte* end = list.write(plan, to + stream_bytes);
  *end++ = static_cast<std::byte>(stored);
  *end++ = static_cast<std::byte>(plan.entries);
  return static_cast<uint32_t>(end - to);
}

namespace detail {

// What the first step finds out of each section.
struct section_places {
  uint32_t first_bit[max_sections];    // of its symbols, or of its stored bytes
  uint32_t first_entry[max_sections];  // of the index
  uint32_t entries[max_sections];
  code_lengths lengths[max_sections];
};

inline status read_places(const sections_parts& parts, const section_list& sections, uint32_t stored, uint32_t entries,
                          section_places& places) noexcept {
  bit_input in(parts.stream);
  uint64_t bit = 0;
  uint32_t entry = 0;
  for (uint32_t i = 0; i < sections.count; ++i) {
    const uint32_t size = sections.size(i);
    const bool is_stored = (stored >> i & 1) != 0;
    index_sums sums;
    places.first_entry[i] = entry;
    if (!is_stored)
      while (sums.groups < ceil_div(size, group_bytes) && entry < entries) sums.add(read_entry(parts.index, entry++));
    places.entries[i] = entry - places.first_entry[i];
    if (!is_stored && sums.groups != ceil_div(size, group_bytes)) return status::deflate_index;
    places.first_bit[i] = sums.bits;
  }
  if (entry != entries) return status::deflate_index;
  for (uint32_t i = 0; i < sections.count; ++i) {
    const uint32_t size = sections.size(i), bits = places.first_bit[i];
    if (size == 0) continue;
    const bool is_stored = (stored >> i & 1) != 0;
    precode_memory memory;
    in.seek_bit(bit);
    if (const status s = read_section_header(in, is_stored, sections.is_last(i), size, places.lengths[i], memory);
        s != status::ok)
      return s;
    places.first_bit[i] = static_cast<uint32_t>(in.position());
    bit = in.position() + (is_stored ? 8 * size : bits + places.lengths[i].of[end_of_block]);
    if (bit > 8 * parts.stream.size()) return status::deflate_index;
  }
  return ceil_div<uint64_t>(bit, 8) == parts.stream.size() ? status::ok : status::deflate_trailing;
}

// A section in a dynamic block.
inline status restore_section(const sections_parts& parts, const section_places& places, uint32_t i,
                              bytes restored) noexcept {
  decode_tables tables;
  build_tables(places.lengths[i], tables);
  bit_input in(parts.stream);
  in.seek_bit(places.first_bit[i]);
  sub_block part{places.first_bit[i], 0, 0, 0, true, false};
  for (uint32_t k = 0; k < places.entries[i]; ++k) {
    const index_entry entry = read_entry(parts.index, places.first_entry[i] + k);
    part.end_bit = part.first_bit + entry.bits;
    part.end_byte = std::min(part.first_byte + entry.groups * group_bytes, static_cast<uint32_t>(restored.size()));
    memory_output out(restored.data() + part.first_byte, restored.data() + part.end_byte);
    if (const status s = decode_sub_block(tables, part, in, out); s != status::ok) return s;
    part.first_bit = part.end_bit;
    part.first_byte = part.end_byte;
  }
  return read_end_of_block(tables, in);
}

}  // namespace detail

// Restores the row, of exactly these sections, from untrusted bytes.
inline status decode_sections(const_bytes encoded, const section_list& sections, bytes row) noexcept {
  if (encoded.size() < sections_index_bytes(0)) return status::deflate_ends_early;
  const auto stored = static_cast<uint8_t>(encoded[encoded.size() - 2]);
  const auto entries = static_cast<uint8_t>(encoded[encoded.size() - 1]);
  sections_parts parts;
  if (!split_sections(encoded, entries, parts) || !stored_sections_fit(stored, sections)) return status::deflate_index;
  detail::section_places places;
  if (const status s = detail::read_places(parts, sections, stored, entries, places); s != status::ok) return s;
  for (uint32_t i = 0; i < sections.count; ++i) {
    const uint32_t size = sections.size(i);
    if (size == 0) continue;
    const bytes restored = row.subspan(sections.begin(i), size);
    if ((stored >> i & 1) != 0)
      std::memcpy(restored.data(), parts.stream.data() + places.first_bit[i] / 8, size);
    else if (const status s = detail::restore_section(parts, places, i, restored); s != status::ok)
      return s;
  }
  return status::ok;
}

}  // namespace tuck::inline TUCK_ABI::deflate_format
