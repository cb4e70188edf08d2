// Kernels and host code with a bug each, and their correct twins. Each runs in a child process:
// `cudasim_test --planted=NAME`.
#pragma once

#include "support.hpp"

#include <functional>
#include <ostream>
#include <vector>

namespace sim_test {

struct planted {
  const char* name;
  std::function<void()> run;
  const char* asan = nullptr;  // what the report says; null if this sanitizer does not see it
  const char* tsan = nullptr;
  const char* plain = nullptr;
  bool is_correct() const { return asan == nullptr && tsan == nullptr && plain == nullptr; }
  friend void PrintTo(const planted& p, std::ostream* out) { *out << p.name; }
};
const std::vector<planted>& all_planted();

// Runs the one of this name under a few seeds; false if there is none.
bool run_planted(const std::string& name);

// Writes reversed[i] = 63 - i within each block, through shared memory; without the barrier if !synchronised.
__global__ void reverse(unsigned* reversed, bool synchronised);
// The same among the lanes of a warp.
__global__ void reverse_warp(unsigned* reversed, bool synchronised);

// Writes reversed[i] = in[63 - i], by copies in the background, of `count` values, and that twice.
enum class copy_bug { none, read_before_the_wait, no_barrier, copied_over_early };
__global__ void reverse_copies(const dev::vec128* in, dev::vec128* reversed, unsigned count, copy_bug bug);

}  // namespace sim_test
