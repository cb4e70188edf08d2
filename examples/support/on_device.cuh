// The library's device calls for programs whose tensors are on the host: copies in, one call, copies out.
#pragma once

#include <tuck/device.cuh>

#include <stdexcept>
#include <string>
#include <vector>

#if defined(TUCK_CUDASIM)
#include <cudasim.hpp>
#endif

namespace tuck::tools {

inline void require(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}
inline void require(const result& r) {
  if (!r) throw std::runtime_error(message(r));
}

// Device memory for as long as it lives.
class device_memory {
 public:
  explicit device_memory(uint64_t size) : size_(size) {
    require(cudaMalloc(&data_, size_ != 0 ? size_ : device_alignment));
  }
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory() { static_cast<void>(cudaFree(data_)); }

  bytes all() const noexcept { return {static_cast<std::byte*>(data_), size_}; }
  scratch_span scratch() const noexcept { return scratch_span(all()); }
  void upload(const_bytes from, cudaStream_t stream) const { copy(data_, from.data(), from.size(), stream); }
  void download(bytes to, cudaStream_t stream) const { copy(to.data(), data_, to.size(), stream); }

 private:
  static void copy(void* to, const void* from, uint64_t size, cudaStream_t stream) {
    if (size != 0) require(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream));
    require(cudaStreamSynchronize(stream));
  }

  void* data_ = nullptr;
  uint64_t size_;
};

// A stream of the program's own.
class device_stream {
 public:
  device_stream() { require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  device_stream(const device_stream&) = delete;
  device_stream& operator=(const device_stream&) = delete;
  ~device_stream() { static_cast<void>(cudaStreamDestroy(stream_)); }

  operator cudaStream_t() const noexcept { return stream_; }
  void wait() const { require(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

// The time on a stream from one point to another.
class device_stopwatch {
 public:
  device_stopwatch() {
    require(cudaEventCreate(&begin_));
    require(cudaEventCreate(&end_));
  }
  device_stopwatch(const device_stopwatch&) = delete;
  device_stopwatch& operator=(const device_stopwatch&) = delete;
  ~device_stopwatch() {
    static_cast<void>(cudaEventDestroy(end_));
    static_cast<void>(cudaEventDestroy(begin_));
  }

  void begin(cudaStream_t stream) const { require(cudaEventRecord(begin_, stream)); }
  void end(cudaStream_t stream) const { require(cudaEventRecord(end_, stream)); }
  // Waits for the end.
  double seconds() const {
    float milliseconds = 0;
    require(cudaEventSynchronize(end_));
    require(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// Do kernels run on the simulator, which has no clock worth reading?
#if defined(TUCK_CUDASIM)
inline constexpr bool simulated = true;
#else
inline constexpr bool simulated = false;
#endif

#if defined(TUCK_CUDASIM)
// Counts from here on, bytes too.
inline void count_traffic() {
  auto settings = cudasim::current_settings();
  settings.count_traffic = true;
  cudasim::configure(settings);
  cudasim::clear_counters();
}

inline double moved_bytes(const cudasim::counters& c) {
  return static_cast<double>(c.tensor_bytes_read + c.tensor_bytes_written + c.other_bytes_read + c.other_bytes_written);
}
#endif

}  // namespace tuck::tools
