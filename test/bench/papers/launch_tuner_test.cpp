// The tuner on surfaces of which everything is known: wave_surface.hpp. Each measurement has noise of 5 %.
#include "bench/papers/tuner/wave_surface.hpp"
#include "support/effort.hpp"

#include <gtest/gtest.h>

namespace tuck::bench::launch_tuner_tests {
namespace {

using test::brief;

using surface = wave_surface;

size_t number_of(const surface& s, const launch_point& p) {
  size_t i = 0;
  while (!(s.space[i] == p)) ++i;
  return i;
}

// How far the pick is above the best and above the expert's, noise left out.
struct outcome_of_search {
  double over_best, over_expert;
  size_t trials;
};
outcome_of_search search(const surface& s, tuner_options options) {
  options.expert = s.expert;
  detail::split_mix random{options.seed * 77 + 5};
  launch_tuner tuner(s.space, options);
  while (const auto p = tuner.next())
    tuner.add(s.mean[number_of(s, *p)] * std::exp(.05 * bench::normal(random)) * 1e-4);
  const double found = s.mean[number_of(s, tuner.best())];
  return {found / s.mean[s.best] - 1, found / s.mean[s.expert] - 1, tuner.trials()};
}

class tuner_on_waves : public ::testing::TestWithParam<bench::wave_of> {};

TEST_P(tuner_on_waves, comes_near_the_best_in_forty_trials) {
  const uint64_t seeds = test::long_run() ? 100 : brief ? 10 : 30;
  uint64_t near = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto r = search(make_wave_surface(seed, GetParam()), {.seed = seed});
    EXPECT_LE(r.trials, 40u);
    EXPECT_LE(r.over_expert, .02) << seed;
    near += r.over_best <= .05;
  }
  EXPECT_GE(near, test::long_run() ? 90u : brief ? 8u : 26u);
}
INSTANTIATE_TEST_SUITE_P(of, tuner_on_waves,
                         ::testing::Values(bench::wave_of::chunks, bench::wave_of::threads, bench::wave_of::blocks));

// The expert's choice is the best: what merely looked faster must not win.
TEST(launch_tuner, does_not_leave_a_good_choice) {
  for (uint64_t seed = 101; seed <= (brief ? 105 : test::long_run() ? 130 : 110); ++seed) {
    surface s = make_wave_surface(seed);
    s.expert = s.best;
    EXPECT_LE(search(s, {.seed = seed}).over_expert, .02) << seed;
  }
}

// All others are alike and slower by a twenty-fourth: a needle, which nothing smooth believes in.
TEST(launch_tuner, believes_what_was_measured_of_the_expert_s_choice) {
  surface s = make_wave_surface(1);
  std::fill(s.mean.begin(), s.mean.end(), 1);
  s.mean[s.expert] = s.mean[s.best = s.expert] = .96;
  for (uint64_t seed = 1; seed <= (brief ? 5 : test::long_run() ? 30 : 10); ++seed)
    EXPECT_LE(search(s, {.seed = seed}).over_expert, .02) << seed;
}

TEST(launch_tuner, is_better_than_searching_at_random) {
  double guided = 0, random = 0;
  for (uint64_t seed = 201; seed <= (brief ? 205 : 215); ++seed) {
    const surface s = make_wave_surface(seed);
    guided += search(s, {.seed = seed}).over_best;
    random += search(s, {.search = tuner_search::random, .seed = seed}).over_best;
  }
  EXPECT_LT(guided, random / 2);
}

TEST(launch_tuner, searches_to_compare_with) {
  const surface s = make_wave_surface(1);
  const auto measure = [&](const launch_point& p) { return s.mean[number_of(s, p)]; };
  const auto tune = [&](const tuner_options& o) { return number_of(s, tune_launch(s.space, o, measure)); };
  EXPECT_EQ(tune({.search = tuner_search::exhaustive, .trials = s.space.size()}), s.best);
  EXPECT_EQ(tune({.search = tuner_search::random, .trials = 2 * s.space.size()}), s.best);
  EXPECT_EQ(tune({.search = tuner_search::expert, .trials = 3, .expert = 77}), 77u);
  launch_tuner exhaustive(s.space, {.search = tuner_search::exhaustive, .trials = 5000});
  for (size_t i = 0; i < s.space.size(); ++i) {
    ASSERT_EQ(exhaustive.next(), s.space[i]);
    exhaustive.add(1);
  }
  EXPECT_EQ(exhaustive.next(), std::nullopt);
}

TEST(launch_tuner, one_seed_is_one_search) {
  const surface s = make_wave_surface(3);
  const auto tried = [&](uint64_t seed) {
    std::vector<size_t> points;
    launch_tuner tuner(s.space, {.seed = seed, .expert = s.expert});
    while (const auto p = tuner.next()) {
      points.push_back(number_of(s, *p));
      tuner.add(s.mean[points.back()]);
    }
    return points;
  };
  EXPECT_EQ(tried(5), tried(5));
  EXPECT_NE(tried(5), tried(6));
  EXPECT_EQ(tried(5)[0], s.expert);
}

TEST(launch_tuner, what_cannot_be_launched_is_not_chosen) {
  const surface s = make_wave_surface(4);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    // Blocks of 512 threads fail, the expert's among them.
    const size_t expert = number_of(s, {256, 512, 16384});
    const launch_point best = tune_launch(s.space, {.seed = seed, .expert = expert}, [&](const launch_point& p) {
      return p.threads == 512 ? std::numeric_limits<double>::infinity() : s.mean[number_of(s, p)];
    });
    EXPECT_LT(best.threads, 512u);
  }
  // Nothing works: then it is as it was.
  const auto never = [](const launch_point&) { return std::nan(""); };
  EXPECT_EQ(tune_launch(s.space, {.trials = 12, .expert = s.expert}, never), s.space[s.expert]);
}

TEST(launch_tuner, small_spaces_and_budgets) {
  const surface s = make_wave_surface(5);
  const auto measure = [&](const launch_point& p) { return s.mean[number_of(s, p)]; };
  for (const size_t trials : {0, 1, 2, 3, 5, 8}) {
    launch_tuner tuner(s.space, {.trials = trials, .expert = s.expert});
    while (const auto p = tuner.next()) tuner.add(measure(*p));
    EXPECT_EQ(tuner.trials(), trials);
    EXPECT_LE(measure(tuner.best()), 1.02 * s.mean[s.expert]);
  }
  const launch_space one{{132}, {256}, {16384}}, three{{132, 264, 528}, {256}, {16384}};
  const auto by_blocks = [](const launch_point& p) { return 1. / p.blocks; };
  EXPECT_EQ(tune_launch(one, {}, by_blocks), one[0]);
  EXPECT_EQ(tune_launch(three, {}, by_blocks).blocks, 528u);
}

}  // namespace
}  // namespace tuck::bench::launch_tuner_tests
