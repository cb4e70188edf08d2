// Codebooks: bytes worked out by hand from codebooks/layout.hpp, the books themselves, every pattern of 8 and 16 bits,
// the ways through an encoder, and what it gains.
#include "support/chunk_bytes.hpp"

#include <algorithm>
#include <numeric>

namespace tuck::test {
namespace {

namespace format = codebooks_format;

TEST(codebooks, codes_are_complete) {
  for (uint32_t b = 0; b < format::books; ++b) {
    uint32_t slots = 0;
    for (const char digit : std::string_view(format::lengths[b])) {
      ASSERT_TRUE(digit >= '0' && digit <= '8') << b;
      if (digit != '0') slots += 256u >> (digit - '0');
    }
    EXPECT_EQ(std::string_view(format::lengths[b]).size(), format::symbols) << b;
    EXPECT_EQ(slots, b == format::raw ? 0u : 256u) << b;
    EXPECT_EQ(format::lengths[b][format::escape] == '0', b == format::raw) << b;  // all others have an escape
  }
}

TEST(codebooks, a_table_of_pairs_has_the_codes_of_both) {
  for (uint32_t b = 0; b < format::books; ++b)
    for (uint32_t i = 0; i < 256; ++i) {
      const uint32_t x = format::tables.single[b][i % 16], y = format::tables.single[b][i / 16];
      const uint32_t pair = format::tables.pair[b][i];
      if (((x | y) & format::no_code) != 0) {
        EXPECT_EQ(pair, format::no_code);
      } else {
        EXPECT_EQ(pair % 32, x % 16 + y % 16);
        EXPECT_EQ(pair >> 16, (x >> 24 << 8 | y >> 24 << (8 - x % 16)) & 0xffff) << b << ' ' << i;
        EXPECT_EQ(format::tables.decode[b][x >> 24] >> 8, i % 16);
      }
    }
}

// 1, -1, 1, 2 and 20 times 1: exponent fields 0x7f and, once, 0x80, the top. So symbol 1 but for one 0: book 4,
// whose code for 1 has one bit and for 0 four, 1100. All mantissas are 0: a rest is the sign, in the plane of one bit.
// Streams 0 to 2 have 8 values each: 7 + 4 bits, and 8, and 8. Others have none: least 0, and 4 bits of directory.
TEST(codebooks, a_part_has_a_head_planes_a_directory_and_streams) {
  ASSERT_EQ(std::string_view(format::lengths[4]).substr(0, 5), "41244");
  std::vector<bf16> values(24, bf16{0x3f80});
  values[1] = bf16{0xbf80};
  values[3] = bf16{0x4000};
  const std::string head = "8000d021 06000000", planes = " 02000000",
                    directory = " 8b080000 00000000 00000000 00000000";
  const std::string streams = " 00000018";  // 00011000 0000...
  expect_chunk(codebooks<bf16>{}, values, head + planes + directory + streams);
}

std::mt19937_64 generator(1);

template <element T> std::vector<T> weights(size_t count, double deviation = .02) {
  std::normal_distribution<double> normal(0, deviation);
  std::vector<T> values(count);
  for (T& w : values) w.bits = float_format<T>::narrow(static_cast<float>(normal(generator)));
  return values;
}
template <> std::vector<float> weights<float>(size_t count, double deviation) {
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  std::vector<float> values(count);
  for (float& w : values) w = normal(generator);
  return values;
}

// The heads of a chunk's parts.
template <element T> std::vector<format::part_head> heads_of(const std::vector<T>& values) {
  const auto chunk = encoded_chunk_of(codebooks<T>{}, values);
  expect_restored(codebooks<T>{}, values, chunk);
  std::vector<format::part_head> heads(format::shape_of<T>::parts(static_cast<uint32_t>(values.size())));
  if (chunk.size() < sizeof heads[0] * heads.size())
    ADD_FAILURE() << "no chunk";
  else
    std::memcpy(heads.data(), chunk.data(), sizeof heads[0] * heads.size());
  return heads;
}
template <element T> double ratio_of(const std::vector<T>& values) {
  const double ratio =
      static_cast<double>(sizeof(T) * values.size()) / static_cast<double>(encoded(codebooks<T>{}, values).size());
  std::printf("    %.3f\n", ratio);
  return ratio;
}

TEST(codebooks, parts_look_again_if_they_have_zeros_or_outliers) {
  auto values = weights<bf16>(4 * 2048);
  for (int i = 0; i < 40; ++i) values[2048 + static_cast<size_t>(i) * 50].bits = 0;
  values[2 * 2048 + 77].bits = 0x7fc0;  // NaN
  const auto heads = heads_of(values);
  for (const auto& head : heads) EXPECT_FALSE(head.masked());
  EXPECT_LT(heads[0].book(), format::first_of_second);
  EXPECT_LT(heads[3].book(), format::first_of_second);
  EXPECT_GE(heads[2].book(), format::first_of_second);
  EXPECT_LE(heads[2].top(), 127u);  // the NaN is not the top
}

// A part may have zeros in whole cells, a kind of value in each stream, or nothing but zeros.
TEST(codebooks, cells_of_zeros_are_not_stored) {
  auto values = weights<bf16>(4 * 2048);
  for (size_t i = 2048; i < 2 * 2048; ++i)
    if (i / 8 % 4 != 1) values[i].bits = 0;
  for (size_t i = 2 * 2048; i < 3 * 2048; ++i) values[i].bits = 0;
  values[3 * 2048 + 9].bits = 0x8000;  // -0, in a cell of others
  const auto heads = heads_of(values);
  EXPECT_FALSE(heads[0].masked());
  EXPECT_TRUE(heads[1].masked());
  EXPECT_TRUE(heads[2].masked());
  EXPECT_EQ(heads[2].words(), format::rows);
  EXPECT_FALSE(heads[3].masked());
  EXPECT_LT(heads[1].words(), heads[0].words() / 3);
  // A part that is not full has none.
  values.resize(2 * 2048 - 1);
  EXPECT_FALSE(heads_of(values)[1].masked());
}

// Streams that are too long for a book: the values of some streams are wide, and the sample has few of them.
TEST(codebooks, a_part_may_have_no_codes) {
  auto values = weights<bf16>(4 * 2048);
  for (size_t i = 0; i < 2048; ++i)
    if (i / 8 % 32 == 5 && i % 8 != i / 256) values[i].bits = static_cast<uint16_t>(generator());
  const auto heads = heads_of(values);
  EXPECT_EQ(heads[0].book(), format::raw);
  EXPECT_LT(heads[1].book(), format::first_of_second);
}

TEST(codebooks, low_bits_that_are_zero_cost_nothing) {
  const auto rounded = weights<bf16>(1 << 14);
  std::vector<float> wide(rounded.size());
  for (size_t i = 0; i < wide.size(); ++i) wide[i] = __builtin_bit_cast(float, uint32_t{rounded[i].bits} << 16);
  EXPECT_GE(ratio_of(wide), 1.97 * ratio_of(rounded));
  for (uint32_t zeros = 0; zeros <= 23; ++zeros) {
    auto values = weights<float>(1500);
    for (float& x : values) x = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, x) & ~uint32_t{0} << zeros);
    const auto heads = heads_of(values);
    for (const auto& head : heads) EXPECT_EQ(head.zeros(), zeros / 2 * 2);
  }
}

// What a decoder must refuse, whatever else the chunk has.
TEST(codebooks, refuses_heads_that_no_encoder_writes) {
  const auto values = weights<bf16>(5000);  // three parts
  const auto sound = encoded_chunk_of(codebooks<bf16>{}, values);
  const auto refuses = [&](const char* what, const auto& change) {
    auto chunk = sound;
    std::array<format::part_head, 3> heads;
    std::memcpy(heads.data(), chunk.data(), sizeof heads);
    change(heads, chunk);
    std::memcpy(chunk.data(), heads.data(), sizeof heads);
    EXPECT_EQ(verdict(codebooks<bf16>{}, chunk, values.size()), status::bad_payload) << what;
  };
  EXPECT_EQ(verdict(codebooks<bf16>{}, sound, values.size()), status::ok);
  refuses("a bit without a meaning", [](auto& heads, auto&) { heads[1].word[1] |= 1u << 17; });
  refuses("zeros beyond the mantissa", [](auto& heads, auto&) { heads[1].word[0] |= 31u << 22; });
  refuses("masks of a part that is not full", [](auto& heads, auto&) { heads[2].word[1] |= 1u << 16; });
  refuses("masks that are not there", [](auto& heads, auto&) { heads[0].word[1] |= 1u << 16; });
  refuses("longer streams", [](auto& heads, auto&) { heads[0].word[0] += 1u << 8; });
  refuses("another directory", [](auto& heads, auto&) { heads[0].word[0] ^= 1u << 18; });
  refuses("another book", [](auto& heads, auto&) { heads[0].word[0] ^= 1u << 27; });
  refuses("fewer words", [](auto& heads, auto&) { heads[0].word[1] -= 2; });
  refuses("words of the next part", [](auto& heads, auto&) { ++heads[0].word[1], --heads[1].word[1]; });
  refuses("more words than there are", [](auto& heads, auto&) { heads[2].word[1] += 2; });
  refuses("words that nobody needs", [](auto& heads, auto& chunk) {
    heads[2].word[1] += 2;
    chunk.resize(chunk.size() + 8);
  });
  refuses("bytes behind the last part", [](auto&, auto& chunk) { chunk.resize(chunk.size() + 4); });
  refuses("half a word", [](auto&, auto& chunk) { chunk.resize(chunk.size() + 2); });
  refuses("a missing word", [](auto&, auto& chunk) { chunk.resize(chunk.size() - 4); });
  EXPECT_EQ(verdict(codebooks<bf16>{}, std::vector(sound.begin(), sound.begin() + 20), values.size()),
            status::bad_payload);
  EXPECT_EQ(verdict(codebooks<bf16>{}, {}, values.size()), status::bad_payload);
}

template <class T> class codebooks_of_8_bits : public ::testing::Test {};
using types_of_8_bits = ::testing::Types<f8e4m3, f8e5m2>;
TYPED_TEST_SUITE(codebooks_of_8_bits, types_of_8_bits);

// Each at each place of a stretch of others, NaN among them; in the order of patterns, and of exponents.
TYPED_TEST(codebooks_of_8_bits, restores_every_pattern_everywhere) {
  std::vector<TypeParam> all;
  for (uint32_t pattern = 0; pattern < 256; ++pattern)
    for (uint32_t place = 0; place < 32; ++place)
      for (uint32_t i = 0; i < 32; ++i)
        all.push_back({static_cast<uint8_t>(i == place ? pattern : 0x30 + (pattern + i) % 16)});
  for (uint32_t i = 0; i < 256; ++i) all.push_back({static_cast<uint8_t>(i)});
  for (uint32_t i = 0; i < 256; ++i) all.push_back({static_cast<uint8_t>(i >> 1 | i << 7)});
  for (const uint32_t chunk : {32u, 512u, 65536u}) {
    const auto frame = encoded(codebooks<TypeParam>{}, all, {.chunk_values = chunk});
    EXPECT_LT(frame.size(), all.size() + (chunk == 32 ? all.size() : 0)) << chunk;
    std::vector<TypeParam> restored(all.size());
    EXPECT_EQ(host::decode(codebooks<TypeParam>{}, frame, restored).code, status::ok);
    EXPECT_TRUE(same_bits(restored, all)) << chunk;
  }
}

template <class T> class codebooks_of : public ::testing::Test {};
using types_of_16_bits = ::testing::Types<f16, bf16>;
TYPED_TEST_SUITE(codebooks_of, types_of_16_bits);

// In the order of their patterns, of their exponents, and in none: chunks that hardly differ, and some that decline.
TYPED_TEST(codebooks_of, restores_every_pattern) {
  std::vector<TypeParam> all(1 << 16);
  const auto is_restored = [&] {
    frame_options options;
    options.chunk_values = 4096;
    const auto frame = encoded(codebooks<TypeParam>{}, all, options);
    std::vector<TypeParam> restored(all.size());
    EXPECT_EQ(host::decode(codebooks<TypeParam>{}, frame, restored).code, status::ok);
    EXPECT_TRUE(same_bits(restored, all));
    return frame.size();
  };
  for (uint32_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<uint16_t>(i);
  EXPECT_LT(is_restored(), 2 * all.size());
  for (uint32_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<uint16_t>(i >> 1 | i << 15);
  is_restored();
  std::shuffle(all.begin(), all.end(), std::mt19937_64(1));
  is_restored();
}

TEST(codebooks, gain_on_weights) {
  EXPECT_GE(ratio_of(weights<bf16>(1 << 20)), 1.475);
  EXPECT_GE(ratio_of(weights<f16>(1 << 20)), 1.15);
  EXPECT_GE(ratio_of(weights<float>(1 << 20)), 1.18);
  EXPECT_GE(ratio_of(weights<f8e4m3>(1 << 20, .16)), 1.19);
  EXPECT_GE(ratio_of(weights<f8e5m2>(1 << 20, .16)), 1.38);
}
TEST(codebooks, gain_with_outliers_and_zeros) {
  auto values = weights<bf16>(1 << 18);
  for (size_t i = 17; i < values.size(); i += 2000) values[i].bits = i % 3 == 0 ? 0x7f80 : 0x7fff;  // in each part
  EXPECT_GE(ratio_of(values), 1.46);
  for (auto& x : values)
    if (generator() % 3 == 0) x.bits = 0;
  EXPECT_GE(ratio_of(values), 1.44);
}

TEST(codebooks, declines_noise) {
  std::mt19937 random(1);
  std::vector<float> noise(4096);
  for (float& x : noise) x = __builtin_bit_cast(float, static_cast<uint32_t>(random()));
  EXPECT_TRUE(encoded_chunk_of(codebooks<float>{}, noise).empty());
}

}  // namespace
}  // namespace tuck::test
