// SPDX-License-Identifier: Apache-2.0
// Huffman on one thread block.
#pragma once

#include <tuck/codec/huffman/decoder.cuh>
#include <tuck/codec/huffman/encoder.cuh>

namespace tuck::inline TUCK_ABI {

template <element T, int Threads> class block_codec<huffman<T>, Threads> {
  using encoder = huffman_format::huffman_encoder<T, Threads>;

 public:
  using of_strip = encoder;
  using tile = block_tile<T, Threads>;
  static constexpr int registers = encoder::registers;
  static constexpr bool keeps_tile = false;

  struct TempStorage {
    typename encoder::TempStorage storage;
    alignas(16) std::byte strip[encoder::strip_bytes];
  };

  __device__ explicit block_codec(TempStorage& temp) : encoder_(temp.storage, temp.strip) {}

  __device__ uint32_t measure(const huffman<T>& codec, const tile& values) {
    return encoder_.measure(codec, values.count, of_tile{values});
  }
  __device__ std::byte* chunk() { return encoder_.chunk(); }
  template <class Values> __device__ void write(const huffman<T>& codec, const Values&, std::byte*) {
    encoder_.write(codec);
  }

 private:
  struct of_tile {
    const tile& values;
    template <class Visit> __device__ void visit(uint32_t count, const Visit& f) const {
      using group = huffman_format::number_group<sizeof(T)>;
      constexpr int rows = group::vectors;  // a group of 8-byte values is that of two lanes
      if constexpr (rows == 1) {
#pragma unroll
        for (int r = 0; r < tile::rows; ++r) {
          const uint32_t first = tile::first_value(r * tile::row_words);
          group x;
          x.set_vector(0, values.row(r));
          if (first < count) f(first / group::values, x);
        }
      } else {
        static_assert(tile::rows % 2 == 0, "tuck: huffman of 8-byte values needs blocks of at most 512 threads");
#pragma unroll
        for (int r = 0; r < tile::rows; r += 2) {
          // Even lanes take the groups of row r, odd lanes those of row r + 1.
          const bool odd = threadIdx.x % 2 != 0;
          const device::vec128 a = values.row(r), b = values.row(r + 1);
          device::vec128 keep = odd ? b : a, give = odd ? a : b, got;
#pragma unroll
          for (int i = 0; i < 4; ++i) got.w[i] = device::shfl_xor(give.w[i], 1);
          group x;
          x.set_vector(0, odd ? got : keep);
          x.set_vector(1, odd ? keep : got);
          const uint32_t first = tile::first_value((r + odd) * tile::row_words) / group::values * group::values;
          if (first < count) f(first / group::values, x);
        }
      }
    }
  };

  encoder encoder_;
};

template <element T, int Threads> class block_decoder<huffman<T>, Threads> {
  using decoder = huffman_format::huffman_decoder<T, Threads>;

 public:
  static constexpr int registers = decoder::registers;

  using TempStorage = typename decoder::TempStorage;

  __device__ explicit block_decoder(TempStorage& temp) : decoder_(temp) {}

  template <class Sink>
  __device__ status read(const huffman<T>& codec, std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    if (size >= count * sizeof(T)) return status::bad_payload;
    if (threadIdx.x < 4) from[size + threadIdx.x] = std::byte{};  // the decoder reads a word more
    return decoder_.read(codec, from, size, count, sink);
  }

 private:
  decoder decoder_;
};

}  // namespace tuck::inline TUCK_ABI
