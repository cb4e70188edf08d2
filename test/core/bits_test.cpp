#include <tuck/core/bits.hpp>

#include <gtest/gtest.h>

namespace {

TEST(bits, of_floats_are_their_patterns) {
  EXPECT_EQ(tuck::bits_of(-0.0f), 0x80000000u);
  EXPECT_EQ(tuck::bits_of(1.0), 0x3ff0000000000000u);
  EXPECT_EQ(tuck::bits_of(int8_t{-1}), 0xffu);
}

TEST(bits, low_mask_covers_0_to_32) {
  EXPECT_EQ(tuck::low_mask(0), 0u);
  EXPECT_EQ(tuck::low_mask(1), 1u);
  EXPECT_EQ(tuck::low_mask(31), 0x7fffffffu);
  EXPECT_EQ(tuck::low_mask(32), 0xffffffffu);
}

TEST(bits, ceil_div_does_not_overflow_at_the_top) {
  EXPECT_EQ(tuck::ceil_div(uint64_t{0}, uint64_t{32}), 0u);
  EXPECT_EQ(tuck::ceil_div(uint64_t{33}, uint64_t{32}), 2u);
  EXPECT_EQ(tuck::ceil_div(~uint64_t{0}, uint64_t{2}), uint64_t{1} << 63);
}

TEST(bits, round_up_pow2) {
  EXPECT_EQ(tuck::round_up_pow2(uint64_t{0}, 5), 0u);
  EXPECT_EQ(tuck::round_up_pow2(uint64_t{33}, 5), 64u);
  EXPECT_EQ(tuck::round_up_pow2(uint64_t{33}, 0), 33u);
}

TEST(bits, saturating_arithmetic_sticks) {
  constexpr uint64_t top = ~uint64_t{0};
  EXPECT_EQ(tuck::saturating_add(top - 1, 1), top);
  EXPECT_EQ(tuck::saturating_add(top, 1), top);
  EXPECT_EQ(tuck::saturating_add(top, top), top);
  EXPECT_EQ(tuck::saturating_mul(uint64_t{1} << 32, uint64_t{1} << 31), uint64_t{1} << 63);
  EXPECT_EQ(tuck::saturating_mul(uint64_t{1} << 32, uint64_t{1} << 32), top);
  EXPECT_EQ(tuck::saturating_mul(top, 0), 0u);
}

TEST(bits, unaligned_access) {
  std::byte room[9] = {};
  tuck::store_unaligned(room + 1, uint64_t{0x0807060504030201});
  EXPECT_EQ(static_cast<int>(room[1]), 1);
  EXPECT_EQ(static_cast<int>(room[8]), 8);
  EXPECT_EQ(tuck::load_unaligned<uint32_t>(room + 3), 0x06050403u);
}

}  // namespace
