// Error bounds: how far a restored value may be from the original.
#pragma once

#include <tuck/core/bits.hpp>

namespace tuck::inline TUCK_ABI {

/// What a bound limits. x' is the restored value of x. Stored in frame headers: append values, never renumber them.
enum class bound_mode : uint8_t {
  absolute = 0,        ///< |x - x'| <= value
  range_relative = 1,  ///< |x - x'| <= value * (highest - lowest), over the finite values of the tensor
  pointwise = 2,       ///< |x - x'| <= value * |x|
};

/// Returns the name of a mode, as the command line uses it.
TUCK_HD constexpr const char* name(bound_mode mode) noexcept {
  switch (mode) {
    case bound_mode::absolute: return "absolute";
    case bound_mode::range_relative: return "range";
    case bound_mode::pointwise: return "pointwise";
  }
  return "unknown";
}

/// An error bound of quantize.
struct error_bound {
  /// What the value limits.
  bound_mode mode = bound_mode::absolute;
  /// The bound. It must be positive and finite, else encoding fails with bad_bound. For 16- and 32-bit types, a bound
  /// above 2^120 is treated as 2^120. Below 2^-125 nothing is quantized and chunks are stored raw. For f64 the limits
  /// are 2^1000 and 2^-1000. The same limits apply to the product of a range-relative bound and its range.
  double value = 0;

  /// If not null, the device address of the bound, which replaces `value`. The encode kernel reads it when it runs, so
  /// a captured graph uses the current value. If that is not positive and finite, the outcome is bad_bound. Encoding on
  /// the host returns invalid_argument.
  const double* on_device = nullptr;

  /// Makes a bound of |x - x'|.
  static constexpr error_bound absolute(double value) noexcept { return {bound_mode::absolute, value, nullptr}; }
  /// Makes a bound of |x - x'| relative to the range of the finite values.
  static constexpr error_bound range_relative(double value) noexcept {
    return {bound_mode::range_relative, value, nullptr};
  }
  /// Makes a bound of |x - x'| relative to |x|.
  static constexpr error_bound pointwise(double value) noexcept { return {bound_mode::pointwise, value, nullptr}; }
};

namespace detail {

// Returns whether a double is positive and finite, from its bits: kernels then need no arithmetic on doubles.
TUCK_HD constexpr bool is_bound(uint64_t bits) noexcept { return bits != 0 && bits < uint64_t{0x7ff} << 52; }

// Returns the exponent of the largest power of two that is not above a bound.
TUCK_HD constexpr int exponent_of(uint64_t bits) noexcept { return static_cast<int>(bits >> 52) - 1023; }

// Rounds a positive double towards zero to a Real. Returns at most 2^120, and 0 below 2^-125; for double the limits are
// 2^1000 and 2^-1000. In between, everything that quantizing computes with the result is a normal number.
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
// Rounds such a double to the nearest float, with the same limits of 2^120 and 2^-125.
TUCK_HD constexpr float nearest_f32(uint64_t bits) noexcept { return tolerance_of<float>(bits + (uint64_t{1} << 28)); }
// Returns whether nearest_f32 can return a float with these bits.
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
