// ReLU with its activation compressed, in two kernels. Forward, each block applies ReLU to one chunk in registers,
// stores the activation for the next layer, and encodes the same registers into a slot. Backward, it decodes the slot
// and masks the gradient; the decoded activation is never written to memory.
//
// A slot has room for a whole chunk, so this example shows the calls and saves no memory. A real program gives each
// chunk only the bytes that it needs, or writes frames by tuck::encode, which block_decode reads too.
#include <tuck/device.cuh>

#include <cstdio>
#include <random>
#include <vector>

namespace {

using codec = tuck::zvc<float>;
using encoder = tuck::block_encode<codec>;
using decoder = tuck::block_decode<codec>;
using encoder_storage = encoder::TempStorage;
using decoder_storage = decoder::TempStorage;

constexpr uint32_t chunk_values = encoder::tile::capacity;

__global__ void relu_forward(const float* in, float* activation, uint32_t count, std::byte* slots, uint32_t* sizes) {
  TUCK_SHARED(encoder_storage, temp);
  const uint32_t first = blockIdx.x * chunk_values;
  std::byte* const slot = slots + size_t{blockIdx.x} * tuck::tile_bytes;
  encoder::tile chunk;
  chunk.load(in + first, count - first < chunk_values ? count - first : chunk_values);
  for (auto& word : chunk.w)
    if (__uint_as_float(word) <= 0) word = 0;
  chunk.store(reinterpret_cast<std::byte*>(activation + first));
  const uint32_t size = encoder(temp)(codec{}, chunk, slot);
  if (size == tuck::incompressible) chunk.store(slot);
  if (threadIdx.x == 0) sizes[blockIdx.x] = size;
}

__global__ void relu_backward(float* gradient, uint32_t count, const std::byte* slots, const uint32_t* sizes,
                              tuck::status* failed) {
  TUCK_SHARED(decoder_storage, temp);
  const uint32_t first = blockIdx.x * chunk_values;
  const uint32_t own = count - first < chunk_values ? count - first : chunk_values;
  const std::byte* const slot = slots + size_t{blockIdx.x} * tuck::tile_bytes;
  const auto mask = [&](uint32_t i, float activation) {
    if (!(activation > 0)) gradient[first + i] = 0;
  };
  if (sizes[blockIdx.x] == tuck::incompressible) {
    for (uint32_t i = threadIdx.x; i < own; i += blockDim.x) mask(i, reinterpret_cast<const float*>(slot)[i]);
  } else {
    const tuck::status s = decoder(temp)(codec{}, {slot, sizes[blockIdx.x]}, own, mask);
    if (s != tuck::status::ok && threadIdx.x == 0) *failed = s;
  }
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

template <class T> T* device_memory(size_t count) {
  void* p;
  check(cudaMalloc(&p, count * sizeof(T)));
  return static_cast<T*>(p);
}

}  // namespace

int main() {
  constexpr uint32_t count = 10 * chunk_values + 77;
  constexpr uint32_t blocks = (count + chunk_values - 1) / chunk_values;
  std::vector<float> layer(count), activation(count), gradient(count, 1);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(-0.5f, 1);
  for (float& x : layer) x = normal(random);

  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  auto* const d_layer = device_memory<float>(count);
  auto* const d_activation = device_memory<float>(count);
  auto* const d_gradient = device_memory<float>(count);
  auto* const d_slots = device_memory<std::byte>(size_t{blocks} * tuck::tile_bytes);
  auto* const d_sizes = device_memory<uint32_t>(blocks);
  auto* const d_failed = device_memory<tuck::status>(1);
  check(cudaMemcpyAsync(d_layer, layer.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream));
  check(cudaMemcpyAsync(d_gradient, gradient.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream));
  check(cudaMemsetAsync(d_failed, 0, sizeof *d_failed, stream));

  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(tuck::block_threads);
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, relu_forward, static_cast<const float*>(d_layer), d_activation, count, d_slots,
                           d_sizes));
  check(cudaLaunchKernelEx(&config, relu_backward, d_gradient, count, static_cast<const std::byte*>(d_slots),
                           static_cast<const uint32_t*>(d_sizes), d_failed));

  std::vector<uint32_t> sizes(blocks);
  tuck::status failed = tuck::status::ok;
  check(cudaMemcpyAsync(sizes.data(), d_sizes, blocks * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
  check(cudaMemcpyAsync(activation.data(), d_activation, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
  check(cudaMemcpyAsync(gradient.data(), d_gradient, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
  check(cudaMemcpyAsync(&failed, d_failed, sizeof failed, cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));

  uint64_t bytes = 0, wrong = 0;
  for (uint32_t b = 0; b < blocks; ++b)
    bytes += std::min<uint64_t>(sizes[b], std::min(chunk_values, count - b * chunk_values) * sizeof(float));
  for (uint32_t i = 0; i < count; ++i)
    wrong += activation[i] != std::max(layer[i], 0.0f) || gradient[i] != (layer[i] > 0 ? 1 : 0);
  std::printf(
      "%u activations: %zu bytes, encoded to %llu (ratio %.2f) by the kernel that computed them;\n"
      "%llu of them or of their gradients are wrong; decoding: %s\n",
      count, count * sizeof(float), static_cast<unsigned long long>(bytes),
      static_cast<double>(count * sizeof(float)) / static_cast<double>(bytes), static_cast<unsigned long long>(wrong),
      message(failed));
  for (void* const p : {static_cast<void*>(d_layer), static_cast<void*>(d_activation), static_cast<void*>(d_gradient),
                        static_cast<void*>(d_slots), static_cast<void*>(d_sizes), static_cast<void*>(d_failed)})
    check(cudaFree(p));
  check(cudaStreamDestroy(stream));
  return wrong == 0 && failed == tuck::status::ok ? 0 : 1;
}
