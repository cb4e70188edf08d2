// The kernels of batches. Each block draws slots. It runs the code of single calls on the item of each slot, with a job
// of that item in shared memory. There is no table of where the slots of an item begin:
//
// An item has one slot, and more if its tensor is large: one per chunk for encoding. Slots are numbered in the order of
// the items and drawn by a ticket, so all earlier slots of the same item have already begun. The tickets of a block
// only grow. It keeps a cursor into the items and moves it forward, 128 items at a time. All draws of a block together
// pass over the items once.
//
// A single call is no batch of one, because the cursor takes registers: a thread that encodes f32 by zvc has 72 here
// and 64 there, so that a multiprocessor holds a block less.
#pragma once

#include <tuck/frame/decode_kernel.cuh>
#include <tuck/frame/encode_kernel.cuh>

namespace tuck::inline TUCK_ABI {

// The slots of a batch. If `extra` is too small for an item, the item has fewer slots than it needs and is not
// processed. Tickets have 32 bits, and each block draws one ticket after the last slot.
struct batch_slots {
  uint32_t items;   // number of items, each with a first slot
  uint32_t extra;   // maximum number of other slots, of all items together
  uint32_t values;  // values per slot

  static constexpr uint64_t max = uint64_t{1} << 30;

  constexpr uint64_t most() const noexcept { return uint64_t{items} + extra; }

  // Returns the number of slots that an item of `size` values needs beyond its first; 0 if that is more than `extra`.
  TUCK_HD constexpr uint32_t wanted(uint64_t size) const noexcept {
    const uint64_t n = size == 0 ? 0 : (size - 1) / values;
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
    uint32_t item;        // item of the last draw; during a search, the first item that is not passed
    uint32_t wanted;      // slots that the items before it need beyond their first
    uint32_t first, end;  // slots of the item
    uint32_t ticket;
    bool fits;
  };

  __device__ explicit batch_cursor(TempStorage& temp) : temp_(temp) {}

  // Must come before the first draw. Call it with one thread.
  __device__ void begin() { temp_ = {}; }

  // Draws the next slot, with the first warp. Returns false if there are no more. sizes(i): number of values of item i.
  template <class Sizes> __device__ bool draw(const batch_slots& to_draw, uint32_t& tickets, const Sizes& sizes) {
    const unsigned lane = device::thread_id_anew();
    if (lane == 0) temp_.ticket = device::atomic_add(&tickets, 1u);
    device::sync_warp();
    while (temp_.ticket >= temp_.end && temp_.item < to_draw.items) advance(to_draw, lane, sizes);
    return has_slot();
  }

  __device__ bool has_slot() const { return temp_.ticket < temp_.end; }  // did the last draw give one?
  __device__ uint32_t item() const { return temp_.item; }
  __device__ uint32_t first_ticket() const { return temp_.first; }
  __device__ uint32_t index() const { return temp_.ticket - temp_.first; }
  __device__ uint32_t count() const { return temp_.end - temp_.first; }
  __device__ bool fits() const { return temp_.fits; }  // does the item have all slots that it needs?

 private:
  static constexpr uint32_t per_lane = 4;

  // Searches the next 128 items, 4 per lane, for the item of the ticket. If it is not among them, the cursor passes
  // them.
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

// Counts this block as finished with the batch and returns whether it is the last. Call it with all threads; they share
// `last`.
__device__ inline bool finish_batch(scratch_head& head, bool& last) {
  if (threadIdx.x == 0) last = device::atomic_count_acq_rel(&head.done) == gridDim.x - 1;
  device::sync_block();
  return last;
}

template <class ItemJob> struct batch_job {
  ItemJob item;  // what all items have in common; head and states are those of the first item
  span<const typename ItemJob::item> items;
  outcome* outcomes;
  batch_slots to_draw;
  bool has_prepass;  // a pre-pass has run, which has opened the items
  scratch_head* head;
};

namespace detail {

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

// One block's part of a batch: draws slots and runs `Work` on each. Work has the types TempStorage, job (of the batch)
// and item_job, and static functions:
//
//   open(item, batch_cursor, job, item_job&, epoch)            by one thread: makes the job of the slot's item. Returns
//                                                              false to skip the slot
//   run(TempStorage&, item_job&, const batch_cursor&, epoch)   by all threads: does the slot
//   close(job, epoch)                                          by all threads of the last block: resets the scratch
//
// The item_job is in shared memory. It starts as a copy of job.item if that has the same type.
template <class Work, int Threads> class batch_worker {
  using job = typename Work::job;
  using item_job = typename Work::item_job;

 public:
  struct TempStorage {
    typename Work::TempStorage work;
    batch_cursor::TempStorage cursor;
    device::uninitialized<item_job> item;
    uint32_t epoch;
    bool last;
  };

  __device__ batch_worker(TempStorage& temp, const job& all) : temp_(temp), job_(all), cursor_(temp.cursor) {}

  __device__ void run() {
    if constexpr (std::is_same_v<item_job, decltype(job::item)>) detail::copy_job<Threads>(temp_.item, job_.item);
    if (threadIdx.x == 0) temp_.epoch = device::load_relaxed(&job_.head->epoch);
    if (threadIdx.x == 0) cursor_.begin();
    while (next_slot()) Work::run(temp_.work, temp_.item.get(), cursor_, temp_.epoch);
    if (finish_batch(*job_.head, temp_.last)) Work::close(job_, temp_.epoch);
  }

 private:
  // Draws slots until the item of one can be opened. Returns false if there are no more. Call it with all threads. It
  // has a barrier at its beginning and at its end.
  __device__ bool next_slot() {
    device::sync_block();
    if (device::thread_id_anew() < device::warp_size)
      while (draw()) {
        device::sync_warp();
        if (device::shfl(device::lane_id() == 0 ? uint32_t{open()} : 0u, 0) != 0) break;
      }
    device::sync_block();
    return cursor_.has_slot();
  }
  __device__ bool draw() {
    return cursor_.draw(job_.to_draw, job_.head->ticket,
                        [items = job_.items.data()](uint64_t i) { return items[i].values.size(); });
  }
  __device__ bool open() {
    return Work::open(job_.items[cursor_.item()], cursor_, job_, temp_.item.get(), temp_.epoch);
  }

  TempStorage& temp_;
  const job& job_;
  batch_cursor cursor_;
};

template <codec C, int Threads, class ItemJob = encode_job<C>> struct encode_slot {
  using encoder = frame_encoder<C, Threads, ItemJob>;
  using TempStorage = typename encoder::TempStorage;
  using job = batch_job<ItemJob>;
  using item = typename ItemJob::item;
  using item_job = ItemJob;

  __device__ static void run(TempStorage& temp, item_job& mine, const batch_cursor& at, uint32_t epoch) {
    encoder(temp, mine).run_share(at.index(), at.count(), epoch);
  }
  __device__ static void close(const job& all, uint32_t epoch) {
    clear_at_wrap<Threads>(reinterpret_cast<uint64_t*>(all.head + 1), all.item.state_count, epoch);
    if (threadIdx.x == 0) reset(*all.head, epoch + 1);
  }
  // If the buffer ends before the payloads begin, only the size of the frame is computed.
  __device__ static bool open(item in, const batch_cursor& at, const job& all, item_job& mine, uint32_t epoch) {
    outcome* const result = all.outcomes + at.item();
    constexpr uint64_t alignment = sizeof(typename block_tile<value_t<C>, Threads>::word);
    if (const status s = detail::check_item(in, alignment, at.fits()); s != status::ok) {
      if (at.index() == 0) device::store(result, outcome{0, s, no_chunk});
      return false;
    }
    if constexpr (is_delta_job<ItemJob>) mine.base = in.base.data();
    mine.header.value_count = in.values.size();
    mine.at = layout_of(mine.header);
    mine.values = in.values.data();
    const bool fits = in.frame.data() != nullptr && in.frame.size() >= mine.at.payloads;
    mine.frame = fits ? in.frame.data() : nullptr;
    mine.capacity = in.frame.size();
    mine.result = result;
    mine.head = all.item.head + at.item();
    mine.states = all.item.states + at.first_ticket();
    if (!fits && at.index() == 0) leave_no_frame(in.frame);
    if (!all.has_prepass) open_item(*mine.head, at.index(), at.count() == 1, epoch);
    return true;
  }

 private:
  __device__ static void leave_no_frame(bytes frame) {
    if (frame.data() == nullptr || frame.size() < sizeof(frame_header)) return;
#pragma unroll 1
    for (uint64_t i = 0; i < sizeof(frame_header) / 8; ++i)
      device::store(reinterpret_cast<uint64_t*>(frame.data()) + i, uint64_t{0});
  }
};

template <codec C, int Threads, class ItemJob = decode_job<C, known_zero>> struct decode_slot {
  using decoder = frame_decoder<C, Threads, ItemJob>;
  using TempStorage = typename decoder::TempStorage;
  using job = batch_job<ItemJob>;
  using item = typename ItemJob::item;
  using item_job = ItemJob;

  __device__ static void run(TempStorage& temp, item_job& mine, const batch_cursor& at, uint32_t) {
    decoder(temp, mine).run(at);
  }
  __device__ static void close(const job& all, uint32_t epoch) {
    if (threadIdx.x == 0) reset(*all.head, epoch);
  }
  __device__ static bool open(item in, const batch_cursor& at, const job& all, item_job& mine, uint32_t epoch) {
    outcome* const result = all.outcomes + at.item();
    if constexpr (ItemJob::verified) {
      if (device::load(&result->code) != status::ok) return false;
    } else if (const status s = detail::check_item(in, sizeof(value_t<C>), at.fits()); s != status::ok) {
      if (at.index() == 0) device::store(result, outcome{0, s, no_chunk});
      return false;
    }
    if constexpr (is_delta_job<ItemJob>) mine.base = in.base.data(), mine.base_values = in.base.size();
    mine.frame = in.frame.data();
    mine.frame_capacity = in.frame.size();
    mine.out = in.values.data();
    mine.out_values = in.values.size();
    mine.result = result;
    mine.head = all.item.head + at.item();
    if constexpr (!ItemJob::verified) open_item(*mine.head, at.index(), at.count() == 1, epoch);
    return true;
  }
};

// The pre-pass of a batch that is encoded, if its codec needs the range of each item. It opens the items and does not
// change the epoch.
template <codec C, int Threads> struct prepass_slot {
  using prepass = block_prepass<value_t<C>, Threads>;
  using TempStorage = typename prepass::TempStorage;
  using job = batch_job<encode_job<C>>;
  using item = encode_item<value_t<C>>;
  using item_job = prepass_job<value_t<C>>;

  __device__ static void run(TempStorage& temp, item_job& mine, const batch_cursor&, uint32_t) {
    prepass::run(temp, mine, 0, 1);
  }
  __device__ static void close(const job& all, uint32_t epoch) {
    if (threadIdx.x == 0) reset(*all.head, epoch);
  }
  __device__ static bool open(item in, const batch_cursor& at, const job& all, item_job& mine, uint32_t epoch) {
    constexpr uint64_t alignment = sizeof(typename prepass::tile::word);
    if (detail::check_item(in, alignment, at.fits()) != status::ok) return false;
    scratch_head& state = all.item.head[at.item()];
    open_item(state, at.index(), false, epoch);
    const uint64_t begin = uint64_t{at.index()} * all.to_draw.values, left = in.values.size() - begin;
    mine = {in.values.data() + begin, left < all.to_draw.values ? left : all.to_draw.values, &state};
    return true;
  }
};

inline namespace TUCK_ARCH {

template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::batch_blocks_of<block_codec<C, Threads>>)
    encode_batch_kernel(const __grid_constant__ batch_job<encode_job<C>> job) {
  run_worker<batch_worker<encode_slot<C, Threads>, Threads>>(job);
}
template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::batch_blocks_of<block_decoder<C, Threads>>)
    decode_batch_kernel(const __grid_constant__ batch_job<decode_job<C, known_zero>> job) {
  run_worker<batch_worker<decode_slot<C, Threads>, Threads>>(job);
}
template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::blocks_with(64))
    prepass_batch_kernel(const __grid_constant__ batch_job<encode_job<C>> job) {
  run_worker<batch_worker<prepass_slot<C, Threads>, Threads>>(job);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
