// Exponents by blocks against the scalar codec: its bytes, its verdict on anything.
#include "support/block_payloads.hpp"

namespace tuck::test {
namespace {

template <class C> class exponents_block : public block_against_scalar<C> {};
using exponents_types = ::testing::Types<exponents<f16>, exponents<bf16>, exponents<float>, exponents<f8e4m3>>;
TYPED_TEST_SUITE(exponents_block, exponents_types);

TYPED_TEST(exponents_block, encodes_to_the_scalar_codec_s_bytes) {
  std::mt19937_64 random(71);
  for_schedules(2, [&] {
    for (int round = 0; round < (brief ? 8 : 30); ++round) {
      const uint64_t count = round < 2 ? this->capacity : 1 + random() % (round % 2 == 0 ? this->capacity : 100);
      const auto values = sample<TypeParam>::tensor(count, round % 4 * .3, pattern::iid, random());
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << count;
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<256>(values)) << count;
    }
  });
}

TYPED_TEST(exponents_block, decodes_with_the_scalar_codec_s_verdict) {
  std::mt19937_64 random(72);
  std::vector<std::vector<std::byte>> encoded;
  std::vector<uint32_t> counts;
  for (int round = 0; round < (brief ? 200 : 1000); ++round) {
    const uint64_t count = 1 + random() % (round % 64 == 0 ? this->capacity : 300);
    auto bytes = this->encode(sample<TypeParam>::tensor(count, round % 3 == 0 ? .5 : 0, pattern::iid, random()));
    const auto in_front = std::min<size_t>(bytes.size(), 12);
    for (uint64_t changes = random() % 3; changes-- > 0 && !bytes.empty();)
      bytes[random() % (random() % 2 == 0 ? in_front : bytes.size())] ^= static_cast<std::byte>(1 << random() % 8);
    encoded.push_back(std::move(bytes));
    counts.push_back(static_cast<uint32_t>(count));
  }
  for_schedules(2, [&] {
    int accepted = 0;
    ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<128>(encoded, counts, accepted));
    EXPECT_GT(accepted, static_cast<int>(encoded.size() / 4));
    EXPECT_LT(accepted, static_cast<int>(encoded.size()));
  });
}

}  // namespace
}  // namespace tuck::test
