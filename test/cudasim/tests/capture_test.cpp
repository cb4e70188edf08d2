// Stream capture: what becomes a graph, and what capture refuses.
#include "support.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace sim_test {
namespace {

__global__ void times_ten_plus(unsigned* p, unsigned v) { *p = *p * 10 + v; }
__global__ void write_value(unsigned* p, unsigned v) { *p = v; }
__global__ void add(unsigned* out, const unsigned* a, const unsigned* b) { *out = *a + *b; }

class captures : public testing::Test {
 protected:
  void SetUp() override {
    cudasim::reset();
    use_seed(5);
  }
  void TearDown() override { cudasim::reset(); }

  void begin(cudaStream_t on, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    require(cudaStreamBeginCapture(on, mode));
  }
  // Ends the capture, replays it, and forgets it.
  void replay(cudaStream_t captured, cudaStream_t on, int times) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    require(cudaStreamEndCapture(captured, &graph));
    require(cudaGraphInstantiate(&exec, graph));
    require(cudaGraphDestroy(graph));
    for (int i = 0; i < times; ++i) require(cudaGraphLaunch(exec, on));
    require(cudaStreamSynchronize(on));
    require(cudaGraphExecDestroy(exec));
  }
  // The call is refused and the capture is lost.
  template <class Call>
  void refuses(Call call, cudaError_t expected = cudaErrorStreamCaptureUnsupported,
               cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    stream s;
    begin(s, mode);
    EXPECT_EQ(call(s), expected);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    require(cudaStreamIsCapturing(s, &status));
    EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaMemsetAsync(p.get(), 0, 4, s), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(cudaMemsetAsync(p.get(), 0, 4, s), cudaSuccess);
    s.wait();
  }
  buffer<unsigned> p{4};
};

TEST_F(captures, replay) {
  stream s;
  begin(s);
  require(cudaMemsetAsync(p.get(), 0, 4, s));
  for (unsigned v : {1u, 2u, 3u}) require(start(s, 1, 1, times_ten_plus, p.get(), v));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  require(cudaStreamIsCapturing(s, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_EQ(p[0], 0u);
  p[0] = 77;
  replay(s, s, 3);
  EXPECT_EQ(p[0], 123u);
}

TEST_F(captures, follow_events_into_other_streams) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    use_seed(seed);
    stream a, b;
    event fork, join;
    begin(a);
    require(cudaEventRecord(fork, a));
    require(cudaStreamWaitEvent(b, fork));
    require(start(a, 1, 1, write_value, &p[0], 5u));
    require(start(b, 1, 1, write_value, &p[1], 6u));
    require(cudaEventRecord(join, b));
    require(cudaStreamWaitEvent(a, join));
    require(start(a, 1, 1, add, &p[2], &p[0], &p[1]));
    replay(a, b, 2);
    EXPECT_EQ(p[2], 11u);
  }
}

TEST_F(captures, must_be_joined) {
  stream a, b;
  event fork;
  begin(a);
  require(cudaEventRecord(fork, a));
  require(cudaStreamWaitEvent(b, fork));
  require(start(b, 1, 1, write_value, &p[1], 6u));
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(a, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(start(b, 1, 1, write_value, &p[1], 6u), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(b), cudaSuccess);
}

TEST_F(captures, end_where_they_began) {
  stream s, other;
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(s, &graph), cudaErrorIllegalState);
  begin(s);
  EXPECT_EQ(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
  std::thread([&] { EXPECT_EQ(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureWrongThread); }).join();
  EXPECT_EQ(cudaStreamEndCapture(s, &graph), cudaSuccess);
  require(cudaGraphDestroy(graph));
}

TEST_F(captures, refuse_synchronisation) {
  refuses([](cudaStream_t s) { return cudaStreamSynchronize(s); });
  refuses([](cudaStream_t s) { return cudaStreamQuery(s); });
  refuses([](cudaStream_t) { return cudaDeviceSynchronize(); });
  refuses([](cudaStream_t) { return cudaDeviceSynchronize(); }, cudaErrorStreamCaptureUnsupported,
          cudaStreamCaptureModeRelaxed);
  event e;
  for (const auto look : {cudaEventQuery, cudaEventSynchronize})
    refuses(
        [&](cudaStream_t s) {
          require(cudaEventRecord(e, s));
          return look(e);
        },
        cudaErrorCapturedEvent);
}

// Of events that no capture has to do with: where the thread may not make unsafe calls.
TEST_F(captures, refuse_to_look_at_events_unless_relaxed) {
  stream other;
  event outside;
  require(cudaEventRecord(outside, other));
  for (const auto look : {cudaEventQuery, cudaEventSynchronize})
    for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal})
      refuses([&](cudaStream_t) { return look(outside); }, cudaErrorStreamCaptureUnsupported, mode);
  stream s;
  begin(s);
  std::thread([&] {  // which a global capture concerns, unless this says otherwise
    for (const auto mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
      cudaStreamCaptureMode m = mode;
      require(cudaThreadExchangeStreamCaptureMode(&m));
      EXPECT_EQ(cudaEventSynchronize(outside), cudaSuccess);
      require(cudaThreadExchangeStreamCaptureMode(&m));
      EXPECT_EQ(m, mode);
    }
  })
      .join();
  cudaStreamCaptureMode m = cudaStreamCaptureModeRelaxed;
  require(cudaThreadExchangeStreamCaptureMode(&m));
  EXPECT_EQ(m, cudaStreamCaptureModeGlobal);
  EXPECT_EQ(cudaEventQuery(outside), cudaSuccess);
  m = cudaStreamCaptureModeThreadLocal;
  require(cudaThreadExchangeStreamCaptureMode(&m));
  EXPECT_EQ(m, cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaEventQuery(outside), cudaErrorStreamCaptureUnsupported);
  m = cudaStreamCaptureModeGlobal;
  require(cudaThreadExchangeStreamCaptureMode(&m));
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST_F(captures, refuse_foreign_events) {
  stream other;
  event outside;
  require(cudaEventRecord(outside, other));
  refuses([&](cudaStream_t s) { return cudaStreamWaitEvent(s, outside); }, cudaErrorStreamCaptureIsolation);
}

TEST_F(captures, refuse_allocation_unless_relaxed) {
  void* q = nullptr;
  refuses([&](cudaStream_t) { return cudaMalloc(&q, 16); });
  refuses([&](cudaStream_t) { return cudaHostAlloc(&q, 16, 0); });
  refuses([&](cudaStream_t) { return cudaMalloc(&q, 16); }, cudaErrorStreamCaptureUnsupported,
          cudaStreamCaptureModeThreadLocal);
  refuses([&](cudaStream_t) { return cudaMemcpy(&p[0], &p[1], 4, cudaMemcpyDefault); });
  stream s;
  begin(s, cudaStreamCaptureModeThreadLocal);
  std::thread([&] { EXPECT_EQ(cudaMalloc(&q, 16), cudaSuccess); }).join();
  cudaGraph_t graph = nullptr;
  require(cudaStreamEndCapture(s, &graph));
  require(cudaGraphDestroy(graph));
  begin(s, cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaFree(q), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&q, 16), cudaSuccess);
  require(cudaStreamEndCapture(s, &graph));
  require(cudaGraphDestroy(graph));
  require(cudaFree(q));
}

TEST_F(captures, own_the_memory_they_allocate) {
  const std::size_t before = cudasim::live_allocations();
  stream s;
  unsigned* q = nullptr;
  begin(s);
  require(cudaMallocAsync(&q, 4, s));
  require(start(s, 1, 1, write_value, q, 4u));
  require(start(s, 1, 1, times_ten_plus, q, 2u));
  require(cudaMemcpyAsync(p.get(), q, 4, cudaMemcpyDefault, s));
  require(cudaFreeAsync(q, s));
  replay(s, s, 2);
  EXPECT_EQ(p[0], 42u);
  cudasim::reset();
  EXPECT_EQ(cudasim::live_allocations(), before);
}

}  // namespace
}  // namespace sim_test
