// What deflate-lite adds to RFC 1951: the header and the tokens that its encoder writes, and the index behind the
// stream.
//
// A chunk has cells of 32 bytes; eight cells are a unit. The encoder cuts it into sub-blocks, each some cells, which a
// lane can decode alone. Tokens of RFC 1951 are literals and matches of distance 1 or w, the size of an element:
//
//   near   a byte is near if it is as the one before it, and that is in its sub-block
//   far    the same of w bytes before, where w is not 1
//
// A run is in one unit and one sub-block. Three near bytes or more in a row are a match of distance 1; of the others,
// three far ones or more in a row are a match of distance w; each other byte is a literal.
//
// Cells weigh 1 and the number of tokens that begin in them if the chunk is one sub-block. With W the weight of all, a
// chunk has n = W / 224 sub-blocks, at most one for each 512 bytes, at least one; a cell is of sub-block w n / W, where
// w is the weight of those before it. Divisions round down. A chunk is declined where a sub-block has 8192 bits or
// more, or where it would not shrink.
//
// An encoded chunk, little-endian:
//
//   stream            RFC 1951: one final dynamic block, up to the byte in which it ends
//   u8 segments[8]    the bits of 32 code lengths each, those of the literals
//   u24 entries[n]    of each sub-block: bits 0 to 10 its cells - 1, bits 11 to 23 the bits of its tokens, the block's
//                     end not counted
//   zeros             up to a multiple of 4
//   u16 size          bytes of the stream
//   u8 0, u8 n        sub-blocks
//
// The block's header is that of 285 literals and lengths, and distances up to that of w, of which the two in use have
// codes of one bit. It gives 18 lengths of the code of code lengths, which is always the same one: 8 and 9 have 2 bits,
// 7 and 10 have 3, 0 and 6 have 4, 5 and 18 have 5, 1, 4 and 17 have 6, 2 and 3 have 7. Runs of three zeros or more are
// written as 17 and 18 where they are in one segment of 32 lengths, the last segment having all from symbol 256 on. So
// lanes can read a segment each. Codes have 10 bits at most (huffman/code.hpp) and fill their space.
#pragma once

#include <tuck/codec/huffman/code.hpp>
#include <tuck/codec/inflate/symbols.hpp>
#include <tuck/core/bits.hpp>
#include <tuck/core/span.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

using huffman_format::max_length;  // of a code

inline constexpr uint32_t cell_bytes = 32;
inline constexpr uint32_t unit_cells = 8;
inline constexpr uint32_t coded_symbols = 285;  // the last one would be a match of 258 bytes
inline constexpr uint32_t counted_symbols = 288;
inline constexpr uint32_t segment_symbols = 32, whole_segments = 8;
inline constexpr uint32_t max_sub_blocks = 160;
inline constexpr uint32_t max_entry_cells = 1u << 11, max_entry_bits = 1u << 13;

TUCK_HD constexpr uint32_t cells_of(uint32_t bytes) noexcept { return ceil_div(bytes, cell_bytes); }

// -- the header -----------------------------------------------------------------------------------------------------

// Code lengths of distances: 1 for distances 1 and w, else 0.
template <uint32_t Width> inline constexpr uint32_t distance_codes = Width == 8 ? 6 : Width;
template <uint32_t Width> TUCK_HD constexpr uint32_t distance_length(uint32_t symbol) noexcept {
  return symbol == 0 || symbol + 1 == distance_codes<Width> ? 1 : 0;
}
// Bits behind a length and its extra ones: the code of the distance, and the extra bit of 8, which is 1.
template <uint32_t Width> TUCK_HD constexpr uint32_t distance_bits(bool far) noexcept {
  return Width == 8 && far ? 2 : 1;
}

// The code of code lengths: symbols by their codes' rank, four bits each, where 11 and 12 are 17 and 18, and the ranks
// of these. Codes have 2 bits, two by two up to 5; three have 6, and two 7.
namespace precode {
inline constexpr uint64_t symbol_of_rank = 0x32b41c560a798;
inline constexpr uint64_t rank_of_symbol = 0x7a3102569cb84;

TUCK_HD constexpr uint32_t length(uint32_t rank) noexcept { return rank < 8 ? 2 + rank / 2 : rank < 11 ? 6 : 7; }
TUCK_HD constexpr uint32_t code(uint32_t rank) noexcept {  // from the highest of 7 bits on
  if (rank >= 11) return 126 + rank - 11;
  if (rank >= 8) return 120 + 2 * (rank - 8);
  const uint32_t bits = 2 + rank / 2;
  return 128 - (256 >> (bits - 1)) + (rank % 2) * (128 >> bits);
}
TUCK_HD constexpr uint32_t rank(uint32_t symbol) noexcept {
  const uint32_t s = symbol < 16 ? symbol : symbol - 6;
  return static_cast<uint32_t>(rank_of_symbol >> 4 * s) & 15;
}
TUCK_HD constexpr uint32_t symbol(uint32_t rank) noexcept {
  const auto s = static_cast<uint32_t>(symbol_of_rank >> 4 * rank) & 15;
  return s < 11 ? s : s + 6;
}
// Of the code that these seven bits begin with, first bit highest.
TUCK_HD constexpr uint32_t rank_at(uint32_t bits) noexcept {
  if (bits >= 126) return 11 + bits - 126;
  if (bits >= 120) return 8 + (bits - 120) / 2;
  const uint32_t ones = 7 - tuck::bit_width(~bits & 127);
  return 2 * ones + (bits >> (5 - ones) & 1);
}
}  // namespace precode

// What a block begins with, up to the first code length: 71 bits.
inline constexpr uint32_t prefix_bits = 3 + 5 + 5 + 4 + 18 * 3;
template <uint32_t Width> TUCK_HD constexpr uint32_t make_prefix(uint32_t i) noexcept {
  uint32_t words[3] = {};
  uint32_t at = 0;
  const auto put = [&](uint32_t x, uint32_t bits) {
    words[at / 32] |= x << at % 32;
    if (at % 32 + bits > 32) words[at / 32 + 1] |= x >> (32 - at % 32);
    at += bits;
  };
  put(1 | dynamic << 1, 3);
  put(coded_symbols - first_length_symbol, 5);
  put(distance_codes<Width> - 1, 5);
  put(18 - 4, 4);
  for (uint32_t k = 0; k < 18; ++k) {
    const uint32_t symbol = precode_order(k);
    put(symbol < 11 || symbol >= 17 ? precode::length(precode::rank(symbol)) : 0, 3);
  }
  return words[i];
}
template <uint32_t Width> TUCK_HD constexpr uint32_t prefix_word(uint32_t i) noexcept {
  constexpr uint32_t first = make_prefix<Width>(0), second = make_prefix<Width>(1), third = make_prefix<Width>(2);
  return i == 0 ? first : i == 1 ? second : third;
}

// Symbols of a segment, distances among them.
template <uint32_t Width> TUCK_HD constexpr uint32_t segment_size(uint32_t segment) noexcept {
  return segment < whole_segments ? segment_symbols : coded_symbols - 256 + distance_codes<Width>;
}

// Visits what a segment is written in, as (bits, how many): its lengths are length(0), length(1), ...
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

// What seven bits, the first one lowest, begin with, as decoders look it up: bits 0 to 3 the code's, 4 to 7 how many
// extra bits, from 8 on a length, or, where there are extra bits, the least of so many zeros.
TUCK_HD constexpr uint32_t precode_entry(uint32_t bits) noexcept {
  const uint32_t r = precode::rank_at(reversed(bits, 7)), symbol = precode::symbol(r), code_bits = precode::length(r);
  return symbol == 18   ? code_bits | 7 << 4 | 11 << 8
         : symbol == 17 ? code_bits | 3 << 4 | 3 << 8
                        : code_bits | symbol << 8;
}
// Reads one from bit `at` on: up to 16 bits at a time are peek(at), what seven begin with is entry(them). Lengths go to
// length(i, l), but for those that are 0. Returns where it ends; 0 where a run leaves the segment.
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

// Of a symbol with such a code, as decoders look it up: bits 0 to 3 the code's, 4 to 7 how many extra bits, from 8 on a
// literal, with bit 31, or the least length of a match, 0 of the block's end.
TUCK_HD constexpr uint32_t decoder_entry(uint32_t symbol, uint32_t code_bits) noexcept {
  if (symbol < end_of_block) return code_bits | symbol << 8 | 1u << 31;
  if (symbol == end_of_block) return code_bits;
  const symbol_meaning m = length_of(symbol);
  return code_bits | m.extra_bits << 4 | m.base << 8;
}
TUCK_HD constexpr bool is_literal(uint32_t entry) noexcept { return entry >> 31 != 0; }

// What encoders write of a literal or, 256 + its length, of a match that is near, lowest bit first; bits 27 to 31 are
// how many. `code` is that of its symbol, from the highest bit of a word on.
TUCK_HD constexpr uint32_t symbol_of_token(uint32_t token) noexcept {
  return token < 256 ? token : length_symbol(token - 256);
}
TUCK_HD constexpr uint32_t encoder_entry(uint32_t token, uint32_t code, uint32_t code_bits) noexcept {
  const uint32_t bits = reverse_bits(code);
  if (token < 256) return bits | code_bits << 27;
  const symbol_meaning m = length_of(length_symbol(token - 256));
  return bits | (token - 256 - m.base) << code_bits | (code_bits + m.extra_bits + 1) << 27;
}
// The same where it is far.
template <uint32_t Width> TUCK_HD constexpr uint32_t far_entry(uint32_t entry) noexcept {
  const uint32_t last = (entry >> 27) - 1;
  return Width == 8 ? (entry + (1u << 27)) | 3u << last : entry | 1u << last;
}

// -- tokens ---------------------------------------------------------------------------------------------------------

// Bits of a cell's bytes, which are in runs of three or more; `before` and `after` are the cells beside it, 0 where
// runs do not go on there.
TUCK_HD constexpr uint32_t in_runs(uint32_t before, uint32_t x, uint32_t after) noexcept {
  const uint32_t begins = x & shift_right(x, after, 1) & shift_right(x, after, 2);
  const uint32_t earlier = before & shift_right(before, x, 1) & shift_right(before, x, 2);
  return begins | shift_right(earlier, begins, 31) | shift_right(earlier, begins, 30);
}
// Those that begin one, where `before` is in_runs of the cell before it.
TUCK_HD constexpr uint32_t run_begins(uint32_t before, uint32_t x) noexcept { return x & ~shift_right(before, x, 31); }

// Which sub-block each cell is of, and how many there are, of `tokens` in so many bytes.
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
  static constexpr uint32_t least_weight = 224;  // of a sub-block, in tokens and cells
};

// -- the index ------------------------------------------------------------------------------------------------------

TUCK_HD constexpr uint32_t index_bytes(uint32_t stream, uint32_t sub_blocks) noexcept {
  return round_up_pow2(stream + whole_segments + 3 * sub_blocks, 2) + 4 - stream;
}
TUCK_HD constexpr uint32_t entry_of(uint32_t cells, uint32_t bits) noexcept { return (cells - 1) | bits << 11; }
TUCK_HD constexpr uint32_t entry_cells(uint32_t entry) noexcept { return (entry & 2047) + 1; }
TUCK_HD constexpr uint32_t entry_bits(uint32_t entry) noexcept { return entry >> 11; }

// What the last word of an encoded chunk says, of values of `bytes` bytes.
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
