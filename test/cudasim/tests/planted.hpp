// Kernels and host code with a bug each. Those whose bug only a sanitizer sees run in a child process:
// `cudasim_test --planted=NAME`.
#pragma once

#include "support.hpp"

namespace sim_test {

// Runs the scenario of this name under a few seeds; false if there is none.
bool run_planted(const std::string& name);

// Writes reversed[i] = 63 - i within each block, through shared memory; without the barrier if !synchronised.
__global__ void reverse(unsigned* reversed, bool synchronised);
// The same among the lanes of a warp.
__global__ void reverse_warp(unsigned* reversed, bool synchronised);

}  // namespace sim_test
