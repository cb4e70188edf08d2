// A launch surface: how long each combination of launch options takes.
#pragma once

#include "bench/papers/tuner/launch_tuner.hpp"

#include <nlohmann/json.hpp>

#include <functional>
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

// Seconds of one launch, on the host or on a device. Throws std::runtime_error where it fails.
using launch_timer = std::function<double(const launch_point&)>;

// Runs every point once unheard, to warm up, then all points `runs` times, in a new order each time. A machine that
// others share has faster and slower seconds: each run stands between two runs of a reference, the expert's point with
// as many threads. What is recorded is the run over the mean of the two, times the median of all runs of that
// reference. done() is called after each point.
std::vector<std::vector<double>> record(const launch_space& space, const launch_timer& seconds, size_t expert,
                                        unsigned runs, const std::function<void()>& done);

// The truth of a recorded point is the median of its runs. What else runs on a machine makes a run longer and says
// nothing of the point; a mean has all of it, and the best run is lucky where there are clocks that boost.
double median(std::vector<double> values);

// Half of all runs are no farther than this from their point's median, as a share of it.
double spread(const surface& recorded);

// The point of the space that is nearest as logarithms go, axis by axis.
size_t nearest(const launch_space& space, const launch_point& wanted);

// {"schema": "tuck-surface/1", ...}, as bench/papers/README.md describes it, seconds to four digits. A file is written
// entirely or not at all. Both throw tools::file_error.
void save(const std::string& path, const surface& recorded);
surface load(const std::string& path);

}  // namespace tuck::bench
