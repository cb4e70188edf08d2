// SPDX-License-Identifier: Apache-2.0
// Rows: the XOR of each value with the value one row above, so that rows that repeat become zeros. The row length N is
// a parameter, in values. It need not divide the chunk or the tensor. There are two forms, of which a chain chooses one
// for each chunk of n values:
//
//   0  XOR      result[i] = v[i] XOR v[i - N], and v[i] for i < N
//   1  values   result[i] = v[i]
//
// The results are bit patterns of the same type as the values. A chunk has no row above its first one, so the results
// of a chunk of at most N values are the values. Many rows in a chunk give the best ratios. With N = 1, each value is
// XORed with the value before it.
//
// Encoders count zeros among the results of both forms. They choose form 0 if it has at least n / 8 more, rounded down.
//
// N is stage::small_value, from 1 on. The other parameters are 0.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/bits.hpp>
#include <tuck/core/standard.hpp>

namespace tuck::inline TUCK_ABI {

/// Transform for rows that repeat: the XOR of each value with the value one row above, or the values as they are.
/// Lossless.
/// concept.hpp documents the members that are not described here.
/// @tparam T element type; the results have it too
template <element T> class rows {
 public:
  using value_type = T;
  using result_type = T;

  template <element U> using rebind = rows<U>;  ///< for by_width

  static constexpr uint32_t exclusive_or = 0;  ///< form: the XOR with the value one row above
  static constexpr uint32_t as_they_are = 1;   ///< form: the values
  static constexpr uint32_t forms = 2;         ///< number of forms

  /// Constructs a transform for decoding. To encode, its row length is 1: the XOR with the value before.
  rows() = default;
  /// Constructs a transform for rows of this length.
  /// @param length  in values; 1: the XOR with the value before; with 0, calls that encode return invalid_argument
  TUCK_HD constexpr explicit rows(uint32_t length) noexcept : length_(length) {}
  /// Returns the length of a row in values.
  TUCK_HD constexpr uint32_t length() const noexcept { return length_; }

  // A codec without stages cannot encode.
  TUCK_HD constexpr stage_list stages() const noexcept {
    return length_ == 0 ? stage_list{} : stage_list{{{.id = codec_id::rows, .version = 1, .small_value = length_}}};
  }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, rows& parsed) noexcept {
    const uint32_t length = stages.at[0].small_value;
    parsed = rows(length == 0 ? 1 : length);  // 0 does not match
    return match_single_stage(stages, parsed.stages().at[0]);
  }

  /// Returns the form that makes more values zero.
  uint32_t choose_form(span<const T> values) const noexcept {
    uint32_t gained = 0;
    for (uint64_t i = length_; i < values.size(); ++i) {
      const bits_t<T> v = bits_at(values.data(), i), above = bits_at(values.data(), i - length_);
      gained += gain(v, above);
    }
    return form_of(gained, static_cast<uint32_t>(values.size()));
  }
  /// Returns by how much form 0 has more zeros than form 1 at a value, modulo 2^32.
  TUCK_HD static constexpr uint32_t gain(bits_t<T> value, bits_t<T> above) noexcept {
    return (value == above ? 1u : 0u) - (value == 0 ? 1u : 0u);
  }
  /// Returns the form for `count` values of which form 0 makes `gained` more zero, modulo 2^32.
  TUCK_HD static constexpr uint32_t form_of(uint32_t gained, uint32_t count) noexcept {
    return static_cast<int32_t>(gained) >= static_cast<int32_t>(count / 8) ? exclusive_or : as_they_are;
  }

  /// Writes the results of `values`. Both spans have the same size and do not alias.
  void apply(span<const T> values, span<T> results, uint32_t form = exclusive_or) const noexcept {
    restore_or_apply(values, results, form, values);
  }
  /// Restores the values; undoes `apply`. Both spans have the same size and do not alias.
  void invert(span<const T> results, span<T> restored, uint32_t form = exclusive_or) const noexcept {
    restore_or_apply(results, restored, form, restored);
  }

 private:
  // Sets to[i] to from[i] XOR above[i - length], where `above` has the values: of `from` or, once they are there, `to`.
  void restore_or_apply(span<const T> from, span<T> to, uint32_t form, span<const T> above) const noexcept {
    const uint64_t same = form == as_they_are || length_ > from.size() ? from.size() : length_;
    if (same != 0) std::memcpy(to.data(), from.data(), same * sizeof(T));
    for (uint64_t i = same; i < from.size(); ++i)
      store_unaligned(reinterpret_cast<std::byte*>(&to[i]),
                      static_cast<bits_t<T>>(bits_at(from.data(), i) ^ bits_at(above.data(), i - length_)));
  }

  uint32_t length_ = 1;
};

static_assert(transform<rows<float>>);

}  // namespace tuck::inline TUCK_ABI
