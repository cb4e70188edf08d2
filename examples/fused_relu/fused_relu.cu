// ReLU and ZVC in one kernel: the activation leaves the registers compressed and is never written in full.
//
// Each block takes one chunk of the layer's output, applies ReLU to it in registers, stores the activation that the
// next layer reads, and encodes the same registers into a slot of its own. A real program would keep the slots
// compact, as tuck::encode does; here they show what a kernel of your own can do with a block codec.
#include <tuck/device.cuh>

#include <cstdio>
#include <random>
#include <vector>

namespace {

using codec = tuck::zvc<float>;
using encoder = tuck::block_encode<codec>;
using storage = encoder::TempStorage;

constexpr uint32_t chunk_values = encoder::tile::capacity;

__global__ void relu_and_tuck(const float* in, float* activation, uint32_t count, std::byte* slots, uint32_t* sizes) {
  TUCK_SHARED(storage, temp);
  const uint32_t first = blockIdx.x * chunk_values;
  encoder::tile chunk;
  chunk.load(in + first, count - first < chunk_values ? count - first : chunk_values);
  for (auto& word : chunk.w)
    if (__uint_as_float(word) <= 0) word = 0;
  chunk.store(reinterpret_cast<std::byte*>(activation + first));
  const uint32_t size = encoder(temp)(codec{}, chunk, slots + size_t{blockIdx.x} * tuck::tile_bytes);
  if (threadIdx.x == 0) sizes[blockIdx.x] = size;
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

}  // namespace

int main() {
  constexpr uint32_t count = 10 * chunk_values + 77;
  constexpr uint32_t blocks = (count + chunk_values - 1) / chunk_values;
  std::vector<float> layer(count), activation(count), restored(chunk_values);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(-0.5f, 1);
  for (float& x : layer) x = normal(random);

  cudaStream_t stream;
  float *d_layer, *d_activation;
  std::byte* d_slots;
  uint32_t* d_sizes;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaMalloc(reinterpret_cast<void**>(&d_layer), count * sizeof(float)));
  check(cudaMalloc(reinterpret_cast<void**>(&d_activation), count * sizeof(float)));
  check(cudaMalloc(reinterpret_cast<void**>(&d_slots), size_t{blocks} * tuck::tile_bytes));
  check(cudaMalloc(reinterpret_cast<void**>(&d_sizes), blocks * sizeof(uint32_t)));
  check(cudaMemcpyAsync(d_layer, layer.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream));

  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(tuck::block_threads);
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, relu_and_tuck, static_cast<const float*>(d_layer), d_activation, count, d_slots,
                           d_sizes));

  std::vector<std::byte> slots(size_t{blocks} * tuck::tile_bytes);
  std::vector<uint32_t> sizes(blocks);
  check(cudaMemcpyAsync(slots.data(), d_slots, slots.size(), cudaMemcpyDeviceToHost, stream));
  check(cudaMemcpyAsync(sizes.data(), d_sizes, blocks * sizeof(uint32_t), cudaMemcpyDeviceToHost, stream));
  check(cudaMemcpyAsync(activation.data(), d_activation, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));

  // Any chunk decodes on the CPU too: the scalar codec reads what the block wrote.
  uint64_t bytes = 0, wrong = 0;
  for (uint32_t b = 0; b < blocks; ++b) {
    const uint32_t n = std::min(chunk_values, count - b * chunk_values);
    if (sizes[b] == tuck::incompressible) {  // would not shrink: the activation itself is what there is
      bytes += n * sizeof(float);
      continue;
    }
    const tuck::const_bytes encoded(slots.data() + size_t{b} * tuck::tile_bytes, sizes[b]);
    if (codec{}.decode_chunk(encoded, tuck::span<float>(restored.data(), n)) != tuck::status::ok) ++wrong;
    for (uint32_t i = 0; i < n; ++i) {
      const float expected = std::max(layer[b * chunk_values + i], 0.0f);
      wrong += restored[i] != expected || activation[b * chunk_values + i] != expected;
    }
    bytes += sizes[b];
  }
  std::printf("%u activations: %zu bytes, tucked into %llu (ratio %.2f) by the kernel that made them; %llu wrong\n",
              count, count * sizeof(float), static_cast<unsigned long long>(bytes),
              static_cast<double>(count * sizeof(float)) / static_cast<double>(bytes),
              static_cast<unsigned long long>(wrong));
  check(cudaFree(d_layer));
  check(cudaFree(d_activation));
  check(cudaFree(d_slots));
  check(cudaFree(d_sizes));
  check(cudaStreamDestroy(stream));
  return wrong == 0 ? 0 : 1;
}
