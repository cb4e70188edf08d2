// SPDX-License-Identifier: Apache-2.0
// Options of a swap_stream, and what it reports of its pool.
#pragma once

#include <tuck/frame/launch.hpp>

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

/// What `out` does if the pool has no capacity for the largest possible frame of the tensor (raw, cpu: its values). If
/// the whole pool is smaller than that, `fail` and `block` return pool_too_small. With a pool of 0 bytes all do, except
/// for 0 raw bytes.
enum class on_full : uint8_t {
  keep_on_device,  ///< keeps the tensor in the caller's memory, also if the pool is too small for it: see
                   ///< swap_handle::kept_on_device
  fail,            ///< returns pool_full
  block,           ///< waits for capacity. Returns pool_full if no operation in progress can free enough. Does not wait
                   ///< for the program to destroy handles
};

/// Options of a swap_stream.
struct swap_options {
  uint64_t pinned_bytes = 0;                ///< size of the pool, allocated by the constructor; required
  int device = -1;                          ///< -1: the current device
  launch_options limits{.max_blocks = 32};  ///< for offload kernels: 32 reach 92 % of PCIe 5 on an H100, 16 reach 77 %
  swap_path path = swap_path::direct;       ///< default path
  on_full full = on_full::fail;             ///< what to do if the pool is full
  unsigned cpu_threads = 1;                 ///< threads for swap_path::cpu, at most 1024; 0: such tensors stay raw
  bool checksums = false;                   ///< store a digest of each chunk's values, to detect damage in host memory
};

/// Usage of a pool, in bytes.
struct pool_statistics {
  uint64_t capacity = 0;  ///< size of the pool
  uint64_t held = 0;      ///< occupied by offloaded tensors, in whole units
  uint64_t peak = 0;      ///< largest value of `held` so far
  uint64_t reserved = 0;  ///< reserved for frames in progress, worst case
  uint64_t wasted = 0;    ///< free, but outside the largest contiguous free part; only smaller tensors can use it
};

}  // namespace tuck::inline TUCK_ABI
