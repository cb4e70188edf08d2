// Is a restored value within its error bound? Decided exactly, by arithmetic that is not the library's.
#pragma once

#include <tuck/codec/chain/chains.hpp>
#include <tuck/codec/quantize/quantize.hpp>

#include <bit>
#include <cmath>

namespace tuck::test {

// The value of a pattern that is finite.
template <floating_element T> double exact_value(bits_t<T> x) {
  using format = float_format<T>;
  if constexpr (sizeof(T) <= 2) {
    const int biased = (x & format::infinity) >> format::mantissa_bits;
    const int fraction = x & (format::smallest_normal - 1);
    const int whole = biased == 0 ? fraction : fraction + format::smallest_normal;
    const double magnitude =
        std::ldexp(whole, (biased == 0 ? 1 : biased) - format::bias - static_cast<int>(format::mantissa_bits));
    return (x & format::sign) != 0 ? -magnitude : magnitude;
  } else {
    return std::bit_cast<T>(x);
  }
}

// |x - y| <= bound, or <= bound * |x|, of finite numbers, whatever the roundings of the arithmetic here.
inline bool is_within(double x, double y, bound_mode mode, double bound) {
  if (x == y) return true;
  if (mode == bound_mode::pointwise && std::fabs(x) < 0x1p-500) x *= 0x1p300, y *= 0x1p300;
  if (!std::isfinite(x - y)) return is_within(x / 4, y / 4, mode, mode == bound_mode::pointwise ? bound : bound / 4);
  // The difference is d + rest exactly (Knuth's two-sum).
  const double d = std::fabs(x - y), a = x > y ? x : y, b = x > y ? y : x;
  const double back = d - a, rest = (a - (d - back)) + (-b - back);
  if (mode != bound_mode::pointwise) return d < bound || (d == bound && rest <= 0);
  if (bound >= 0x1p900) return true;
  // And the limit is p + more.
  const double p = bound * std::fabs(x);
  if (d < p * (1 - 0x1p-40) || d > p * (1 + 0x1p-40)) return d < p;
  return d - p <= std::fma(bound, std::fabs(x), -p) - rest;
}

// May decoding by this codec, with its effective bound, give `restored` for x? Zeros become 0.0, and what is not finite
// is as it was.
template <floating_element T> bool allows(const quantize<T>& codec, T x, T restored) {
  using format = float_format<T>;
  const bits_t<T> before = bits_of(x), after = bits_of(restored);
  if (before == after) return true;
  if (!format::is_finite(before) || !format::is_finite(after)) return false;
  if (format::magnitude(before) == 0) return after == 0;
  return is_within(exact_value<T>(before), exact_value<T>(after), codec.mode(), codec.effective_bound());
}
template <floating_element T, class... Stages>
bool allows(const chain<quantize_codes<T>, Stages...>& codec, T x, T restored) {
  return allows(codec.template stage<0>().rule(), x, restored);
}

}  // namespace tuck::test
