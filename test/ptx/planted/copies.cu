// Pieces of some bytes, each fetched by block_copy while the one before is summed up. Fails if a sum is wrong, or the
// engine reports something; it includes little, because each fault compiles it.
#include <tuck/core/block_copy.cuh>

#include <cudasim.hpp>

#include <cstdio>
#include <vector>

namespace {

constexpr uint32_t threads = 64, pieces = 5, largest = 1024;

__global__ void __launch_bounds__(threads) sum_kernel(const std::byte* in, uint32_t size, uint32_t* out) {
  using room = tuck::device::vec128[largest / 16 + 2];
  using two_rooms = room[2];
  TUCK_SHARED(two_rooms, rooms);
  TUCK_SHARED(tuck::device::block_copy<threads>::TempStorage, temp);
  tuck::device::block_copy<threads> copy(temp);
  const auto begin = [&](uint32_t k) {
    return copy.begin(reinterpret_cast<std::byte*>(rooms[k % 2]), in + k * size, size);
  };
  std::byte* next = begin(0);
  uint32_t sum = 0;
  for (uint32_t k = 0; k < pieces; ++k) {
    copy.wait();
    std::byte* const bytes = next;
    if (k + 1 < pieces) next = begin(k + 1);
    for (uint32_t i = threadIdx.x; i < size; i += threads) sum += static_cast<uint32_t>(bytes[i]) * (i + k + 1);
    tuck::device::sync_block();
    for (uint32_t i = threadIdx.x; i < size; i += threads) bytes[i] = std::byte{1};
  }
  tuck::device::store(out + threadIdx.x, sum);
}

bool sums_are_right(uint32_t size) {
  std::vector<std::byte> all(size * pieces);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  std::byte* in = nullptr;
  uint32_t* out = nullptr;
  uint32_t got[threads];
  cudaMalloc(&in, all.size());
  cudaMalloc(&out, sizeof got);
  cudaMemcpy(in, all.data(), all.size(), cudaMemcpyDefault);
  sum_kernel<<<2, threads>>>(in, size, out);
  if (cudaMemcpy(got, out, sizeof got, cudaMemcpyDefault) != cudaSuccess) return false;
  for (uint32_t t = 0; t < threads; ++t) {
    for (uint32_t k = 0; k < pieces; ++k)
      for (uint32_t i = t; i < size; i += threads) got[t] -= static_cast<uint32_t>(all[k * size + i]) * (i + k + 1);
    if (got[t] != 0) return false;
  }
  return true;
}

}  // namespace

int main() {
  for (const uint32_t size : {512u, 1000u, 31u})
    if (!sums_are_right(size)) return std::puts("[  FAILED  ] sums"), 1;
}
