#include "support/tensors.hpp"

#include <tuck/codec/mask/zvc.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tuck::test {
namespace {

template <class T> class zvc_size : public ::testing::Test {};
using sizes_1_2_4_8 = ::testing::Types<int8_t, bf16, float, uint32_t, double, int64_t>;
TYPED_TEST_SUITE(zvc_size, sizes_1_2_4_8);

TYPED_TEST(zvc_size, is_the_formula_exactly) {
  const zvc<TypeParam> codec;
  std::vector<std::byte> room(codec.max_chunk_bytes(1'000'013));
  for (const uint32_t count :
       {1u, 31u, 32u, 33u, 4095u, 4096u, 4097u, 3 * 4096u + 7, 16383u, 16384u, 16385u, 1'000'013u})
    for (const double sparsity : {0., .1, .5, .6, .8, .9, .95, .99, 1.})
      for (const pattern how : {pattern::iid, pattern::clustered}) {
        const auto values = sparse_tensor<TypeParam>(count, sparsity, how, count);
        const uint64_t size = 4 * ((count + 31) / 32) + sizeof(TypeParam) * count_non_zeros(values);
        ASSERT_EQ(codec.encode_chunk(values, room), size < count * sizeof(TypeParam) ? size : incompressible);
      }
}

TEST(zvc, bytes_are_masks_then_values) {
  std::vector<uint16_t> values(34);
  values[0] = 0x1111;
  values[5] = 0x2222;
  values[33] = 0x3333;
  std::vector<std::byte> room(zvc<uint16_t>{}.max_chunk_bytes(34));
  ASSERT_EQ(zvc<uint16_t>{}.encode_chunk(values, room), 4 * 2 + 3 * 2u);
  const uint8_t expected[] = {0x21, 0, 0, 0, 0x02, 0, 0, 0, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33};
  EXPECT_EQ(std::memcmp(room.data(), expected, sizeof expected), 0);
}

TEST(zvc, zero_means_all_bits_zero) {
  const float payload = __builtin_bit_cast(float, 0x7fc12345u);
  const std::vector<float> values{0.0f, -0.0f, payload, std::numeric_limits<float>::denorm_min(), INFINITY, 0.0f};
  std::vector<std::byte> room(zvc<float>{}.max_chunk_bytes(6));
  ASSERT_EQ(zvc<float>{}.encode_chunk(values, room), 4 + 4 * 4u);
  EXPECT_EQ(load_unaligned<uint32_t>(room.data()), 0b11110u);
  std::vector<float> restored(6);
  EXPECT_EQ(zvc<float>{}.decode_chunk(const_bytes(room).subspan(0, 20), restored), status::ok);
  EXPECT_TRUE(same_bits(values, restored));
}

TEST(zvc, bits_past_the_end_are_refused) {
  std::vector<uint8_t> values{1, 1, 1, 0, 0, 0, 0, 0, 0};
  std::vector<std::byte> room(zvc<uint8_t>{}.max_chunk_bytes(9));
  ASSERT_EQ(zvc<uint8_t>{}.encode_chunk(values, room), 7u);
  store_unaligned(room.data(), uint32_t{0b10'0000'0011});  // the size fits the mask; the mask does not fit the chunk
  EXPECT_EQ(zvc<uint8_t>{}.decode_chunk(const_bytes(room).subspan(0, 7), values), status::bad_payload);
  store_unaligned(room.data(), uint32_t{0b10'0000'0111});
  EXPECT_EQ(zvc<uint8_t>{}.decode_chunk(const_bytes(room).subspan(0, 8), values), status::bad_payload);
}

// cDMA: the size does not depend on the order of the axes while 32 divides the number of values.
TEST(zvc, axis_orders_give_equal_sizes) {
  constexpr uint32_t n = 4, c = 16, h = 12, w = 10;
  const auto nchw = sparse_tensor<float>(n * c * h * w, .6, pattern::clustered);
  std::vector<float> nhwc(nchw.size()), chwn(nchw.size());
  for (size_t in = 0; in < n; ++in)
    for (size_t ic = 0; ic < c; ++ic)
      for (size_t ih = 0; ih < h; ++ih)
        for (size_t iw = 0; iw < w; ++iw) {
          const float value = nchw[((in * c + ic) * h + ih) * w + iw];
          nhwc[((in * h + ih) * w + iw) * c + ic] = value;
          chwn[((ic * h + ih) * w + iw) * n + in] = value;
        }
  const zvc<float> codec;
  std::vector<std::byte> room(codec.max_chunk_bytes(n * c * h * w));
  const uint32_t size = codec.encode_chunk(nchw, room);
  EXPECT_EQ(codec.encode_chunk(nhwc, room), size);
  EXPECT_EQ(codec.encode_chunk(chwn, room), size);
}

// The ratios that cDMA's formula gives for 32-bit values, 1 / (1/32 + 1 - s).
TEST(zvc, ratios_are_those_of_the_paper) {
  constexpr uint32_t count = 32000;
  std::vector<std::byte> room(zvc<float>{}.max_chunk_bytes(count));
  for (const auto& [sparsity, ratio] :
       {std::pair{.5, 1.882}, {.6, 2.319}, {.8, 4.324}, {.9, 7.619}, {.95, 12.31}, {1., 32.}}) {
    std::vector<float> values(count);
    for (uint32_t i = 0; i < count; ++i) values[i] = i < std::lround(count * (1 - sparsity)) ? 1.f : 0.f;
    const double size = zvc<float>{}.encode_chunk(values, room);
    EXPECT_NEAR(4. * count / size, ratio, ratio * 5e-4);
  }
}

}  // namespace
}  // namespace tuck::test
