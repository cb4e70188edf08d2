#include "bench/papers/timeline/papers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <functional>

namespace tuck::bench {
namespace {

using nlohmann::ordered_json;

[[gnu::format(printf, 1, 2)]] std::string words(const char* format, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

// How much longer `a` takes than `b`, %.
double longer(const figures& a, const figures& b) { return 100 * (a.iteration / b.iteration - 1); }
double shorter(const figures& a, const figures& b) { return 100 * (1 - a.iteration / b.iteration); }
double swapping(const figures& of) { return of.waiting + of.codec + of.recompute; }

using of_network = std::function<double(const network_outcome&)>;
struct range {
  double mean = 0, most = 0;
  size_t networks = 0;
  std::string best = {};
};
range over(const std::vector<network_outcome>& all, const of_network& value) {
  range found;
  for (const network_outcome& n : all) {
    const double v = value(n);
    if (!std::isfinite(v)) continue;  // nothing leaves the device
    if (found.networks++ == 0 || v > found.most) {
      found.most = v;
      found.best = n.name;
    }
    found.mean += v;
  }
  found.mean /= static_cast<double>(std::max<size_t>(found.networks, 1));
  return found;
}
of_network relation(double (*of)(const figures&, const figures&), const char* a, const char* b) {
  return [=](const network_outcome& n) { return of(n.of(a), n.of(b)); };
}
// What swapping by `policy` saves of the time that vDNN's takes, %.
of_network less_swapping(const char* policy) {
  return [=](const network_outcome& n) { return 100 * (1 - swapping(n.of(policy)) / swapping(n.of("vDNN all"))); };
}

bool is_dense(const network_outcome& n) { return n.dense_share > .5; }

std::vector<network_outcome> those(const std::vector<network_outcome>& all, bool dense) {
  std::vector<network_outcome> found;
  for (const network_outcome& n : all)
    if (is_dense(n) == dense) found.push_back(n);
  return found;
}

std::string show(const range& r, const char* format) {
  if (r.networks == 0) return "no such network";
  return words(format, r.mean) + ", at most " + words(format, r.most) + " (" + r.best + ")";
}

// What beats what, in all networks and epochs.
class comparison_of_all {
 public:
  comparison_of_all(const char* claim, const char* policy, std::vector<const char*> others, double slack)
      : policy_(policy), others_(std::move(others)), slack_(slack) {
    found_ = {{"claim", claim}, {"asked", false}, {"holds", true}, {"by", ""}, {"exceptions", ordered_json::array()}};
  }

  void add(const network_outcome& n) {
    const double saved = against_best(n.mean).second;
    saved_.push_back({saved, n.name});
    check(n.name + ", mean", n.mean);
    for (const at_epoch& e : n.epochs) check(n.name + words(", epoch %g", e.epoch), e.policies);
  }
  ordered_json done() {
    found_["asked"] = !saved_.empty();
    found_["holds"] = found_["exceptions"].empty();
    if (saved_.empty()) {
      found_["by"] = "is not asked: there is no such network";
    } else if (saved_.size() == 1) {
      found_["by"] = words("saves %.1f %% of the time (%s)", 100 * saved_[0].first, saved_[0].second.c_str());
    } else {
      const auto [least, most] = std::minmax_element(saved_.begin(), saved_.end());
      found_["by"] = words("saves %.1f to %.1f %% of the time (%s, %s)", 100 * least->first, 100 * most->first,
                           least->second.c_str(), most->second.c_str());
    }
    return found_;
  }

 private:
  // The best of the others, and what share of its time is saved.
  std::pair<const char*, double> against_best(const std::vector<outcome>& outcomes) const {
    const auto time = [&](const char* policy) { return of_policy(outcomes, policy).iteration; };
    const char* best = *std::min_element(others_.begin(), others_.end(),
                                         [&](const char* a, const char* b) { return time(a) < time(b); });
    return {best, 1 - time(policy_) / time(best)};
  }
  bool swaps(const std::vector<outcome>& outcomes) const {
    return std::any_of(others_.begin(), others_.end(),
                       [&](const char* other) { return of_policy(outcomes, other).bytes_out > 0; });
  }
  void check(const std::string& where, const std::vector<outcome>& outcomes) {
    const auto [other, saved] = against_best(outcomes);
    if (saved > -slack_ || (saved == 0 && !swaps(outcomes))) return;
    const figures &a = of_policy(outcomes, policy_), &b = of_policy(outcomes, other);
    found_["exceptions"].push_back(where + ": " + policy_ +
                                   words(" takes %.1f %% longer than ", 100 * (a.iteration / b.iteration - 1)) + other +
                                   words("; it waits %.1f ms instead of %.1f, its codecs take %.1f ms instead of %.1f",
                                         1e3 * a.waiting, 1e3 * b.waiting, 1e3 * a.codec, 1e3 * b.codec));
  }

  ordered_json found_;
  const char* policy_;
  std::vector<const char*> others_;
  double slack_;
  std::vector<std::pair<double, std::string>> saved_ = {};
};

}  // namespace

ordered_json beside_papers(const paper_outcomes& of) {
  const auto speed = [](const std::vector<network_outcome>& all, const char* policy, const char* of_other,
                        const char* format = "%+.0f %%") {
    return show(over(all, relation(longer, of_other, policy)), format);
  };
  const auto memory = [](const network_outcome& n) { return n.of("COMET").ratio(); };
  auto rows = ordered_json::array();
  const auto add = [&](const char* what, const char* paper, const std::string& here, const char* why) {
    rows.push_back({{"what", what}, {"paper", paper}, {"replay", here}, {"why", why}});
  };
  add("cDMA over vDNN: training speed", "+32 % on average, +61 % at most; on another GPU 53 % and 79 %",
      "Titan X: engine " + speed(of.titan_x, "cDMA engine", "vDNN all") + ", software " +
          speed(of.titan_x, "cDMA", "vDNN all") + ". V100: engine " + speed(of.v100, "cDMA engine", "vDNN all") +
          ", software " + speed(of.v100, "cDMA", "vDNN all"),
      "the faster the GPU, the more of its time vDNN waits and there is to gain. SqueezeNet, GoogLeNet and those with "
      "batch normalization compute little for what they keep");
  add("CSWAP over vDNN: training time", "-20.7 % on average, V100",
      "V100: " + show(over(of.v100, relation(shorter, "CSWAP", "vDNN all")), "-%.1f %%"),
      "bounds of codecs are close to a copy; --slower 4 says what slower ones leave of it. And our zeros are one "
      "small network's");
  add("CSWAP over vDNN and vDNN++: training speed", "25 % and 190 % better, 2080 Ti",
      "2080 Ti: " + speed(of.rtx_2080_ti, "CSWAP", "vDNN all") + "; " + speed(of.rtx_2080_ti, "CSWAP", "vDNN++"),
      "of vDNN++, here the forward pass never waits for the CPU, which has encoded little when it ends; the paper's "
      "vDNN++ is much slower than its vDNN");
  add("CSWAP over encoding everything: training speed", "5.5 % better, V100; 5.1 %, 2080 Ti",
      "V100: " + speed(of.v100, "CSWAP", "cDMA", "%+.1f %%") +
          "; 2080 Ti: " + speed(of.rtx_2080_ti, "CSWAP", "cDMA", "%+.1f %%"),
      "the faster the codec, the less there is to gain by leaving it out; more with --slower");
  add("CSWAP+ over vDNN: time that swapping takes, sparse networks", "-50.9 % at most, V100",
      "V100: " + show(over(those(of.v100, false), less_swapping("CSWAP+")), "-%.1f %%"), "bounds, as above");
  add("CSWAP+, lossy: the same, dense networks", "-46.1 % at most, V100",
      "V100: " + show(over(those(of.v100, true), less_swapping("CSWAP+ lossy")), "-%.1f %%"),
      "bounds, as above; and our dense networks have a sparse tensor for each dense one");
  add("COMET: memory of activations", "13.5 times less at most", show(over(of.v100, memory), "%.1f times less"),
      "quantize at a fixed bound, a thousandth of the range; COMET finds one for each layer, and has an entropy "
      "coder");
  return rows;
}

ordered_json check_directions(const std::vector<network_outcome>& all) {
  comparison_of_all engine("cDMA's engine beats vDNN all", "cDMA engine", {"vDNN all"}, 0),
      software("cDMA in software beats vDNN all", "cDMA", {"vDNN all"}, 0),
      cswap("CSWAP is within 1 % of the better of vDNN all and cDMA in software", "CSWAP", {"vDNN all", "cDMA"}, .01),
      dense("CSWAP+ lossy beats all that swap without loss, in dense networks", "CSWAP+ lossy",
            {"vDNN all", "vDNN++", "cDMA", "cDMA engine", "CSWAP", "CSWAP+"}, 0);
  for (const network_outcome& n : all) {
    engine.add(n);
    software.add(n);
    cswap.add(n);
    if (is_dense(n)) dense.add(n);
  }
  return ordered_json::array({engine.done(), software.done(), cswap.done(), dense.done()});
}

}  // namespace tuck::bench
