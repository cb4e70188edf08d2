// Between global and shared memory, by a whole block.
#pragma once

#include <tuck/codec/block.cuh>

namespace tuck::inline TUCK_ABI {

// Copies of up to tile_bytes, 16 bytes at a time, between places that are multiples of 16. No barrier inside.

// What is behind the last byte, up to a multiple of 16, is read and written as well.
template <int Threads> __device__ void copy_to_shared(std::byte* to, const_bytes from) {
  const auto size = static_cast<uint32_t>(from.size());
  const auto* const source = reinterpret_cast<const device::vec128*>(from.data());
#pragma unroll 1
  for (uint32_t i = threadIdx.x; 16 * i < size; i += Threads)
    reinterpret_cast<device::vec128*>(to)[i] = device::load(source + i);
}
// `size` bytes, and those behind them up to a multiple of 16; then zeros up to to.size(), which is one.
template <int Threads> __device__ void copy_from_shared(bytes to, const std::byte* from, uint32_t size) {
  const auto room = static_cast<uint32_t>(to.size());
  auto* const target = reinterpret_cast<device::vec128*>(to.data());
#pragma unroll 1
  for (uint32_t i = threadIdx.x; 16 * i < room; i += Threads)
    device::store(target + i, 16 * i < size ? reinterpret_cast<const device::vec128*>(from)[i] : device::vec128{});
}
template <int Threads> __device__ void zero_shared(std::byte* to) {  // tile_bytes
#pragma unroll
  for (uint32_t i = 0; i < tile_bytes / sizeof(device::vec128); i += Threads)
    reinterpret_cast<device::vec128*>(to)[i + threadIdx.x] = {};
}

}  // namespace tuck::inline TUCK_ABI
