// The format of deflate-lite: DEFLATE (RFC 1951) with a fixed kind of header, restricted tokens, and an index after
// the stream that lets lanes decode parts of it in parallel.
//
// A chunk consists of cells of 32 bytes; eight cells are a unit. The encoder cuts the chunk into sub-blocks of whole
// cells, which lanes decode independently. Tokens are the literals and matches of RFC 1951. Matches have distance 1 or
// w, the size of an element. The encoder chooses tokens by these rules:
//
//   near   a byte is near if it equals the byte before it, and that byte is in the same sub-block
//   far    a byte is far if it equals the byte w before it, and that byte is in the same sub-block; not if w = 1
//
// A run lies in one unit and one sub-block. Three or more near bytes in a row are a match of distance 1. Among the
// other bytes, three or more far bytes in a row are a match of distance w. Every other byte is a literal.
//
// A cell weighs 1 plus the number of tokens that begin in it if the chunk is a single sub-block. If W is the sum of all
// weights, the chunk has n = W / 224 sub-blocks, at most one per 512 bytes and at least one. A cell belongs to
// sub-block v n / W, where v is the weight of the cells before it. Divisions round down. A chunk is incompressible if a
// sub-block has 8192 bits or more, or if the encoded chunk is not smaller than its values.
//
// An encoded chunk, little-endian:
//
//   stream            one final dynamic block of RFC 1951, up to the byte in which it ends
//   u8 segments[8]    the number of bits that code the lengths of literals 32 i to 32 i + 31
//   u24 entries[n]    for each sub-block: bits 0 to 10 its number of cells minus 1, bits 11 to 23 the number of bits of
//                     its tokens, without the end of the block
//   u8 0[]            up to a multiple of 4
//   u16 size          of the stream in bytes
//   u8 0, u8 n        number of sub-blocks
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
// The code lengths follow in nine segments, so that each lane reads one: 32 literals each in the first eight, and all
// symbols from 256 on in the last. The distance codes of 1 and w have one bit and the others none. In each segment the
// encoder writes zeros in runs that are as long as possible: 11 or more as 18, 3 to 10 as 17. No run crosses a segment.
// The literal and length codes are those of huffman/code.hpp: complete, with at most 10 bits.
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
inline constexpr uint32_t unit_cells = 8;
inline constexpr uint32_t coded_symbols = 285;  // symbol 285 would be a match of 258 bytes, which no unit has
inline constexpr uint32_t counted_symbols = 288;
inline constexpr uint32_t segment_symbols = 32, whole_segments = 8;
inline constexpr uint32_t max_sub_blocks = 160;
inline constexpr uint32_t max_entry_bits = 1u << 13;

TUCK_HD constexpr uint32_t cells_of(uint32_t bytes) noexcept { return ceil_div(bytes, cell_bytes); }

// -- the header -----------------------------------------------------------------------------------------------------

// Number of distance symbols, and the code length of each: 1 for distances 1 and w, else 0.
template <uint32_t Width> inline constexpr uint32_t distance_codes = Width == 8 ? 6 : Width;
template <uint32_t Width> TUCK_HD constexpr uint32_t distance_length(uint32_t symbol) noexcept {
  return symbol == 0 || symbol + 1 == distance_codes<Width> ? 1 : 0;
}
// Number of bits after the extra bits of a length: the distance code, and for distance 8 its extra bit, which is 1.
template <uint32_t Width> TUCK_HD constexpr uint32_t distance_bits(bool far) noexcept {
  return Width == 8 && far ? 2 : 1;
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
  return segment < whole_segments ? segment_symbols : coded_symbols - 256 + distance_codes<Width>;
}

// Visits the fields of a segment as visit(bits, width). The code lengths are length(0), length(1), ...
TUCK_HD_CALLS
template <uint32_t Width, class Length, class Visit>
TUCK_HD constexpr void visit_segment(uint32_t segment, const Length& length, const Visit& visit) {
  const uint32_t size = segment_size<Width>(segment);
  for (uint32_t i = 0; i < size;) {
    uint32_t symbol = length(i), run = 1, extra = 0, extra_bits = 0;
    if (symbol == 0) {
      while (i + run < size && length(i + run) == 0) ++run;
      if (run >= 11) {
        symbol = 18;
        extra = run - 11;
        extra_bits = 7;
      } else if (run >= 3) {
        symbol = 17;
        extra = run - 3;
        extra_bits = 3;
      } else {
        run = 1;
      }
    }
    const uint32_t r = precode::rank(symbol), bits = precode::length(r);
    visit(reversed(precode::code(r) >> (7 - bits), bits) | extra << bits, bits + extra_bits);
    i += run;
  }
}

// Decoder table entry for the next seven bits, of which the first is the lowest:
// [:8] a code length, or the least number of zeros if there are extra bits / [7:4] extra bits / [3:0] bits of the code
TUCK_HD constexpr uint32_t precode_entry(uint32_t bits) noexcept {
  const uint32_t r = precode::rank_at(reversed(bits, 7)), symbol = precode::symbol(r), code_bits = precode::length(r);
  return symbol == 18   ? code_bits | 7 << 4 | 11 << 8
         : symbol == 17 ? code_bits | 3 << 4 | 3 << 8
                        : code_bits | symbol << 8;
}
// Reads a segment from bit `at` on. peek(at) returns at least 16 bits, entry(bits) the precode_entry of 7 bits. Calls
// length(i, l) for the code lengths l that are not 0. Returns the end of the segment, or 0 if a run leaves the segment.
TUCK_HD_CALLS
template <uint32_t Width, class Peek, class Entry, class Length>
TUCK_HD constexpr uint32_t read_segment(uint32_t segment, uint32_t at, const Peek& peek, const Entry& entry,
                                        const Length& length) {
  const uint32_t size = segment_size<Width>(segment);
  for (uint32_t i = 0; i < size;) {
    const uint32_t bits = peek(at), found = entry(bits & 127), code_bits = found & 15, extra_bits = found >> 4 & 15;
    at += code_bits + extra_bits;
    if (extra_bits != 0) {
      i += (found >> 8) + (bits >> code_bits & ((1u << extra_bits) - 1));
      if (i > size) return 0;
    } else {
      if (found >> 8 != 0) length(i, found >> 8);
      ++i;
    }
  }
  return at;
}

// Decoder table entry of a symbol with a code of `code_bits`:
// [31] literal / [:8] the literal, or the least length of a match, 0 for the end of the block / [7:4] extra bits /
// [3:0] bits of the code
TUCK_HD constexpr uint32_t decoder_entry(uint32_t symbol, uint32_t code_bits) noexcept {
  if (symbol < end_of_block) return code_bits | symbol << 8 | 1u << 31;
  if (symbol == end_of_block) return code_bits;
  const symbol_meaning m = length_of(symbol);
  return code_bits | m.extra_bits << 4 | m.base << 8;
}
TUCK_HD constexpr bool is_literal(uint32_t entry) noexcept { return entry >> 31 != 0; }

// Encoder table entry of a token: a literal, or 256 + the length of a near match.
// [31:27] width / [26:0] the bits to write, lowest first
// `code` is the code of the symbol of the token, left-aligned in a word.
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

// The sub-blocks of `bytes` bytes with `tokens` tokens: their number, and the sub-block of each cell.
struct sub_block_plan {
  uint32_t count, weight;

  TUCK_HD constexpr sub_block_plan(uint32_t bytes, uint32_t tokens) noexcept
      : count(most(bytes)), weight(tokens + cells_of(bytes)) {
    if (weight / least_weight < count) count = weight / least_weight;
    if (count == 0) count = 1;
  }
  TUCK_HD constexpr uint32_t at(uint32_t cell, uint32_t tokens_before) const noexcept {
    return (tokens_before + cell) * count / weight;
  }
  TUCK_HD static constexpr uint32_t most(uint32_t bytes) noexcept { return bytes >= 1024 ? bytes / 512 : 1; }

 private:
  static constexpr uint32_t least_weight = 224;  // of a sub-block, in tokens plus cells
};

// -- the index ------------------------------------------------------------------------------------------------------

TUCK_HD constexpr uint32_t index_bytes(uint32_t stream, uint32_t sub_blocks) noexcept {
  return round_up_pow2(stream + whole_segments + 3 * sub_blocks, 2) + 4 - stream;
}
TUCK_HD constexpr uint32_t entry_of(uint32_t cells, uint32_t bits) noexcept { return (cells - 1) | bits << 11; }
TUCK_HD constexpr uint32_t entry_cells(uint32_t entry) noexcept { return (entry & 2047) + 1; }
TUCK_HD constexpr uint32_t entry_bits(uint32_t entry) noexcept { return entry >> 11; }

// The last word of an encoded chunk. `bytes` is the size of its values.
struct chunk_end {
  uint32_t stream, sub_blocks;

  TUCK_HD constexpr explicit chunk_end(uint32_t word) noexcept : stream(word & 0xffff), sub_blocks(word >> 24) {}
  TUCK_HD constexpr uint32_t word() const noexcept { return stream | sub_blocks << 24; }
  TUCK_HD constexpr bool fits(uint32_t last_word, uint32_t encoded, uint32_t bytes) const noexcept {
    return last_word == word() && sub_blocks != 0 && sub_blocks <= sub_block_plan::most(bytes) &&
           stream >= (prefix_bits + 7) / 8 && encoded == stream + index_bytes(stream, sub_blocks) && encoded < bytes;
  }
};

}  // namespace tuck::inline TUCK_ABI::deflate_format
