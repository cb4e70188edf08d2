#include <tuck/model.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace tuck::advisor_tests {
namespace {

using mode = swap_decision::mode;

constexpr link_rates link{.d2h = 10e9, .h2d = 10e9};
constexpr uint64_t size = 64 << 20;  // 6.7 ms each way

// ZVC's sizes at a given speed each way, of values of 4 bytes.
advised_codec zvc_like(double rate) {
  advised_codec codec;
  for (const uint64_t mib : {1, 16, 64, 256})
    for (const double s : {0., .3, .6, .9}) {
      const double seconds = static_cast<double>(mib << 20) / rate;
      codec.predictor.add(mib << 20, s, seconds, seconds, zvc_ratio(s, 4));
    }
  return codec;
}
advised_codec lossy_like(double rate, double ratio) {
  advised_codec codec{.lossy = true};
  for (const uint64_t mib : {1, 16, 64, 256})
    for (const double s : {0., .5, .9})
      codec.predictor.add(mib << 20, s, static_cast<double>(mib << 20) / rate, static_cast<double>(mib << 20) / rate,
                          ratio);
  return codec;
}

TEST(advisor, changes_its_mind_where_encoding_pays) {
  advisor a(link, {zvc_like(20e9)}, {.hysteresis = 0});
  const size_t x = a.add({.bytes = size});
  // 2 S / 20e9 for the codec against 2 S (s - 1/32) / 10e9 that it saves: s = .53125.
  EXPECT_EQ(a.decide(x, .52).how, mode::raw);
  EXPECT_EQ(a.decide(x, .54).how, mode::encode);
  EXPECT_EQ(a.decide(x, .52).how, mode::raw);
  EXPECT_NEAR(a.decide(x, .9).cost, 2 * (double(size) / 20e9 + double(size) * (1 - .9 + 1. / 32) / 10e9), 1e-6);
  EXPECT_NEAR(a.decision(x).raw_cost, 2 * double(size) / 10e9, 1e-9);
}

TEST(advisor, does_not_flap) {
  advisor a(link, {zvc_like(20e9)}, {.hysteresis = .05});
  const size_t x = a.add({.bytes = size});
  int changes = 0;
  mode last = a.decide(x, .50).how;
  for (int epoch = 0; epoch < 100; ++epoch) {
    const mode now = a.decide(x, .53125 + (epoch % 2 == 0 ? .02 : -.02)).how;
    changes += now != last;
    last = now;
  }
  EXPECT_LE(changes, 1);
  EXPECT_EQ(a.decide(x, .6).how, mode::encode);  // 6.4 % cheaper
  EXPECT_EQ(a.decide(x, .5).how, mode::encode);  // not 5 % dearer
  EXPECT_EQ(a.decide(x, .4).how, mode::raw);
}

TEST(advisor, is_not_lossy_without_permission) {
  advisor a(link, {zvc_like(1000e9), lossy_like(1000e9, 10)});
  const size_t x = a.add({.bytes = size});
  EXPECT_EQ(a.decide(x, 0).how, mode::raw);
  swap_profile may{.bytes = size, .lossy_allowed = true};
  a.change(x, may);
  EXPECT_EQ(a.decide(x, 0).how, mode::encode);
  EXPECT_EQ(a.decision(x).codec, 1u);
  may.lossy_allowed = false;  // whatever it costs to change
  a.change(x, may);
  EXPECT_EQ(a.decision(x).how, mode::raw);  // at once
  EXPECT_EQ(a.decide(x, 0).how, mode::raw);
}

TEST(advisor, keeps_what_costs_most_in_memory_that_is_free) {
  advisor a(link, {});
  const size_t hidden = a.add({.bytes = size, .hidden_out = 1, .hidden_in = 1});  // costs nothing
  const size_t one_way = a.add({.bytes = size, .hidden_out = 1});
  const size_t both_ways = a.add({.bytes = size / 2});
  const size_t never_decided = a.add({.bytes = 1});
  const size_t cheap = a.add({.bytes = size, .recompute = 1e-6});
  for (const size_t t : {hidden, one_way, both_ways, cheap}) a.decide(t, 0);
  using numbers = std::vector<size_t>;
  EXPECT_EQ(a.kept_in(0), numbers{});
  EXPECT_EQ(a.kept_in(size / 2 - 1), numbers{});
  EXPECT_EQ(a.kept_in(size / 2), numbers{both_ways});
  EXPECT_EQ(a.kept_in(size), numbers{both_ways});  // as dear as the whole one
  EXPECT_EQ(a.kept_in(size + size / 2), (numbers{one_way, both_ways}));
  EXPECT_EQ(a.kept_in(~uint64_t{0}), (numbers{one_way, both_ways, cheap}));
  EXPECT_EQ(a.decision(one_way).how, mode::raw);
  (void)never_decided;

  // By seconds per byte alone, a small tensor would keep a large one out.
  advisor b(link, {});
  const size_t small = b.add({.bytes = 1 << 10});
  const size_t large = b.add({.bytes = size, .hidden_out = 1e-4});
  for (const size_t t : {small, large}) b.decide(t, 0);
  EXPECT_EQ(b.kept_in(size), numbers{large});
}

TEST(advisor, what_was_never_measured_is_not_chosen) {
  advisor a(link, {advised_codec{}});
  const size_t x = a.add({.bytes = size});
  EXPECT_EQ(a.decide(x, .9).how, mode::raw);
  for (const uint64_t mib : {1, 8, 64, 100, 200})
    for (const double s : {.5, .9}) {
      const size_t y = a.add({.bytes = mib << 20});
      a.measured(y, 0, s, double(mib << 20) / 500e9, double(mib << 20) / 500e9, zvc_ratio(s, 4));
    }
  EXPECT_EQ(a.decide(x, .9).how, mode::encode);
}

TEST(advisor, learns_that_a_codec_has_become_slow) {
  advisor a(link, {zvc_like(20e9)});
  const size_t x = a.add({.bytes = size});
  EXPECT_EQ(a.decide(x, .9).how, mode::encode);
  for (int i = 0; i < 300; ++i) a.measured(x, 0, .9, double(size) / 8e9, double(size) / 8e9, zvc_ratio(.9, 4));
  EXPECT_EQ(a.decide(x, .9).how, mode::raw);
}

// As far as the options say: with all measurements for good, the first ones outweigh those that follow.
TEST(advisor, forgets_as_fast_as_the_options_say) {
  for (const double forget : {.5, 1.}) {
    advisor a(link, {zvc_like(20e9)}, {.hysteresis = 0, .forget = forget});
    const size_t x = a.add({.bytes = size});
    for (int i = 0; i < 12; ++i) a.measured(x, 0, .9, double(size) / 8e9, double(size) / 8e9, zvc_ratio(.9, 4));
    EXPECT_EQ(a.decide(x, .9).how, forget == 1 ? mode::encode : mode::raw);
  }
}

// The same tensor again and again tells nothing of others, and must not make what was known of them, or of itself,
// vanish.
TEST(advisor, does_not_forget_what_it_is_not_told_again) {
  for (const double noise : {0., .02}) {
    advisor a(link, {zvc_like(200e9)});
    const size_t x = a.add({.bytes = size}), y = a.add({.bytes = size / 4});
    uint64_t state = 1;
    for (int i = 0; i < 100000; ++i) {
      state = state * 6364136223846793005 + 1442695040888963407;
      const double seconds = double(size) / 200e9 * (1 + noise * (double(state >> 40) * 0x1p-23 - 1));
      a.measured(x, 0, .6, seconds, seconds, zvc_ratio(.6, 4));
      if (i % 1000 != 0) continue;
      ASSERT_EQ(a.decide(x, .6).how, mode::encode) << i;
      ASSERT_EQ(a.decide(y, .8).how, mode::encode) << i;
    }
    EXPECT_NEAR(a.decide(x, .6).cost, 2 * (double(size) / 200e9 + double(size) / zvc_ratio(.6, 4) / 10e9), 1e-4);
  }
}

TEST(advisor, what_cannot_be_is_not_learnt) {
  advisor a(link, {zvc_like(200e9)});
  const size_t x = a.add({.bytes = size});
  const double before = a.decide(x, .6).cost, t = double(size) / 200e9,
               infinity = std::numeric_limits<double>::infinity();
  for (const double s : {std::nan(""), infinity, -1., 2.}) a.measured(x, 0, s, t, t, 2);
  for (const double seconds : {std::nan(""), infinity, 0., -1., 1e-18, 1e-310})
    a.measured(x, 0, .6, seconds, seconds, 0);
  for (const double ratio : {std::nan(""), infinity, -1., 1e200}) a.measured(x, 0, .6, 0, 0, ratio);
  EXPECT_EQ(a.decide(x, .6).cost, before);
}

TEST(advisor, rates_in_another_unit_are_refused) {
  for (const double rate : {25., 12.8e3, 0., -1., 25e18, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(advisor({.d2h = rate, .h2d = 10e9}, {}), std::invalid_argument) << rate;
    EXPECT_THROW(advisor({.d2h = 10e9, .h2d = rate}, {}), std::invalid_argument) << rate;
  }
}

TEST(advisor, numbers_that_it_did_not_return_are_refused) {
  advisor a(link, {zvc_like(20e9)});
  EXPECT_THROW(a.decide(0, .5), std::out_of_range);
  const size_t x = a.add({.bytes = size});
  EXPECT_EQ(a.decide(x, .9).how, mode::encode);
  EXPECT_THROW(a.decide(x + 1, .5), std::out_of_range);
  EXPECT_THROW(a.decision(x + 1), std::out_of_range);
  EXPECT_THROW(a.change(x + 1, {}), std::out_of_range);
  EXPECT_THROW(a.measured(x + 1, 0, .5, 1, 1, 1), std::out_of_range);
  EXPECT_THROW(a.measured(x, 1, .5, 1, 1, 1), std::out_of_range);
  try {
    a.decide(7, .5);
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "tuck::advisor: tensor 7 of 1");
  }
}

// What it does not know of is not encoded, and no codec is chosen by what it makes of small tensors.
TEST(advisor, tensors_beyond_those_measured_stay_raw) {
  advisor a(link, {zvc_like(200e9)});
  EXPECT_EQ(a.decide(a.add({.bytes = 512 << 20}), .9).how, mode::encode);
  EXPECT_EQ(a.decide(a.add({.bytes = 1 << 30}), .9).how, mode::raw);
}

TEST(advisor, permission_beats_hysteresis) {
  for (const double hysteresis : {.05, 2., std::numeric_limits<double>::infinity()}) {
    advisor a(link, {lossy_like(1000e9, 10)}, {.hysteresis = hysteresis});
    const size_t x = a.add({.bytes = size, .lossy_allowed = true});
    EXPECT_EQ(a.decide(x, 0).how, mode::encode);
    a.change(x, {.bytes = size});
    EXPECT_EQ(a.decide(x, 0).how, mode::raw);
  }
}

TEST(advisor, computes_anew_what_is_cheap_to_compute) {
  advisor a(link, {zvc_like(20e9)});
  const size_t x = a.add({.bytes = size, .recompute = 1e-4});
  EXPECT_EQ(a.decide(x, .9).how, mode::recompute);
  EXPECT_DOUBLE_EQ(a.decision(x).cost, 1e-4);
}

}  // namespace
}  // namespace tuck::advisor_tests
