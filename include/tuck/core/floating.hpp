// SPDX-License-Identifier: Apache-2.0
// The formats of the floating-point element types, conversions between them on bit patterns, and ranges of values.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/dtype.hpp>
#include <tuck/core/exact.hpp>

namespace tuck::inline TUCK_ABI {

/// Returns whether t is a floating-point type.
TUCK_HD constexpr bool is_floating(dtype t) noexcept {
  return t == dtype::f16 || t == dtype::bf16 || t == dtype::f32 || t == dtype::f64 || t == dtype::f8e4m3 ||
         t == dtype::f8e5m2;
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
  static constexpr uint32_t mantissa_bits = dtype_of<T> == dtype::f64      ? 52
                                            : dtype_of<T> == dtype::f32    ? 23
                                            : dtype_of<T> == dtype::bf16   ? 7
                                            : dtype_of<T> == dtype::f16    ? 10
                                            : dtype_of<T> == dtype::f8e4m3 ? 3
                                                                           : 2;
  static constexpr uint32_t exponent_bits = 8 * sizeof(T) - 1 - mantissa_bits;  ///< number of exponent bits
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;                   ///< of the exponent
  static constexpr bits sign = bits{1} << (8 * sizeof(T) - 1);                  ///< the sign bit
  static constexpr bits smallest_normal = bits{1} << mantissa_bits;             ///< the least positive normal number
  /// The least magnitude that is not finite: positive infinity, or the NaN of f8e4m3, which has no infinity.
  static constexpr bits infinity =
      dtype_of<T> == dtype::f8e4m3 ? 0x7f : ((bits{1} << exponent_bits) - 1) << mantissa_bits;

  /// Returns x without its sign.
  TUCK_HD static constexpr bits magnitude(bits x) noexcept { return static_cast<bits>(x & ~sign); }
  /// Returns whether x is neither infinite nor NaN.
  TUCK_HD static constexpr bool is_finite(bits x) noexcept { return magnitude(x) < infinity; }

  /// Converts exactly to `real`.
  TUCK_HD static real widen(bits x) noexcept;
  /// Rounds to nearest, ties to even. Overflows to infinity, f8e4m3 to NaN. `x` must not be NaN.
  TUCK_HD static bits narrow(real x) noexcept;
  /// Converts the bits of two f32 to a 16-bit type like narrow; `high` goes to the upper half of the result.
  TUCK_HD static uint32_t narrow_two(uint32_t low, uint32_t high) noexcept;

  // For types of 2 bytes or more, on bit patterns. W is the bits of `real`, or lanes of such (core/exact.hpp).
  /// Returns widen(x) for a finite x, and any number for others; is_finite() distinguishes them.
  template <class W> TUCK_HD static W widen_finite(W x) noexcept;
  /// Returns widen(narrow(x)), except for the sign of zeros. On overflow the result is above the largest finite value.
  template <class W> TUCK_HD static W rounded(W x) noexcept;
  /// Returns narrow(x).
  template <class W> TUCK_HD static W narrow_bits(W x) noexcept;
};

namespace detail {

// Functions with a parameter W compute with W, a word or lanes of such (core/exact.hpp).

// Converts the bits of f16 to those of f32; infinities and NaN to any number of at least 2^16.
template <class W> TUCK_HD W finite_f16_to_f32(W x) noexcept {
#if defined(__CUDA_ARCH__)
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(static_cast<uint16_t>(x)));
  return bits_of(r);
#else
  // v is 2^-15 plus half the value of a denormal. Then v - 2^-14 is negative, and adding it to v gives the value.
  const W v = (x << 13 & 0x0fffe000u) + ((127u - 15u) << 23);
  const W above = exact::sub(v, W{} + bits_of(0x1p-14f));
  return (x << 16 & 0x80000000u) | exact::add(v, exact::sign_mask(above) & above);
#endif
}
TUCK_HD inline float f16_to_f32(uint16_t x) noexcept {
  const uint32_t finite = finite_f16_to_f32(uint32_t{x});
#if defined(__CUDA_ARCH__)
  return __builtin_bit_cast(float, finite);
#else
  return __builtin_bit_cast(float, finite | ((x & 0x7fff) >= 0x7c00 ? 0x7f800000u : 0));
#endif
}

// A format with few bits. `Least`: the exponent field in f32 of its least normal number. `Spare`: the mantissa bits
// that f32 has in addition.
template <uint32_t Least, uint32_t Spare> struct small_format {
  // Returns the power of two of a magnitude's binade, at least the least normal number.
  template <class W> TUCK_HD static constexpr W binade(W magnitude) noexcept {
    const W power = magnitude & 0x7f800000u, least = W{} + (Least << 23);
    return power < least ? least : power;
  }
  // Returns the pattern of a rounded magnitude; larger magnitudes count as `most`.
  template <class W> TUCK_HD static W narrow(W magnitude, float most) noexcept {
    // Rounds to a multiple of u: the unit in the last place of the binade, at least that of the lowest normal number.
    // Adding a number whose own unit in the last place is u does that.
    const W limit = W{} + bits_of(most);
    magnitude = magnitude < limit ? magnitude : limit;
    const W power = binade(magnitude), large = power + (Spare << 23);
    return exact::add(magnitude, large) - large + ((power >> Spare) - (Least << (23 - Spare)));
  }
};
using small_f16 = small_format<127 - 14, 13>;

// Converts the bits of f32 to those of f16.
template <class W> TUCK_HD W f32_to_f16(W x) noexcept {
#if defined(__CUDA_ARCH__)
  uint16_t r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(__builtin_bit_cast(float, x)));
  return r;
#else
  // From 2^16 on all results are infinite.
  return (x >> 16 & 0x8000u) | small_f16::narrow(x & 0x7fffffffu, 0x1p16f);
#endif
}

// Rounds to f16 and converts back; on overflow the result exceeds the range of f16.
template <class W> TUCK_HD W rounded_to_f16(W x) noexcept {
#if defined(__CUDA_ARCH__)
  return bits_of(f16_to_f32(static_cast<uint16_t>(f32_to_f16(x))));
#else
  const W large = small_f16::binade(x & 0x7fffffffu) + (13u << 23 | 1u << 22);  // 1.5 times: for any sign
  return exact::sub(exact::add(x, large), large);
#endif
}

template <class W> TUCK_HD W rounded_to_bf16(W x) noexcept { return x + 0x7fffu + (x >> 16 & 1); }

// The exponent and mantissa fit in those of an f16, whose value is then 2^-8 of the result.
TUCK_HD inline float f8e4m3_to_f32(uint8_t x) noexcept {
  const uint32_t scaled = finite_f16_to_f32((x & 0x80u) << 8 | (x & 0x7fu) << 7);
  return __builtin_bit_cast(float, exact::mul(scaled, bits_of(0x1p8f)) | ((x & 0x7f) == 0x7f ? 0x7fc00000u : 0));
}

}  // namespace detail

template <floating_element T> TUCK_HD inline auto float_format<T>::widen(bits x) noexcept -> real {
  if constexpr (dtype_of<T> == dtype::f16) return detail::f16_to_f32(x);
  if constexpr (dtype_of<T> == dtype::bf16) return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16);
  if constexpr (dtype_of<T> == dtype::f8e5m2) return detail::f16_to_f32(static_cast<uint16_t>(x << 8));
  if constexpr (dtype_of<T> == dtype::f8e4m3) return detail::f8e4m3_to_f32(x);
  if constexpr (sizeof(T) >= 4) return __builtin_bit_cast(real, x);
}

template <floating_element T> TUCK_HD inline auto float_format<T>::narrow(real x) noexcept -> bits {
  if constexpr (sizeof(T) >= 2) return static_cast<bits>(narrow_bits(bits_of(x)));
  if constexpr (sizeof(T) == 1) {
    const uint32_t wide = bits_of(x);
    using format = detail::small_format<uint32_t{128 - bias}, 23 - mantissa_bits>;
    return static_cast<bits>((wide >> 24 & sign) |
                             format::narrow(wide & 0x7fffffffu, dtype_of<T> == dtype::f8e4m3 ? 480.f : 0x1p16f));
  }
}

template <floating_element T> template <class W> TUCK_HD inline W float_format<T>::widen_finite(W x) noexcept {
  if constexpr (dtype_of<T> == dtype::f16) return detail::finite_f16_to_f32(x);
  if constexpr (dtype_of<T> == dtype::bf16) return x << 16;
  if constexpr (sizeof(T) >= 4) return x;
}

template <floating_element T> template <class W> TUCK_HD inline W float_format<T>::narrow_bits(W x) noexcept {
  if constexpr (dtype_of<T> == dtype::f16) return detail::f32_to_f16(x);
  if constexpr (dtype_of<T> == dtype::bf16) return detail::rounded_to_bf16(x) >> 16;
  if constexpr (sizeof(T) >= 4) return x;
}

template <floating_element T> template <class W> TUCK_HD inline W float_format<T>::rounded(W x) noexcept {
  if constexpr (dtype_of<T> == dtype::f16) return detail::rounded_to_f16(x);
  if constexpr (dtype_of<T> == dtype::bf16) return detail::rounded_to_bf16(x) & 0xffff0000u;
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

// The lowest and the highest finite value of a tensor, as integer keys. Partial results merge in any order.
//
// A key has the order of the values: non-negative values get the sign bit set, negative ones all bits inverted. The
// lowest value is stored as the complement of its key, so that both keys merge by taking the larger value.

/// The range of a tensor's finite values as keys, widened to 64 bits for every element type.
struct range_keys {
  uint64_t lowest = 0;   ///< complement of the lowest value's key; 0: no finite value seen
  uint64_t highest = 0;  ///< key of the highest value; 0: no finite value seen
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
