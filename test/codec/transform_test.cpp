#include "support/codecs.hpp"
#include "support/tensors.hpp"

#include <tuck/codec/chain/chains.hpp>
#include <tuck/codec/transform/differences.hpp>
#include <tuck/codec/transform/rows.hpp>
#include <tuck/frame/any_codec.hpp>
#include <tuck/frame/host.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace tuck::test {
namespace {

template <transform X>
std::vector<typename X::result_type> applied(const std::vector<typename X::value_type>& values, uint32_t form = 0,
                                             const X& x = {}) {
  using result = typename X::result_type;
  std::vector<result> results(values.size() * sizeof(values[0]) / sizeof(result));
  x.apply(values, results, form);
  return results;
}

template <transform X> void expect_round_trip(const std::vector<typename X::value_type>& values, X x = {}) {
  for (uint32_t form = 0; form < X::forms; ++form) {
    const auto results = applied(values, form, x);
    std::vector<typename X::value_type> restored(values.size());
    x.invert(results, restored, form);
    ASSERT_TRUE(same_bits(values, restored)) << values.size() << ", form " << form;
  }
}

template <class... Xs, class T> void expect_round_trips(::testing::Types<Xs...>, const std::vector<T>& values) {
  static_assert((detail::rebinds<Xs> && ...), "kernels are to be compiled once for all types of a size");
  (expect_round_trip<Xs>(values), ...);
}

// What a transform answers to its stage after a change.
template <transform X, class Change> status answer_to(const Change& change) {
  X x;
  stage_list described = x.stages();
  change(described.at[0]);
  return X::from_stages(described, x);
}

template <transform X> void expect_own_stage() {
  const stage_list described = X{}.stages();
  EXPECT_NE(described.at[0].id, codec_id::none);
  EXPECT_EQ(described.at[1], stage{});
  EXPECT_EQ(answer_to<X>([](stage&) {}), status::ok);
  EXPECT_EQ(answer_to<X>([](stage& s) { ++s.version, s.mode = 255; }), status::bad_version);
  EXPECT_EQ(answer_to<X>([](stage& s) { s.id = codec_id::zvc, ++s.version; }), status::codec_mismatch);
  // Whatever its parameters are, it does not use all bits of these.
  EXPECT_EQ(answer_to<X>([](stage& s) { s.mode = 255; }), status::bad_parameters);
  EXPECT_EQ(answer_to<X>([](stage& s) { s.large = ~uint64_t{0}; }), status::bad_parameters);
  if constexpr (requires { X::description(); }) {  // it has none
    EXPECT_EQ(described.at[0], (stage{.id = described.at[0].id, .version = 1}));
    EXPECT_EQ(answer_to<X>([](stage& s) { s.mode = 1; }), status::bad_parameters);
    EXPECT_EQ(answer_to<X>([](stage& s) { s.small_value = 1; }), status::bad_parameters);
    EXPECT_EQ(answer_to<X>([](stage& s) { s.large = 1; }), status::bad_parameters);
  }
}
template <class... Xs> void expect_own_stages(::testing::Types<Xs...>) { (expect_own_stage<Xs>(), ...); }

template <class T> class transforms : public ::testing::Test {};
using transformed = ::testing::Types<uint8_t, int8_t, uint16_t, f16, bf16, int32_t, float, int64_t, double>;
TYPED_TEST_SUITE(transforms, transformed);

TYPED_TEST(transforms, give_every_bit_back) {
  for (const uint64_t count : {0, 1, 2, 3, 31, 32, 33, 1000, 4095, 4096, 4097, 100'003}) {
    const auto some = sparse_tensor<TypeParam>(count, .3, pattern::iid, count + 1);
    const auto any = noise<TypeParam>(count, count);
    ASSERT_NO_FATAL_FAILURE(expect_round_trips(every_transform<TypeParam>{}, some));
    ASSERT_NO_FATAL_FAILURE(expect_round_trips(every_transform<TypeParam>{}, any));
    for (const uint32_t length : {1u, 3u, 32u, 1000u, 4096u, ~0u}) {
      ASSERT_NO_FATAL_FAILURE(expect_round_trip(some, rows<TypeParam>(length)));
      ASSERT_NO_FATAL_FAILURE(expect_round_trip(any, rows<TypeParam>(length)));
    }
  }
}

TYPED_TEST(transforms, know_their_stages_and_no_others) { expect_own_stages(every_transform<TypeParam>{}); }

TYPED_TEST(transforms, small_steps_are_small_numbers) {
  using bits = bits_t<TypeParam>;
  constexpr bits most = std::numeric_limits<bits>::max(), half = most / 2 + 1;
  const bits in[] = {0, 1, 0, 2, 0, most, most, most - 1, half - 2, static_cast<bits>(most - 2)};
  const bits expected[] = {0, 2, 1, 4, 3, 1, 0, 1, most, static_cast<bits>(most - 1)};
  std::vector<TypeParam> values(std::size(in));
  std::memcpy(values.data(), in, sizeof in);
  const auto results = applied<differences<TypeParam>>(values);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(results[i], expected[i]) << i;
}

TEST(differences, signs_and_exponents_are_bits_like_others) {
  EXPECT_EQ(applied<differences<float>>({1.f, 1.f, -1.f}), (std::vector<uint32_t>{0x7f000000, 0, 0xffffffff}));
  EXPECT_EQ(applied<differences<int8_t>>({-1, 3, -128}), (std::vector<uint8_t>{1, 8, 250}));  // 125 up, round the end
}

TEST(differences, has_forms_without_differences) {
  const std::vector<int16_t> values{0, 1, -1, 300, -300, 300};
  EXPECT_EQ(applied<differences<int16_t>>(values, differences<int16_t>::zigzags),
            (std::vector<uint16_t>{0, 2, 1, 600, 599, 600}));
  EXPECT_EQ(applied<differences<int16_t>>(values, differences<int16_t>::as_they_are),
            (std::vector<uint16_t>{0, 1, 0xffff, 300, 0xffff - 299, 300}));
}

TYPED_TEST(transforms, choose_the_form_that_has_fewer_bits) {
  using x = differences<TypeParam>;
  EXPECT_EQ(x{}.choose_form({}), x::of_neighbours);
  for (const uint32_t count : {20u, 100u, 1000u, 1023u, 1024u, 4096u, 16384u})
    for (const uint32_t form : {x::of_neighbours, x::zigzags, x::as_they_are}) {
      const auto values = values_for_form<bits_t<TypeParam>>(form, count, false);
      std::vector<TypeParam> typed(count);
      std::memcpy(typed.data(), values.data(), count * sizeof(TypeParam));
      EXPECT_EQ(x{}.choose_form(typed), form) << count;
    }
}

// Each value is in at most one sample, and no period of values hides from them.
TEST(differences, samples_are_spread) {
  using estimate = detail::difference_estimate<uint32_t>;
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

TEST(differences, the_estimate_s_logarithm_is_near) {
  for (uint32_t m = 1; m < 65536; ++m)
    ASSERT_NEAR(detail::difference_estimate<uint32_t>::log2_of(m), 256 * std::log2(m), 4) << m;
}

TEST(differences, holds_for_every_pair_of_bytes) {
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b) {
      const std::vector<uint8_t> values{static_cast<uint8_t>(a), static_cast<uint8_t>(b)};
      const auto d = static_cast<int8_t>(b - a);
      ASSERT_EQ(applied<differences<uint8_t>>(values)[1], d < 0 ? -2 * d - 1 : 2 * d);
      ASSERT_NO_FATAL_FAILURE(expect_round_trip<differences<uint8_t>>(values));
    }
}

// -- rows

TEST(rows, have_a_length_of_their_own_in_the_stage) {
  const stage_list described = rows<float>(384).stages();
  EXPECT_EQ(described, (stage_list{{{.id = codec_id::rows, .version = 1, .small_value = 384}}}));
  rows<float> parsed;
  EXPECT_EQ(rows<float>::from_stages(described, parsed), status::ok);
  EXPECT_EQ(parsed.length(), 384u);
  const auto answer = [&](auto change) {
    stage_list changed = described;
    change(changed.at[0]);
    return rows<float>::from_stages(changed, parsed);
  };
  EXPECT_EQ(answer([](stage& s) { s.small_value = 1; }), status::ok);
  EXPECT_EQ(answer([](stage& s) { s.small_value = ~0u; }), status::ok);
  EXPECT_EQ(answer([](stage& s) { s.small_value = 0; }), status::bad_parameters);
  EXPECT_EQ(answer([](stage& s) { s.mode = 1; }), status::bad_parameters);
  EXPECT_EQ(answer([](stage& s) { s.large = 1; }), status::bad_parameters);
  EXPECT_EQ(answer([](stage& s) { s.version = 2; }), status::bad_version);
  EXPECT_EQ(answer([](stage& s) { s.id = codec_id::differences; }), status::codec_mismatch);
}

TEST(rows, are_xored_with_the_row_above) {
  const std::vector<uint8_t> values{1, 2, 3, 1, 2, 7, 255};
  EXPECT_EQ(applied(values, 0, rows<uint8_t>(3)), (std::vector<uint8_t>{1, 2, 3, 0, 0, 4, 254}));
  EXPECT_EQ(applied(values, 1, rows<uint8_t>(3)), values);
  for (const uint32_t length : {7u, 8u, ~0u}) EXPECT_EQ(applied(values, 0, rows<uint8_t>(length)), values);
}

TEST(rows, are_as_they_are_unless_an_eighth_more_becomes_zero) {
  std::vector<uint16_t> values(800);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i + 1);
  const auto form = [&] { return rows<uint16_t>(10).choose_form(values); };
  EXPECT_EQ(form(), rows<uint16_t>::as_they_are);
  for (size_t i = 0; i < 99; ++i) values[501 + i] = values[491 + i];
  EXPECT_EQ(form(), rows<uint16_t>::as_they_are);
  values[10] = values[0];
  EXPECT_EQ(form(), rows<uint16_t>::exclusive_or);
  for (size_t i = 0; i < 100; ++i) values[600 + i] = 0;  // ten of them have no zero above
  EXPECT_EQ(form(), rows<uint16_t>::as_they_are);
  EXPECT_EQ(rows<uint16_t>(800).choose_form(values), rows<uint16_t>::as_they_are);
}

// Rows that repeat, of a length that divides neither chunk nor tensor, and one that is longer than a chunk.
TEST(rows, make_frames_of_repeated_rows_small) {
  std::vector<float> values(20'011);
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 7000 < 100 ? normal(random) : values[i - 100];
  const auto size = [&](const auto& codec) {
    std::vector<std::byte> frame(max_frame_bytes(codec, values.size()));
    const outcome done = host::encode(codec, values, frame);
    EXPECT_EQ(done.code, status::ok);
    std::vector<float> restored(values.size());
    EXPECT_TRUE(host::decode(rows_zvc_huffman<float>{}, {frame.data(), done.bytes}, restored)) << "any length decodes";
    EXPECT_TRUE(same_bits(values, restored));
    return done.bytes;
  };
  const uint64_t without = size(rows_zvc_huffman<float>(4096));
  EXPECT_LT(size(rows_zvc_huffman<float>(100)), without / 15);
  EXPECT_EQ(size(rows_zvc_huffman<float>(5000)), without);
  EXPECT_EQ(max_frame_bytes(rows_zvc_huffman<float>(0), 1000), 0u);
  std::vector<std::byte> room(100'000);
  EXPECT_EQ(host::encode(rows_zvc_huffman<float>(0), values, room).code, status::invalid_argument);
  any_codec<codec_list<zvc<untyped<4>>, rows_zvc_huffman<untyped<4>>>> chosen;
  EXPECT_EQ(chosen.choose("rows+zvc+huffman", dtype::f32, 100u), status::ok);
  chosen.visit([](const auto& codec) { EXPECT_EQ(codec.stages().at[0].small_value, 100u); });
  EXPECT_EQ(chosen.choose("rows+zvc+huffman", dtype::f32, 0u), status::invalid_argument);
}

}  // namespace
}  // namespace tuck::test
