// How calls on the device are measured: on a GPU by events, in turn with a kernel that copies; elsewhere by what one
// call moves or executes. Coders say how they launch, and the rest is here.
#pragma once

#include "bench/micro/device.hpp"
#include "support/on_device.cuh"

#if defined(TUCK_CUDAPTX)
#include "bench/micro/device_counts.cuh"
#endif

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

namespace tuck::bench {

using tools::require;

// Buffers of one size in device memory, which runs use in turn.
class device_buffers {
 public:
  device_buffers(uint32_t count, uint64_t size)
      : count_(count), size_(size), pitch_(round_up_pow2(size, 8)), memory_(count * pitch_) {}

  uint32_t count() const noexcept { return count_; }
  bytes operator[](uint32_t i) const noexcept { return memory_.all().subspan(i * pitch_, size_); }
  bytes all() const noexcept { return memory_.all(); }

 private:
  uint32_t count_;
  uint64_t size_, pitch_;
  tools::device_memory memory_;
};

inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  require(cudaGetDevice(&device));
  require(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

// Of tensors of that size: several that do not fit the L2 cache together, up to 8. One where nothing is timed.
inline uint32_t buffers_in_turn(uint64_t tensor_bytes) {
  if (tools::simulated) return 1;
  const uint64_t wanted = 4 * static_cast<uint64_t>(device_attribute(cudaDevAttrL2CacheSize));
  return static_cast<uint32_t>(std::clamp<uint64_t>(wanted / std::max<uint64_t>(tensor_bytes, 1), 2, 8));
}

inline constexpr uint32_t copy_threads = 256;
inline constexpr uint64_t copy_bytes = sizeof(device::vec128);  // it copies so many, or a multiple
struct copy_job {
  const device::vec128* from;
  device::vec128* to;
  uint64_t count;
};

// A thread has so many loads under way before its first store.
template <uint32_t threads, uint64_t unroll = 4> __global__ void __launch_bounds__(threads) copy_kernel(copy_job job) {
  const uint64_t stride = uint64_t{gridDim.x} * threads;
  uint64_t i = uint64_t{blockIdx.x} * threads + threadIdx.x;
  for (; i + (unroll - 1) * stride < job.count; i += unroll * stride) {
    device::vec128 seen[unroll];
#pragma unroll
    for (uint64_t k = 0; k < unroll; ++k) seen[k] = device::load(job.from + i + k * stride);
#pragma unroll
    for (uint64_t k = 0; k < unroll; ++k) device::store(job.to + i + k * stride, seen[k]);
  }
  for (; i < job.count; i += stride) device::store(job.to + i, device::load(job.from + i));
}

// Words that look like nothing: memory may be faster where all are alike.
template <uint32_t threads> __global__ void __launch_bounds__(threads) fill_kernel(copy_job job) {
  const uint64_t stride = uint64_t{gridDim.x} * threads;
  for (uint64_t i = uint64_t{blockIdx.x} * threads + threadIdx.x; i < job.count; i += stride) {
    device::vec128 word;
    for (uint32_t k = 0; k < 4; ++k) {
      const auto mixed = (4 * i + k + 1) * 0x9e3779b97f4a7c15u;
      word.w[k] = static_cast<uint32_t>((mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u >> 32);
    }
    device::store(job.to + i, word);
  }
}

inline void launch(void (*kernel)(copy_job), const copy_job& job, cudaStream_t stream) {
  int resident = 0;
  require(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, copy_threads, 0));
  const int blocks = std::max(resident * device_attribute(cudaDevAttrMultiProcessorCount), 1);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(
      std::clamp<uint64_t>(ceil_div(job.count, uint64_t{copy_threads}), 1, static_cast<uint64_t>(blocks))));
  config.blockDim = dim3(copy_threads);
  config.stream = stream;
  require(cudaLaunchKernelEx(&config, kernel, job));
}

inline copy_job job_of(const_bytes from, bytes to) {
  return {reinterpret_cast<const device::vec128*>(from.data()), reinterpret_cast<device::vec128*>(to.data()),
          to.size() / copy_bytes};
}
inline void launch_fill(bytes to, cudaStream_t stream) { launch(fill_kernel<copy_threads>, job_of(to, to), stream); }
inline void launch_copy(const_bytes from, bytes to, cudaStream_t stream) {
  launch(copy_kernel<copy_threads>, job_of(from, to), stream);
}

class device_timing {
 public:
  // For calls that take `buffers` in turn and move at most so many bytes.
  device_timing(uint32_t buffers, uint64_t most_moved_bytes)
      : flushed_(flush_bytes()),
        copy_from_(buffers, copied(most_moved_bytes)),
        copy_to_(buffers, copied(most_moved_bytes)) {
    if constexpr (tools::simulated)
      require(cudaMemsetAsync(copy_from_.all().data(), 0x5a, copy_from_.all().size(), stream_));
    else
      launch_fill(copy_from_.all(), stream_);
    stream_.wait();
  }

  cudaStream_t stream() const noexcept { return stream_; }
  void wait() const { stream_.wait(); }

  // What call(i) costs, which launches on stream() what uses buffers i. result() waits, throws where what ran last
  // failed, and says how many bytes a run must move.
  template <class Call, class Result>
  device_cost measure([[maybe_unused]] const run_limits& limits, const Call& call, const Result& result) const {
    device_cost cost;
#if defined(TUCK_CUDAPTX)
    const counting all;
    call(0);
    stream_.wait();
    cost = all.seen();
    cost.predicted = take_prediction();
    const uint64_t moved = result();
    if (cost.predicted.made()) {
      copy_once(0, copied(moved));
      stream_.wait();
      cost.predicted.copy_seconds = take_prediction().seconds;
    }
#elif defined(TUCK_CUDASIM)
    tools::count_traffic();
    call(0);
    stream_.wait();
    const cudasim::counters seen = cudasim::snapshot();
    cost.moved_bytes = tools::moved_bytes(seen);
    cost.launches = seen.launches;
    result();
#else
    call(0);
    const uint64_t moved = result();
    auto seconds = in_turn(limits, call, [&](uint32_t i) { copy_once(i, copied(moved)); });
    result();
    cost.moved_bytes = static_cast<double>(moved);
    cost.seconds = std::move(seconds[0]);
    cost.copy_seconds = std::move(seconds[1]);
#endif
    return cost;
  }

  // Of a copy that moves so many bytes.
  std::vector<double> copy_seconds(const run_limits& limits, uint64_t moved_bytes) const {
    return std::move(in_turn(limits, [&](uint32_t i) { copy_once(i, copied(moved_bytes)); })[0]);
  }

  // To be counted: one load at a time, as one writes it oneself, 2 instructions for 128 bytes. To be timed: as above.
  void copy_plainly(uint32_t i, uint64_t size) const {
    if (model_in_use()) return copy_once(i, size);
    launch(copy_kernel<copy_threads, 1>, job_of(copy_from_[i].subspan(0, size), copy_to_[i].subspan(0, size)), stream_);
  }

  // Runs the calls in turn and returns the seconds of each. The first runs are not counted: code is loaded there.
  template <class... Calls>
  std::array<std::vector<double>, sizeof...(Calls)> in_turn(const run_limits& limits, const Calls&... calls) const {
    constexpr uint32_t warm_ups = 2;
    std::array<std::vector<double>, sizeof...(Calls)> seconds;
    const std::array<tools::device_stopwatch, sizeof...(Calls)> watches;
    enough_runs enough(limits);
    auto begin = std::chrono::steady_clock::now();
    for (uint32_t run = 0;; ++run) {
      if (run == warm_ups) begin = std::chrono::steady_clock::now();
      size_t at = 0;
      (timed(watches[at++], [&] { calls(run % copy_to_.count()); }), ...);
      wait();
      if (run < warm_ups) continue;
      for (at = 0; at < watches.size(); ++at) seconds[at].push_back(watches[at].seconds());
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
      if (enough(passed.count(), seconds)) return seconds;
    }
  }

 private:
  // Twice the L2 cache; and so many that the host has launched a call before they are written, so that the time
  // between the events is the device's alone.
  static uint64_t flush_bytes() {
    if (tools::simulated) return 1;
    return std::max<uint64_t>(2 * static_cast<uint64_t>(device_attribute(cudaDevAttrL2CacheSize)), 256 << 20);
  }

  // A copy of so many reads and writes about moved_bytes.
  static uint64_t copied(uint64_t moved_bytes) {
    return std::max(moved_bytes / 2 / copy_bytes, uint64_t{1}) * copy_bytes;
  }

  void copy_once(uint32_t i, uint64_t size) const {
    launch_copy(copy_from_[i].subspan(0, size), copy_to_[i].subspan(0, size), stream_);
  }

  template <class Call> void timed(const tools::device_stopwatch& watch, const Call& call) const {
    require(cudaMemsetAsync(flushed_.all().data(), 0x5a, flushed_.all().size(), stream_));
    watch.begin(stream_);
    call();
    watch.end(stream_);
  }

  tools::device_stream stream_;
  tools::device_memory flushed_;
  device_buffers copy_from_, copy_to_;
};

// All of a device_coder but its calls: how these are launched on stream() for run i, with tensor(i) and result(i), and
// what became of the last one. The functions finish_... wait, and throw where it failed.
class timed_coder : public device_coder {
 public:
  device_cost encode(const_bytes raw, const run_limits& limits) final {
    check(raw.size() == raw_bytes_, "the tensor to encode has another length");
    encoded_bytes_.reset();
    for (uint32_t i = 0; i < tensors_.count(); ++i) put(raw, tensor(i));
    uint32_t last = 0;
    const auto launch = [&](uint32_t i) { launch_encode(last = i); };
    uint64_t written = 0;
    device_cost cost = timing_.measure(limits, launch, [&] { return raw_bytes_ + (written = finish_encode()); });
    for (uint32_t i = 0; i < results_.count(); ++i)
      if (i != last) put(result(last), result(i));
    encoded_bytes_ = written;
    return cost;
  }

  uint64_t encoded_bytes() const final { return encoded_bytes_.value_or(0); }

  device_cost decode(bytes out, const run_limits& limits) final {
    check(encoded_bytes_.has_value(), "there is nothing to decode");
    check(out.size() == raw_bytes_, "the room to decode into has another length");
    // What comes back was not there before.
    require(cudaMemsetAsync(tensors_.all().data(), 0xa5, tensors_.all().size(), stream()));
    uint32_t last = 0;
    const auto launch = [&](uint32_t i) { launch_decode(last = i); };
    device_cost cost = timing_.measure(limits, launch, [&] {
      finish_decode();
      return raw_bytes_ + *encoded_bytes_;
    });
    put(tensor(last), out);
    return cost;
  }

 protected:
  timed_coder(uint64_t raw_bytes, uint64_t most_encoded_bytes)
      : raw_bytes_(raw_bytes),
        timing_(buffers_in_turn(raw_bytes), tools::simulated && !model_in_use() ? 0 : raw_bytes + most_encoded_bytes),
        tensors_(buffers_in_turn(raw_bytes), raw_bytes),
        results_(buffers_in_turn(raw_bytes), most_encoded_bytes) {}

  cudaStream_t stream() const noexcept { return timing_.stream(); }
  uint32_t buffers() const noexcept { return tensors_.count(); }
  bytes tensor(uint32_t i) const noexcept { return tensors_[i]; }
  bytes result(uint32_t i) const noexcept { return results_[i]; }

  // Copies to the host or from it, and waits.
  void put(const_bytes from, bytes to) const {
    if (!from.empty()) require(cudaMemcpyAsync(to.data(), from.data(), from.size(), cudaMemcpyDefault, stream()));
    timing_.wait();
  }

  virtual void launch_encode(uint32_t i) = 0;
  virtual uint64_t finish_encode() = 0;  // bytes of the result, all that decoding needs included
  virtual void launch_decode(uint32_t) { check(false, "this coder only encodes"); }
  virtual void finish_decode() {}

 private:
  static void check(bool holds, const char* otherwise) {
    if (!holds) throw std::runtime_error(otherwise);
  }

  uint64_t raw_bytes_;
  device_timing timing_;
  device_buffers tensors_, results_;
  std::optional<uint64_t> encoded_bytes_;
};

}  // namespace tuck::bench
