#include "bench/papers/tuner/check.hpp"

#include <algorithm>

namespace tuck::bench {
namespace {

class endings {
 public:
  void add(const surface& on, tuner_search search, const check_options& options, uint64_t seed) {
    detail::split_mix random{seed * 77 + 5};
    const size_t most = search == tuner_search::exhaustive ? on.space.size() : options.trials;
    size_t trials = 0;
    const auto measure = [&](const launch_point& p) {
      ++trials;
      const size_t i = on.number_of(p);
      const double seconds = on.runs.empty() ? on.truth[i] : on.runs[i][random.below(on.runs[i].size())];
      return options.noise > 0 ? seconds * std::exp(options.noise * normal(random)) : seconds;
    };
    const tuner_options how{.search = search, .trials = most, .seed = seed, .expert = on.expert};
    const double found = on.truth[on.number_of(tune_launch(on.space, how, measure))];
    over_best_.push_back(found / on.truth[on.best()] - 1);
    over_expert_.push_back(found / on.truth[on.expert] - 1);
    trials_ = std::max(trials_, trials);
    configurations_ = on.space.size();
  }

  nlohmann::ordered_json row(const std::string& surface, tuner_search search) const {
    const auto up_to = [](const std::vector<double>& all, double most) {
      return std::count_if(all.begin(), all.end(), [=](double over) { return over <= most; });
    };
    const auto worst = [](const std::vector<double>& all) { return *std::max_element(all.begin(), all.end()); };
    const auto seeds = over_best_.size();
    return {{"surface", surface},
            {"search", name(search)},
            {"configurations", configurations_},
            {"trials", trials_},
            {"seeds", seeds},
            {"within_5_percent_of_best", up_to(over_best_, .05)},
            {"within_2_percent_of_default_or_better", up_to(over_expert_, .02)},
            {"mean_over_best", std::accumulate(over_best_.begin(), over_best_.end(), 0.) / static_cast<double>(seeds)},
            {"worst_over_best", worst(over_best_)},
            {"worst_over_default", worst(over_expert_)}};
  }

 private:
  std::vector<double> over_best_ = {}, over_expert_ = {};  // of each seed
  size_t trials_ = 0, configurations_ = 0;
};

}  // namespace

nlohmann::ordered_json check(const surface& on, tuner_search search, const check_options& options) {
  endings all;
  for (uint64_t i = 0; i < options.seeds; ++i) all.add(on, search, options, options.first_seed + i);
  return all.row(on.name, search);
}

nlohmann::ordered_json check_generated(tuner_search search, const check_options& options, wave_of fills) {
  check_options noisy = options;
  noisy.noise = .05;
  endings all;
  for (uint64_t i = 0; i < options.seeds; ++i)
    all.add(make_wave_surface(options.first_seed + i, fills), search, noisy, options.first_seed + i);
  return all.row(std::to_string(options.seeds) + " generated", search);
}

}  // namespace tuck::bench
