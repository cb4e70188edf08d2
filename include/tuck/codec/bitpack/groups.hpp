// SPDX-License-Identifier: Apache-2.0
// Groups of 32 integers, each stored by the scheme that needs the fewest bits. bitpack and quantize use this format.
//
// A chunk has n integers of 1, 2, 4 or 8 bytes in two's complement. The last group is padded with zeros. Offsets count
// from the beginning of the chunk. All numbers are little-endian:
//
//   u8  first_bits   bits of the first integer of each difference group
//   u8  base_bits    bits of each base
//   u16 extra        bitpack: 0; quantize: number of exceptions, see quantize.hpp
//   u32 non_zero[]   bit g % 32 of non_zero[g / 32] is set if group g has a non-zero integer; bits past the end are 0
//   u8  shape[]      of each non-zero group, see below; padded with zeros to a multiple of 4
//   u32 mask[]       of each sparse group: bit k is set if integer k is not 0
//   u32 payload[]    the groups one after the other as a string of bits, lowest bit first, padded with zeros
//
//    7      6   5      4           0
//   +--------+--------+-------------+
//   | scheme | sparse | width field |   shape
//   +--------+--------+-------------+
//
//   scheme       payload of a group                                                       width
//   0 plain      x                                 only if no x of the group is negative  field + 1
//   1 centered   x + 2^(width - 1)                                                        field + 1
//   2 based      base in base_bits, then x - base                                         field
//   3 difference the first x in first_bits, then x[k] - x[k - 1], k = 1 to 31             field
//
// Bases, first integers and differences are zigzag numbers: 2 d, or -2 d - 1 for a negative d. Widths are in bits; for
// 8-byte integers, the width in the table is in pairs of bits.
//
// A sparse group is plain or centered, and its payload has only the non-zero integers.
//
// The encoder chooses the scheme with the fewest bits, including the mask. Ties prefer plain, then sparse plain, then
// based, then difference; centered replaces plain if an x is negative. Only some encoders look for differences. A base
// is the least x. base_bits is the most bits that a non-zero group would need for its base. first_bits is the most bits
// for a first x, or 0 if the encoder does not look for differences. So the bytes are canonical: host and device write
// the same.
//
// Decoders reject chunks whose parts do not add up to their size, bits of non_zero[] past the end, other sparse groups,
// and widths, first_bits and base_bits above the caller's limit. They ignore padding and integers past the end, and
// accept groups whose scheme is not the smallest. Arithmetic is modulo 2^32, or 2^64 for 8-byte integers. Results are
// truncated to the size of the integer.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/masks.hpp>
#include <tuck/core/zigzag.hpp>

namespace tuck::inline TUCK_ABI {

/// Whether groups may be stored as differences of neighbouring integers.
enum class predictor : uint8_t {
  none = 0,      ///< never
  automatic = 1  ///< if that takes fewer bits
};

// Arithmetic and layout of groups of integers of `Bytes` bytes.
template <uint32_t Bytes> struct integer_groups {
  using bits = typename uint_of_size<Bytes>::type;                  // a stored integer
  using number = std::conditional_t<Bytes == 8, int64_t, int32_t>;  // the type for arithmetic
  using word = std::make_unsigned_t<number>;                        // unsigned, modulo 2^32 or 2^64

  static constexpr uint32_t group = 32;
  static constexpr uint32_t word_bits = 8 * sizeof(word);
  static constexpr uint32_t unit = word_bits / 32;  // bits of one step of a width field
  static constexpr uint32_t head_bytes = 4;
  static constexpr uint32_t max_groups = 64 * 1024 / Bytes / group;

  TUCK_HD static constexpr uint32_t count(uint32_t values) noexcept { return (values + group - 1) / group; }

  TUCK_HD static constexpr number number_of(bits x) noexcept {
    return static_cast<number>(static_cast<std::make_signed_t<bits>>(x));
  }

  // -- schemes --------------------------------------------------------------------------------------------------------

  enum scheme : uint32_t { plain = 0, centered = 1, based = 2, difference = 3 };

  struct shape {
    uint8_t byte = 0;

    static constexpr uint32_t sparse_bit = 0x20;

    TUCK_HD constexpr uint32_t scheme() const noexcept { return byte >> 6; }
    TUCK_HD constexpr bool is_sparse() const noexcept { return (byte & sparse_bit) != 0; }
    TUCK_HD constexpr bool is_difference() const noexcept { return scheme() == difference; }
    TUCK_HD constexpr uint32_t width() const noexcept { return ((byte & 31u) + (scheme() < based ? 1 : 0)) * unit; }

    TUCK_HD constexpr bool is_sound(uint32_t max_width) const noexcept {
      return width() <= max_width && (scheme() < based || !is_sparse());
    }
    // Returns the bits before the integers: of the base or of the first integer.
    TUCK_HD constexpr uint32_t lead_bits(uint32_t first_bits, uint32_t base_bits) const noexcept {
      return scheme() == difference ? first_bits : scheme() == based ? base_bits : 0;
    }
    // Returns the bits of the payload of a group with `non_zeros` non-zero integers.
    TUCK_HD constexpr uint32_t payload_bits(uint32_t non_zeros, uint32_t first_bits,
                                            uint32_t base_bits) const noexcept {
      return lead_bits(first_bits, base_bits) + (is_sparse()       ? non_zeros
                                                 : is_difference() ? group - 1
                                                                   : group) *
                                                    width();
    }
    // Returns what is added to each integer of the payload. `lead` is stored before them.
    TUCK_HD constexpr word base(word lead) const noexcept {
      return scheme() == centered ? word{0} - (word{1} << (width() - 1)) : scheme() == plain ? 0 : unzigzag(lead);
    }
  };

  // What the shape of a group depends on.
  struct summary {
    number lowest = 0, highest = 0, first = 0;
    word differences = 0;    // any number with the bit width of the OR of all zigzag differences
    uint32_t non_zeros = 0;  // one bit per integer
  };

  struct choice {
    shape coding;
    uint32_t bits;  // of the payload
  };

  // Returns the shape with the fewest bits, for a group with `non_zeros` non-zero integers. Candidates are compared as
  // numbers, so ties prefer the lower shape byte:
  //
  //    31                         8 7      6   5      4           0
  //   +----------------------------+--------+--------+-------------+
  //   |  bits of payload and mask  | scheme | sparse | width field |   candidate
  //   +----------------------------+--------+--------+-------------+
  //
  // A based group with the full width does not fit in the width field. It is never the least: a plain or centered group
  // has no more bits, and a lower shape byte. `wanted < 32` excludes a difference group with the full width.
  TUCK_HD static constexpr choice choose(const summary& s, uint32_t non_zeros, uint32_t first_bits, uint32_t base_bits,
                                         bool differences) noexcept {
    const uint32_t sparse = group << 8 | shape::sparse_bit;
    // What one step of a width field adds to a candidate: its bits << 8, and 1 in the shape.
    const uint32_t dense_step = group * unit << 8 | 1, sparse_step = (non_zeros * unit << 8) + 1;
    const auto steps = [](word all) { return (tuck::bit_width(all) + unit - 1) / unit; };

    const bool negative = s.lowest < 0;
    const auto folded = [](number x) { return static_cast<word>(x ^ x >> (word_bits - 1)); };
    const word all = folded(s.lowest) | folded(s.highest);
    const uint32_t simple_steps = negative ? (tuck::bit_width(all) + unit) / unit : steps(all);
    const uint32_t simple = (negative ? centered << 6 : plain << 6) - 1;
    uint32_t least = simple_steps * dense_step + simple;
    const auto consider = [&](uint32_t candidate) { least = candidate < least ? candidate : least; };
    consider(simple_steps * sparse_step + simple + sparse);
    const uint32_t with_base = base_bits << 8 | based << 6;
    consider(steps(static_cast<word>(s.highest) - static_cast<word>(s.lowest)) * dense_step + with_base);
    if (differences)
      if (const uint32_t wanted = steps(s.differences); wanted < 32)
        consider(wanted * ((group - 1) * unit << 8 | 1) + (first_bits << 8 | difference << 6));
    const shape coding{static_cast<uint8_t>(least)};
    return {coding, (least >> 8) - (coding.is_sparse() ? group : 0)};  // without the mask
  }

  // -- offsets -------------------------------------------------------------------------------------------------------

  struct offsets {
    uint32_t shapes, masks, payload, end;
  };
  TUCK_HD static constexpr offsets offsets_of(uint32_t values, uint32_t non_zero_groups, uint32_t sparse_groups,
                                              uint32_t payload_bits) noexcept {
    offsets at{};
    at.shapes = head_bytes + (count(values) + 31) / 32 * 4;
    at.masks = at.shapes + (non_zero_groups + 3) / 4 * 4;
    at.payload = at.masks + 4 * sparse_groups;
    at.end = at.payload + (payload_bits + 31) / 32 * 4;
    return at;
  }
};

}  // namespace tuck::inline TUCK_ABI
