// Branches and ends.
#include "handlers.hpp"

namespace ptx {
namespace {

void decode_bra(decoder& d) {
  d.take("uni");
  d.i.how = flow::branch;
  d.i.target = d.known.label(d.next_operand());
}

void decode_brx(decoder& d) {
  if (!d.take("idx")) d.fail("only brx.idx");
  d.take("uni");
  d.i.how = flow::branch_table;
  d.i.from_columns[0] = d.source(type::u32);
  d.i.target = d.known.branch_table(d.next_operand());
}

void decode_exit(decoder& d) {
  if (d.mnemonic() == "ret") d.take("uni");
  d.i.how = flow::exit;
}

void run_trap(warp& w, const instruction&, uint32_t lanes) {
  fault(w, "trap", "the kernel gave up", std::countr_zero(lanes));
}
void decode_trap(decoder& d) { d.i.run = &run_trap; }

void run_assert(warp& w, const instruction&, uint32_t lanes) {
  fault(w, "assert", "an assertion does not hold", std::countr_zero(lanes));
}
// Functions are inlined; what is left to call is the runtime's own.
void decode_call(decoder& d) {
  d.take("uni");
  while (d.operands_left() != 0 && d.peek().starts_with('(')) d.next_operand();
  if (d.operands_left() == 0 || d.next_operand() != "__assertfail") d.fail("calls are not supported");
  while (d.operands_left() != 0) d.next_operand();
  d.i.run = &run_assert;
}

constexpr mnemonic table[] = {
    {"bra", &decode_bra},   {"brx", &decode_brx},    {"ret", &decode_exit},  {"exit", &decode_exit},
    {"trap", &decode_trap}, {"brkpt", &decode_trap}, {"call", &decode_call},
};

}  // namespace

std::span<const mnemonic> control_mnemonics() { return table; }

}  // namespace ptx
