// How a chunk of quantize is laid out. All offsets are from the chunk's begin, all integers little-endian.
//
//   u8  base_bits:6, 0:2     bits of each base
//   u8  exponent             16-bit types, unless the bound is pointwise: the biased exponent of the chunk's largest
//                            finite value, which the step depends on; else 0
//   u16 exceptions
//   u32 non_zero[]           a bit a group of 32 values: it has a code that is not 0; bits past the end are 0
//   u8  shape[]              of each such group: width:5, sparse:1, signed:1, delta:1; zeros to a multiple of 4
//   u32 mask[]               of each sparse group: which codes are not 0
//   u32 payload[]            groups one after the other as a string of bits, lowest first:
//                              [pointwise: base]  dense: 32 codes   sparse: the codes of the mask
//                              delta: the first code in base_bits, then 31 differences
//   u16 position[]           of the exceptions, ascending; a multiple of 4 bytes in all
//   T   value[]              of the exceptions, as they were
//
// Codes have `width` bits; groups that are not signed leave out the sign bit at the bottom of each, which is 0. Past
// the end of the chunk codes are 0. Delta groups hold the q's differences d as zigzag numbers, 2 d or -2 d - 1, and no
// code 1; sums are modulo 2^32. Pointwise codes are above the base, the group's smallest key less one:
// 2 (key - base) + s, or s for a zero. Exceptions have code 0. Of the three forms a group takes the one with fewest
// bits, of equal ones the first of dense, sparse, delta. quantizer.hpp says what codes and keys stand for.
//
// With code_bits = 15 for 16-bit types, 23 for f32, 29 for f64, and where the bound is pointwise 30 for both of these,
// decoders refuse: other sizes; bits of non_zero[] past the end; base_bits above code_bits + 1, or where the bound is
// pointwise above 8 sizeof(T) - 1; an exponent that no finite value has, or not 0 where it is to be; codes of no bits,
// or of more than code_bits, with the sign one more; differences of more than code_bits + 2; delta groups that are
// sparse, signed or pointwise; positions that do not ascend or are past the end. They do not look at padding, nor at
// codes past the end, nor whether a group could have been smaller.
//
// In the frame's header the stage of quantize, and of quantize_codes, has
//
//   mode    bits 0 to 3: bound_mode; 4 to 7: predictor, 0 in chains
//   small   the factor of a range-relative bound as an f32's bits, rounded to nearest; else 0
//   large   the bound that holds for each value as a double's bits, positive and finite: the absolute one, or the
//           pointwise one. 0 where a tensor has no range, and then no chunk is encoded
#pragma once

#include <tuck/core/bits.hpp>

namespace tuck::inline TUCK_ABI::quantize_layout {

inline constexpr uint32_t group = 32;  // values

struct shape {
  uint8_t byte = 0;

  static constexpr uint32_t sparse_bit = 1 << 5, signed_bit = 1 << 6, delta_bit = 1 << 7;

  TUCK_HD constexpr uint32_t width() const noexcept { return byte & 31u; }
  TUCK_HD constexpr bool is_sparse() const noexcept { return (byte & sparse_bit) != 0; }
  TUCK_HD constexpr bool is_signed() const noexcept { return (byte & signed_bit) != 0; }
  TUCK_HD constexpr bool is_delta() const noexcept { return (byte & delta_bit) != 0; }

  // Can a group of codes below 2^(code_bits + 1), its sign among them, have such a shape?
  TUCK_HD constexpr bool is_sound(uint32_t code_bits, bool pointwise) const noexcept {
    if (is_delta()) return !pointwise && !is_sparse() && !is_signed() && width() <= code_bits + 2;
    return width() != 0 && width() <= code_bits + (is_signed() ? 1 : 0);
  }
  // In the payload; `non_zeros` matters to sparse groups only.
  TUCK_HD constexpr uint32_t payload_bits(uint32_t non_zeros, uint32_t base_bits, bool pointwise) const noexcept {
    if (is_delta()) return (group - 1) * width() + base_bits;
    return (is_sparse() ? non_zeros : group) * width() + (pointwise ? base_bits : 0);
  }
};

inline constexpr uint32_t no_delta = 255;  // as a width: differences cannot say it, or nobody asked

// The shape of a group: the bits that any of its codes has, how many are not 0, and the width of its differences.
TUCK_HD constexpr shape choose(uint32_t all_codes, uint32_t non_zeros, uint32_t delta_width,
                               uint32_t base_bits) noexcept {
  const bool with_sign = (all_codes & 1) != 0;
  const uint32_t width = bit_width(with_sign ? all_codes : all_codes >> 1);
  const uint32_t dense = group * width, sparse = group + non_zeros * width;
  const uint32_t delta = (group - 1) * delta_width + base_bits;
  if (delta < dense && delta < sparse) return {static_cast<uint8_t>(delta_width | shape::delta_bit)};
  return {static_cast<uint8_t>(width | (sparse < dense ? shape::sparse_bit : 0) | (with_sign ? shape::signed_bit : 0))};
}

// 2 d or -2 d - 1, and back.
TUCK_HD constexpr uint32_t zigzag(int32_t d) noexcept {
  return static_cast<uint32_t>(d) << 1 ^ static_cast<uint32_t>(d >> 31);
}
TUCK_HD constexpr uint32_t unzigzag(uint32_t z) noexcept { return z >> 1 ^ (0 - (z & 1)); }

// q with its sign, of a code that is not -0.0, and back.
TUCK_HD constexpr int32_t whole_of(uint32_t code) noexcept {
  const auto q = static_cast<int32_t>(code >> 1);
  return (code & 1) != 0 ? -q : q;
}
TUCK_HD constexpr uint32_t code_of(uint32_t whole) noexcept {
  return static_cast<int32_t>(whole) < 0 ? (0 - whole) << 1 | 1 : whole << 1;
}

// Where things are.
struct offsets {
  uint32_t shapes, masks, payload, positions, values, end;
};
inline constexpr uint32_t non_zero_at = 4;

TUCK_HD constexpr offsets offsets_of(uint32_t groups, uint32_t non_zero_groups, uint32_t sparse_groups,
                                     uint32_t payload_bits, uint32_t exceptions, uint32_t value_bytes) noexcept {
  offsets at{};
  at.shapes = non_zero_at + 4 * ceil_div(groups, group);
  at.masks = at.shapes + round_up_pow2(non_zero_groups, 2);
  at.payload = at.masks + 4 * sparse_groups;
  at.positions = at.payload + 4 * ceil_div(payload_bits, 32u);
  at.values = at.positions + round_up_pow2(2 * exceptions, 2);
  at.end = at.values + exceptions * value_bytes;
  return at;
}

// The largest chunk that is worth its decoding, of `raw` bytes; others are declined.
TUCK_HD constexpr uint32_t most_bytes(uint32_t raw) noexcept { return raw - raw / 8; }

}  // namespace tuck::inline TUCK_ABI::quantize_layout
