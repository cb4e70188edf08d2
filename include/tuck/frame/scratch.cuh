// SPDX-License-Identifier: Apache-2.0
// The state that the blocks of a call share, in scratch of the caller: what is drawn, what is done, and the sums of all
// blocks.
#pragma once

#include <tuck/core/checksum.hpp>
#include <tuck/core/device.cuh>
#include <tuck/core/floating.hpp>
#include <tuck/core/status.hpp>

namespace tuck::inline TUCK_ABI {

// Digests of the base and of the result of a delta.
struct digest_pair {
  uint64_t base, result;
};

// State that the blocks of a call share. In a batch, each item has one too. Between calls, everything except the
// epoch is 0.
struct alignas(16) scratch_head {
  uint32_t ticket;  // next chunk or slot to draw. First: no register is needed for the sum of two addresses
  uint32_t done;    // blocks that have finished
  // 0: no chunk failed. Else ~failure: [63:16] the lowest chunk that failed, [15:0] its status. 48 bits are enough:
  // the directory of 2^48 chunks would have 2^51 bytes.
  uint64_t failure;
  uint64_t contents;  // word_sum of the contents
  uint32_t epoch;     // of the running call
  union {
    range_keys range{};   // of the tensor, if its codec needs it
    digest_pair digests;  // of a delta
  };
  uint64_t ready;  // of an item of a batch: epoch + 1 of the call that cleared this state
};
/// Bytes of scratch that decoding a frame needs.
inline constexpr uint64_t scratch_head_bytes = 64;
static_assert(sizeof(scratch_head) == scratch_head_bytes);

// Number of epochs. Words of an earlier call with the same epoch must have been cleared.
inline constexpr uint32_t scratch_epochs = 1u << 22;

// Adds a share to the checksum of the contents. Call these with one thread.
__device__ inline void add_contents(scratch_head& head, const word_sum& sums) {
  if (sums.sum != 0) device::atomic_add(&head.contents, sums.sum);
}
// Counts `done` of all shares as finished. Returns whether these are the last; then everything that other shares did
// before is visible.
__device__ inline bool finish_shares(scratch_head& head, uint32_t done, uint32_t shares) {
  return shares == done || device::atomic_add_acq_rel(&head.done, done) == shares - done;
}

// Resets the state for the next call, whose epoch is `next`. Call it with one thread of the last block, when no other
// thread of that block reads the state any more.
__device__ inline void reset(scratch_head& head, uint32_t next) {
  device::store_relaxed(&head.failure, uint64_t{0});
  device::store_relaxed(&head.contents, uint64_t{0});
  device::store_relaxed(&head.ticket, uint32_t{0});
  device::store_relaxed(&head.done, uint32_t{0});
  device::store_relaxed(&head.range.lowest, uint64_t{0});
  device::store_relaxed(&head.range.highest, uint64_t{0});
  device::store_relaxed(&head.epoch, next % scratch_epochs);
}

// In a batch, each item has a state in scratch, where earlier calls may have left anything. The block with the item's
// first slot clears it and publishes that. The last block to finish leaves it cleared. Call these with one thread.
__device__ inline void clear_item(scratch_head& item) {
  reset(item, 0);
  device::store_relaxed(&item.ready, uint64_t{0});
}
// Call it before the state is used. Slot 0 clears it; other slots wait for that. `alone`: there are no other slots, so
// nothing is published.
__device__ inline void open_item(scratch_head& item, uint32_t slot, bool alone, uint32_t epoch) {
  const uint64_t ready = uint64_t{epoch} + 1;
  if (slot == 0) {
    clear_item(item);
    if (!alone) device::store_release(&item.ready, ready);
  } else {
    while (device::load_acquire(&item.ready) != ready) device::backoff(20);
  }
}

}  // namespace tuck::inline TUCK_ABI
