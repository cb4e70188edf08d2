// The simulator's version of the library's device layer: the same names, meanings and rules as
// include/tuck/core/device.cuh, which this file hides by standing first on the include path.
#pragma once

#include <tuck/core/config.hpp>

#include <cuda_runtime.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// A variable of the block, uninitialised: TUCK_SHARED(int, total); declares `int& total`. A type with a
// comma or brackets in its name needs an alias.
#define TUCK_SHARED(type, name)                                                                         \
  static char name##_site;                                                                              \
  static_assert(::std::is_trivially_default_constructible_v<type>, "shared memory is not constructed"); \
  type& name = *static_cast<type*>(::cudasim::detail::shared_slot(&name##_site, sizeof(type), alignof(type), #name, {}))

namespace tuck::inline TUCK_ABI::device {

using call_site = ::cudasim::detail::site;

inline constexpr unsigned full_mask = 0xffffffffu;
inline constexpr int warp_size = 32;

inline unsigned lane_id() { return threadIdx.x % 32; }
inline unsigned warp_id() { return threadIdx.x / 32; }
inline unsigned thread_id_anew() { return threadIdx.x; }
inline void in_order() {}

inline void sync_block(call_site at = {}) { __syncthreads(at); }
inline bool sync_block_or(bool v, call_site at = {}) { return __syncthreads_or(v, at) != 0; }
inline void sync_warp(unsigned mask = full_mask, call_site at = {}) { __syncwarp(mask, at); }

// Room for a T in shared memory, where no constructor may run.
template <class T> struct uninitialized {
  static_assert(std::is_trivially_copyable_v<T>);
  alignas(T) std::byte storage[sizeof(T)];
  T& get() { return *reinterpret_cast<T*>(storage); }
  const T& get() const { return *reinterpret_cast<const T*>(storage); }
};

// Global memory
template <class T>
concept memory_word = std::is_trivially_copyable_v<T> &&
                      (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);

template <class T>
concept atomic_word = std::unsigned_integral<T> && (sizeof(T) == 4 || sizeof(T) == 8);

struct alignas(16) vec128 {
  std::uint32_t w[4];
};

template <class T> inline void check_access(const T* p, bool write, call_site at) {
  if (reinterpret_cast<std::uintptr_t>(p) % sizeof(T) != 0) ::cudasim::detail::misaligned(p, sizeof(T), at);
  if (::cudasim::detail::traffic_enabled.load(std::memory_order_relaxed))
    ::cudasim::detail::record_traffic(p, sizeof(T), write, at);
}

template <memory_word T> inline T load(const T* p, call_site at = {}) {
  check_access(p, false, at);
  return *p;
}
template <memory_word T> inline T load_written(const T* p, call_site at = {}) {
  check_access(p, false, at);
  return *p;
}
template <memory_word T> inline void store(T* p, std::type_identity_t<T> v, call_site at = {}) {
  check_access(p, true, at);
  *p = v;
}

template <atomic_word U> inline U load_acquire(const U* p, call_site at = {}) {
  const U v = std::atomic_ref<U>(const_cast<U&>(*p)).load(std::memory_order_acquire);
  ::cudasim::detail::polled(at);
  return v;
}
template <atomic_word U> inline U load_relaxed(const U* p, call_site at = {}) {
  const U v = std::atomic_ref<U>(const_cast<U&>(*p)).load(std::memory_order_relaxed);
  ::cudasim::detail::polled(at);
  return v;
}
template <atomic_word U> inline void store_release(U* p, std::type_identity_t<U> v) {
  std::atomic_ref<U>(*p).store(v, std::memory_order_release);
  ::cudasim::detail::stored();
}
template <atomic_word U> inline void store_relaxed(U* p, std::type_identity_t<U> v) {
  std::atomic_ref<U>(*p).store(v, std::memory_order_relaxed);
  ::cudasim::detail::stored();
}

template <atomic_word U> inline U atomic_add(U* p, std::type_identity_t<U> v, call_site at = {}) {
  return atomicAdd(p, v, at);
}
template <atomic_word U> inline U atomic_max(U* p, std::type_identity_t<U> v, call_site at = {}) {
  return atomicMax(p, v, at);
}
template <atomic_word U> inline U atomic_min(U* p, std::type_identity_t<U> v, call_site at = {}) {
  return atomicMin(p, v, at);
}
template <atomic_word U> inline U atomic_or(U* p, std::type_identity_t<U> v, call_site at = {}) {
  return atomicOr(p, v, at);
}

// Adds n; what the caller did before is visible to whoever adds after it.
inline std::uint32_t atomic_add_acq_rel(std::uint32_t* p, std::uint32_t n, call_site at = {}) {
  const std::uint32_t before = std::atomic_ref<std::uint32_t>(*p).fetch_add(n, std::memory_order_acq_rel);
  ::cudasim::detail::atomic_done(p, true, at);
  return before;
}

inline void backoff(unsigned nanoseconds, call_site at = {}) { __nanosleep(nanoseconds, at); }

// Bits
inline int ffs(std::uint32_t v) { return __ffs(static_cast<int>(v)); }
inline std::uint32_t funnel_shift_right(std::uint32_t low, std::uint32_t high, std::uint32_t shift) {
  return __funnelshift_r(low, high, shift);
}
inline std::uint32_t byte_perm(std::uint32_t low, std::uint32_t high, std::uint32_t selectors) {
  return __byte_perm(low, high, selectors);
}
template <std::uint32_t Selectors> inline std::uint32_t byte_perm(std::uint32_t low, std::uint32_t high) {
  return __byte_perm(low, high, Selectors);
}
template <std::uint32_t Selectors> inline std::uint32_t byte_signs(std::uint32_t low, std::uint32_t high) {
  return __byte_perm(low, high, Selectors | 0x8888);
}
inline std::uint32_t or_part(std::uint32_t a, std::uint32_t b, std::uint32_t mask) { return a | (b & mask); }
inline std::uint32_t or3(std::uint32_t a, std::uint32_t b, std::uint32_t c) { return a | b | c; }
inline std::uint32_t or_masked(std::uint32_t a, std::uint32_t b, std::uint32_t mask) { return (a | b) & mask; }
inline std::uint64_t join_words(std::uint32_t low, std::uint32_t high) { return low | std::uint64_t{high} << 32; }
inline void split_words(std::uint64_t x, std::uint32_t& low, std::uint32_t& high) {
  low = static_cast<std::uint32_t>(x);
  high = static_cast<std::uint32_t>(x >> 32);
}
inline std::uint32_t dot4(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  for (int byte = 0; byte < 4; ++byte) c += (a >> 8 * byte & 0xff) * (b >> 8 * byte & 0xff);
  return c;
}
template <std::uint32_t B> inline std::uint32_t dot4(std::uint32_t a, std::uint32_t c) { return dot4(a, B, c); }
inline std::uint64_t add_product(std::uint64_t c, std::uint32_t a, std::uint32_t b) { return c + std::uint64_t{a} * b; }
inline std::uint32_t odd_xor(std::uint32_t a, std::uint32_t b) { return (a ^ b) | 1; }
template <std::uint32_t Bits, class U>
inline std::uint32_t or_if_differ(std::uint32_t x, U a, std::type_identity_t<U> b) {
  return a != b ? x | Bits : x;
}

inline std::uint32_t make_pair(std::uint32_t low, std::uint32_t high) { return (low & 0xffffu) | high << 16; }
inline std::int16_t of_pair(std::uint32_t x, int k) { return static_cast<std::int16_t>(x >> 16 * k); }
inline std::uint32_t least_pair(std::uint32_t a, std::uint32_t b) {
  const auto least = [&](int k) { return static_cast<std::uint32_t>((std::min)(of_pair(a, k), of_pair(b, k))); };
  return make_pair(least(0), least(1));
}
inline std::uint32_t most_pair(std::uint32_t a, std::uint32_t b) {
  const auto most = [&](int k) { return static_cast<std::uint32_t>((std::max)(of_pair(a, k), of_pair(b, k))); };
  return make_pair(most(0), most(1));
}
inline std::uint32_t least_unsigned_pair(std::uint32_t a, std::uint32_t b) {
  return make_pair((std::min)(a & 0xffffu, b & 0xffffu), (std::min)(a >> 16, b >> 16));
}
inline std::uint32_t most_unsigned_pair(std::uint32_t a, std::uint32_t b) {
  return make_pair((std::max)(a & 0xffffu, b & 0xffffu), (std::max)(a >> 16, b >> 16));
}
inline std::uint32_t add_pair(std::uint32_t a, std::uint32_t b) { return make_pair(a + b, (a >> 16) + (b >> 16)); }
inline std::uint32_t non_zero_pair(std::uint32_t x) { return make_pair(of_pair(x, 0) != 0, of_pair(x, 1) != 0); }

template <std::uint32_t Mask> std::uint32_t xor_masked(std::uint32_t a, std::uint32_t b) { return a ^ (b & Mask); }
inline std::uint32_t xor_masked(std::uint32_t a, std::uint32_t b, std::uint32_t mask) { return a ^ (b & mask); }
template <std::uint32_t Mask> std::uint32_t nor_masked(std::uint32_t a, std::uint32_t b) { return ~(a | b | Mask); }
inline std::uint32_t or_and_not(std::uint32_t a, std::uint32_t b, std::uint32_t c) { return a | (b & ~c); }
template <std::uint32_t B> std::uint32_t or_differences(std::uint32_t bits, const std::uint32_t (&x)[4]) {
  for (const std::uint32_t one : x) bits |= one ^ B;
  return bits;
}
inline bool any_above(const std::uint32_t (&x)[4], std::uint32_t limit) {
  bool any = false;
  for (const std::uint32_t one : x) any |= (one & 0x7fffffffu) > limit;
  return any;
}

// Warps
template <class T>
concept lane_value = ::cudasim::detail::lane_value<T>;

inline unsigned ballot(bool v, unsigned mask = full_mask, call_site at = {}) { return __ballot_sync(mask, v, at); }
inline bool any(bool v, unsigned mask = full_mask, call_site at = {}) { return __any_sync(mask, v, at) != 0; }
inline bool all(bool v, unsigned mask = full_mask, call_site at = {}) { return __all_sync(mask, v, at) != 0; }
template <lane_value T> inline T shfl(T v, int source, unsigned mask = full_mask, call_site at = {}) {
  return __shfl_sync(mask, v, source, 32, at);
}
template <lane_value T> inline T shfl_up(T v, unsigned delta, unsigned mask = full_mask, call_site at = {}) {
  return __shfl_up_sync(mask, v, delta, 32, at);
}
template <lane_value T> inline T shfl_down(T v, unsigned delta, unsigned mask = full_mask, call_site at = {}) {
  return __shfl_down_sync(mask, v, delta, 32, at);
}
template <lane_value T> inline T shfl_xor(T v, int lanes, unsigned mask = full_mask, call_site at = {}) {
  return __shfl_xor_sync(mask, v, lanes, 32, at);
}

// What all lanes of a warp want of one address, read by one of them.
template <class T> inline T load_uniform(const T* p, call_site at = {}) {
  using word = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  return static_cast<T>(shfl(lane_id() == 0 ? static_cast<word>(load(p, at)) : word{0}, 0, full_mask, at));
}

inline std::uint32_t warp_sum(std::uint32_t v, call_site at = {}) { return __reduce_add_sync(full_mask, v, at); }
inline std::uint32_t warp_max(std::uint32_t v, call_site at = {}) { return __reduce_max_sync(full_mask, v, at); }
inline std::uint32_t warp_min(std::uint32_t v, call_site at = {}) { return __reduce_min_sync(full_mask, v, at); }
inline std::uint32_t warp_or(std::uint32_t v, call_site at = {}) { return __reduce_or_sync(full_mask, v, at); }

inline std::uint64_t warp_sum(std::uint64_t v, call_site at = {}) {
  for (int lanes = 16; lanes > 0; lanes /= 2) v += shfl_xor(v, lanes, full_mask, at);
  return v;
}
inline std::uint64_t warp_max(std::uint64_t v, call_site at = {}) {
  for (int lanes = 16; lanes > 0; lanes /= 2) v = (std::max)(v, shfl_xor(v, lanes, full_mask, at));
  return v;
}
template <atomic_word T> inline T warp_inclusive_sum(T v, call_site at = {}) {
  for (unsigned delta = 1; delta < 32; delta *= 2) {
    const T below = shfl_up(v, delta, full_mask, at);
    if (lane_id() >= delta) v += below;
  }
  return v;
}

// Blocks of exactly Threads threads. Orders memory as a barrier does; TempStorage is free again behind a sync_block.
template <int Threads> struct block_scan {
  struct TempStorage {
    unsigned char touched[Threads];  // each thread writes its own, so that other uses of the bytes are seen to conflict
  };

  template <std::integral T> static T exclusive_sum(TempStorage& storage, T value, T& total, call_site at = {}) {
    storage.touched[threadIdx.x] = 0xee;
    std::uint64_t all = 0;
    const std::uint64_t before =
        ::cudasim::detail::block_sum(&storage, sizeof storage, static_cast<std::uint64_t>(value), all, at);
    storage.touched[threadIdx.x] = 0xee;  // behind the barrier too
    total = static_cast<T>(all);
    return static_cast<T>(before);
  }
  template <std::integral T> static T sum(TempStorage& storage, T value, call_site at = {}) {
    T total;
    exclusive_sum(storage, value, total, at);
    return total;
  }
};

// Copies in the background: they take place when the thread waits.
template <memory_word T> inline void copy_async(T* shared, const T* global, call_site at = {}) {
  static_assert(sizeof(T) >= 4);
  check_access(global, false, at);
  if (reinterpret_cast<std::uintptr_t>(shared) % sizeof(T) != 0) ::cudasim::detail::misaligned(shared, sizeof(T), at);
  ::cudasim::detail::begin_copy(shared, global, sizeof(T), at);
}
inline void commit_copies() { ::cudasim::detail::commit_copies(); }
template <int Newest = 0> inline void wait_copies() { ::cudasim::detail::wait_for_copies(Newest); }

}  // namespace tuck::inline TUCK_ABI::device
