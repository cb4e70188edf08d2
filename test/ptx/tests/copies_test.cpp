// Asynchronous copies and mbarriers: what they copy, who may touch the bytes when, and what ends a launch.
#include <sstream>

#include "planted.hpp"

namespace {
using namespace proof;
using u32 = uint32_t;

// %r1: this thread's 16 bytes of s, %r2: those of a thread of the other warp, %r3: those of the next lane; %rd1: this
// thread's 16 bytes of %P0.
const std::string places =
    ".shared .align 16 .b8 s[1024];\n.shared .align 8 .b64 m;\nmov.u32 %r9, s; mad.lo.u32 %r1, %t, 16, %r9;\n"
    "xor.b32 %r8, %t, 32; mad.lo.u32 %r2, %r8, 16, %r9; xor.b32 %r8, %t, 1; mad.lo.u32 %r3, %r8, 16, %r9;\n"
    "mad.wide.u32 %rd1, %t, 16, %P0; setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 33;\n";
const std::string copy = "cp.async.cg.shared.global [%r1], [%rd1], 16;\n", all = "cp.async.wait_all;\n",
                  sync = "bar.sync 0;\n";
const std::string clear = "st.shared.v4.u32 [%r1], {%t, %t, %t, %t};\n";
std::string load(const std::string& from) { return "ld.shared.u32 %r10, [" + from + "];\n"; }

// Of 256 words at %P0, each 1000 + its index: what `text` writes to %P1.
std::vector<u32> ran(const std::string& text, u32 seed) {
  memory m;
  for (u32 k = 0; k < 256; ++k) m.host[k] = 1000 + k;
  run_body(text, {1, 64, 0, seed}, m);
  return m.device.values();
}

// --- cp.async -------------------------------------------------------------------------------------------------------

TEST(Copies, OfAllSizes) {
  const std::string give =
      "ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r2];\nmad.wide.u32 %rd2, %t, 16, %P1; "
      "st.global.v4.u32 [%rd2], {%r10, %r11, %r12, %r13};";
  const std::string clear = "mov.u32 %r20, 7; st.shared.v4.u32 [%r1], {%r20, %r20, %r20, %r20};\n";
  struct form {
    std::string text;
    u32 bytes;  // that are copied; `zeros` follow, and then what was there
    u32 zeros = 0;
  };
  const form forms[] = {
      {"cp.async.ca.shared.global [%r1], [%rd1], 4;", 4},
      {"cp.async.ca.shared::cta.global [%r1], [%rd1], 8;", 8},
      {"cp.async.ca.shared.global [%r1], [%rd1], 16;", 16},
      {"cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16;", 16},
      {"cp.async.cg.shared.global [%r1], [%rd1], 0x10;", 16},
      {"mov.u32 %r21, 12; cp.async.cg.shared.global [%r1], [%rd1], 16, %r21;", 12, 4},
      {"cp.async.ca.shared.global [%r1], [%rd1], 8, 0;", 0, 8},
      {"setp.ge.u32 %p3, %t, 0; cp.async.cg.shared.global [%r1], [%rd1], 16, %p3;", 0, 16},
      {"setp.ge.u32 %p3, %t, 0; cp.async.cg.shared.global [%r1], [%rd1], 16, !%p3;", 16},
      {"add.u32 %r21, %r1, 8; sub.u64 %rd3, %rd1, 8; cp.async.ca.shared.global [%r21+-8], [%rd3+8], 4;", 4},
      {"cvt.u64.u32 %rd4, %r1; cp.async.ca.shared.global [%rd4], [%rd1], 8;", 8},
  };
  for (const form& f : forms)
    for (u32 seed = 1; seed <= 6; ++seed) {
      const auto out = ran(places + clear + f.text + "\n" + all + sync + give, seed);
      for (u32 w = 0; w < 256; ++w) {
        const u32 source = 1000 + (w ^ 128), byte = w % 4 * 4;  // of the thread 32 further
        ASSERT_EQ(out[w], byte < f.bytes ? source : byte < f.bytes + f.zeros ? 0 : 7) << f.text << " word " << w;
      }
    }
}

TEST(Copies, GroupsAreWaitedForInTurn) {
  // Words 0, 1 and 2 of the 16 bytes in a group each, word 3 in none.
  const std::string four =
      "cp.async.ca.shared.global [%r1], [%rd1], 4; cp.async.commit_group;\n"
      "cp.async.ca.shared.global [%r1+4], [%rd1+4], 4; cp.async.commit_group;\n"
      "cp.async.ca.shared.global [%r1+8], [%rd1+8], 4; cp.async.commit_group;\n"
      "cp.async.ca.shared.global [%r1+12], [%rd1+12], 4;\n";
  const auto wait = [](int n) { return "cp.async.wait_group " + std::to_string(n) + ";\n"; };
  for (int newest = 0; newest <= 3; ++newest)
    for (int word = 0; word < 4; ++word) {
      const std::string at = "%r1+" + std::to_string(4 * word);
      if (word < 3 - newest)
        expect_pass(places + four + wait(newest) + load(at) + all, {1, 64}, 10);
      else
        expect_fault("pending copy", places + four + wait(newest) + "BUG " + load(at) + all);
    }
  expect_pass(places + four + all + load("%r1+12"), {1, 64}, 10);
  expect_pass(places + "cp.async.commit_group;\ncp.async.commit_group;\n" + copy + "cp.async.commit_group;\n" +
                  wait(0) + load("%r1"),
              {1, 64}, 10);
}

TEST(Copies, NobodyTouchesTheTargetBeforeTheWait) {
  for (const std::string at : {"%r1", "%r2", "%r3", "%r1+12"})
    expect_fault("pending copy", places + copy + sync + "BUG " + load(at) + all);
  expect_fault("pending copy", places + copy + "BUG st.shared.u32 [%r1], 1;\n" + all);
  expect_fault("pending copy", places + copy + "BUG atom.shared.add.u32 %r10, [%r1], 1;\n" + all);
  expect_fault("pending copy", places + copy + "BUG ld.volatile.shared.u32 %r10, [%r1];\n" + all);
  expect_fault("pending copy", places + copy + "BUG " + copy + all);
  expect_fault("pending copy",
               places + copy + "cp.async.commit_group;\ncp.async.wait_group 1;\nBUG " + load("%r1") + all);
  // All lanes to one place.
  expect_fault("pending copy", places + "BUG cp.async.ca.shared.global [%r9], [%P0], 4;\n" + all);
  expect_pass(places + copy + all + load("%r1") + sync + load("%r2"));
}

TEST(Copies, ThoseOfOthersNeedABarrierToo) {
  expect_fault("race, pending copy", places + clear + sync + "BUG " + copy + all + "BUG " + load("%r2"));
  expect_fault("race", places + copy + all + "BUG " + load("%r3"), {1, 32});
  expect_pass(places + copy + all + "bar.warp.sync -1;\n" + load("%r3"), {1, 32});
  expect_pass(places + copy + all + sync + load("%r2"));
  // A barrier before the wait orders nothing.
  expect_fault("race, pending copy", places + copy + sync + all + "BUG " + load("%r2"));
  // Who reads the bytes before must have met who copies over them.
  const std::string first = places + copy + all + sync + "BUG " + load("%r2");
  expect_fault("race, pending copy", first + "BUG " + copy + all);
  expect_pass(first + sync + copy + all);
  expect_fault("race, pending copy", places + "BUG st.shared.u32 [%r2], 1;\nBUG " + copy + all);
  expect_fault("race, pending copy", places + "BUG " + copy + all + "BUG st.shared.u32 [%r2], 1;");
}

TEST(Copies, NobodyWritesTheSourceBeforeTheWait) {
  const std::string store = "st.global.u32 [%rd1+4], 1;\n";
  expect_fault("pending copy", places + copy + "BUG " + store + all);
  expect_fault("pending copy", places + copy + sync + "xor.b32 %r8, %t, 32; mad.wide.u32 %rd2, %r8, 16, %P0;\n" +
                                   "BUG st.global.u8 [%rd2+15], 1;\n" + all + sync);
  expect_fault("pending copy", places + copy + "BUG atom.global.add.u32 %r10, [%rd1], 1;\n" + all);
  expect_pass(places + copy + all + store);
  // Beside it, in the same 16 bytes; and what is ignored.
  expect_pass(places + "cp.async.ca.shared.global [%r1], [%rd1], 4;\n" + store + all);
  expect_pass(places + "cp.async.cg.shared.global [%r1], [%rd1], 16, 4;\n" + store + all);
}

TEST(Copies, OfWrongPlacesAndSizes) {
  const auto faulty = [](const std::string& kind, const std::string& text, shape of = {1, 64}) {
    expect_fault(kind, places + "BUG " + text + "\n" + all, of);
  };
  faulty("misaligned", "cp.async.cg.shared.global [%r1+8], [%rd1], 16;");
  faulty("misaligned", "cp.async.cg.shared.global [%r1], [%rd1+8], 16;");
  faulty("misaligned", "cp.async.ca.shared.global [%r1+2], [%rd1], 4;");
  faulty("misaligned", "cp.async.ca.shared.global [%r1], [%rd1+4], 8, 4;");
  expect_fault("out of bounds", places + "mov.u32 %r20, 17;\nBUG cp.async.cg.shared.global [%r1], [%rd1], 16, %r20;");
  faulty("out of bounds", "cp.async.cg.shared.global [%r1+1024], [%rd1], 16;");
  faulty("out of bounds", "cp.async.cg.shared.global [%r1], [%rd1+1024], 16;", {1, 32});
  faulty("uninitialised", "cp.async.cg.shared.global [%r1], [%P1], 16;");
  // Half of it lies behind the end of the allocation, and is not read.
  const std::string last = "mov.u64 %rd2, %P0; add.u64 %rd2, %rd2, 1016;\n";
  expect_fault("out of bounds", places + last + "BUG @%p1 cp.async.ca.shared.global [%r9], [%rd2+8], 8;\n" + all);
  expect_pass(places + last + "@%p1 cp.async.ca.shared.global [%r9], [%rd2], 8;\n" + all);
  expect_pass(places + "@%p1 cp.async.ca.shared.global [%r9], [%P0+1024], 8, 0;\n" + all + "@%p1 " + load("%r9+4"));
}

TEST(Copies, AreWaitedForBeforeTheEnd) {
  expect_fault("unfinished copy", places + "BUG " + copy);
  expect_fault("unfinished copy", places + "BUG @%p2 " + copy + "cp.async.commit_group;\ncp.async.wait_group 1;");
  expect_fault("unfinished copy", places + "BUG " + copy + "@%p2 exit;\n" + all);
}

TEST(Copies, SeeWhatTheBlockWrote) {
  const std::string body = "mov.u32 %r11, 77; st.global.u32 [%rd1], %r11;\n" + copy + all + load("%r1") +
                           "mad.wide.u32 %rd2, %t, 4, %P1; st.global.u32 [%rd2], %r10;";
  for (u32 seed = 1; seed <= 10; ++seed)
    for (u32 t = 0; t < 64; ++t) EXPECT_EQ(ran(places + body, seed)[t], 77u);
}

// --- mbarriers and bulk copies --------------------------------------------------------------------------------------

// By thread 0 and a barrier; then it copies; then all wait.
const std::string begin = "@%p1 mbarrier.init.shared::cta.b64 [m], 1;\n", fence = "@%p1 fence.proxy.async;\n";
const std::string expect = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 1024;\n",
                  bulk =
                      "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%P0], 1024, "
                      "[m];\n";
std::string wait(const std::string& who = "", const std::string& parity = "0", const std::string& label = "w") {
  return (who.empty() ? "" : "@!" + who + " bra " + label + "_end;\n") + label +
         ": mbarrier.try_wait.parity.shared::cta.b64 %p4, [m], " + parity + ";\n@!%p4 bra " + label + ";\n" + label +
         "_end:\n";
}
const std::string begun = places + clear + sync + begin + fence + sync, started = begun + expect + "BUG " + bulk;

TEST(Copies, BulkCopiesOfAllForms) {
  const std::string give = "ld.shared.u32 %r10, [%r2+4]; mad.wide.u32 %rd2, %t, 4, %P1; st.global.u32 [%rd2], %r10;";
  const std::string parity = wait();
  const std::string forms[] = {
      begun + expect + bulk + parity,
      begun + bulk + expect + parity,  // the count of bytes may be below zero
      begun +
          "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r9], [%P0], 512, [m];\n"
          "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [m], 512;\n"
          "@%p1 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [m], 512;\n"
          "@%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r9+512], [%P0+512], 512, [m];\n" +
          parity,
      places + "@%p1 mbarrier.init.shared.b64 [m], 4;\n" + fence + sync +
          "@%p1 mbarrier.arrive.shared.b64 _, [m], 3;\n" + expect + bulk +
          "w: mbarrier.test_wait.parity.acquire.cta.shared.b64 %p4, [m], 0;\n@!%p4 bra w;\n",
  };
  for (const std::string& f : forms)
    for (u32 seed = 1; seed <= 10; ++seed) {
      const auto out = ran(f + give, seed);
      for (u32 t = 0; t < 64; ++t) ASSERT_EQ(out[t], 1001 + (t ^ 32) * 4) << f;
    }
}

TEST(Copies, BulkCopiesOneAfterTheOther) {
  // Phases 0, 1 and 2 with their parities; all read what the last one brought before the next one begins.
  std::string text = begun;
  for (int k = 0; k < 3; ++k)
    text +=
        "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 64;\n@%p1 cp.async.bulk.shared::cluster.global."
        "mbarrier::complete_tx::bytes [%r9], [%P0+" +
        std::to_string(64 * k) + "], 64, [m];\n" + wait("", std::to_string(k % 2), "w" + std::to_string(k)) +
        "ld.shared.u32 %r1" + std::to_string(k) + ", [s];\n" + sync;
  const std::string give =
      "add.u32 %r10, %r10, %r11; add.u32 %r10, %r10, %r12; mad.wide.u32 %rd2, %t, 4, %P1; "
      "st.global.u32 [%rd2], %r10;";
  for (u32 seed = 1; seed <= 20; ++seed) {
    const auto out = ran(text + give, seed);
    for (u32 t = 0; t < 64; ++t) ASSERT_EQ(out[t], 3048u) << seed;
  }
}

TEST(Copies, OfTheBulkAreSeenByWhoWaits) {
  expect_fault("pending copy, race", started + "BUG " + load("%r1") + wait());
  expect_fault("pending copy, race", started + "BUG @%p1 st.shared.u32 [%r9], 1;\n" + wait());
  expect_fault("pending copy, race", started + sync + "BUG " + load("%r1") + wait());
  expect_pass(started + wait() + load("%r2"));
  // One thread waits, and the others meet it, all or those of its warp.
  const std::string of_first = wait("%p1");
  expect_fault("pending copy, race", started + of_first + "BUG " + load("%r1"));
  expect_pass(started + of_first + sync + load("%r1"));
  expect_pass(started + of_first + "bar.warp.sync -1;\nsetp.lt.u32 %p5, %t, 32;\n@%p5 " + load("%r3"));
  expect_fault("pending copy, race", started + of_first + "bar.warp.sync -1;\nBUG @%p2 " + load("%r1"));
  expect_pass(started + of_first + "bar.sync 3, 64;\n" + load("%r2"));
  // The phase before has the other parity, and is complete.
  expect_fault("pending copy, race", started + wait("", "1", "v") + "BUG " + load("%r1") + wait());
  // The copy has arrived, but its phase lacks an arrival.
  expect_fault("pending copy, race", places + clear + sync + "@%p1 mbarrier.init.shared.b64 [m], 2;\n" + fence + sync +
                                         expect + "BUG " + bulk + "nanosleep.u32 9;\nnanosleep.u32 9;\n" +
                                         wait("", "1", "v") + "BUG " + load("%r1") +
                                         "@%p1 mbarrier.arrive.shared.b64 _, [m];\n" + wait());
  // Without acquiring anything.
  expect_fault("pending copy, race", started +
                                         "w: mbarrier.try_wait.parity.relaxed.cta.shared.b64 %p4, [m], 0;\n@!%p4 bra "
                                         "w;\nBUG " +
                                         load("%r1"));
  // Who has seen it may write, and others that have seen it race with that.
  expect_pass(started + wait() + "st.shared.u32 [%r1], 1;");
  expect_fault("race", started + wait() + "BUG st.shared.u32 [%r1], 1;\nBUG " + load("%r2"));
  expect_fault("race", started + wait() + "BUG atom.shared.add.u32 %r10, [%r1], 1;\nBUG " + load("%r2"));
}

TEST(Copies, OfTheBulkWaitForReadersAndWriters) {
  const std::string again = expect + "BUG " + bulk + wait("", "1", "v");
  expect_fault("race", started + wait() + "BUG " + load("%r2") + again);
  expect_pass(started + wait() + load("%r2") + sync + expect + bulk + wait("", "1", "v"));
  // Where a thread has written, its writes are fenced first: by the writer, or by who copies, when they have met.
  const std::string store = "st.shared.u32 [%r1], 1;\n";
  expect_fault("race", begun + store + sync + expect + "BUG " + bulk + wait());
  expect_fault("race", begun + store + fence + sync + expect + "BUG " + bulk + wait());
  expect_pass(begun + store + "fence.proxy.async.shared::cta;\n" + sync + expect + bulk + wait());
  expect_pass(begun + store + sync + fence + expect + bulk + wait());
  expect_fault("race", begun + store + "fence.proxy.async.global;\n" + sync + expect + "BUG " + bulk + wait());
  expect_fault("race", begun + "fence.proxy.async;\n" + store + sync + expect + "BUG " + bulk + wait());
  // The mbarrier, too.
  expect_fault("race", places + begin + sync + expect + "BUG " + bulk + wait());
  // Source: written by the launch.
  expect_fault("race", begun + "st.global.u32 [%rd1], 1;\n" + sync + expect + "BUG " + bulk + wait());
  expect_pass(begun + "st.global.u32 [%rd1], 1;\n" + sync + fence + expect + bulk + wait());
  expect_fault("pending copy", started + "BUG st.global.u32 [%rd1], 1;\n" + wait(), {1, 1});
}

TEST(Copies, OfTheBulkOfWrongPlacesAndSizes) {
  const auto faulty = [](const std::string& kind, const std::string& operands) {
    expect_fault(
        kind, begun + "BUG @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes " + operands + ";\n");
  };
  faulty("misaligned", "[%r9+8], [%P0], 64, [m]");
  faulty("misaligned", "[%r9], [%P0+4], 64, [m]");
  faulty("misaligned", "[%r9], [%P0], 60, [m]");
  faulty("misaligned", "[%r9], [%P0], 64, [m+4]");
  faulty("out of bounds", "[%r9+512], [%P0], 528, [m]");
  faulty("out of bounds", "[%r9], [%P0+512], 528, [m]");
  faulty("uninitialised", "[%r9], [%P1], 64, [m]");
  faulty("uninitialised", "[%r9], [%P0], 64, [%r9+512]");
  expect_pass(begun + "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%P0], 0, [m];");
}

TEST(Copies, OfTheBulkAreWaitedForBeforeTheEnd) {
  expect_fault("unfinished copy", begun + expect + "BUG " + bulk);
  expect_fault("unfinished copy", begun + expect + "BUG " + bulk + "nanosleep.u32 9;\nnanosleep.u32 9;\n");
  expect_fault("unfinished copy", begun + expect + "BUG " + bulk + wait("", "1"), {1, 1});
}

TEST(Copies, MbarriersHaveRules) {
  expect_fault("uninitialised", places + "BUG mbarrier.arrive.shared.b64 _, [m];");
  expect_fault("uninitialised", places + "BUG mbarrier.try_wait.parity.shared.b64 %p4, [m], 0;");
  expect_fault("mbarrier", begun + "BUG " + begin);
  expect_fault("mbarrier", places + "BUG @%p1 mbarrier.init.shared.b64 [m], 0;");
  expect_fault("mbarrier", places + "BUG @%p1 mbarrier.init.shared.b64 [m], 0x100000;");
  expect_fault("misaligned", places + "BUG @%p1 mbarrier.init.shared.b64 [m+4], 1;");
  expect_fault("out of bounds", places + "BUG @%p1 mbarrier.init.shared.b64 [m+8], 1;");
  // Nobody else touches one, nor before who began it has been met.
  expect_fault("mbarrier", begun + "BUG ld.shared.u32 %r10, [m+4];");
  expect_fault("mbarrier", begun + "BUG st.shared.u64 [m], %rd1;");
  expect_fault("race, uninitialised", places + begin +
                                          "BUG @%p2 mbarrier.try_wait.parity.shared.b64 %p4, [m], 0;\nBUG @%p1 "
                                          "mbarrier.try_wait.parity.shared.b64 %p4, [m], 0;\nbar.sync 0;");
  // More arrivals, bytes and parities than there are.
  expect_fault("mbarrier", begun + "BUG @%p1 mbarrier.arrive.shared.b64 _, [m], 2;");
  expect_fault("mbarrier", begun + expect + "BUG @%p1 mbarrier.arrive.shared.b64 _, [m];");
  expect_fault("mbarrier", begun + "BUG @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 0x100000;");
  expect_fault("mbarrier", begun + "BUG mbarrier.try_wait.parity.shared.b64 %p4, [m], 2;");
}

TEST(Copies, WhatNeverArrivesIsAHang) {
  ptx::settings s;
  s.no_progress = 20'000;
  const configured quick(s);
  expect_fault("no progress", begun + wait());
  expect_fault("no progress", begun + expect + bulk + wait() + wait("", "1", "v"));
  // 16 bytes less, and 16 more, than it expects.
  const std::string less = "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], 1008;\n" + bulk + wait();
  expect_fault("no progress", begun + less);
  try {
    memory m;
    run_body(begun + less, {1, 64}, m);
  } catch (const ptx::error& e) {
    EXPECT_NE(std::string(e.what()).find("phase 0 of the mbarrier at byte 1024 lacks 0 arrivals and -16 bytes"),
              std::string::npos)
        << e.what();
  }
}

TEST(Copies, DoNotHangWhereAllWaitAtABarrier) { expect_pass(started + sync + sync + wait(), {1, 64}, 20); }

TEST(Copies, CountAsLoads) {
  ptx::settings s;
  s.traffic = true;
  const configured counting(s);
  memory m;
  auto c = run_body(places + copy + all, {1, 64}, m);
  EXPECT_EQ(c.load_sectors, 32u);
  EXPECT_EQ(c.shared_wavefronts, 8u);
  // What is ignored is not read: of half the lanes; of all.
  const std::string half = "and.b32 %r8, %t, 16; setp.ne.u32 %p3, %r8, 0;\n";
  c = run_body(places + half + "cp.async.cg.shared.global [%r1], [%rd1], 16, %p3;\n" + all, {1, 64}, m);
  EXPECT_EQ(c.load_sectors, 16u);
  c = run_body(places + "cp.async.cg.shared.global [%r1], [%rd1], 16, 0;\n" + all, {1, 64}, m);
  EXPECT_EQ(c.load_sectors, 0u);
  c = run_body(started + wait(), {1, 64}, m);
  EXPECT_EQ(c.load_sectors, 32u);
  EXPECT_EQ(c.shared_wavefronts, 16u);  // half of them are stores before
}

// What ptxas refuses, too.
const char* const refused = R"(
cp.async.cg.shared.global [%r1], [%rd1], 8; cp.async.ca.shared.global [%r1], [%rd1], 12;
cp.async.ca.global.shared [%rd1], [%r1], 4; cp.async.shared.global [%r1], [%rd1], 4; cp.async.wait_group %r1;
cp.async.ca.shared.global [%r1], [%rd1]; cp.async.ca.shared.global [%r1], [%rd1], 4, 5;
cp.async.commit_group 1; cp.async.bulk.commit_group;
cp.async.bulk.shared::cluster.global.bulk_group [%r1], [%rd1], 16;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16;
cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 16; cp.reduce.async.bulk.global [%rd1], [%r1], 16;
mbarrier.init.shared.b64 [%r1]; mbarrier.init.shared.b32 [%r1], 1; mbarrier.arrive.shared.b64 [%r1];
mbarrier.arrive.expect_tx.shared.b64 _, [%r1]; mbarrier.try_wait.parity.shared.b64 _, [%r1], 0;
mbarrier.try_wait.acquire.shared.b64 %p1, [%r1], %rd1; mbarrier.test_wait.shared.b64 %p1, [%r1], %rd1, 10;
fence.proxy.tensormap; fence.proxy; fence.mbarrier_init.cluster; fence.proxy.async.gpu;
)";
TEST(Copies, Refused) {
  const auto refuses = [](const std::string& s, const std::string& target) {
    std::string text = kernel_text(0, s);
    text.replace(text.find("sm_90"), 5, target);
    EXPECT_THROW(ptx::load(text), ptx::error) << s << " " << target;
  };
  std::istringstream statements(refused);
  for (std::string s; std::getline(statements >> std::ws, s, ';');) refuses(s + ";", "sm_90");
  refuses("cp.async.cg.shared.global [%r1], [%rd1], 16;", "sm_75");
  refuses("cp.async.wait_all;", "sm_75");
  refuses("mbarrier.init.shared.b64 [%r1], 1;", "sm_75");
  refuses("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;", "sm_80");
  refuses("mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;", "sm_80");
  refuses("mbarrier.arrive.shared.b64 _, [%r1], 2;", "sm_80");
  refuses("fence.proxy.async;", "sm_80");
  refuses("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r2];", "sm_86");
}

}  // namespace
