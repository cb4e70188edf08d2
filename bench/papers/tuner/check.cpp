#include "bench/papers/tuner/check.hpp"

#include "bench/papers/tuner/wave_surface.hpp"

#include <algorithm>

namespace tuck::bench {
namespace {

void add_search(endings& to, const surface& on, const check_options& options, uint64_t seed) {
  detail::split_mix random{seed * 77 + 5};
  const size_t trials = to.search == tuner_search::exhaustive ? on.space.size() : options.trials;
  launch_tuner tuner(on.space, {.search = to.search, .trials = trials, .seed = seed, .expert = on.expert});
  while (const auto p = tuner.next()) {
    const size_t i = on.number_of(*p);
    const double seconds = on.runs.empty() ? on.truth[i] : on.runs[i][random.below(on.runs[i].size())];
    tuner.add(options.noise > 0 ? seconds * std::exp(options.noise * normal(random)) : seconds);
  }
  to.add(on, on.number_of(tuner.best()), tuner.trials());
}

}  // namespace

void endings::add(const surface& on, size_t found, size_t trials_used) {
  const double over_best = on.truth[found] / on.truth[on.best()] - 1,
               over_expert = on.truth[found] / on.truth[on.expert] - 1;
  worst_over_best = std::max(seeds == 0 ? over_best : worst_over_best, over_best);
  worst_over_expert = std::max(seeds == 0 ? over_expert : worst_over_expert, over_expert);
  near_best += over_best <= .05;
  safe += over_expert <= .02;
  trials = std::max(trials, trials_used);
  configurations = on.space.size();
  ++seeds;
  mean_over_best += (over_best - mean_over_best) / static_cast<double>(seeds);
}

endings check(const surface& on, tuner_search search, const check_options& options) {
  endings e{.of = on.name, .search = search};
  for (uint64_t seed = 1; seed <= options.seeds; ++seed) add_search(e, on, options, seed);
  return e;
}

endings check_generated(uint64_t count, tuner_search search, const check_options& options) {
  endings e{.of = std::to_string(count) + " generated", .search = search};
  check_options noisy = options;
  noisy.noise = .05;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    wave_surface s = make_wave_surface(seed);
    add_search(e, {.space = std::move(s.space), .expert = s.expert, .truth = std::move(s.mean)}, noisy, seed);
  }
  return e;
}

}  // namespace tuck::bench
