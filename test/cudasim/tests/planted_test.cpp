// Bugs that a sanitizer sees or that end the process, and their correct twins, of which it must not complain. Each runs
// in a child.
#include "planted.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdio>

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

struct expectation {
  const char* name;
  const char* asan;  // what the report says; null if this sanitizer does not see it
  const char* tsan;
  const char* plain = nullptr;
};

void PrintTo(const expectation& e, std::ostream* out) { *out << e.name; }

std::string test_name(const testing::TestParamInfo<expectation>& info) {
  std::string s = info.param.name;
  for (char& c : s) c = c == ' ' ? '_' : c;
  return s;
}

class planted_bug : public testing::TestWithParam<expectation> {};

TEST_P(planted_bug, is_reported) {
  const char* report = with_asan ? GetParam().asan : with_tsan ? GetParam().tsan : GetParam().plain;
  if (!report) GTEST_SKIP() << "this build does not see it";
  // On a busy machine one worker may run both sides of a race, one after the other; then there is none to see.
  constexpr int attempts = 10;
  outcome o = child(GetParam().name);
  for (int i = 1; i < attempts && o.output.find(report) == std::string::npos; ++i) o = child(GetParam().name);
  EXPECT_NE(o.output.find(report), std::string::npos) << o.status << "\n" << o.output;
}

constexpr const char* race = "WARNING: ThreadSanitizer: data race";
INSTANTIATE_TEST_SUITE_P(
    sanitizers, planted_bug,
    testing::Values(
        expectation{"missing block barrier", nullptr, race}, expectation{"missing warp barrier", nullptr, race},
        expectation{"shuffle for a barrier", nullptr, race}, expectation{"relaxed publish", nullptr, race},
        expectation{"race between blocks", nullptr, race}, expectation{"unordered kernels", nullptr, race},
        expectation{"unordered free", nullptr, "WARNING: ThreadSanitizer: "},
        expectation{"host reads early", nullptr, race}, expectation{"host writes early", nullptr, race},
        expectation{"unordered nodes", nullptr, race}, expectation{"storage used again", nullptr, race},
        expectation{"copy read before the wait", "use-after-poison", nullptr},
        expectation{"copy without a barrier", nullptr, race}, expectation{"copy over what is read", nullptr, race},
        expectation{"copy from behind the end", "heap-buffer-overflow", nullptr},
        expectation{"use after free", "heap-use-after-free", "heap-use-after-free"},
        expectation{"global overrun", "heap-buffer-overflow", nullptr},
        expectation{"shared overrun", "use-after-poison", "overwritten"},
        expectation{"misaligned", "misaligned address", nullptr},
        expectation{"wild pointer", "SEGV", "SEGV", "invalid access at address"},
        expectation{"stack overflow", "stack-overflow", nullptr, "stack overflow at address"},
        expectation{"endless loop", "has not given way for", "has not given way for", "has not given way for"},
        expectation{"wide shift", "shift exponent 32 is too large", nullptr}),
    test_name);

class correct_twin : public testing::TestWithParam<const char*> {};

TEST_P(correct_twin, is_quiet) {
  const outcome o = child(GetParam());
  EXPECT_EQ(o.status, 0) << o.output;
  EXPECT_EQ(o.output, "");
}

INSTANTIATE_TEST_SUITE_P(sanitizers, correct_twin,
                         testing::Values("block barrier", "warp barrier", "released publish", "fenced publish",
                                         "ordered kernels", "ordered free", "host reads in time", "host writes in time",
                                         "ordered nodes", "storage used in turn", "copies"));

}  // namespace
}  // namespace sim_test
