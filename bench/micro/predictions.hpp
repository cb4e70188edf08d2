// Rows whose time was predicted: as JSON, and for people.
#pragma once

#include "bench/micro/results.hpp"

namespace tuck::bench {

// What bench/README.md says of "model".
nlohmann::ordered_json prediction_json(const row& r);

// A line a row; those without a prediction are left out.
void print_predictions(const std::vector<row>& rows, std::FILE* to);

// The source lines of each row whose warps spend most clocks, and what they wait for.
void print_waits(const std::vector<row>& rows, std::FILE* to);

}  // namespace tuck::bench
