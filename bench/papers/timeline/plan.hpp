// What becomes of each layer's input between its two passes: a plan is a movement for each layer of a network, and each
// policy of the papers is such a plan. timeline.hpp replays them.
//
//   keep nothing is moved  plan_raw(network, offload_set::none)
//   vDNN                   plan_raw(network, offload_set::all or conv)
//   vDNN++                 plan_encoded(..., movement::way::cpu), replayed with wait_at_layer_end = false
//   cDMA                   plan_encoded(..., movement::way::encode) with ZVC; its engine takes no time of the GPU's:
//                          then the estimates' encode and decode are 0
//   CSWAP, CSWAP+          plan_cheapest with ZVC alone, or with all codecs and recomputing
//   COMET                  plan_encoded with the error-bounded codec; over an infinite link, with host_peak added to
//                          device_peak, where what is encoded stays
#pragma once

#include <tuck/model/advisor.hpp>
#include <tuck/model/vdnn.hpp>

#include <limits>

namespace tuck::bench {

struct timed_layer {
  static constexpr size_t the_one_before = ~size_t{0}, none = the_one_before - 1, as_in_a_chain = the_one_before;

  layer shape;
  double forward = 0, backward = 0;
  // The layer whose output the input is, one before this; any other, as none: the input cannot be computed anew.
  size_t producer = the_one_before;
  // The layer that keeps what this one's backward pass reads, for it leaves when that layer has run. Of those that read
  // one tensor it is the last, and input_bytes of the others is 0. In a chain each keeps its own; one in place reads
  // its output, which is the next one's.
  size_t kept_by = as_in_a_chain;
};

// What becomes of a layer's input between its two passes.
struct movement {
  enum class way : uint8_t {
    keep,
    raw,
    encode,    // by the GPU on its way out, decoded by it on its way in
    cpu,       // goes out raw; encoded by the CPU then, if the forward pass still runs, and decoded by it before it
               // comes back
    recompute  // dropped, and computed anew from the nearest input before it that is there; kept where it cannot be
  };
  way how = way::keep;
  codec_estimate by = {};  // with encode and cpu; a ratio that is not above 0 counts as 1
};

namespace detail {

inline std::vector<layer> shapes(span<const timed_layer> network) {
  std::vector<layer> of(network.size());
  for (size_t i = 0; i < of.size(); ++i) of[i] = network[i].shape;
  return of;
}

// Of `set` those that have something to send: where others keep their input, they have nothing.
inline std::vector<bool> leaving(span<const layer> network, offload_set set) {
  std::vector<bool> of(network.size());
  for (size_t i = 0; i < of.size(); ++i) of[i] = network[i].input_bytes != 0 && offloads(set, network, i);
  return of;
}

// The layer whose output the input of layer i is; or none.
inline size_t producer(span<const timed_layer> network, size_t i) noexcept {
  const size_t p = network[i].producer;
  if (p == timed_layer::the_one_before && i != 0) return i - 1;
  return p < i ? p : timed_layer::none;
}

inline size_t keeper(span<const timed_layer> network, size_t i) noexcept {
  for (; network[i].kept_by == timed_layer::as_in_a_chain; ++i)
    if (!network[i].shape.in_place || i + 1 == network.size()) return i;
  const size_t k = network[i].kept_by;
  return k >= i && k < network.size() ? k : i;
}

}  // namespace detail

// The seconds that computing the input of layer i anew takes; infinity where it cannot be done.
inline double recompute_seconds(span<const timed_layer> network, size_t i) noexcept {
  double seconds = 0;
  for (size_t p = i;;) {
    p = detail::producer(network, p);
    if (p == timed_layer::none) return std::numeric_limits<double>::infinity();
    seconds += network[p].forward;
    if (!network[p].shape.in_place) return seconds;
  }
}

// What eqs 1 to 4 have to know of each layer's input, where those of `set` leave: its own layer hides its way out, and
// the layer beside which it is prefetched its way back.
inline std::vector<swap_profile> swap_profiles(span<const timed_layer> network, offload_set set) {
  const std::vector<layer> shapes = detail::shapes(network);
  std::vector<swap_profile> of(network.size());
  for (size_t i = 0; i < of.size(); ++i) {
    of[i].bytes = shapes[i].input_bytes;
    of[i].hidden_out = network[i].forward;
    of[i].recompute = recompute_seconds(network, i);
  }
  prefetch_order order(shapes, detail::leaving(shapes, set));
  for (size_t i = of.size(); i-- > 0;) {
    static_cast<void>(order.demand(i));
    if (const auto ahead = order.next(i)) of[*ahead].hidden_in = network[i].backward;
  }
  return of;
}

inline std::vector<movement> plan_raw(span<const timed_layer> network, offload_set set) {
  const std::vector<layer> shapes = detail::shapes(network);
  const std::vector<bool> away = detail::leaving(shapes, set);
  std::vector<movement> plan(network.size());
  for (size_t i = 0; i < plan.size(); ++i)
    if (away[i]) plan[i].how = movement::way::raw;
  return plan;
}

// All of `set` encoded, by the GPU or the CPU; `by` is what that makes of each layer's input.
inline std::vector<movement> plan_encoded(span<const timed_layer> network, offload_set set,
                                          span<const codec_estimate> by, movement::way how = movement::way::encode) {
  std::vector<movement> plan = plan_raw(network, set);
  for (size_t i = 0; i < plan.size(); ++i)
    if (plan[i].how == movement::way::raw) plan[i] = {how, by[i]};
  return plan;
}

struct plan_options {
  bool lossy_allowed = false;
  bool recompute = false;
};

// Of `set` each the way that costs least by eqs 1 to 4; codecs[i] are what the codecs make of layer i's input.
inline std::vector<movement> plan_cheapest(span<const timed_layer> network, offload_set set, const link_rates& link,
                                           span<const std::vector<codec_estimate>> codecs,
                                           const plan_options& options = {}) {
  std::vector<movement> plan = plan_raw(network, set);
  std::vector<swap_profile> tensors = swap_profiles(network, set);
  for (size_t i = 0; i < plan.size(); ++i) {
    if (plan[i].how != movement::way::raw) continue;
    tensors[i].lossy_allowed = options.lossy_allowed;
    if (!options.recompute) tensors[i].recompute = std::numeric_limits<double>::infinity();
    const swap_decision d = choose(tensors[i], link, codecs[i]);
    if (d.how == swap_decision::mode::encode) plan[i] = {movement::way::encode, codecs[i][d.codec]};
    if (d.how == swap_decision::mode::recompute) plan[i] = {movement::way::recompute, {}};
  }
  return plan;
}

}  // namespace tuck::bench
