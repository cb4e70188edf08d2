// The library's only macros, and what it demands of the platform.
#pragma once

#if __cplusplus < 202002L
#error "tuck needs C++20: compile with -std=c++20"
#endif

#include <bit>

// Name of the inline namespace: it changes when the layout of a public type or of the frame does, so
// that objects built against two versions do not link into one program by accident.
#define TUCK_ABI v0

// A function that runs on the host and, where nvcc compiles it, on one device thread.
#if defined(__CUDACC__)
#define TUCK_HD __host__ __device__
#else
#define TUCK_HD
#endif

// A kernel that stays inside the binary that instantiates it, so that two binaries never share one.
#define TUCK_KERNEL __attribute__((visibility("hidden"))) __global__

// For core/exact.hpp: an arithmetic result that the compiler may not merge with what comes before or after it.
#if defined(__clang__)
#define TUCK_FP_AS_WRITTEN _Pragma("clang fp contract(off) reassociate(off)")
#define TUCK_OPAQUE(x) (x)
#else
#define TUCK_FP_AS_WRITTEN
#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define TUCK_OPAQUE(x) __builtin_assoc_barrier(x)
#endif
#endif
#if !defined(TUCK_OPAQUE)
#define TUCK_OPAQUE(x)           \
  ([](auto result) {             \
    volatile auto kept = result; \
    return +kept;                \
  }(x))
#endif
#endif

// What the compiler says of a type that does not model tuck::codec.
#define TUCK_NO_CODEC \
  "tuck: this type is no codec; tuck/codec/concept.hpp says what a codec has, the notes below what is missing"

static_assert(std::endian::native == std::endian::little, "tuck: frames are little-endian, and so must the machine be");
