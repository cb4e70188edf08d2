// SPDX-License-Identifier: Apache-2.0
// One number of each warp of a block, for all its threads: the second half of reductions and of scans over a block.
#pragma once

#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::device {

/// A number of each warp. T is uint32_t or uint64_t. The caller puts a sync_block() between two uses of the same
/// TempStorage. All lanes of a warp call each function.
template <int Threads, class T = uint32_t> struct block_reduce {
  static constexpr unsigned warps = Threads / warp_size;
  struct TempStorage {
    T of_warp[warps];
  };

  /// Sets the number of this warp, which lane `lane` has.
  __device__ __forceinline__ static void set(TempStorage& temp, T of_warp, unsigned lane = 0) {
    if (lane_id() == lane) temp.of_warp[warp_id()] = of_warp;
  }
  /// Returns the number of warp i to lane i, and 0 to lanes past the last warp. A barrier must lie behind `set`.
  __device__ __forceinline__ static T get(const TempStorage& temp) {
    const T of_warp = temp.of_warp[lane_id() % warps];
    return lane_id() < warps ? of_warp : T{0};
  }
  /// Does both, with the barrier between them.
  __device__ __forceinline__ static T exchange(TempStorage& temp, T of_warp, unsigned lane = 0) {
    set(temp, of_warp, lane);
    sync_block();
    return get(temp);
  }
  /// Returns the sum over the warps before this one of what `get` or `exchange` returned.
  __device__ __forceinline__ static T sum_before(T of_warp) { return warp_sum(lane_id() < warp_id() ? of_warp : T{0}); }
  /// Returns the largest number of all threads. Has a barrier.
  __device__ __forceinline__ static T largest(TempStorage& temp, T mine) {
    return warp_max(exchange(temp, warp_max(mine)));
  }
};

}  // namespace tuck::inline TUCK_ABI::device
