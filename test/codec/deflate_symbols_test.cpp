// DEFLATE's symbols against the tables of RFC 1951.
#include <tuck/codec/inflate/codes.hpp>

#include <gtest/gtest.h>

namespace tuck::deflate_format {
namespace {

TEST(deflate_symbols, lengths_are_those_of_the_rfc) {
  constexpr uint32_t base[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                               31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
  constexpr uint32_t extra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
  for (uint32_t i = 0; i < 29; ++i) {
    EXPECT_EQ(length_of(257 + i).base, base[i]);
    EXPECT_EQ(length_of(257 + i).extra_bits, extra[i]);
  }
  for (uint32_t length = 3; length <= 258; ++length) {
    uint32_t i = 28;
    while (base[i] > length) --i;
    EXPECT_EQ(length_symbol(length), 257 + i) << length;
  }
}

TEST(deflate_symbols, distances_are_those_of_the_rfc) {
  constexpr uint32_t base[] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
                               193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
  constexpr uint32_t extra[] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
  for (uint32_t i = 0; i < 30; ++i) {
    EXPECT_EQ(distance_of(i).base, base[i]);
    EXPECT_EQ(distance_of(i).extra_bits, extra[i]);
  }
}

TEST(deflate_symbols, precode_order_is_that_of_the_rfc) {
  constexpr uint32_t order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  for (uint32_t i = 0; i < 19; ++i) EXPECT_EQ(precode_order(i), order[i]) << i;
}

TEST(deflate_symbols, codes_are_reversed) {
  for (uint32_t width = 1; width <= 15; ++width)
    for (uint32_t code = 0; code < 1u << width; code += 1 + code / 7) {
      uint32_t expected = 0;
      for (uint32_t bit = 0; bit < width; ++bit) expected |= (code >> bit & 1) << (width - 1 - bit);
      ASSERT_EQ(reversed(code, width), expected);
    }
}

}  // namespace
}  // namespace tuck::deflate_format
