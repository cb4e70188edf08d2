// SPDX-License-Identifier: Apache-2.0
// The format of huffman: each value becomes a symbol of six bits, which has a code, and a rest, which is stored.
//
// Numbers. The lowest `zeros` bits of all values of a chunk are 0. Each value of w bytes becomes a number y of
// 8 w - zeros bits. A float has a sign, an exponent field of e bits and m bits of mantissa. Its rank is `top` of the
// chunk, less its own exponent field, modulo 2^e:
//
//   float      y = (rank | sign | mantissa) >> zeros   from the highest bit on; the sign has one bit, the mantissa m
//   integer    y = value >> zeros = x, or with `zigzag` 2 x for x from 0 on, and -2 x - 1 for others
//
// This is also the number of the whole value, which has 8 w bits, without its lowest `zeros` bits.
//
// Symbols. The symbol of a value is y >> shift, at most 63. The rest is the lowest `shift` bits of y. A symbol that has
// no code, and each 63, is written as the code of 63 (the escape), followed by all bits of y >> shift. Of floats,
// shift + zeros is fixed (float_shift): a symbol has rank, sign and the highest bit of the mantissa; for f64 rank and
// sign.
//
// Chunk. It consists of 32-bit little-endian words:
//
//   u32 head[2]            see `shape`
//   planes                 the rests: bytes 0 to shift / 8 - 1 of all numbers, a plane of n bytes each, lowest first.
//                          Then the remaining shift % 8 bits of all rests, in planes of 4, 2 and 1 bits a value as its
//                          binary digits say, those of 4 bits lowest
//   u32 lengths[]          of the codes of symbols below 63, four bits each, in the order of length_index;
//                          `table_words` words, all further lengths are 0
//   directory              `entry` bits for each of S streams: its bits above `least`
//   bits                   all streams without gaps, from the highest bit of each word down
//
// Each part is padded with zeros to whole words. A plane of k bits has value i at bit i k, lowest bits first.
//
// Streams. A quad is four values. Stream t has the quads t, t + S, ..., each with its values in order.
//
// Encoders' choices. `top` is chosen by a sample (see sample_group): few large values do not change it. Of integers,
// shift + zeros is the least multiple of shift_step for which at most 1/64 of the numbers have more than shift + 6
// bits. `zeros` is as large as it can be with this sum. Codes are those of code.hpp; the count of 63 is at least 1.
// S is that of streams_of. A chunk is incompressible if coding does not pay (pays), or if it is not smaller than its
// values.
#pragma once

#include <tuck/codec/huffman/code.hpp>
#include <tuck/core/floating.hpp>
#include <tuck/core/span.hpp>
#include <tuck/core/status.hpp>

namespace tuck::inline TUCK_ABI::huffman_format {

inline constexpr uint32_t symbol_bits = 6, symbols = 1u << symbol_bits, escape = symbols - 1;
inline constexpr uint32_t min_streams = 8, max_streams = 128, words_of_stream = 8;

// How values of T become numbers.
struct mapping {
  uint32_t exponent = 0;  // bits of the exponent; 0: integers
  bool zigzag = false;
};
TUCK_HD constexpr mapping mapping_of(dtype t) noexcept {
  switch (t) {
    case dtype::f16:
    case dtype::f8e5m2: return {5};
    case dtype::bf16:
    case dtype::f32: return {8};
    case dtype::f64: return {11};
    case dtype::f8e4m3: return {4};
    case dtype::i8:
    case dtype::i16:
    case dtype::i32:
    case dtype::i64: return {0, true};
    default: return {};
  }
}

// Returns of what shift + zeros is a multiple: without zeros, wide values have few planes of bits.
TUCK_HD constexpr uint32_t shift_step(uint32_t width) noexcept { return width < 4 ? 1 : width / 2; }
// Rounds a shift up to such a multiple.
TUCK_HD constexpr uint32_t round_shift(uint32_t shift, uint32_t width) noexcept {
  return (shift + shift_step(width) - 1) / shift_step(width) * shift_step(width);
}
// Returns the shift of floats without zeros.
TUCK_HD constexpr uint32_t float_shift(uint32_t width, uint32_t exponent) noexcept {
  return round_shift(8 * width - exponent - 2, width);
}

// The choice of `top`. Of each group g of sample_group(w) values, value g % sample_group(w) belongs to the sample, if
// it is there. Exponent fields of e bits are counted in bins of 2^bin_shift(e). The `window_bins` bins that end with
// the bin of top have the most of all; it is the lowest such bin. top is the largest field in its bin.
inline constexpr uint32_t bins = 128, window_bins = 8;
TUCK_HD constexpr uint32_t sample_group(uint32_t width) noexcept { return width < 4 ? 16 / width : 4; }
TUCK_HD constexpr uint32_t bin_shift(uint32_t exponent) noexcept { return exponent > 8 ? exponent - 7 : 1; }
TUCK_HD constexpr uint32_t top_of_bin(uint32_t bin, uint32_t exponent) noexcept {
  return ((bin + 1) << bin_shift(exponent)) - 1;
}

// Returns the number of streams of a chunk that has so many words without its directory.
TUCK_HD constexpr uint32_t streams_of(uint32_t words) noexcept {
  uint32_t streams = min_streams;
  while (streams < max_streams && 2 * streams * words_of_stream <= words) streams *= 2;
  return streams;
}

// Returns the index of the length of a symbol's code. Those of negative floats are behind all others.
TUCK_HD constexpr uint32_t length_index(uint32_t s, uint32_t exponent) noexcept {
  return exponent == 0 || exponent > 8 ? s : (s & 2) << 4 | s >> 2 << 1 | (s & 1);
}

// Returns how many of the lowest `shift` bits all values have as 0. `any` has the bits that any of them has.
TUCK_HD constexpr uint32_t zeros_of(uint64_t any, uint32_t shift) noexcept {
  static_assert(round_shift(64 - symbol_bits, 8) < 64 && float_shift(8, 11) < 64);  // no shift is larger
  const uint64_t bits = any | uint64_t{1} << shift;
  const auto low = static_cast<uint32_t>(bits);
  return low != 0 ? trailing_zeros(low) : 32 + trailing_zeros(static_cast<uint32_t>(bits >> 32));
}

// The exponent and the shift of most values of T, if these are floats: then known when kernels are compiled. Values of
// deltas are integers, and untyped ones of 2 and 4 bytes are mostly bf16 and f32.
template <element T> struct known_float {
  static constexpr dtype type = !is_untyped<T>   ? dtype_of<T>
                                : sizeof(T) == 2 ? dtype::bf16
                                : sizeof(T) == 4 ? dtype::f32
                                                 : dtype::none;
  static constexpr uint32_t exponent = mapping_of(type).exponent, shift = float_shift(sizeof(T), exponent);
};

// Converts numbers: the values in the lanes of a word W, each of `Width` bytes.
template <class W, uint32_t Width> struct lanes_of {
  static constexpr uint32_t bits = 8 * Width;
  // Returns x in each lane. The bits of x above a lane must be 0.
  TUCK_HD static constexpr W all(W x) noexcept {
    for (uint32_t b = bits; b < 8 * sizeof(W); b *= 2) x = static_cast<W>(x | x << b);
    return x;
  }
  TUCK_HD static constexpr W low(uint32_t n) noexcept {  // the lowest n < bits of each lane
    return all(static_cast<W>((W{1} << n) - 1));
  }
  // Returns the lowest lane.
  TUCK_HD static constexpr W low_value(W x) noexcept {
    return bits == 8 * sizeof(W) ? x : static_cast<W>(x & ((W{1} << bits % (8 * sizeof(W))) - 1));
  }
  // Returns x without its lowest n < bits bits, which are 0, but for numbers of negative integers.
  TUCK_HD static constexpr W down(W x, uint32_t n) noexcept { return static_cast<W>((x & ~low(n)) >> n); }
  // Undoes it: moves each lane up by n < bits bits.
  TUCK_HD static constexpr W up(W x, uint32_t n) noexcept { return static_cast<W>(x << n & ~low(n)); }
  // Converts values without zeros.
  TUCK_HD static constexpr W number(W x, uint32_t exponent, bool zigzag, uint32_t top) noexcept {
    if (exponent == 0) {
      if (!zigzag) return x;
      const W negative = x >> (bits - 1) & low(1);
      return static_cast<W>((x << 1 & ~low(1)) ^ ((negative << (bits - 1) << 1) - negative));
    }
    const uint32_t rest = bits - exponent;                                            // sign and mantissa
    const W below = select_bits<W>(low(rest - 1), x, static_cast<W>(x >> exponent));  // sign and mantissa
    return select_bits<W>(low(rest), below, static_cast<W>(minuend(top, rest) - (x << 1 & ~low(rest))));
  }
  TUCK_HD static constexpr W value(W y, uint32_t exponent, bool zigzag, uint32_t top) noexcept {
    if (exponent == 0) {
      if (!zigzag) return y;
      const W negative = y & low(1);
      return static_cast<W>((y >> 1 & low(bits - 1)) ^ ((negative << (bits - 1) << 1) - negative));
    }
    const uint32_t rest = bits - exponent;
    const auto field = static_cast<W>(minuend(top, rest) - (y & ~low(rest)));
    return select_bits<W>(low(rest - 1), y,
                          select_bits<W>(low(bits - 1), static_cast<W>(field >> 1), static_cast<W>(y << exponent)));
  }

 private:
  // Returns what a field is subtracted from. The ones below `top` stop what a lane borrows from the next.
  TUCK_HD static constexpr W minuend(uint32_t top, uint32_t rest) noexcept {
    return static_cast<W>(all(static_cast<W>(static_cast<W>(top) << rest)) | low(rest));
  }
};

// What a decoder knows about a chunk: its size and its first two words.
//
//    31     29 28    25 24    18 17    14 13   12 11      9 8     6 5       0
//   +---------+--------+--------+--------+-------+---------+-------+---------+
//   |  table  | escape |  bin   | entry  |   0   | mapping |   0   |  shift  |   head[0]
//   +---------+--------+--------+--------+-------+---------+-------+---------+
//    words - 1  length  of top
//                       or zeros of integers
//    31                20 19        17 16                                      0
//   +--------------------+------------+-----------------------------------------+
//   |     least / 4      | log2 S - 3 |                    0                    |   head[1]
//   +--------------------+------------+-----------------------------------------+
//
// mapping: 0 integers, 1 integers with zigzag, 4 to 7 floats of 4, 5, 8 and 11 bits of exponent
struct shape {
  uint32_t width;  // bytes of a value
  uint32_t values;
  uint32_t head[2] = {};

  static constexpr uint32_t head_words = 2;
  TUCK_HD constexpr uint32_t shift() const noexcept { return head[0] & 63; }
  TUCK_HD constexpr uint32_t mapping_code() const noexcept { return head[0] >> 9 & 7; }
  TUCK_HD constexpr uint32_t entry_bits() const noexcept { return head[0] >> 14 & 15; }
  TUCK_HD constexpr uint32_t bin() const noexcept { return head[0] >> 18 & 127; }
  TUCK_HD constexpr uint32_t escape_length() const noexcept { return head[0] >> 25 & 15; }
  TUCK_HD constexpr uint32_t table_words() const noexcept { return (head[0] >> 29) + 1; }
  TUCK_HD constexpr uint32_t streams() const noexcept { return min_streams << (head[1] >> 17 & 7); }
  TUCK_HD constexpr uint32_t least() const noexcept { return head[1] >> 20 << 2; }

  TUCK_HD constexpr uint32_t exponent() const noexcept {
    return mapping_code() < 4 ? 0 : 0xb854u >> 4 * (mapping_code() - 4) & 15;
  }
  TUCK_HD constexpr bool zigzag() const noexcept { return mapping_code() == 1; }
  TUCK_HD constexpr uint32_t top() const noexcept { return exponent() == 0 ? 0 : top_of_bin(bin(), exponent()); }
  TUCK_HD constexpr uint32_t zeros() const noexcept {
    return exponent() != 0 ? float_shift(width, exponent()) - shift() : bin();
  }
  TUCK_HD constexpr uint32_t escape_bits() const noexcept { return saved_bits() - zeros(); }
  // Returns the bits of a value that are not among the rests.
  TUCK_HD constexpr uint32_t saved_bits() const noexcept { return 8 * width - shift(); }
  // Returns whether a value can have symbol s.
  TUCK_HD constexpr bool can_have(uint32_t s) const noexcept {
    return s == escape || escape_bits() >= symbol_bits || s >> escape_bits() == 0;
  }

  // Returns the fields of head[0] that an encoder knows before it has numbers.
  TUCK_HD static constexpr uint32_t values_head(mapping how, uint32_t bin, uint32_t shift) noexcept {
    const uint32_t code = how.exponent == 0 ? how.zigzag : how.exponent == 4 ? 4 : how.exponent / 3 + 4;
    return shift | code << 9 | bin << 18;
  }
  // Makes so many bits of the shift zeros.
  TUCK_HD constexpr void set_zeros(uint32_t zeros) noexcept {
    head[0] = head[0] - zeros + (exponent() == 0 ? zeros << 18 : 0);
  }
  // Sets what depends on the streams' bits. Returns false if it does not fit in the head.
  TUCK_HD constexpr bool set_streams(uint32_t streams, uint32_t least, uint32_t most) noexcept {
    constexpr uint32_t limit = low_mask(12);
    const uint32_t stored = least / 4 < limit ? least / 4 : limit, wanted = bit_width(most - 4 * stored);
    head[0] |= (wanted & 15) << 14;
    head[1] |= (bit_width(streams / min_streams) - 1) << 17 | stored << 20;
    return wanted <= 15;
  }

  // Returns the words of a plane of k bits.
  TUCK_HD constexpr uint32_t plane_words(uint32_t k) const noexcept { return (values * k + 31) / 32; }
  TUCK_HD constexpr uint32_t rest_words() const noexcept {
    const uint32_t k = shift();
    return k / 8 * plane_words(8) + ((k & 4) != 0 ? plane_words(4) : 0) + ((k & 2) != 0 ? plane_words(2) : 0) +
           ((k & 1) != 0 ? plane_words(1) : 0);
  }

  // Where the parts begin, in words, and the number of streams.
  struct offsets {
    uint32_t tables, directory, bits, streams;
  };
  TUCK_HD constexpr offsets find() const noexcept {
    offsets p{};
    p.tables = head_words + rest_words();
    p.directory = p.tables + table_words();
    set_stream_offsets(p);
    return p;
  }
  // Sets what depends on the streams.
  TUCK_HD constexpr void set_stream_offsets(offsets& p) const noexcept {
    p.streams = streams();
    p.bits = p.directory + (p.streams * entry_bits() + 31) / 32;
  }

  // Returns whether an encoder can have written the head.
  TUCK_HD constexpr bool fits() const noexcept {
    const uint32_t e = exponent(), bits = 8 * width;
    if ((mapping_code() & 6) == 2 || streams() > max_streams || (head[0] & (7u << 6 | 3u << 12)) != 0 ||
        (head[1] & low_mask(17)) != 0)
      return false;
    if (e == 0) return shift() + bin() < bits && (shift() + bin()) % shift_step(width) == 0;
    return e + 2 <= bits && top() >> e == 0 && shift() <= float_shift(width, e) && float_shift(width, e) + e <= bits;
  }
};

// Returns whether coding values pays, if the symbols take `bits` bits with their escapes and the table `words` words.
// The directory takes some 1/8 bit a value. `saved` are the bits of each value that are not among the rests.
TUCK_HD constexpr bool pays(uint32_t values, uint32_t bits, uint32_t words, uint32_t saved) noexcept {
  return bits + 32 * words + values / 8 < values * saved;
}
}  // namespace tuck::inline TUCK_ABI::huffman_format
