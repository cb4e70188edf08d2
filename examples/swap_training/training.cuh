// The forward and backward passes under one policy. Each layer's input leaves while the layer runs, and is back before
// its backward pass: whose, and when, is vDNN's rule. Each value is checked when it is used again.
#pragma once

#include "swap_training/layer_work.cuh"
#include "swap_training/policies.cuh"
#include "swap_training/profile.hpp"

#include <optional>

namespace swap_training {

struct training_options {
  uint64_t batch = 1, device_bytes = 0, pinned_bytes = 0;
  int epochs = 3, steps = 1;  // steps of an epoch
};

// What became of a layer's input in the last step of an epoch. A way out or in that takes less time from the training
// than it takes when nothing else runs is hidden for the rest.
struct layer_record {
  const char* way = "stays";
  double sparsity = 0;
  double bound = 0;                                                     // of its error
  double cost = 0, raw_cost = 0;                                        // seconds, as predicted; 0: nobody did
  uint64_t out = 0;                                                     // bytes over the link
  uint64_t host_bytes = 0;                                              // held there
  double alone_out = 0, alone_in = 0, exposed_out = 0, exposed_in = 0;  // ms, only of the last epoch
};
struct epoch_record {
  std::vector<layer_record> layers;
  double step = 0;  // ms
  uint64_t out = 0, held = 0;
};
struct outcome_of_run {
  std::vector<epoch_record> epochs;
  uint64_t host_peak = 0, device_peak = 0;
  uint32_t wrong = 0;
};

class training {
 public:
  training(const policy& p, const std::vector<shaped_layer>& network, const training_profile& profile,
           const training_options& options)
      : policy_(p),
        network_(network),
        layers_(layers_of(network)),
        options_(options),
        memory_(options.device_bytes),
        swap_({.pinned_bytes = options.pinned_bytes, .path = p.path, .full = tuck::on_full::keep_on_device}, memory_),
        records_(network.size()),
        bounds_(network.size(), tuck::bound_controller({.refresh = static_cast<uint64_t>(options.steps)})) {
    if (p.decides == rule::advised) advisor_ = make_advisor(network, profile, p.codecs);
    wrong_ = uncounted(others_, sizeof(uint32_t), stream_);
    tuck::detail::require(cudaMemsetAsync(wrong_.all().data(), 0, sizeof(uint32_t), stream_));
    scratch_ = uncounted(others_, tuck::statistics_scratch_bytes, stream_);
    tuck::detail::require(tuck::initialize(scratch_.scratch(), stream_));
    seen_ = uncounted(others_, network.size() * statistics_a_layer * sizeof(tuck::tensor_statistics), stream_);
    tuck::detail::require(cudaMemsetAsync(seen_.all().data(), 0, seen_.all().size(), stream_));
    momentum_ = uncounted(others_, momentum_sample * sizeof(float), stream_);
  }

  outcome_of_run run() {
    outcome_of_run result;
    for (epoch_ = 0; epoch_ < options_.epochs; ++epoch_) {
      epoch_record epoch;
      for (int i = 0; i < options_.steps; ++i, ++step_) {
        decides_ = advisor_ && i == 0;
        epoch.step = step();
      }
      for (const layer_record& l : records_) {
        epoch.held += l.host_bytes;
        epoch.out += l.out;
      }
      epoch.layers = records_;
      result.epochs.push_back(std::move(epoch));
    }
    --epoch_;
    time_alone(result.epochs.back().layers);
    tuck::detail::require(
        cudaMemcpyAsync(&result.wrong, wrong_.all().data(), sizeof result.wrong, cudaMemcpyDefault, stream_));
    tuck::detail::require(cudaStreamSynchronize(stream_));
    result.host_peak = swap_.statistics().peak;
    result.device_peak = memory_.peak();
    return result;
  }

 private:
  using tensor = tuck::device_buffer<budget>;
  using uncounted = tuck::device_buffer<tuck::async_resource>;  // as weights are
  static constexpr uint64_t momentum_sample = 4096;             // values of a layer's, which are as many as its weights
  static constexpr size_t statistics_a_layer = 3;               // of gradient, momentum and input

  bool leaves(size_t i) const { return tuck::offloads(tuck::offload_set::all, layers_, i); }
  activation values_of(size_t i) const {
    return activation_of(static_cast<uint32_t>(step_) * 1000 + static_cast<uint32_t>(i), network_[i].sparsity(epoch_));
  }
  uint64_t values(size_t i) const { return network_[i].values(options_.batch); }
  tensor make(size_t i) { return tensor(memory_, values(i) * sizeof(float), stream_); }

  // -- deciding ----------------------------------------------------------------------------------------------------

  void gather(tuck::span<const float> values, size_t number, uint32_t sample_every) {
    tuck::detail::require(tuck::gather_statistics(values, values_in<tuck::tensor_statistics>(seen_).data() + number,
                                                  scratch_.scratch(), stream_, {.sample_every = sample_every}));
  }
  std::vector<tuck::tensor_statistics> gathered_sync() {
    std::vector<tuck::tensor_statistics> seen(network_.size() * statistics_a_layer);
    tuck::detail::require(
        cudaMemcpyAsync(seen.data(), seen_.all().data(), seen_.all().size(), cudaMemcpyDefault, stream_));
    tuck::detail::require(cudaStreamSynchronize(stream_));
    return seen;
  }

  // CSWAP: in the first step of an epoch, from the share of zeros then. That step waits for it; the others do not.
  void decide(size_t i, const tensor& x) {
    gather(values_in<const float>(x), i * statistics_a_layer, 4);
    records_[i].sparsity = gathered_sync()[i * statistics_a_layer].sparsity();
    const tuck::swap_decision& way = advisor_->decide(i, records_[i].sparsity);
    records_[i].cost = way.cost;
    records_[i].raw_cost = way.raw_cost;
  }
  // What encoding made of it makes the next predictions better. Times on the way are not the codec's alone, so none are
  // given.
  void learn(size_t i, uint64_t frame_bytes) {
    const tuck::swap_decision& d = advisor_->decision(i);
    if (d.how == tuck::swap_decision::mode::encode)
      advisor_->measured(i, d.codec, records_[i].sparsity, 0, 0,
                         static_cast<double>(layers_[i].input_bytes) / static_cast<double>(frame_bytes));
  }

  // COMET: what the gradient of a layer's output, the momentum of its weights and its input are like, where the bound
  // is to be controlled; once an epoch, where the paper has 1000 steps. Gradient and momentum are made up, with
  // magnitudes that fall as the training goes on, those of gradients faster, and with larger gradients in deeper
  // layers; the statistics are of what is really on the device.
  void observe(size_t i, const tensor& gradient) {
    const auto deep = static_cast<float>(i), late = static_cast<float>(epoch_);
    const auto seed = static_cast<uint32_t>(step_) * 1000 + static_cast<uint32_t>(i);
    fill(centred{seed + 300, 1e-3f * (1 + .1f * deep) / (1 + .4f * late)}, values_in(gradient), stream_);
    fill(centred{seed + 600, 5e-5f / (1 + .1f * late)}, values_in(momentum_), stream_);
    gather(values_in<const float>(gradient), i * statistics_a_layer, 1);
    gather(values_in<const float>(momentum_), i * statistics_a_layer + 1, 1);
    gather(values_in<const float>(inputs_[i]), i * statistics_a_layer + 2, 1);
  }
  void control(size_t i, const tuck::tensor_statistics* seen) {
    bounds_[i].update(static_cast<uint64_t>(step_), {.mean_gradient = seen[0].mean_magnitude(),
                                                     .batch = static_cast<double>(options_.batch),
                                                     .nonzero = 1 - seen[2].sparsity(),
                                                     .mean_momentum = seen[1].mean_magnitude()});
  }
  bool is_bounded(size_t i) const { return policy_.decides == rule::bounded && network_[i].allows_loss(); }
  bool is_observed(size_t i) const { return is_bounded(i) && bounds_[i].wants(static_cast<uint64_t>(step_)); }

  // -- a step ------------------------------------------------------------------------------------------------------

  // Also notes the way that it goes.
  void send(size_t i, const tensor& x, tuck::swap_handle& handle) {
    const tuck::span<const float> source = values_in<const float>(x);
    const auto codecs = [](double bound) {
      return std::tuple(tuck::zvc<float>{}, tuck::rle<float>{},
                        tuck::quantize<float>(tuck::error_bound::absolute(bound)));
    };
    tuck::swap_decision way{.how = tuck::swap_decision::mode::encode, .codec = 0};
    double bound = fixed_bound;
    switch (policy_.decides) {
      case rule::as_is:
        way.how = tuck::swap_decision::mode::raw;
        tuck::detail::require(swap_.out(tuck::as_bytes(source), stream_, handle));
        break;
      case rule::zvc: tuck::detail::require(swap_.out(tuck::zvc<float>{}, source, stream_, handle)); break;
      case rule::advised:
        way = advisor_->decision(i);
        tuck::detail::require(swap_.out(way, codecs(bound), source, stream_, handle));
        break;
      case rule::bounded:
        bound = bounds_[i].bound();
        if (network_[i].sparsity(epoch_) == 0)
          way.how = tuck::swap_decision::mode::raw;
        else
          way.codec = network_[i].allows_loss() ? 2 : 0;
        tuck::detail::require(swap_.out(way, codecs(bound), source, stream_, handle));
        break;
    }
    const bool encoded = way.how == tuck::swap_decision::mode::encode;
    records_[i].way = handle.kept_on_device() ? "kept" : encoded ? codec_names[way.codec] : "raw";
    records_[i].bound = encoded && codec_is_lossy[way.codec] ? bound : 0;
  }

  // The layer that reads `x`, the input of layer i - or of layer i - 1, which makes `y`, that of layer i.
  void run_layer(void (*kernel)(layer_job), size_t i, const tensor* x, const tensor* y, double bound = 0) {
    const size_t reads = x != nullptr && y != nullptr ? i - 1 : i;
    const layer_job job{values_of(reads),
                        values_of(i),
                        x ? values_in(*x).data() : nullptr,
                        y ? values_in(*y).data() : nullptr,
                        x ? values(reads) : 0,
                        y ? values(i) : 0,
                        bound,
                        values_in<uint32_t>(wrong_).data()};
    launch(kernel, job, std::max(job.inputs, job.outputs), stream_);
  }

  void forward_pass() {
    inputs_ = std::vector<tensor>(network_.size());
    handles_ = std::vector<tuck::swap_handle>(network_.size());
    out_ = std::vector<stopwatch>(network_.size());
    inputs_[0] = make(0);
    run_layer(forward, 0, nullptr, &inputs_[0]);  // the images
    for (size_t i = 0; i + 1 < network_.size(); ++i) {
      if (leaves(i)) {
        if (decides_) decide(i, inputs_[i]);
        send(i, inputs_[i], handles_[i]);  // while the layer runs
      }
      inputs_[i + 1] = make(i + 1);
      run_layer(forward, i + 1, &inputs_[i], &inputs_[i + 1]);
      if (!leaves(i) || handles_[i].kept_on_device()) continue;
      out_[i].time(stream_, [&] { tuck::detail::require(handles_[i].wait_source(stream_)); });
      inputs_[i] = {};
    }
  }

  void backward_pass() {
    tuck::prefetch_order order(layers_, tuck::offload_set::all);
    in_ = std::vector<stopwatch>(network_.size());
    for (size_t i = network_.size(); i-- > 0;) {
      if (handles_[i] && !handles_[i].kept_on_device()) {
        inputs_[i] = make(i);
        in_[i].time(stream_, [&] { tuck::detail::require(swap_.in(handles_[i], inputs_[i].all(), stream_)); });
      }
      static_cast<void>(order.demand(i));
      if (const auto ahead = order.next(i)) tuck::detail::require(swap_.prefetch(handles_[*ahead]));
      const tensor gradient_of_output(memory_, layers_[i].output_bytes, stream_);
      const tensor gradient_of_input(memory_, layers_[i].input_bytes, stream_);
      run_layer(backward, i, &inputs_[i], nullptr, records_[i].bound);
      if (is_observed(i)) observe(i, gradient_of_output);
      inputs_[i] = {};
    }
  }

  double step() {  // the milliseconds it took
    stopwatch whole;
    whole.time(stream_, [&] {
      forward_pass();
      // The host is far ahead of the device. What the CPU encodes must have been computed before it is wanted back.
      if (policy_.path == tuck::swap_path::cpu) tuck::detail::require(swap_.drain());
      backward_pass();
    });
    const auto seen = gathered_sync();
    tuck::detail::require(swap_.drain());
    for (size_t i = 0; i < network_.size(); ++i) {
      layer_record& r = records_[i];
      r.host_bytes = handles_[i].host_bytes();
      r.out = policy_.path == tuck::swap_path::cpu ? handles_[i].raw_bytes() : r.host_bytes;
      r.exposed_out = out_[i].milliseconds();
      r.exposed_in = in_[i].milliseconds();
      if (const tuck::outcome in_pool = handles_[i].report(); advisor_ && in_pool) learn(i, in_pool.bytes);
      if (is_observed(i)) control(i, &seen[i * statistics_a_layer]);
      if (!advisor_) r.sparsity = network_[i].sparsity(epoch_);
    }
    handles_.clear();
    return whole.milliseconds();
  }

  // How long each way out and back takes when nothing else runs.
  void time_alone(std::vector<layer_record>& records) {
    for (size_t i = 0; i < network_.size(); ++i) {
      if (!leaves(i)) continue;
      const tensor x = make(i);
      run_layer(forward, i, nullptr, &x);
      stopwatch out, in;
      tuck::swap_handle handle;
      out.time(stream_, [&] {
        send(i, x, handle);
        if (!handle.kept_on_device()) tuck::detail::require(handle.wait_source(stream_));
      });
      tuck::detail::require(swap_.drain());
      in.time(stream_, [&] { tuck::detail::require(swap_.in(handle, x.all(), stream_)); });
      tuck::detail::require(cudaStreamSynchronize(stream_));
      records[i].alone_out = out.milliseconds();
      records[i].alone_in = in.milliseconds();
    }
  }

  const policy& policy_;
  const std::vector<shaped_layer>& network_;
  std::vector<tuck::layer> layers_;
  training_options options_;
  int epoch_ = 0, step_ = 0;
  bool decides_ = false;
  owned_stream stream_;
  budget memory_;
  tuck::async_resource others_;
  tuck::swap_stream swap_;
  uncounted wrong_, scratch_, seen_, momentum_;
  std::vector<layer_record> records_;
  std::optional<tuck::advisor> advisor_;
  std::vector<tuck::bound_controller> bounds_;
  std::vector<tensor> inputs_;
  std::vector<tuck::swap_handle> handles_;
  std::vector<stopwatch> out_, in_;
};

}  // namespace swap_training
