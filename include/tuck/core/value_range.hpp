// The lowest and the highest finite value of a tensor, as integer keys. Partial results merge in any order.
//
// A key has the order of the values: non-negative values get the sign bit set, negative ones all bits inverted. The
// lowest value is stored as the complement of its key, so that both keys merge by taking the larger value.
#pragma once

#include <tuck/core/floating.hpp>

namespace tuck::inline TUCK_ABI {

/// The range of a tensor's finite values as keys, widened to 64 bits for every element type.
struct range_keys {
  uint64_t lowest = 0;   ///< complement of the lowest value's key; 0: no finite value seen
  uint64_t highest = 0;  ///< key of the highest value; 0: no finite value seen

  /// Merges another range into this one.
  TUCK_HD constexpr void add(const range_keys& other) noexcept {
    lowest = lowest < other.lowest ? other.lowest : lowest;
    highest = highest < other.highest ? other.highest : highest;
  }
};

/// Collects the range of values of type T, given as bit patterns.
template <floating_element T> struct value_range {
  using format = float_format<T>;      ///< bit layout of T
  using bits = bits_t<T>;              ///< unsigned integer as wide as T
  using real = typename format::real;  ///< float, or double for 8-byte types

  bits lowest = 0;   ///< as range_keys::lowest, in the width of T
  bits highest = 0;  ///< as range_keys::highest, in the width of T

  /// Adds the value with bit pattern `x`. Infinities and NaN are ignored.
  TUCK_HD constexpr void add(bits x) noexcept {
    const bits key = static_cast<bits>((x & format::sign) != 0 ? ~x : x | format::sign);
    const bits reverse = static_cast<bits>(~key);
    const bool counts = format::is_finite(x);
    highest = counts && highest < key ? key : highest;
    lowest = counts && lowest < reverse ? reverse : lowest;
  }
  /// Returns the range so far.
  TUCK_HD constexpr range_keys keys() const noexcept { return {lowest, highest}; }

  /// Returns the lowest value. `keys.lowest` must not be 0.
  TUCK_HD static real lowest_of(const range_keys& keys) noexcept { return value(static_cast<bits>(~keys.lowest)); }
  /// Returns the highest value. `keys.highest` must not be 0.
  TUCK_HD static real highest_of(const range_keys& keys) noexcept { return value(static_cast<bits>(keys.highest)); }

 private:
  TUCK_HD static real value(bits key) noexcept {
    return format::widen(static_cast<bits>((key & format::sign) != 0 ? key ^ format::sign : ~key));
  }
};

}  // namespace tuck::inline TUCK_ABI
