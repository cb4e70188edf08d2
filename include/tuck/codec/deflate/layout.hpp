// SPDX-License-Identifier: Apache-2.0
// The format of deflate-lite: DEFLATE (RFC 1951) with a fixed kind of header, restricted tokens, and an index after
// the stream that lets lanes decode parts of it in parallel.
//
// A chunk consists of cells of 32 bytes; four cells are a line, and 32 cells are a unit. The encoder cuts the chunk
// into sub-blocks of whole cells, which lanes decode independently. Tokens are the literals and matches of RFC 1951.
// Matches have distance 1 or w, the size of an element. The encoder chooses tokens by these rules:
//
//   near   a byte is near if it equals the byte before it, and that byte is in the same sub-block
//   far    a byte is far if it equals the byte w before it, and that byte is in the same sub-block; not if w = 1
//
// A match lies in one unit and one sub-block. Three or more near bytes in a row become a match of distance 1. Of the
// bytes that are in no such match, three or more far bytes in a row become one of distance w. Every other byte is a
// literal. In both cases a row of bytes also ends between lines 2 i - 1 and 2 i if one of the two is full, so that no
// match has more than 256 bytes. A line is full if it has 128 bytes and all of them are near (for distance w: far, and
// in no match of distance 1).
//
// A cell weighs 1 plus four times the number of tokens that begin in it if the chunk is a single sub-block. If W is the
// sum of all weights, the chunk has b = W / 448 sub-blocks, at most one per 256 bytes and at least one. A cell belongs
// to sub-block v b / W, where v is the weight of the cells before it. Divisions round down. So a sub-block has less
// than 8192 bits. A chunk is incompressible if the encoded chunk is not smaller than its values.
//
// An encoded chunk, little-endian:
//
//   stream            one final dynamic block of RFC 1951, up to the byte in which it ends
//   u7 segments[17]   the number of bits that code the lengths of symbols 16 i to 16 i + 15
//   entries[b]        for each sub-block: c bits for its number of cells minus 1, then s bits for the number of bits of
//                     its tokens, without the end of the block
//   0[]               bits up to a multiple of 4 bytes
//   u16 size          of the stream in bytes
//   u4 c, u4 s        at most 11 and 13; the encoder takes the least that are enough
//   u8 b - 1          b is the number of sub-blocks
//
// The header of the block is fixed up to the first code length:
//
//   3 bits    1 + 2 * 2: final, dynamic
//   5 bits    285 - 257 literal and length symbols
//   5 bits    d - 1 distance symbols: d = w, but 6 if w = 8
//   4 bits    18 - 4 lengths of the code of code lengths, in the order of RFC 1951, 3 bits each:
//             symbol   0  1  2  3  4  5  6  7  8  9 10 17 18, others
//             length   4  6  7  7  6  5  4  3  2  2  3  6  5  0
//
// The code lengths follow in 18 segments, so that each lane reads one: 16 symbols each in the first 17, and all others
// in the last. The distance codes of 1 and w have one bit and the others none. In each segment the
// encoder writes zeros in runs that are as long as possible: 11 or more as 18, 3 to 10 as 17. No run crosses a segment.
// The literal and length code is that of round_lengths in huffman/code.hpp: complete, with at most 10 bits.
//
// Decoders reject a different header, incomplete codes, a chunk without a code for the end of the block, sizes and
// counts that do not match, padding that is not zero, and matches of any other distance or that leave their sub-block.
// They accept any choice of tokens and sub-blocks.
#pragma once

#include <tuck/codec/huffman/code.hpp>
#include <tuck/codec/inflate/codes.hpp>
#include <tuck/core/bits.hpp>
#include <tuck/core/span.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

using huffman_format::max_length;  // of a code in bits

inline constexpr uint32_t cell_bytes = 32;
inline constexpr uint32_t line_cells = 4, unit_cells = 32;
inline constexpr uint32_t coded_symbols = 285;  // symbol 285 would be a match of 258 bytes, which no unit has
inline constexpr uint32_t counted_symbols = 288;
inline constexpr uint32_t segment_symbols = 16, whole_segments = 17, segment_bits = 7;
inline constexpr uint32_t max_cell_bits = 11, max_size_bits = 13;  // of an entry of the index

TUCK_HD constexpr uint32_t cells_of(uint32_t bytes) noexcept { return ceil_div(bytes, cell_bytes); }

// -- the header -----------------------------------------------------------------------------------------------------

// Number of distance symbols, and the code length of each: 1 for distances 1 and w, else 0.
template <uint32_t Width> inline constexpr uint32_t distance_codes = Width == 8 ? 6 : Width;
template <uint32_t Width> TUCK_HD constexpr uint32_t distance_length(uint32_t symbol) noexcept {
  return symbol == 0 || symbol + 1 == distance_codes<Width> ? 1 : 0;
}

// The code of code lengths. The constants list symbols by rank and ranks by symbol, four bits each, with 11 and 12 for
// symbols 17 and 18. Ranks 0 to 7 have codes of 2, 2, 3, 3, 4, 4, 5 and 5 bits, ranks 8 to 10 of 6, 11 and 12 of 7.
namespace precode {
inline constexpr uint64_t symbol_of_rank = 0x32b41c560a798;
inline constexpr uint64_t rank_of_symbol = 0x7a3102569cb84;

TUCK_HD constexpr uint32_t length(uint32_t rank) noexcept { return rank < 8 ? 2 + rank / 2 : rank < 11 ? 6 : 7; }
TUCK_HD constexpr uint32_t code(uint32_t rank) noexcept {  // left-aligned in 7 bits
  if (rank >= 11) return 126 + rank - 11;
  if (rank >= 8) return 120 + 2 * (rank - 8);
  const uint32_t bits = 2 + rank / 2;
  return 128 - (256u >> (bits - 1)) + (rank % 2) * (128u >> bits);
}
TUCK_HD constexpr uint32_t rank(uint32_t symbol) noexcept {
  const uint32_t s = symbol < 16 ? symbol : symbol - 6;
  return static_cast<uint32_t>(rank_of_symbol >> 4 * s) & 15;
}
TUCK_HD constexpr uint32_t symbol(uint32_t rank) noexcept {
  const auto s = static_cast<uint32_t>(symbol_of_rank >> 4 * rank) & 15;
  return s < 11 ? s : s + 6;
}
// Returns the rank of the code at the start of seven bits, of which the first is the highest.
TUCK_HD constexpr uint32_t rank_at(uint32_t bits) noexcept {
  if (bits >= 126) return 11 + bits - 126;
  if (bits >= 120) return 8 + (bits - 120) / 2;
  const uint32_t ones = 7 - tuck::bit_width(~bits & 127);
  return 2 * ones + (bits >> (5 - ones) & 1);
}
}  // namespace precode

// The bits of a block up to the first code length, as words: those of the table at the beginning of this file.
inline constexpr uint32_t prefix_bits = 3 + 5 + 5 + 4 + 18 * 3;
template <uint32_t Width> TUCK_HD constexpr uint32_t prefix_word(uint32_t i) noexcept {
  return i == 0 ? 0x52e1c0e5 | (distance_codes<Width> - 1) << 8 : i == 1 ? 0xc7185713 : 0x61;
}

// Number of symbols in a segment, including distances.
template <uint32_t Width> TUCK_HD constexpr uint32_t segment_size(uint32_t segment) noexcept {
  return segment < whole_segments ? segment_symbols
                                  : coded_symbols - whole_segments * segment_symbols + distance_codes<Width>;
}

// A field of the header: `count` bits.
struct header_field {
  uint32_t bits, count;
};
// Returns the field of a code length, or of a run of three or more zeros.
TUCK_HD constexpr header_field length_field(uint32_t length, uint32_t zeros) noexcept {
  const uint32_t r = precode::rank(zeros >= 11 ? 18 : zeros >= 3 ? 17 : length), bits = precode::length(r);
  const uint32_t code = reversed(precode::code(r) >> (7 - bits), bits);
  return zeros >= 11  ? header_field{code | (zeros - 11) << bits, bits + 7}
         : zeros >= 3 ? header_field{code | (zeros - 3) << bits, bits + 3}
                      : header_field{code, bits};
}
// Visits the fields of `size` code lengths length(0), length(1), ... as visit(field).
TUCK_HD_CALLS
template <class Length, class Visit>
TUCK_HD constexpr void visit_fields(uint32_t size, const Length& length, const Visit& visit) {
  for (uint32_t i = 0, run = 0; i < size; i += run) {
    run = 0;
    while (i + run < size && length(i + run) == 0) ++run;
    visit(length_field(length(i), run));
    if (run < 3) run = 1;
  }
}
// Returns the fields of the code lengths of distances, which end the last segment.
template <uint32_t Width> TUCK_HD constexpr header_field distance_fields() noexcept {
  header_field all{};
  visit_fields(distance_codes<Width>, distance_length<Width>,
               [&](const header_field& f) { all = {all.bits | f.bits << all.count, all.count + f.count}; });
  return all;
}

// Decoder table entry for the next seven bits, of which the first is the lowest:
//
//    31     25 24        18 17 16 15      8 7         5 4        0
//   +---------+------------+-----+---------+-----------+----------+
//   |  count  | extra mask |  0  | length  | code bits | all bits |
//   +---------+------------+-----+---------+-----------+----------+
//
// count        of code lengths: 1; of a run of zeros the least count, 3 or 11
// extra mask   of the extra bits after the code, 0, 3 or 7 ones; these bits are added to the count
// length       the code length, 0 to 10; of a run 0
// code bits    of the code, at most 7
// all bits     of the code and the extra bits, at most 12
TUCK_HD constexpr uint32_t precode_entry(uint32_t bits) noexcept {
  const uint32_t r = precode::rank_at(reversed(bits, 7)), symbol = precode::symbol(r), code_bits = precode::length(r);
  if (symbol == 18) return 11u << 25 | 127 << 18 | code_bits << 5 | (code_bits + 7);
  if (symbol == 17) return 3u << 25 | 7 << 18 | code_bits << 5 | (code_bits + 3);
  return 1u << 25 | symbol << 8 | code_bits << 5 | code_bits;
}
// Reads a segment from bit `at` on. peek(at) returns at least 16 bits, entry(bits) the precode_entry of 7 bits. Calls
// length(i, l) for the code lengths l, also for the first of several zeros. Returns the end of the segment, or 0 if a
// run leaves the segment.
TUCK_HD_CALLS
template <uint32_t Width, class Peek, class Entry, class Length>
TUCK_HD constexpr uint32_t read_segment(uint32_t segment, uint32_t at, const Peek& peek, const Entry& entry,
                                        const Length& length) {
  const uint32_t size = segment_size<Width>(segment);
  uint32_t i = 0;
  while (i < size) {
    const uint32_t bits = peek(at), found = entry(bits & 127);
    at += found & 31;
    length(i, found >> 8 & 255);
    i += (found >> 25) + (bits >> (found >> 5 & 7) & found >> 18 & 127);
  }
  return i == size ? at : 0;
}

// Decoder table entry of a symbol with a code of `code_bits`:
//
//    31     23 22 21 20        16 15        8 7   5 4         0
//   +---------+-----+------------+-----------+-----+-----------+
//   |    1    |  0  |     0      |  literal  |  0  | code bits |   literal
//   |   511   |  0  |     0      |     0     |  0  | code bits |   end of the block
//   |  bytes  |  0  | extra mask | code bits |  0  | all bits  |   match
//   +---------+-----+------------+-----------+-----+-----------+
//
// bytes        the least number of bytes of the symbol, 3 to 227: only the end of the block has bit 31
// extra mask   of the extra bits after the code, 0 to 5 ones; these bits are added to the bytes
// code bits    of the code, at most 10
// all bits     of the code, the extra bits, and the one after them that says whether the match is far: at most 16. A
//              far match of 8-byte elements has one bit more
TUCK_HD constexpr uint32_t decoder_entry(uint32_t symbol, uint32_t code_bits) noexcept {
  if (symbol < end_of_block) return 1u << 23 | symbol << 8 | code_bits;
  if (symbol == end_of_block) return 511u << 23 | code_bits;
  const symbol_meaning m = length_of(symbol);
  return m.base << 23 | low_mask(m.extra_bits) << 16 | code_bits << 8 | (code_bits + m.extra_bits + 1);
}
TUCK_HD constexpr bool is_literal(uint32_t entry) noexcept { return entry < 2u << 23; }
TUCK_HD constexpr bool is_end(uint32_t entry) noexcept { return entry >> 31 != 0; }
TUCK_HD constexpr uint32_t token_bits(uint32_t entry) noexcept { return entry & 31; }
// Returns the bits of the code, mod 32, of a token that is no literal.
TUCK_HD constexpr uint32_t code_bits(uint32_t entry) noexcept { return entry >> 8; }
// Returns the bytes of a token, given the bits after its code.
TUCK_HD constexpr uint32_t token_bytes(uint32_t entry, uint32_t after) noexcept {
  return (entry >> 23) + (after & entry >> 16 & 31);
}

// Encoder table entry of a token: a literal, or 256 + the length of a near match. `code` is the code of the symbol of
// the token, left-aligned in a word. The lowest bit is written first.
//
//    31    27 26                                  0
//   +--------+----+----------+------------+--------+
//   | width  | 0  | distance | extra bits |  code  |   width: bits of the last three parts
//   +--------+----+----------+------------+--------+
//
// code         at most 10 bits
// extra bits   of a match, at most 5
// distance     of a match: 0 near, 1 far; of a far match of 8-byte elements two bits, both 1
TUCK_HD constexpr uint32_t symbol_of_token(uint32_t token) noexcept {
  return token < 256 ? token : length_symbol(token - 256);
}
TUCK_HD constexpr uint32_t encoder_entry(uint32_t token, uint32_t code, uint32_t code_bits) noexcept {
  const uint32_t bits = reverse_bits(code);
  if (token < 256) return bits | code_bits << 27;
  const symbol_meaning m = length_of(length_symbol(token - 256));
  return bits | (token - 256 - m.base) << code_bits | (code_bits + m.extra_bits + 1) << 27;
}
// Returns the entry of a far match, given that of a near match of the same length.
template <uint32_t Width> TUCK_HD constexpr uint32_t far_entry(uint32_t entry) noexcept {
  const uint32_t last = (entry >> 27) - 1;
  return Width == 8 ? (entry + (1u << 27)) | 3u << last : entry | 1u << last;
}

// -- tokens ---------------------------------------------------------------------------------------------------------

// Returns the bits of the bytes of a cell that are in runs of three or more. `before` and `after` are the neighbouring
// cells, or 0 if runs end there.
TUCK_HD constexpr uint32_t in_runs(uint32_t before, uint32_t x, uint32_t after) noexcept {
  const uint32_t begins = x & shift_right(x, after, 1) & shift_right(x, after, 2);
  const uint32_t earlier = before & shift_right(before, x, 1) & shift_right(before, x, 2);
  return begins | shift_right(earlier, begins, 31) | shift_right(earlier, begins, 30);
}
// Returns the bits of the bytes that begin a run. `before` is in_runs of the cell before.
TUCK_HD constexpr uint32_t run_begins(uint32_t before, uint32_t x) noexcept { return x & ~shift_right(before, x, 31); }

// Returns whether all bytes of a line are near (far).
TUCK_HD constexpr bool is_full(const uint32_t* x) noexcept { return (x[0] & x[1] & x[2] & x[3]) == ~0u; }

// The sub-blocks of `bytes` bytes with `tokens` tokens: their number, and the sub-block of each cell.
struct sub_block_plan {
  uint32_t count, weight;

  TUCK_HD constexpr sub_block_plan(uint32_t bytes, uint32_t tokens) noexcept
      : count(most(bytes)), weight(4 * tokens + cells_of(bytes)) {
    if (weight / least_weight < count) count = weight / least_weight;
    if (count == 0) count = 1;
  }
  TUCK_HD constexpr uint32_t at(uint32_t cell, uint32_t tokens_before) const noexcept {
    return (4 * tokens_before + cell) * count / weight;
  }
  TUCK_HD static constexpr uint32_t most(uint32_t bytes) noexcept { return bytes >= 512 ? bytes / 256 : 1; }

 private:
  static constexpr uint32_t least_weight = 448;  // of a sub-block
};

// -- the index ------------------------------------------------------------------------------------------------------

// The last word of an encoded chunk, which says where the index is. The stream is smaller than a chunk of 64 KiB, which
// has at most 256 sub-blocks.
//
//    31            24 23       20 19       16 15              0
//   +----------------+-----------+-----------+-----------------+
//   | sub-blocks - 1 | size_bits | cell_bits | bytes of stream |   size_bits: at most 13; cell_bits: at most 11
//   +----------------+-----------+-----------+-----------------+
struct chunk_footer {
  uint32_t stream, cell_bits, size_bits, sub_blocks;

  TUCK_HD static constexpr chunk_footer of(uint32_t word) noexcept {
    return {word & 0xffff, word >> 16 & 15, word >> 20 & 15, (word >> 24) + 1};
  }
  TUCK_HD constexpr uint32_t packed() const noexcept {
    return stream | cell_bits << 16 | size_bits << 20 | (sub_blocks - 1) << 24;
  }
  // First bit of the size of a segment, counted from the beginning of the chunk.
  TUCK_HD constexpr uint32_t segment(uint32_t i) const noexcept { return 8 * stream + i * segment_bits; }
  // Bits of an entry, and the first bit of entry i.
  TUCK_HD constexpr uint32_t width() const noexcept { return cell_bits + size_bits; }
  TUCK_HD constexpr uint32_t entry(uint32_t i) const noexcept { return segment(whole_segments) + i * width(); }
  TUCK_HD constexpr uint32_t cells(uint32_t entry) const noexcept { return (entry & low_mask(cell_bits)) + 1; }
  TUCK_HD constexpr uint32_t bits(uint32_t entry) const noexcept { return entry >> cell_bits & low_mask(size_bits); }
  // Size of the chunk up to this word, which is a multiple of 4.
  TUCK_HD constexpr uint32_t begin() const noexcept { return (entry(sub_blocks) + 31) / 32 * 4; }
  // `bytes` is the size of the values of the chunk.
  TUCK_HD constexpr bool fits(uint32_t encoded, uint32_t bytes) const noexcept {
    return cell_bits <= max_cell_bits && size_bits <= max_size_bits && sub_blocks <= sub_block_plan::most(bytes) &&
           stream >= (prefix_bits + 7) / 8 && encoded == begin() + 4 && encoded < bytes;
  }
};

}  // namespace tuck::inline TUCK_ABI::deflate_format
