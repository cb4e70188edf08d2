// Intrinsics against plain loops, warp operations against their definition.
#include "support.hpp"

#include <gtest/gtest.h>

namespace sim_test {
namespace {

TEST(intrinsics, bits) {
  EXPECT_EQ(__popc(0xf0f0u), 8);
  EXPECT_EQ(__popcll(~0ull), 64);
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffs(8), 4);
  EXPECT_EQ(__ffsll(1ll << 40), 41);
  EXPECT_EQ(__clz(0), 32);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__clzll(1), 63);
  EXPECT_EQ(__brev(1u), 0x80000000u);
  EXPECT_EQ(__popcll(std::uint64_t{3} << 33), 2);
  EXPECT_EQ(__ffsll(0), 0);
  EXPECT_EQ(__clz(0xffff), 16);
}

TEST(intrinsics, bytes_and_shifts) {
  EXPECT_EQ(__byte_perm(0x33221100u, 0x77665544u, 0x7531u), 0x77553311u);
  EXPECT_EQ(dev::byte_perm(0x33221100u, 0x77665544u, 0x7531u), 0x77553311u);
  EXPECT_EQ(__byte_perm(0x00000080u, 0u, 0x4848u), 0x00ff00ffu);
  for (unsigned s = 0; s < 32; ++s) {
    const std::uint64_t v = 0x0123456789abcdefull;
    const auto low = static_cast<unsigned>(v), high = static_cast<unsigned>(v >> 32);
    EXPECT_EQ(__funnelshift_r(low, high, s), static_cast<unsigned>(v >> s));
    EXPECT_EQ(__funnelshift_l(low, high, s), static_cast<unsigned>(v << s >> 32));
    EXPECT_EQ(dev::funnel_shift_right(low, high, s + 32), static_cast<unsigned>(v >> s));
  }
  EXPECT_EQ(__umulhi(0x80000000u, 6u), 3u);
}

TEST(intrinsics, floats) {
  EXPECT_EQ(__float_as_uint(1.0f), 0x3f800000u);
  EXPECT_EQ(__uint_as_float(0x40000000u), 2.0f);
}

struct warp_results {
  unsigned up[32], down[32], exchange[32], segment[32], sum[32], low[32], ballot[32], scan[32];
  double wide[32];
  bool any, all;
};

__global__ void warp_operations(warp_results* r) {
  const unsigned lane = dev::lane_id();
  r->up[lane] = dev::shfl_up(lane, 3);
  r->down[lane] = dev::shfl_down(lane, 3);
  r->exchange[lane] = dev::shfl_xor(lane, 5);
  r->segment[lane] = __shfl_sync(dev::full_mask, lane, 1, 8);
  r->wide[lane] = dev::shfl(lane + 0.5, 31);
  r->sum[lane] = dev::warp_sum(lane);
  r->low[lane] = dev::warp_min(lane + 4);
  r->ballot[lane] = dev::ballot(lane % 3 == 0);
  r->scan[lane] = dev::warp_inclusive_sum(lane);
  const bool any = dev::any(lane == 31), all = dev::all(lane < 31);
  if (lane == 0) r->any = any, r->all = all;
}

TEST(intrinsics, warps) {
  buffer<warp_results> r(1);
  ASSERT_EQ(run(1, 32, warp_operations, r.get()), cudaSuccess);
  for (unsigned l = 0; l < 32; ++l) {
    EXPECT_EQ(r[0].up[l], l < 3 ? l : l - 3);
    EXPECT_EQ(r[0].down[l], l < 29 ? l + 3 : l);
    EXPECT_EQ(r[0].exchange[l], l ^ 5);
    EXPECT_EQ(r[0].segment[l], l / 8 * 8 + 1);
    EXPECT_EQ(r[0].wide[l], 31.5);
    EXPECT_EQ(r[0].sum[l], 496u);
    EXPECT_EQ(r[0].low[l], 4u);
    EXPECT_EQ(r[0].ballot[l], 0x49249249u);
    EXPECT_EQ(r[0].scan[l], l * (l + 1) / 2);
  }
  EXPECT_TRUE(r[0].any);
  EXPECT_FALSE(r[0].all);
}

__global__ void votes(int* out) {
  const int some = __syncthreads_or(threadIdx.x == 70), none = __syncthreads_or(threadIdx.x > 95);
  if (threadIdx.x == 5) out[0] = some, out[1] = none;
}

__global__ void coordinates(uint3* thread, dim3* block) {
  const unsigned i = ((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * 24 +
                     (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  __syncthreads();
  thread[i] = threadIdx;
  block[i] = blockIdx;
}

TEST(intrinsics, blocks) {
  buffer<int> out(2);
  ASSERT_EQ(run(1, 96, votes, out.get()), cudaSuccess);
  EXPECT_NE(out[0], 0);
  EXPECT_EQ(out[1], 0);

  buffer<uint3> thread(24 * 24);
  buffer<dim3> block(24 * 24);
  stream s;
  cudaLaunchConfig_t c = config(s, 0, 0);
  c.gridDim = c.blockDim = dim3(2, 3, 4);
  ASSERT_EQ(cudaLaunchKernelEx(&c, coordinates, thread.get(), block.get()), cudaSuccess);
  s.wait();
  for (unsigned i = 0; i < 24 * 24; ++i) {
    EXPECT_EQ(thread[i].x + 2 * (thread[i].y + 3 * thread[i].z), i % 24);
    EXPECT_EQ(block[i].x + 2 * (block[i].y + 3 * block[i].z), i / 24);
  }
}

__global__ void sums(float* f, double* d) {
  atomicAdd(&f[0], 0.5f);
  atomicAdd(d, static_cast<double>(threadIdx.x));
  const float old = atomicAdd(&f[1], 1.0f);
  atomicAdd(&f[2], old);
}

TEST(intrinsics, atomic_sums_of_floats) {
  buffer<float> f(3);
  buffer<double> d(1);
  f[0] = -2;
  ASSERT_EQ(run(2, 64, sums, f.get(), d.get()), cudaSuccess);
  EXPECT_EQ(f[0], 62.0f);
  EXPECT_EQ(f[1], 128.0f);
  EXPECT_EQ(f[2], 127.0f * 64);  // each thread sees another one
  EXPECT_EQ(d[0], 63.0 * 64);
}

__global__ void atomics(unsigned* w, int* i, unsigned long long* l) {
  atomicAdd(&w[0], 1u);
  atomicMax(&w[1], threadIdx.x);
  atomicMin(i, 5 - static_cast<int>(threadIdx.x));
  atomicOr(&w[2], 1u << (threadIdx.x & 31));
  atomicAnd(&w[3], ~(1u << (threadIdx.x & 31)));
  atomicAdd(l, 1ull << 33);
  dev::atomic_max(reinterpret_cast<std::uint64_t*>(l) + 1, std::uint64_t{threadIdx.x});
  unsigned seen = w[4] * 0;
  while (true) {  // a fetch-and-double
    const unsigned next = seen == 0 ? 1 : seen;
    const unsigned old = atomicCAS(&w[5], seen, next + 1);
    if (old == seen) break;
    seen = old;
  }
}

TEST(intrinsics, atomics) {
  buffer<unsigned> w(6);
  buffer<int> i(1);
  buffer<unsigned long long> l(2);
  w[3] = ~0u;
  ASSERT_EQ(run(1, 64, atomics, w.get(), i.get(), l.get()), cudaSuccess);
  EXPECT_EQ(w[0], 64u);
  EXPECT_EQ(w[1], 63u);
  EXPECT_EQ(i[0], -58);
  EXPECT_EQ(w[2], ~0u);
  EXPECT_EQ(w[3], 0u);
  EXPECT_EQ(l[0], 64ull << 33);
  EXPECT_EQ(l[1], 63u);
  EXPECT_EQ(w[5], 65u);
}

}  // namespace
}  // namespace sim_test
