#include "bench/support/fields.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace {

using namespace tuck::bench;

TEST(Random, is_the_standard_generators) {
  generator random(1);
  const double first = uniform(random);
  generator again(1);
  EXPECT_EQ(first, static_cast<double>(again() >> 11) / 9007199254740992.0);
  for (int i = 0; i < 1000; ++i) {
    const double value = uniform(random, -2, 3);
    EXPECT_TRUE(value >= -2 && value < 3) << value;
  }
}

double largest_step(const field& f) {
  double most = 0;
  for (size_t i = 1; i < f.values.size(); ++i)
    if (i % field_side != 0) most = std::max(most, std::abs(static_cast<double>(f.values[i]) - f.values[i - 1]));
  const auto [least, greatest] = std::minmax_element(f.values.begin(), f.values.end());
  return most / (static_cast<double>(*greatest) - *least);
}

TEST(SmoothFields, are_finite_smooth_and_always_the_same) {
  const std::vector<field> fields = smooth_fields(), again = smooth_fields();
  ASSERT_EQ(fields.size(), 4u);
  for (size_t i = 0; i < fields.size(); ++i) {
    SCOPED_TRACE(fields[i].name);
    ASSERT_EQ(fields[i].values.size(), field_side * field_side);
    EXPECT_TRUE(
        std::all_of(fields[i].values.begin(), fields[i].values.end(), [](float v) { return std::isfinite(v); }));
    EXPECT_LT(largest_step(fields[i]), 0.1);
    EXPECT_GT(largest_step(fields[i]), 0.005);
    EXPECT_EQ(fields[i].values, again[i].values);
  }
}

}  // namespace
