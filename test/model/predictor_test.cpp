#include <tuck/model.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tuck::predictor_tests {
namespace {

// Exactly linear: found exactly, but for the little that the first guess still weighs.
TEST(relative_regression, finds_what_is_linear) {
  relative_regression<3> model({1e3, 1e3, 1e3});
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(1, 10);
  for (int i = 0; i < 50; ++i) {
    const std::array<double, 3> x{1, uniform(random), uniform(random)};
    model.add(x, 2 + .5 * x[1] + .25 * x[2]);
  }
  EXPECT_NEAR(model.c[0], 2, 1e-4);
  EXPECT_NEAR(model.c[1], .5, 1e-4);
  EXPECT_NEAR(model.c[2], .25, 1e-4);
  EXPECT_LT(model.at({1, 2, 3}).deviation, 1e-2);
}

// The same as solving the normal equations of relative errors at once, by hand for one coefficient:
// c = sum(x / y) / sum(x^2 / y^2).
TEST(relative_regression, is_least_squares_of_relative_errors) {
  const double xs[] = {1, 2, 4, 10}, ys[] = {1.1, 1.8, 4.4, 9};
  relative_regression<1> model({1e4});
  double above = 0, below = 0;
  for (int i = 0; i < 4; ++i) {
    model.add({xs[i]}, ys[i]);
    above += xs[i] / ys[i];
    below += xs[i] * xs[i] / (ys[i] * ys[i]);
  }
  EXPECT_NEAR(model.c[0], above / below, 1e-7);
  double squares = 0;
  for (int i = 0; i < 4; ++i) squares += std::pow(1 - model.c[0] * xs[i] / ys[i], 2);
  EXPECT_NEAR(model.squares, squares, 1e-7);
}

TEST(relative_regression, forgets_what_was) {
  relative_regression<2> model({100, 100});
  std::mt19937_64 random(3);
  const auto phase = [&](double slope, int steps) {
    for (int i = 0; i < steps; ++i) {
      const double x = 1 + static_cast<double>(random() % 100);
      model.add({1, x}, 3 + slope * x, .95);
    }
  };
  phase(1, 300);
  EXPECT_NEAR(model.at({1, 50}).value, 53, .1);
  phase(2, 300);
  EXPECT_NEAR(model.at({1, 50}).value, 103, .5);
}

TEST(relative_regression, what_says_nothing_is_not_counted) {
  relative_regression<2> model({1, 0});
  EXPECT_FALSE(model.add({0, 1}, 1));
  EXPECT_TRUE(model.add({1, 0}, 1));
  EXPECT_TRUE(model.add({1, 0}, 1));
  EXPECT_EQ(model.freedom(), 1);
}

TEST(relative_regression, what_is_no_time_is_no_measurement) {
  relative_regression<1> model({1});
  for (const double y : {0., -1., std::numeric_limits<double>::quiet_NaN()}) model.add({1}, y);
  EXPECT_EQ(model.count, 0);
  EXPECT_EQ(model.at({1}).deviation, std::numeric_limits<double>::infinity());
}

// A codec with a launch's latency and a rate that depends on sparsity, measured with 5 % noise over five decades of
// sizes: points that were held out are predicted within the noise, and the deviation says how far off they are.
TEST(codec_predictor, predicts_what_it_has_not_seen) {
  std::mt19937_64 random(4);
  std::normal_distribution<double> noise(1, .05);
  const auto encode = [](double mib, double s) { return 5e-6 + mib * (3e-6 + 4e-6 * (1 - s)); };
  const auto decode = [](double mib, double s) { return 4e-6 + mib * (2e-6 + 3e-6 * (1 - s)); };
  const auto ratio = [](double mib, double s) { return mib / (1e-4 + mib / zvc_ratio(s, 4)); };  // 100 bytes a frame
  codec_predictor model;
  const auto point = [&](uint64_t& size, double& s) {
    size = uint64_t{1} << (12 + random() % 17);
    s = static_cast<double>(random() % 100) / 100;
    return static_cast<double>(size) / (1 << 20);
  };
  uint64_t size = 0;
  double s = 0;
  for (int i = 0; i < 300; ++i) {
    const double mib = point(size, s);
    model.add(size, s, encode(mib, s) * noise(random), decode(mib, s) * noise(random), ratio(mib, s));
  }
  int within = 0;
  for (int i = 0; i < 1000; ++i) {
    const double mib = point(size, s);
    const auto e = model.at(size, s);
    EXPECT_NEAR(e.encode.value / encode(mib, s), 1, .05);
    EXPECT_NEAR(e.decode.value / decode(mib, s), 1, .05);
    EXPECT_NEAR(e.ratio.value / ratio(mib, s), 1, 1e-3);
    within += std::abs(encode(mib, s) * noise(random) - e.encode.value) < 2 * e.encode.deviation;
  }
  EXPECT_NEAR(within, 954, 30);  // of a normal distribution, within two deviations
}

// What a CPU took to encode f16 with zvc: its rate falls by 6 where tensors outgrow a cache, and by 10 in all.
struct measured_time {
  uint64_t kib;
  double seconds;
};
constexpr measured_time zvc_of_a_cpu[] = {{4, 1.516e-7},    {16, 4.123e-7},   {64, 1.578e-6},    {256, 7.191e-6},
                                          {1024, 4.783e-5}, {4096, 2.506e-4}, {16384, 5.752e-3}, {65536, 3.703e-2}};

TEST(codec_predictor, follows_rates_that_caches_change) {
  codec_predictor model;
  for (const double s : {.3, .6, .9})
    for (const auto& [kib, seconds] : zvc_of_a_cpu) model.add(kib << 10, s, seconds, seconds, 2);
  for (const auto& [kib, seconds] : zvc_of_a_cpu) {
    const prediction encode = model.at(kib << 10, .6).encode;
    EXPECT_NEAR(encode.value / seconds, 1, .15) << kib << " KiB";
    EXPECT_LT(encode.deviation, .2 * encode.value) << kib << " KiB";
  }
}

TEST(codec_predictor, refuses_tensors_unlike_the_measured_ones) {
  codec_predictor model;
  for (const auto& [kib, seconds] : zvc_of_a_cpu)
    for (const double s : {.4, .6}) model.add(kib << 10, s, seconds, kib <= 4096 ? seconds : 0, 2);
  const auto sure = [&](uint64_t size, double s) {
    const auto e = model.at(size, s);
    return std::array{e.encode.sure(), e.decode.sure(), e.ratio.sure()};
  };
  EXPECT_EQ(sure(2 << 20, .5), (std::array{true, true, true}));
  EXPECT_EQ(sure(9 << 20, .5), (std::array{true, false, true}));  // decoding was measured up to 4 MiB
  EXPECT_EQ(sure(128 << 20, .5), (std::array{true, false, true}));
  EXPECT_EQ(sure((128 << 20) + 1, .5), (std::array{false, false, false}));
  EXPECT_EQ(sure(2048, .5), (std::array{true, true, true}));
  EXPECT_EQ(sure(2047, .5), (std::array{false, false, false}));
  EXPECT_EQ(sure(2 << 20, .29), (std::array{false, false, false}));
  EXPECT_EQ(sure(2 << 20, .31), (std::array{true, true, true}));
  EXPECT_EQ(sure(2 << 20, .71), (std::array{false, false, false}));
  EXPECT_EQ(sure(2 << 20, std::nan("")), (std::array{false, false, false}));
}

// A time that is predicted ten times too low is within the deviation, however small the difference is beside it.
TEST(codec_predictor, is_not_sure_of_times_that_follow_no_law) {
  codec_predictor model;
  for (int i = 0; i < 60; ++i) model.add(1 << 20, .5, i % 3 == 0 ? 1e-2 : 1e-4, 1e-4, 2);
  for (const double s : {.3, .7}) model.add(2 << 20, s, 1e-3, 2e-4, 2);
  EXPECT_FALSE(model.at(1 << 20, .5).encode.sure());
  EXPECT_TRUE(model.at(1 << 20, .5).decode.sure());
}

TEST(codec_predictor, no_time_is_below_half_the_least_one) {
  codec_predictor model;
  for (const uint64_t mib : {1, 2, 4}) model.add(mib << 20, .5, 1e-5 * static_cast<double>(mib * mib), 1e-5, 2);
  EXPECT_GE(model.at(1 << 19, .5).encode.value, 5e-6);
  EXPECT_EQ(model.at(1, .5).encode.value, 5e-6);
}

// However small a frame is predicted to be, or below nothing.
TEST(codec_predictor, no_ratio_is_above_10000) {
  EXPECT_DOUBLE_EQ(codec_predictor{}.at(64 << 20, .5).ratio.value, 1e4);
  codec_predictor model;
  for (const uint64_t mib : {1, 16, 64})
    for (const double s : {0., .5}) model.add(mib << 20, s, 0, 0, 1 / (.55 - s));
  EXPECT_NEAR(model.at(16 << 20, .5).ratio.value, 20, .1);
  EXPECT_DOUBLE_EQ(model.at(16 << 20, .9).ratio.value, 1e4);
}

}  // namespace
}  // namespace tuck::predictor_tests
