// What the parts of the runtime share: settings, counters, the sticky error and its report.
#pragma once

#include "../control/cudasim.hpp"
#include "random.hpp"

#include <cstdint>
#include <string>

namespace cudasim::detail {

settings get_settings();
void add_counts(const counters& c);  // of the device side
void count(std::uint64_t counters::* what, std::uint64_t n = 1);
void count_most(std::uint64_t counters::* what, std::uint64_t n);

// The first report wins, goes to stderr, and makes the error sticky.
void record_error(const std::string& report);
void remember(const std::string& report);  // of what was not even begun: not sticky
bool device_failed();
std::uint64_t seed();              // of the settings, and of CUDASIM_SEED in the environment
std::uint64_t next_launch_seed();  // of the seed and the number of launches since configure()
void clear_tags();

}  // namespace cudasim::detail
