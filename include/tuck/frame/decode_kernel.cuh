// SPDX-License-Identifier: Apache-2.0
// The decode kernel of all codecs. Frames are untrusted: each block checks the headers and directory entries that it
// uses, and all blocks together check the digest of the contents. Values that cannot be restored become zeros.
//
// A block decodes one chunk after the other, of one frame or of the items of a batch. Meanwhile the next one comes to
// shared memory, and what it takes to find the one after that: its directory entry, or the header of another frame.
#pragma once

#include <tuck/core/block_copy.cuh>
#include <tuck/frame/chunk_decoder.cuh>
#include <tuck/frame/slots.cuh>

#include <new>

namespace tuck::inline TUCK_ABI {

// The first_value of jobs that restore all values. It is known at compile time, which saves registers.
struct known_zero {
  TUCK_HD constexpr operator uint64_t() const { return 0; }
};

template <codec C, class First = uint64_t> struct decode_job {
  template <int Threads> using output = block_output<value_t<C>, Threads>;
  using item = decode_item<value_t<C>>;
  static constexpr bool writes = true;     // whether the launch writes values
  static constexpr bool verified = false;  // whether an earlier launch has verified the frame

  C codec;     // its parameters are replaced by those of the frame
  dtype type;  // of the values; none: any of their size
  const std::byte* frame;
  uint64_t frame_capacity;  // bytes that may be read
  value_t<C>* out;
  First first_value;
  uint64_t out_values;
  outcome* result;
  scratch_head* head;
};

// What one block does of a call, whose Job is that of its frame, or of a batch.
//
// The work is divided into shares: the blocks of a call, or the slots of each item of a batch. Share i of n sums its
// part of the contents, and has the chunks i, i + n, ...; but from the third one on, the blocks of a call draw them by
// ticket, because they have different speeds. So they draw slots. The last share of a frame writes its outcome.
//
// A task is a chunk of a share, or a share without chunks. A block is busy with three tasks, which may be of three
// items: it decodes `now`, fetches `next`, and its first warp locates `after`. In each round, thread 0 sets `now`
// before the first barrier and `next` between that and the second one, and no other thread reads them then.
template <class Job, int Threads> class frame_decoder {
  static constexpr bool is_batch = is_batch_job<Job>;
  using item_job = item_job_of<Job>;
  using C = decltype(item_job::codec);
  using T = value_t<C>;
  using tile = block_tile<T, Threads>;
  using output = typename item_job::template output<Threads>;
  static constexpr bool is_delta = is_delta_job<item_job>;
  // Buffers for chunks: with two, the next chunk comes while one is decoded, else after that.
  static constexpr int buffers =
      !is_batch && !is_delta && detail::decode_policy<block_decoder<C, Threads>>::fetches ? 2 : 1;
  static constexpr uint32_t tasks_at_once = 3;
  using decoder = chunk_decoder<C, Threads, output, true, buffers>;
  using copy = device::block_copy<Threads>;
  static constexpr uint64_t most_drawn = 1u << 31;  // chunks, so that tickets do not overflow

  struct of_batch {  // what an item of a batch has besides
    device::uninitialized<item_job> job;
    uint32_t done;    // slots of the item that this block has
    uint32_t shares;  // all slots of the item
    uint32_t index;   // of the item in the batch
  };
  struct item_state : std::conditional_t<is_delta, delta_digests, no_digests>,
                      std::conditional_t<is_batch, of_batch, no_storage> {
    device::uninitialized<frame_view> view;
    device::uninitialized<C> codec;
    status verdict;                   // on the header
    uint64_t first_chunk, end_chunk;  // chunks with values of the job
  };
  // Without padding: tasks are copied, and nobody writes that.
  struct of_slot {
    uint64_t share;  // the slot's index in its item
  };
  struct task : std::conditional_t<is_batch, of_slot, no_storage> {
    uint64_t chunk;
    uint16_t item;    // index of its item_state
    uint16_t buffer;  // that which the task before has not
    bool any;         // false: there are no more tasks
    bool opens;       // the first one of an item: chunk is not known until the header has come
    bool begins;      // the first one of a share
    bool has_chunk;   // set by `find_next`
  };
  static_assert(sizeof(task) == (is_batch ? 24 : 16));

 public:
  struct batch_state {
    batch_cursor::TempStorage cursor;
    uint32_t epoch;
    bool draws;   // there may be more slots
    bool closes;  // `now` is the last task of its item
  };
  struct TempStorage : std::conditional_t<is_batch, batch_state, no_storage> {
    typename decoder::TempStorage chunk;
    typename copy::TempStorage of_copy;
    item_state items[is_batch ? tasks_at_once : 1];
    task now, next, after;
    uint64_t entry;                 // directory entry of `after`; if it opens an item, see fetch_header
    T* part;                        // address of the first value of the current chunk in the output
    uint32_t part_begin, part_end;  // values of the current chunk that are written
    bool part_is_whole;             // see block_output
    bool ends;                      // `now` is the last task
    bool last;
  };

  static_assert(is_batch || is_delta ||
                sizeof(TempStorage) - sizeof(C) <= sizeof(TempStorage::chunk.block) + detail::shared_of_kernel);

  __device__ frame_decoder(TempStorage& temp, const Job& job) : temp_(temp), job_(job) {}

  // Does this block's part. The last block resets the scratch for the next call.
  __device__ __forceinline__ void run() {
    if constexpr (is_batch) {
      for (item_state& item : temp_.items) detail::copy_job<Threads>(item.job, job_.item);
    } else if constexpr (item_job::verified) {
      if (device::load(&job_.result->code) != status::ok) return;
    }
    copy fetched(temp_.of_copy);  // has a barrier
    decoder block(temp_.chunk);
    uint32_t ticket = 0;  // in thread 0, of a call
    if (leads()) begin(block);
    device::sync_block();
    if constexpr (buffers == 2) fetched.begin(block.buffer(0), nullptr, 0);  // for the first wait
    // The first time around there is no chunk to decode yet; in a batch the second time, too.
    do {
      if constexpr (buffers == 1) fetch(block, fetched);
      advance(block);
      device::sync_block();
      if (leads()) {
        find_next(block);
        if constexpr (buffers == 1) locate_after(ticket);  // while the payload comes
      }
      if (temp_.now.begins) begin_share(temp_.now);
      fetched.wait();
      if constexpr (buffers == 2) {
        fetch(block, fetched);
        if (leads()) locate_after(ticket);
      }
      decode(block);
      if constexpr (is_batch)
        if (temp_.closes) close(temp_.now);
    } while (!temp_.ends);
    if constexpr (!is_batch)
      close(temp_.now);
    else if (finish_batch(*job_.head, temp_.last) && threadIdx.x == 0)
      reset(*job_.head, temp_.epoch);
  }

 private:
  __device__ batch_cursor cursor() const { return batch_cursor(temp_.cursor); }
  __device__ item_state& item_of(const task& t) const { return temp_.items[is_batch ? t.item : 0]; }
  __device__ const item_job& job_of(const item_state& item) const {
    if constexpr (is_batch)
      return item.job.get();
    else
      return job_;
  }
  __device__ static bool leads() { return device::thread_id_anew() < device::warp_size; }  // is it the first warp?
  // Index of a task's share, and number of shares. Computed at each use, so that no registers hold them.
  __device__ uint32_t share(const task& t) const {
    if constexpr (is_batch)
      return static_cast<uint32_t>(t.share);
    else
      return blockIdx.x;
  }
  __device__ uint32_t shares(const item_state& item) const {
    if constexpr (is_batch)
      return item.shares;
    else
      return gridDim.x;
  }

  // -- how the first warp comes to a task -----------------------------------------------------------------------------

  // Locates the first task of a call. In a batch, `locate` does that.
  __device__ void begin(decoder& block) {
    if (threadIdx.x == 0) {
      temp_.now = temp_.next = temp_.after = {};
      block.set_next({});
      for (item_state& item : temp_.items) item.verdict = status::ok;
      if constexpr (is_batch) {
        temp_.epoch = device::load_relaxed(&job_.head->epoch);
        temp_.draws = true;
        cursor().begin();
      } else {
        temp_.after.any = temp_.after.opens = temp_.after.begins = true;
        if constexpr (is_delta) temp_.items[0].clear_digests();
      }
    }
    if constexpr (!is_batch) fetch_header(temp_.items[0], temp_.after);
  }
  // Locates the task after `before`, whose chunk is known. What it takes to find it comes to shared memory.
  __device__ void locate(const task& before, task& next, uint32_t& ticket) {
    device::sync_warp();  // thread 0 has found `before`, and the others have left `next`
    const item_state& item = item_of(before);
    if constexpr (is_batch) {
      const bool stays = before.any && item.verdict == status::ok && before.chunk + item.shares < item.end_chunk;
      if (!stays && temp_.draws) return locate_slot(before, next);
      if (threadIdx.x != 0) return;
      next.any = stays;
      next.opens = next.begins = false;
      if (!stays) return;
      next.item = before.item;
      next.share = before.share;
      next.chunk = before.chunk + item.shares;
      fetch_entry(next);
    } else if (threadIdx.x == 0) {
      next.opens = next.begins = next.any = false;
      if (!before.any || item.verdict != status::ok) return;
      // A launch that does not reset the scratch leaves it as it is.
      const bool draws = !item_job::verified && item.end_chunk - item.first_chunk <= most_drawn;
      // The second chunk of a block follows from the first one. The ticket was drawn while another chunk was decoded.
      const bool second = !draws || before.opens;
      next.chunk = second ? before.chunk + gridDim.x : item.first_chunk + 2 * uint64_t{gridDim.x} + ticket;
      next.any = next.chunk < item.end_chunk;
      if (!next.any) return;
      fetch_entry(next);
      if (draws) ticket = device::atomic_add(&job_.head->ticket, 1u);
    }
  }
  // Locates the task of a slot that is not that of `before`.
  __device__ void locate_slot(const task& before, task& next) {
    // Not drawn before it is opened: other blocks wait until the item of an earlier slot is open.
    const bool any = cursor().draw(job_, [&] { return open(before, next); });
    device::sync_warp();
    if (threadIdx.x == 0) {
      next.any = any;
      temp_.draws = any && gridDim.x < job_.to_draw.most();  // else each block has drawn one
    }
    if (any && next.opens) fetch_header(item_of(next), next);
  }
  // Sets `next` to the slot of the cursor, with one thread. Returns false if its item cannot be decoded.
  __device__ bool open(const task& before, task& next) {
    const batch_cursor at = cursor();
    const bool stays = before.any && item_of(before).index == at.item();
    const auto item = static_cast<uint16_t>(stays                              ? before.item
                                            : before.item == tasks_at_once - 1 ? 0
                                                                               : before.item + 1);
    if (!stays && !open_item_at(at, temp_.items[item])) return false;
    item_state& state = temp_.items[item];
    ++state.done;
    next.item = item;
    next.share = at.index();
    next.begins = true;
    next.opens = !stays;
    if (stays && state.verdict == status::ok) {
      next.chunk = state.first_chunk + at.index();
      if (next.chunk < state.end_chunk) fetch_entry(next);
    }
    return true;
  }
  __device__ bool open_item_at(const batch_cursor& at, item_state& item) {
    const typename item_job::item in = job_.items[at.item()];
    outcome* const result = job_.outcomes + at.item();
    if constexpr (item_job::verified) {
      if (device::load(&result->code) != status::ok) return false;
    } else if (const status s = detail::check_item(in, sizeof(T), at.fits()); s != status::ok) {
      if (at.index() == 0) device::store(result, outcome{0, s, no_chunk});
      return false;
    }
    item.index = at.item();
    item.done = 0;
    item.shares = at.count();
    if constexpr (is_delta) item.clear_digests();
    item_job& job = item.job.get();
    if constexpr (is_delta) job.base = in.base.data(), job.base_values = in.base.size();
    job.frame = in.frame.data();
    job.frame_capacity = in.frame.size();
    job.out = in.values.data();
    job.out_values = in.values.size();
    job.result = result;
    job.head = job_.item.head + at.item();
    if constexpr (!item_job::verified) open_item(*job.head, at.index(), at.count() == 1, temp_.epoch);
    return true;
  }

  __device__ void fetch_entry(const task& t) {
    device::copy_async(&temp_.entry, decoder::entry_of(item_of(t).view.get(), t.chunk));
  }
  // Fetches the header, and the directory entry that the task needs if the frame has no metadata and the job begins at
  // its first chunk. Not if the directory may be shorter: nothing may have been written behind it.
  __device__ void fetch_header(item_state& item, const task& t) {
    const item_job& job = job_of(item);
    if (job.frame_capacity < sizeof(frame_header)) return;
    const unsigned lane = device::thread_id_anew();
    device::copy_async(reinterpret_cast<uint32_t*>(&item.view.get().header_to_be()) + lane,
                       reinterpret_cast<const uint32_t*>(job.frame) + lane);
    if (lane == 0 && fetches_likely_entry(job, t)) device::copy_async(&temp_.entry, likely_entry(job, t));
  }
  __device__ bool fetches_likely_entry(const item_job& job, const task& t) const {
    return share(t) * uint64_t{max_device_chunk_values<C>} < job.out_values &&
           job.frame_capacity >= sizeof(frame_header) + 8 * (uint64_t{share(t)} + 1);
  }
  __device__ const uint64_t* likely_entry(const item_job& job, const task& t) const {
    return reinterpret_cast<const uint64_t*>(job.frame + sizeof(frame_header)) + share(t);
  }
  // `next` becomes `now`.
  __device__ void advance(decoder& block) {
    if (threadIdx.x != 0) return;
    temp_.now = temp_.next;
    block.advance();
    if constexpr (!is_delta) find_part(temp_.now);
  }
  // `after` becomes `next`. Waits for what `locate` has requested, and finds the chunk.
  __device__ __forceinline__ void find_next(decoder& block) {
    task& t = temp_.after;
    device::wait_copies();
    device::sync_warp();
    item_state& item = item_of(t);
    if (t.any && t.opens) check_header(item);
    if (threadIdx.x != 0) return;
    t.buffer = temp_.now.buffer ^ 1;
    t.has_chunk = t.any && item.verdict == status::ok;
    if (t.has_chunk && t.opens) t.chunk = item.first_chunk + share(t);
    t.has_chunk = t.has_chunk && t.chunk < item.end_chunk;
    temp_.next = t;
    block.set_next(t.has_chunk ? find(item, t) : located_chunk{});
    if constexpr (is_batch) temp_.closes = temp_.now.any && (!t.any || t.item != temp_.now.item);
  }
  __device__ located_chunk find(const item_state& item, const task& t) const {
    const frame_view& view = item.view.get();
    const uint64_t* const at = decoder::entry_of(view, t.chunk);
    const item_job& job = job_of(item);
    const bool fetched = !t.opens || (at == likely_entry(job, t) && fetches_likely_entry(job, t));
    return decoder::find(view, t.chunk, {fetched ? temp_.entry : device::load(at)});
  }
  // Locates the task after `next`.
  __device__ void locate_after(uint32_t& ticket) {
    locate(temp_.next, temp_.after, ticket);
    if (threadIdx.x == 0) temp_.ends = !temp_.next.any && !(is_batch && temp_.after.any);
  }
  // Checks the header. The checks are those of host::decode, in the same order. Inlined also without optimization:
  // nvlink refuses a function that needs more registers than a kernel that calls it may have.
  __device__ __forceinline__ void check_header(item_state& item) {
    const item_job& job = job_of(item);
    constexpr unsigned digest_at = offsetof(frame_header, header_digest) / 4;
    if (job.frame_capacity >= sizeof(frame_header)) {
      const unsigned lane = device::thread_id_anew();
      word_sum sums;
      if (lane < digest_at) sums.add(reinterpret_cast<const uint32_t*>(&item.view.get().header())[lane], lane);
      sums.sum = device::warp_sum(sums.sum);
      if (lane == 0) item.verdict = check(item, job, digest(sums, 4 * digest_at));
    } else if (threadIdx.x == 0) {
      uint64_t first = 0;
      for (uint32_t i = 0; i < job.frame_capacity && i < 8; ++i)
        first |= static_cast<uint64_t>(device::load(job.frame + i)) << (8 * i);
      item.verdict = why_no_header(first, job.frame_capacity);
    }
    device::sync_warp();
  }
  __device__ __forceinline__ status check(item_state& item, const item_job& job, uint64_t header_digest) const {
    const frame_header header = item.view.get().header();  // in registers: all loads at once
    if (const status s = tuck::check_header(header, header_digest); s != status::ok) return s;
    C codec(job.codec);
    uint64_t base_values = 0;
    if constexpr (is_delta) base_values = job.base_values;
    if (const status s = match_header(header, codec, job.first_value, job.out_values, is_delta, base_values, job.type);
        s != status::ok)
      return s;
    new (&item.codec.get()) C(codec);
    if (header.chunk_values > max_device_chunk_values<C>) return status::unsupported;
    if (job.frame_capacity < header.frame_bytes) return status::truncated;
    item.first_chunk = job.first_value / header.chunk_values;
    const uint64_t end = is_delta ? header.value_count : job.first_value + job.out_values;
    item.end_chunk = job.out_values == 0 ? 0 : ceil_div(end, uint64_t{header.chunk_values});
    item.view.get().set_frame(job.frame, layout_of(header));
    return status::ok;
  }

  // -- what all threads do with a task --------------------------------------------------------------------------------

  // Starts to fetch the payload of the next chunk, if it has one.
  __device__ void fetch(decoder& block, copy& fetched) {
    if (copy::by_first_warp && !leads()) return;
    const const_bytes payload = block.to_fetch();
    fetched.begin(block.buffer(buffers == 1 ? 0 : temp_.now.buffer ^ 1), payload.data(),
                  static_cast<uint32_t>(payload.size()));
  }

  // Adds the share of the checksum of the contents. Most shares have no words of them. Sets the share of the values to
  // zero if the frame cannot be decoded.
  __device__ void begin_share(const task& t) {
    const item_state& item = item_of(t);
    const uint64_t begin = uint64_t{share(t)} * Threads, stride = uint64_t{shares(item)} * Threads;
    // volatile: not read before it is known that the share begins. Thread 0 may be checking another item's header here.
    const volatile status& verdict_now = item.verdict;
    const status verdict = verdict_now;
    if (verdict != status::ok) {
      if (!is_delta && !is_mismatch(verdict)) zero_fill(job_of(item), begin, stride);
      return;
    }
    if constexpr (item_job::verified) return;
    const const_bytes contents = item.view.get().contents();
    const uint64_t count = contents.size() / 4;
    if (begin >= count) return;
    word_sum sums;
    const auto* words = reinterpret_cast<const uint32_t*>(contents.data());
    for (uint64_t i = begin + device::thread_id_anew(); i < count; i += stride) sums.add(device::load(words + i), i);
    sums = decoder::reduce(temp_.chunk, sums);
    if (threadIdx.x == 0) add_contents(*job_of(item).head, sums);
  }
  // Decodes the chunk of `now`, which is in a buffer. Ends with a barrier.
  __device__ __forceinline__ void decode(decoder& block) {
    const task& t = temp_.now;
    if (t.has_chunk) {
      const item_state& item = item_of(t);
      const auto output_of = [&](uint32_t values, bool summed) -> output {
        if constexpr (is_delta)
          return {job_of(item), item_of(t), t.chunk * item.view.get().header().chunk_values, values};
        else
          return {temp_.part, temp_.part_begin, temp_.part_end, temp_.part_is_whole, summed};
      };
      const status s = block.decode_fetched(item.codec.get(), item.view.get(), t.chunk, t.buffer, output_of);
      if (s != status::ok) {
        device::sync_block();  // the codec may have written values; zeros must come later
        const uint32_t values = values_in_chunk(item.view.get().header(), t.chunk);
        if constexpr (is_delta) {
          output_of(values, false).fill_zeros();
        } else {
          auto out = output_of(values, false);
          decoder::fill(0, values, out);
        }
        if (threadIdx.x == 0)
          device::atomic_max(&job_of(item).head->failure, ~(t.chunk << 16 | static_cast<uint32_t>(s)));
      }
    }
    device::sync_block();
  }

  // Finds the part of a chunk that the job asks for.
  __device__ void find_part(const task& t) {
    if (!t.has_chunk) return;
    const item_job& job = job_of(item_of(t));
    const frame_header& header = item_of(t).view.get().header();
    const uint32_t most = header.chunk_values;
    const uint64_t begin = t.chunk * most, end = job.first_value + job.out_values;
    // May point before `out`. Values before `out` are not written.
    temp_.part = reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(job.out) + (begin - job.first_value) * sizeof(T));
    temp_.part_begin = static_cast<uint32_t>(job.first_value > begin ? job.first_value - begin : 0);
    temp_.part_end = static_cast<uint32_t>(end - begin < most ? end - begin : most);
    const uint32_t count = end == header.value_count ? temp_.part_end : most;  // if it is whole
    temp_.part_is_whole = block_output<T, Threads>::is_whole(temp_.part, temp_.part_begin, temp_.part_end, count);
  }

  __device__ void zero_fill(const item_job& job, uint64_t first, uint64_t stride) const {
    for (uint64_t i = first + device::thread_id_anew(); i < job.out_values; i += stride)
      device::store(reinterpret_cast<bits_t<T>*>(job.out) + i, bits_t<T>{0});
  }

  // Counts what this block has done of a task's item. The last one writes the outcome.
  __device__ void close(const task& t) {
    if constexpr (item_job::verified) return;
    item_state& item = item_of(t);
    const item_job& job = job_of(item);
    if (threadIdx.x == 0) {
      if constexpr (is_delta) item.publish(*job.head);
      if constexpr (is_batch)
        temp_.last = finish_shares(*job.head, item.done, item.shares);
      else
        temp_.last = finish_shares(*job.head, 1, gridDim.x);
    }
    device::sync_block();
    if (!temp_.last) return;
    write_outcome(item, job);
    if (threadIdx.x == 0) is_batch ? clear_item(*job.head) : reset(*job.head, device::load_relaxed(&job.head->epoch));
  }
  // Call it when all chunks have added their base.
  __device__ bool is_wrong_base(const item_state& item, const item_job& job) const {
    if constexpr (is_delta)
      return device::load_relaxed(&job.head->digests.base) != item.view.get().header().base_digest;
    return false;
  }
  __device__ void write_outcome(const item_state& item, const item_job& job) {
    outcome result{job.out_values * sizeof(T), item.verdict, no_chunk};
    if (result.code == status::ok) {
      const word_sum sums{device::load_relaxed(&job.head->contents)};
      const uint64_t failure = device::load_relaxed(&job.head->failure);
      if (digest(sums, item.view.get().contents().size()) != item.view.get().header().contents_digest) {
        result.code = status::bad_directory;
        if constexpr (item_job::writes) zero_fill(job, 0, Threads);
      } else if (failure != 0 && (item_job::writes || !is_wrong_base(item, job))) {
        result.code = static_cast<status>(~failure & 0xffff);
        result.first_bad_chunk = static_cast<uint32_t>(~failure >> 16 < no_chunk ? ~failure >> 16 : no_chunk - 1);
      } else if (is_wrong_base(item, job)) {
        result.code = status::wrong_base;
      }
    } else if (is_mismatch(item.verdict)) {
      result.bytes = 0;
    }
    if constexpr (is_delta)
      if (result.code != status::ok && (!item_job::writes || result.first_bad_chunk == no_chunk)) result.bytes = 0;
    device::sync_block();
    if (threadIdx.x == 0) device::store(job.result, result);
  }

  TempStorage& temp_;
  const Job& job_;
};

namespace detail {
template <class Job, int Threads> TUCK_HD constexpr int decode_blocks() noexcept {
  using item_job = item_job_of<Job>;
  using decoder = block_decoder<decltype(item_job::codec), Threads>;
  // More blocks than have memory would only take registers from each other.
  constexpr int with_memory = blocks_with_memory(sizeof(decoder_storage<decoder>));
  if (is_delta_job<item_job>)
    return fewer_of(delta_blocks_of<decoder> - (item_job::writes && !item_job::verified ? 1 : 0), with_memory);
  return is_batch_job<Job> ? fewer_of(batch_blocks_of<decoder>, with_memory) : decode_policy<decoder>::blocks;
}
}  // namespace detail

inline namespace TUCK_ARCH {

template <class Job, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, (detail::decode_blocks<Job, Threads>()))
    decode_kernel(const __grid_constant__ Job job) {
  run_worker<frame_decoder<Job, Threads>>(job);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
