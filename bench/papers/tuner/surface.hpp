// A launch surface: how long each combination of launch options takes.
#pragma once

#include "bench/papers/tuner/launch_tuner.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace tuck::bench {

struct surface {
  std::string name = {};
  launch_space space = {};
  size_t expert = 0;                             // what a person would choose without measuring
  std::vector<double> truth = {};                // seconds of each point
  std::vector<std::vector<double>> runs = {};    // what was measured of each; none where the truth is a formula
  nlohmann::ordered_json description = nullptr;  // what was run, and where; of recorded ones

  size_t best() const;
  size_t number_of(const launch_point& p) const;
};

// {"schema": "tuck-surface/1", ...}, as bench/papers/README.md describes it. The truth of a point is the median of its
// runs: what else runs on a machine makes a run longer and says nothing of the point. Throws tools::file_error.
surface load(const std::string& path);

}  // namespace tuck::bench
