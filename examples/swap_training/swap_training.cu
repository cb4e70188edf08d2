// The forward and backward pass of a network whose activations do not fit: each layer's input leaves the device while
// the layer runs, and comes back before its gradient is computed. What leaves and when it comes back is vDNN's rule;
// how it travels is one of four policies: as it is (vDNN), encoded by the CPU once it is there (vDNN++), encoded by the
// GPU on the way (cDMA), or within an error bound (COMET). Each value is checked when it is used again.
//
// The layers compute nothing real: activations are made up, with the shapes and about the zeros of a trained VGG-16.
#include "swap_training/network.hpp"

#include <tuck/swap.cuh>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>

namespace {

using swap_training::shaped_layer;

constexpr double error_bound = 1e-3;

// -- what a layer does ---------------------------------------------------------------------------------------------

struct activation {
  uint32_t seed, zeros;  // in 2^16

  __device__ static uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
  }
  __device__ float operator()(uint64_t i) const {
    const uint32_t random = mix(static_cast<uint32_t>(i) ^ mix(seed));
    return (random & 0xffff) < zeros ? 0.f : static_cast<float>(mix(random) >> 8) * 0x1p-22f;
  }
};

// Checks `count` values: those that are farther off than the bound are counted.
template <class Values>
__device__ void check_values(const Values& expected, const float* values, uint64_t count, double bound,
                             uint32_t* wrong) {
  uint32_t mine = 0;
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < count; i += uint64_t{gridDim.x} * blockDim.x) {
    const float x = expected(i), y = tuck::device::load(values + i);
    mine += x == 0 ? y != 0 : !(std::fabs(static_cast<double>(x) - static_cast<double>(y)) <= bound);
  }
  if (mine != 0) tuck::device::atomic_add(wrong, mine);
}

struct layer_job {
  activation in, out;
  const float* input;
  float* output;
  uint64_t inputs, outputs;
  double bound;  // of the input's error
  uint32_t* wrong;
};

__global__ void forward(const __grid_constant__ layer_job job) {
  check_values(job.in, job.input, job.inputs, job.bound, job.wrong);
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < job.outputs;
       i += uint64_t{gridDim.x} * blockDim.x)
    tuck::device::store(job.output + i, job.out(i));
}
__global__ void backward(const __grid_constant__ layer_job job) {
  check_values(job.in, job.input, job.inputs, job.bound, job.wrong);
}

void run(void (*kernel)(layer_job), const layer_job& job, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(std::clamp<uint64_t>(std::max(job.inputs, job.outputs) / 4096, 1, 512)));
  config.blockDim = dim3(256);
  config.stream = stream;
  tuck::detail::require(cudaLaunchKernelEx(&config, kernel, job));
}

// -- what the device has -------------------------------------------------------------------------------------------

// As much device memory as there is said to be. What is freed counts as free at once: stream order makes it so.
class budget {
 public:
  explicit budget(uint64_t bytes) : left_(bytes), total_(bytes) {}
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
using tensor = tuck::device_buffer<budget>;

// A pair of events around something on a stream.
class stopwatch {
 public:
  stopwatch() {
    tuck::detail::require(cudaEventCreate(&begin_));
    tuck::detail::require(cudaEventCreate(&end_));
  }
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

// -- training ------------------------------------------------------------------------------------------------------

struct policy {
  const char* name;
  const char* system;
  tuck::swap_path path;
  double bound;  // 0: every bit
};
constexpr policy policies[] = {{"raw", "vDNN", tuck::swap_path::raw, 0},
                               {"cpu", "vDNN++", tuck::swap_path::cpu, 0},
                               {"always", "cDMA", tuck::swap_path::direct, 0},
                               {"lossy", "COMET, fixed bound", tuck::swap_path::direct, error_bound}};

// What became of a layer's input in the last step. A way out or in that takes less time from the training than it takes
// when nothing else runs is hidden for the rest. Ratios are of what the host holds.
struct layer_record {
  uint64_t out = 0;         // bytes over the link
  uint64_t host_bytes = 0;  // held there; 0: it stayed
  double alone_out = 0, alone_in = 0, exposed_out = 0, exposed_in = 0;  // ms
};
struct outcome_of_run {
  std::vector<layer_record> layers;
  double step = 0;  // ms
  uint64_t out = 0, held = 0, host_peak = 0, device_peak = 0;
  uint32_t wrong = 0;
};

class training {
 public:
  training(const policy& p, const std::vector<shaped_layer>& network, uint64_t batch, uint64_t device_bytes,
           uint64_t pinned_bytes)
      : policy_(p),
        network_(network),
        batch_(batch),
        memory_(device_bytes),
        swap_({.pinned_bytes = pinned_bytes, .path = p.path}, memory_),
        records_(network.size()) {
    tuck::detail::require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (const auto& l : network) layers_.push_back(l.as_layer);
    wrong_ = tensor(memory_, sizeof(uint32_t), stream_);
    tuck::detail::require(cudaMemsetAsync(wrong_.all().data(), 0, sizeof(uint32_t), stream_));
  }
  ~training() {
    wrong_ = {};
    static_cast<void>(cudaStreamDestroy(stream_));
  }

  outcome_of_run run(int steps) {
    for (size_t i = 0; i < network_.size(); ++i)
      if (leaves(i)) profile(i);
    outcome_of_run result;
    for (step_ = 0; step_ < steps; ++step_) {
      stopwatch whole;
      whole.time(stream_, [&] {
        forward_pass();
        // The host is far ahead of the device. What the CPU encodes must have been computed before it is wanted back.
        if (policy_.path == tuck::swap_path::cpu) tuck::detail::require(swap_.drain());
        backward_pass();
      });
      tuck::detail::require(cudaStreamSynchronize(stream_));
      result.step = whole.milliseconds();
      tuck::detail::require(swap_.drain());
      result.out = result.held = 0;
      for (size_t i = 0; i < network_.size(); ++i) {
        records_[i].host_bytes = parked_[i].host_bytes();
        records_[i].out = policy_.path == tuck::swap_path::cpu ? parked_[i].raw_bytes() : records_[i].host_bytes;
        result.held += records_[i].host_bytes;
        result.out += records_[i].out;
      }
      parked_.clear();
    }
    tuck::detail::require(
        cudaMemcpyAsync(&result.wrong, wrong_.all().data(), sizeof result.wrong, cudaMemcpyDefault, stream_));
    tuck::detail::require(cudaStreamSynchronize(stream_));
    for (size_t i = 0; i < network_.size(); ++i) {
      records_[i].exposed_out = out_[i].milliseconds();
      records_[i].exposed_in = in_[i].milliseconds();
    }
    result.layers = records_;
    result.host_peak = swap_.statistics().peak;
    result.device_peak = memory_.peak();
    return result;
  }

 private:
  bool leaves(size_t i) const { return tuck::offloads(tuck::offload_set::all, layers_, i); }
  activation values_of(size_t i) const {
    return {static_cast<uint32_t>(step_) * 1000 + static_cast<uint32_t>(i),
            static_cast<uint32_t>(network_[i].sparsity * 65536)};
  }
  uint64_t values(size_t i) const { return network_[i].values(batch_); }
  tensor make(size_t i) { return tensor(memory_, values(i) * sizeof(float), stream_); }
  static float* data(const tensor& t) { return reinterpret_cast<float*>(t.all().data()); }

  void send(size_t i, const tensor& x, tuck::swap_handle& parked) {
    const tuck::span<const float> source(data(x), values(i));
    if (policy_.bound == 0)
      tuck::detail::require(swap_.out(tuck::zvc<float>{}, source, stream_, parked));
    else
      tuck::detail::require(
          swap_.out(tuck::quantize<float>(tuck::error_bound::absolute(policy_.bound)), source, stream_, parked));
  }

  // How long a tensor's way out and back takes when nothing else runs.
  void profile(size_t i) {
    const tensor x = make(i);
    run_layer(forward, i, nullptr, &x);
    stopwatch out, in;
    tuck::swap_handle parked;
    out.time(stream_, [&] {
      send(i, x, parked);
      if (!parked.kept_on_device()) tuck::detail::require(parked.wait_source(stream_));
    });
    tuck::detail::require(swap_.drain());
    in.time(stream_, [&] { tuck::detail::require(swap_.in(parked, x.all(), stream_)); });
    tuck::detail::require(cudaStreamSynchronize(stream_));
    records_[i].alone_out = out.milliseconds();
    records_[i].alone_in = in.milliseconds();
  }

  // The layer that reads `x`, the input of layer i - or of layer i - 1, which makes `y`, that of layer i.
  void run_layer(void (*kernel)(layer_job), size_t i, const tensor* x, const tensor* y, double bound = 0) {
    const size_t reads = x != nullptr && y != nullptr ? i - 1 : i;
    ::run(kernel,
          {values_of(reads), values_of(i), x ? data(*x) : nullptr, y ? data(*y) : nullptr, x ? values(reads) : 0,
           y ? values(i) : 0, bound, reinterpret_cast<uint32_t*>(wrong_.all().data())},
          stream_);
  }

  void forward_pass() {
    inputs_ = std::vector<tensor>(network_.size());
    parked_ = std::vector<tuck::swap_handle>(network_.size());
    out_ = std::vector<stopwatch>(network_.size());
    inputs_[0] = make(0);
    run_layer(forward, 0, nullptr, &inputs_[0]);  // the images
    for (size_t i = 0; i + 1 < network_.size(); ++i) {
      if (leaves(i)) send(i, inputs_[i], parked_[i]);  // while the layer runs
      inputs_[i + 1] = make(i + 1);
      run_layer(forward, i + 1, &inputs_[i], &inputs_[i + 1]);
      if (!leaves(i) || parked_[i].kept_on_device()) continue;
      out_[i].time(stream_, [&] { tuck::detail::require(parked_[i].wait_source(stream_)); });
      inputs_[i] = {};
    }
  }

  void backward_pass() {
    tuck::prefetch_order order(layers_, tuck::offload_set::all);
    in_ = std::vector<stopwatch>(network_.size());
    for (size_t i = network_.size(); i-- > 0;) {
      if (parked_[i] && !parked_[i].kept_on_device()) {
        inputs_[i] = make(i);
        in_[i].time(stream_, [&] { tuck::detail::require(swap_.in(parked_[i], inputs_[i].all(), stream_)); });
      }
      static_cast<void>(order.demand(i));
      if (const auto ahead = order.next(i)) tuck::detail::require(swap_.prefetch(parked_[*ahead]));
      const tensor gradient_of_output(memory_, layers_[i].output_bytes, stream_);
      const tensor gradient_of_input(memory_, layers_[i].input_bytes, stream_);
      run_layer(backward, i, &inputs_[i], nullptr, policy_.bound);
      inputs_[i] = {};
    }
  }

  const policy& policy_;
  const std::vector<shaped_layer>& network_;
  std::vector<tuck::layer> layers_;
  uint64_t batch_;
  int step_ = 0;
  cudaStream_t stream_ = nullptr;
  budget memory_;
  tuck::swap_stream swap_;
  tensor wrong_;
  std::vector<layer_record> records_;
  std::vector<tensor> inputs_;
  std::vector<tuck::swap_handle> parked_;
  std::vector<stopwatch> out_, in_;
};

double kib(uint64_t bytes) { return static_cast<double>(bytes) / 1024; }

void print_layers(const policy& p, const std::vector<shaped_layer>& network, const outcome_of_run& r) {
  std::printf("\n%s (%s): a step takes %.2f ms\n", p.name, p.system, r.step);
  std::printf("  %-9s %10s %9s %9s %9s %6s %19s %19s\n", "", "", "", "", "", "", "out, ms", "in, ms");
  std::printf("  %-9s %10s %9s %9s %9s %6s %10s %8s %10s %8s\n", "layer", "input", "KiB", "KiB out", "KiB held",
              "ratio", "hidden", "exposed", "hidden", "exposed");
  for (size_t i = 0; i < network.size(); ++i) {
    const layer_record& l = r.layers[i];
    const shaped_layer& n = network[i];
    const std::string shape = std::to_string(n.channels) + "x" + std::to_string(n.side) + "x" + std::to_string(n.side);
    std::printf("  %-9s %10s %9.1f", n.name.c_str(), shape.c_str(), kib(n.as_layer.input_bytes));
    if (l.host_bytes == 0)
      std::printf(" %9s\n", "stays");
    else
      std::printf(" %9.1f %9.1f %6.2f %10.3f %8.3f %10.3f %8.3f\n", kib(l.out), kib(l.host_bytes),
                  static_cast<double>(n.as_layer.input_bytes) / static_cast<double>(l.host_bytes),
                  std::max(l.alone_out - l.exposed_out, 0.), l.exposed_out, std::max(l.alone_in - l.exposed_in, 0.),
                  l.exposed_in);
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t batch = 1;
  int steps = 2;
  double budget_percent = 75;
  std::string wanted = "all";
  CLI::App app("Trains a network whose activations do not fit, under several swap policies");
  app.add_option("--batch", batch, "images in a batch")->check(CLI::Range(1, 1 << 16));
  app.add_option("--steps", steps, "forward and backward passes")->check(CLI::Range(1, 1000));
  app.add_option("--budget", budget_percent, "device memory, in percent of what training without swapping needs")
      ->check(CLI::Range(1., 1000.))
      ->check([](const std::string& text) { return text.find("nan") == text.npos ? "" : "is no number"; });
  app.add_option("--policy", wanted, "raw, cpu, always, lossy or all")
      ->check(CLI::IsMember({"raw", "cpu", "always", "lossy", "all"}));
  CLI11_PARSE(app, argc, argv);

  const auto network = swap_training::vgg16(batch);
  std::vector<tuck::layer> layers;
  uint64_t activations = 0;
  for (const auto& l : network) {
    layers.push_back(l.as_layer);
    activations += l.as_layer.input_bytes;
  }
  const uint64_t without = tuck::peak_bytes(layers, tuck::offload_set::none, true);
  const auto device_bytes = static_cast<uint64_t>(static_cast<double>(without) * budget_percent / 100);
  std::printf(
      "VGG-16, batch %llu: activations %.0f KiB, without swapping at most %.0f KiB in use; device budget %.0f KiB\n",
      static_cast<unsigned long long>(batch), kib(activations), kib(without), kib(device_bytes));
#if defined(TUCK_CUDASIM)
  std::printf("Kernels run on a simulator: bytes are right, times are the simulator's and mean nothing.\n");
#endif

  const policy* running = nullptr;
  std::vector<std::pair<const policy*, outcome_of_run>> results;
  try {
    for (const policy& p : policies) {
      if (wanted != "all" && wanted != p.name) continue;
      running = &p;
      results.emplace_back(&p, training(p, network, batch, device_bytes, 2 * activations).run(steps));
      print_layers(p, network, results.back().second);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "swap_training: policy %s, %.0f KiB of device and %.0f KiB of pinned memory: %s\n",
                 running->name, kib(device_bytes), kib(2 * activations), e.what());
    return 1;
  }

  std::printf("\n%-8s %9s %9s %6s %14s %16s %13s\n", "policy", "KiB out", "KiB held", "ratio", "host peak KiB",
              "device peak KiB", "wrong values");
  uint64_t raw = 0, wrong = 0;
  for (size_t i = 0; i < layers.size(); ++i)
    raw += tuck::offloads(tuck::offload_set::all, layers, i) ? layers[i].input_bytes : 0;
  for (const auto& [p, r] : results) {
    std::printf("%-8s %9.1f %9.1f %6.2f %14.1f %16.1f %13u\n", p->name, kib(r.out), kib(r.held),
                static_cast<double>(raw) / static_cast<double>(r.held), kib(r.host_peak), kib(r.device_peak), r.wrong);
    wrong += r.wrong;
  }
  return wrong == 0 ? 0 : 1;
}
