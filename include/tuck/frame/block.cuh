// Encode and decode inside your own kernel: one chunk per thread block.
#pragma once

#include <tuck/frame/chunk_decoder.cuh>

#include <cassert>
#include <concepts>

namespace tuck::inline TUCK_ABI {

namespace detail {
template <int Threads> __device__ void assert_block() {
  assert(blockDim.x == unsigned{Threads} && blockDim.y == 1 && blockDim.z == 1 && "tuck: not `Threads` threads");
}
}  // namespace detail

/// Encodes one chunk of at most max_device_chunk_values<C> values. All threads of the block call it. The block must
/// have exactly `Threads` threads, in one dimension: an assert, unless NDEBUG is defined. Between two calls with the
/// same TempStorage there must be a sync_block() or __syncthreads(). The result is a bare chunk, not a frame.
/// block_decode reads it, and on the host C::decode_chunk.
template <codec C, int Threads = block_threads> class block_encode {
  using coder = block_codec<C, Threads>;

 public:
  using tile = block_tile<value_t<C>, Threads>;        ///< values of a chunk in registers
  using TempStorage = detail::encoder_storage<coder>;  ///< in shared memory

  /// Constructs an encoder with this shared memory. Call it with all threads.
  __device__ explicit block_encode(TempStorage& temp) : coder_(temp.codec), temp_(temp) {
    detail::assert_block<Threads>();
  }

  /// Encodes values from global memory.
  ///
  /// @param codec   for an adaptive codec (codec/concept.hpp): the result of its `prepare`. The codec itself is enough
  ///                if needs_range() is false and device_parameter() is null
  /// @param values  global memory, aligned to 4 bytes (8 for 8-byte values). No thread of the kernel may write it,
  ///                because it is read through the read-only cache. To encode values that the kernel computes, use
  ///                the overload for registers
  /// @param count   at least 1
  /// @param out     global memory, aligned to 16, with at least the size of the values rounded up to a multiple of 16
  /// @return to all threads: the size of the encoded chunk in bytes, or `incompressible` if the chunk does not become
  ///         smaller. In the first case, zeros follow the chunk up to a multiple of 16 bytes. In the second case,
  ///         nothing has been written
  __device__ uint32_t operator()(const C& codec, const value_t<C>* values, uint32_t count, std::byte* out) {
    plain_values<value_t<C>, Threads> source{values};
    tile chunk;
    source.load(chunk, count);
    const uint32_t size = measure(codec, chunk);
    if (size == incompressible) return size;
    if constexpr (detail::keeps_tile<coder>)
      write_from(codec, chunk, size, out);
    else
      write_from(codec, source, size, out);
    return size;
  }

  /// Encodes the first chunk.count values of a tile in registers, at least 1. All other words of the tile must be zero.
  __device__ uint32_t operator()(const C& codec, const tile& chunk, std::byte* out) {
    tile copy = chunk;  // which measure may change
    const uint32_t size = measure(codec, copy);
    if (size != incompressible) write_from(codec, is_lossy<C> ? copy : chunk, size, out);
    return size;
  }

  /// The same in two steps, for kernels that choose the place by the size. `measure` returns the size that `write` will
  /// write, or `incompressible`. It may change the tile: of a lossy codec, to the values that decoding will restore.
  __device__ uint32_t measure(const C& codec, tile& chunk) {
    const uint32_t raw_bytes = chunk.count * uint32_t{sizeof(value_t<C>)};
    if constexpr (is_lossy<C>) {
      coder_.approximate(codec, chunk);
      device::sync_block();
    }
    const uint32_t size = coder_.measure(codec, chunk);
    return size < raw_bytes ? size : incompressible;
  }
  /// Follows `measure`, of the same tile, by the same object: writes `size` bytes to `out`, as above.
  __device__ void write(const C& codec, const tile& chunk, uint32_t size, std::byte* out) {
    write_from(codec, chunk, size, out);
  }

 private:
  template <class Values>
  __device__ void write_from(const C& codec, const Values& values, uint32_t size, std::byte* out) {
    device::sync_block();
    coder_.write(codec, values, temp_.chunk(coder_));
    device::sync_block();
    copy_from_shared<Threads>({out, round_up_pow2(size, 4)}, temp_.chunk(coder_), size);
  }

  coder coder_;
  TempStorage& temp_;
};

namespace detail {

// A sink that calls visit(index, value) for each of the first `count` values. If `summed`, adds all values to the
// checksum.
template <element T, int Threads, class Visit> class visiting_output {
  using tile = block_tile<T, Threads>;
  using word = typename tile::word;

 public:
  word_sum sums;

  __device__ visiting_output(const Visit& visit, uint32_t count, bool summed)
      : visit_(visit), count_(count), summed_(summed) {}

  __device__ void operator()(uint32_t first, const device::vec128& x) {
#pragma unroll
    for (uint32_t k = 0; k < 4; k += sizeof(word) / 4)
      visit(first + k * 4 / uint32_t{sizeof(T)},
            static_cast<word>(sizeof(word) == 4 ? x.w[k] : device::join_words(x.w[k], x.w[k | 1])));
  }
  template <int Rows> __device__ void operator()(uint32_t first, const device::vec128 (&x)[Rows]) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) (*this)(first + static_cast<uint32_t>(r) * tile::row_values, x[r]);
  }

 private:
  __device__ void visit(uint32_t first, word x) {
    if (summed_) tile::add_word(sums, x, first);
#pragma unroll
    for (uint32_t k = 0; k < tile::per_word; ++k)
      if (first + k < count_) visit_(first + k, __builtin_bit_cast(T, tile::value(x, static_cast<int>(k))));
  }

  const Visit& visit_;
  uint32_t count_;
  bool summed_;
};

}  // namespace detail

/// Decodes one chunk: a chunk of a frame, or a bare chunk. The rules on threads are those of block_encode.
///
/// The values go to `out`, or to `visit`:
///   out    global memory for the values of the chunk, never shared memory. The block may read the values after a
///          barrier, but not by block_encode from global memory: copy them to a tile. After an error the values are
///          zero
///   visit  visit(index in the chunk, value) is called once for each value, by any thread of the block, in any order.
///          It has no barrier or warp operation. If an error is returned, some values may have been visited, or wrong
///          ones
///
/// The encoded bytes are read through the read-only cache, so no thread of the kernel may write them: decode in a later
/// launch what block_encode has written.
///
/// Two errors come before any value: unsupported, if chunks have more than max_device_chunk_values<C> values; and
/// needs_base, if the frame is a delta.
template <codec C, int Threads = block_threads> class block_decode {
  using T = value_t<C>;
  using output = block_output<T, Threads>;
  using decoder = chunk_decoder<C, Threads>;
  template <class Visit> using visiting = detail::visiting_output<T, Threads, Visit>;

 public:
  using TempStorage = typename decoder::TempStorage;  ///< in shared memory

  /// Constructs a decoder with this shared memory. Call it with all threads.
  __device__ explicit block_decode(TempStorage& temp) : temp_(temp) { detail::assert_block<Threads>(); }

  /// Decodes chunk i < frame.chunks().
  ///
  /// @param codec  set by C::from_stages(header.stages, codec), which reads the parameters of the frame
  /// @param frame  `frame_view(device_pointer, header)`, made on the host after inspect. The buffer must have
  ///               header.frame_bytes bytes; this is not checked. It is in device memory, and its address is a multiple
  ///               of 16. The digest of the directory is not verified
  /// @return ok or an error
  __device__ status operator()(const C& codec, const frame_view& frame, uint64_t i, T* out) {
    const auto whole = [&](uint32_t values, bool summed) { return output(out, 0, values, values, summed); };
    const status s = decode<output>(codec, frame, i, whole);
    if (s != status::ok && !is_mismatch(s)) clear(out, values_in_chunk(frame.header(), i));
    return s;
  }
  /// The same, with the values passed to `visit`.
  template <std::invocable<uint32_t, T> Visit>
  __device__ status operator()(const C& codec, const frame_view& frame, uint64_t i, const Visit& visit) {
    return decode<visiting<Visit>>(
        codec, frame, i, [&](uint32_t values, bool summed) { return visiting<Visit>(visit, values, summed); });
  }

  /// Decodes a bare chunk, which block_encode or C::encode_chunk has written. It has no checksum: damage that makes it
  /// no valid encoding is found, other damage is not.
  ///
  /// @param codec    a codec with the parameters of the one that encoded; the error bound does not matter
  /// @param encoded  the chunk in global memory. Its address is a multiple of 16, and it is readable up to the next
  ///                 multiple of 16. More than tile_bytes are bad_payload: C::encode_chunk writes so many only of
  ///                 incompressible values
  /// @param count    number of values that were encoded
  /// @return ok or an error
  __device__ status operator()(const C& codec, const_bytes encoded, uint32_t count, T* out) {
    if (!fits(count)) return status::unsupported;
    output whole(out, 0, count, count, false);
    const status s = decoder(temp_).decode(codec, encoded, count, whole);
    if (s != status::ok) clear(out, count);
    return s;
  }
  /// The same, with the values passed to `visit`.
  template <std::invocable<uint32_t, T> Visit>
  __device__ status operator()(const C& codec, const_bytes encoded, uint32_t count, const Visit& visit) {
    if (!fits(count)) return status::unsupported;
    visiting<Visit> each(visit, count, false);
    return chunk_decoder<C, Threads, visiting<Visit>>(temp_).decode(codec, encoded, count, each);
  }

 private:
  __device__ static bool fits(uint32_t count) { return count != 0 && count <= max_device_chunk_values<C>; }

  template <class Output, class OutputOf>
  __device__ status decode(const C& codec, const frame_view& frame, uint64_t i, const OutputOf& output_of) {
    if (!fits(frame.header().chunk_values)) return status::unsupported;
    if (frame.is_delta()) return status::needs_base;
    return chunk_decoder<C, Threads, Output>(temp_).decode(codec, frame, i, output_of);
  }
  __device__ static void clear(T* out, uint32_t count) {
    device::sync_block();
    output zeros(out, 0, count, count, false);
    decoder::fill(0, count, zeros);
  }

  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI
