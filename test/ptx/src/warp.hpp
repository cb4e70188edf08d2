// What a launch is made of while it runs: blocks, their warps, and groups of lanes that stand at the same instruction.
#pragma once

#include "async_copies.hpp"
#include "memory.hpp"
#include "module.hpp"
#include "shared_memory.hpp"
#include "weak_memory.hpp"

#include <bit>
#include <cstring>
#include <memory>
#include <type_traits>

namespace ptx {

class launch_run;
struct block;

// Lanes of a warp at one instruction.
struct group {
  enum class state : uint8_t { ready, at_warp_sync, at_barrier } is = state::ready;
  uint32_t pc = 0, lanes = 0;
};

struct warp {
  launch_run* run = nullptr;
  block* home = nullptr;
  const kernel* code = nullptr;
  uint32_t index = 0, alive = 0;
  std::vector<std::byte> registers;
  std::vector<uint32_t> predicates;
  std::vector<group> groups;
  std::vector<std::byte> local;  // lane by lane
  weak_view view;
  warp_clock clock;     // of accesses to shared memory
  uint32_t pc = 0;      // of the instruction that runs
  bool yields = false;  // it polled: others should go on

  const std::byte* in(uint32_t column) const {
    return (column & is_constant) != 0 ? code->constants.data() + (column & ~is_constant) : registers.data() + column;
  }
  std::byte* out(uint32_t column) { return registers.data() + column; }
  uint32_t mask(const predicate& p) const { return p.negated ? ~predicates[p.index] : predicates[p.index]; }
  void set(uint32_t p, uint32_t lanes, uint32_t value) { predicates[p] = (predicates[p] & ~lanes) | (value & lanes); }
};

// A barrier of a block while threads wait at it.
struct barrier {
  uint32_t arrived = 0, expected = 0;
  uint32_t warps = 0;     // that have come
  uint8_t reduction = 0;  // instruction::mode, or 0
  uint32_t ones = 0;      // of the predicates
};

struct block {
  std::array<uint32_t, 3> index{};
  uint32_t alive = 0;
  std::vector<warp> warps;
  shared_memory shared;
  weak_stores stores;
  async_copies copies;
  std::array<barrier, 16> barriers;
};

// A slot of a register for values of type T.
template <class T> using slot = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
template <class T>
using plain_unsigned = std::conditional_t<
    sizeof(T) == 1, uint8_t,
    std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

template <class T> T get(const std::byte* column, int lane) {
  slot<T> s;
  std::memcpy(&s, column + static_cast<std::size_t>(lane) * sizeof s, sizeof s);
  return std::bit_cast<T>(static_cast<plain_unsigned<T>>(s));
}
template <class T> void put(std::byte* column, int lane, T value) {
  const slot<T> s = std::bit_cast<plain_unsigned<T>>(value);
  std::memcpy(column + static_cast<std::size_t>(lane) * sizeof s, &s, sizeof s);
}

// Calls body(lane). All lanes are the common case, which compilers vectorise.
template <class Body> void for_lanes(uint32_t lanes, const Body& body) {
  if (lanes == ~0u) {
    for (int l = 0; l < 32; ++l) body(l);
  } else {
    for (; lanes != 0; lanes &= lanes - 1) body(std::countr_zero(lanes));
  }
}

}  // namespace ptx
