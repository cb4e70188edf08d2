// The policies of vDNN (Rhu et al., MICRO 2016): which layers' inputs are offloaded, when they are prefetched, and
// which policy fits a memory budget. These functions only decide; a swap_stream moves the data.
#pragma once

#include <tuck/core/span.hpp>

#include <algorithm>
#include <optional>
#include <vector>

namespace tuck::inline TUCK_ABI {

/// The kinds of layers that the policies distinguish.
enum class layer_kind : uint8_t { convolution, activation, pooling, normalization, fully_connected, softmax, other };

/// A layer of a network that is a chain: the output of each layer is the input of the next.
struct layer {
  layer_kind kind = layer_kind::other;  ///< what it computes
  uint64_t input_bytes = 0;             ///< its input, needed from its forward to its backward pass
  uint64_t output_bytes = 0;            ///< its output, equal to the next layer's input_bytes
  bool in_place = false;                ///< whether the output overwrites the input
  uint64_t fast_workspace = 0;          ///< workspace bytes of the fastest kernels
  uint64_t small_workspace = 0;         ///< workspace bytes of the kernels that need the least
};

/// Which layers' inputs are offloaded.
enum class offload_set : uint8_t {
  none,  ///< no inputs
  conv,  ///< inputs of convolutions
  all,   ///< inputs of all layers that may_offload allows
};

/// Returns whether the input of layer i may be offloaded. Returns false for the last layer, whose backward pass follows
/// immediately, and for in-place, softmax and fully connected layers. Requires i < network.size().
inline bool may_offload(span<const layer> network, size_t i) noexcept {
  const layer& l = network[i];
  return i + 1 < network.size() && !l.in_place && l.kind != layer_kind::softmax &&
         l.kind != layer_kind::fully_connected;
}
/// Returns whether `set` offloads the input of layer i < network.size().
inline bool offloads(offload_set set, span<const layer> network, size_t i) noexcept {
  if (set == offload_set::none || !may_offload(network, i)) return false;
  return set == offload_set::all || network[i].kind == layer_kind::convolution;
}

/// Decides which input to prefetch while the backward pass runs a layer: the nearest earlier input that is offloaded
/// and not yet requested. The search stops at the first convolution that needs no prefetch. Otherwise an input might be
/// prefetched much too early.
class prefetch_order {
 public:
  /// Starts with the inputs that `set` offloads.
  prefetch_order(span<const layer> network, offload_set set) : prefetch_order(network, std::vector<bool>{}) {
    for (size_t i = 0; i < network.size(); ++i) away_[i] = offloads(set, network, i);
  }
  /// Starts with the inputs i for which away[i] is true. Missing elements count as false.
  prefetch_order(span<const layer> network, std::vector<bool> away) : kinds_(network.size()), away_(std::move(away)) {
    for (size_t i = 0; i < network.size(); ++i) kinds_[i] = network[i].kind;
    away_.resize(network.size());
  }

  /// Returns the input to prefetch while layer i < network.size() runs backward, or nothing. The input then counts as
  /// being on the device.
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
  /// Returns whether the input of layer i is still offloaded when its backward pass starts, so that it must be fetched
  /// now. It then counts as being on the device. Requires i < network.size().
  bool demand(size_t i) {
    const bool away = away_[i];
    away_[i] = false;
    return away;
  }

 private:
  std::vector<layer_kind> kinds_;
  std::vector<bool> away_;
};

/// Returns the peak device memory of a forward and a backward pass, in bytes. It counts the inputs on the device, the
/// output or the two gradients of the current layer, and its workspace, but no weights. An offloaded input occupies
/// memory until its layer is done. A prefetched input occupies memory from the layer during which it is prefetched.
/// @param fast_kernels whether to count fast_workspace or small_workspace
/// Complexity: linear in the number of layers, plus the searches of prefetch_order.
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
    if (i != 0 && network[i - 1].in_place) continue;  // layer i - 1 reads its output, which is this input, once more
    there -= done_with;
    done_with = 0;
  }
  return peak;
}

/// A policy of vDNN.
struct vdnn_choice {
  offload_set set = offload_set::none;  ///< which inputs are offloaded
  bool fast_kernels = true;             ///< true: fastest kernels; false: kernels with the smallest workspace
};

/// Chooses a policy as vDNN's dynamic policy does: tries none, conv and all with the fastest kernels, then with the
/// kernels that have the smallest workspace.
/// @param budget device memory in bytes, compared with peak_bytes
/// @return the first policy that fits, or nothing
inline std::optional<vdnn_choice> choose_offload(span<const layer> network, uint64_t budget) {
  for (const bool fast : {true, false})
    for (const offload_set set : {offload_set::none, offload_set::conv, offload_set::all})
      if (peak_bytes(network, set, fast) <= budget) return vdnn_choice{set, fast};
  return std::nullopt;
}

}  // namespace tuck::inline TUCK_ABI
