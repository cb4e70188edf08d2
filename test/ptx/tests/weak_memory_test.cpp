// Weak memory: what PTX's memory model promises must hold under all seeds, and what it does not must fail under some.
#include "support.hpp"

namespace {
using namespace proof;
using u32 = uint32_t;

// %P0: 64 words of data, zero at first; %P1: flags, 128 bytes apart; %P2: what each block found.
struct world {
  buffer<u32> data{64}, flags{256}, found{256};
};

// Under how many seeds `bad` finds the result of `body` wrong.
template <class F> int wrong_runs(const std::string& body, shape s, int seeds, F bad) {
  ptx::settings all;
  all.resident = s.blocks;
  const configured c(all);
  const auto* k = load_one(kernel_text(3, "mov.u32 %r30, %ctaid.x; setp.eq.u32 %p9, %t, 0;\n" + body));
  int wrong = 0;
  for (s.seed = 1; s.seed <= static_cast<uint64_t>(seeds); ++s.seed) {
    world w;
    launch(k, s, {w.data.address(), w.flags.address(), w.found.address()});
    wrong += bad(w) ? 1 : 0;
  }
  return wrong;
}

// Block 0 writes the data, then the flag; block 1 waits for the flag, then reads the data.
std::string message(const std::string& set, const std::string& poll, const std::string& after = {}) {
  return "setp.eq.u32 %p1, %r30, 0; @%p1 bra write;\nwait: " + poll + "\nsetp.eq.u32 %p2, %r1, 0; @%p2 bra wait; " +
         after +
         "\nld.global.u32 %r2, [%P0]; st.global.u32 [%P2], %r2; ret;\nwrite: st.global.u32 [%P0], 42;\nmov.u32 %r3, "
         "1; " +
         set + "\n";
}
bool stale(world& w) { return w.found[0] != 42; }
const std::string release = "st.release.gpu.global.u32 [%P1], %r3;",
                  relaxed_store = "st.relaxed.gpu.global.u32 [%P1], %r3;",
                  acquire = "ld.acquire.gpu.global.u32 %r1, [%P1];",
                  relaxed_load = "ld.relaxed.gpu.global.u32 %r1, [%P1];";

TEST(WeakMemory, ReleaseAndAcquirePassMessages) {
  const shape two{2, 1};
  const auto never = [&](const std::string& set, const std::string& poll, const std::string& after = {}) {
    EXPECT_EQ(wrong_runs(message(set, poll, after), two, 300, stale), 0) << set << " " << poll << after;
  };
  never(release, acquire);
  never("nanosleep.u32 20; mov.u64 %rd3, 1; st.release.gpu.global.u64 [%P1], %rd3;",
        "ld.acquire.gpu.global.u64 %rd1, [%P1]; cvt.u32.u64 %r1, %rd1;");
  never("st.release.sys.global.u32 [%P1], %r3;", "ld.acquire.sys.global.u32 %r1, [%P1];");
  for (const std::string fence :
       {"fence.acq_rel.gpu;", "fence.sc.gpu;", "membar.gl;", "fence.acq_rel.sys;", "membar.sys;"}) {
    never(fence + relaxed_store, acquire);
    never(release, relaxed_load, fence);
    never(fence + relaxed_store, relaxed_load, fence);
    never(fence + "st.volatile.global.u32 [%P1], %r3;", "ld.volatile.global.u32 %r1, [%P1];", fence);
    never(fence + "red.relaxed.gpu.global.add.u32 [%P1], 1;", acquire);
  }
  never("atom.release.gpu.global.exch.b32 %r4, [%P1], %r3;", "atom.acquire.gpu.global.or.b32 %r1, [%P1], 0;");
  never("atom.acq_rel.gpu.global.add.u32 %r4, [%P1], 1;", "atom.acq_rel.gpu.global.cas.b32 %r1, [%P1], 5, 5;");
}

TEST(WeakMemory, WhatIsMissingShows) {
  const shape two{2, 1};
  const auto sometimes = [&](const std::string& set, const std::string& poll, const std::string& after = {}) {
    EXPECT_GT(wrong_runs(message(set, poll, after), two, 200, stale), 0) << set << " " << poll << after;
  };
  sometimes(relaxed_store, acquire);
  sometimes(release, relaxed_load);
  sometimes(relaxed_store, relaxed_load);
  sometimes("mov.u64 %rd3, 1; st.relaxed.gpu.global.u64 [%P1], %rd3;",
            "ld.relaxed.gpu.global.u64 %rd1, [%P1]; cvt.u32.u64 %r1, %rd1;");
  sometimes("fence.acq_rel.gpu;" + relaxed_store, relaxed_load);
  sometimes(relaxed_store, relaxed_load, "fence.acq_rel.gpu;");
  sometimes("st.volatile.global.u32 [%P1], %r3;", "ld.volatile.global.u32 %r1, [%P1];");
  sometimes("atom.relaxed.gpu.global.exch.b32 %r4, [%P1], %r3;", acquire);
  sometimes("atom.global.exch.b32 %r4, [%P1], %r3;", acquire);  // relaxed when it does not say
  sometimes(release, "atom.relaxed.gpu.global.or.b32 %r1, [%P1], 0;");
  // The other block is not in the scope.
  sometimes("fence.acq_rel.cta;" + relaxed_store, acquire);
  sometimes("membar.cta;" + relaxed_store, acquire);
}

TEST(WeakMemory, ScopesWithoutTheReader) {  // a release or an acquire within the block tells the other one nothing
  const shape two{2, 1};
  EXPECT_GT(wrong_runs(message("st.release.cta.global.u32 [%P1], %r3;", acquire), two, 200, stale), 0);
  EXPECT_GT(wrong_runs(message(release, "ld.acquire.cta.global.u32 %r1, [%P1];"), two, 200, stale), 0);
}

// All threads of block 0 write, one tells; in block 1 one waits, all read.
TEST(WeakMemory, BarriersCarryOnWhatFencesDo) {
  const auto body = [](const std::string& tell, const std::string& barrier) {
    return "setp.eq.u32 %p1, %r30, 0; mad.wide.u32 %rd1, %t, 4, %P0; mad.wide.u32 %rd2, %t, 4, %P2; @%p1 bra write;\n"
           "@!%p9 bra ready;\nwait: " +
           acquire + "\nsetp.eq.u32 %p2, %r1, 0; @%p2 bra wait;\nready: " + barrier +
           "\nxor.b32 %r3, %t, 33; mad.wide.u32 %rd1, %r3, 4, %P0; ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd2], "
           "%r2; ret;\n"
           "write: add.u32 %r2, %t, 1; st.global.u32 [%rd1], %r2;\nbar.sync 0; mov.u32 %r3, 1; @!%p9 ret; " +
           tell;
  };
  const auto bad = [](world& w) {
    for (u32 n = 0; n < 64; ++n)
      if (w.found[n] != (n ^ 33) + 1) return true;
    return false;
  };
  EXPECT_EQ(wrong_runs(body(release, "bar.sync 0;"), {2, 64}, 300, bad), 0);
  EXPECT_EQ(wrong_runs(body("fence.acq_rel.gpu;" + relaxed_store, "bar.sync 0;"), {2, 64}, 300, bad), 0);
  EXPECT_GT(wrong_runs(body(relaxed_store, "bar.sync 0;"), {2, 64}, 200, bad), 0);
  EXPECT_GT(wrong_runs(body(release, ""), {2, 64}, 200, bad), 0);
}

// Block 0 tells block 1, which tells block 2: that one sees what block 0 wrote.
TEST(WeakMemory, OrderIsTransitive) {
  const auto body = [](const std::string& second_poll) {
    return "setp.eq.u32 %p1, %r30, 0; @%p1 bra first; setp.eq.u32 %p1, %r30, 1; @%p1 bra second;\n"
           "wait: ld.acquire.gpu.global.u32 %r1, [%P1+128]; setp.eq.u32 %p2, %r1, 0; @%p2 bra wait;\n"
           "ld.global.u32 %r2, [%P0]; st.global.u32 [%P2], %r2; ret;\n"
           "second: " +
           second_poll +
           "\nsetp.eq.u32 %p2, %r1, 0; @%p2 bra second;\nst.release.gpu.global.u32 [%P1+128], 1; ret;\n"
           "first: st.global.u32 [%P0], 42; mov.u32 %r3, 1; " +
           release;
  };
  EXPECT_EQ(wrong_runs(body(acquire), {3, 1}, 300, stale), 0);
}

// Each block adds its part and takes a ticket; who takes the last one sums up.
TEST(WeakMemory, TheLastBlockSeesAllParts) {
  const auto body = [](const std::string& fence) {
    return "add.u32 %r1, %r30, 1; mad.wide.u32 %rd1, %r30, 4, %P0; st.global.u32 [%rd1], %r1; " + fence +
           "atom.global.add.u32 %r2, [%P1], 1; setp.ne.u32 %p1, %r2, 3; @%p1 ret; " + fence +
           "ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%P0]; add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5; add.u32 %r3, "
           "%r3, %r6;\n"
           "add.u32 %r3, %r3, 32; st.global.u32 [%P2], %r3;";
  };
  EXPECT_EQ(wrong_runs(body("membar.gl;"), {4, 1}, 300, stale), 0);
  EXPECT_GT(wrong_runs(body(""), {4, 1}, 200, stale), 0);
}

TEST(WeakMemory, CoherenceOfOnePlace) {
  // Block 0 counts up; whoever reads never sees the count go down, and each sees its own store.
  const auto down = [](world& w) { return w.found[0] != 0; };
  const std::string body =
      "setp.eq.u32 %p1, %r30, 0; @%p1 bra write; mov.u32 %r2, 0; mov.u32 %r5, 0; mov.u32 %r6, 0;\n"
      "again: ld.relaxed.gpu.global.u32 %r1, [%P1]; setp.lt.u32 %p2, %r1, %r2; @%p2 add.u32 %r5, %r5, 1; mov.u32 %r2, "
      "%r1;\n"
      "add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 40; @%p3 bra again; st.global.u32 [%P2], %r5; ret;\n"
      "write: mov.u32 %r3, 1;\nmore: st.relaxed.gpu.global.u32 [%P1], %r3; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, "
      "20; @%p2 bra more;";
  EXPECT_EQ(wrong_runs(body, {2, 1}, 300, down), 0);
  EXPECT_EQ(
      wrong_runs(
          "mad.wide.u32 %rd1, %r30, 4, %P0; mov.u32 %r1, 9; st.global.u32 [%rd1], %r1; ld.global.u32 %r2, [%rd1];\n"
          "st.global.u8 [%rd1+1], %r1; ld.global.u32 %r3, [%rd1]; mad.lo.u32 %r2, %r2, 10000, %r3;\n"
          "mad.wide.u32 %rd2, %r30, 4, %P2; st.global.u32 [%rd2], %r2;",
          {4, 1}, 100, [](world& w) { return w.found[0] != 92313 || w.found[3] != 92313; }),
      0);
}

TEST(WeakMemory, StoreBuffering) {  // not both may miss the other's store where fences are sequentially consistent
  const auto body = [](const std::string& fence) {
    return "mul.wide.u32 %rd1, %r30, 128; add.u64 %rd1, %rd1, %P1; xor.b32 %r1, %r30, 1; mul.wide.u32 %rd2, %r1, 128;\n"
           "add.u64 %rd2, %rd2, %P1; mov.u32 %r3, 1; st.relaxed.gpu.global.u32 [%rd1], %r3; " +
           fence +
           "\nld.relaxed.gpu.global.u32 %r2, [%rd2]; mad.wide.u32 %rd3, %r30, 4, %P2; st.global.u32 [%rd3], %r2;";
  };
  const auto both_missed = [](world& w) { return w.found[0] + w.found[1] == 0; };
  EXPECT_EQ(wrong_runs(body("fence.sc.gpu;"), {2, 1}, 300, both_missed), 0);
  EXPECT_EQ(wrong_runs(body("membar.gl;"), {2, 1}, 300, both_missed), 0);
  EXPECT_GT(wrong_runs(body(""), {2, 1}, 300, both_missed), 0);
}

}  // namespace
