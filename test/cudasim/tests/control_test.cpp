// Memory, fault injection, counters and traffic: what tests of the library measure with.
#include "support.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace sim_test {
namespace {

__global__ void copy_words(const unsigned* in, unsigned* out, unsigned stride) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  dev::store(out + i, dev::load(in + i * stride));
}
// The lower half of a warp loads once more than the rest, then all load what begins within a sector.
__global__ void copy_words_after_some(const unsigned* in, unsigned* out, bool block_wide) {
  const unsigned lane = threadIdx.x;
  for (unsigned r = 0; r < 2; ++r) {
    if (r == 1 || lane < 16) dev::store(out + 32 * r + lane, dev::load(in + 36 * r + lane));
    block_wide ? dev::sync_block() : dev::sync_warp();
  }
}
__global__ void copy_vectors(const dev::vec128* in, dev::vec128* out, unsigned rounds) {
  for (unsigned r = 0; r < rounds; ++r) dev::store(out + r * blockDim.x + threadIdx.x, dev::load(in + threadIdx.x));
}
__global__ void talk(unsigned* p) {
  TUCK_SHARED(unsigned, own);
  dev::atomic_add(p, 1u);
  if (threadIdx.x % 2 == 0) dev::atomic_or(&own, 1u);
  dev::sync_block();
  dev::load_acquire(p);
}

class control : public testing::Test {
 protected:
  void SetUp() override {
    cudasim::reset();
    use_seed(7);
  }
  void TearDown() override {
    cudasim::reset();
    use_seed(7);
  }
};

TEST_F(control, memory_is_poisoned) {
  cudasim::settings options;
  options.poison = 0x5a;
  cudasim::configure(options);
  stream s;
  buffer<unsigned> out(1);
  unsigned *p = nullptr, *q = nullptr;
  require(cudaMalloc(&p, 4));
  require(cudaMallocAsync(&q, 4, s));
  require(cudaMemcpy(out.get(), p, 4, cudaMemcpyDeviceToHost));
  EXPECT_EQ(out[0], 0x5a5a5a5au);
  require(cudaMemcpyAsync(out.get(), q, 4, cudaMemcpyDeviceToHost, s));
  s.wait();
  EXPECT_EQ(out[0], 0x5a5a5a5au);
  require(cudaFreeAsync(q, s));
  require(cudaFree(p));
  EXPECT_EQ(cudaFree(p), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeAsync(q, s), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

TEST_F(control, copies_are_checked) {
  stream s;
  std::vector<unsigned> host(8);
  unsigned* p = nullptr;
  require(cudaMalloc(&p, 16));
  EXPECT_EQ(cudaMemcpyAsync(p, host.data(), 20, cudaMemcpyDefault, s), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host.data(), p, 16, cudaMemcpyHostToDevice, s), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(p + 2, 0, 12, s), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(host.data(), 0, 4, s), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(p, host.data(), 16, cudaMemcpyHostToDevice, s), cudaSuccess);
  cudaPointerAttributes a;
  require(cudaPointerGetAttributes(&a, host.data()));
  EXPECT_EQ(a.type, cudaMemoryTypeUnregistered);
  void* q = nullptr;
  EXPECT_EQ(cudaMalloc(&q, std::size_t{1} << 50), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  require(cudaFree(p));
}

TEST_F(control, allocations_are_counted) {
  const std::size_t n = cudasim::live_allocations();
  void *p = nullptr, *q = nullptr;
  require(cudaMalloc(&p, 100));
  require(cudaMallocHost(&q, 50));
  void* d = nullptr;
  require(cudaHostGetDevicePointer(&d, q, 0));
  EXPECT_EQ(d, q);
  EXPECT_EQ(cudasim::live_allocations(), n + 2);
  require(cudaFree(p));
  require(cudaFreeHost(q));
  EXPECT_EQ(cudasim::live_allocations(), n);
}

TEST_F(control, faults_are_injected_once) {
  buffer<unsigned> m(1, 1u);
  stream s;
  cudasim::fail_call(2, cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMemsetAsync(m.get(), 0, 4, s), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(m.get(), 0xff, 4, s), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaStreamSynchronize(s), cudaSuccess);
  EXPECT_EQ(m[0], 0u);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);

  // The usual loop: fail each call in turn until none is left to fail.
  const auto work = [&] {
    void* p = nullptr;
    if (cudaMallocAsync(&p, 64, s) != cudaSuccess) return false;
    const bool ok = cudaMemsetAsync(p, 0, 64, s) == cudaSuccess;
    const bool freed = cudaFreeAsync(p, s) == cudaSuccess;
    if (!freed) cudaFreeAsync(p, s);
    return ok && freed && cudaStreamSynchronize(s) == cudaSuccess;
  };
  const std::size_t before = cudasim::live_allocations();
  std::uint64_t k = 1;
  for (;; ++k) {
    cudasim::fail_call(k, cudaErrorUnknown);
    if (work()) break;
    EXPECT_EQ(cudasim::live_allocations(), before);
  }
  cudasim::fail_call(0, cudaSuccess);
  EXPECT_EQ(k, 5u);
}

TEST_F(control, calls_are_counted) {
  buffer<unsigned> m(1);
  stream s;
  cudasim::clear_counters();
  require(start(s, 2, 64, talk, m.get()));
  require(cudaMemcpyAsync(m.get(), m.get(), 4, cudaMemcpyDefault, s));
  require(cudaMemsetAsync(m.get(), 0, 4, s));
  s.wait();
  static_cast<void>(cudaGetLastError());
  const cudasim::counters c = cudasim::snapshot();
  EXPECT_EQ(c.calls, 4u);
  EXPECT_EQ(c.launches, 1u);
  EXPECT_EQ(c.memcpys, 1u);
  EXPECT_EQ(c.memsets, 1u);
  EXPECT_EQ(c.synchronisations, 1u);
  EXPECT_EQ(c.get_last_error, 1u);
  EXPECT_EQ(c.allocations + c.frees, 0u);
  EXPECT_EQ(c.atomics, 128u);
  EXPECT_EQ(c.shared_atomics, 64u);
  EXPECT_EQ(c.barriers, 128u);
  EXPECT_EQ(c.polls, 128u);
}

TEST_F(control, seeds_repeat) {
  const auto trace = [](std::uint64_t seed) {
    cudasim::settings options;
    options.seed = seed;
    options.workers = 1;
    cudasim::configure(options);
    static std::vector<unsigned> order;
    order.clear();
    struct local {
      static void note() {
        if (threadIdx.x == 0) order.push_back(blockIdx.x);
        __syncthreads();
        order.push_back(threadIdx.x);
      }
    };
    EXPECT_EQ(run(40, 48, &local::note), cudaSuccess);
    return order;
  };
  if (with_tsan) GTEST_SKIP() << "the trace is a race, if a harmless one";
  EXPECT_EQ(trace(1), trace(1));
  EXPECT_NE(trace(1), trace(2));
}

class traffic : public control {
 protected:
  void SetUp() override {
    cudasim::reset();
    cudasim::settings options;
    options.count_traffic = true;
    cudasim::configure(options);
  }
  static std::uint64_t sectors_read() { return cudasim::snapshot().other_sectors_read; }
  buffer<unsigned> in{4096}, out{4096};
};

TEST_F(traffic, coalesced) {
  cudasim::tag_tensor(in.get(), 4096 * 4);
  ASSERT_EQ(run(8, 128, copy_words, in.get(), out.get(), 1u), cudaSuccess);
  const auto c = cudasim::snapshot();
  EXPECT_EQ(c.tensor_bytes_read, 4096u);
  EXPECT_EQ(c.tensor_sectors_read, 128u);
  EXPECT_EQ(c.tensor_bytes_written, 0u);
  EXPECT_EQ(c.other_bytes_written, 4096u);
  EXPECT_EQ(c.other_sectors_written, 128u);
  cudasim::untag(in.get());
  cudasim::clear_counters();
  ASSERT_EQ(run(1, 32, copy_words, in.get(), out.get(), 1u), cudaSuccess);
  EXPECT_EQ(cudasim::snapshot().tensor_bytes_read, 0u);
  EXPECT_EQ(cudasim::snapshot().other_bytes_read, 128u);
}

TEST_F(traffic, strided) {
  ASSERT_EQ(run(1, 128, copy_words, in.get(), out.get(), 8u), cudaSuccess);
  EXPECT_EQ(sectors_read(), 128u);
}

TEST_F(traffic, misaligned_by_a_word) {
  ASSERT_EQ(run(1, 32, copy_words, in.get() + 1, out.get(), 1u), cudaSuccess);
  EXPECT_EQ(sectors_read(), 5u);
}

TEST_F(traffic, lanes_that_met_are_counted_together) {
  for (const bool block_wide : {false, true}) {
    cudasim::clear_counters();
    ASSERT_EQ(run(1, 32, copy_words_after_some, in.get(), out.get(), block_wide), cudaSuccess);
    EXPECT_EQ(sectors_read(), 2u + 5u);
  }
}

TEST_F(traffic, vectors_in_a_loop) {
  ASSERT_EQ(
      run(1, 64, copy_vectors, reinterpret_cast<dev::vec128*>(in.get()), reinterpret_cast<dev::vec128*>(out.get()), 8u),
      cudaSuccess);
  EXPECT_EQ(sectors_read(), 8u * 64 * 16 / 32);
}

}  // namespace
}  // namespace sim_test
