// What a module is parsed to. Registers are columns of 32 lanes: of 4 bytes a lane for 16 and 32 bits, the rest zero;
// of 8 bytes for 64. Predicates are a mask of lanes.
#pragma once

#include "../ptx.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptx {

__extension__ using int128 = __int128;
__extension__ using uint128 = unsigned __int128;

struct warp;
struct instruction;
using handler = void (*)(warp& w, const instruction& i, uint32_t lanes);

enum class type : uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  bf16,
  f32,
  f64
};
constexpr unsigned bits_of(type t) {
  constexpr uint8_t bits[] = {0, 1, 8, 16, 32, 64, 128, 8, 16, 32, 64, 8, 16, 32, 64, 16, 16, 32, 64};
  return bits[static_cast<int>(t)];
}
constexpr unsigned bytes_of(type t) { return bits_of(t) / 8; }
constexpr bool is_signed(type t) { return t >= type::s8 && t <= type::s64; }
constexpr bool is_float(type t) { return t >= type::f16; }

enum class space : uint8_t { generic, global, shared, local, param, constant };

// How an instruction goes on.
enum class flow : uint8_t { next, branch, branch_table, exit, warp_sync, block_barrier };
// What it does to memory.
enum class traffic : uint8_t { none, load, store, atomic };
// What it has to do with asynchronous copies. start: cp.async, instruction::copy_bytes for each lane. wait: for all of
// a lane's groups but the last so many (instruction::offset). bulk: cp.async.bulk, a size for each lane
// (from_columns[1]). poll: mbarrier.test_wait and try_wait.
enum class copying : uint8_t { none, start, commit, wait, bulk, init, arrive, poll };

inline constexpr uint32_t no_operand = ~0u;
// Of an operand's column: in the kernel's constants, not in the warp's registers.
inline constexpr uint32_t is_constant = 0x80000000u;

struct predicate {
  uint32_t index = no_operand;
  bool negated = false;
};

// What stands in brackets.
struct address_operand {
  uint32_t column = no_operand;
  int64_t offset = 0;
  bool narrow = false;  // a column of 32 bits
};

struct instruction {
  handler run = nullptr;
  flow how = flow::next;
  traffic moves = traffic::none;
  copying copies = copying::none;
  uint8_t copy_bytes = 0;
  type t = type::none, from = type::none;
  space where = space::generic;
  uint8_t vector = 1;
  uint8_t mode = 0;  // of shuffles, votes, atomics, roundings, ...: what the handler says
  uint8_t wide = 0;  // a narrow load: bytes of the register's slot
  bool acquires = false, releases = false, relaxed = false, read_only = false, flag = false;
  predicate guard;
  std::array<uint32_t, 4> to{no_operand, no_operand, no_operand, no_operand};
  std::array<uint32_t, 5> from_columns{no_operand, no_operand, no_operand, no_operand, no_operand};
  std::array<uint32_t, 2> to_predicates{no_operand, no_operand};
  std::array<predicate, 2> from_predicates;
  int64_t offset = 0;
  address_operand source, mbarrier;  // of a copy
  uint32_t target = 0;               // of a branch; of a branch_table, its index
  uint32_t used_bytes = ~0u;         // of a load, from nvcc's pragma
};

// A special register: its number in a table of launch_run.cpp.
std::optional<uint32_t> special_named(std::string_view name);

struct source_line {
  uint32_t file = 0, line = 0;
  uint32_t caller = no_operand;  // of kernel::callers: where this was inlined
};

class kernel {
 public:
  std::string name;
  int target = 0;
  int max_threads = 1024;
  std::vector<parameter> parameters;
  uint32_t parameter_bytes = 0, shared_bytes = 0, local_bytes = 0;
  bool dynamic_shared = false;

  std::vector<instruction> code;
  // Beside each instruction, for reports and counts:
  std::vector<std::string> text;
  std::vector<uint32_t> lines;  // in the PTX
  std::vector<source_line> sources, callers;
  std::vector<std::string> files;  // by source_line::file

  uint32_t register_bytes = 0, predicates = 0;
  std::vector<std::byte> constants;  // columns
  struct special_column {
    uint32_t what;  // as special_named says
    uint32_t column;
  };
  std::vector<special_column> specials;
  std::vector<std::vector<uint32_t>> branch_tables;

  std::string place(std::size_t pc) const;  // "  PTX line 12: add.s32 ...\n  source bits.cuh:40, from zvc.cuh:7\n"
};

}  // namespace ptx
