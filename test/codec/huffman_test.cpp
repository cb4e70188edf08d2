// huffman on the host: its bytes, its codes beside optimal ones, what it makes of values that look like floats.
#include "bench/support/reference_coders.hpp"
#include "support/chunk_bytes.hpp"
#include "support/codecs.hpp"

#include <cmath>

namespace tuck::test {
namespace {

template <codec C> std::vector<std::byte> huffman_chunk(const C& codec, const std::vector<value_t<C>>& values) {
  std::vector<std::byte> room(codec.max_chunk_bytes(static_cast<uint32_t>(values.size())));
  room.resize(codec.encode_chunk(values, room));
  return room;
}
std::vector<uint32_t> words_of(const std::vector<std::byte>& encoded) {
  std::vector<uint32_t> words(encoded.size() / 4);
  std::memcpy(words.data(), encoded.data(), encoded.size());
  return words;
}

// 64 bytes are 16 words, of which each of 8 streams has two; two symbols have a bit each.
TEST(huffman, a_chunk_of_bytes) {
  std::vector<uint8_t> values(64, 0);
  for (size_t i = 0; i < 4; ++i) values[i] = values[60 + i] = 1;
  const std::vector<uint32_t> expected{1u << 3,                  // the upper bytes are coded
                                       8 / 2,                    // each stream has 8 bits, no edges
                                       1,          0x11,         // symbols 0 to 7 occur; 0 and 1 have a bit each
                                       0,          0,            // no stream has more
                                       0xf0000000, 0x0000000f};  // word 0 is in the first stream, word 15 in the last
  EXPECT_EQ(words_of(huffman_chunk(huffman<uint8_t>{}, values)), expected);
}

// Rotated, 1.0 is 7f000000: a run of one head. Mantissas are 0, a symbol that needs no bits.
TEST(huffman, a_chunk_of_ones) {
  const std::vector<float> values(32, 1.f);
  const auto words = words_of(huffman_chunk(huffman<float>{}, values));
  ASSERT_GE(words.size(), 2u);
  EXPECT_EQ(words[0] & 0xff, 0b0111'0000u);     // the three planes are coded; heads and the one upper byte are stored
  EXPECT_EQ(words[0] >> 8, 0b1011u | 1u << 8);  // heads, narrow, rotated; one head
  const std::vector<uint32_t> rest(words.begin() + 1, words.end());
  EXPECT_EQ(rest, (std::vector<uint32_t>{0,        // streams of no bits
                                         1, 0xf,   // of each plane the only symbol, 0
                                         1, 0xf,   //
                                         1, 0xf,   //
                                         0, 0,     // 8 streams
                                         1,        // the heads
                                         0x7f}));  // and the exponent
}

// 0 and 1 in turn: of each value, all bytes but the lowest are dropped.
template <class U> void expect_one_plane() {
  std::vector<U> values(64, 0);
  for (size_t i = 1; i < 64; i += 2) values[i] = 1;
  const std::vector<uint32_t> expected{1u << 3 | (sizeof(U) - 1) << 12,  // the plane that is left is coded
                                       8 / 2,                            //
                                       1,
                                       0x11,  // 0 and 1 have a bit each
                                       0,
                                       0,  //
                                       0x55555555,
                                       0x55555555};
  const auto encoded = huffman_chunk(huffman<U>{}, values);
  EXPECT_EQ(words_of(encoded), expected);
  expect_restored(huffman<U>{}, values, encoded);
}
TEST(huffman, a_chunk_of_small_integers) {
  expect_one_plane<uint16_t>();
  expect_one_plane<uint32_t>();
  expect_one_plane<uint64_t>();
}

// Numbers of two bytes, of which the upper one is rare, from 2000 on; then the same in wider values.
TEST(huffman, drops_what_is_zero_and_no_more) {
  std::mt19937 random(3);
  std::vector<uint16_t> narrow(2001);
  for (size_t i = 0; i < narrow.size(); ++i) narrow[i] = static_cast<uint16_t>(random() % (i % 20 == 0 ? 1000 : 100));
  const std::vector<uint32_t> wide(narrow.begin(), narrow.end());
  auto expected = words_of(huffman_chunk(huffman<uint16_t>{}, narrow));
  EXPECT_EQ(expected[0] >> 8 & 0xff, 1u);  // heads; nothing is dropped
  expected[0] |= 2u << 12;
  const auto encoded = huffman_chunk(huffman<uint32_t>{}, wide);
  EXPECT_EQ(words_of(encoded), expected);
  expect_restored(huffman<uint32_t>{}, wide, encoded);
}

TEST(huffman, drops_all_but_one_plane_of_zeros) {
  for (const size_t count : {1u, 3u, 32u, 4096u}) {
    const std::vector<uint32_t> values(count);
    std::vector<std::byte> room(huffman<uint32_t>{}.max_chunk_bytes(static_cast<uint32_t>(count)));
    section_list all{};
    all.add(static_cast<uint32_t>(4 * count));  // as in a chain, which may not shrink
    using chunk = huffman_format::host_chunk<uint32_t>;
    room.resize(chunk(all).encode(as_bytes(span<const uint32_t>(values)).data(), room.data()));
    EXPECT_EQ(words_of(room).at(0) >> 12 & 7, 3u);
    std::vector<uint32_t> restored(count, 1);
    EXPECT_EQ(chunk(all).decode(room, as_writable_bytes(span<uint32_t>(restored)).data()), status::ok);
    EXPECT_EQ(restored, values);
  }
}

TEST(huffman, refuses_another_number_of_dropped_planes) {
  std::vector<uint32_t> small(1000);
  std::vector<float> floats(1000);
  for (size_t i = 0; i < small.size(); ++i) {
    small[i] = static_cast<uint32_t>(i * i % 300);
    floats[i] = 1 + static_cast<float>(i);
  }
  const auto of_small = huffman_chunk(huffman<uint32_t>{}, small), of_floats = huffman_chunk(huffman<float>{}, floats);
  const auto with = [](std::vector<std::byte> chunk, uint32_t dropped, uint32_t flags) {
    const uint32_t header = (words_of(chunk)[0] & ~(7u << 12)) | dropped << 12 | flags;
    std::memcpy(chunk.data(), &header, 4);
    return chunk;
  };
  for (uint32_t dropped = 0; dropped < 8; ++dropped) {
    const status of_two = dropped == 2 ? status::ok : status::bad_payload;
    EXPECT_EQ(huffman<uint32_t>{}.decode_chunk(with(of_small, dropped, 0), small), of_two) << dropped;
    const status of_none = dropped == 0 ? status::ok : status::bad_payload;
    EXPECT_EQ(huffman<float>{}.decode_chunk(with(of_floats, dropped, 0), floats), of_none) << dropped;
  }
  EXPECT_EQ(huffman<uint32_t>{}.decode_chunk(with(of_small, 2, 1u << 11), small), status::bad_payload);
  EXPECT_EQ(huffman<uint32_t>{}.decode_chunk(with(of_small, 2, 1u << 15), small), status::bad_payload);
}

TEST(huffman, masks_of_a_chain_by_their_edges) {
  std::vector<uint16_t> values(2048, 0);
  for (size_t i = 512; i < 1024; ++i) values[i] = static_cast<uint16_t>(0x4000 + i * 7919 % 0x3fff);
  const auto encoded = huffman_chunk(zvc_huffman<uint16_t>{}, values);
  const auto words = words_of(encoded);
  EXPECT_EQ(words[1] >> 15, 2u);  // two bytes of 256 have an edge
  std::vector<uint16_t> restored(values.size());
  ASSERT_EQ(zvc_huffman<uint16_t>{}.decode_chunk(encoded, restored), status::ok);
  EXPECT_EQ(restored, values);
}

// What looks like a float is rotated whatever its type is, and small integers are not.
TEST(huffman, looks_at_values_and_not_at_types) {
  const auto is_rotated = [](const std::vector<std::byte>& encoded) {
    return (words_of(encoded).at(0) >> 11 & 1) != 0;
  };
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> floats(4096);
  for (float& x : floats) x = normal(random);
  std::vector<uint32_t> bits(4096), small(4096);
  std::memcpy(bits.data(), floats.data(), 4 * floats.size());
  for (uint32_t& x : small) x = static_cast<uint32_t>(random()) % 1000;
  const auto encoded = huffman_chunk(huffman<float>{}, floats);
  EXPECT_TRUE(is_rotated(encoded));
  EXPECT_EQ(huffman_chunk(huffman<uint32_t>{}, bits), encoded);
  EXPECT_FALSE(is_rotated(huffman_chunk(huffman<uint32_t>{}, small)));
}

// -- codes -------------------------------------------------------------------------------------------------------

uint64_t optimal_bits(const std::vector<uint64_t>& counts, uint32_t& longest) {
  const auto lengths = bench::huffman_lengths(counts);
  uint64_t bits = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    bits += counts[i] * lengths[i];
    longest = std::max(longest, lengths[i]);
  }
  return bits;
}

TEST(huffman_codes, are_optimal_where_few_symbols_occur_and_nearly_where_many_do) {
  std::mt19937 random(2);
  int optimal = 0, could_be_shorter = 0;
  double ours_of_many = 0, best_of_many = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto present = static_cast<uint32_t>(i % 2 == 0 ? 2 + random() % 31 : 33 + random() % 224);
    const double decay = 1 + .3 * static_cast<double>(random() % 1000) / (i % 2 == 0 ? 1000 : 10000);
    uint32_t counts[256] = {};
    double level = 1 + static_cast<double>(random() % 3000);
    for (uint32_t k = 0; k < present; ++k, level /= decay)
      counts[(k * 37 + 11) % 256] = 1 + static_cast<uint32_t>(level);
    const huffman_format::code_maker<256> made(counts);
    ASSERT_EQ(made.present, present);
    uint32_t slots = 0, longest = 0;
    for (uint32_t s = 0; s < 256; ++s) {
      ASSERT_EQ(made.length[s] != 0, counts[s] != 0);
      ASSERT_LE(made.length[s], huffman_format::max_length);
      if (counts[s] != 0) slots += huffman_format::slots_of(made.length[s]);
    }
    ASSERT_LE(slots, huffman_format::slots);
    const uint32_t longest_length = *std::max_element(std::begin(made.length), std::end(made.length));
    could_be_shorter += slots + huffman_format::slots_of(longest_length) <= huffman_format::slots;
    const uint64_t best = optimal_bits({std::begin(counts), std::end(counts)}, longest);
    if (present <= 32) {  // there is more than one optimal code, and not all of them have ten bits at most
      ASSERT_GE(made.bits(), best);
      ASSERT_LE(static_cast<double>(made.bits()), (longest <= 10 ? 1.001 : 1.02) * static_cast<double>(best));
      optimal += made.bits() == best;
    } else {
      ours_of_many += static_cast<double>(made.bits());
      best_of_many += static_cast<double>(best);
    }
  }
  EXPECT_GE(optimal, 1000);
  EXPECT_LE(could_be_shorter, 100);  // after 32 times the coder takes what it has
  EXPECT_LE(ours_of_many, 1.01 * best_of_many);
}

// Fibonacci's numbers would have codes of 31 bits.
TEST(huffman_codes, are_cut_to_ten_bits) {
  uint32_t counts[256] = {}, a = 1, b = 1;
  for (uint32_t s = 0; s < 22; ++s) {
    counts[s] = a;
    std::swap(a, b);
    b += a;
  }
  const huffman_format::code_maker<256> made(counts);
  uint32_t slots = 0;
  for (uint32_t s = 0; s < 22; ++s) slots += huffman_format::slots_of(made.length[s]);
  EXPECT_EQ(made.length[0], huffman_format::max_length);
  EXPECT_LE(slots, huffman_format::slots);
  EXPECT_EQ(made.length[21], 1);
}

}  // namespace
}  // namespace tuck::test
