// How a swap_stream is to work.
#pragma once

#include <tuck/frame/device.cuh>

namespace tuck::inline TUCK_ABI {

// How a tensor gets to the host.
enum class swap_path : uint8_t {
  direct,  // the encode kernel, on a few blocks, writes the frame into pinned memory: cDMA's engine in software
  staged,  // encoded in device memory, then copied by fewer blocks still: the source is free earlier
  raw,     // copied as it is by the copy engine: vDNN
  cpu,     // the same, and then encoded by threads of the CPU, so that it takes less pinned memory: vDNN++. What is
           // wanted back before that comes back as it was, also where the codec is a lossy one
};

// What becomes of a tensor that the pool has no room for. The room that is wanted is that of the worst case.
enum class on_full : uint8_t {
  keep_on_device,  // it stays where it is, and the caller's
  fail,            // out returns pool_full
  block,           // out waits while what is under way may make room, and then returns pool_full. It does not wait for
                   // handles that the program might destroy
};

struct swap_options {
  uint64_t pinned_bytes = 0;                // of the pool, reserved at once
  int device = -1;                          // -1: the current one
  launch_options limits{.max_blocks = 16};  // of kernels that swap out. Computed for a 64 GB/s link, not measured
  swap_path path = swap_path::direct;
  on_full full = on_full::keep_on_device;
  unsigned cpu_threads = 1;  // for swap_path::cpu; with 0, such tensors stay as they are
  bool checksums = false;    // keep a digest of each chunk's values, so that damage in host memory is found
};

}  // namespace tuck::inline TUCK_ABI
