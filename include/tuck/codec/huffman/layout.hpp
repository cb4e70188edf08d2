// The format of huffman: values are split into byte planes, and each plane is Huffman-coded or stored.
//
// Rotation. Values of more than one byte that look like floats are rotated left by one bit, so that their exponents
// fill the upper byte. The test uses a sample: the first 128 values of each 4096 bytes. A value whose upper byte is
// neither 0 nor 255 votes for rotation. Any other value except 0 votes against it. Values are rotated if there are more
// votes for it. The name of the type does not matter, so untyped codecs write the same bytes. If values are not
// rotated, the upper planes that are 0 in all values are dropped, but never the lowest plane.
//
// Parts. A chunk has n values of w bytes, without dropped planes. In a chain it also has side streams, in the order of
// chain/chain.hpp. They form one string of bits of m bytes; each is padded with zeros to a multiple of 4 bytes. A bit
// is an edge if it differs from the bit before it; the bit before the first is 0. The edges are m bytes too. Sizes are
// in bytes, rounded up:
//
//   part   name     size      contents
//   0      flags    m / 8     one bit for each byte of the edges: is it non-zero?
//   1      edges              the non-zero bytes of the edges
//   2      heads    n / 8     one bit for each value: does its upper byte differ from that of the value before it? Set
//                             for the first value. Empty if the header says that there are no heads
//   3      upper    n         the upper bytes; with heads, only those of the heads
//   4...   planes   n each    the other bytes, from the second highest down
//
// Chunk. It consists of 32-bit little-endian words. The lowest bit comes first:
//
//   u32 header             bits 0 to 7: which parts are coded, the others are stored; 8: heads; 9: narrow; 10: wide;
//                          11: rotated; 12 to 14: number of dropped planes; 16 to 31: number of heads, 0 without
//                          heads. Bit 15 is 0
//   u32 sizes              bits 0 to 14: half of the least bits of a stream; 15 to 31: bytes of part 1
//   tables                 of each coded part, in order
//   u8 or u16 streams[S]   bits of each stream above the least; u16 if `wide` is set
//   bits                   all streams without gaps, from the highest bit of each word down
//   stored parts           in order, each padded with zeros to a multiple of 4 bytes
//
// Streams. Parts 0 to 2 are coded by nibbles, the low nibble of a byte first. Other parts are coded by bytes. Stream t
// has the words t, t + S, ... of each coded part, part after part, with all symbols of a word. S depends on the number
// of coded symbols (streams_of). If it is 0, `wide` and the least bits are 0 too.
//
// Tables. A table has the lengths of the codes (code.hpp), four bits each, lowest symbol first. A table of nibbles has
// 16 lengths. A table of bytes begins with a word that has a bit for each group of eight symbols in which a symbol
// occurs. The lengths of each such group follow, one word per group. If only one symbol occurs, its length is stored as
// 15 and its code has no bits. Otherwise the codes fill all slots.
//
// Narrow. `narrow` is set if bit 0 of all rotated values is 0. If the lowest plane is stored, it then has seven bits
// per value. Four values are 28 bits, the first value lowest. 32 values fill seven words: each holds four values, and
// the 28 bits of the last four values are in the high four bits of these words, lowest bits first. Fewer values take
// as many words as they need. Decoders ignore padding; encoders write zeros.
//
// Encoders' choices. Types of more than one byte get heads if at most 11/16 of the sample's values are heads, without
// the first of each 128, and at most 5/8 of all values. A part is coded if that saves 1/32 of its stored size, with its
// table counted (pays). Parts 4 to 7 are not tried if the sample's bytes say that coding hardly pays (may_pay), and
// parts above 7 are never coded. The least bits of a stream are rounded down to an even number. `wide` is set if a
// stream has more than 255 bits above that.
#pragma once

#include <tuck/codec/huffman/code.hpp>
#include <tuck/core/span.hpp>
#include <tuck/core/status.hpp>

namespace tuck::inline TUCK_ABI {

/// The sections of a row of bytes, which huffman encodes as the last stage of a chain. The first section holds values,
/// the others are side streams. On the host, the side streams are directly before the values, the last one first.
struct section_list {
  static constexpr uint32_t capacity = 4;  ///< most sections

  uint32_t count;          ///< number of sections
  uint32_t end[capacity];  ///< end of each section in the row, in bytes

  /// Appends a section of `size` bytes.
  TUCK_HD constexpr void add(uint32_t size) noexcept {
    end[count] = total() + size;
    ++count;
  }
  /// Returns the size of section i in bytes.
  TUCK_HD constexpr uint32_t size(uint32_t i) const noexcept { return end[i] - (i == 0 ? 0 : end[i - 1]); }
  /// Returns the size of all sections in bytes.
  TUCK_HD constexpr uint32_t total() const noexcept { return count == 0 ? 0 : end[count - 1]; }
  /// Returns where section i > 0 begins on the host, in bytes before the values.
  constexpr uint32_t before_values(uint32_t i) const noexcept { return end[i] - end[0]; }
};

/// Returns the bytes of all side streams, each padded to a multiple of 4.
TUCK_HD constexpr uint32_t padded_sides(const section_list& sections) noexcept {
  uint32_t sum = 0;
  for (uint32_t i = 1; i < sections.count; ++i) sum += round_up_pow2(sections.size(i), 2);
  return sum;
}

/// Sections of a row in shared memory. The values are at its beginning. The side streams follow each other somewhere
/// after them, each padded with zeros to a multiple of 4 bytes.
struct row_sections {
  section_list list;  ///< sizes of the sections
  uint32_t sides;     ///< offset of the first side stream in the row, in bytes: a multiple of 4
};

}  // namespace tuck::inline TUCK_ABI
namespace tuck::inline TUCK_ABI::huffman_format {

inline constexpr uint32_t nibble_parts = 3, upper_part = 3, most_parts = 11;
inline constexpr uint32_t most_coded = 8;  // later parts, the lowest three planes of 8-byte values, are stored
inline constexpr uint32_t max_streams = 128;
inline constexpr uint32_t only_symbol = 15;  // length of the only symbol of a part, in its table
inline constexpr uint32_t sample_run = 128;  // consecutive values
template <uint32_t Width> inline constexpr uint32_t sample_stride = 4096 / Width;  // values from run to run

// Returns 1 if a value speaks for rotation, -1 if it speaks against it, and 0 if it does neither.
template <class U> TUCK_HD constexpr int rotation_vote(U value) noexcept {
  const auto upper = static_cast<uint32_t>(value >> (8 * (sizeof(U) - 1)));
  return upper != 0 && upper != 255 ? 1 : value != 0 ? -1 : 0;
}

TUCK_HD constexpr uint32_t streams_of(uint32_t symbols) noexcept {
  return symbols == 0      ? 0
         : symbols <= 768  ? 8
         : symbols <= 2048 ? 16
         : symbols <= 4096 ? 32
         : symbols <= 8192 ? 64
                           : max_streams;
}

// Returns the words of streams[].
TUCK_HD constexpr uint32_t stream_words(uint32_t streams, bool wide) noexcept { return (wide ? 2 : 1) * streams / 4; }

TUCK_HD constexpr bool wants_heads(uint32_t heads, uint32_t values) noexcept {
  return values != 0 && 8 * heads <= 5 * values;
}

// The same for a sample of `pairs` values, without the first of each run.
TUCK_HD constexpr bool may_want_heads(uint32_t heads, uint32_t pairs) noexcept { return 16 * heads <= 11 * pairs; }

// What a decoder knows about a chunk: its sizes and its first two words.
struct shape {
  uint32_t width;  // bytes of a value, including dropped planes
  uint32_t values;
  uint32_t sides;  // bytes, a multiple of 4
  // `shortest` in bits, `edges` in bytes. The two words of a chunk:
  //
  //    31           16  15  14     12     11     10     9       8    7         0
  //   +---------------+----+---------+---------+------+--------+-------+---------+
  //   |     heads     | 0  | dropped | rotated | wide | narrow | heads?| coded[] |   header
  //   +---------------+----+---------+---------+------+--------+-------+---------+
  //   |       edges        |                  shortest / 2                       |   sizes
  //   +--------------------+-----------------------------------------------------+
  //    31               15  14                                                  0
  uint32_t header = 0, shortest = 0, edges = 0;

  TUCK_HD constexpr void read(uint32_t first, uint32_t second) noexcept {
    header = first;
    shortest = 2 * (second & 0x7fff);
    edges = second >> 15;
  }
  TUCK_HD constexpr uint32_t sizes() const noexcept { return shortest / 2 | edges << 15; }

  TUCK_HD constexpr bool coded(uint32_t part) const noexcept { return part < most_coded && (header >> part & 1) != 0; }
  TUCK_HD constexpr bool has_heads() const noexcept { return (header >> 8 & 1) != 0; }
  TUCK_HD constexpr bool narrow() const noexcept { return (header >> 9 & 1) != 0; }
  TUCK_HD constexpr bool wide() const noexcept { return (header >> 10 & 1) != 0; }
  TUCK_HD constexpr bool rotated() const noexcept { return (header >> 11 & 1) != 0; }
  TUCK_HD constexpr uint32_t dropped() const noexcept { return header >> 12 & 7; }
  TUCK_HD constexpr uint32_t heads() const noexcept { return header >> 16; }
  TUCK_HD static constexpr uint32_t make_header(bool heads, bool narrow, bool rotated, uint32_t dropped,
                                                uint32_t kept) noexcept {
    return uint32_t{heads} << 8 | uint32_t{narrow} << 9 | uint32_t{rotated} << 11 | dropped << 12 |
           (heads ? kept << 16 : 0);
  }

  // Returns how far values are rotated to the left, in bits, so that the upper byte is used.
  TUCK_HD constexpr uint32_t rotation() const noexcept { return rotated() ? 1 : 8 * dropped(); }
  TUCK_HD constexpr uint32_t planes() const noexcept { return width - dropped(); }
  TUCK_HD constexpr uint32_t parts() const noexcept { return upper_part + planes(); }
  static constexpr uint32_t head_words = 2;
  TUCK_HD constexpr uint32_t bytes(uint32_t part) const noexcept {
    switch (part) {
      case 0: return (sides + 7) / 8;
      case 1: return edges;
      case 2: return has_heads() ? (values + 7) / 8 : 0;
      case upper_part: return has_heads() ? heads() : values;
      default: return values;
    }
  }
  TUCK_HD constexpr uint32_t words(uint32_t part) const noexcept { return (bytes(part) + 3) / 4; }
  TUCK_HD constexpr uint32_t symbols(uint32_t part) const noexcept {
    return part < nibble_parts ? 2 * bytes(part) : bytes(part);
  }
  // Returns whether a part takes seven bits a value if it is stored; coded parts never do.
  TUCK_HD constexpr bool narrow_if_stored(uint32_t part) const noexcept {
    return narrow() && part + 1 == parts() && part > upper_part;
  }
  // Returns the words that a part takes if it is stored.
  TUCK_HD constexpr uint32_t stored_words(uint32_t part) const noexcept {
    if (!narrow_if_stored(part)) return words(part);
    const uint32_t tail = (values % 32 + 3) / 4;
    return values / 32 * 7 + (tail < 7 ? tail : 7);
  }
  TUCK_HD constexpr uint32_t coded_symbols() const noexcept {
    uint32_t sum = 0;
    for (uint32_t p = 0; p < most_coded; ++p)
      if (coded(p)) sum += symbols(p);
    return sum;
  }
  TUCK_HD constexpr uint32_t streams() const noexcept { return streams_of(coded_symbols()); }
  TUCK_HD constexpr uint32_t stream_words() const noexcept { return huffman_format::stream_words(streams(), wide()); }

  // Returns whether an encoder can have written the first two words. Rejects more edges or heads than there can be.
  TUCK_HD constexpr bool fits() const noexcept {
    return (header & 0x8000) == 0 && dropped() < width && (header & low_mask(8) & ~low_mask(parts())) == 0 &&
           edges <= sides && (!rotated() || (width > 1 && dropped() == 0)) && (!narrow() || rotated()) &&
           (has_heads() ? width > 1 && wants_heads(heads(), values) && heads() != 0 : heads() == 0) &&
           (coded_symbols() != 0 || (!wide() && shortest == 0));
  }
};

// squeeze() packs bits 1 to 7 of four bytes into 28 bits. widen() is the inverse. It ignores the highest four bits.
TUCK_HD constexpr uint32_t squeeze(uint32_t x) noexcept {
  return (x >> 1 & 0x7f) | (x >> 2 & 0x7f << 7) | (x >> 3 & 0x7f << 14) | (x >> 4 & 0x7f << 21);
}
TUCK_HD constexpr uint32_t widen(uint32_t x) noexcept {
  return (x & 0x7f) << 1 | (x & 0x7f << 7) << 2 | (x & 0x7f << 14) << 3 | (x & 0x7f << 21) << 4;
}

// Returns whether coding a part of `bytes` stored bytes pays, if it takes `bits` and a table of `table_words` words.
TUCK_HD constexpr bool pays(uint32_t bytes, uint32_t bits, uint32_t table_words) noexcept {
  return bits + 32 * table_words < 8 * bytes - bytes / 4;
}
// Returns whether coding a plane may pay. `squares` is the sum of the squared counts of its sampled bytes. They must
// look as if drawn from at most 205 equally likely values.
TUCK_HD constexpr bool may_pay(uint32_t sampled, uint32_t squares) noexcept {
  return 4 * squares >= 5 * (sampled * sampled / 256) + 4 * sampled;
}

// Returns the most bytes of an encoded chunk.
TUCK_HD constexpr uint32_t max_bytes(uint32_t value_bytes, uint32_t sides) noexcept {
  return value_bytes + sides + sides / 8 + 8 + 4 * most_parts + 2 * max_streams + 4;
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
