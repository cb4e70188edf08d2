#include "support/tensors.hpp"

#include <tuck/core/floating.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tuck::test {
namespace {

template <class T> class range_suite : public ::testing::Test {
 protected:
  static range_keys keys_of(const std::vector<T>& values) {
    value_range<T> range;
    for (const T& x : values) range.add(bits_of(x));
    return range.keys();
  }
  static T make(double x) {
    return __builtin_bit_cast(T, float_format<T>::narrow(static_cast<typename float_format<T>::real>(x)));
  }
};
using floats = ::testing::Types<f16, bf16, float, double, f8e4m3, f8e5m2>;
TYPED_TEST_SUITE(range_suite, floats, element_names);

TYPED_TEST(range_suite, is_that_of_the_finite_values) {
  using format = float_format<TypeParam>;
  using range = value_range<TypeParam>;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const auto values = sparse_tensor<TypeParam>(1 + seed % 40, .1, pattern::iid, seed);
    double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
    for (const TypeParam& x : values) {
      if (!format::is_finite(bits_of(x))) continue;
      lowest = std::min<double>(lowest, format::widen(bits_of(x)));
      highest = std::max<double>(highest, format::widen(bits_of(x)));
    }
    const range_keys keys = this->keys_of(values);
    if (lowest > highest) {
      EXPECT_EQ(keys.highest, 0u);
      EXPECT_EQ(keys.lowest, 0u);
      continue;
    }
    EXPECT_EQ(static_cast<double>(range::lowest_of(keys)), lowest);
    EXPECT_EQ(static_cast<double>(range::highest_of(keys)), highest);
  }
}

TYPED_TEST(range_suite, the_larger_keys_are_those_of_both_parts) {
  const auto values = sparse_tensor<TypeParam>(300, .1);
  const range_keys whole = this->keys_of(values);
  for (const std::ptrdiff_t cut : {0, 1, 77, 299, 300}) {
    const range_keys first = this->keys_of({values.begin(), values.begin() + cut});
    const range_keys second = this->keys_of({values.begin() + cut, values.end()});
    EXPECT_EQ(std::max(first.lowest, second.lowest), whole.lowest);
    EXPECT_EQ(std::max(first.highest, second.highest), whole.highest);
  }
}

TYPED_TEST(range_suite, of_nothing_finite_there_is_none) {
  using format = float_format<TypeParam>;
  const auto of = [](auto bits) { return __builtin_bit_cast(TypeParam, static_cast<typename format::bits>(bits)); };
  for (const auto& values :
       {std::vector<TypeParam>{}, std::vector<TypeParam>{of(format::infinity), of(format::infinity | format::sign),
                                                         of(format::infinity | 1), of(~typename format::bits{0})}}) {
    EXPECT_EQ(this->keys_of(values).lowest, 0u);
    EXPECT_EQ(this->keys_of(values).highest, 0u);
  }
}

TYPED_TEST(range_suite, reaches_from_the_lowest_to_the_largest) {
  using format = float_format<TypeParam>;
  using range = value_range<TypeParam>;
  const auto largest = static_cast<typename format::bits>(format::infinity - 1);
  const auto lowest = static_cast<typename format::bits>(largest | format::sign);
  const auto keys = this->keys_of({__builtin_bit_cast(TypeParam, lowest), __builtin_bit_cast(TypeParam, largest)});
  EXPECT_EQ(range::lowest_of(keys), format::widen(lowest));
  EXPECT_EQ(range::highest_of(keys), format::widen(largest));
  // One value is both; zeros keep their order.
  EXPECT_EQ(range::lowest_of(this->keys_of({this->make(-2.5)})), -2.5);
  EXPECT_EQ(range::highest_of(this->keys_of({this->make(-2.5)})), -2.5);
  EXPECT_TRUE(std::signbit(range::lowest_of(this->keys_of({this->make(0), this->make(-0.0)}))));
  EXPECT_FALSE(std::signbit(range::highest_of(this->keys_of({this->make(-0.0), this->make(0)}))));
}

}  // namespace
}  // namespace tuck::test
