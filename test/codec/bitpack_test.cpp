#include "support/tensors.hpp"

#include <tuck/codec/bitpack/bitpack.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace tuck::test {
namespace {

template <class T> std::vector<std::byte> encode(const std::vector<T>& values) {
  std::vector<std::byte> encoded(bitpack<T>{}.max_chunk_bytes(static_cast<uint32_t>(values.size())));
  encoded.resize(bitpack<T>{}.encode_chunk(values, encoded));
  return encoded;
}

std::vector<std::byte> as_bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

template <class T> status decode(const std::vector<std::byte>& encoded, size_t count) {
  std::vector<T> restored(count);
  return bitpack<T>{}.decode_chunk(encoded, restored);
}

template <class T> void expect_round_trip(const std::vector<T>& values, const std::vector<std::byte>& encoded) {
  std::vector<T> restored(values.size());
  ASSERT_EQ(bitpack<T>{}.decode_chunk(encoded, restored), status::ok);
  ASSERT_TRUE(same_bits(values, restored));
}

// Every third value is 5, of 3 bits: 32 of them are 3 words.
TEST(bitpack, bytes_are_widths_then_values) {
  std::vector<uint16_t> values(32);
  for (size_t i = 0; i < 32; i += 3) values[i] = 5;
  values.insert(values.end(), {0, 1, 1});
  const auto encoded = encode(values);
  // 5, 0, 0 are 9 bits: 101 000000 from bit 9 k on.
  EXPECT_EQ(encoded, as_bytes({3,    1,    0,    0,    0x05, 0x0a, 0x14, 0x28, 0x50, 0xa0,
                               0x40, 0x81, 0x02, 0x05, 0x0a, 0x14, 0x06, 0,    0,    0}));
  expect_round_trip(values, encoded);
}

TEST(bitpack, zeros_are_widths_alone) {
  const std::vector<double> values(33 * 4, 0.);
  EXPECT_EQ(encode(values), as_bytes({0, 0, 0, 0, 0, 0, 0, 0}));
  expect_round_trip(values, encode(values));
}

TEST(bitpack, signs_and_exponents_take_all_bits) {
  std::vector<float> values(64);
  values[3] = -0.f;
  const auto encoded = encode(values);
  ASSERT_EQ(encoded.size(), 4 + 32 * 4u);
  EXPECT_EQ(encoded[0], std::byte{32});
  EXPECT_EQ(encoded[4 + 4 * 3 + 3], std::byte{0x80});
  expect_round_trip(values, encoded);
}

template <class T> class bitpack_of : public ::testing::Test {};
using elements = ::testing::Types<uint8_t, int8_t, f16, uint32_t, float, uint64_t, double>;
TYPED_TEST_SUITE(bitpack_of, elements);

// A group of the width, in front of enough zeros, and tails of all lengths.
TYPED_TEST(bitpack_of, every_width_and_tail) {
  using bits = bits_t<TypeParam>;
  std::mt19937_64 random(51);
  for (uint32_t width = 0; width <= 8 * sizeof(TypeParam); ++width)
    for (uint32_t tail = 0; tail < 32; ++tail) {
      std::vector<TypeParam> values(32 * 8 + tail);
      const bits largest = width == 0 ? bits{0} : static_cast<bits>(bits{1} << (width - 1));
      const auto some = [&] {
        const auto below = static_cast<bits>(largest - (width == 0 ? 0 : 1));
        return __builtin_bit_cast(TypeParam, static_cast<bits>((random() & below) | largest));
      };
      std::generate_n(values.begin() + 32, 32, some);
      std::generate(values.end() - tail, values.end(), some);
      const auto encoded = encode(values);
      const uint32_t widths = tail == 0 ? 8 : 12;
      ASSERT_EQ(encoded.size(), widths + 4 * width + (width * tail + 31) / 32 * 4);
      ASSERT_EQ(encoded[1], static_cast<std::byte>(width));
      ASSERT_NO_FATAL_FAILURE(expect_round_trip(values, encoded));
    }
}

TYPED_TEST(bitpack_of, declines_what_does_not_shrink) {
  EXPECT_TRUE(encode(noise<TypeParam>(1000)).empty());
  EXPECT_TRUE(encode(noise<TypeParam>(1)).empty());
  // As many bytes as values are too many too: a byte of width is in front, and it takes four.
  std::vector<TypeParam> one(4 / sizeof(TypeParam) + (sizeof(TypeParam) == 8));
  EXPECT_EQ(encode(one).empty(), sizeof(TypeParam) != 8);
}

TYPED_TEST(bitpack_of, only_what_encoding_gives_is_accepted) {
  using bits = bits_t<TypeParam>;
  std::mt19937_64 random(52);
  for (const uint32_t count : {33u, 64u, 100u, 101u}) {
    std::vector<TypeParam> values(count);
    for (auto& value : values) value = __builtin_bit_cast(TypeParam, static_cast<bits>(random() % 8));
    const auto encoded = encode(values);
    ASSERT_FALSE(encoded.empty());
    for (size_t bit = 0; bit < 8 * encoded.size(); ++bit) {
      auto changed = encoded;
      changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      std::vector<TypeParam> restored(count);
      if (bitpack<TypeParam>{}.decode_chunk(changed, restored) == status::ok) {
        ASSERT_EQ(encode(restored), changed) << bit;
        ASSERT_FALSE(same_bits(values, restored)) << bit;
      }
    }
  }
}

TEST(bitpack, impossible_bytes_are_refused) {
  const auto sound = as_bytes({1, 1, 0, 0, 1, 0, 0, 0x80, 1, 0, 0, 0});  // 32 bits and one
  const auto answer = [&](size_t at, int byte) {
    auto changed = sound;
    changed[at] = static_cast<std::byte>(byte);
    return decode<uint8_t>(changed, 33);
  };
  EXPECT_EQ(answer(0, 1), status::ok);
  EXPECT_EQ(answer(0, 9), status::bad_payload);   // more bits than a value has
  EXPECT_EQ(answer(0, 2), status::bad_payload);   // which makes another size
  EXPECT_EQ(answer(1, 2), status::bad_payload);   // the same size, but 1 bit is enough
  EXPECT_EQ(answer(1, 0), status::bad_payload);   // another size
  EXPECT_EQ(answer(2, 1), status::bad_payload);   // the width of no group
  EXPECT_EQ(answer(8, 3), status::bad_payload);   // a bit of no value
  EXPECT_EQ(answer(11, 1), status::bad_payload);  // another
  EXPECT_EQ(answer(8, 0), status::bad_payload);   // a 0 of 1 bit
  EXPECT_EQ(answer(7, 0), status::ok);            // a value
  EXPECT_EQ(decode<uint8_t>(sound, 32), status::bad_payload);
  EXPECT_EQ(decode<uint8_t>(sound, 129), status::bad_payload);
  EXPECT_EQ(decode<uint8_t>({}, 34), status::bad_payload);
  EXPECT_EQ(decode<uint64_t>(as_bytes({65, 0, 0, 0}), 40), status::bad_payload);
  EXPECT_EQ(decode<uint8_t>(as_bytes({0, 0, 0, 0}), 4), status::bad_payload);  // no less than raw
  EXPECT_EQ(decode<uint8_t>(as_bytes({0, 0, 0, 0}), 5), status::ok);
}

}  // namespace
}  // namespace tuck::test
