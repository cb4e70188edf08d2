// LOP3 takes three operands, IADD3 and IMAD too, and comparisons combine with another predicate.
#include "program.hpp"

#include <map>

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

class fuser {
 public:
  fuser(const kernel& k, std::vector<operation>& all, const std::vector<std::size_t>& block_of)
      : k_(k), all_(all), block_of_(block_of), lives_(all) {}

  void run() {
    for (std::size_t pc = 0; pc < all_.size(); ++pc) {
      if (all_[pc].free) continue;
      take_in_a_source(pc);
      vanish_into_comparison(pc);
    }
  }

 private:
  // The only definition of what only `pc` reads, in its block and not free; else nothing (a pc that is not before).
  std::size_t only_source(const life& l, std::size_t pc) const {
    const bool only = l.read == 1 && l.written == 1 && l.definition < pc && block_of_[l.definition] == block_of_[pc];
    return only ? l.definition : pc;
  }

  void take_in_a_source(std::size_t pc) {
    operation& o = all_[pc];
    for (int s = 0; s < o.sources; ++s) {
      const std::size_t from = only_source(lives_.registers[o.source[s]], pc);
      if (from == pc || k_.code[from].guard.index != no_operand || all_[from].free || !combine(from, pc)) continue;
      if (mnemonic_of(opcode_of(k_.text[from])) == "mul" && !has(opcode_of(k_.text[pc]), "64")) o.where = pipe::fma;
      all_[from].free = true;
      return;
    }
  }

  // Are these two one machine instruction?
  bool combine(std::size_t from, std::size_t pc) const {
    const std::string_view op = opcode_of(k_.text[pc]), source = opcode_of(k_.text[from]);
    const std::string_view name = mnemonic_of(op), of = mnemonic_of(source);
    if (is_logic(name)) return is_logic(of) && (!has(op, ".pred") || of == "not");
    if ((name != "add" && name != "sub") || is_float(k_.code[pc].t)) return false;
    if (has(op, "64")) return has(source, "mul.wide");
    return of == "shl" || of == "add" || of == "sub" || of == "neg" || (of == "mul" && has(source, ".lo"));
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
};

}  // namespace

void fuse(const kernel& k, std::vector<operation>& operations, const std::vector<std::size_t>& block_of) {
  fuser(k, operations, block_of).run();
}

}  // namespace ptx::time
