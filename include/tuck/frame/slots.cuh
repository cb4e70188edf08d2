// The slots of a batch, which blocks draw. There is no table of where the slots of an item begin:
//
// An item has one slot, and more if its tensor is large: one per chunk for encoding. Slots are numbered in the order of
// the items and drawn by a ticket, so all earlier slots of the same item have already begun. The tickets of a block
// only grow. It keeps a cursor into the items and moves it forward, 128 items at a time. All draws of a block together
// pass over the items once.
//
// A block has the jobs of its items in shared memory. A call has one job, which is a parameter of its kernel.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/frame/scratch.cuh>

namespace tuck::inline TUCK_ABI {

// The slots of a batch. If `extra` is too small for an item, the item has fewer slots than it needs and is not
// processed. Tickets have 32 bits, and each block draws one ticket after the last slot.
struct batch_slots {
  uint32_t items;   // number of items, each with a first slot
  uint32_t extra;   // maximum number of other slots, of all items together
  uint32_t values;  // values per slot

  static constexpr uint64_t max = uint64_t{1} << 30;

  TUCK_HD constexpr uint64_t most() const noexcept { return uint64_t{items} + extra; }

  // Returns the number of slots that an item of `size` values needs beyond its first; 0 if that is more than `extra`.
  TUCK_HD constexpr uint32_t wanted(uint64_t size) const noexcept {
    if (size <= values) return 0;
    const uint64_t last = size - 1;
    const uint64_t n = last >> 32 == 0 ? static_cast<uint32_t>(last) / values : last / values;  // 32 bits: much faster
    return n <= extra ? static_cast<uint32_t>(n) : 0;
  }
  TUCK_HD constexpr bool has_enough_for(uint64_t size) const noexcept { return size <= (uint64_t{extra} + 1) * values; }
  // Adds what two groups of items need, saturating at extra + 1. `granted` limits that to `extra`.
  TUCK_HD constexpr uint32_t sum(uint32_t a, uint32_t b) const noexcept { return a + b <= extra ? a + b : extra + 1; }
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
      while (temp_.ticket >= temp_.end && temp_.item < job.to_draw.items) advance(job.to_draw, lane, sizes);
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
  static constexpr uint32_t per_lane = 4;

  // Searches the next 128 items, 4 per lane, for the item of the ticket. If it is not among them, the cursor passes
  // them.
  // sizes(i): number of values of item i
  template <class Sizes> __device__ void advance(const batch_slots& to_draw, unsigned lane, const Sizes& sizes) {
    const uint32_t item = temp_.item + lane * per_lane;
    uint32_t wanted = 0;
#pragma unroll
    for (uint32_t k = 0; k < per_lane; ++k)
      if (item + k < to_draw.items) wanted = to_draw.sum(wanted, to_draw.wanted(sizes(item + k)));
#pragma unroll 1
    for (unsigned delta = 1; delta < device::warp_size; delta *= 2) {
      const uint32_t below = device::shfl_up(wanted, delta);
      if (lane >= delta) wanted = to_draw.sum(wanted, below);
    }
    wanted = to_draw.sum(wanted, temp_.wanted);
    const uint32_t below = device::shfl_up(wanted, 1), before = lane == 0 ? temp_.wanted : below;
    const uint32_t past = item + per_lane < to_draw.items ? item + per_lane : to_draw.items;
    const unsigned found = device::ballot(temp_.ticket < past + to_draw.granted(wanted));
    device::sync_warp();  // all lanes have read the old cursor
    if (found != 0) {
      if (lane + 1 == static_cast<unsigned>(device::ffs(found))) find(to_draw, item, before, sizes);
    } else if (lane == device::warp_size - 1) {
      temp_.item = item + per_lane;
      temp_.wanted = wanted;
    }
    device::sync_warp();
  }

  // Finds the item of the ticket from `item` on, with one lane. `before`: slots that earlier items need.
  template <class Sizes>
  __device__ void find(const batch_slots& to_draw, uint32_t item, uint32_t before, const Sizes& sizes) {
#pragma unroll 1
    for (;; ++item) {
      const uint32_t wanted = to_draw.wanted(sizes(item)), behind = to_draw.sum(before, wanted);
      const uint32_t from = to_draw.granted(before), to = to_draw.granted(behind);
      if (temp_.ticket <= item + to) {
        temp_ = {item,          before,       item + from,
                 item + to + 1, temp_.ticket, to - from == wanted && to_draw.has_enough_for(sizes(item))};
        return;
      }
      before = behind;
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

template <class Job> struct item_job_of_impl {
  using type = Job;
};
template <class ItemJob> struct item_job_of_impl<batch_job<ItemJob>> {
  using type = ItemJob;
};

// Copies a job with all threads. A barrier must follow.
template <int Threads, class Job> __device__ void copy_job(device::uninitialized<Job>& to, const Job& from) {
  static_assert(sizeof(Job) % 4 == 0);
  for (uint32_t i = threadIdx.x; i < sizeof(Job) / 4; i += Threads)
    reinterpret_cast<uint32_t*>(to.storage)[i] = reinterpret_cast<const uint32_t*>(&from)[i];
}

// Checks an item as encode and decode check their arguments. `alignment`: of values and base.
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
template <class Job> using item_job_of = typename detail::item_job_of_impl<Job>::type;

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
