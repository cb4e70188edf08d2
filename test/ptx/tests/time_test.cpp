// The model of time, on small kernels whose time is known by arithmetic. Each test also fails with the constant that it
// is about a fifth larger or smaller: `depends_on`.
#include "support.hpp"

#include "time.hpp"

#include <cmath>
#include <functional>

namespace {
using namespace proof;
using namespace ptx::time;

// Where code costs nothing to fetch, which has a test of its own.
machine one_processor() {
  machine m = sample_of(find_machine("h100"), 1);
  m.first_code = 0;
  return m;
}

std::string repeated(int n, const std::string& text) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

struct modelled {
  explicit modelled(model m) { use_model(std::make_shared<const model>(std::move(m))); }
  modelled(const modelled&) = delete;
  modelled& operator=(const modelled&) = delete;
  ~modelled() { use_model(nullptr); }
};

timed_launch timed(const machine& m, const std::string& text, shape s, std::initializer_list<uint64_t> arguments,
                   uint32_t registers = 32, std::vector<line_range> costless = {}) {
  const modelled scope({m, [=](const ptx::kernel&) { return registers; }, std::move(costless)});
  launch(load_one(text), s, arguments);
  const auto all = take_timed();
  EXPECT_EQ(all.size(), 1u);
  return all.at(0);
}

using clocks_on = std::function<double(const machine&)>;

// `clocks` of a kernel are those of `expected`, and are not if one of these constants is a fifth off.
void expect_clocks(const clocks_on& clocks, double expected, std::initializer_list<std::string_view> depends_on,
                   double tolerance, const machine& m = one_processor()) {
  EXPECT_NEAR(clocks(m), expected, tolerance * expected);
  for (const std::string_view name : depends_on)
    for (const double factor : {.8, 1.2}) {
      machine other = m;
      for (const constant& c : constants())
        if (c.name == name) set(other, name, factor * (m.*c.value));
      EXPECT_GT(std::abs(clocks(other) - expected), tolerance * expected) << name << " times " << factor;
    }
}

// --- Memory ---------------------------------------------------------------------------------------------------------

TEST(Time, ACopyTakesItsBytesAtTheRateOfMemory) {
  constexpr uint32_t blocks = 8, threads = 256, each = 32;
  const buffer<uint64_t> from(blocks * threads * each * 2), to(blocks * threads * each * 2);
  std::string body =
      "{ .reg .b32 %x; mov.u32 %x, %ctaid.x; mad.lo.u32 %r1, %x, 256, %t; }\nmul.wide.u32 %rd1, %r1, 16;\n"
      "add.u64 %rd2, %P0, %rd1; add.u64 %rd3, %P1, %rd1;\n";
  for (uint32_t k = 0; k < each; ++k) {
    const std::string at = "+" + std::to_string(k * blocks * threads * 16) + "]";
    const std::string r = "{%r4, %r5, %r6, %r7}";
    body += "ld.global.v4.u32 " + r + ", [%rd2" + at + "; st.global.v4.u32 [%rd3" + at + ", " + r + ";\n";
  }
  const std::string text = kernel_text(2, body);
  const machine m = one_processor();
  const double bytes = 2. * blocks * threads * each * 16;
  expect_clocks(
      [&](const machine& on) { return timed(on, text, {blocks, threads}, {from.address(), to.address()}).clocks; },
      bytes / m.dram_bytes, {"dram_bytes"}, .06);
}

// Each word points to the next, a line further.
std::string chase(int steps, const std::string& load) {
  return kernel_text(1, repeated(steps, load + " %P0, [%P0];\n"));
}

TEST(Time, APointerChaseTakesItsLatencies) {
  constexpr int steps = 64;
  buffer<uint64_t> chain(16 * (steps + 1));
  for (int k = 0; k < steps; ++k) chain[16 * k] = reinterpret_cast<uint64_t>(&chain[16 * (k + 1)]);
  const machine m = one_processor();
  const auto run = [&](const std::string& text) {
    return [&, text](const machine& on) { return timed(on, text, {1, 1}, {chain.address()}).clocks; };
  };
  expect_clocks(run(chase(steps, "ld.global.u64")), steps * (m.dram + 2), {"dram"}, .02);
  // A second time around: what the first has left in L2, or in L1.
  for (int k = 0; k < steps; ++k) chain[16 * k] = reinterpret_cast<uint64_t>(&chain[0]);
  expect_clocks(run(chase(steps, "ld.relaxed.gpu.global.u64")), m.dram + (steps - 1) * (m.l2 + 2), {"l2"}, .03);
  expect_clocks(run(chase(steps, "ld.global.u64")), m.dram + (steps - 1) * (m.l1 + 1), {"l1"}, .04);
}

// A walk over 150 KiB twice: L1 keeps it, wherever the host has it.
TEST(Time, HitsDoNotDependOnAddresses) {
  constexpr int lines = 1200;
  const buffer<uint64_t> data(16 * (lines + 1000));
  const std::string text =
      kernel_text(1,
                  "mov.u32 %r1, 2;\nouter:\nmov.u32 %r2, 0;\nmov.u64 %rd1, %P0;\ninner:\nld.global.u64 %rd2, [%rd1];\n"
                  "add.u64 %rd1, %rd1, %rd2;\nadd.u64 %rd1, %rd1, 128;\nadd.u32 %r2, %r2, 1;\nsetp.ne.u32 %p1, %r2, " +
                      std::to_string(lines) +
                      ";\n@%p1 bra inner;\nadd.u32 %r1, %r1, -1;\nsetp.ne.u32 %p2, %r1, 0;\n@%p2 bra outer;\n");
  const machine m = one_processor();
  const auto run = [&](const machine& on, uint32_t skipped) {
    return timed(on, text, {1, 1}, {data.address() + 128 * skipped}).clocks;
  };
  const double round = 2 * m.alu + m.to_guard + m.taken;
  const double first = run(m, 0);
  EXPECT_NEAR(first, lines * (m.dram + m.l1 + 2 * round), .05 * first);
  for (const uint32_t skipped : {1, 77, 500, 999}) EXPECT_EQ(run(m, skipped), first) << skipped;
  // Half the cache keeps nothing of a walk that is longer.
  machine small = m;
  small.l1_bytes = 128 * 1024;
  EXPECT_NEAR(run(small, 0) - first, lines * (m.l2 - m.l1), .02 * first);
}

std::string shared_loads(int n, uint32_t stride) {
  return kernel_text(0, ".shared .align 16 .b8 s[8192];\nmov.u32 %r9, s; mad.lo.u32 %r9, %t, " +
                            std::to_string(stride) + ", %r9;\n" + repeated(n, "ld.shared.u32 %r1, [%r9];\n"));
}

TEST(Time, BankConflictsTakeTheirWavefronts) {
  constexpr int loads = 100;
  const machine m = one_processor();
  for (const uint32_t ways : {8, 32})
    expect_clocks([&](const machine& on) { return timed(on, shared_loads(loads, 4 * ways), {1, 32}, {}).clocks; },
                  loads * ways * m.wavefront_every, {"wavefront_every"}, .1);
}

TEST(Time, AChaseInSharedMemoryTakesItsLatency) {
  const std::string text =
      kernel_text(0, ".shared .align 16 .b8 s[8192];\nmov.u32 %r9, s;\nst.shared.u32 [%r9], %r9;\n" +
                         repeated(100, "ld.shared.u32 %r9, [%r9];\n"));
  expect_clocks([&](const machine& on) { return timed(on, text, {1, 1}, {}).clocks; }, 100 * one_processor().shared,
                {"shared"}, .03);
}

TEST(Time, AtomicsAtOneWordGoOneByOne) {
  buffer<uint32_t> word(1);
  const machine m = one_processor();
  const std::string text = kernel_text(1, "atom.global.add.u32 %r1, [%P0], 1;\nadd.u32 %r2, %r1, %r1;\n");
  expect_clocks([&](const machine& on) { return timed(on, text, {32, 1}, {word.address()}).clocks; },
                32 * m.atomic_every + m.atomic, {"atomic_every"}, .05);
}

// --- Asynchronous copies --------------------------------------------------------------------------------------------

// Two rooms of 16 bytes a lane and an mbarrier; %r9 is the lane's place in the first, %r8 a phase's parity.
const std::string rooms =
    ".shared .align 16 .b8 s[1024];\n.shared .align 8 .b64 m;\nmov.u32 %r9, s; mad.lo.u32 %r9, %t, 16, %r9;\n"
    "setp.eq.u32 %p1, %t, 0; mov.u32 %r8, 0;\n@%p1 mbarrier.init.shared.b64 [m], 1;\n"
    "@%p1 fence.proxy.async.shared::cta;\nbar.warp.sync -1;\n";

std::string bulk_copy(uint32_t bytes) {
  const std::string n = std::to_string(bytes);
  return "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [m], " + n +
         ";\n@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [s], [%P0], " + n + ", [m];\n";
}
std::string wait_for_bulk(const std::string& label) {
  return label + ": mbarrier.try_wait.parity.shared.b64 %p4, [m], %r8;\n@!%p4 bra " + label +
         ";\nxor.b32 %r8, %r8, 1;\n";
}

TEST(Time, AWaitRightAfterACopyTakesItsLatency) {
  constexpr int steps = 32;
  const machine m = one_processor();
  buffer<uint64_t> chain(16 * (steps + 1));
  const auto point = [&](int by) {
    for (int k = 0; k < steps; ++k) chain[16 * k] = reinterpret_cast<uint64_t>(&chain[16 * (by * (k + 1))]);
  };
  const auto run = [&](const std::string& body) {
    const std::string text = kernel_text(1, rooms + body);
    return [&, text](const machine& on) { return timed(on, text, {1, 1}, {chain.address()}).clocks; };
  };
  const std::string next = "ld.shared.u64 %P0, [%r9];\n";
  const auto chase = [&](const std::string& copy) {
    return run(repeated(steps, copy + "cp.async.wait_all;\n" + next));
  };
  std::string by_bulk;
  for (int k = 0; k < steps; ++k) by_bulk += bulk_copy(16) + wait_for_bulk("w" + std::to_string(k)) + next;
  const std::string cg = "cp.async.cg.shared.global [%r9], [%P0], 16;\n",
                    ca = "cp.async.ca.shared.global [%r9], [%P0], 8;\n";
  point(1);
  expect_clocks(chase(cg), steps * (m.dram + m.shared + 3), {"dram"}, .02);
  // The bytes come with the poll's result, and its branch.
  const double poll = m.shared + m.to_guard + m.not_taken;
  expect_clocks(run(by_bulk), steps * (m.dram + m.bulk + poll + m.shared), {"dram", "bulk"}, .02);
  point(0);
  expect_clocks(chase(cg), m.dram + steps * (m.l2 + m.shared + 3), {"l2"}, .05);
  expect_clocks(chase(ca), m.dram + steps * (m.l1 + m.shared + 3), {"l1"}, .05);
}

// 24 pieces, each of which comes while the warp computes on the one before, or after that.
std::string pieces(const std::string& copy, const std::function<std::string(std::string)>& wait, int computes,
                   bool ahead) {
  return kernel_text(1, rooms + "mov.u32 %r1, 24;\n" + (ahead ? copy : "") + "again:\n" + (ahead ? "" : copy) +
                            wait("w") + "ld.shared.u32 %r2, [%r9];\nadd.u64 %P0, %P0, 512;\n" + (ahead ? copy : "") +
                            repeated(computes, "min.u32 %r2, %r2, %t;\n") +
                            "add.u32 %r1, %r1, -1;\nsetp.ne.u32 %p2, %r1, 0;\n@%p2 bra again;\n" +
                            (ahead ? wait("last") : ""));
}

TEST(Time, ACopyAheadTakesTheLongerOfCopyAndComputing) {
  const machine m = one_processor();
  const buffer<uint64_t> from(25 * 64);
  const auto run = [&](const std::string& text) {
    return [&, text](const machine& on) { return timed(on, text, {1, 32}, {from.address()}).clocks; };
  };
  const std::string copy =
      "mad.wide.u32 %rd1, %t, 16, %P0;\ncp.async.cg.shared.global [%r9], [%rd1], 16;\ncp.async.commit_group;\n";
  const auto wait = [](const std::string&) { return std::string("cp.async.wait_group 0;\n"); };
  const double bytes = 512 / m.port_bytes + 512 / m.dram_bytes, accepted = 4 + 4 * m.wavefront_every;
  const double poll = m.shared + m.to_guard + m.not_taken;
  const std::tuple<std::string, std::function<std::string(std::string)>, double> ways[] = {
      {copy, wait, m.dram + accepted + bytes}, {bulk_copy(512), wait_for_bulk, m.dram + m.bulk + bytes + poll}};
  for (const auto& [start, waits, comes] : ways) {
    const double behind = m.shared + m.to_guard + m.taken;
    expect_clocks(run(pieces(start, waits, 30, true)), 25 * comes, {"dram"}, .03);
    expect_clocks(run(pieces(start, waits, 250, true)), 24 * (250 * m.alu + behind) + comes, {"alu"}, .03);
    expect_clocks(run(pieces(start, waits, 150, false)), 24 * (comes + 150 * m.alu + behind), {"dram", "alu"}, .03);
  }
}

TEST(Time, AWaitForGroupsLeavesTheLastOnTheirWay) {
  constexpr int between = 60, behind = 100;
  const machine m = one_processor();
  const buffer<uint64_t> from(128);
  const auto run = [&](const std::string& newest) {
    const std::string text = kernel_text(
        1,
        ".shared .align 16 .b8 s[32];\nmov.u32 %r9, s;\ncp.async.cg.shared.global [%r9], [%P0], 16;\n"
        "cp.async.commit_group;\n" +
            repeated(between, "min.u32 %r2, %r2, 7;\n") +
            "mul.wide.u32 %rd2, %r2, 0; add.u64 %rd1, %P0, %rd2;\n"
            "cp.async.cg.shared.global [%r9+16], [%rd1+512], 16;\ncp.async.commit_group;\ncp.async.wait_group " +
            newest + ";\nld.shared.u32 %r3, [%r9];\n" + repeated(behind, "min.u32 %r3, %r3, 7;\n") +
            "cp.async.wait_all;\n");
    return [&, text](const machine& on) { return timed(on, text, {1, 1}, {from.address()}).clocks; };
  };
  const double rest = m.dram + m.shared + behind * m.alu;
  expect_clocks(run("1"), rest, {"dram", "alu"}, .03);
  expect_clocks(run("0"), rest + between * m.alu, {"dram", "alu"}, .03);
}

TEST(Time, APollOfAPhaseThatIsOverWaitsForNothing) {
  const machine m = one_processor();
  const buffer<uint64_t> from(2);
  const std::string over = "p: mbarrier.try_wait.parity.shared.b64 %p4, [m], 0;\n@!%p4 bra p;\n";
  const std::string text = kernel_text(1, rooms + bulk_copy(16) + wait_for_bulk("first") + bulk_copy(16) + over +
                                              repeated(100, "min.u32 %r2, %r2, 7;\n") + wait_for_bulk("second"));
  const double start = m.special + m.alu + m.to_guard + m.warp_sync, poll = m.shared + m.to_guard + m.not_taken;
  expect_clocks([&](const machine& on) { return timed(on, text, {1, 1}, {from.address()}).clocks; },
                start + m.dram + m.bulk + 3 * poll + 100 * m.alu, {"dram", "alu"}, .05);
}

TEST(Time, ManyBulkCopiesWithoutABarrierOfTheBlock) {
  constexpr int copies = 66000;  // more than have a number at once
  const buffer<uint64_t> from(2);
  machine m = one_processor();
  m.dram = m.l2 = m.bulk = 0;
  const std::string text =
      kernel_text(1, rooms + "mov.u32 %r1, " + std::to_string(copies) + ";\nagain:\n" + bulk_copy(16) +
                         wait_for_bulk("w") + "add.u32 %r1, %r1, -1;\nsetp.ne.u32 %p2, %r1, 0;\n@%p2 bra again;\n");
  EXPECT_GT(timed(m, text, {1, 32}, {from.address()}).clocks, copies * m.shared);
}

// --- Pipes ----------------------------------------------------------------------------------------------------------

constexpr int loop_length = 256;

// 16 warps, four of each scheduler, whose instructions do not depend on each other.
double loop_of(const machine& on, const std::string& instruction) {
  std::string body;
  for (int k = 0; k < loop_length; ++k) {
    std::string one = instruction;
    one.replace(one.find('#'), 1, std::to_string(k % 8 + 1));
    body += one + "\n";
  }
  return timed(on, kernel_text(0, body), {1, 512}, {}).clocks;
}

TEST(Time, ALoopOfOnePipeTakesItsRate) {
  const machine m = one_processor();
  const std::tuple<const char*, const char*, double> pipes[] = {
      {"min.u32 %r#, %t, 7;", "alu_every", m.alu_every},
      {"mul.lo.u32 %r#, %t, %t;", "fma_every", m.fma_every},
      {"fma.rn.f32 %r#, %t, %t, %t;", "fp32_every", m.fp32_every},
      {"fma.rn.f64 %rd#, %at, %at, %at;", "fp64_every", m.fp64_every},
      {"popc.b32 %r#, %t;", "slow_every", m.slow_every},
  };
  for (const auto& [instruction, name, every] : pipes) {
    // Rates below an instruction a clock are not seen: a scheduler issues no more.
    if (every > 1)
      expect_clocks([&](const machine& on) { return loop_of(on, instruction); }, 4 * loop_length * every, {name}, .1);
    else
      EXPECT_NEAR(loop_of(m, instruction), 4 * loop_length, .1 * 4 * loop_length) << name;
  }
}

TEST(Time, AChainTakesItsLatency) {
  const machine m = one_processor();
  const auto chain = [](const std::string& instruction) {
    return [=](const machine& on) { return timed(on, kernel_text(0, repeated(200, instruction)), {1, 32}, {}).clocks; };
  };
  expect_clocks(chain("min.u32 %r1, %r1, %t;\n"), 200 * m.alu, {"alu"}, .03);
  expect_clocks(chain("popc.b32 %r1, %r1;\n"), 200 * m.slow, {"slow"}, .03);
  expect_clocks(chain("shfl.sync.bfly.b32 %r1, %r1, 1, 31, -1;\n"), 200 * m.shuffle, {"shuffle"}, .03);
}

// --- What ptxas combines --------------------------------------------------------------------------------------------

// Each of `n` reads what the one before has written, and another number.
std::string chain_of(int n, const std::string& operation) {
  std::string body = ".reg .b32 %n<40>;\nmin.u32 %r1, %t, 7;\n";
  for (int k = 1; k <= n; ++k) {
    const std::string at = std::to_string(k);
    body += operation + " %r" + std::to_string(k + 1) + ", %r" + at + ", %n" + at + ";\n";
  }
  return kernel_text(0, body + "min.u32 %r39, %r" + std::to_string(n + 1) + ", 7;\n");
}

TEST(Time, OneInstructionTakesThreeInputs) {
  const machine m = one_processor();
  for (const char* const operation : {"add.u32", "xor.b32", "and.b32"})
    for (const int n : {1, 2, 3, 4, 8, 15, 30}) {
      const timed_launch chain = timed(m, chain_of(n, operation), {1, 32}, {});
      const timed_launch other = timed(m, chain_of((n + 1) / 2, "min.u32"), {1, 32}, {});
      EXPECT_NEAR(chain.clocks, other.clocks, 1) << n << " " << operation;
      EXPECT_EQ(chain.slots, other.slots) << n << " " << operation;
    }
}

// As nvdisasm shows the code of ptxas for sm_90.
TEST(Time, WhatPtxasCombines) {
  const std::pair<const char*, int> bodies[] = {
      // LOP3: three inputs, however often they are read, one of which may be an immediate.
      {"and.b32 %r1, %r11, %r12; or.b32 %r2, %r1, %r13; xor.b32 %r3, %r2, %r11; and.b32 %r4, %r3, %r12;", 1},
      {"and.b32 %r1, %r11, %r12; and.b32 %r2, %r13, %r14; or.b32 %r3, %r1, %r2;", 2},
      {"and.b32 %r1, %r11, 255; or.b32 %r2, %r1, %r12;", 1},
      {"and.b32 %r1, %r11, 255; or.b32 %r2, %r1, 256;", 2},
      {"not.b32 %r1, %r11; and.b32 %r2, %r1, %r12; or.b32 %r3, %r2, %r13;", 1},
      {"xor.b64 %rd1, %rd11, %rd12; xor.b64 %rd2, %rd1, %rd13;", 2},
      {"and.b32 %r1, %r11, %r12; setp.ne.u32 %p1, %r1, 0;", 1},
      {"and.b32 %r1, %r11, %r12; setp.ne.u32 %p1, %r1, 5;", 2},
      {"and.b32 %r1, %r11, %r12; setp.lt.u32 %p1, %r1, 0;", 2},
      // IADD3, IMAD and LEA.
      {"neg.s32 %r1, %r11; add.s32 %r2, %r1, %r12; sub.s32 %r3, %r2, %r13;", 1},
      {"add.u32 %r1, %r11, %r12; add.u32 %r2, %r1, 99;", 1},
      {"mul.lo.u32 %r1, %r11, %r12; add.u32 %r2, %r1, %r13; add.u32 %r3, %r2, %r14;", 2},
      {"mul.lo.u32 %r1, %r11, %r12; mul.lo.u32 %r2, %r13, %r14; add.u32 %r3, %r1, %r2;", 2},
      {"shl.b32 %r1, %r11, 3; add.u32 %r2, %r1, %r12; add.u32 %r3, %r2, %r13;", 2},
      {"shl.b32 %r1, %r11, %r12; add.u32 %r2, %r1, %r13;", 2},
      {"add.u32 %r1, %r11, %r12; shl.b32 %r2, %r1, 4; add.u32 %r3, %r2, %r13;", 2},
      {"shl.b32 %r1, %r11, 3; or.b32 %r2, %r1, %r12;", 2},
      // Of 64 bits two each, but for IMAD.WIDE.
      {"add.u64 %rd1, %rd11, %rd12; add.u64 %rd2, %rd1, %rd13;", 2},
      {"shl.b64 %rd1, %rd11, 3; add.u64 %rd2, %rd1, %rd12;", 2},
      {"mul.wide.u32 %rd1, %r11, %r12; add.u64 %rd2, %rd1, %rd11; add.u64 %rd3, %rd2, %rd12;", 3},
      {"mul.wide.u32 %rd1, %r11, %r12; sub.u64 %rd2, %rd11, %rd1;", 3},
  };
  const auto slots = [](const std::string& body) {
    return timed(one_processor(), kernel_text(0, body), {1, 32}, {}).slots;
  };
  for (const auto& [body, instructions] : bodies) EXPECT_EQ(slots(body) - slots(""), instructions) << body;
}

TEST(Time, AChainOfMultiplyAddsTakesTheirLatency) {
  std::string body = "min.u32 %r1, %t, 7;\n";
  for (int k = 1; k < 30; k += 2) {
    const std::string n[] = {std::to_string(k), std::to_string(k + 1), std::to_string(k + 2)};
    body += "mul.lo.u32 %r" + n[1] + ", %r" + n[0] + ", %t;\nadd.u32 %r" + n[2] + ", %r" + n[1] + ", %t;\n";
  }
  const machine m = one_processor();
  const auto run = [&](const machine& on) {
    return timed(on, kernel_text(0, body + "min.u32 %r39, %r31, 7;\n"), {1, 32}, {}).clocks;
  };
  expect_clocks(run, m.special + 17 * m.alu, {"alu"}, .05);
}

// A chain of one instruction for each latency, on one warp.
TEST(Time, EachLatencyIsOfItsInstruction) {
  buffer<uint64_t> word(8);
  const std::string rooms_of_words = ".shared .align 16 .b8 s[1024];\nmov.u32 %r9, s;\n";
  const std::tuple<const char*, const char*, const char*> chains[] = {
      {"wide", "mul.wide.u32 %rd1, %r1, %t; cvt.u32.u64 %r1, %rd1;", ""},
      {"fp64", "fma.rn.f64 %at, %at, %at, %at;", ""},
      {"vote", "vote.sync.ballot.b32 %r1, %p1, -1; setp.ne.u32 %p1, %r1, 7;", ""},
      {"redux", "redux.sync.add.s32 %r1, %r1, -1;", ""},
      {"match", "match.any.sync.b32 %r1, %r1, -1;", ""},
      {"special", "mov.u32 %r1, %tid.y; mul.lo.u32 %r2, %r1, %r2; bar.warp.sync -1;", ""},
      {"shared_atomic", "atom.shared.add.u32 %r1, [%r9], %r1;", ""},
      {"atomic", "atom.global.add.u32 %r1, [%P0], %r1;", ""},
      {"fence", "fence.acq_rel.gpu;", ""},
      {"warp_sync", "bar.warp.sync -1;", ""},
      {"sleep", "nanosleep.u32 100;", ""},
  };
  for (const auto& [name, instruction, before] : chains) {
    const std::string text = kernel_text(1, rooms_of_words + before + repeated(100, std::string(instruction) + "\n"));
    const auto clocks = [&](double machine::* value, double factor) {
      machine m = one_processor();
      m.*value *= factor;
      return timed(m, text, {1, 32}, {word.address()}).clocks;
    };
    for (const constant& c : constants()) {
      if (c.name != name) continue;
      const double is = clocks(c.value, 1), each = 100 * .2 * one_processor().*c.value * (c.name == "sleep" ? 198 : 1);
      EXPECT_NEAR(clocks(c.value, 1.2) - is, each, .25 * each + 100) << name;
      EXPECT_GT(clocks(c.value, 2) - is, 2 * each) << name;
    }
  }
}

TEST(Time, SpecialRegistersThatTakeTime) {
  const auto clocks = [](const std::string& name) {
    const std::string text = kernel_text(0, "mov.u32 %r1, " + name + ";\nmin.u32 %r2, %r1, 7;\n");
    return timed(one_processor(), text, {1, 32}, {}).clocks;
  };
  for (const char* const name : {"%laneid", "%warpid", "%smid", "%lanemask_lt", "%ctaid.x", "%tid.y"})
    EXPECT_GE(clocks(name), clocks("5") + 20) << name;
  for (const char* const name : {"%ntid.x", "%nctaid.x"}) EXPECT_EQ(clocks(name), clocks("5")) << name;
}

TEST(Time, CodeIsFetchedOnce) {
  machine m = sample_of(find_machine("h100"), 1);
  const std::string text = kernel_text(0, repeated(320, "min.u32 %r1, %t, 7;\n"));
  expect_clocks([&](const machine& on) { return timed(on, text, {1, 32}, {}).clocks; },
                11 * m.first_code + 320 * m.alu_every, {"first_code"}, .05, m);
}

TEST(Time, AShortLoopIsMadeOfItsBranch) {
  const machine m = one_processor();
  const std::string text =
      kernel_text(0, "mov.u32 %r1, 100;\nloop:\nadd.u32 %r1, %r1, -1;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra loop;\n");
  expect_clocks([&](const machine& on) { return timed(on, text, {1, 32}, {}).clocks; },
                100 * (2 * m.alu + m.to_guard + m.taken), {"to_guard", "taken"}, .03);
}

// --- Warps and blocks -----------------------------------------------------------------------------------------------

// Both warps meet 50 times; the second has a chain of four instructions, on line 2, before each meeting.
std::string late_warp() {
  return kernel_text(0,
                     "\n.loc 1 1 1\nmov.u32 %r1, 50;\nsetp.lt.u32 %p1, %t, 32;\nagain:\n.loc 1 3 1\n@%p1 bra meet;\n"
                     ".loc 1 2 1\n" +
                         repeated(4, "min.u32 %r2, %r2, %t;\n") +
                         "meet:\n.loc 1 4 1\nbar.sync 0;\n.loc 1 5 1\nadd.u32 %r1, %r1, -1;\n"
                         "setp.ne.u32 %p2, %r1, 0;\n@%p2 bra again;\n",
                     ".file 1 \"late.cu\"\n");
}

TEST(Time, ABarrierWaitsForTheLateWarp) {
  const machine m = one_processor();
  // The branch past the chain is not taken; the chain; the loop's counter, whose place is before the barrier; the
  // barrier; the comparison and the branch.
  const double round = m.not_taken + 3 * m.alu + 1 + 1 + m.barrier + m.alu + m.to_guard + m.taken;
  expect_clocks([&](const machine& on) { return timed(on, late_warp(), {1, 64}, {}).clocks; }, 50 * round,
                {"barrier", "alu"}, .03);
}

TEST(Time, WaitingAndTheLongestWayHaveTheirLines) {
  const machine m = one_processor();
  const timed_launch t = timed(m, late_warp(), {1, 64}, {});
  std::vector<timed_line> lines(8);
  for (const timed_line& l : t.lines) lines[static_cast<std::size_t>(l.line)] = l;
  EXPECT_EQ(lines[2].file, "late.cu");
  // The first warp waits while the second computes; its way is never the longest there.
  EXPECT_NEAR(lines[4].waited[wait::barrier], 50 * (3 * m.alu + 2 * m.barrier), 50 * 10);
  EXPECT_NEAR(lines[2].longest_way, 50 * 4 * m.alu, 50 * m.alu);
  EXPECT_EQ(lines[2].waited[wait::barrier], 0);
  EXPECT_NEAR(lines[2].waited[wait::latency], 50 * 3 * (m.alu - 1), 50);
  double longest = 0;
  for (const timed_line& l : t.lines) longest += l.longest_way;
  EXPECT_NEAR(longest, t.clocks, .05 * t.clocks);
  // All places for warps, while the launch ran.
  EXPECT_NEAR(t.waited.total(), m.processors * t.resident_blocks * 2 * t.clocks, 1);
}

TEST(Time, LinesThatCostNothing) {
  const machine m = one_processor();
  const double all = timed(m, late_warp(), {1, 64}, {}).clocks;
  const double rest = timed(m, late_warp(), {1, 64}, {}, 32, {{"late.cu", 2, 2}}).clocks;
  // Now the other warp, whose branch is taken, comes last.
  EXPECT_NEAR(all - rest, 50 * (m.not_taken + 3 * m.alu + 1 - m.taken), 50);
}

TEST(Time, AKernelThatCostsNothing) {
  machine m = one_processor();
  m.next_block = m.first_blocks = 0;
  const auto run = [&](const std::string& body, uint32_t last) {
    const std::string text = header + std::string(".file 1 \"late.cu\"\n.visible .entry k()\n{\n.reg .b32 %r<9>;\n") +
                             ".loc 1 2 1\nmov.u32 %r1, %tid.x;\n" + body + ".loc 1 3 1\nret;\n}\n";
    return timed(m, text, {40, 96}, {}, 32, {{"late.cu", 2, last}}).clocks;
  };
  // Ends and barriers keep their order, one after the other.
  EXPECT_LE(run("min.u32 %r2, %r1, 7;\n", 3), 100);
  EXPECT_LE(run("bar.sync 0;\nmin.u32 %r2, %r1, 7;\n", 3), 200);
  EXPECT_LT(run("bar.sync 0;\n", 3), run("bar.sync 0;\n", 0));
}

// A load comes, then code is fetched: each has its own clocks.
TEST(Time, AWaitForCodeIsNoWaitForMemory) {
  machine m = sample_of(find_machine("h100"), 1);
  const buffer<uint64_t> from(1);
  const std::string text = kernel_text(1, "ld.global.u32 %r1, [%P0];\n" + repeated(28, "min.u32 %r2, %t, 7;\n") +
                                              "bra next;\nnext:\n" + repeated(40, "min.u32 %r3, %r1, 7;\n"));
  const timed_launch t = timed(m, text, {1, 32}, {from.address()});
  EXPECT_NEAR(t.waited[wait::code], 3 * m.first_code, 2);
  EXPECT_GT(t.waited[wait::global], m.dram - 100);
}

TEST(Time, LinesOfAFile) {
  const machine m = one_processor();
  const auto in_range = [&](const std::string& file) {
    const timed_launch t = timed(m, late_warp(), {1, 64}, {}, 32, {{"late.cu", 2, 2}, {file, 2, 2}});
    EXPECT_EQ(t.costless.at(0), 4u);
    return t.costless.at(1);
  };
  EXPECT_EQ(in_range("late.cu"), 4u);
  EXPECT_EQ(in_range("ate.cu"), 0u);  // a file's whole name
  EXPECT_EQ(in_range("nosuch.cu"), 0u);
}

TEST(Time, HalfTheBlocksTakeTwiceAsLong) {
  constexpr int steps = 8;
  buffer<uint64_t> self(1);
  self[0] = self.address();
  const std::string text = chase(steps, "ld.relaxed.gpu.global.u64");
  const machine m = one_processor();
  const auto run = [&](uint32_t registers) {
    return
        [&, registers](const machine& on) { return timed(on, text, {144, 128}, {self.address()}, registers).clocks; };
  };
  EXPECT_EQ(timed(m, text, {64, 128}, {self.address()}, 64).resident_blocks, 8u);
  const double wave = (steps - 1) * (m.l2 + 4) + m.next_block;  // nobody waits for the last load
  expect_clocks(run(64), 18 * wave, {"registers"}, .05);
  EXPECT_NEAR(run(128)(m), 36 * wave, .05 * 36 * wave);
}

TEST(Time, ABlockTakesThePlaceOfAnother) {
  machine m = one_processor();
  m.blocks = 1;
  expect_clocks([](const machine& on) { return timed(on, kernel_text(0, ""), {40, 32}, {}).clocks; }, 39 * m.next_block,
                {"next_block"}, .1, m);
}

TEST(Time, AChainOfMessagesBetweenBlocks) {
  constexpr uint32_t blocks = 33;
  buffer<uint32_t> flags(blocks * 32);
  // Block b waits for flag b, computes for 150 clocks and sets the next one. Flag 0 is set.
  const std::string text =
      kernel_text(1,
                  "mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd1, %r1, 128; add.u64 %rd1, %rd1, %P0;\nwaiting:\n"
                  "ld.relaxed.gpu.global.u32 %r2, [%rd1];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra waiting;\n" +
                      repeated(30, "min.u32 %r3, %r3, %r2;\n") +
                      "setp.eq.u32 %p1, %r3, 77; @%p1 bra waiting;\nsetp.lt.u32 %p2, %r1, 32;\n@%p2 "
                      "st.relaxed.gpu.global.u32 [%rd1+128], 1;\n");
  machine m = sample_of(find_machine("h100"), blocks);
  m.first_code = 0;
  // A poll comes back, is looked at, and the next one leaves. All blocks began to poll at the same time. A flag is set
  // half a round behind the poll that saw the one before, so that the next round sees it, and the poll after that.
  const double poll = m.l2 + 2 + m.alu + m.to_guard + m.taken;
  expect_clocks(
      [&](const machine& on) {
        for (uint32_t k = 0; k < flags.size(); ++k) flags[k] = k == 0;
        return timed(on, text, {blocks, 1}, {flags.address()}).clocks;
      },
      (blocks - 1) * 2 * poll, {"l2"}, .08, m);
}

// --- Machines -------------------------------------------------------------------------------------------------------

TEST(Time, ResidentBlocks) {
  const machine& m = find_machine("h100");
  EXPECT_EQ(resident_blocks(m, 64, 128, 16656), 8u);  // registers
  EXPECT_EQ(resident_blocks(m, 65, 128, 0), 7u);      // in units of 8 a thread
  EXPECT_EQ(resident_blocks(m, 32, 128, 45488), 5u);  // shared memory and what is reserved
  EXPECT_EQ(resident_blocks(m, 16, 32, 0), 32u);      // blocks
  EXPECT_EQ(resident_blocks(m, 16, 1024, 0), 2u);     // threads
  EXPECT_EQ(resident_blocks(m, 255, 1024, 0), 1u);    // ptxas has seen to it that one fits
  EXPECT_EQ(resident_blocks(with_more_blocks(m, 2), 64, 128, 16656), 16u);
}

TEST(Time, EachGpuIsComplete) {
  for (const machine& m : machines()) {
    EXPECT_FALSE(m.source.empty()) << m.name;
    EXPECT_EQ(m.calibrated, m.name == "h100");
    for (const constant& c : constants())
      EXPECT_TRUE(m.*c.value > 0 || (c.name == "reserved_bytes" && m.name == "t4")) << m.name << " " << c.name;
  }
  EXPECT_THROW(find_machine("h101"), std::invalid_argument);
  machine m = find_machine("h100");
  EXPECT_THROW(set(m, "drum", 1), std::invalid_argument);
  EXPECT_THROW(set(m, "dram", -1), std::invalid_argument);
  EXPECT_THROW(set(m, "dram", std::nan("")), std::invalid_argument);
  set(m, "dram", 40);
  EXPECT_EQ(m.dram, 40);
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, double>>{{"dram", 2.7e8},
                                                                                         {"alu", 1e12},
                                                                                         {"processors", 0},
                                                                                         {"ghz", 0},
                                                                                         {"port_bytes", 0},
                                                                                         {"threads", 0},
                                                                                         {"registers", 0},
                                                                                         {"alu_every", 1e9},
                                                                                         {"launch_us", HUGE_VAL},
                                                                                         {"dram_bytes", 1e9},
                                                                                         {"sleep", 1e6}})
    EXPECT_THROW(set(m, name, value), std::invalid_argument) << name;
  for (const constant& c : constants()) {
    EXPECT_NO_THROW(set(m, c.name, c.least)) << c.name;
    EXPECT_NO_THROW(set(m, c.name, c.most)) << c.name;
  }
}

TEST(Time, WithoutEndIsAnError) {
  const buffer<uint32_t> flag(1);
  const std::string text =
      kernel_text(1, "waiting:\nld.relaxed.gpu.global.u32 %r2, [%P0];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra waiting;\n");
  try {
    timed(one_processor(), text, {1, 1}, {flag.address()});
    ADD_FAILURE() << "it ended";
  } catch (const ptx::error& e) {
    EXPECT_EQ(e.kind, "no progress");
    EXPECT_NE(std::string(e.what()).find("nothing changes that others could wait for"), std::string::npos) << e.what();
  }
}

}  // namespace
