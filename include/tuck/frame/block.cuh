// Encode and decode inside a kernel of your own: one chunk by one thread block.
#pragma once

#include <tuck/frame/decode_kernel.cuh>

namespace tuck::inline TUCK_ABI {

// Encodes a chunk of up to max_device_chunk_values<C>. All threads of the block call it; between two calls with
// one TempStorage lies a sync_block().
template <codec C, int Threads = block_threads> class block_encode {
  using coder = block_codec<C, Threads>;

 public:
  using tile = block_tile<value_t<C>, Threads>;
  using TempStorage = typename coder::TempStorage;

  __device__ explicit block_encode(TempStorage& temp) : coder_(temp) {}

  // `count` >= 1 values from `values`, a multiple of a word's size (4 bytes, 8 for 8-byte values), to `out`, a multiple
  // of 16 with room for as many bytes as the values have, rounded up to one. Both are global memory, and the kernel
  // must not have written `values`: what it makes itself it encodes from registers, as below. Returns the bytes
  // written, all threads get them, and zeros are behind them up to a multiple of 16; or `declined`, and nothing was
  // written, where the chunk would not shrink. An adaptive codec is one that needs no preparation, or was prepared.
  __device__ uint32_t operator()(const C& codec, const value_t<C>* values, uint32_t count, std::byte* out) {
    block_chunk<value_t<C>, Threads, !detail::takes_chunk<coder>> chunk({values}, count);
    return encode(codec, chunk, count, out);
  }

  // The same of up to tile::capacity values (16 KiB) that are in registers already, as a kernel has them that made
  // them.
  __device__ uint32_t operator()(const C& codec, const tile& chunk, std::byte* out) {
    tile copy = chunk;  // a lossy codec changes it
    return encode(codec, copy, chunk.count, out);
  }

 private:
  template <class Chunk> __device__ uint32_t encode(const C& codec, Chunk& chunk, uint32_t count, std::byte* out) {
    const uint32_t size = detail::measure_chunk(coder_, codec, chunk);
    if (size == declined || size >= count * sizeof(value_t<C>)) return declined;
    device::sync_block();
    detail::pack_chunk(coder_, codec, chunk, {out, round_up_pow2(size, 4)});
    return size;
  }

  coder coder_;
};

// Decodes a chunk of a frame in device memory whose begin is a multiple of 16. All threads of the block call it;
// between two calls with one TempStorage lies a sync_block().
template <codec C, int Threads = block_threads> class block_decode {
  using decoder = chunk_decoder<C, Threads>;
  using output = block_output<value_t<C>, Threads>;

 public:
  using TempStorage = typename decoder::TempStorage;

  __device__ explicit block_decode(TempStorage& temp) : temp_(temp) {}

  // Chunk i < frame.chunks() to `out`, room for its values. The view comes from the frame's header, on the host:
  // `frame_view(device_pointer, header)` after read_header and, which that cannot know, where header.frame_bytes are
  // there; the directory's digest is not looked at. Where the status is not ok, `out` is zero, but for
  // `unsupported`, of chunks of more than max_device_chunk_values, and needs_base, which leave it alone. The codec's
  // parameters are the frame's business: get it by C::from_stages(header.stages, codec).
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
