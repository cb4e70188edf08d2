// SPDX-License-Identifier: Apache-2.0
// Everything in which CUDA differs from plain C++: memory accesses, warps, blocks. Kernels and block codecs use only
// these names. Thread blocks are one-dimensional. `mask` names the lanes that take part, and is the same for all of
// them.
#pragma once

// The second line ends the compilation: nothing below would compile.
#if !defined(__CUDACC__)
#error "tuck: .cuh headers need nvcc: put this into a .cu file, or include tuck/host.hpp or tuck/swap.hpp"
#include <tuck: see the error above>
#endif

#include <tuck/core/config.hpp>
#include <tuck/core/standard.hpp>

#if defined(TUCK_HOST)
#include <cuda_runtime.h>
#endif

/// Defines a variable in the shared memory of the block. A type with a comma in its name needs an alias.
#define TUCK_SHARED(type, name) __shared__ type name

namespace tuck::inline TUCK_ABI::device {

inline constexpr unsigned full_mask = 0xffffffffu;  ///< mask of all lanes
inline constexpr int warp_size = 32;                ///< lanes of a warp

// -- who and where ---------------------------------------------------------------------------------------------

/// Returns the index of this thread in its warp.
__device__ __forceinline__ unsigned lane_id() { return threadIdx.x % warp_size; }
/// Returns the index of this warp in its block.
__device__ __forceinline__ unsigned warp_id() { return threadIdx.x / warp_size; }

/// Returns threadIdx.x, read again. Use it before and after a loop: no registers then keep the value, or values derived
/// from it, while the loop runs.
__device__ __forceinline__ unsigned thread_id_anew() {
  unsigned id;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(id));
  return id;
}

/// Keeps the compiler from moving accesses to memory across it. For the rounds of an unrolled loop: otherwise all loads
/// come first, and their results take registers together.
__device__ __forceinline__ void in_order() { asm volatile("" ::: "memory"); }

/// Waits for all threads of the block.
__device__ __forceinline__ void sync_block() { __syncthreads(); }
/// Waits for all threads of the block. Returns whether `value` is true for any of them.
__device__ __forceinline__ bool sync_block_or(bool value) { return __syncthreads_or(value) != 0; }
/// Waits for the lanes in `mask`.
__device__ __forceinline__ void sync_warp(unsigned mask = full_mask) { __syncwarp(mask); }

/// Storage for a T in shared memory, where constructors must not run.
template <class T> struct uninitialized {
  static_assert(std::is_trivially_copyable_v<T>);
  alignas(T) std::byte storage[sizeof(T)];
  __device__ T& get() { return *reinterpret_cast<T*>(storage); }
  __device__ const T& get() const { return *reinterpret_cast<const T*>(storage); }
};

// -- global memory: T of 1, 2, 4, 8 or 16 bytes, p a multiple of its size -----------------------------------------

/// 16 bytes as four words.
struct alignas(16) vec128 {
  uint32_t w[4];
};

/// Reads memory that no thread writes during the kernel. Does not allocate in L1; use it for data that is read once.
template <class T> __device__ __forceinline__ T load(const T* p) {
  static_assert(std::is_trivially_copyable_v<T>);
  if constexpr (sizeof(T) == 16) {
    uint32_t a, b, c, d;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(p));
    return __builtin_bit_cast(T, vec128{{a, b, c, d}});
  } else if constexpr (sizeof(T) == 8) {
    uint64_t v;
    asm("ld.global.nc.L1::no_allocate.u64 %0, [%1];" : "=l"(v) : "l"(p));
    return __builtin_bit_cast(T, v);
  } else if constexpr (sizeof(T) == 4) {
    uint32_t v;
    asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return __builtin_bit_cast(T, v);
  } else if constexpr (sizeof(T) == 2) {
    uint16_t v;
    asm("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(p));
    return __builtin_bit_cast(T, v);
  } else {
    static_assert(sizeof(T) == 1);
    uint32_t v;
    asm("ld.global.nc.L1::no_allocate.u8 %0, [%1];" : "=r"(v) : "l"(p));
    return __builtin_bit_cast(T, static_cast<uint8_t>(v));
  }
}

/// Reads memory that threads of this block have written before a barrier.
template <class T> __device__ __forceinline__ T load_written(const T* p) {
  static_assert(std::is_trivially_copyable_v<T>);
  return *p;
}

/// Writes a value.
template <class T> __device__ __forceinline__ void store(T* p, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if constexpr (sizeof(T) == 16) {
    const auto v = __builtin_bit_cast(vec128, value);
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3])
                 : "memory");
  } else {
    *p = value;
  }
}

// -- between blocks: U is uint32_t or uint64_t, the scope is the device -------------------------------------------

/// Reads with acquire order.
__device__ __forceinline__ uint64_t load_acquire(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
/// Writes with release order.
__device__ __forceinline__ void store_release(uint64_t* p, uint64_t v) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
/// Reads without order.
template <class U> __device__ __forceinline__ U load_relaxed(const U* p) {
  U v;
  if constexpr (sizeof(U) == 8)
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  else
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
/// Writes without order.
template <class U> __device__ __forceinline__ void store_relaxed(U* p, U v) {
  if constexpr (sizeof(U) == 8)
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
  else
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

namespace detail {
// CUDA's atomics take `unsigned long long` instead of uint64_t.
template <class U> using cuda_uint = std::conditional_t<sizeof(U) == 8, unsigned long long, unsigned>;
template <class U> __device__ __forceinline__ cuda_uint<U>* cuda_ptr(U* p) {
  return reinterpret_cast<cuda_uint<U>*>(p);
}
}  // namespace detail

// Atomic operations without order. Each returns the value before it.
/// Adds v to *p.
template <class U> __device__ __forceinline__ U atomic_add(U* p, U v) {
  return static_cast<U>(atomicAdd(detail::cuda_ptr(p), v));
}
/// Sets *p to the minimum of *p and v.
template <class U> __device__ __forceinline__ U atomic_min(U* p, U v) {
  return static_cast<U>(atomicMin(detail::cuda_ptr(p), v));
}
/// Sets *p to the maximum of *p and v.
template <class U> __device__ __forceinline__ U atomic_max(U* p, U v) {
  return static_cast<U>(atomicMax(detail::cuda_ptr(p), v));
}
/// Sets the bits of v in *p.
template <class U> __device__ __forceinline__ U atomic_or(U* p, U v) {
  return static_cast<U>(atomicOr(detail::cuda_ptr(p), v));
}

/// Adds n and returns the value before. Threads that add later see what this thread wrote before.
__device__ __forceinline__ uint32_t atomic_add_acq_rel(uint32_t* p, uint32_t n) {
  uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(p), "r"(n) : "memory");
  return before;
}

/// Sleeps for about this many nanoseconds.
__device__ __forceinline__ void backoff(unsigned nanoseconds) { __nanosleep(nanoseconds); }

// -- bits --------------------------------------------------------------------------------------------------------

/// Returns the position of the lowest set bit, counted from 1; 0 if there is none.
__device__ __forceinline__ int ffs(uint32_t x) { return __ffs(static_cast<int>(x)); }
/// Returns the low word of (hi:lo) >> (shift mod 32).
__device__ __forceinline__ uint32_t funnel_shift_right(uint32_t lo, uint32_t hi, uint32_t shift) {
  return __funnelshift_r(lo, hi, shift);
}
/// Returns four of the eight bytes of (hi:lo), selected by the low four nibbles of `selectors`, each 0 to 7.
__device__ __forceinline__ uint32_t byte_perm(uint32_t lo, uint32_t hi, uint32_t selectors) {
  return __byte_perm(lo, hi, selectors);
}
/// Returns four of the eight bytes of (hi:lo), selected by a constant.
template <uint32_t Selectors> __device__ __forceinline__ uint32_t byte_perm(uint32_t lo, uint32_t hi) {
  uint32_t x;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(x) : "r"(lo), "r"(hi), "n"(Selectors));
  return x;
}
/// The same, but each byte becomes 0xff if its highest bit is set, else 0.
template <uint32_t Selectors> __device__ __forceinline__ uint32_t byte_signs(uint32_t lo, uint32_t hi) {
  constexpr uint32_t of_signs = Selectors | 0x8888;
  return byte_perm<of_signs>(lo, hi);
}
/// Returns a | b | c.
__device__ __forceinline__ uint32_t or3(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t x;
  asm("lop3.b32 %0, %1, %2, %3, 0xfe;" : "=r"(x) : "r"(a), "r"(b), "r"(c));
  return x;
}
/// Returns a | (b & mask).
__device__ __forceinline__ uint32_t or_part(uint32_t a, uint32_t b, uint32_t mask) {
  uint32_t x;
  asm("lop3.b32 %0, %1, %2, %3, 0xf8;" : "=r"(x) : "r"(a), "r"(b), "r"(mask));
  return x;
}
/// Returns (a | b) & mask.
__device__ __forceinline__ uint32_t or_masked(uint32_t a, uint32_t b, uint32_t mask) {
  uint32_t x;
  asm("lop3.b32 %0, %1, %2, %3, 0xa8;" : "=r"(x) : "r"(a), "r"(b), "r"(mask));
  return x;
}

/// Returns the 64-bit word (high:low).
__device__ __forceinline__ uint64_t join_words(uint32_t low, uint32_t high) {
  uint64_t x;
  asm("mov.b64 %0, {%1, %2};" : "=l"(x) : "r"(low), "r"(high));
  return x;
}
/// Splits a 64-bit word into its halves.
__device__ __forceinline__ void split_words(uint64_t x, uint32_t& low, uint32_t& high) {
  asm("mov.b64 {%0, %1}, %2;" : "=r"(low), "=r"(high) : "l"(x));
}

/// Returns c plus the sum of the products of the bytes of a and B.
template <uint32_t B> __device__ __forceinline__ uint32_t dot4(uint32_t a, uint32_t c) {
  uint32_t sum;
  asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "n"(B), "r"(c));
  return sum;
}
/// The same with factors that are known only at run time.
__device__ __forceinline__ uint32_t dot4(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t sum;
  asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}
/// Returns c + a * b.
__device__ __forceinline__ uint64_t add_product(uint64_t c, uint32_t a, uint32_t b) {
  asm("mad.wide.u32 %0, %1, %2, %0;" : "+l"(c) : "r"(a), "r"(b));
  return c;
}
/// Returns x, with Bits set if a and b differ; without a branch.
template <uint32_t Bits> __device__ __forceinline__ uint32_t or_if_differ(uint32_t x, uint32_t a, uint32_t b) {
  asm("{.reg .pred p; setp.ne.b32 p, %1, %2; @p or.b32 %0, %0, %3;}" : "+r"(x) : "r"(a), "r"(b), "n"(Bits));
  return x;
}
/// Returns x, with Bits set if a and b differ; without a branch.
template <uint32_t Bits> __device__ __forceinline__ uint32_t or_if_differ(uint32_t x, uint64_t a, uint64_t b) {
  asm("{.reg .pred p; setp.ne.b64 p, %1, %2; @p or.b32 %0, %0, %3;}" : "+r"(x) : "l"(a), "l"(b), "n"(Bits));
  return x;
}

// Two signed integers of 16 bits in a word: one instruction each from sm_90 on.
/// Returns the smaller integers.
__device__ __forceinline__ uint32_t least_pair(uint32_t a, uint32_t b) { return __vmins2(a, b); }
/// Returns the larger integers.
__device__ __forceinline__ uint32_t most_pair(uint32_t a, uint32_t b) { return __vmaxs2(a, b); }
/// Returns the sums, modulo 2^16.
__device__ __forceinline__ uint32_t add_pair(uint32_t a, uint32_t b) { return __vadd2(a, b); }
/// The same for integers without sign.
__device__ __forceinline__ uint32_t least_unsigned_pair(uint32_t a, uint32_t b) { return __vminu2(a, b); }
__device__ __forceinline__ uint32_t most_unsigned_pair(uint32_t a, uint32_t b) { return __vmaxu2(a, b); }
/// Returns 1 in place of each integer that is not 0.
__device__ __forceinline__ uint32_t non_zero_pair(uint32_t x) { return __vminu2(x, 0x00010001u); }

/// Returns a ^ (b & Mask).
template <uint32_t Mask> __device__ __forceinline__ uint32_t xor_masked(uint32_t a, uint32_t b) {
  uint32_t x;
  asm("lop3.b32 %0, %1, %2, %3, 0x78;" : "=r"(x) : "r"(a), "r"(b), "n"(Mask));
  return x;
}
/// The same with a mask that is known only at run time.
__device__ __forceinline__ uint32_t xor_masked(uint32_t a, uint32_t b, uint32_t mask) {
  uint32_t x;
  asm("lop3.b32 %0, %1, %2, %3, 0x78;" : "=r"(x) : "r"(a), "r"(b), "r"(mask));
  return x;
}
/// Returns ~(a | b | Mask).
template <uint32_t Mask> __device__ __forceinline__ uint32_t nor_masked(uint32_t a, uint32_t b) {
  uint32_t x;
  asm("lop3.b32 %0, %1, %2, %3, 0x01;" : "=r"(x) : "r"(a), "r"(b), "n"(Mask));
  return x;
}
/// Returns a | (b & ~c).
__device__ __forceinline__ uint32_t or_and_not(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t x;
  asm("lop3.b32 %0, %1, %2, %3, 0xf4;" : "=r"(x) : "r"(a), "r"(b), "r"(c));
  return x;
}
/// Returns (a ^ b) | 1.
__device__ __forceinline__ uint32_t odd_xor(uint32_t a, uint32_t b) {
  uint32_t x;
  asm("lop3.b32 %0, %1, %2, 1, 0xbe;" : "=r"(x) : "r"(a), "r"(b));
  return x;
}
/// Returns `bits`, with the bits set in which any of four words differs from B.
template <uint32_t B> __device__ __forceinline__ uint32_t or_differences(uint32_t bits, const uint32_t (&x)[4]) {
  asm("{.reg .b32 t, u; lop3.b32 t, %1, %2, %5, 0x7e; lop3.b32 u, %3, %4, %5, 0x7e; lop3.b32 %0, %0, t, u, 0xfe;}"
      : "+r"(bits)
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "n"(B));
  return bits;
}
/// Returns whether any of four f32, given as bit patterns, is NaN or has a magnitude above the limit.
__device__ __forceinline__ bool any_above(const uint32_t (&x)[4], uint32_t limit) {
  uint32_t any;
  asm("{.reg .pred p; .reg .b32 t; abs.f32 t, %1; setp.gtu.f32 p, t, %5; abs.f32 t, %2; setp.gtu.or.f32 p, t, %5, p;"
      " abs.f32 t, %3; setp.gtu.or.f32 p, t, %5, p; abs.f32 t, %4; setp.gtu.or.f32 p, t, %5, p;"
      " selp.u32 %0, 1, 0, p;}"
      : "=r"(any)
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(limit));
  return any != 0;
}

// -- warps: T has 4 or 8 bytes ------------------------------------------------------------------------------------

/// Returns a mask of the lanes whose `value` is true.
__device__ __forceinline__ unsigned ballot(bool value, unsigned mask = full_mask) { return __ballot_sync(mask, value); }
/// Returns whether `value` is true for any lane.
__device__ __forceinline__ bool any(bool value, unsigned mask = full_mask) { return __any_sync(mask, value) != 0; }
/// Returns whether `value` is true for all lanes.
__device__ __forceinline__ bool all(bool value, unsigned mask = full_mask) { return __all_sync(mask, value) != 0; }

/// Returns the value of another lane.
template <class T> __device__ __forceinline__ T shfl(T v, int lane, unsigned mask = full_mask) {
  return __shfl_sync(mask, v, lane);
}
/// Returns the value of the lane `delta` below this lane, or v if there is none.
template <class T> __device__ __forceinline__ T shfl_up(T v, unsigned delta, unsigned mask = full_mask) {
  return __shfl_up_sync(mask, v, delta);
}
/// Returns the value of the lane `delta` above this lane, or v if there is none.
template <class T> __device__ __forceinline__ T shfl_down(T v, unsigned delta, unsigned mask = full_mask) {
  return __shfl_down_sync(mask, v, delta);
}
/// Returns the value of the lane whose index is this lane's XOR `lanes`.
template <class T> __device__ __forceinline__ T shfl_xor(T v, int lanes, unsigned mask = full_mask) {
  return __shfl_xor_sync(mask, v, lanes);
}

/// Reads one value for all lanes: lane 0 reads it.
template <class T> __device__ __forceinline__ T load_uniform(const T* p) {
  using word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  return static_cast<T>(shfl(lane_id() == 0 ? static_cast<word>(load(p)) : word{0}, 0));
}

namespace detail {
template <class T, class Combine> __device__ __forceinline__ T warp_reduce(T v, Combine combine) {
  for (int lanes = warp_size / 2; lanes > 0; lanes /= 2) v = combine(v, shfl_xor(v, lanes));
  return v;
}
}  // namespace detail

/// Reductions over the whole warp, which return the result to all lanes: by shuffles, or from sm_80 on by instructions
/// for 32 bits.
template <class T> __device__ __forceinline__ T warp_sum(T v) {
  return detail::warp_reduce(v, [](T a, T b) { return a + b; });
}
template <class T> __device__ __forceinline__ T warp_min(T v) {
  return detail::warp_reduce(v, [](T a, T b) { return a < b ? a : b; });
}
template <class T> __device__ __forceinline__ T warp_max(T v) {
  return detail::warp_reduce(v, [](T a, T b) { return a > b ? a : b; });
}
template <class T> __device__ __forceinline__ T warp_or(T v) {
  return detail::warp_reduce(v, [](T a, T b) { return a | b; });
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ uint32_t warp_sum(uint32_t v) { return __reduce_add_sync(full_mask, v); }
__device__ __forceinline__ uint32_t warp_min(uint32_t v) { return __reduce_min_sync(full_mask, v); }
__device__ __forceinline__ uint32_t warp_max(uint32_t v) { return __reduce_max_sync(full_mask, v); }
__device__ __forceinline__ uint32_t warp_or(uint32_t v) { return __reduce_or_sync(full_mask, v); }
// In three parts: the sum of 32 such parts fits in 32 bits.
__device__ __forceinline__ uint64_t warp_sum(uint64_t v) {
  constexpr uint32_t part = (1u << 27) - 1;
  const uint32_t low = warp_sum(static_cast<uint32_t>(v) & part);
  const uint32_t middle = warp_sum(static_cast<uint32_t>(v >> 27) & part);
  return add_product(low, middle, part + 1) + (uint64_t{warp_sum(static_cast<uint32_t>(v >> 54))} << 54);
}
#endif
/// Returns the sum of the values of the lanes up to and including this one. The whole warp calls it.
__device__ __forceinline__ uint32_t warp_inclusive_sum(uint32_t v) {
#pragma unroll
  for (unsigned delta = 1; delta < warp_size; delta *= 2)
    asm volatile("{.reg .pred p; .reg .b32 t; shfl.sync.up.b32 t|p, %0, %1, 0, -1; @p add.u32 %0, %0, t;}"
                 : "+r"(v)
                 : "r"(delta));
  return v;
}
/// Returns the sum of the values of the lanes up to and including this one. The whole warp calls it.
template <class T> __device__ __forceinline__ T warp_inclusive_sum(T v) {
  for (unsigned delta = 1; delta < warp_size; delta *= 2) {
    const T before = shfl_up(v, delta);
    if (lane_id() >= delta) v += before;
  }
  return v;
}

// -- blocks --------------------------------------------------------------------------------------------------------

/// Sums over the threads of the block, in their order. T is uint32_t or uint64_t. The caller puts a sync_block()
/// between two uses of the same TempStorage.
template <int Threads> struct block_scan {
  static constexpr unsigned warps = Threads / warp_size;
  struct TempStorage {
    uint64_t of_warp[warps];
  };

  /// Returns the sum of the values of the threads before this one, and sets `total` to that of all. Has a barrier.
  template <class T> __device__ static T exclusive_sum(TempStorage& temp, T value, T& total) {
    const T up_to = warp_inclusive_sum(value);
    if (lane_id() == warp_size - 1) temp.of_warp[warp_id()] = up_to;
    sync_block();
    const T of_warp = lane_id() < warps ? static_cast<T>(temp.of_warp[lane_id()]) : T{0};
    total = warp_sum(of_warp);
    return warp_sum(lane_id() < warp_id() ? of_warp : T{0}) + up_to - value;
  }
  /// Returns the sum of the values of all threads to all threads. Has a barrier.
  template <class T> __device__ static T sum(TempStorage& temp, T value) {
    T total;
    exclusive_sum(temp, value, total);
    return total;
  }
};

// -- copies from global to shared memory, in the background -------------------------------------------------------

/// Starts to copy a T of 4, 8 or 16 bytes, aligned to its size. Until this thread has waited for it, nobody may access
/// the target or write the source; other threads may access the target behind a barrier that follows the wait. Before
/// sm_80 the copy takes place at once. A thread waits for all its copies before it ends.
template <class T> __device__ __forceinline__ void copy_async(T* shared, const T* global) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  if constexpr (sizeof(T) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(sizeof(T)) : "memory");
#else
  *shared = load(global);
#endif
}
/// Makes a group of this thread's copies since the last group.
__device__ __forceinline__ void commit_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits for this thread's copies: for all, or with Newest > 0 for all groups but the last so many.
template <int Newest = 0> __device__ __forceinline__ void wait_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (Newest == 0)
    asm volatile("cp.async.wait_all;" ::: "memory");
  else
    asm volatile("cp.async.wait_group %0;" ::"n"(Newest) : "memory");
#endif
}

}  // namespace tuck::inline TUCK_ABI::device
