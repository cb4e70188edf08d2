// The decode kernel of all codecs. Frames are untrusted: each block checks the header and the directory entries that it
// uses, and all blocks together check the digest of the contents. Values that cannot be restored become zeros.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/frame/look_back.cuh>
#include <tuck/frame/reader.hpp>

#include <new>

namespace tuck::inline TUCK_ABI {

// Shared memory of a chunk_decoder with `Sums` checksums per chunk.
template <codec C, int Threads, int Sums> struct chunk_decoder_storage {
  detail::decoder_storage<block_decoder<C, Threads>> block;
  typename block_sums<Threads, Sums>::TempStorage sums;
  device::uninitialized<chunk_view> chunk;
  status verdict;  // on its entry, then on its checksum
};

// Decodes one chunk of an opened frame with a whole block. All threads get the status. The frame is in device memory,
// aligned to 16. If the status is not ok, the contents of `out` are unspecified.
template <codec C, int Threads, class Output = block_output<value_t<C>, Threads>> class chunk_decoder {
  using T = value_t<C>;
  using tile = block_tile<T, Threads>;
  using output = Output;
  using coder = block_decoder<C, Threads>;
  static constexpr bool is_delta = requires { output::summed; };
  using sums_of_block = block_sums<Threads, is_delta ? 2 : 1>;

 public:
  using TempStorage = chunk_decoder_storage<C, Threads, is_delta ? 2 : 1>;

  __device__ explicit chunk_decoder(TempStorage& temp) : temp_(temp) {}

  // Decodes chunk i. output_of(values, summed) makes the output; it is called after a barrier.
  template <class OutputOf>
  __device__ status decode(const C& codec, const frame_view& frame, uint64_t i, const OutputOf& output_of) {
    if (threadIdx.x == 0) {
      const directory_entry entry{device::load(word_at(frame, frame.layout().directory, i))};
      temp_.verdict = frame.chunk(i, entry, sizeof(T), temp_.chunk.get());
    }
    device::sync_block();
    if (temp_.verdict != status::ok) return temp_.verdict;
    const chunk_view chunk = temp_.chunk.get();
    const bool summed = [&] {
      if constexpr (is_delta) return output::summed;
      return frame.has_checksums();
    }();
    output out = output_of(chunk.values, summed);
    if (const status s = restore(codec, chunk, out); s != status::ok) return s;
    if (!summed) return status::ok;
    word_sum sums[is_delta ? 2 : 1] = {out.sums};
    if constexpr (is_delta) sums[1] = out.of_base();
    sums_of_block::reduce(temp_.sums, sums);
    if (threadIdx.x == 0) {
      const uint64_t size = chunk.values * uint64_t{sizeof(T)};
      if constexpr (is_delta) out.add_base(share_of_digest(digest(sums[1], size), i));
      temp_.verdict = digest(sums[0], size) == device::load(word_at(frame, frame.layout().checksums, i))
                          ? status::ok
                          : status::bad_checksum;
    }
    device::sync_block();
    return temp_.verdict;
  }

  // Decodes a bare chunk.
  __device__ status decode(const C& codec, const_bytes encoded, uint32_t count, output& out) {
    if (encoded.size() > tile_bytes) return status::bad_payload;
    const auto size = static_cast<uint32_t>(encoded.size());
    coder block(temp_.block.codec);
    if constexpr (detail::reads_global<coder>) {
      return block.read(codec, encoded.data(), size, count, out);
    } else {
      copy_to_shared<Threads>(temp_.block.room, encoded);
      device::sync_block();
      return block.read(codec, temp_.block.room, size, count, out);
    }
  }

  // Gives `out` the same bits for each of `values` values.
  __device__ static void fill(bits_t<T> bits, uint32_t values, output& out) {
    const word x = tile::repeat(bits);
    const auto low = static_cast<uint32_t>(x), high = static_cast<uint32_t>(uint64_t{x} >> 32);
    const uint32_t odd = sizeof(T) == 8 ? high : low;
    const device::vec128 all{{low, odd, low, odd}};
    for_rows(values, out, [&](uint32_t, int) { return all; });
  }

 private:
  using word = typename tile::word;

  // Gives `out` this thread's rows of a chunk with `values` values. row(first, r) returns row r after value `first`.
  template <class Row> __device__ static void for_rows(uint32_t values, output& out, const Row& row) {
    const uint32_t own = tile::first_value();
    uint32_t before = 0;
#pragma unroll 1
    for (; values - before >= tile::capacity; before += tile::capacity) {
      device::vec128 x[tile::rows];
#pragma unroll
      for (int r = 0; r < tile::rows; ++r) x[r] = row(before + own, r);
      out(before + own, x);
    }
#pragma unroll 1
    for (uint32_t first = before + own; first < values && first - own < before + tile::rows * tile::row_values;
         first += tile::row_values)
      out(first, tile::clip(row(first, 0), values - first));
  }

  __device__ static const uint64_t* word_at(const frame_view& frame, uint64_t table, uint64_t i) {
    return reinterpret_cast<const uint64_t*>(frame.data() + table) + i;
  }

  __device__ status restore(const C& codec, const chunk_view& chunk, output& out) {
    switch (chunk.kind) {
      case chunk_kind::encoded: return decode(codec, chunk.payload, chunk.values, out);
      case chunk_kind::raw: {
        const auto* const from = reinterpret_cast<const device::vec128*>(chunk.payload.data());
        for_rows(chunk.values, out, [&](uint32_t first, int r) {
          return device::load(from + first / tile::lane_values + r * device::warp_size);
        });
        break;
      }
      case chunk_kind::uniform: {
        const auto* const value = reinterpret_cast<const bits_t<T>*>(chunk.payload.data());
        fill(chunk.payload.empty() ? bits_t<T>{0} : device::load_uniform(value), chunk.values, out);
      }
    }
    return status::ok;
  }

  TempStorage& temp_;
};

// The first_value of jobs that restore all values. It is known at compile time, which saves registers.
struct known_zero {
  __device__ constexpr operator uint64_t() const { return 0; }
};

template <codec C, class First = uint64_t> struct decode_job {
  template <int Threads> using output = block_output<value_t<C>, Threads>;
  using item = decode_item<value_t<C>>;
  static constexpr bool writes = true;     // whether the launch writes values
  static constexpr bool verified = false;  // whether an earlier launch has verified the frame

  C codec;  // its parameters are replaced by those of the frame
  const std::byte* frame;
  uint64_t frame_capacity;  // bytes that may be read
  value_t<C>* out;
  First first_value;
  uint64_t out_values;
  outcome* result;
  scratch_head* head;
};

// What one block does of a decode_job: every gridDim.x-th chunk, and a share of the checksum of the contents. The last
// block to finish writes the outcome.
template <codec C, int Threads, class Job = decode_job<C>> class frame_decoder {
  using T = value_t<C>;
  using tile = block_tile<T, Threads>;
  using output = typename Job::template output<Threads>;
  using decoder = chunk_decoder<C, Threads, output>;
  static constexpr bool is_delta = is_delta_job<Job>;

 public:
  struct TempStorage : std::conditional_t<is_delta, delta_digests, no_digests> {
    typename decoder::TempStorage chunk;
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
    word_sum contents;
    if (temp_.verdict == status::ok) {
      decode_chunks(share);
      if constexpr (!Job::verified) contents = sum_contents(share);
    } else if (!is_delta && !is_mismatch(temp_.verdict)) {
      zero_fill(uint64_t{share.index()} * Threads, uint64_t{share.count()} * Threads);
    }
    if constexpr (!Job::verified) end(share, contents);
  }

 private:
  // Index of this share of the work, and number of shares. Computed at each use, so that no registers hold them.
  struct share_of_grid {
    __device__ static uint32_t index() { return blockIdx.x; }
    __device__ static uint32_t count() { return gridDim.x; }
  };

  // Counts the share as finished.
  template <class Share> __device__ void end(const Share& share, const word_sum& contents) {
    constexpr bool of_item = !std::is_same_v<Share, share_of_grid>;
    if (threadIdx.x == 0) {
      if constexpr (is_delta) temp_.publish(*job_.head);
      temp_.last = of_item ? finish_item_share(*job_.head, contents, share.count())
                           : finish_share(*job_.head, contents, share.count());
    }
    device::sync_block();
    if (!temp_.last) return;
    give_verdict();
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
    if (const status s =
            match_header(header, temp_.codec.get(), job_.first_value, job_.out_values, is_delta, base_values);
        s != status::ok)
      return s;
    if (header.chunk_values > max_device_chunk_values<C>) return status::unsupported;
    if (job_.frame_capacity < header.frame_bytes) return status::truncated;
    temp_.first_chunk = job_.first_value / header.chunk_values;
    const uint64_t end = is_delta ? header.value_count : job_.first_value + job_.out_values;
    temp_.end_chunk = ceil_div(end, uint64_t{header.chunk_values});
    temp_.view.get().set_frame(job_.frame);
    return status::ok;
  }

  // Most shares have no words of the contents.
  template <class Share> __device__ word_sum sum_contents(const Share& share) {
    const const_bytes contents = temp_.view.get().contents();
    const uint64_t begin = uint64_t{share.index()} * Threads, count = contents.size() / 4;
    if (begin >= count) return {};
    word_sum sums;
    const auto* words = reinterpret_cast<const uint32_t*>(contents.data());
    for (uint64_t i = begin + device::thread_id_anew(); i < count; i += uint64_t{share.count()} * Threads)
      sums.add(device::load(words + i), i);
    return block_sums<Threads>::reduce(temp_.sums, sums);
  }

  template <class Share> __device__ void decode_chunks(const Share& share) {
    if (job_.out_values == 0) return;
    for (uint64_t i = temp_.first_chunk + share.index(); i < temp_.end_chunk; i += share.count()) {
      if (!is_delta && threadIdx.x == 0) find_part(i);
      const auto output_of = [&](uint32_t values, bool summed) -> output {
        if constexpr (is_delta)
          return {job_, temp_, i * temp_.view.get().header().chunk_values, values};
        else
          return {temp_.part, temp_.part_begin, temp_.part_end, temp_.part_is_whole, summed};
      };
      const status s = decoder(temp_.chunk).decode(temp_.codec.get(), temp_.view.get(), i, output_of);
      if (s != status::ok) {
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

  __device__ void give_verdict() {
    outcome result{job_.out_values * sizeof(T), temp_.verdict, no_chunk};
    if (result.code == status::ok) {
      const word_sum sums{device::load_relaxed(&job_.head->contents)};
      const uint64_t failure = device::load_relaxed(&job_.head->failure);
      if (digest(sums, temp_.view.get().contents().size()) != temp_.view.get().header().contents_digest) {
        result.code = status::bad_directory;
        if constexpr (Job::writes) zero_fill(0, Threads);
      } else if (failure != 0) {
        result.code = static_cast<status>(~failure & 0xffff);
        result.first_bad_chunk = static_cast<uint32_t>(~failure >> 16 < no_chunk ? ~failure >> 16 : no_chunk - 1);
      } else if constexpr (is_delta) {
        if (device::load_relaxed(&job_.head->range.lowest) != temp_.view.get().header().base_digest)
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
TUCK_KERNEL void __launch_bounds__(Threads, detail::blocks_a_processor_of<block_decoder<C, Threads>>)
    decode_kernel(const __grid_constant__ decode_job<C> job) {
  run_worker<frame_decoder<C, Threads>>(job);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
