// Decodes many raw DEFLATE streams, from any encoder, in one launch. Each warp decodes one stream.
#pragma once

#include <tuck/codec/inflate/inflate_warp.cuh>
#include <tuck/frame/device.cuh>

namespace tuck::inline TUCK_ABI {

/// A DEFLATE stream and the buffer for its output, both in device memory.
struct inflate_item {
  const_bytes stream;  ///< raw DEFLATE (RFC 1951), with any alignment
  bytes out;           ///< buffer for the output, with any alignment
};

namespace detail {

struct inflate_job {
  span<const inflate_item> items;
  inflate_result* results;
};

}  // namespace detail

inline namespace TUCK_ARCH {

/// @cond
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
/// @endcond

/// Decodes each stream into its output, as tuck::inflate does, and writes the result with the same index. Asynchronous
/// on `stream`: one launch.
///
/// @param items    in device memory. Outputs must not overlap each other or a stream. Items may share a stream
/// @param results  in device memory, at least as many as items
/// @return invalid_argument, misaligned, output_too_small (fewer results than items) or a CUDA error
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
