// Options of a swap_stream.
#pragma once

#include <tuck/frame/device.cuh>

namespace tuck::inline TUCK_ABI {

/// How a tensor travels to the host. Restoring works the same for all of them.
enum class swap_path : uint8_t {
  direct,  ///< the encode kernel, on a few blocks, writes the frame into pinned memory: cDMA's engine in software
  staged,  ///< encoded in device memory, then copied by even fewer blocks: the source is released earlier
  raw,     ///< copied unchanged by the copy engine: vDNN
  cpu,     ///< copied unchanged, then encoded by CPU threads to occupy less pinned memory: vDNN++. A tensor that is
           ///< restored before it is encoded gets its original values, even if the codec is lossy
};

/// What `out` does if the pool has no capacity for the worst case of a tensor.
enum class on_full : uint8_t {
  keep_on_device,  ///< the tensor stays in the caller's memory: swap_handle::kept_on_device
  fail,            ///< returns pool_full
  block,           ///< waits while operations in progress may free capacity, then returns pool_full. It does not wait
                   ///< for handles that the program might destroy
};

/// Options of a swap_stream.
struct swap_options {
  uint64_t pinned_bytes = 0;                ///< size of the pool, allocated by the constructor
  int device = -1;                          ///< -1: the current device
  launch_options limits{.max_blocks = 16};  ///< of offload kernels; 16 is computed for 64 GB/s, not measured
  swap_path path = swap_path::direct;       ///< default path
  on_full full = on_full::keep_on_device;   ///< what to do if the pool is full
  unsigned cpu_threads = 1;                 ///< threads for swap_path::cpu; 0: such tensors stay raw
  bool checksums = false;                   ///< store a digest of each chunk's values, to detect damage in host memory
};

}  // namespace tuck::inline TUCK_ABI
