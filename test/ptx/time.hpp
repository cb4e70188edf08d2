// The model of time: launches run on all multiprocessors of a GPU, clock by clock, and say how long they take and what
// their warps wait for. README.md says what the model knows and what it does not.
#pragma once

#include "ptx.hpp"
#include "time/machine.hpp"

#include <array>
#include <functional>
#include <memory>

namespace ptx::time {

// What a warp waits for.
enum class wait : uint8_t {
  issued,   // it does not wait: the instruction's own slot
  latency,  // of arithmetic, before a result can be used
  branch,   // between a branch, or a barrier of the warp, and what comes behind it
  shared,   // memory: shared, local, constant
  shuffle,
  special,       // results of popc, conversions, votes, special registers
  global,        // memory
  look_back,     // loads that poll what other blocks write, and sleep between them
  atomic,        // in global memory, and fences
  barrier,       // of the block
  pipe,          // which another warp occupies
  shared_queue,  // the pipe that all four schedulers share
  not_selected,  // another warp issued
  code,          // that is fetched for the first time
  nothing,       // no block is there: the launch begins or ends
  count
};
inline constexpr std::size_t wait_count = static_cast<std::size_t>(wait::count);
// "issued", "latency", ..., as the enumerators.
std::string_view name(wait w);

// Clocks of warps, by what they were spent on.
struct waits {
  std::array<double, wait_count> clocks{};

  double& operator[](wait w) { return clocks[static_cast<std::size_t>(w)]; }
  double operator[](wait w) const { return clocks[static_cast<std::size_t>(w)]; }
  double total() const;
  waits& operator+=(const waits& w);
};

struct timed_line {
  std::string file;  // empty where the module has no -lineinfo
  int line = 0;
  double longest_way = 0;  // clocks on the way of the warp that came last, between two barriers of a block
  waits waited;
};

struct timed_launch {
  std::string kernel;       // demangled
  double microseconds = 0;  // the machine's launch_us included
  double launch_us = 0;
  double clocks = 0, slots = 0, issue_active = 0;  // the latter: share of the schedulers' clocks that issue
  uint32_t blocks = 0, threads = 0, resident_blocks = 0, registers = 0, shared_bytes = 0;
  std::vector<uint32_t> costless;  // the kernel's instructions in each of model::costless
  waits waited;
  std::vector<timed_line> lines;  // those whose warps spent most clocks first
};

// Lines whose instructions take no time, with all that is inlined there: a what-if.
struct line_range {
  std::string file;  // its last part, or its last parts: "block.cuh", "codec/block.cuh"
  uint32_t first = 0, last = 0;
};

struct model {
  machine on;
  // Of the kernel's machine code. What it throws ends the launch.
  std::function<uint32_t(const kernel&)> registers;
  std::vector<line_range> costless = {};
  // Parts of paths: lines of such files count as the line that they are inlined in.
  std::vector<std::string> helpers = {};
};

// Launches that start later run under the model; without one as the settings say. Thread-safe.
void use_model(std::shared_ptr<const model> m);
std::shared_ptr<const model> current_model();

// Launches since the last call that ran under a model, in their order. Thread-safe.
std::vector<timed_launch> take_timed();

}  // namespace ptx::time
