// What the parts of the runtime share: settings, counters, the sticky error and its report.
#pragma once

#include "../control/cudasim.hpp"

#include <atomic>
#include <cstdint>
#include <string>

namespace cudasim::detail {

// splitmix64: any two seeds give unrelated sequences, and one step is a few instructions.
class random {
 public:
  explicit random(std::uint64_t seed = 0) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  unsigned below(std::size_t n) { return static_cast<unsigned>(((next() >> 32) * n) >> 32); }  // n < 2^32

 private:
  std::uint64_t state_;
};

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) { return random(a ^ (b * 0xd6e8feb86659fd93ull)).next(); }

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
