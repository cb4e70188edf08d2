// What deflate-lite adds to RFC 1951: how the encoder cuts a chunk, and the index behind the stream.
//
// The encoder sees a chunk as pieces of 16 KiB, and a piece as cells of 32 bytes. Two cells are a group. Matches do
// not leave their piece, and their distance is 1 or the size of an element; a piece is cut into sub-blocks, each a row
// of groups whose matches do not reach before its begin, so that a lane can decode it alone.
//
// An encoded chunk is a raw DEFLATE stream of one dynamic block and behind it, from the chunk's end backwards:
//
//   u8 n                                  sub-blocks in the index; 0: none, one lane decodes it all
//   n x { u8 groups - 1; u16 bits; }      64-byte groups that a sub-block restores, the last one perhaps fewer bytes;
//                                         and the bits of its symbols, the block's end not counted; in order
//
// Codes of literals and lengths have at most 11 bits, those of distances 7; all distances are 1, 2, 4 or 8. Decoders
// refuse all else, an index that is not exactly that of its stream, and bytes between the block's end and the index.
#pragma once

#include <tuck/codec/deflate/symbols.hpp>
#include <tuck/core/bits.hpp>
#include <tuck/core/span.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

inline constexpr uint32_t piece_bytes = 16 * 1024;
inline constexpr uint32_t cell_bytes = 32;
inline constexpr uint32_t piece_cells = piece_bytes / cell_bytes;
inline constexpr uint32_t group_bytes = 2 * cell_bytes;
inline constexpr uint32_t piece_groups = piece_bytes / group_bytes;
inline constexpr uint32_t max_pieces = 4;
inline constexpr uint32_t max_chunk_bytes = max_pieces * piece_bytes;

inline constexpr uint32_t max_literal_bits = 11;  // of the codes of literals, lengths and distances
inline constexpr uint32_t max_distance = 8;

// A lane's share: a piece of so many symbols gets one sub-block more.
inline constexpr uint32_t symbols_a_sub_block = 512;
inline constexpr uint32_t max_piece_sub_blocks = piece_bytes / symbols_a_sub_block;
inline constexpr uint32_t max_sub_blocks = max_pieces * max_piece_sub_blocks;
static_assert(max_sub_blocks < 256);

// The index takes at most a fortieth of the chunk; sub-blocks are joined until it does.
inline constexpr uint32_t index_share = 40;
inline constexpr uint32_t index_entry_bytes = 3;

TUCK_HD constexpr uint32_t index_bytes(uint32_t sub_blocks) noexcept { return 1 + index_entry_bytes * sub_blocks; }

struct index_entry {
  uint32_t groups;
  uint32_t bits;
};

// How the encoder joins: `run` neighbours of a piece become one. 0: the chunk has no index.
struct index_plan {
  uint32_t run = 0;
  uint32_t entries = 0;
};

namespace detail {
TUCK_HD constexpr uint32_t joined_entries(const uint8_t* sub_blocks, uint32_t pieces, uint32_t run) noexcept {
  uint32_t entries = 0;
  for (uint32_t i = 0; i < pieces; ++i) entries += ceil_div(uint32_t{sub_blocks[i]}, run);
  return entries;
}
}  // namespace detail

// For pieces of so many sub-blocks and a stream of so many bytes.
TUCK_HD constexpr index_plan plan_index(const uint8_t* sub_blocks, uint32_t pieces, uint32_t stream_bytes) noexcept {
  for (uint32_t run = 1; run <= max_piece_sub_blocks; run *= 2) {
    const uint32_t entries = detail::joined_entries(sub_blocks, pieces, run);
    if (entries > 1 && index_bytes(entries) * index_share <= stream_bytes) return {run, entries};
  }
  return {};
}
// A joined sub-block's bits fit into 16. Where more than two are joined, the whole stream has less than 2^16. One or
// two have at most 2 * (512 + 64) symbols: each takes 18 bits at most, or is a run of up to ten zeros that are literals
// instead - and where a chunk has 10 k zeros as literals, each takes log(65536 / 10 k) bits at most, to the base of the
// golden ratio (Katona and Nemetz, 1976), which for 1152 such runs is three.
static_assert(2 * (symbols_a_sub_block + group_bytes) * 30 < 1 << 16);
static_assert(index_share * index_bytes(max_sub_blocks / 2) * 8 < 1 << 16);

// Where a sub-block begins: the bit of the stream, and the group of what it is a sub-block of.
struct sub_block_begin {
  uint32_t bit;
  uint16_t group;
};

// An entry of such an index. `begins` has those of each piece in order, and behind them where the piece ends.
TUCK_HD constexpr index_entry joined_entry(const index_plan& plan, const uint8_t* sub_blocks, uint32_t pieces,
                                           const sub_block_begin* begins, uint32_t number) noexcept {
  uint32_t i = number, first = 0, n = 0;  // the i-th of a piece whose n sub-blocks begin with the first-th
  for (uint32_t k = 0; k < pieces; ++k) {
    n = sub_blocks[k];
    if (i < ceil_div(n, plan.run)) break;
    i -= ceil_div(n, plan.run);
    first += n + 1;
  }
  const uint32_t end = (i + 1) * plan.run < n ? (i + 1) * plan.run : n;
  const sub_block_begin from = begins[first + i * plan.run], to = begins[first + end];
  return {uint32_t{to.group} - from.group, to.bit - from.bit};
}

// An encoded chunk's two parts; the index's is checked by its readers.
struct chunk_parts {
  const_bytes stream;
  const_bytes index;  // without the last byte
};

TUCK_HD inline index_entry read_entry(const_bytes index, uint32_t i) noexcept {
  const std::byte* const p = index.data() + uint64_t{index_entry_bytes} * i;
  return {uint32_t{static_cast<uint8_t>(p[0])} + 1, uint32_t{load_unaligned<uint16_t>(p + 1)}};
}

TUCK_HD inline void write_entry(const index_entry& entry, std::byte* p) noexcept {
  p[0] = static_cast<std::byte>(entry.groups - 1);
  p[1] = static_cast<std::byte>(entry.bits);
  p[2] = static_cast<std::byte>(entry.bits >> 8);
}

// What all sub-blocks of an index restore and take.
struct index_sums {
  uint32_t groups = 0;
  uint32_t bits = 0;

  TUCK_HD constexpr void add(index_entry entry) noexcept {
    groups += entry.groups;
    bits += entry.bits;
  }
  // Can they be of a chunk of `size` bytes, whose stream has so many and its first symbol at this bit?
  TUCK_HD constexpr bool fit(uint32_t size, uint32_t first_bit, uint64_t stream_bytes) const noexcept {
    return groups == ceil_div(size, group_bytes) && first_bit + bits <= 8 * stream_bytes;
  }
};

// False where the chunk has no room for the index that its last byte announces, or is longer than any.
TUCK_HD constexpr bool split(const_bytes encoded, uint32_t sub_blocks, chunk_parts& parts) noexcept {
  const uint32_t size = index_bytes(sub_blocks);
  if (encoded.size() <= size || encoded.size() > 1 << 24) return false;
  parts.stream = encoded.subspan(0, encoded.size() - size);
  parts.index = encoded.subspan(encoded.size() - size, size - 1);
  return true;
}

}  // namespace tuck::inline TUCK_ABI::deflate_format
