// What the kernels of a call execute: counted by the engine that executes what nvcc emits.
#pragma once

#include "bench/micro/device.hpp"

#include <ptx.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace tuck::bench {

inline device_counts counts_of(const ptx::counters& c) {
  const auto number = [](uint64_t n) { return static_cast<double>(n); };
  return {number(c.instructions), number(c.lanes), number(c.shared_wavefronts), number(c.least_wavefronts),
          number(c.load_sectors + c.store_sectors)};
}

// Settings to count by, until it ends: one order of warps, and no checks, which execute nothing.
class counting {
 public:
  counting() {
    ptx::configure({.check = false, .weak = false, .shuffle = false, .traffic = true, .resident = 8});
    ptx::clear_counts();
  }
  counting(const counting&) = delete;
  counting& operator=(const counting&) = delete;
  ~counting() { ptx::configure(before_); }

  device_cost seen() const {
    device_cost cost;
    ptx::counters all;
    std::map<std::pair<std::string, int>, ptx::counters> by_line;
    for (const ptx::kernel_counts& kernel : ptx::counted()) {
      all += kernel.all;
      cost.launches += kernel.launches;
      for (const ptx::line_counts& line : kernel.lines) by_line[{line.file, line.line}] += line.all;
    }
    cost.counts = counts_of(all);
    cost.moved_bytes = static_cast<double>(all.tensor_bytes_read + all.tensor_bytes_written + all.other_bytes_read +
                                           all.other_bytes_written);
    for (const auto& [at, counters] : by_line) cost.lines.push_back({at.first, at.second, counts_of(counters)});
    std::stable_sort(cost.lines.begin(), cost.lines.end(), [](const source_line& a, const source_line& b) {
      return a.counts.instructions > b.counts.instructions;
    });
    return cost;
  }

 private:
  ptx::settings before_ = ptx::current_settings();
};

}  // namespace tuck::bench
