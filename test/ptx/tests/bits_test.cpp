// Logic, shifts, fields and permutations against C++.
#include <bit>

#include "forms.hpp"

namespace {
using namespace proof;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;

template <class T> void logic(const std::string& b) {
  form("and." + b + " %d, %a, %b;", [](T a, T b) { return static_cast<T>(a & b); });
  form("or." + b + " %d, %a, %b;", [](T a, T b) { return static_cast<T>(a | b); });
  form("xor." + b + " %d, %a, %b;", [](T a, T b) { return static_cast<T>(a ^ b); });
  form("not." + b + " %d, %a;", [](T a) { return static_cast<T>(std::is_same_v<T, bool> ? !a : ~u64{a}); });
}
TEST(Bits, Logic) {
  logic<bool>("pred");
  logic<u16>("b16");
  logic<u32>("b32");
  logic<u64>("b64");
  form("and.b16 %d, %a, -256;", [](u16 a) { return static_cast<u16>(a & 0xff00); });
}

template <class T> T left(T a, shift n) { return n.n >= sizeof(T) * 8 ? T{0} : static_cast<T>(a << n.n); }
template <class T> T right(T a, shift n) {
  const u32 most = sizeof(T) * 8;
  if (n.n >= most) return a < T{0} ? static_cast<T>(-1) : T{0};
  return static_cast<T>(a >> n.n);
}
TEST(Bits, Shifts) {
  form("shl.b16 %d, %a, %b;", [](u16 a, shift n) { return left(a, n); });
  form("shl.b32 %d, %a, %b;", [](u32 a, shift n) { return left(a, n); });
  form("shl.b64 %d, %a, %b;", [](u64 a, shift n) { return left(a, n); });
  for (const std::string t : {"b", "u"}) {
    form("shr." + t + "16 %d, %a, %b;", [](u16 a, shift n) { return right(a, n); });
    form("shr." + t + "32 %d, %a, %b;", [](u32 a, shift n) { return right(a, n); });
    form("shr." + t + "64 %d, %a, %b;", [](u64 a, shift n) { return right(a, n); });
  }
  form("shr.s16 %d, %a, %b;", [](int16_t a, shift n) { return right(a, n); });
  form("shr.s32 %d, %a, %b;", [](int32_t a, shift n) { return right(a, n); });
  form("shr.s64 %d, %a, %b;", [](int64_t a, shift n) { return right(a, n); });
  form("shl.b32 %d, %a, 32;", [](u32) { return u32{0}; });
  form("shl.b64 %d, 1, %a;", [](shift n) { return left(u64{1}, n); });
}

// shf: a has the low word, b the high one.
u32 funnel(u32 a, u32 b, u32 n, bool to_left, bool wrap) {
  n = wrap ? n & 31 : std::min(n, u32{32});
  const unsigned __int128 both = u64{b} << 32 | a;
  return static_cast<u32>(to_left ? (both << n) >> 32 : both >> n);
}
TEST(Bits, FunnelShifts) {
  form("shf.l.wrap.b32 %d, %a, %b, %c;", [](u32 a, u32 b, shift c) { return funnel(a, b, c.n, true, true); });
  form("shf.l.clamp.b32 %d, %a, %b, %c;", [](u32 a, u32 b, shift c) { return funnel(a, b, c.n, true, false); });
  form("shf.r.wrap.b32 %d, %a, %b, %c;", [](u32 a, u32 b, shift c) { return funnel(a, b, c.n, false, true); });
  form("shf.r.clamp.b32 %d, %a, %b, %c;", [](u32 a, u32 b, shift c) { return funnel(a, b, c.n, false, false); });
  for (const u32 n : {0, 1, 31, 32, 33}) {
    const std::string end = ".b32 %d, %a, %b, " + std::to_string(n) + ";";
    form("shf.l.wrap" + end, [=](u32 a, u32 b) { return funnel(a, b, n, true, true); });
    form("shf.r.clamp" + end, [=](u32 a, u32 b) { return funnel(a, b, n, false, false); });
  }
}

// Bit by bit, as the manual's pseudo code.
template <class T> T extract(T a, u32 b, u32 c) {
  const u32 pos = b & 0xff, len = c & 0xff, msb = sizeof(T) * 8 - 1;
  const auto bit = [&](u32 n) { return (static_cast<u64>(a) >> n) & 1; };
  const u64 sign = std::is_unsigned_v<T> || len == 0 ? 0 : bit(std::min(pos + len - 1, msb));
  u64 d = 0;
  for (u32 i = 0; i <= msb; ++i) d |= (i < len && pos + i <= msb ? bit(pos + i) : sign) << i;
  return static_cast<T>(d);
}
template <class T> T insert(T a, T b, u32 c, u32 d) {
  const u32 pos = c & 0xff, len = d & 0xff, msb = sizeof(T) * 8 - 1;
  T f = b;
  for (u32 i = 0; i < len && pos + i <= msb; ++i)
    f = static_cast<T>((f & ~(T{1} << (pos + i))) | (((a >> i) & 1) << (pos + i)));
  return f;
}
TEST(Bits, Fields) {
  form("bfe.u32 %d, %a, %b, %c;", [](u32 a, shift b, shift c) { return extract(a, b.n, c.n); });
  form("bfe.s32 %d, %a, %b, %c;", [](int32_t a, shift b, shift c) { return extract(a, b.n, c.n); });
  form("bfe.u64 %d, %a, %b, %c;", [](u64 a, shift b, shift c) { return extract(a, b.n, c.n); });
  form("bfe.s64 %d, %a, %b, %c;", [](int64_t a, shift b, shift c) { return extract(a, b.n, c.n); });
  for (const u32 len : {0, 1, 5, 16, 31, 32, 33, 64, 255}) {
    const std::string n = std::to_string(len) + ";";
    form("bfi.b32 %d, %a, %b, %c, " + n, [=](u32 a, u32 b, shift c) { return insert(a, b, c.n, len); });
    form("bfi.b64 %d, %a, %b, %c, " + n, [=](u64 a, u64 b, shift c) { return insert(a, b, c.n, len); });
  }
  for (const u32 pos : {0, 1, 24, 31, 32, 63, 255}) {
    const std::string n = std::to_string(pos);
    form("bfi.b32 %d, %a, %b, " + n + ", %c;", [=](u32 a, u32 b, shift c) { return insert(a, b, pos, c.n); });
    form("bfi.b64 %d, %a, %b, " + n + ", %c;", [=](u64 a, u64 b, shift c) { return insert(a, b, pos, c.n); });
  }
}

// A selector's nibble: the byte, and whether its sign fills the result's byte.
u32 permute(u32 a, u32 b, const u32 (&nibbles)[4]) {
  const u64 both = u64{b} << 32 | a;
  u32 d = 0;
  for (int k = 0; k < 4; ++k) {
    const auto byte = static_cast<uint8_t>(both >> (nibbles[k] & 7) * 8);
    d |= u32{nibbles[k] & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte} << k * 8;
  }
  return d;
}
TEST(Bits, Permutations) {
  form("prmt.b32 %d, %a, %b, %c;",
       [](u32 a, u32 b, u32 c) { return permute(a, b, {c & 15, c >> 4 & 15, c >> 8 & 15, c >> 12 & 15}); });
  for (const char* s : {"0x3210", "0x7654", "0x5410", "0x8888", "0xba98", "0x4440", "0xfedc", "0x10123"}) {
    const u32 c = static_cast<u32>(std::strtoul(s, nullptr, 0));
    form(std::string("prmt.b32 %d, %a, %b, ") + s + ";",
         [=](u32 a, u32 b) { return permute(a, b, {c & 15, c >> 4 & 15, c >> 8 & 15, c >> 12 & 15}); });
  }
}

TEST(Bits, Lop3) {
  for (int lut = 0; lut < 256; ++lut)
    form("lop3.b32 %d, %a, %b, %c, " + std::to_string(lut) + ";", [=](u32 a, u32 b, u32 c) {
      u32 d = 0;
      for (int k = 0; k < 32; ++k)
        d |= static_cast<u32>(lut >> ((a >> k & 1) * 4 + (b >> k & 1) * 2 + (c >> k & 1)) & 1) << k;
      return d;
    });
}

template <class T, bool amount> u32 find(T a) {
  using U = std::make_unsigned_t<T>;
  const U v = static_cast<U>(a < T{0} ? ~a : a);
  const int bits = sizeof(T) * 8, at = bits - 1 - std::countl_zero(v);
  return at < 0 ? ~0u : static_cast<u32>(amount ? bits - 1 - at : at);
}
template <class T> void finds(const std::string& t) {
  form("bfind." + t + " %d, %a;", [](T a) { return find<T, false>(a); });
  form("bfind.shiftamt." + t + " %d, %a;", [](T a) { return find<T, true>(a); });
}
TEST(Bits, CountsAndFinds) {
  form("popc.b32 %d, %a;", [](u32 a) { return static_cast<u32>(std::popcount(a)); });
  form("popc.b64 %d, %a;", [](u64 a) { return static_cast<u32>(std::popcount(a)); });
  form("clz.b32 %d, %a;", [](u32 a) { return static_cast<u32>(std::countl_zero(a)); });
  form("clz.b64 %d, %a;", [](u64 a) { return static_cast<u32>(std::countl_zero(a)); });
  const auto reversed = [](u64 a, int bits) {
    u64 d = 0;
    for (int k = 0; k < bits; ++k) d |= (a >> k & 1) << (bits - 1 - k);
    return d;
  };
  form("brev.b32 %d, %a;", [=](u32 a) { return static_cast<u32>(reversed(a, 32)); });
  form("brev.b64 %d, %a;", [=](u64 a) { return reversed(a, 64); });
  finds<u32>("u32");
  finds<int32_t>("s32");
  finds<u64>("u64");
  finds<int64_t>("s64");
}

}  // namespace
