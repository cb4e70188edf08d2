// Raw DEFLATE streams of any encoder on a stream: many at once, a warp each.
#pragma once

#include <tuck/codec/inflate/inflate_warp.cuh>
#include <tuck/frame/device.cuh>

namespace tuck::inline TUCK_ABI {

// A stream and the room for its output, both on the device.
struct inflate_item {
  const_bytes stream;
  bytes out;
};

namespace detail {

struct inflate_job {
  span<const inflate_item> items;
  inflate_result* results;
};

}  // namespace detail

inline namespace TUCK_ARCH {

template <int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, blocks_a_processor)
    inflate_batch_kernel(const __grid_constant__ detail::inflate_job job) {
  constexpr uint32_t warps = Threads / device::warp_size;
  using storage = inflate_warp::TempStorage[warps];
  TUCK_SHARED(storage, temp);
  inflate_warp inflate(temp[device::warp_id()]);
  for (uint64_t i = uint64_t{blockIdx.x} * warps + device::warp_id(); i < job.items.size();
       i += uint64_t{gridDim.x} * warps) {
    const inflate_item item = job.items[i];
    const inflate_result result = inflate(item.stream, item.out);
    if (device::lane_id() == 0) job.results[i] = result;
    device::sync_warp();
  }
}

// Decodes each item's stream into its output as tuck::inflate does, and writes what became of it to the result of the
// same index: one launch. The items and results too are on the device; the host sees no more of them than where they
// are and how many. Outputs do not overlap each other or a stream; streams may be shared. No alignment is asked of
// either.
inline result inflate_batch(span<const inflate_item> items, span<inflate_result> results, cudaStream_t stream,
                            const launch_options& how = {}) noexcept {
  if (items.is_null() || results.is_null()) return {status::invalid_argument};
  if (!tuck::aligned(items.data(), alignof(inflate_item)) || !tuck::aligned(results.data(), alignof(inflate_result)))
    return {status::misaligned};
  if (results.size() < items.size()) return {status::output_too_small};
  if (items.empty()) return {};
  constexpr uint64_t warps = block_threads / device::warp_size;
  return detail::launch(inflate_batch_kernel<block_threads>, detail::inflate_job{items, results.data()},
                        ceil_div(items.size(), warps), how, stream);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
