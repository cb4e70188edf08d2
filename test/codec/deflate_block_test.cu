// deflate-lite by blocks against the scalar codec: its bytes for whatever is hard, its verdict on anything.
#include "support/block_payloads.hpp"
#include "support/deflate_chunks.hpp"

namespace tuck::test {
namespace {

template <class C> class deflate_block : public block_against_scalar<C> {};

using deflates = ::testing::Types<deflate<uint8_t>, deflate<f16>, deflate<float>, deflate<double>>;
TYPED_TEST_SUITE(deflate_block, deflates);

TYPED_TEST(deflate_block, encodes_to_the_scalar_codec_s_bytes) {
  using value = value_t<TypeParam>;
  std::mt19937_64 random(31);
  for (const chunk_content what : chunk_contents)
    for (const uint64_t size : {uint64_t{16384}, 1 + random() % 16384, 1 + random() % 3000, 16384 - random() % 9}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(what)) + " of " + std::to_string(size));
      const auto values = values_of<value>(chunk_of(what, std::max<uint64_t>(size, sizeof(value)), size));
      for_schedules(2, [&] { ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)); });
      if (brief && size > 3000) continue;
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<64>(values));
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<512>(values));
    }
}

// Chunks of few tokens, whose threads have nothing or one each.
TYPED_TEST(deflate_block, encodes_small_chunks) {
  using value = value_t<TypeParam>;
  int compared = 0;
  for (uint32_t count = 1; count <= 130; count += brief ? 13 : 3)
    for (const chunk_content what :
         {chunk_content::dense_then_zero, chunk_content::long_runs, chunk_content::all_but_one}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(what)) + " of " + std::to_string(count));
      const auto values = values_of<value>(chunk_of(what, count * sizeof(value), count));
      compared += !encoded_chunk(values).empty();
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values));
    }
  EXPECT_GE(compared, 10);
}

// Chunks of a few sub-blocks, half of the damage in their indexes.
TYPED_TEST(deflate_block, decodes_with_the_scalar_codec_s_verdict) {
  using value = value_t<TypeParam>;
  std::mt19937_64 random(32);
  const int batches = long_run() ? 500 : slow ? 4 : 10, batch = brief ? 50 : 500;
  for (int round = 0; round < batches; ++round) {
    std::vector<byte_vector> encoded;
    std::vector<uint32_t> counts;
    while (static_cast<int>(encoded.size()) < batch) {
      const auto what = chunk_contents[random() % std::size(chunk_contents)];
      const auto values = values_of<value>(chunk_of(what, sizeof(value) + random() % 4000, random()));
      encoded.push_back(encoded_chunk(values));
      if (encoded.back().empty()) {  // incompressible
        encoded.pop_back();
        continue;
      }
      counts.push_back(static_cast<uint32_t>(values.size()));
      if (random() % 4 != 0) damage(encoded.back(), random);
    }
    int accepted = 0;
    ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<128>(encoded, counts, accepted));
    if (round == 0) {
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<64>(encoded, counts, accepted));
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<512>(encoded, counts, accepted));
    }
    EXPECT_GT(accepted, batch / 10);
  }
}

}  // namespace
}  // namespace tuck::test
