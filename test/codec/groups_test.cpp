// The bytes of groups, by bitpack, which adds nothing to them, worked out by hand from groups.hpp.
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

// -- schemes

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

// -- the layout

using layout = integer_groups<2>;

TEST(groups, shapes_tell_widths_and_payloads) {
  constexpr layout::shape dense{31}, sparse{0x40 | 0x20 | 3}, based{0x80 | 4}, difference{0xc0 | 2};
  EXPECT_EQ(dense.width(), 32u);
  EXPECT_EQ(integer_groups<8>::shape{31}.width(), 64u);
  EXPECT_EQ(dense.payload_bits(1, 7, 9), 32 * 32u);
  EXPECT_EQ(sparse.payload_bits(5, 7, 9), 5 * 4u);
  EXPECT_EQ(based.payload_bits(5, 7, 9), 9 + 32 * 4u);
  EXPECT_EQ(difference.payload_bits(5, 7, 9), 7 + 31 * 2u);
  EXPECT_TRUE(sparse.is_sound(4));
  EXPECT_FALSE(sparse.is_sound(3));
  EXPECT_FALSE(layout::shape{0x80 | 0x20}.is_sound(16));
  EXPECT_EQ(sparse.base(0), static_cast<uint32_t>(-8));
  EXPECT_EQ(based.base(3), static_cast<uint32_t>(-2));
}
TEST(groups, parts_follow_each_other) {
  const auto expect = [](layout::offsets at, std::array<uint32_t, 4> begins) {
    EXPECT_EQ((std::array{at.shapes, at.masks, at.payload, at.end}), begins);
  };
  expect(layout::offsets_of(0, 0, 0, 0), {4, 4, 4, 4});
  expect(layout::offsets_of(1, 1, 1, 1), {8, 12, 16, 20});
  expect(layout::offsets_of(1024, 32, 0, 32), {8, 40, 40, 44});
  expect(layout::offsets_of(1025, 33, 2, 33), {12, 48, 56, 64});
}
TEST(groups, a_tail_is_padded_with_zeros) {
  // 3 in 2 bits each of 32, or in a mask and 2 bits: sparse. 31 zeros follow.
  expect_chunk(bitpack<uint32_t>(none), std::vector<uint32_t>{3, 0, 0, 0, 0, 0},
               "00000000 01000000 21000000 01000000 03000000");
  EXPECT_EQ(encoded_chunk_of(bitpack<uint32_t>(none), {0}).size(), 0u);  // 8 bytes are more than its 4
  expect_chunk(bitpack<uint32_t>(none), std::vector<uint32_t>(3), "00000000 00000000");
}

}  // namespace
}  // namespace tuck::test
