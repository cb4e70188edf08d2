// The formats of the floating-point elements, and exact ways between them, on bit patterns.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/dtype.hpp>
#include <tuck/core/exact.hpp>

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
  // A denormal is its mantissa in units of 2^-24; infinities and NaN have the highest exponent there too.
  const uint32_t denormal = bits_of(exact::mul(static_cast<float>(static_cast<int32_t>(magnitude)), 0x1p-24f));
  const uint32_t normal = (magnitude << 13) + (magnitude >= 0x7c00 ? (255u - 31u) << 23 : (127u - 15u) << 23);
  return __builtin_bit_cast(float, sign | (magnitude < 0x0400 ? denormal : normal));
#endif
}

TUCK_HD inline uint16_t f32_to_f16(float value) noexcept {
#if defined(__CUDA_ARCH__)
  uint16_t r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(value));
  return r;
#else
  const uint32_t x = bits_of(value), sign = x >> 16 & 0x8000u, magnitude = x & 0x7fffffffu;
  // Adding a half, whose last place is 2^-24, rounds to a denormal; half of the last place less one, or all of it where
  // the place above is odd, to a normal number. Without branches, so that loops become vectors.
  const uint32_t denormal = bits_of(exact::add(__builtin_bit_cast(float, magnitude), .5f)) - bits_of(.5f);
  const uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xfffu + (magnitude >> 13 & 1)) >> 13;
  const uint32_t finite = magnitude < (127u - 14u) << 23 ? denormal : normal;
  return static_cast<uint16_t>(sign | (magnitude >= bits_of(65520.f) ? 0x7c00u : finite));
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
