// SPDX-License-Identifier: Apache-2.0
// Streams of bits that threads have staged beside each other are joined, on one thread block.
#pragma once

#include <tuck/codec/block_tile.cuh>
#include <tuck/core/bit_lanes.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// Moves this thread's stream of `bits` bits to bit `begin` of `all`, which has `words` words. Word i of stream t is at
// i * streams + t of `staged`; threads from `streams` on have none. Has barriers.
__device__ inline void join_streams(const uint32_t* staged, uint32_t streams, uint32_t begin, uint32_t bits,
                                    uint32_t* all, uint32_t words) {
  const uint32_t t = threadIdx.x, shift = begin % 32, whole = (shift + bits) / 32;  // the latter: words to its last bit
  if (t == 0 && words != 0) all[words - 1] = 0;
  device::sync_block();
  uint32_t* const to = all + begin / 32;
  uint32_t before = 0;
  if (t < streams) {
    device::shared_steps from(staged, t, tile_bytes / 4, streams);
#pragma unroll 1
    for (uint32_t i = 0; i < whole; ++i) {
      const uint32_t now = from.get();
      to[i] = device::funnel_shift_right(now, before, shift);
      before = now;
    }
  }
  device::sync_block();
  if (t < streams && (shift + bits) % 32 != 0) {
    const uint32_t last = whole <= bits / 32 ? staged[whole * streams + t] : 0;
    device::atomic_or(to + whole, device::funnel_shift_right(last, before, shift));
  }
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
