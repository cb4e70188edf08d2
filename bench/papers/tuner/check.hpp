// Where the tuner ends on surfaces.
#pragma once

#include "bench/papers/tuner/wave_surface.hpp"

namespace tuck::bench {

struct check_options {
  uint64_t seeds = 100, first_seed = 1;  // a search of each
  size_t trials = 40;                    // but for exhaustive search, which has all it wants
  double noise = 0;                      // of a measurement, beyond the recorded runs': the deviation of its logarithm
};

constexpr const char* name(tuner_search s) noexcept {
  constexpr const char* names[] = {"bayesian", "random", "exhaustive", "expert"};
  return names[static_cast<int>(s)];
}

// Of one search on one surface, from so many seeds; a measurement is one of the point's runs, drawn at random.
// {"surface", "search", "configurations", "trials": the most, "seeds", and of these "within_5_percent_of_best" and
// "within_2_percent_of_default_or_better"; "mean_over_best", "worst_over_best", "worst_over_default"}. "Over" is by how
// much the point that it ends at takes longer than another, as a share of it.
nlohmann::ordered_json check(const surface& on, tuner_search search, const check_options& options);

// On surfaces by their formula, one for each seed, with noise of 5 %.
nlohmann::ordered_json check_generated(tuner_search search, const check_options& options,
                                       wave_of fills = wave_of::chunks);

}  // namespace tuck::bench
