// The activations of a network that are several times as large as the device memory they may have. Each pass walks over
// all of them, forwards and backwards, as training does: it checks what the pass before left, and writes the next.
#include "evicting_pool.cuh"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

namespace {

using example::check;

// cudaMallocAsync, but no more than so many bytes at a time: a small GPU.
class budget_resource {
 public:
  explicit budget_resource(size_t most) : left_(most) {}
  void* allocate(cudaStream_t stream, size_t size, size_t alignment = 256) {
    if (size > left_) throw std::bad_alloc();
    void* const p = memory_.allocate(stream, size, alignment);
    left_ -= size;
    return p;
  }
  void deallocate(cudaStream_t stream, void* p, size_t size, size_t alignment = 256) noexcept {
    memory_.deallocate(stream, p, size, alignment);
    left_ += size;
  }

 private:
  tuck::async_resource memory_;
  size_t left_;
};
static_assert(tuck::stream_resource<budget_resource>);

using pool = example::evicting_pool<budget_resource>;

// Value i of a tensor after a pass: three quarters are zeros, in runs as ReLU leaves them; the others tell all three.
__device__ float activation(uint32_t tensor, uint32_t pass, uint32_t i) {
  const uint32_t mixed = (i / 5 + tensor * 7 + pass * 3) * 2654435761u;
  return mixed >> 16 & 3 ? 0.0f : static_cast<float>((pass * 64 + tensor) * 65536 + i % 65536) + 1.0f;
}

__global__ void fill(tuck::span<float> values, uint32_t tensor, uint32_t pass) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < values.size(); i += gridDim.x * blockDim.x)
    values[i] = activation(tensor, pass, i);
}

__global__ void count_wrong(tuck::span<const float> values, uint32_t tensor, uint32_t pass, unsigned* wrong) {
  unsigned mine = 0;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < values.size(); i += gridDim.x * blockDim.x)
    mine += values[i] != activation(tensor, pass, i);
  if (mine != 0) atomicAdd(wrong, mine);
}

template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(8);
  config.blockDim = dim3(128);
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, arguments...));
}

int run() {
  constexpr uint32_t tensors = 24, passes = 4;
  constexpr uint64_t values = 16 * 1024, bytes = values * sizeof(float), budget = 5 * bytes;

  cudaStream_t streams[2];
  for (cudaStream_t& s : streams) check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  budget_resource small_gpu(budget);
  unsigned wrong = 0;
  {
    pool memory({.pinned_bytes = tensors * bytes}, small_gpu);
    auto* const d_wrong = static_cast<unsigned*>(memory.allocate(streams[0], sizeof(unsigned)));
    check(cudaMemsetAsync(d_wrong, 0, sizeof(unsigned), streams[0]));
    check(cudaStreamSynchronize(streams[0]));
    std::vector<pool::tensor<float>> layers;
    for (uint32_t i = 0; i < tensors; ++i) layers.push_back(memory.make<float>(values));

    std::printf("%u tensors of %llu KiB, %llu KiB in all, with %llu KiB of device memory\n\n", tensors,
                static_cast<unsigned long long>(bytes >> 10), static_cast<unsigned long long>(tensors * bytes >> 10),
                static_cast<unsigned long long>(budget >> 10));
    std::printf("pass  offloaded  restored  KiB out  KiB of pinned memory\n");
    for (uint32_t pass = 0; pass < passes; ++pass) {
      for (uint32_t step = 0; step < tensors; ++step) {
        const uint32_t i = pass % 2 == 0 ? step : tensors - 1 - step;
        cudaStream_t stream = streams[(i / 3 + pass) % 2];  // any will do
        const tuck::span<float> layer = layers[i].lock(stream);
        if (pass > 0) launch(stream, count_wrong, tuck::span<const float>(layer), i, pass - 1, d_wrong);
        launch(stream, fill, layer, i, pass);
        layers[i].unlock(stream);
      }
      for (const cudaStream_t s : streams) check(cudaStreamSynchronize(s));  // so that all sizes are known
      const auto now = memory.statistics();
      std::printf("%4u  %9llu  %8llu  %7llu  %20llu\n", pass, static_cast<unsigned long long>(now.offloaded),
                  static_cast<unsigned long long>(now.restored), static_cast<unsigned long long>(now.bytes_out >> 10),
                  static_cast<unsigned long long>(now.pinned.held >> 10));
    }
    check(cudaMemcpyAsync(&wrong, d_wrong, sizeof wrong, cudaMemcpyDefault, streams[0]));
    check(cudaStreamSynchronize(streams[0]));
    memory.deallocate(streams[0], d_wrong, sizeof(unsigned));
  }
  for (const cudaStream_t s : streams) check(cudaStreamDestroy(s));
  std::printf("\n%u values wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
