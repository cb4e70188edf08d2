// One planted bug each: the engine must name its kind, the kernel, the PTX line and the source line; and the kernel
// without the bug must pass under many seeds.
#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "planted.hpp"

namespace {
using namespace proof;

TEST(Faults, OutOfBounds) {
  expect_fault("out of bounds",
               "mad.wide.u32 %rd1, %t, 8, %P0;\nadd.u64 %rd1, %rd1, 520;\nBUG st.global.u64 [%rd1], %rd1;");
  expect_pass("mad.wide.u32 %rd1, %t, 8, %P0;\nadd.u64 %rd1, %rd1, 512;\nst.global.u64 [%rd1], %rd1;");
  expect_fault("out of bounds", "BUG ld.global.u32 %r1, [%P0+-4];");
  expect_fault("out of bounds", "BUG atom.global.add.u32 %r1, [%P0+1024], 1;");
  expect_fault("out of bounds", "BUG ld.u8 %r1, [%P0+1024];");
  expect_fault("out of bounds", "mov.u64 %rd1, 0;\nBUG st.u32 [%rd1], %t;");
  expect_fault("out of bounds",
               ".shared .b32 s[64];\nmov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1;\nBUG st.shared.u32 [%r1+4], %t;");
  expect_pass(".shared .b32 s[64];\nmov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1;\nst.shared.u32 [%r1], %t;");
  expect_fault("out of bounds", ".local .b32 l[4];\nmov.u64 %rd1, l;\nBUG st.local.u32 [%rd1+16], %t;");
  expect_pass(".local .b32 l[4];\nmov.u64 %rd1, l;\nst.local.u32 [%rd1+12], %t;");
  expect_fault("out of bounds", "BUG ld.param.u64 %rd1, [p1+8];");
  expect_pass("ld.param.u32 %r1, [p1+4];");
}

// In a process of its own: an access that is let through may end it.
void expect_out_of_bounds_apart(const std::string& body) {
  const auto attempt = [&] {
    try {
      memory m;
      run_body(body, {1, 1}, m);
    } catch (const ptx::error& e) {
      std::exit(e.kind == "out of bounds" ? 0 : 1);
    }
    std::exit(2);
  };
  EXPECT_EXIT(attempt(), testing::ExitedWithCode(0), "") << body;
}
TEST(Faults, OutOfBoundsBelowZero) {  // address + bytes must not wrap around
  expect_out_of_bounds_apart(".shared .b32 s[4];\nmov.u64 %rd1, s; st.shared.u32 [%rd1+-4], 1;");
  expect_out_of_bounds_apart(".shared .b32 s[4];\nmov.u32 %r1, s; st.shared.u32 [%r1+-4], 1;");
  expect_out_of_bounds_apart(".local .b32 l[4];\nmov.u64 %rd1, l; st.local.u32 [%rd1+-4], 1;");
  expect_out_of_bounds_apart("ld.param.u32 %r1, [p0+-4];");
  expect_out_of_bounds_apart("mov.u64 %rd1, -4; st.global.u32 [%rd1], 1;");
  // A 32-bit address wraps around in 32 bits.
  expect_pass(".shared .b32 s[4];\nmov.u32 %r1, s; sub.u32 %r1, %r1, 4; st.shared.u32 [%r1+4], 1;", {1, 1});
}

TEST(Faults, Misaligned) {
  expect_fault("misaligned", "BUG ld.global.u32 %r1, [%P0+2];");
  expect_fault("misaligned", "BUG st.global.v4.u32 [%P0+8], {%t, %t, %t, %t};");
  expect_fault("misaligned", "BUG atom.global.add.u64 %rd1, [%P0+4], 1;");
  expect_fault("misaligned", ".shared .align 16 .b8 s[16];\nBUG st.shared.u32 [s+1], %t;");
  expect_fault("misaligned", ".local .align 16 .b8 l[16];\nBUG st.local.u16 [l+1], %h1;");
  expect_fault("misaligned", "BUG ld.param.u32 %r1, [p0+2];");
}

TEST(Faults, Uninitialised) {
  expect_fault("uninitialised", "BUG ld.global.u32 %r1, [%P1];");
  expect_fault("uninitialised", "st.global.u16 [%P1], %t;\nBUG ld.global.u32 %r1, [%P1];", {1, 1});
  expect_fault("uninitialised", "BUG atom.global.add.u32 %r1, [%P1], 1;");
  expect_fault("uninitialised", ".shared .b32 s[4];\nBUG ld.shared.u32 %r1, [s];");
  const std::string own = "mad.wide.u32 %rd1, %t, 4, %P1; st.global.u32 [%rd1], %t; ld.global.u32 %r1, [%rd1];";
  expect_pass(own);
  expect_pass(
      ".shared .b32 s[64];\nmov.u32 %r1, s; mad.lo.u32 %r1, %t, 4, %r1; st.shared.u32 [%r1], %t; ld.shared.u32 %r2, "
      "[%r1];");
}

const std::string shared_cell =
    ".shared .b32 s[128];\nmov.u32 %r9, s; mad.lo.u32 %r1, %t, 4, %r9; st.shared.u32 [%r1], %t;\n";
TEST(Faults, Races) {
  const std::string neighbour = "xor.b32 %r2, %t, 32; mad.lo.u32 %r2, %r2, 4, %r9;\n";  // of the other warp
  const std::string lane = "xor.b32 %r2, %t, 1; mad.lo.u32 %r2, %r2, 4, %r9;\n";
  expect_fault("race", ".shared .b32 s;\nBUG st.shared.u32 [s], %t;");
  expect_fault("race", shared_cell + "bar.sync 0;\n" + neighbour +
                           "BUG ld.shared.u32 %r3, [%r2];\nBUG st.shared.u32 [%r1], %r3;");
  expect_pass(shared_cell + "bar.sync 0;\n" + neighbour +
              "ld.shared.u32 %r3, [%r2];\nbar.sync 0;\nst.shared.u32 [%r1], %r3;");
  expect_fault("race", shared_cell + lane + "BUG ld.shared.u32 %r3, [%r2];", {1, 32});
  expect_pass(shared_cell + lane + "bar.warp.sync -1;\nld.shared.u32 %r3, [%r2];", {1, 32});
  expect_pass(shared_cell + lane + "bar.warp.sync -1;\nld.shared.u32 %r3, [%r2];", {1, 64});
  // A warp's barrier does not order it with another warp.
  expect_fault("race",
               shared_cell +
                   "bar.sync 0;\nBUG st.shared.u32 [%r1], %t;\nbar.warp.sync -1;\nsetp.ge.u32 %p1, %t, 32;\n@%p1 bra "
                   "end;\nadd.u32 %r2, %r1, 128;\nBUG ld.shared.u32 %r3, [%r2];\n"
                   "end: bar.sync 0;",
               {1, 32 + 32, 0});
  expect_pass(
      ".shared .b32 s;\nsetp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [s], 0; bar.sync 0; atom.shared.add.u32 %r1, [s], "
      "1; bar.sync 0;\nld.shared.u32 %r2, [s];");
}

TEST(Faults, RacesOfLanes) {
  // All lanes read, then one writes: whichever lane that is.
  for (const std::string writer : {"0", "5", "31"})
    expect_fault("race",
                 ".shared .b32 s;\nsetp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, " + writer +
                     "; @%p1 st.shared.u32 [s], 1; bar.warp.sync -1;\nBUG ld.shared.u32 %r1, [s];\nBUG @%p2 "
                     "st.shared.u32 [s], 2;",
                 {1, 32});
  // Lane 0 meets lane 1, which meets lane 2: order is transitive.
  expect_pass(
      ".shared .b32 s;\nsetp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 2; setp.le.u32 %p3, %t, 1; setp.ge.u32 %p4, %t, "
      "1;\n"
      "@%p1 st.shared.u32 [s], 1; @!%p3 bra A; bar.warp.sync 3;\nA: @!%p4 bra B; bar.warp.sync 6;\nB: @%p2 "
      "ld.shared.u32 %r1, [s];",
      {1, 3});
}

TEST(Faults, RacesOfAtomicAccesses) {
  const std::string begin = ".shared .b32 s;\nsetp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [s], 0; bar.sync 0;\n";
  // Thread 32 waits for thread 0, which has read the flag plainly before.
  for (const std::string poll : {"ld.volatile.shared.u32", "ld.relaxed.cta.shared.u32", "ld.acquire.gpu.shared.u32"})
    for (const std::string set : {"st.volatile.shared.u32", "st.relaxed.cta.shared.u32", "red.shared.add.u32"})
      expect_pass(begin + "@%p1 bra set; setp.eq.u32 %p2, %t, 32; @!%p2 bra end;\nwait: " + poll +
                  " %r1, [s]; setp.eq.u32 %p2, %r1, 0; @%p2 bra wait; bra end;\nset: ld.shared.u32 %r2, [s]; " + set +
                  " [s], 1;\nend:");
  const std::string other = "setp.eq.u32 %p2, %t, 32;\n", next = "setp.eq.u32 %p2, %t, 1;\n";
  for (const std::string& who : {other, next}) {
    expect_fault("race", begin + who + "BUG @%p1 ld.volatile.shared.u32 %r1, [s];\nBUG @%p2 st.shared.u32 [s], 1;");
    expect_fault("race", begin + who + "BUG @%p1 ld.shared.u32 %r1, [s];\nBUG @%p2 st.volatile.shared.u32 [s], 1;");
    expect_fault("race", begin + who + "BUG @%p1 st.shared.u32 [s], 1;\nBUG @%p2 red.shared.add.u32 [s], 1;");
  }
  // The reader is the last that added, or the first.
  for (const std::string reader : {"0", "31"}) {
    const std::string add = begin + "setp.eq.u32 %p2, %t, " + reader + ";\nred.shared.add.u32 [s], 1;\n";
    expect_fault("race", add + "BUG @%p2 ld.shared.u32 %r1, [s];", {1, 32});
    expect_fault("race", add + "BUG @%p2 st.shared.u32 [s], 1;", {1, 32});
    expect_pass(add + "bar.warp.sync -1;\n@%p2 ld.shared.u32 %r1, [s];", {1, 32});
  }
}

TEST(Faults, RacesOfReadersThatMeetInTurn) {
  // Lanes 1 and 2 read, and lane 0 meets first the one, then the other.
  const std::string text =
      ".shared .b32 s;\nsetp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 1; setp.eq.u32 %p3, %t, 2; setp.lt.u32 %p4, %t, "
      "2; or.pred %p5, %p1, %p3;\n@%p1 st.shared.u32 [s], 7; bar.warp.sync -1; @%p2 ld.shared.u32 %r1, [s];\n"
      "@!%p4 bra A; bar.warp.sync 3;\nA: @%p3 ld.shared.u32 %r1, [s];\n@!%p5 bra B; bar.warp.sync 5;\nB: ";
  expect_pass(text + "@%p1 st.shared.u32 [s], 9;", {1, 32});
  expect_fault("race", text + "@%p3 st.shared.u32 [s], 9;\nBUG @%p2 st.shared.u32 [s], 8;", {1, 32});
}

TEST(Faults, RacesAcrossNamedBarriers) {
  // Warps 2 and 3 meet each other only, as do 0 and 1; thread 0 has written.
  const std::string pairs =
      ".shared .b32 s;\nshr.u32 %r1, %t, 6; add.u32 %r1, %r1, 1; setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 32; "
      "setp.ge.u32 %p3, %t, 64;\n@%p1 st.shared.u32 [s], 0; bar.sync 0;\nBUG @%p1 st.shared.u32 [s], 1;\nbar.sync %r1, "
      "64; bar.sync %r1, 64;\n";
  expect_fault("race", pairs + "BUG @%p3 ld.shared.u32 %r2, [s];", {1, 128});
  expect_pass(pairs + "@%p2 ld.shared.u32 %r2, [s];", {1, 128});
  expect_pass(pairs + "bar.sync 0;\n@%p3 ld.shared.u32 %r2, [s];", {1, 128});
  // By way of warp 1, which meets warp 0, and then warps 2 and 3.
  expect_pass(pairs + "setp.lt.u32 %p4, %t, 32; @%p4 bra end; bar.sync 4, 96;\n@%p3 ld.shared.u32 %r2, [s];\nend:",
              {1, 128});
  // Readers that a writer has met, and those that it has not.
  const std::string read = pairs + "bar.sync 0;\nBUG @%p2 ld.shared.u32 %r2, [s];\n";
  expect_pass(read + "bar.sync %r1, 64;\n@%p1 st.shared.u32 [s], 2;", {1, 128});
  expect_fault("race", read + "BUG @%p3 ld.shared.u32 %r2, [s];\nbar.sync %r1, 64;\nBUG @%p1 st.shared.u32 [s], 2;",
               {1, 128});
  expect_fault("race", read + "bar.sync %r1, 64;\nsetp.eq.u32 %p4, %t, 96;\nBUG @%p4 st.shared.u32 [s], 2;", {1, 128});
}

TEST(Faults, DivergentBarriersAndShuffles) {
  expect_fault(
      "divergent barrier",
      "setp.lt.u32 %p1, %t, 16; @%p1 bra low;\nbar.sync 0; bra end;\nlow: add.u32 %r1, %t, 1;\nbar.sync 0;\nend:",
      {1, 32});
  expect_pass(
      "setp.lt.u32 %p1, %t, 16; @%p1 bra low;\nbra end;\nlow: add.u32 %r1, %t, 1;\nend: bar.warp.sync -1; bar.sync 0;");
  expect_fault("divergent sync",
               "setp.lt.u32 %p1, %t, 31;\nBUG @%p1 shfl.sync.idx.b32 %r1, %t, 0, 31, 0xffffffff;\nbar.sync 0;",
               {1, 32});
  expect_pass("setp.lt.u32 %p1, %t, 31;\n@%p1 shfl.sync.idx.b32 %r1, %t, 0, 31, 0xffffffff;",
              {1, 32});  // an ended lane is not awaited
  expect_pass("setp.lt.u32 %p1, %t, 31;\n@%p1 shfl.sync.idx.b32 %r1, %t, 0, 31, 0x7fffffff;", {1, 32});
  expect_fault("divergent sync", "BUG shfl.sync.idx.b32 %r1, %t, 0, 31, 0x7fffffff;", {1, 32});
  expect_fault("divergent sync", "setp.lt.u32 %p1, %t, 31;\nBUG @%p1 vote.sync.ballot.b32 %r1, %p1, -1;\nbar.sync 0;",
               {1, 32});
  expect_fault("divergent sync", "setp.lt.u32 %p1, %t, 31;\nBUG @%p1 bar.warp.sync -1;\nbar.sync 0;", {1, 32});
  expect_fault("divergent sync", "setp.lt.u32 %p1, %t, 16;\nBUG @%p1 shfl.sync.idx.b32 %r1, %t, 20, 31, 0x0000ffff;",
               {1, 32});
}

TEST(Faults, BarriersOfThreadsThatHaveEnded) {
  expect_fault("divergent barrier", "setp.lt.u32 %p1, %t, 32;\nBUG @%p1 bar.sync 0;");
  expect_fault("divergent barrier", "setp.lt.u32 %p1, %t, 16;\nBUG @%p1 bar.sync 0;", {1, 32});
  expect_fault("divergent barrier", "setp.ge.u32 %p1, %t, 40; @%p1 ret;\nBUG bar.sync 0;");
  expect_pass("setp.ge.u32 %p1, %t, 32; bar.sync 0; @%p1 ret;\nbar.sync 1, 32;");
}

TEST(Faults, BarriersThatDiffer) {
  expect_fault("divergent barrier", "and.b32 %r1, %t, 1;\nBUG barrier.sync %r1, 32;", {1, 64});
  expect_fault("divergent barrier", "BUG bar.sync 1, 48;", {1, 96});
  expect_fault("divergent barrier",
               "setp.lt.u32 %p1, %t, 32; @%p1 bra low;\nBUG bar.sync 1, 64;\nbra end;\nlow: add.u32 %r1, %t, 1;\nBUG "
               "bar.sync 1, 96;\nend:",
               {1, 96});
  expect_fault("divergent barrier",
               "setp.lt.u32 %p1, %t, 32; @%p1 bra low;\nBUG bar.sync 1, 64;\nbra end;\nlow: add.u32 %r1, %t, 1;\nBUG "
               "bar.red.popc.u32 %r1, 1, 64, %p1;\nend:",
               {1, 64});
  // All of the block, said in two ways.
  expect_pass("setp.lt.u32 %p1, %t, 32; @%p1 bra low;\nbar.sync 1, 64; bra end;\nlow: bar.sync 1;\nend:");
}

TEST(Faults, ReportsNameWhoCalledWhatIsInlined) {
  const std::string text = kernel_text(
      0,
      "\n.loc 1 40 3\n.loc 2 20 5, function_name $L__info_string0, inlined_at 1 40 3\n.loc 3 373 9, function_name "
      "$L__info_string1+8, inlined_at 2 20 5\ntrap;\n",
      ".file 1 \"user.cu\"\n.file 2 \"/some/where/helpers.cuh\"\n.file 3 \"intrinsics.hpp\"\n");
  try {
    launch(load_one(text), {}, {});
    ADD_FAILURE() << "no fault";
  } catch (const ptx::error& e) {
    EXPECT_NE(std::string(e.what()).find("source intrinsics.hpp:373, from helpers.cuh:20, from user.cu:40\n"),
              std::string::npos)
        << e.what();
  }
}

TEST(Faults, TrapsAndHangs) {
  expect_fault("trap", "setp.eq.u32 %p1, %t, 33;\nBUG @%p1 trap;");
  expect_pass("setp.eq.u32 %p1, %t, 64;\n@%p1 trap;");
  ptx::settings s;
  s.no_progress = 10'000;
  const configured quick(s);
  expect_fault("no progress", "here: bra here;");
  expect_fault("no progress", "here: ld.volatile.global.u32 %r1, [%P0]; setp.eq.u32 %p1, %r1, 0;\n@%p1 bra here;");
  // A lock that nobody gives back, and atomics that change nothing.
  expect_fault("no progress", "here: atom.global.cas.b32 %r1, [%P0], 0, 1; setp.ne.u32 %p1, %r1, 0;\n@%p1 bra here;");
  expect_fault("no progress", "here: atom.global.add.u32 %r1, [%P0], 0; setp.eq.u32 %p1, %r1, 0;\n@%p1 bra here;");
  expect_pass("here: atom.global.add.u32 %r1, [%P0], 1; setp.lt.u32 %p1, %r1, 5000;\n@%p1 bra here;", {1, 1}, 2);
  expect_fault("divergent barrier",
               "setp.lt.u32 %p1, %t, 32; @%p1 bra low;\nbar.sync 1, 64; bra end;\nlow: bar.sync 2, 64;\nend:");
}

TEST(Faults, NonCoherentLoadsOfWhatTheKernelWrote) {
  const std::string own = "mad.wide.u32 %rd1, %t, 4, %P0; st.global.u32 [%rd1], %t;\n";
  expect_fault("race", own + "BUG ld.global.nc.u32 %r1, [%rd1];", {1, 32});
  expect_fault("race", own + "bar.sync 0;\nBUG ld.global.nc.u32 %r1, [%P0];", {1, 64});
  expect_fault("race", own + "membar.gl;\nBUG ld.global.nc.u32 %r1, [%P0];", {1, 1});
  expect_pass(own + "ld.global.u32 %r1, [%rd1]; ld.global.nc.u32 %r2, [%rd1+512];");
}

// --- Modules that the engine must refuse ------------------------------------------------------------

void expect_refused(const std::string& statement, const std::string& kind) {
  const std::string text = kernel_text(0, "\n" + statement);
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("\n" + statement) + 1), '\n');
  try {
    ptx::load(text);
    ADD_FAILURE() << "accepted: " << statement;
  } catch (const ptx::error& e) {
    const std::string what = e.what();
    EXPECT_TRUE(kind.empty() || e.kind == kind) << statement << "\n" << what;
    EXPECT_NE(what.find("PTX line " + std::to_string(line)), what.npos)
        << statement << " of line " << line << ": " << what;
  }
}
const char* const refused_statements = R"(
frobnicate.u32 %r1, %r2; add.u33 %r1, %r2, %r3; add.u32 %r1, %r2; add.u32 %r1, %r2, %r3, %r4;
add.rp.u32 %r1, %r2, %r3; mul.u32 %r1, %r2, %r3; add.sideways.u32 %r1, %r2, %r3;
setp.zz.u32 %p1, %r1, %r2; setp.lo.s32 %p1, %r1, %r2; setp.lt.b32 %p1, %r1, %r2; cvt.f32.s32 %r1, %r2;
cvt.s32.f32 %r1, %r2; cvt.f32.f64 %r1, %rd1; cvt.rni.f32.f64 %r1, %rd1; ld.global.q32 %r1, [%rd1];
ld.nowhere.u32 %r1, [%rd1]; shfl.sync.around.b32 %r1, %r2, 0, 31, -1; add.u32 %r1, %r2, %r99;
add.u32 %r1, %nothing, %r2; bra.divergent nowhere; div.f32 %r1, %r2, %r3; sqrt.f32 %r1, %r2;
fma.f32 %r1, %r2, %r3, %r4; mul.wide.u64 %rd1, %rd2, %rd3; neg.u32 %r1, %r2; atom.global.sub.u32 %r1, [%rd1], 1;
atom.global.inc.s32 %r1, [%rd1], 1; add.u64 %rd1, %r1, %rd2; add.u32 %r1, %rd1, %r2; add.u16 %r1, %h1, %h2;
mov.b32 %r1, %rd1; shl.u32 %r1, %r2, %r3; prmt.b32.xyz %r1, %r2, %r3, %r4;
lop3.b32 %r1, %r2, %r3, %r4, 256; vote.sync.some.pred %p1, %p2, -1; @%r1 mov.u32 %r1, 0; 
popc.u32 %r1, %r2; bfe.b32 %r1, %r2, 0, 3; and.u32 %r1, %r2, %r3; st.const.u32 [%rd1], %r1; add.f32 %r1, %r2, 1;
min.sat.f32 %r1, %r2, %r3; ld.release.gpu.global.u32 %r1, [%rd1]; neg.ftz.f64 %rd1, %rd2; bra nowhere_at_all;
cvta.u64 %rd1, %rd2; isspacep.const %p1, %rd1;
vote.sync.ballot.b32 _, %p1, -1; vote.sync.any.pred _, %p1, -1; activemask.b32 _; redux.sync.add.u32 _, %r1, -1;
match.any.sync.b32 _, %r1, -1; bar.red.popc.u32 _, 0, %p1; bar.red.and.pred _, 0, %p1;
shfl.sync.idx.b32 _, %r1, 0, 31, -1; add.f32 _, %r1, %r2; add.u32 _, %r1, 1; mov.pred _, %p1;
and.pred _, %p1, %p2; and.pred !%p1, %p2, %p3; isspacep.global _, %rd1; ld.global.u32 _, [%rd1];
redux.sync.and.u32 %r1, %r2, -1; match.any.sync.b32 %r1|%p1, %r2, -1; red.global.exch.b32 [%rd1], 1;
red.global.cas.b32 [%rd1], 1, 2; atom.const.add.u32 %r1, [%rd1], 1; atom.local.add.u32 %r1, [%rd1], 1;
atom.global.cas.u32 %r1, [%rd1], 0, 1; atom.global.and.u32 %r1, [%rd1], 1; ld.global.relaxed.u32 %r1, [%rd1];
ld.acquire.global.u32 %r1, [%rd1]; st.release.global.u32 [%rd1], %r1; ld.volatile.gpu.global.u32 %r1, [%rd1];
ld.const.volatile.u32 %r1, [%rd1]; ld.volatile.global.nc.u32 %r1, [%rd1]; cvt.rn.f32.f32 %r1, %r2;
cvt.rn.f64.f32 %rd1, %r1; cvt.rn.u32.u16 %r1, %h1; cvt.rzi.ftz.s32.f64 %r1, %rd1; mov.u32 %r1, %clock64;
mov.u64 %rd1, %clock; add.u32 %r1, %r1, %tid.x; st.global.u32 [%rd1], %tid.x; exit.uni; mov.u32 %r1, 0f3F800000;
mov.b32 %r1, 0d3FF0000000000000; mov.b64 %rd1, 0f3F800000; add.u32 %r1, %r1, 0f3F800000;
)";
TEST(Faults, RefusedAtLoad) {
  std::istringstream all(refused_statements);
  for (std::string s; std::getline(all >> std::ws, s, ';');) expect_refused(s + ";", "");
  expect_refused("frobnicate.u32 %r1, %r2;", "unknown instruction");
  EXPECT_THROW(ptx::load(std::string(header) + ".visible .entry k() { ret;"), ptx::error);
  for (const char* s : {"match.all.sync.b32 _|%p1, %r1, -1;", "setp.eq.u32 _|%p1, %r1, 0;",
                        "atom.global.add.u32 _, [%rd1], 1;", "cvt.rn.bf16.f32 %h1, %r1;", "cvt.u64.u32 %rd1, %tid.x;",
                        "cvt.ftz.f64.f32 %rd1, %r1;", "ld.acquire.gpu.shared.u32 %r1, [%rd1];"})
    EXPECT_NO_THROW(ptx::load(kernel_text(0, s))) << s;
}

// What is refused is said in one line, with its name.
void expect_refusal(const std::string& text, const std::string& why) {
  try {
    ptx::load(header + text);
    ADD_FAILURE() << "accepted: " << text;
  } catch (const ptx::error& e) {
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
  }
}
TEST(Faults, RefusalsHaveNames) {
  expect_refusal(".visible .entry k() .explicitcluster .reqnctapercluster 2, 1, 1\n{ ret; }",
                 "clusters are not supported: k");
  expect_refusal(".func (.param .b32 r) helper(.param .b32 a)\n{ ret; }", "functions are not supported: helper");
  expect_refusal(".visible .func other(.param .b32 a)\n{ ret; }", "functions are not supported: other");
  expect_refusal(".shared .align 4 .b32 common;", "shared memory outside of a kernel: common");
  expect_refusal(".global .b64 p[1] = {generic(d)+8};", "addresses are not supported here: generic(d)+8");
  expect_refusal(".global .f32 x = 0d3FF00000;", "not a number");
  expect_refusal(".global .u32 x = 0f3F800000;", "another type");
  expect_refusal(".visible .entry k() {\ncall.uni (r),\n  vprintf,\n\t(a,\n  b);\nret; }",
                 "calls are not supported: call.uni (r), vprintf, (a, b)\n");
  expect_refusal(".visible .entry k() {\n{ again: }\n{ again: }\nret; }", "PTX line 6: a label twice: again");
  // Behind dynamic shared memory nothing else has room.
  expect_refusal(
      ".extern .shared .align 16 .b8 dynamic[];\n.visible .entry k() {\n.reg .b32 %r1;\n"
      "mov.u32 %r1, dynamic;\n{ .shared .b32 late; st.shared.u32 [late], %r1; }\nret; }",
      "PTX line 8: declared behind the use of dynamic shared memory");
}

}  // namespace
