// SPDX-License-Identifier: Apache-2.0
// The masks of rle and packed_zvc, which compress themselves. A mask has one bit per value. A packed one is replaced by
// its marks, of which few are 1, and of these only the bytes are stored that are not 0.
//
// The marks of a mask of n bits are n bits too, in W = ceil(n / 32) words. Mark i is
//
//   rule 0        bit i of the mask
//   rule 1        bit i, inverted
//   rules 2 to 5  bit i XOR bit i - d of the mask, with d = 1, 2, 16 and 32; bits before the first are 0
//
// d is 16 or 32 where rows of an image are so long, and 2 where channels alternate.
//
// A packed mask has these parts, each padded with zeros to a byte:
//
//   u32 set[ceil(W / 32)]   bit w % 32 of set[w / 32]: is word w of the marks not 0?
//   bits some[]             of each such word, in order, four bits: bit k is set if its byte k is not 0
//   bits more[]             of each such byte, in order: has it more than one 1?
//   bits ones[]             of each such byte, in order: if it has one 1, the three bits of its position, else the byte
//
// Strings of bits begin with the lowest bit of a byte. Encoders take the rule with the fewest bytes that are not 0, of
// equal ones the first; of values of one or two bytes they look only at words of even number. They pack a mask if that
// makes it smaller. Decoders reject a packed mask of 4 W bytes or more; bits of `set` and of the marks behind the last
// one; four bits of `some`, or a byte of the marks, that are 0; `more` for a byte that has no more; and padding that is
// not 0. They do not look whether another rule, or none, would have been better.
#pragma once

#include <tuck/core/masks.hpp>

namespace tuck::inline TUCK_ABI::packed_masks {

inline constexpr uint32_t rules = 6, inverted = 1, first_difference = 2;

/// Returns d of a rule of differences.
TUCK_HD constexpr uint32_t distance_of(uint32_t rule) noexcept {
  return 0x20100201u >> 8 * (rule - first_difference) & 63;
}

/// Returns the marks of a word of a mask. `before` is the word before it, or 0; `valid` has the bits that are there.
TUCK_HD constexpr uint32_t marks_of(uint32_t word, uint32_t before, uint32_t rule, uint32_t valid) noexcept {
  if (rule < first_difference) return (rule == inverted ? ~word : word) & valid;
  return (word ^ shift_right(before, word, 32 - distance_of(rule))) & valid;
}
/// Returns for each bit the XOR of the bits up to it at a distance of d, 2 d, ...
TUCK_HD constexpr uint32_t sum_bits(uint32_t x, uint32_t d) noexcept {
  for (; d < 32; d *= 2) x ^= x << d;
  return x;
}
/// Returns what is 1 at the multiples of d.
TUCK_HD constexpr uint32_t every(uint32_t d) noexcept {
  return d == 1 ? ~0u : d == 2 ? 0x55555555u : d == 16 ? 0x00010001u : 1;
}
/// Returns the highest d bits, repeated: what the sums of the next word have to be XORed with. `ones` is every(d).
TUCK_HD constexpr uint32_t repeat_last(uint32_t x, uint32_t d, uint32_t ones) noexcept {
  return (x >> (32 - d)) * ones;
}
/// Returns the bits of word w of a mask of n bits that are there.
TUCK_HD constexpr uint32_t valid_bits(uint32_t w, uint32_t n) noexcept {
  return n > 32 * w ? low_mask(n - 32 * w < 32 ? n - 32 * w : 32) : 0;
}

/// Returns whether encoders look at word w of the mask of values of this width to choose a rule.
TUCK_HD constexpr bool is_sample(uint32_t w, uint32_t width) noexcept { return width > 2 || w % 2 == 0; }

/// The bytes of a word of marks: byte k as bit 8 k.
struct mark_bytes {
  uint32_t some = 0;  ///< those that are not 0
  uint32_t more = 0;  ///< those with more than one 1

  mark_bytes() = default;
  TUCK_HD constexpr explicit mark_bytes(uint32_t marks) noexcept
      : some(non_zeros(marks)), more(non_zeros(marks & (marks - some))) {}  // without the lowest 1 of each

  /// Returns the highest bit of each byte that is not 0; or the lowest.
  TUCK_HD static constexpr uint32_t tops(uint32_t x) noexcept {
    return (((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x) & 0x80808080u;
  }
  TUCK_HD static constexpr uint32_t non_zeros(uint32_t x) noexcept { return tops(x) >> 7; }
  /// Returns the lowest bit of each byte as the lowest bits of a word.
  TUCK_HD static constexpr uint32_t joined(uint32_t x) noexcept { return x * 0x10204080u >> 28; }
  /// Undoes it.
  TUCK_HD static constexpr uint32_t split(uint32_t x) noexcept { return x * 0x00204081u & 0x01010101u; }

  /// Returns the number of bits of each byte that are stored.
  TUCK_HD constexpr uint32_t widths() const noexcept { return some * 3 + more * 5; }
  /// Returns these bits of each byte: its low end.
  TUCK_HD constexpr uint32_t fields() const noexcept { return some * 7 | more * 255; }
  /// Returns what is stored of each byte, in these bits.
  TUCK_HD constexpr uint32_t pack(uint32_t marks) const noexcept {
    // Of a byte with one 1: whether that is in the upper half, and its place there.
    const uint32_t high = marks >> 4 & 0x0f0f0f0fu, one = (marks & 0x0f0f0f0fu) | high;
    const uint32_t place =
        (one >> 1 & 0x07070707u) - (one >> 3 & 0x01010101u) + ((high + 0x0f0f0f0fu) >> 2 & 0x04040404u);
    return select_bits(more * 255, marks, place) & fields();
  }
  /// Undoes it.
  TUCK_HD constexpr uint32_t unpack(uint32_t x) const noexcept {
    const uint32_t one = some & ~more, low = x, middle = x >> 1;
    const uint32_t nibble =
        (one & ~low & ~middle) | (one & low & ~middle) << 1 | (one & ~low & middle) << 2 | (one & low & middle) << 3;
    const uint32_t high = (x >> 2 & one) * 15;
    return (x & more * 255) | (nibble & ~high) | (nibble & high) << 4;
  }
  /// Returns whether the bytes with more than one 1 have so many, in marks that `unpack` has returned.
  TUCK_HD constexpr bool fits(uint32_t marks) const noexcept {
    const uint32_t x = marks & more * 255;
    return non_zeros(x & (x - more)) == more;
  }
};

/// What a packed mask has: words of marks and bytes that are not 0, and bytes with more than one 1.
struct sizes {
  uint32_t words = 0, bytes = 0, more = 0;

  /// Offsets of the parts of a mask of n bits in bytes.
  TUCK_HD static constexpr uint32_t some_begin(uint32_t n) noexcept { return 4 * ceil_div(mask_words(n), 32u); }
  TUCK_HD constexpr uint32_t more_begin(uint32_t n) const noexcept { return some_begin(n) + (words + 1) / 2; }
  TUCK_HD constexpr uint32_t ones_begin(uint32_t n) const noexcept { return more_begin(n) + (bytes + 7) / 8; }
  TUCK_HD constexpr uint32_t end(uint32_t n) const noexcept { return ones_begin(n) + (3 * bytes + 5 * more + 7) / 8; }
};

// The first word of a chunk.
struct head {
  enum kind_of_mask : uint32_t { zeros, runs, both_zeros, negative_zeros };

  uint32_t word;

  TUCK_HD static constexpr head make(uint32_t kind, uint32_t rule, bool packed) noexcept {
    return {kind | (packed ? rule << 2 | 1u << 5 : 0)};
  }
  TUCK_HD constexpr uint32_t kind() const noexcept { return word & 3; }
  TUCK_HD constexpr uint32_t rule() const noexcept { return word >> 2 & 7; }
  TUCK_HD constexpr bool packed() const noexcept { return (word >> 5 & 1) != 0; }
  // Returns whether an encoder can have written it.
  TUCK_HD constexpr bool fits(bool has_runs) const noexcept {
    return word >> 6 == 0 && (packed() ? rule() < rules : rule() == 0) && (has_runs || kind() != runs);
  }
};

/// What a chunk of values of this width has beside its mask.
template <uint32_t Width> struct layout {
  // Returns the bytes of the signs of `zeros` values of a kind.
  TUCK_HD static constexpr uint32_t sign_bytes(uint32_t kind, uint32_t zeros) noexcept {
    return kind == head::both_zeros ? (zeros + 7) / 8 : 0;
  }
  // Returns the kind for zeros, if so many values are 0 or -0, and of them so many -0.
  TUCK_HD static constexpr uint32_t kind_of_zeros(uint32_t zeros, uint32_t negative) noexcept {
    if (negative == 0) return head::zeros;
    if (negative == zeros) return head::negative_zeros;
    return negative * Width > sign_bytes(head::both_zeros, zeros) ? head::both_zeros : head::zeros;
  }
  // Returns whether a mask of so many changes is better than one of so many ones.
  TUCK_HD static constexpr bool takes_runs(uint32_t changes, uint32_t ones) noexcept {
    return 16 * changes < 15 * ones;
  }
  // Returns the offset of the values, if what is before them ends at `end`.
  TUCK_HD static constexpr uint32_t values_begin(uint32_t end) noexcept {
    constexpr uint32_t low = Width - 1;
    return (end + low) & ~low;
  }
};

}  // namespace tuck::inline TUCK_ABI::packed_masks
