// Budgets: what is over them is told, and named.
#include "../budgets.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <unistd.h>

namespace tuck::test {
namespace {

// A file that goes with the test, and an environment that asks for nothing.
class Budgets : public ::testing::Test {
 protected:
  Budgets() { unsetenv("TUCK_UPDATE_BUDGETS"); }
  ~Budgets() override {
    unsetenv("TUCK_UPDATE_BUDGETS");
    std::remove(path.c_str());
  }
  void write(const std::string& text) const { std::ofstream(path) << text; }
  std::string content() const {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
  std::string check(const call_cost& now, const std::string& compiler = "nvcc 1.2.3 sm_90") const {
    return budgets(path).check(compiler, "zvc.encode", now);
  }

  const std::string path = ::testing::TempDir() + "budgets_test." + std::to_string(getpid());
};

const std::string counts_of_75 = "nvcc 1.2.3 sm_75\ncall zvc.encode 10 32 4 6\n  7 a.cuh: 2 + 2\n";
const std::string counts_and_time =
    "nvcc 1.2.3 sm_90\ncall zvc.encode 10 32 4 6 20\n  0 5 a.cuh: sync();\n  7 10 b.cuh: 2 + 2\n";
const call_cost same{10, 32, 4, 6, 20, {{"a.cuh: sync();", {0, 5}}, {"b.cuh: 2 + 2", {7, 10}}}};

TEST_F(Budgets, WhatIsWithinThemIsFine) {
  write(counts_of_75 + counts_and_time);
  EXPECT_EQ(check(same), "");
  EXPECT_EQ(check({10.29, 31.1, 4.12, 6.17, 20.9, {}}), "");
  EXPECT_EQ(check({5, 32, 2, 3, 8, {}}), "");
}

TEST_F(Budgets, EachNumberThatGrewIsTold) {
  write(counts_of_75 + counts_and_time);
  const auto with = [](double call_cost::* number, double value) {
    call_cost now = same;
    now.*number = value;
    return now;
  };
  EXPECT_EQ(check(with(&call_cost::instructions, 10.4)), "zvc.encode: 10 -> 10.4 instructions for 128 bytes\n");
  EXPECT_EQ(check(with(&call_cost::lanes, 31)), "zvc.encode: 32 -> 31 active lanes\n");
  EXPECT_EQ(check(with(&call_cost::wavefronts, 4.2)),
            "zvc.encode: 4 -> 4.2 wavefronts of shared memory for 128 bytes\n");
  EXPECT_EQ(check(with(&call_cost::sectors, 6.2)), "zvc.encode: 6 -> 6.2 sectors for 128 bytes\n");
  EXPECT_EQ(check(with(&call_cost::microseconds, 21.1)), "zvc.encode: 20 -> 21.1 predicted microseconds\n");
}

TEST_F(Budgets, LinesThatTakeLongerAreNamedThoseThatGrewMostFirst) {
  write(counts_of_75 + counts_and_time);
  const call_cost slower{10, 32, 4,
                         6,  25, {{"a.cuh: sync();", {0, 6}}, {"b.cuh: 2 + 2", {7, 9}}, {"c.cuh: x", {0, 5}}}};
  EXPECT_EQ(check(slower),
            "zvc.encode: 20 -> 25 predicted microseconds\n  0 -> 5  c.cuh: x\n  5 -> 6  a.cuh: sync();\n");
  const call_cost larger{12, 32, 4, 6, 20, {{"a.cuh: sync();", {2, 6}}, {"b.cuh: 2 + 2", {7, 9}}}};
  EXPECT_EQ(check(larger), "zvc.encode: 10 -> 12 instructions for 128 bytes\n  0 -> 2  a.cuh: sync();\n");
}

TEST_F(Budgets, WithoutOneIsAnError) {
  write(counts_of_75 + counts_and_time);
  EXPECT_EQ(budgets(path).check("nvcc 1.2.3 sm_90", "rle.encode", same),
            "rle.encode has no budget: TUCK_UPDATE_BUDGETS=1\n");
  EXPECT_EQ(check(same, "nvcc 1.2.3 sm_75"), "zvc.encode has no budget of time: TUCK_UPDATE_BUDGETS=1\n");
  EXPECT_TRUE(budgets(path).has("nvcc 1.2.3 sm_90"));
  EXPECT_FALSE(budgets(path).has("nvcc 1.2.4 sm_90"));
  EXPECT_FALSE(budgets(path).has("nvcc 1.2.3 sm_80"));
}

TEST_F(Budgets, AreWrittenAnewBesideThoseOfOtherArchitectures) {
  write("nvcc 1.2.2 sm_90\ncall zvc.encode 1 1 1 1\n" + counts_of_75 +
        "nvcc 1.2.3 sm_90\ncall zvc.encode 1 1 1 1\n  1 d.cuh: gone\n");
  setenv("TUCK_UPDATE_BUDGETS", "1", 1);
  EXPECT_EQ(check(same), "");
  EXPECT_EQ(content(), counts_of_75 + counts_and_time);
  EXPECT_TRUE(budgets(path).has("nvcc 1.2.4 sm_90"));
}

}  // namespace
}  // namespace tuck::test
