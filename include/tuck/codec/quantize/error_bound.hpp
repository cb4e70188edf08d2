// How far a restored value may be from the original.
#pragma once

#include <tuck/core/bits.hpp>

namespace tuck::inline TUCK_ABI {

// Stored in frame headers: append, never renumber.
enum class bound_mode : uint8_t {
  absolute = 0,        // |x - x'| <= value
  range_relative = 1,  // |x - x'| <= value * (highest - lowest), over the finite values of the tensor
  pointwise = 2,       // |x - x'| <= value * |x|
};

TUCK_HD constexpr const char* name(bound_mode mode) noexcept {
  switch (mode) {
    case bound_mode::absolute: return "absolute";
    case bound_mode::range_relative: return "range";
    case bound_mode::pointwise: return "pointwise";
  }
  return "unknown";
}

struct error_bound {
  bound_mode mode = bound_mode::absolute;
  // Positive and finite, else bad_bound. For 16- and 32-bit types more than 2^120 counts as 2^120, and below 2^-125
  // nothing is quantized: chunks are stored raw. For f64 that is 2^1000 and 2^-1000. The same limits hold for what a
  // range makes of it.
  double value = 0;

  // Where the value is instead, if not null: device memory that is read when the encode kernel runs, so that a captured
  // graph follows it. A value there that is no bound gives the outcome bad_bound. Encoding on the host refuses it.
  const double* on_device = nullptr;

  static constexpr error_bound absolute(double value) noexcept { return {bound_mode::absolute, value, nullptr}; }
  static constexpr error_bound range_relative(double value) noexcept {
    return {bound_mode::range_relative, value, nullptr};
  }
  static constexpr error_bound pointwise(double value) noexcept { return {bound_mode::pointwise, value, nullptr}; }
};

namespace detail {

// Positive and finite? Of a double's bits: neither comparisons nor kernels need doubles for it.
TUCK_HD constexpr bool is_bound(uint64_t bits) noexcept { return bits != 0 && bits < uint64_t{0x7ff} << 52; }

// The largest power of two not above a bound, as its exponent.
TUCK_HD constexpr int exponent_of(uint64_t bits) noexcept { return static_cast<int>(bits >> 52) - 1023; }

// A positive double as a Real that is not larger: at most 2^120, and 0 for less than 2^-125; of double 2^1000 and
// 2^-1000. In between all that quantizing computes with it stays among the normal numbers.
template <class Real> TUCK_HD constexpr Real tolerance_of(uint64_t bits) noexcept {
  constexpr bool wide = sizeof(Real) == 8;
  const int exponent = exponent_of(bits);
  if (exponent >= (wide ? 1000 : 120)) return static_cast<Real>(wide ? 0x1p1000 : 0x1p120);
  if (exponent < (wide ? -1000 : -125)) return 0;
  if constexpr (wide)
    return __builtin_bit_cast(double, bits);
  else
    return __builtin_bit_cast(
        float, static_cast<uint32_t>(exponent + 127) << 23 | (static_cast<uint32_t>(bits >> 29) & 0x7fffffu));
}
// The float nearest to such a double; 0 below and 2^120 above the same limits.
TUCK_HD constexpr float nearest_f32(uint64_t bits) noexcept { return tolerance_of<float>(bits + (uint64_t{1} << 28)); }
// Are these the bits of what it gives?
TUCK_HD constexpr bool is_nearest_f32(uint32_t bits) noexcept {
  return bits == 0 || (bits >= bits_of(0x1p-125f) && bits <= bits_of(0x1p120f));
}
TUCK_HD constexpr uint64_t f64_bits_of(float tolerance) noexcept {
  const uint32_t bits = bits_of(tolerance);
  if (bits == 0) return 0;
  return ((bits >> 23) - 127 + uint64_t{1023}) << 52 | uint64_t{bits & 0x7fffffu} << 29;
}
TUCK_HD constexpr uint64_t f64_bits_of(double tolerance) noexcept { return bits_of(tolerance); }

}  // namespace detail

}  // namespace tuck::inline TUCK_ABI
