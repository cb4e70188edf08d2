// What an adaptive codec wants to know of the whole tensor, gathered before it is encoded: one launch that reads each
// value once.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/frame/look_back.cuh>

namespace tuck::inline TUCK_ABI {

template <floating_element T> struct survey_job {
  const T* values;  // a multiple of a word's size
  uint64_t count;
  scratch_head* head;
};

// Raises the range in the scratch, where encode looks for it.
template <floating_element T, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, blocks_a_processor)
    survey_kernel(const __grid_constant__ survey_job<T> job) {
  using tile = block_tile<T, Threads>;
  using key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  constexpr int warps = Threads / device::warp_size;
  using keys_of_warps = key[2 * warps];
  TUCK_SHARED(keys_of_warps, of_warp);
  value_range<T> range;
  for (uint64_t begin = uint64_t{blockIdx.x} * tile::capacity; begin < job.count;
       begin += uint64_t{gridDim.x} * tile::capacity) {
    const uint64_t left = job.count - begin;
    tile values;
    values.load(job.values + begin, left < tile::capacity ? static_cast<uint32_t>(left) : tile::capacity);
#pragma unroll
    for (int j = 0; j < tile::words; ++j)
#pragma unroll
      for (int k = 0; k < tile::per_word; ++k)
        if (tile::first_value(j) + static_cast<uint32_t>(k) < values.count) range.add(tile::value(values.w[j], k));
  }
  const key lowest = device::warp_max(static_cast<key>(range.lowest));
  const key highest = device::warp_max(static_cast<key>(range.highest));
  if (device::lane_id() == 0) {
    of_warp[device::warp_id()] = lowest;
    of_warp[warps + device::warp_id()] = highest;
  }
  device::sync_block();
  if (threadIdx.x != 0) return;
  range_keys all;
  for (int warp = 0; warp < warps; ++warp) all.add({of_warp[warp], of_warp[warps + warp]});
  if (all.lowest != 0) device::atomic_max(&job.head->range.lowest, all.lowest);
  if (all.highest != 0) device::atomic_max(&job.head->range.highest, all.highest);
}

}  // namespace tuck::inline TUCK_ABI
