// SPDX-License-Identifier: Apache-2.0
// The format of `steps`: what its encoders and decoders share.
//
// A chunk has n values of a floating-point type, and as many of a base. A step is the difference of a value and the
// value of the base, both as integers in the order of the values (`ordered`), so that neighbours of the type differ by
// 1. It is computed modulo 2^(8 w) and taken as signed. An optimizer moves weights by about the same amount, so how
// likely a value changes, and by how many steps, depends on the exponent of the base. Both sides know it. It parts the
// values into 4 classes, by a threshold t that the encoder chooses:
//
//   class   exponent field of the base
//   0       t or more
//   1       t - 2 or t - 1
//   2       t - 4 or t - 3
//   3       less
//
// The chunk is described by 12 strings of bits. String (0, c) has a bit for each value of class c, in order: 1 if it
// changes. Strings (1, c) and (2, c) have a bit for each one of (0, c) and (1, c): 1 if the magnitude of the step is
// more than 1, or 2. A string of l bits with k ones is stored as a list of the positions of its ones, or if 2 k > l, of
// its zeros. The list has an entry for each of them: a gap in Rice code (rice.hpp). Its r follows from the number of
// entries and from l. So a string of one kind of bits takes no space.
//
// The chunk is one string of bits, lowest bit of a byte first, padded with zeros to a whole byte:
//
//   header
//     t           8 bits
//     counts      for rows 0, 1, 2:   5 bits: width w of a count;  4 counts of w bits: the ones of strings (row, 0..3)
//                 a row with w = 0 is the last
//     order       5 bits; only if row 2 has ones
//   remainders    of all lists, row by row: r bits of each entry
//   signs         a bit for each value that changes, class by class: 1 if the step is negative
//   quotients     of all lists, row by row: for each entry q zeros, then a one
//   extents       for each one of row 2: u zeros, then a one
//   extras        for each one of row 2: order + u bits
//
// The magnitude of a step with a one in row 2 is x + 3. Of x + 2^order, which has order + u + 1 bits, the extra is what
// follows the highest one.
//
// Encoders choose t by `best_threshold`, and order by `best_order`. The bytes are canonical.
#pragma once

#include <tuck/codec/rice.hpp>
#include <tuck/core/floating.hpp>

namespace tuck::inline TUCK_ABI::steps_format {

inline constexpr uint32_t classes = 4, rows = 3, class_exponents = 2;
// 8 bits hold each threshold: it is an exponent field of the type, and `steps` takes no f64, whose field has 11 bits.
inline constexpr uint32_t threshold_bits = 8, width_bits = 5, order_bits = 5;
inline constexpr uint32_t max_width = 17;    // bits of a count
inline constexpr uint32_t sample_group = 8;  // one value of so many counts for the threshold
inline constexpr uint32_t candidates = 32;   // thresholds that encoders try

/// Maps the bits of floats to integers modulo 2^(8 w) in the order of the values. -0 comes before +0. Its own inverse.
template <floating_element T> TUCK_HD constexpr bits_t<T> ordered(bits_t<T> x) noexcept {
  const auto ones = static_cast<bits_t<T>>(0 - (x >> (8 * sizeof(T) - 1)));  // or 0
  return static_cast<bits_t<T>>(x ^ float_format<T>::magnitude(ones));
}
/// Returns the bits of the value that is `step` steps from `base`, XOR those of the base.
template <floating_element T> TUCK_HD constexpr bits_t<T> change_of(bits_t<T> step, bits_t<T> base) noexcept {
  return static_cast<bits_t<T>>(ordered<T>(static_cast<bits_t<T>>(ordered<T>(base) + step)) ^ base);
}
/// Returns the step for which change_of returns `change`.
template <floating_element T> TUCK_HD constexpr bits_t<T> step_of(bits_t<T> change, bits_t<T> base) noexcept {
  return static_cast<bits_t<T>>(ordered<T>(static_cast<bits_t<T>>(change ^ base)) - ordered<T>(base));
}
template <floating_element T> TUCK_HD constexpr bool is_negative(bits_t<T> step) noexcept {
  return (step & float_format<T>::sign) != 0;
}
template <floating_element T> TUCK_HD constexpr bits_t<T> magnitude_of(bits_t<T> step) noexcept {
  return static_cast<bits_t<T>>(is_negative<T>(step) ? 0 - step : step);
}

template <floating_element T> inline constexpr uint32_t exponent_fields = 1u << float_format<T>::exponent_bits;

/// Returns the exponent field.
template <floating_element T> TUCK_HD constexpr uint32_t exponent_of(bits_t<T> x) noexcept {
  return static_cast<uint32_t>(float_format<T>::magnitude(x) >> float_format<T>::mantissa_bits);
}
/// Returns the least exponent field of classes 0 to c < 3.
TUCK_HD constexpr uint32_t least_exponent(uint32_t threshold, uint32_t c) noexcept {
  return threshold > class_exponents * c ? threshold - class_exponents * c : 0;
}
/// Returns the class of a value of the base.
TUCK_HD constexpr uint32_t class_of(uint32_t exponent, uint32_t threshold) noexcept {
  uint32_t c = 0;
  for (uint32_t i = 0; i + 1 < classes; ++i) c += exponent < least_exponent(threshold, i);
  return c;
}

/// How a string with `ones` ones among `length` bits is stored.
struct list {
  uint32_t entries = 0;    ///< number of gaps
  uint32_t remainder = 0;  ///< r: bits of a remainder
  bool inverted = false;   ///< whether the gaps are those of the zeros

  TUCK_HD static constexpr list of(uint32_t ones, uint32_t length) noexcept {
    const bool inverted = 2 * ones > length;
    const uint32_t entries = inverted ? length - ones : ones;
    return {entries, rice::remainder_bits(entries, length), inverted};
  }
  /// Returns about how many bits a string takes.
  TUCK_HD static constexpr uint32_t estimated_bits(uint32_t ones, uint32_t length) noexcept {
    const list l = of(ones, length);
    return l.entries * (l.remainder + 1) + ((length - l.entries) >> l.remainder);
  }
};

/// Returns about how many bits row 0 takes. values[e], changes[e]: how many values, and changed values, have a base
/// with exponent field e or more.
TUCK_HD constexpr uint32_t estimated_bits(uint32_t threshold, const uint32_t* values,
                                          const uint32_t* changes) noexcept {
  uint32_t bits = 0, values_before = 0, changes_before = 0;
  TUCK_UNROLL(4)
  for (uint32_t c = 0; c < classes; ++c) {
    const uint32_t least = c + 1 < classes ? least_exponent(threshold, c) : 0;
    const uint32_t k = changes[least] - changes_before, n = values[least] - values_before;
    bits += list::estimated_bits(k, n < k ? k : n);
    changes_before += k;
    values_before += n;
  }
  return bits;
}

/// Returns the index of the one of x that has `before` < popcount(x) ones below it.
TUCK_HD constexpr uint32_t position_of_one(uint32_t x, uint32_t before) noexcept {
  const uint32_t pairs = x - (x >> 1 & 0x55555555u);
  const uint32_t fours = (pairs & 0x33333333u) + (pairs >> 2 & 0x33333333u);
  const uint32_t bytes = (fours + (fours >> 4)) & 0x0f0f0f0fu, halves = bytes + (bytes >> 8);
  uint32_t at = 0;
  const auto skip = [&](uint32_t ones, uint32_t width) {
    const bool further = before >= ones;
    before -= further ? ones : 0;
    at += further ? width : 0;
  };
  skip(halves & 0xff, 16);
  skip(bytes >> at & 0xff, 8);
  skip(fours >> at & 0xf, 4);
  skip(pairs >> at & 3, 2);
  skip(x >> at & 1, 1);
  return at;
}

/// Returns the order for `count` magnitudes above 2, from the sum of bit_width(magnitude - 3).
TUCK_HD constexpr uint32_t best_order(uint32_t widths, uint32_t count) noexcept {
  const uint32_t mean = count == 0 ? 0 : widths / count;
  return mean > 1 ? mean - 1 : 0;
}

}  // namespace tuck::inline TUCK_ABI::steps_format
