// Integers in groups of 32, each group in as few bits as one of a few forms takes: what bitpack, quantize and exponents
// are made of.
//
// A chunk of n integers of 1, 2, 4 or 8 bytes in two's complement. Zeros fill up the last group. All offsets are from
// the chunk's begin, all numbers little-endian:
//
//   u8  first_bits        bits of the first integer of each difference group
//   u8  base_bits         bits of each base
//   u16 more              bitpack: 0; quantize: how many values are kept as they are, see quantize.hpp; exponents: the
//                         least base of all groups that are not zero
//   u32 non_zero[]        bit g % 32 of non_zero[g / 32]: group g has an integer that is not 0; bits past the end are 0
//   u8  shape[]           of each such group: width field:5, sparse:1, form:2; zeros up to a multiple of 4
//   u32 mask[]            of each sparse group: which integers are not 0
//   u32 payload[]         groups one after the other as a string of bits, lowest bit first, filled up with zeros
//
//   form         payload of a group                                                       width
//   0 plain      x                                 if no x of the group is negative       field + 1
//   1 centered   x + 2^(width - 1)                                                        field + 1
//   2 based      base in base_bits, then x - base                                         field
//   3 difference the first x in first_bits, then x[k] - x[k - 1], k = 1 to 31             field
//
// Of exponents, x are unsigned, so that none is negative, and base is stored as base - least base, in no zigzag number.
//
// A sparse group has only those x in its payload that are not 0; it is plain or centered. Bases, first integers and
// differences are zigzag numbers: 2 d, or -2 d - 1 of a negative d. Widths count bits, of 8-byte integers pairs of
// bits.
//
// A group takes the form with the fewest bits, those of its mask among them; of equal ones the first of plain, plain
// and sparse (where an x is negative, centered instead), based, difference. Only some encoders look for differences. A
// base is the least x. base_bits is the most bits that any group with an x that is not 0 would need for its base, and
// first_bits the most for its first x, or 0 where the encoder does not look for differences. So the bytes are
// canonical: host and device write the same.
//
// Decoders refuse what does not fit in a chunk or leaves some of it over, bits of non_zero[] past the end, widths,
// first_bits and base_bits of more bits than the caller allows, and other sparse groups. They do not look at padding,
// at integers past the end, nor whether a group could have been smaller. Arithmetic is modulo 2^32, of 8-byte integers
// 2^64; what comes out is cut to the integer's bytes.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/masks.hpp>

namespace tuck::inline TUCK_ABI {

// Whether groups may be stored as the differences of neighbouring integers where that takes fewer bits.
enum class predictor : uint8_t { none = 0, automatic = 1 };

// Integers of Bytes bytes: how they are computed with, and how groups of them are laid out.
template <uint32_t Bytes, bool Unsigned = false> struct integer_groups {
  using bits = typename uint_of_size<Bytes>::type;                  // as they are stored
  using number = std::conditional_t<Bytes == 8, int64_t, int32_t>;  // as they are computed with
  using word = std::make_unsigned_t<number>;                        // the same, modulo 2^32 or 2^64

  static constexpr uint32_t group = 32;
  static constexpr uint32_t word_bits = 8 * sizeof(word);
  static constexpr uint32_t unit = word_bits / 32;  // bits that a step of a width field stands for
  static constexpr uint32_t head_bytes = 4;
  static constexpr uint32_t max_groups = 64 * 1024 / Bytes / group;

  TUCK_HD static constexpr uint32_t count(uint32_t values) noexcept { return (values + group - 1) / group; }

  TUCK_HD static constexpr number number_of(bits x) noexcept {
    return Unsigned ? static_cast<number>(x) : static_cast<number>(static_cast<std::make_signed_t<bits>>(x));
  }
  TUCK_HD static constexpr word zigzag(number d) noexcept {
    return static_cast<word>(d) << 1 ^ static_cast<word>(d >> (word_bits - 1));
  }
  TUCK_HD static constexpr word unzigzag(word z) noexcept { return z >> 1 ^ (word{0} - (z & 1)); }
  // What stands in front of a group with this base.
  TUCK_HD static constexpr word base_lead(number base, word least) noexcept {
    return Unsigned ? static_cast<word>(base) - least : zigzag(base);
  }

  // -- forms ---------------------------------------------------------------------------------------------------------

  enum form : uint32_t { plain = 0, centered = 1, based = 2, difference = 3 };

  struct shape {
    uint8_t byte = 0;

    static constexpr uint32_t sparse_bit = 0x20;

    TUCK_HD constexpr uint32_t form() const noexcept { return byte >> 6; }
    TUCK_HD constexpr bool is_sparse() const noexcept { return (byte & sparse_bit) != 0; }
    TUCK_HD constexpr bool is_difference() const noexcept { return form() == difference; }
    TUCK_HD constexpr uint32_t width() const noexcept { return ((byte & 31u) + (form() < based ? 1 : 0)) * unit; }

    TUCK_HD constexpr bool is_sound(uint32_t max_width) const noexcept {
      return width() <= max_width && (form() < based || !is_sparse());
    }
    // Bits in front of the integers.
    TUCK_HD constexpr uint32_t lead_bits(uint32_t first_bits, uint32_t base_bits) const noexcept {
      return form() == difference ? first_bits : form() == based ? base_bits : 0;
    }
    // In the payload, of a group with so many integers that are not 0.
    TUCK_HD constexpr uint32_t payload_bits(uint32_t non_zeros, uint32_t first_bits,
                                            uint32_t base_bits) const noexcept {
      return lead_bits(first_bits, base_bits) + (is_sparse()       ? non_zeros
                                                 : is_difference() ? group - 1
                                                                   : group) *
                                                    width();
    }
    // What is added to each integer that the payload has, where its lead says `lead`.
    TUCK_HD constexpr word base(word lead, word least) const noexcept {
      return form() == centered            ? word{0} - (word{1} << (width() - 1))
             : form() == plain             ? 0
             : Unsigned && form() == based ? lead + least
                                           : unzigzag(lead);
    }
  };

  // What decides about a group's shape.
  struct summary {
    number lowest = 0, highest = 0, first = 0;
    word differences = 0;    // the bits that any zigzag difference has
    uint32_t non_zeros = 0;  // a bit each
  };

  // The form with the fewest bits. Of equal ones that with the least upper bits of the shape, which is why the
  // candidates are compared as bits << 8 | shape.
  TUCK_HD static constexpr shape choose(const summary& s, uint32_t first_bits, uint32_t base_bits,
                                        bool differences) noexcept {
    const uint32_t non_zeros = popcount(s.non_zeros), sparse = group << 8 | shape::sparse_bit;
    // Each step of a width field is so many bits << 8, and one more in the shape.
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
    return {static_cast<uint8_t>(least)};
  }

  // -- places --------------------------------------------------------------------------------------------------------

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
