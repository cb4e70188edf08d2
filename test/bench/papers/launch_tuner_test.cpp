// The tuner on surfaces of which everything is known: wave_surface.hpp. Each measurement has noise of 5 %.
#include "bench/papers/tuner/check.hpp"
#include "support/effort.hpp"

#include <gtest/gtest.h>

namespace tuck::bench {
namespace {

using test::brief;

double of(const nlohmann::ordered_json& row, const char* key) { return row.at(key).get<double>(); }
constexpr const char *near_best = "within_5_percent_of_best", *safe = "within_2_percent_of_default_or_better";

uint64_t tries(uint64_t few, uint64_t usual, uint64_t many) { return brief ? few : test::long_run() ? many : usual; }

class tuner_on_waves : public ::testing::TestWithParam<wave_of> {};

TEST_P(tuner_on_waves, comes_near_the_best_in_forty_trials) {
  const uint64_t seeds = tries(10, 30, 100);
  const auto row = check_generated(tuner_search::bayesian, {.seeds = seeds}, GetParam());
  EXPECT_EQ(of(row, "configurations"), 1024);
  EXPECT_EQ(of(row, "trials"), 40);
  EXPECT_EQ(of(row, safe), seeds) << row;
  EXPECT_GE(of(row, near_best), tries(8, 26, 90)) << row;
}
INSTANTIATE_TEST_SUITE_P(of, tuner_on_waves, ::testing::Values(wave_of::chunks, wave_of::threads, wave_of::blocks));

// The expert's choice is the best: what merely looked faster must not win.
TEST(launch_tuner, does_not_leave_a_good_choice) {
  for (uint64_t seed = 101; seed <= 100 + tries(5, 10, 30); ++seed) {
    surface s = make_wave_surface(seed);
    s.expert = s.best();
    EXPECT_EQ(of(check(s, tuner_search::bayesian, {.seeds = 1, .first_seed = seed, .noise = .05}), safe), 1) << seed;
  }
}

// All others are alike and slower by a twenty-fourth: a needle, which nothing smooth believes in.
TEST(launch_tuner, believes_what_was_measured_of_the_expert_s_choice) {
  surface s = make_wave_surface(1);
  std::fill(s.truth.begin(), s.truth.end(), 1);
  s.truth[s.expert] = .96;
  const uint64_t seeds = tries(5, 10, 30);
  EXPECT_EQ(of(check(s, tuner_search::bayesian, {.seeds = seeds, .noise = .05}), safe), seeds);
}

TEST(launch_tuner, is_better_than_searching_at_random) {
  const check_options options{.seeds = tries(5, 15, 15), .first_seed = 201};
  EXPECT_LT(of(check_generated(tuner_search::bayesian, options), "mean_over_best"),
            of(check_generated(tuner_search::random, options), "mean_over_best") / 2);
}

TEST(launch_tuner, searches_to_compare_with) {
  const surface s = make_wave_surface(1);
  const auto measure = [&](const launch_point& p) { return s.truth[s.number_of(p)]; };
  const auto tune = [&](const tuner_options& o) { return s.number_of(tune_launch(s.space, o, measure)); };
  EXPECT_EQ(tune({.search = tuner_search::exhaustive, .trials = s.space.size()}), s.best());
  EXPECT_EQ(tune({.search = tuner_search::random, .trials = 2 * s.space.size()}), s.best());
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
    tune_launch(s.space, {.seed = seed, .expert = s.expert}, [&](const launch_point& p) {
      points.push_back(s.number_of(p));
      return s.truth[points.back()];
    });
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
    const size_t expert = s.number_of({256, 512, 16384});
    const launch_point best = tune_launch(s.space, {.seed = seed, .expert = expert}, [&](const launch_point& p) {
      return p.threads == 512 ? std::numeric_limits<double>::infinity() : s.truth[s.number_of(p)];
    });
    EXPECT_LT(best.threads, 512u);
  }
  // Nothing works: then it is as it was.
  const auto never = [](const launch_point&) { return std::nan(""); };
  EXPECT_EQ(tune_launch(s.space, {.trials = 12, .expert = s.expert}, never), s.space[s.expert]);
}

TEST(launch_tuner, small_spaces_and_budgets) {
  const surface s = make_wave_surface(5);
  const auto measure = [&](const launch_point& p) { return s.truth[s.number_of(p)]; };
  for (const size_t trials : {0, 1, 2, 3, 5, 8}) {
    launch_tuner tuner(s.space, {.trials = trials, .expert = s.expert});
    while (const auto p = tuner.next()) tuner.add(measure(*p));
    EXPECT_EQ(tuner.trials(), trials);
    EXPECT_LE(measure(tuner.best()), 1.02 * s.truth[s.expert]);
  }
  const launch_space one{{132}, {256}, {16384}}, three{{132, 264, 528}, {256}, {16384}};
  const auto by_blocks = [](const launch_point& p) { return 1. / p.blocks; };
  EXPECT_EQ(tune_launch(one, {}, by_blocks), one[0]);
  EXPECT_EQ(tune_launch(three, {}, by_blocks).blocks, 528u);
}

}  // namespace
}  // namespace tuck::bench
