// The bytes of quantize's chunks, worked out by hand from layout.hpp, and its parameters in the header.
#include "support/codecs.hpp"
#include "support/effort.hpp"

#include <limits>

namespace tuck::test {
namespace {

using byte_list = std::vector<int>;

// What encodes to just these bytes, and is decoded from them to values within the bound.
template <floating_element T>
void expect_bytes(const quantize<T>& codec, const std::vector<T>& values, const byte_list& expected) {
  std::vector<std::byte> room(codec.max_chunk_bytes(static_cast<uint32_t>(values.size())), std::byte{0xee});
  room.resize(codec.encode_chunk(values, room));
  byte_list got;
  for (const std::byte b : room) got.push_back(static_cast<int>(b));
  EXPECT_EQ(got, expected);
  std::vector<T> restored(values.size());
  ASSERT_EQ(codec.decode_chunk(room, restored), status::ok);
  EXPECT_TRUE(restores(codec, values, restored));
}

quantize<float> halves(predictor prediction = predictor::automatic) {
  return quantize<float>(error_bound::absolute(.5), prediction);  // a step of one, all but
}

TEST(quantize_format, dense) {
  std::vector<float> values(32);
  for (uint32_t i = 0; i < 32; ++i) values[i] = i % 2 == 0 ? 1.f : 3.f;
  // 32 codes of 2 bits, 1 and 3 in turns. Differences would want 3 bits, zigzag(-2) and zigzag(2) being 3 and 4.
  byte_list expected{2, 0, 0, 0, 1, 0, 0, 0, 0x02, 0, 0, 0};
  expected.resize(20, 0xdd);
  expect_bytes(halves(), values, expected);
  expected[0] = 0;  // there is no base where there is no delta group to be
  expect_bytes(halves(predictor::none), values, expected);
}

TEST(quantize_format, dense_with_signs) {
  std::vector<float> values(32, 1.f);
  values[0] = -1;
  values[31] = -0.f;
  // Codes 3, 2, 2, ..., 1 of 2 bits: signed, and -0.0 is no difference.
  expect_bytes(halves(predictor::none), values,
               {0, 0, 0, 0, 1, 0, 0, 0, 0x42, 0, 0, 0, 0xab, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0x6a});
}

TEST(quantize_format, sparse) {
  std::vector<float> values(32);
  values[5] = 1;
  values[9] = -2;
  // Codes 2 and 5 of 3 bits: 2 | 5 << 3.
  expect_bytes(halves(), values, {0, 0, 0, 0, 1, 0, 0, 0, 0x20 | 0x40 | 3, 0, 0, 0, 0x20, 0x02, 0, 0, 0x2a, 0, 0, 0});
}

TEST(quantize_format, delta) {
  std::vector<float> values(32);
  for (uint32_t i = 0; i < 32; ++i) values[i] = static_cast<float>(100 + i);
  // The first code, 200, in 8 bits, then 31 times zigzag(1) = 2 in 2 bits: 70 bits.
  expect_bytes(halves(), values, {8,    0,    0,    0,    1,    0,    0,    0,    0x80 | 2, 0, 0, 0,
                                  0xc8, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0x2a,     0, 0, 0});
  // Downwards through zero: the first is 3, code 6, then zigzag(-1) = 1 a bit each.
  for (uint32_t i = 0; i < 32; ++i) values[i] = 3 - static_cast<float>(i);
  expect_bytes(halves(), values, {3, 0, 0, 0, 1, 0, 0, 0, 0x80 | 1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x03, 0, 0, 0});
}

TEST(quantize_format, delta_of_equal_values_is_their_base) {
  std::vector<float> values(64, 5.f);
  values[63] = 0;  // the second group is dense or sparse
  // Two groups: base 10 in 4 bits and no differences; 32 codes 5 of 3 bits, of which the last is 0, 4 bits later.
  expect_bytes(halves(), values, {4,    0,    0,    0,    3,    0,    0,    0,    0x80, 0x03, 0,    0, 0xda, 0xb6,
                                  0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0x01, 0, 0,    0});
}

TEST(quantize_format, pointwise) {
  // One bit of the mantissa is kept: keys 0xfe, 0xff and 0x100 for 1, 1.5 and 2, above a base of 0xfd in 8 bits.
  std::vector<float> values(32, 1.f);
  values[0] = 1.5f;
  values[1] = -2;
  values[2] = 0;
  // Codes 4, 7, 0, 2, 2, ... of 3 bits.
  expect_bytes(quantize<float>(error_bound::pointwise(.25)), values,
               {8,    0,    0,    0,    1,    0,    0,    0,    0x40 | 3, 0,    0,    0, 0xfd, 0x3c,
                0x24, 0x49, 0x92, 0x24, 0x49, 0x92, 0x24, 0x49, 0x92,     0x24, 0x49, 0, 0,    0});
}

TEST(quantize_format, exceptions) {
  std::vector<float> values(32);
  values[3] = __builtin_bit_cast(float, 0x7fc12345u);
  values[7] = 1;
  values[30] = std::numeric_limits<float>::infinity();
  // 32 codes of one bit are fewer than a mask and one code.
  expect_bytes(halves(), values, {0, 0, 2, 0, 1,    0, 0,    0,    1,    0,    0, 0, 0x80, 0,
                                  0, 0, 3, 0, 0x1e, 0, 0x45, 0x23, 0xc1, 0x7f, 0, 0, 0x80, 0x7f});
}

TEST(quantize_format, exceptions_of_16_bits_and_groups_of_zeros) {
  std::vector<f16> values(64);
  values[0] = {0x4000};   // 2
  values[32] = {0x7e01};  // NaN, in a group without codes
  // The biased exponent of 2 is 16. One code, 2 in 2 bits, is sparse; its position is padded.
  expect_bytes(quantize<f16>(error_bound::absolute(.5)), values,
               {3, 0x10, 1, 0, 1, 0, 0, 0, 0x22, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0x20, 0, 0, 0, 0x01, 0x7e});
}

TEST(quantize_format, only_exceptions) {
  std::vector<double> values(40);
  values[39] = 1e300;
  expect_bytes(quantize<double>(error_bound::absolute(.5)), values,
               {0, 0, 1, 0, 0, 0, 0, 0, 0x27, 0, 0, 0, 0x9c, 0x75, 0x00, 0x88, 0x3c, 0xe4, 0x37, 0x7e});
}

TEST(quantize_format, values_below_the_bound_are_a_header) {
  std::vector<float> values(1000, .25f);
  values[3] = -.125f;
  byte_list expected(8, 0);
  expect_bytes(halves(), values, expected);
}

TEST(quantize_format, of_equal_sizes_the_simpler_is_chosen) {
  using quantize_layout::choose;
  using quantize_layout::no_delta;
  // 16 codes of 2 bits with a mask are as many bits as 32: dense; one fewer: sparse.
  EXPECT_EQ(choose(3 << 1, 16, no_delta, 0).byte, 2);
  EXPECT_EQ(choose(3 << 1, 15, no_delta, 0).byte, 2 | 0x20);
  // 31 differences of a bit and a base against 32 codes of 2 bits.
  EXPECT_EQ(choose(3 << 1, 32, 1, 33).byte, 2);
  EXPECT_EQ(choose(3 << 1, 32, 1, 32).byte, 1 | 0x80);
  // And against a mask with codes of 4 bits.
  EXPECT_EQ(choose(15 << 1, 4, 1, 17).byte, 4 | 0x20);
  EXPECT_EQ(choose(15 << 1, 4, 1, 16).byte, 1 | 0x80);
  // A sign among the codes makes them a bit wider.
  EXPECT_EQ(choose(15, 32, no_delta, 0).byte, 4 | 0x40);
}

TEST(quantize_format, zigzag_and_codes_come_back) {
  using namespace quantize_layout;
  EXPECT_EQ(zigzag(0), 0u);
  EXPECT_EQ(zigzag(-1), 1u);
  EXPECT_EQ(zigzag(1), 2u);
  EXPECT_EQ(zigzag(-2), 3u);
  for (const int32_t d : {0, 1, -1, 77, -77, 0x3fffffff, -0x3fffffff}) {
    EXPECT_EQ(static_cast<int32_t>(unzigzag(zigzag(d))), d);
    EXPECT_EQ(whole_of(code_of(static_cast<uint32_t>(d))), d);
    EXPECT_EQ(code_of(static_cast<uint32_t>(d)) & 1, d < 0 ? 1u : 0u);
  }
}

// The shapes of the groups of an encoded chunk.
template <floating_element T>
std::vector<quantize_layout::shape> shapes_of(const quantize<T>& codec, const std::vector<T>& values,
                                              uint32_t& base_bits) {
  std::vector<std::byte> room(codec.max_chunk_bytes(static_cast<uint32_t>(values.size())));
  EXPECT_NE(codec.encode_chunk(values, room), declined);
  base_bits = static_cast<uint32_t>(room[0]);
  const auto groups = static_cast<uint32_t>(ceil_div<uint64_t>(values.size(), 32));
  uint32_t non_zero_groups = 0;
  for (uint32_t i = 0; i < groups; ++i) non_zero_groups += static_cast<uint32_t>(room[4 + i / 8]) >> i % 8 & 1;
  std::vector<quantize_layout::shape> shapes;
  for (uint32_t i = 0; i < non_zero_groups; ++i)
    shapes.push_back({static_cast<uint8_t>(room[4 + 4 * ceil_div(groups, 32u) + i])});
  return shapes;
}

template <class T> class quantize_shapes : public ::testing::Test {};
using all_floats = ::testing::Types<f16, bf16, float, double>;
TYPED_TEST_SUITE(quantize_shapes, all_floats, element_names);

// The tensors of the generic tests reach every form, and the predictor is what makes the difference.
TYPED_TEST(quantize_shapes, are_all_met_and_none_is_delta_without_a_predictor) {
  const auto values = sample<quantize<TypeParam>>::tensor(2048, .3, pattern::clustered);
  const auto count = [](const std::vector<quantize_layout::shape>& shapes, auto what) {
    return std::count_if(shapes.begin(), shapes.end(), what);
  };
  using shape = quantize_layout::shape;
  const auto is_delta = [](shape s) { return s.is_delta(); };
  uint32_t base_bits = 0;
  const auto bound = error_bound::absolute(0x1p-7);
  const auto shapes = shapes_of(quantize<TypeParam>(bound), values, base_bits);
  EXPECT_GT(base_bits, 0u);
  EXPECT_GE(count(shapes, is_delta), 3);
  EXPECT_GE(count(shapes, [](shape s) { return s.is_sparse() && s.is_signed(); }), 3);
  EXPECT_GE(count(shapes, [](shape s) { return s.is_sparse() && !s.is_signed(); }), 1);
  EXPECT_GE(count(shapes, [](shape s) { return !s.is_delta() && !s.is_sparse() && s.is_signed(); }), 3);
  EXPECT_GE(count(shapes, [](shape s) { return !s.is_delta() && !s.is_sparse() && !s.is_signed(); }), 1);
  EXPECT_LT(shapes.size(), 64u);  // and there are groups of zeros

  EXPECT_EQ(count(shapes_of(quantize<TypeParam>(bound, predictor::none), values, base_bits), is_delta), 0);
  EXPECT_EQ(base_bits, 0u);
  EXPECT_EQ(count(shapes_of(quantize<TypeParam>(error_bound::pointwise(.05)), values, base_bits), is_delta), 0);
}

// A group takes the form with the fewest bits: no change of a shape makes a chunk smaller.
TYPED_TEST(quantize_shapes, predicting_costs_nothing) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const auto values = sample<quantize<TypeParam>>::tensor(1024, seed % 2 == 0 ? .5 : 0, pattern::clustered, seed);
    std::vector<std::byte> room(values.size() * sizeof(TypeParam));
    const uint32_t plain =
        quantize<TypeParam>(error_bound::absolute(0x1p-5), predictor::none).encode_chunk(values, room);
    const uint32_t predicted = quantize<TypeParam>(error_bound::absolute(0x1p-5)).encode_chunk(values, room);
    ASSERT_NE(plain, declined);
    EXPECT_LE(predicted, plain);
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
  EXPECT_EQ(relative.stages().at[0].small, bits_of(.125f));
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

TEST(quantize_format, impossible_chunks_are_refused) {
  const auto codec = halves();
  std::vector<float> values(32);
  const auto decode = [&](const byte_list& list) {
    std::vector<std::byte> encoded;
    for (const int b : list) encoded.push_back(static_cast<std::byte>(b));
    encoded.shrink_to_fit();
    return codec.decode_chunk(encoded, values);
  };
  using enum status;
  const byte_list dense{0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0x80, 0, 0, 0};
  const auto with = [&](size_t place, int value) {
    auto changed = dense;
    changed[place] = value;
    return decode(changed);
  };
  EXPECT_EQ(decode(dense), ok);
  EXPECT_EQ(decode({}), bad_payload);
  EXPECT_EQ(with(0, 25), bad_payload);           // more bits than a code has
  EXPECT_EQ(with(0, 0xff), bad_payload);         // and the bits above them
  EXPECT_EQ(with(1, 1), bad_payload);            // an exponent, which floats do not need
  EXPECT_EQ(with(2, 1), bad_payload);            // an exception that is not there
  EXPECT_EQ(with(3, 0xff), bad_payload);         // more exceptions than values
  EXPECT_EQ(with(4, 3), bad_payload);            // a group past the end
  EXPECT_EQ(with(7, 0x80), bad_payload);         // the last bit of them
  EXPECT_EQ(with(8, 0), bad_payload);            // codes of no bits
  EXPECT_EQ(with(8, 24), bad_payload);           // codes of too many
  EXPECT_EQ(with(8, 0x80 | 0x40), bad_payload);  // delta and signed
  EXPECT_EQ(with(8, 0x80 | 0x20), bad_payload);  // delta and sparse
  EXPECT_EQ(with(8, 0x80 | 26), bad_payload);    // differences of too many bits
  const byte_list two{0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 7, 0, 1, 0, 0, 0, 2, 0, 0, 0};
  EXPECT_EQ(decode(two), ok);
  for (const auto& [place, value] : {std::pair{8, 7}, {8, 8}, {10, 3}, {10, 2}, {10, 32}, {11, 1}}) {
    auto changed = two;  // positions that are equal, descend or lie outside
    changed[static_cast<size_t>(place)] = value;
    EXPECT_EQ(decode(changed), bad_payload) << place << ' ' << value;
  }
}

}  // namespace
}  // namespace tuck::test
