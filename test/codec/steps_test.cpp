// Steps: bytes worked out by hand from layout.hpp, every change of 8-bit floats, and the verdict on bytes that encoding
// does not write, also with a base that does not match.
#include "support/chunk_bytes.hpp"

#include <random>

namespace tuck::test {
namespace {

template <class T> T of_bits(uint64_t bits) { return __builtin_bit_cast(T, static_cast<bits_t<T>>(bits)); }

template <class T> struct pair_of {
  std::vector<T> base, changes;

  explicit pair_of(size_t count) : base(count), changes(count) {}
  void set(size_t i, uint64_t from, uint64_t to) {
    base[i] = of_bits<T>(from);
    changes[i] = of_bits<T>(from ^ to);
  }
};

template <class T> std::vector<std::byte> encoded_pair(const pair_of<T>& two) {
  std::vector<std::byte> room(two.base.size() * sizeof(T));
  room.resize(steps<T>{}.encode_chunk(two.changes, two.base, room));
  return room;
}
template <class T> status decode(const std::vector<std::byte>& chunk, const std::vector<T>& base, std::vector<T>& out) {
  out.assign(base.size(), of_bits<T>(0x5a));
  const std::vector<std::byte> exact(chunk);  // so that a sanitizer sees each byte beyond
  return steps<T>{}.decode_chunk(exact, base, out);
}
template <class T> void expect_restored(const pair_of<T>& two, bool shrinks = true) {
  const auto chunk = encoded_pair(two);
  ASSERT_EQ(!chunk.empty(), shrinks);
  if (!shrinks) return;
  std::vector<T> out;
  ASSERT_EQ(decode(chunk, two.base, out), status::ok);
  ASSERT_TRUE(same_bits(out, two.changes));
}

TEST(steps, of_one_class) {
  // 32 times 1.0, of which value 3 moves up by 1, value 9 down by 1, and value 20 up by 7 = 3 + 4. All values are of
  // class 1: the threshold is one above their exponent field.
  // Header: t = 128; w = 2, ones 0, 3, 0, 0; w = 1, ones 0, 1, 0, 0; w = 1, ones 0, 1, 0, 0; order 2.
  // Row 0: 3 entries among 32, r = bit_width(31 * 29 / 192) = 3. Gaps 3, 5, 10: remainders 3, 5, 2; quotients 0, 0, 1.
  // Rows 1 and 2: one of 3, r = bit_width(31 * 2 / 64) = 0, gap 2; one of 1: inverted, no entry.
  // Signs 0, 1, 0. x = 4, x + 4 = 8 = 1 000: u = 1, extra 000.
  pair_of<bf16> two(32);
  for (size_t i = 0; i < 32; ++i) two.set(i, 0x3f80, 0x3f80);
  two.set(3, 0x3f80, 0x3f81);
  two.set(9, 0x3f80, 0x3f7f);
  two.set(20, 0x3f80, 0x3f87);
  std::string bits;
  const auto put = [&](uint32_t x, uint32_t width) {
    for (uint32_t i = 0; i < width; ++i) bits += (x >> i & 1) != 0 ? '1' : '0';
  };
  put(128, 8);
  for (const auto& [w, k] : {std::pair{2u, 3u}, {1u, 1u}, {1u, 1u}}) {
    put(w, 5);
    for (const uint32_t ones : {0u, k, 0u, 0u}) put(ones, w);
  }
  put(2, 5);
  put(3, 3), put(5, 3), put(2, 3);
  bits += "010";
  bits +=
      "1"
      "1"
      "01"
      "001";
  bits +=
      "01"
      "000";
  std::vector<std::byte> expected((bits.size() + 7) / 8);
  for (size_t i = 0; i < bits.size(); ++i) expected[i / 8] |= static_cast<std::byte>((bits[i] == '1') << i % 8);
  EXPECT_EQ(encoded_pair(two), expected);
  expect_restored(two);
}

// Classes end 0, 2 and 4 below the threshold, whatever that is.
TEST(steps, of_four_classes_are_counted_in_the_header) {
  pair_of<bf16> two(8192);
  uint32_t changed[256] = {};
  for (uint32_t i = 0; i < 8192; ++i) {
    const uint32_t exponent = 116 + i * 7 % 13, bits = exponent << 7 | (i & 127);
    const bool changes = i / 13 % (exponent - 114) == 0;  // small values more often
    two.set(i, bits, bits ^ (changes ? 1 : 0));
    changed[exponent] += changes;
  }
  const auto chunk = encoded_pair(two);
  ASSERT_GE(chunk.size(), 16u);
  uint64_t header = 0;
  std::memcpy(&header, chunk.data(), 8);
  const auto t = static_cast<uint32_t>(header & 255), width = static_cast<uint32_t>(header >> 8 & 31);
  uint32_t expected[4] = {}, found[4];
  for (uint32_t e = 0; e < 256; ++e) expected[e >= t ? 0 : e + 2 >= t ? 1 : e + 4 >= t ? 2 : 3] += changed[e];
  for (uint32_t c = 0; c < 4; ++c) {
    found[c] = static_cast<uint32_t>(header >> (13 + c * width)) & low_mask(width);
    EXPECT_EQ(found[c], expected[c]) << "class " << c << ", threshold " << t;
    EXPECT_NE(expected[c], 0u) << "the test needs all classes: class " << c << ", threshold " << t;
  }
  expect_restored(two);
}

TEST(steps, of_no_change_is_a_header) {
  EXPECT_EQ(encoded_pair(pair_of<float>(16384)), bytes_of("0000"));
  EXPECT_TRUE(encoded_pair(pair_of<bf16>(1)).empty());
  EXPECT_EQ(encoded_pair(pair_of<f8e4m3>(3)), bytes_of("0000"));
}

TEST(steps, are_in_the_order_of_the_values) {
  // -2, -1, the least two negative numbers, -0, +0, denormals, 1, the greatest number, infinity, NaN.
  const std::vector<uint32_t> order{0xc000, 0xbf80, 0x8002, 0x8001, 0x8000, 0, 1, 2, 0x3f80, 0x7f7f, 0x7f80, 0x7f81};
  for (size_t i = 1; i < order.size(); ++i)
    EXPECT_LT(static_cast<int16_t>(steps_format::ordered<bf16>(static_cast<uint16_t>(order[i - 1]))),
              static_cast<int16_t>(steps_format::ordered<bf16>(static_cast<uint16_t>(order[i]))));
  EXPECT_EQ(steps_format::step_of<bf16>(0x8000, 0x8000), 1);  // from -0 to +0
}

template <class T> void expect_every_change() {
  for (uint32_t from = 0; from < 256; ++from) {
    pair_of<T> two(1024);
    for (size_t i = 0; i < 1024; ++i) two.set(i, from, i < 256 ? i : from);
    expect_restored(two);
  }
}
TEST(steps, of_8_bit_floats_are_all_restored) {
  expect_every_change<f8e4m3>();
  expect_every_change<f8e5m2>();
}

// Weights before and after a step that moves them by about `rate`.
template <class T> pair_of<T> trained(size_t count, double rate, uint64_t seed) {
  using format = float_format<T>;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  pair_of<T> two(count);
  for (size_t i = 0; i < count; ++i) {
    const double w = .05 * normal(random);
    two.set(i, format::narrow(static_cast<float>(w)), format::narrow(static_cast<float>(w + rate * normal(random))));
  }
  return two;
}

template <class T> class steps_of : public ::testing::Test {};
using floats = ::testing::Types<f16, bf16, float, f8e4m3, f8e5m2>;
TYPED_TEST_SUITE(steps_of, floats);

TYPED_TEST(steps_of, weights_are_restored) {
  constexpr size_t most = max_chunk_values(steps<TypeParam>{}.stages(), sizeof(TypeParam));
  for (const size_t count : {size_t{33}, size_t{511}, size_t{8192}, most})
    for (const double rate : {1e-6, 1e-5, 1e-4, 1e-3}) {
      const auto two = trained<TypeParam>(count, rate, count);
      if (std::all_of(two.changes.begin(), two.changes.end(), [](auto x) { return bits_of(x) == 0; })) continue;
      expect_restored(two, !encoded_pair(two).empty());
      if (count >= 8192) {
        EXPECT_LT(encoded_pair(two).size(), count * sizeof(TypeParam) * 4 / 5) << rate;
      }
    }
}

TYPED_TEST(steps_of, any_bits_are_restored) {
  using T = TypeParam;
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    pair_of<T> two(1 + random() % 5000);
    const uint64_t changed = random() % 16, mask = ~uint64_t{0} >> (63 - random() % (8 * sizeof(T)));
    for (size_t i = 0; i < two.base.size(); ++i) {
      const uint64_t from = random() % 4 == 0 ? random() : uint64_t{0x3f8f};
      two.set(i, from, random() % 16 < changed ? from ^ (random() & mask) : from);
    }
    expect_restored(two, !encoded_pair(two).empty());
  }
}

TYPED_TEST(steps_of, damaged_chunks_and_other_bases_end_in_a_status) {
  using T = TypeParam;
  const auto two = trained<T>(3000, 1e-4, 5);
  const auto chunk = encoded_pair(two);
  ASSERT_FALSE(chunk.empty());
  std::vector<T> out;
  for (size_t size = 0; size < chunk.size(); ++size)
    EXPECT_EQ(decode({chunk.begin(), chunk.begin() + static_cast<ptrdiff_t>(size)}, two.base, out),
              status::bad_payload);
  auto longer = chunk;
  longer.push_back(std::byte{});
  EXPECT_EQ(decode(longer, two.base, out), status::bad_payload);
  std::mt19937_64 random(2);
  for (int round = 0; round < 20'000; ++round) {
    auto damaged = chunk;
    auto base = two.base;
    for (uint64_t k = random() % 4; k != 0; --k)
      damaged[random() % (random() % 2 == 0 ? damaged.size() : 24)] ^= static_cast<std::byte>(1 << random() % 8);
    if (round % 2 == 0)
      for (uint64_t k = 1 + random() % 500; k != 0; --k) base[random() % base.size()] = of_bits<T>(random());
    if (round % 8 == 0) base.resize(1 + random() % base.size());
    static_cast<void>(decode(damaged, base, out));
  }
}

TEST(steps, other_bytes_are_refused) {
  pair_of<bf16> two(32);
  for (size_t i = 0; i < 32; ++i) two.set(i, 0x3f80, i % 10 == 3 ? 0x3f84 : 0x3f80);
  const auto chunk = encoded_pair(two);
  std::vector<bf16> out;
  ASSERT_EQ(decode(chunk, two.base, out), status::ok);
  const auto with = [&](uint32_t bit) {
    auto other = chunk;
    other[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    return decode(other, two.base, out);
  };
  EXPECT_EQ(with(12), status::bad_payload);                                           // a width of 18
  EXPECT_EQ(with(13), status::bad_payload);                                           // ones of a class without values
  EXPECT_EQ(with(8 * static_cast<uint32_t>(chunk.size()) - 1), status::bad_payload);  // padding that is not zero
  // A threshold that no exponent of f16 reaches.
  EXPECT_EQ(steps<f16>{}.decode_chunk(bytes_of("2000"), std::vector<f16>(32), span<f16>(pair_of<f16>(32).base)),
            status::bad_payload);
}

}  // namespace
}  // namespace tuck::test
