// SPDX-License-Identifier: Apache-2.0
// A kernel that copies frames with few blocks. It is used if only the device knows the size or offset of a frame.
#pragma once

#include <tuck/frame/device.cuh>

namespace tuck::inline TUCK_ABI {

/// Size and offset of an offloaded frame. Kernels write it to pinned memory for the host.
struct alignas(32) offload_report {
  outcome frame;        ///< outcome of the encode
  uint64_t offset = 0;  ///< in bytes, within the range of the frame's run (pinned_pool::run)
};

/// One copy. The device must be able to access all pointers. `from` and `to`, plus their offsets, are multiples of 16.
struct frame_copy_job {
  const std::byte* from;        ///< buffer of the frame
  const uint64_t* from_offset;  ///< offset of the frame in `from`; null: 0
  const outcome* frame;         ///< size of the frame; nothing is copied if this is not ok
  std::byte* to;                ///< destination buffer
  uint64_t capacity;            ///< size of the destination buffer in bytes
  uint64_t* used;           ///< null: copy to the start of `to`. Else copy to offset `*used`, and add the size, rounded
                            ///< up to append_alignment, to `*used`
  offload_report* written;  ///< with `used`: receives the outcome and the offset; output_too_small if it did not fit
  scratch_head* head;       ///< with `used`: initialized scratch
};

inline namespace TUCK_ARCH {

/// Copies 16 bytes per thread and load. With `used`, the last block to finish writes the report and `*used`.
/// @tparam Threads block size
template <int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::blocks_with(64))
    frame_copy_kernel(const __grid_constant__ frame_copy_job job) {
  outcome frame = device::load(job.frame);
  const uint64_t used = job.used == nullptr ? 0 : device::load_relaxed(job.used);
  if (frame.code == status::ok && (used > job.capacity || frame.bytes > job.capacity - used))
    frame.code = status::output_too_small;
  if (frame.code == status::ok) {
    const uint64_t offset = job.from_offset == nullptr ? 0 : device::load(job.from_offset);
    const auto* const from = reinterpret_cast<const device::vec128*>(job.from + offset);
    auto* const to = reinterpret_cast<device::vec128*>(job.to + used);
    constexpr uint32_t ahead = 4;  // loads in flight per thread: reads of host memory have a high latency
    const uint64_t count = ceil_div(frame.bytes, uint64_t{16}), stride = uint64_t{gridDim.x} * Threads;
    for (uint64_t i = uint64_t{blockIdx.x} * Threads + threadIdx.x; i < count; i += ahead * stride) {
      device::vec128 x[ahead];
#pragma unroll
      for (uint32_t k = 0; k < ahead; ++k)
        if (i + k * stride < count) x[k] = device::load(from + i + k * stride);
#pragma unroll
      for (uint32_t k = 0; k < ahead; ++k)
        if (i + k * stride < count) device::store(to + i + k * stride, x[k]);
    }
  }
  if (job.used == nullptr) return;
  device::sync_block();
  if (threadIdx.x != 0 || !finish_shares(*job.head, 1, gridDim.x)) return;
  device::store(&job.written->frame, frame);
  if (frame.code == status::ok) {
    device::store(&job.written->offset, used);
    device::store_relaxed(job.used, used + round_up_pow2(frame.bytes, append_alignment_log2));
  }
  reset(*job.head, device::load_relaxed(&job.head->epoch));
}

/// Maximum number of blocks of a copy: enough to saturate a link, few enough to leave the GPU to other kernels.
inline constexpr unsigned frame_copy_blocks = 4;

/// Launches a copy on `stream`. Asynchronous. All memory must stay valid until the copy is done. Misuse is not checked.
/// @param how max_blocks can reduce the number of blocks
/// @return ok or the error of the launch
inline result copy_frame(const frame_copy_job& job, const launch_options& how, cudaStream_t stream) noexcept {
  const unsigned most = how.max_blocks == 0 ? frame_copy_blocks : (std::min)(how.max_blocks, frame_copy_blocks);
  return detail::launch(frame_copy_kernel<block_threads>, job, most, {.max_blocks = most}, stream);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
