// Gaps: bytes worked out by hand from gaps.hpp, and the verdict on bytes that encoding does not write.
#include "support/chunk_bytes.hpp"

namespace tuck::test {
namespace {

template <class T> std::vector<T> with(size_t count, std::initializer_list<std::pair<size_t, T>> non_zeros) {
  std::vector<T> values(count);
  for (const auto& [at, x] : non_zeros) values[at] = x;
  return values;
}

TEST(gaps, values_with_classes) {
  // r = bit_width(31 * 14 / 128) = 2. Remainders 3 and 3, quotients 0 and 0, classes 0 and 3, and 0x55 in 7 bits.
  expect_chunk(gaps<uint32_t>{}, with<uint32_t>(16, {{3, 1}, {7, 0x55}}), "02007208 7fac02");
}
TEST(gaps, values_without_classes) {
  // r = bit_width(31 * 30 / 128) = 3. Gaps 0 and 30: remainders 0 and 6, quotients 0 and 3, then 2 and 2 in 2 bits.
  expect_chunk(gaps<uint16_t>{}, with<uint16_t>(32, {{0, 2}, {31, 2}}), "02002300 7054");
}
TEST(gaps, takes_classes_only_if_they_are_shorter) {
  // r = bit_width(31 * 6 / 128) = 1. Gaps 0 and 2: remainders 0 and 0, quotients 0 and 1. Classes 0 and 3 take 5 bits,
  // and the stored value its own: as many as two values of 5 bits, one fewer than two values of 6.
  expect_chunk(gaps<uint16_t>{}, with<uint16_t>(8, {{0, 1}, {3, 0x15}}), "02005100 3454");
  expect_chunk(gaps<uint16_t>{}, with<uint16_t>(8, {{0, 1}, {3, 0x2a}}), "02006108 34aa");
}
TEST(gaps, ones_are_classes_without_stored_values) {
  // r = bit_width(31 * 60 / 256) = 3. Gaps 0, 15, 15, 15: remainders 0, 7, 7, 7; quotients 0, 1, 1, 1. Classes 2,
  // 4, 8 and 16 take 34 bits, and no value is stored.
  expect_chunk(gaps<uint16_t>{}, with<uint16_t>(64, {{0, 7}, {16, 15}, {32, 255}, {48, 65535}}),
               "04000308 f85f2504 080010");
}
TEST(gaps, of_zeros_is_a_header) {
  expect_chunk(gaps<uint64_t>{}, std::vector<uint64_t>(1), "00000000");
  expect_chunk(gaps<uint8_t>{}, std::vector<uint8_t>(5), "00000000");
  expect_chunk(gaps<double>{}, std::vector<double>(16384), "00000000");
}
TEST(gaps, at_most_a_quarter_may_be_non_zero) {
  EXPECT_FALSE(encoded_chunk_of(gaps<float>{}, with<float>(19, {{0, 1}, {5, 2}, {9, 3}, {18, 4}})).empty());
  EXPECT_TRUE(encoded_chunk_of(gaps<float>{}, with<float>(19, {{0, 1}, {5, 2}, {9, 3}, {11, 5}, {18, 4}})).empty());
  EXPECT_TRUE(encoded_chunk_of(gaps<float>{}, {1}).empty());
}
TEST(gaps, chunks_that_do_not_shrink_are_incompressible) {
  EXPECT_TRUE(encoded_chunk_of(gaps<uint32_t>{}, {0}).empty());  // a header has 4 bytes too
  EXPECT_TRUE(encoded_chunk_of(gaps<uint8_t>{}, std::vector<uint8_t>(4)).empty());
}

TEST(gaps, other_bytes_are_refused) {
  const auto of = [](const std::string& hex) { return verdict(gaps<uint32_t>{}, bytes_of(hex), 16); };
  EXPECT_EQ(of("02007208 7fac02"), status::ok);
  EXPECT_EQ(of("02007208 7fac"), status::bad_payload);      // ends before the value
  EXPECT_EQ(of("02007208 7fac0200"), status::bad_payload);  // a byte of padding
  EXPECT_EQ(of("02007208 7fac06"), status::bad_payload);    // padding that is not zero
  EXPECT_EQ(of("02007218 7fac02"), status::bad_payload);    // bit 28
  EXPECT_EQ(of("05007208 7fac02"), status::bad_payload);    // five of 16
  EXPECT_EQ(of("0200120a 7fac02"), status::bad_payload);    // 33 bits of 32
  EXPECT_EQ(of("02007208 3f000000"), status::bad_payload);  // no end of a class
  EXPECT_EQ(of("02007208 00000000"), status::bad_payload);  // no end of a quotient
  EXPECT_EQ(of("020072"), status::bad_payload);             // no header
  EXPECT_EQ(of(""), status::bad_payload);
  EXPECT_EQ(of("01002000 0300"), status::bad_payload);    // w = 2: a byte more than 3 bits
  EXPECT_EQ(of("01000000 80"), status::ok);               // a gap of 7, and a value of no bits
  EXPECT_EQ(of("01000000 000080"), status::bad_payload);  // a gap of 23
}

}  // namespace
}  // namespace tuck::test
