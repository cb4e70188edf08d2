#include "bench/support/reference_coders.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace {

using namespace tuck::bench;

TEST(Quantized, rounds_to_multiples_of_two_bounds) {
  const std::vector<float> values{0, 0.25f, -0.25f, 0.75f, 1, -0.9f, 0.24f};
  const std::vector<int64_t> codes = quantized(values, 0.25);
  EXPECT_EQ(codes, (std::vector<int64_t>{0, 1, -1, 2, 2, -2, 0}));
  EXPECT_EQ(restored(-2, 0.25), -1.0f);
  EXPECT_EQ(max_error(values, codes, 0.25), 0.25);
  EXPECT_NEAR(max_error(std::vector<float>{-0.9f}, std::vector<int64_t>{-2}, 0.25), 0.1, 1e-7);
}

TEST(PlainDifferences, bytes_of_known_blocks) {
  EXPECT_EQ(plain_difference_bytes({}), 0u);
  EXPECT_EQ(plain_difference_bytes(std::vector<int64_t>(32, 0)), 1u);
  // The first difference of a block is the code itself.
  EXPECT_EQ(plain_difference_bytes(std::vector<int64_t>(32, 5)), 1u + 4 * (1 + 3));
  EXPECT_EQ(plain_difference_bytes(std::vector<int64_t>(64, 5)), 2 * (1u + 4 * (1 + 3)));
  EXPECT_EQ(plain_difference_bytes(std::vector<int64_t>(33, 0)), 2u);
  EXPECT_EQ(plain_difference_bytes(std::vector<int64_t>{-1}), 1u + 4 * (1 + 1));
  std::vector<int64_t> stairs(32);
  std::iota(stairs.begin(), stairs.end(), 0);
  EXPECT_EQ(plain_difference_bytes(stairs), 1u + 4 * (1 + 1));
  stairs[31] = -8;  // 38 below the one before
  EXPECT_EQ(plain_difference_bytes(stairs), 1u + 4 * (1 + 6));
}

TEST(Huffman, lengths_of_known_codes) {
  using lengths = std::vector<uint32_t>;
  const auto of = [](const std::vector<uint64_t>& frequencies) { return huffman_lengths(frequencies); };
  EXPECT_EQ(of({}), lengths{});
  EXPECT_EQ(of({0, 0}), (lengths{0, 0}));
  EXPECT_EQ(of({0, 7, 0}), (lengths{0, 1, 0}));
  EXPECT_EQ(of({1, 1000}), (lengths{1, 1}));
  EXPECT_EQ(of({5, 0, 1, 2, 12}), (lengths{2, 0, 3, 3, 1}));
  EXPECT_EQ(of({1, 1, 1, 1}), (lengths{2, 2, 2, 2}));
  // The textbook's worst case: each weight is more than all before it.
  EXPECT_EQ(of({1, 2, 4, 8, 16, 32}), (lengths{5, 5, 4, 3, 2, 1}));
}

// Kraft's sum of a code that wastes nothing is 1.
TEST(Huffman, code_is_complete) {
  std::vector<uint64_t> frequencies(1025);
  for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = i * i % 1009 * (i % 7);
  double sum = 0;
  for (const uint32_t length : huffman_lengths(frequencies)) sum += length == 0 ? 0 : std::ldexp(1, -int(length));
  EXPECT_EQ(sum, 1);
}

TEST(HuffmanDifferences, bytes_of_known_tensors) {
  EXPECT_EQ(huffman_difference_bytes({}), 0u);
  // One symbol: a bit each, and a byte of table.
  EXPECT_EQ(huffman_difference_bytes(std::vector<int64_t>(80, 0)), 10u + 1);
  // 0 0 ... and a 3 once: differences 0 and 3, the table from 0 to 3.
  std::vector<int64_t> codes(80, 0);
  codes[79] = 3;
  EXPECT_EQ(huffman_difference_bytes(codes), 10u + 4);
  // -512 is the last symbol below zero, 511 the last above; one more escapes, with 32 bits.
  EXPECT_EQ(huffman_difference_bytes(std::vector<int64_t>{-512, -1}), 1u + 1024);
  EXPECT_EQ(huffman_difference_bytes(std::vector<int64_t>{512, 1024}), (2 + 64 + 7) / 8 + 1u);
  EXPECT_EQ(huffman_difference_bytes(std::vector<int64_t>{-513}), (1 + 32 + 7) / 8 + 1u);
}

}  // namespace
