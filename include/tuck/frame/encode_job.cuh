// SPDX-License-Identifier: Apache-2.0
// The job of encoding a tensor; its pre-pass, which finds the range of the tensor for adaptive codecs; and what the
// last block writes: the metadata and the header of the frame.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/core/block_reduce.cuh>
#include <tuck/frame/format.hpp>
#include <tuck/frame/look_back.cuh>
#include <tuck/frame/slots.cuh>
#include <tuck/frame/sums.cuh>

namespace tuck::inline TUCK_ABI {

/// Appended frames start at multiples of 2^append_alignment_log2 bytes: whole lines of the link and of L2.
inline constexpr unsigned append_alignment_log2 = 7;

template <codec C> struct encode_job {
  using item = encode_item<value_t<C>>;

  C codec;
  frame_header header;  // without frame_bytes and digests; the stages of an adaptive codec are not yet the final ones
  frame_layout at;
  const value_t<C>* values;
  const std::byte* metadata;
  std::byte* frame;  // null: only count bytes
  uint64_t capacity;
  uint64_t* used;    // null, or in device memory: bytes of `frame` before the new frame, whose size is added
  uint64_t* offset;  // with `used`: receives the offset of the frame
  outcome* result;
  scratch_head* head;
  uint64_t* states;
  uint64_t state_count;
};

// The job of a delta: values are XORed with those of the base as they are read.
template <codec C> struct encode_delta_job : encode_job<C> {
  using item = encode_delta_item<value_t<C>>;

  const value_t<C>* base;
};

// Writes the metadata of a job with a whole block. Returns this thread's part of its checksum. Here and below `frame`
// is a variable in shared memory, so that no register holds it.
template <int Threads, class Job> __device__ word_sum write_metadata(const Job& job, std::byte* const& frame) {
  word_sum sums;
  for (uint64_t i = sizeof(frame_header) + 4 * threadIdx.x; i < job.at.directory; i += 4 * Threads) {
    uint32_t word = 0;
    for (uint32_t b = 0; b < 4; ++b)
      if (const uint64_t at = i + b - sizeof(frame_header); at < job.header.metadata_bytes)
        word |= static_cast<uint32_t>(device::load(job.metadata + at)) << (8 * b);
    device::store(reinterpret_cast<uint32_t*>(frame + i), word);
    sums.add(word, (i - sizeof(frame_header)) / 4);
  }
  return sums;
}

// One warp writes the header, one word per lane, and computes its digest. `header` lacks frame_bytes, contents_digest,
// the base_digest of a delta and the stages of an adaptive codec. If the frame does not fit, all words are 0.
template <bool Adaptive, bool Delta>
__device__ void write_header_words(const frame_header& header, uint64_t frame_bytes, uint64_t contents_digest,
                                   const uint64_t* base_digest, const stage_list* stages, bool fits,
                                   std::byte* const& frame) {
  constexpr unsigned bytes_at = offsetof(frame_header, frame_bytes) / 4;
  constexpr unsigned contents_at = offsetof(frame_header, contents_digest) / 4;
  constexpr unsigned base_at = offsetof(frame_header, base_digest) / 4;
  constexpr unsigned digest_at = offsetof(frame_header, header_digest) / 4;
  static_assert(sizeof(frame_header) == 4 * device::warp_size);
  const unsigned lane = device::lane_id();
  uint32_t word = reinterpret_cast<const uint32_t*>(&header)[lane];
  if constexpr (Adaptive) {
    constexpr unsigned stages_at = offsetof(frame_header, stages) / 4;
    if (lane >= stages_at && lane < stages_at + sizeof(stage_list) / 4)
      word = reinterpret_cast<const uint32_t*>(stages)[lane - stages_at];
  }
  if (lane / 2 == bytes_at / 2) word = static_cast<uint32_t>(frame_bytes >> (32 * (lane % 2)));
  if (lane / 2 == contents_at / 2) word = static_cast<uint32_t>(contents_digest >> (32 * (lane % 2)));
  if (Delta && lane / 2 == base_at / 2)
    word = static_cast<uint32_t>(device::load_relaxed(base_digest) >> (32 * (lane % 2)));
  word_sum sums;
  if (lane < digest_at) sums.add(word, lane);
  const uint64_t header_digest = digest({device::warp_sum(sums.sum)}, 4 * digest_at);
  if (lane >= digest_at) word = static_cast<uint32_t>(header_digest >> (32 * (lane % 2)));
  device::store(reinterpret_cast<uint32_t*>(frame) + lane, fits ? word : 0u);
}

// The pre-pass of adaptive codecs: one launch that reads each value once and finds the range of the whole tensor before
// it is encoded.
template <floating_element T> struct prepass_job {
  using item = encode_item<T>;

  const T* values;  // aligned to a word of block_tile
  uint64_t count;
  scratch_head* head;
};

// What one block does of a pre-pass, of one tensor or of the items of a batch, which it opens. It does not change the
// epoch. encode reads the ranges in the scratch.
template <class Job, int Threads> class range_finder {
  static constexpr bool is_batch = is_batch_job<Job>;
  using T = std::remove_const_t<std::remove_pointer_t<decltype(item_job_of<Job>::values)>>;
  using tile = block_tile<T, Threads>;
  using key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  using of_warps = device::block_reduce<Threads, key>;

 public:
  struct TempStorage {
    typename of_warps::TempStorage lowest, highest;
    stored_if<is_batch, batch_cursor::TempStorage> cursor;
    prepass_job<T> part;  // of a batch: one slot of an item
    uint32_t epoch;
    bool last;
  };

  __device__ range_finder(TempStorage& temp, const Job& job) : temp_(temp), job_(job) {}

  __device__ __forceinline__ void run() {
    if constexpr (is_batch) {
      if (threadIdx.x == 0) {
        temp_.epoch = device::load_relaxed(&job_.head->epoch);
        cursor().begin();
      }
      while (draw()) find(temp_.part, 0, 1);
      if (finish_batch(*job_.head, temp_.last) && threadIdx.x == 0) reset(*job_.head, temp_.epoch);
    } else {
      find(job_, blockIdx.x, gridDim.x);
    }
  }

 private:
  __device__ batch_cursor cursor() const { return batch_cursor(temp_.cursor.get()); }

  // Draws the next slot, with all threads. Returns false if there are no more. Has barriers.
  __device__ bool draw() {
    device::sync_block();
    if (device::thread_id_anew() < device::warp_size) cursor().draw(job_, [&] { return open(); });
    device::sync_block();
    return cursor().has_slot();
  }
  // Opens the item of the slot, with one thread. Returns false if the item is not encoded.
  __device__ bool open() {
    const batch_cursor at = cursor();
    const encode_item<T> in = job_.items[at.item()];
    if (detail::check_item(in, sizeof(typename tile::word), at.fits()) != status::ok) return false;
    scratch_head& head = job_.item.head[at.item()];
    open_item(head, at.index(), at.count() == 1, temp_.epoch);
    const uint64_t begin = uint64_t{at.index()} * job_.to_draw.values, left = in.values.size() - begin;
    temp_.part = {in.values.data() + begin, left < job_.to_draw.values ? left : job_.to_draw.values, &head};
    return true;
  }

  // Extends the range in the scratch by the tiles `share`, `share + shares`, ... of the values.
  __device__ void find(const prepass_job<T>& job, uint32_t share, uint32_t shares) {
    value_range<T> range;
    for (uint64_t begin = uint64_t{share} * tile::capacity; begin < job.count;
         begin += uint64_t{shares} * tile::capacity) {
      const uint64_t left = job.count - begin;
      tile values;
      values.load(job.values + begin, left < tile::capacity ? static_cast<uint32_t>(left) : tile::capacity);
#pragma unroll
      for (int j = 0; j < tile::words; ++j)
#pragma unroll
        for (int k = 0; k < tile::per_word; ++k)
          if (tile::first_value(j) + static_cast<uint32_t>(k) < values.count) range.add(tile::value(values.w[j], k));
    }
    const range_keys all{of_warps::largest(temp_.lowest, range.lowest),
                         of_warps::largest(temp_.highest, range.highest)};
    if (threadIdx.x != 0) return;
    if (all.lowest != 0) device::atomic_max(&job.head->range.lowest, all.lowest);
    if (all.highest != 0) device::atomic_max(&job.head->range.highest, all.highest);
  }

  TempStorage& temp_;
  const Job& job_;
};

inline namespace TUCK_ARCH {

template <class Job, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::blocks_with(64)) prepass_kernel(const __grid_constant__ Job job) {
  run_worker<range_finder<Job, Threads>>(job);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
