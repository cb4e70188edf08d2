#include "support/frames.hpp"

#include <tuck/codec/rle/rle.hpp>
#include <tuck/codec/zvc/zvc.hpp>

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

// 100 values of which four are not zero: in the bytes 0, 2, 8 and 10 of the mask.
std::vector<uint16_t> four_values() {
  std::vector<uint16_t> values(100);
  values[0] = 0x1111;
  values[17] = 0x2222;
  values[65] = 0x3333;
  values[80] = 0x4444;
  return values;
}
// clang-format off
const u8s four_values_encoded{0, 0, 0, 0,                 // kind 0
                              3, 0, 0, 0,                 // L2: both groups of 8 bytes
                              0x05, 0x05,                 // L1: their bytes 0 and 2
                              0x01, 0x02, 0x02, 0x01,     // L0: values 0, 17, 65, 80
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
const u8s three_runs_encoded{1, 0, 0, 0,     // kind 1
                             1, 0, 0, 0,     // L2: the first group
                             0x42,           // L1: bytes 1 and 6
                             0x01, 0x01, 0,  // L0: values 8, 48; padding
                             4, 3, 2, 1, 0xd, 0xc, 0xb, 0xa};
// clang-format on

TEST(rle, bytes_of_a_mask_of_non_zeros) { EXPECT_EQ(encode<rle<uint16_t>>(four_values()), four_values_encoded); }

TEST(rle, bytes_of_a_mask_of_heads) {
  EXPECT_EQ(encode<rle<uint32_t>>(three_runs()), three_runs_encoded);
  std::vector<uint32_t> restored(100);
  ASSERT_EQ(decode<rle<uint32_t>>(three_runs_encoded, restored), status::ok);
  EXPECT_TRUE(same_bits(restored, three_runs()));
}

TEST(rle, the_kind_with_fewer_ones_is_taken_and_of_equals_the_first) {
  std::vector<uint32_t> values(256);
  values[9] = values[10] = 7;  // two values, two heads: 7 and the zero behind
  EXPECT_EQ(encode<rle<uint32_t>>(values)[0], 0);
  values[11] = 7;
  EXPECT_EQ(encode<rle<uint32_t>>(values)[0], 1);
  values[100] = 1;
  EXPECT_EQ(encode<rle<uint32_t>>(values)[0], 0);
}

TEST(rle, equal_means_equal_bits) {
  const float nan = __builtin_bit_cast(float, 0x7fc12345u), other_nan = __builtin_bit_cast(float, 0xffc12345u);
  std::vector<float> values(64, 0.f);
  const std::vector<float> odd{-0.f, 0.f, nan, nan, other_nan, std::numeric_limits<float>::denorm_min()};
  std::copy(odd.begin(), odd.end(), values.begin() + 3);
  std::fill(values.begin() + 20, values.end(), nan);
  const auto encoded = encode<rle<float>>(values);
  EXPECT_EQ(encoded[0], 1);
  EXPECT_EQ(encoded.size(), 4 + 4 + 1 + 2 + 1 + 4 * 7u);  // -0, 0, nan, nan, denormal, 0, nan
  std::vector<float> restored(64, 1.f);
  ASSERT_EQ(decode<rle<float>>(encoded, restored), status::ok);
  EXPECT_TRUE(same_bits(values, restored));
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

TEST(rle, other_kinds_are_refused) {
  for (size_t at = 0; at < 4; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      const auto flip = [&](u8s& bytes) { bytes[at] = static_cast<uint8_t>(bytes[at] ^ 1 << bit); };
      const status expected = at == 0 && bit == 0 ? status::ok : status::bad_payload;
      EXPECT_EQ(changed<rle<uint32_t>>(three_runs_encoded, 100, flip), expected);
      EXPECT_EQ(changed<rle<uint16_t>>(four_values_encoded, 100, flip), expected);
    }
}

TEST(rle, masks_that_are_not_canonical_are_refused) {
  const auto refused = [](const auto& change) {
    return changed<rle<uint16_t>>(four_values_encoded, 100, change) == status::bad_payload;
  };
  EXPECT_FALSE(refused([](u8s&) {}));
  EXPECT_TRUE(refused([](u8s& b) { b[4] = 0x05; }));  // group 2 of two
  EXPECT_TRUE(refused([](u8s& b) { b[7] = 0x80; }));
  EXPECT_TRUE(refused([](u8s& b) { b[8] = 0x0f, b[9] = 0; }));       // group 1 is zero
  EXPECT_TRUE(refused([](u8s& b) { b[8] = 0, b[9] = 0x0f; }));       // group 0
  EXPECT_TRUE(refused([](u8s& b) { b[10] = 0x03, b[11] = 0x00; }));  // byte 2 of group 0
  EXPECT_TRUE(refused([](u8s& b) { b[13] = 0x00, b[12] = 0x03; }));
  EXPECT_TRUE(refused([](u8s& b) { b[9] = 0x21; }));   // byte 5 of group 1, of whose values there are 36
  EXPECT_FALSE(refused([](u8s& b) { b[8] = 0x09; }));  // byte 3 of group 0 instead, just as good

  // Padding.
  std::vector<uint32_t> values(40);
  values[5] = 1;
  const u8s encoded = encode<rle<uint32_t>>(values);
  ASSERT_EQ(encoded, (u8s{0, 0, 0, 0, 1, 0, 0, 0, 0x01, 0x20, 0, 0, 1, 0, 0, 0}));
  for (const size_t at : {10u, 11u})
    EXPECT_EQ(changed<rle<uint32_t>>(encoded, 40, [&](u8s& b) { b[at] = 1; }), status::bad_payload);
}

TEST(rle, bits_past_the_end_are_refused) {
  std::vector<uint32_t> values(100);
  values[99] = 1;
  const u8s encoded = encode<rle<uint32_t>>(values);
  ASSERT_EQ(encoded, (u8s{0, 0, 0, 0, 2, 0, 0, 0, 0x10, 0x08, 0, 0, 1, 0, 0, 0}));
  for (int bit = 0; bit < 8; ++bit) {
    const auto move = [&](u8s& b) { b[9] = static_cast<uint8_t>(1 << bit); };
    EXPECT_EQ(changed<rle<uint32_t>>(encoded, 100, move), bit < 4 ? status::ok : status::bad_payload);
  }
  EXPECT_EQ(changed<rle<uint32_t>>(encoded, 100, [](u8s& b) { b[8] = 0x20; }), status::bad_payload);
}

TEST(rle, as_many_bytes_as_the_values_are_refused) {
  // All right but for the size: 12 bytes of mask and one value for three.
  const u8s bytes{0, 0, 0, 0, 1, 0, 0, 0, 0x01, 0x04, 0, 0, 1, 0, 0, 0};
  for (const uint64_t count : {3u, 4u, 5u})
    EXPECT_EQ(changed<rle<uint32_t>>(bytes, count, [](u8s&) {}), count == 5 ? status::ok : status::bad_payload);
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
