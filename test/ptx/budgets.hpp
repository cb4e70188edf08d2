// What kernels may execute, and how long they may take by the model of time: a file of the tree, whose numbers only
// grow by hand. TUCK_UPDATE_BUDGETS=1 in the environment writes them anew.
#pragma once

#include <map>
#include <string>

namespace tuck::test {

struct line_cost {
  double instructions = 0;  // for 128 bytes of the tensor
  double microseconds = 0;  // of the call's, by the line's share of the longest way
};

// Of one call; counts are for 128 bytes of the tensor.
struct call_cost {
  double instructions = 0, lanes = 0, wavefronts = 0, sectors = 0;
  double microseconds = 0;                 // 0: not timed
  std::map<std::string, line_cost> lines;  // by "file: source text", those that cost most
};

// The file. "nvcc VERSION sm_ARCH" stands before the calls of one compiler. "call NAME INSTRUCTIONS LANES WAVEFRONTS
// SECTORS MICROSECONDS" stands before its lines, "  INSTRUCTIONS MICROSECONDS TEXT". A call that is not timed has no
// MICROSECONDS.
class budgets {
 public:
  explicit budgets(std::string path);

  // Are there budgets of this compiler, or are they to be written?
  bool has(const std::string& compiler) const;
  // Says what is over its budget and which lines have grown. Empty if nothing is, or if the budget is written anew.
  std::string check(const std::string& compiler, const std::string& call, const call_cost& now);

 private:
  void write() const;

  std::string path_;
  std::map<std::string, std::map<std::string, call_cost>> of_;  // by compiler and call
};

}  // namespace tuck::test
