#include <tuck/core/zigzag.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace tuck {
namespace {

template <class Integer> class zigzag_of : public testing::Test {};
using integers = testing::Types<int8_t, int16_t, int32_t, int64_t>;
TYPED_TEST_SUITE(zigzag_of, integers);

TYPED_TEST(zigzag_of, codes_alternate_between_the_signs) {
  using word = std::make_unsigned_t<TypeParam>;
  using limits = std::numeric_limits<TypeParam>;
  struct pair {
    TypeParam integer;
    word code;
  };
  const pair pairs[] = {{0, 0},
                        {-1, 1},
                        {1, 2},
                        {-2, 3},
                        {2, 4},
                        {limits::max(), static_cast<word>(~word{0} - 1)},
                        {limits::min(), static_cast<word>(~word{0})}};
  for (const auto& [integer, code] : pairs) {
    EXPECT_EQ(zigzag(integer), code);
    EXPECT_EQ(zigzag(static_cast<word>(integer)), code);
    EXPECT_EQ(unzigzag(code), static_cast<word>(integer));
  }
}

}  // namespace
}  // namespace tuck
