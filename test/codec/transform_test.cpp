#include "support/tensors.hpp"

#include <tuck/codec/transform/delta.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

namespace tuck::test {
namespace {

template <transform X> std::vector<typename X::result_type> applied(const std::vector<typename X::value_type>& values) {
  using result = typename X::result_type;
  std::vector<result> results(values.size() * sizeof(values[0]) / sizeof(result));
  X{}.apply(values, results);
  return results;
}

template <transform X> void expect_round_trip(const std::vector<typename X::value_type>& values) {
  const auto results = applied<X>(values);
  std::vector<typename X::value_type> restored(values.size());
  X{}.invert(results, restored);
  ASSERT_TRUE(same_bits(values, restored)) << values.size();
}

template <transform X> void expect_its_stage(codec_id id) {
  X x;
  const stage_list described = x.stages();
  EXPECT_EQ(described.at[0], (stage{.id = id, .version = 1}));
  EXPECT_EQ(described.at[1], stage{});
  EXPECT_EQ(X::from_stages(described, x), status::ok);
  const auto answer = [&](auto change) {
    stage_list changed = described;
    change(changed.at[0]);
    return X::from_stages(changed, x);
  };
  EXPECT_EQ(answer([](stage& s) { s.id = codec_id::zvc, s.version = 9; }), status::codec_mismatch);
  EXPECT_EQ(answer([](stage& s) { s.version = 2, s.mode = 1; }), status::bad_version);
  EXPECT_EQ(answer([](stage& s) { s.mode = 1; }), status::bad_parameters);
  EXPECT_EQ(answer([](stage& s) { s.small = 1; }), status::bad_parameters);
  EXPECT_EQ(answer([](stage& s) { s.large = 1; }), status::bad_parameters);
}

template <class T> class transforms : public ::testing::Test {};
using transformed = ::testing::Types<uint8_t, int8_t, uint16_t, f16, bf16, int32_t, float, int64_t, double>;
TYPED_TEST_SUITE(transforms, transformed);

TYPED_TEST(transforms, give_every_bit_back) {
  for (const uint64_t count : {0, 1, 2, 3, 31, 32, 33, 1000, 4095, 4096, 4097, 100'003}) {
    const auto some = sparse_tensor<TypeParam>(count, .3, pattern::iid, count + 1);
    const auto any = noise<TypeParam>(count, count);
    ASSERT_NO_FATAL_FAILURE(expect_round_trip<delta<TypeParam>>(some));
    ASSERT_NO_FATAL_FAILURE(expect_round_trip<delta<TypeParam>>(any));
  }
}

TYPED_TEST(transforms, know_their_stages_and_no_others) { expect_its_stage<delta<TypeParam>>(codec_id::delta); }

TYPED_TEST(transforms, small_steps_are_small_numbers) {
  using bits = bits_t<TypeParam>;
  constexpr bits most = std::numeric_limits<bits>::max(), half = most / 2 + 1;
  const bits in[] = {0, 1, 0, 2, 0, most, most, most - 1, half - 2, static_cast<bits>(most - 2)};
  const bits expected[] = {0, 2, 1, 4, 3, 1, 0, 1, most, static_cast<bits>(most - 1)};
  std::vector<TypeParam> values(std::size(in));
  std::memcpy(values.data(), in, sizeof in);
  const auto results = applied<delta<TypeParam>>(values);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(results[i], expected[i]) << i;
}

TEST(delta, signs_and_exponents_are_bits_like_others) {
  EXPECT_EQ(applied<delta<float>>({1.f, 1.f, -1.f}), (std::vector<uint32_t>{0x7f000000, 0, 0xffffffff}));
  EXPECT_EQ(applied<delta<int8_t>>({-1, 3, -128}), (std::vector<uint8_t>{1, 8, 250}));  // 125 up, round the end
}

TEST(delta, holds_for_every_pair_of_bytes) {
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) {
      const std::vector<uint8_t> values{static_cast<uint8_t>(a), static_cast<uint8_t>(b)};
      const auto d = static_cast<int8_t>(b - a);
      ASSERT_EQ(applied<delta<uint8_t>>(values)[1], d < 0 ? -2 * d - 1 : 2 * d);
      ASSERT_NO_FATAL_FAILURE(expect_round_trip<delta<uint8_t>>(values));
    }
}

}  // namespace
}  // namespace tuck::test
