// What a multiprocessor is made of while a launch runs: schedulers, blocks, warps.
#pragma once

#include "account.hpp"
#include "memory_system.hpp"

#include <algorithm>
#include <array>
#include <list>
#include <memory>
#include <vector>

namespace ptx::time {

inline constexpr cycle never = ~cycle{0};
inline constexpr std::size_t schedulers_each = 4, code_line = 32;  // instructions

// When a register is known, and what kind of instruction it comes from.
class stamp {
 public:
  static constexpr cycle latest = (1u << 28) - 1;

  stamp() = default;
  stamp(cycle at, wait kind) : bits_(std::min(at, latest) << 4 | static_cast<uint32_t>(kind)) {}
  cycle at() const { return bits_ >> 4; }
  wait kind() const { return static_cast<wait>(bits_ & 15); }

 private:
  uint32_t bits_ = 0;
};

struct scheduler_state;

struct warp_state {
  warp* w = nullptr;
  scheduler_state* home = nullptr;
  std::size_t slot = 0;  // in its scheduler
  std::vector<stamp> registers, flags;

  uint32_t pc = 0;             // of its next instruction
  cycle ready = 0;             // when it can issue that, if pipe and scheduler are free
  cycle known = 0;             // the same, as long as nothing else held it up
  wait reason = wait::issued;  // why not before
  bool held = false;           // by a pipe
  cycle last = 0;              // up to there its clocks are accounted for
  cycle earliest = 0;          // behind a barrier
  bool waits = false;          // at a barrier
  bool done = false;
  way since_barrier;
};

struct block_state {
  block* b = nullptr;
  std::vector<std::unique_ptr<warp_state>> warps;
};

struct scheduler_state {
  std::vector<warp_state*> warps;
  std::vector<cycle> ready;  // of each, where a search for the next one finds them side by side
  std::size_t last = 0;      // the warp that issued last: it goes on as long as it can
  cycle next = 0, busy = 0;
  double alu = 0, fma = 0, fp32 = 0, fp64 = 0, slow = 0;  // until when each pipe is busy

  void add(warp_state& x, cycle at) {
    x.home = this;
    x.slot = warps.size();
    warps.push_back(&x);
    ready.push_back(at);
    next = std::min(next, at);
  }
  void remove_done() {
    std::erase_if(warps, [](const warp_state* x) { return x->done; });
    ready.clear();
    for (warp_state* x : warps) {
      x->slot = ready.size();
      ready.push_back(x->ready);
    }
    last = 0;
  }
};

struct multiprocessor {
  std::array<scheduler_state, schedulers_each> schedulers;
  std::vector<std::unique_ptr<block_state>> blocks;
  std::size_t placed = 0;  // warps: they go to the schedulers in turn
  memory_port port;
  std::vector<bool> has_code;  // by lines of instructions

  multiprocessor(std::size_t l1_lines, std::size_t instructions)
      : port(l1_lines), has_code(instructions / code_line + 1, false) {}

  block_state& home(const warp_state& x) const {
    for (const auto& b : blocks)
      if (b->b == x.w->home) return *b;
    throw std::logic_error("a warp without its block");
  }
};

}  // namespace ptx::time
