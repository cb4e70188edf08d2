// Options of a swap_stream.
#pragma once

#include <tuck/frame/device.cuh>

namespace tuck::inline TUCK_ABI {

/// How a tensor is copied to the host. Restoring is the same call for all of them.
enum class swap_path : uint8_t {
  direct,  ///< the encode kernel, with few blocks, writes the frame into pinned memory, as the engine of cDMA would
  staged,  ///< encoded in device memory, then copied by at most 4 blocks. The source can be reused earlier than with
           ///< `direct`
  raw,     ///< copied unchanged by the copy engine, as in vDNN
  cpu,     ///< copied unchanged, then encoded by CPU threads to occupy less pinned memory, as in vDNN++. A tensor that
           ///< is restored before it is encoded has its original values, even if the codec is lossy
};

/// What `out` does if the pool has no capacity for the largest possible frame of the tensor (raw, cpu: its values).
enum class on_full : uint8_t {
  keep_on_device,  ///< keeps the tensor in the caller's memory: see swap_handle::kept_on_device
  fail,            ///< returns pool_full
  block,           ///< waits for capacity. Returns pool_full if no operation in progress can free enough. Does not wait
                   ///< for the program to destroy handles
};

/// Options of a swap_stream.
struct swap_options {
  uint64_t pinned_bytes = 0;                ///< size of the pool, allocated by the constructor
  int device = -1;                          ///< -1: the current device
  launch_options limits{.max_blocks = 16};  ///< for offload kernels; 16: by calculation enough for a link of 64 GB/s
  swap_path path = swap_path::direct;       ///< default path
  on_full full = on_full::keep_on_device;   ///< what to do if the pool is full
  unsigned cpu_threads = 1;                 ///< threads for swap_path::cpu; 0: such tensors stay raw
  bool checksums = false;                   ///< store a digest of each chunk's values, to detect damage in host memory
};

}  // namespace tuck::inline TUCK_ABI
