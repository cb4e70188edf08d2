// What it costs to swap a tensor, raw or encoded, and which way costs least: the model of CSWAP (Chen et al., CLUSTER
// 2021), with the choice among several codecs of its successor. Times are seconds, sizes bytes, rates bytes a second.
//
// A tensor of S bytes goes out in the forward pass and comes back in the backward pass, each way beside computing that
// hides the link for H_out and H_in seconds. What is not hidden, and the codec's own time, the training waits for:
//
//   (1)  raw      max(S / d2h - H_out, 0) + max(S / h2d - H_in, 0)
//   (2)  encoded  T_encode + T_decode + O_out + O_in
//   (3)  O_out =  max(S / r / d2h - H_out, 0)        (4)  O_in = max(S / r / h2d - H_in, 0)
//
// r is the codec's ratio, measured or predicted. The paper has S * (1 - sparsity) in place of S / r, which leaves out
// what a codec stores besides the values: r = 1 / (1 - sparsity) gives its decisions.
#pragma once

#include <tuck/core/span.hpp>

#include <algorithm>
#include <limits>

namespace tuck::inline TUCK_ABI {

// A link's effective rates.
struct link_rates {
  double d2h = 0, h2d = 0;
};

// What is known of a tensor and of the training around it.
struct swap_profile {
  uint64_t bytes = 0;
  double hidden_out = 0, hidden_in = 0;  // seconds of transfer that computing hides
  bool lossy_allowed = false;
  double recompute = std::numeric_limits<double>::infinity();  // seconds to compute it anew instead
};

// What a codec would make of it.
struct codec_estimate {
  double ratio = 1;               // raw bytes over encoded bytes, > 0; infinity: nothing is left
  double encode = 0, decode = 0;  // seconds
  bool lossy = false;
};

// As ZVC stores them: a bit a value, and those that are not zero.
constexpr double zvc_ratio(double sparsity, unsigned value_bytes) noexcept {
  return 1 / (1. / (8 * value_bytes) + 1 - sparsity);
}

// The part of a transfer that is not hidden.
constexpr double exposed(double size, double rate, double hidden) noexcept {
  return std::max(size / rate - hidden, 0.);
}

// (1)
constexpr double raw_cost(const swap_profile& tensor, const link_rates& link) noexcept {
  const auto size = static_cast<double>(tensor.bytes);
  return exposed(size, link.d2h, tensor.hidden_out) + exposed(size, link.h2d, tensor.hidden_in);
}
// (2), (3), (4)
constexpr double encoded_cost(const swap_profile& tensor, const link_rates& link, const codec_estimate& by) noexcept {
  const double size = static_cast<double>(tensor.bytes) / by.ratio;
  return by.encode + by.decode + exposed(size, link.d2h, tensor.hidden_out) + exposed(size, link.h2d, tensor.hidden_in);
}

struct swap_decision {
  enum class mode : uint8_t { raw, recompute, encode };
  mode how = mode::raw;
  size_t codec = 0;  // with `encode`: which of the estimates
  double cost = 0, raw_cost = 0;
};

// The way that costs least; of equals raw, then the first codec, then computing anew. A lossy codec only where the
// profile allows it. Estimates that are no numbers are not chosen.
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
