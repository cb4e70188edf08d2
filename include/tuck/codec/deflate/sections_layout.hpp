// deflate-lite of several sections: a row of bytes whose parts are so unlike each other that each gets a code of its
// own - the masks of a sparse chunk, the planes of its values.
//
// The stream has a block for each section that is not empty, in their order, the last one final: a dynamic block as in
// layout.hpp, or a stored one where that is certain to be no longer. Any inflate restores the row. Behind it, from the
// end backwards:
//
//   u8 n                                  sub-blocks in the index, one at least of each dynamic block
//   u8 stored                             bit i: section i is in a stored block. Empty ones count, and have 0
//   n x { u8 groups - 1; u16 bits; }      as in layout.hpp, of the dynamic blocks in order; none goes on in the next
//
// How long the sections are is for the reader to know; chain/chain.hpp says what they are in chains. What layout.hpp
// says of codes, distances and refusal holds here too.
#pragma once

#include <tuck/codec/deflate/layout.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

inline constexpr uint32_t max_sections = 8;
inline constexpr uint32_t max_row_bytes = max_chunk_bytes + 4096;
inline constexpr uint32_t max_section_pieces = ceil_div(max_row_bytes, piece_bytes) + max_sections;
inline constexpr uint32_t max_section_sub_blocks = max_row_bytes / symbols_a_sub_block + max_section_pieces;
static_assert(max_section_sub_blocks < 256);

// Sections of a row, from its begin on. `{}` has none.
struct section_list {
  static constexpr uint32_t capacity = max_sections;

  uint32_t count;
  uint32_t end[max_sections];  // in bytes of the row

  TUCK_HD constexpr void add(uint32_t size) noexcept {
    end[count] = total() + size;
    ++count;
  }
  TUCK_HD constexpr uint32_t begin(uint32_t i) const noexcept { return i == 0 ? 0 : end[i - 1]; }
  TUCK_HD constexpr uint32_t size(uint32_t i) const noexcept { return end[i] - begin(i); }
  TUCK_HD constexpr uint32_t total() const noexcept { return begin(count); }
  TUCK_HD constexpr bool is_last(uint32_t i) const noexcept { return end[i] == total(); }  // of those not empty
};

TUCK_HD constexpr uint32_t sections_index_bytes(uint32_t entries) noexcept { return 2 + index_entry_bytes * entries; }

// The most bytes that a row of so many can become.
TUCK_HD constexpr uint32_t max_sections_bytes(uint32_t row) noexcept {
  return row + 6 * max_sections + sections_index_bytes(row / symbols_a_sub_block + max_section_pieces);
}

// Of a stored block, wherever it begins: the most bits that it can have. Its header is 3, up to 7 more lead to the next
// byte, and 32 say how long it is.
TUCK_HD constexpr uint32_t max_stored_bits(uint32_t size) noexcept { return 42 + 8 * size; }
TUCK_HD constexpr bool is_stored(uint32_t size, uint32_t dynamic_bits) noexcept {
  return size <= max_stored && max_stored_bits(size) <= dynamic_bits;
}

// As plan_index, of the pieces of all dynamic blocks; where each is joined to one sub-block, that is how it is.
//
// A joined sub-block's bits fit into 16. Of one or two, layout.hpp says why. Four are joined only where the stream has
// less than 40 (3 * 79 + 2) bytes, so that the other sub-blocks, 130 and more of 400 bits and more, leave it less than
// that; eight and more, where it has less than 2^16 bits.
TUCK_HD constexpr index_plan plan_sections_index(const uint8_t* sub_blocks, uint32_t pieces,
                                                 uint32_t stream_bytes) noexcept {
  for (uint32_t run = 1;; run *= 2) {
    const uint32_t entries = detail::joined_entries(sub_blocks, pieces, run);
    if (entries == pieces || sections_index_bytes(entries) * index_share <= stream_bytes) return {run, entries};
  }
}

// An encoded row's two parts, from its last two bytes; false where it has no room for the index that they announce.
struct sections_parts {
  const_bytes stream;
  const_bytes index;  // the entries
};
TUCK_HD constexpr bool split_sections(const_bytes encoded, uint32_t entries, sections_parts& parts) noexcept {
  const uint32_t size = sections_index_bytes(entries);
  if (encoded.size() < size || encoded.size() > 1 << 24) return false;
  parts.stream = encoded.subspan(0, encoded.size() - size);
  parts.index = encoded.subspan(encoded.size() - size, size - 2);
  return true;
}

}  // namespace tuck::inline TUCK_ABI::deflate_format
