// What the model knows of one instruction: pipe, latency, operands.
#pragma once

#include "../src/module.hpp"
#include "../time.hpp"

#include <array>
#include <cstdint>
#include <string_view>

namespace ptx::time {

enum class pipe : uint8_t { none, alu, fma, alu_or_fma, fp32, fp64, slow, memory, control };

struct operation {
  pipe where = pipe::alu;
  uint8_t issues = 1;     // machine instructions
  bool free = false;      // ptxas makes nothing of it, or it is part of another
  bool costless = false;  // a what-if: as free, but what other warps see keeps its order
  copying copies = copying::none;
  double latency = 0;  // of its result, if it does not depend on memory
  wait kind = wait::latency;
  bool keeps_l1 = false;    // a load whose line stays in the L1 cache
  bool counts_one = false;  // an atomic that adds 1: lanes at one word are combined
  bool guarded = false;
  uint8_t sources = 0, results = 0, from_flags = 0, to_flags = 0;
  std::array<uint16_t, 8> source{}, result{};
  std::array<uint16_t, 4> from_flag{}, to_flag{};
};

// "ld.global.u32" of "@%p1 ld.global.u32 %r1, [%rd1];"
std::string_view opcode_of(std::string_view text);
// "ld" of "ld.global.u32"
inline std::string_view mnemonic_of(std::string_view opcode) { return opcode.substr(0, opcode.find('.')); }
inline bool has(std::string_view opcode, std::string_view part) { return opcode.find(part) != opcode.npos; }

operation operation_of(const instruction& i, std::string_view text, const machine& m);

}  // namespace ptx::time
