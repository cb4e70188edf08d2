#include "bench/papers/timeline/papers.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tuck::bench {
namespace {

using nlohmann::ordered_json;
using networks = std::vector<network_outcome>;

// What a policy gains over another, in %.
using gain = double (*)(const figures& policy, const figures& other);
double speed(const figures& policy, const figures& other) { return 100 * (other.iteration / policy.iteration - 1); }
double time(const figures& policy, const figures& other) { return 100 * (1 - policy.iteration / other.iteration); }
double swapping(const figures& policy, const figures& other) {
  const auto seconds = [](const figures& of) { return of.waiting + of.codec + of.recompute; };
  return 100 * (1 - seconds(policy) / seconds(other));
}
// Not a share: how many times as small.
double memory(const figures& policy, const figures&) { return policy.ratio(); }

bool is_dense(const network_outcome& n) { return n.dense_share > .5; }

networks those(const networks& all, bool dense) {
  networks found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found), [=](const auto& n) { return is_dense(n) == dense; });
  return found;
}

ordered_json row(const char* what, const char* gpu, const char* paper, const networks& all, gain of, const char* policy,
                 const char* other = "vDNN all") {
  ordered_json found{{"what", what}, {"gpu", gpu}, {"paper", paper}, {"mean", nullptr}, {"most", nullptr}};
  double sum = 0, most = 0;
  size_t count = 0;
  for (const network_outcome& n : all) {
    const double gained = of(n.of(policy), n.of(other));
    if (!std::isfinite(gained)) continue;  // nothing leaves the device
    sum += gained;
    if (count++ != 0 && gained <= most) continue;
    most = gained;
    found["network"] = n.name;
  }
  if (count != 0) found.update({{"mean", sum / static_cast<double>(count)}, {"most", most}});
  return found;
}

struct claim {
  const char* text;
  const char* policy;
  std::vector<const char*> others;
  double slack = 0;
  bool dense = false;  // of such networks only
};

ordered_json judge(const claim& c, const networks& all) {
  ordered_json found{{"claim", c.text}, {"holds", true}, {"least", nullptr}, {"most", nullptr}};
  found["exceptions"] = ordered_json::array();
  // The share of the time of the best of the others that is saved.
  const auto saved = [&](const std::string& where, const std::vector<outcome>& outcomes) {
    const auto of = [&](const char* policy) -> const figures& { return of_policy(outcomes, policy); };
    const char* best = *std::min_element(c.others.begin(), c.others.end(), [&](const char* a, const char* b) {
      return of(a).iteration < of(b).iteration;
    });
    const double share = 1 - of(c.policy).iteration / of(best).iteration;
    const bool swaps =
        std::any_of(c.others.begin(), c.others.end(), [&](const char* other) { return of(other).bytes_out > 0; });
    if (share <= -c.slack && (share != 0 || swaps)) {
      char text[160];
      std::snprintf(text, sizeof text, "%s: %s takes %.1f %% longer than %s", where.c_str(), c.policy,
                    speed(of(best), of(c.policy)), best);
      found["exceptions"].push_back(text);
      found["holds"] = false;
    }
    return 100 * share;
  };
  for (const network_outcome& n : all) {
    if (c.dense && !is_dense(n)) continue;
    const double share = saved(n.name + ", mean", n.mean);
    for (const at_epoch& e : n.epochs) saved(n.name + ", epoch " + std::to_string(std::lround(e.epoch)), e.policies);
    found["least"] = found["least"].is_null() ? share : std::min(share, found["least"].get<double>());
    found["most"] = found["most"].is_null() ? share : std::max(share, found["most"].get<double>());
  }
  return found;
}

}  // namespace

ordered_json beside_papers(const paper_outcomes& of) {
  return ordered_json::array(
      {row("cDMA engine over vDNN: speed", "Titan X", "+32 %, at most +61", of.titan_x, speed, "cDMA engine"),
       row("cDMA over vDNN: speed", "Titan X", "-", of.titan_x, speed, "cDMA"),
       row("cDMA engine over vDNN: speed", "V100", "+53 %, at most +79", of.v100, speed, "cDMA engine"),
       row("cDMA over vDNN: speed", "V100", "-", of.v100, speed, "cDMA"),
       row("CSWAP over vDNN: time saved", "V100", "20.7 %", of.v100, time, "CSWAP"),
       row("CSWAP over vDNN: speed", "2080 Ti", "+25 %", of.rtx_2080_ti, speed, "CSWAP"),
       row("CSWAP over vDNN++: speed", "2080 Ti", "+190 %", of.rtx_2080_ti, speed, "CSWAP", "vDNN++"),
       row("CSWAP over encoding all: speed", "V100", "+5.5 %", of.v100, speed, "CSWAP", "cDMA"),
       row("CSWAP over encoding all: speed", "2080 Ti", "+5.1 %", of.rtx_2080_ti, speed, "CSWAP", "cDMA"),
       row("CSWAP+: swapping saved, sparse", "V100", "at most 50.9 %", those(of.v100, false), swapping, "CSWAP+"),
       row("CSWAP+ lossy: the same, dense", "V100", "at most 46.1 %", those(of.v100, true), swapping, "CSWAP+ lossy"),
       row("COMET: times less memory", "V100", "at most 13.5", of.v100, memory, "COMET")});
}

ordered_json check_directions(const networks& all) {
  auto found = ordered_json::array();
  for (const claim& c :
       {claim{"cDMA's engine beats vDNN all", "cDMA engine", {"vDNN all"}},
        claim{"cDMA in software beats vDNN all", "cDMA", {"vDNN all"}},
        claim{"CSWAP is within 1 % of the better of vDNN all and cDMA", "CSWAP", {"vDNN all", "cDMA"}, .01},
        claim{"CSWAP+ lossy beats all without loss, in dense networks",
              "CSWAP+ lossy",
              {"vDNN all", "vDNN++", "cDMA", "cDMA engine", "CSWAP", "CSWAP+"},
              0,
              true}})
    found.push_back(judge(c, all));
  return found;
}

}  // namespace tuck::bench
