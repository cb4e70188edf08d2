// SPDX-License-Identifier: Apache-2.0
// Decodes chunks of a frame, or bare ones, by one thread block.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/frame/reader.hpp>
#include <tuck/frame/sums.cuh>

namespace tuck::inline TUCK_ABI {

// A chunk that an entry of the directory describes.
struct located_chunk {
  status verdict = status::bad_chunk_entry;  // on its entry, then on its checksum
  chunk_view view;
};

// Shared memory of a chunk_decoder with `Sums` checksums per chunk.
template <codec C, int Threads, int Sums, int Buffers> struct chunk_decoder_storage {
  detail::decoder_storage<block_decoder<C, Threads>, Buffers> block;
  typename block_sums<Threads, Sums>::TempStorage sums;
  device::uninitialized<located_chunk> now;
};
// The same with the next chunk, whose payload is in a buffer of its own if there are two.
template <codec C, int Threads, int Sums, int Buffers>
struct two_chunk_storage : chunk_decoder_storage<C, Threads, Sums, Buffers> {
  device::uninitialized<located_chunk> next;
};

// Decodes chunks of an opened frame with a whole block. All threads get the status. The frame is in device memory,
// aligned to 16. If the status is not ok, the contents of `out` are unspecified.
template <codec C, int Threads, class Output = block_output<value_t<C>, Threads>, bool Next = false, int Buffers = 1>
class chunk_decoder {
  using T = value_t<C>;
  using tile = block_tile<T, Threads>;
  using output = Output;
  using coder = block_decoder<C, Threads>;
  static constexpr bool is_delta = requires { output::summed; };
  using sums_of_block = block_sums<Threads, is_delta ? 2 : 1>;

 public:
  using TempStorage = std::conditional_t<Next, two_chunk_storage<C, Threads, is_delta ? 2 : 1, Buffers>,
                                         chunk_decoder_storage<C, Threads, is_delta ? 2 : 1, Buffers>>;

  __device__ explicit chunk_decoder(TempStorage& temp) : temp_(temp) {}

  // Decodes chunk i. output_of(values, summed) makes the output; it is called after a barrier.
  template <class OutputOf>
  __device__ status decode(const C& codec, const frame_view& frame, uint64_t i, const OutputOf& output_of) {
    if (threadIdx.x == 0) temp_.now.get() = find(frame, i, {device::load(entry_of(frame, i))});
    device::sync_block();
    if (const const_bytes payload = to_fetch(temp_.now.get()); !payload.empty()) {
      copy_to_shared<Threads>(buffer(0), payload);
      device::sync_block();
    }
    return decode_fetched(codec, frame, i, 0, output_of);
  }

  // The steps of `decode` for two chunks at a time: thread 0 finds a chunk and stores it as the next one, all threads
  // fetch it, and it becomes the current one.
  __device__ static located_chunk find(const frame_view& frame, uint64_t i, directory_entry entry) {
    located_chunk found;
    found.verdict = frame.chunk(i, entry, sizeof(T), found.view);
    return found;
  }
  __device__ static const uint64_t* entry_of(const frame_view& frame, uint64_t i) {
    return word_at(frame, frame.layout().directory, i);
  }
  __device__ void set_next(const located_chunk& chunk) { temp_.next.get() = chunk; }
  __device__ void advance() {  // copies no padding, which nobody writes
    const located_chunk& next = temp_.next.get();
    temp_.now.get().verdict = next.verdict;
    temp_.now.get().view.kind = next.view.kind;
    temp_.now.get().view.values = next.view.values;
    temp_.now.get().view.payload = next.view.payload;
  }
  // Returns the bytes that have to come to the buffer before the chunk becomes the current one.
  __device__ const_bytes to_fetch() const { return to_fetch(temp_.next.get()); }
  __device__ std::byte* buffer(uint32_t i) { return temp_.block.buffer[Buffers == 1 ? 0 : i]; }
  // Decodes the current chunk, which is chunk i, from a buffer. Both are in shared memory, so that no register holds
  // them.
  template <class OutputOf>
  __device__ __forceinline__ status decode_fetched(const C& codec, const frame_view& frame, const uint64_t& i,
                                                   const uint16_t& buffer, const OutputOf& output_of) {
    status& verdict = temp_.now.get().verdict;
    if (verdict != status::ok) {
      if constexpr (is_delta) add_base(output_of(values_in_chunk(frame.header(), i), false), i);
      return verdict;
    }
    const chunk_view chunk = temp_.now.get().view;
    const bool summed = [&] {
      if constexpr (is_delta) return output::summed;
      return frame.has_checksums();
    }();
    output out = output_of(chunk.values, summed);
    if (const status s = restore(codec, chunk, buffer, out); s != status::ok) {
      if constexpr (is_delta) add_base(out, i);
      return s;
    }
    if (!summed) return status::ok;
    word_sum sums[is_delta ? 2 : 1] = {out.sums};
    if constexpr (is_delta) sums[1] = out.of_base();
    sums_of_block::reduce(temp_.sums, sums);
    if (threadIdx.x == 0) {
      const uint64_t size = chunk.values * uint64_t{sizeof(T)};
      if constexpr (is_delta) out.add_base(share_of_digest(digest(sums[1], size), i));
      verdict = digest(sums[0], size) == device::load(word_at(frame, frame.layout().checksums, i))
                    ? status::ok
                    : status::bad_checksum;
    }
    device::sync_block();
    return verdict;
  }

  // Decodes a bare chunk, which has the values if it is as large as they are.
  __device__ status decode(const C& codec, const_bytes encoded, uint32_t count, output& out) {
    if (encoded.size() > count * sizeof(T)) return status::bad_payload;
    const bool is_raw = encoded.size() == count * sizeof(T);
    if (!is_raw) {
      copy_to_shared<Threads>(temp_.block.buffer[0], encoded);
      device::sync_block();
    }
    return restore(codec, {is_raw ? chunk_kind::raw : chunk_kind::encoded, count, encoded}, 0, out);
  }

  // Adds up sums that are not of a chunk; thread 0 gets the result. A barrier must lie before the next chunk.
  __device__ static word_sum reduce(TempStorage& temp, word_sum mine) { return sums_of_block::reduce(temp.sums, mine); }

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

  __device__ static const_bytes to_fetch(const located_chunk& chunk) {
    const bool fetched = chunk.verdict == status::ok && chunk.view.kind == chunk_kind::encoded;
    return fetched ? chunk.view.payload : const_bytes{};
  }

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

  // Adds the base of a chunk that cannot be restored to the digest: a wrong base is the reason then. Not if the values
  // are written, which may have changed the base. Has barriers.
  __device__ void add_base(const output& out, uint64_t i) {
    if constexpr (output::summed && !output::writes) {
      device::sync_block();
      word_sum sums[2] = {{}, out.sum_base()};
      sums_of_block::reduce(temp_.sums, sums);
      if (threadIdx.x == 0) out.add_base(share_of_digest(digest(sums[1], out.bytes()), i));
    }
  }

  __device__ __forceinline__ status read(const C& codec, uint32_t size, uint32_t count, uint32_t i, output& out) {
    coder block(temp_.block.codec);
    if constexpr (is_delta && uses_base<C>) block.use_base(out.base_of_chunk());
    return block.read(codec, buffer(i), size, count, out);
  }
  __device__ __forceinline__ status restore(const C& codec, const chunk_view& chunk, uint32_t i, output& out) {
    switch (chunk.kind) {
      case chunk_kind::encoded: return read(codec, static_cast<uint32_t>(chunk.payload.size()), chunk.values, i, out);
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

}  // namespace tuck::inline TUCK_ABI
