// SPDX-License-Identifier: Apache-2.0
// The encode kernel of all codecs: one launch reads each value once and writes each frame once.
//
// Each block draws chunks by ticket, of one tensor or of the items of a batch. For each chunk it computes the size,
// finds the offset by look-back, and writes the payload, the directory entry and the checksum. A chunk is encoded in
// shared memory. If there is memory, it waits for its offset there, while the block reads, measures and publishes its
// next chunk, which may be of another item. The last block to finish an item writes its metadata and header. The header
// is all zeros if the frame does not fit.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/frame/encode_job.cuh>

#include <new>

namespace tuck::inline TUCK_ABI {

// What one block does of a call, whose Job is that of its tensor, or of a batch. It encodes chunks that it draws by
// ticket, until there are no more. In a batch it has two items at most: that of the current chunk, and the one before
// until the last chunk that it encoded of it is written.
template <class Job, int Threads> class frame_encoder {
  static constexpr bool is_batch = is_batch_job<Job>;
  using item_job = item_job_of<Job>;
  using C = decltype(item_job::codec);
  using T = value_t<C>;
  using tile = block_tile<T, Threads>;
  using coder = block_codec<C, Threads>;
  static_assert(detail::approximates_as_declared<C, Threads>());
  static constexpr bool is_delta = is_delta_job<item_job>;
  using source = std::conditional_t<is_delta, values_against<T, Threads>, plain_values<T, Threads>>;
  static constexpr bool keeps_tile = detail::keeps_tile<coder>, chunk_waits = detail::encode_policy<coder>::waits;
  using sums_of_block = block_sums<Threads, is_delta ? 3 : 1>;

  struct item_state : std::conditional_t<is_delta, delta_digests, no_digests> {
    std::byte* frame;  // address of the frame; null: only count bytes
    uint64_t capacity;
    uint32_t done;                             // slots of the item that this block has drawn
    uint32_t shares;                           // all slots of the item; here, so that no register holds them
    uint32_t index;                            // of the item in the batch
    status verdict;                            // on the parameters of an adaptive codec
    device::uninitialized<word_sum> contents;  // of directory entries and checksums that this block wrote
    device::uninitialized<C> prepared;         // an adaptive codec with its final parameters
    device::uninitialized<stage_list> stages;  // stages of that codec
    stored_if<is_batch, item_job> job;
  };
  struct chunk_in_flight {
    bool any;
    chunk_kind kind;
    uint32_t item;  // index of its item_state
    uint32_t chunk, values, size;
    device::uninitialized<word_sum> sum;  // of the values that the chunk will decode to
  };

 public:
  struct TempStorage {
    detail::encoder_storage<coder, chunk_waits> block;
    typename sums_of_block::TempStorage sums;
    item_state items[is_batch ? 2 : 1];
    chunk_in_flight current, waiting;  // `waiting`: encoded, in shared memory until its offset is known
    uint64_t entry;                    // directory entry of the chunk that is written
    std::byte* begin;                  // address of its payload; null: it does not fit
    uint32_t padded;                   // bytes of its payload, with the zeros after it
    uint32_t epoch;
    bool last;
    bool any_item, other_is_open;  // of a batch: whether `current` has an item, and whether the other state has one
    stored_if<is_batch, batch_cursor::TempStorage> cursor;
  };

  static_assert(is_batch || is_delta ||
                sizeof(TempStorage) - sizeof(C) <= sizeof(TempStorage::block) + detail::shared_of_kernel);

  __device__ frame_encoder(TempStorage& temp, const Job& job) : temp_(temp), job_(job) {}

  // Does this block's part. The last block resets the scratch for the next call.
  __device__ __forceinline__ void run() {
    if constexpr (is_batch)
      for (item_state& item : temp_.items) detail::copy_job<Threads>(item.job, job_.item);
    if (threadIdx.x == 0) begin();
    for (bool first = true, more = true; more; first = false) {
      const bool any = draw(first);
      more = encode_chunk() && any;
    }
    if constexpr (!is_batch) close(temp_.items[0]);
    if constexpr (is_batch) {
      if (!finish_batch(*job_.head, temp_.last)) return;
      clear_at_wrap<Threads>(reinterpret_cast<uint64_t*>(job_.head + 1), job_.item.state_count, temp_.epoch);
      if (threadIdx.x == 0) reset(*job_.head, temp_.epoch + 1);
    }
  }

 private:
  // -- items ----------------------------------------------------------------------------------------------------------

  __device__ batch_cursor cursor() const { return batch_cursor(temp_.cursor.get()); }
  __device__ item_state& item_of(const chunk_in_flight& chunk) const { return temp_.items[is_batch ? chunk.item : 0]; }
  __device__ item_state& current_item() const { return item_of(temp_.current); }
  __device__ const item_job& job_of(const item_state& item) const {
    if constexpr (is_batch)
      return item.job.get();
    else
      return job_;
  }
  __device__ const item_job& job() const { return job_of(current_item()); }

  // Call these with one thread. A barrier must follow.
  __device__ void begin() {
    temp_.waiting.any = false;
    temp_.current.item = temp_.current.chunk = 0;
    if constexpr (is_batch) {
      temp_.any_item = temp_.other_is_open = false;
      temp_.epoch = device::load_relaxed(&job_.head->epoch);
      cursor().begin();
    } else {
      device::copy_async(&temp_.epoch, &job_.head->epoch);  // publish waits for it
      begin(temp_.items[0], job_);
    }
  }
  __device__ void begin(item_state& item, const item_job& job) {
    item.contents.get() = {};
    if constexpr (is_delta) item.clear_digests();
    item.frame = job.frame;
    item.capacity = job.capacity;
    if (job.used != nullptr) append(item, job);
    if constexpr (adaptive_codec<C>) prepare(item, job);
  }
  // Places the frame after the bytes in use. If the buffer ends before the payloads begin, only the size is computed.
  __device__ void append(item_state& item, const item_job& job) const {
    const uint64_t used = device::load_relaxed(job.used);
    item.capacity = used < job.capacity ? job.capacity - used : 0;
    item.frame = item.capacity < job.at.payloads ? nullptr : job.frame + used;
  }
  // Completes the codec with what the host cannot know: the range of the values, and a parameter in device memory.
  __device__ void prepare(item_state& item, const item_job& job) const {
    prepass_result seen;
    if (job.codec.needs_range())
      seen.range = {device::load_relaxed(&job.head->range.lowest), device::load_relaxed(&job.head->range.highest)};
    if (job.codec.device_parameter() != nullptr)
      seen.parameter = device::load(reinterpret_cast<const uint64_t*>(job.codec.device_parameter()));
    new (&item.prepared.get()) C;
    item.verdict = job.codec.prepare(seen, item.prepared.get());
    item.stages.get() = item.prepared.get().stages();
  }
  __device__ bool is_prepared(const item_state& item) const {
    if constexpr (adaptive_codec<C>) return item.verdict == status::ok;
    return true;
  }
  __device__ const C& codec() const {
    if constexpr (adaptive_codec<C>)
      return current_item().prepared.get();
    else
      return job().codec;
  }

  // Draws the next chunk, with all threads. Returns false if a batch has no more. Ends with a barrier.
  __device__ bool draw(bool first) {
    const auto may_draw = [&](uint64_t all) { return first || gridDim.x < all; };  // else each block has drawn one
    if constexpr (is_batch) {
      device::sync_block();  // all threads have left the chunk before
      if (device::thread_id_anew() < device::warp_size)
        if (!may_draw(job_.to_draw.most()) || !cursor().draw(job_, [&] { return open(); })) open_none();
      device::sync_block();
      return temp_.any_item;
    } else {
      if (threadIdx.x == 0)
        set_chunk(temp_.items[0], job_, may_draw(job_.at.chunks) ? device::atomic_add(&job_.head->ticket, 1u) : ~0u);
      device::sync_block();
      return true;  // encode_chunk says whether there is one: no register holds it
    }
  }
  __device__ void set_chunk(const item_state& item, const item_job& job, uint32_t chunk) {
    temp_.current.any = chunk < job.at.chunks && is_prepared(item);
    temp_.current.chunk = chunk;
    temp_.current.values = values_in_chunk(job.header, chunk);
    temp_.current.sum.get() = {};
  }
  // Makes the chunk of the slot the current one, with one thread. Returns false if its item cannot be encoded.
  __device__ bool open() {
    const batch_cursor at = cursor();
    const bool stays = temp_.any_item && current_item().index == at.item();
    if (!stays && !open_item_at(at)) return false;
    item_state& item = current_item();
    ++item.done;
    set_chunk(item, item.job.get(), at.index());
    return true;
  }
  // Leaves the current item for none.
  __device__ void open_none() {
    if (threadIdx.x != 0) return;
    temp_.current.any = false;
    temp_.current.item ^= 1;
    temp_.other_is_open = temp_.any_item;
    temp_.any_item = false;
  }
  __device__ bool open_item_at(const batch_cursor& at) {
    const typename item_job::item in = job_.items[at.item()];
    outcome* const result = job_.outcomes + at.item();
    if (const status s = detail::check_item(in, sizeof(typename tile::word), at.fits()); s != status::ok) {
      if (at.index() == 0) device::store(result, outcome{0, s, no_chunk});
      return false;
    }
    temp_.other_is_open = temp_.any_item;
    temp_.any_item = true;
    temp_.current.item ^= 1;
    item_state& item = current_item();
    item.index = at.item();
    item.done = 0;
    item.shares = at.count();
    item_job& job = item.job.get();
    if constexpr (is_delta) job.base = in.base.data();
    job.header.value_count = in.values.size();
    job.at = layout_of(job.header);
    job.values = in.values.data();
    // If the buffer ends before the payloads begin, only the size of the frame is computed.
    const bool fits = in.frame.data() != nullptr && in.frame.size() >= job.at.payloads;
    job.frame = fits ? in.frame.data() : nullptr;
    job.capacity = in.frame.size();
    job.result = result;
    job.head = job_.item.head + at.item();
    job.states = job_.item.states + at.first_ticket();
    if (!fits && at.index() == 0) leave_no_frame(in.frame);
    if (!job_.has_prepass) open_item(*job.head, at.index(), at.count() == 1, temp_.epoch);
    begin(item, job);
    return true;
  }
  __device__ static void leave_no_frame(bytes frame) {
    if (frame.data() == nullptr || frame.size() < sizeof(frame_header)) return;
#pragma unroll 1
    for (uint64_t i = 0; i < sizeof(frame_header) / 8; ++i)
      device::store(reinterpret_cast<uint64_t*>(frame.data()) + i, uint64_t{0});
  }

  // Writes the chunk that waits, and leaves the item before if the current chunk is of another. Meanwhile later blocks
  // can find the size of the current one. Ends with a barrier. Returns whether there is a current chunk: no register
  // holds that before, and behind the barrier thread 0 may soon set the next one.
  __device__ bool settle() {
    if constexpr (chunk_waits)
      if (temp_.waiting.any) write_chunk(temp_.waiting);
    const bool any = temp_.current.any;
    device::sync_block();
    if constexpr (is_batch) {
      if (threadIdx.x == 0) temp_.waiting.any = false;
      if (temp_.other_is_open) close(temp_.items[temp_.current.item ^ 1]);
    }
    return any;
  }

  // Counts what this block has done of an item. The last one completes the frame and clears the state.
  __device__ void close(item_state& item) {
    const item_job& job = job_of(item);
    device::sync_block();
    if (threadIdx.x == 0) {
      if constexpr (!is_batch) device::wait_copies();  // a block without chunks has not yet
      if constexpr (is_delta) item.publish(*job.head);
      add_contents(*job.head, item.contents.get());
      temp_.last = is_batch ? finish_shares(*job.head, item.done, item.shares) : finish_shares(*job.head, 1, gridDim.x);
      if constexpr (is_batch) temp_.other_is_open = false;
    }
    device::sync_block();
    if (!temp_.last) return;
    finish(item, !is_batch && job.frame == nullptr ? status::ok : status::output_too_small);
    if constexpr (is_batch) {
      if (threadIdx.x == 0) clear_item(*job.head);
      device::sync_block();
    } else {
      clear_at_wrap<Threads>(job.states, job.state_count, temp_.epoch);
      if (threadIdx.x == 0) reset(*job.head, temp_.epoch + 1);
    }
  }

  // -- chunks ---------------------------------------------------------------------------------------------------------

  __device__ source chunk_source(const item_job& job, uint32_t chunk) const {
    const uint64_t first = uint64_t{chunk} * job.header.chunk_values;
    if constexpr (is_delta)
      return {job.values + first, job.base + first, {}};
    else
      return {job.values + first};
  }
  __device__ source chunk_source() const { return chunk_source(job(), temp_.current.chunk); }

  __device__ bits_t<T> first_bits() const {
    using word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    return static_cast<bits_t<T>>(device::shfl(device::lane_id() == 0 ? word{chunk_source().at(0)} : word{0}, 0));
  }

  // Where chunks are encoded.
  __device__ std::byte* encoded() {
    coder block(temp_.block.codec);
    return temp_.block.chunk(block);
  }

  // Encodes the current chunk, if there is one, in shared memory. Before that, does what is left of the one before.
  // Ends with a barrier, unless the chunk waits. Returns false if a call has no more chunks.
  __device__ bool encode_chunk() {
    const uint32_t current = temp_.current.chunk;
    const item_job& job = this->job();
    tile values;
    coder block(temp_.block.codec);
    chunk_kind kind = chunk_kind::uniform;
    uint32_t size = 0;
    if (temp_.current.any) {
      source from = chunk_source();
      from.load(values, temp_.current.values);
      if constexpr (is_delta) sum(from.sums);
      if constexpr (is_delta && uses_base<C>) block.use_base(from.base);
      const bool differs = differ(values);
      if constexpr (is_lossy<C>) {
        if (differs) block.approximate(codec(), values);
      }
      if (!keeps_tile && sums_values(job)) sum(values);
      if constexpr (is_lossy<C>) device::sync_block();
      if (differs) {
        size = block.measure(codec(), values);
        const uint32_t raw_bytes = temp_.current.values * uint32_t{sizeof(T)};
        kind = size != incompressible && size < raw_bytes ? chunk_kind::encoded : chunk_kind::raw;
        if (kind == chunk_kind::raw) size = raw_bytes;
      } else if (first_bits() != 0) {
        size = sizeof(T);
      }
      if (threadIdx.x == 0) {  // no register holds the size from here on
        temp_.current.kind = kind;
        temp_.current.size = size;
        publish(job);
      }
    }
    if (!settle()) return is_batch;  // its item may be one that cannot be encoded
    if (current_item().frame != nullptr) {
      constexpr bool reads_again = is_lossy<C> || !keeps_tile;  // raw chunks
      if (keeps_tile && sums_values(job) && !(reads_again && kind == chunk_kind::raw)) sum(values);
      switch (kind) {
        case chunk_kind::encoded:
          if constexpr (keeps_tile)
            block.write(codec(), values, encoded());
          else
            block.write(codec(), chunk_source(job, current), encoded());  // thread 0 may have set the next chunk
          break;
        case chunk_kind::raw:
          if constexpr (reads_again) {
            tile original;
            chunk_source().load(original, temp_.current.values);
            device::sync_block();  // before thread 0 sets the next chunk
            if (is_lossy<C> && sums_values(job)) sum(original);
            store_to_strip(original, tile_bytes, encoded());
          } else {
            store_to_strip(values, tile_bytes, encoded());
          }
          break;
        case chunk_kind::uniform:
          if (threadIdx.x == 0) *reinterpret_cast<uint64_t*>(encoded()) = chunk_source().at(0);
      }
    }
    if constexpr (chunk_waits) {
      if (threadIdx.x == 0) leave();
    } else {
      write_chunk(temp_.current);
      device::sync_block();
    }
    return true;
  }
  // Lets the current chunk wait, with one thread.
  __device__ void leave() {
    chunk_in_flight& to = temp_.waiting;
    to.any = true;
    to.kind = temp_.current.kind;
    to.item = temp_.current.item;
    to.chunk = temp_.current.chunk;
    to.values = temp_.current.values;
    to.size = temp_.current.size;
    to.sum.get() = temp_.current.sum.get();
  }
  // Returns to all threads whether a value of the chunk differs from the first. Has barriers.
  __device__ bool differ(const tile& values) const {
    return device::sync_block_or(!values.may_be_uniform()) || device::sync_block_or(!values.all_equal(first_bits()));
  }
  // Both have a barrier.
  __device__ void sum(const tile& values) {
    const word_sum sums = sums_of_block::reduce(temp_.sums, values.sums());
    if (threadIdx.x == 0) temp_.current.sum.get() = sums;
  }
  __device__ void sum(const typename tile::delta_sums& mine) {
    word_sum sums[] = {mine.left, mine.base, mine.values};
    sums_of_block::reduce(temp_.sums, sums);
    if (threadIdx.x != 0) return;
    const uint64_t size = temp_.current.values * uint64_t{sizeof(T)};
    item_state& item = current_item();
    temp_.current.sum.get() = sums[0];
    item.of_base.get() += share_of_digest(digest(sums[1], size), temp_.current.chunk);
    item.of_result.get() += share_of_digest(digest(sums[2], size), temp_.current.chunk);
  }
  __device__ bool sums_values(const item_job& job) const { return !is_delta && has_checksums(job); }
  __device__ bool has_checksums(const item_job& job) const {
    return job.frame != nullptr && (job.header.flags & flag_checksums) != 0;
  }
  // Converts bytes to units of the alignment, rounded up.
  __device__ uint32_t units(const item_job& job, uint32_t size) const {
    return round_up_pow2(size, job.header.alignment_log2) >> job.header.alignment_log2;
  }

  // Lets later chunks know the size of the current one. Call it with one thread.
  __device__ void publish(const item_job& job) const {
    if constexpr (!is_batch) device::wait_copies();
    device::store_relaxed(job.states + temp_.current.chunk,
                          chunk_state::make(chunk_state::has_size, temp_.epoch, units(job, temp_.current.size)).word);
  }
  // Finds the offset of a chunk that has been published, and publishes its end. `chunk` is in shared memory, so that no
  // register holds its members. Has a barrier.
  __device__ void assign_offset(const chunk_in_flight& chunk) {
    if (device::thread_id_anew() < device::warp_size) {
      const item_state& item = item_of(chunk);
      const item_job& job = job_of(item);
      const uint32_t epoch = temp_.epoch, alignment = job.header.alignment_log2;
      const uint64_t start = look_back(job.states, chunk.chunk, epoch, job.at.payloads >> alignment);
      if (device::lane_id() == 0) {
        device::store_relaxed(job.states + chunk.chunk,
                              chunk_state::make(chunk_state::has_end, epoch, start + units(job, chunk.size)).word);
        const uint64_t offset = start << alignment;
        temp_.entry = directory_entry::make(chunk.kind, chunk.size, start).word;
        temp_.padded = units(job, chunk.size) << alignment;
        temp_.begin = offset + temp_.padded <= item.capacity ? item.frame + offset : nullptr;
      }
    }
    device::sync_block();
  }

  // Writes the encoded chunk in shared memory to the frame. A barrier must follow.
  __device__ void write_chunk(const chunk_in_flight& chunk) {
    assign_offset(chunk);
    if (item_of(chunk).frame != nullptr) {
      write_entry(chunk);
      if (std::byte* const begin = temp_.begin; begin != nullptr)
        copy_from_shared<Threads>({begin, temp_.padded}, encoded(), chunk.size);
    }
  }

  // Writes a chunk's directory entry and checksum, and adds both to this block's sum of the contents.
  __device__ void write_entry(const chunk_in_flight& chunk) {
    if (threadIdx.x != 0) return;
    item_state& item = item_of(chunk);
    const item_job& job = job_of(item);
    const uint64_t offset = 8 * uint64_t{chunk.chunk};
    write_content(item, job.at.directory + offset, temp_.entry, item.contents.get());
    if (has_checksums(job))
      write_content(item, job.at.checksums + offset, digest(chunk.sum.get(), chunk.values * uint64_t{sizeof(T)}),
                    item.contents.get());
  }
  __device__ void write_content(const item_state& item, uint64_t offset, uint64_t word, word_sum& sums) {
    device::store(reinterpret_cast<uint64_t*>(item.frame + offset), word);
    const uint64_t index = (offset - sizeof(frame_header)) / 4;
#pragma unroll 1
    for (uint32_t half = 0; half < 2; ++half, word >>= 32) sums.add(static_cast<uint32_t>(word), index + half);
  }

  // The last block writes metadata, result digest, the gap before the payloads, the header (zeros if the frame does not
  // fit) and the outcome. `counted`: the status if bytes were only counted.
  __device__ void finish(item_state& item, status counted) {
    const item_job& job = job_of(item);
    word_sum metadata;
    if (item.frame != nullptr) {
      for (uint64_t i = job.at.contents_end + threadIdx.x; i < job.at.payloads; i += Threads)
        device::store(item.frame + i, std::byte{});
      metadata = write_metadata<Threads>(job, item.frame);
    }
    metadata = sums_of_block::reduce(temp_.sums, metadata);
    if (threadIdx.x == 0) {
      metadata += {device::load_relaxed(&job.head->contents)};
      if constexpr (is_delta)
        if (item.frame != nullptr)
          write_content(item, job.at.result, device::load_relaxed(&job.head->digests.result), metadata);
      item.contents.get() = metadata;
    }
    device::sync_block();
    const uint64_t frame_bytes = used_bytes(item);
    const bool fits = item.frame != nullptr && frame_bytes <= item.capacity && is_prepared(item);
    if (device::warp_id() == 0 && item.frame != nullptr)
      write_header_words<adaptive_codec<C>, is_delta>(
          job.header, frame_bytes, digest(item.contents.get(), job.at.contents_end - sizeof(frame_header)),
          &job.head->digests.base, &item.stages.get(), fits, item.frame);
    if (threadIdx.x == 0) {
      const status code = !is_prepared(item)      ? item.verdict
                          : fits                  ? status::ok
                          : item.frame == nullptr ? counted
                                                  : status::output_too_small;
      if (job.used != nullptr && fits) {
        const uint64_t used = static_cast<uint64_t>(item.frame - job.frame);
        device::store(job.offset, used);
        device::store_relaxed(job.used, used + round_up_pow2(frame_bytes, append_alignment_log2));
      }
      device::store(job.result, outcome{is_prepared(item) ? frame_bytes : 0, code, no_chunk});
    }
  }

  __device__ uint64_t used_bytes(const item_state& item) const {
    const item_job& job = job_of(item);
    if (job.at.chunks == 0 || !is_prepared(item)) return job.at.payloads;
    const chunk_state last{device::load_relaxed(job.states + (job.at.chunks - 1))};
    return last.units() << job.header.alignment_log2;
  }

  TempStorage& temp_;
  const Job& job_;
};

namespace detail {
template <class Job, int Threads> TUCK_HD constexpr int encode_blocks() noexcept {
  using item_job = item_job_of<Job>;
  using coder = block_codec<decltype(item_job::codec), Threads>;
  if (is_delta_job<item_job>) return is_batch_job<Job> ? delta_batch_blocks_of<coder> : delta_encode_blocks_of<coder>;
  return is_batch_job<Job> ? batch_blocks_of<coder> : encode_policy<coder>::blocks;
}
}  // namespace detail

inline namespace TUCK_ARCH {

template <class Job, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, (detail::encode_blocks<Job, Threads>()))
    encode_kernel(const __grid_constant__ Job job) {
  run_worker<frame_encoder<Job, Threads>>(job);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
