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
  if (r.code == status::cuda_error) require(r.cuda);
  if (!r) throw std::runtime_error(message(r.code));
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

// A stream, and what its calls cost: seconds on a GPU; on the simulator, which has no clock worth reading, the bytes
// that the kernels moved.
class device_session {
 public:
#if defined(TUCK_CUDASIM)
  static constexpr bool simulated = true;
#else
  static constexpr bool simulated = false;
#endif

  // Encodes host values to the host; `frame` has room for max_frame_bytes.
  template <codec C>
  outcome encode(const C& codec, span<const value_t<C>> values, bytes frame, frame_options options = {}) {
    const device_memory in(values.size_bytes()), metadata(options.metadata.size()), out(frame.size());
    const device_memory scratch(scratch_bytes(codec, values.size(), options)), written(sizeof(outcome));
    in.upload(as_bytes(values), stream_);
    metadata.upload(options.metadata, stream_);
    options.metadata = metadata.all();
    const span<const value_t<C>> source(reinterpret_cast<const value_t<C>*>(in.all().data()), values.size());
    require(initialize(scratch.all(), stream_));
    const outcome done = timed(written, [&] {
      return tuck::encode(codec, source, out.all(), scratch.all(), outcome_in(written), stream_, options);
    });
    if (done) out.download(frame.subspan(0, done.bytes), stream_);
    return done;
  }

  template <codec C> outcome decode(const C& codec, const_bytes frame, span<value_t<C>> values) {
    const device_memory in(frame.size()), out(values.size_bytes());
    const device_memory scratch(scratch_head_bytes), written(sizeof(outcome));
    in.upload(frame, stream_);
    out.upload(as_bytes(values), stream_);  // what decoding leaves alone is as it was
    const span<value_t<C>> target(reinterpret_cast<value_t<C>*>(out.all().data()), values.size());
    require(initialize(scratch.all(), stream_));
    const outcome done = timed(
        written, [&] { return tuck::decode(codec, in.all(), target, scratch.all(), outcome_in(written), stream_); });
    out.download(as_writable_bytes(values), stream_);
    return done;
  }

  // Of the last call: bytes moved if simulated, else seconds.
  double cost() const noexcept { return cost_; }

 private:
  static outcome* outcome_in(const device_memory& m) noexcept { return reinterpret_cast<outcome*>(m.all().data()); }

  // What the call refuses comes back as an outcome; what CUDA refuses throws.
  template <class Call> outcome timed(const device_memory& written, const Call& call) {
    begin();
    const result started = call();
    if (!started && started.code != status::cuda_error) return {.code = started.code};
    require(started);
    cost_ = end();
    outcome done;
    written.download(as_writable_bytes(span<outcome>(&done, 1)), stream_);
    return done;
  }

#if defined(TUCK_CUDASIM)
  void begin() { count_traffic(); }
  double end() {
    stream_.wait();
    return moved_bytes(cudasim::snapshot());
  }
#else
  void begin() { watch_.begin(stream_); }
  double end() {
    watch_.end(stream_);
    return watch_.seconds();
  }
  device_stopwatch watch_;
#endif

  device_stream stream_;
  double cost_ = 0;
};

}  // namespace tuck::tools
