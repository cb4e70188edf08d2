// SPDX-License-Identifier: Apache-2.0
// The slots of a batch, which blocks draw. There is no table of where the slots of an item begin:
//
// An item has one slot, and more if its tensor is large: one per chunk for encoding. Slots are numbered in the order of
// the items and drawn by a ticket, so all earlier slots of the same item have already begun. The tickets of a block
// only grow. It keeps a cursor into the items and moves it forward, 64 items at a time. All draws of a block together
// pass over the items once.
//
// A block has the jobs of its items in shared memory. A call has one job, which is a parameter of its kernel.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/frame/items.hpp>
#include <tuck/frame/scratch.cuh>

namespace tuck::inline TUCK_ABI {

// The slots of a batch. If `extra` is too small for an item, the item has fewer slots than it needs and is not
// processed. Tickets have 32 bits, and each block draws one ticket after the last slot.
struct batch_slots {
  uint32_t items = 0;       // number of items, each with a first slot
  uint32_t extra = 0;       // maximum number of other slots, of all items together
  uint32_t values = 1;      // values per slot
  uint32_t reciprocal = 0;  // 2^32 / values, rounded down

  static constexpr uint64_t max_items = uint64_t{1} << 30, max_extra = uint64_t{1} << 26;
  static constexpr uint32_t too_many = ~0u;
  static_assert(device::warp_size * (max_extra + 1) < uint64_t{1} << 32, "tuck: a warp adds up what its lanes want");

  constexpr batch_slots() = default;
  // values > 1
  constexpr batch_slots(uint32_t items_, uint32_t extra_, uint32_t values_) noexcept
      : items(items_),
        extra(extra_),
        values(values_),
        reciprocal(static_cast<uint32_t>((uint64_t{1} << 32) / values_)) {}

  TUCK_HD constexpr uint64_t most() const noexcept { return uint64_t{items} + extra; }

  // Returns the number of slots that an item of `size` values needs beyond its first; too_many if that is more than
  // `extra`. Such an item gets none.
  TUCK_HD constexpr uint32_t wanted(uint64_t size) const noexcept {
    if (size == 0) return 0;
    const uint64_t last = size - 1, n = last >> 32 == 0 ? quotient(static_cast<uint32_t>(last)) : last / values;
    return n <= extra ? static_cast<uint32_t>(n) : too_many;
  }
  TUCK_HD constexpr uint32_t quotient(uint32_t last) const noexcept {
    const auto n = static_cast<uint32_t>(uint64_t{last} * reciprocal >> 32);  // or one less
    return n + (last - n * values >= values);
  }
  // Adds what two groups of items need, saturating at extra + 1. `granted` limits that to `extra`.
  TUCK_HD constexpr uint32_t sum(uint32_t a, uint32_t b) const noexcept {
    const uint32_t both = a + (b == too_many ? 0 : b);
    return both <= extra ? both : extra + 1;
  }
  TUCK_HD constexpr uint32_t granted(uint32_t wanted) const noexcept { return wanted < extra ? wanted : extra; }
};

// The position of a block in the batch. Its first warp moves the cursor. After a barrier, all threads may read it.
class batch_cursor {
 public:
  struct TempStorage {
    uint32_t item;        // item of the slot; during a search, the first item that is not passed
    uint32_t wanted;      // slots that the items before it need beyond their first
    uint32_t first, end;  // slots of the item
    uint32_t ticket;
    bool fits;
  };

  __device__ explicit batch_cursor(TempStorage& temp) : temp_(temp) {}

  // Must come before the first draw. Call it with one thread.
  __device__ void begin() { temp_ = {}; }

  // Draws slots of a batch_job, with the first warp, until open() returns true for one, which thread 0 calls. Returns
  // false if there are no more.
  template <class Job, class Open> __device__ bool draw(const Job& job, const Open& open) {
    const unsigned lane = device::thread_id_anew();
    const auto sizes = [items = job.items.data()](uint64_t i) { return items[i].values.size(); };
    for (bool opened = false; !opened;) {
      if (lane == 0) temp_.ticket = device::atomic_add(&job.head->ticket, 1u);
      device::sync_warp();
      if (temp_.ticket >= temp_.end) advance(job.to_draw, lane, sizes);
      if (!has_slot()) return false;
      device::sync_warp();
      opened = device::shfl(lane == 0 ? uint32_t{open()} : 0u, 0) != 0;
    }
    return true;
  }

  __device__ bool has_slot() const { return temp_.ticket < temp_.end; }  // did the last draw find one?
  __device__ uint32_t item() const { return temp_.item; }
  __device__ uint32_t first_ticket() const { return temp_.first; }
  __device__ uint32_t index() const { return temp_.ticket - temp_.first; }
  __device__ uint32_t count() const { return temp_.end - temp_.first; }
  __device__ bool fits() const { return temp_.fits; }  // does the item have all slots that it needs?

 private:
  static constexpr uint32_t per_lane = 2;  // items

  // Moves the cursor to the item of the ticket, or past all items. sizes(i): number of values of item i
  template <class Sizes> __device__ void advance(const batch_slots& to_draw, unsigned lane, const Sizes& sizes) {
    constexpr uint32_t group = device::warp_size * per_lane;
    const uint32_t ticket = temp_.ticket;
    uint32_t first = temp_.item, passed = temp_.wanted;  // items that are passed, and slots that they need
    device::sync_warp();                                 // all lanes have read the old cursor
    uint64_t next[per_lane];                             // sizes of the items after those
    const auto load = [&] {
#pragma unroll
      for (uint32_t k = 0; k < per_lane; ++k) {
        const uint32_t item = first + lane * per_lane + k;
        next[k] = item < to_draw.items ? sizes(item) : 0;
      }
    };
    load();
#pragma unroll 1
    for (;;) {
      uint32_t of_item[per_lane], wanted = 0;
#pragma unroll
      for (uint32_t k = 0; k < per_lane; ++k) wanted = to_draw.sum(wanted, of_item[k] = to_draw.wanted(next[k]));
      const uint32_t item = first + lane * per_lane;
      first = first + group < to_draw.items ? first + group : to_draw.items;
      load();  // meanwhile
      const uint32_t before = passed;
      passed = to_draw.sum(passed, device::warp_sum(wanted));
      if (ticket < first + to_draw.granted(passed)) {
        find(to_draw, ticket, lane, item, before, of_item, wanted);
        break;
      }
      if (first == to_draw.items) {
        if (lane == 0) temp_.item = first;
        break;
      }
    }
    device::sync_warp();
  }
  // The same within the group of items of which each lane has some, from `item` on. The ticket is among their slots.
  __device__ void find(const batch_slots& to_draw, uint32_t ticket, unsigned lane, uint32_t item, uint32_t passed,
                       const uint32_t (&of_item)[per_lane], uint32_t wanted) {
    const uint32_t mine = wanted;
#pragma unroll
    for (unsigned delta = 1; delta < device::warp_size; delta *= 2) {
      const uint32_t below = device::shfl_up(wanted, delta);
      if (lane >= delta) wanted += below;
    }
    uint32_t begin = to_draw.sum(passed, wanted - mine);  // slots that the items before need
#pragma unroll
    for (uint32_t k = 0; k < per_lane; ++k) {
      const uint32_t end = to_draw.sum(begin, of_item[k]), from = to_draw.granted(begin), to = to_draw.granted(end);
      if (item + k < to_draw.items && ticket >= item + k + from && ticket <= item + k + to)
        temp_ = {item + k, begin, item + k + from, item + k + to + 1, ticket, to - from == of_item[k]};
      begin = end;
    }
  }

  TempStorage& temp_;
};

template <class ItemJob> struct batch_job {
  ItemJob item;  // what all items have in common; head and states are those of the first item
  span<const typename ItemJob::item> items;
  outcome* outcomes;
  batch_slots to_draw;
  bool has_prepass;  // a pre-pass has run, which has opened the items
  scratch_head* head;
};
template <class Job> inline constexpr bool is_batch_job = false;
template <class ItemJob> inline constexpr bool is_batch_job<batch_job<ItemJob>> = true;

namespace detail {

template <class Job> constexpr auto item_job() noexcept {
  if constexpr (is_batch_job<Job>)
    return std::type_identity<decltype(Job::item)>{};
  else
    return std::type_identity<Job>{};
}

// Copies a job with all threads. A barrier must follow.
template <int Threads, class Job> __device__ void copy_job(device::uninitialized<Job>& to, const Job& from) {
  static_assert(sizeof(Job) % 4 == 0);
  for (uint32_t i = threadIdx.x; i < sizeof(Job) / 4; i += Threads)
    reinterpret_cast<uint32_t*>(to.storage)[i] = reinterpret_cast<const uint32_t*>(&from)[i];
}

// Whether kernels process an item: checks it as encode and decode check their arguments. If it is not ok, the item is
// not opened, and only its outcome is written. All blocks and all launches of a call must get the same answer: blocks
// wait until the one with the item's first slot has opened it. `alignment`: of values and base.
template <class Item> __device__ status check_item(const Item& item, uint64_t alignment, bool fits) {
  constexpr bool encodes = std::is_same_v<decltype(Item::frame), bytes>;
  if constexpr (requires { item.base; }) {
    if (item.base.is_null()) return status::invalid_argument;
    if (encodes && item.base.size() != item.values.size()) return status::wrong_base;
    if (!tuck::aligned(item.base.data(), alignment)) return status::misaligned;
  }
  if (item.values.is_null() || (!encodes && item.frame.is_null())) return status::invalid_argument;
  if (!tuck::aligned(item.values.data(), alignment) || !tuck::aligned(item.frame.data(), sizeof(device::vec128)))
    return status::misaligned;
  return fits ? status::ok : status::batch_too_large;
}

}  // namespace detail

// The job of one item: that of a call itself.
template <class Job> using item_job_of = typename decltype(detail::item_job<Job>())::type;

// Counts this block as finished with a batch and returns whether it is the last. Call it with all threads; they share
// `last`. Has barriers.
__device__ inline bool finish_batch(scratch_head& head, bool& last) {
  device::sync_block();
  if (threadIdx.x == 0) last = finish_shares(head, 1, gridDim.x);
  device::sync_block();
  return last;
}

// The body of a kernel: `Worker` does a block's part of the job, with its storage in shared memory.
template <class Worker, class Job> __device__ __forceinline__ void run_worker(const Job& job) {
  using storage = typename Worker::TempStorage;
  TUCK_SHARED(storage, temp);
  Worker(temp, job).run();
}

template <class Job> inline constexpr bool is_delta_job = requires(const Job& job) { job.base; };

// Takes the place of a member that some jobs do not need.
struct no_storage {};
template <bool Needed, class T> using stored_if = std::conditional_t<Needed, device::uninitialized<T>, no_storage>;

}  // namespace tuck::inline TUCK_ABI
