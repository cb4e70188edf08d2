// The pre-pass of adaptive codecs: one launch that reads each value once and finds the range of the whole tensor before
// it is encoded.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/frame/look_back.cuh>

namespace tuck::inline TUCK_ABI {

template <floating_element T> struct prepass_job {
  const T* values;  // aligned to a word of block_tile
  uint64_t count;
  scratch_head* head;
};

// Extends the range in the scratch by the tiles `share`, `share + shares`, ... of the job. encode reads it there. Call
// it with all threads of a block. Between two uses of the same TempStorage there must be a sync_block().
template <floating_element T, int Threads> struct block_prepass {
  using tile = block_tile<T, Threads>;
  using key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  static constexpr int warps = Threads / device::warp_size;
  struct TempStorage {
    key of_warp[2 * warps];
  };

  __device__ static void run(TempStorage& temp, const prepass_job<T>& job, uint32_t share, uint32_t shares);
};

template <floating_element T, int Threads>
__device__ void block_prepass<T, Threads>::run(TempStorage& temp, const prepass_job<T>& job, uint32_t share,
                                               uint32_t shares) {
  value_range<T> range;
  for (uint64_t begin = uint64_t{share} * tile::capacity; begin < job.count;
       begin += uint64_t{shares} * tile::capacity) {
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
    temp.of_warp[device::warp_id()] = lowest;
    temp.of_warp[warps + device::warp_id()] = highest;
  }
  device::sync_block();
  if (threadIdx.x != 0) return;
  range_keys all;
  for (int warp = 0; warp < warps; ++warp) all.add({temp.of_warp[warp], temp.of_warp[warps + warp]});
  if (all.lowest != 0) device::atomic_max(&job.head->range.lowest, all.lowest);
  if (all.highest != 0) device::atomic_max(&job.head->range.highest, all.highest);
}

inline namespace TUCK_ARCH {

template <floating_element T, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, blocks_a_processor)
    prepass_kernel(const __grid_constant__ prepass_job<T> job) {
  using prepass = block_prepass<T, Threads>;
  using storage = typename prepass::TempStorage;
  TUCK_SHARED(storage, temp);
  prepass::run(temp, job, blockIdx.x, gridDim.x);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
