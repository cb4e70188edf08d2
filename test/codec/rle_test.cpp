#include "support/frames.hpp"

#include <tuck/codec/mask/rle.hpp>
#include <tuck/codec/mask/zvc.hpp>

#include <cmath>
#include <limits>
#include <numeric>

namespace tuck::test {
namespace {

using u8s = std::vector<uint8_t>;

template <codec C> u8s encode(const std::vector<value_t<C>>& values) {
  std::vector<std::byte> room(C{}.max_chunk_bytes(static_cast<uint32_t>(values.size())));
  const uint32_t used = C{}.encode_chunk(values, room);
  const auto* const begin = reinterpret_cast<const uint8_t*>(room.data());
  return {begin, begin + used};
}

template <codec C> status decode(const u8s& encoded, std::vector<value_t<C>>& values) {
  return C{}.decode_chunk({reinterpret_cast<const std::byte*>(encoded.data()), encoded.size()}, values);
}

// 100 values of which four are not zero: two bytes of the mask with one 1, one with two.
std::vector<uint16_t> four_values() {
  std::vector<uint16_t> values(100);
  values[0] = 0x1111;
  values[17] = 0x2222;
  values[65] = 0x3333;
  values[66] = 0x4444;
  return values;
}
// clang-format off
const u8s four_values_encoded{0x20, 0, 0, 0,  // kind 0, packed, marks as the mask
                              5, 0, 0, 0,     // words 0 and 2
                              0x15,           // their bytes 0 and 2; 0
                              0x04,           // the third has more than one
                              0x88, 0x01,     // at 0, at 1, the byte 6
                              0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44};
// clang-format on

// A run of zeros, one of 40 values and one to the end.
std::vector<uint32_t> three_runs() {
  std::vector<uint32_t> values(100);
  std::fill(values.begin() + 8, values.begin() + 48, 0x01020304u);
  std::fill(values.begin() + 48, values.end(), 0x0a0b0c0du);
  return values;
}
// clang-format off
const u8s three_runs_encoded{0x21, 0, 0, 0,     // kind 1, packed
                             3, 0, 0, 0,        // words 0 and 1
                             0x42,              // their bytes 1 and 2
                             0, 0, 0,           // one 1 each, at 0; padding
                             4, 3, 2, 1, 0xd, 0xc, 0xb, 0xa};
// clang-format on

TEST(rle, bytes_of_a_mask_of_non_zeros) {
  EXPECT_EQ(encode<rle<uint16_t>>(four_values()), four_values_encoded);
  EXPECT_EQ(encode<packed_zvc<uint16_t>>(four_values()), four_values_encoded);
}

TEST(rle, bytes_of_a_mask_of_changes) {
  EXPECT_EQ(encode<rle<uint32_t>>(three_runs()), three_runs_encoded);
  std::vector<uint32_t> restored(100);
  ASSERT_EQ(decode<rle<uint32_t>>(three_runs_encoded, restored), status::ok);
  EXPECT_TRUE(same_bits(restored, three_runs()));
}

// Ones from 12 on: one byte of differences is not 0, or two of inverted marks.
TEST(rle, bytes_of_differences) {
  std::vector<uint32_t> values(64);
  for (size_t i = 12; i < 64; ++i) values[i] = static_cast<uint32_t>(i);
  const u8s encoded = encode<rle<uint32_t>>(values);
  ASSERT_EQ(encoded.size(), 12 + 4 * 52u);
  EXPECT_EQ(u8s(encoded.begin(), encoded.begin() + 16),
            (u8s{0x28, 0, 0, 0, 1, 0, 0, 0, 0x02, 0, 4, 0, 12, 0, 0, 0}));  // and the first value
}
TEST(rle, bytes_of_inverted_marks_and_of_a_mask_as_it_is) {
  std::vector<uint32_t> values(128, 1);
  for (const size_t i : {3u, 40u, 70u, 100u, 110u}) values[i] = 0;
  const u8s inverted = encode<packed_zvc<uint32_t>>(values);
  ASSERT_EQ(inverted.size(), 16 + 4 * 123u);
  EXPECT_EQ(u8s(inverted.begin(), inverted.begin() + 16),
            (u8s{0x24, 0, 0, 0, 0xf, 0, 0, 0, 0x21, 0x31, 0, 0x83, 0x69, 0, 0, 0}));
  std::mt19937 random(1);
  uint32_t mask[2] = {};
  values.resize(64);
  for (size_t i = 0; i < 64; ++i) {
    values[i] = random() % 2;
    mask[i / 32] |= values[i] << i % 32;
  }
  const u8s plain = encode<packed_zvc<uint32_t>>(values);
  ASSERT_GE(plain.size(), 12u);
  EXPECT_EQ(u8s(plain.begin(), plain.begin() + 4), (u8s{0, 0, 0, 0}));
  EXPECT_EQ(std::memcmp(plain.data() + 4, mask, 8), 0);
}

TEST(rle, the_rule_with_the_fewest_bytes_is_taken) {
  for (uint32_t rule = 0; rule < 6; ++rule)
    for (const uint32_t count : {4096u, 4095u, 1001u, 200u}) {
      const auto values = tensor_for_rule<uint32_t>(rule, count, count);
      const u8s encoded = encode<packed_zvc<uint32_t>>(values);
      EXPECT_EQ(encoded[0], 0x20 | rule << 2) << count;
      std::vector<uint32_t> restored(count);
      ASSERT_EQ(decode<packed_zvc<uint32_t>>(encoded, restored), status::ok);
      ASSERT_TRUE(same_bits(restored, values)) << rule << ' ' << count;
    }
}

TEST(rle, changes_are_taken_if_they_are_fewer_by_a_sixteenth) {
  std::vector<uint32_t> values(1024);
  std::fill_n(values.begin(), 17, 7);  // 17 values; changes: at each of the following, and the zero behind
  const auto kind_with = [&](uint32_t changes) {
    for (uint32_t i = 0; i < 17; ++i) values[i] = 1 + (i < changes - 1 ? i : changes - 1);
    return encode<rle<uint32_t>>(values)[0] & 3;
  };
  EXPECT_EQ(kind_with(14), 1);  // 15 changes, with the zero
  EXPECT_EQ(kind_with(15), 0);  // 16 * 16 is not less than 15 * 17
}

TEST(rle, equal_means_equal_bits) {
  const float nan = __builtin_bit_cast(float, 0x7fc12345u), other_nan = __builtin_bit_cast(float, 0xffc12345u);
  std::vector<float> values(64, 0.f);
  const std::vector<float> odd{-0.f, 0.f, nan, nan, other_nan, std::numeric_limits<float>::denorm_min()};
  std::copy(odd.begin(), odd.end(), values.begin() + 3);
  std::fill(values.begin() + 20, values.end(), nan);
  const auto encoded = encode<rle<float>>(values);
  EXPECT_EQ(encoded[0] & 3, 1);
  std::vector<float> restored(64, 1.f);
  ASSERT_EQ(decode<rle<float>>(encoded, restored), status::ok);
  EXPECT_TRUE(same_bits(values, restored));
  const size_t at = encoded.size() - 4 * 7;  // -0, 0, nan, other nan, denormal, 0, nan
  EXPECT_EQ(std::memcmp(encoded.data() + at, &values[3], 4), 0);
}

TEST(rle, declines_what_would_not_shrink) {
  std::vector<uint8_t> values(64);
  std::iota(values.begin(), values.end(), uint8_t{1});
  EXPECT_TRUE(encode<rle<uint8_t>>(values).empty());
  EXPECT_TRUE(encode<rle<uint8_t>>(u8s(8)).empty());
  EXPECT_EQ(encode<rle<uint8_t>>(u8s(9)).size(), 8u);
  EXPECT_TRUE(encode<rle<double>>({0.}).empty());
  EXPECT_EQ(encode<rle<double>>({0., 0.}).size(), 8u);
}

template <codec C, class Change> status changed(u8s encoded, uint64_t count, const Change& change) {
  change(encoded);
  std::vector<value_t<C>> values(count);
  return decode<C>(encoded, values);
}

TEST(rle, other_heads_are_refused) {
  for (uint32_t bit = 0; bit < 32; ++bit) {
    const auto flip = [&](u8s& bytes) { bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ 1 << bit % 8); };
    // Another kind or rule for the same marks. Kind 2 has signs, which are not there.
    EXPECT_EQ(changed<rle<uint16_t>>(four_values_encoded, 100, flip), bit == 0 ? status::ok : status::bad_payload)
        << bit;
    EXPECT_EQ(changed<packed_zvc<uint16_t>>(four_values_encoded, 100, flip), status::bad_payload) << bit;
    EXPECT_EQ(changed<rle<uint32_t>>(three_runs_encoded, 100, flip), bit <= 1 ? status::ok : status::bad_payload)
        << bit;
  }
  for (int head = 0; head < 64; ++head)
    EXPECT_EQ(
        changed<packed_zvc<uint16_t>>(four_values_encoded, 100, [&](u8s& b) { b[0] = static_cast<uint8_t>(head); }),
        head == 0x20 || head == 0x23 ? status::ok : status::bad_payload)
        << head;
}

TEST(rle, masks_that_are_not_canonical_are_refused) {
  const auto refused = [](const auto& change) {
    return changed<rle<uint16_t>>(four_values_encoded, 100, change) == status::bad_payload;
  };
  EXPECT_FALSE(refused([](u8s&) {}));
  EXPECT_FALSE(refused([](u8s& b) { b[4] = 3; }));    // word 1 in place of word 2, just as good
  EXPECT_TRUE(refused([](u8s& b) { b[4] = 0x11; }));  // word 4 of four
  EXPECT_TRUE(refused([](u8s& b) { b[7] = 0x80; }));
  EXPECT_FALSE(refused([](u8s& b) { b[4] = 9; }));  // word 3, of which there are four bits
  EXPECT_TRUE(refused([](u8s& b) { b[4] = 9, b[8] = 0x25; }));
  EXPECT_TRUE(refused([](u8s& b) { b[8] = 0x50; }));   // word 0 is zero
  EXPECT_FALSE(refused([](u8s& b) { b[8] = 0x19; }));  // byte 3 in place of byte 2
  EXPECT_TRUE(refused([](u8s& b) { b[9] = 0x0c; }));   // a fourth byte
  EXPECT_TRUE(refused([](u8s& b) { b[9] = 0; }));
  EXPECT_FALSE(refused([](u8s& b) { b[10] = 0xc8, b[11] = 0; }));  // the byte 3
  EXPECT_TRUE(refused([](u8s& b) { b[10] = 0x08, b[11] = 1; }));   // the byte 4, which has one 1
  EXPECT_TRUE(refused([](u8s& b) { b[10] = 0x08, b[11] = 0; }));   // the byte 0

  // Padding of flags, of ones, and of the mask.
  for (const size_t at : {9u, 10u, 11u})
    for (int bit = at == 9 ? 2 : at == 10 ? 6 : 0; bit < 8; ++bit)
      EXPECT_EQ(changed<rle<uint32_t>>(three_runs_encoded, 100,
                                       [&](u8s& b) { b[at] = static_cast<uint8_t>(b[at] | 1 << bit); }),
                status::bad_payload);
}

TEST(rle, bits_past_the_end_are_refused) {
  std::vector<uint32_t> values(98);
  values[97] = 1;
  const u8s encoded = encode<rle<uint32_t>>(values);
  ASSERT_EQ(encoded, (u8s{0x20, 0, 0, 0, 8, 0, 0, 0, 0x01, 0, 0x01, 0, 1, 0, 0, 0}));
  for (uint8_t at = 0; at < 8; ++at)
    EXPECT_EQ(changed<rle<uint32_t>>(encoded, 98, [&](u8s& b) { b[10] = at; }),
              at < 2 ? status::ok : status::bad_payload);
  EXPECT_EQ(changed<rle<uint32_t>>(encoded, 98, [](u8s& b) { b[8] = 2; }), status::bad_payload);
  EXPECT_EQ(changed<rle<uint32_t>>(encoded, 98, [](u8s& b) { b[8] = 0x11; }), status::bad_payload);  // padding
  // A mask that is not packed.
  for (int bit = 0; bit < 8; ++bit)
    EXPECT_EQ(
        changed<rle<uint32_t>>(u8s{0, 0, 0, 0, static_cast<uint8_t>(1 << bit), 0, 0, 0, 1, 0, 0, 0}, 5, [](u8s&) {}),
        bit < 5 ? status::ok : status::bad_payload);
}

TEST(rle, as_many_bytes_as_the_values_are_refused) {
  // All right but for the size: a mask and one value for two.
  const u8s bytes{0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0};
  for (const uint64_t count : {2u, 3u, 4u})
    EXPECT_EQ(changed<rle<uint32_t>>(bytes, count, [](u8s&) {}), count == 4 ? status::ok : status::bad_payload);
}

// -- negative zeros --------------------------------------------------------------------------------------------------

TEST(rle_zeros, have_one_bit_each_behind_the_mask) {
  std::vector<float> values(64, -0.f);
  values[3] = values[60] = -3e38f;
  values[5] = values[40] = 0;
  // Kind 2, packed; words 0 and 1; their bytes 0 and 3; at 3 and at 4.
  const u8s head{0x22, 0, 0, 0, 3, 0, 0, 0, 0x81, 0, 0x23};
  const u8s signs{0xef, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0x3f};  // of 62 zeros, of which 4 and 39 are positive
  const u8s padding_and_values{0, 0xe6, 0xb1, 0x61, 0xff, 0xe6, 0xb1, 0x61, 0xff};
  u8s expected = head;
  expected.insert(expected.end(), signs.begin(), signs.end());
  expected.insert(expected.end(), padding_and_values.begin(), padding_and_values.end());
  for (const u8s& encoded : {encode<rle<float>>(values), encode<packed_zvc<float>>(values)}) {
    EXPECT_EQ(encoded, expected);
    std::vector<float> restored(64);
    ASSERT_EQ(decode<rle<float>>(encoded, restored), status::ok);
    EXPECT_TRUE(same_bits(restored, values));
  }
  values[5] = values[40] = -0.f;
  u8s all_negative = head;
  all_negative[0] = 0x23;
  all_negative.insert(all_negative.end(), padding_and_values.begin(), padding_and_values.end());
  EXPECT_EQ(encode<rle<float>>(values), all_negative);
  // Signs with others behind them, and of another size.
  for (const uint32_t bit : {6u, 7u})
    EXPECT_EQ(changed<rle<float>>(expected, 64, [&](u8s& b) { b[18] = static_cast<uint8_t>(b[18] ^ 1 << bit); }),
              status::bad_payload);
  for (const int kind : {0, 1, 3})
    EXPECT_EQ(changed<rle<float>>(expected, 64, [&](u8s& b) { b[0] = static_cast<uint8_t>(0x20 | kind); }),
              status::bad_payload);
  EXPECT_EQ(changed<rle<float>>(all_negative, 64, [&](u8s& b) { b[0] = 0x22; }), status::bad_payload);
}

template <class C> void expect_zeros_restored() {
  using value = value_t<C>;
  for (const uint32_t count : {1u, 31u, 32u, 33u, 1000u, 65536 / uint32_t{sizeof(value)}})
    for (const double negative : {0., .5, 1.})
      for (const double sparsity : {.1, .6, .97, 1.}) {
        const auto values = tensor_with_negative_zeros<value>(count, sparsity, negative, count);
        const auto encoded = encode<C>(values);
        if (encoded.empty()) continue;
        std::vector<value> restored(count);
        ASSERT_EQ(decode<C>(encoded, restored), status::ok);
        ASSERT_TRUE(same_bits(restored, values)) << count << ' ' << negative << ' ' << sparsity;
      }
}
TEST(rle_zeros, keep_their_signs) {
  expect_zeros_restored<rle<f8e4m3>>();
  expect_zeros_restored<rle<bf16>>();
  expect_zeros_restored<rle<float>>();
  expect_zeros_restored<packed_zvc<double>>();
}

// The kind of the mask where a share `negative` of the zeros is -0.0.
template <codec C> int kind_of(double negative, double sparsity = .6) {
  const auto floats = tensor_with_negative_zeros<float>(4096, sparsity, negative);
  std::vector<value_t<C>> values(floats.size());
  std::memcpy(static_cast<void*>(values.data()), floats.data(), 4 * floats.size());
  return encode<C>(values)[0] & 3;
}
TEST(rle_zeros, have_signs_where_that_pays) {
  EXPECT_EQ(kind_of<rle<float>>(0), 0);
  EXPECT_EQ(kind_of<rle<float>>(.01), 0);  // a bit for each zero is more than these values
  EXPECT_EQ(kind_of<rle<float>>(.1), 2);
  EXPECT_EQ(kind_of<rle<float>>(.9), 2);
  EXPECT_EQ(kind_of<packed_zvc<float>>(.9), 2);
  EXPECT_EQ(kind_of<packed_zvc<float>>(1), 3);
  EXPECT_EQ(kind_of<packed_zvc<uint32_t>>(.5), 0);
  EXPECT_EQ(kind_of<packed_zvc<untyped<4>>>(.5), 0);
}

// Shapes that a tensor of independent zeros does not have.
template <class T> class rle_runs : public ::testing::Test {};
using sizes_1_2_4_8 = ::testing::Types<int8_t, bf16, float, uint32_t, double, int64_t>;
TYPED_TEST_SUITE(rle_runs, sizes_1_2_4_8);

TYPED_TEST(rle_runs, of_any_length_come_back) {
  std::mt19937_64 random(5);
  for (const uint32_t count : {31u, 32u, 33u, 1023u, 1024u, 1025u, 4096u, 16384u, 100'003u})
    for (const uint64_t longest : {2u, 10u, 300u, 5000u}) {
      std::vector<TypeParam> values;
      while (values.size() < count)
        values.insert(values.end(), std::min<uint64_t>(1 + random() % longest, count - values.size()),
                      random() % 3 == 0 ? TypeParam{} : non_zero<TypeParam>(random));
      const auto encoded = encode<rle<TypeParam>>(values);
      if (encoded.empty()) continue;
      std::vector<TypeParam> restored(count);
      ASSERT_EQ(decode<rle<TypeParam>>(encoded, restored), status::ok);
      ASSERT_TRUE(same_bits(restored, values)) << count << ' ' << longest;
    }
}

// -- how much smaller frames become
// -------------------------------------------------------------------------------------

constexpr uint64_t tensor_bytes = 240'000;

template <codec C> double ratio(const C& codec, const std::vector<value_t<C>>& values) {
  return static_cast<double>(values.size() * sizeof(value_t<C>)) / static_cast<double>(encoded(codec, values).size());
}

TEST(rle_ratio, of_a_constant_tensor) {
  EXPECT_GE(ratio(rle<float>{}, std::vector<float>(tensor_bytes / 4, 1.25f)), 200);
}

TEST(rle_ratio, of_runs_of_500) {
  std::mt19937_64 random(6);
  std::vector<float> values;
  while (values.size() < tensor_bytes / 4) values.insert(values.end(), 500, non_zero<float>(random));
  const double of_rle = ratio(rle<float>{}, values);
  EXPECT_GE(of_rle, 40);
  std::printf("    runs of 500: %.1f\n", of_rle);
}

TEST(rle_ratio, of_noise) {
  std::mt19937_64 random(7);
  u8s noise(tensor_bytes);
  for (auto& byte : noise) byte = static_cast<uint8_t>(random());
  EXPECT_GT(ratio(rle<uint8_t>{}, noise), 1 / 1.01);
  std::vector<float> floats(tensor_bytes / 4);
  std::memcpy(floats.data(), noise.data(), tensor_bytes);
  EXPECT_GT(ratio(rle<float>{}, floats), 1 / 1.01);
}

}  // namespace
}  // namespace tuck::test
