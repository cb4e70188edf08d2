// Bitpack by blocks against the scalar codec: its bytes for groups of any scheme and width, its verdict on anything.
#include "support/block_payloads.hpp"

namespace tuck::test {
namespace {

// Groups of up to `widest` bits each: small numbers, some of them zero, of one sign or two, far from zero or near their
// neighbours.
template <element T> std::vector<T> narrow(uint64_t count, uint64_t widest, std::mt19937_64& random) {
  std::vector<T> values(count);
  uint64_t width = 0, kind = 0, last = 0, base = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (i % 32 == 0) {
      width = random() % (widest + 1);
      kind = random() % 6;
      last = base = random() >> random() % 64;
    }
    const uint64_t bits = width == 0 ? 0 : random() >> (64 - width);
    last += bits - (width < 2 ? 0 : uint64_t{1} << (width - 2));
    const uint64_t of_kind[] = {bits,        random() % 3 != 0 ? 0 : bits,        bits - (uint64_t{1} << width >> 1),
                                base + bits, random() % 3 != 0 ? 0 : base + bits, last};
    values[i] = __builtin_bit_cast(T, static_cast<bits_t<T>>(of_kind[kind]));
  }
  return values;
}

template <class C> class bitpack_block : public block_against_scalar<C> {};

using codecs = ::testing::Types<bitpack<uint8_t>, bitpack<f16>, bitpack<uint32_t>, bitpack<double>>;
TYPED_TEST_SUITE(bitpack_block, codecs);

TYPED_TEST(bitpack_block, encodes_any_widths_to_the_scalar_codec_s_bytes) {
  using value = value_t<TypeParam>;
  std::mt19937_64 random(61);
  for_schedules(2, [&] {
    for (uint64_t widest = 0; widest <= 8 * sizeof(value); widest += slow ? 3 : widest < 8 ? 1 : 5)
      for (int round = 0; round < 6; ++round) {
        const uint64_t count = round < 2 ? this->capacity : 1 + random() % (round < 4 ? this->capacity : 100);
        const TypeParam codec(round % 2 == 0 ? predictor::none : predictor::automatic);
        const auto values = widest % 2 == 0 ? narrow<value>(count, widest, random)
                                            : sample<TypeParam>::tensor(count, round / 4 * .5, pattern::iid, random());
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values, codec))
            << count << ' ' << widest;
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<256>(values, codec))
            << count << ' ' << widest;
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<512>(values, codec))
            << count << ' ' << widest;
        ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<1024>(values, codec))
            << count << ' ' << widest;
      }
  });
}

// One width throughout, so that pieces of each size are merged, and tails of all lengths.
TYPED_TEST(bitpack_block, encodes_each_width) {
  using value = value_t<TypeParam>;
  std::mt19937_64 random(62);
  for (uint32_t width = 1; width <= 8 * sizeof(value); ++width) {
    std::vector<value> values(7 * 32 + random() % 40);
    for (auto& one : values)
      one = __builtin_bit_cast(value, static_cast<bits_t<value>>((random() | uint64_t{1} << 63) >> (64 - width)));
    ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)) << width << ' ' << values.size();
    // Differences of this width.
    const uint64_t step = (uint64_t{1} << (width - 1)) - 1;
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = __builtin_bit_cast(value, static_cast<bits_t<value>>(i % 32 * step));
    const TypeParam codec(predictor::automatic);
    ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values, codec)) << width;
  }
}

TYPED_TEST(bitpack_block, decodes_with_the_scalar_codec_s_verdict) {
  using value = value_t<TypeParam>;
  std::mt19937_64 random(63);
  std::vector<std::vector<std::byte>> encoded;
  std::vector<uint32_t> counts;
  for (int round = 0; round < (slow ? 100 : 2000); ++round) {
    const uint64_t most = round % 64 == 0 ? this->capacity : 300;
    const auto values = narrow<value>(1 + random() % most, random() % (8 * sizeof(value)), random);
    auto bytes = this->encode(values, TypeParam(round % 2 == 0 ? predictor::none : predictor::automatic));
    const auto in_front = std::min<size_t>(bytes.size(), 12);
    for (uint64_t changes = random() % 3; changes-- > 0 && !bytes.empty();) {
      const uint64_t where = random() % 4;  // the head and shapes, the end, anything
      const size_t at = where < 2    ? random() % in_front
                        : where == 2 ? bytes.size() - 1 - random() % 4
                                     : random() % bytes.size();
      bytes[at] ^= static_cast<std::byte>(random() % 4 != 0 ? 1 << random() % 8 : random() % 256);
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

// All of them: what the sum over a chunk counts for each must not wrap to nothing.
TYPED_TEST(bitpack_block, refuses_chunks_of_impossible_widths) {
  constexpr uint32_t count = TestFixture::capacity, groups = count / 32;
  for (const int shape : {0x1f, 0x3f, 0x9f, 0xe0, 0xff}) {
    std::vector<std::byte> bytes(count * sizeof(value_t<TypeParam>) - 4);
    std::fill_n(bytes.begin() + 4, groups / 8, std::byte{0xff});
    std::fill_n(bytes.begin() + 4 + groups / 8, groups, static_cast<std::byte>(shape));
    int accepted = 0;
    ASSERT_NO_FATAL_FAILURE(
        TestFixture::template expect_scalar_verdicts<128>({bytes, bytes}, {count, count}, accepted));
    EXPECT_EQ(accepted, 0);
  }
}

}  // namespace
}  // namespace tuck::test
