#include <tuck/core/dtype.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace {

TEST(dtype, sizes_and_names_are_those_of_the_types) {
  std::set<std::string> names;
  for (int i = 1; i <= 14; ++i) {
    const auto type = static_cast<tuck::dtype>(i);
    EXPECT_TRUE(tuck::size_of(type) == 1 || tuck::size_of(type) == 2 || tuck::size_of(type) == 4 ||
                tuck::size_of(type) == 8);
    names.insert(tuck::name(type));
  }
  EXPECT_EQ(names.size(), 14u);
  EXPECT_EQ(tuck::size_of(tuck::dtype_of<tuck::bf16>), 2u);
  EXPECT_STREQ(tuck::name(tuck::dtype_of<double>), "f64");
}

// The type, its number in frames, its name and its bytes.
template <class T> void expect_dtype(tuck::dtype type, int number, const char* name) {
  EXPECT_EQ(tuck::dtype_of<T>, type) << name;
  EXPECT_EQ(static_cast<int>(type), number);
  EXPECT_STREQ(tuck::name(type), name);
  EXPECT_EQ(tuck::size_of(type), sizeof(T)) << name;
}

TEST(dtype, numbers_are_those_of_the_format) {
  using tuck::dtype;
  EXPECT_EQ(static_cast<int>(dtype::none), 0);
  expect_dtype<uint8_t>(dtype::u8, 1, "u8");
  expect_dtype<int8_t>(dtype::i8, 2, "i8");
  expect_dtype<uint16_t>(dtype::u16, 3, "u16");
  expect_dtype<int16_t>(dtype::i16, 4, "i16");
  expect_dtype<uint32_t>(dtype::u32, 5, "u32");
  expect_dtype<int32_t>(dtype::i32, 6, "i32");
  expect_dtype<uint64_t>(dtype::u64, 7, "u64");
  expect_dtype<int64_t>(dtype::i64, 8, "i64");
  expect_dtype<tuck::f16>(dtype::f16, 9, "f16");
  expect_dtype<tuck::bf16>(dtype::bf16, 10, "bf16");
  expect_dtype<float>(dtype::f32, 11, "f32");
  expect_dtype<double>(dtype::f64, 12, "f64");
  expect_dtype<tuck::f8e4m3>(dtype::f8e4m3, 13, "f8e4m3");
  expect_dtype<tuck::f8e5m2>(dtype::f8e5m2, 14, "f8e5m2");
}

TEST(dtype, what_is_no_dtype_has_no_size) {
  EXPECT_EQ(tuck::size_of(tuck::dtype::none), 0u);
  EXPECT_EQ(tuck::size_of(static_cast<tuck::dtype>(200)), 0u);
  EXPECT_STREQ(tuck::name(static_cast<tuck::dtype>(200)), "none");
}

struct not_an_element {
  int x;
};
static_assert(tuck::element<float> && tuck::element<tuck::f16> && tuck::element<int64_t>);
static_assert(!tuck::element<not_an_element> && !tuck::element<bool> && !tuck::element<float*> &&
              !tuck::element<const float>);

}  // namespace
