// huffman by blocks, alone and behind splitters, against the scalar codec: its bytes, its verdict on anything.
#include "support/block_payloads.hpp"

namespace tuck::test {
namespace {

template <class C> class huffman_block : public block_against_scalar<C> {};

using all_huffmans =
    ::testing::Types<huffman<uint8_t>, huffman<bf16>, huffman<float>, huffman<double>, huffman<uint32_t>,
                     zvc_huffman<uint8_t>, zvc_huffman<f16>, zvc_huffman<double>, zvc_rle_huffman<float>,
                     chain<rle<bf16>, rle<bf16>, huffman<bf16>>, huffman<uint16_t>, huffman<uint64_t>,
                     zvc_rle_huffman<uint16_t>, chain<differences<uint32_t>, zvc<uint32_t>, huffman<uint32_t>>,
                     chain<rle<uint64_t>, zvc<uint64_t>, huffman<uint64_t>>>;
using few_huffmans = ::testing::Types<huffman<bf16>, zvc_rle_huffman<float>, zvc_huffman<double>,
                                      chain<differences<uint32_t>, zvc<uint32_t>, huffman<uint32_t>>>;
using tested_huffmans = std::conditional_t<slow, few_huffmans, all_huffmans>;
TYPED_TEST_SUITE(huffman_block, tested_huffmans, codec_names);

// Values whose upper bits have few or many values, in runs or not, of both signs or one, with zeros; small ones, whose
// upper bits are 0, all or most; whose lowest bits are 0.
enum class huffman_content { normal, positive, rounded, runs, uniform, few, one, zeros, skewed, small, upper, nothing };
constexpr huffman_content huffman_contents[] = {
    huffman_content::normal,  huffman_content::positive, huffman_content::rounded, huffman_content::runs,
    huffman_content::uniform, huffman_content::few,      huffman_content::one,     huffman_content::zeros,
    huffman_content::skewed,  huffman_content::small,    huffman_content::upper,   huffman_content::nothing};

template <class T> std::vector<T> values_of_content(huffman_content what, uint32_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<T> values(count);
  const uint64_t low_zeros = 1 + 7 * seed % 22;
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t bits = random();
    const bool again = what == huffman_content::runs && i != 0 && random() % 8 != 0;
    switch (what) {
      case huffman_content::uniform: break;
      case huffman_content::few: bits %= 5; break;
      case huffman_content::one: bits = 0x0123456789abcdef; break;
      case huffman_content::zeros: bits = random() % 3 == 0 ? bits : 0; break;
      case huffman_content::skewed: bits >>= random() % 64; break;
      case huffman_content::small: bits = bits % 64 >> random() % 6 << (random() % 32 == 0 ? seed % 50 : 0); break;
      case huffman_content::upper: bits <<= low_zeros + 4 * sizeof(T) - 4; break;
      case huffman_content::nothing: bits = 0; break;
      default: {
        double x = what == huffman_content::positive || what == huffman_content::runs ? std::abs(normal(random))
                                                                                      : normal(random);
        if (what == huffman_content::runs && again) x = 1.25 + .01 * (x - std::floor(x));
        if constexpr (std::is_same_v<T, double>)
          bits = bits_of(x);
        else if constexpr (sizeof(T) == 4)
          bits = bits_of(static_cast<float>(x));
        else if constexpr (sizeof(T) == 2)
          bits = bits_of(static_cast<float>(x)) >> 16;
        else
          bits = static_cast<uint64_t>(std::lround(20 * x));
        if (what == huffman_content::rounded) bits = bits >> low_zeros << low_zeros;
      }
    }
    values[i] = __builtin_bit_cast(T, static_cast<bits_t<T>>(bits));
  }
  return values;
}

TYPED_TEST(huffman_block, encodes_to_the_scalar_codec_s_bytes) {
  using value = value_t<TypeParam>;
  constexpr uint32_t most = tile_bytes / sizeof(value);
  int compared = 0;
  for (const huffman_content what : huffman_contents)
    for (const uint32_t count : {1u, 2u, 31u, 33u, 100u, 1000u, most - 5, most}) {
      if (brief && count > 1000 && what != huffman_content::runs && what != huffman_content::positive) continue;
      SCOPED_TRACE(std::to_string(count) + " values, content " + std::to_string(static_cast<int>(what)));
      const auto values = values_of_content<value>(what, count, count);
      const auto expected = TestFixture::encode(values);
      if (expected.empty() || expected.size() >= count * sizeof(value)) continue;  // a block declines it
      std::vector<value> restored(count);
      ASSERT_EQ(TypeParam{}.decode_chunk(expected, restored), status::ok);
      ASSERT_TRUE(same_bits(restored, values));
      ++compared;
      for_schedules(2, [&] { ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<128>(values)); });
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_bytes<512>(values));
    }
  EXPECT_GE(compared, brief ? 6 : 16);
}

TYPED_TEST(huffman_block, decodes_with_the_scalar_codec_s_verdict) {
  using value = value_t<TypeParam>;
  constexpr uint32_t most = tile_bytes / sizeof(value);
  std::mt19937_64 random(32);
  const int batches = long_run() ? 500 : 4, batch = brief ? 60 : 300;
  for (int round = 0; round < batches; ++round) {
    std::vector<std::vector<std::byte>> encoded;
    std::vector<uint32_t> counts;
    while (static_cast<int>(encoded.size()) < batch) {
      const auto what = huffman_contents[random() % std::size(huffman_contents)];
      const auto count = static_cast<uint32_t>(1 + random() % (random() % 8 == 0 ? most : 1500));
      auto chunk = TestFixture::encode(values_of_content<value>(what, count, random()));
      if (chunk.empty()) continue;
      for (uint64_t changes = random() % 4; changes-- > 0;) {
        const uint64_t at = random() % std::min<uint64_t>(chunk.size(), random() % 2 == 0 ? 40 : chunk.size());
        chunk[random() % 4 != 0 ? at : chunk.size() - 1 - at] ^= static_cast<std::byte>(1u << random() % 8);
      }
      if (random() % 8 == 0) chunk.resize(chunk.size() - random() % std::min<uint64_t>(chunk.size(), 9));
      encoded.push_back(chunk);
      counts.push_back(count);
    }
    int accepted = 0;
    ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<128>(encoded, counts, accepted));
    if (round == 0) {
      ASSERT_NO_FATAL_FAILURE(TestFixture::template expect_scalar_verdicts<512>(encoded, counts, accepted));
    }
    EXPECT_GT(accepted, batch / 10);
  }
}

}  // namespace
}  // namespace tuck::test
