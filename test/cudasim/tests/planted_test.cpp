// Bugs that a sanitizer sees or that end the process, and their correct twins, of which it must not complain.
#include "planted.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <iterator>

namespace sim_test {
namespace {

struct outcome {
  int status;
  std::string output;
};

outcome child(const std::string& name) {
  std::array<char, PATH_MAX> self{};
  if (readlink("/proc/self/exe", self.data(), self.size() - 1) < 0) return {-1, "no /proc/self/exe"};
  const std::string command = "'" + std::string(self.data()) + "' '--planted=" + name + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  outcome result{-1, {}};
  std::array<char, 4096> part;
  for (std::size_t n; pipe && (n = fread(part.data(), 1, part.size(), pipe)) > 0;) result.output.append(part.data(), n);
  if (pipe) result.status = WEXITSTATUS(pclose(pipe));
  return result;
}

std::string test_name(const testing::TestParamInfo<planted>& info) {
  std::string s = info.param.name;
  std::replace(s.begin(), s.end(), ' ', '_');
  return s;
}

std::vector<planted> those_that(bool are_correct) {
  std::vector<planted> those;
  std::copy_if(all_planted().begin(), all_planted().end(), std::back_inserter(those),
               [=](const planted& p) { return p.is_correct() == are_correct; });
  return those;
}

class planted_bug : public testing::TestWithParam<planted> {};

TEST_P(planted_bug, is_reported) {
  const char* report = with_asan ? GetParam().asan : with_tsan ? GetParam().tsan : GetParam().plain;
  if (!report) GTEST_SKIP() << "this build does not see it";
  // On a busy machine one worker may run both sides of a race, one after the other; then there is none to see.
  constexpr int attempts = 10;
  outcome o = child(GetParam().name);
  for (int i = 1; i < attempts && o.output.find(report) == std::string::npos; ++i) o = child(GetParam().name);
  EXPECT_NE(o.output.find(report), std::string::npos) << o.status << "\n" << o.output;
}

INSTANTIATE_TEST_SUITE_P(sanitizers, planted_bug, testing::ValuesIn(those_that(false)), test_name);

class correct_twin : public testing::TestWithParam<planted> {};

TEST_P(correct_twin, is_quiet) {
  const outcome o = child(GetParam().name);
  EXPECT_EQ(o.status, 0) << o.output;
  EXPECT_EQ(o.output, "");
}

INSTANTIATE_TEST_SUITE_P(sanitizers, correct_twin, testing::ValuesIn(those_that(true)), test_name);

}  // namespace
}  // namespace sim_test
