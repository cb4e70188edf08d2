// SPDX-License-Identifier: Apache-2.0
// How blocks find the offsets of their chunks: decoupled look-back (Merrill and Garland, 2016) over one 64-bit word per
// chunk, in scratch of the caller that is not cleared between calls.
//
// Blocks draw chunks in order by a ticket, so all earlier chunks have already been started. A block
// publishes the size of its chunk as soon as it is known. Then it reads the words before it, 32 at a time, back to the
// nearest chunk whose end is known, and publishes the end of its own chunk. The epoch of a call distinguishes its words
// from those of earlier calls.
#pragma once

#include <tuck/frame/scratch.cuh>

namespace tuck::inline TUCK_ABI {

// The state of a chunk:
//
//    63         41   40   39                                 0
//   +-------------+------+------------------------------------+
//   |  epoch + 1  | flag | size or end, in units of alignment |
//   +-------------+------+------------------------------------+
struct chunk_state {
  uint64_t word;

  static constexpr uint64_t has_size = 0, has_end = 1;
  static_assert(scratch_epochs < 1u << 23, "tuck: 23 bits for epoch + 1");

  __device__ static chunk_state make(uint64_t flag, uint32_t epoch, uint64_t units) {
    return {uint64_t{epoch + 1} << 41 | flag << 40 | units};
  }
  __device__ bool known(uint32_t epoch) const { return static_cast<uint32_t>(word >> 32) >> 9 == epoch + 1; }
  __device__ bool is_end() const { return (static_cast<uint32_t>(word >> 32) & 0x100) != 0; }
  __device__ uint64_t units() const { return word & ((uint64_t{1} << 40) - 1); }
};

// Returns the offset of `chunk` to all lanes, in units of the alignment. Call it with a whole warp. `first`: the offset
// of chunk 0.
__device__ inline uint64_t look_back(const uint64_t* states, uint32_t chunk, uint32_t epoch, uint64_t first) {
  uint64_t before = 0;
  for (uint32_t end = chunk;; end -= device::warp_size) {
    // Lane l reads the (l + 1)-th chunk before `end`. Chunks before chunk 0 count as ended at `first`.
    const uint32_t distance = device::lane_id() + 1;
    chunk_state seen = distance <= end ? chunk_state{} : chunk_state::make(chunk_state::has_end, epoch, first);
    for (;;) {
      if (!seen.known(epoch)) seen.word = device::load_relaxed(states + (end - distance));
      if (!device::any(!seen.known(epoch))) break;
      device::backoff(20);
    }
    const unsigned ends = device::ballot(seen.is_end());
    // 32 bits are enough for sizes, but not for ends.
    const unsigned nearer = ~ends & (ends - 1);
    before += device::warp_sum((nearer >> device::lane_id() & 1) != 0 ? static_cast<uint32_t>(seen.units()) : 0);
    if (ends != 0) return before + device::shfl(seen.units(), device::ffs(ends) - 1);
  }
}

// Clears the words of all earlier calls when the epoch wraps around. Call it with all threads of the last block. It
// waits until all of them have read what they need.
template <int Threads> __device__ void clear_at_wrap(uint64_t* states, uint64_t count, uint32_t epoch) {
  if (epoch + 1 != scratch_epochs) return;
  device::sync_block();
  for (uint64_t i = threadIdx.x; i < count; i += Threads) device::store_relaxed(states + i, uint64_t{0});
}

}  // namespace tuck::inline TUCK_ABI
