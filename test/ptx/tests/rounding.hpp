// Rounding for the references: what IEEE 754 says, from the machine's own rounding modes and from exact values.
#pragma once

#include <cfenv>
#include <cmath>
#include <limits>

#include "forms.hpp"

namespace proof {

struct mode {
  const char *name, *to_integer;
  int machine;
};
constexpr mode modes[] = {
    {"rn", "rni", FE_TONEAREST}, {"rz", "rzi", FE_TOWARDZERO}, {"rm", "rmi", FE_DOWNWARD}, {"rp", "rpi", FE_UPWARD}};

class rounding {
 public:
  explicit rounding(const mode& m) { std::fesetround(m.machine); }
  rounding(const rounding&) = delete;
  rounding& operator=(const rounding&) = delete;
  ~rounding() { std::fesetround(FE_TONEAREST); }
};

// Kept from the optimiser, which knows one rounding mode only.
template <class T> [[gnu::noinline]] T hidden(T v) {
  volatile T copy = v;
  return copy;
}

// f of these types, rounded so.
template <class... A, class F> auto under(const mode& m, F f) {
  return [=](A... a) {
    const rounding r(m);
    return hidden(f(hidden(a)...));
  };
}

template <class T> bool subnormal(T v) { return std::fpclassify(v) == FP_SUBNORMAL; }
template <class T> T flushed(T v) { return subnormal(v) ? std::copysign(T{0}, v) : v; }
// A flushed result; open where rounding has just made it the least normal number.
inline std::optional<float> flushed_result(float v) {
  if (std::fabs(v) == std::numeric_limits<float>::min()) return std::nullopt;
  return flushed(v);
}
template <class T> T clamped(T v) {  // .sat
  return !(v > T{0}) ? T{0} : std::min(v, T{1});
}

inline long double narrow_value(uint16_t bits, int fraction) {
  const int top = 0x7fff >> fraction, exponent = (bits & 0x7fff) >> fraction, bias = top >> 1;
  const int digits = bits & ((1 << fraction) - 1);
  long double v = std::ldexp(static_cast<long double>(exponent ? digits + (1 << fraction) : digits),
                             (exponent ? exponent : 1) - bias - fraction);
  if (exponent == top) v = digits ? std::numeric_limits<long double>::quiet_NaN() : HUGE_VALL;
  return bits & 0x8000 ? -v : v;
}
inline long double value(half h) { return narrow_value(h.bits, 10); }
inline long double value(bfloat h) { return narrow_value(h.bits, 7); }
inline long double value(float v) { return v; }
inline long double value(double v) { return v; }

// The 16-bit float for x: by search among all, which are in order.
inline uint16_t narrow(long double x, int fraction, const mode& m) {
  const auto infinity = static_cast<uint16_t>(0x7fff >> fraction << fraction);
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return 0x7fff;
  const long double v = std::fabs(x);
  if (std::isinf(v)) return sign | infinity;
  const auto at = [&](int n) {  // as if exponents went on
    return n == infinity ? 2 * narrow_value(static_cast<uint16_t>(infinity - (1 << fraction)), fraction)
                         : narrow_value(static_cast<uint16_t>(n), fraction);
  };
  int low = 0, high = infinity;
  if (v >= at(infinity)) low = infinity - 1;
  while (high - low > 1) (at((low + high) / 2) <= v ? low : high) = (low + high) / 2;
  if (at(low) == v) return static_cast<uint16_t>(sign | low);
  const long double middle = (at(low) + at(high)) / 2;
  bool up = v > middle || (v == middle && low % 2 == 1);
  if (m.machine == FE_TOWARDZERO) up = false;
  if (m.machine == FE_UPWARD) up = sign == 0;
  if (m.machine == FE_DOWNWARD) up = sign != 0;
  return static_cast<uint16_t>(sign | (up ? high : low));
}

// x as an integer T: rounded, then the nearest T; of NaN what the ISA's table says.
template <class T> T to_integer(long double x, const mode& m, bool from_double) {
  if (std::isnan(x)) return from_double || sizeof(T) == 8 ? static_cast<T>(uint64_t{1} << (sizeof(T) * 8 - 1)) : T{0};
  const rounding r(m);
  const long double v = std::nearbyint(hidden(x));
  using limits = std::numeric_limits<T>;
  if (v <= static_cast<long double>(limits::min())) return limits::min();
  if (v >= static_cast<long double>(limits::max())) return limits::max();
  return static_cast<T>(v);
}

}  // namespace proof
