// How tests steer the simulator and look into it. Only test code includes this.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace cudasim {

struct settings {
  std::uint64_t seed = 1;      // of every random choice: lanes, warps, blocks, delays
  int workers = 2;             // threads that run the blocks of one launch
  std::uint8_t poison = 0xcd;  // fills fresh and freed device memory and shared memory
  bool stream_delays = true;   // random pauses before a stream's tasks
  bool count_traffic = false;  // fills the bytes and sectors of counters; slow
  int devices = 1;
  std::uint64_t watchdog_ms = 30000;  // a CUDA thread that runs this long without giving way ends the process
};

// Synchronises, then applies. The seed starts anew, so equal seeds make equal choices.
void configure(const settings& s);
settings current_settings();
// Synchronises, forgets errors, reports, injected faults, counters, tags and captures; keeps the settings.
void reset();

// The text of the first device error since reset(); empty if there was none.
std::string last_report();

struct counters {
  std::uint64_t calls = 0;  // that fail_call counts
  std::uint64_t launches = 0, allocations = 0, frees = 0, synchronisations = 0, memcpys = 0, memsets = 0;
  std::uint64_t get_last_error = 0;
  std::uint64_t largest_grid = 0;  // blocks of the largest launch
  // What fail_call made fail: calls that give the device work, and others, whose errors few can do anything about.
  std::uint64_t failed_work = 0, failed_housekeeping = 0;
  // Device side, per thread that executed one; `atomics` are those in global memory.
  std::uint64_t atomics = 0, shared_atomics = 0, polls = 0, barriers = 0;
  std::uint64_t tensor_bytes_read = 0, tensor_bytes_written = 0, other_bytes_read = 0, other_bytes_written = 0;
  std::uint64_t tensor_sectors_read = 0, tensor_sectors_written = 0, other_sectors_read = 0, other_sectors_written = 0;
};
counters snapshot();  // device-side figures are complete for launches that have been synchronised
void clear_counters();

// Ranges whose traffic counts as "tensor"; everything else is "other". Applies to later launches.
void tag_tensor(const void* data, std::size_t bytes);
void untag(const void* data);

// Allocations of device and pinned memory that have not been freed.
std::size_t live_allocations();

// The k-th runtime call from now (1 is the next) returns `error` once and does nothing. cudaGetLastError,
// cudaPeekAtLastError and the error names are not counted. k = 0 takes the order back.
void fail_call(std::uint64_t k, cudaError_t error);

}  // namespace cudasim
