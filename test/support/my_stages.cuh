// The same by thread blocks, written to what codec/block.cuh says.
#pragma once

#include "support/my_stages.hpp"

#include <tuck/device.cuh>

template <int Threads> struct tuck::block_transform<mine::masked, Threads> {
  struct TempStorage {};
  __device__ explicit block_transform(TempStorage&) {}

  __device__ void apply(const mine::masked& x, std::byte* values, uint32_t count) const {
    auto* const words = reinterpret_cast<uint32_t*>(values);
    for (uint32_t i = threadIdx.x; i < count; i += Threads) words[i] = mine::masked::rotated(words[i]) ^ x.key;
  }
  __device__ void invert(const mine::masked& x, std::byte* results, uint32_t count) const {
    auto* const words = reinterpret_cast<uint32_t*>(results);
    for (uint32_t i = threadIdx.x; i < count; i += Threads) {
      const uint32_t masked = words[i] ^ x.key;
      words[i] = masked >> 1 | masked << 31;
    }
  }
};

template <int Threads> struct tuck::block_codec<mine::halved, Threads> {
  using tile = block_tile<uint32_t, Threads>;
  struct TempStorage {
    uint32_t upper;
  };
  __device__ explicit block_codec(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t measure(const mine::halved&, const tile& values) {
    if (threadIdx.x == 0) temp_.upper = values.w[0] >> 16;
    device::sync_block();
    bool differs = false;
#pragma unroll
    for (int j = 0; j < tile::words; ++j)
      differs |= tile::first_value(j) < values.count && values.w[j] >> 16 != temp_.upper;
    return device::sync_block_or(differs) ? incompressible : 2 + 2 * values.count;
  }
  __device__ void write(const mine::halved&, const tile& values, std::byte* to) {
    auto* const halves = reinterpret_cast<uint16_t*>(to);
    if (threadIdx.x == 0) halves[0] = static_cast<uint16_t>(temp_.upper);
#pragma unroll
    for (int j = 0; j < tile::words; ++j)
      if (const uint32_t i = tile::first_value(j); i < values.count) halves[1 + i] = static_cast<uint16_t>(values.w[j]);
  }
  template <class Sink>
  __device__ status read(const mine::halved&, const std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    if (size != 2 + 2 * count) return status::bad_payload;
    const auto* const halves = reinterpret_cast<const uint16_t*>(from);
    for (uint32_t i = 4 * threadIdx.x; i < count; i += 4 * Threads) {
      device::vec128 four{};
      for (uint32_t k = 0; k < 4; ++k)
        if (i + k < count) four.w[k] = uint32_t{halves[0]} << 16 | halves[1 + i + k];
      sink(i, four);
    }
    return status::ok;
  }

 private:
  TempStorage& temp_;
};
