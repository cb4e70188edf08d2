// SPDX-License-Identifier: Apache-2.0
// Decides for each tensor of a training run whether to swap it raw, swap it encoded, or recompute it. This is the
// advisor of CSWAP (Chen et al., CLUSTER 2021), extended to any number of codecs. It knows the rates of the link and
// has a predictor for each codec. For each tensor, the user gives its size once, and how many seconds of its transfers
// are hidden by computation. In each epoch the user gives its share of zeros. Measurements improve the predictions.
//
//   tuck::advisor advisor(link, {{zvc_predictor}, {quantize_predictor, /* lossy */ true}});
//   const size_t x = advisor.add({.bytes = size, .hidden_out = 1e-3, .hidden_in = 2e-3});
//   ...each epoch, with the sparsity from gather_statistics:
//   const tuck::swap_decision decision = advisor.decide(x, sparsity);
//
// Times are in seconds, sizes in bytes, rates in bytes per second. A tensor of S bytes is copied out in the forward
// pass and back in the backward pass. Computation hides H_out and H_in seconds of these copies. The training waits for
// the rest of the copies and for the codec:
//
//   (1)  raw      max(S / d2h - H_out, 0) + max(S / h2d - H_in, 0)
//   (2)  encoded  T_encode + T_decode + O_out + O_in
//   (3)  O_out =  max(S / r / d2h - H_out, 0)        (4)  O_in = max(S / r / h2d - H_in, 0)
//
// r is the codec's compression ratio, measured or predicted. The paper uses S * (1 - sparsity) instead of S / r, which
// ignores everything that a codec stores besides the values. r = 1 / (1 - sparsity) reproduces the paper's decisions.
//
// The advisor decides for each tensor alone: it knows neither how much memory is free, nor that tensors share the link.
// If some device memory is free during the whole step, `kept_in` says which tensors to leave there.
#pragma once

#include <tuck/core/span.hpp>
#include <tuck/model/predictor.hpp>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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
  return (std::max)(size / rate - hidden, 0.);
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

/// Returns the cost of a decision in seconds; infinity if the profile does not allow it.
/// @param codecs one estimate per codec
constexpr double cost_of(const swap_decision& d, const swap_profile& tensor, const link_rates& link,
                         span<const codec_estimate> codecs) noexcept {
  if (d.how == swap_decision::mode::raw) return raw_cost(tensor, link);
  if (d.how == swap_decision::mode::recompute) return tensor.recompute;
  const bool allowed = tensor.lossy_allowed || !codecs[d.codec].lossy;
  return allowed ? encoded_cost(tensor, link, codecs[d.codec]) : std::numeric_limits<double>::infinity();
}

/// Chooses the mode with the lowest cost. Ties prefer raw, then the first codec, then recomputation.
/// Lossy codecs are considered only if the profile allows them. Estimates whose cost is NaN are never chosen.
/// Complexity: linear in the number of codecs.
/// @param codecs one estimate per codec; swap_decision::codec is an index into it
constexpr swap_decision choose(const swap_profile& tensor, const link_rates& link,
                               span<const codec_estimate> codecs) noexcept {
  const double raw = raw_cost(tensor, link);
  swap_decision best{.cost = raw, .raw_cost = raw};
  const auto consider = [&](swap_decision d) {
    d.cost = cost_of(d, tensor, link, codecs);
    if (d.cost < best.cost) best = d;
  };
  for (size_t i = 0; i < codecs.size(); ++i) consider({swap_decision::mode::encode, i, 0, raw});
  consider({swap_decision::mode::recompute, 0, 0, raw});
  return best;
}

/// A codec that the advisor may choose.
struct advised_codec {
  codec_predictor predictor = {};  ///< predicts its times and its ratio
  bool lossy = false;              ///< whether the codec changes values
};

/// Options of an advisor.
struct advisor_options {
  double hysteresis = .05;  ///< a decision changes only if the new one costs less by this share of the old cost
  double forget = .99;      ///< factor by which each measurement reduces the weight of earlier ones
};

/// Makes decisions for the tensors of a training run. Not thread-safe: one thread at a time. Functions that take the
/// number of a tensor or codec throw std::out_of_range if there is none. With -fno-exceptions, what would throw ends
/// the program.
class advisor {
 public:
  /// Constructs an advisor without tensors. Throws std::invalid_argument about rates that no link has: those below
  /// 1 MB/s are mostly in another unit.
  /// @param link rates in bytes per second
  /// @param codecs the codecs to choose from; a decision names a codec by its index here
  explicit advisor(const link_rates& link, std::vector<advised_codec> codecs, const advisor_options& options = {})
      : link_(link), codecs_(std::move(codecs)), options_(options), estimates_(codecs_.size()) {
    for (const double rate : {link.d2h, link.h2d})
      if (!(rate >= 1e6 && rate <= 1e15))
        detail::raise(std::invalid_argument("tuck::advisor: link_rates are bytes per second, from 1e6 to 1e15"));
  }

  /// Adds a tensor.
  /// @return its number: 0, 1, 2, ...
  size_t add(const swap_profile& profile) {
    tensors_.push_back({profile, {}, false});
    return tensors_.size() - 1;
  }

  /// Replaces the profile of a tensor. The next decision uses it. Until then the last decision stays valid, but becomes
  /// raw if it named a lossy codec and the new profile does not allow that.
  void change(size_t tensor, const swap_profile& profile) {
    entry& t = at(tensors_, tensor, "tensor");
    t.profile = profile;
    const bool is_lossy = t.decision.how == swap_decision::mode::encode && codecs_[t.decision.codec].lossy;
    if (is_lossy && !profile.lossy_allowed) t.decision = {};
  }

  /// Decides how to swap a tensor. A codec is not chosen while one of its predictions is uncertain. A prediction is
  /// uncertain if its standard deviation is unknown (too few measurements, or none of such tensors), or not below the
  /// predicted value.
  /// Complexity: linear in the number of codecs.
  /// @param tensor a number that add returned  @param sparsity the tensor's share of zeros, in [0, 1]
  swap_decision decide(size_t tensor, double sparsity) {
    entry& t = at(tensors_, tensor, "tensor");
    for (size_t i = 0; i < codecs_.size(); ++i) estimates_[i] = estimate(t.profile, sparsity, codecs_[i]);
    const swap_decision best = choose(t.profile, link_, estimates_);
    const double as_before = cost_of(t.decision, t.profile, link_, estimates_);
    // The cost is infinite if the codec of the previous decision is no longer allowed, or if its prediction has become
    // uncertain. The decision is then replaced.
    const bool stays =
        t.decided && std::isfinite(as_before) && best.cost >= as_before * (1 - std::clamp(options_.hysteresis, 0., 1.));
    if (stays) {
      t.decision.cost = as_before;
      t.decision.raw_cost = best.raw_cost;
    } else {
      t.decision = best;
    }
    t.decided = true;
    return t.decision;
  }
  /// Returns the last decision for a tensor. Before the first decision it is mode::raw.
  swap_decision decision(size_t tensor) const { return at(tensors_, tensor, "tensor").decision; }

  /// Chooses the tensors that stay on the device, if `free_bytes` of its memory are free from the forward pass to the
  /// backward pass: those that cost the most seconds per byte by their last decisions, as far as they fit. Tensors that
  /// cost nothing, or were never decided, are not among them. The saved time is at least half of the largest possible
  /// one. Decisions do not change.
  /// Complexity: n log n in the number of tensors.
  /// @return their numbers, ascending
  std::vector<size_t> kept_in(uint64_t free_bytes) const {
    const auto cost = [&](size_t t) { return tensors_[t].decision.cost; };
    const auto size = [&](size_t t) { return tensors_[t].profile.bytes; };
    std::vector<size_t> order, kept;
    for (size_t t = 0; t < tensors_.size(); ++t)
      if (tensors_[t].decided && cost(t) > 0 && size(t) <= free_bytes) order.push_back(t);
    const auto per_byte = [&](size_t t) { return cost(t) / static_cast<double>(std::max<uint64_t>(size(t), 1)); };
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return per_byte(a) != per_byte(b) ? per_byte(a) > per_byte(b) : a < b; });
    uint64_t left = free_bytes;
    double saved = 0;
    for (const size_t t : order)
      if (size(t) <= left) {
        left -= size(t);
        saved += cost(t);
        kept.push_back(t);
      }
    const auto dearest =
        std::max_element(order.begin(), order.end(), [&](size_t a, size_t b) { return cost(a) < cost(b); });
    if (dearest != order.end() && cost(*dearest) > saved) kept = {*dearest};
    std::sort(kept.begin(), kept.end());
    return kept;
  }

  /// Reports a measurement of a codec on a tensor, to improve the predictions.
  /// @param sparsity the tensor's share of zeros, in [0, 1]
  /// @param encode seconds of encoding; 0: not measured
  /// @param decode seconds of decoding; 0: not measured
  /// @param ratio raw bytes / encoded bytes; 0: not measured
  void measured(size_t tensor, size_t codec, double sparsity, double encode, double decode, double ratio) {
    const uint64_t size = at(tensors_, tensor, "tensor").profile.bytes;
    at(codecs_, codec, "codec").predictor.add(size, sparsity, encode, decode, ratio, options_.forget);
  }

 private:
  struct entry {
    swap_profile profile;
    swap_decision decision;
    bool decided = false;
  };

  // The element of that index. Throws std::out_of_range.
  template <class List> static auto at(List& list, size_t index, const char* what) -> decltype(list[index]) {
    if (index < std::size(list)) return list[index];
    detail::raise(std::out_of_range("tuck::advisor: " + std::string(what) + ' ' + std::to_string(index) + " of " +
                                    std::to_string(std::size(list))));
  }

  static codec_estimate estimate(const swap_profile& tensor, double sparsity, const advised_codec& codec) noexcept {
    const auto seen = codec.predictor.at(tensor.bytes, sparsity);
    const bool known = seen.encode.sure() && seen.decode.sure() && seen.ratio.sure();
    const double never = std::numeric_limits<double>::infinity();
    return {seen.ratio.value, known ? seen.encode.value : never, seen.decode.value, codec.lossy};
  }

  link_rates link_;
  std::vector<advised_codec> codecs_;
  advisor_options options_;
  std::vector<codec_estimate> estimates_;  // for the tensor of the current decision
  std::vector<entry> tensors_;
};

}  // namespace tuck::inline TUCK_ABI
