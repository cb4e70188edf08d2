// Correct kernels give the right result under every seed, and nothing complains.
#include "support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace sim_test {
namespace {

constexpr unsigned threads = 64, blocks = 20, n = threads * blocks;

// Single-pass inclusive scan. A block's state word: flag in bits 62-63 (1 own sum, 2 sum up to here).
__global__ void __launch_bounds__(threads)
    look_back_scan(const unsigned* in, unsigned* out, std::uint64_t* state, unsigned* ticket) {
  using scan = dev::block_scan<threads>;
  TUCK_SHARED(scan::TempStorage, temp);
  TUCK_SHARED(unsigned, tile);
  TUCK_SHARED(unsigned, before);
  if (threadIdx.x == 0) tile = dev::atomic_add(ticket, 1u);
  dev::sync_block();
  const unsigned mine = tile, i = mine * threads + threadIdx.x;
  const unsigned value = dev::load(in + i);
  unsigned total = 0;
  const unsigned prefix = scan::exclusive_sum(temp, value, total);
  if (dev::warp_id() == 0) {
    constexpr std::uint64_t own = std::uint64_t{1} << 62, all = std::uint64_t{2} << 62;
    if (dev::lane_id() == 0) dev::store_release(state + mine, (mine == 0 ? all : own) | total);
    unsigned sum = 0;
    for (int end = static_cast<int>(mine) - 1; end >= 0; end -= 32) {  // a window of 32 states, the nearest in lane 0
      const int j = end - static_cast<int>(dev::lane_id());
      std::uint64_t s = all;
      if (j >= 0)
        while ((s = dev::load_acquire(state + j)) == 0) dev::backoff(20);
      dev::sync_warp();
      const unsigned done = dev::ballot(s >> 62 == 2);
      const int last = done == 0 ? 31 : dev::ffs(done) - 1;
      sum += dev::warp_sum(static_cast<int>(dev::lane_id()) <= last ? static_cast<unsigned>(s) : 0u);
      if (done != 0) break;
    }
    if (dev::lane_id() == 0) {
      dev::store_release(state + mine, all | (sum + total));
      before = sum;
    }
  }
  dev::sync_block();
  dev::store(out + i, before + prefix + value);
}

// Reverses tiles through dynamic shared memory.
__global__ void reverse_tiles(const unsigned* in, unsigned* out) {
  auto* tile = reinterpret_cast<unsigned*>(cudasim::detail::dynamic_shared_memory());
  tile[threadIdx.x] = dev::load(in + blockIdx.x * blockDim.x + threadIdx.x);
  dev::sync_block();
  dev::store(out + blockIdx.x * blockDim.x + threadIdx.x, tile[blockDim.x - 1 - threadIdx.x]);
}

// A tree in shared memory with a warp barrier a level, two half warps apart.
__global__ void half_warp_sums(unsigned* out) {
  using words = unsigned[32];
  TUCK_SHARED(words, sums);
  const unsigned lane = dev::lane_id(), mask = lane < 16 ? 0xffffu : 0xffff0000u;
  sums[lane] = lane;
  for (unsigned step = 8; step > 0; step /= 2) {
    dev::sync_warp(mask);
    const unsigned other = sums[lane ^ step];
    dev::sync_warp(mask);
    sums[lane] += other;
  }
  out[lane] = sums[lane];
}

// The last block to finish adds up what all have written.
__global__ void last_block_sums(unsigned* parts, unsigned* counter, unsigned* out) {
  TUCK_SHARED(bool, last);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = blockIdx.x + 1;
    last = dev::atomic_add_acq_rel(counter, 1) == gridDim.x - 1;
  }
  dev::sync_block();
  if (!last || threadIdx.x != 0) return;
  unsigned sum = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) sum += parts[b];
  *out = sum;
}

class kernels : public testing::TestWithParam<std::uint64_t> {
 protected:
  void SetUp() override {
    cudasim::reset();
    use_seed(GetParam());
    for (unsigned i = 0; i < n; ++i) in[i] = (i * 2654435761u >> 20) % 5;
  }
  buffer<unsigned> in{n}, out{n};
};

TEST_P(kernels, scan) {
  buffer<std::uint64_t> state(blocks);
  buffer<unsigned> ticket(1);
  ASSERT_EQ(run(blocks, threads, look_back_scan, in.get(), out.get(), state.get(), ticket.get()), cudaSuccess);
  std::vector<unsigned> expected(n);
  std::inclusive_scan(in.begin(), in.end(), expected.begin());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), out.begin()));
}

TEST_P(kernels, dynamic_shared_memory) {
  stream s;
  const cudaLaunchConfig_t c = config(s, blocks, threads, threads * 4);
  ASSERT_EQ(cudaLaunchKernelEx(&c, reverse_tiles, in.get(), out.get()), cudaSuccess);
  s.wait();
  for (unsigned i = 0; i < n; ++i) ASSERT_EQ(out[i], in[i / threads * threads + threads - 1 - i % threads]);
}

TEST_P(kernels, partial_masks) {
  ASSERT_EQ(run(1, 32, half_warp_sums, out.get()), cudaSuccess);
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(out[i], i < 16 ? 120u : 376u);
}

TEST_P(kernels, last_block) {
  buffer<unsigned> parts(blocks), counter(1);
  ASSERT_EQ(run(blocks, threads, last_block_sums, parts.get(), counter.get(), out.get()), cudaSuccess);
  EXPECT_EQ(out[0], blocks * (blocks + 1) / 2);
}

INSTANTIATE_TEST_SUITE_P(seeds, kernels, testing::Range<std::uint64_t>(1, 17));

}  // namespace
}  // namespace sim_test
