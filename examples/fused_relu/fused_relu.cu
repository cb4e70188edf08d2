// ReLU with its activation compressed, in two kernels. Forward, each block applies ReLU to one chunk in registers,
// stores the activation for the next layer, and encodes the same registers. All chunks are in one buffer, each with the
// bytes that it needs. Backward, a block decodes a chunk and masks the gradient; the decoded activation is never
// written to memory. A chunk that does not become smaller is stored as it is; neither kernel has to know.
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

struct place {  // of a chunk
  unsigned long long offset;
  uint32_t size;
};

__global__ void relu_forward(const float* in, float* activation, uint32_t count, std::byte* encoded,
                             unsigned long long* used, place* places) {
  TUCK_SHARED(encoder_storage, temp);
  TUCK_SHARED(place, at);
  const uint32_t first = blockIdx.x * chunk_values;
  encoder::tile chunk;
  chunk.load(in + first, count - first < chunk_values ? count - first : chunk_values);
  for (auto& word : chunk.w)
    if (__uint_as_float(word) <= 0) word = 0;
  chunk.store(reinterpret_cast<std::byte*>(activation + first));
  encoder encode(temp);
  const uint32_t size = encode.measure(codec{}, chunk);
  if (threadIdx.x == 0) {
    at = {atomicAdd(used, (size + 15ull) / 16 * 16), size};
    places[blockIdx.x] = at;
  }
  tuck::device::sync_block();
  encode.write(codec{}, chunk, size, encoded + at.offset);
}

__global__ void relu_backward(float* gradient, uint32_t count, const std::byte* encoded, const place* places,
                              tuck::status* failed) {
  TUCK_SHARED(decoder_storage, temp);
  const uint32_t first = blockIdx.x * chunk_values;
  const uint32_t own = count - first < chunk_values ? count - first : chunk_values;
  const auto mask = [&](uint32_t i, float activation) {
    if (!(activation > 0)) gradient[first + i] = 0;
  };
  const place at = places[blockIdx.x];
  const tuck::status s = decoder(temp)(codec{}, {encoded + at.offset, at.size}, own, mask);
  if (s != tuck::status::ok && threadIdx.x == 0) *failed = s;
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
  auto* const d_encoded = device_memory<std::byte>(size_t{blocks} * tuck::tile_bytes);  // what no values exceed
  auto* const d_used = device_memory<unsigned long long>(1);
  auto* const d_places = device_memory<place>(blocks);
  auto* const d_failed = device_memory<tuck::status>(1);
  check(cudaMemcpyAsync(d_layer, layer.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream));
  check(cudaMemcpyAsync(d_gradient, gradient.data(), count * sizeof(float), cudaMemcpyHostToDevice, stream));
  check(cudaMemsetAsync(d_used, 0, sizeof *d_used, stream));
  check(cudaMemsetAsync(d_failed, 0, sizeof *d_failed, stream));

  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(tuck::block_threads);
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, relu_forward, static_cast<const float*>(d_layer), d_activation, count, d_encoded,
                           d_used, d_places));
  check(cudaLaunchKernelEx(&config, relu_backward, d_gradient, count, static_cast<const std::byte*>(d_encoded),
                           static_cast<const place*>(d_places), d_failed));

  unsigned long long used = 0, wrong = 0;
  tuck::status failed = tuck::status::ok;
  check(cudaMemcpyAsync(&used, d_used, sizeof used, cudaMemcpyDeviceToHost, stream));
  check(cudaMemcpyAsync(activation.data(), d_activation, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
  check(cudaMemcpyAsync(gradient.data(), d_gradient, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
  check(cudaMemcpyAsync(&failed, d_failed, sizeof failed, cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));

  for (uint32_t i = 0; i < count; ++i)
    wrong += activation[i] != std::max(layer[i], 0.0f) || gradient[i] != (layer[i] > 0 ? 1 : 0);
  std::printf(
      "%u activations: %zu bytes, encoded to %llu (ratio %.2f) by the kernel that computed them;\n"
      "%llu of them or of their gradients are wrong; decoding: %s\n",
      count, count * sizeof(float), used, static_cast<double>(count * sizeof(float)) / static_cast<double>(used), wrong,
      message(failed));
  for (void* const p : {static_cast<void*>(d_layer), static_cast<void*>(d_activation), static_cast<void*>(d_gradient),
                        static_cast<void*>(d_encoded), static_cast<void*>(d_used), static_cast<void*>(d_places),
                        static_cast<void*>(d_failed)})
    check(cudaFree(p));
  check(cudaStreamDestroy(stream));
  return wrong == 0 && failed == tuck::status::ok ? 0 : 1;
}
