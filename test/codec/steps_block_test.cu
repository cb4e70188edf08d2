// Steps by blocks against the scalar codec, without a base: its bytes, its verdict on anything. device_delta_test.cu
// has those with a base.
#include "support/block_payloads.hpp"

namespace tuck::test {
namespace {

template <class C> class steps_block : public block_against_scalar<C> {};
using steps_types = ::testing::Types<steps<f8e4m3>, steps<bf16>, steps<float>>;
TYPED_TEST_SUITE(steps_block, steps_types);

TYPED_TEST(steps_block, encodes_to_the_scalar_codec_s_bytes) {
  for_schedules(2, [&] {
    for (const uint32_t count : {1u, 3u, 4u, 129u, this->capacity - 1, this->capacity})
      for (const double zeros : {0., .3, .9, .99, 1.}) {
        const auto values = sample<TypeParam>::tensor(count, zeros, pattern::iid, count);
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << count << ' ' << zeros;
      }
  });
  const auto values = sample<TypeParam>::tensor(this->capacity - 77, .5);
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<32>(values));
  ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<1024>(values));
}

TYPED_TEST(steps_block, decodes_with_the_scalar_codec_s_verdict) {
  TestFixture::expect_scalar_verdicts_on_damage(83, brief ? 100 : 400, [](int round) { return .3 + round % 4 * .2; });
}

}  // namespace
}  // namespace tuck::test
