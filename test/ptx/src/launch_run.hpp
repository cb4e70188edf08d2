// A launch while it runs.
#pragma once

#include "warp.hpp"

#include <list>

namespace ptx {

// Generic addresses: global ones are the host's own; others have a mark in the top bits.
inline constexpr uint64_t shared_window = 0x1000000000000000, local_window = 0x2000000000000000,
                          param_window = 0x3000000000000000, window_mask = 0xf000000000000000;

// What one instruction of the kernel did in a launch.
struct pc_counts {
  uint64_t executed = 0, lanes = 0;
  uint64_t sectors = 0, wavefronts = 0, least_wavefronts = 0;
  uint64_t atomics = 0;         // of global memory, threads
  uint64_t shared_atomics = 0;  // threads
  uint64_t polls = 0;           // threads
};

// A warp's access to memory, for the model of time.
struct access_record {
  space where = space::generic;                  // generic: none
  uint32_t wavefronts = 0, lane_wavefronts = 0;  // of shared memory; the latter: if lanes at one word take turns
  std::vector<uint64_t> sectors;                 // of global memory, sorted
};

class launch_run {
 public:
  explicit launch_run(const launch& l, settings s = current_settings());
  counters run();

  const launch& job;
  const settings how;
  const kernel& code;
  memory_map memory;
  weak_memory weak;
  std::vector<pc_counts> counts;
  counters totals;
  copy_sources sources;
  access_record* record = nullptr;  // of the last access, if anyone wants to know; needs settings::traffic
  uint64_t changes = 0;             // stores, atomics that change a value, and exits: without any, nobody gets on

  uint64_t clock() { return ++clock_; }
  bool flip() { return random_.below(2) == 0; }
  const async_copy* copy_reading(uint64_t address, uint32_t bytes) const;
  bool is_tensor(uint64_t address) const {
    for (const range& r : job.tensors)
      if (address >= r.begin && address < r.end) return true;
    return false;
  }
  // Is this instruction in one of the files of settings::may_read_unwritten?
  bool may_read_unwritten(std::size_t pc) const { return !spared_.empty() && spared_[code.sources[pc].file]; }
  const std::byte* arguments() const { return job.arguments.data(); }
  std::size_t resident() const { return resident_; }
  uint64_t next_block() const { return next_block_; }

 protected:                                   // the model of time chooses itself who goes on
  bool take(std::array<uint32_t, 3>& index);  // the next block, in an order permuted within windows
  bool start_block();
  void start_warp(block& b, warp& w, uint32_t index, uint32_t threads);
  void step();
  bool run_warp(warp& w, uint32_t budget);
  std::size_t choose_group(const warp& w);
  void merge(warp& w, std::size_t& g);
  uint64_t go_on(warp& w, std::size_t g, uint32_t budget);
  void switch_to_targets(warp& w, std::size_t g, uint32_t lanes);
  void leave(warp& w, std::size_t g, uint32_t lanes);
  bool alone(const warp& w, const instruction& i, uint32_t lanes) const;
  void meet(warp& w, std::size_t g, const instruction& i, uint32_t lanes);
  void synchronise(warp& w, const instruction& i, uint32_t wanted);
  void arrive(warp& w, std::size_t g, uint32_t lanes);
  void check_barrier(const warp& w, const instruction& i, uint32_t lanes) const;
  void complete(block& b, uint32_t id);
  void check_copies(warp& w, uint32_t lanes);
  void check_bulk_copies(block& b);
  [[noreturn]] void report_unfinished(warp& w, const async_copy& c);
  [[noreturn]] void report_deadlock();
  [[noreturn]] void report_no_progress(block& b);

  random random_;
  std::list<block> live_;
  std::vector<bool> spared_;  // by file
  std::size_t resident_ = 1;
  uint64_t next_block_ = 0, blocks_ = 0, clock_ = 0, since_change_ = 0, seen_changes_ = 0;
};

}  // namespace ptx
