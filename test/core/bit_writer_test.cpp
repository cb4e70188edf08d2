#include <tuck/core/bit_writer.hpp>

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tuck {
namespace {

TEST(bit_writer, the_first_bit_is_the_lowest_of_the_first_byte) {
  std::byte room[8] = {};
  bit_writer writer(room);
  writer.put(1, 1);
  writer.put(0, 0);
  writer.put(0b10, 2);
  writer.put(0x12345, 20);
  writer.put(0xfff, 12);
  writer.finish();
  // 1, then 01 (lowest first), 20 bits of 0x12345 from bit 3, 12 ones from bit 23: three of them in the second word.
  EXPECT_EQ(load_unaligned<uint32_t>(room), 1u | 2u << 1 | 0x12345u << 3 | 0x1ffu << 23);
  EXPECT_EQ(load_unaligned<uint32_t>(room + 4), 0b111u);
}

TEST(bit_writer, finish_writes_no_byte_that_has_no_bit) {
  for (uint32_t bits = 0; bits <= 64; ++bits) {
    std::byte room[9];
    std::memset(room, 0xee, sizeof room);
    bit_writer writer(room);
    for (uint32_t i = 0; i < bits; ++i) {
      EXPECT_EQ(writer.position(), i);
      writer.put(1, 1);
    }
    EXPECT_EQ(writer.position(), bits);
    writer.finish();
    for (uint32_t i = 0; i < sizeof room; ++i) {
      const uint32_t here = bits <= 8 * i ? 0 : bits - 8 * i;
      EXPECT_EQ(static_cast<uint32_t>(room[i]), here == 0   ? 0xee
                                                : here >= 8 ? 0xff
                                                            : (1u << here) - 1)
          << bits << ' ' << i;
    }
  }
}

TEST(bit_writer, each_bit_is_where_it_belongs) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    struct field {
      uint64_t x;
      uint32_t width;
    };
    std::vector<field> fields(1 + random() % 200);
    uint64_t bits = 0;
    for (field& f : fields) {
      f.width = static_cast<uint32_t>(random() % 65);
      f.x = f.width == 64 ? random() : random() & ((uint64_t{1} << f.width) - 1);
      bits += f.width;
    }
    // As long as it must be and at an odd address, so that sanitizers see any step outside.
    const size_t size = (bits + 7) / 8;
    std::vector<std::byte> memory(size + 1);
    std::byte* const room = memory.data() + 1;
    bit_writer writer(room);
    for (const field& f : fields) writer.put(f.x, f.width);
    writer.finish();
    uint64_t at = 0;
    for (const field& f : fields)
      for (uint32_t i = 0; i < f.width; ++i, ++at)
        ASSERT_EQ(static_cast<uint32_t>(room[at / 8]) >> at % 8 & 1, f.x >> i & 1);
    for (; at < 8 * size; ++at) ASSERT_EQ(static_cast<uint32_t>(room[at / 8]) >> at % 8 & 1, 0u);
  }
}

}  // namespace
}  // namespace tuck
