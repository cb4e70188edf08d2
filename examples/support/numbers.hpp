// Element values as numbers, without rounding.
#pragma once

#include <tuck/core/floating.hpp>

#include <limits>
#include <type_traits>

namespace tuck::tools {

// f32, f64 and the integers of up to 32 bits, whose every value is a double.
template <class T>
concept exact_in_double =
    std::is_arithmetic_v<T> && (std::numeric_limits<T>::digits <= std::numeric_limits<double>::digits);

template <exact_in_double T> constexpr double to_double(T value) noexcept { return static_cast<double>(value); }

// A NaN stays one.
template <floating_element T>
  requires(sizeof(T) <= 2)
double to_double(T value) noexcept {
  return float_format<T>::widen(value.bits);
}

// Holds every T, and differences of two within its own rounding: of 64-bit integers exactly, of doubles without
// overflow. Neither squares of differences nor their quotients leave its range.
template <element T> using wide = std::conditional_t<sizeof(T) == 8, long double, double>;
static_assert(std::numeric_limits<long double>::digits >= 64 && std::numeric_limits<long double>::max_exponent > 4096);

template <element T> wide<T> widen(T value) noexcept {
  if constexpr (sizeof(T) == 8)
    return static_cast<long double>(value);
  else
    return to_double(value);
}

}  // namespace tuck::tools
