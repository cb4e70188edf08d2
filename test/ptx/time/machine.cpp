#include "machine.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace ptx::time {
namespace {

constexpr constant all_constants[] = {
    {"ghz", &machine::ghz},
    {"launch_us", &machine::launch_us},
    {"processors", &machine::processors},
    {"registers", &machine::registers},
    {"shared_bytes", &machine::shared_bytes},
    {"threads", &machine::threads},
    {"blocks", &machine::blocks},
    {"reserved_bytes", &machine::reserved_bytes},
    {"l1_bytes", &machine::l1_bytes},
    {"alu_every", &machine::alu_every},
    {"fma_every", &machine::fma_every},
    {"fp32_every", &machine::fp32_every},
    {"fp64_every", &machine::fp64_every},
    {"slow_every", &machine::slow_every},
    {"shuffle_every", &machine::shuffle_every},
    {"wavefront_every", &machine::wavefront_every},
    {"atomic_wavefront_every", &machine::atomic_wavefront_every},
    {"queue", &machine::queue},
    {"alu", &machine::alu},
    {"wide", &machine::wide},
    {"fp64", &machine::fp64},
    {"slow", &machine::slow},
    {"mufu", &machine::mufu},
    {"special", &machine::special},
    {"vote", &machine::vote},
    {"redux", &machine::redux},
    {"match", &machine::match},
    {"to_guard", &machine::to_guard},
    {"shuffle", &machine::shuffle},
    {"shared", &machine::shared},
    {"shared_atomic", &machine::shared_atomic},
    {"l1", &machine::l1},
    {"l2", &machine::l2},
    {"dram", &machine::dram},
    {"atomic", &machine::atomic},
    {"bulk", &machine::bulk},
    {"barrier", &machine::barrier},
    {"warp_sync", &machine::warp_sync},
    {"taken", &machine::taken},
    {"not_taken", &machine::not_taken},
    {"divergent", &machine::divergent},
    {"fence", &machine::fence},
    {"sleep", &machine::sleep},
    {"first_code", &machine::first_code},
    {"dram_bytes", &machine::dram_bytes},
    {"l2_bytes", &machine::l2_bytes},
    {"port_bytes", &machine::port_bytes},
    {"atomic_every", &machine::atomic_every},
    {"first_blocks", &machine::first_blocks},
    {"next_block", &machine::next_block},
};

}  // namespace

std::span<const constant> constants() { return all_constants; }

void set(machine& m, std::string_view name, double value) {
  for (const constant& c : all_constants) {
    if (c.name != name) continue;
    if (!(value >= 0) || !std::isfinite(value))
      throw std::invalid_argument(std::string(name) + " must be a number from 0 on");
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
       {&machine::registers, &machine::shared_bytes, &machine::threads, &machine::blocks})
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
