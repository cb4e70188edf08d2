// SPDX-License-Identifier: Apache-2.0
// Integer utilities: bit patterns of values, counting, rounding, unaligned little-endian access.
#pragma once

#include <tuck/core/config.hpp>
#include <tuck/core/standard.hpp>

namespace tuck::inline TUCK_ABI {

/// Unsigned integer type of Size bytes: 1, 2, 4 or 8.
template <size_t Size> struct uint_of_size {
  using type = std::conditional_t<(Size < 4), std::conditional_t<Size == 1, uint8_t, uint16_t>,
                                  std::conditional_t<Size == 4, uint32_t, uint64_t>>;
};

/// Unsigned integer type of the same size as T.
template <class T> using bits_t = typename uint_of_size<sizeof(T)>::type;

/// Returns the bit pattern of a value; lossless codecs compare only these.
template <class T> TUCK_HD constexpr bits_t<T> bits_of(T value) noexcept {
  return __builtin_bit_cast(bits_t<T>, value);
}

/// Returns one ? a : b for unsigned integers, without a branch, so that compilers vectorize loops that use it.
template <class U> TUCK_HD constexpr U select(bool one, U a, U b) noexcept {
  const auto mask = static_cast<U>(U{0} - U{one});
  return static_cast<U>((a & mask) | (b & ~mask));
}

/// Returns the bits of `a` that the mask selects, and the other bits of `b`.
template <class U> TUCK_HD constexpr U select_bits(U mask, U a, U b) noexcept {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(U) == 4) {
    U x = 0;
    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(x) : "r"(mask), "r"(a), "r"(b));
    return x;
  }
#endif
  return static_cast<U>((a & mask) | (b & ~mask));
}

/// Returns the number of set bits.
TUCK_HD constexpr uint32_t popcount(uint32_t x) noexcept {
#if defined(__CUDA_ARCH__)
  return static_cast<uint32_t>(__popc(x));
#elif defined(__x86_64__) && !defined(__POPCNT__)
  // Without the instruction, std::popcount is a call.
  x -= x >> 1 & 0x55555555u;
  x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
  return ((x + (x >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
#else
  return static_cast<uint32_t>(std::popcount(x));
#endif
}

/// Returns the number of zeros below the lowest set bit, or 32 if there is none.
TUCK_HD constexpr uint32_t trailing_zeros(uint32_t x) noexcept {
#if defined(__CUDA_ARCH__)
  return popcount((x & (0 - x)) - 1);
#else
  return static_cast<uint32_t>(std::countr_zero(x));
#endif
}

/// Returns the number of bits up to the highest set bit; 0 for x = 0.
TUCK_HD constexpr uint32_t bit_width(uint32_t x) noexcept {
#if defined(__CUDA_ARCH__)
  return 32 - static_cast<uint32_t>(__clz(static_cast<int>(x)));
#else
  return 32 - static_cast<uint32_t>(std::countl_zero(x));
#endif
}
/// Returns the number of bits up to the highest set bit; 0 for x = 0.
TUCK_HD constexpr uint32_t bit_width(uint64_t x) noexcept {
  const auto high = static_cast<uint32_t>(x >> 32);
  return high != 0 ? 32 + tuck::bit_width(high) : tuck::bit_width(static_cast<uint32_t>(x));
}

/// Reverses the order of the 32 bits.
TUCK_HD constexpr uint32_t reverse_bits(uint32_t x) noexcept {
#if defined(__CUDA_ARCH__)
  return __brev(x);
#else
  x = (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
  x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
  x = (x & 0x0f0f0f0fu) << 4 | (x >> 4 & 0x0f0f0f0fu);
  x = (x & 0x00ff00ffu) << 8 | (x >> 8 & 0x00ff00ffu);
  return x << 16 | x >> 16;
#endif
}

/// Returns four bits that say which bytes of a word are not 0.
TUCK_HD constexpr uint32_t non_zero_nibble(uint32_t x) noexcept {
  return ((((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x) & 0x80808080u) * 0x00204081u >> 28;
}

/// Returns the low word of (high:low) >> n, 0 <= n < 32.
TUCK_HD constexpr uint32_t shift_right(uint32_t low, uint32_t high, uint32_t n) noexcept {
#if defined(__CUDA_ARCH__)
  return __funnelshift_r(low, high, n);
#else
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> n);
#endif
}

/// Returns a word with the lowest n bits set, 0 <= n <= 32.
TUCK_HD constexpr uint32_t low_mask(uint32_t n) noexcept { return n >= 32 ? ~0u : (1u << n) - 1; }

/// Returns a / b rounded up.
template <class U> TUCK_HD constexpr U ceil_div(U a, U b) noexcept { return a / b + (a % b != 0); }

/// Returns x rounded up to a multiple of 2^log2. The result must fit in U.
template <class U> TUCK_HD constexpr U round_up_pow2(U x, unsigned log2) noexcept {
  const U low = (U{1} << log2) - 1;
  return (x + low) & ~low;
}

/// Reads a value at any alignment.
template <class T> TUCK_HD T load_unaligned(const std::byte* p) noexcept {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
/// Writes a value at any alignment.
template <class T> TUCK_HD void store_unaligned(std::byte* p, T v) noexcept { std::memcpy(p, &v, sizeof v); }

/// Returns bits_of(values[i]), for use in loops. g++ 12.2 -O3 with AVX-512 miscompiles comparisons of bit casts of
/// neighbouring doubles; reading integers from memory avoids that.
template <class T> TUCK_HD bits_t<T> bits_at(const T* values, uint64_t i) noexcept {
  return load_unaligned<bits_t<T>>(reinterpret_cast<const std::byte*>(values + i));
}

/// Returns a + b, or the largest value on overflow. For sizes from untrusted input: no buffer is that large.
TUCK_HD constexpr uint64_t saturating_add(uint64_t a, uint64_t b) noexcept {
  return a > ~uint64_t{0} - b ? ~uint64_t{0} : a + b;
}
/// Returns a * b, or the largest value on overflow.
TUCK_HD constexpr uint64_t saturating_mul(uint64_t a, uint64_t b) noexcept {
  return b != 0 && a > ~uint64_t{0} / b ? ~uint64_t{0} : a * b;
}

/// Returns whether p is a multiple of `alignment`.
TUCK_HD inline bool aligned(const void* p, uint64_t alignment) noexcept {
  return reinterpret_cast<uintptr_t>(p) % alignment == 0;
}

}  // namespace tuck::inline TUCK_ABI
