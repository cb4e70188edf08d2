#include <tuck/core/checksum.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace {

std::vector<std::byte> random_bytes(size_t count) {
  std::mt19937 random(7);
  std::vector<std::byte> data(count);
  for (std::byte& b : data) b = static_cast<std::byte>(random());
  return data;
}

TEST(checksum, does_not_depend_on_order_or_partition) {
  const auto data = random_bytes(4 * 1000 + 3);
  const tuck::const_bytes all(data);
  tuck::word_sum sums;
  for (uint64_t part = 5; part-- > 0;) {
    const uint64_t begin = part * 800;
    sums += tuck::sum_words(part == 4 ? all.subspan(begin) : all.subspan(begin, 800), begin / 4);
  }
  EXPECT_EQ(tuck::digest(sums, data.size()), tuck::checksum(data));
}

TEST(checksum, every_single_byte_change_shows) {
  auto data = random_bytes(333);
  const uint64_t before = tuck::checksum(data);
  for (std::byte& b : data)
    for (int change = 1; change < 256; ++change) {
      b ^= static_cast<std::byte>(change);
      ASSERT_NE(tuck::checksum(data), before);
      b ^= static_cast<std::byte>(change);
    }
}

TEST(checksum, two_flipped_sign_bits_and_swapped_words_show) {
  auto data = random_bytes(1024);
  const uint64_t before = tuck::checksum(data);
  for (size_t other = 8; other < 1024; other += 8) {
    for (const size_t at : {size_t{3}, other + 3}) data[at] ^= std::byte{0x80};
    ASSERT_NE(tuck::checksum(data), before);
    for (const size_t at : {size_t{3}, other + 3}) data[at] ^= std::byte{0x80};
    std::swap_ranges(data.begin(), data.begin() + 4, data.begin() + static_cast<std::ptrdiff_t>(other));
    ASSERT_NE(tuck::checksum(data), before);
    std::swap_ranges(data.begin(), data.begin() + 4, data.begin() + static_cast<std::ptrdiff_t>(other));
  }
}

TEST(checksum, length_counts_even_for_zeros) {
  const std::vector<std::byte> zeros(64);
  std::vector<uint64_t> seen;
  for (uint64_t size = 0; size <= 64; ++size) seen.push_back(tuck::checksum(tuck::const_bytes(zeros).subspan(0, size)));
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
}

// Changes of few words by the same small number, of which sums with weights that grow by steps see nothing.
TEST(checksum, changes_that_cancel_in_arithmetic_progressions_show) {
  std::vector<uint64_t> key;
  for (uint64_t i = 0; i < 4096; ++i) {
    tuck::word_sum one;
    one.add(1, i);
    key.push_back(one.sum);
  }
  for (size_t s = 1; s < 64; ++s)
    for (size_t t = s; t < 64; ++t)
      for (size_t i = 0; i + s + t < key.size(); ++i) ASSERT_NE(key[i] + key[i + s + t], key[i + s] + key[i + t]);
  std::sort(key.begin(), key.end());
  EXPECT_EQ(std::adjacent_find(key.begin(), key.end()), key.end());
}

TEST(checksum, changes_of_up_to_four_words_show) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 1'000'000; ++round) {
    const uint32_t size = round % 2 == 0 ? 64 : 16384, base = round % 3 == 0 ? 0x3f803f80 : 0;
    tuck::word_sum before, after;
    uint32_t at = 0;
    for (int changes = 1 + round % 4; changes != 0; --changes) {
      at += 1 + static_cast<uint32_t>(random() % (size / 4));
      const uint32_t word = base != 0 ? base : static_cast<uint32_t>(random());
      const uint32_t by = random() % 2 == 0 ? 1u << random() % 32 : static_cast<uint32_t>(random()) | 1;
      before.add(word, at);
      after.add(random() % 2 == 0 ? word + by : word - by, at);
    }
    ASSERT_NE(tuck::digest(before, size), tuck::digest(after, size));
  }
}

TEST(tensor_digest, of_chunks_in_another_order_is_another) {
  const auto data = random_bytes(1000);
  auto swapped = data;
  std::swap_ranges(swapped.begin(), swapped.begin() + 256, swapped.begin() + 256);
  const uint64_t digest = tuck::tensor_digest(data, 256);
  EXPECT_NE(digest, tuck::tensor_digest(swapped, 256));
  EXPECT_NE(digest, tuck::tensor_digest(data, 128));
  EXPECT_NE(digest, tuck::tensor_digest(tuck::const_bytes(data).subspan(0, 999), 256));
  EXPECT_EQ(tuck::tensor_digest({}, 256), 0u);
}

}  // namespace
