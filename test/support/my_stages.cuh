// The same by thread blocks, written to what codec/block.cuh says.
#pragma once

#include "support/my_stages.hpp"

#include <tuck/device.cuh>

template <int Threads> struct tuck::block_transform<mine::masked, Threads> {
  struct TempStorage {};
  __device__ explicit block_transform(TempStorage&) {}

  __device__ uint32_t apply(const mine::masked& x, std::byte* values, uint32_t count) const {
    auto* const words = reinterpret_cast<uint32_t*>(values);
    for (uint32_t i = threadIdx.x; i < count; i += Threads) words[i] = mine::masked::rotated(words[i]) ^ x.key;
    return 0;
  }
  __device__ void invert(const mine::masked& x, std::byte* results, uint32_t count, uint32_t) const {
    auto* const words = reinterpret_cast<uint32_t*>(results);
    for (uint32_t i = threadIdx.x; i < count; i += Threads) {
      const uint32_t masked = words[i] ^ x.key;
      words[i] = masked >> 1 | masked << 31;
    }
  }
};

template <int Threads> struct tuck::block_codec<mine::signs, Threads> {
  using tile = block_tile<uint32_t, Threads>;
  struct TempStorage {};
  __device__ explicit block_codec(TempStorage&) {}

  __device__ uint32_t measure(const mine::signs& codec, const tile& values) {
    return codec.max_chunk_bytes(values.count);
  }
  __device__ uint32_t side_bytes(uint32_t count) const { return mine::signs::side(count); }
  // Two threads make a byte of the side stream.
  __device__ void write(const mine::signs&, const tile& values, std::byte* to) {
    auto* const rest = reinterpret_cast<uint32_t*>(to + side_bytes(values.count));
#pragma unroll
    for (int r = 0; r < tile::rows; ++r) {
      const uint32_t first = tile::first_value(4 * r);
      uint32_t four = 0;
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) {
        four |= values.w[4 * r + k] >> 31 << k;
        if (first + k < values.count) rest[first + k] = values.w[4 * r + k] & 0x7fffffffu;
      }
      const uint32_t next = device::shfl_down(four, 1);
      if (first % 8 == 0 && first / 8 < side_bytes(values.count))
        to[first / 8] = static_cast<std::byte>(four | next << 4);
    }
  }
  template <class Sink>
  __device__ status read_parts(const mine::signs&, const std::byte* side, uint32_t, const std::byte* rest,
                               uint32_t bytes, uint32_t count, Sink& sink) {
    if (bytes != 4 * count) return status::bad_payload;
    for (uint32_t i = 4 * threadIdx.x; i < count; i += 4 * Threads) {
      device::vec128 four{};
      for (uint32_t k = 0; k < 4; ++k)
        if (i + k < count)
          four.w[k] = reinterpret_cast<const uint32_t*>(rest)[i + k] ^
                      static_cast<uint32_t>(side[(i + k) / 8]) >> (i + k) % 8 << 31;
      sink(i, four);
    }
    return status::ok;
  }
  template <class Sink>
  __device__ status read(const mine::signs& codec, const std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    if (size != codec.max_chunk_bytes(count)) return status::bad_payload;
    return read_parts(codec, from, side_bytes(count), from + side_bytes(count), 4 * count, count, sink);
  }
};

namespace mine {
// What `write` may do to the bytes behind the chunk: the last threads spoil them up to a multiple of 16.
template <int Threads> __device__ void spoil_behind(std::byte* chunk, uint32_t size) {
  const uint32_t i = Threads - 1 - threadIdx.x;
  if (i < (0 - size) % 16) chunk[size + i] = std::byte{0xee};
}
}  // namespace mine

template <int Threads> struct tuck::block_codec<mine::halved, Threads> {
  using tile = block_tile<uint32_t, Threads>;

  // As the last stage of a chain.
  class of_strip {
   public:
    static constexpr int registers = 64;
    struct TempStorage {
      alignas(16) std::byte chunk[tile_bytes];
    };
    __device__ of_strip(TempStorage& temp, std::byte* strip)
        : temp_(temp), values_(reinterpret_cast<const uint32_t*>(strip)) {}

    __device__ uint32_t measure(const mine::halved&, uint32_t count) {
      count_ = count;
      bool differs = false;
      for (uint32_t i = threadIdx.x; i < count; i += Threads) differs |= values_[i] >> 16 != values_[0] >> 16;
      return device::sync_block_or(differs) || count == 1 ? incompressible : 2 + 2 * count;
    }
    __device__ std::byte* chunk() { return temp_.chunk; }
    __device__ void write(const mine::halved&) {
      auto* const halves = reinterpret_cast<uint16_t*>(temp_.chunk);
      if (threadIdx.x == 0) halves[0] = static_cast<uint16_t>(values_[0] >> 16);
      for (uint32_t i = threadIdx.x; i < count_; i += Threads) halves[1 + i] = static_cast<uint16_t>(values_[i]);
      mine::spoil_behind<Threads>(temp_.chunk, 2 + 2 * count_);
    }

   private:
    TempStorage& temp_;
    const uint32_t* values_;
    uint32_t count_ = 0;
  };

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
    mine::spoil_behind<Threads>(to, 2 + 2 * values.count);
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
static_assert(tuck::encodes_strips<mine::halved>);
