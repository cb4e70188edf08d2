// Narrowing, characterised by its neighbours: of every two adjacent values, all between them go to the nearer one.
#include "support/bounds.hpp"
#include "support/tensors.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace tuck::test {
namespace {

template <class T> class small_floats : public ::testing::Test {
 protected:
  static constexpr uint32_t patterns = 1u << 8 * sizeof(T);
  static constexpr bool has_infinity = dtype_of<T> != dtype::f8e4m3;

  static float next(float x) { return std::nextafter(x, std::numeric_limits<float>::infinity()); }
  static float previous(float x) { return std::nextafter(x, -std::numeric_limits<float>::infinity()); }
  static void expect_narrow(float x, uint32_t expected) {
    ASSERT_EQ(float_format<T>::narrow(x), expected) << std::hexfloat << x;
    ASSERT_EQ(float_format<T>::narrow(-x), expected | float_format<T>::sign) << std::hexfloat << x;
  }
};
using small_types = ::testing::Types<f16, bf16, f8e4m3, f8e5m2>;
TYPED_TEST_SUITE(small_floats, small_types, element_names);

TYPED_TEST(small_floats, every_finite_pattern_widens_exactly_and_comes_back) {
  using format = float_format<TypeParam>;
  for (uint32_t i = 0; i < this->patterns; ++i) {
    const auto x = static_cast<bits_t<TypeParam>>(i);
    if (!format::is_finite(x)) continue;
    ASSERT_EQ(static_cast<double>(format::widen(x)), exact_value<TypeParam>(x)) << i;
    ASSERT_EQ(std::signbit(format::widen(x)), (x & format::sign) != 0) << i;
    ASSERT_EQ(format::narrow(format::widen(x)), x) << i;
  }
}

TYPED_TEST(small_floats, what_is_not_finite_stays_so) {
  using format = float_format<TypeParam>;
  for (uint32_t i = 0; i < this->patterns; ++i) {
    const auto x = static_cast<bits_t<TypeParam>>(i);
    if (format::is_finite(x)) continue;
    const float wide = format::widen(x);
    const bool infinite = this->has_infinity && format::magnitude(x) == format::infinity;
    ASSERT_EQ(std::isinf(wide), infinite) << i;
    ASSERT_EQ(std::isnan(wide), !infinite) << i;
    if (std::isnan(wide)) continue;
    ASSERT_EQ(format::narrow(wide), x);
  }
}

TYPED_TEST(small_floats, narrow_rounds_to_the_nearest_and_ties_to_even) {
  using format = float_format<TypeParam>;
  for (uint32_t low = 0; low + 1 < format::infinity; ++low) {
    const double a = exact_value<TypeParam>(static_cast<bits_t<TypeParam>>(low));
    const double b = exact_value<TypeParam>(static_cast<bits_t<TypeParam>>(low + 1));
    const auto middle = static_cast<float>((a + b) / 2);
    ASSERT_EQ(static_cast<double>(middle), (a + b) / 2);
    ASSERT_NO_FATAL_FAILURE(this->expect_narrow(middle, low + low % 2));
    ASSERT_NO_FATAL_FAILURE(this->expect_narrow(this->previous(middle), low));
    ASSERT_NO_FATAL_FAILURE(this->expect_narrow(this->next(middle), low + 1));
    ASSERT_NO_FATAL_FAILURE(this->expect_narrow(this->next(static_cast<float>(a)), low));
    ASSERT_NO_FATAL_FAILURE(this->expect_narrow(this->previous(static_cast<float>(b)), low + 1));
  }
}

TYPED_TEST(small_floats, too_much_is_infinity) {
  using format = float_format<TypeParam>;
  const uint32_t largest = format::infinity - 1u;
  const double ulp = exact_value<TypeParam>(static_cast<bits_t<TypeParam>>(largest)) -
                     exact_value<TypeParam>(static_cast<bits_t<TypeParam>>(largest - 1));
  const auto limit = static_cast<float>(exact_value<TypeParam>(static_cast<bits_t<TypeParam>>(largest)) + ulp / 2);
  this->expect_narrow(this->previous(limit), largest);
  this->expect_narrow(limit, largest + largest % 2);
  this->expect_narrow(this->next(limit), format::infinity);
  this->expect_narrow(std::numeric_limits<float>::max(), format::infinity);
  this->expect_narrow(std::numeric_limits<float>::infinity(), format::infinity);
}

#if defined(__FLT16_MAX__)
TEST(floating, f16_is_the_compiler_s) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto x = static_cast<uint16_t>(i);
    if (!float_format<f16>::is_finite(x)) continue;
    ASSERT_EQ(bits_of(float_format<f16>::widen(x)), bits_of(static_cast<float>(__builtin_bit_cast(_Float16, x))));
  }
  for (uint64_t i = 0; i < uint64_t{1} << 32; i += 257) {
    const auto x = __builtin_bit_cast(float, static_cast<uint32_t>(i));
    if (std::isnan(x)) continue;
    ASSERT_EQ(float_format<f16>::narrow(x), bits_of(static_cast<_Float16>(x))) << i;
  }
}
#endif

TEST(floating, the_formats_are_those_of_the_types) {
  using single = std::numeric_limits<float>;
  EXPECT_EQ(float_format<float>::infinity, bits_of(single::infinity()));
  EXPECT_EQ(float_format<float>::smallest_normal, bits_of(single::min()));
  EXPECT_EQ(float_format<float>::sign, bits_of(-0.0f));
  EXPECT_EQ(float_format<double>::infinity, bits_of(std::numeric_limits<double>::infinity()));
  EXPECT_EQ(float_format<double>::smallest_normal, bits_of(std::numeric_limits<double>::min()));
  EXPECT_EQ(float_format<double>::sign, bits_of(-0.0));
  EXPECT_EQ(float_format<double>::bias, 1023);
  EXPECT_EQ(float_format<f16>::bias, 15);
  EXPECT_EQ(float_format<bf16>::bias, 127);
  EXPECT_EQ(float_format<f8e4m3>::bias, 7);
  EXPECT_EQ(float_format<f8e5m2>::bias, 15);
  EXPECT_EQ(float_format<f8e4m3>::widen(0x7e), 448);
  EXPECT_EQ(float_format<f8e4m3>::widen(0x81), -0x1p-9f);
  EXPECT_EQ(float_format<f8e5m2>::widen(0x7b), 57344);
  static_assert(floating_element<bf16> && floating_element<double> && !floating_element<int32_t> &&
                !floating_element<uint16_t>);
}

}  // namespace
}  // namespace tuck::test
