// Which way each tensor of a training goes, decided anew as its sparsity changes: the advisor of CSWAP, for any number
// of codecs. It knows the link and, by a predictor, each codec; of a tensor it is told the size and what computing
// hides, once, and the share of zeros, every epoch; what then was measured makes its predictions better.
//
//   tuck::advisor advisor(link, {{zvc_predictor}, {quantize_predictor, /* lossy */ true}});
//   const size_t x = advisor.add({.bytes = size, .hidden_out = 1e-3, .hidden_in = 2e-3});
//   ...each epoch, with what gather_statistics found:
//   const tuck::swap_decision way = advisor.decide(x, sparsity);
//
// One thread at a time.
#pragma once

#include <tuck/model/cost.hpp>
#include <tuck/model/predictor.hpp>

#include <cassert>
#include <utility>
#include <vector>

namespace tuck::inline TUCK_ABI {

struct advised_codec {
  codec_predictor predictor = {};
  bool lossy = false;
};

struct advisor_options {
  double hysteresis = .05;  // a decision is given up only for one that costs less by this share
  double forget = .99;      // what a measurement counts for after the next one
};

class advisor {
 public:
  explicit advisor(const link_rates& link, std::vector<advised_codec> codecs, const advisor_options& options = {})
      : link_(link), codecs_(std::move(codecs)), options_(options), estimates_(codecs_.size()) {}

  // A tensor, by the number that it has from then on: 0, 1, 2, ...
  size_t add(const swap_profile& profile) {
    tensors_.push_back({profile, {}, false});
    return tensors_.size() - 1;
  }
  size_t tensors() const noexcept { return tensors_.size(); }
  size_t codecs() const noexcept { return codecs_.size(); }

  // What is known of it otherwise than when it was added; the next decision is of that. Until then the last one stands,
  // or raw instead where that was lossy and may be no more.
  void change(size_t tensor, const swap_profile& profile) {
    assert(tensor < tensors_.size());
    entry& t = tensors_[tensor];
    t.profile = profile;
    const bool is_lossy = t.decision.how == swap_decision::mode::encode && codecs_[t.decision.codec].lossy;
    if (is_lossy && !profile.lossy_allowed) t.decision = {};
  }

  // The way for a tensor with this share of zeros. A codec is not chosen where a predicted deviation is as large as
  // what is predicted, or not known yet.
  swap_decision decide(size_t tensor, double sparsity) {
    assert(tensor < tensors_.size());
    entry& t = tensors_[tensor];
    for (size_t i = 0; i < codecs_.size(); ++i) estimates_[i] = estimate(t.profile, sparsity, codecs_[i]);
    const swap_decision best = choose(t.profile, link_, estimates_);
    const double as_before = cost_of(t.decision, t.profile);
    // What is not allowed any more, or not known, is given up whatever the rest costs.
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
  // The last one; raw before the first.
  swap_decision decision(size_t tensor) const {
    assert(tensor < tensors_.size());
    return tensors_[tensor].decision;
  }

  // What a codec took for a tensor with this share of zeros: seconds, and raw bytes over encoded ones. A figure of 0 is
  // none.
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

  // What a decision costs by the estimates of now; infinity where it is none any more.
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
  std::vector<codec_estimate> estimates_;  // of the tensor that is decided on
  std::vector<entry> tensors_;
};

}  // namespace tuck::inline TUCK_ABI
