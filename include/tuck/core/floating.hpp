// The formats of the floating-point elements, and exact ways between them, on bit patterns.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/dtype.hpp>

namespace tuck::inline TUCK_ABI {

TUCK_HD constexpr bool is_floating(dtype t) noexcept {
  return t == dtype::f16 || t == dtype::bf16 || t == dtype::f32 || t == dtype::f64;
}

template <class T>
concept floating_element = element<T> && is_floating(dtype_of<T>);

template <floating_element T> struct float_format {
  using bits = bits_t<T>;
  using real = std::conditional_t<sizeof(T) == 8, double, float>;  // in which values are computed with

  static constexpr uint32_t mantissa_bits = dtype_of<T> == dtype::f64    ? 52
                                            : dtype_of<T> == dtype::f32  ? 23
                                            : dtype_of<T> == dtype::bf16 ? 7
                                                                         : 10;
  static constexpr uint32_t exponent_bits = 8 * sizeof(T) - 1 - mantissa_bits;
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr bits sign = bits{1} << (8 * sizeof(T) - 1);
  static constexpr bits smallest_normal = bits{1} << mantissa_bits;
  static constexpr bits infinity = ((bits{1} << exponent_bits) - 1) << mantissa_bits;

  // Without its sign.
  TUCK_HD static constexpr bits magnitude(bits x) noexcept { return static_cast<bits>(x & ~sign); }
  TUCK_HD static constexpr bool is_finite(bits x) noexcept { return magnitude(x) < infinity; }

  // Exact.
  TUCK_HD static real widen(bits x) noexcept;
  // Rounded to nearest, ties to even, too much to infinity. `x` is no NaN.
  TUCK_HD static bits narrow(real x) noexcept;
};

namespace detail {

TUCK_HD inline float f16_to_f32(uint16_t x) noexcept {
#if defined(__CUDA_ARCH__)
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x));
  return r;
#else
  const uint32_t sign = static_cast<uint32_t>(x & 0x8000u) << 16, magnitude = x & 0x7fffu;
  if (magnitude >= 0x7c00) return __builtin_bit_cast(float, sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude >= 0x0400) return __builtin_bit_cast(float, sign | ((magnitude << 13) + ((127u - 15u) << 23)));
  // A denormal is its mantissa in units of 2^-24: exact, and normal in binary32.
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return __builtin_bit_cast(float, sign | bits_of(value));
#endif
}

TUCK_HD inline uint16_t f32_to_f16(float value) noexcept {
#if defined(__CUDA_ARCH__)
  uint16_t r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(value));
  return r;
#else
  const uint32_t x = bits_of(value), sign = x >> 16 & 0x8000u, magnitude = x & 0x7fffffffu;
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and more
  if (magnitude < 0x33000000u) return static_cast<uint16_t>(sign);             // less than 2^-25
  // Mantissa with its leading one, and how many of its bits a result with such an exponent loses.
  const uint32_t exponent = magnitude >> 23, lost = exponent >= 113 ? 13 : 126 - exponent;
  const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
  const uint32_t kept = mantissa >> lost, rest = mantissa & ((1u << lost) - 1), half = 1u << (lost - 1);
  const uint32_t rounded = kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1u : 0u);
  // The leading one adds one to the exponent, and so does a carry.
  return static_cast<uint16_t>(sign | (exponent >= 113 ? rounded + ((exponent - 113) << 10) : rounded));
#endif
}

}  // namespace detail

template <floating_element T> TUCK_HD inline auto float_format<T>::widen(bits x) noexcept -> real {
  if constexpr (dtype_of<T> == dtype::f16) return detail::f16_to_f32(x);
  if constexpr (dtype_of<T> == dtype::bf16) return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16);
  if constexpr (sizeof(T) >= 4) return __builtin_bit_cast(real, x);
}

template <floating_element T> TUCK_HD inline auto float_format<T>::narrow(real x) noexcept -> bits {
  if constexpr (dtype_of<T> == dtype::f16) return detail::f32_to_f16(x);
  if constexpr (dtype_of<T> == dtype::bf16) {
    const uint32_t wide = bits_of(x);
    return static_cast<bits>((wide + 0x7fffu + (wide >> 16 & 1)) >> 16);
  }
  if constexpr (sizeof(T) >= 4) return bits_of(x);
}

}  // namespace tuck::inline TUCK_ABI
