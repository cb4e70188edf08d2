// Rows of kernels whose instructions were counted: as JSON, and for people.
#pragma once

#include "bench/micro/results.hpp"

namespace tuck::bench {

// Adds what was counted, by 128 bytes of the raw tensor, and the bounds on R; null where nothing was.
void add_counts(nlohmann::ordered_json& to, const row& r, const std::vector<gpu_rates>& gpus);

// A line a row; those that were not counted are left out.
void print_counts(const std::vector<row>& rows, const std::vector<gpu_rates>& gpus, std::FILE* to);

// The source lines of each row that execute most.
void print_profile(const std::vector<row>& rows, std::FILE* to);

// A path from the library's folder on: where it was built is nobody's business.
std::string short_name(const std::string& file);

}  // namespace tuck::bench
