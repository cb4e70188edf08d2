// Rle by blocks against the scalar codec: its bytes for runs of any kind, its verdict on anything. A verdict of zvc.
#include "support/block_payloads.hpp"

namespace tuck::test {
namespace {

// Runs of 1 to `longest` equal values, every third of zeros.
template <element T> std::vector<T> runs(uint64_t count, uint64_t longest, std::mt19937_64& random) {
  std::vector<T> values;
  while (values.size() < count)
    values.insert(values.end(), std::min<uint64_t>(1 + random() % longest, count - values.size()),
                  random() % 3 == 0 ? T{} : non_zero<T>(random));
  return values;
}

template <class C> class rle_block : public block_against_scalar<C> {};

using run_lengths =
    std::conditional_t<slow, ::testing::Types<rle<uint8_t>, rle<bf16>, rle<float>, rle<int64_t>>,
                       ::testing::Types<rle<uint8_t>, rle<f16>, rle<bf16>, rle<float>, rle<int64_t>, rle<double>>>;
TYPED_TEST_SUITE(rle_block, run_lengths);

TYPED_TEST(rle_block, encodes_runs_to_the_scalar_codec_s_bytes) {
  std::mt19937_64 random(21);
  for_schedules(2, [&] {
    for (const uint64_t longest : {1, 2, 4, 50, 3000})
      for (int round = 0; round < (brief ? 2 : 4); ++round) {
        const uint64_t count = round == 0 ? this->capacity : 1 + random() % this->capacity;
        const auto values = runs<value_t<TypeParam>>(count, longest, random);
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << count << ' ' << longest;
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<256>(values)) << count << ' ' << longest;
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<512>(values)) << count << ' ' << longest;
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<1024>(values)) << count << ' ' << longest;
      }
  });
}

// A run that ends where a warp's part does, or the chunk.
TYPED_TEST(rle_block, knows_runs_across_warps) {
  using value = value_t<TypeParam>;
  constexpr uint32_t part = TestFixture::capacity / 8;
  for (const uint32_t count : {TestFixture::capacity, 3 * part, 3 * part + 1, 3 * part - 1})
    for (const uint32_t at : {part - 1, part, part + 1, 2 * part}) {
      std::vector<value> values(count, __builtin_bit_cast(value, bits_t<value>{5}));
      std::fill(values.begin(), values.begin() + at, __builtin_bit_cast(value, bits_t<value>{9}));
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << count << ' ' << at;
    }
}

TYPED_TEST(rle_block, packs_masks_by_each_rule) {
  using value = value_t<TypeParam>;
  std::vector<std::vector<std::byte>> encoded;
  std::vector<uint32_t> counts;
  for (uint32_t rule = 0; rule < packed_masks::rules; ++rule)
    for (const uint32_t count : {uint32_t{TestFixture::capacity}, 1001u, 200u}) {
      const auto values = tensor_for_rule<value>(rule, count, count);
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << count << ' ' << rule;
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<512>(values)) << count << ' ' << rule;
      encoded.push_back(this->encode(values));
      if (encoded.back().empty()) {
        encoded.pop_back();  // it does not shrink
      } else {
        counts.push_back(count);
      }
    }
  int accepted = 0;
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<128>(encoded, counts, accepted));
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<256>(encoded, counts, accepted));
  EXPECT_EQ(accepted, static_cast<int>(2 * encoded.size()));
  EXPECT_GE(encoded.size(), 12u);
}

TYPED_TEST(rle_block, decodes_with_the_scalar_codec_s_verdict) {
  std::mt19937_64 random(22);
  std::vector<std::vector<std::byte>> encoded;
  std::vector<uint32_t> counts;
  for (int round = 0; round < (slow ? 100 : 2000); ++round) {
    const uint64_t most = round % 64 == 0 ? this->capacity : 300;
    const auto values = runs<value_t<TypeParam>>(1 + random() % most, uint64_t{1} << random() % 8, random);
    auto bytes = this->encode(values);
    const size_t in_front = std::min<size_t>(bytes.size(), 40);
    for (uint64_t changes = random() % 4; changes-- > 0 && !bytes.empty();) {
      const size_t at = random() % (random() % 4 != 0 ? in_front : bytes.size());
      bytes[at] =
          random() % 4 != 0 ? bytes[at] ^ static_cast<std::byte>(1 << random() % 8) : static_cast<std::byte>(random());
    }
    if (random() % 8 == 0) bytes.resize(random() % (values.size() * sizeof(values[0])));
    encoded.push_back(std::move(bytes));
    counts.push_back(static_cast<uint32_t>(values.size()));
  }
  for_schedules(2, [&] {
    int accepted = 0;
    ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<128>(encoded, counts, accepted));
    ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<256>(encoded, counts, accepted));
    ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<512>(encoded, counts, accepted));
    EXPECT_GT(accepted, static_cast<int>(encoded.size() / 2));
    EXPECT_LT(accepted, static_cast<int>(encoded.size() * 5 / 2));
  });
}

template <class C> class rle_zeros : public block_against_scalar<C> {};
using of_floats = ::testing::Types<rle<f8e5m2>, rle<bf16>, packed_zvc<float>, rle<double>>;
TYPED_TEST_SUITE(rle_zeros, of_floats);

TYPED_TEST(rle_zeros, are_dropped_as_by_the_scalar_codec) {
  using value = value_t<TypeParam>;
  std::vector<std::vector<std::byte>> encoded;
  std::vector<uint32_t> counts;
  uint32_t seen[4] = {};
  for (const uint32_t count : {33u, 100u, 1000u, TestFixture::capacity - 3, uint32_t{TestFixture::capacity}})
    for (const double negative : {0., .001, .5, 1.})
      for (const double sparsity : {.2, .8, 1.}) {
        const auto values = tensor_with_negative_zeros<value>(count, sparsity, negative, count);
        auto bytes = this->encode(values);
        if (bytes.empty()) continue;  // it does not shrink
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << count << ' ' << negative;
        ++seen[static_cast<uint32_t>(bytes[0]) & 3];
        for (uint32_t kind = 0; kind < 4; ++kind) {  // all but one are wrong, or other values
          bytes[0] = (bytes[0] & std::byte{0xfc}) | static_cast<std::byte>(kind);
          encoded.push_back(bytes);
          counts.push_back(count);
        }
      }
  for (const uint32_t kind : {0u, 2u, 3u}) EXPECT_GE(seen[kind], kind == 3 && TypeParam::has_runs ? 0u : 2u) << kind;
  int accepted = 0;
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<128>(encoded, counts, accepted));
  EXPECT_GE(accepted, static_cast<int>(encoded.size() / 4));
}

class zvc_block : public block_against_scalar<zvc<float>> {};

TEST_F(zvc_block, refuses_chunks_that_are_not_smaller_than_their_values) {
  for (const uint32_t count : {32u, uint32_t{capacity}}) {
    const std::vector<std::byte> all_ones(zvc<float>::mask_bytes(count) + 4 * count, std::byte{0xff});
    int accepted = 0;
    ASSERT_NO_FATAL_FAILURE(expect_scalar_verdicts<128>({all_ones}, {count}, accepted));
    EXPECT_EQ(accepted, 0) << count;
  }
}

}  // namespace
}  // namespace tuck::test
