// Exact arithmetic: IEEE 754, rounded to nearest, every operation on its own. The same bits on every machine and
// under every flag: -ffast-math and -use_fast_math would otherwise contract, reorder or approximate. On a CPU that
// flushes denormals, results that are denormal may be zero instead; who calls must not mind. The CPU must be in its
// usual mode, rounding to nearest, and x86 must compute with SSE, as all 64-bit compilers do unless told to use x87.
#pragma once

#include <tuck/core/config.hpp>

namespace tuck::inline TUCK_ABI::exact {

TUCK_HD inline float add(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  float r;
  asm("add.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  float r = a + b;
  TUCK_OPAQUE(r);
  return r;
#endif
}
TUCK_HD inline float sub(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  float r;
  asm("sub.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  float r = a - b;
  TUCK_OPAQUE(r);
  return r;
#endif
}
TUCK_HD inline float mul(float a, float b) noexcept {
#if defined(__CUDA_ARCH__)
  float r;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  float r = a * b;
  TUCK_OPAQUE(r);
  return r;
#endif
}
TUCK_HD inline double add(double a, double b) noexcept {
#if defined(__CUDA_ARCH__)
  double r;
  asm("add.rn.f64 %0, %1, %2;" : "=d"(r) : "d"(a), "d"(b));
  return r;
#else
  double r = a + b;
  TUCK_OPAQUE(r);
  return r;
#endif
}
TUCK_HD inline double sub(double a, double b) noexcept {
#if defined(__CUDA_ARCH__)
  double r;
  asm("sub.rn.f64 %0, %1, %2;" : "=d"(r) : "d"(a), "d"(b));
  return r;
#else
  double r = a - b;
  TUCK_OPAQUE(r);
  return r;
#endif
}
TUCK_HD inline double mul(double a, double b) noexcept {
#if defined(__CUDA_ARCH__)
  double r;
  asm("mul.rn.f64 %0, %1, %2;" : "=d"(r) : "d"(a), "d"(b));
  return r;
#else
  double r = a * b;
  TUCK_OPAQUE(r);
  return r;
#endif
}

}  // namespace tuck::inline TUCK_ABI::exact
