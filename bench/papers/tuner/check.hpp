// Where the tuner ends on surfaces of which the truth is known.
#pragma once

#include "bench/papers/tuner/surface.hpp"

namespace tuck::bench {

struct check_options {
  uint64_t seeds = 100;  // 1 and on
  size_t trials = 40;    // but for exhaustive search, which has all it wants
  double noise = 0;      // of a measurement, beyond the recorded runs': the deviation of its logarithm
};

constexpr const char* name(tuner_search s) noexcept {
  constexpr const char* names[] = {"bayesian", "random", "exhaustive", "expert"};
  return names[static_cast<int>(s)];
}

// Of one search on one surface, from so many seeds. "Over" is by how much the truth of the point that it ends at is
// above another's, as a share of it.
struct endings {
  std::string of = {};  // the surface
  tuner_search search = tuner_search::bayesian;
  size_t configurations = 0, seeds = 0;
  size_t trials = 0;     // the most
  size_t near_best = 0;  // seeds: within 5 % of the best
  size_t safe = 0;       // seeds: no more than 2 % over the expert's choice
  double mean_over_best = 0, worst_over_best = 0, worst_over_expert = 0;

  void add(const surface& on, size_t found, size_t trials_used);
};

// A measurement is one of the point's runs, drawn at random.
endings check(const surface& on, tuner_search search, const check_options& options);

// On surfaces 1 to `count` by their formula, each with a seed, 5 % of noise.
endings check_generated(uint64_t count, tuner_search search, const check_options& options);

}  // namespace tuck::bench
