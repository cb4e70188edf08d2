// The GPUs. Each constant of the H100 has its source beside it; other GPUs say where they differ.
//
//   measured    from the rows of one H100: launch and DRAM by its copies of 16 and 256 MiB; atomics by a prototype of
//               this model, which does not record the rows that it was fitted to
//   SASS        the stall counts that ptxas 13.0 writes between a producer and a consumer
//   sheet       NVIDIA's data sheets and whitepapers
//   guide       CUDA C++ programming guide: throughput of arithmetic instructions, compute capabilities
//   literature  microbenchmarks of Hopper: Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture
//               via Microbenchmarking" (2024), and of its predecessors
//   estimate    nobody has measured it for this model: gpu_check's microbenchmarks are to
#include "machine.hpp"

#include <vector>

namespace ptx::time {
namespace {

constexpr double kib = 1024;

machine h100() {
  machine m;
  m.name = "h100";
  m.title = "H100 80GB HBM3";
  m.source = "calibrated by the rows of one H100 SXM at 1.98 GHz";
  m.calibrated = true;
  m.arch = 90;

  m.ghz = 1.98;       // sheet: the highest clock, at which the recorded run was
  m.launch_us = 4.4;  // measured
  m.processors = 132;

  m.registers = 65536, m.shared_bytes = 228 * kib, m.threads = 2048, m.blocks = 32;  // guide
  m.reserved_bytes = kib, m.l1_bytes = 256 * kib;                                    // guide

  m.alu_every = 2, m.fma_every = 2;    // guide: 64 lanes a clock and multiprocessor
  m.fp32_every = 1, m.fp64_every = 2;  // guide: 128 and 64
  m.slow_every = 8;                    // guide: 16

  m.shuffle_every = 1, m.wavefront_every = 1;  // guide: 32 lanes a clock
  m.atomic_wavefront_every = 2;                // estimate
  m.queue = 20;                                // estimate

  m.alu = 5, m.wide = 6, m.to_guard = 8;       // SASS
  m.fp64 = 16, m.slow = 18, m.mufu = 24;       // literature
  m.special = 24, m.vote = 8;                  // SASS: S2R, VOTE
  m.redux = 16, m.match = 24, m.shuffle = 24;  // literature
  m.shared = 30, m.shared_atomic = 50;         // literature
  m.l1 = 36, m.l2 = 270, m.dram = 560;         // literature
  m.atomic = 650, m.bulk = 150;                // estimate

  m.barrier = 24, m.warp_sync = 4;                  // estimate
  m.taken = 10, m.not_taken = 5, m.divergent = 14;  // SASS and estimate
  m.fence = 700, m.sleep = 2, m.first_code = 40;    // estimate

  m.dram_bytes = 1420;                   // measured: 2.81e12 of the sheet's 3.35e12 bytes a second
  m.l2_bytes = 2800, m.port_bytes = 64;  // literature
  m.atomic_every = 7;                    // measured: 1,056 blocks draw a ticket in 3.9 us

  m.first_blocks = 40, m.next_block = 600;  // estimate
  return m;
}

// A GPU of which this model has only data sheets: rates and sizes are its own, latencies in clocks are the H100's.
machine by_sheet(std::string name, std::string title, int arch, double ghz, double processors,
                 double bytes_per_second) {
  const machine of = h100();
  machine m = of;
  m.name = std::move(name);
  m.title = std::move(title);
  m.source = "data sheet; latencies are those of an H100, the share of its memory's rate that kernels reach too";
  m.calibrated = false;
  m.arch = arch;
  m.ghz = ghz;
  m.processors = processors;
  m.dram_bytes = bytes_per_second * (of.dram_bytes * of.ghz / 3350) / (ghz * 1e9);
  m.l2_bytes = of.l2_bytes * processors / of.processors;
  return m;
}

machine a100() {
  machine m = by_sheet("a100", "A100-SXM4-80GB", 80, 1.41, 108, 2.039e12);
  m.shared_bytes = 164 * kib, m.l1_bytes = 192 * kib;
  m.fp32_every = 2;  // guide: 64 lanes a clock
  return m;
}

machine h200() { return by_sheet("h200", "H200", 90, 1.98, 132, 4.8e12); }

machine b200() { return by_sheet("b200", "B200", 100, 1.98, 148, 7.7e12); }

machine t4() {
  machine m = by_sheet("t4", "T4", 75, 1.59, 40, 320e9);
  m.shared_bytes = 64 * kib, m.l1_bytes = 96 * kib, m.reserved_bytes = 0, m.threads = 1024, m.blocks = 16;
  m.fp32_every = 2, m.fp64_every = 64;  // guide: 64 and 2 lanes a clock
  return m;
}

machine a10() {
  machine m = by_sheet("a10", "A10", 86, 1.695, 72, 600e9);
  m.shared_bytes = 100 * kib, m.l1_bytes = 128 * kib, m.threads = 1536, m.blocks = 16;
  m.fp64_every = 64;  // guide: 2 lanes a clock
  return m;
}

}  // namespace

std::span<const machine> machines() {
  static const std::vector<machine> all = {h100(), a100(), h200(), b200(), t4(), a10()};
  return all;
}

}  // namespace ptx::time
