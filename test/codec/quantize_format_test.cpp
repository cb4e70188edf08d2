// The bytes of quantize's chunks, worked out by hand from quantize.hpp, and its parameters in the header.
#include "support/chunk_bytes.hpp"
#include "support/effort.hpp"

#include <limits>
#include <numeric>

namespace tuck::test {
namespace {

quantize<float> halves(predictor prediction = predictor::automatic) {
  return quantize<float>(error_bound::absolute(.5), prediction);  // a step of one, all but
}

// bitpack_test.cpp has groups of every scheme; here is what the codes are, and what stands beside them.

TEST(quantize_format, codes_are_whole_numbers_of_steps) {
  std::vector<float> values(32, 3.f);
  for (uint32_t i = 0; i < 32; i += 2) values[i] = 1;
  // 1 and 3 in turns, plain in 2 bits. The first is zigzag(1) = 2, where differences count, and so would the base be.
  expect_chunk(halves(), values, "02020000 01000000 01000000 dddddddd dddddddd");
  expect_chunk(halves(predictor::none), values, "00020000 01000000 01000000 dddddddd dddddddd");
}

TEST(quantize_format, negative_ones) {
  std::vector<float> values(32, 1.f);
  values[0] = -1;
  values[31] = -0.f;
  // Codes -1, 1, 1, ..., 0, centered in 2 bits: 1, 3, 3, ..., 2.
  expect_chunk(halves(), values, "01010000 01000000 41000000 fdffffff ffffffbf");
  // From 3 downwards: zigzag(3) = 6 in 3 bits, and zigzag numbers 1 in 1.
  for (uint32_t i = 0; i < 32; ++i) values[i] = 3 - static_cast<float>(i);
  expect_chunk(halves(), values, "03060000 01000000 c1000000 feffffff 03000000");
}

TEST(quantize_format, pointwise) {
  // One bit of the mantissa is kept: keys 0xfe, 0xff and 0x100 of 1, 1.5 and -2 are codes 1, 2 and -3, as the least
  // exponent is that of 1. Centered in 3 bits they are 5, 6 and 1, and 4 of 0. Behind them is the exponent, 127.
  std::vector<float> values(32, 1.f);
  values[0] = 1.5f;
  values[1] = -2;
  values[2] = 0;
  expect_chunk(quantize<float>(error_bound::pointwise(.25)), values,
               "03030000 01000000 42000000 0edbb66d dbb66ddb b66ddbb6 7f000000");
}

TEST(quantize_format, exceptions) {
  std::vector<float> values(32);
  values[3] = __builtin_bit_cast(float, 0x7fc12345u);
  values[7] = 1;
  values[30] = std::numeric_limits<float>::infinity();
  // 32 codes of one bit are fewer than a mask and one code.
  expect_chunk(halves(), values, "00000200 01000000 00000000 80000000 03001e00 4523c17f 0000807f");
  // Of 8 bytes the position is filled up to as many.
  std::vector<double> wide(40);
  wide[39] = 1e300;
  expect_chunk(quantize<double>(error_bound::absolute(.5)), wide,
               "00000100 00000000 27000000 00000000 9c750088 3ce4377e");
}

TEST(quantize_format, sides_of_16_bits_have_an_exponent) {
  const quantize<f16> codec(error_bound::absolute(.5));
  std::vector<f16> values(64);
  values[0] = {0x4000};   // 2
  values[32] = {0x7e01};  // NaN, in a group without codes
  // The biased exponent of 2 is 16. One code, 2 in 2 bits, is sparse.
  expect_chunk(codec, values, "03000100 01000000 21000000 01000000 02000000 10002000 017e0000");
  // Of 0.25 it is 13, though all codes are 0. Pointwise, too; there all are 1, and zigzag(1) = 2 in 2 bits.
  values.assign(64, f16{0x3400});
  expect_chunk(codec, values, "00000000 00000000 0d000000");
  expect_chunk(quantize<f16>(error_bound::pointwise(.5)), values, "02020000 03000000 80800000 0a000000 0d000000");
}

TEST(quantize_format, values_below_the_bound_are_a_header) {
  std::vector<float> values(1000, .25f);
  values[3] = -.125f;
  expect_chunk(halves(), values, "00000000 00000000");
}

template <class T> class quantize_shapes : public ::testing::Test {};
using all_floats = ::testing::Types<f16, bf16, float, double>;
TYPED_TEST_SUITE(quantize_shapes, all_floats, element_names);

// The tensors of the generic tests reach every scheme, and the predictor is what makes the difference.
TYPED_TEST(quantize_shapes, are_all_met_and_none_is_difference_without_a_predictor) {
  const auto values = sample<quantize<TypeParam>>::tensor(2048, .3, pattern::clustered);
  const auto bound = error_bound::absolute(0x1p-7);
  const auto schemes = [&](const quantize<TypeParam>& codec) {
    const auto encoded = encoded_chunk_of(codec, values);
    const auto of = schemes_of(encoded, values.size());
    EXPECT_LT(std::accumulate(of.begin(), of.end(), 0), 64);  // and there are groups of zeros
    EXPECT_EQ(of[3] == 0, encoded[0] == std::byte{0});
    return of;
  };
  using groups = integer_groups<sizeof(TypeParam)>;
  const auto all = schemes(quantize<TypeParam>(bound));
  for (const size_t scheme : {groups::plain, groups::centered, groups::based, groups::difference})
    EXPECT_GE(all[scheme], 2) << scheme;
  for (const size_t scheme : {groups::plain, groups::centered}) EXPECT_GE(all[4 + scheme], 1) << scheme;
  EXPECT_EQ(schemes(quantize<TypeParam>(bound, predictor::none))[groups::difference], 0);
}

TYPED_TEST(quantize_shapes, predicting_costs_nothing) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const auto values = sample<quantize<TypeParam>>::tensor(1024, seed % 2 == 0 ? .5 : 0, pattern::clustered, seed);
    const auto size = [&](predictor prediction) {
      return encoded_chunk_of(quantize<TypeParam>(error_bound::absolute(0x1p-5), prediction), values).size();
    };
    ASSERT_NE(size(predictor::none), incompressible);
    EXPECT_LE(size(predictor::automatic), size(predictor::none));
  }
}

// -- the header's parameters

TYPED_TEST(quantize_shapes, stages_say_the_bound) {
  using codec = quantize<TypeParam>;
  const stage absolute = codec(error_bound::absolute(.125)).stages().at[0];
  EXPECT_EQ(absolute, (stage{codec_id::quantize, 1, 0x10, 0, bits_of(.125)}));
  const stage pointwise = codec(error_bound::pointwise(.1), predictor::none).stages().at[0];
  EXPECT_EQ(pointwise, (stage{codec_id::quantize, 1, 0x02, 0, bits_of(.1)}));
  // Before and after it has met a tensor.
  codec relative(error_bound::range_relative(.125));
  EXPECT_EQ(relative.stages().at[0], (stage{codec_id::quantize, 1, 0x11, bits_of(.125f), 0}));
  value_range<TypeParam> range;
  range.add(float_format<TypeParam>::narrow(8));
  range.add(float_format<TypeParam>::narrow(-8));
  ASSERT_EQ(relative.prepare({.range = range.keys()}, relative), status::ok);
  EXPECT_EQ(relative.stages().at[0].small_value, bits_of(.125f));
  EXPECT_NEAR(relative.effective_bound(), 2, 1e-5);
  EXPECT_LT(relative.effective_bound(), 2);
  EXPECT_EQ(relative.requested_bound(), .125);
}

TYPED_TEST(quantize_shapes, stages_are_parsed_and_refused) {
  using codec = quantize<TypeParam>;
  const auto parse = [](stage s) {
    codec parsed;
    stage_list stages;
    stages.at[0] = s;
    const status answer = codec::from_stages(stages, parsed);
    EXPECT_TRUE(answer != status::ok || parsed.stages() == stages);  // nothing is lost
    return answer;
  };
  constexpr double inf = std::numeric_limits<double>::infinity();
  const uint64_t good = bits_of(.125);
  const auto with = [&](int mode, uint32_t small, uint64_t large) {
    return parse({codec_id::quantize, 1, static_cast<uint8_t>(mode), small, large});
  };
  using enum status;
  for (int mode = 0; mode < 256; ++mode) {
    const bool sound = (mode & 15) <= 2 && mode >> 4 <= 1;
    EXPECT_EQ(with(mode, 0, good), sound ? ok : bad_parameters) << mode;
  }
  for (const int mode : {0x00, 0x02, 0x10, 0x12, 0x01, 0x11}) {
    const bool of_range = (mode & 15) == 1;
    for (const double bound :
         {-.125, -0., inf, -inf, -std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()})
      EXPECT_EQ(with(mode, 0, bits_of(bound)), bad_parameters) << mode << ' ' << bound;
    EXPECT_EQ(with(mode, 0, ~uint64_t{0}), bad_parameters);
    EXPECT_EQ(with(mode, 0, 0), of_range ? ok : bad_parameters);
    for (const double bound :
         {std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::max(), 1., 1e-20})
      EXPECT_EQ(with(mode, 0, bits_of(bound)), ok);
    // What was asked for, which only relative bounds have.
    EXPECT_EQ(with(mode, bits_of(.5f), good), of_range ? ok : bad_parameters);
    EXPECT_EQ(with(mode, 1, bits_of(-1.)), bad_parameters);
    for (const float limit : {0x1p-125f, 0x1p120f})
      EXPECT_EQ(with(mode, bits_of(limit), good), of_range ? ok : bad_parameters);
    for (const uint32_t small :
         {bits_of(-.5f), 1u, bits_of(0x1p-126f), bits_of(0x1p121f), 0x80000000u, 0x7f800000u, 0x7fc00000u, ~0u})
      EXPECT_EQ(with(mode, small, good), bad_parameters);
  }
  EXPECT_EQ(parse({codec_id::quantize, 0, 0, 0, good}), bad_version);
  EXPECT_EQ(parse({codec_id::quantize, 2, 0, 0, good}), bad_version);
  EXPECT_EQ(parse({codec_id::zvc, 1, 0, 0, good}), codec_mismatch);
  codec parsed;
  stage_list two;
  two.at[0] = {codec_id::quantize, 1, 0, 0, good};
  two.at[1] = {codec_id::zvc, 1};
  EXPECT_EQ(codec::from_stages(two, parsed), codec_mismatch);
}

// A frame's codec is equal to the one that wrote it, as far as bytes go.
TYPED_TEST(quantize_shapes, a_parsed_codec_encodes_the_same_bytes) {
  const auto values = sample<quantize<TypeParam>>::tensor(1500, .3);
  for (const auto& of : {error_bound::absolute, error_bound::range_relative, error_bound::pointwise})
    for (const predictor prediction : {predictor::none, predictor::automatic}) {
      quantize<TypeParam> codec(of(.02), prediction), parsed;
      ASSERT_EQ(codec.prepare({.range = host::detail::range_of<TypeParam>(values, 1)}, codec), status::ok);
      ASSERT_EQ(quantize<TypeParam>::from_stages(codec.stages(), parsed), status::ok);
      std::vector<std::byte> one(values.size() * sizeof(TypeParam)), other(one.size());
      const uint32_t used = codec.encode_chunk(values, one);
      EXPECT_EQ(parsed.encode_chunk(values, other), used);
      EXPECT_EQ(one, other);
      EXPECT_EQ(parsed.effective_bound(), codec.effective_bound());
    }
}

// -- chunks that nobody writes

TYPED_TEST(quantize_shapes, codes_may_have_so_many_bits) {
  constexpr uint32_t bytes = sizeof(TypeParam), side = bytes == 2 ? 4 : 0;
  const quantize<TypeParam> steps(error_bound::absolute(.01)), mantissas(error_bound::pointwise(.01));
  expect_widths(steps, bytes == 2 ? 18 : bytes == 4 ? 25 : 32, side);
  expect_widths(mantissas, bytes == 2 ? 17 : 8 * bytes, bytes == 8 ? 8 : 4);
  EXPECT_EQ(verdict(steps, lone_group{0xe0}.chunk(32, side), 300), status::bad_payload);  // differences of some
}

// 112 bytes are 7/8 of 128.
TEST(quantize_format, chunks_that_save_too_little_are_declined_and_refused) {
  std::vector<float> values(32);
  std::fill_n(values.begin(), 17, std::numeric_limits<float>::infinity());
  const auto sound = encoded_chunk_of(halves(), values);
  EXPECT_EQ(sound.size(), 112u);
  EXPECT_EQ(verdict(halves(), sound, 32), status::ok);
  EXPECT_EQ(verdict(halves(), sound, 31), status::bad_payload);
  for (const size_t more : {1u, 15u}) {
    std::fill_n(values.end() - 15, more, values[0]);
    EXPECT_EQ(encoded_chunk_of(halves(), values).size(), incompressible) << more;
  }
}

TEST(quantize_format, impossible_sides_are_refused) {
  using enum status;
  const quantize<f16> half(error_bound::absolute(.5)), pointwise(error_bound::pointwise(.5));
  const quantize<bf16> brain(error_bound::absolute(.5));
  const auto of_exponent = [](const auto& codec, const char* hex) {
    return verdict(codec, bytes_of("00000000 00000000" + std::string(hex) + "0000"), 64);
  };
  EXPECT_EQ(of_exponent(half, "1e00"), ok);
  EXPECT_EQ(of_exponent(half, "1f00"), bad_payload);
  EXPECT_EQ(of_exponent(half, "0001"), bad_payload);
  EXPECT_EQ(of_exponent(brain, "fe00"), ok);
  EXPECT_EQ(of_exponent(brain, "ff00"), bad_payload);
  EXPECT_EQ(of_exponent(pointwise, "1e00"), ok);
  EXPECT_EQ(of_exponent(pointwise, "1f00"), bad_payload);

  const auto two = bytes_of("00000200 00000000 03000700 00000000 00000000");
  const auto with = [&](size_t place, int value) {
    auto changed = two;
    changed[place] = static_cast<std::byte>(value);
    return verdict(halves(), changed, 32);
  };
  EXPECT_EQ(with(10, 31), ok);
  // Positions that are equal, descend or lie outside; exceptions that are not there, or fewer than there are.
  for (const auto& [place, value] : {std::pair{8, 7}, {8, 8}, {10, 3}, {10, 2}, {10, 32}, {11, 1}})
    EXPECT_EQ(with(static_cast<size_t>(place), value), bad_payload) << place << ' ' << value;
  for (const auto& [place, value] : {std::pair{2, 0}, {2, 1}, {2, 3}, {3, 1}, {3, 255}})
    EXPECT_EQ(with(static_cast<size_t>(place), value), bad_payload) << place << ' ' << value;
  for (size_t size = 0; size < two.size(); ++size)
    EXPECT_EQ(verdict(halves(), std::vector(two.data(), two.data() + size), 32), bad_payload) << size;
  // No bound to decode by.
  const std::vector<std::byte> zeros(8);
  EXPECT_EQ(verdict(quantize<float>{}, zeros, 64), bad_payload);
  EXPECT_EQ(verdict(quantize<float>(error_bound::absolute(0x1p-126)), zeros, 64), bad_payload);
}

}  // namespace
}  // namespace tuck::test
