// The kernels of batches: each block draws slots (batch_slots.cuh) and does with the item of each what the kernels of
// single calls do with their tensor, by the same code. The job of the item under way is in shared memory.
#pragma once

#include <tuck/frame/batch_slots.cuh>
#include <tuck/frame/decode_kernel.cuh>
#include <tuck/frame/encode_kernel.cuh>
#include <tuck/frame/survey_kernel.cuh>

namespace tuck::inline TUCK_ABI {

template <codec C> struct encode_batch_job {
  encode_job<C> item;  // of an item all that is the same for each; its head and states are those of the first
  span<const encode_item<value_t<C>>> items;
  outcome* outcomes;
  batch_slots slots;
  scratch_head* head;
  bool surveyed;  // by a launch before this one, which has opened the items
};

// A decode_job from the first value on: a zero that is known when the kernel is compiled saves registers.
template <codec C> struct decode_item_job {
  struct zero {
    __device__ constexpr operator uint64_t() const { return 0; }
  };

  C codec;
  const std::byte* frame;
  uint64_t frame_capacity;
  value_t<C>* out;
  zero first_value;
  uint64_t out_values;
  outcome* result;
  scratch_head* head;
};

template <codec C> struct decode_batch_job {
  decode_item_job<C> item;
  span<const decode_item<value_t<C>>> items;
  outcome* outcomes;
  batch_slots slots;
  scratch_head* head;
};

namespace detail {

// What the block of a single call finds in its arguments, by all threads; a barrier follows.
template <int Threads, class Job> __device__ void copy_job(device::uninitialized<Job>& to, const Job& from) {
  static_assert(sizeof(Job) % 4 == 0);
  for (uint32_t i = threadIdx.x; i < sizeof(Job) / 4; i += Threads)
    reinterpret_cast<uint32_t*>(to.room)[i] = reinterpret_cast<const uint32_t*>(&from)[i];
}

// What encode and decode refuse, in their order.
template <int Threads, element T> __device__ status check_item(const encode_item<T>& item, bool fits) {
  if (item.values.is_null()) return status::invalid_argument;
  if (!tuck::aligned(item.values.data(), sizeof(typename block_tile<T, Threads>::word)) ||
      !tuck::aligned(item.frame.data(), sizeof(device::vec128)))
    return status::misaligned;
  return fits ? status::ok : status::batch_too_large;
}
template <element T> __device__ status check_item(const decode_item<T>& item, bool fits) {
  if (item.frame.is_null() || item.values.is_null()) return status::invalid_argument;
  if (!tuck::aligned(item.values.data(), sizeof(T)) || !tuck::aligned(item.frame.data(), sizeof(device::vec128)))
    return status::misaligned;
  return fits ? status::ok : status::batch_too_large;
}

// The number of values of an item, as the cursor asks for it.
template <class Item> struct item_sizes {
  const Item* items;
  __device__ uint64_t operator()(uint64_t i) const { return items[i].values.size(); }
};

}  // namespace detail

// What one block does of a batch: `Work` with each slot that it draws. That has the job of the item under way, as
// Work::item_job in shared memory, from the batch's on; all threads call
//
//   run(TempStorage&, item_job&, const batch_cursor&, epoch)   does the slot
//   end(job, epoch)                                            the last block's: leaves the scratch for the next call
//
// and one thread open(item, batch_cursor, job, item_job&, epoch): makes the job of the item drawn; false where it is
// not to be worked on.
template <class Work, int Threads> class batch_worker {
  using job = typename Work::job;
  using item_job = typename Work::item_job;

 public:
  struct TempStorage {
    typename Work::TempStorage work;
    batch_cursor::TempStorage slots;
    device::uninitialized<item_job> item;
    uint32_t epoch;
    bool last;
  };

  __device__ batch_worker(TempStorage& temp, const job& all) : temp_(temp), job_(all), cursor_(temp.slots) {}

  __device__ void run() {
    if constexpr (std::is_same_v<item_job, decltype(job::item)>) detail::copy_job<Threads>(temp_.item, job_.item);
    if (threadIdx.x == 0) temp_.epoch = device::load_relaxed(&job_.head->epoch);
    if (threadIdx.x == 0) cursor_.begin();
    while (next_slot()) Work::run(temp_.work, temp_.item.get(), cursor_, temp_.epoch);
    if (finish_batch(*job_.head, temp_.last)) Work::end(job_, temp_.epoch);
  }

 private:
  // Draws slots until one is of an item that can be worked on, which has then been opened: false where there are no
  // more. All threads; barriers before and after it.
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
    return cursor_.draw(job_.slots, job_.head->ticket, detail::item_sizes<typename Work::item>{job_.items.data()});
  }
  __device__ bool open() {
    return Work::open(job_.items[cursor_.item()], cursor_, job_, temp_.item.get(), temp_.epoch);
  }

  TempStorage& temp_;
  const job& job_;
  batch_cursor cursor_;
};

template <codec C, int Threads> struct encode_slot {
  using encoder = frame_encoder<C, Threads>;
  using TempStorage = typename encoder::TempStorage;
  using job = encode_batch_job<C>;
  using item = encode_item<value_t<C>>;
  using item_job = encode_job<C>;

  __device__ static void run(TempStorage& temp, item_job& mine, const batch_cursor& at, uint32_t epoch) {
    encoder(temp, mine).run_share(at.index(), at.count(), epoch);
  }
  __device__ static void end(const job& all, uint32_t epoch) {
    clear_at_wrap<Threads>(reinterpret_cast<uint64_t*>(all.head + 1), all.item.state_count, epoch);
    if (threadIdx.x == 0) reset(*all.head, epoch + 1);
  }
  // Where its room does not even have what comes before the payloads, the bytes that it needs are counted.
  __device__ static bool open(item in, const batch_cursor& at, const job& all, item_job& mine, uint32_t epoch) {
    outcome* const result = all.outcomes + at.item();
    if (const status s = detail::check_item<Threads>(in, at.fits()); s != status::ok) {
      if (at.index() == 0) device::store(result, outcome{0, s, no_chunk});
      return false;
    }
    mine.header.value_count = in.values.size();
    mine.at = layout_of(mine.header);
    mine.values = in.values.data();
    const bool room = in.frame.data() != nullptr && in.frame.size() >= mine.at.payloads;
    mine.frame = room ? in.frame.data() : nullptr;
    mine.capacity = in.frame.size();
    mine.result = result;
    mine.head = all.item.head + at.item();
    mine.states = all.item.states + at.first_ticket();
    if (!room && at.index() == 0) leave_no_frame(in.frame);
    if (!all.surveyed) open_item(*mine.head, at.index(), at.count() == 1, epoch);
    return true;
  }

 private:
  __device__ static void leave_no_frame(bytes room) {
    if (room.data() == nullptr || room.size() < sizeof(frame_header)) return;
#pragma unroll 1
    for (uint64_t i = 0; i < sizeof(frame_header) / 8; ++i)
      device::store(reinterpret_cast<uint64_t*>(room.data()) + i, uint64_t{0});
  }
};

template <codec C, int Threads> struct decode_slot {
  using decoder = frame_decoder<C, Threads, decode_item_job<C>>;
  using TempStorage = typename decoder::TempStorage;
  using job = decode_batch_job<C>;
  using item = decode_item<value_t<C>>;
  using item_job = decode_item_job<C>;

  __device__ static void run(TempStorage& temp, item_job& mine, const batch_cursor& at, uint32_t) {
    decoder(temp, mine).run(at);
  }
  __device__ static void end(const job& all, uint32_t epoch) {
    if (threadIdx.x == 0) reset(*all.head, epoch);
  }
  __device__ static bool open(item in, const batch_cursor& at, const job& all, item_job& mine, uint32_t epoch) {
    outcome* const result = all.outcomes + at.item();
    if (const status s = detail::check_item(in, at.fits()); s != status::ok) {
      if (at.index() == 0) device::store(result, outcome{0, s, no_chunk});
      return false;
    }
    mine.frame = in.frame.data();
    mine.frame_capacity = in.frame.size();
    mine.out = in.values.data();
    mine.out_values = in.values.size();
    mine.result = result;
    mine.head = all.item.head + at.item();
    open_item(*mine.head, at.index(), at.count() == 1, epoch);
    return true;
  }
};

// Of the launch before an encode_batch_job, whose codec wants to know the range of each item. It leaves the items open,
// and the epoch as it is.
template <codec C, int Threads> struct survey_slot {
  using survey = block_survey<value_t<C>, Threads>;
  using TempStorage = typename survey::TempStorage;
  using job = encode_batch_job<C>;
  using item = encode_item<value_t<C>>;
  using item_job = survey_job<value_t<C>>;

  __device__ static void run(TempStorage& temp, item_job& mine, const batch_cursor&, uint32_t) {
    survey::run(temp, mine, 0, 1);
  }
  __device__ static void end(const job& all, uint32_t epoch) {
    if (threadIdx.x == 0) reset(*all.head, epoch);
  }
  __device__ static bool open(item in, const batch_cursor& at, const job& all, item_job& mine, uint32_t epoch) {
    if (detail::check_item<Threads>(in, at.fits()) != status::ok) return false;
    scratch_head& state = all.item.head[at.item()];
    open_item(state, at.index(), false, epoch);
    const uint64_t begin = uint64_t{at.index()} * all.slots.values, left = in.values.size() - begin;
    mine = {in.values.data() + begin, left < all.slots.values ? left : all.slots.values, &state};
    return true;
  }
};

namespace detail {
// What is in registers from one item to the next is more than 64 leave room for on some processors.
template <class B> inline constexpr int batch_blocks_of = blocks_a_processor_of<B> < 6 ? blocks_a_processor_of<B> : 6;
}  // namespace detail

inline namespace TUCK_ARCH {

template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::batch_blocks_of<block_codec<C, Threads>>)
    encode_batch_kernel(const __grid_constant__ encode_batch_job<C> job) {
  using worker = batch_worker<encode_slot<C, Threads>, Threads>;
  using storage = typename worker::TempStorage;
  TUCK_SHARED(storage, temp);
  worker(temp, job).run();
}

template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::batch_blocks_of<block_decoder<C, Threads>>)
    decode_batch_kernel(const __grid_constant__ decode_batch_job<C> job) {
  using worker = batch_worker<decode_slot<C, Threads>, Threads>;
  using storage = typename worker::TempStorage;
  TUCK_SHARED(storage, temp);
  worker(temp, job).run();
}

template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, blocks_a_processor)
    survey_batch_kernel(const __grid_constant__ encode_batch_job<C> job) {
  using worker = batch_worker<survey_slot<C, Threads>, Threads>;
  using storage = typename worker::TempStorage;
  TUCK_SHARED(storage, temp);
  worker(temp, job).run();
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
