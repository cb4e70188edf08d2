#include <tuck/core/bit_reader.hpp>

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tuck {
namespace {

std::vector<std::byte> random_bytes(size_t size) {
  std::mt19937_64 random(size);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}
// Returns `width` bits from bit `bit` on, and zeros past the end.
uint64_t bits_in(const std::vector<std::byte>& bytes, uint64_t bit, uint32_t width) {
  uint64_t x = 0;
  for (uint32_t i = 0; i < width; ++i)
    if (const uint64_t at = bit + i; at < 8 * bytes.size())
      x |= static_cast<uint64_t>(static_cast<uint32_t>(bytes[at / 8]) >> at % 8 & 1) << i;
  return x;
}

TEST(bit_reader, a_window_has_57_bits_and_then_zeros) {
  const auto bytes = random_bytes(16);
  for (uint32_t bit = 0; bit < 64; ++bit)
    EXPECT_EQ(bit_window(bytes.data(), bit), bits_in(bytes, bit, 64 - bit % 8)) << bit;
}

TEST(bit_reader, fields_of_each_width_at_each_bit) {
  const auto bytes = random_bytes(17);
  for (uint32_t bit = 0; bit < 64; ++bit)
    for (uint32_t width = 0; width <= 64; ++width) {
      const uint64_t expected = bits_in(bytes, bit, width);
      EXPECT_EQ(bits_from<uint64_t>(bytes.data(), bit, width), expected) << bit << ' ' << width;
      if (width > 32) continue;
      EXPECT_EQ(bits_from<uint32_t>(bytes.data(), bit, width), expected) << bit << ' ' << width;
    }
}

TEST(bit_reader, takes_what_stands_in_memory_and_behind_it_zeros) {
  for (const size_t size : {0u, 1u, 7u, 8u, 9u, 40u}) {
    const auto bytes = random_bytes(size);
    std::mt19937 random(1);
    bit_reader in(const_bytes(bytes.data(), size));
    for (uint64_t at = 0; at < 8 * size + 64;) {
      in.refill();
      EXPECT_EQ(in.position(), at);
      EXPECT_EQ(in.overrun(), at > 8 * size);
      EXPECT_EQ(in.peek(), bits_in(bytes, at, 32));
      for (uint32_t left = bit_reader::refilled_bits; left >= 16; left -= 16) {
        const auto width = static_cast<uint32_t>(random() % 17);
        EXPECT_EQ(in.read_bits(width), bits_in(bytes, at, width));
        at += width;
      }
    }
  }
}

TEST(bit_reader, overruns_by_the_first_bit_past_the_end) {
  const auto bytes = random_bytes(3);
  bit_reader in(const_bytes(bytes.data(), bytes.size()));
  in.refill();
  in.drop(24);
  EXPECT_FALSE(in.overrun());
  in.drop(1);
  EXPECT_TRUE(in.overrun());
}

TEST(bit_reader, aligns_to_bytes_and_seeks_them) {
  const auto bytes = random_bytes(24);
  bit_reader in(const_bytes(bytes.data(), bytes.size()));
  in.refill();
  in.drop(3);
  in.align();
  EXPECT_EQ(in.position(), 8u);
  in.align();
  EXPECT_EQ(in.position(), 8u);
  in.seek(17);
  in.refill();
  EXPECT_EQ(in.position(), 136u);
  EXPECT_EQ(in.read_bits(13), bits_in(bytes, 136, 13));
}

}  // namespace
}  // namespace tuck
