#include "bench/papers/timeline/policies.hpp"

namespace tuck::bench {
namespace {

using way = movement::way;

constexpr auto all = offload_set::all;

std::vector<codec_estimate> estimates(const replayed& of, const codec_model& model) {
  std::vector<codec_estimate> found;
  for (size_t i = 0; i < of.layers.size(); ++i) found.push_back(model(of.layers[i].shape.input_bytes, of.zeros[i]));
  return found;
}

std::vector<std::vector<codec_estimate>> choices(const replayed& of, const codec_models& models,
                                                 const std::vector<std::string>& codecs) {
  std::vector<std::vector<codec_estimate>> found(of.layers.size());
  for (const std::string& codec : codecs) {
    const auto of_codec = estimates(of, models.at(codec));
    for (size_t i = 0; i < found.size(); ++i) found[i].push_back(of_codec[i]);
  }
  return found;
}

std::vector<movement> plan_for(const std::string& policy, const replayed& of, const setting& in) {
  const auto cheapest = [&](const std::vector<std::string>& codecs, plan_options options = {}) {
    return plan_cheapest(of.layers, all, in.on.link, choices(of, in.codecs, codecs), options);
  };
  const auto encoded = [&](const codec_model& by, way how = way::encode) {
    return plan_encoded(of.layers, all, estimates(of, by), how);
  };
  if (policy == "vDNN conv") return plan_raw(of.layers, offload_set::conv);
  if (policy == "vDNN all") return plan_raw(of.layers, all);
  if (policy == "vDNN++") return encoded(in.host, way::cpu);
  if (policy == "cDMA") return encoded(in.codecs.at("zvc"));
  if (policy == "cDMA engine") return encoded(engine_zvc(in.on));
  if (policy == "CSWAP") return cheapest({"zvc"});
  if (policy == "CSWAP+") return cheapest({"zvc", "rle", "deflate"});
  if (policy == "CSWAP+ lossy") return cheapest({"zvc", "rle", "deflate", "quantize"}, {.lossy_allowed = true});
  if (policy == "CSWAP+ recompute")
    return cheapest({"zvc", "rle", "deflate", "quantize"}, {.lossy_allowed = true, .recompute = true});
  if (policy == "COMET") return encoded(in.codecs.at("quantize"));
  if (policy != "keep") throw std::out_of_range(policy);
  return plan_raw(of.layers, offload_set::none);
}

constexpr double infinite = std::numeric_limits<double>::infinity();

// But for the peaks.
constexpr std::pair<const char*, double figures::*> of_all[] = {
    {"iteration", &figures::iteration}, {"forward", &figures::forward},   {"compute", &figures::compute},
    {"waiting", &figures::waiting},     {"codec", &figures::codec},       {"recompute", &figures::recompute},
    {"bytes_out", &figures::bytes_out}, {"bytes_in", &figures::bytes_in}, {"raw", &figures::raw},
    {"encoded", &figures::encoded}};

std::vector<outcome> mean_of(const std::vector<at_epoch>& epochs) {
  std::vector<outcome> mean = epochs.front().policies;
  for (size_t p = 0; p < mean.size(); ++p) {
    figures& sum = mean[p].is;
    for (size_t e = 1; e < epochs.size(); ++e) {
      const outcome& one = epochs[e].policies[p];
      for (const auto& [name, f] : of_all) sum.*f += one.is.*f;
      sum.device_peak = std::max(sum.device_peak, one.is.device_peak);
      sum.host_peak = std::max(sum.host_peak, one.is.host_peak);
    }
    for (const auto& [name, f] : of_all) sum.*f /= static_cast<double>(epochs.size());
  }
  return mean;
}

at_epoch replay_epoch(const network_table& network, uint64_t batch, const setting& in, double epoch) {
  at_epoch found{epoch};
  for (const std::string& policy : policy_names)
    found.policies.push_back(outcome_of(policy, replay_policy(policy, network, batch, in, epoch)));
  return found;
}

}  // namespace

replayed replay_policy(const std::string& policy, const network_table& network, uint64_t batch, const setting& in,
                       double epoch) {
  replayed run{.layers = time_layers(network, batch, in.on)};
  for (const network_row& row : network.rows) run.zeros.push_back(in.zeros.at(row, epoch));
  run.plan = plan_for(policy, run, in);
  // What COMET encodes stays: it leaves for memory without a link between.
  const link_rates link = policy == "COMET" ? link_rates{infinite, infinite} : in.on.link;
  run.result = replay(run.layers, run.plan, link, {.wait_at_layer_end = policy != "vDNN++"});
  return run;
}

outcome outcome_of(const std::string& policy, const replayed& run) {
  const timeline& t = run.result;
  outcome found{policy};
  found.is = {.iteration = t.iteration,
              .forward = t.forward,
              .compute = t.compute,
              .waiting = std::max(t.waiting(), 0.),  // but for rounding
              .codec = t.codec,
              .recompute = t.recompute,
              .bytes_out = static_cast<double>(t.bytes_out),
              .bytes_in = static_cast<double>(t.bytes_in),
              .encoded = static_cast<double>(t.bytes_out),
              .device_peak = static_cast<double>(t.device_peak),
              .host_peak = static_cast<double>(t.host_peak)};
  for (size_t i = 0; i < run.plan.size(); ++i)
    if (run.plan[i].how != way::keep && run.plan[i].how != way::recompute)
      found.is.raw += static_cast<double>(run.layers[i].shape.input_bytes);
  if (policy == "COMET") {  // at most: the two peaks need not be at once
    found.is.device_peak += found.is.host_peak;
    found.is.host_peak = found.is.bytes_out = found.is.bytes_in = 0;
  }
  return found;
}

const figures& of_policy(const std::vector<outcome>& outcomes, const std::string& policy) {
  for (const outcome& one : outcomes)
    if (one.policy == policy) return one.is;
  throw std::out_of_range(policy);
}
nlohmann::ordered_json as_json(const std::vector<outcome>& outcomes) {
  const double keep = of_policy(outcomes, "keep").iteration, vdnn = of_policy(outcomes, "vDNN all").iteration;
  auto rows = nlohmann::ordered_json::array();
  for (const outcome& one : outcomes) {
    rows.push_back({{"policy", one.policy}});
    for (const auto& [name, f] : of_all) rows.back()[name] = one.is.*f;
    rows.back().update({{"over_keep", one.is.iteration / keep},
                        {"over_vdnn", one.is.iteration / vdnn},
                        {"ratio", one.is.ratio()},
                        {"device_peak", one.is.device_peak},
                        {"host_peak", one.is.host_peak}});
  }
  return rows;
}

const figures& network_outcome::of(const std::string& policy) const { return of_policy(mean, policy); }

network_outcome replay_all(const network_table& network, uint64_t batch, const setting& in) {
  const std::vector<double>& epochs = in.zeros.epochs;
  network_outcome found{network.name, batch, network.dense_share(), {}, {}};
  for (const double epoch : epochs) found.epochs.push_back(replay_epoch(network, batch, in, epoch));
  std::vector<at_epoch> each;
  for (double epoch = epochs.front(); epoch <= epochs.back(); ++epoch)
    each.push_back(replay_epoch(network, batch, in, epoch));
  found.mean = mean_of(each);
  return found;
}

uint64_t usual_batch(const network_table& network) { return network.image_side < 64 ? 1024 : 128; }

}  // namespace tuck::bench
