// Exponents: bytes worked out by hand from exponents.hpp, every pattern of 16 bits, and what it gains.
#include "support/chunk_bytes.hpp"

#include <numeric>

namespace tuck::test {
namespace {

std::string zero_words(int count) {
  std::string all;
  while (count-- > 0) all += " 00000000";
  return all;
}

TEST(exponents, a_group_has_a_base_and_a_width) {
  // 1 and -1 are 0x3f80 and 0xbf80; rotated 0x7f00 and 0x7f01. The only base, 0x7f, is the least: no bits.
  std::vector<bf16> values(32, bf16{0x3f80});
  values[1] = values[2] = bf16{0xbf80};
  expect_chunk(exponents<bf16>{}, values, "00007f00 01000000 80000000 00010100" + zero_words(7));
  // 4, 0x8100, and once 8, 0x8200: 2 from the least base on in 2 bits, then a bit each.
  values.resize(64, bf16{0x4080});
  values[33] = bf16{0x4100};
  expect_chunk(exponents<bf16>{}, values, "00027f00 03000000 80810000 28000000 00000000 00010100" + zero_words(15));
}

TEST(exponents, groups_of_zeros_take_a_bit) {
  std::vector<float> values(64);
  for (size_t i = 32; i < 64; ++i) values[i] = 1;  // 0x7f
  expect_chunk(exponents<float>{}, values, "00007f00 02000000 80000000" + zero_words(3 * 16));
}

template <class T> class exponents_of : public ::testing::Test {};
using types_of_16_bits = ::testing::Types<f16, bf16>;
TYPED_TEST_SUITE(exponents_of, types_of_16_bits);

// In the order of their patterns, of their exponents, and in none: chunks that hardly differ, and some that decline.
TYPED_TEST(exponents_of, restores_every_pattern) {
  std::vector<TypeParam> all(1 << 16);
  const auto is_restored = [&] {
    frame_options options;
    options.chunk_values = 512;
    const auto frame = encoded(exponents<TypeParam>{}, all, options);
    std::vector<TypeParam> restored(all.size());
    EXPECT_EQ(host::decode(exponents<TypeParam>{}, frame, restored).code, status::ok);
    EXPECT_TRUE(same_bits(restored, all));
    return frame.size();
  };
  for (uint32_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<uint16_t>(i);
  EXPECT_LT(is_restored(), 2 * all.size());
  for (uint32_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<uint16_t>(i >> 1 | i << 15);
  EXPECT_LT(is_restored(), 2 * all.size());
  std::shuffle(all.begin(), all.end(), std::mt19937_64(1));
  is_restored();
}

TEST(exponents, gain_on_weights) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, .02f);
  std::vector<bf16> weights(1 << 20);
  for (bf16& w : weights) w.bits = float_format<bf16>::narrow(normal(random));
  const double ratio =
      2. * static_cast<double>(weights.size()) / static_cast<double>(encoded(exponents<bf16>{}, weights).size());
  std::printf("    %.3f\n", ratio);
  EXPECT_GE(ratio, 1.365);
}

TEST(exponents, declines_noise) {
  std::mt19937 random(1);
  std::vector<float> noise(4096);
  for (float& x : noise) x = __builtin_bit_cast(float, static_cast<uint32_t>(random()));
  EXPECT_TRUE(encoded_chunk_of(exponents<float>{}, noise).empty());
}

}  // namespace
}  // namespace tuck::test
