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
  template <int Threads> using output = block_output<value_t<C>, Threads>;
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

// Draws slots until one is of an item that can be worked on, which `worker` has then opened: false where there are no
// more. All threads; barriers before and after it.
template <class Worker> __device__ bool next_slot(Worker& worker, batch_cursor& cursor) {
  device::sync_block();
  if (device::thread_id_anew() < device::warp_size)
    while (worker.draw()) {
      device::sync_warp();
      if (device::shfl(device::lane_id() == 0 ? uint32_t{worker.open()} : 0u, 0) != 0) break;
    }
  device::sync_block();
  return cursor.has_slot();
}

// The number of values of an item, as the cursor asks for it.
template <class Item> struct item_sizes {
  const Item* items;
  __device__ uint64_t operator()(uint64_t i) const { return items[i].values.size(); }
};

}  // namespace detail

// What one block does of an encode_batch_job.
template <codec C, int Threads> class batch_encoder {
  using T = value_t<C>;
  using encoder = frame_encoder<C, Threads>;
  using cursor = batch_cursor;

 public:
  struct TempStorage {
    typename encoder::TempStorage frame;
    typename cursor::TempStorage slots;
    device::uninitialized<encode_job<C>> item;
    uint32_t epoch;
    bool last;
  };

  __device__ batch_encoder(TempStorage& temp, const encode_batch_job<C>& job)
      : temp_(temp), job_(job), cursor_(temp.slots) {}

  __device__ void run() {
    detail::copy_job<Threads>(temp_.item, job_.item);
    if (threadIdx.x == 0) temp_.epoch = device::load_relaxed(&job_.head->epoch);
    if (threadIdx.x == 0) cursor_.begin();
    while (detail::next_slot(*this, cursor_))
      encoder(temp_.frame, temp_.item.get()).run_share(cursor_.index(), cursor_.count(), temp_.epoch);
    if (!finish_batch(*job_.head, temp_.last)) return;
    clear_at_wrap<Threads>(reinterpret_cast<uint64_t*>(job_.head + 1), job_.item.state_count, temp_.epoch);
    if (threadIdx.x == 0) reset(*job_.head, temp_.epoch + 1);
  }

  // By the first warp.
  __device__ bool draw() {
    return cursor_.draw(job_.slots, job_.head->ticket, detail::item_sizes<encode_item<T>>{job_.items.data()});
  }
  // By its first lane: the job of the item drawn; false where it is not to be worked on. Where its room does not even
  // have what comes before the payloads, the bytes that it needs are counted.
  __device__ bool open() {
    const encode_item<T> in = job_.items[cursor_.item()];
    outcome* const result = job_.outcomes + cursor_.item();
    if (const status s = detail::check_item<Threads>(in, cursor_.fits()); s != status::ok) {
      if (cursor_.index() == 0) device::store(result, outcome{0, s, no_chunk});
      return false;
    }
    encode_job<C>& item = temp_.item.get();
    item.header.value_count = in.values.size();
    item.at = layout_of(item.header);
    item.values = in.values.data();
    const bool room = in.frame.data() != nullptr && in.frame.size() >= item.at.payloads;
    item.frame = room ? in.frame.data() : nullptr;
    item.capacity = in.frame.size();
    item.result = result;
    item.head = job_.item.head + cursor_.item();
    item.states = job_.item.states + cursor_.first_ticket();
    if (!room && cursor_.index() == 0) leave_no_frame(in.frame);
    if (!job_.surveyed) open_item(*item.head, cursor_.index(), cursor_.count() == 1, temp_.epoch);
    return true;
  }

 private:
  __device__ static void leave_no_frame(bytes room) {
    if (room.data() == nullptr || room.size() < sizeof(frame_header)) return;
#pragma unroll 1
    for (uint64_t i = 0; i < sizeof(frame_header) / 8; ++i)
      device::store(reinterpret_cast<uint64_t*>(room.data()) + i, uint64_t{0});
  }

  TempStorage& temp_;
  const encode_batch_job<C>& job_;
  cursor cursor_;
};

// What one block does of a decode_batch_job.
template <codec C, int Threads> class batch_decoder {
  using T = value_t<C>;
  using decoder = frame_decoder<C, Threads, decode_item_job<C>>;
  using cursor = batch_cursor;

 public:
  struct TempStorage {
    typename decoder::TempStorage frame;
    typename cursor::TempStorage slots;
    device::uninitialized<decode_item_job<C>> item;
    uint32_t epoch;
    bool last;
  };

  __device__ batch_decoder(TempStorage& temp, const decode_batch_job<C>& job)
      : temp_(temp), job_(job), cursor_(temp.slots) {}

  __device__ void run() {
    detail::copy_job<Threads>(temp_.item, job_.item);
    if (threadIdx.x == 0) temp_.epoch = device::load_relaxed(&job_.head->epoch);
    if (threadIdx.x == 0) cursor_.begin();
    while (detail::next_slot(*this, cursor_)) decoder(temp_.frame, temp_.item.get()).run(cursor_);
    if (finish_batch(*job_.head, temp_.last) && threadIdx.x == 0) reset(*job_.head, temp_.epoch);
  }

  // By the first warp.
  __device__ bool draw() {
    return cursor_.draw(job_.slots, job_.head->ticket, detail::item_sizes<decode_item<T>>{job_.items.data()});
  }
  // By its first lane: the job of the item drawn; false where it is not to be worked on.
  __device__ bool open() {
    const decode_item<T> in = job_.items[cursor_.item()];
    outcome* const result = job_.outcomes + cursor_.item();
    if (const status s = detail::check_item(in, cursor_.fits()); s != status::ok) {
      if (cursor_.index() == 0) device::store(result, outcome{0, s, no_chunk});
      return false;
    }
    decode_item_job<C>& item = temp_.item.get();
    item.frame = in.frame.data();
    item.frame_capacity = in.frame.size();
    item.out = in.values.data();
    item.out_values = in.values.size();
    item.result = result;
    item.head = job_.item.head + cursor_.item();
    open_item(*item.head, cursor_.index(), cursor_.count() == 1, temp_.epoch);
    return true;
  }

  TempStorage& temp_;
  const decode_batch_job<C>& job_;
  cursor cursor_;
};

// What one block does of the launch before an encode_batch_job, whose codec wants to know the range of each item. It
// leaves the items open, and the epoch as it is.
template <codec C, int Threads> class batch_surveyor {
  using T = value_t<C>;
  using values_survey = block_survey<T, Threads>;
  using cursor = batch_cursor;

 public:
  struct TempStorage {
    typename values_survey::TempStorage survey;
    typename cursor::TempStorage slots;
    device::uninitialized<survey_job<T>> part;  // the slot under way
    uint32_t epoch;
    bool last;
  };

  __device__ batch_surveyor(TempStorage& temp, const encode_batch_job<C>& job)
      : temp_(temp), job_(job), cursor_(temp.slots) {}

  __device__ void run() {
    if (threadIdx.x == 0) temp_.epoch = device::load_relaxed(&job_.head->epoch);
    if (threadIdx.x == 0) cursor_.begin();
    while (detail::next_slot(*this, cursor_)) values_survey::run(temp_.survey, temp_.part.get(), 0, 1);
    if (finish_batch(*job_.head, temp_.last) && threadIdx.x == 0) reset(*job_.head, temp_.epoch);
  }

  // By the first warp.
  __device__ bool draw() {
    return cursor_.draw(job_.slots, job_.head->ticket, detail::item_sizes<encode_item<T>>{job_.items.data()});
  }
  // By its first lane: the part of the item drawn; false where it is not to be worked on.
  __device__ bool open() {
    const encode_item<T> in = job_.items[cursor_.item()];
    if (detail::check_item<Threads>(in, cursor_.fits()) != status::ok) return false;
    scratch_head& state = job_.item.head[cursor_.item()];
    open_item(state, cursor_.index(), false, temp_.epoch);
    const uint64_t begin = uint64_t{cursor_.index()} * job_.slots.values, left = in.values.size() - begin;
    temp_.part.get() = {in.values.data() + begin, left < job_.slots.values ? left : job_.slots.values, &state};
    return true;
  }

  TempStorage& temp_;
  const encode_batch_job<C>& job_;
  cursor cursor_;
};

namespace detail {
// What is in registers from one item to the next is more than 64 leave room for on some processors.
template <class B> inline constexpr int batch_blocks_of = blocks_a_processor_of<B> < 6 ? blocks_a_processor_of<B> : 6;
}  // namespace detail

template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::batch_blocks_of<block_codec<C, Threads>>)
    encode_batch_kernel(const __grid_constant__ encode_batch_job<C> job) {
  using worker = batch_encoder<C, Threads>;
  using storage = typename worker::TempStorage;
  TUCK_SHARED(storage, temp);
  worker(temp, job).run();
}

template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::batch_blocks_of<block_decoder<C, Threads>>)
    decode_batch_kernel(const __grid_constant__ decode_batch_job<C> job) {
  using worker = batch_decoder<C, Threads>;
  using storage = typename worker::TempStorage;
  TUCK_SHARED(storage, temp);
  worker(temp, job).run();
}

template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, blocks_a_processor)
    survey_batch_kernel(const __grid_constant__ encode_batch_job<C> job) {
  using worker = batch_surveyor<C, Threads>;
  using storage = typename worker::TempStorage;
  TUCK_SHARED(storage, temp);
  worker(temp, job).run();
}

}  // namespace tuck::inline TUCK_ABI
