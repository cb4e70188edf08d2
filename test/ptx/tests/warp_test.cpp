// What lanes do together: shuffles, votes, reductions, barriers.
#include <array>
#include <bit>
#include <random>

#include "support.hpp"

namespace {
using namespace proof;
using u32 = uint32_t;
using lanes = std::array<u32, 32>;

lanes random_lanes(u32 seed, u32 below = 0) {
  std::mt19937 random(seed);
  lanes v;
  for (u32& x : v) x = below ? random() % below : random();
  return v;
}

// Runs `body` in one warp: %r1 and %r2 are a and b of the lane; %r3 comes back.
lanes warp(const std::string& body, const lanes& a = {}, const lanes& b = {}, uint64_t seed = 1) {
  buffer<u32> in(64), out(32);
  std::copy(a.begin(), a.end(), in.data());
  std::copy(b.begin(), b.end(), in.data() + 32);
  const auto* k = load_one(kernel_text(2,
                                       "mad.wide.u32 %P0, %t, 4, %P0; mad.wide.u32 %P1, %t, 4, %P1;\n"
                                       "ld.global.u32 %r1, [%P1]; ld.global.u32 %r2, [%P1+128];\n" +
                                           body + "\nst.global.u32 [%P0], %r3;\n"));
  launch(k, {1, 32, 0, seed}, {out.address(), in.address()});
  lanes result;
  std::copy(out.data(), out.data() + 32, result.begin());
  return result;
}

// The manual's pseudo code.
std::pair<int, bool> shuffle_source(const std::string& mode, int lane, u32 b, u32 c) {
  const int bval = b & 31, cval = c & 31, mask = c >> 8 & 31;
  const int least = lane & mask, most = least | (cval & ~mask & 31);
  const int j = mode == "up"     ? lane - bval
                : mode == "down" ? lane + bval
                : mode == "bfly" ? lane ^ bval
                                 : least | (bval & ~mask & 31);
  const bool valid = mode == "up" ? j >= most : j <= most;
  return {valid ? j : lane, valid};
}
TEST(Warp, Shuffles) {
  for (const std::string mode : {"up", "down", "bfly", "idx"})
    for (const u32 c : {0u, 0x1fu, 0x181fu, 0x1c1fu, 0x1c03u, 0x1800u, 0x1000u, 0xf1fu, 0xffffffffu})
      for (const u32 n : {0u, 1u, 2u, 5u, 7u, 16u, 31u, 32u, 35u, 99u}) {
        const lanes a = random_lanes(n), b = n == 99 ? random_lanes(c) : lanes{};
        const std::string from = n == 99 ? "%r2" : std::to_string(n);
        const lanes got = warp("shfl.sync." + mode + ".b32 %r4|%p1, %r1, " + from + ", " + std::to_string(c) +
                                   ", -1;\nselp.b32 %r5, 1, 0, %p1; lop3.b32 %r3, %r4, -2, %r5, 0xea;",
                               a, b);
        const lanes plain =
            warp("shfl.sync." + mode + ".b32 %r3, %r1, " + from + ", " + std::to_string(c) + ", -1;", a, b);
        for (int lane = 0; lane < 32; ++lane) {
          const auto [j, valid] = shuffle_source(mode, lane, n == 99 ? b[lane] : n, c);
          const u32 value = a[j];
          ASSERT_EQ(got[lane], (value & ~1u) | u32{valid}) << mode << " b=" << from << " c=" << c << " lane " << lane;
          ASSERT_EQ(plain[lane], value) << mode << " b=" << from << " c=" << c << " lane " << lane;
        }
      }
}

TEST(Warp, ShufflesOfSomeLanes) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const lanes a = random_lanes(7);
    // Odd and even lanes shuffle apart, with masks of their own, the odd ones from a register.
    const lanes got = warp(
        "and.b32 %r4, %t, 1; setp.eq.u32 %p1, %r4, 0; mov.b32 %r5, 0xaaaaaaaa; @%p1 bra even;\n"
        "shfl.sync.bfly.b32 %r3, %r1, 2, 31, %r5; bra done;\n"
        "even: shfl.sync.idx.b32 %r3, %r1, 30, 31, 0x55555555;\ndone:",
        a, {}, seed);
    for (int lane = 0; lane < 32; ++lane) ASSERT_EQ(got[lane], a[lane % 2 ? lane ^ 2 : 30]);
    const lanes lower = warp(
        "mov.b32 %r3, 0; setp.lt.u32 %p1, %t, 9; setp.lt.u32 %p2, %t, 8; selp.b32 %r4, 1, 0, %p2;\n"
        "@%p1 shfl.sync.down.b32 %r3, %r1, %r4, 0x1f, 0x1ff;",
        a, {}, seed);
    for (int lane = 0; lane < 8; ++lane) ASSERT_EQ(lower[lane], a[lane + 1]);
  }
}

TEST(Warp, Votes) {
  const lanes all = [] {
    lanes v;
    v.fill(1);
    return v;
  }();
  lanes most = all;
  most[13] = 0;
  const lanes none{}, mixed = random_lanes(3, 2);
  for (const lanes& a : {all, most, none, mixed}) {
    u32 bits = 0;
    for (int l = 0; l < 32; ++l) bits |= a[l] << l;
    const std::string ask = "setp.ne.u32 %p1, %r1, 0;\n", answer = "selp.b32 %r3, 1, 0, %p2;";
    for (const u32 m : {0xffffffffu, 0xffff0000u, 0x00002000u, 0x0ff00ff0u}) {
      const std::string mask = std::to_string(m);
      const std::string in = ask + "mov.b32 %r3, 77; shr.u32 %r4, " + mask +
                             ", %t; and.b32 %r4, %r4, 1; setp.eq.u32 %p3, %r4, 0; @%p3 bra out;\n";
      const auto check = [&](const std::string& body, u32 want) {
        const lanes got = warp(in + body + "\nout:", a);
        for (int l = 0; l < 32; ++l) ASSERT_EQ(got[l], m >> l & 1 ? want : 77) << body << " lane " << l;
      };
      check("vote.sync.ballot.b32 %r3, %p1, " + mask + ";", bits & m);
      check("vote.sync.ballot.b32 %r3, !%p1, " + mask + ";", ~bits & m);
      check("vote.sync.any.pred %p2, %p1, " + mask + "; " + answer, (bits & m) != 0);
      check("vote.sync.all.pred %p2, %p1, " + mask + "; " + answer, (bits & m) == m);
      check("vote.sync.all.pred %p2, !%p1, " + mask + "; " + answer, (bits & m) == 0);
      check("vote.sync.uni.pred %p2, %p1, " + mask + "; " + answer, (bits & m) == m || (bits & m) == 0);
      check("bar.warp.sync " + mask + "; activemask.b32 %r3;", m);
    }
  }
}

TEST(Warp, Matches) {
  for (const u32 below : {1u, 2u, 5u, 0u}) {
    const lanes a = random_lanes(9, below);
    const lanes any = warp("match.any.sync.b32 %r3, %r1, -1;", a);
    const lanes wide = warp("cvt.u64.u32 %rd1, %r1; shl.b64 %rd1, %rd1, 32; match.any.sync.b64 %r3, %rd1, -1;", a);
    const lanes all = warp("match.all.sync.b32 %r3|%p1, %r1, -1; selp.b32 %r3, %r3, 5, %p1;", a);
    for (int l = 0; l < 32; ++l) {
      u32 same = 0;
      for (int m = 0; m < 32; ++m) same |= u32{a[m] == a[l]} << m;
      ASSERT_EQ(any[l], same);
      ASSERT_EQ(wide[l], same);
      ASSERT_EQ(all[l], same == ~0u ? ~0u : 5u);
    }
  }
}

TEST(Warp, Reductions) {
  for (const u32 below : {0u, 3u, 1u << 31}) {
    const lanes a = random_lanes(below + 1, below);
    u32 sum = 0, conjunction = ~0u, disjunction = 0, exclusive = 0, least = ~0u, most = 0;
    int32_t lowest = INT32_MAX, highest = INT32_MIN;
    for (const u32 v : a) {
      sum += v, conjunction &= v, disjunction |= v, exclusive ^= v, least = std::min(least, v),
                                                                    most = std::max(most, v);
      lowest = std::min(lowest, static_cast<int32_t>(v)), highest = std::max(highest, static_cast<int32_t>(v));
    }
    const auto check = [&](const std::string& op, u32 want) {
      const lanes got = warp("redux.sync." + op + " %r3, %r1, 0xffffffff;", a);
      for (const u32 v : got) ASSERT_EQ(v, want) << op;
    };
    check("add.u32", sum), check("add.s32", sum), check("and.b32", conjunction), check("or.b32", disjunction);
    check("xor.b32", exclusive), check("min.u32", least), check("max.u32", most);
    check("min.s32", static_cast<u32>(lowest)), check("max.s32", static_cast<u32>(highest));
    const lanes half = warp(
        "setp.lt.u32 %p1, %t, 16; @%p1 bra low; redux.sync.add.u32 %r3, %r1, 0xffff0000; bra end;\n"
        "low: redux.sync.add.u32 %r3, %r1, 0x0000ffff;\nend:",
        a);
    u32 low = 0;
    for (int l = 0; l < 16; ++l) low += a[l];
    for (int l = 0; l < 32; ++l) ASSERT_EQ(half[l], l < 16 ? low : sum - low);
  }
}

// --- Barriers

TEST(Barrier, SyncMakesSharedWritesVisible) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const auto got = outputs(
        ".shared .align 4 .b32 s[256]; mov.u32 %r1, s; mad.lo.u32 %r2, %t, 4, %r1; mul.lo.u32 %r3, %t, 3;\n"
        "st.shared.u32 [%r2], %r3; bar.sync 0; sub.u32 %r4, 255, %t; mad.lo.u32 %r4, %r4, 4, %r1;\n"
        "ld.shared.u32 %r5, [%r4]; st.global.u32 [%at], %r5;",
        {2, 256, 0, seed});
    for (u32 n = 0; n < 512; ++n) ASSERT_EQ(got[n], (255 - n % 256) * 3);
  }
}

TEST(Barrier, Reductions) {
  for (const auto& [op, limit] : {std::pair<std::string, u32>{"lt", 40}, {"lt", 0}, {"lt", 96}, {"ge", 95}}) {
    const auto got = outputs("setp." + op + ".u32 %p1, %t, " + std::to_string(limit) +
                                 "; bar.red.popc.u32 %r1, 0, %p1; bar.red.and.pred %p2, 0, %p1;\n"
                                 "bar.red.or.pred %p3, 0, !%p1; selp.b32 %r2, 256, 0, %p2; selp.b32 %r3, 512, 0, %p3;\n"
                                 "add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; st.global.u32 [%at], %r1;",
                             {1, 96});
    const u32 count = op == "lt" ? limit : 96 - limit;
    for (const u32 v : got) ASSERT_EQ(v, count + (count == 96 ? 256 : 0) + (count < 96 ? 512 : 0)) << op << limit;
  }
}

// Warps 0 and 1 meet at barrier 1, 2 and 3 at barrier 2, many times; a register has the number.
TEST(Barrier, NumbersAndCounts) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const auto got = outputs(
        ".shared .align 4 .b32 s[128]; shr.u32 %r1, %t, 6; add.u32 %r1, %r1, 1; mov.u32 %r9, s; mov.u32 %r8, 0;\n"
        "mad.lo.u32 %r2, %t, 4, %r9; xor.b32 %r3, %t, 32; mad.lo.u32 %r3, %r3, 4, %r9;\n"
        "again: mad.lo.u32 %r4, %r8, 1000, %t; st.shared.u32 [%r2], %r4; barrier.sync %r1, 64;\n"
        "ld.shared.u32 %r5, [%r3]; bar.sync %r1, 64; add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 5; @%p1 bra again;\n"
        "st.global.u32 [%at], %r5;",
        {1, 128, 0, seed});
    for (u32 n = 0; n < 128; ++n) ASSERT_EQ(got[n], 4000 + (n ^ 32));
  }
}

TEST(Barrier, ArriveDoesNotWait) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const auto got = outputs(
        ".shared .align 4 .b32 s[32]; mov.u32 %r9, s; and.b32 %r1, %t, 31; mad.lo.u32 %r2, %r1, 4, %r9;\n"
        "mov.u32 %r5, 7; setp.ge.u32 %p1, %t, 32; @%p1 bra consume; st.shared.u32 [%r2], %t; bar.arrive 3, 64; bra "
        "end;\n"
        "consume: bar.sync 3, 64; ld.shared.u32 %r5, [%r2];\nend: st.global.u32 [%at], %r5;",
        {1, 64, 0, seed});
    for (u32 n = 0; n < 64; ++n) ASSERT_EQ(got[n], n < 32 ? 7 : n - 32);
  }
}

TEST(Barrier, WarpSyncOrdersSharedMemory) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const auto got = outputs(
        ".shared .align 4 .b32 s[32]; mov.u32 %r9, s; mad.lo.u32 %r2, %t, 4, %r9; st.shared.u32 [%r2], %t;\n"
        "bar.warp.sync 0xffffffff; xor.b32 %r3, %t, 21; mad.lo.u32 %r3, %r3, 4, %r9; ld.shared.u32 %r4, [%r3];\n"
        "st.global.u32 [%at], %r4;",
        {1, 32, 0, seed});
    for (u32 n = 0; n < 32; ++n) ASSERT_EQ(got[n], n ^ 21);
  }
}

}  // namespace
