// SPDX-License-Identifier: Apache-2.0
// Differences of neighbouring values, so that slowly changing values become small numbers. In names of codecs this is
// "delta"; it has no relation to delta frames. All arithmetic is on bit patterns as unsigned integers of b bits, modulo
// 2^b, where b = 8 sizeof(T):
//
//   d[i] = v[i] - v[i-1], with v[-1] = 0      zigzag(d) = 2 d if d < 2^(b-1), else 2 (2^b - d) - 1
//
// zigzag is the zigzag code of a signed integer: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4. There are three forms, of which
// a chain chooses one for each chunk:
//
//   0  differences   result[i] = zigzag(d[i])
//   1  zigzag        result[i] = zigzag(v[i])
//   2  values        result[i] = v[i]
//
// The results have the same number and size as the values.
//
// Encoders choose the form from samples, by an estimate of the bits that an entropy coder makes of the results. 2^s is
// the largest power of two with at least 512 samples in n values, but at least 1. Sample k of n / 2^s is value
// 2^s k + (k + k / 2^s) mod 2^s. A result of w bits costs its class, which is w, and the w - 1 bits below the highest:
//
//   cost = sum over the classes w of m (max(w - 1, 0) + log2(samples / m)), with m results of the class
//
// If no sample is negative as a signed integer, form 2 is chosen instead of form 1: its results have one bit less. Form
// 0 is chosen if its cost is not higher. All forms can have any values, so the choice is free; equal choices make equal
// bytes on host and device.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/bits.hpp>
#include <tuck/core/standard.hpp>
#include <tuck/core/zigzag.hpp>

namespace tuck::inline TUCK_ABI {

namespace detail {

// The estimate by which a form is chosen. Word: the unsigned integer of a value.
template <class Word> struct difference_estimate {
  static constexpr uint32_t classes = sizeof(Word) == 8 ? 64 : 32;  // the last one is of its width and of wider ones

  // The samples of n values: sample k < n >> spacing_log2 is one of the 2^spacing_log2 values from
  // k << spacing_log2 on.
  TUCK_HD static constexpr uint32_t spacing_log2(uint32_t n) noexcept { return n < 1024 ? 0 : bit_width(n) - 10; }
  TUCK_HD static constexpr uint32_t sample(uint32_t k, uint32_t spacing_log2) noexcept {
    return (k << spacing_log2) + ((k + (k >> spacing_log2)) & ((1u << spacing_log2) - 1));
  }

  TUCK_HD static constexpr uint32_t class_of(Word result) noexcept {
    using integer = std::conditional_t<sizeof(Word) == 8, uint64_t, uint32_t>;
    const uint32_t width = bit_width(integer{result});
    return width < classes ? width : classes - 1;
  }
  // Returns log2(m) in 1/256, within 1/64. 1 <= m < 2^16
  TUCK_HD static constexpr uint32_t log2_of(uint32_t m) noexcept {
    const uint32_t whole = bit_width(m) - 1, f = (m << (15 - whole)) & 0x7fff;
    return whole << 8 | (f + (f * (0x8000 - f) >> 15) * 11 / 32) >> 7;
  }
  // Returns the cost of a class of m samples in 1/256 bit, without the term that all forms have, modulo 2^32.
  // saved: bits that each result has less
  TUCK_HD static constexpr uint32_t cost(uint32_t of_class, uint32_t m, uint32_t saved) noexcept {
    const uint32_t below = of_class > saved ? of_class - 1 - saved : 0;
    return m == 0 ? 0 : m * (below << 8) - m * log2_of(m);
  }
};

}  // namespace detail

/// Transform for slowly changing values: zigzag codes of the differences of neighbours, or of the values, or the values
/// as they are. Lossless.
/// concept.hpp documents the members that are not described here.
/// @tparam T element type; the results are unsigned integers of the same size
template <element T> struct differences : plain_stage<differences<T>, codec_id::differences> {
  using value_type = T;
  using result_type = bits_t<T>;

  template <element U> using rebind = differences<U>;  ///< for by_width

  static constexpr uint32_t of_neighbours = 0;  ///< form: zigzag codes of the differences
  static constexpr uint32_t zigzags = 1;        ///< form: zigzag codes of the values
  static constexpr uint32_t as_they_are = 2;    ///< form: the values
  static constexpr uint32_t forms = 3;          ///< number of forms

  /// Returns the form with which an entropy coder should need the fewest bits.
  uint32_t choose_form(span<const T> values) const noexcept {
    using estimate = detail::difference_estimate<bits_t<T>>;
    uint32_t of_differences[estimate::classes] = {}, of_values[estimate::classes] = {};
    const auto count = static_cast<uint32_t>(values.size());
    const uint32_t log2 = estimate::spacing_log2(count);
    bool signs = false;
    for (uint32_t k = 0; k < count >> log2; ++k) {
      const uint32_t i = estimate::sample(k, log2);
      const bits_t<T> v = bits_at(values.data(), i), before = i == 0 ? bits_t<T>{0} : bits_at(values.data(), i - 1);
      ++of_differences[estimate::class_of(zigzag(static_cast<bits_t<T>>(v - before)))];
      ++of_values[estimate::class_of(zigzag(v))];
      signs |= v >> (8 * sizeof(T) - 1) != 0;
    }
    uint32_t gain = 0;
    for (uint32_t c = 0; c < estimate::classes; ++c)
      gain += estimate::cost(c, of_differences[c], 0) - estimate::cost(c, of_values[c], signs ? 0 : 1);
    return form_of(gain, signs);
  }
  /// Returns the form for values whose sample costs `gain` less than that of their differences, modulo 2^32.
  /// @param signs whether one of the sample is negative
  TUCK_HD static constexpr uint32_t form_of(uint32_t gain, bool signs) noexcept {
    return static_cast<int32_t>(gain) <= 0 ? of_neighbours : signs ? zigzags : as_they_are;
  }

  /// Writes the results of `values`. Both spans have the same size and do not alias.
  void apply(span<const T> values, span<bits_t<T>> results, uint32_t form = of_neighbours) const noexcept {
    if (values.empty()) return;
    if (form == as_they_are) {
      std::memcpy(results.data(), values.data(), values.size_bytes());
    } else if (form == zigzags) {
      for (uint64_t i = 0; i < values.size(); ++i) results[i] = zigzag(bits_at(values.data(), i));
    } else {
      results[0] = zigzag(tuck::bits_of(values[0]));
      for (uint64_t i = 1; i < values.size(); ++i)
        results[i] = zigzag(static_cast<bits_t<T>>(bits_at(values.data(), i) - bits_at(values.data(), i - 1)));
    }
  }
  /// Restores the values; undoes `apply`. Both spans have the same size and do not alias.
  void invert(span<const bits_t<T>> results, span<T> restored, uint32_t form = of_neighbours) const noexcept {
    if (restored.empty()) return;
    if (form == as_they_are) {
      std::memcpy(restored.data(), results.data(), restored.size_bytes());
      return;
    }
    bits_t<T> value = 0;
    for (uint64_t i = 0; i < restored.size(); ++i) {
      value = static_cast<bits_t<T>>((form == of_neighbours ? value : bits_t<T>{0}) + unzigzag(results[i]));
      // Not by bit_cast: GCC 12 fails with an internal error when it vectorizes that loop over structs.
      tuck::store_unaligned(reinterpret_cast<std::byte*>(&restored[i]), value);
    }
  }
};

static_assert(transform<differences<float>>);

}  // namespace tuck::inline TUCK_ABI
