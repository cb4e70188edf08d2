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
  __device__ void pack(const mine::halved&, const tile& values, bytes out) {
    if (threadIdx.x == 0) put(out, 0, temp_.upper);
#pragma unroll
    for (int j = 0; j < tile::words; ++j)
      if (const uint32_t i = tile::first_value(j); i < values.count) put(out, 2 + 2 * i, values.w[j]);
    for (uint64_t i = 2 + 2 * values.count + threadIdx.x; i < out.size(); i += Threads)
      device::store(out.data() + i, std::byte{});
  }
  template <class Sink> __device__ status decode(const mine::halved&, const_bytes encoded, uint32_t count, Sink& sink) {
    if (encoded.size() != 2 + 2 * count) return status::bad_payload;
    for (uint32_t i = threadIdx.x; i < count; i += Threads) sink(i, half(encoded, 0) << 16 | half(encoded, 2 + 2 * i));
    return status::ok;
  }

 private:
  __device__ static void put(bytes out, uint32_t at, uint32_t x) {
    device::store(out.data() + at, static_cast<std::byte>(x));
    device::store(out.data() + at + 1, static_cast<std::byte>(x >> 8));
  }
  __device__ static uint32_t half(const_bytes from, uint32_t at) {
    return static_cast<uint32_t>(device::load(from.data() + at)) |
           static_cast<uint32_t>(device::load(from.data() + at + 1)) << 8;
  }

  TempStorage& temp_;
};
