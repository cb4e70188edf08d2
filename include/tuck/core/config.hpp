// The library's only macros, and what it demands of the platform.
#pragma once

#if __cplusplus < 202002L
#error "tuck needs C++20: compile with -std=c++20"
#endif

#include <bit>

// Name of the inline namespace: it changes when the layout of a public type or of the frame does, so
// that objects built against two versions do not link into one program by accident.
#define TUCK_ABI v0

// Name of the inline namespace of kernels and of what launches them: those that nvcc compiles for are in it, so that
// units for different ones meet in one program and each has its own. Public types are outside of it.
#if defined(__CUDA_ARCH_LIST__)
#define TUCK_ARCH TUCK_ARCH_OF(__CUDA_ARCH_LIST__)
#define TUCK_ARCH_OF(...) TUCK_ARCH_JOIN(__VA_ARGS__, , , , , , , , , , , , , , , , )
#define TUCK_ARCH_JOIN(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ...) \
  sm_##a##b##c##d##e##f##g##h##i##j##k##l##m##n##o##p
#else
#define TUCK_ARCH sm_any
#endif

// A function that runs on the host and, where nvcc compiles it, on one device thread.
#if defined(__CUDACC__)
#define TUCK_HD __host__ __device__
#define TUCK_HD_CALLS _Pragma("nv_exec_check_disable")  // before a template that calls what it is given: host or device
#else
#define TUCK_HD
#define TUCK_HD_CALLS
#endif

// A function that is called only on a CPU with AVX2, or with AVX-512 and its VBMI2 (core/cpu.hpp); where there can be
// none, they are not defined.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__CUDA_ARCH__)
#define TUCK_AVX2 __attribute__((target("avx2,bmi,popcnt")))
#define TUCK_AVX512 __attribute__((target("avx2,bmi,popcnt,avx512f,avx512bw,avx512vl,avx512vbmi2")))
#endif

// 64-bit ARM: core/cpu_neon.hpp.
#if defined(__aarch64__) && defined(__GNUC__) && !defined(__CUDA_ARCH__)
#define TUCK_NEON
#endif

// A kernel that stays inside the binary that instantiates it, so that two binaries never share one.
#define TUCK_KERNEL __attribute__((visibility("hidden"))) __global__

// For core/exact.hpp: the compiler takes `result`, a float or a double, for any number, so that no flag lets it merge
// the operation that gave it with what comes before or after. Where there is no fused operation to merge into and no
// licence to reorder, GCC has a barrier that loops can be vectorized across; with -mfma its vectorizer overlooks it.
#if defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && !defined(__CUDACC__) && defined(__SSE2_MATH__) && \
    !defined(__FMA__) && !defined(__FMA4__) && !defined(__ASSOCIATIVE_MATH__) && !defined(__RECIPROCAL_MATH__)
#define TUCK_OPAQUE(result) result = __builtin_assoc_barrier(result)
#elif defined(__x86_64__)
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

// What the compiler says of a type that does not model tuck::codec.
#define TUCK_NO_CODEC \
  "tuck: this type is no codec; tuck/codec/concept.hpp says what a codec has, the notes below what is missing"

static_assert(std::endian::native == std::endian::little, "tuck: frames are little-endian, and so must the machine be");
