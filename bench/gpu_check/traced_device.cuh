// core/device.cuh with a log: barriers, draws of a ticket, and the words of look-back are noted with their time. The
// barriers inside core/device.cuh itself are not, such as those of block_scan: a phase spans them.
// Include it before all of tuck, in a program whose only kernels are its own. The library's headers are as they are:
// macros give its calls other names.
#pragma once

#include <tuck/core/device.cuh>

#include <atomic>
#include <type_traits>

namespace tuck::trace {

enum class kind : uint32_t { barrier, ticket, size, end };

struct event {
  kind what;
  uint32_t site;       // of a barrier: file and line; of a ticket: the chunk
  uint64_t address;    // of a word of look-back
  uint64_t arrived;    // of a barrier: clocks of the multiprocessor; else nanoseconds of the GPU
  uint64_t left;       // of a barrier: likewise
  uint32_t processor;  // of what is no barrier
};

// One for each warp where barriers are noted, else one for each block.
struct log_view {
  event* events = nullptr;  // `room` of each
  uint32_t* used = nullptr;
  uint32_t room = 0, warps = 0;  // warps that note barriers in each block; 0: none does
  const uint32_t* ticket = nullptr;
  const uint64_t *states = nullptr, *states_end = nullptr;
};
static __device__ log_view log;

// A number for a line of a file: 16 bits of a hash of folder and name above 16 bits of the line.
TUCK_HD constexpr uint32_t site_of(const char* file, uint32_t line) {
  const char *name = file, *folder = file;
  uint32_t hash = 2166136261u;
  for (const char* c = file; *c != 0; ++c)
    if (*c == '/') folder = name, name = c + 1;
  for (const char* c = folder; *c != 0; ++c) hash = (hash ^ static_cast<unsigned char>(*c)) * 16777619u;
  return (hash ^ hash >> 16) << 16 | line;
}

#if defined(TUCK_CUDASIM)
// No times, but an order.
inline uint64_t nanoseconds() {
  static std::atomic<uint64_t> now{0};
  return ++now;
}
inline uint64_t clocks() { return nanoseconds(); }
inline uint32_t processor() { return 0; }
#else
__device__ __forceinline__ uint64_t clocks() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
  return now;
}
__device__ __forceinline__ uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  return now;
}
__device__ __forceinline__ uint32_t processor() {
  uint32_t id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}
#endif

__device__ inline void note(uint32_t list, const event& e) {
  const uint32_t n = log.used[list]++;
  if (n < log.room) log.events[uint64_t{list} * log.room + n] = e;
}
template <class Wait> __device__ __forceinline__ auto at_barrier(uint32_t site, const Wait& wait) {
  const uint64_t arrived = clocks();
  const bool answer = wait();
  if (log.warps != 0 && threadIdx.x % device::warp_size == 0)
    note(blockIdx.x * log.warps + threadIdx.x / device::warp_size, {kind::barrier, site, 0, arrived, clocks(), 0});
  return answer;
}
template <class U> __device__ __forceinline__ void at_draw(U* p, U drawn) {
  if (log.warps == 0 && reinterpret_cast<const void*>(p) == log.ticket)
    note(blockIdx.x, {kind::ticket, static_cast<uint32_t>(drawn), 0, nanoseconds(), 0, processor()});
}
// Is this word of look-back an end, rather than a size? The program defines it, behind chunk_state.
static __device__ bool is_end(uint64_t word);
template <class U> __device__ __forceinline__ void at_store(U* p, uint64_t word) {
  const auto* const at = reinterpret_cast<const uint64_t*>(p);
  if (log.warps == 0 && at >= log.states && at < log.states_end)
    note(blockIdx.x,
         {is_end(word) ? kind::end : kind::size, 0, reinterpret_cast<uint64_t>(at), nanoseconds(), 0, processor()});
}

}  // namespace tuck::trace

namespace tuck::inline TUCK_ABI::device {

__device__ __forceinline__ void traced_sync_block(uint32_t site) {
  trace::at_barrier(site, [] { return sync_block(), true; });
}
__device__ __forceinline__ bool traced_sync_block_or(uint32_t site, bool value) {
  return trace::at_barrier(site, [=] { return sync_block_or(value); });
}
template <class U> __device__ __forceinline__ U traced_atomic_add(U* p, std::type_identity_t<U> v) {
  const U before = atomic_add(p, v);
  trace::at_draw(p, before);
  return before;
}
template <class U> __device__ __forceinline__ void traced_store_relaxed(U* p, std::type_identity_t<U> v) {
  store_relaxed(p, v);
  trace::at_store(p, v);
}

}  // namespace tuck::inline TUCK_ABI::device

#define sync_block() \
  traced_sync_block(std::integral_constant<uint32_t, ::tuck::trace::site_of(__FILE__, __LINE__)>::value)
#define sync_block_or(...) \
  traced_sync_block_or(std::integral_constant<uint32_t, ::tuck::trace::site_of(__FILE__, __LINE__)>::value, __VA_ARGS__)
#define atomic_add traced_atomic_add
#define store_relaxed traced_store_relaxed
