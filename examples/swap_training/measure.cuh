// The profiling pass before a training: the link, what computing hides, and codecs on a few tensors. Memory for it is
// not of the training's budget.
#pragma once

#include "swap_training/layer_work.cuh"
#include "swap_training/profile.hpp"

#include <tuple>

namespace swap_training {

class profiler {
 public:
  profiler(const std::vector<shaped_layer>& network, uint64_t batch) : network_(network), batch_(batch) {
    for (const auto& l : network) most_ = std::max(most_, l.as_layer.input_bytes);
    values_ = device_memory(memory_, most_, stream_);
    other_ = device_memory(memory_, most_, stream_);
    wrong_ = device_memory(memory_, sizeof(uint32_t), stream_);
  }

  // Times are measured where they mean something, and assumed elsewhere; ratios are measured.
  training_profile run() {
    training_profile profile;
    for (const uint64_t size : {most_, most_ / 4, most_ / 16, most_ / 64, most_ / 256})
      for (const double sparsity : {0., .5, .9}) {
        const auto values = values_in(values_).subspan(0, size / sizeof(float));
        fill(activation_of(1, sparsity), values, stream_);
        size_t number = 0;
        std::apply(
            [&](const auto&... each) {
              (profile.codecs[number++].push_back(measure_codec(each, values, sparsity)), ...);
            },
            std::tuple(tuck::zvc<float>{}, tuck::rle<float>{},
                       tuck::quantize<float>(tuck::error_bound::absolute(fixed_bound))));
      }
    if constexpr (times_mean_something) {
      measure_link(profile);
      measure_layers(profile);
    } else {
      assume(profile, network_, batch_);
    }
    return profile;
  }

 private:
  using device_memory = tuck::device_buffer<tuck::async_resource>;
  static constexpr int repeats = times_mean_something ? 5 : 1;

  // The least time of a few, in seconds; the first has what is loaded only once.
  template <class Work> double seconds(const Work& work) {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < repeats; ++i) {
      stopwatch watch;
      watch.time(stream_, work);
      tuck::detail::require(cudaStreamSynchronize(stream_));
      least = std::min(least, watch.milliseconds() * 1e-3);
    }
    return least;
  }

  // Encoding as a swap_stream does it, on as few blocks, but in device memory: the link is counted for itself.
  template <tuck::codec C> codec_point measure_codec(const C& codec, tuck::span<const float> values, double sparsity) {
    const device_memory frame(memory_, tuck::max_frame_bytes(codec, values.size()), stream_);
    const device_memory scratch(memory_, tuck::scratch_bytes(codec, values.size()), stream_);
    const device_memory outcomes(memory_, 2 * sizeof(tuck::outcome), stream_);
    const auto written = values_in<tuck::outcome>(outcomes);
    tuck::detail::require(tuck::initialize(scratch.scratch(), stream_));
    codec_point point{.size = values.size_bytes(), .sparsity = sparsity};
    point.encode = seconds([&] {
      tuck::detail::require(tuck::encode(codec, values, frame.all(), scratch.scratch(), written.data(), stream_, {},
                                         tuck::swap_options{}.limits));
    });
    point.decode = seconds([&] {
      tuck::detail::require(tuck::decode(codec, frame.all(), values_in(other_).subspan(0, values.size()),
                                         scratch.scratch(), written.data() + 1, stream_));
    });
    tuck::outcome seen[2];
    tuck::detail::require(cudaMemcpyAsync(seen, written.data(), sizeof seen, cudaMemcpyDefault, stream_));
    tuck::detail::require(cudaStreamSynchronize(stream_));
    for (const tuck::outcome& o : seen)
      if (!o) throw tuck::error(o.code);
    point.ratio = static_cast<double>(point.size) / static_cast<double>(seen[0].bytes);
    return point;
  }

  void measure_link(training_profile& profile) {
    tuck::pinned_resource pinned;
    const tuck::device_buffer<tuck::pinned_resource> host(pinned, most_, stream_);
    const auto rate = [&](const auto& to, const auto& from) {
      return static_cast<double>(most_) / seconds([&] {
               tuck::detail::require(
                   cudaMemcpyAsync(to.all().data(), from.all().data(), most_, cudaMemcpyDefault, stream_));
             });
    };
    profile.link.d2h = rate(host, values_);
    profile.link.h2d = rate(values_, host);
  }

  void measure_layers(training_profile& profile) {
    const auto wrong = values_in<uint32_t>(wrong_).data();  // which is of no interest here
    for (size_t i = 0; i < network_.size(); ++i) {
      const uint64_t inputs = network_[i].values(batch_);
      const uint64_t outputs = i + 1 < network_.size() ? network_[i + 1].values(batch_) : 0;
      const layer_job job{activation_of(1, .5),
                          activation_of(1, .5),
                          values_in(values_).data(),
                          values_in(other_).data(),
                          inputs,
                          outputs,
                          0,
                          wrong};
      profile.forward.push_back(seconds([&] { launch(forward, job, std::max(inputs, outputs), stream_); }));
      profile.backward.push_back(seconds([&] { launch(backward, job, inputs, stream_); }));
    }
  }

  const std::vector<shaped_layer>& network_;
  uint64_t batch_;
  uint64_t most_ = 0;
  owned_stream stream_;
  tuck::async_resource memory_;
  device_memory values_, other_, wrong_;
};

}  // namespace swap_training
