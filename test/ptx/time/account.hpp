// Where the clocks of a launch went.
#pragma once

#include "program.hpp"

#include <utility>

namespace ptx::time {

// Of one warp: instructions, and the clocks from the one before to each. An instruction may come several times.
class way {
 public:
  void add(uint32_t pc, uint32_t clocks) {
    if (!steps_.empty() && steps_.back().first == pc)
      steps_.back().second += clocks;
    else
      more(pc, clocks);
  }
  void clear() { steps_.clear(); }
  const std::vector<std::pair<uint32_t, uint32_t>>& steps() const { return steps_; }

 private:
  void more(uint32_t pc, uint32_t clocks) {
    if (steps_.size() >= room_) sum_up();
    steps_.emplace_back(pc, clocks);
  }
  // Where a warp meets no other for long: an entry for each instruction.
  void sum_up();

  std::vector<std::pair<uint32_t, uint32_t>> steps_;
  std::size_t room_ = 8192;
};

class account {
 public:
  explicit account(std::size_t instructions) : of_(instructions) {}

  void issue(uint32_t pc, uint32_t slots) {
    of_[pc].slots += slots;
    of_[pc].waited[static_cast<std::size_t>(wait::issued)] += slots;
  }
  void spend(uint32_t pc, wait on, uint32_t clocks) { of_[pc].waited[static_cast<std::size_t>(on)] += clocks; }
  // The way of the warp that came last.
  void longest(const way& w) {
    for (const auto& [pc, clocks] : w.steps()) of_[pc].longest_way += clocks;
  }

  // All but name, time and sizes. warp_clocks: those of all places for warps while the launch ran.
  void report(timed_launch& to, const program& p, const std::vector<std::string>& helpers, double warp_clocks) const;

 private:
  struct of_pc {
    uint64_t slots = 0, longest_way = 0;
    std::array<uint64_t, wait_count> waited{};
  };
  std::vector<of_pc> of_;
};

}  // namespace ptx::time
