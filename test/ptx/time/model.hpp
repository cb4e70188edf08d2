// What the engine asks the model for.
#pragma once

#include "timed_run.hpp"

namespace ptx::time {

// Runs a launch under `m` and keeps its time for take_timed().
counters run_timed(const launch& l, const model& m, std::vector<pc_counts>& counts, const std::string& readable_name);

}  // namespace ptx::time
