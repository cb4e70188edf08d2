// Integer, float and memory intrinsics.
#pragma once

#include "runtime.hpp"

#include <bit>
#include <chrono>
#include <concepts>

inline int __popc(unsigned v) { return std::popcount(v); }
inline int __popcll(unsigned long long v) { return std::popcount(v); }
inline int __clz(int v) { return std::countl_zero(static_cast<unsigned>(v)); }
inline int __clzll(long long v) { return std::countl_zero(static_cast<unsigned long long>(v)); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (v >> i & 1u) << (31 - i);
  return r;
}
// Each selector nibble picks one of the 8 bytes of b:a; its top bit replicates the byte's sign instead.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selectors) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned s = selectors >> (4 * i) & 15;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (s & 7))) & 0xff;
    if (s & 8) byte = byte & 0x80 ? 0xff : 0;
    r |= byte << (8 * i);
  }
  return r;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(std::uint64_t{a} * b >> 32); }

inline unsigned __float_as_uint(float v) { return std::bit_cast<unsigned>(v); }
inline int __float_as_int(float v) { return std::bit_cast<int>(v); }
inline float __uint_as_float(unsigned v) { return std::bit_cast<float>(v); }
inline float __int_as_float(int v) { return std::bit_cast<float>(v); }

namespace cudasim::detail {

template <class T>
concept atomic_word = std::integral<T> && (sizeof(T) == 4 || sizeof(T) == 8);

// An atomic that gives `after(old)` to the memory and returns the old value.
template <class T, class After> T update(T* p, site where, After after) {
  std::atomic_ref<T> word(*p);
  T old = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(old, after(old), std::memory_order_relaxed)) {
  }
  atomic_done(p, after(old) != old, where);
  return old;
}

template <class T> using same = std::type_identity_t<T>;

}  // namespace cudasim::detail

template <cudasim::detail::atomic_word T>
T atomicAdd(T* p, cudasim::detail::same<T> v, cudasim::detail::site where = {}) {
  const T old = std::atomic_ref<T>(*p).fetch_add(v, std::memory_order_relaxed);
  cudasim::detail::atomic_done(p, v != 0, where);
  return old;
}
// Of floats, in any order, as on a GPU.
template <std::floating_point T> T atomicAdd(T* p, cudasim::detail::same<T> v, cudasim::detail::site where = {}) {
  return cudasim::detail::update(p, where, [v](T old) { return old + v; });
}
template <cudasim::detail::atomic_word T>
T atomicMax(T* p, cudasim::detail::same<T> v, cudasim::detail::site where = {}) {
  return cudasim::detail::update(p, where, [v](T old) { return old < v ? v : old; });
}
template <cudasim::detail::atomic_word T>
T atomicMin(T* p, cudasim::detail::same<T> v, cudasim::detail::site where = {}) {
  return cudasim::detail::update(p, where, [v](T old) { return v < old ? v : old; });
}
template <cudasim::detail::atomic_word T>
T atomicOr(T* p, cudasim::detail::same<T> v, cudasim::detail::site where = {}) {
  return cudasim::detail::update(p, where, [v](T old) { return static_cast<T>(old | v); });
}
template <cudasim::detail::atomic_word T>
T atomicAnd(T* p, cudasim::detail::same<T> v, cudasim::detail::site where = {}) {
  return cudasim::detail::update(p, where, [v](T old) { return static_cast<T>(old & v); });
}
template <cudasim::detail::atomic_word T>
T atomicExch(T* p, cudasim::detail::same<T> v, cudasim::detail::site where = {}) {
  const T old = std::atomic_ref<T>(*p).exchange(v, std::memory_order_relaxed);
  cudasim::detail::atomic_done(p, old != v, where);
  return old;
}
template <cudasim::detail::atomic_word T>
T atomicCAS(T* p, cudasim::detail::same<T> expected, cudasim::detail::same<T> desired,
            cudasim::detail::site where = {}) {
  T old = expected;
  const bool swapped = std::atomic_ref<T>(*p).compare_exchange_strong(old, desired, std::memory_order_relaxed);
  cudasim::detail::atomic_done(p, swapped && expected != desired, where);
  return old;
}

inline void __threadfence() { cudasim::detail::fence(); }
inline void __threadfence_block() { cudasim::detail::fence(); }
inline void __threadfence_system() { cudasim::detail::fence(); }
inline void __nanosleep(unsigned, cudasim::detail::site where = {}) { cudasim::detail::yield(where); }
[[noreturn]] inline void __trap(cudasim::detail::site where = {}) {
  cudasim::detail::device_error("trap", "the kernel trapped", where);
}
template <class T> T __ldg(const T* p) { return *p; }
inline long long clock64() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
