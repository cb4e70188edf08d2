// Bitpack, and by it the bytes of groups, worked out by hand from groups.hpp. Padding that is not zero, integers past
// the end and groups that could have been smaller are nothing that decoders look at, so nothing here asks what they
// say.
#include "support/chunk_bytes.hpp"

#include <limits>

namespace tuck::test {
namespace {

template <class T, class Make>
void expect_bytes(const Make& make, const std::string& hex, predictor prediction = predictor::automatic) {
  std::vector<T> values(32);
  for (int64_t i = 0; i < 32; ++i) values[static_cast<size_t>(i)] = static_cast<T>(make(i));
  expect_chunk(bitpack<T>(prediction), values, hex);
}
constexpr predictor none = predictor::none;

// -- forms

TEST(groups, plain) {
  std::vector<uint16_t> values(32);
  for (size_t i = 0; i < 32; ++i) values[i] = i % 8;
  values.insert(values.end(), {0, 1, 1});
  // Bases and firsts are 0. 3 bits of each: 0, 1, .. 7 are 0xfac688. The tail has 1 bit.
  expect_chunk(bitpack<uint16_t>(predictor::automatic), values,
               "00000000 03000000 02000000 88c6fa88 c6fa88c6 fa88c6fa 06000000");
}
TEST(groups, plain_and_sparse) {
  expect_bytes<uint32_t>([](auto i) { return i == 5 || i == 9 ? i : 0; },
                         "00000000 01000000 23000000 20020000 95000000");
}
TEST(groups, centered) {  // 4 more of each
  expect_bytes<int8_t>([](auto i) { return i % 8 - 4; }, "03030000 01000000 42000000 88c6fa88 c6fa88c6 fa88c6fa");
}
TEST(groups, centered_and_sparse) {
  expect_bytes<int32_t>([](auto i) { return i == 0    ? -1
                                            : i == 31 ? 3
                                                      : 0; },
                        "01010000 01000000 62000000 01000080 3b000000");
}
TEST(groups, based) {
  // zigzag(1000) = 2000 has 11 bits, and 0, 1, 2, 3 from there on are 0xe4. Of -1000 it is 1999.
  expect_bytes<uint16_t>([](auto i) { return 1000 + i % 4; }, "000b0000 01000000 82000000 d0272727 27272727 27070000",
                         none);
  expect_bytes<int16_t>([](auto i) { return i % 4 - 1000; }, "000b0000 01000000 82000000 cf272727 27272727 27070000",
                        none);
  // Differences are none as well, and the first in 4 bits, but come last.
  expect_bytes<uint32_t>([](auto) { return 5; }, "04040000 01000000 80000000 0a000000");
}
TEST(groups, difference) {
  // zigzag(100) = 200 in 8 bits, then 31 times zigzag(1) = 2 in 2.
  const auto upwards = [](auto i) { return 100 + i; };
  expect_bytes<uint16_t>(upwards, "08080000 01000000 c2000000 c8aaaaaa aaaaaaaa 2a000000");
  // Who does not look for them has 0 to 31 in 5 bits.
  expect_bytes<uint16_t>(upwards, "00080000 01000000 85000000 c8208841 8a3928a9 c59a7b30 ca49abbd 38ebcdbb ff000000",
                         none);
  // Through zero: 6, then zigzag(-1) = 1 a bit each.
  expect_bytes<int16_t>([](auto i) { return 3 - i; }, "03060000 01000000 c1000000 feffffff 03000000");
  // From the largest to the least is a step of one like the others.
  expect_bytes<int32_t>([](auto i) { return 0x7ffffff0 + i; }, "20200000 01000000 c2000000 e0ffffff aaaaaaaa aaaaaa2a");
}
TEST(groups, eight_bytes_count_pairs_of_bits) {
  expect_bytes<uint64_t>([](auto i) { return i % 8; }, "00000000 01000000 01000000 10325476 10325476 10325476 10325476",
                         none);
  expect_bytes<int64_t>([](auto i) { return i == 1 ? -1 : 0; }, "00010000 01000000 60000000 02000000 01000000");
  // 2^41 in 42 bits, then zigzag(3) = 6 in 4.
  expect_bytes<int64_t>([](auto i) { return (int64_t{1} << 40) + 3 * i; },
                        "2a2a0000 01000000 c2000000 00000000 009a9999 99999999 99999999 99999999 19000000");
}
TEST(groups, bytes_do_not_depend_on_what_the_memory_held) {
  for (int width = 1; width <= 64; ++width) {
    std::vector<uint64_t> values(64);
    values[3] = values[40] = uint64_t{1} << (width - 1);
    std::vector<std::byte> zeros(512), ones(512, std::byte{0xff});
    const uint32_t size = bitpack<uint64_t>{}.encode_chunk(values, zeros);
    ASSERT_EQ(bitpack<uint64_t>{}.encode_chunk(values, ones), size);
    ones.resize(size);
    zeros.resize(size);
    EXPECT_EQ(ones, zeros) << "width " << width;
  }
}
TEST(groups, of_zeros) {
  expect_chunk(bitpack<double>{}, std::vector<double>(33 * 4), "00000000 00000000");
  std::vector<uint8_t> last(32 * 32 + 9);
  last[32 * 32] = 1;
  expect_chunk(bitpack<uint8_t>{}, last, "00000000 00000000 01000000 00000000 01000000");
}
TEST(groups, signs_and_exponents_take_all_bits) {
  // -0.0 is the least integer, 0 when centered.
  expect_bytes<float>([](auto i) { return i == 3 ? -0.f : 0; }, "00200000 01000000 7f000000 08000000 00000000", none);
}

// -- the choice

TEST(groups, of_equal_sizes_the_first_is_chosen) {
  using groups = integer_groups<4>;
  const auto chosen = [](int32_t lowest, int32_t highest, uint32_t non_zeros, uint32_t base_bits,
                         uint32_t differences = ~0u, uint32_t first_bits = 32, bool predicts = true) {
    const groups::summary s{lowest, highest, 0, differences, low_mask(non_zeros)};
    return int{groups::choose(s, non_zeros, first_bits, base_bits, predicts).coding.byte};
  };
  // 16 integers of 2 bits and a mask are as many bits as 32 integers.
  EXPECT_EQ(chosen(0, 3, 16, 32), 1);
  EXPECT_EQ(chosen(0, 3, 15, 32), 0x20 | 1);
  EXPECT_EQ(chosen(-2, 1, 16, 32), 0x40 | 1);
  EXPECT_EQ(chosen(-2, 1, 15, 32), 0x20 | 0x40 | 1);
  // A base of 32 bits is as much as one bit of each.
  EXPECT_EQ(chosen(8, 15, 32, 32), 3);
  EXPECT_EQ(chosen(8, 15, 32, 31), 0x80 | 3);
  EXPECT_EQ(chosen(-8, -1, 32, 32), 0x40 | 3);
  EXPECT_EQ(chosen(-8, -1, 32, 31), 0x80 | 3);
  // A mask and 23 integers of 4 bits against a base and 32 of 3.
  EXPECT_EQ(chosen(-8, -1, 23, 28), 0x20 | 0x40 | 3);
  EXPECT_EQ(chosen(-8, -1, 23, 27), 0x80 | 3);
  // Differences of a bit against a mask and 8 integers of 4.
  EXPECT_EQ(chosen(0, 15, 8, 32, 1, 33), 0x20 | 3);
  EXPECT_EQ(chosen(0, 15, 8, 32, 1, 32), 0xc0 | 1);
  EXPECT_EQ(chosen(0, 15, 8, 32, 1, 32, false), 0x20 | 3);
  // Neither of these two can say 32 bits.
  constexpr int32_t min = std::numeric_limits<int32_t>::min(), max = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(chosen(min, max, 32, 0, ~0u, 0), 0x40 | 31);
  EXPECT_EQ(chosen(min, max - 1, 32, 0, ~0u >> 1, 0), 0xc0 | 31);
  EXPECT_EQ(chosen(min, -1, 32, 0), 0x80 | 31);
  // Where nothing is negative a group is plain, and has a bit at least.
  EXPECT_EQ(chosen(0, 1, 32, 32), 0);
  EXPECT_EQ(chosen(-1, 0, 32, 32), 0x40);
}

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
    for (size_t form = 0; form < 7; ++form) seen[form] += forms_of(with, values.size())[form];
  }
  for (size_t form = 0; form < 6; ++form) EXPECT_GT(seen[form], 50) << form;
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
  for (const predictor prediction : {none, predictor::automatic}) {
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
  EXPECT_EQ(answer("00000100 01000000 20000000 01000080 ffffffff"), bad_payload);  // an exception
  EXPECT_EQ(answer("00000080 01000000 20000000 01000080 ffffffff"), bad_payload);  // many
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
