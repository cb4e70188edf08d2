// Integer arithmetic against C++.
#include <limits>

#include "forms.hpp"

namespace {
using namespace proof;

using wide = __int128;
template <class T> std::string type_of() { return (std::is_signed_v<T> ? "s" : "u") + std::to_string(sizeof(T) * 8); }
// Wraps around, as PTX does.
template <class T> T low(wide v) { return static_cast<T>(v); }
template <class T> T high(T a, T b) {
  if constexpr (std::is_same_v<T, uint64_t>)
    return static_cast<T>((static_cast<unsigned __int128>(a) * b) >> 64);
  else
    return static_cast<T>((wide{a} * b) >> (sizeof(T) * 8));
}
template <class T> T product(T a, T b) {
  return static_cast<T>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
}
template <class T> struct Integers : testing::Test {};
using all_types = testing::Types<uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t>;
TYPED_TEST_SUITE(Integers, all_types);

TYPED_TEST(Integers, AddSubtractMultiply) {
  using T = TypeParam;
  const std::string t = type_of<T>();
  form("add." + t + " %d, %a, %b;", [](T a, T b) { return low<T>(wide{a} + b); });
  form("sub." + t + " %d, %a, %b;", [](T a, T b) { return low<T>(wide{a} - b); });
  form("add." + t + " %d, %a, -7;", [](T a) { return low<T>(wide{a} - 7); });
  form("sub." + t + " %d, 5, %a;", [](T a) { return low<T>(5 - wide{a}); });
  form("mul.lo." + t + " %d, %a, %b;", [](T a, T b) { return product(a, b); });
  form("mul.hi." + t + " %d, %a, %b;", [](T a, T b) { return high(a, b); });
  form("mad.lo." + t + " %d, %a, %b, %c;", [](T a, T b, T c) { return low<T>(wide{product(a, b)} + c); });
  form("mad.hi." + t + " %d, %a, %b, %c;", [](T a, T b, T c) { return low<T>(wide{high(a, b)} + c); });
  if constexpr (sizeof(T) < 8) {
    using D = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                                 std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
    form("mul.wide." + t + " %d, %a, %b;", [](T a, T b) { return low<D>(wide{a} * b); });
    form("mul.wide." + t + " %d, %a, 3;", [](T a) { return low<D>(wide{a} * 3); });
    form("mad.wide." + t + " %d, %a, %b, %c;", [](T a, T b, D c) { return low<D>(wide{a} * b + c); });
  }
}

TYPED_TEST(Integers, DivideAndCompare) {
  using T = TypeParam;
  const std::string t = type_of<T>();
  const auto open = [](T a, T b) { return std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == T(-1); };
  form("div." + t + " %d, %a, %b;", [&](T a, nonzero<T> b) {
    return open(a, b.value) ? std::nullopt : std::optional<T>(low<T>(wide{a} / b.value));
  });
  form("rem." + t + " %d, %a, %b;", [&](T a, nonzero<T> b) {
    return open(a, b.value) ? std::nullopt : std::optional<T>(low<T>(wide{a} % b.value));
  });
  form("min." + t + " %d, %a, %b;", [](T a, T b) { return a < b ? a : b; });
  form("max." + t + " %d, %a, %b;", [](T a, T b) { return a > b ? a : b; });
  form("sad." + t + " %d, %a, %b, %c;",
       [](T a, T b, T c) { return low<T>(wide{c} + (a < b ? wide{b} - a : wide{a} - b)); });
  if constexpr (std::is_signed_v<T>) {
    form("neg." + t + " %d, %a;", [](T a) { return low<T>(-wide{a}); });
    form("abs." + t + " %d, %a;", [](T a) { return low<T>(a < 0 ? -wide{a} : wide{a}); });
  }
}

template <class T> void pairs(const std::string& t) {
  const auto each = [](uint32_t a, uint32_t b, const auto& of) {
    const auto half = [&](int at) {
      return uint32_t{static_cast<uint16_t>(of(static_cast<T>(a >> at), static_cast<T>(b >> at)))};
    };
    return half(16) << 16 | half(0);
  };
  using u = uint32_t;
  form("min." + t + " %d, %a, %b;", [=](u a, u b) { return each(a, b, [](T x, T y) { return std::min(x, y); }); });
  form("max." + t + " %d, %a, %b;", [=](u a, u b) { return each(a, b, [](T x, T y) { return std::max(x, y); }); });
  form("add." + t + " %d, %a, %b;", [=](u a, u b) { return each(a, b, [](T x, T y) { return x + y; }); });
}
TEST(Integers, Pairs) {
  pairs<int16_t>("s16x2");
  pairs<uint16_t>("u16x2");
}

template <class A, class B> uint32_t dot4(uint32_t a, uint32_t b, uint32_t c) {
  for (int k = 0; k < 32; k += 8) c += static_cast<uint32_t>(int{static_cast<A>(a >> k)} * int{static_cast<B>(b >> k)});
  return c;
}
TEST(Integers, DotProducts) {
  using u = uint32_t;
  form("dp4a.u32.u32 %d, %a, %b, %c;", [](u a, u b, u c) { return dot4<uint8_t, uint8_t>(a, b, c); });
  form("dp4a.u32.s32 %d, %a, %b, %c;", [](u a, u b, u c) { return dot4<uint8_t, int8_t>(a, b, c); });
  form("dp4a.s32.u32 %d, %a, %b, %c;", [](u a, u b, u c) { return dot4<int8_t, uint8_t>(a, b, c); });
  form("dp4a.s32.s32 %d, %a, %b, %c;", [](u a, u b, u c) { return dot4<int8_t, int8_t>(a, b, c); });
}

}  // namespace
