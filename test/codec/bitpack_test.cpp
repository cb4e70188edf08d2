// Bitpack: all widths and tails, and the verdict on bytes that encoding does not write. Padding, integers past the end
// and groups that could be smaller are not tested, for decoders do not check them.
#include "support/chunk_bytes.hpp"

namespace tuck::test {
namespace {

template <class T> class bitpack_of : public ::testing::Test {};
using elements = ::testing::Types<uint8_t, int8_t, f16, uint32_t, float, uint64_t, double>;
TYPED_TEST_SUITE(bitpack_of, elements, element_names);

// A group of the width, of both signs or of one, in front of enough zeros, and tails of all lengths.
TYPED_TEST(bitpack_of, every_width_and_tail) {
  using bits = bits_t<TypeParam>;
  constexpr uint32_t all = 8 * sizeof(TypeParam), unit = all == 64 ? 2 : 1;
  std::mt19937_64 random(51);
  for (uint32_t width = unit; width <= all; ++width)
    for (uint32_t tail = 0; tail < 32; ++tail) {
      const bool both_signs = tail % 2 == 1 || width == all;
      std::vector<TypeParam> values(32 * 8 + tail);
      const uint64_t most = ~uint64_t{0} >> (64 - width);
      const auto put = [&](size_t at, uint64_t x) {
        const uint64_t middle = both_signs ? uint64_t{1} << (width - 1) : 0;
        values[at] = __builtin_bit_cast(TypeParam, static_cast<bits>((x & most) - middle));
      };
      for (size_t i = 0; i < values.size(); ++i)
        if (i / 32 == 1 || i >= 32 * 8) put(i, random());
      put(32, 1), put(33, most);
      for (const predictor prediction : {predictor::none, predictor::automatic}) {
        const bitpack<TypeParam> codec(prediction);
        const auto encoded = encoded_chunk_of(codec, values);
        if (prediction == predictor::none) {
          ASSERT_EQ(int(encoded[8]), int((width - 1) / unit | (both_signs ? 0x40 : 0))) << width << ' ' << tail;
        }
        ASSERT_NO_FATAL_FAILURE(expect_restored(codec, values, encoded)) << width << ' ' << tail;
      }
    }
}

TYPED_TEST(bitpack_of, every_form_and_predicting_costs_nothing) {
  const bitpack<TypeParam> plainly, codec(predictor::automatic);
  std::array<int, 8> seen{};
  for (uint64_t round = 0; round < 3000; ++round) {
    const double sparsity = static_cast<double>(round % 8) / 8;
    const auto values = sample<bitpack<TypeParam>>::tensor(300 + round % 100, sparsity, pattern::clustered, round);
    const auto without = encoded_chunk_of(plainly, values), with = encoded_chunk_of(codec, values);
    if (without.empty()) continue;
    ASSERT_FALSE(with.empty());
    ASSERT_LE(with.size(), without.size());
    ASSERT_NO_FATAL_FAILURE(expect_restored(codec, values, with));
    ASSERT_NO_FATAL_FAILURE(expect_restored(codec, values, without));
    for (size_t scheme = 0; scheme < 7; ++scheme) seen[scheme] += schemes_of(with, values.size())[scheme];
  }
  for (size_t scheme = 0; scheme < 6; ++scheme) EXPECT_GT(seen[scheme], 50) << scheme;
}

TYPED_TEST(bitpack_of, declines_what_does_not_shrink) {
  const auto size = [](const std::vector<TypeParam>& values) {
    return encoded_chunk_of(bitpack<TypeParam>{}, values).size();
  };
  EXPECT_EQ(size(noise<TypeParam>(1000)), incompressible);
  EXPECT_EQ(size(noise<TypeParam>(1)), incompressible);
  // As many bytes as values are too many too: zeros take eight.
  EXPECT_EQ(size(std::vector<TypeParam>(8 / sizeof(TypeParam))), incompressible);
  EXPECT_EQ(size(std::vector<TypeParam>(8 / sizeof(TypeParam) + 1)), 8u);
}

TYPED_TEST(bitpack_of, the_stage_s_mode_is_the_predictor) {
  bitpack<TypeParam> parsed;
  for (const predictor prediction : {predictor::none, predictor::automatic}) {
    const stage_list stages = bitpack<TypeParam>(prediction).stages();
    EXPECT_EQ(stages.at[0], (stage{codec_id::bitpack, 1, static_cast<uint8_t>(prediction), 0, 0}));
    EXPECT_EQ(parsed.from_stages(stages, parsed), status::ok);
    EXPECT_EQ(parsed.predicts(), prediction == predictor::automatic);
  }
  for (const stage& wrong : {stage{codec_id::bitpack, 1, 2, 0, 0},
                             {codec_id::bitpack, 1, 255, 0, 0},
                             {codec_id::bitpack, 1, 0, 1, 0},
                             {codec_id::bitpack, 1, 1, 0, 1}})
    EXPECT_EQ(parsed.from_stages({{wrong}}, parsed), status::bad_parameters);
  EXPECT_EQ(bitpack<TypeParam>(predictor{2}).stages().at[0].mode, 0);  // what is no predictor is none
}

// -- chunks that nobody writes

TYPED_TEST(bitpack_of, integers_may_have_so_many_bits_and_are_cut) {
  constexpr uint32_t bytes = sizeof(TypeParam), allowed = bytes == 1 ? 9 : bytes == 2 ? 17 : 8 * bytes;
  expect_widths(bitpack<TypeParam>{}, allowed);
  TypeParam first;
  const auto widest = lone_group{allowed / (bytes == 8 ? 2 : 1) - 1}.chunk(32 * allowed);
  EXPECT_EQ(verdict(bitpack<TypeParam>{}, widest, 300, &first), status::ok);
  EXPECT_EQ(bits_of(first), static_cast<bits_t<TypeParam>>(~0));
}

TEST(bitpack, impossible_bytes_are_refused) {
  using enum status;
  const auto answer = [](const std::string& hex, size_t count = 40) {
    return verdict(bitpack<uint8_t>{}, bytes_of(hex), count);
  };
  const std::string sparse = "00000000 01000000 20000000 01000080 ffffffff";
  EXPECT_EQ(answer(sparse), ok);
  EXPECT_EQ(answer(sparse, 32), ok);
  EXPECT_EQ(answer(sparse, 20), bad_payload);                                      // no less than raw
  EXPECT_EQ(answer(sparse, 1025), bad_payload);                                    // more groups
  EXPECT_EQ(answer("00000100 01000000 20000000 01000080 ffffffff"), bad_payload);  // extra is 1
  EXPECT_EQ(answer("00000080 01000000 20000000 01000080 ffffffff"), bad_payload);  // extra is large
  EXPECT_EQ(answer("00000000 04000000 20000000 01000080 ffffffff"), bad_payload);  // a group past the end
  EXPECT_EQ(answer("00000000 00000080 20000000 01000080 ffffffff"), bad_payload);  // another
  EXPECT_EQ(answer("00000000 01000000 e1000000 01000080 ffffffff"), bad_payload);  // differences of some
  EXPECT_EQ(answer("00000000 01000000 a0000000 01000080 ffffffff"), bad_payload);  // no payload
  EXPECT_EQ(answer("00000000 00000000 80000000 01000080 ffffffff"), bad_payload);  // nothing but zeros
  EXPECT_EQ(answer("00000000 01000000 20000000 01000080 ffffffff 00000000"), bad_payload);
  EXPECT_EQ(answer("00000000 01000000 20000000 01000080 ffffffff 00"), bad_payload);
  for (size_t size = 0; size < sparse.size(); ++size) EXPECT_EQ(answer(sparse.substr(0, size / 2 * 2)), bad_payload);
  // What would be read past the end: which groups there are, shapes, masks, the payload.
  EXPECT_EQ(answer("00000000"), bad_payload);
  EXPECT_EQ(answer("00000000 ff000000", 300), bad_payload);
  EXPECT_EQ(answer("00000000 0f000000 20202020", 300), bad_payload);
  EXPECT_EQ(answer("00000000 01000000 01000000 ffffffff", 300), bad_payload);
  // More groups than a chunk has.
  const std::vector<uint8_t> many(64 * 1024 + 32);
  EXPECT_EQ(verdict(bitpack<uint8_t>{}, std::vector<std::byte>(4 + 4 * 65), many.size()), bad_payload);
  EXPECT_EQ(encoded_chunk_of(bitpack<uint8_t>{}, many).size(), incompressible);
}

}  // namespace
}  // namespace tuck::test
