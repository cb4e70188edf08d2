// Copies between global memory, shared memory and the registers of a tile, by a whole block.
#pragma once

#include <tuck/codec/block.cuh>

namespace tuck::inline TUCK_ABI {

// copy_to_shared and copy_from_shared copy up to tile_bytes, 16 bytes at a time, between addresses that are multiples
// of 16. No function here has a barrier.

/// Copies to shared memory. Also accesses the bytes after the last one, up to a multiple of 16.
template <int Threads> __device__ void copy_to_shared(std::byte* to, const_bytes from) {
  const auto size = static_cast<uint32_t>(from.size());
  const auto* const source = reinterpret_cast<const device::vec128*>(from.data());
#pragma unroll 1
  for (uint32_t i = threadIdx.x; 16 * i < size; i += Threads)
    reinterpret_cast<device::vec128*>(to)[i] = device::load(source + i);
}
/// Copies `size` bytes, rounded up to a multiple of 16, then writes zeros up to to.size(), which is a multiple of 16.
template <int Threads> __device__ void copy_from_shared(bytes to, const std::byte* from, uint32_t size) {
  const auto capacity = static_cast<uint32_t>(to.size());
  auto* const target = reinterpret_cast<device::vec128*>(to.data());
#pragma unroll 1
  for (uint32_t i = threadIdx.x; 16 * i < capacity; i += Threads)
    device::store(target + i, 16 * i < size ? reinterpret_cast<const device::vec128*>(from)[i] : device::vec128{});
}
/// Copies any size between any addresses, 16 bytes at a time at the multiples of 16 of `to`.
template <int Threads> __device__ void copy_to_frame(bytes to, const std::byte* from) {
  constexpr uint32_t each = sizeof(device::vec128);
  const auto size = static_cast<uint32_t>(to.size());
  uint32_t head = static_cast<uint32_t>(-reinterpret_cast<uintptr_t>(to.data()) % each);
  if (head > size) head = size;
  const uint32_t vectors = (size - head) / each, tail = head + vectors * each;
  if (threadIdx.x < head) device::store(to.data() + threadIdx.x, from[threadIdx.x]);
  if (threadIdx.x < size - tail) device::store(to.data() + tail + threadIdx.x, from[tail + threadIdx.x]);
  const uint32_t skipped = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from + head) % 4);
  const auto* words = reinterpret_cast<const uint32_t*>(from + head - skipped) + 4 * threadIdx.x;
  auto* target = reinterpret_cast<device::vec128*>(to.data() + head) + threadIdx.x;
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < vectors; i += Threads, words += 4 * Threads, target += Threads) {
    device::vec128 x{{words[0], words[1], words[2], words[3]}};
    if (skipped != 0) {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        x.w[k] = device::funnel_shift_right(x.w[k], k < 3 ? x.w[k + 1] : words[4], 8 * skipped);
    }
    device::store(target, x);
  }
}
/// Sets tile_bytes bytes to zero.
template <int Threads> __device__ void zero_shared(std::byte* to) {
#pragma unroll
  for (uint32_t i = 0; i < tile_bytes / sizeof(device::vec128); i += Threads)
    reinterpret_cast<device::vec128*>(to)[i + threadIdx.x] = {};
}

/// Copies a tile to the beginning of a row in shared memory, which is a multiple of 16. Writes `size` bytes, rounded up
/// to a multiple of 16.
template <class Tile> __device__ void store_to_row(const Tile& values, uint32_t size, std::byte* row) {
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    const uint32_t at = Tile::first_value(r * Tile::row_words) / Tile::lane_values;
    if (at * sizeof(device::vec128) < size) reinterpret_cast<device::vec128*>(row)[at] = values.row(r);
  }
}
/// Reads the 16 bytes of a row that begin at value `first`, with zeros past the last value.
template <class Tile> __device__ device::vec128 read_row(uint32_t first, uint32_t count, const std::byte* row) {
  const uint32_t at = first / Tile::lane_values, words = (count * (16 / Tile::lane_values) + 3) / 4;
  if (first + Tile::lane_values <= count) return reinterpret_cast<const device::vec128*>(row)[at];
  device::vec128 x{};
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k)
    if (4 * at + k < words) x.w[k] = reinterpret_cast<const uint32_t*>(row)[4 * at + k];
  return Tile::clip(x, first < count ? count - first : 0);
}

}  // namespace tuck::inline TUCK_ABI
