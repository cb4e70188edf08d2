// How blocks find the offsets of their chunks: decoupled look-back (Merrill and Garland, 2016) over one 64-bit word per
// chunk, in scratch of the caller that is not cleared between calls.
//
// Blocks draw chunks in order by a ticket, so all earlier chunks have already been started. A block
// publishes the size of its chunk as soon as it is known. Then it reads the words before it, 32 at a time, back to the
// nearest chunk whose end is known, and publishes the end of its own chunk. The epoch of a call distinguishes its words
// from those of earlier calls.
#pragma once

#include <tuck/core/checksum.hpp>
#include <tuck/core/device.cuh>
#include <tuck/core/floating.hpp>
#include <tuck/core/status.hpp>

namespace tuck::inline TUCK_ABI {

// State that the blocks of a call share. In a batch, each item has one too. Between calls, everything except the
// epoch is 0.
struct alignas(16) scratch_head {
  // 0: no chunk failed. Else ~failure: [63:16] the lowest chunk that failed, [15:0] its status. 48 bits are enough:
  // the directory of 2^48 chunks would have 2^51 bytes.
  uint64_t failure;
  uint64_t contents;  // word_sum of the contents
  uint32_t ticket;    // next chunk or slot to draw
  uint32_t done;      // blocks that have finished
  uint32_t epoch;     // of the running call
  range_keys range;   // of the tensor, if its codec needs it. Deltas have no range: see below
  uint64_t ready;     // of an item of a batch: a chunk_state with the epoch of the call that cleared this state

  // The digests of a delta's base and of its result, where other frames have the range.
  __device__ uint64_t& base_digest() { return range.lowest; }
  __device__ uint64_t& result_digest() { return range.highest; }
};
/// Bytes of scratch that decoding a frame needs.
inline constexpr uint64_t scratch_head_bytes = 64;
static_assert(sizeof(scratch_head) == scratch_head_bytes);

// The state of a chunk:
//
//    63         41   40   39                                 0
//   +-------------+------+------------------------------------+
//   |  epoch + 1  | flag | size or end, in units of alignment |
//   +-------------+------+------------------------------------+
struct chunk_state {
  uint64_t word;

  static constexpr uint64_t has_size = 0, has_end = 1;
  static constexpr uint32_t epochs = 1u << 22;

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

// Adds a share to the checksum of the contents. Call these with one thread.
__device__ inline void add_contents(scratch_head& head, const word_sum& sums) {
  if (sums.sum != 0) device::atomic_add(&head.contents, sums.sum);
}
// Counts a share as finished. Returns whether it is the last; then everything that other shares did before is visible.
__device__ inline bool finish_share(scratch_head& head, uint32_t shares) {
  return shares == 1 || device::atomic_count_acq_rel(&head.done) == shares - 1;
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
  device::store_relaxed(&head.epoch, next % chunk_state::epochs);
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
  const uint64_t ready = chunk_state::make(chunk_state::has_size, epoch, 0).word;
  if (slot == 0) {
    clear_item(item);
    if (!alone) device::store_release(&item.ready, ready);
  } else {
    while (device::load_acquire(&item.ready) != ready) device::backoff(20);
  }
}

// Clears the words of all earlier calls when the epoch wraps around. Call it with all threads of the last block. It
// waits until all of them have read what they need.
template <int Threads> __device__ void clear_at_wrap(uint64_t* states, uint64_t count, uint32_t epoch) {
  if (epoch + 1 != chunk_state::epochs) return;
  device::sync_block();
  for (uint64_t i = threadIdx.x; i < count; i += Threads) device::store_relaxed(states + i, uint64_t{0});
}

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
  // Must come before finish_share.
  __device__ void publish(scratch_head& head) const {
    device::atomic_add(&head.base_digest(), of_base.get());
    if (of_result.get() != 0) device::atomic_add(&head.result_digest(), of_result.get());
  }
};
struct no_digests {};

template <class Job> inline constexpr bool is_delta_job = requires(const Job& job) { job.base; };

// The body of a kernel: `Worker` does a block's part of the job, with its storage in shared memory.
template <class Worker, class Job> __device__ __forceinline__ void run_worker(const Job& job) {
  using storage = typename Worker::TempStorage;
  TUCK_SHARED(storage, temp);
  Worker(temp, job).run();
}

}  // namespace tuck::inline TUCK_ABI
