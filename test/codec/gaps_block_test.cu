// Gaps by blocks against the scalar codec: its bytes, its verdict on anything.
#include "support/block_payloads.hpp"

namespace tuck::test {
namespace {

// Most have a class, so that classes are worth it.
template <element T> T small_or_any(std::mt19937_64& random) {
  if (random() % 8 == 0) return non_zero<T>(random);
  return __builtin_bit_cast(T, static_cast<bits_t<T>>((1 << (1 + random() % 4)) - 1));
}

template <class C> class gaps_block : public block_against_scalar<C> {};
using gaps_types = ::testing::Types<gaps<uint8_t>, gaps<bf16>, gaps<double>>;
TYPED_TEST_SUITE(gaps_block, gaps_types);

// Up to a quarter of non-zero values, and one more, which no chunk may have.
TYPED_TEST(gaps_block, encodes_to_the_scalar_codec_s_bytes) {
  std::mt19937_64 random(81);
  for_schedules(2, [&] {
    for (const uint32_t count : {1u, 3u, 4u, 129u, this->capacity - 1, this->capacity})
      for (const uint32_t ones : {0u, 1u, count / 40, count / 4, count / 4 + 1}) {
        std::vector<value_t<TypeParam>> values(count);
        for (uint32_t i = 0; i < ones && i < count; ++i) values[i] = small_or_any<value_t<TypeParam>>(random);
        std::shuffle(values.begin(), values.end(), random);
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << count << ' ' << ones;
      }
  });
}

// As many bits with classes as without, and one fewer.
TYPED_TEST(gaps_block, takes_classes_only_if_they_are_shorter) {
  using value = value_t<TypeParam>;
  for (const uint32_t stored : {0x15u, 0x2au}) {
    std::vector<value> values(8);
    values[0] = __builtin_bit_cast(value, bits_t<value>{1});
    values[3] = __builtin_bit_cast(value, static_cast<bits_t<value>>(stored));
    ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << stored;
  }
}

TYPED_TEST(gaps_block, decodes_with_the_scalar_codec_s_verdict) {
  TestFixture::expect_scalar_verdicts_on_damage(82, brief ? 100 : 400, [](int round) { return .8 + round % 3 * .1; });
}

}  // namespace
}  // namespace tuck::test
