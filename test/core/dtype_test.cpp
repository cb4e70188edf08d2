#include <tuck/core/dtype.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace {

TEST(dtype, sizes_and_names_are_those_of_the_types) {
  std::set<std::string> names;
  for (int i = 1; i <= 12; ++i) {
    const auto type = static_cast<tuck::dtype>(i);
    EXPECT_TRUE(tuck::size_of(type) == 1 || tuck::size_of(type) == 2 || tuck::size_of(type) == 4 ||
                tuck::size_of(type) == 8);
    names.insert(tuck::name(type));
  }
  EXPECT_EQ(names.size(), 12u);
  EXPECT_EQ(tuck::size_of(tuck::dtype_of<tuck::bf16>), 2u);
  EXPECT_STREQ(tuck::name(tuck::dtype_of<double>), "f64");
}

TEST(dtype, numbers_are_those_of_the_format) {
  EXPECT_EQ(static_cast<int>(tuck::dtype::u8), 1);
  EXPECT_EQ(static_cast<int>(tuck::dtype::f16), 9);
  EXPECT_EQ(static_cast<int>(tuck::dtype::f32), 11);
  EXPECT_EQ(static_cast<int>(tuck::dtype::f64), 12);
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
