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
  // 1 and -1 are 0x3f80 and 0xbf80; rotated 0x7f00 and 0x7f01. The greatest exponent of the only group, 0x7f, is
  // the least of all groups: no bits.
  std::vector<bf16> values(32, bf16{0x3f80});
  values[1] = values[2] = bf16{0xbf80};
  expect_chunk(exponents<bf16>{}, values, "00007f00 01000000 80000000 00010100" + zero_words(7));
  // 4, 0x8100, and once 8, 0x8200: the greatest exponent, 0x82 - 0x7f in 2 bits, then a bit each.
  values.resize(64, bf16{0x4080});
  values[33] = bf16{0x4100};
  expect_chunk(exponents<bf16>{}, values, "00027f00 03000000 80810000 2c000000 00000000 00010100" + zero_words(15));
}

TEST(exponents, groups_of_zeros_take_a_bit) {
  std::vector<float> values(64);
  for (size_t i = 32; i < 64; ++i) values[i] = 1;  // 0x7f
  expect_chunk(exponents<float>{}, values, "00007f00 02000000 80000000" + zero_words(3 * 16));
}

// 1 and -1 are 0x38 and 0xb8, rotated 0x70 and 0x71: all bits above the base, 0x70, in one each.
TEST(exponents, of_8_bit_floats_groups_have_all_bits) {
  std::vector<f8e4m3> values(32, f8e4m3{0x38});
  values[1] = values[2] = f8e4m3{0xb8};
  expect_chunk(exponents<f8e4m3>{}, values, "00007100 01000000 81000000 06000000");
}

template <class T> class exponents_of_8_bits : public ::testing::Test {};
using types_of_8_bits = ::testing::Types<f8e4m3, f8e5m2>;
TYPED_TEST_SUITE(exponents_of_8_bits, types_of_8_bits);

// Each at each place of a group of others, NaN among them; in the order of patterns, and of exponents.
TYPED_TEST(exponents_of_8_bits, restores_every_pattern_everywhere) {
  std::vector<TypeParam> all;
  for (uint32_t pattern = 0; pattern < 256; ++pattern)
    for (uint32_t place = 0; place < 32; ++place)
      for (uint32_t i = 0; i < 32; ++i)
        all.push_back({static_cast<uint8_t>(i == place ? pattern : 0x30 + (pattern + i) % 16)});
  for (uint32_t i = 0; i < 256; ++i) all.push_back({static_cast<uint8_t>(i)});
  for (uint32_t i = 0; i < 256; ++i) all.push_back({static_cast<uint8_t>(i >> 1 | i << 7)});
  for (const uint32_t chunk : {32u, 512u, 65536u}) {
    const auto frame = encoded(exponents<TypeParam>{}, all, {.chunk_values = chunk});
    EXPECT_LT(frame.size(), all.size() + (chunk == 32 ? all.size() : 0)) << chunk;
    std::vector<TypeParam> restored(all.size());
    EXPECT_EQ(host::decode(exponents<TypeParam>{}, frame, restored).code, status::ok);
    EXPECT_TRUE(same_bits(restored, all)) << chunk;
  }
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

template <class C> double ratio_on_weights(float deviation) {
  using T = value_t<C>;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<T> weights(1 << 20);
  for (T& w : weights) w.bits = float_format<T>::narrow(normal(random));
  const double ratio =
      static_cast<double>(sizeof(T) * weights.size()) / static_cast<double>(encoded(C{}, weights).size());
  std::printf("    %.3f\n", ratio);
  return ratio;
}
TEST(exponents, gain_on_weights) {
  EXPECT_GE(ratio_on_weights<exponents<bf16>>(.02f), 1.365);
  EXPECT_GE(ratio_on_weights<exponents<f8e4m3>>(.16f), 1.05);
  EXPECT_GE(ratio_on_weights<huffman<f8e4m3>>(.16f), 1.2);
}

TEST(exponents, declines_noise) {
  std::mt19937 random(1);
  std::vector<float> noise(4096);
  for (float& x : noise) x = __builtin_bit_cast(float, static_cast<uint32_t>(random()));
  EXPECT_TRUE(encoded_chunk_of(exponents<float>{}, noise).empty());
}

}  // namespace
}  // namespace tuck::test
