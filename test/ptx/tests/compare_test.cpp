// Comparisons, selections, moves between scalars and vectors, literals.
#include <cmath>

#include "rounding.hpp"

namespace {
using namespace proof;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;

template <class T> bool holds(const std::string& c, T a, T b) {
  const bool unordered = a != a || b != b;
  if (c == "num" || c == "nan") return unordered == (c == "nan");
  if (c == "eq") return !unordered && a == b;
  if (c == "ne") return !unordered && a != b;
  if (c.size() == 3 && unordered) return true;
  const std::string o = c.substr(0, 2);
  if (o == "eq") return a == b;
  if (o == "ne") return a != b;
  if (o == "lt" || o == "lo") return a < b;
  if (o == "le" || o == "ls") return a <= b;
  if (o == "gt" || o == "hi") return a > b;
  return a >= b;
}

template <class T> void comparisons(const std::string& t, const std::vector<std::string>& all) {
  for (const std::string& c : all) {
    const std::string start = "setp." + c;
    form(start + "." + t + " %d, %a, %b;", [=](T a, T b) { return holds(c, a, b); });
    form(start + ".and." + t + " %d, %a, %b, %c;", [=](T a, T b, bool p) { return holds(c, a, b) && p; });
  }
  const std::string c = all.back();
  const auto second = [&](const std::string& op, const std::string& p) {
    return "{ .reg .pred %x; setp." + c + "." + op + "." + t + " %x|%d, %a, %b, " + p + "; }";
  };
  form("setp." + c + ".or." + t + " %d, %a, %b, %c;", [=](T a, T b, bool p) { return holds(c, a, b) || p; });
  form("setp." + c + ".xor." + t + " %d, %a, %b, !%c;", [=](T a, T b, bool p) { return holds(c, a, b) != !p; });
  form(second("and", "%c"), [=](T a, T b, bool p) { return !holds(c, a, b) && p; });
  form(second("or", "!%c"), [=](T a, T b, bool p) { return !holds(c, a, b) || !p; });
  form(second("xor", "%c"), [=](T a, T b, bool p) { return !holds(c, a, b) != p; });
  form("{ .reg .pred %x; setp." + c + "." + t + " %x|%d, %a, %b; }", [=](T a, T b) { return !holds(c, a, b); });
  form("{ .reg .pred %x; setp." + c + "." + t + " %d|%x, %a, %b; }", [=](T a, T b) { return holds(c, a, b); });
}
TEST(Compare, Setp) {
  const std::vector<std::string> bits = {"eq", "ne"}, ordered = {"eq", "ne", "lt", "le", "gt", "ge"},
                                 plain = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"};
  const std::vector<std::string> floats = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                           "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  comparisons<u16>("b16", bits);
  comparisons<u32>("b32", bits);
  comparisons<u64>("b64", bits);
  comparisons<u16>("u16", plain);
  comparisons<u32>("u32", plain);
  comparisons<u64>("u64", plain);
  comparisons<int16_t>("s16", ordered);
  comparisons<int32_t>("s32", ordered);
  comparisons<int64_t>("s64", ordered);
  comparisons<float>("f32", floats);
  comparisons<double>("f64", floats);
  form("setp.lt.ftz.f32 %d, %a, %b;", [](float a, float b) { return flushed(a) < flushed(b); });
  form("setp.equ.ftz.f32 %d, %a, %b;", [](float a, float b) { return holds("equ", flushed(a), flushed(b)); });
  form("setp.lt.s32 %d, %a, -5;", [](int32_t a) { return a < -5; });
  form("setp.gt.u32 %d, %a, -5;", [](u32 a) { return a > 0xfffffffb; });
  form("setp.gt.u16 %d, %a, -5;", [](u16 a) { return a > 0xfffb; });
  form("setp.lt.s16 %d, %a, -5;", [](int16_t a) { return a < -5; });
  form("setp.gt.s64 %d, %a, -5;", [](int64_t a) { return a > -5; });
}

TEST(Compare, Selections) {
  for (const std::string t : {"b16", "u16", "s16"})
    form("selp." + t + " %d, %a, %b, %c;", [](u16 a, u16 b, bool c) { return c ? a : b; });
  for (const std::string t : {"b32", "u32", "s32"})
    form("selp." + t + " %d, %a, %b, %c;", [](u32 a, u32 b, bool c) { return c ? a : b; });
  for (const std::string t : {"b64", "u64", "s64", "f64"})
    form("selp." + t + " %d, %a, %b, %c;", [](u64 a, u64 b, bool c) { return c ? a : b; });
  form("selp.f32 %d, %a, %b, %c;", [](u32 a, u32 b, bool c) { return c ? a : b; });
  form("selp.b32 %d, -3, 0x10, %a;", [](bool c) { return c ? -3 : 16; });
  form("{ .reg .pred %q; mov.pred %q, %a; @%q mov.b32 %d, 1; @!%q mov.b32 %d, 2; }", [](bool a) { return a ? 1 : 2; });
}

TEST(Compare, MovesPackAndUnpack) {
  form("mov.b16 %d, %a;", [](u16 a) { return a; });
  form("mov.f32 %d, %a;", [](u32 a) { return a; });
  form("mov.f64 %d, %a;", [](u64 a) { return a; });
  form("mov.b32 %d, {%a, %b};", [](u16 a, u16 b) { return a | u32{b} << 16; });
  form("mov.b64 %d, {%a, %b};", [](u32 a, u32 b) { return a | u64{b} << 32; });
  form("mov.b64 %d, {%a, %b, %c, %a};",
       [](u16 a, u16 b, u16 c) { return a | u64{b} << 16 | u64{c} << 32 | u64{a} << 48; });
  for (int k = 0; k < 2; ++k) {
    const std::string to = k ? "{_, %d}" : "{%d, _}";
    form("mov.b32 " + to + ", %a;", [=](u32 a) { return static_cast<u16>(a >> k * 16); });
    form("mov.b64 " + to + ", %a;", [=](u64 a) { return static_cast<u32>(a >> k * 32); });
  }
  form("{ .reg .b32 %x, %y; mov.b64 {%x, %y}, %a; sub.u32 %d, %y, %x; }",
       [](u64 a) { return static_cast<u32>((a >> 32) - a); });
  form(
      "{ .reg .b16 %x, %y, %z, %w; mov.b64 {%x, %y, %z, %w}, %a; xor.b16 %x, %x, %w; sub.u16 %y, %y, %z;\n"
      "mov.b32 %d, {%x, %y}; }",
      [](u64 a) { return u32{static_cast<u16>(a ^ a >> 48)} | u32{static_cast<u16>((a >> 16) - (a >> 32))} << 16; });
  form("{ .reg .b32 %x, %y; mov.b64 {%x, %y}, %a; mov.b64 %d, {%y, %x}; }", [](u64 a) { return a << 32 | a >> 32; });
  form("{ .reg .b32 %x; mov.b32 %x, %a; mov.b32 %x, %b; mov.b32 %d, %x; }", [](u32, u32 b) { return b; });
}

TEST(Compare, Literals) {
  const auto literal = [](const std::string& text, u64 v) {
    form("mov.b64 %d, " + text + ";", [=]() { return v; });
    form("{ .reg .b64 %x; mov.b64 %x, 0; add.u64 %d, %x, " + text + "; }", [=]() { return v; });
  };
  literal("0", 0);
  literal("18446744073709551615", ~u64{0});
  literal("0xFFFFFFFFFFFFFFFF", ~u64{0});
  literal("0x123456789abcdef0", 0x123456789abcdef0);
  literal("0x80000000U", 0x80000000);
  literal("0777", 0777);
  literal("01000000000000000000000", 01000000000000000000000);
  literal("0b1011", 11);
  literal("-1", ~u64{0});
  literal("-9223372036854775808", u64{1} << 63);
  literal("-2147483649", static_cast<u64>(-2147483649ll));
  literal("4294967296", 4294967296);
  const auto narrow = [](const std::string& text, u32 v) { form("mov.b32 %d, " + text + ";", [=]() { return v; }); };
  narrow("-1", ~0u);
  narrow("0xffffffff", ~0u);
  narrow("037777777777", ~0u);
  narrow("0f3F800000", 0x3f800000);
  narrow("0F7fc00000", 0x7fc00000);
  form("mov.b16 %d, -2;", []() { return static_cast<u16>(-2); });
  form("mov.u16 %d, 0xffff;", []() { return static_cast<u16>(0xffff); });
  form("mov.f64 %d, 0d4008000000000000;", []() { return 3.0; });
  form("mov.f64 %d, 0DFFF0000000000000;", []() { return -std::numeric_limits<double>::infinity(); });
  form("mov.f32 %d, 0f80000000;", []() { return u32{0x80000000}; });
}

}  // namespace
