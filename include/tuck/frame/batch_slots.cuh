// How the blocks of a batch find work, without a table of where whose work begins.
//
// An item has one slot, and more of them where its tensor is large: encoding, one a chunk. Slots are numbered in the
// order of the items and drawn by a ticket, so that whoever has an earlier slot of the same item has already begun.
// The tickets of one block only grow: it keeps a cursor into the items and moves it forward, 128 items at a time, so
// that all its draws together pass over the items once.
#pragma once

#include <tuck/frame/batch.hpp>
#include <tuck/frame/look_back.cuh>

namespace tuck::inline TUCK_ABI {

// How many slots there are. `extra`: the most beyond the first of each item, of all items together; items for which
// they do not suffice get fewer, and are not worked on. Tickets have 32 bits, and each block draws one too many.
struct batch_slots {
  uint32_t items;
  uint32_t extra;
  uint32_t values;  // of an item that make one slot

  static constexpr uint64_t max = uint64_t{1} << 30;

  constexpr uint64_t most() const noexcept { return uint64_t{items} + extra; }

  // What an item of `size` values wants beyond its first; none, if that is more than there are for all.
  TUCK_HD constexpr uint32_t wanted(uint64_t size) const noexcept {
    const uint64_t n = size == 0 ? 0 : (size - 1) / values;
    return n <= extra ? static_cast<uint32_t>(n) : 0;
  }
  TUCK_HD constexpr bool has_enough_for(uint64_t size) const noexcept { return size <= (uint64_t{extra} + 1) * values; }
  // What two items want, that saturates likewise; and of what items want, that which there is.
  TUCK_HD constexpr uint32_t sum(uint32_t a, uint32_t b) const noexcept { return a + b <= extra ? a + b : extra + 1; }
  TUCK_HD constexpr uint32_t granted(uint32_t wanted) const noexcept { return wanted < extra ? wanted : extra; }
};

// Where a block is in the batch. Its first warp moves it, all threads may ask it behind a barrier.
class batch_cursor {
 public:
  struct TempStorage {
    uint32_t item;        // the one drawn last; while looking, the first that is not passed
    uint32_t wanted;      // by the items before it, beyond their first slots
    uint32_t first, end;  // its slots
    uint32_t ticket;
    bool fits;
  };

  __device__ explicit batch_cursor(TempStorage& temp) : temp_(temp) {}

  // Before the first draw, by one thread.
  __device__ void begin() { temp_ = {}; }

  // By the first warp: the next slot; false: there are no more. sizes(i) is the number of values of item i.
  template <class Sizes> __device__ bool draw(const batch_slots& slots, uint32_t& tickets, const Sizes& sizes) {
    const unsigned lane = device::thread_id_anew();
    if (lane == 0) temp_.ticket = device::atomic_add(&tickets, 1u);
    device::sync_warp();
    while (temp_.ticket >= temp_.end && temp_.item < slots.items) look(slots, lane, sizes);
    return has_slot();
  }

  __device__ bool has_slot() const { return temp_.ticket < temp_.end; }  // did the last draw give one?
  __device__ uint32_t item() const { return temp_.item; }
  __device__ uint32_t first_ticket() const { return temp_.first; }
  __device__ uint32_t index() const { return temp_.ticket - temp_.first; }
  __device__ uint32_t count() const { return temp_.end - temp_.first; }
  __device__ bool fits() const { return temp_.fits; }  // has the item all slots that it wants?

 private:
  static constexpr uint32_t per_lane = 4;

  // Is the ticket for one of the next items, a few a lane? Else the cursor passes them.
  template <class Sizes> __device__ void look(const batch_slots& slots, unsigned lane, const Sizes& sizes) {
    const uint32_t item = temp_.item + lane * per_lane;
    uint32_t wanted = 0;
#pragma unroll
    for (uint32_t k = 0; k < per_lane; ++k)
      if (item + k < slots.items) wanted = slots.sum(wanted, slots.wanted(sizes(item + k)));
#pragma unroll 1
    for (unsigned delta = 1; delta < device::warp_size; delta *= 2) {
      const uint32_t below = device::shfl_up(wanted, delta);
      if (lane >= delta) wanted = slots.sum(wanted, below);
    }
    wanted = slots.sum(wanted, temp_.wanted);
    const uint32_t below = device::shfl_up(wanted, 1), before = lane == 0 ? temp_.wanted : below;
    const uint32_t past = item + per_lane < slots.items ? item + per_lane : slots.items;
    const unsigned found = device::ballot(temp_.ticket < past + slots.granted(wanted));
    device::sync_warp();  // all have read where the cursor was
    if (found != 0) {
      if (lane + 1 == static_cast<unsigned>(device::ffs(found))) find(slots, item, before, sizes);
    } else if (lane == device::warp_size - 1) {
      temp_.item = item + per_lane;
      temp_.wanted = wanted;
    }
    device::sync_warp();
  }

  // By one lane: from `item` on, before which so many are wanted.
  template <class Sizes>
  __device__ void find(const batch_slots& slots, uint32_t item, uint32_t before, const Sizes& sizes) {
#pragma unroll 1
    for (;; ++item) {
      const uint32_t wanted = slots.wanted(sizes(item)), behind = slots.sum(before, wanted);
      const uint32_t from = slots.granted(before), to = slots.granted(behind);
      if (temp_.ticket <= item + to) {
        temp_ = {item,          before,       item + from,
                 item + to + 1, temp_.ticket, to - from == wanted && slots.has_enough_for(sizes(item))};
        return;
      }
      before = behind;
    }
  }

  TempStorage& temp_;
};

// Counts this block as finished with a batch: is it the last? All threads, which share `last`.
__device__ inline bool finish_batch(scratch_head& head, bool& last) {
  if (threadIdx.x == 0) last = device::atomic_count_acq_rel(&head.done) == gridDim.x - 1;
  device::sync_block();
  return last;
}

}  // namespace tuck::inline TUCK_ABI
