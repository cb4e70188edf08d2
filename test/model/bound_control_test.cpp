#include <tuck/model.hpp>

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tuck::bound_control_tests {
namespace {

// The error of sum l_i x_i where each x_i that is not zero is off by something uniform in [-bound, bound].
double measured_sigma(double bound, const std::vector<double>& l, const std::vector<bool>& zero, int trials,
                      std::mt19937_64& random) {
  std::uniform_real_distribution<double> error(-bound, bound);
  double squares = 0;
  for (int t = 0; t < trials; ++t) {
    double sum = 0;
    for (size_t i = 0; i < l.size(); ++i)
      if (!zero[i]) sum += l[i] * error(random);
    squares += sum * sum;
  }
  return std::sqrt(squares / trials);
}

// What COMET's estimate claims: as the bound, and as the root of the share that is not zero.
TEST(bound_control, sigma_scales_with_the_bound_and_the_root_of_what_is_not_zero) {
  std::mt19937_64 random(2);
  constexpr int trials = 40000;
  const std::vector<double> l(400, 1.);
  const auto sigma = [&](double bound, size_t nonzero) {
    std::vector<bool> zero(l.size());
    for (size_t i = nonzero; i < l.size(); ++i) zero[i] = true;
    return measured_sigma(bound, l, zero, trials, random);
  };
  const double one = sigma(1e-3, 400);
  EXPECT_NEAR(sigma(4e-3, 400) / one, 4, .08);
  EXPECT_NEAR(sigma(1e-3, 100) / one, .5, .01);
  const auto bound = [](double nonzero) {
    bound_controller control;
    control.update(0, {.mean_gradient = 1, .batch = 64, .nonzero = nonzero, .mean_momentum = 1e-3});
    return control.bound();
  };
  EXPECT_DOUBLE_EQ(bound(.25), 2 * bound(1));
}

TEST(bound_control, the_controller_follows_the_momentum) {
  bound_controller control({.refresh = 100});
  EXPECT_EQ(control.bound(), 1e-4);
  EXPECT_TRUE(control.wants(0));
  gradient_statistics seen{.mean_gradient = 1e-3, .batch = 100, .nonzero = .25, .mean_momentum = 1e-3};
  control.update(7, seen);
  EXPECT_NEAR(control.bound(), .01 * 1e-3 / (.32 * 1e-3 * 5), 1e-12);  // 6.25e-3
  EXPECT_FALSE(control.wants(8));
  EXPECT_FALSE(control.wants(106));
  EXPECT_TRUE(control.wants(107));
  seen.batch *= 4;  // the memory that was saved spent on a larger batch
  control.update(107, seen);
  EXPECT_NEAR(control.bound(), 3.125e-3, 1e-12);
}

// Every thousand iterations, as in the paper.
TEST(bound_control, statistics_are_wanted_every_1000_iterations) {
  bound_controller control;
  control.update(5, {.mean_gradient = 1e-3, .batch = 100, .nonzero = .25, .mean_momentum = 1e-3});
  EXPECT_FALSE(control.wants(1004));
  EXPECT_TRUE(control.wants(1005));
}

TEST(bound_control, what_says_nothing_changes_nothing) {
  bound_controller control;
  const gradient_statistics good{.mean_gradient = 1e-3, .batch = 100, .nonzero = .25, .mean_momentum = 1e-3};
  control.update(0, good);
  const double before = control.bound();
  for (auto change : {&gradient_statistics::mean_gradient, &gradient_statistics::batch, &gradient_statistics::nonzero,
                      &gradient_statistics::mean_momentum})
    for (const double value : {0., std::numeric_limits<double>::quiet_NaN(), -1.}) {
      gradient_statistics bad = good;
      bad.*change = value;
      control.update(2000, bad);
      EXPECT_EQ(control.bound(), before);
    }
  EXPECT_TRUE(control.wants(2000));
  gradient_statistics vast = good;
  vast.mean_momentum = 1e30;
  control.update(2000, vast);
  EXPECT_EQ(control.bound(), 1e-1);
}

TEST(bound_control, odd_options_do_no_harm) {
  bound_controller never({.refresh = ~uint64_t{0}});
  never.update(5, {.mean_gradient = 1, .batch = 1, .nonzero = 1, .mean_momentum = 1});
  EXPECT_FALSE(never.wants(6));
  EXPECT_FALSE(never.wants(1000000));
  EXPECT_EQ(bound_controller({.first = std::nan(""), .lowest = 1e-6}).bound(), 1e-6);
  EXPECT_EQ(bound_controller({.lowest = 1e-2, .highest = 1e-4}).bound(), 1e-2);
}

}  // namespace
}  // namespace tuck::bound_control_tests
