// SPDX-License-Identifier: Apache-2.0
// Sums over the threads of a block: checksums, and the digests of deltas.
#pragma once

#include <tuck/core/checksum.hpp>
#include <tuck/core/device.cuh>
#include <tuck/frame/scratch.cuh>

namespace tuck::inline TUCK_ABI {

// Adds up to `Sums` sums of all threads of a block; thread 0 gets the result. Between two uses of the same TempStorage
// there must be a sync_block().
template <int Threads, int Sums = 1> struct block_sums {
  struct TempStorage {
    uint64_t of_warp[Sums][Threads / device::warp_size];
  };
  template <int N> __device__ static void reduce(TempStorage& temp, word_sum (&mine)[N]) {
    static_assert(N <= Sums);
    for (word_sum& s : mine) s.sum = device::warp_sum(s.sum);
    if (const unsigned thread = device::thread_id_anew(); thread % device::warp_size == 0)
      for (int i = 0; i < N; ++i) temp.of_warp[i][thread / device::warp_size] = mine[i].sum;
    device::sync_block();
    if (threadIdx.x == 0)
      for (int i = 0; i < N; ++i) {
        mine[i] = {};
        for (int warp = 0; warp < Threads / device::warp_size; ++warp) mine[i].sum += temp.of_warp[i][warp];
      }
  }
  __device__ static word_sum reduce(TempStorage& temp, word_sum mine) {
    word_sum all[] = {mine};
    reduce(temp, all);
    return all[0];
  }
};

// What the chunks of a block add to the digests of a delta's base and result, which are sums modulo 2^64. Call its
// members with one thread.
struct delta_digests {
  device::uninitialized<uint64_t> of_base, of_result;

  __device__ void clear_digests() { of_base.get() = of_result.get() = 0; }
  // Must come before finish_shares.
  __device__ void publish(scratch_head& head) const {
    device::atomic_add(&head.digests.base, of_base.get());
    if (of_result.get() != 0) device::atomic_add(&head.digests.result, of_result.get());
  }
};
struct no_digests {};

}  // namespace tuck::inline TUCK_ABI
