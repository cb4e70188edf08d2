// Exponents by blocks against the scalar codec: its bytes, its verdict on anything.
#include "support/block_payloads.hpp"

namespace tuck::test {
namespace {

template <class C> class codebooks_block : public block_against_scalar<C> {};
using codebooks_types = ::testing::Types<codebooks<f16>, codebooks<bf16>, codebooks<float>, codebooks<f8e4m3>>;
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

TYPED_TEST(codebooks_block, decodes_with_the_scalar_codec_s_verdict) {
  TestFixture::expect_scalar_verdicts_on_damage(72, brief ? 200 : 1000,
                                                [](int round) { return round % 3 == 0 ? .5 : 0; });
}

}  // namespace
}  // namespace tuck::test
