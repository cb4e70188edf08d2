// Exponents on one thread block. The bytes are those of exponents.hpp.
#pragma once

#include <tuck/codec/bitpack/groups_block.cuh>
#include <tuck/codec/bitpack/groups_block_reader.cuh>
#include <tuck/codec/exponents/exponents.hpp>
#include <tuck/codec/exponents/planes.cuh>

namespace tuck::inline TUCK_ABI {

template <floating_element T, int Threads> class block_codec<exponents<T>, Threads> {
  static constexpr uint32_t width = sizeof(T);

 public:
  using tile = block_tile<T, Threads>;
  using groups = block_groups<1, Threads, tile::capacity, true>;
  using TempStorage = typename groups::TempStorage;
  using row = exponent_planes<sizeof(T)>;
  static_assert(Threads <= 256, "tuck: exponents are encoded by 128 or 256 threads");

  static constexpr int registers = sizeof(T) < 4 ? 96 : 80;

  __device__ explicit block_codec(TempStorage& temp) : groups_(temp) {}

  __device__ uint32_t measure(const exponents<T>&, const tile& values) {
#pragma unroll
    for (int r = 0; r < tile::rows; ++r) {
      const row x = planes_of(values, r);
      uint32_t upper[row::quads];
#pragma unroll
      for (uint32_t q = 0; q < row::quads; ++q) upper[q] = x.w[q][width - 1];
      groups_.set_row(static_cast<uint32_t>(r), upper);
    }
    const uint32_t planes = exponents<T>::planes_bytes(values.count), limit = exponents<T>::limit(values.count);
    return planes > limit ? incompressible : groups_.measure(values.count, false, 0, planes, limit);
  }
  __device__ std::byte* chunk() { return groups_.chunk(); }
  __device__ void write(const exponents<T>&, const tile& values, std::byte* to) {
    groups_.write(to);
    const uint32_t plane_words = exponents<T>::plane_bytes(values.count) / 4;
    const uint32_t first = tile::first_value() / 4;
    auto* const planes = reinterpret_cast<uint32_t*>(to + groups_.end());
#pragma unroll
    for (int r = 0; r < tile::rows; ++r) {
      const row x = planes_of(values, r);
#pragma unroll
      for (uint32_t q = 0; q < row::quads; ++q) {
        const uint32_t at = first + static_cast<uint32_t>(r) * (tile::row_values / 4) + q;
        if (at < plane_words)
#pragma unroll
          for (uint32_t k = 0; k + 1 < width; ++k) planes[k * plane_words + at] = x.w[q][width - 2 - k];
      }
    }
  }

 private:
  __device__ static row planes_of(const tile& values, int r) {
    row planes;
    planes.set(values.row(r));
    return planes;
  }

  groups groups_;
};

template <floating_element T, int Threads> class block_decoder<exponents<T>, Threads> {
  static constexpr uint32_t width = sizeof(T);

 public:
  using tile = block_tile<T, Threads>;
  using groups = block_group_reader<1, Threads, tile, true>;
  using TempStorage = typename groups::TempStorage;
  using row = exponent_planes<sizeof(T)>;

  static constexpr int registers = sizeof(T) == 1 ? 80 : 64;

  __device__ explicit block_decoder(TempStorage& temp) : groups_(temp) {}

  template <class Sink>
  __device__ status read(const exponents<T>&, std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    if (size > exponents<T>::limit(count) || !groups_.open(from, size, count, exponents<T>::max_width, 0) ||
        groups_.end() + exponents<T>::planes_bytes(count) != size)
      return status::bad_payload;
    const auto* const planes = reinterpret_cast<const uint32_t*>(groups_.encoded() + groups_.end());
    const uint32_t plane_words = exponents<T>::plane_bytes(count) / 4;
    groups_.decode(
        count,
        [&](uint32_t first, const auto& upper) {
          row x;
#pragma unroll
          for (uint32_t q = 0; q < row::quads; ++q) {
            const uint32_t at = first / 4 + q;  // inside the chunk's buffer, even for rows past the last value
#pragma unroll
            for (uint32_t k = 0; k + 1 < width; ++k) x.w[q][width - 2 - k] = planes[k * plane_words + at];
            x.w[q][width - 1] = upper[q];
          }
          return x.get();
        },
        sink);
    return status::ok;
  }

 private:
  groups groups_;
};

}  // namespace tuck::inline TUCK_ABI
