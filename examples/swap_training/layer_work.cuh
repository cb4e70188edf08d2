// What layers do here, and where: kernels that make values up and check them, device memory that is scarce, and a
// stopwatch.
#pragma once

#include <tuck/swap.cuh>

#include <cmath>
#include <stdexcept>
#include <string>

namespace swap_training {

// -- values --------------------------------------------------------------------------------------------------------

__host__ __device__ inline uint32_t mix(uint32_t x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

// Between 0 and 4, and zeros.
struct activation {
  uint32_t seed, zeros;  // in 2^16

  __device__ float operator()(uint64_t i) const {
    const uint32_t random = mix(static_cast<uint32_t>(i) ^ mix(seed));
    return (random & 0xffff) < zeros ? 0.f : static_cast<float>(mix(random) >> 8) * 0x1p-22f;
  }
};
inline activation activation_of(uint32_t seed, double sparsity) {
  return {seed, static_cast<uint32_t>(sparsity * 65536)};
}

// Of both signs, with this mean magnitude: gradients and momentum.
struct centred {
  uint32_t seed;
  float mean;

  __device__ float operator()(uint64_t i) const {
    return static_cast<float>(static_cast<int32_t>(mix(static_cast<uint32_t>(i) ^ mix(seed)))) * 0x1p-30f * mean;
  }
};

template <class Values> struct fill_job {
  Values values;
  float* to;
  uint64_t count;
};

struct layer_job {
  activation in, out;
  const float* input;
  float* output;
  uint64_t inputs, outputs;
  double bound;  // of the input's error
  uint32_t* wrong;
};

namespace {

template <class Values> __global__ void fill_kernel(const __grid_constant__ fill_job<Values> job) {
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < job.count;
       i += uint64_t{gridDim.x} * blockDim.x)
    tuck::device::store(job.to + i, job.values(i));
}

// Counts the values of the input that are farther off than the bound.
__device__ inline void check_input(const layer_job& job) {
  uint32_t mine = 0;
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < job.inputs;
       i += uint64_t{gridDim.x} * blockDim.x) {
    const float x = job.in(i), y = tuck::device::load(job.input + i);
    mine += x == 0 ? y != 0 : !(std::fabs(static_cast<double>(x) - static_cast<double>(y)) <= job.bound);
  }
  if (mine != 0) tuck::device::atomic_add(job.wrong, mine);
}

__global__ void forward(const __grid_constant__ layer_job job) {
  check_input(job);
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < job.outputs;
       i += uint64_t{gridDim.x} * blockDim.x)
    tuck::device::store(job.output + i, job.out(i));
}
__global__ void backward(const __grid_constant__ layer_job job) { check_input(job); }

}  // namespace

template <class Job> void launch(void (*kernel)(Job), const Job& job, uint64_t count, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(std::clamp<uint64_t>(count / 4096, 1, 512)));
  config.blockDim = dim3(256);
  config.stream = stream;
  tuck::detail::require(cudaLaunchKernelEx(&config, kernel, job));
}
template <class Values> void fill(const Values& values, tuck::span<float> to, cudaStream_t stream) {
  launch(fill_kernel<Values>, {values, to.data(), to.size()}, to.size(), stream);
}

// -- memory --------------------------------------------------------------------------------------------------------

// As much device memory as there is said to be. What is freed counts as free at once: stream order makes it so.
class budget {
 public:
  explicit budget(uint64_t size) : left_(size), total_(size) {}
  void* allocate(cudaStream_t stream, size_t size, size_t alignment) {
    if (size > left_)
      throw std::runtime_error("the device budget is too small: " + std::to_string(size) + " bytes are wanted, " +
                               std::to_string(left_) + " are left");
    void* const p = memory_.allocate(stream, size, alignment);
    left_ -= size;
    peak_ = std::max(peak_, total_ - left_);
    return p;
  }
  void deallocate(cudaStream_t stream, void* p, size_t size, size_t alignment) noexcept {
    left_ += size;
    memory_.deallocate(stream, p, size, alignment);
  }
  uint64_t peak() const { return peak_; }

 private:
  tuck::async_resource memory_;
  uint64_t left_, total_, peak_ = 0;
};

template <class T = float, class Resource> tuck::span<T> values_in(const tuck::device_buffer<Resource>& buffer) {
  return {reinterpret_cast<T*>(buffer.all().data()), buffer.all().size() / sizeof(T)};
}

// -- streams and time -----------------------------------------------------------------------------------------------

#if defined(TUCK_CUDASIM)
inline constexpr bool times_mean_something = false;  // they are the simulator's
#else
inline constexpr bool times_mean_something = true;
#endif

class owned_stream {
 public:
  owned_stream() { tuck::detail::require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  owned_stream(const owned_stream&) = delete;
  owned_stream& operator=(const owned_stream&) = delete;
  ~owned_stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// A pair of events around something on a stream.
class stopwatch {
 public:
  stopwatch() {
    tuck::detail::require(cudaEventCreate(&begin_));
    tuck::detail::require(cudaEventCreate(&end_));
  }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;
  ~stopwatch() {
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaEventDestroy(end_));
  }
  template <class Work> void time(cudaStream_t stream, const Work& work) {
    tuck::detail::require(cudaEventRecord(begin_, stream));
    work();
    tuck::detail::require(cudaEventRecord(end_, stream));
    used_ = true;
  }
  double milliseconds() const {  // once the stream is done
    float ms = 0;
    if (used_) tuck::detail::require(cudaEventElapsedTime(&ms, begin_, end_));
    return ms;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  bool used_ = false;
};

}  // namespace swap_training
