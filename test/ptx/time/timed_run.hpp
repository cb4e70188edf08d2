// One launch under the model. Warps execute when the model issues them, so blocks that wait for each other do so for as
// long as they would on that GPU.
#pragma once

#include "multiprocessor.hpp"

namespace ptx::time {

// Runs a launch of p's kernel. `counts`: what each instruction did, in the kernel's own order.
counters run(const launch& l, const model& m, const program& p, std::vector<pc_counts>& counts, timed_launch& time);

class timed_run final : public launch_run {
 public:
  timed_run(const launch& l, const program& p, const model& m);

  counters run();
  timed_launch report(const program& p) const;

 private:
  // Blocks.
  bool place(multiprocessor& p, cycle at);
  void leave_block(multiprocessor& p, const warp_state& x, cycle now);
  void arrive(multiprocessor& p, warp_state& x, uint32_t pc, cycle now);

  // Warps.
  void find_next(warp_state& x, cycle earliest);
  void execute_free(warp_state& x, std::size_t group, const operation& o);
  cycle when_known(const warp_state& x, const operation& o, cycle earliest, wait& reason) const;
  static void stop(warp_state& x, bool done);

  // Instructions.
  cycle go(multiprocessor& p, cycle until);
  void step(multiprocessor& p, scheduler_state& s, cycle now);
  warp_state* choose(multiprocessor& p, scheduler_state& s, cycle now, cycle& next);
  cycle copies_known(const warp_state& x);
  void start_copies(multiprocessor& p, warp& w, const operation& o, uint32_t lanes, cycle now, cycle known);
  void wait_longer(warp_state& x, wait reason, cycle now, cycle known);
  void charge(warp_state& x, const operation& o, cycle now);
  void issue(multiprocessor& p, scheduler_state& s, warp_state& x, cycle now);
  memory_system::answer result(multiprocessor& p, const instruction& i, const operation& o, cycle now, bool polls,
                               bool acts);
  cycle next_issue(const warp_state& x, const operation& o, uint32_t pc, std::size_t groups_before, uint32_t lanes,
                   cycle now, cycle known) const;
  void settle(multiprocessor& p, warp_state& x, uint32_t pc, cycle now, cycle earliest, bool meets);

  const model& model_;
  const machine& m_;
  const std::vector<operation>& operations_;
  uint32_t registers_;
  access_record access_;
  memory_system memory_;
  std::vector<multiprocessor> processors_;
  std::vector<std::unique_ptr<block_state>> gone_;  // a few of the last, whose warps callers still name
  account account_;
  cycle end_ = 0;
};

}  // namespace ptx::time
