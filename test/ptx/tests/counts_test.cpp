// What the engine counts, against counts by hand.
#include <algorithm>

#include "support.hpp"

namespace {
using namespace proof;
using u64 = uint64_t;

ptx::settings with_traffic() {
  ptx::settings s;
  s.traffic = true;
  return s;
}

// 1 thread in 4 of the last warp copies, all others do: 100 threads of 128.
const std::string copy_text = std::string(header) + R"(.file 1 "copy.cu"
.visible .entry copy_kernel(.param .u64 p0, .param .u64 p1)
{
.reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
.loc 1 10 1
ld.param.u64 %rd1, [p0];
ld.param.u64 %rd2, [p1];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 4;
.loc 1 11 1
setp.ge.u32 %p1, %r1, 100;
@%p1 bra done;
.loc 1 12 1
add.u64 %rd4, %rd1, %rd3;
add.u64 %rd5, %rd2, %rd3;
ld.global.u32 %r2, [%rd5];
st.global.u32 [%rd4], %r2;
done:
.loc 1 13 1
ret;
}
)";

TEST(Counts, ACopyByHand) {
  const configured c(with_traffic());
  ptx::clear_counts();
  buffer<uint32_t> to(100), from(100);
  const auto* k = load_one(copy_text);
  for (u64 seed = 1; seed <= 3; ++seed) {
    const auto n = launch(k, {1, 128, 0, seed}, {to.address(), from.address()});
    // 4 warps run 6 + 4 + 1 instructions; the last one's return may be issued once or, still apart, twice.
    EXPECT_GE(n.instructions, 44u);
    EXPECT_LE(n.instructions, 45u);
    EXPECT_EQ(n.lanes, 128u * 5 + 28 + 100 * 4 + 128);  // of the branch: the lanes that its predicate lets through
    EXPECT_EQ(n.load_sectors, 13u);                     // 400 bytes
    EXPECT_EQ(n.store_sectors, 13u);
    EXPECT_EQ(n.barriers, 0u);
    EXPECT_EQ(n.atomics, 0u);
    EXPECT_EQ(n.polls, 0u);
  }
  const auto all = ptx::counted();
  const auto it = std::find_if(all.begin(), all.end(), [](const auto& e) { return e.name == "copy_kernel"; });
  ASSERT_NE(it, all.end());
  EXPECT_EQ(it->launches, 3u);
  u64 sum = 0;
  for (const auto& l : it->lines) {
    EXPECT_EQ(l.file, "copy.cu");
    sum += l.all.instructions;
    EXPECT_TRUE(l.line == 13 || l.all.instructions == 3u * 4 * (l.line == 11 ? 2 : 4)) << l.line;
    EXPECT_TRUE(l.line != 10 || l.all.lanes == 3u * 128 * 4);
    EXPECT_EQ(l.all.load_sectors, l.line == 12 ? 3u * 13 : 0u);
  }
  EXPECT_EQ(it->lines.size(), 4u);
  EXPECT_EQ(sum, it->all.instructions);
  ptx::clear_counts();
  for (const auto& e : ptx::counted()) EXPECT_EQ(e.launches, 0u);
}

ptx::counters copy_with_tensor(uint64_t from_byte) {  // the source's bytes from there on are a tensor
  const configured c(with_traffic());
  buffer<uint32_t> to(100), from(100);
  ptx::launch l;
  l.code = load_one(copy_text);
  l.block = {128};
  const u64 arguments[] = {to.address(), from.address()};
  l.arguments.resize(16);
  std::memcpy(l.arguments.data(), arguments, 16);
  const ptx::range tensor{from.address() + from_byte, from.address() + 400};
  l.tensors = {&tensor, 1};
  return ptx::run(l);
}
TEST(Counts, TensorBytes) {
  const auto n = copy_with_tensor(0);
  EXPECT_EQ(n.tensor_bytes_read, 400u);
  EXPECT_EQ(n.tensor_bytes_written, 0u);
  EXPECT_EQ(n.other_bytes_read, 0u);
  EXPECT_EQ(n.other_bytes_written, 400u);
  EXPECT_EQ(n.tensor_sectors_read, 13u);
  EXPECT_EQ(n.other_sectors_written, 13u);
}
TEST(Counts, TensorThatBeginsWithinAWarpsLoad) {
  const auto split = copy_with_tensor(64);  // in the middle of a warp's load
  EXPECT_EQ(split.tensor_bytes_read, 336u);
  EXPECT_EQ(split.other_bytes_read, 64u);
}

// One warp accesses global memory: lane n at offset + n * stride bytes.
ptx::counters global_access(const std::string& op, uint32_t stride, uint32_t offset) {
  const configured c(with_traffic());
  buffer<uint32_t> memory(4096);
  const std::string place = "mad.wide.u32 %rd1, %t, " + std::to_string(stride) + ", %P0; add.u64 %rd1, %rd1, " +
                            std::to_string(offset) + ";\n";
  return launch(load_one(kernel_text(1, place + op)), {1, 32}, {memory.address()});
}
TEST(Counts, Sectors) {
  const auto loads = [](const std::string& type, uint32_t stride, uint32_t offset = 0) {
    const std::string to = type == "u64" ? "%rd2" : type == "v4.u32" ? "{%r1, %r2, %r3, %r4}" : "%r1";
    return global_access("ld.global." + type + " " + to + ", [%rd1];", stride, offset).load_sectors;
  };
  EXPECT_EQ(loads("u32", 4), 4u);
  EXPECT_EQ(loads("u32", 4, 4), 5u);   // shifted by a word: one more
  EXPECT_EQ(loads("u32", 4, 32), 4u);  // by a sector: none
  EXPECT_EQ(loads("u32", 8), 8u);
  EXPECT_EQ(loads("u32", 32), 32u);
  EXPECT_EQ(loads("u32", 128), 32u);
  EXPECT_EQ(loads("u32", 0), 1u);
  EXPECT_EQ(loads("u8", 1), 1u);
  EXPECT_EQ(loads("u8", 1, 5), 2u);
  EXPECT_EQ(loads("u64", 8), 8u);
  EXPECT_EQ(loads("v4.u32", 16), 16u);
  EXPECT_EQ(loads("v4.u32", 64), 32u);
  const auto stored = global_access("st.global.u32 [%rd1], %t;", 8, 0);
  EXPECT_EQ(stored.store_sectors, 8u);
  EXPECT_EQ(stored.load_sectors, 0u);
  EXPECT_EQ(global_access("setp.lt.u32 %p1, %t, 8;\n@%p1 ld.global.u32 %r1, [%rd1];", 4, 0).load_sectors, 1u);
}

// One warp reads shared memory: lane n at offset + n * stride bytes; wavefronts, and the least there could be.
std::pair<u64, u64> wavefronts(const std::string& type, uint32_t stride, const std::string& lanes = {}) {
  ptx::settings s = with_traffic();
  s.check = false;
  const configured c(s);
  const std::string to = type == "u64" ? "%rd2" : type == "v4.u32" ? "{%r1, %r2, %r3, %r4}" : "%r1";
  const std::string place = "mov.u32 %r9, s; mad.lo.u32 %r9, %t, " + std::to_string(stride) + ", %r9;\n" + lanes;
  const auto n =
      launch(load_one(kernel_text(0, ".shared .align 16 .b8 s[8192];\n" + place + (lanes.empty() ? "" : "@%p1 ") +
                                         "ld.shared." + type + " " + to + ", [%r9];")),
             {1, 32}, {});
  return {n.shared_wavefronts, n.least_wavefronts};
}
using pair = std::pair<u64, u64>;
TEST(Counts, Wavefronts) {
  EXPECT_EQ(wavefronts("u32", 4), pair(1, 1));
  EXPECT_EQ(wavefronts("u32", 8), pair(2, 1));
  EXPECT_EQ(wavefronts("u32", 12), pair(1, 1));
  EXPECT_EQ(wavefronts("u32", 64), pair(16, 1));
  EXPECT_EQ(wavefronts("u32", 128), pair(32, 1));
  EXPECT_EQ(wavefronts("u32", 0), pair(1, 1));  // all lanes read one word
  EXPECT_EQ(wavefronts("u8", 1), pair(1, 1));
  EXPECT_EQ(wavefronts("u16", 2), pair(1, 1));
  EXPECT_EQ(wavefronts("u64", 8), pair(2, 2));
  EXPECT_EQ(wavefronts("u64", 128), pair(32, 2));
  EXPECT_EQ(wavefronts("v4.u32", 16), pair(4, 4));
  EXPECT_EQ(wavefronts("v4.u32", 128), pair(32, 4));
  EXPECT_EQ(wavefronts("u32", 128, "setp.lt.u32 %p1, %t, 4;\n"), pair(4, 1));
}

// By line, what the kernel has in all: %P0 are 64 words.
TEST(Counts, LinesHaveWhatTheKernelHas) {
  const configured c(with_traffic());
  ptx::clear_counts();
  buffer<uint32_t> memory(64);
  const std::string body =
      ".loc 1 1 1\n.shared .b32 s; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [s], 0;\n.loc 1 2 1\nbar.sync 0;\n"
      ".loc 1 3 1\natom.shared.add.u32 %r1, [s], 1;\n.loc 1 4 1\natom.global.add.u32 %r2, [%P0], 1;\n"
      ".loc 1 5 1\nld.relaxed.gpu.global.u32 %r3, [%P0+4];\n.loc 1 6 1\nst.global.u32 [%P0+8], 1;\n";
  const auto n = launch(load_one(kernel_text(1, "\n" + body, ".file 1 \"lines.cu\"\n")), {2, 64}, {memory.address()});
  std::vector<ptx::counters> lines(8);
  for (const auto& k : ptx::counted())
    for (const auto& l : k.lines) lines[static_cast<std::size_t>(l.line)] = l.all;
  EXPECT_EQ(lines[2].barriers, 128u);
  EXPECT_EQ(lines[3].shared_atomics, 128u);
  EXPECT_EQ(lines[3].atomics, 0u);
  EXPECT_EQ(lines[4].atomics, 128u);
  EXPECT_EQ(lines[4].load_sectors, 4u);
  EXPECT_EQ(lines[4].store_sectors, 4u);
  EXPECT_EQ(lines[5].polls, 128u);
  EXPECT_EQ(lines[6].store_sectors, 4u);
  ptx::counters sum;
  for (const auto& l : lines) sum += l;
  for (const auto count : {&ptx::counters::barriers, &ptx::counters::shared_atomics, &ptx::counters::atomics,
                           &ptx::counters::polls, &ptx::counters::load_sectors, &ptx::counters::store_sectors})
    EXPECT_EQ(sum.*count, n.*count);
  ptx::clear_counts();
}

TEST(Counts, WavefrontsOfAtomics) {  // one for each lane that meets others at a word, or in a bank
  const auto atomics = [](const std::string& place) {
    const configured c(with_traffic());
    const std::string text =
        ".shared .align 16 .b8 s[8192];\nmov.u32 %r9, s; mad.lo.u32 %r9, %t, 4, %r9;\n"
        "st.shared.u32 [%r9], 0; bar.warp.sync -1;\n" +
        place + " mad.lo.u32 %r1, %r1, 4, s; red.shared.add.u32 [%r1], 1;";
    return launch(load_one(kernel_text(0, text)), {1, 32}, {}).shared_wavefronts - 1;  // but for the store
  };
  EXPECT_EQ(atomics("mov.u32 %r1, %t;"), 1u);
  EXPECT_EQ(atomics("mov.u32 %r1, 0;"), 32u);
  EXPECT_EQ(atomics("shr.u32 %r1, %t, 2;"), 4u);
}

TEST(Counts, AtomicsBarriersPolls) {
  buffer<uint32_t> memory(64);
  const auto n =
      launch(load_one(kernel_text(1,
                                  ".shared .b32 s; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.u32 [s], 0; bar.sync 0;\n"
                                  "atom.shared.add.u32 %r1, [s], 1; atom.global.add.u32 %r2, [%P0], 1; bar.sync 0;\n"
                                  "@%p1 red.global.add.u32 [%P0], 1; ld.relaxed.gpu.global.u32 %r3, [%P0+4];")),
             {2, 64}, {memory.address()});
  EXPECT_EQ(n.shared_atomics, 128u);
  EXPECT_EQ(n.atomics, 130u);
  EXPECT_EQ(n.barriers, 256u);
  EXPECT_EQ(n.polls, 128u);
}

}  // namespace
