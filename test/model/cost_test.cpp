#include <tuck/model.hpp>

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tuck::cost_tests {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// 120 MB over 12 and 10 GB/s: 10 ms out, 12 ms in.
constexpr link_rates link{.d2h = 12e9, .h2d = 10e9};
constexpr swap_profile tensor(double hidden_out, double hidden_in) {
  return {.bytes = 120'000'000, .hidden_out = hidden_out, .hidden_in = hidden_in};
}

TEST(cost, raw_by_hand) {
  EXPECT_DOUBLE_EQ(raw_cost(tensor(0, 0), link), .022);
  EXPECT_DOUBLE_EQ(raw_cost(tensor(.004, .002), link), .016);
  EXPECT_DOUBLE_EQ(raw_cost(tensor(.02, .002), link), .010);  // the way out is hidden, and no more than that
  EXPECT_DOUBLE_EQ(raw_cost(tensor(1, 1), link), 0);
}

TEST(cost, encoded_by_hand) {
  // A quarter: 2.5 ms out, 3 ms in; 0.5 + 0.25 ms for the codec.
  constexpr codec_estimate quarter{.ratio = 4, .encode = .0005, .decode = .00025};
  EXPECT_DOUBLE_EQ(encoded_cost(tensor(0, 0), link, quarter), .00075 + .0025 + .003);
  EXPECT_DOUBLE_EQ(encoded_cost(tensor(.001, 0), link, quarter), .00075 + .0015 + .003);
  EXPECT_DOUBLE_EQ(encoded_cost(tensor(1, 1), link, quarter), .00075);
  EXPECT_DOUBLE_EQ(encoded_cost(tensor(0, 0), link, {.ratio = std::numeric_limits<double>::infinity()}), 0);
}

TEST(cost, zvc_ratios_are_the_formula_s) {
  EXPECT_NEAR(zvc_ratio(0, 4), .970, .0005);
  EXPECT_NEAR(zvc_ratio(.6, 4), 2.319, .0005);
  EXPECT_NEAR(zvc_ratio(.9, 4), 7.619, .0005);
  EXPECT_DOUBLE_EQ(zvc_ratio(1, 4), 32);
  EXPECT_DOUBLE_EQ(zvc_ratio(1, 2), 16);
}

// At each side of it, the paper's rule decides otherwise, wherever it lies; where nothing is hidden.
TEST(cost, the_decision_flips_at_the_break_even_sparsity) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (int i = 0; i < 1000; ++i) {
    const swap_profile t{.bytes = 1 + random() % 1'000'000'000};
    const link_rates l{.d2h = 1e9 + 5e10 * uniform(random), .h2d = 1e9 + 5e10 * uniform(random)};
    const double whole = raw_cost(t, l);
    const double encode = whole * uniform(random) / 2, decode = whole * uniform(random) / 2;
    const double s = (encode + decode) / whole;
    ASSERT_GE(s, 0);
    ASSERT_LE(s, 1);
    const auto way_at = [&](double sparsity) {
      const codec_estimate c{.ratio = 1 / (1 - sparsity), .encode = encode, .decode = decode};
      return choose(t, l, {&c, 1}).how;
    };
    EXPECT_EQ(way_at(s - 1e-9), swap_decision::mode::raw);
    EXPECT_EQ(way_at(s + 1e-9), swap_decision::mode::encode);
  }
}

TEST(cost, equals_go_raw) {
  const codec_estimate useless{.ratio = 1};
  EXPECT_EQ(choose(tensor(0, 0), link, {&useless, 1}).how, swap_decision::mode::raw);
  const codec_estimate hidden{.ratio = 8};  // all is hidden anyway
  EXPECT_EQ(choose(tensor(1, 1), link, {&hidden, 1}).how, swap_decision::mode::raw);
  EXPECT_EQ(choose(tensor(1, 1), link, {}).how, swap_decision::mode::raw);
}

TEST(cost, what_is_no_number_is_not_chosen) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const codec_estimate broken[] = {{.ratio = nan}, {.ratio = 4, .encode = nan}, {.ratio = 0}};
  EXPECT_EQ(choose(tensor(0, 0), link, broken).how, swap_decision::mode::raw);
}

// A dense tensor never picks ZVC: up to a sparsity of 1/32 its masks cost as much as they save.
TEST(cost, dense_tensors_never_pick_zvc) {
  for (int i = 0; i <= 1000; ++i) {
    const double s = i / 32000.;
    for (const double seconds : {0., 1e-9, 1e-3}) {
      const codec_estimate zvc{.ratio = zvc_ratio(s, 4), .encode = seconds, .decode = seconds};
      EXPECT_NE(choose(tensor(0, 0), link, {&zvc, 1}).how, swap_decision::mode::encode) << s;
    }
  }
}

TEST(cost, the_choice_is_brute_force_s) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> uniform(0, 1);
  int raw = 0, again = 0, encoded = 0, lossy = 0;
  for (int i = 0; i < 100'000; ++i) {
    swap_profile t{.bytes = random() % 1'000'000'000,
                   .hidden_out = uniform(random) * .02,
                   .hidden_in = uniform(random) * .02,
                   .lossy_allowed = random() % 2 == 0};
    if (random() % 3 == 0) t.recompute = uniform(random) * .05;
    const link_rates l{.d2h = 1e9 + 5e10 * uniform(random), .h2d = 1e9 + 5e10 * uniform(random)};
    std::vector<codec_estimate> codecs(random() % 7);
    for (auto& c : codecs)
      c = {.ratio = std::exp2(5 * uniform(random) - .5),
           .encode = .01 * uniform(random),
           .decode = .01 * uniform(random),
           .lossy = random() % 3 == 0};
    const swap_decision d = choose(t, l, codecs);
    double lowest = infinite;
    const auto seconds = [](double bytes, double rate, double hidden) {
      return bytes / rate > hidden ? bytes / rate - hidden : 0;
    };
    const auto bytes = static_cast<double>(t.bytes);
    const double as_it_is = seconds(bytes, l.d2h, t.hidden_out) + seconds(bytes, l.h2d, t.hidden_in);
    lowest = std::min(as_it_is, t.recompute);
    for (const auto& c : codecs)
      if (!c.lossy || t.lossy_allowed)
        lowest = std::min(lowest, c.encode + c.decode + seconds(bytes / c.ratio, l.d2h, t.hidden_out) +
                                      seconds(bytes / c.ratio, l.h2d, t.hidden_in));
    ASSERT_DOUBLE_EQ(d.cost, lowest);
    ASSERT_DOUBLE_EQ(d.raw_cost, as_it_is);
    raw += d.how == swap_decision::mode::raw;
    again += d.how == swap_decision::mode::recompute;
    if (d.how != swap_decision::mode::encode) continue;
    ++encoded;
    lossy += codecs.at(d.codec).lossy;
    ASSERT_TRUE(!codecs[d.codec].lossy || t.lossy_allowed);
  }
  EXPECT_GT(raw, 1000);
  EXPECT_GT(again, 1000);
  EXPECT_GT(encoded, 1000);
  EXPECT_GT(lossy, 1000);
}

constexpr codec_estimate half{.ratio = 2};
static_assert(choose(tensor(0, 0), link, {&half, 1}).how == swap_decision::mode::encode);

}  // namespace
}  // namespace tuck::cost_tests
