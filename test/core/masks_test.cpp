// Masks and what they pack, against the plainest loops there are, at each level of vectors.
#include <tuck/core/checksum.hpp>
#include <tuck/core/masks.hpp>

#include "support/cpu_levels.hpp"
#include "support/effort.hpp"
#include "support/tensors.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

namespace tuck::test {
namespace {

template <class T> class masks : public ::testing::Test {};
using sizes =
    std::conditional_t<long_tests, ::testing::Types<uint8_t, uint16_t, uint32_t, uint64_t, f16, float, double>,
                       ::testing::Types<uint8_t, f16, float, double>>;
TYPED_TEST_SUITE(masks, sizes);

template <class T> std::vector<uint32_t> plain_masks(const std::vector<T>& values, ones what) {
  std::vector<uint32_t> masks(mask_words(static_cast<uint32_t>(values.size())));
  bits_t<T> before = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    masks[i / 32] |= static_cast<uint32_t>(bits_of(values[i]) != before) << i % 32;
    if (what == ones::changes) before = bits_of(values[i]);
  }
  return masks;
}

// Runs of zeros and of other values, long and short.
template <class T> std::vector<T> runs(uint64_t count, double sparsity, uint64_t seed) {
  auto values = sparse_tensor<T>(count, sparsity, seed % 2 == 0 ? pattern::iid : pattern::clustered, seed);
  std::mt19937_64 random(seed);
  for (size_t i = 1; i < count; ++i)
    if (random() % 4 != 0 && seed % 3 == 0) values[i] = values[i - 1];
  return values;
}

template <ones What, class T> void check_masks(const std::vector<T>& values) {
  const auto count = static_cast<uint32_t>(values.size()), words = mask_words(count);
  const std::byte* const from = as_bytes(span<const T>(values)).data();
  const auto expected = plain_masks(values, What);
  std::vector<T> kept;
  for (size_t i = 0; i < count; ++i)
    if ((expected[i / 32] >> i % 32 & 1) != 0) kept.push_back(values[i]);

  using loops = mask_loops<What, sizeof(T)>;
  using of_values = value_loops<sizeof(T)>;
  std::vector<std::byte> mask(4 * words + 1);
  std::byte* const at = mask.data() + 1;  // nothing is aligned
  const uint32_t ones_found = loops::masks_of(from, count, at);
  ASSERT_EQ(ones_found, kept.size());
  ASSERT_EQ(std::memcmp(at, expected.data(), 4 * words), 0);

  // Exactly the room that is needed, and more, behind a value; a byte behind it stays as it was.
  for (const size_t spare : {size_t{0}, size_t{1}, 40 * sizeof(T)}) {
    std::vector<std::byte> room(sizeof(T) + kept.size() * sizeof(T) + spare + 1, std::byte{0xa5});
    std::byte *const packed = room.data() + sizeof(T), *const end = room.data() + room.size() - 1;
    ASSERT_EQ(of_values::pack(from, count, at, packed, end), packed + kept.size() * sizeof(T));
    ASSERT_EQ(*end, std::byte{0xa5});
    ASSERT_TRUE(std::equal(packed, packed + kept.size() * sizeof(T), as_bytes(span<const T>(kept)).begin()));

    std::vector<T> back(count + 1, __builtin_bit_cast(T, static_cast<bits_t<T>>(0xbbbbbbbbbbbbbbbb)));
    const T behind = back.back();
    std::byte* const to = as_writable_bytes(span<T>(back)).data();
    loops::spread(at, packed, end, to, count);
    ASSERT_EQ(bits_of(back.back()), bits_of(behind));
    back.pop_back();
    ASSERT_TRUE(same_bits(back, values)) << spare;
  }
  if (What == ones::non_zeros) {
    std::vector<std::byte> both(4 * words + kept.size() * sizeof(T) + 1, std::byte{0xa5});
    std::byte *const masks = both.data(), *const packed = masks + 4 * words, *const end = &both.back();
    ASSERT_EQ(of_values::mask_and_pack(from, count, masks, packed, end), end);
    ASSERT_EQ(*end, std::byte{0xa5});
    ASSERT_EQ(std::memcmp(masks, expected.data(), 4 * words), 0);
    ASSERT_TRUE(std::equal(packed, end, as_bytes(span<const T>(kept)).begin()));
    if (!kept.empty()) {
      ASSERT_EQ(of_values::mask_and_pack(from, count, masks, packed, end - 1), nullptr);
    }
  }
}

TYPED_TEST(masks, pack_and_spread_what_they_say) {
  at_each_cpu_level([](cpu_level level) {
    uint64_t seed = 0;
    for (const uint64_t count : {1, 2, 31, 32, 33, 64, 95, 256, 1000, 1024, 4096, 5001})
      for (const double sparsity : {0., .03, .5, .9, .999, 1.}) {
        SCOPED_TRACE(std::string(name(level)) + " " + std::to_string(count) + " " + std::to_string(sparsity));
        check_masks<ones::non_zeros>(runs<TypeParam>(count, sparsity, ++seed));
        check_masks<ones::changes>(runs<TypeParam>(count, sparsity, ++seed));
      }
  });
}

// All there and back on one CPU, with exactly the room that is needed behind a value. Returns how many are kept.
template <class Cpu, class T>
uint32_t there_and_back(const std::vector<T>& values, ones what, std::vector<uint32_t>& mask,
                        std::vector<std::byte>& packed, std::vector<T>& back) {
  using loops = tuck::detail::masks_on<Cpu>;
  const auto count = static_cast<uint32_t>(values.size());
  const std::byte* const from = as_bytes(span<const T>(values)).data();
  auto *const at = reinterpret_cast<std::byte*>(mask.data()), *const to = reinterpret_cast<std::byte*>(back.data());
  const bool changes = what == ones::changes;
  const uint32_t kept = changes ? loops::template masks_of<ones::changes, sizeof(T)>(from, count, at)
                                : loops::template masks_of<ones::non_zeros, sizeof(T)>(from, count, at);
  std::byte *const begin = packed.data() + sizeof(T), *const end = begin + kept * sizeof(T);
  if (loops::count_ones(at, static_cast<uint32_t>(4 * mask.size())) != kept || end > packed.data() + packed.size() ||
      loops::template pack<sizeof(T)>(from, count, at, begin, end) != end)
    return ~0u;
  if (changes)
    loops::template spread<ones::changes, sizeof(T)>(at, begin, end, to, count);
  else
    loops::template spread<ones::non_zeros, sizeof(T)>(at, begin, end, to, count);
  return kept;
}

// What CPUs have that are neither x86 nor ARM, which nothing else here runs.
TYPED_TEST(masks, are_the_same_without_vectors) {
  using T = TypeParam;
  for (const uint32_t count : {1, 33, 1000, 4096})
    for (const ones what : {ones::non_zeros, ones::changes}) {
      const auto values = runs<T>(count, .7, count);
      const auto expected = plain_masks(values, what);
      size_t kept = 0;
      for (const uint32_t mask : expected) kept += static_cast<size_t>(std::popcount(mask));
      std::vector<uint32_t> mask(expected.size());
      std::vector<std::byte> packed((1 + kept) * sizeof(T));
      std::vector<T> back(count);
      ASSERT_EQ(there_and_back<tuck::detail::plain_cpu>(values, what, mask, packed, back), kept);
      ASSERT_EQ(mask, expected);
      ASSERT_TRUE(same_bits(back, values));
    }
}

TEST(word_sum, of_vectors_are_those_of_words) {
  std::mt19937_64 random(1);
  for (const uint64_t size : {0, 1, 4, 31, 32, 33, 64, 100, 4096, 16384, 65536, 65539}) {
    std::vector<std::byte> data(size + 3);
    for (std::byte& b : data) b = static_cast<std::byte>(random() | (size % 2 == 0 ? 0 : 0xf0));
    for (const uint64_t first : {uint64_t{0}, uint64_t{8}, uint64_t{1} << 40}) {
      const const_bytes unaligned(data.data() + 3, size);
      word_sum expected;
      for (uint64_t i = 0; i < ceil_div(size, uint64_t{4}); ++i) {
        uint32_t word = 0;
        std::memcpy(&word, unaligned.data() + 4 * i, std::min<uint64_t>(4, size - 4 * i));
        expected.add(word, first + i);
      }
      at_each_cpu_level(
          [&](cpu_level level) { EXPECT_EQ(sum_words(unaligned, first).sum, expected.sum) << size << name(level); });
    }
  }
}

// In a process of its own: the level is found once.
TEST(cpu_level, an_unknown_one_is_reported_once) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "qemu cannot start the program again";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto expect_says = [](const char* value, const std::string& text) {
    EXPECT_EXIT(
        {
          static_cast<void>(setenv("TUCK_CPU", value, 1));
          {
            std::vector<std::jthread> threads;
            for (int i = 0; i < 4; ++i) threads.emplace_back([] { static_cast<void>(level_of_cpu()); });
          }
          std::exit(level_of_cpu() <= tuck::detail::highest_cpu_level() ? 0 : 1);
        },
        testing::ExitedWithCode(0), ::testing::Matcher<const std::string&>(text));
  };
  for (const char* const value : {"avx3", "AVX2", "avx2 ", "0", "\x1b[31m\n"})
    expect_says(value, "tuck: TUCK_CPU: an unknown value is ignored; use baseline, avx2 or avx512\n");
  for (const char* const value : {"", "baseline", "avx2", "avx512"}) expect_says(value, "");
}

}  // namespace
}  // namespace tuck::test
