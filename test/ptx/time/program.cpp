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

// "src/block.cuh" is of "block.cuh", not of "lock.cuh".
bool is_of(std::string_view path, std::string_view end) {
  if (!path.ends_with(end)) return false;
  return path.size() == end.size() || path[path.size() - end.size() - 1] == '/';
}

bool is_in(const kernel& k, std::size_t pc, const line_range& r) {
  for (const source_line* at = &k.sources[pc];; at = &k.callers[at->caller]) {
    if (at->line >= r.first && at->line <= r.last && is_of(k.files[at->file], r.file)) return true;
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
  std::vector<uint32_t> in_range(costless.size());
  for (std::size_t pc = 0; pc < n; ++pc) {
    operations[pc] = operation_of(k.code[pc], k.text[pc], m);
    operations[pc].free |= falls_through(k.code[pc], pc);
    for (std::size_t r = 0; r < costless.size(); ++r) {
      if (!is_in(k, pc, costless[r])) continue;
      operations[pc].costless = true;
      ++in_range[r];
    }
  }
  const std::set<std::size_t> begins = block_begins(k);
  fuse(k, operations, blocks_of(begins, n));

  program p{k, {}, in_range, {}};
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
