// SPDX-License-Identifier: Apache-2.0
// The format of codebooks. It stores floats without loss: exponents by fixed codes ("books"), other bits unchanged.
//
// A part is 4 KiB of the values of a chunk, or what is left at its end. Each part has a book. A chunk has a head for
// each part, then the parts; all in 32-bit little-endian words:
//
//   u32 head[2]     of each part: see `part_head`
//   part            of each:
//     u32 masks[8]  if the part is `masked`: bit l of word r says whether cell l of row r is stored
//     planes        the rest of each value that is stored: its sign, then its mantissa, without the lowest `zeros` bits
//                   of each, which are 0. A number of `rest` bits, stored as huffman stores rests (huffman/layout.hpp)
//     directory     `entry` words: of each of 32 streams its bits less `least`, in `entry` bits, from the lowest bit up
//     streams       the symbols, without gaps, from the highest bit of each word down
//     padding       zeros up to an even number of words
//
// Cells. A row is 512 bytes of values, and a cell 16 bytes of a row: cell l belongs to stream l, which has the symbols
// of its cells, row by row. A cell without values has no bits. A part of 4 KiB may be masked: then its cells that are
// not stored are zeros, which are neither in planes nor in streams.
//
// Symbols. A symbol is `top` less the exponent field, modulo 256. Of a book from first_of_second on, the symbol of
// exponent field 0 is 0; no other value of the part has symbol 0. A symbol that has no code in the book is an escape:
// the code of the escape, then the 8 bits of the exponent field. Exponent fields are modulo 2^e, of e bits. A last cell
// that is not full has symbols up to its end: those of missing values are 0. As escapes of `raw` they have exponent
// field `top`, or after a second look 0.
//
// Decoders refuse a chunk that is not smaller than its values, whose sizes do not add up, with a head that does not fit
// (part_head::fits), or with streams that do not end where the directory says. They ignore padding, and the symbols of
// missing values.
//
// Encoders' choices. The sample is one value of each cell that is stored: in row r its value r % (16 / w), of w bytes,
// if that is there. What a book costs is the sum of its bits for the sample, with those of an escape, but at most 15
// each. First, `top` is the largest exponent field of the part; the book is the first one with the least cost among
// those before first_of_second. The part gets a second look if that is more than `dear` / 16 bits a value, if `top` is
// 0, or if the exponent field has fewer than 8 bits and is 0 in a quarter of the sample or more. Then it is masked if
// it has 4 KiB and at least `worth_masks` of its cells are zeros. Let x be the 8th largest of the 32 streams' largest
// exponent fields in the sample (0 where it has none). `top` is the least number above x that is no exponent field of
// the part, modulo 256. The book is the first one with the least cost among the others. If a stream has more than
// most_stream_bits, the book is the last one, `raw`, in which each symbol is an escape without a code. `zeros` is as
// large as can be; of floats of 4 bytes it is even. A chunk that is not smaller than its values, or has a stream with
// more bits all the same, is incompressible.
#pragma once

#include <tuck/codec/codebooks/books.hpp>
#include <tuck/codec/huffman/layout.hpp>
#include <tuck/core/floating.hpp>

namespace tuck::inline TUCK_ABI::codebooks_format {

inline constexpr uint32_t part_bytes = 4096, row_bytes = 512, lane_bytes = 16, rows = part_bytes / row_bytes;
inline constexpr uint32_t streams = row_bytes / lane_bytes, head_words = 2;

// Of the type, in values.
template <floating_element T> struct shape_of {
  static constexpr uint32_t width = sizeof(T), exponent = float_format<T>::exponent_bits;
  static constexpr uint32_t mantissa = float_format<T>::mantissa_bits, rest = mantissa + 1;  // bits
  static constexpr uint32_t lane_values = lane_bytes / width, row_values = row_bytes / width;
  static constexpr uint32_t part_values = part_bytes / width;
  // Of a stream: what escapes alone take, 8 bits a value, but for 8-bit floats, of which that would not be smaller.
  static constexpr uint32_t stream_words = width == 4 ? 8 : 16, most_stream_bits = 32 * stream_words;

  TUCK_HD static constexpr uint32_t parts(uint32_t count) noexcept { return (count + part_values - 1) / part_values; }
  // Returns the shape of the planes of a part of `count` values.
  TUCK_HD static constexpr huffman_format::shape planes(uint32_t count, uint32_t rest_bits) noexcept {
    return {.width = width, .values = count, .head = {rest_bits}};
  }
};

// The two words of a part.
//
//    31    27 26     22 21   18 17        8 7       0
//   +--------+---------+-------+-----------+---------+
//   |  book  |  zeros  | entry |   least   |   top   |   word[0]
//   +--------+---------+-------+-----------+---------+
//    31                   17   16   15               0
//   +------------------------+------+-----------------+
//   |           0            |masked|words of the part|   word[1]
//   +------------------------+------+-----------------+
struct part_head {
  uint32_t word[2] = {};

  TUCK_HD constexpr uint32_t top() const noexcept { return word[0] & 255; }
  TUCK_HD constexpr uint32_t least() const noexcept { return word[0] >> 8 & 1023; }
  TUCK_HD constexpr uint32_t entry() const noexcept { return word[0] >> 18 & 15; }
  TUCK_HD constexpr uint32_t zeros() const noexcept { return word[0] >> 22 & 31; }
  TUCK_HD constexpr uint32_t book() const noexcept { return word[0] >> 27; }
  TUCK_HD constexpr bool masked() const noexcept { return (word[1] >> 16 & 1) != 0; }
  TUCK_HD constexpr uint32_t words() const noexcept { return word[1] & 0xffff; }
  TUCK_HD constexpr uint32_t mask_words() const noexcept { return masked() ? rows : 0; }

  // `fixed`: book, zeros and top.
  TUCK_HD static constexpr uint32_t fixed(uint32_t top, uint32_t zeros, uint32_t book) noexcept {
    return top | zeros << 22 | book << 27;
  }
  // Sets what depends on the streams, which have `bits` bits, the fewest `least`, the most `most`.
  TUCK_HD constexpr void set(uint32_t first, bool masks, uint32_t plane_words, uint32_t least, uint32_t most,
                             uint32_t bits) noexcept {
    word[0] = first | least << 8 | bit_width(most - least) << 18;
    word[1] = masks ? 1u << 16 : 0;
    word[1] |= words_of(plane_words, bits);
  }
  // Returns the words of the part.
  TUCK_HD constexpr uint32_t words_of(uint32_t plane_words, uint32_t bits) const noexcept {
    return (mask_words() + plane_words + entry() + (bits + 31) / 32 + 1) / 2 * 2;
  }
  // Returns whether an encoder can have written it, for `count` of `full` values with so many bits of mantissa.
  TUCK_HD constexpr bool fits(uint32_t count, uint32_t full, uint32_t mantissa) const noexcept {
    return word[1] >> 17 == 0 && zeros() <= mantissa && (!masked() || count == full);
  }
};

inline constexpr uint32_t worth_masks = 8;

}  // namespace tuck::inline TUCK_ABI::codebooks_format
