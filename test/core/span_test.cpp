#include <tuck/core/span.hpp>

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

namespace {

TEST(span, converts_from_what_is_contiguous) {
  std::vector<int> v{1, 2, 3};
  const std::array<int, 2> a{4, 5};
  tuck::span<int> from_vector = v;
  tuck::span<const int> from_array = a;
  tuck::span<const int> from_std = std::span<int>(v);
  tuck::span<const int> from_span = from_vector;
  EXPECT_EQ(from_vector.size() + from_array.size() + from_std.size() + from_span.size(), 11u);
  EXPECT_EQ(from_span.data(), v.data());
}

TEST(span, does_not_drop_const_or_change_the_type) {
  static_assert(!std::is_convertible_v<tuck::span<const int>, tuck::span<int>>);
  static_assert(!std::is_convertible_v<const std::vector<int>&, tuck::span<int>>);
  static_assert(!std::is_convertible_v<std::vector<int>&, tuck::span<const long>>);
  static_assert(std::is_trivially_copyable_v<tuck::span<int>>);
}

TEST(span, parts_and_bytes) {
  std::vector<uint16_t> v{1, 2, 3, 4};
  const tuck::span<uint16_t> s = v;
  EXPECT_EQ(s.subspan(1, 2)[1], 3);
  EXPECT_EQ(s.subspan(3).size(), 1u);
  EXPECT_EQ(tuck::as_bytes(s).size(), 8u);
  EXPECT_EQ(static_cast<int>(tuck::as_writable_bytes(s)[2]), 2);
  EXPECT_TRUE(tuck::span<int>().empty());
}

}  // namespace
