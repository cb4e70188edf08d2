// SPDX-License-Identifier: Apache-2.0
// Encode and decode inside your own kernel: one chunk per thread block.
#pragma once

#include <tuck/core/standard.hpp>
#include <tuck/frame/chunk_decoder.cuh>

namespace tuck::inline TUCK_ABI {

namespace detail {
template <int Threads> __device__ void assert_block() {
  assert(blockDim.x == unsigned{Threads} && blockDim.y == 1 && blockDim.z == 1 && "tuck: not `Threads` threads");
}
}  // namespace detail

/// Encodes one chunk of at most max_device_chunk_values<C> values. All threads of the block call it. The block must
/// have exactly `Threads` threads, in one dimension: an assert, unless NDEBUG is defined. Between two calls with the
/// same TempStorage there must be a sync_block() or __syncthreads(). The result is a bare chunk, not a frame: what
/// C::encode_chunk writes; or the values, if that is not smaller. Its size tells which. block_decode reads both, and on
/// the host C::decode_chunk reads the former.
///
/// `codec`: of an adaptive codec (codec/concept.hpp), the result of its `prepare`. The codec itself is enough if
/// needs_range() is false and device_parameter() is null.
template <codec C, int Threads = block_threads> class block_encode {
  using T = value_t<C>;
  using coder = block_codec<C, Threads>;
  static_assert(!is_lossy<C> || !detail::keeps_tile<coder>, "tuck: keeps_tile of a lossy block codec must be false");
  static_assert(detail::approximates_as_declared<C, Threads>());

 public:
  using tile = block_tile<T, Threads>;                 ///< values of a chunk in registers
  using TempStorage = detail::encoder_storage<coder>;  ///< in shared memory

  /// Constructs an encoder with this shared memory. Call it with all threads.
  __device__ explicit block_encode(TempStorage& temp) : coder_(temp.codec), temp_(temp) {
    detail::assert_block<Threads>();
  }

  /// Encodes values from global memory.
  ///
  /// @param values  global memory, aligned to 4 bytes (8 for 8-byte values). No thread of the kernel may write it,
  ///                because it is read through the read-only cache. To encode values that the kernel computes, use
  ///                the overload for registers
  /// @param count   at least 1
  /// @param out     global memory, aligned to 16, with at least the size of the values rounded up to a multiple of 16
  /// @return to all threads: the size of the chunk in bytes, at most that of the values. Zeros follow it up to a
  ///         multiple of 16 bytes, and nothing else is written
  __device__ uint32_t operator()(const C& codec, const T* values, uint32_t count, std::byte* out) {
    plain_values<T, Threads> source{values};
    tile chunk;
    source.load(chunk, count);
    const uint32_t size = measure(codec, chunk);
    if constexpr (detail::keeps_tile<coder>) {
      write(codec, chunk, size, out);
    } else {  // no registers hold the values meanwhile
      if (size == raw_bytes(count)) source.load(chunk, count);
      copy_out(write_shared(codec, source, chunk, size), size, out);
    }
    return size;
  }

  /// Encodes the first chunk.count values of a tile in registers, at least 1. All other words of the tile must be zero.
  __device__ uint32_t operator()(const C& codec, const tile& chunk, std::byte* out) {
    const uint32_t size = measure(codec, chunk);
    write(codec, chunk, size, out);
    return size;
  }

  /// The same in two steps, for kernels that choose the address by the size. `measure` returns the size to all threads.
  __device__ uint32_t measure(const C& codec, const tile& chunk) {
    tile values = chunk;  // of which a lossy codec keeps what it restores
    if constexpr (is_lossy<C>) {
      coder_.approximate(codec, values);
      device::sync_block();
    }
    const uint32_t size = coder_.measure(codec, values), raw = raw_bytes(chunk.count);
    return size != incompressible && size < raw ? size : raw;
  }
  /// Follows `measure`, of the same tile, by the same object, which returned `size`. `out`: global memory, aligned to
  /// 16, with space for `size` bytes and zeros up to a multiple of 16.
  __device__ void write(const C& codec, const tile& chunk, uint32_t size, std::byte* out) {
    copy_out(write(codec, chunk, size), size, out);
  }
  /// The same, but the chunk stays in TempStorage. Returns its address, a multiple of 16, to all threads, which may
  /// read it. The bytes after the chunk may have any values.
  __device__ const std::byte* write(const C& codec, const tile& chunk, uint32_t size) {
    return write_shared(codec, chunk, chunk, size);
  }

 private:
  __device__ static uint32_t raw_bytes(uint32_t count) { return count * uint32_t{sizeof(T)}; }

  template <class Values>
  __device__ const std::byte* write_shared(const C& codec, const Values& values, const tile& raw, uint32_t size) {
    std::byte* const to = temp_.chunk(coder_);
    device::sync_block();
    if (size == raw_bytes(raw.count))
      store_to_strip(raw, size, to);
    else
      coder_.write(codec, values, to);
    device::sync_block();
    return to;
  }
  __device__ static void copy_out(const std::byte* chunk, uint32_t size, std::byte* out) {
    copy_from_shared<Threads>({out, round_up_pow2(size, 4)}, chunk, size);
  }

  coder coder_;
  TempStorage& temp_;
};

/// Shared memory for the values of a chunk, at a multiple of 16 bytes and rounded up to one: zeros follow the values.
template <element T> struct to_shared {
  T* values;  ///< aligned to 16 bytes

  /// Constructs the target of a block_decode.
  __device__ explicit to_shared(T* p) : values(p) {}
};

namespace detail {

// A sink that calls store(index of the first value, 16 bytes) for 16 bytes at a time. If `summed`, adds all values to
// the checksum.
template <element T, int Threads, class Store> class vector_output {
  using tile = block_tile<T, Threads>;

 public:
  word_sum sums;

  __device__ vector_output(const Store& store, bool summed) : store_(store), summed_(summed) {}

  __device__ void operator()(uint32_t first, const device::vec128& x) {
    const device::vec128 one[] = {x};
    (*this)(first, one);
  }
  template <int Rows> __device__ void operator()(uint32_t first, const device::vec128 (&x)[Rows]) {
    if (summed_) tile::add_rows(sums, first * uint32_t{sizeof(T)} / 4, x);
#pragma unroll
    for (int r = 0; r < Rows; ++r) store_(first + static_cast<uint32_t>(r) * tile::row_values, x[r]);
  }

 private:
  Store store_;
  bool summed_;
};

}  // namespace detail

/// Decodes one chunk: a chunk of a frame, or a bare chunk. The rules on threads are those of block_encode. The values
/// go to one of these, where the block may read them after a barrier, but not by block_encode from global memory. After
/// an error they are zero. Only visits may have happened before, also of wrong values.
///   T* out             global memory for the values of the chunk, never shared memory
///   to_shared(values)  shared memory
///   visit              visit(index in the chunk, value) is called once for each value, by any thread of the block, in
///                      any order. It has no barrier or warp operation
///
/// The encoded bytes are read through the read-only cache, so no thread of the kernel may write them: decode in a later
/// launch what block_encode has written.
///
/// Two errors come before any value: unsupported, if chunks have more than max_device_chunk_values<C> values; and
/// needs_base, if the frame is a delta.
template <codec C, int Threads = block_threads> class block_decode {
  using T = value_t<C>;
  using tile = block_tile<T, Threads>;
  using decoder = chunk_decoder<C, Threads>;

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
  template <class To> __device__ status operator()(const C& codec, const frame_view& frame, uint64_t i, To to) {
    if (!fits(frame.header().chunk_values)) return status::unsupported;
    if (frame.is_delta()) return status::needs_base;
    const auto output_of = [&](uint32_t values, bool summed) { return output(to, values, summed); };
    const status s = decoder_to<To>(temp_).decode(codec, frame, i, output_of);
    if (s != status::ok && !is_mismatch(s)) clear(to, values_in_chunk(frame.header(), i));
    return s;
  }

  /// Decodes a bare chunk, which block_encode or C::encode_chunk has written. It has no checksum: damage that makes it
  /// no valid encoding is found, other damage is not.
  ///
  /// @param codec    a codec with the parameters of the one that encoded; the error bound does not matter
  /// @param encoded  the chunk in global memory. Its address is a multiple of 16, and it is readable up to the next
  ///                 multiple of 16. As many bytes as the values have are the values. More are bad_payload, which
  ///                 C::encode_chunk writes only of incompressible values
  /// @param count    number of values that were encoded
  /// @return ok or an error
  template <class To> __device__ status operator()(const C& codec, const_bytes encoded, uint32_t count, To to) {
    if (!fits(count)) return status::unsupported;
    auto out = output(to, count, false);
    const status s = decoder_to<To>(temp_).decode(codec, encoded, count, out);
    if (s != status::ok) clear(to, count);
    return s;
  }

 private:
  __device__ static bool fits(uint32_t count) { return count != 0 && count <= max_device_chunk_values<C>; }

  // The sink of `count` values.
  __device__ static auto output(T* out, uint32_t count, bool summed) {
    return block_output<T, Threads>(out, 0, count, count, summed);
  }
  __device__ static auto output(to_shared<T> out, uint32_t, bool summed) {
    return vector([to = reinterpret_cast<device::vec128*>(out.values)](
                      uint32_t first, const device::vec128& x) { to[first / tile::lane_values] = x; },
                  summed);
  }
  template <std::invocable<uint32_t, T> Visit>
  __device__ static auto output(const Visit& visit, uint32_t count, bool summed) {
    return vector(
        [&visit, count](uint32_t first, const device::vec128& x) {
          tile row;
          row.set_row(0, x);
#pragma unroll
          for (uint32_t k = 0; k < tile::lane_values; ++k)
            if (first + k < count) visit(first + k, __builtin_bit_cast(T, row.value_of(0, k)));
        },
        summed);
  }
  template <class Store> __device__ static auto vector(const Store& store, bool summed) {
    return detail::vector_output<T, Threads, Store>(store, summed);
  }
  template <class To>
  using decoder_to = chunk_decoder<C, Threads, decltype(output(std::declval<const To&>(), 0u, false))>;

  template <class To> __device__ static void clear(const To& to, uint32_t count) {
    if constexpr (!std::invocable<const To&, uint32_t, T>) {
      device::sync_block();
      auto zeros = output(to, count, false);
      decoder_to<To>::fill(0, count, zeros);
    }
  }

  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI
