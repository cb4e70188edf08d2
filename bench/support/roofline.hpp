// How fast a kernel can be at most on a GPU, by what it was counted to execute and to move. Bounds, never speeds: all
// latency is left out, and with it the fourth wall, the chain of look-back, whose every link is one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string>

namespace tuck::bench {

// Of a call, all of its launches and warps together.
struct device_counts {
  double instructions = 0;  // of warps
  double lanes = 0;         // that were active, over all instructions
  double wavefronts = 0;    // of shared memory, bank conflicts counted
  double least_wavefronts = 0;
  double sectors = 0;  // of global memory, 32 bytes each, read and written

  double active_lanes() const noexcept { return instructions > 0 ? lanes / instructions : 0; }
};

// Of gpus.json.
struct gpu_rates {
  std::string name = {};
  double processors = 0, clock = 0;
  double copy = 0;  // bytes a second that a kernel reads and writes that only copies

  static constexpr double schedulers = 4;  // of a processor, from Maxwell to Blackwell: an instruction a clock each
  double issue() const noexcept { return processors * schedulers * clock; }
  double shared() const noexcept { return processors * clock; }
};

// A good kernel issues in so many of the clocks.
inline constexpr double good_issue = .7;

inline constexpr const char* wall_names[] = {"instructions", "shared", "memory"};
// The least seconds that each wall leaves, in the order of their names.
struct walls {
  std::array<double, std::size(wall_names)> seconds = {};

  size_t highest() const noexcept {
    return static_cast<size_t>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
  }
  double least_time() const noexcept { return seconds[highest()]; }
};
inline walls walls_of(const device_counts& counts, const gpu_rates& on, double issue_share = 1) {
  return {{counts.instructions / (on.issue() * issue_share), counts.wavefronts / on.shared(),
           32 * counts.sectors / on.copy}};
}

}  // namespace tuck::bench
