// SPDX-License-Identifier: Apache-2.0
// The policies of vDNN (Rhu et al., MICRO 2016): which layers' inputs are offloaded, and when they are prefetched.
// These functions only decide; a swap_stream moves the data.
#pragma once

#include <tuck/core/span.hpp>

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
};

/// Which layers' inputs are offloaded. Never offloaded are the input of the last layer, whose backward pass follows
/// immediately, and those of in-place, softmax and fully connected layers.
enum class offload_set : uint8_t {
  none,  ///< no inputs
  conv,  ///< inputs of convolutions
  all,   ///< inputs of all other layers too
};

/// Returns whether `set` offloads the input of layer i < network.size().
inline bool offloads(offload_set set, span<const layer> network, size_t i) noexcept {
  const layer& l = network[i];
  const bool may =
      i + 1 < network.size() && !l.in_place && l.kind != layer_kind::softmax && l.kind != layer_kind::fully_connected;
  return may && (set == offload_set::all || (set == offload_set::conv && l.kind == layer_kind::convolution));
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

}  // namespace tuck::inline TUCK_ABI
