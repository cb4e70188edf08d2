// What every block codec promises: the bytes of the scalar codec, and its verdict on anything. For a codec of your own,
// or a chain with it:
//
//   INSTANTIATE_TYPED_TEST_SUITE_P(mine, block_codec_suite, ::testing::Types<my_codec>, codec_names);
//
// Its values are those of sample<my_codec> (codecs.hpp). They must be such that most chunks become smaller.
#pragma once

#include "support/block_payloads.hpp"

namespace tuck::test {

template <class C> class block_codec_suite : public block_against_scalar<C> {};
TYPED_TEST_SUITE_P(block_codec_suite);

TYPED_TEST_P(block_codec_suite, encodes_to_the_scalar_codec_s_bytes) {
  using value = value_t<TypeParam>;
  constexpr uint32_t most = tile_bytes / sizeof(value);
  int compared = 0;
  for (const double sparsity : {0., .3, .6, .9, .99})
    for (const uint32_t count : {1u, 2u, 31u, 100u, 1000u, most - 5, most})
      for (const pattern how : {pattern::iid, pattern::clustered}) {
        if (brief && count > 1000 && how == pattern::iid) continue;
        SCOPED_TRACE(std::to_string(count) + " values, " + std::to_string(sparsity));
        const auto values = sample<TypeParam>::tensor(count, sparsity, how, count);
        if (TestFixture::encode(values).size() >= count * sizeof(value)) continue;  // a block declines it
        ++compared;
        for_schedules(2, [&] { ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)); });
        if (count > 1000 && sparsity != .6) continue;
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<256>(values));
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<512>(values));
      }
  EXPECT_GE(compared, 8);
}

TYPED_TEST_P(block_codec_suite, decodes_with_the_scalar_codec_s_verdict) {
  using value = value_t<TypeParam>;
  std::mt19937_64 random(5);
  std::vector<std::vector<std::byte>> payloads;
  std::vector<uint32_t> counts;
  int accepted = 0;
  for (int i = 0; i < (brief ? 100 : 600); ++i) {
    const uint64_t count = 1 + random() % (i % 8 == 0 ? tile_bytes / sizeof(value) : 600);
    const double sparsity = .3 + .2 * static_cast<double>(i % 4);
    auto encoded = TestFixture::encode(sample<TypeParam>::tensor(count, sparsity, pattern::clustered, random()));
    if (encoded.empty()) encoded.resize(1 + random() % 64);  // it does not shrink
    for (uint64_t changes = random() % 4; changes-- > 0;) {
      const uint64_t at = random() % std::min<uint64_t>(encoded.size(), random() % 2 == 0 ? 24 : encoded.size());
      encoded[random() % 2 == 0 ? at : encoded.size() - 1 - at] = static_cast<std::byte>(random());
    }
    if (i % 7 == 0) encoded.resize(encoded.size() - random() % std::min<uint64_t>(encoded.size(), 4));
    payloads.push_back(encoded);
    counts.push_back(static_cast<uint32_t>(count));
  }
  TestFixture::template expect_scalar_verdicts<128>(payloads, counts, accepted);
  EXPECT_GE(accepted, brief ? 10 : 60);
  EXPECT_LE(accepted, brief ? 90 : 540);
}

// Each length that is too short, one that is too long, and each bit that is wrong.
TYPED_TEST_P(block_codec_suite, finds_each_damage_of_a_small_chunk_as_the_scalar_codec) {
  std::vector<std::vector<std::byte>> payloads;
  std::vector<uint32_t> counts;
  for (const uint32_t count : {19u, 40u, 100u, 300u}) {
    if (count > 40 && !payloads.empty()) break;
    const auto encoded = TestFixture::encode(sample<TypeParam>::tensor(count, .6, pattern::iid, count));
    if (encoded.empty() || encoded.size() >= count * sizeof(value_t<TypeParam>)) continue;  // a block declines it
    for (size_t size = 0; size <= encoded.size() + 1; ++size) {
      payloads.push_back(encoded);
      payloads.back().resize(size);
    }
    for (size_t bit = 0; bit < 8 * encoded.size(); ++bit) {
      payloads.push_back(encoded);
      payloads.back()[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
    counts.resize(payloads.size(), count);
  }
  int accepted = 0;
  ASSERT_FALSE(payloads.empty()) << "no small chunk became smaller";
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<128>(payloads, counts, accepted));
  EXPECT_GT(accepted, 0);  // the chunk itself
  EXPECT_LT(accepted, static_cast<int>(payloads.size()));
}

// Where nearly all is kept, values reach up to the sides that stand behind them.
TYPED_TEST_P(block_codec_suite, restores_full_chunks_of_any_sparsity) {
  using value = value_t<TypeParam>;
  constexpr uint32_t most = tile_bytes / sizeof(value);
  std::vector<std::vector<std::byte>> payloads;
  std::vector<uint32_t> counts;
  for (double sparsity = 0; sparsity < .5; sparsity += brief ? .09 : .015) {
    auto encoded = TestFixture::encode(sample<TypeParam>::tensor(most, sparsity, pattern::iid, 3));
    if (encoded.empty()) continue;  // it does not shrink
    payloads.push_back(std::move(encoded));
    counts.push_back(most);
  }
  ASSERT_FALSE(payloads.empty()) << "no full chunk became smaller";
  int accepted = 0;
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<128>(payloads, counts, accepted));
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<256>(payloads, counts, accepted));
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<512>(payloads, counts, accepted));
  const auto fits =
      std::count_if(payloads.begin(), payloads.end(), [](const auto& p) { return p.size() <= tile_bytes; });
  EXPECT_GE(accepted, 2 * fits);
  EXPECT_GE(2 * fits, static_cast<int>(payloads.size()));
}

REGISTER_TYPED_TEST_SUITE_P(block_codec_suite, encodes_to_the_scalar_codec_s_bytes,
                            decodes_with_the_scalar_codec_s_verdict,
                            finds_each_damage_of_a_small_chunk_as_the_scalar_codec,
                            restores_full_chunks_of_any_sparsity);

}  // namespace tuck::test
