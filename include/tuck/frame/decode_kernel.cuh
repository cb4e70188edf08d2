// The decode kernel of all codecs. Frames are untrusted: each block checks the header and the directory entries that it
// uses, and all blocks together check the digest of the contents. Values that cannot be restored become zeros.
//
// While a block decodes a chunk, the next one comes to shared memory, and the directory entry of the one after that.
// Blocks draw chunks by ticket, but for their first two.
#pragma once

#include <tuck/core/block_copy.cuh>
#include <tuck/frame/chunk_decoder.cuh>

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

// What one block does of a decode_job: some chunks, and a share of the checksum of the contents. The last
// block to finish writes the outcome.
template <codec C, int Threads, class Job = decode_job<C>> class frame_decoder {
  using T = value_t<C>;
  using tile = block_tile<T, Threads>;
  using output = typename Job::template output<Threads>;
  static constexpr bool is_delta = is_delta_job<Job>, fetches = std::is_same_v<Job, decode_job<C>>;
  // Buffers for chunks: with two, the next chunk comes while one is decoded, else only its directory entry.
  static constexpr int buffers = fetches && detail::decode_policy<block_decoder<C, Threads>>::fetches ? 2 : 1;
  using decoder = chunk_decoder<C, Threads, output, buffers>;
  using copy = device::block_copy<Threads>;
  static constexpr uint64_t most_drawn = 1u << 31;  // chunks, so that tickets do not overflow

 public:
  struct TempStorage : std::conditional_t<is_delta, delta_digests, no_digests> {
    typename decoder::TempStorage chunk;
    typename copy::TempStorage of_copy;
    // If the job fetches: the directory entry of chunk `next`, on its way until thread 0 has waited for it in `find`.
    uint64_t entry;
    // If the job fetches: the next chunk. All threads read it at the top of a round. Later, behind a barrier, thread 0
    // sets it to the chunk after that and loads the entry of that chunk.
    uint64_t next;
    typename block_sums<Threads>::TempStorage sums;
    device::uninitialized<frame_view> view;
    device::uninitialized<C> codec;
    uint64_t first_chunk, end_chunk;  // chunks with values of the job
    T* part;                          // address of the first value of the current chunk in the output
    uint32_t part_begin, part_end;    // values of the current chunk that are written
    status verdict;
    bool part_is_whole;  // see block_output
    bool last;
  };

  static_assert(is_delta ||
                sizeof(TempStorage) - sizeof(C) <= sizeof(TempStorage::chunk.block) + detail::shared_of_kernel);

  __device__ frame_decoder(TempStorage& temp, const Job& job) : temp_(temp), job_(job) {}

  // Does this block's part of a call.
  __device__ void run() {
    if constexpr (Job::verified)
      if (device::load(&job_.result->code) != status::ok) return;
    run(share_of_grid{});
  }
  // Does a share of a call, or of an item of a batch. The last share writes the outcome and resets the state for the
  // next call. Between two calls there must be a sync_block().
  template <class Share> __device__ void run(const Share& share) {
    open();
    if (temp_.verdict == status::ok) {
      decode_chunks(share);
    } else if (!is_delta && !is_mismatch(temp_.verdict)) {
      zero_fill(uint64_t{share.index()} * Threads, uint64_t{share.count()} * Threads);
    }
    if constexpr (!Job::verified) close(share);
  }

 private:
  // Index of this share of the work, and number of shares. Computed at each use, so that no registers hold them.
  struct share_of_grid {
    __device__ static uint32_t index() { return blockIdx.x; }
    __device__ static uint32_t count() { return gridDim.x; }
  };

  // Counts the share as finished.
  template <class Share> __device__ void close(const Share& share) {
    constexpr bool of_item = !std::is_same_v<Share, share_of_grid>;
    if (threadIdx.x == 0) {
      if constexpr (is_delta) temp_.publish(*job_.head);
      temp_.last = finish_share(*job_.head, share.count());
    }
    device::sync_block();
    if (!temp_.last) return;
    write_outcome();
    if (threadIdx.x == 0) of_item ? clear_item(*job_.head) : reset(*job_.head, device::load_relaxed(&job_.head->epoch));
  }

  // Reads and checks the header. The checks are those of host::decode, in the same order.
  __device__ void open() {
    if constexpr (is_delta)
      if (threadIdx.x == 0) temp_.clear_digests();
    constexpr unsigned digest_at = offsetof(frame_header, header_digest) / 4;
    if (device::warp_id() == 0 && job_.frame_capacity >= sizeof(frame_header)) {
      const unsigned lane = device::thread_id_anew();
      const uint32_t word = device::load(reinterpret_cast<const uint32_t*>(job_.frame) + lane);
      reinterpret_cast<uint32_t*>(&temp_.view.get().header_to_be())[lane] = word;
      word_sum sums;
      if (lane < digest_at) sums.add(word, lane);
      sums.sum = device::warp_sum(sums.sum);
      device::sync_warp();
      if (lane == 0) temp_.verdict = check(digest(sums, 4 * digest_at));
    } else if (threadIdx.x == 0) {
      uint64_t first = 0;
      for (uint32_t i = 0; i < job_.frame_capacity && i < 8; ++i)
        first |= static_cast<uint64_t>(device::load(job_.frame + i)) << (8 * i);
      temp_.verdict = why_no_header(first, job_.frame_capacity);
    }
    device::sync_block();
  }

  __device__ status check(uint64_t header_digest) {
    const frame_header& header = temp_.view.get().header();
    if (const status s = check_header(header, header_digest); s != status::ok) return s;
    new (&temp_.codec.get()) C(job_.codec);
    uint64_t base_values = 0;
    if constexpr (is_delta) base_values = job_.base_values;
    if (const status s = match_header(header, temp_.codec.get(), job_.first_value, job_.out_values, is_delta,
                                      base_values, job_.type);
        s != status::ok)
      return s;
    if (header.chunk_values > max_device_chunk_values<C>) return status::unsupported;
    if (job_.frame_capacity < header.frame_bytes) return status::truncated;
    temp_.first_chunk = job_.first_value / header.chunk_values;
    const uint64_t end = is_delta ? header.value_count : job_.first_value + job_.out_values;
    temp_.end_chunk = job_.out_values == 0 ? 0 : ceil_div(end, uint64_t{header.chunk_values});
    temp_.view.get().set_frame(job_.frame);
    return status::ok;
  }

  // Adds the share of the checksum of the contents. Most shares have no words of them.
  template <class Share> __device__ void sum_contents(const Share& share) {
    if constexpr (Job::verified) return;
    const const_bytes contents = temp_.view.get().contents();
    const uint64_t begin = uint64_t{share.index()} * Threads, count = contents.size() / 4;
    if (begin >= count) return;
    word_sum sums;
    const auto* words = reinterpret_cast<const uint32_t*>(contents.data());
    for (uint64_t i = begin + device::thread_id_anew(); i < count; i += uint64_t{share.count()} * Threads)
      sums.add(device::load(words + i), i);
    sums = block_sums<Threads>::reduce(temp_.sums, sums);
    if (threadIdx.x == 0) add_contents(*job_.head, sums);
  }

  template <class Share> __device__ void decode_chunks(const Share& share) {
    if constexpr (fetches) {
      fetch_and_decode_chunks(share);
    } else {
      sum_contents(share);
      for (uint64_t i = temp_.first_chunk + share.index(); i < temp_.end_chunk; i += share.count()) {
        if (!is_delta && threadIdx.x == 0) find_part(i);
        decode_chunk(i, [&](const auto& output_of) {
          return decoder(temp_.chunk).decode(temp_.codec.get(), temp_.view.get(), i, output_of);
        });
      }
    }
  }
  // The same, with the next directory entry on its way, and with two buffers the next chunk.
  template <class Share> __device__ void fetch_and_decode_chunks(const Share& share) {
    decoder block(temp_.chunk);
    const auto load_entry = [&](uint64_t i) {
      if (i < temp_.end_chunk) device::copy_async(&temp_.entry, decoder::entry_of(temp_.view.get(), i));
    };
    const auto find = [&](uint64_t i, int slot) {
      device::wait_copies();
      if (i < temp_.end_chunk) block.find(temp_.view.get(), i, {temp_.entry}, slot);
    };
    copy fetched(temp_.of_copy);
    const auto fetch = [&](uint64_t i, int slot) {
      if (i >= temp_.end_chunk) return;
      const const_bytes payload = block.to_fetch(slot);
      fetched.begin(temp_.chunk.block.buffer[slot], payload.data(), static_cast<uint32_t>(payload.size()));
    };
    // Blocks have different speeds: from the third chunk on, thread 0 draws them, each while a chunk is decoded.
    uint32_t ticket = 0;
    const auto draws = [&](uint64_t next) {
      return next < temp_.end_chunk && temp_.end_chunk - temp_.first_chunk <= most_drawn;
    };
    const auto find_after = [&](uint64_t next) {  // the chunk after the next one
      if (draws(next))
        next = temp_.first_chunk + 2 * uint64_t{share.count()} + ticket;
      else
        next += share.count();
      temp_.next = next;
      if (draws(next)) ticket = device::atomic_add(&job_.head->ticket, 1u);
    };
    uint64_t i = temp_.first_chunk + share.index();
    if (threadIdx.x == 0) {
      load_entry(i);
      find(i, 0);
      load_entry(temp_.next = i + share.count());
      if (draws(temp_.next)) ticket = device::atomic_add(&job_.head->ticket, 1u);
    }
    device::sync_block();
    fetch(i, 0);
    sum_contents(share);
    for (int slot = 0; i < temp_.end_chunk;) {
      const uint64_t next = temp_.next;
      if (threadIdx.x == 0) {
        find_part(i);
        if constexpr (buffers == 2) find(next, slot ^ 1);
      }
      fetched.wait();
      if constexpr (buffers == 2) {
        if (threadIdx.x == 0) {
          find_after(next);
          load_entry(temp_.next);
        }
        fetch(next, slot ^ 1);
      }
      decode_chunk(i, [&](const auto& output_of) {
        return block.decode_fetched(temp_.codec.get(), temp_.view.get(), i, slot, output_of);
      });
      if constexpr (buffers == 2) {
        slot ^= 1;
      } else {
        if (threadIdx.x == 0) {
          find(next, 0);
          find_after(next);
        }
        device::sync_block();
        if (threadIdx.x == 0) load_entry(temp_.next);
        fetch(next, 0);
      }
      i = next;
    }
  }
  // Decodes chunk i by decode(output_of). Ends with a barrier.
  template <class Decode> __device__ void decode_chunk(uint64_t i, const Decode& decode) {
    const auto output_of = [&](uint32_t values, bool summed) -> output {
      if constexpr (is_delta)
        return {job_, temp_, i * temp_.view.get().header().chunk_values, values};
      else
        return {temp_.part, temp_.part_begin, temp_.part_end, temp_.part_is_whole, summed};
    };
    if (const status s = decode(output_of); s != status::ok) {
      device::sync_block();  // the codec may have written values; zeros must come later
      const uint32_t values = values_in_chunk(temp_.view.get().header(), i);
      if constexpr (is_delta) {
        output_of(values, false).fill_zeros();
      } else {
        auto out = output_of(values, false);
        decoder::fill(0, values, out);
      }
      if (threadIdx.x == 0) device::atomic_max(&job_.head->failure, ~(i << 16 | static_cast<uint32_t>(s)));
    }
    device::sync_block();
  }

  // Finds the part of chunk i that the job asks for.
  __device__ void find_part(uint64_t i) {
    const uint32_t most = temp_.view.get().header().chunk_values;
    const uint64_t begin = i * most, end = job_.first_value + job_.out_values;
    // May point before `out`. Values before `out` are not written.
    temp_.part = reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(job_.out) + (begin - job_.first_value) * sizeof(T));
    temp_.part_begin = static_cast<uint32_t>(job_.first_value > begin ? job_.first_value - begin : 0);
    temp_.part_end = static_cast<uint32_t>(end - begin < most ? end - begin : most);
    const uint32_t count = end == temp_.view.get().header().value_count ? temp_.part_end : most;  // if it is whole
    temp_.part_is_whole = block_output<T, Threads>::is_whole(temp_.part, temp_.part_begin, temp_.part_end, count);
  }

  __device__ void zero_fill(uint64_t first, uint64_t stride) const {
    for (uint64_t i = first + device::thread_id_anew(); i < job_.out_values; i += stride)
      device::store(reinterpret_cast<bits_t<T>*>(job_.out) + i, bits_t<T>{0});
  }

  // Call it when all chunks have added their base.
  __device__ bool is_wrong_base() const {
    if constexpr (is_delta)
      return device::load_relaxed(&job_.head->base_digest()) != temp_.view.get().header().base_digest;
    return false;
  }
  __device__ void write_outcome() {
    outcome result{job_.out_values * sizeof(T), temp_.verdict, no_chunk};
    if (result.code == status::ok) {
      const word_sum sums{device::load_relaxed(&job_.head->contents)};
      const uint64_t failure = device::load_relaxed(&job_.head->failure);
      if (digest(sums, temp_.view.get().contents().size()) != temp_.view.get().header().contents_digest) {
        result.code = status::bad_directory;
        if constexpr (Job::writes) zero_fill(0, Threads);
      } else if (failure != 0 && (Job::writes || !is_wrong_base())) {
        result.code = static_cast<status>(~failure & 0xffff);
        result.first_bad_chunk = static_cast<uint32_t>(~failure >> 16 < no_chunk ? ~failure >> 16 : no_chunk - 1);
      } else if (is_wrong_base()) {
        result.code = status::wrong_base;
      }
    } else if (is_mismatch(temp_.verdict)) {
      result.bytes = 0;
    }
    if constexpr (is_delta)
      if (result.code != status::ok && (!Job::writes || result.first_bad_chunk == no_chunk)) result.bytes = 0;
    device::sync_block();
    if (threadIdx.x == 0) device::store(job_.result, result);
  }

  TempStorage& temp_;
  const Job& job_;
};

inline namespace TUCK_ARCH {

template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::decode_policy<block_decoder<C, Threads>>::blocks)
    decode_kernel(const __grid_constant__ decode_job<C> job) {
  run_worker<frame_decoder<C, Threads>>(job);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
