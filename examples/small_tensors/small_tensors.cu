// A thousand small tensors, as the activations, biases and statistics of a network are, encoded by one launch and
// restored by another. Both are captured in a CUDA graph, which is replayed with other values and other sizes: the
// table of items is in device memory, and what stands there when the graph runs is what is encoded.
#include <tuck/device.cuh>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

using codec = tuck::zvc<float>;
constexpr uint32_t tensors = 1000, most_values = 8192;  // 0 to 32 KiB each

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(1);
}
void check(tuck::result r) {
  if (r) return;
  std::fprintf(stderr, "tuck: %s\n", message(r));
  std::exit(1);
}

template <class T> T* device_memory(size_t count) {
  void* p;
  check(cudaMalloc(&p, count * sizeof(T)));
  return static_cast<T*>(p);
}

}  // namespace

int main() {
  // For each tensor as much room as the largest may need. A real program has its tensors already, and packs them
  // better.
  const size_t room = (tuck::max_frame_bytes(codec{}, most_values) + 15) / 16 * 16;
  const tuck::batch_sizes sizes{.items = tensors, .values = uint64_t{tensors} * most_values};
  auto* const values = device_memory<float>(sizes.values);
  auto* const restored = device_memory<float>(sizes.values);
  auto* const frames = device_memory<std::byte>(tensors * room);
  auto* const from = device_memory<tuck::encode_item<float>>(tensors);
  auto* const to = device_memory<tuck::decode_item<float>>(tensors);
  auto* const outcomes = device_memory<tuck::outcome>(2 * tensors);
  const uint64_t scratch_size = tuck::scratch_bytes(codec{}, sizes);
  const tuck::scratch_span scratch({device_memory<std::byte>(scratch_size), scratch_size});

  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(tuck::initialize(scratch, stream));

  cudaGraph_t graph;
  cudaGraphExec_t both_ways;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  check(tuck::encode_batch(codec{}, {from, tensors}, sizes, scratch, {outcomes, tensors}, stream));
  check(tuck::decode_batch(codec{}, {to, tensors}, sizes, scratch, {outcomes + tensors, tensors}, stream));
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&both_ways, graph, 0));

  std::mt19937 random(1);
  std::normal_distribution<float> normal(-0.5f, 1);
  std::vector<float> layer(sizes.values), back(sizes.values);
  std::vector<tuck::encode_item<float>> from_now(tensors);
  std::vector<tuck::decode_item<float>> to_now(tensors);
  std::vector<tuck::outcome> seen(2 * tensors);
  uint64_t wrong = 0;
  for (int step = 1; step <= 3; ++step) {
    for (float& x : layer) x = std::max(normal(random), 0.0f);  // ReLU
    uint64_t before = 0, after = 0;
    for (uint32_t i = 0; i < tensors; ++i) {
      const uint64_t size = random() % (most_values + 1) >> random() % 8;  // most are small
      const uint64_t at = uint64_t{i} * most_values;
      from_now[i] = {{values + at, size}, {frames + i * room, room}};
      to_now[i] = {{frames + i * room, room}, {restored + at, size}};
      before += size * sizeof(float);
    }
    check(cudaMemcpyAsync(values, layer.data(), layer.size() * sizeof(float), cudaMemcpyDefault, stream));
    check(cudaMemcpyAsync(from, from_now.data(), tensors * sizeof from_now[0], cudaMemcpyDefault, stream));
    check(cudaMemcpyAsync(to, to_now.data(), tensors * sizeof to_now[0], cudaMemcpyDefault, stream));
    check(cudaGraphLaunch(both_ways, stream));
    check(cudaMemcpyAsync(seen.data(), outcomes, seen.size() * sizeof seen[0], cudaMemcpyDefault, stream));
    check(cudaMemcpyAsync(back.data(), restored, back.size() * sizeof(float), cudaMemcpyDefault, stream));
    check(cudaStreamSynchronize(stream));

    for (uint32_t i = 0; i < tensors; ++i) {
      const auto first = static_cast<std::ptrdiff_t>(i) * most_values;
      const auto size = static_cast<std::ptrdiff_t>(from_now[i].values.size());
      const bool whole = std::equal(layer.begin() + first, layer.begin() + first + size, back.begin() + first);
      wrong += !seen[i] || !seen[tensors + i] || !whole;
      after += seen[i].bytes;
    }
    std::printf("replay %d: %u tensors of %.1f KiB on average, %.2f MiB in frames of %.2f MiB\n", step, tensors,
                static_cast<double>(before) / 1024 / tensors, static_cast<double>(before) / (1 << 20),
                static_cast<double>(after) / (1 << 20));
  }
  std::printf("2 kernels a replay, where single calls would be %u; %llu tensors wrong\n", 2 * tensors,
              static_cast<unsigned long long>(wrong));

  check(cudaGraphExecDestroy(both_ways));
  check(cudaGraphDestroy(graph));
  for (void* p :
       {static_cast<void*>(values), static_cast<void*>(restored), static_cast<void*>(frames), static_cast<void*>(from),
        static_cast<void*>(to), static_cast<void*>(outcomes), static_cast<void*>(scratch.memory().data())})
    check(cudaFree(p));
  check(cudaStreamDestroy(stream));
  return wrong == 0 ? 0 : 1;
}
