// The lowest and the highest finite value of a tensor, in a form that merges in any order.
#pragma once

#include <tuck/core/floating.hpp>

namespace tuck::inline TUCK_ABI {

// Of keys in the order of the values; `lowest` is of complements, so that both are the larger of two. 0: none yet.
struct range_keys {
  uint64_t lowest = 0, highest = 0;

  TUCK_HD constexpr void add(const range_keys& other) noexcept {
    lowest = lowest < other.lowest ? other.lowest : lowest;
    highest = highest < other.highest ? other.highest : highest;
  }
};

template <floating_element T> struct value_range {
  using format = float_format<T>;
  using bits = bits_t<T>;
  using real = typename format::real;

  bits lowest = 0, highest = 0;

  TUCK_HD constexpr void add(bits x) noexcept {
    const bits key = static_cast<bits>((x & format::sign) != 0 ? ~x : x | format::sign);
    const bits reverse = static_cast<bits>(~key);
    const bool counts = format::is_finite(x);
    highest = counts && highest < key ? key : highest;
    lowest = counts && lowest < reverse ? reverse : lowest;
  }
  TUCK_HD constexpr range_keys keys() const noexcept { return {lowest, highest}; }

  // Of keys that are not 0.
  TUCK_HD static real lowest_of(const range_keys& keys) noexcept { return value(static_cast<bits>(~keys.lowest)); }
  TUCK_HD static real highest_of(const range_keys& keys) noexcept { return value(static_cast<bits>(keys.highest)); }

 private:
  TUCK_HD static real value(bits key) noexcept {
    return format::widen(static_cast<bits>((key & format::sign) != 0 ? key ^ format::sign : ~key));
  }
};

}  // namespace tuck::inline TUCK_ABI
