// What the headers ask of the runtime: everything a CUDA thread does that other threads can notice.
// All functions but traffic_enabled are for code that runs inside a kernel.
#pragma once

#include "submit.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cudasim::detail {

enum class warp_op : unsigned char { sync, shfl, shfl_up, shfl_down, shfl_xor, ballot, any, all, add, min, max, or_ };

// One lane's part in a warp collective.
struct warp_request {
  warp_op op;
  unsigned char bytes = 4;   // of the value: 4 or 8
  unsigned char width = 32;  // of a shuffle's segments
  unsigned mask;
  int argument = 0;  // source lane, delta or lane mask of a shuffle
  std::uint64_t value = 0;
};

// Waits for the lanes of the mask and returns this lane's result.
std::uint64_t warp_collective(const warp_request& request, site where);

enum class barrier_op : unsigned char { plain, any, sum };  // sum: block_sum alone
int block_barrier(barrier_op op, bool predicate, site where);

// Copies of this thread from global to shared memory, which take place when it waits: for all of them (newest 0), or
// for all committed groups but the newest. Until then the target is poison.
void begin_copy(void* to, const void* from, std::size_t bytes, site where);
void commit_copies();
void wait_for_copies(unsigned newest);

// The block's copy of the variable that `key` stands for; poisoned, not constructed.
void* shared_slot(const void* key, std::size_t bytes, std::size_t alignment, const char* name, site where);
std::byte* dynamic_shared_memory();

void polled(site where);  // after a load that others may be waited for with: counts, yields
void yield(site where);   // lets other threads and blocks run
void stored();            // a store that others may wait for: the kernel makes progress
void atomic_done(const void* p, bool changed, site where);  // after a read-modify-write
void fence();                                               // __threadfence
bool inside_kernel();

// Ends the launch with a report of this kind.
[[noreturn]] void device_error(const char* kind, const char* text, site where);
[[noreturn]] void misaligned(const void* address, std::size_t bytes, site where);

// A block-wide sum: the return value is the sum over the threads before this one, `total` that over all.
// Orders memory as a barrier does. Reports a second use of the storage without a barrier between the two.
std::uint64_t block_sum(const void* storage, std::size_t storage_bytes, std::uint64_t value, std::uint64_t& total,
                        site where);

extern std::atomic<bool> traffic_enabled;
void record_traffic(const void* address, std::size_t bytes, bool write, site where);

struct kernel_call {
  virtual ~kernel_call() = default;
  virtual void run() const = 0;  // one CUDA thread
};

}  // namespace cudasim::detail
