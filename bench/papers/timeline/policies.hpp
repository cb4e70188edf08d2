// The papers' policies on a network, replayed.
#pragma once

#include "bench/papers/timeline/codecs.hpp"

namespace tuck::bench {

struct setting {
  machine on = {};
  codec_models codecs = {};
  codec_model host = {};
  zeros_table zeros = {};
};

// Seconds and bytes, or their means over several epochs: peaks are the largest.
struct figures {
  double iteration = 0, forward = 0, compute = 0, waiting = 0, codec = 0, recompute = 0;
  double bytes_out = 0, bytes_in = 0;
  double raw = 0, encoded = 0;  // of what leaves, before and after a codec; of COMET's, what stays
  double device_peak = 0, host_peak = 0;

  double ratio() const noexcept { return encoded > 0 ? raw / encoded : 1; }
};

struct outcome {
  std::string policy = {};
  figures is = {};
};

// In the order of the tables. A new one also needs a line in plan_for.
inline const std::vector<std::string> policy_names = {"keep",         "vDNN conv",        "vDNN all", "vDNN++",
                                                      "cDMA",         "cDMA engine",      "CSWAP",    "CSWAP+",
                                                      "CSWAP+ lossy", "CSWAP+ recompute", "COMET"};

// A policy's plan with what it was made for.
struct replayed {
  std::vector<timed_layer> layers = {};
  std::vector<double> zeros = {};
  std::vector<movement> plan = {};
  timeline result = {};
};

// `policy` is one of policy_names.
replayed replay_policy(const std::string& policy, const network_table& network, uint64_t batch, const setting& in,
                       double epoch);
outcome outcome_of(const std::string& policy, const replayed& run);

struct at_epoch {
  double epoch = 0;
  std::vector<outcome> policies = {};  // as policy_names
};

struct network_outcome {
  std::string name = {};
  uint64_t batch = 0;
  double dense_share = 0;
  std::vector<at_epoch> epochs = {};
  std::vector<outcome> mean = {};  // over the training

  // Of the mean.
  const figures& of(const std::string& policy) const;
};
const figures& of_policy(const std::vector<outcome>& all, const std::string& policy);

// {"policy", and the figures}, of each.
nlohmann::ordered_json as_json(const std::vector<outcome>& all);

// At the recorded epochs. The mean is over the whole epochs from the first to the last.
network_outcome replay_all(const network_table& network, uint64_t batch, const setting& in);

// 128 images, or 1024 small ones.
uint64_t usual_batch(const network_table& network);

}  // namespace tuck::bench
