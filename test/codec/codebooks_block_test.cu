// Exponents by blocks against the scalar codec: its bytes, its verdict on anything.
#include "support/block_payloads.hpp"

namespace tuck::test {
namespace {

template <class C> class codebooks_block : public block_against_scalar<C> {};
using codebooks_types =
    ::testing::Types<codebooks<f16>, codebooks<bf16>, codebooks<float>, codebooks<f8e4m3>, codebooks<f8e5m2>>;
TYPED_TEST_SUITE(codebooks_block, codebooks_types);

TYPED_TEST(codebooks_block, encodes_to_the_scalar_codec_s_bytes) {
  std::mt19937_64 random(71);
  for_schedules(2, [&] {
    for (int round = 0; round < (brief ? 8 : 30); ++round) {
      const uint64_t count = round < 2 ? this->capacity : 1 + random() % (round % 2 == 0 ? this->capacity : 100);
      const auto values = sample<TypeParam>::tensor(count, round % 4 * .3, pattern::iid, random());
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << count;
    }
  });
}

// Each way through an encoder, each in another part of the same chunk; and all of them in chunks that are not full.
TYPED_TEST(codebooks_block, takes_each_way_as_the_scalar_codec) {
  using bits = bits_t<value_t<TypeParam>>;
  using format = float_format<value_t<TypeParam>>;
  constexpr uint32_t part = 4096 / sizeof(value_t<TypeParam>), cell = 16 / sizeof(value_t<TypeParam>);
  std::mt19937_64 random(73);
  std::normal_distribution<float> normal(0, .05f);
  const auto usual = [&] { return static_cast<bits>(format::narrow(normal(random))); };
  const auto any = [&] { return static_cast<bits>(random()); };
  std::vector<std::vector<bits>> parts;
  const auto add = [&](const auto& value_at) {
    parts.emplace_back();
    for (uint32_t i = 0; i < part; ++i) parts.back().push_back(value_at(i));
  };
  add([&](uint32_t) { return usual(); });
  add([&](uint32_t i) { return i == 99 ? static_cast<bits>(~bits{} >> 1) : usual(); });  // a NaN
  add([&](uint32_t) { return random() % 3 == 0 ? bits{} : usual(); });                   // zeros
  add([&](uint32_t i) { return i / cell % 3 != 0 ? bits{} : usual(); });                 // masked
  add([&](uint32_t) { return bits{}; });                                                 // masked, empty
  add([&](uint32_t i) { return i / cell % 32 == 5 && i % cell != i / (32 * cell) ? any() : usual(); });  // raw
  add([&](uint32_t) { return static_cast<bits>(usual() & ~bits{} << format::mantissa_bits / 2); });
  add([&](uint32_t i) { return i / cell % 2 == 0 ? static_cast<bits>(usual() & ~bits{} << 2) : bits{}; });
  add([&](uint32_t) { return any(); });
  for_schedules(2, [&] {
    for (size_t first = 0; first < parts.size(); ++first) {
      std::vector<value_t<TypeParam>> values;
      for (const size_t p : {first, size_t{0}, (first + 3) % parts.size(), (first + 5) % parts.size()})
        for (const bits x : parts[p]) values.push_back(__builtin_bit_cast(value_t<TypeParam>, x));
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << first;
      values.resize(part + 1 + random() % (3 * part - 1));
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << first;
      values.resize(1 + random() % part);
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << first;
    }
  });
}

TYPED_TEST(codebooks_block, decodes_with_the_scalar_codec_s_verdict) {
  TestFixture::expect_scalar_verdicts_on_damage(
      72, brief ? 200 : 1000, [](int round) { return round % 3 == 0 ? .5 : 0; }, 10);
}

// The other parts would begin where 8 bytes cannot be read at a time. Sanitizers and the engine notice that.
TYPED_TEST(codebooks_block, a_part_with_an_odd_number_of_words_is_refused) {
  using word = value_t<TypeParam>;
  const uint32_t count = tile_bytes / sizeof(word);
  std::vector<word> values(count);
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0, .05f);
  for (word& v : values)
    v = __builtin_bit_cast(word, static_cast<bits_t<word>>(float_format<word>::narrow(normal(random))));
  const std::vector<std::byte> whole = TestFixture::encode(values);
  ASSERT_GT(whole.size(), 32u);
  std::vector<std::vector<std::byte>> damaged;
  for (uint32_t part = 0; part < 3; ++part) {
    std::vector<uint32_t> words(whole.size() / 4);
    std::memcpy(words.data(), whole.data(), whole.size());
    uint32_t end = 8;  // of the part
    for (uint32_t p = 0; p <= part; ++p) end += words[2 * p + 1] & 0xffff;
    words.insert(words.begin() + end, 0u);
    ++words[2 * part + 1];
    damaged.emplace_back(reinterpret_cast<const std::byte*>(words.data()),
                         reinterpret_cast<const std::byte*>(words.data() + words.size()));
    ASSERT_LT(damaged.back().size(), tile_bytes);
  }
  int accepted = 0;
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<128>(damaged, {count, count, count}, accepted));
  EXPECT_EQ(accepted, 0);
}

}  // namespace
}  // namespace tuck::test
