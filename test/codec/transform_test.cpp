#include "support/tensors.hpp"

#include <tuck/codec/transform/delta.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tuck::test {
namespace {

template <formed_transform X>
std::vector<typename X::result_type> applied(const std::vector<typename X::value_type>& values, uint32_t form = 0) {
  using result = typename X::result_type;
  std::vector<result> results(values.size() * sizeof(values[0]) / sizeof(result));
  X{}.apply(values, results, form);
  return results;
}

template <formed_transform X> void expect_round_trip(const std::vector<typename X::value_type>& values) {
  for (uint32_t form = 0; form < X::forms; ++form) {
    const auto results = applied<X>(values, form);
    std::vector<typename X::value_type> restored(values.size());
    X{}.invert(results, restored, form);
    ASSERT_TRUE(same_bits(values, restored)) << values.size() << ", form " << form;
  }
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

TEST(delta, has_forms_without_differences) {
  const std::vector<int16_t> values{0, 1, -1, 300, -300, 300};
  EXPECT_EQ(applied<delta<int16_t>>(values, delta<int16_t>::zigzags), (std::vector<uint16_t>{0, 2, 1, 600, 599, 600}));
  EXPECT_EQ(applied<delta<int16_t>>(values, delta<int16_t>::as_they_are),
            (std::vector<uint16_t>{0, 1, 0xffff, 300, 0xffff - 299, 300}));
}

TYPED_TEST(transforms, choose_the_form_that_has_fewer_bits) {
  using x = delta<TypeParam>;
  EXPECT_EQ(x{}.choose_form({}), x::differences);
  for (const uint32_t count : {20u, 100u, 1000u, 1023u, 1024u, 4096u, 16384u})
    for (const uint32_t form : {x::differences, x::zigzags, x::as_they_are}) {
      const auto values = values_for_form<bits_t<TypeParam>>(form, count, false);
      std::vector<TypeParam> typed(count);
      std::memcpy(typed.data(), values.data(), count * sizeof(TypeParam));
      EXPECT_EQ(x{}.choose_form(typed), form) << count;
    }
}

// Each value is in at most one sample, and no period of values hides from them.
TEST(delta, samples_are_spread) {
  using estimate = detail::delta_estimate<uint32_t>;
  for (const uint32_t count : {1u, 1023u, 1024u, 1025u, 4096u, 65535u, 65536u}) {
    const uint32_t spacing = estimate::spacing_log2(count), samples = count >> spacing;
    EXPECT_LT(samples, 1024u);
    EXPECT_GE(samples, std::min(count, 512u));
    std::vector<int> of_rest(64);
    for (uint32_t k = 0; k < samples; ++k) {
      const uint32_t i = estimate::sample(k, spacing);
      ASSERT_LT(i, count);
      ASSERT_EQ(i >> spacing, k);
      ++of_rest[i % 64];
    }
    if (count == 4096) {
      EXPECT_EQ(*std::min_element(of_rest.begin(), of_rest.end()), 8);
    }
  }
}

TEST(delta, the_estimate_s_logarithm_is_near) {
  for (uint32_t m = 1; m < 65536; ++m)
    ASSERT_NEAR(detail::delta_estimate<uint32_t>::log2_of(m), 256 * std::log2(m), 4) << m;
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
