// Device memory, a stream and kernels of a test's own, for tests that run on a GPU and on the simulator alike. It
// includes little of the library, because each planted fault compiles it anew (test/ptx/planted).
#pragma once

#include "support/effort.hpp"

#include <tuck/core/device.cuh>
#include <tuck/frame/launch.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#if defined(TUCK_CUDASIM)
#include <cudasim.hpp>
#endif

namespace tuck::test {

inline void check(cudaError_t error) { ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

// Seeds of the simulator's schedules: all on request, else half as many, under sanitizers a quarter; a GPU has its own.
template <class Body> void for_schedules([[maybe_unused]] int seeds, const Body& body) {
#if defined(TUCK_CUDASIM)
  if (!long_run()) seeds = (seeds + (brief ? 3 : 1)) / (brief ? 4 : 2);
  for (int seed = 1; seed <= seeds; ++seed) {
    auto settings = cudasim::current_settings();
    settings.seed = static_cast<uint64_t>(seed);
    settings.poison = seed % 2 == 0 ? 0xcd : 0x5a;
    settings.stream_delays = false;  // one stream: nothing to reorder
    cudasim::configure(settings);
    SCOPED_TRACE("schedule seed " + std::to_string(seed));
    body();
    if (::testing::Test::HasFatalFailure()) return;
  }
#else
  body();
#endif
}

class device_stream {
 public:
  device_stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  device_stream(const device_stream&) = delete;
  device_stream& operator=(const device_stream&) = delete;
  ~device_stream() { check(cudaStreamDestroy(stream_)); }
  operator cudaStream_t() const { return stream_; }
  void wait() const { check(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

// Streams as other libraries have them.
struct explicit_stream {  // as rmm::cuda_stream
  cudaStream_t stream;
  explicit operator cudaStream_t() const { return stream; }
};
struct stream_reference {  // as cuda::stream_ref
  cudaStream_t stream;
  cudaStream_t get() const { return stream; }
};

// A capture that ends with its scope, whatever is thrown there, and fails the test if it has become invalid.
class capture_scope {
 public:
  explicit capture_scope(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal)
      : stream_(stream) {
    check(cudaStreamBeginCapture(stream, mode));
  }
  capture_scope(const capture_scope&) = delete;
  capture_scope& operator=(const capture_scope&) = delete;
  ~capture_scope() {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph));
    if (graph != nullptr) check(cudaGraphDestroy(graph));
  }

 private:
  cudaStream_t stream_;
};

template <class T> class device_array {
 public:
  explicit device_array(uint64_t size) : size_(size) {
    check(cudaMalloc(reinterpret_cast<void**>(&data_), std::max<uint64_t>(size * sizeof(T), 16)));
  }
  device_array(const std::vector<T>& values, cudaStream_t stream) : device_array(values.size()) {
    upload(values, stream);
  }
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
  ~device_array() { check(cudaFree(data_)); }

  void upload(const std::vector<T>& values, cudaStream_t stream) {
    if (!values.empty())
      check(cudaMemcpyAsync(data_, values.data(), values.size() * sizeof(T), cudaMemcpyDefault, stream));
    check(cudaStreamSynchronize(stream));
  }
  std::vector<T> download(uint64_t count, cudaStream_t stream) const {
    std::vector<T> values(count);
    if (count != 0) check(cudaMemcpyAsync(values.data(), data_, count * sizeof(T), cudaMemcpyDefault, stream));
    check(cudaStreamSynchronize(stream));
    return values;
  }
  std::vector<T> download(cudaStream_t stream) const { return download(size_, stream); }
  span<T> all() const { return {data_, size_}; }
  scratch_span scratch() const
    requires std::same_as<T, std::byte>
  {
    return scratch_span(all());
  }
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
  uint64_t size_ = 0;
};

// A kernel of a test's own.
template <class Kernel, class... Arguments>
void launch_on(const device_stream& stream, unsigned blocks, unsigned threads, Kernel kernel, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, arguments...));
}

}  // namespace tuck::test
