// The policies of vDNN (Rhu et al., MICRO 2016): whose inputs leave the device, when they come back, and how little of
// that a memory budget allows. Plain data in, plain data out; a swap_stream does the moving.
#pragma once

#include <tuck/core/span.hpp>

#include <algorithm>
#include <optional>
#include <vector>

namespace tuck::inline TUCK_ABI {

enum class layer_kind : uint8_t { convolution, activation, pooling, normalization, fully_connected, softmax, other };

// A layer of a network that is a chain: its output is the input of the next.
struct layer {
  layer_kind kind = layer_kind::other;
  uint64_t input_bytes = 0;      // kept from its forward to its backward pass
  uint64_t output_bytes = 0;     // the next layer's input_bytes
  bool in_place = false;         // the output takes the input's memory
  uint64_t fast_workspace = 0;   // bytes, of the fastest kernels
  uint64_t small_workspace = 0;  // of those that need the least
};

enum class offload_set : uint8_t {
  none,
  conv,  // inputs of convolutions
  all,   // of every layer that may
};

// May the input of layer i leave the device? Never the last layer's, which is wanted at once, nor that of layers in
// place, softmax and fully connected layers.
inline bool may_offload(span<const layer> network, size_t i) noexcept {
  const layer& l = network[i];
  return i + 1 < network.size() && !l.in_place && l.kind != layer_kind::softmax &&
         l.kind != layer_kind::fully_connected;
}
inline bool offloads(offload_set set, span<const layer> network, size_t i) noexcept {
  if (set == offload_set::none || !may_offload(network, i)) return false;
  return set == offload_set::all || network[i].kind == layer_kind::convolution;
}

// Which input to bring back while the backward pass runs some layer: the nearest below it that has left and has not
// been asked for. The search ends at the first convolution that needs nothing, so that nothing comes back much too
// early.
class prefetch_order {
 public:
  prefetch_order(span<const layer> network, offload_set set) : prefetch_order(network, std::vector<bool>{}) {
    for (size_t i = 0; i < network.size(); ++i) away_[i] = offloads(set, network, i);
  }
  // Those that are away by another rule.
  prefetch_order(span<const layer> network, std::vector<bool> away) : kinds_(network.size()), away_(std::move(away)) {
    for (size_t i = 0; i < network.size(); ++i) kinds_[i] = network[i].kind;
    away_.resize(network.size());
  }

  // The input that is to be prefetched while layer i < network.size() runs backward; it then counts as being there.
  std::optional<size_t> next(size_t i) {
    while (i-- > 0) {
      if (away_[i]) {
        away_[i] = false;
        return i;
      }
      if (kinds_[i] == layer_kind::convolution) return std::nullopt;
    }
    return std::nullopt;
  }
  // Is the input of layer i still away when its own turn comes? Then it is to be brought back at once.
  bool demand(size_t i) {
    const bool away = away_[i];
    away_[i] = false;
    return away;
  }

 private:
  std::vector<layer_kind> kinds_;
  std::vector<bool> away_;
};

// The most device memory in use at any layer of a forward and a backward pass: inputs that are there, the output or the
// two gradients under way, the workspace. An input that leaves is there until its layer is done; one that comes back,
// from the layer on during which it was prefetched. Weights are not counted.
inline uint64_t peak_bytes(span<const layer> network, offload_set set, bool fast_kernels) {
  const auto bytes_of = [&](size_t i) { return network[i].in_place ? 0 : network[i].input_bytes; };
  const auto workspace = [&](size_t i) {
    return fast_kernels ? network[i].fast_workspace : network[i].small_workspace;
  };
  uint64_t there = 0, peak = 0;
  for (size_t i = 0; i < network.size(); ++i) {
    there += bytes_of(i);
    const uint64_t output = network[i].in_place ? 0 : network[i].output_bytes;
    peak = std::max(peak, there + output + workspace(i));
    if (offloads(set, network, i)) there -= bytes_of(i);
  }
  prefetch_order order(network, set);
  uint64_t done_with = 0;
  for (size_t i = network.size(); i-- > 0;) {
    if (order.demand(i)) there += bytes_of(i);
    if (const auto ahead = order.next(i)) there += bytes_of(*ahead);
    const uint64_t gradients =
        network[i].in_place ? network[i].output_bytes : network[i].output_bytes + network[i].input_bytes;
    peak = std::max(peak, there + gradients + workspace(i));
    done_with += bytes_of(i);
    if (i != 0 && network[i - 1].in_place) continue;  // which reads its output, that is this input, once more
    there -= done_with;
    done_with = 0;
  }
  return peak;
}

struct vdnn_choice {
  offload_set set = offload_set::none;
  bool fast_kernels = true;
};

// vDNN's dynamic policy: the first that fits the budget (bytes) of none, conv and all with the fastest kernels, and
// then with those of the least workspace; nothing where none of them does.
inline std::optional<vdnn_choice> choose_offload(span<const layer> network, uint64_t budget) {
  for (const bool fast : {true, false})
    for (const offload_set set : {offload_set::none, offload_set::conv, offload_set::all})
      if (peak_bytes(network, set, fast) <= budget) return vdnn_choice{set, fast};
  return std::nullopt;
}

}  // namespace tuck::inline TUCK_ABI
