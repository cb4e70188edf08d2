// Decides for each tensor of a training run whether to swap it raw, swap it encoded, or recompute it. This is the
// advisor of CSWAP (Chen et al., CLUSTER 2021), extended to any number of codecs. It knows the rates of the link and
// has a predictor for each codec. For each tensor, the user gives its size once, and how many seconds of its transfers
// are hidden by computation. In each epoch the user gives its share of zeros. Measurements improve the predictions.
//
//   tuck::advisor advisor(link, {{zvc_predictor}, {quantize_predictor, /* lossy */ true}});
//   const size_t x = advisor.add({.bytes = size, .hidden_out = 1e-3, .hidden_in = 2e-3});
//   ...each epoch, with the sparsity from gather_statistics:
//   const tuck::swap_decision decision = advisor.decide(x, sparsity);
#pragma once

#include <tuck/model/cost.hpp>
#include <tuck/model/predictor.hpp>

#include <cassert>
#include <utility>
#include <vector>

namespace tuck::inline TUCK_ABI {

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

/// Makes decisions for the tensors of a training run. Not thread-safe: one thread at a time.
class advisor {
 public:
  /// Constructs an advisor without tensors.
  /// @param link rates in bytes per second
  /// @param codecs the codecs to choose from; a decision names a codec by its index here
  explicit advisor(const link_rates& link, std::vector<advised_codec> codecs, const advisor_options& options = {})
      : link_(link), codecs_(std::move(codecs)), options_(options), estimates_(codecs_.size()) {}

  /// Adds a tensor.
  /// @return its number: 0, 1, 2, ...
  size_t add(const swap_profile& profile) {
    tensors_.push_back({profile, {}, false});
    return tensors_.size() - 1;
  }
  size_t tensors() const noexcept { return tensors_.size(); }  ///< number of tensors
  size_t codecs() const noexcept { return codecs_.size(); }    ///< number of codecs

  /// Replaces the profile of a tensor. The next decision uses it. Until then the last decision stays valid, but becomes
  /// raw if it named a lossy codec and the new profile does not allow that.
  void change(size_t tensor, const swap_profile& profile) {
    assert(tensor < tensors_.size());
    entry& t = tensors_[tensor];
    t.profile = profile;
    const bool is_lossy = t.decision.how == swap_decision::mode::encode && codecs_[t.decision.codec].lossy;
    if (is_lossy && !profile.lossy_allowed) t.decision = {};
  }

  /// Decides how to swap a tensor. A codec is not chosen while one of its predictions is uncertain. A prediction is
  /// uncertain if its standard deviation is unknown (too few measurements), or not below the predicted value.
  /// Complexity: linear in the number of codecs.
  /// @param tensor a number that add returned  @param sparsity the tensor's share of zeros, in [0, 1]
  swap_decision decide(size_t tensor, double sparsity) {
    assert(tensor < tensors_.size());
    entry& t = tensors_[tensor];
    for (size_t i = 0; i < codecs_.size(); ++i) estimates_[i] = estimate(t.profile, sparsity, codecs_[i]);
    const swap_decision best = choose(t.profile, link_, estimates_);
    const double as_before = cost_of(t.decision, t.profile);
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
  swap_decision decision(size_t tensor) const {
    assert(tensor < tensors_.size());
    return tensors_[tensor].decision;
  }

  /// Reports a measurement of a codec on a tensor, to improve the predictions.
  /// @param sparsity the tensor's share of zeros, in [0, 1]
  /// @param encode, decode seconds; 0: not measured
  /// @param ratio raw bytes / encoded bytes; 0: not measured
  void measured(size_t tensor, size_t codec, double sparsity, double encode, double decode, double ratio) {
    assert(tensor < tensors_.size() && codec < codecs_.size());
    codecs_[codec].predictor.add(tensors_[tensor].profile.bytes, sparsity, encode, decode, ratio, options_.forget);
  }

 private:
  struct entry {
    swap_profile profile;
    swap_decision decision;
    bool decided = false;
  };

  static codec_estimate estimate(const swap_profile& tensor, double sparsity, const advised_codec& codec) noexcept {
    const auto seen = codec.predictor.at(tensor.bytes, sparsity);
    const auto sure = [](const prediction& p) { return p.deviation < p.value; };
    const bool known = sure(seen.encode) && sure(seen.decode) && sure(seen.ratio);
    const double never = std::numeric_limits<double>::infinity();
    return {seen.ratio.value, known ? seen.encode.value : never, seen.decode.value, codec.lossy};
  }

  // Returns the cost of a decision by the current estimates; infinity if the decision is no longer allowed.
  double cost_of(const swap_decision& d, const swap_profile& tensor) const noexcept {
    switch (d.how) {
      case swap_decision::mode::raw: return raw_cost(tensor, link_);
      case swap_decision::mode::recompute: return tensor.recompute;
      case swap_decision::mode::encode: break;
    }
    if (estimates_[d.codec].lossy && !tensor.lossy_allowed) return std::numeric_limits<double>::infinity();
    return encoded_cost(tensor, link_, estimates_[d.codec]);
  }

  link_rates link_;
  std::vector<advised_codec> codecs_;
  advisor_options options_;
  std::vector<codec_estimate> estimates_;  // for the tensor of the current decision
  std::vector<entry> tensors_;
};

}  // namespace tuck::inline TUCK_ABI
