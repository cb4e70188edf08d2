// Values by the planes of their bytes, each with a Huffman code of its own or stored: the format.
//
// Values of more than one byte that look like floating-point ones are rotated left by one bit first, so that exponents
// fill the upper byte: where, of a sample, more have an upper byte other than 0 and 255 than have one of these and are
// not 0. The sample is the first 128 values of each 4096 bytes. What a type is called does not matter, so that untyped
// codecs make the same bytes. Of values that are not rotated, the upper planes that are 0 in all of them are dropped,
// but never the lowest one: as if values had fewer bytes.
//
// A chunk has n values of w bytes, those that are dropped not counted, and, in a chain, sides, in the order of
// chain/chain.hpp. Sides are one string of bits, each padded with zeros to a multiple of 4 bytes, m bytes in all; an
// edge is a bit that is not as the one before it, the first one's is 0. The parts of a chunk:
//
//   0      flags    m / 8     a bit for each byte of the edges: is it other than 0?
//   1      edges              those bytes
//   2      heads    n / 8     where the header says so, a bit for each value: is its upper byte not that of the one
//                             before it? The first has one; else nothing
//   3      upper    n         the upper bytes; where there are heads, those of the heads alone
//   4...   planes   n each    the other bytes, from the second highest down
//
// Sizes are in bytes, rounded up; the lowest bit comes first. A chunk is, in words of 32 bits, little-endian:
//
//   u32 header                bits 0 to 7: which parts are coded, others are stored; 8 heads, 9 narrow, 10 wide,
//                             11 rotated; 12 to 14: how many planes are dropped; 16 to 31: how many heads there are,
//                             where it has any. All others are 0
//   u32 sizes                 bits 0 to 14: half the bits that each stream has at least; 15 to 31: the bytes of part 1
//   tables                    of each coded part, in order
//   u8 or u16 streams[S]      the bits that each has beyond these; u16 where `wide` is set
//   bits                      all streams, one right behind the other, from the highest bit of each word on
//   stored parts              in order, each padded with zeros to a multiple of 4 bytes
//
// Parts 0 to 2 are coded by nibbles, the low one of a byte first; all others by bytes. Each stream has words of all
// coded parts, part after part: stream t has the words t, t + S, ... of each, and of a word, all symbols. S follows
// from the number of coded symbols (streams_of); where it is 0, so are `wide` and the bits of streams. A table has the
// lengths of codes (code.hpp), four bits each, the lowest first: of nibbles 16; of bytes those of eight symbols a word,
// for the groups of eight in which any occurs, behind a word that names these. 15 is the only symbol, whose code has no
// bits. Other codes fill all slots.
//
// `narrow` says that bit 0 of all values, once rotated, is 0: where the lowest plane is stored, it is, without it,
// seven bits a value. Of 32 values, the 28 bits of four stand in a word, the first lowest, and those of the last four
// in the high four bits of the other seven, the lowest in the first; of fewer, the words that they need. What is
// padding, decoders do not look at; encoders write zeros.
//
// Encoders look at the sample first. They write heads where the type has more than one byte, where the sample has them
// at 11/16 of its values at most (the first of each 128 left out), and all values at 5/8. They code a part where that
// saves a 32nd of what it takes stored, its table counted (pays), and leave parts 4 to 7 alone where the sample's bytes
// say that it hardly can (may_pay); parts behind these are never coded. The least of the streams' bits is rounded down
// to an even number, and `wide` is set where one has more than 255 beyond.
#pragma once

#include <tuck/codec/huffman/code.hpp>
#include <tuck/core/span.hpp>
#include <tuck/core/status.hpp>

namespace tuck::inline TUCK_ABI {

// What huffman gets as the last stage of a chain: a row of bytes, of which values are the first section and sides the
// others.
struct section_list {
  static constexpr uint32_t capacity = 4;

  uint32_t count;
  uint32_t end[capacity];  // in bytes of the row

  TUCK_HD constexpr void add(uint32_t size) noexcept {
    end[count] = total() + size;
    ++count;
  }
  TUCK_HD constexpr uint32_t begin(uint32_t i) const noexcept { return i == 0 ? 0 : end[i - 1]; }
  TUCK_HD constexpr uint32_t size(uint32_t i) const noexcept { return end[i] - begin(i); }
  TUCK_HD constexpr uint32_t total() const noexcept { return begin(count); }
};

// The bytes of all sides, each padded to a multiple of 4.
TUCK_HD constexpr uint32_t padded_sides(const section_list& sections) noexcept {
  uint32_t sum = 0;
  for (uint32_t i = 1; i < sections.count; ++i) sum += round_up_pow2(sections.size(i), 2);
  return sum;
}

// Sections of a row in shared memory, where each begins at any of its bytes.
struct row_sections {
  section_list list;
  uint32_t at[section_list::capacity];
};

}  // namespace tuck::inline TUCK_ABI
namespace tuck::inline TUCK_ABI::huffman_format {

inline constexpr uint32_t nibble_parts = 3, upper_part = 3, most_parts = 11;
inline constexpr uint32_t most_coded = 8;  // later parts, the lowest three planes of 8-byte values, are always stored
inline constexpr uint32_t max_streams = 128;
inline constexpr uint32_t sample_run = 128;                                        // values, one behind the other
template <uint32_t Width> inline constexpr uint32_t sample_stride = 4096 / Width;  // values, from one run to the next

// Does a value speak for rotation, 1, against it, -1, or is it 0?
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

// Of the directory.
TUCK_HD constexpr uint32_t stream_words(uint32_t streams, bool wide) noexcept { return (wide ? 2 : 1) * streams / 4; }

TUCK_HD constexpr bool wants_heads(uint32_t heads, uint32_t values) noexcept {
  return values != 0 && 8 * heads <= 5 * values;
}

// The same, of a sample: of `pairs` values that have one before them.
TUCK_HD constexpr bool may_want_heads(uint32_t heads, uint32_t pairs) noexcept { return 16 * heads <= 11 * pairs; }

// What a decoder knows of a chunk besides its bytes, and what its first words say.
struct shape {
  uint32_t width;  // bytes of a value, with those that are dropped
  uint32_t values;
  uint32_t sides;                                // bytes, a multiple of 4
  uint32_t header = 0, shortest = 0, edges = 0;  // in bits; in bytes

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
  TUCK_HD constexpr bool stored_narrow(uint32_t part) const noexcept {
    return narrow() && part + 1 == parts() && part > upper_part;
  }
  // The words of a part that is stored.
  TUCK_HD constexpr uint32_t stored_words(uint32_t part) const noexcept {
    if (!stored_narrow(part)) return words(part);
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

  // Could an encoder have written the first words? `kept` symbols that are more than there are bytes are refused here.
  TUCK_HD constexpr bool fits() const noexcept {
    return (header & 0x8000) == 0 && dropped() < width && (header & low_mask(8) & ~low_mask(parts())) == 0 &&
           edges <= sides && (!rotated() || (width > 1 && dropped() == 0)) && (!narrow() || rotated()) &&
           (has_heads() ? width > 1 && wants_heads(heads(), values) && heads() != 0 : heads() == 0) &&
           (coded_symbols() != 0 || (!wide() && shortest == 0));
  }
};

// Does coding a part of so many symbols pay: `bits` and a table of so many words for `bytes`?
TUCK_HD constexpr bool pays(uint32_t bytes, uint32_t bits, uint32_t table_words) noexcept {
  return bits + 32 * table_words < 8 * bytes - bytes / 4;
}
// May it pay to code a plane? Of a sample of it, `squares` is the sum of the squares of its counts: a byte must be one
// of 205 at most.
TUCK_HD constexpr bool may_pay(uint32_t sampled, uint32_t squares) noexcept {
  return 4 * squares >= 5 * (sampled * sampled / 256) + 4 * sampled;
}

// What the first byte of any chunk says cannot tell how large it will be; this is the most.
TUCK_HD constexpr uint32_t max_bytes(uint32_t value_bytes, uint32_t sides) noexcept {
  return value_bytes + sides + sides / 8 + 8 + 4 * most_parts + 2 * max_streams + 4;
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
