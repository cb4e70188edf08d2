// Encode and decode inside your own kernel: one chunk per thread block.
#pragma once

#include <tuck/frame/decode_kernel.cuh>

namespace tuck::inline TUCK_ABI {

/// Encodes one chunk of at most max_device_chunk_values<C> values. All threads of the block call it. The block must
/// have exactly `Threads` threads, in one dimension. Between two calls with the same TempStorage there must be a
/// sync_block() or __syncthreads(). The result is a bare chunk, not a frame. C::decode_chunk can read it; block_decode
/// cannot.
template <codec C, int Threads = block_threads> class block_encode {
  using coder = block_codec<C, Threads>;

 public:
  using tile = block_tile<value_t<C>, Threads>;     ///< values of a chunk in registers
  using TempStorage = typename coder::TempStorage;  ///< in shared memory

  /// Constructs an encoder with this shared memory. Call it with all threads.
  __device__ explicit block_encode(TempStorage& temp) : coder_(temp) {}

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
    block_chunk<value_t<C>, Threads, !detail::takes_chunk<coder>> chunk({values}, count);
    return encode(codec, chunk, count, out);
  }

  /// Encodes the first chunk.count values of a tile in registers, at least 1. All other words of the tile must be zero.
  __device__ uint32_t operator()(const C& codec, const tile& chunk, std::byte* out) {
    tile copy = chunk;  // a lossy codec changes it
    return encode(codec, copy, chunk.count, out);
  }

 private:
  template <class Chunk> __device__ uint32_t encode(const C& codec, Chunk& chunk, uint32_t count, std::byte* out) {
    const uint32_t size = detail::measure_chunk(coder_, codec, chunk);
    if (size == incompressible || size >= count * sizeof(value_t<C>)) return incompressible;
    device::sync_block();
    detail::pack_chunk(coder_, codec, chunk, {out, round_up_pow2(size, 4)});
    return size;
  }

  coder coder_;
};

/// Decodes one chunk of a frame. The frame is in device memory, and its address is a multiple of 16. All threads of the
/// block call it. The block must have exactly `Threads` threads, in one dimension. Between two calls with the same
/// TempStorage there must be a sync_block() or __syncthreads().
template <codec C, int Threads = block_threads> class block_decode {
  using decoder = chunk_decoder<C, Threads>;
  using output = block_output<value_t<C>, Threads>;

 public:
  using TempStorage = typename decoder::TempStorage;  ///< in shared memory

  /// Constructs a decoder with this shared memory. Call it with all threads.
  __device__ explicit block_decode(TempStorage& temp) : temp_(temp) {}

  /// Decodes chunk i < frame.chunks() to `out`.
  ///
  /// @param codec  set by C::from_stages(header.stages, codec), which reads the parameters of the frame
  /// @param frame  `frame_view(device_pointer, header)`, made on the host after read_header. The buffer must have
  ///               header.frame_bytes bytes; this is not checked. The digest of the directory is not verified
  /// @param out    global memory for the values of the chunk, never shared memory. The block may read the values after
  ///               a barrier, but not by block_encode from global memory: copy them to a tile
  /// @return ok or an error. unsupported: chunks have more than max_device_chunk_values<C> values. needs_base: the
  ///         frame is a delta. After these two errors, `out` does not change. After any other error, the values of the
  ///         chunk in `out` are zero
  __device__ status operator()(const C& codec, const frame_view& frame, uint64_t i, value_t<C>* out) {
    if (frame.header().chunk_values > max_device_chunk_values<C>) return status::unsupported;
    if (frame.is_delta()) return status::needs_base;
    const auto whole = [&](uint32_t values, bool summed) { return output(out, 0, values, values, summed); };
    const status s = decoder(temp_).decode(codec, frame, i, whole);
    if (s != status::ok) {
      device::sync_block();
      const uint32_t count = values_in_chunk(frame.header(), i);
      output zeros = whole(count, false);
      decoder::fill(0, count, zeros);
    }
    return s;
  }

 private:
  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI
