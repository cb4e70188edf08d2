// What ptxas makes one machine instruction of, as its code for sm_90 shows: LOP3 is any logic of three inputs and
// compares it with 0, IADD3 adds three, IMAD and LEA add to a product or a shift, a comparison takes another predicate.
#include "program.hpp"

#include "../src/decoder.hpp"

#include <map>
#include <set>

namespace ptx::time {
namespace {

// Where a register is written and read.
struct life {
  uint32_t written = 0, read = 0;
  std::size_t definition = 0;
};

struct lives {
  std::map<uint16_t, life> registers, flags;

  explicit lives(const std::vector<operation>& all) {
    for (std::size_t pc = 0; pc < all.size(); ++pc) {
      const operation& o = all[pc];
      for (int s = 0; s < o.sources; ++s) ++registers[o.source[s]].read;
      for (int s = 0; s < o.from_flags; ++s) ++flags[o.from_flag[s]].read;
      for (int s = 0; s < o.results; ++s) define(registers[o.result[s]], pc);
      for (int s = 0; s < o.to_flags; ++s) define(flags[o.to_flag[s]], pc);
    }
  }

 private:
  static void define(life& l, std::size_t pc) {
    ++l.written;
    l.definition = pc;
  }
};

bool is_logic(std::string_view name) { return name == "and" || name == "or" || name == "xor" || name == "not"; }

// What a machine instruction reads. An immediate or a constant takes the place of a register.
struct inputs {
  std::multiset<uint16_t> registers;
  int constants = 0;
  bool full = false;  // a product or a shift beside the sum
};

inputs inputs_of(const instruction& i, const operation& o) {
  inputs in;
  in.registers.insert(o.source.begin(), o.source.begin() + o.sources);
  for (const uint32_t c : i.from_columns) in.constants += c != no_operand && (c & is_constant) != 0;
  return in;
}

class fuser {
 public:
  fuser(const kernel& k, std::vector<operation>& all, const std::vector<std::size_t>& block_of)
      : k_(k), all_(all), block_of_(block_of), lives_(all) {
    for (std::size_t pc = 0; pc < all.size(); ++pc) inputs_.push_back(inputs_of(k.code[pc], all[pc]));
  }

  void run() {
    for (std::size_t pc = 0; pc < all_.size(); ++pc) {
      if (all_[pc].free) continue;
      take_in_sources(pc);
      vanish_into_comparison(pc);
    }
  }

 private:
  // The only definition of what only `pc` reads, in its block and not free; else nothing (a pc that is not before).
  std::size_t only_source(const life& l, std::size_t pc) const {
    const bool only = l.read == 1 && l.written == 1 && l.definition < pc && block_of_[l.definition] == block_of_[pc];
    return only ? l.definition : pc;
  }

  void take_in_sources(std::size_t pc) {
    operation& o = all_[pc];
    for (int s = 0; s < o.sources; ++s) {
      const std::size_t from = only_source(lives_.registers[o.source[s]], pc);
      if (from == pc || k_.code[from].guard.index != no_operand || all_[from].free || !combine(from, pc)) continue;
      all_[from].free = true;
      if (name_of(from) != "mul") continue;
      o.where = pipe::fma;
      o.issues = 1;
      o.latency = all_[from].latency;
    }
  }

  std::string_view name_of(std::size_t pc) const { return mnemonic_of(opcode_of(k_.text[pc])); }

  // "3" of "shl.b32 %r1, %r2, 3;"
  static std::string_view last_operand(std::string_view text) {
    const std::string_view last = trimmed(text.substr(text.rfind(',') + 1));
    return trimmed(last.substr(0, last.find(';')));
  }
  static bool compares_with_zero(std::string_view text, std::string_view op) {
    return (has(op, ".eq") || has(op, ".ne")) && last_operand(text) == "0";
  }

  // Are these two one machine instruction? Then its inputs become those of `pc`.
  bool combine(std::size_t from, std::size_t pc) {
    const std::string_view name = name_of(pc), of = name_of(from);
    inputs both = inputs_[from];
    both.constants += inputs_[pc].constants;
    both.registers.insert(inputs_[pc].registers.begin(), inputs_[pc].registers.end());
    both.registers.erase(all_[from].result[0]);
    const bool fits = is_logic(name) || name == "setp" ? is_logic(of) && logic(both, pc) : sum(both, from, pc);
    if (fits) inputs_[pc] = std::move(both);
    return fits;
  }

  bool logic(inputs& both, std::size_t pc) const {
    const std::string_view op = opcode_of(k_.text[pc]);
    if (name_of(pc) == "setp") {
      if (has(op, "64") || all_[pc].from_flags != all_[pc].guarded || !compares_with_zero(k_.text[pc], op))
        return false;
      --both.constants;
    }
    const std::set<uint16_t> distinct(both.registers.begin(), both.registers.end());
    return both.constants <= 1 && static_cast<int>(distinct.size()) + both.constants <= 3;
  }

  bool sum(inputs& both, std::size_t from, std::size_t pc) const {
    const std::string_view op = opcode_of(k_.text[pc]), source = opcode_of(k_.text[from]);
    const std::string_view name = mnemonic_of(op), of = mnemonic_of(source);
    if ((name != "add" && name != "sub") || is_float(k_.code[pc].t) || inputs_[pc].full || inputs_[from].full)
      return false;
    if (of == "add" || of == "sub" || of == "neg")
      return has(op, "64") == has(source, "64") && static_cast<int>(both.registers.size()) + both.constants <= 3;
    // The sum has room for one product or shift and another number.
    if (inputs_[pc].registers.size() + static_cast<std::size_t>(inputs_[pc].constants) > 2) return false;
    both.full = true;
    if (of == "shl") return has(op, "64") == has(source, "64") && !last_operand(k_.text[from]).starts_with('%');
    return of == "mul" && (has(op, "64") ? has(source, ".wide") && name == "add" : has(source, ".lo"));
  }

  // "and.pred" of a comparison: the comparison takes the other predicate.
  void vanish_into_comparison(std::size_t pc) {
    operation& o = all_[pc];
    const std::string_view op = opcode_of(k_.text[pc]), name = mnemonic_of(op);
    if (!has(op, ".pred") || (name != "and" && name != "or")) return;
    for (int s = 0; s < o.from_flags && !o.free; ++s) {
      const std::size_t from = only_source(lives_.flags[o.from_flag[s]], pc);
      o.free = from != pc && mnemonic_of(opcode_of(k_.text[from])) == "setp";
    }
  }

  const kernel& k_;
  std::vector<operation>& all_;
  const std::vector<std::size_t>& block_of_;
  lives lives_;
  std::vector<inputs> inputs_;
};

}  // namespace

void fuse(const kernel& k, std::vector<operation>& operations, const std::vector<std::size_t>& block_of) {
  fuser(k, operations, block_of).run();
}

}  // namespace ptx::time
