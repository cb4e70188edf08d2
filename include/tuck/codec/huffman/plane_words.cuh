// Values from byte planes, on one thread block.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/huffman/parts.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// Where the words of each plane are, upper plane first: in the chunk or in shared memory. The words of dropped
// planes are not read.
template <element T, int Threads> class plane_words : block_sizes<T, Threads> {
  using sizes = block_sizes<T, Threads>;
  using sizes::width;
  using typename sizes::four;
  using tile = block_tile<T, Threads>;

 public:
  const uint32_t* from[width];
  bool in_chunk[width];

  // Passes the values of the chunk to the sink. Changes `from`.
  template <class Sink> __device__ void give_values(const shape& s, Sink& sink) {
    if constexpr (width <= 4) {
      if (s.values == tile::capacity) return give_rows(s, sink);
    }
    give_all(s, sink);
  }

 private:
  static constexpr int some = tile::rows < 4 ? tile::rows : 4;  // rows in registers

  // Passes the values of a full chunk to the sink, some rows at a time.
  template <class Sink> __device__ void give_rows(const shape& s, Sink& sink) {
    constexpr uint32_t each = 4 / width;  // quads per thread in a row
#pragma unroll 1
    for (int begin = 0; begin < tile::rows; begin += some) {
      const uint32_t first = tile::first_value(begin * tile::row_words);
      four y[some][each];
#pragma unroll
      for (uint32_t k = 0; k < width; ++k)
        if (k == 0 || k < s.planes()) {
          const uint32_t* const words = from[k] + first / 4;
          if (in_chunk[k])
            load_plane(y, width - 1 - k, [&](uint32_t i) { return device::load(words + i); });
          else
            load_plane(y, width - 1 - k, [&](uint32_t i) { return words[i]; });
        } else {
          load_plane(y, width - 1 - k, [](uint32_t) { return 0u; });
        }
      device::vec128 x[some];
      if (s.rotated())
        to_rows(y, [](four& quad) { rotate_values_back<width>(quad.w); }, x);
      else
        to_rows(y, [&](four& quad) { quad.lower(s.dropped()); }, x);
      sink(first, x);
    }
  }
  template <uint32_t Each, class Load>
  __device__ static void load_plane(four (&y)[some][Each], uint32_t k, const Load& load) {
#pragma unroll
    for (int r = 0; r < some; ++r)
#pragma unroll
      for (uint32_t j = 0; j < Each; ++j) y[r][j].w[k] = load(static_cast<uint32_t>(r) * (tile::row_values / 4) + j);
  }
  template <uint32_t Each, class Restore>
  __device__ static void to_rows(four (&y)[some][Each], const Restore& restore, device::vec128 (&x)[some]) {
#pragma unroll
    for (int r = 0; r < some; ++r)
#pragma unroll
      for (uint32_t j = 0; j < Each; ++j) {
        y[r][j].from_planes();
        restore(y[r][j]);
#pragma unroll
        for (uint32_t i = 0; i < width; ++i) x[r].w[width * j + i] = y[r][j].w[i];
      }
  }

  // Passes any number of values to the sink, 16 bytes at a time. Of values of 8 bytes, a thread makes 32 bytes at once.
  template <class Sink> __device__ void give_all(const shape& s, Sink& sink) {
    constexpr uint32_t each = width < 4 ? 4 / width : 1, vectors = width / 4 == 2 ? 2 : 1;  // `each`: quads per thread
    const uint32_t quads = (s.values + 3) / 4;
#pragma unroll
    for (uint32_t k = 0; k < width; ++k) from[k] += each * threadIdx.x;
#pragma unroll 1
    for (uint32_t q = each * threadIdx.x; q < quads; q += each * Threads) {
      four y[each];
#pragma unroll
      for (uint32_t k = 0; k < width; ++k) {
        uint32_t w[each] = {};
        if (k == 0 || k < s.planes()) {
#pragma unroll
          for (uint32_t j = 0; j < each; ++j)
            if (j == 0 || q + j < quads) w[j] = in_chunk[k] ? device::load(from[k] + j) : from[k][j];
        }
#pragma unroll
        for (uint32_t j = 0; j < each; ++j) y[j].w[width - 1 - k] = w[j];
        from[k] += each * Threads;
      }
      device::vec128 x[vectors];
#pragma unroll
      for (uint32_t j = 0; j < each; ++j) {
        y[j].from_planes();
        if (s.rotated())
          rotate_values_back<width>(y[j].w);
        else
          y[j].lower(s.dropped());
#pragma unroll
        for (uint32_t i = 0; i < width; ++i) x[(width * j + i) / 4].w[(width * j + i) % 4] = y[j].w[i];
      }
#pragma unroll
      for (uint32_t i = 0; i < vectors; ++i)
        if (const uint32_t first = 4 * q + i * tile::lane_values; i == 0 || first < s.values)
          sink(first, s.values - first >= tile::lane_values ? x[i] : tile::clip(x[i], s.values - first));
    }
  }
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
