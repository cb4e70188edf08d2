// Conversions: between integers, floats, and both.
#include "rounding.hpp"

namespace {
using namespace proof;

template <class T> std::string name_of() {
  if (std::is_floating_point_v<T>) return "f" + std::to_string(sizeof(T) * 8);
  return (std::is_signed_v<T> ? "s" : "u") + std::to_string(sizeof(T) * 8);
}
// The register for a T: of 32 bits where that is enough, so that narrow results must be extended.
template <class T> using in_register = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <class T>
using extended = std::conditional_t<sizeof(T) == 8, T, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>;

template <class F> void for_integers(F f) {
  f(uint8_t{}), f(int8_t{}), f(uint16_t{}), f(int16_t{});
  f(uint32_t{}), f(int32_t{}), f(uint64_t{}), f(int64_t{});
}

TEST(Convert, Integers) {
  for_integers([](auto to) {
    for_integers([to](auto from) {
      using D = decltype(to);
      using S = decltype(from);
      const std::string types = name_of<D>() + "." + name_of<S>() + " %d, %a;";
      form("cvt." + types, [](in_register<S> a) { return extended<D>{static_cast<D>(static_cast<S>(a))}; });
      form("cvt.sat." + types, [](in_register<S> a) {
        using limits = std::numeric_limits<D>;
        const __int128 v = static_cast<S>(a);
        return extended<D>{v < limits::min() ? limits::min() : v > limits::max() ? limits::max() : static_cast<D>(v)};
      });
    });
  });
}

TEST(Convert, NarrowRegisters) {
  form("cvt.u16.u8 %d, %a;", [](uint16_t a) { return static_cast<uint16_t>(a & 255); });
  form("cvt.s16.s8 %d, %a;", [](uint16_t a) { return static_cast<int16_t>(static_cast<int8_t>(a)); });
  form("cvt.s8.s64 %d, %a;", [](uint64_t a) { return static_cast<int64_t>(static_cast<int8_t>(a)); });
  form("cvt.u8.u64 %d, %a;", [](uint64_t a) { return a & 255; });
  form("cvt.u16.u16 %d, %a;", [](uint64_t a) { return static_cast<uint32_t>(a & 0xffff); });
}

template <class F> void to_integers(const std::string& from) {
  for (const mode& m : modes)
    for_integers([&](auto to) {
      using D = decltype(to);
      const bool from_double = from == "f64";
      form(std::string("cvt.") + m.to_integer + "." + name_of<D>() + "." + from + " %d, %a;",
           [=](F a) { return extended<D>{to_integer<D>(value(a), m, from_double)}; });
    });
}
TEST(Convert, FloatsToIntegers) {
  to_integers<half>("f16");
  to_integers<float>("f32");
  to_integers<double>("f64");
  form("cvt.rpi.ftz.s32.f32 %d, %a;", [](float a) { return to_integer<int32_t>(flushed(a), modes[3], false); });
  form("cvt.rzi.sat.u8.f32 %d, %a;", [](float a) { return uint32_t{to_integer<uint8_t>(a, modes[1], false)}; });
}

TEST(Convert, IntegersToFloats) {
  for (const mode& m : modes)
    for_integers([&](auto from) {
      using S = decltype(from);
      const std::string start = std::string("cvt.") + m.name, end = "." + name_of<S>() + " %d, %a;";
      const auto single = under<long double>(m, [](long double v) { return static_cast<float>(v); });
      const auto twice = under<long double>(m, [](long double v) { return static_cast<double>(v); });
      form(start + ".f32" + end, [=](in_register<S> a) { return single(static_cast<S>(a)); });
      form(start + ".f64" + end, [=](in_register<S> a) { return twice(static_cast<S>(a)); });
      form(start + ".f16" + end, [=](in_register<S> a) { return half{narrow(static_cast<S>(a), 10, m)}; });
      form(start + ".bf16" + end, [=](in_register<S> a) { return bfloat{narrow(static_cast<S>(a), 7, m)}; });
    });
}

TEST(Convert, WideIntegersAreRoundedOnce) {  // next to the middle of two floats, by less than a double knows
  const auto converted = [](const std::string& type, uint64_t v) {
    return outputs("mov.u64 %rd1, " + std::to_string(v) + "; cvt.rn.bf16." + type +
                   " %h1, %rd1; cvt.u32.u16 %r1, %h1; st.global.u32 [%at], %r1;")[0];
  };
  EXPECT_EQ(converted("u64", 0x8080000000000001), 0x5f01u);
  EXPECT_EQ(converted("u64", 0x1010000000000001), 0x5d81u);
  EXPECT_EQ(converted("u64", 0x817fffffffffffff), 0x5f01u);
  EXPECT_EQ(converted("u64", 0x8180000000000000), 0x5f02u);  // the middle itself: to even
  EXPECT_EQ(converted("s64", 0 - 0x4040000000000001), 0xde81u);
  EXPECT_EQ(converted("s64", 0 - 0x4040000000000000), 0xde80u);
}

TEST(Convert, NumbersBecomeTheTypeOfTheirUse) {
  const auto bits = [](const std::string& body) { return outputs<uint64_t>(body + " st.global.u64 [%at], %rd1;")[0]; };
  EXPECT_EQ(bits("mov.f32 %r1, 0d3FF0000000000000; add.f32 %r1, %r1, 0d4000000000000000; mov.b64 %rd1, {%r1, 0};"),
            0x40400000u);
  EXPECT_EQ(bits("mov.f32 %r1, 0d3FB999999999999A; mov.b64 %rd1, {%r1, 0};"), 0x3dcccccdu);  // rounded to nearest
  EXPECT_EQ(bits("mov.f64 %rd1, 0f3F800000; add.f64 %rd1, %rd1, 0f40000000;"), 0x4008000000000000u);
  EXPECT_EQ(bits("mov.b64 %rd1, 0d3FF0000000000000;"), 0x3ff0000000000000u);
  EXPECT_EQ(bits("mov.b32 %r1, 0f3F800000; mov.b64 %rd1, {%r1, 0};"), 0x3f800000u);
}

TEST(Convert, IntegersToSaturatedFloats) {
  form("cvt.rn.sat.f32.s32 %d, %a;", [](int32_t a) { return clamped(static_cast<float>(a)); });
  form("cvt.rz.sat.f64.u64 %d, %a;", [](uint64_t a) { return a ? 1.0 : 0.0; });
  form("cvt.rn.sat.f16.s32 %d, %a;",
       [](int32_t a) { return half{narrow(clamped(static_cast<double>(a)), 10, modes[0])}; });
}

TEST(Convert, BetweenFloats) {
  for (const mode& m : modes) {
    const std::string start = std::string("cvt.") + m.name, integral = std::string("cvt.") + m.to_integer;
    const auto to_float = under<double>(m, [](double a) { return static_cast<float>(a); });
    const auto whole = under<long double>(m, [](long double a) { return std::nearbyint(a); });
    form(start + ".f32.f64 %d, %a;", to_float);
    form(start + ".ftz.f32.f64 %d, %a;", [=](double a) { return flushed_result(to_float(a)); });
    form(start + ".sat.f32.f64 %d, %a;", [=](double a) { return clamped(to_float(a)); });
    form(start + ".f16.f32 %d, %a;", [=](float a) { return half{narrow(a, 10, m)}; });
    form(start + ".f16.f64 %d, %a;", [=](double a) { return half{narrow(a, 10, m)}; });
    form(integral + ".f32.f32 %d, %a;", [=](float a) { return static_cast<float>(whole(a)); });
    form(integral + ".ftz.f32.f32 %d, %a;", [=](float a) { return static_cast<float>(whole(flushed(a))); });
    form(integral + ".f64.f64 %d, %a;", [=](double a) { return static_cast<double>(whole(a)); });
    form(integral + ".f16.f16 %d, %a;", [=](half a) { return half{narrow(whole(value(a)), 10, m)}; });
  }
  form("cvt.f64.f32 %d, %a;", [](float a) { return double{a}; });
  form("cvt.ftz.f64.f32 %d, %a;", [](float a) { return double{flushed(a)}; });
  form("cvt.f32.f16 %d, %a;", [](half a) { return static_cast<float>(value(a)); });
  form("cvt.f64.f16 %d, %a;", [](half a) { return static_cast<double>(value(a)); });
  form("cvt.f32.bf16 %d, %a;", [](bfloat a) { return static_cast<float>(value(a)); });
  form("cvt.sat.f32.f32 %d, %a;", [](float a) { return clamped(a); });
  form("cvt.ftz.f32.f32 %d, %a;", [](float a) { return flushed(a); });
  form("cvt.sat.f64.f64 %d, %a;", [](double a) { return clamped(a); });
  form("cvt.rn.ftz.f16.f32 %d, %a;", [](float a) { return half{narrow(flushed(a), 10, modes[0])}; });
  form("cvt.rn.sat.f16.f32 %d, %a;", [](float a) { return half{narrow(clamped(a), 10, modes[0])}; });
}

TEST(Convert, BrainFloatsAndPairs) {
  for (const mode& m : {modes[0], modes[1]}) {
    const std::string start = std::string("cvt.") + m.name;
    form(start + ".bf16.f32 %d, %a;", [=](float a) { return bfloat{narrow(a, 7, m)}; });
    form(start + ".f16x2.f32 %d, %a, %b;",
         [=](float a, float b) { return half2{static_cast<uint32_t>(narrow(a, 10, m)) << 16 | narrow(b, 10, m)}; });
    form("{ .reg .b32 %x; " + start + ".bf16x2.f32 %x, %a, %b; mov.b32 {%d, _}, %x; }",
         [=](float, float b) { return bfloat{narrow(b, 7, m)}; });
    form("{ .reg .b32 %x; " + start + ".bf16x2.f32 %x, %a, %b; mov.b32 {_, %d}, %x; }",
         [=](float a, float) { return bfloat{narrow(a, 7, m)}; });
  }
}

}  // namespace
