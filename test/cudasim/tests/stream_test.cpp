// Streams, events and launches: order, copies of arguments, what is refused.
#include "support.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace sim_test {
namespace {

__global__ void write_value(unsigned* p, unsigned v) { *p = v; }
__global__ void times_ten_plus(unsigned* p, unsigned v) { *p = *p * 10 + v; }
__global__ void empty() {}
__global__ void wait_for_host(const unsigned* flag) {
  while (dev::load_acquire(flag) == 0) dev::backoff(100);
}
struct large {
  unsigned v[100];
};
__global__ void take_struct(const __grid_constant__ large s, unsigned* out) { *out = s.v[99]; }

class streams : public testing::Test {
 protected:
  void SetUp() override {
    cudasim::reset();
    use_seed(3);
  }
};

TEST_F(streams, run_in_order) {
  buffer<unsigned> p(1), copy(1);
  stream s;
  for (unsigned v : {1u, 2u, 3u}) ASSERT_EQ(start(s, 1, 1, times_ten_plus, p.get(), v), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(copy.get(), p.get(), 4, cudaMemcpyDefault, s), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(p.get(), 0, 4, s), cudaSuccess);
  s.wait();
  EXPECT_EQ(copy[0], 123u);
  EXPECT_EQ(p[0], 0u);
}

TEST_F(streams, events_order_them) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    use_seed(seed);
    buffer<unsigned> p(1);
    stream a, b;
    event first, second;
    start(a, 1, 1, times_ten_plus, p.get(), 1u);
    require(cudaEventRecord(first, a));
    require(cudaStreamWaitEvent(b, first));
    start(b, 1, 1, times_ten_plus, p.get(), 2u);
    require(cudaEventRecord(second, b));
    require(cudaStreamWaitEvent(a, second, 0));
    start(a, 1, 1, times_ten_plus, p.get(), 3u);
    a.wait();
    EXPECT_EQ(p[0], 123u);
  }
}

// Which of two unordered streams comes first depends on the seed.
TEST_F(streams, delays_reorder_them) {
  int first[2] = {0, 0};
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    use_seed(seed);
    static std::atomic<int> winner;
    winner = 0;
    stream a, b;
    const auto claim = [](void* who) {
      int nobody = 0;
      winner.compare_exchange_strong(nobody, static_cast<int>(reinterpret_cast<std::intptr_t>(who)));
    };
    for (int i = 0; i < 4; ++i) start(a, 1, 1, empty), start(b, 1, 1, empty);
    require(cudaLaunchHostFunc(a, claim, reinterpret_cast<void*>(1)));
    require(cudaLaunchHostFunc(b, claim, reinterpret_cast<void*>(2)));
    a.wait();
    b.wait();
    ++first[winner - 1];
  }
  EXPECT_GT(first[0], 0);
  EXPECT_GT(first[1], 0);
}

TEST_F(streams, are_asynchronous) {
  buffer<unsigned> flag(1);
  stream s;
  event e, never;
  require(start(s, 1, 1, wait_for_host, flag.get()));
  require(cudaEventRecord(e, s));
  EXPECT_EQ(cudaStreamQuery(s), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(e), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(never), cudaSuccess);
  std::atomic_ref<unsigned>(flag[0]).store(1, std::memory_order_release);
  EXPECT_EQ(cudaEventSynchronize(e), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(e), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(s), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(s), cudaSuccess);
}

TEST_F(streams, events_tell_the_time) {
  stream s;
  event a, b;
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, a, b), cudaErrorInvalidResourceHandle);
  require(cudaEventRecord(a, s));
  require(cudaLaunchHostFunc(s, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, nullptr));
  require(cudaEventRecord(b, s));
  require(cudaEventSynchronize(b));
  EXPECT_EQ(cudaEventElapsedTime(&ms, a, b), cudaSuccess);
  EXPECT_GE(ms, 5.0f);
}

// As CUDA may run them: who waits in one for what is behind another waits for ever.
TEST_F(streams, run_host_functions_one_at_a_time) {
  static std::atomic<int> running, most;
  running = most = 0;
  const auto count = [](void*) {
    const int now = ++running;
    if (now > most) most = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --running;
  };
  stream several[3];
  for (int i = 0; i < 3; ++i)
    for (stream& s : several) require(cudaLaunchHostFunc(s, count, nullptr));
  for (stream& s : several) s.wait();
  EXPECT_EQ(most, 1);
}

TEST_F(streams, destroyed_ones_finish_their_work) {
  buffer<unsigned> p(1);
  {
    stream s;
    start(s, 1, 1, write_value, p.get(), 9u);
  }
  cudasim::reset();  // waits for destroyed streams too
  EXPECT_EQ(p[0], 9u);
}

constexpr auto slow = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); };

TEST_F(streams, the_legacy_stream_and_blocking_ones_wait_for_each_other) {
  buffer<unsigned> p(1), seen(2);
  stream s(cudaStreamDefault);
  for (const cudaStream_t legacy : {cudaStream_t{nullptr}, cudaStreamLegacy})
    for (const cudaStream_t blocking : {cudaStream_t{s}, cudaStreamPerThread}) {
      require(cudaLaunchHostFunc(blocking, slow, nullptr));
      require(start(blocking, 1, 1, write_value, p.get(), 1u));
      require(cudaMemcpyAsync(seen.get(), p.get(), sizeof(unsigned), cudaMemcpyDefault, legacy));
      require(cudaLaunchHostFunc(legacy, slow, nullptr));
      require(start(legacy, 1, 1, write_value, p.get(), 2u));
      require(cudaMemcpyAsync(seen.get() + 1, p.get(), sizeof(unsigned), cudaMemcpyDefault, blocking));
      require(cudaStreamSynchronize(blocking));
      EXPECT_EQ(seen[0], 1u);
      EXPECT_EQ(seen[1], 2u);
    }
}

TEST_F(streams, non_blocking_ones_do_not_wait_for_the_legacy_stream) {
  buffer<unsigned> p(1), flag(1);
  cudaStream_t own = nullptr;
  require(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
  require(start(nullptr, 1, 1, wait_for_host, flag.get()));
  require(start(own, 1, 1, write_value, p.get(), 1u));
  require(cudaStreamSynchronize(own));  // while the other one waits
  EXPECT_EQ(p[0], 1u);
  std::atomic_ref<unsigned>(flag[0]).store(1, std::memory_order_release);
  require(cudaStreamSynchronize(nullptr));
  require(cudaStreamDestroy(own));
}

TEST_F(streams, threads_have_default_streams_of_their_own) {
  buffer<unsigned> p(2), flag(1);
  require(start(cudaStreamPerThread, 1, 1, wait_for_host, flag.get()));
  std::thread([&] {
    require(start(cudaStreamPerThread, 1, 1, write_value, p.get(), 7u));
    require(cudaStreamSynchronize(cudaStreamPerThread));
    EXPECT_EQ(p[0], 7u);
  }).join();
  EXPECT_EQ(cudaStreamQuery(cudaStreamPerThread), cudaErrorNotReady);
  std::atomic_ref<unsigned>(flag[0]).store(1, std::memory_order_release);
  require(cudaStreamSynchronize(cudaStreamPerThread));
}

TEST_F(streams, default_ones_are_not_captured_nor_destroyed) {
  stream s(cudaStreamDefault);
  buffer<unsigned> p(1);
  for (const cudaStream_t name : {cudaStream_t{nullptr}, cudaStreamLegacy, cudaStreamPerThread})
    EXPECT_EQ(cudaStreamDestroy(name), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
  require(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(start(nullptr, 1, 1, write_value, p.get(), 1u), cudaErrorStreamCaptureImplicit);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
}

__global__ void launched_once() {}

TEST_F(streams, allocations_and_first_launches_wait_for_host_functions) {
  std::atomic<bool> open{false};
  std::atomic<int> begun{0};
  std::atomic<int> done{0};
  stream closed, other;
  require(cudaLaunchHostFunc(closed, [](void* p) { static_cast<std::atomic<bool>*>(p)->wait(false); }, &open));
  std::vector<std::jthread> threads;
  const auto begin = [&](auto call) {
    threads.emplace_back([&begun, &done, call] {
      ++begun;
      call();
      ++done;
    });
  };
  begin([&] { require(start(other, 1, 1, launched_once)); });
  begin([] { buffer<unsigned> pinned(1); });
  begin([] {
    void* p = nullptr;
    require(cudaMalloc(&p, 4));
    require(cudaFree(p));
  });
  while (begun != 3) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(done, 0);
  open = true;
  open.notify_all();
}

TEST_F(streams, destroyed_ones_end_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  cudaStream_t gone = nullptr;
  const auto use = [&] {
    require(cudaStreamCreate(&gone));
    require(cudaStreamDestroy(gone));
    static_cast<void>(cudaFreeAsync(nullptr, gone));
  };
  EXPECT_DEATH(use(), "a stream is used that has been destroyed");
}

TEST_F(streams, launches_copy_arguments) {
  buffer<unsigned> out(1), flag(1);
  stream s;
  start(s, 1, 1, wait_for_host, flag.get());
  large argument{};
  argument.v[99] = 5;
  start(s, 1, 1, take_struct, argument, out.get());
  argument.v[99] = 6;
  std::atomic_ref<unsigned>(flag[0]).store(1, std::memory_order_release);
  s.wait();
  EXPECT_EQ(out[0], 5u);
}

TEST_F(streams, launch_configurations_are_checked) {
  stream s;
  const auto launch = [&](unsigned grid, unsigned block, std::size_t dynamic) {
    const cudaLaunchConfig_t c = config(s, grid, block, dynamic);
    return cudaLaunchKernelEx(&c, empty);
  };
  EXPECT_EQ(launch(0, 32, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 0, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 1025, 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(1, 1024, 48 << 10), cudaSuccess);
  EXPECT_EQ(launch(1, 32, (48 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(empty, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(empty, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10), cudaSuccess);
  EXPECT_EQ(launch(1, 32, 227 << 10), cudaSuccess);
  int blocks = 0;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, empty, 256, 0), cudaSuccess);
  EXPECT_EQ(blocks, 8);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  s.wait();
}

TEST_F(streams, belong_to_their_device) {
  cudasim::settings options;
  options.devices = 3;
  cudasim::configure(options);
  int n = 0, d = -1;
  require(cudaGetDeviceCount(&n));
  EXPECT_EQ(n, 3);
  EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
  require(cudaSetDevice(1));
  stream s;
  std::thread([] {
    int other = -1;
    require(cudaGetDevice(&other));  // of this thread
    EXPECT_EQ(other, 0);
  }).join();
  void* p = nullptr;
  require(cudaMalloc(&p, 8));
  cudaPointerAttributes a;
  require(cudaPointerGetAttributes(&a, p));
  EXPECT_EQ(a.device, 1);
  EXPECT_EQ(a.type, cudaMemoryTypeDevice);
  EXPECT_EQ(start(s, 1, 1, empty), cudaSuccess);
  require(cudaSetDevice(0));
  EXPECT_EQ(start(s, 1, 1, empty), cudaErrorInvalidResourceHandle);
  require(cudaFree(p));
  require(cudaGetDevice(&d));
  EXPECT_EQ(d, 0);
  int sms = 0, shared = 0;
  require(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 2));
  require(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  EXPECT_EQ(sms, 8);
  EXPECT_EQ(shared, 227 << 10);
}

}  // namespace
}  // namespace sim_test
