// What the model of time knows of a GPU: one table of constants for each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ptx::time {

// Times are in clocks of a multiprocessor, unless the name says otherwise. "A warp's" means: of one warp instruction.
struct machine {
  std::string name;    // "h100": what options take
  std::string title;   // "H100 80GB HBM3"
  std::string source;  // of what machines.cpp does not explain
  bool calibrated = false;
  int arch = 0;  // 90 for sm_90

  double ghz = 0;
  double launch_us = 0;  // of an empty kernel between two events
  double processors = 0;

  // What blocks of a multiprocessor share.
  double registers = 0, shared_bytes = 0, threads = 0, blocks = 0;
  double reserved_bytes = 0;  // of shared memory, for each block beside its own
  double l1_bytes = 0;        // L1 cache and shared memory together

  // For how long a warp's instruction occupies a pipe of its scheduler.
  double alu_every = 0;  // logic, shifts, comparisons, selects
  double fma_every = 0;  // integer multiply-adds; adds and moves go to either of the two
  double fp32_every = 0, fp64_every = 0;
  double slow_every = 0;  // popc, clz, brev, conversions

  // For how long it occupies what the four schedulers share.
  double shuffle_every = 0;
  double wavefront_every = 0;         // of shared memory, loads and stores
  double atomic_wavefront_every = 0;  // of shared memory
  double queue = 0;                   // so much of such work may wait before a warp's next instruction waits itself

  // When a result can be used.
  double alu = 0, wide = 0, fp64 = 0, slow = 0, mufu = 0, special = 0, vote = 0, redux = 0, match = 0;
  double to_guard = 0;  // in addition, if a guard uses it
  double shuffle = 0, shared = 0, shared_atomic = 0, l1 = 0, l2 = 0, dram = 0, atomic = 0;
  double bulk = 0;  // in addition, of a bulk copy

  // When the warp's next instruction can issue.
  double barrier = 0, warp_sync = 0, taken = 0, not_taken = 0, divergent = 0, fence = 0;
  double sleep = 0;       // of a nanosleep: as a share of what it asks for
  double first_code = 0;  // the first time that a multiprocessor executes these 32 instructions

  // What all multiprocessors share.
  double dram_bytes = 0, l2_bytes = 0;  // a clock
  double port_bytes = 0;                // a clock, of one multiprocessor
  double atomic_every = 0;              // atomics at one sector

  // Of blocks.
  double first_blocks = 0;  // between the first blocks of a multiprocessor
  double next_block = 0;    // from a block's end to the start of the next in its place

  friend bool operator==(const machine&, const machine&) = default;
};

struct constant {
  std::string_view name;
  double machine::* value;
  double least, most;
};
// All of the above that are numbers.
std::span<const constant> constants();
// Throws std::invalid_argument for an unknown name, or a value out of its range.
void set(machine& m, std::string_view name, double value);

std::span<const machine> machines();
// Throws std::invalid_argument, which names those that are known.
const machine& find_machine(std::string_view name);

// A part of the GPU: `processors` multiprocessors with their share of the memory, which behave as on the whole GPU.
machine sample_of(machine m, uint32_t processors);

// Times `factor` as many blocks fit a multiprocessor, and leave each the same part of L1.
machine with_more_blocks(machine m, double factor);

// Blocks of a kernel that a multiprocessor holds at once; at least 1.
uint32_t resident_blocks(const machine& m, uint32_t registers, uint32_t threads, uint32_t shared_bytes);

}  // namespace ptx::time
