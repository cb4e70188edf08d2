// The encode kernel of all codecs: one launch reads each value once and writes the frame once.
//
// Each block draws chunks by ticket. For each chunk it computes the size, finds the offset by look-back, and writes the
// payload, the directory entry and the checksum. A chunk is encoded in shared memory. If there is memory, it waits for
// its offset there, while the block reads, measures and publishes its next chunk. The last block to finish writes
// metadata and header. The header is all zeros if the frame does not fit.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/frame/encode_job.cuh>
#include <tuck/frame/look_back.cuh>

#include <new>

namespace tuck::inline TUCK_ABI {

// What one block does of an encode_job. It encodes chunks that it draws by ticket, until there are no more, or one
// given chunk.
template <codec C, int Threads, class Job = encode_job<C>> class frame_encoder {
  using T = value_t<C>;
  using tile = block_tile<T, Threads>;
  using coder = block_codec<C, Threads>;
  static_assert(detail::approximates_as_declared<C, Threads>());
  static constexpr bool is_delta = is_delta_job<Job>;
  using source = std::conditional_t<is_delta, values_against<T, Threads>, plain_values<T, Threads>>;
  static constexpr bool keeps_tile = detail::keeps_tile<coder>, chunk_waits = detail::encode_policy<coder>::waits;
  using sums_of_block = block_sums<Threads, is_delta ? 3 : 1>;

 public:
  struct TempStorage : std::conditional_t<is_delta, delta_digests, no_digests> {
    detail::encoder_storage<coder, chunk_waits> block;
    typename sums_of_block::TempStorage sums;
    std::byte* frame;  // address of the frame; null: only count bytes
    uint64_t capacity;
    uint32_t chunk;    // current chunk
    uint32_t values;   // number of values in it
    uint64_t entry;    // directory entry of the chunk that is written
    std::byte* begin;  // address of its payload; null: it does not fit
    uint32_t padded;   // bytes of its payload, with the zeros after it
    uint32_t epoch;
    uint32_t shares;                            // of the item; here, so that no register holds them
    device::uninitialized<word_sum> contents;   // of directory entries and checksums that this block wrote
    device::uninitialized<word_sum> chunk_sum;  // of the values that the chunk will decode to
    device::uninitialized<C> prepared;          // an adaptive codec with its final parameters
    device::uninitialized<stage_list> stages;   // stages of that codec
    status verdict;                             // on the parameters of that codec
    // The chunk that waits for its offset in shared memory.
    struct {
      bool any;
      chunk_kind kind;
      uint32_t chunk, values, size;
      device::uninitialized<word_sum> sum;
    } waiting;
    bool last;
  };

  static_assert(is_delta || sizeof(TempStorage) - sizeof(C) <= sizeof(TempStorage::block) + detail::shared_of_kernel);

  __device__ frame_encoder(TempStorage& temp, const Job& job) : temp_(temp), job_(job) {}

  // Does this block's part of a call. The last block resets the scratch for the next call.
  __device__ void run() {
    if (threadIdx.x == 0) {
      device::copy_async(&temp_.epoch, &job_.head->epoch);  // publish waits for it
      begin();
    }
    do {
      if (threadIdx.x == 0) set_chunk(device::atomic_add(&job_.head->ticket, 1u));
      device::sync_block();
      if (temp_.chunk >= job_.at.chunks || !is_prepared()) break;
      encode_chunk();
    } while (gridDim.x < job_.at.chunks);  // else each block has drawn one
    end<false>();
  }

  // Encodes one chunk of an item of a batch, if the item has it. `shares`: number of such calls for this item. Between
  // two calls there must be a sync_block().
  __device__ void run_share(uint32_t chunk, uint32_t shares, uint32_t epoch) {
    if (threadIdx.x == 0) {
      set_chunk(chunk);
      temp_.shares = shares;
      temp_.epoch = epoch;
      begin();
    }
    device::sync_block();
    if (chunk < job_.at.chunks && is_prepared()) encode_chunk();
    end<true>();
  }

 private:
  // Call both with one thread. A barrier must follow.
  __device__ void set_chunk(uint32_t chunk) {
    temp_.chunk = chunk;
    temp_.values = values_in_chunk(job_.header, chunk);
    temp_.chunk_sum.get() = {};
  }
  __device__ void begin() {
    temp_.contents.get() = {};
    temp_.waiting.any = false;
    if constexpr (is_delta) temp_.clear_digests();
    temp_.frame = job_.frame;
    temp_.capacity = job_.capacity;
    if (job_.used != nullptr) append();
    if constexpr (adaptive_codec<C>) prepare();
  }
  // Places the frame after the bytes in use. If the buffer ends before the payloads begin, only the size is computed.
  __device__ void append() {
    const uint64_t used = device::load_relaxed(job_.used);
    temp_.capacity = used < job_.capacity ? job_.capacity - used : 0;
    temp_.frame = temp_.capacity < job_.at.payloads ? nullptr : job_.frame + used;
  }
  __device__ source chunk_source() const { return chunk_source(temp_.chunk); }
  __device__ source chunk_source(uint32_t chunk) const {
    const uint64_t first = uint64_t{chunk} * job_.header.chunk_values;
    if constexpr (is_delta)
      return {job_.values + first, job_.base + first, {}};
    else
      return {job_.values + first};
  }

  // Counts the share as finished. The last one completes the frame and clears the state.
  template <bool OfItem> __device__ void end() {
    device::sync_block();
    if constexpr (chunk_waits) write_waiting();
    if (threadIdx.x == 0) {
      device::wait_copies();  // a block without chunks has not yet
      if constexpr (is_delta) temp_.publish(*job_.head);
      add_contents(*job_.head, temp_.contents.get());
      temp_.last = finish_share(*job_.head, OfItem ? temp_.shares : gridDim.x);
    }
    device::sync_block();
    if (!temp_.last) return;
    finish(!OfItem && job_.frame == nullptr ? status::ok : status::output_too_small);
    if (!OfItem) clear_at_wrap<Threads>(job_.states, job_.state_count, temp_.epoch);
    if (threadIdx.x == 0) OfItem ? clear_item(*job_.head) : reset(*job_.head, temp_.epoch + 1);
  }

  // Completes the codec with what the host cannot know: the range of the values, and a parameter in device memory.
  __device__ void prepare() {
    prepass_result seen;
    if (job_.codec.needs_range())
      seen.range = {device::load_relaxed(&job_.head->range.lowest), device::load_relaxed(&job_.head->range.highest)};
    if (job_.codec.device_parameter() != nullptr)
      seen.parameter = device::load(reinterpret_cast<const uint64_t*>(job_.codec.device_parameter()));
    new (&temp_.prepared.get()) C;
    temp_.verdict = job_.codec.prepare(seen, temp_.prepared.get());
    temp_.stages.get() = temp_.prepared.get().stages();
  }
  __device__ bool is_prepared() const {
    if constexpr (adaptive_codec<C>) return temp_.verdict == status::ok;
    return true;
  }
  __device__ const C& codec() const {
    if constexpr (adaptive_codec<C>)
      return temp_.prepared.get();
    else
      return job_.codec;
  }

  __device__ bits_t<T> first_bits() const {
    using word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    return static_cast<bits_t<T>>(device::shfl(device::lane_id() == 0 ? word{chunk_source().at(0)} : word{0}, 0));
  }

  // Where chunks are encoded.
  __device__ std::byte* encoded() {
    coder block(temp_.block.codec);
    return temp_.block.chunk(block);
  }

  // Encodes the current chunk in shared memory. Ends with a barrier, unless the chunk waits.
  __device__ void encode_chunk() {
    const uint32_t current = temp_.chunk;
    tile values;
    source from = chunk_source();
    from.load(values, temp_.values);
    if constexpr (is_delta) sum(from.sums);
    coder block(temp_.block.codec);
    if constexpr (is_delta && uses_base<C>) block.use_base(from.base);
    const bool differs = differ(values);
    if constexpr (is_lossy<C>) {
      if (differs) block.approximate(codec(), values);
    }
    if (!keeps_tile && sums_values()) sum(values);
    if constexpr (is_lossy<C>) device::sync_block();
    chunk_kind kind = chunk_kind::uniform;
    uint32_t size = 0;
    if (differs) {
      size = block.measure(codec(), values);
      const uint32_t raw_bytes = temp_.values * uint32_t{sizeof(T)};
      kind = size != incompressible && size < raw_bytes ? chunk_kind::encoded : chunk_kind::raw;
      if (kind == chunk_kind::raw) size = raw_bytes;
    } else if (first_bits() != 0) {
      size = sizeof(T);
    }
    if (threadIdx.x == 0) publish(size);
    if constexpr (chunk_waits)
      write_waiting();
    else
      device::sync_block();
    if (temp_.frame != nullptr) {
      constexpr bool reads_again = is_lossy<C> || !keeps_tile;  // raw chunks
      if (keeps_tile && sums_values() && !(reads_again && kind == chunk_kind::raw)) sum(values);
      switch (kind) {
        case chunk_kind::encoded:
          if constexpr (keeps_tile)
            block.write(codec(), values, encoded());
          else
            block.write(codec(), chunk_source(current), encoded());  // thread 0 may have set the next chunk
          break;
        case chunk_kind::raw:
          if constexpr (reads_again) {
            tile original;
            chunk_source().load(original, temp_.values);
            device::sync_block();  // before thread 0 sets the next chunk
            if (is_lossy<C> && sums_values()) sum(original);
            store_to_row(original, tile_bytes, encoded());
          } else {
            store_to_row(values, tile_bytes, encoded());
          }
          break;
        case chunk_kind::uniform:
          if (threadIdx.x == 0) *reinterpret_cast<uint64_t*>(encoded()) = chunk_source().at(0);
      }
    }
    if constexpr (chunk_waits)
      leave(kind, size);
    else
      write_chunk(temp_.chunk, kind, temp_.values, size, temp_.chunk_sum.get());
  }
  // Lets the current chunk wait.
  __device__ void leave(chunk_kind kind, uint32_t size) {
    if (threadIdx.x != 0) return;
    temp_.waiting.any = true;
    temp_.waiting.kind = kind;
    temp_.waiting.chunk = temp_.chunk;
    temp_.waiting.values = temp_.values;
    temp_.waiting.size = size;
    temp_.waiting.sum.get() = temp_.chunk_sum.get();
  }
  // Returns to all threads whether a value of the chunk differs from the first. Has barriers.
  __device__ bool differ(const tile& values) const {
    return device::sync_block_or(!values.may_be_uniform()) || device::sync_block_or(!values.all_equal(first_bits()));
  }
  // Both have a barrier.
  __device__ void sum(const tile& values) {
    const word_sum sums = sums_of_block::reduce(temp_.sums, values.sums());
    if (threadIdx.x == 0) temp_.chunk_sum.get() = sums;
  }
  __device__ void sum(const typename tile::delta_sums& mine) {
    word_sum sums[] = {mine.left, mine.base, mine.values};
    sums_of_block::reduce(temp_.sums, sums);
    if (threadIdx.x != 0) return;
    const uint64_t size = temp_.values * uint64_t{sizeof(T)};
    temp_.chunk_sum.get() = sums[0];
    temp_.of_base.get() += share_of_digest(digest(sums[1], size), temp_.chunk);
    temp_.of_result.get() += share_of_digest(digest(sums[2], size), temp_.chunk);
  }
  __device__ bool sums_values() const { return !is_delta && has_checksums(); }
  __device__ bool has_checksums() const { return job_.frame != nullptr && (job_.header.flags & flag_checksums) != 0; }
  // Converts bytes to units of the alignment, rounded up.
  __device__ uint32_t units(uint32_t size) const {
    return round_up_pow2(size, job_.header.alignment_log2) >> job_.header.alignment_log2;
  }

  // Lets later chunks know the size of the current one. Call it with one thread.
  __device__ void publish(uint32_t size) const {
    device::wait_copies();
    device::store_relaxed(job_.states + temp_.chunk,
                          chunk_state::make(chunk_state::has_size, temp_.epoch, units(size)).word);
  }
  // Finds the offset of a chunk that has been published, and publishes its end. `chunk` is in shared memory, so that no
  // register holds it. Has a barrier.
  __device__ void assign_offset(const uint32_t& chunk, chunk_kind kind, uint32_t size) {
    if (device::thread_id_anew() < device::warp_size) {
      const uint32_t epoch = temp_.epoch;
      const uint64_t first = job_.at.payloads >> job_.header.alignment_log2;
      const uint64_t start = look_back(job_.states, chunk, epoch, first);
      if (device::lane_id() == 0) {
        device::store_relaxed(job_.states + chunk,
                              chunk_state::make(chunk_state::has_end, epoch, start + units(size)).word);
        const uint64_t offset = start << job_.header.alignment_log2;
        temp_.entry = directory_entry::make(kind, size, start).word;
        temp_.padded = units(size) << job_.header.alignment_log2;
        temp_.begin = offset + temp_.padded <= temp_.capacity ? temp_.frame + offset : nullptr;
      }
    }
    device::sync_block();
  }

  // Writes the encoded chunk in shared memory to the frame. Has a barrier at its end.
  __device__ void write_chunk(const uint32_t& chunk, chunk_kind kind, uint32_t values, uint32_t size,
                              const word_sum& sum) {
    assign_offset(chunk, kind, size);
    if (temp_.frame != nullptr) {
      write_entry(chunk, values, sum);
      if (std::byte* const begin = temp_.begin; begin != nullptr)
        copy_from_shared<Threads>({begin, temp_.padded}, encoded(), size);
    }
    device::sync_block();
  }
  // Writes the chunk that waits, if there is one. Has a barrier at its end. Meanwhile later blocks can find its size.
  __device__ void write_waiting() {
    if (temp_.waiting.any)
      return write_chunk(temp_.waiting.chunk, temp_.waiting.kind, temp_.waiting.values, temp_.waiting.size,
                         temp_.waiting.sum.get());
    device::sync_block();
  }

  // Writes a chunk's directory entry and checksum, and adds both to this block's sum of the contents.
  __device__ void write_entry(uint32_t chunk, uint32_t values, const word_sum& sum) {
    if (threadIdx.x != 0) return;
    const uint64_t offset = 8 * uint64_t{chunk};
    write_content(job_.at.directory + offset, temp_.entry, temp_.contents.get());
    if (has_checksums())
      write_content(job_.at.checksums + offset, digest(sum, values * uint64_t{sizeof(T)}), temp_.contents.get());
  }
  __device__ void write_content(uint64_t offset, uint64_t word, word_sum& sums) {
    device::store(reinterpret_cast<uint64_t*>(temp_.frame + offset), word);
    const uint64_t index = (offset - sizeof(frame_header)) / 4;
    sums.add(static_cast<uint32_t>(word), index);
    sums.add(static_cast<uint32_t>(word >> 32), index + 1);
  }

  // The last block writes metadata, result digest, the gap before the payloads, the header (zeros if the frame does not
  // fit) and the outcome. `counted`: the status if bytes were only counted.
  __device__ void finish(status counted) {
    word_sum metadata;
    if (temp_.frame != nullptr) {
      for (uint64_t i = job_.at.contents_end + threadIdx.x; i < job_.at.payloads; i += Threads)
        device::store(temp_.frame + i, std::byte{});
      metadata = write_metadata<Threads>(job_, temp_.frame);
    }
    metadata = sums_of_block::reduce(temp_.sums, metadata);
    if (threadIdx.x == 0) {
      metadata += {device::load_relaxed(&job_.head->contents)};
      if constexpr (is_delta)
        if (temp_.frame != nullptr)
          write_content(job_.at.result, device::load_relaxed(&job_.head->result_digest()), metadata);
      temp_.contents.get() = metadata;
    }
    device::sync_block();
    const uint64_t frame_bytes = used_bytes();
    const bool fits = temp_.frame != nullptr && frame_bytes <= temp_.capacity && is_prepared();
    if (device::warp_id() == 0 && temp_.frame != nullptr)
      write_header_words<adaptive_codec<C>, is_delta>(
          job_.header, frame_bytes, digest(temp_.contents.get(), job_.at.contents_end - sizeof(frame_header)),
          &job_.head->base_digest(), &temp_.stages.get(), fits, temp_.frame);
    if (threadIdx.x == 0) {
      const status code = !is_prepared()           ? temp_.verdict
                          : fits                   ? status::ok
                          : temp_.frame == nullptr ? counted
                                                   : status::output_too_small;
      if (job_.used != nullptr && fits) {
        const uint64_t used = static_cast<uint64_t>(temp_.frame - job_.frame);
        device::store(job_.offset, used);
        device::store_relaxed(job_.used, used + round_up_pow2(frame_bytes, append_alignment_log2));
      }
      device::store(job_.result, outcome{is_prepared() ? frame_bytes : 0, code, no_chunk});
    }
  }

  __device__ uint64_t used_bytes() const {
    if (job_.at.chunks == 0 || !is_prepared()) return job_.at.payloads;
    const chunk_state last{device::load_relaxed(job_.states + (job_.at.chunks - 1))};
    return last.units() << job_.header.alignment_log2;
  }

  TempStorage& temp_;
  const Job& job_;
};

inline namespace TUCK_ARCH {

template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::encode_policy<block_codec<C, Threads>>::blocks)
    encode_kernel(const __grid_constant__ encode_job<C> job) {
  run_worker<frame_encoder<C, Threads>>(job);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
