// Loads and stores of all widths, vectors, atomics of all operations and types, addresses of spaces.
#include <algorithm>
#include <random>

#include "support.hpp"

namespace {
using namespace proof;
using u32 = uint32_t;
using u64 = uint64_t;

// One thread: 64 bytes of input at %P1 (bytes 0xf0, 0xf1, ...: negative in all signed types), a result at %P0.
std::vector<u64> thread_result(const std::string& body, std::size_t words = 1) {
  buffer<unsigned char> in(64);
  buffer<u64> out(words);
  for (int n = 0; n < 64; ++n) in[n] = static_cast<unsigned char>(n < 16 ? 0xf0 + n : n);
  launch(load_one(kernel_text(2, body)), {1, 1}, {out.address(), in.address()});
  return out.values();
}

TEST(Memory, NarrowLoadsFillTheRegister) {
  const std::pair<const char*, u64> loads[] = {{"u8", 0xf1},
                                               {"b8", 0xf1},
                                               {"s8", 0xfffffffffffffff1},
                                               {"u16", 0xf3f2},
                                               {"b16", 0xf3f2},
                                               {"s16", 0xfffffffffffff3f2},
                                               {"u32", 0xf7f6f5f4},
                                               {"b32", 0xf7f6f5f4},
                                               {"s32", 0xfffffffff7f6f5f4},
                                               {"u64", 0xfffefdfcfbfaf9f8}};
  for (const auto& [type, want] : loads)
    for (const std::string space : {"", ".global", ".global.nc", ".volatile.global", ".shared", ".local"}) {
      const std::string t = type, at = t.substr(1) == "8" ? "1" : std::to_string(std::stoi(t.substr(1)) / 8);
      const bool own = space == ".shared" || space == ".local";
      const std::string copied = space + " .align 16 .b8 v[16]; ld.global.v2.u64 {%rd2, %rd3}, [%P1]; st" + space +
                                 ".v2.u64 [v], {%rd2, %rd3};\nmov.u64 %P1, v;\n";
      for (const unsigned bits : {64u, 32u, 16u}) {
        if (std::stoul(t.substr(1)) > bits) continue;
        const std::string to = bits == 64 ? "%rd1" : bits == 32 ? "%r1" : "%h1";
        const std::string body = (own ? copied : "") + "ld" + space + "." + t + " " + to + ", [%P1+" + at +
                                 "]; st.global.u" + std::to_string(bits) + " [%P0], " + to + ";";
        EXPECT_EQ(thread_result(body)[0], bits == 64 ? want : want & ((u64{1} << bits) - 1)) << body;
      }
    }
}

TEST(Memory, NarrowStoresTakeLowBytes) {
  EXPECT_EQ(thread_result("mov.u64 %rd1, 0x123456789abcdef0; st.global.u8 [%P0+1], %rd1; st.global.b16 [%P0+2], %rd1;\n"
                          "st.u32 [%P0+4], %rd1;")[0],
            0x9abcdef0def0f000);
  EXPECT_EQ(thread_result("mov.u32 %r1, 0x9abcdef0; st.global.s8 [%P0], %r1; st.global.u16 [%P0+6], %r1;")[0],
            0xdef00000000000f0);
}

TEST(Memory, Vectors) {
  EXPECT_EQ(
      thread_result("ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%P1+4]; st.global.v4.u8 [%P0], {%h4, %h3, %h2, %h1};")[0],
      0xf4f5f6f7u);
  EXPECT_EQ(thread_result("ld.global.v2.s8 {%r1, %r2}, [%P1+2]; st.global.v2.u32 [%P0], {%r2, %r1};")[0],
            0xfffffff2fffffff3);
  EXPECT_EQ(thread_result("ld.global.v2.u16 {%h1, %h2}, [%P1]; st.global.v2.b16 [%P0+4], {%h2, %h1};")[0],
            0xf1f0f3f200000000);
  EXPECT_EQ(thread_result(
                "ld.global.v4.u16 {%h1, %h2, %h3, %h4}, [%P1+16]; st.global.v4.u16 [%P0], {%h4, %h3, %h2, %h1};")[0],
            0x1110131215141716u);
  EXPECT_EQ(thread_result(
                "ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%P1+16]; st.global.v4.b32 [%P0], {%r4, %r3, %r2, %r1};", 2),
            (std::vector<u64>{0x1b1a19181f1e1d1c, 0x1312111017161514}));
  EXPECT_EQ(thread_result("ld.global.v2.f64 {%rd1, %rd2}, [%P1+32]; st.global.v2.u64 [%P0], {%rd2, %rd1};", 2),
            (std::vector<u64>{0x2f2e2d2c2b2a2928, 0x2726252423222120}));
  EXPECT_EQ(thread_result("ld.global.v2.u32 {%rd1, _}, [%P1+8]; st.global.v2.b64 [%P0], {%rd1, %rd1};", 2),
            (std::vector<u64>(2, 0xfbfaf9f8)));
  EXPECT_EQ(thread_result("add.u64 %rd1, %P1, 32; ld.global.u32 %r1, [%rd1+-4]; st.global.u32 [%P0+0], %r1;")[0],
            0x1f1e1d1cu);
}

// Elements written one by one to shared or local memory come back as a vector, and a vector one by one.
TEST(Memory, VectorsOfOtherSpaces) {
  for (const std::string space : {"shared", "local"})
    for (const std::string type : {"u8", "u16", "b32", "u32", "f32", "u64", "f64"})
      for (const int n : {2, 4}) {
        const int bytes = std::stoi(type.substr(1)) / 8;
        if (bytes * n > 16) continue;
        const std::string r = bytes == 8 ? "%rd" : bytes == 4 ? "%r" : "%h", v = ".v" + std::to_string(n) + "." + type;
        const std::string all = "{" + r + "1, " + r + "2" + (n == 4 ? ", " + r + "3, " + r + "4}" : "}");
        std::string one = "." + space + " .align 16 .b8 v[16];\n", back;
        for (int k = 0; k < n; ++k) {
          const std::string at = std::to_string(k * bytes), x = r + std::to_string(k + 1);
          one += "ld.global." + type + " " + x + ", [%P1+" + at + "]; st." + space + "." + type + " [v+" + at + "], " +
                 x + ";\n";
          back += "ld." + space + "." + type + " " + r + "9, [v+" + at + "]; st.global." + type + " [%P0+" + at +
                  "], " + r + "9;\n";
        }
        const auto want = thread_result(
            "ld.global.u64 %rd1, [%P1]; ld.global.u64 %rd2, [%P1+8]; st.global.v2.u64 [%P0], {%rd1, %rd2};", 2);
        const u64 first = bytes * n >= 8 ? want[0] : want[0] & ((u64{1} << bytes * n * 8) - 1);
        const std::vector<u64> expected = {first, bytes * n == 16 ? want[1] : 0};
        EXPECT_EQ(
            thread_result(one + "ld." + space + v + " " + all + ", [v]; st.global" + v + " [%P0], " + all + ";", 2),
            expected)
            << v;
        EXPECT_EQ(thread_result("." + space + " .align 16 .b8 v[16];\nld.global" + v + " " + all + ", [%P1]; st." +
                                    space + v + " [v], " + all + ";\n" + back,
                                2),
                  expected)
            << v;
      }
}

TEST(Memory, FloatsAreFlushedByAtomicsOnGlobalMemoryOnly) {
  const auto sum = [](const std::string& space, const std::string& a, const std::string& b) {
    const std::string own = space == "shared" ? ".shared .b32 v;\n" : "mov.u64 %rd1, %P0;\n";
    const std::string at = space == "shared" ? "[v]" : "[%rd1]";
    return thread_result(own + "st." + space + ".b32 " + at + ", " + a + "; atom." + space + ".add.f32 %r1, " + at +
                         ", " + b + "; ld." + space + ".u32 %r2, " + at + "; st.global.v2.u32 [%P0], {%r2, %r1};")[0];
  };
  EXPECT_EQ(sum("global", "0x00000001", "0f00000002"), 0x100000000u);  // what was there comes back as it was
  EXPECT_EQ(sum("shared", "0x00000001", "0f00000002"), 0x100000003u);
  EXPECT_EQ(sum("global", "0x80000001", "0f80000002"), 0x8000000180000000u);
  EXPECT_EQ(sum("global", "0x00800001", "0f80800000"), 0x0080000100000000u);
  EXPECT_EQ(sum("shared", "0x00800001", "0f80800000"), 0x0080000100000001u);
}

// --- Atomics ------------------------------------------------------------

template <class T> T combine(const std::string& op, T old, T b, T c) {
  if (op == "add") return static_cast<T>(old + b);
  if (op == "min") return std::min(old, b);
  if (op == "max") return std::max(old, b);
  if (op == "exch") return b;
  if (op == "cas") return old == b ? c : old;
  if constexpr (std::is_integral_v<T>) {
    if (op == "and") return old & b;
    if (op == "or") return old | b;
    if (op == "xor") return old ^ b;
    if (op == "inc") return old >= b ? 0 : old + 1;
    if (op == "dec") return old == 0 || old > b ? b : old - 1;
  }
  ADD_FAILURE() << op;
  return {};
}

// One thread after another: what comes back is the old value; then what 64 threads together leave.
template <class T> void atomics(const std::string& type, const std::vector<std::string>& ops) {
  const std::string bits = std::to_string(sizeof(T) * 8), r = sizeof(T) == 8 ? "%rd" : "%r";
  std::mt19937_64 random(5);
  for (const std::string& op : ops)
    for (const std::string space : {".global", ".shared", ""}) {
      const bool shared = space == ".shared";
      const std::string third = op == "cas" ? ", " + r + "3" : "";
      const std::string a = shared ? "[v]" : "[%P0]";
      const std::string into = shared ? ".shared .align 8 .b64 v; st.shared.b" + bits + " [v], " + r + "1;\n" : "";
      const std::string out =
          shared ? "ld.shared.b" + bits + " " + r + "5, [v]; st.global.b" + bits + " [%P0], " + r + "5;\n" : "";
      const std::string load = "ld.global.b" + bits + " " + r + "1, [%P0]; ld.global.b" + bits + " " + r +
                               "2, [%P0+8]; ld.global.b" + bits + " " + r + "3, [%P0+16];\n" + into;
      const std::string operands = op + "." + type;
      const auto* k =
          load_one(kernel_text(1, load + "atom" + space + "." + operands + " " + r + "4, " + a + ", " + r + "2" +
                                      third + "; st.global.b" + bits + " [%P0+24], " + r + "4;\n" + out));
      const bool reduces = op != "cas" && op != "exch";
      const auto* red =
          reduces ? load_one(kernel_text(1, load + "red" + space + "." + operands + " " + a + ", " + r + "2;" + out))
                  : nullptr;
      for (int n = 0; n < 40; ++n) {
        buffer<u64> v(4);
        T in[3];
        for (T& x : in) {
          if constexpr (std::is_floating_point_v<T>)
            x = static_cast<T>(static_cast<int>(random() % 2000) - 1000) / 8;
          else
            x = static_cast<T>(random() % 3 ? random() >> random() % 64 : random() % 3);
        }
        if (n % 3 == 0) in[1] = in[0];
        for (int i = 0; i < 3; ++i) std::memcpy(&v[i], &in[i], sizeof(T));
        launch(k, {1, 1}, {v.address()});
        T got, old;
        std::memcpy(&got, &v[0], sizeof(T));
        std::memcpy(&old, &v[3], sizeof(T));
        const T want = combine(op, in[0], in[1], in[2]);
        EXPECT_EQ(got, want) << operands << space << " " << in[0] << " " << in[1];
        EXPECT_EQ(old, in[0]) << operands << space;
        if (!red) continue;
        std::memcpy(&v[0], &in[0], sizeof(T));
        launch(red, {1, 1}, {v.address()});
        std::memcpy(&got, &v[0], sizeof(T));
        EXPECT_EQ(got, want) << "red " << operands << space;
      }
    }
}
TEST(Atomics, Operations) {
  atomics<u32>("u32", {"add", "min", "max", "inc", "dec"});
  atomics<int32_t>("s32", {"add", "min", "max"});
  atomics<u64>("u64", {"add", "min", "max"});
  atomics<int64_t>("s64", {"min", "max"});
  atomics<u32>("b32", {"and", "or", "xor", "exch", "cas"});
  atomics<u64>("b64", {"and", "or", "xor", "exch", "cas"});
  atomics<float>("f32", {"add"});
  atomics<double>("f64", {"add"});
}

TEST(Atomics, OfManyThreads) {  // each of 4 x 64 threads gets another ticket, in all scopes and orders
  for (const std::string m : {"", ".relaxed.gpu", ".acq_rel.gpu", ".acquire.cta", ".release.sys", ".relaxed.sys"})
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      buffer<u32> counter(1), tickets(256);
      const bool block = m == ".acquire.cta";
      launch(load_one(kernel_text(2, "atom" + m +
                                         ".global.add.u32 %r1, [%P0], 1; mad.wide.u32 %rd1, %r1, 4, %P1;\n"
                                         "red.global.add.u32 [%rd1], 1;")),
             {block ? 1u : 4u, 64, 0, seed}, {counter.address(), tickets.address()});
      EXPECT_EQ(counter[0], block ? 64u : 256u);
      for (u32 n = 0; n < counter[0]; ++n) EXPECT_EQ(tickets[n], 1u);
    }
}

// --- Spaces ------------------------------------------------------------

TEST(Memory, AddressesOfSpaces) {
  const std::string ask =
      "selp.b32 %r1, 1, 0, %p1; selp.b32 %r2, 2, 0, %p2; selp.b32 %r3, 4, 0, %p3; add.u32 %r1, %r1, %r2;\n"
      "add.u32 %r1, %r1, %r3; st.global.u32 [%P0], %r1;";
  const std::string is = "isspacep.global %p1, %rd1; isspacep.shared %p2, %rd1; isspacep.local %p3, %rd1;\n" + ask;
  const std::string own = ".shared .align 8 .b64 v; .local .align 8 .b64 w; ";
  EXPECT_EQ(thread_result("mov.u64 %rd1, %P1; " + is)[0], 1u);
  EXPECT_EQ(thread_result(own + "mov.u64 %rd2, v; cvta.shared.u64 %rd1, %rd2; " + is)[0], 2u);
  EXPECT_EQ(thread_result(own + "mov.u64 %rd2, w; cvta.local.u64 %rd1, %rd2; " + is)[0], 4u);
  // There and back, and the same bytes both ways.
  EXPECT_EQ(
      thread_result(
          own +
          "mov.u64 %rd2, v; cvta.shared.u64 %rd1, %rd2; cvta.to.shared.u64 %rd3, %rd1; sub.u64 %rd4, %rd3, %rd2;\n"
          "st.shared.u64 [%rd3], %P1; ld.u64 %rd5, [%rd1]; sub.u64 %rd5, %rd5, %P1; or.b64 %rd4, %rd4, %rd5;\n"
          "st.global.u64 [%P0], %rd4;")[0],
      0u);
  EXPECT_EQ(thread_result(
                own + "mov.u64 %rd2, w; cvta.local.u64 %rd1, %rd2; cvta.to.local.u64 %rd3, %rd1; st.u64 [%rd1], 77;\n"
                      "ld.local.u64 %rd4, [%rd3]; st.global.u64 [%P0], %rd4;")[0],
            77u);
  EXPECT_EQ(
      thread_result(
          "cvta.to.global.u64 %rd1, %P1; cvta.global.u64 %rd2, %rd1; sub.u64 %rd2, %rd2, %P1; st.u64 [%P0], %rd2;")[0],
      0u);
}

}  // namespace
