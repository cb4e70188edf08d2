// Branches and reconvergence, scopes, variables of all spaces, parameters, special registers.
#include <array>

#include "support.hpp"

namespace {
using namespace proof;
using u32 = uint32_t;
using u64 = uint64_t;

// Checks element n of what `body` leaves at %at against f(n), under some seeds.
template <class F> void expect_each(const std::string& body, F f, shape s = {1, 64}, const std::string& before = {}) {
  for (s.seed = 1; s.seed <= 10; ++s.seed) {
    const auto got = outputs(body, s, before);
    for (u32 n = 0; n < got.size(); ++n)
      ASSERT_EQ(got[n], f(n)) << "element " << n << " seed " << s.seed << "\n" << body;
  }
}

TEST(Flow, DivergentBranchesMeetAgain) {
  // After each of the branches the warp is whole again: the ballot has all lanes.
  expect_each(
      "and.b32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 1; @%p1 bra zero; @%p2 bra one;\n"
      "mov.u32 %r2, 30; bra.uni join;\nzero: mov.u32 %r2, 10; bra join;\none: mov.u32 %r2, 20;\n"
      "join: bar.warp.sync -1; vote.sync.ballot.b32 %r3, %p1, -1; add.u32 %r2, %r2, %r3; st.global.u32 [%at], %r2;",
      [](u32 n) {
        return (n % 4 == 0 ? 10 : n % 4 == 1 ? 20 : 30) + 0x11111111u;
      });
}

TEST(Flow, LoopsWithTripCountsOfTheirOwn) {
  expect_each(
      "mov.u32 %r1, 0; mov.u32 %r2, 0; mul.lo.u32 %r3, %t, 7; and.b32 %r3, %r3, 31;\n"
      "outer: setp.ge.u32 %p1, %r1, %r3; @%p1 bra done; mov.u32 %r4, 0;\n"
      "inner: add.u32 %r2, %r2, %r4; add.u32 %r4, %r4, 1; setp.le.u32 %p2, %r4, %r1; @%p2 bra inner;\n"
      "add.u32 %r1, %r1, 1; bra outer;\n"
      "done: bar.warp.sync -1; activemask.b32 %r5; popc.b32 %r5, %r5; mad.lo.u32 %r2, %r2, 100, %r5; st.global.u32 "
      "[%at], %r2;",
      [](u32 n) {
        u32 sum = 0;
        for (u32 i = 0; i < (n * 7 & 31); ++i)
          for (u32 j = 0; j <= i; ++j) sum += j;
        return sum * 100 + 32;
      });
}

TEST(Flow, IndexedBranches) {
  expect_each(
      "rem.u32 %r1, %t, 3; table: .branchtargets a, b, c;\nbrx.idx %r1, table;\n"
      "a: mov.u32 %r2, 5; bra end;\nb: mov.u32 %r2, 6; bra end;\nc: mov.u32 %r2, 7;\nend: st.global.u32 [%at], %r2;",
      [](u32 n) { return 5 + n % 3; });
}

TEST(Flow, PredicatedReturnAndExit) {
  expect_each("setp.lt.u32 %p1, %t, 10; @%p1 ret; setp.gt.u32 %p2, %t, 40; @%p2 exit; st.global.u32 [%at], %t;",
              [](u32 n) { return n < 10 || n > 40 ? 0 : n; });
  expect_each("setp.lt.u32 %p1, %t, 10; @!%p1 bra on; ret;\non: @!%p1 st.global.u32 [%at], 9;",
              [](u32 n) { return n < 10 ? 0 : 9; });
}

TEST(Flow, SpinningLanesDoNotStarveTheirWarp) {  // lanes of a warp make progress on their own
  expect_each(
      ".shared .b32 flag; mov.u32 %r9, flag; setp.eq.u32 %p1, %t, 0; @!%p1 bra begin; st.shared.u32 [%r9], 0;\n"
      "begin: bar.sync 0; setp.eq.u32 %p1, %t, 33; @%p1 bra set;\n"
      "wait: atom.shared.or.b32 %r1, [%r9], 0; setp.eq.u32 %p2, %r1, 0; @%p2 bra wait; bra end;\n"
      "set: atom.shared.exch.b32 %r2, [%r9], 1; mov.u32 %r1, 1;\nend: st.global.u32 [%at], %r1;",
      [](u32) { return 1; });
}

TEST(Flow, Scopes) {  // an inner register hides the outer one, and is gone behind its bracket
  expect_each(
      "{ .reg .b32 %x<3>; .reg .b64 y; mov.u32 %x1, %t; cvt.u64.u32 y, %x1; { .reg .b32 %x<3>; .reg .pred y; mov.u32 "
      "%x1, 99;\n"
      "setp.eq.u32 y, %x1, 99; @y mov.u32 %x2, 5; mov.u32 %r1, %x2; { mov.u32 %x2, 6; } add.u32 %r1, %r1, %x2; }\n"
      "add.u32 %r1, %r1, %x1; cvt.u32.u64 %r2, y; mad.lo.u32 %r1, %r2, 1000, %r1; }\n"
      "{ .reg .b32 %x1; mov.u32 %x1, 3; add.u32 %r1, %r1, %x1; bra skip; skip: }\n st.global.u32 [%at], %r1;",
      [](u32 n) { return n * 1001 + 14; });
}

TEST(Flow, LocalMemoryIsEachThreadsOwn) {
  expect_each(
      ".local .align 8 .b8 stack[64]; .local .b32 other; .reg .b64 %SP; mov.u64 %SP, stack; cvta.local.u64 %rd1, %SP;\n"
      "st.local.u32 [%SP+8], %t; st.local.u32 [other], 7; and.b32 %r1, %t, 7; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, "
      "%SP, %rd2;\n"
      "add.u64 %rd2, %rd2, %rd1; st.u32 [%rd2+16], %t; ld.local.u32 %r2, [%rd3+16]; ld.u32 %r3, [%rd1+8]; ld.local.u32 "
      "%r4, [other];\n"
      "add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; st.global.u32 [%at], %r2;",
      [](u32 n) { return 2 * (n % 64) + 7; }, {2, 64});
}

TEST(Flow, VariablesOfTheModule) {
  const std::string variables =
      ".const .align 4 .b32 table[4] = {1, -2, 0x30, 010};\n.global .align 8 .b64 big[2] = {0x123456789, 5};\n"
      ".visible .global .b32 zeroes[2];\n.global .u16 halves[3] = {65535, 2};\n.const .f32 pi = 0f40490FDB;\n"
      ".global .align 1 .b8 text[6] = {104, 101, 108, 108, 111, 0};\n.extern .shared .align 16 .b8 dynamic[];\n";
  expect_each(
      "mov.u64 %rd1, table; and.b32 %r1, %t, 3; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; ld.const.u32 %r2, "
      "[%rd1];\n"
      "ld.global.u64 %rd3, [big]; cvt.u32.u64 %r3, %rd3; add.u32 %r2, %r2, %r3; ld.global.u32 %r3, [zeroes+4];\n"
      "add.u32 %r2, %r2, %r3; ld.global.u16 %h1, [halves]; cvt.u32.u16 %r3, %h1; add.u32 %r2, %r2, %r3; ld.global.u16 "
      "%h1, [halves+4];\n"
      "cvt.u32.u16 %r3, %h1; add.u32 %r2, %r2, %r3; ld.const.b32 %r3, [pi]; xor.b32 %r2, %r2, %r3; ld.global.u8 %r3, "
      "[text+1];\n"
      "add.u32 %r2, %r2, %r3; ld.const.s32 %r3, [table+4]; add.s32 %r2, %r2, %r3; st.global.u32 [%at], %r2;",
      [](u32 n) {
        const u32 table[] = {1, ~1u, 0x30, 8};
        return ((table[n % 4] + 0x23456789 + 65535) ^ 0x40490FDB) + 101 - 2;
      },
      {1, 64}, variables);
  shape s{1, 64, 256};
  expect_each(
      ".shared .b32 own; setp.eq.u32 %p1, %t, 0; mov.u32 %r9, dynamic; mad.lo.u32 %r8, %t, 4, %r9; st.shared.u32 "
      "[%r8], %t;\n"
      "@%p1 st.shared.u32 [own], 1000; bar.sync 0; ld.shared.u32 %r1, [%r8]; ld.shared.u32 %r2, [own]; add.u32 %r1, "
      "%r1, %r2;\n"
      "st.global.u32 [%at], %r1;",
      [](u32 n) { return n + 1000; }, s, variables);
}

TEST(Flow, VariablesWithFloats) {
  expect_each(
      "ld.global.u32 %r1, [numbers+4]; ld.global.f32 %r2, [ones]; cvt.rni.u32.f32 %r2, %r2; add.u32 %r1, %r1, %r2; "
      "st.global.u32 [%at], %r1;",
      [](u32) { return 20 + 1; }, {1, 32},
      ".global .b32 numbers[2] = {10, 20};\n.global .f32 ones[2] = {0f3F800000, 0f40000000};\n");
}

TEST(Flow, ParameterStructs) {
  const std::string text =
      std::string(header) +
      ".visible .entry k(.param .align 8 .b8 s[24], .param .u8 byte, .param .align 8 .b8 t[8], .param .u64 out)\n"
      "{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b16 %h<4>; .reg .b32 %f<3>;\nld.param.u64 %rd1, [out]; ld.param.u64 "
      "%rd2, [s+8];\n"
      "ld.param.v2.u32 {%r1, %r2}, [s+16]; ld.param.s8 %h1, [s+1]; cvt.s32.s16 %r3, %h1; ld.param.u8 %r4, [byte];\n"
      "ld.param.v2.f32 {%f1, %f2}, [t]; ld.param.v4.u8 {%h0, %h1, %h2, %h3}, [s]; cvt.u32.u16 %r5, %h3;\n"
      "cvta.to.global.u64 %rd1, %rd1; st.global.u64 [%rd1], %rd2; st.global.v2.u32 [%rd1+8], {%r1, %r2};\n"
      "st.global.v4.b32 [%rd1+16], {%r3, %r4, %f2, %r5}; }\n";
  const auto* k = load_one(text);
  const auto p = ptx::parameters(*k);
  ASSERT_EQ(p.size(), 4u);
  const u32 want[] = {0, 24, 24, 1, 32, 8, 40, 8};
  for (int n = 0; n < 4; ++n) {
    EXPECT_EQ(p[n].offset, want[n * 2]);
    EXPECT_EQ(p[n].bytes, want[n * 2 + 1]);
  }
  EXPECT_EQ(ptx::parameter_bytes(*k), 48u);
  buffer<u32> out(8);
  ptx::launch l;
  l.code = k;
  l.block = {1};
  for (u32 n = 0; n < 48; ++n) l.arguments.push_back(static_cast<std::byte>(200 + n));
  const u64 address = out.address();
  std::memcpy(l.arguments.data() + 40, &address, 8);
  ptx::run(l);
  EXPECT_EQ(out.values(), (std::vector<u32>{0xd3d2d1d0, 0xd7d6d5d4, 0xdbdad9d8, 0xdfdedddc, static_cast<u32>(-55), 224,
                                            0xefeeedec, 203}));
}

TEST(Flow, SpecialRegisters) {
  buffer<u32> out(4 * 3 * 24 * 16);
  const char* names[] = {"%tid.x",   "%tid.y",       "%tid.z",       "%ntid.x",   "%ntid.y",   "%ntid.z",
                         "%ctaid.x", "%ctaid.y",     "%ctaid.z",     "%nctaid.x", "%nctaid.y", "%nctaid.z",
                         "%laneid",  "%lanemask_lt", "%lanemask_ge", "%warpid"};
  std::string body =
      "mov.u32 %r1, %ctaid.z; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r1, %r1, 3, %r2;\n"
      "mad.lo.u32 %r1, %r1, 2, %r3; mov.u32 %r2, %tid.z; mov.u32 %r3, %tid.y; mad.lo.u32 %r2, %r2, 3, %r3;\n"
      "mad.lo.u32 %r2, %r2, 4, %t; mad.lo.u32 %r1, %r1, 24, %r2; mad.wide.u32 %rd1, %r1, 64, %P0;\n";
  for (int n = 0; n < 16; ++n)
    body += std::string("mov.u32 %r5, ") + names[n] + "; st.global.u32 [%rd1+" + std::to_string(n * 4) + "], %r5;\n";
  ptx::launch l;
  l.code = load_one(kernel_text(1, body));
  l.grid = {2, 3, 2};
  l.block = {4, 3, 2};
  const u64 address = out.address();
  l.arguments.resize(8);
  std::memcpy(l.arguments.data(), &address, 8);
  ptx::run(l);
  for (u32 n = 0; n < 12 * 24; ++n) {
    const u32 thread = n % 24, block = n / 24, bit = 1u << thread;
    const u32 want[] = {thread % 4, thread / 4 % 3, thread / 12, 4, 3, 2, block % 2, block / 2 % 3, block / 6, 2, 3, 2,
                        thread,     bit - 1,        ~(bit - 1),  0};
    for (u32 r = 0; r < 16; ++r) ASSERT_EQ(out[n * 16 + r], want[r]) << names[r] << " of thread " << n;
  }
}

}  // namespace
