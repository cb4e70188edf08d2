// What short calls cost: alone, one behind the other, in a graph, and in a batch.
#include "bench/gpu_check/experiments.hpp"
#include "bench/micro/device_timing.cuh"
#include "bench/micro/tensors.hpp"

#include <tuck/device.cuh>

namespace tuck::bench {
namespace {

constexpr uint32_t calls_in_row = 32;
constexpr double sparsity = .6;

// Calls on one tensor each, which stay in the cache.
class short_calls {
  using C = zvc<float>;

 public:
  explicit short_calls(uint64_t raw_bytes)
      : count_(raw_bytes / sizeof(float)),
        values_(calls_in_row, raw_bytes),
        frames_(calls_in_row, max_frame_bytes(C{}, count_)),
        scratch_(scratch_bytes(C{}, sizes())),
        outcomes_(calls_in_row * sizeof(outcome)),
        to_encode_(calls_in_row * sizeof(encode_item<float>)),
        to_decode_(calls_in_row * sizeof(decode_item<float>)) {
    const tensor t = tensor_maker("").make({dtype::f32, pattern::clustered, sparsity, raw_bytes});
    std::vector<encode_item<float>> from;
    std::vector<decode_item<float>> to;
    for (uint32_t i = 0; i < calls_in_row; ++i) {
      require(cudaMemcpyAsync(values_[i].data(), t.values.data(), raw_bytes, cudaMemcpyDefault, stream_));
      from.push_back({values(i), frames_[i]});
      to.push_back({frames_[i], values(i)});
    }
    to_encode_.upload(as_bytes(span<const encode_item<float>>(from.data(), from.size())), stream_);
    to_decode_.upload(as_bytes(span<const decode_item<float>>(to.data(), to.size())), stream_);
    require(initialize(scratch_.scratch(), stream_));
    stream_.wait();
  }

  void call(bool encodes, uint32_t i) const {
    if (encodes)
      require(tuck::encode(C{}, values(i), frames_[i], scratch_.scratch(), written() + i, stream_));
    else
      require(tuck::decode(C{}, frames_[i], values(i), scratch_.scratch(), written() + i, stream_));
  }
  void batch(bool encodes) const {
    const span<outcome> outcomes(written(), calls_in_row);
    if (encodes)
      require(tuck::encode_batch(
          C{},
          span<const encode_item<float>>(reinterpret_cast<encode_item<float>*>(to_encode_.all().data()), calls_in_row),
          sizes(), scratch_.scratch(), outcomes, stream_));
    else
      require(tuck::decode_batch(
          C{},
          span<const decode_item<float>>(reinterpret_cast<decode_item<float>*>(to_decode_.all().data()), calls_in_row),
          sizes(), scratch_.scratch(), outcomes, stream_));
  }
  void row(bool encodes) const {
    for (uint32_t i = 0; i < calls_in_row; ++i) call(encodes, i);
  }
  cudaStream_t stream() const { return stream_; }

  // Of each run of `work`; none on the simulator, which runs it once.
  std::vector<double> seconds(const run_limits& limits, const std::function<void()>& work) const {
    std::vector<double> all;
    const tools::device_stopwatch watch;
    const uint32_t runs = tools::simulated ? 1 : limits.most_runs;
    for (uint32_t run = 0; run <= runs; ++run) {  // the first one loads the code
      watch.begin(stream_);
      work();
      watch.end(stream_);
      stream_.wait();
      if (run != 0 && !tools::simulated) all.push_back(watch.seconds());
    }
    require_ok();
    return all;
  }

 private:
  batch_sizes sizes() const { return {calls_in_row, calls_in_row * count_}; }
  span<float> values(uint32_t i) const { return {reinterpret_cast<float*>(values_[i].data()), count_}; }
  outcome* written() const { return reinterpret_cast<outcome*>(outcomes_.all().data()); }
  void require_ok() const {
    outcome first;  // which every way of calling has
    require(cudaMemcpyAsync(&first, written(), sizeof first, cudaMemcpyDefault, stream_));
    stream_.wait();
    require(tuck::result{.code = first.code});
  }

  uint64_t count_;
  tools::device_stream stream_;
  device_buffers values_, frames_;
  tools::device_memory scratch_, outcomes_, to_encode_, to_decode_;
};

// What is given to the stream meanwhile, as one thing that can be launched often.
class captured_graph {
 public:
  template <class Work> captured_graph(cudaStream_t stream, const Work& work) {
    require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    work();
    require(cudaStreamEndCapture(stream, &graph_));
    require(cudaGraphInstantiate(&executable_, graph_, 0));
  }
  captured_graph(const captured_graph&) = delete;
  captured_graph& operator=(const captured_graph&) = delete;
  ~captured_graph() {
    static_cast<void>(cudaGraphExecDestroy(executable_));
    static_cast<void>(cudaGraphDestroy(graph_));
  }
  void launch(cudaStream_t stream) const { require(cudaGraphLaunch(executable_, stream)); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

void try_short_calls(const experiment_settings& s, uint64_t raw_bytes, bool encodes) {
  const short_calls calls(raw_bytes);
  calls.row(true);  // for decode to have frames
  const auto hand_on = [&](const char* way, uint32_t at_once, const std::function<void()>& work) {
    std::vector<double> seconds = calls.seconds(s.limits, work);
    for (double& x : seconds) x /= at_once;
    record r("latency");
    r.add("operation", encodes ? "encode" : "decode").add("codec", "zvc").add("type", "f32").add("sparsity", sparsity);
    r.add("raw_bytes", raw_bytes);
    s.found(r.add("way", way).add("calls", uint64_t{at_once}).add_times(seconds, raw_bytes));
  };
  const captured_graph graph(calls.stream(), [&] { calls.row(encodes); });
  hand_on("one call", 1, [&] { calls.call(encodes, 0); });
  hand_on("in a row", calls_in_row, [&] { calls.row(encodes); });
  hand_on("graph", calls_in_row, [&] { graph.launch(calls.stream()); });
  hand_on("batch", calls_in_row, [&] { calls.batch(encodes); });
}

void latency(const experiment_settings& s) {
  constexpr uint64_t largest = 1 << 20;
  for (uint64_t size = 4096; size <= std::min(largest, s.raw_bytes); size *= 4)
    for (const bool encodes : {true, false}) try_short_calls(s, size, encodes);
}

}  // namespace

std::span<const experiment> latency_experiments() {
  static const experiment all[] = {
      {"latency", "ZVC of 4 KiB to 1 MiB: one call, in a row, in a graph, in a batch", latency},
  };
  return all;
}

}  // namespace tuck::bench
