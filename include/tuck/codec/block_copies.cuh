// Between global and shared memory, by a whole block.
#pragma once

#include <tuck/codec/block.cuh>

namespace tuck::inline TUCK_ABI {

// Copies of up to tile_bytes between global memory of any alignment and 16-byte-aligned shared memory, by the whole
// block: 16 bytes at a time where the global side allows. No barrier inside.
template <int Threads> __device__ void copy_to_shared(std::byte* to, const_bytes from) {
  const auto size = static_cast<uint32_t>(from.size());
  uint32_t done = 0;
  if (reinterpret_cast<uintptr_t>(from.data()) % sizeof(device::vec128) == 0) {
    const auto* source = reinterpret_cast<const device::vec128*>(from.data());
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < size / 16; i += Threads)
      reinterpret_cast<device::vec128*>(to)[i] = device::load(source + i);
    done = size / 16 * 16;
  }
#pragma unroll 1
  for (uint32_t i = done + threadIdx.x; i < size; i += Threads) to[i] = device::load(from.data() + i);
}
template <int Threads> __device__ void zero_shared(std::byte* to) {  // tile_bytes
#pragma unroll
  for (uint32_t i = 0; i < tile_bytes / sizeof(device::vec128); i += Threads)
    reinterpret_cast<device::vec128*>(to)[i + threadIdx.x] = {};
}
template <int Threads> __device__ void copy_from_shared(bytes to, const std::byte* from) {
  const auto size = static_cast<uint32_t>(to.size());
  uint32_t done = 0;
  if (reinterpret_cast<uintptr_t>(to.data()) % sizeof(device::vec128) == 0) {
    auto* target = reinterpret_cast<device::vec128*>(to.data());
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < size / 16; i += Threads)
      device::store(target + i, reinterpret_cast<const device::vec128*>(from)[i]);
    done = size / 16 * 16;
  }
#pragma unroll 1
  for (uint32_t i = done + threadIdx.x; i < size; i += Threads) device::store(to.data() + i, from[i]);
}

}  // namespace tuck::inline TUCK_ABI
