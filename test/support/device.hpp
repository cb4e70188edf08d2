// Device memory, a stream and calls that wait, for tests that run on a GPU and on the simulator alike.
#pragma once

#include "support/effort.hpp"
#include "support/frames.hpp"

#include <tuck/device.cuh>

#include <atomic>

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

// A stream with scratch and an outcome: calls here put one operation on it and wait for what becomes of it.
class device_queue {
 public:
  static constexpr uint64_t scratch_size = scratch_head_bytes + 8 * 40000;

  device_queue() : scratch_(scratch_size), outcome_(1) { EXPECT_EQ(initialize(scratch(), stream).code, status::ok); }

  scratch_span scratch() const { return scratch_.scratch(); }
  outcome* written() const { return outcome_.data(); }
  outcome finish(result started) const {
    EXPECT_EQ(started.code, status::ok) << message(started);
    return outcome_.download(stream)[0];
  }

  template <codec C>
  frame_bytes encode(const C& codec, const std::vector<value_t<C>>& values, frame_options options = {},
                     launch_options how = {}) {
    const device_array<value_t<C>> in(values, stream);
    const device_array<std::byte> metadata({options.metadata.begin(), options.metadata.end()}, stream);
    const device_array<std::byte> frame(max_frame_bytes(codec, values.size(), options));
    options.metadata = {};
    options.metadata_on_device = metadata.all();
    const span<const value_t<C>> all = in.all();
    const outcome o = finish(tuck::encode(codec, all, frame.all(), scratch(), written(), stream, options, how));
    EXPECT_EQ(o.code, status::ok);
    return frame.download(o.bytes, stream);
  }

  // Decodes into what `out` holds, so that one sees what was left alone.
  template <codec C>
  outcome decode(const C& codec, const frame_bytes& frame, std::vector<value_t<C>>& out, uint64_t first_value = 0,
                 launch_options how = {}) {
    const device_array<std::byte> in(frame, stream);
    const device_array<value_t<C>> room(out, stream);
    const outcome o = finish(tuck::decode(codec, in.all(), room.all(), scratch(), written(), stream, first_value, how));
    out = room.download(stream);
    return o;
  }

  device_stream stream;

 private:
  device_array<std::byte> scratch_;
  device_array<outcome> outcome_;
};

// Notices calls that are made while another device is the thread's.
struct bound_resource {
  int device;
  async_resource memory = {};
  std::atomic<int> wrong = 0, calls = 0;

  void* allocate_async(size_t size, size_t alignment, cudaStream_t stream) {
    look();
    return memory.allocate(stream, size, alignment);
  }
  void deallocate_async(void* p, size_t size, size_t alignment, cudaStream_t stream) {
    look();
    memory.deallocate(stream, p, size, alignment);
  }
  void look() {
    int now = -1;
    check(cudaGetDevice(&now));
    ++calls;
    wrong += now != device;
  }
};

}  // namespace tuck::test
