#include "machine.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace ptx::time {
namespace {

// Within these ranges no clock and no byte overflows its type.
constexpr constant all_constants[] = {
    {"ghz", &machine::ghz, .1, 10},
    {"launch_us", &machine::launch_us, 0, 1e6},
    {"processors", &machine::processors, 1, 1024},
    {"registers", &machine::registers, 1, 1e8},
    {"shared_bytes", &machine::shared_bytes, 1, 1e8},
    {"threads", &machine::threads, 1, 1e8},
    {"blocks", &machine::blocks, 1, 1e8},
    {"reserved_bytes", &machine::reserved_bytes, 0, 1e6},
    {"l1_bytes", &machine::l1_bytes, 1, 1e8},
    {"alu_every", &machine::alu_every, 0, 1e4},
    {"fma_every", &machine::fma_every, 0, 1e4},
    {"fp32_every", &machine::fp32_every, 0, 1e4},
    {"fp64_every", &machine::fp64_every, 0, 1e4},
    {"slow_every", &machine::slow_every, 0, 1e4},
    {"shuffle_every", &machine::shuffle_every, 0, 1e4},
    {"wavefront_every", &machine::wavefront_every, 0, 1e4},
    {"atomic_wavefront_every", &machine::atomic_wavefront_every, 0, 1e4},
    {"queue", &machine::queue, 0, 1e6},
    {"alu", &machine::alu, 0, 1e6},
    {"wide", &machine::wide, 0, 1e6},
    {"fp64", &machine::fp64, 0, 1e6},
    {"slow", &machine::slow, 0, 1e6},
    {"mufu", &machine::mufu, 0, 1e6},
    {"special", &machine::special, 0, 1e6},
    {"vote", &machine::vote, 0, 1e6},
    {"redux", &machine::redux, 0, 1e6},
    {"match", &machine::match, 0, 1e6},
    {"to_guard", &machine::to_guard, 0, 1e6},
    {"shuffle", &machine::shuffle, 0, 1e6},
    {"shared", &machine::shared, 0, 1e6},
    {"shared_atomic", &machine::shared_atomic, 0, 1e6},
    {"l1", &machine::l1, 0, 1e6},
    {"l2", &machine::l2, 0, 1e6},
    {"dram", &machine::dram, 0, 1e6},
    {"atomic", &machine::atomic, 0, 1e6},
    {"bulk", &machine::bulk, 0, 1e6},
    {"barrier", &machine::barrier, 0, 1e6},
    {"warp_sync", &machine::warp_sync, 0, 1e6},
    {"taken", &machine::taken, 0, 1e6},
    {"not_taken", &machine::not_taken, 0, 1e6},
    {"divergent", &machine::divergent, 0, 1e6},
    {"fence", &machine::fence, 0, 1e6},
    {"sleep", &machine::sleep, 0, 100},
    {"first_code", &machine::first_code, 0, 1e6},
    {"dram_bytes", &machine::dram_bytes, 1, 1e7},
    {"l2_bytes", &machine::l2_bytes, 1, 1e7},
    {"port_bytes", &machine::port_bytes, 1, 1e7},
    {"atomic_every", &machine::atomic_every, 0, 1e4},
    {"first_blocks", &machine::first_blocks, 0, 1e6},
    {"next_block", &machine::next_block, 0, 1e6},
};

}  // namespace

std::span<const constant> constants() { return all_constants; }

void set(machine& m, std::string_view name, double value) {
  for (const constant& c : all_constants) {
    if (c.name != name) continue;
    if (!(value >= c.least && value <= c.most)) {
      char range[64];
      std::snprintf(range, sizeof range, " must be a number from %g to %g", c.least, c.most);
      throw std::invalid_argument(std::string(name) + range);
    }
    m.*c.value = value;
    return;
  }
  throw std::invalid_argument("unknown constant '" + std::string(name) + "'; time/machine.hpp has them all");
}

const machine& find_machine(std::string_view name) {
  for (const machine& m : machines())
    if (m.name == name) return m;
  std::string known;
  for (const machine& m : machines()) known += (known.empty() ? "" : ", ") + m.name;
  throw std::invalid_argument("unknown GPU '" + std::string(name) + "'; there are " + known);
}

machine sample_of(machine m, uint32_t processors) {
  const double share = processors / m.processors;
  m.processors = processors;
  m.dram_bytes *= share;
  m.l2_bytes *= share;
  m.atomic_every /= share;
  return m;
}

machine with_more_blocks(machine m, double factor) {
  for (double machine::* const value :
       {&machine::registers, &machine::shared_bytes, &machine::l1_bytes, &machine::threads, &machine::blocks})
    m.*value *= factor;
  return m;
}

uint32_t resident_blocks(const machine& m, uint32_t registers, uint32_t threads, uint32_t shared_bytes) {
  const auto rounded = [](uint32_t n, uint32_t unit) { return (n + unit - 1) / unit * unit; };
  const auto fit = [](double all, uint32_t each) { return static_cast<uint32_t>(all) / std::max(each, 1u); };
  const uint32_t warps = (threads + 31) / 32;
  // Each of the four schedulers has a quarter of the registers, and gives them to warps in units of 256.
  const uint32_t by_registers = fit(m.registers / 4, rounded(registers * 32, 256)) * 4 / warps;
  const uint32_t by_shared = fit(m.shared_bytes, rounded(shared_bytes, 128) + static_cast<uint32_t>(m.reserved_bytes));
  const uint32_t by_threads = fit(m.threads, 32 * warps);
  return std::max(1u, std::min({by_registers, by_shared, by_threads, static_cast<uint32_t>(m.blocks)}));
}

}  // namespace ptx::time
