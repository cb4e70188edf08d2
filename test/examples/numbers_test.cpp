#include "support/numbers.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace {

using namespace tuck::tools;
using tuck::bf16;
using tuck::f16;
using tuck::f8e4m3;
using tuck::f8e5m2;

// What IEEE 754 says of a small binary format, by its fields.
double by_definition(uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(bits) & ((1 << fraction_bits) - 1);
  const double sign = bits >> (exponent_bits + fraction_bits) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return sign * (fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN());
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

void expect_same(double value, double expected) {
  if (std::isnan(expected))
    EXPECT_TRUE(std::isnan(value));
  else
    EXPECT_EQ(tuck::bits_of(value), tuck::bits_of(expected));  // -0 is not 0
}

TEST(ToDouble, every_16_bit_float) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    SCOPED_TRACE(bits);
    expect_same(to_double(f16{static_cast<uint16_t>(bits)}), by_definition(bits, 5, 10));
    expect_same(to_double(bf16{static_cast<uint16_t>(bits)}), by_definition(bits, 8, 7));
  }
}

TEST(ToDouble, every_8_bit_float) {
  for (uint32_t bits = 0; bits < 0x100; ++bits) {
    SCOPED_TRACE(bits);
    expect_same(to_double(f8e5m2{static_cast<uint8_t>(bits)}), by_definition(bits, 5, 2));
    // The binade of infinity is one more of numbers, but for the last of them.
    const double next = (bits & 0x78) != 0x78 ? by_definition(bits, 4, 3) : 2 * by_definition(bits - 8, 4, 3);
    expect_same(to_double(f8e4m3{static_cast<uint8_t>(bits)}), (bits & 0x7f) == 0x7f ? std::nan("") : next);
  }
}

TEST(ToDouble, known_values) {
  EXPECT_EQ(to_double(f16{0x3c00}), 1);
  EXPECT_EQ(to_double(f16{0x7bff}), 65504);
  EXPECT_EQ(to_double(f16{0x8001}), -0x1p-24);
  EXPECT_EQ(to_double(bf16{0xc049}), -3.140625);
  EXPECT_EQ(to_double(0.1f), 0x1.99999ap-4);
  EXPECT_EQ(to_double(uint32_t{0xffffffff}), 4294967295.0);
}

TEST(Widen, extremes_and_their_differences) {
  EXPECT_EQ(static_cast<uint64_t>(widen(~uint64_t{0})), ~uint64_t{0});
  constexpr int64_t least = std::numeric_limits<int64_t>::min(), greatest = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(static_cast<uint64_t>(widen(greatest) - widen(least)), ~uint64_t{0});
  const long double range = widen(std::numeric_limits<double>::max()) - widen(std::numeric_limits<double>::lowest());
  EXPECT_TRUE(std::isfinite(range * range));
  EXPECT_GT(widen(std::numeric_limits<double>::denorm_min()) * widen(std::numeric_limits<double>::denorm_min()), 0);
}

}  // namespace
