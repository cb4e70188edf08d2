#include "program.hpp"

#include <set>

namespace ptx::time {
namespace {

// Where basic blocks begin, or what is placed like one; the end of the kernel too.
std::set<std::size_t> block_begins(const kernel& k) {
  std::set<std::size_t> begins = {0, k.code.size()};
  for (std::size_t pc = 0; pc < k.code.size(); ++pc) {
    const instruction& i = k.code[pc];
    if (i.how == flow::branch || i.how == flow::branch_table || i.how == flow::exit) begins.insert(pc + 1);
    if (i.how == flow::branch) begins.insert(i.target);
    if (i.copies == copying::wait) begins.insert(pc);  // ptxas waits no earlier than the program
    if (i.how == flow::branch_table) begins.insert(k.branch_tables[i.target].begin(), k.branch_tables[i.target].end());
  }
  return begins;
}

std::vector<std::size_t> blocks_of(const std::set<std::size_t>& begins, std::size_t count) {
  std::vector<std::size_t> block_of(count);
  std::size_t block = 0;
  for (std::size_t pc = 0; pc < count; ++pc) block_of[pc] = block += begins.contains(pc);
  return block_of;
}

bool is_in(const kernel& k, std::size_t pc, const std::vector<line_range>& ranges) {
  if (ranges.empty()) return false;
  for (const source_line* at = &k.sources[pc];; at = &k.callers[at->caller]) {
    for (const line_range& r : ranges)
      if (at->line >= r.first && at->line <= r.last && k.files[at->file].ends_with(r.file)) return true;
    if (at->caller == no_operand) return false;
  }
}

bool falls_through(const instruction& i, std::size_t pc) {
  return i.how == flow::branch && i.guard.index == no_operand && i.target == pc + 1;
}

}  // namespace

program make_program(const kernel& k, const machine& m, const std::vector<line_range>& costless) {
  const std::size_t n = k.code.size();
  std::vector<operation> operations(n);
  for (std::size_t pc = 0; pc < n; ++pc) {
    operations[pc] = operation_of(k.code[pc], k.text[pc], m);
    operations[pc].free |= falls_through(k.code[pc], pc);
    operations[pc].costless = is_in(k, pc, costless);
  }
  const std::set<std::size_t> begins = block_begins(k);
  fuse(k, operations, blocks_of(begins, n));

  program p{k, {}, {}};
  for (auto at = begins.begin(); std::next(at) != begins.end(); ++at)
    for (const std::size_t pc : scheduled(k, operations, *at, *std::next(at)))
      p.original_pc.push_back(static_cast<uint32_t>(pc));
  for (std::size_t pc = 0; pc < n; ++pc) {
    const std::size_t old = p.original_pc[pc];
    p.code.code[pc] = k.code[old];
    p.code.text[pc] = k.text[old];
    p.code.lines[pc] = k.lines[old];
    p.code.sources[pc] = k.sources[old];
    p.operations.push_back(operations[old]);
  }
  return p;
}

}  // namespace ptx::time
