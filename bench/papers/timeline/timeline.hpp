// An iteration of training, replayed: a forward and a backward pass over a network some of whose inputs leave the
// device meanwhile. One engine computes, one copies to the host, one copies back, each doing one thing at a time in the
// order it is asked for; what must wait for another engine waits. Out come the time an iteration takes, what it was
// spent on, and how much memory was in use at most. Times are seconds, not negative; sizes bytes, below 2^62 in all.
//
//   std::vector<timed_layer> network = ...;
//   const auto moves = plan_raw(network, tuck::offload_set::all);  // vDNN
//   const timeline t = replay(network, moves, {.d2h = 12.8e9, .h2d = 12.8e9});
//
// plan.hpp has the plans, of the papers' policies too.
#pragma once

#include "bench/papers/timeline/plan.hpp"

#include <cmath>

namespace tuck::bench {

struct replay_options {
  // vDNN: a layer ends when what moves beside it has moved. Otherwise who needs it waits.
  bool wait_at_layer_end = true;
};

struct interval {
  double begin = 0, end = 0;
};

struct layer_times {
  interval forward, backward;  // computing
  interval out, in;            // on the link; empty where nothing moved
};

struct timeline {
  double iteration = 0;             // its length
  double forward = 0;               // of it, until the backward pass begins
  double compute = 0;               // of all layers, both ways
  double codec = 0, recompute = 0;  // the GPU's time that swapping takes
  double d2h = 0, h2d = 0;          // how long each copy engine works
  uint64_t bytes_out = 0, bytes_in = 0;
  uint64_t device_peak = 0;  // inputs, outputs, gradients, frames; without weights and workspace
  uint64_t host_peak = 0;
  std::vector<layer_times> layers;

  double waiting() const noexcept { return iteration - compute - codec - recompute; }
};

namespace detail {

// Does what it is asked for one after the other.
struct engine {
  double free_at = 0, busy = 0;

  interval run(double ready, double seconds) noexcept {
    const double begin = std::max(ready, free_at);
    free_at = begin + seconds;
    busy += seconds;
    return {begin, free_at};
  }
};

// How much is in use, from notes of what came and went. Of what happens at one time, what was noted first comes first.
class usage {
 public:
  void take(double when, uint64_t size) { notes_.push_back({when, static_cast<int64_t>(size)}); }
  void give(double when, uint64_t size) { notes_.push_back({when, -static_cast<int64_t>(size)}); }
  void hold(const interval& i, uint64_t size) {
    take(i.begin, size);
    give(i.end, size);
  }
  uint64_t peak() {
    std::stable_sort(notes_.begin(), notes_.end(), [](const note& a, const note& b) { return a.when < b.when; });
    int64_t now = 0, most = 0;
    for (const note& n : notes_) most = std::max(most, now += n.size);
    return static_cast<uint64_t>(most);
  }

 private:
  struct note {
    double when;
    int64_t size;
  };
  std::vector<note> notes_;
};

class replayer {
 public:
  replayer(span<const timed_layer> network, span<const movement> plan, const link_rates& link,
           const replay_options& options)
      : network_(network),
        plan_(possible(network, plan)),
        link_(link),
        options_(options),
        shapes_(shapes_of(network, plan_)),
        there_(network.size()),
        encoded_(network.size()),
        keepers_(network.size()),
        first_(network.size()),
        last_(network.size()),
        order_(shapes_, away(plan_)) {
    result_.layers.resize(network.size());
    for (size_t i = network.size(); i-- > 0;) {
      const size_t k = keepers_[i] = keeper(network, i);
      if (!shapes_[i].in_place) first_[k] = i;
      last_[k] = i;
    }
  }

  timeline run() {
    for (size_t i = 0; i < network_.size(); ++i) forward(i);
    result_.forward = gpu_.free_at;
    encode_on_cpu();
    for (size_t i = network_.size(); i-- > 0;) backward(i);
    result_.iteration = gpu_.free_at;
    result_.d2h = d2h_.busy;
    result_.h2d = h2d_.busy;
    result_.device_peak = device_.peak();
    result_.host_peak = host_.peak();
    return std::move(result_);
  }

 private:
  using way = movement::way;

  static std::vector<movement> possible(span<const timed_layer> network, span<const movement> plan) {
    std::vector<movement> of(plan.begin(), plan.end());
    for (size_t i = 0; i < of.size(); ++i)
      if (of[i].how == way::recompute && std::isinf(recompute_seconds(network, i))) of[i].how = way::keep;
    return of;
  }
  static bool is_away(const movement& m) noexcept { return m.how != way::keep && m.how != way::recompute; }
  static std::vector<bool> away(span<const movement> plan) {
    std::vector<bool> of(plan.size());
    for (size_t i = 0; i < of.size(); ++i) of[i] = is_away(plan[i]);
    return of;
  }

  // A convolution whose input is computed anew is none that needs nothing: the search for what to prefetch goes on.
  static std::vector<layer> shapes_of(span<const timed_layer> network, span<const movement> plan) {
    std::vector<layer> of = shapes(network);
    for (size_t i = 0; i < of.size(); ++i)
      if (plan[i].how == way::recompute) of[i].kind = layer_kind::other;
    return of;
  }

  uint64_t raw(size_t i) const noexcept { return shapes_[i].in_place ? 0 : shapes_[i].input_bytes; }
  uint64_t encoded(size_t i) const noexcept {
    const double ratio = plan_[i].by.ratio;
    return ratio > 0 ? static_cast<uint64_t>(std::min(static_cast<double>(raw(i)) / ratio, 0x1p62)) : raw(i);
  }
  uint64_t on_link(size_t i) const noexcept { return plan_[i].how == way::encode ? encoded(i) : raw(i); }

  void forward(size_t i) {
    layer_times& times = result_.layers[i];
    const movement& m = plan_[i];
    if (const size_t k = keepers_[i]; first_[k] == i) device_.take(gpu_.free_at, raw(k));
    if (m.how == way::encode) {
      gpu_.run(0, m.by.encode);
      result_.codec += m.by.encode;
    }
    if (is_away(m)) {
      times.out = d2h_.run(gpu_.free_at, static_cast<double>(on_link(i)) / link_.d2h);
      result_.bytes_out += on_link(i);
      host_.take(times.out.begin, on_link(i));
    }
    times.forward = compute(network_[i].forward);
    if (options_.wait_at_layer_end && is_away(m)) gpu_.free_at = std::max(gpu_.free_at, times.out.end);
    device_.hold({times.forward.begin, gpu_.free_at}, (shapes_[i].in_place ? 0 : shapes_[i].output_bytes));
    if (m.how != way::keep) device_.give(std::max(gpu_.free_at, times.out.end), raw(i));
  }

  // What has not begun when the forward pass is done is left as it is.
  void encode_on_cpu() {
    for (size_t i = 0; i < network_.size(); ++i) {
      if (plan_[i].how != way::cpu) continue;
      const double ready = std::max(result_.layers[i].out.end, cpu_.free_at);
      if (ready >= result_.forward) continue;
      const interval by = cpu_.run(ready, plan_[i].by.encode);
      host_.take(by.begin, encoded(i));
      host_.give(by.end, raw(i));
      encoded_[i] = true;
    }
  }

  void backward(size_t i) {
    const size_t k = keepers_[i];
    require(k);
    // What comes ahead of time does so beside this layer.
    const auto ahead = order_.next(i);
    if (ahead) fetch(*ahead);
    const layer& l = shapes_[i];
    interval& times = result_.layers[i].backward;
    times = compute(network_[i].backward);
    if (ahead && options_.wait_at_layer_end) arrive(*ahead);
    const uint64_t gradients = l.in_place ? l.output_bytes : l.output_bytes + shapes_[k].input_bytes;
    device_.hold({times.begin, gpu_.free_at}, gradients);
    if (last_[k] == i) device_.give(gpu_.free_at, raw(k));
  }

  // The input of layer i is in device memory from here on.
  void require(size_t i) {
    if (there_[i] || plan_[i].how == way::keep) return;
    if (plan_[i].how == way::recompute) {
      remake(i);
      device_.take(gpu_.free_at, raw(i));
      there_[i] = true;
      return;
    }
    if (order_.demand(i)) fetch(i);
    arrive(i);
  }
  // Computes the input of layer i anew. That of a layer in place is nowhere, for its output has taken its room.
  void remake(size_t i) {
    const size_t p = producer(network_, i);
    if (shapes_[p].in_place)
      remake(p);
    else
      require(keepers_[p]);
    gpu_.run(0, network_[p].forward);
    result_.recompute += network_[p].forward;
  }

  // Asks for an input that is away.
  void fetch(size_t i) {
    const movement& m = plan_[i];
    double ready = std::max(gpu_.free_at, result_.layers[i].out.end);
    if (encoded_[i]) ready = cpu_.run(ready, m.by.decode).end;
    interval& in = result_.layers[i].in;
    in = h2d_.run(ready, static_cast<double>(on_link(i)) / link_.h2d);
    result_.bytes_in += on_link(i);
    device_.take(gpu_.free_at, on_link(i));
  }
  // Waits for it, and decodes it.
  void arrive(size_t i) {
    if (there_[i]) return;
    there_[i] = true;
    const movement& m = plan_[i];
    gpu_.free_at = std::max(gpu_.free_at, result_.layers[i].in.end);
    host_.give(gpu_.free_at, encoded_[i] ? encoded(i) : on_link(i));
    if (m.how != way::encode) return;
    device_.take(gpu_.free_at, raw(i));
    gpu_.run(0, m.by.decode);
    result_.codec += m.by.decode;
    device_.give(gpu_.free_at, on_link(i));
  }

  interval compute(double seconds) {
    result_.compute += seconds;
    return gpu_.run(0, seconds);
  }

  span<const timed_layer> network_;
  std::vector<movement> plan_;
  const link_rates& link_;
  const replay_options& options_;
  std::vector<layer> shapes_;
  std::vector<bool> there_;    // back already, or computed anew
  std::vector<bool> encoded_;  // by the CPU
  std::vector<size_t> keepers_;
  std::vector<size_t> first_, last_;  // of the layers that read what layer k keeps, in the order of the two passes
  prefetch_order order_;
  engine gpu_, d2h_, h2d_, cpu_;
  usage device_, host_;
  timeline result_;
};

}  // namespace detail

// One movement for each layer.
inline timeline replay(span<const timed_layer> network, span<const movement> plan, const link_rates& link,
                       const replay_options& options = {}) {
  return detail::replayer(network, plan, link, options).run();
}

}  // namespace tuck::bench
