// SPDX-License-Identifier: Apache-2.0
// Exact arithmetic: each operation is one IEEE 754 operation, rounded to nearest, with the same bits on every machine
// and with every optimization flag. Without this, -ffast-math and -use_fast_math would contract, reorder or approximate
// the operations. On a CPU that flushes denormals, denormal results may be zero; callers must tolerate this. The CPU
// must round to nearest, which is its default. x86 must compute with SSE, as all 64-bit compilers do unless told to use
// x87.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/standard.hpp>

namespace tuck::inline TUCK_ABI::exact {

// exact::add, exact::sub and exact::mul of two floats, two doubles, or the bit patterns of such. With bit patterns,
// kernels keep a value in one register throughout.
#if defined(__CUDA_ARCH__)
#define TUCK_EXACT(type, constraint, name, operation, instruction)                      \
  TUCK_HD inline type name(type a, type b) noexcept {                                   \
    type r;                                                                             \
    asm(instruction " %0, %1, %2;" : "=" constraint(r) : constraint(a), constraint(b)); \
    return r;                                                                           \
  }
#define TUCK_EXACT_BITS(type, real, constraint, name, instruction) TUCK_EXACT(type, constraint, name, , instruction)
#else
#define TUCK_EXACT(type, constraint, name, operation, instruction) \
  TUCK_HD inline type name(type a, type b) noexcept {              \
    type r = a operation b;                                        \
    TUCK_OPAQUE(r);                                                \
    return r;                                                      \
  }
#define TUCK_EXACT_BITS(type, real, constraint, name, instruction)                                          \
  TUCK_HD inline type name(type a, type b) noexcept {                                                       \
    return __builtin_bit_cast(type, exact::name(__builtin_bit_cast(real, a), __builtin_bit_cast(real, b))); \
  }
#endif
#define TUCK_EXACT_ALL(float32, float64, uint32, uint64)   \
  TUCK_EXACT(float32, "f", add, +, "add.rn.f32")           \
  TUCK_EXACT(float32, "f", sub, -, "sub.rn.f32")           \
  TUCK_EXACT(float32, "f", mul, *, "mul.rn.f32")           \
  TUCK_EXACT(float64, "d", add, +, "add.rn.f64")           \
  TUCK_EXACT(float64, "d", sub, -, "sub.rn.f64")           \
  TUCK_EXACT(float64, "d", mul, *, "mul.rn.f64")           \
  TUCK_EXACT_BITS(uint32, float32, "r", add, "add.rn.f32") \
  TUCK_EXACT_BITS(uint32, float32, "r", sub, "sub.rn.f32") \
  TUCK_EXACT_BITS(uint32, float32, "r", mul, "mul.rn.f32") \
  TUCK_EXACT_BITS(uint64, float64, "l", add, "add.rn.f64") \
  TUCK_EXACT_BITS(uint64, float64, "l", sub, "sub.rn.f64") \
  TUCK_EXACT_BITS(uint64, float64, "l", mul, "mul.rn.f64")

TUCK_EXACT_ALL(float, double, uint32_t, uint64_t)

// Loops on the CPU compute with lanes<Word>, a vector of 16 bytes of bit patterns, because compilers do not vectorize
// operations that TUCK_OPAQUE hides. nvcc allows no vectors in functions that are also device functions: there
// lanes<Word> is Word.
#if defined(__CUDACC__)
template <class Word> using lanes = Word;
#else
using f32_lanes [[gnu::vector_size(16)]] = float;
using f64_lanes [[gnu::vector_size(16)]] = double;
using u32_lanes [[gnu::vector_size(16)]] = uint32_t;
using u64_lanes [[gnu::vector_size(16)]] = uint64_t;
TUCK_EXACT_ALL(f32_lanes, f64_lanes, u32_lanes, u64_lanes)
template <class Word> using lanes = std::conditional_t<sizeof(Word) == 4, u32_lanes, u64_lanes>;
#endif

#undef TUCK_EXACT
#undef TUCK_EXACT_BITS
#undef TUCK_EXACT_ALL

// Returns all ones if the top bit of x is set, else 0. W is a word or lanes of words.
template <class W> TUCK_HD constexpr W sign_mask(W x) noexcept {
  if constexpr (std::is_integral_v<W>)
    return static_cast<W>(static_cast<std::make_signed_t<W>>(x) >> (8 * sizeof(W) - 1));
  else
    return __builtin_bit_cast(W, __builtin_bit_cast(decltype(x < W{}), x) < 0);
}

}  // namespace tuck::inline TUCK_ABI::exact
