// SPDX-License-Identifier: Apache-2.0
// All macros of the library, and its platform requirements: C++20, little-endian.
#pragma once

#include <tuck/core/standard.hpp>

#if __cplusplus < 202002L
#error "tuck needs C++20: compile with -std=c++20"
#endif

/// Names the inline namespace of the library. The name changes with the layout of a public type or of the frame, so
/// that objects built against incompatible versions do not link together.
#define TUCK_ABI v1

/// Defined if NVTX was included before: calls on a stream are then ranges of a profiler (frame/profiler.hpp).
#if defined(NVTX_VERSION) && !defined(NVTX_DISABLE) && !defined(__CUDACC_RTC__)
#define TUCK_NVTX
#define TUCK_ARCH_NVTX nvtx_
#else
#define TUCK_ARCH_NVTX
#endif

/// Names the inline namespace of kernels and of the functions that launch them, after the architectures that nvcc
/// compiles for, and NVTX. Units compiled for different architectures can be linked together: each launches its own
/// kernels. No public type is in this namespace, so that all units, those of .cpp files too, have the same types.
#if defined(__CUDA_ARCH_LIST__)
#define TUCK_ARCH TUCK_ARCH_OF(TUCK_ARCH_NVTX, __CUDA_ARCH_LIST__)
#define TUCK_ARCH_OF(...) TUCK_ARCH_JOIN(__VA_ARGS__, , , , , , , , , , , , , , , , )
#define TUCK_ARCH_JOIN(nvtx, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ...) \
  nvtx##sm_##a##b##c##d##e##f##g##h##i##j##k##l##m##n##o##p
#else
#define TUCK_ARCH TUCK_ARCH_OF(TUCK_ARCH_NVTX)
#define TUCK_ARCH_OF(nvtx) TUCK_ARCH_JOIN(nvtx)
#define TUCK_ARCH_JOIN(nvtx) nvtx##sm_any
#endif

/// Defined where host code is compiled: not by NVRTC, which compiles kernels at run time and rejects functions of the
/// host.
#if !defined(__CUDACC_RTC__)
#define TUCK_HOST
#endif

/// Marks a function for the host and, when nvcc compiles it, also for a single device thread.
/// TUCK_HD_CALLS precedes a template that calls its arguments, which may be host-only or device-only functions.
#if defined(__CUDACC__)
#define TUCK_HD __host__ __device__
#define TUCK_HD_CALLS _Pragma("nv_exec_check_disable")
#else
#define TUCK_HD
#define TUCK_HD_CALLS
#endif

/// Marks a function that is called only on CPUs with AVX2, or with AVX-512 including VBMI2 (core/cpu.hpp).
/// Undefined on other architectures and compilers, and in device code.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDA_ARCH__)
#define TUCK_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define TUCK_AVX512 __attribute__((target("avx2,bmi,bmi2,popcnt,avx512f,avx512bw,avx512vl,avx512vbmi2")))
#endif

/// Marks a function whose loops are to be vectorized also at -O1 and -O2, where GCC by itself vectorizes few or none.
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && !defined(__CUDA_ARCH__)
#define TUCK_LOOPS __attribute__((optimize("O3")))
#else
#define TUCK_LOOPS
#endif

/// Defined on 64-bit ARM, where core/cpu_windows.hpp uses NEON.
#if defined(__aarch64__) && defined(__GNUC__) && !defined(__CUDA_ARCH__)
#define TUCK_NEON
#endif

/// Unrolls the loop that follows, also where compilers would not, as at -O2. 1 prevents unrolling. nvcc knows no such
/// pragma for host code.
#define TUCK_UNROLL_BY(pragma) _Pragma(#pragma)
#if defined(__CUDA_ARCH__)
#define TUCK_UNROLL(times) TUCK_UNROLL_BY(unroll times)
#elif defined(__CUDACC__)
#define TUCK_UNROLL(times)
#else
#define TUCK_UNROLL(times) TUCK_UNROLL_BY(GCC unroll times)
#endif

/// Marks a kernel. Its symbol is hidden, so that each binary uses the kernels that it instantiates itself.
#define TUCK_KERNEL __attribute__((visibility("hidden"))) __global__

/// Hides from the compiler how `result`, a float, a double or a vector register of such, was computed
/// (core/exact.hpp). No compiler flag can then fuse that operation with its neighbours or reorder them.
#if defined(__x86_64__)
#define TUCK_OPAQUE(result) __asm__("" : "+x"(result))
#elif defined(__aarch64__)
#define TUCK_OPAQUE(result) __asm__("" : "+w"(result))
#else
#define TUCK_OPAQUE(result)       \
  do {                            \
    volatile auto kept_ = result; \
    result = kept_;               \
  } while (false)
#endif

#if defined(TUCK_HOST)
static_assert(std::endian::native == std::endian::little, "tuck: frames are little-endian, and so must the machine be");
static_assert(sizeof(void*) == 8, "tuck: 64-bit targets only");
#endif
