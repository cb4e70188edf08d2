// The formats of the floating-point element types, and conversions between them on bit patterns.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/dtype.hpp>
#include <tuck/core/exact.hpp>

namespace tuck::inline TUCK_ABI {

/// Returns whether t is a floating-point type.
TUCK_HD constexpr bool is_floating(dtype t) noexcept {
  return t == dtype::f16 || t == dtype::bf16 || t == dtype::f32 || t == dtype::f64;
}

/// An element type with a floating-point format.
template <class T>
concept floating_element = element<T> && is_floating(dtype_of<T>);

/// Format of a floating-point element type, and conversions to and from the type that computes with it.
/// @tparam T floating-point element type
template <floating_element T> struct float_format {
  using bits = bits_t<T>;                                          ///< bit pattern of a value
  using real = std::conditional_t<sizeof(T) == 8, double, float>;  ///< type for arithmetic

  /// Number of mantissa bits that are stored.
  static constexpr uint32_t mantissa_bits = dtype_of<T> == dtype::f64    ? 52
                                            : dtype_of<T> == dtype::f32  ? 23
                                            : dtype_of<T> == dtype::bf16 ? 7
                                                                         : 10;
  static constexpr uint32_t exponent_bits = 8 * sizeof(T) - 1 - mantissa_bits;  ///< number of exponent bits
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;                   ///< of the exponent
  static constexpr bits sign = bits{1} << (8 * sizeof(T) - 1);                  ///< the sign bit
  static constexpr bits smallest_normal = bits{1} << mantissa_bits;             ///< the least positive normal number
  static constexpr bits infinity = ((bits{1} << exponent_bits) - 1) << mantissa_bits;  ///< positive infinity

  /// Returns x without its sign.
  TUCK_HD static constexpr bits magnitude(bits x) noexcept { return static_cast<bits>(x & ~sign); }
  /// Returns whether x is neither infinite nor NaN.
  TUCK_HD static constexpr bool is_finite(bits x) noexcept { return magnitude(x) < infinity; }

  /// Converts exactly to `real`.
  TUCK_HD static real widen(bits x) noexcept;
  /// Rounds to nearest, ties to even; overflows to infinity. `x` must not be NaN.
  TUCK_HD static bits narrow(real x) noexcept;
  /// Converts the bits of two f32 to a 16-bit type like narrow; `high` goes to the upper half of the result.
  TUCK_HD static uint32_t narrow_two(uint32_t low, uint32_t high) noexcept;
  /// Returns widen(x) for a finite x, and any number for others; is_finite() distinguishes them.
  TUCK_HD static real widen_finite(bits x) noexcept;
  /// Returns widen(narrow(x)), except for the sign of zeros. On overflow the result is above the largest finite value.
  TUCK_HD static real rounded(real x) noexcept;
};

namespace detail {

// Converts infinities and NaN to any number of at least 2^16.
TUCK_HD inline float finite_f16_to_f32(uint16_t x) noexcept {
#if defined(__CUDA_ARCH__)
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
  return r;
#else
  // v is 2^-15 plus half the value of a denormal. Then v - 2^-14 is negative, and adding it to v gives the value.
  const auto wide = static_cast<uint32_t>(static_cast<int16_t>(x));
  const float v = __builtin_bit_cast(float, (wide << 13 & 0x0fffe000u) + ((127u - 15u) << 23));
  const auto above = static_cast<int32_t>(bits_of(exact::sub(v, 0x1p-14f)));
  const float missing = __builtin_bit_cast(float, above >> 31 & above);
  return __builtin_bit_cast(float, (wide & 0x80000000u) | bits_of(exact::add(v, missing)));
#endif
}
TUCK_HD inline float f16_to_f32(uint16_t x) noexcept {
#if defined(__CUDA_ARCH__)
  return finite_f16_to_f32(x);
#else
  const uint32_t finite = bits_of(finite_f16_to_f32(x));
  return __builtin_bit_cast(float, finite | ((x & 0x7fff) >= 0x7c00 ? 0x7f800000u : 0));
#endif
}

// Returns the power of two of a magnitude's binade, at least the least normal number.
TUCK_HD constexpr uint32_t f16_binade(uint32_t magnitude) noexcept {
  const uint32_t power = magnitude & 0x7f800000u, least = (127u - 14u) << 23;
  return power < least ? least : power;
}

TUCK_HD inline uint16_t f32_to_f16(float value) noexcept {
#if defined(__CUDA_ARCH__)
  uint16_t r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(value));
  return r;
#else
  // Rounds to multiples of 2^-10 of the binade, or of the least normal number, by adding a number whose unit in the
  // last place that is. From 2^16 on all results are infinite.
  const uint32_t x = bits_of(value), sign = x >> 16 & 0x8000u, all = x & 0x7fffffffu;
  const uint32_t magnitude = all < bits_of(0x1p16f) ? all : bits_of(0x1p16f);
  const uint32_t binade = f16_binade(magnitude), large = binade + (13u << 23);
  const uint32_t sum = bits_of(exact::add(__builtin_bit_cast(float, magnitude), __builtin_bit_cast(float, large)));
  return static_cast<uint16_t>(sign | (sum - large + (binade >> 13) - ((127u - 14u) << 10)));
#endif
}

// Rounds to f16 and converts back; on overflow the result exceeds the range of f16.
TUCK_HD inline float rounded_to_f16(float value) noexcept {
#if defined(__CUDA_ARCH__)
  return f16_to_f32(f32_to_f16(value));
#else
  const uint32_t large = f16_binade(bits_of(value) & 0x7fffffffu) + (13u << 23 | 1u << 22);  // 1.5 times: for any sign
  const float steps = exact::add(value, __builtin_bit_cast(float, large));
  return exact::sub(steps, __builtin_bit_cast(float, large));
#endif
}

}  // namespace detail

template <floating_element T> TUCK_HD inline auto float_format<T>::widen(bits x) noexcept -> real {
  if constexpr (dtype_of<T> == dtype::f16) return detail::f16_to_f32(x);
  if constexpr (dtype_of<T> == dtype::bf16) return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16);
  if constexpr (sizeof(T) >= 4) return __builtin_bit_cast(real, x);
}

template <floating_element T> TUCK_HD inline auto float_format<T>::widen_finite(bits x) noexcept -> real {
  if constexpr (dtype_of<T> == dtype::f16) return detail::finite_f16_to_f32(x);
  return widen(x);
}

template <floating_element T> TUCK_HD inline auto float_format<T>::narrow(real x) noexcept -> bits {
  if constexpr (dtype_of<T> == dtype::f16) return detail::f32_to_f16(x);
  if constexpr (dtype_of<T> == dtype::bf16) {
    const uint32_t wide = bits_of(x);
    return static_cast<bits>((wide + 0x7fffu + (wide >> 16 & 1)) >> 16);
  }
  if constexpr (sizeof(T) >= 4) return bits_of(x);
}

template <floating_element T> TUCK_HD inline auto float_format<T>::rounded(real x) noexcept -> real {
  if constexpr (dtype_of<T> == dtype::f16) return detail::rounded_to_f16(x);
  if constexpr (dtype_of<T> == dtype::bf16) {
    const uint32_t wide = bits_of(x);
    return __builtin_bit_cast(float, (wide + 0x7fffu + (wide >> 16 & 1)) & 0xffff0000u);
  }
  if constexpr (sizeof(T) >= 4) return x;
}

template <floating_element T>
TUCK_HD inline uint32_t float_format<T>::narrow_two(uint32_t low, uint32_t high) noexcept {
  static_assert(sizeof(T) == 2);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t x;
  if constexpr (dtype_of<T> == dtype::bf16)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "r"(high), "r"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "r"(high), "r"(low));
  return x;
#else
  return narrow(__builtin_bit_cast(float, low)) | static_cast<uint32_t>(narrow(__builtin_bit_cast(float, high))) << 16;
#endif
}

}  // namespace tuck::inline TUCK_ABI
