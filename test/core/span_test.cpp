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

// As Thrust has them: neither pointers nor containers of such.
struct fancy_pointer {
  int* p;
  int* get() const { return p; }
};
struct fancy_vector {
  std::vector<int>* v;
  fancy_pointer data() const { return {v->data()}; }
  size_t size() const { return v->size(); }
};

TEST(span, converts_from_what_stands_for_pointers) {
  std::vector<int> v{1, 2, 3};
  const tuck::span<int> from_container = fancy_vector{&v};
  const tuck::span<const int> from_pointer(fancy_pointer{v.data() + 1}, 2);
  EXPECT_EQ(from_container.data(), v.data());
  EXPECT_EQ(from_container.size(), 3u);
  EXPECT_EQ(from_pointer.data(), v.data() + 1);
  static_assert(!std::is_constructible_v<tuck::span<long>, fancy_pointer, size_t>);
  static_assert(!std::is_convertible_v<fancy_vector, tuck::span<const long>>);
}

TEST(span, converts_to_std_span) {
  std::vector<int> v{1, 2, 3};
  const std::span<int> same = tuck::span<int>(v);
  const std::span<const int> to_const = tuck::span<int>(v);
  EXPECT_EQ(same.data(), v.data());
  EXPECT_EQ(to_const.size(), 3u);
  static_assert(!std::is_convertible_v<tuck::span<const int>, std::span<int>>);
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
