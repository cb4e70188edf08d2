// The cost of swapping a tensor, and the mode with the lowest cost: raw, encoded, or recomputed. This is the model of
// CSWAP (Chen et al., CLUSTER 2021), extended to several codecs as in its successor. Times are in seconds, sizes in
// bytes, rates in bytes per second.
//
// A tensor of S bytes is copied out in the forward pass and back in the backward pass. Computation hides H_out and H_in
// seconds of these copies. The training waits for the rest of the copies and for the codec:
//
//   (1)  raw      max(S / d2h - H_out, 0) + max(S / h2d - H_in, 0)
//   (2)  encoded  T_encode + T_decode + O_out + O_in
//   (3)  O_out =  max(S / r / d2h - H_out, 0)        (4)  O_in = max(S / r / h2d - H_in, 0)
//
// r is the codec's compression ratio, measured or predicted. The paper uses S * (1 - sparsity) instead of S / r, which
// ignores everything that a codec stores besides the values. r = 1 / (1 - sparsity) reproduces the paper's decisions.
#pragma once

#include <tuck/core/span.hpp>

#include <algorithm>
#include <limits>

namespace tuck::inline TUCK_ABI {

/// Effective rates of the link between device and host, in bytes per second.
struct link_rates {
  double d2h = 0,  ///< device to host
      h2d = 0;     ///< host to device
};

/// A tensor and its place in the training step.
struct swap_profile {
  uint64_t bytes = 0;                                          ///< size of the tensor
  double hidden_out = 0,                                       ///< seconds of the copy out that computation hides
      hidden_in = 0;                                           ///< seconds of the copy back that computation hides
  bool lossy_allowed = false;                                  ///< whether lossy codecs may be chosen
  double recompute = std::numeric_limits<double>::infinity();  ///< seconds to recompute it; infinity: impossible
};

/// Predicted or measured behaviour of a codec on one tensor.
struct codec_estimate {
  double ratio = 1;    ///< raw bytes / encoded bytes, > 0; infinity: the encoded size is negligible
  double encode = 0,   ///< seconds to encode
      decode = 0;      ///< seconds to decode
  bool lossy = false;  ///< whether the codec changes values
};

/// Returns the compression ratio of ZVC, which stores one bit per value and all non-zero values.
/// @param sparsity share of zeros, in [0, 1]
constexpr double zvc_ratio(double sparsity, unsigned value_bytes) noexcept {
  return 1 / (1. / (8 * value_bytes) + 1 - sparsity);
}

/// Returns the seconds of a transfer that computation does not hide.
/// @param size bytes  @param rate bytes per second  @param hidden seconds that computation hides
constexpr double exposed(double size, double rate, double hidden) noexcept {
  return std::max(size / rate - hidden, 0.);
}

/// Returns the cost of swapping the tensor raw, in seconds: formula (1).
constexpr double raw_cost(const swap_profile& tensor, const link_rates& link) noexcept {
  const auto size = static_cast<double>(tensor.bytes);
  return exposed(size, link.d2h, tensor.hidden_out) + exposed(size, link.h2d, tensor.hidden_in);
}
/// Returns the cost of swapping the tensor encoded, in seconds: formulas (2) to (4).
constexpr double encoded_cost(const swap_profile& tensor, const link_rates& link, const codec_estimate& by) noexcept {
  const double size = static_cast<double>(tensor.bytes) / by.ratio;
  return by.encode + by.decode + exposed(size, link.d2h, tensor.hidden_out) + exposed(size, link.h2d, tensor.hidden_in);
}

/// What to do with a tensor, and the cost of that. It is an argument of swap_stream::out.
struct swap_decision {
  /// What to do with the tensor.
  enum class mode : uint8_t {
    raw,        ///< swap it unchanged
    recompute,  ///< discard it and compute it again
    encode,     ///< swap it encoded
  };
  mode how = mode::raw;  ///< the chosen mode
  size_t codec = 0;      ///< with mode::encode, the index of the codec
  double cost = 0,       ///< seconds of the chosen mode
      raw_cost = 0;      ///< seconds of mode::raw
};

/// Chooses the mode with the lowest cost. Ties prefer raw, then the first codec, then recomputation.
/// Lossy codecs are considered only if the profile allows them. Estimates whose cost is NaN are never chosen.
/// Complexity: linear in the number of codecs.
/// @param codecs one estimate per codec; swap_decision::codec is an index into it
constexpr swap_decision choose(const swap_profile& tensor, const link_rates& link,
                               span<const codec_estimate> codecs) noexcept {
  const double raw = raw_cost(tensor, link);
  swap_decision best{.cost = raw, .raw_cost = raw};
  for (size_t i = 0; i < codecs.size(); ++i) {
    if (codecs[i].lossy && !tensor.lossy_allowed) continue;
    if (const double cost = encoded_cost(tensor, link, codecs[i]); cost < best.cost)
      best = {swap_decision::mode::encode, i, cost, raw};
  }
  if (tensor.recompute < best.cost) best = {swap_decision::mode::recompute, 0, tensor.recompute, raw};
  return best;
}

}  // namespace tuck::inline TUCK_ABI
