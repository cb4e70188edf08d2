// Copies within device memory and over the link, and what swap_stream makes of the link.
#include "bench/gpu_check/experiments.hpp"
#include "bench/micro/device_timing.cuh"
#include "bench/micro/tensors.hpp"

#include <tuck/swap.cuh>

namespace tuck::bench {
namespace {

constexpr bool simulated = tools::simulated;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Of runs of `work` on the timing's stream; none on the simulator, which runs it once.
template <class Work>
std::vector<double> seconds_of(const device_timing& timing, const run_limits& limits, const Work& work) {
  if (!simulated) return std::move(timing.in_turn(limits, work)[0]);
  work(0);
  timing.wait();
  return {};
}

class pinned_memory {
 public:
  explicit pinned_memory(uint64_t size) : size_(size) {
    require(cudaHostAlloc(&data_, size, cudaHostAllocPortable | cudaHostAllocMapped));
  }
  pinned_memory(const pinned_memory&) = delete;
  pinned_memory& operator=(const pinned_memory&) = delete;
  ~pinned_memory() { static_cast<void>(cudaFreeHost(data_)); }
  bytes all() const { return {static_cast<std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  uint64_t size_;
};

// -- copies --------------------------------------------------------------------------------------------------------

void try_copy(const experiment_settings& s, const device_timing& timing, const char* what, bytes to, const_bytes from) {
  const auto copy = [&](uint32_t) {
    require(cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyDefault, timing.stream()));
  };
  const auto seconds = seconds_of(timing, s.limits, copy);
  s.found(record("copy").add("what", what).add("raw_bytes", to.size()).add_times(seconds, to.size()));
}

// What all else is compared with. A copy within the device reads and writes each byte: the memory moves twice the rate.
void copies(const experiment_settings& s) {
  for (const uint64_t size : {s.raw_bytes / 64, s.raw_bytes / 4, s.raw_bytes}) {
    const device_timing timing(2, 2 * size);
    const tools::device_memory from(size), to(size);
    const pinned_memory host(size);
    const auto seconds =
        seconds_of(timing, s.limits, [&](uint32_t) { launch_copy(from.all(), to.all(), timing.stream()); });
    s.found(record("copy").add("what", "kernel").add("raw_bytes", size).add_times(seconds, size));
    try_copy(s, timing, "cudaMemcpy", to.all(), from.all());
    try_copy(s, timing, "to the host", host.all(), from.all());
    try_copy(s, timing, "from the host", to.all(), host.all());
  }
}

// -- swapping ------------------------------------------------------------------------------------------------------

struct link_rates {
  double out = 0, in = 0;  // bytes a second of the copy engine; nothing on the simulator
};

link_rates rates_of_link(const experiment_settings& s) {
  const device_timing timing(2, 2 * copy_bytes);
  const tools::device_memory device(s.raw_bytes);
  const pinned_memory host(s.raw_bytes);
  const auto rate = [&](bytes to, const_bytes from) {
    const auto seconds = seconds_of(timing, s.limits, [&](uint32_t) {
      require(cudaMemcpyAsync(to.data(), from.data(), to.size(), cudaMemcpyDefault, timing.stream()));
    });
    return seconds.empty() ? 0 : static_cast<double>(s.raw_bytes) / statistics_of(seconds).median;
  };
  return {rate(host.all(), device.all()), rate(device.all(), host.all())};
}

const char* name_of(swap_path path) {
  constexpr const char* names[] = {"direct", "staged", "raw", "cpu"};
  return names[static_cast<int>(path)];
}

// Computes, and touches no memory.
__global__ void busy_kernel(uint32_t steps, float* never) {
  float a = static_cast<float>(threadIdx.x), b = 1, c = 2, d = 3;
  for (uint32_t i = 0; i < steps; ++i) {
    a = a * .999f + 1;
    b = b * .998f + a;
    c = c * .997f + b;
    d = d * .996f + c;
  }
  if (d == -1) *never = d;  // which it is not, but the compiler does not know
}

// Launches one behind the other, as a network's layers are: between them others have their turn.
class neighbour {
 public:
  neighbour() : never_(sizeof(float)) {
    int resident = 0;
    require(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, busy_kernel, threads, 0));
    at_once_ = static_cast<unsigned>(std::max(resident * device_attribute(cudaDevAttrMultiProcessorCount), 1));
  }

  // Makes it run for about so long, alone.
  void last(double seconds) {
    static_cast<void>(run());  // loads the code
    const double one = run() / launches_;
    if (!simulated) launches_ = static_cast<unsigned>(std::clamp(seconds / one, 4., 1e4));
  }
  void begin() const {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(waves * at_once_);
    config.blockDim = dim3(threads);
    config.stream = stream_;
    watch_.begin(stream_);
    for (unsigned i = 0; i < launches_; ++i)
      require(cudaLaunchKernelEx(&config, busy_kernel, steps, reinterpret_cast<float*>(never_.all().data())));
    watch_.end(stream_);
  }
  double end() const { return watch_.seconds(); }
  double run() const {
    begin();
    return end();
  }

 private:
  // Blocks are short and many, so that one processor less is not felt as one wave more.
  static constexpr uint32_t threads = 256, steps = simulated ? 4 : 1000, waves = simulated ? 1 : 8;

  tools::device_memory never_;
  tools::device_stream stream_;
  tools::device_stopwatch watch_;
  unsigned at_once_ = 1, launches_ = 4;
};

// One tensor out and in again and again, by one path on so many blocks.
class swapper {
 public:
  swapper(const tensor& t, swap_path path, unsigned blocks)
      : raw_(t.all()),
        values_(raw_.size()),
        path_(path),
        swap_({.pinned_bytes = 2 * max_frame_bytes(codec, raw_.size() / sizeof(float), {.alignment = append_alignment}),
               .limits = {.max_blocks = blocks},
               .path = path},
              memory_) {
    values_.upload(raw_, stream_);
  }

  // What it took until nothing was under way any more.
  double out() {
    // Else its frame stays until the next one has its room, and lies between two parts that are both too small.
    handle_.reset();
    const auto begin = std::chrono::steady_clock::now();
    require(swap_.out(codec, values(), stream_, handle_));
    require(swap_.drain());
    const double seconds = seconds_since(begin);
    if (handle_.kept_on_device()) throw std::runtime_error("the pool is full");
    return seconds;
  }
  double in() {
    require(cudaMemsetAsync(values_.all().data(), 0xa5, values_.all().size(), stream_));
    stream_.wait();
    const auto begin = std::chrono::steady_clock::now();
    require(swap_.in(handle_, values(), stream_));
    stream_.wait();
    const double seconds = seconds_since(begin);
    require(swap_.drain());
    return seconds;
  }
  void check() const {
    std::vector<std::byte> restored(raw_.size());
    values_.download({restored.data(), restored.size()}, stream_);
    if (!std::equal(raw_.begin(), raw_.end(), restored.begin()))
      throw std::runtime_error(std::string(name_of(path_)) + ": what came back is not what was swapped out");
  }
  uint64_t host_bytes() const { return handle_.host_bytes(); }

 private:
  static constexpr zvc<float> codec{};
  span<float> values() const { return {reinterpret_cast<float*>(values_.all().data()), raw_.size() / sizeof(float)}; }

  const_bytes raw_;
  tools::device_memory values_;
  tools::device_stream stream_;
  swap_path path_;
  async_resource memory_;
  swap_stream swap_;
  swap_handle handle_;
};

// Times of each, as often as the limits say; the first, which reserves memory, is not counted.
template <class... Calls>
std::array<std::vector<double>, sizeof...(Calls)> host_times(const run_limits& limits, const Calls&... calls) {
  std::array<std::vector<double>, sizeof...(Calls)> seconds;
  (static_cast<void>(calls()), ...);
  const auto begin = std::chrono::steady_clock::now();
  while (!simulated && (seconds[0].size() < limits.least_runs ||
                        (seconds[0].size() < limits.most_runs && seconds_since(begin) < limits.seconds))) {
    size_t at = 0;
    (seconds[at++].push_back(calls()), ...);
  }
  return seconds;
}

// of_link: the bytes that crossed it, over what the copy engine would have moved in the same time.
void add_link(record& r, const std::vector<double>& seconds, uint64_t crossed, double rate) {
  r.add("link_bytes", crossed).add("link_gb_per_s", rate == 0 ? std::nan("") : rate * 1e-9);
  r.add("of_link", static_cast<double>(crossed) / (statistics_of(seconds).median * rate));
}

void swaps(const experiment_settings& s) {
  const link_rates link = rates_of_link(s);
  for (const double sparsity : {.6, .9}) {
    const tensor t = tensor_maker("").make({dtype::f32, pattern::clustered, sparsity, s.raw_bytes});
    for (const swap_path path : {swap_path::raw, swap_path::staged, swap_path::direct, swap_path::cpu}) {
      swapper one(t, path, swap_options{}.limits.max_blocks);
      const auto seconds = host_times(s.limits, [&] { return one.out(); }, [&] { return one.in(); });
      one.check();
      for (const bool out : {true, false}) {
        record r("swap");
        r.add("operation", out ? "out" : "in").add("path", name_of(path)).add("sparsity", sparsity);
        r.add("raw_bytes", s.raw_bytes).add_times(seconds[out ? 0 : 1], s.raw_bytes);
        const bool crosses_raw = out && path == swap_path::cpu;  // which encodes afterwards
        add_link(r, seconds[out ? 0 : 1], crosses_raw ? s.raw_bytes : one.host_bytes(), out ? link.out : link.in);
        s.found(r);
      }
    }
  }
}

// -- swapping out by few blocks, alone and beside a kernel that computes ---------------------------------------------

void try_blocks(const experiment_settings& s, const tensor& t, double sparsity, unsigned blocks, double rate) {
  swapper one(t, swap_path::direct, blocks);
  const auto hand_on = [&](bool beside, const std::vector<double>& seconds) -> record {
    record r("blocks");
    r.add("operation", "out").add("path", "direct").add("sparsity", sparsity).add("max_blocks", uint64_t{blocks});
    r.add("beside", beside).add("raw_bytes", s.raw_bytes).add_times(seconds, s.raw_bytes);
    add_link(r, seconds, one.host_bytes(), rate);
    return r;
  };
  const auto alone = host_times(s.limits, [&] { return one.out(); })[0];
  s.found(hand_on(false, alone));

  neighbour busy;
  busy.last(2 * statistics_of(alone).median);
  const double undisturbed = busy.run();
  std::vector<double> of_neighbour;
  const auto beside = host_times(s.limits, [&] {
    busy.begin();
    const double seconds = one.out();
    of_neighbour.push_back(busy.end());
    return seconds;
  })[0];
  static_cast<void>(one.in());
  one.check();
  record r = hand_on(true, beside);
  // Of the neighbour's time: how much longer it took, in processors that the swap had to itself while it ran.
  const double lost = statistics_of(of_neighbour).median - undisturbed;
  const int processors = device_attribute(cudaDevAttrMultiProcessorCount);
  r.add("neighbour_seconds", simulated ? std::nan("") : undisturbed);
  s.found(r.add("processors_taken", lost / statistics_of(beside).median * processors));
}

void blocks(const experiment_settings& s) {
  const double rate = rates_of_link(s).out;
  for (const double sparsity : {.6, .9}) {
    const tensor t = tensor_maker("").make({dtype::f32, pattern::clustered, sparsity, s.raw_bytes});
    for (const unsigned count : {1, 2, 4, 8, 16, 32, 64}) try_blocks(s, t, sparsity, count, rate);
  }
}

}  // namespace

bool kernels_are_simulated() { return simulated; }

std::optional<int> processors_of_device() {
  if (simulated || !describe_device()) return {};
  return device_attribute(cudaDevAttrMultiProcessorCount);
}

std::span<const experiment> link_experiments() {
  static const experiment all[] = {
      {"copy", "copies within device memory and over the link, three sizes", copies},
      {"swap", "ZVC out to pinned memory and back by each path", swaps},
      {"blocks", "the direct path on 1 to 64 blocks, alone and beside a kernel that computes", blocks},
  };
  return all;
}

}  // namespace tuck::bench
