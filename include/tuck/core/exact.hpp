// Exact arithmetic: each operation is one IEEE 754 operation, rounded to nearest, with the same bits on every machine
// and with every compiler flag. Without this, -ffast-math and -use_fast_math would contract, reorder or approximate. On
// a CPU that flushes denormals, denormal results may be zero; callers must tolerate this. The CPU must round to
// nearest, which is its default. x86 must compute with SSE, as all 64-bit compilers do unless told to use x87.
#pragma once

#include <tuck/core/bits.hpp>

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
#define TUCK_EXACT_BITS(type, real, constraint, name, instruction)                         \
  TUCK_HD inline type name(type a, type b) noexcept {                                      \
    return bits_of(exact::name(__builtin_bit_cast(real, a), __builtin_bit_cast(real, b))); \
  }
#endif
#define TUCK_EXACT_ALL(name, operation, instruction)                 \
  TUCK_EXACT(float, "f", name, operation, instruction ".rn.f32")     \
  TUCK_EXACT(double, "d", name, operation, instruction ".rn.f64")    \
  TUCK_EXACT_BITS(uint32_t, float, "r", name, instruction ".rn.f32") \
  TUCK_EXACT_BITS(uint64_t, double, "l", name, instruction ".rn.f64")

TUCK_EXACT_ALL(add, +, "add")
TUCK_EXACT_ALL(sub, -, "sub")
TUCK_EXACT_ALL(mul, *, "mul")

#undef TUCK_EXACT
#undef TUCK_EXACT_BITS
#undef TUCK_EXACT_ALL

}  // namespace tuck::inline TUCK_ABI::exact
