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

}  // namespace
