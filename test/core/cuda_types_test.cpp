// CUDA's own floats have the frames of the library's types, byte for byte.
#include <tuck/core/cuda_types.hpp>
#include <tuck/host.hpp>

#include <gtest/gtest.h>
#include <cstring>
#include <type_traits>
#include <vector>

namespace {

using namespace tuck;

// Values of any bits, a third of them zeros; infinities and NaN are among them.
template <class T> std::vector<T> any_values(size_t count) {
  std::vector<T> values(count);
  uint32_t state = 1;
  for (T& x : values) {
    state = state * 1664525u + 1013904223u;
    const auto bits = static_cast<bits_t<T>>(state % 3 == 0 ? 0 : state >> 12);
    std::memcpy(static_cast<void*>(&x), &bits, sizeof x);
  }
  return values;
}
template <class To, class From> std::vector<To> as(const std::vector<From>& values) {
  static_assert(sizeof(To) == sizeof(From));
  std::vector<To> same(values.size());
  std::memcpy(same.data(), values.data(), values.size() * sizeof(To));
  return same;
}

template <class A, class B, class T> void same_frames(const A& theirs, const B& ours, const std::vector<T>& values) {
  using U = value_t<B>;
  static_assert(std::is_same_v<value_t<A>, T> && dtype_of<T> == dtype_of<U>);
  std::vector<std::byte> frame(max_frame_bytes(theirs, values.size())), expected(frame.size());
  const outcome written = host::encode(theirs, values, frame), reference = host::encode(ours, as<U>(values), expected);
  ASSERT_TRUE(written) << message(written.code);
  ASSERT_EQ(written.bytes, reference.bytes);
  frame.resize(written.bytes);
  expected.resize(written.bytes);
  EXPECT_EQ(frame, expected);
  frame_header header;
  ASSERT_EQ(inspect(frame, header), status::ok);
  EXPECT_EQ(header.type, dtype_of<U>);

  std::vector<T> restored(values.size());
  std::vector<U> restored_ours(values.size());
  EXPECT_TRUE(host::decode(theirs, frame, restored));
  EXPECT_TRUE(host::decode(ours, frame, restored_ours));
  EXPECT_EQ(0, std::memcmp(restored.data(), restored_ours.data(), values.size() * sizeof(T)));
  const bytes back(reinterpret_cast<std::byte*>(restored.data()), values.size() * sizeof(T));
  EXPECT_TRUE(host::decode(codec_list<A>{}, frame, back));
  if constexpr (!is_lossy<A>) {
    EXPECT_EQ(0, std::memcmp(restored.data(), values.data(), values.size() * sizeof(T)));
  }
}

template <class T, class U> void same_lossless() {
  const auto values = any_values<T>(20000);
  same_frames(zvc<T>{}, zvc<U>{}, values);
  same_frames(codebooks<T>{}, codebooks<U>{}, values);
}
template <class T, class U> void same_lossy() {
  const auto values = any_values<T>(20000);
  for (const auto bound :
       {error_bound::absolute(0.01), error_bound::range_relative(1e-3), error_bound::pointwise(0.05)})
    same_frames(quantize<T>(bound), quantize<U>(bound), values);
}

TEST(cuda_types, half_is_f16) {
  same_lossless<__half, f16>();
  same_lossy<__half, f16>();
  same_frames(zvc_rle_huffman<__half>{}, zvc_rle_huffman<f16>{}, any_values<__half>(20000));
}
TEST(cuda_types, bfloat16_is_bf16) {
  same_lossless<__nv_bfloat16, bf16>();
  same_lossy<__nv_bfloat16, bf16>();
}
TEST(cuda_types, fp8_are_f8) {
  same_lossless<__nv_fp8_e4m3, f8e4m3>();
  same_lossless<__nv_fp8_e5m2, f8e5m2>();
}

// Their bits are those of the same numbers.
TEST(cuda_types, numbers_have_the_same_bits) {
  for (const float x : {0.f, -1.f, 0.1f, 3.14159f, -65000.f, 1e-6f, 448.f}) {
    EXPECT_EQ(bits_of(__float2half_rn(x)), float_format<f16>::narrow(x)) << x;
    EXPECT_EQ(bits_of(__float2bfloat16_rn(x)), float_format<bf16>::narrow(x)) << x;
    if (x == -65000.f) continue;  // CUDA's saturate
    EXPECT_EQ(bits_of(__nv_fp8_e4m3(x)), float_format<f8e4m3>::narrow(x)) << x;
    EXPECT_EQ(bits_of(__nv_fp8_e5m2(x)), float_format<f8e5m2>::narrow(x)) << x;
  }
  EXPECT_EQ(float_format<__half>::widen(bits_of(__float2half_rn(0.1f))), __half2float(__float2half_rn(0.1f)));
}

}  // namespace
