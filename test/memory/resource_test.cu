// Memory resources: the two interfaces, the calls that reach a resource, and what happens when CUDA fails.
#include "support/device.hpp"

#include <tuck/memory/frame_buffer.cuh>

#include <atomic>
#include <chrono>
#include <thread>

namespace tuck::test {
namespace {

// -- interfaces -------------------------------------------------------------------------------------------------------

struct recorded {
  size_t size = 0, alignment = 0;
  cudaStream_t stream = nullptr;
  void* freed = nullptr;

  void* allocated(cudaStream_t s, size_t bytes, size_t a) {
    size = bytes, alignment = a, stream = s;
    return this;
  }
};
struct records_stream_first : recorded {
  void* allocate(cudaStream_t s, size_t bytes, size_t a) { return allocated(s, bytes, a); }
  void deallocate(cudaStream_t s, void* p, size_t bytes, size_t a) { allocated(s, bytes, a), freed = p; }
};
struct records_async : recorded {
  void* allocate_async(size_t bytes, size_t a, cudaStream_t s) { return allocated(s, bytes, a); }
  void deallocate_async(void* p, size_t bytes, size_t a, cudaStream_t s) { allocated(s, bytes, a), freed = p; }
};
struct no_resource {
  void* (*allocate)(size_t);  // takes no stream
};
static_assert(stream_resource<records_stream_first> && stream_resource<records_async> && !stream_resource<no_resource>);

template <class R, class Call> void expect_call(const R& resource, cudaStream_t stream, const Call& call) {
  call();
  EXPECT_EQ(resource.size, 100u);
  EXPECT_EQ(resource.alignment, 64u);
  EXPECT_EQ(resource.stream, stream);
}
template <class R> void expect_calls() {
  const device_stream stream;
  R resource;
  resource_ref ref(resource);
  void* p = nullptr;
  expect_call(resource, stream, [&] { p = allocate_from(resource, 100, 64, stream); });
  EXPECT_EQ(p, &resource);
  resource = {};
  expect_call(resource, stream, [&] { p = ref.allocate(stream, 100, 64); });
  EXPECT_EQ(p, &resource);
  expect_call(resource, stream, [&] { deallocate_to(resource, &p, 100, 64, stream); });
  EXPECT_EQ(resource.freed, &p);
  resource = {};
  expect_call(resource, stream, [&] { ref.deallocate_async(&p, 100, 64, stream); });
  EXPECT_EQ(resource.freed, &p);
  expect_call(resource, cudaStreamLegacy, [&] { p = ref.allocate_sync(100, 64); });
  expect_call(resource, cudaStreamLegacy, [&] { ref.deallocate(&p, 100, 64); });
}
TEST(stream_resource, calls_reach_either_interface) {
  expect_calls<records_stream_first>();
  expect_calls<records_async>();
}

TEST(resource_ref, equals_a_reference_to_the_same_object) {
  records_async a, b;
  EXPECT_EQ(resource_ref(a), resource_ref(a));
  EXPECT_NE(resource_ref(a), resource_ref(b));
  EXPECT_EQ(async_resource(), async_resource());
  EXPECT_EQ(pinned_resource(), pinned_resource());
}

struct const_calls {
  void* allocate(cudaStream_t stream, size_t size, size_t) const { return async_resource().allocate(stream, size); }
  void deallocate(cudaStream_t stream, void* p, size_t size, size_t) const {
    async_resource().deallocate(stream, p, size);
  }
};

TEST(resource_ref, takes_a_const_resource) {
  const device_stream stream;
  const const_calls resource;
  resource_ref ref(resource);
  const device_buffer buffer(ref, 100, stream);
  EXPECT_NE(buffer.all().data(), nullptr);
}

TEST(stream_handle, takes_streams_of_every_type) {
  const device_stream stream;
  EXPECT_EQ(stream_handle(explicit_stream{stream}), cudaStream_t{stream});
  EXPECT_EQ(stream_handle(stream_reference{stream}), cudaStream_t{stream});
  EXPECT_EQ(stream_handle(nullptr), cudaStream_t{});
  static_assert(std::is_convertible_v<cudaStream_t, stream_handle> && !std::is_convertible_v<int, stream_handle>);
}

// -- waits ------------------------------------------------------------------------------------------------------------

TEST(pinned_resource, deallocating_waits_for_the_stream) {
  pinned_resource pinned;
  const device_stream stream;
  void* const memory = pinned.allocate(stream, 100);
  std::atomic<bool> done{false};
  const auto late = [](void* flag) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    *static_cast<std::atomic<bool>*>(flag) = true;
  };
  check(cudaLaunchHostFunc(stream, late, &done));
#if defined(TUCK_CUDASIM)
  cudasim::clear_counters();
#endif
  pinned.deallocate(stream, memory, 100);
  EXPECT_TRUE(done);
#if defined(TUCK_CUDASIM)
  EXPECT_EQ(cudasim::snapshot().synchronisations, 1u);  // for CUDA may wait in cudaFreeHost, or not
#endif
  stream.wait();
}

TEST(async_resource, waits_where_it_says_so) {
  async_resource resource;
  std::atomic<int> done{0};
  const auto late = [](void* number) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++*static_cast<std::atomic<int>*>(number);
  };
  check(cudaLaunchHostFunc(cudaStreamLegacy, late, &done));
  void* const memory = resource.allocate_sync(100);
  EXPECT_EQ(done, 1);
  check(cudaLaunchHostFunc(cudaStreamLegacy, late, &done));
  resource.deallocate_sync(memory, 100);
  EXPECT_EQ(done, 2);
}

TEST(pinned_resource, impossible_sizes_throw) {
  pinned_resource pinned;
  const device_stream stream;
  EXPECT_THROW(static_cast<void>(pinned.allocate(stream, size_t{1} << 60)), error);
}
TEST(resource_error, says_whether_it_is_cuda_s) {
  const error misuse(status::misaligned), cuda(cudaErrorMemoryAllocation);
  EXPECT_STREQ(misuse.what(), message(status::misaligned));
  EXPECT_EQ(cuda.code(), status::cuda_error);
  EXPECT_EQ(cuda.why().cuda, cudaErrorMemoryAllocation);
  EXPECT_EQ(std::string(cuda.what()), std::string("CUDA: ") + cudaGetErrorString(cudaErrorMemoryAllocation));
}

#if defined(TUCK_CUDASIM)
// -- failures of CUDA -------------------------------------------------------------------------------------------------

// Does `call` with its k-th call of CUDA failing, and returns the error that it throws.
template <class Call> cudaError_t thrown(uint64_t k, const Call& call) {
  cudasim::fail_call(k, cudaErrorMemoryAllocation);
  cudaError_t e = cudaSuccess;
  try {
    call();
  } catch (const error& why) {
    e = static_cast<cudaError_t>(why.why().cuda);
  }
  cudasim::fail_call(0, cudaSuccess);
  static_cast<void>(cudaGetLastError());
  return e;
}

TEST(resource_failure, allocations_throw_the_error_of_cuda) {
  const device_stream stream;
  const size_t live = cudasim::live_allocations();
  async_resource device;
  pinned_resource pinned;
  EXPECT_EQ(thrown(1, [&] { static_cast<void>(device.allocate(stream, 100)); }), cudaErrorMemoryAllocation);
  EXPECT_EQ(thrown(1, [&] { static_cast<void>(pinned.allocate(stream, 100)); }), cudaErrorMemoryAllocation);
  EXPECT_EQ(thrown(1, [&] { static_cast<void>(resource_ref(device).allocate(stream, 100)); }),
            cudaErrorMemoryAllocation);
  EXPECT_EQ(cudasim::live_allocations(), live);
}
// The second call waits for the first.
TEST(resource_failure, memory_comes_back_if_waiting_for_it_fails) {
  const size_t live = cudasim::live_allocations();
  async_resource device;
  pinned_resource pinned;
  EXPECT_EQ(thrown(2, [&] { static_cast<void>(device.allocate_sync(100)); }), cudaErrorMemoryAllocation);
  EXPECT_EQ(thrown(2, [&] { static_cast<void>(pinned.allocate_sync(100)); }), cudaErrorMemoryAllocation);
  check(cudaStreamSynchronize(cudaStreamLegacy));
  EXPECT_EQ(cudasim::live_allocations(), live);
}
TEST(resource_failure, freeing_is_repeated) {
  const device_stream stream;
  const size_t live = cudasim::live_allocations();
  async_resource device;
  pinned_resource pinned;
  void* const p = device.allocate(stream, 100);
  EXPECT_EQ(thrown(1, [&] { device.deallocate(stream, p, 100); }), cudaSuccess);
  for (const uint64_t k : {1, 2}) {  // the wait, the free
    void* const q = pinned.allocate(stream, 100);
    EXPECT_EQ(thrown(k, [&] { pinned.deallocate(stream, q, 100); }), cudaSuccess);
  }
  stream.wait();
  EXPECT_EQ(cudasim::live_allocations(), live);
}
TEST(resource_failure, a_device_that_cannot_be_entered_is_reported) {
  cudasim::fail_call(1, cudaErrorInvalidDevice);
  const detail::device_scope scope(0);
  EXPECT_EQ(scope.entered().cuda, cudaErrorInvalidDevice);
  static_cast<void>(cudaGetLastError());
  EXPECT_TRUE(detail::device_scope(0).entered());
}
#endif

}  // namespace
}  // namespace tuck::test
