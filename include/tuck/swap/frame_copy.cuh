// Copies of frames by a few blocks, where only the device knows how long a frame is or where it lies.
#pragma once

#include <tuck/frame/device.cuh>

namespace tuck::inline TUCK_ABI {

// Where a frame has been parked and how long it is. In pinned memory, for the host.
struct alignas(32) offload_report {
  outcome frame;
  uint64_t offset = 0;  // in the room of its run
};

struct frame_copy_job {
  const std::byte* from;
  const uint64_t* from_offset;  // null: 0
  const outcome* frame;         // nothing is copied where it is not ok
  std::byte* to;
  uint64_t capacity;
  uint64_t* used;           // null: the frame goes to the begin of `to`; else it is appended, as append does
  offload_report* written;  // with `used`: what has become of it
  scratch_head* head;       // with `used`
};

inline namespace TUCK_ARCH {

template <int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, blocks_a_processor)
    frame_copy_kernel(const __grid_constant__ frame_copy_job job) {
  outcome frame = device::load(job.frame);
  const uint64_t used = job.used == nullptr ? 0 : device::load_relaxed(job.used);
  if (frame.code == status::ok && (used > job.capacity || frame.bytes > job.capacity - used))
    frame.code = status::output_too_small;
  if (frame.code == status::ok) {
    const uint64_t offset = job.from_offset == nullptr ? 0 : device::load(job.from_offset);
    const auto* const from = reinterpret_cast<const device::vec128*>(job.from + offset);
    auto* const to = reinterpret_cast<device::vec128*>(job.to + used);
    constexpr uint32_t ahead = 4;  // loads under way in a thread: reading the host takes long
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
  if (threadIdx.x != 0 || !finish_share(*job.head, {}, gridDim.x)) return;
  device::store(&job.written->frame, frame);
  if (frame.code == status::ok) {
    device::store(&job.written->offset, used);
    device::store_relaxed(job.used, used + round_up_pow2(frame.bytes, append_alignment_log2));
  }
  reset(*job.head, device::load_relaxed(&job.head->epoch));
}

inline constexpr unsigned frame_copy_blocks = 4;  // enough for a link, and few enough for what else runs

inline result copy_frame(const frame_copy_job& job, const launch_options& how, cudaStream_t stream) noexcept {
  const unsigned most = how.max_blocks == 0 ? frame_copy_blocks : std::min(how.max_blocks, frame_copy_blocks);
  return detail::launch(frame_copy_kernel<block_threads>, job, most, {.max_blocks = most}, stream);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
