// Time that the engine's model predicts (test/ptx/time.hpp), for rows of place::model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tuck::bench {

struct model_request {
  std::string gpu = {};                    // "h100"; empty: the one of this build's architecture that is calibrated
  std::vector<std::string> what_ifs = {};  // "occupancy=2", "free=encoder.cuh:10-20", or a constant: "dram=0"
  uint32_t sampled = 0;                    // multiprocessors; 0: all up to 64 MiB, a few beyond
};

// Shares of all clocks of warps.
struct predicted_line {
  std::string file;
  int line;
  double share;        // spent there
  double longest_way;  // the same of the way of the warp that came last, between two barriers
  std::vector<std::pair<std::string, double>> waits;  // shares of the line's own clocks, the largest first
};

struct prediction {
  std::string gpu = {};
  bool calibrated = false;
  std::vector<std::string> what_ifs = {};
  double seconds = 0, copy_seconds = 0;  // of the call, and of a copy that moves as many bytes
  double launch_seconds = 0;             // of the former, for launches
  double issue_active = 0;               // share of the schedulers' clocks that issue
  uint32_t resident_blocks = 0, registers = 0, shared_bytes = 0, blocks = 0;  // of the launch that takes longest
  uint32_t sampled = 0;                                                       // multiprocessors; 0: all
  std::vector<std::pair<std::string, double>> waits = {};  // shares of warps' clocks, in the model's order
  std::vector<predicted_line> lines = {};                  // those with the largest share first

  bool made() const { return seconds > 0; }
};

// The share of the GPU's multiprocessors, and of the tensor, that stands for the whole.
struct model_sample {
  uint32_t processors = 0;  // 0: all
  double share = 1;
};

// Has all kernels that start later run under the model. Throws std::runtime_error if the build has none, or has kernels
// for another architecture, or no ptxas; std::invalid_argument for an unknown GPU or what-if.
model_sample use_model(const model_request& request, uint64_t raw_bytes);

bool model_in_use();

// What-ifs of lines that no kernel has had since the program began.
std::vector<std::string> unmet_what_ifs(const model_request& request);

// What has run since the last call, all launches one after the other; nothing without a model.
prediction take_prediction();

}  // namespace tuck::bench
