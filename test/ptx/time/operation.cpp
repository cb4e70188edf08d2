#include "operation.hpp"

#include "../src/decoder.hpp"

#include <algorithm>

namespace ptx::time {
namespace {

struct described {
  const instruction& i;
  std::string_view text, opcode, name;
  bool wide;  // 64 bits

  bool is(std::initializer_list<std::string_view> names) const {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  bool any(std::initializer_list<std::string_view> parts) const {
    return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return has(opcode, part); });
  }
};

operation made(pipe where, double latency, wait kind = wait::latency, int issues = 1) {
  operation o;
  o.where = where;
  o.latency = latency;
  o.kind = kind;
  o.issues = static_cast<uint8_t>(issues);
  return o;
}

operation nothing() {
  operation o;
  o.free = true;
  return o;
}

// "atom.shared.add.u32 %r1, [%r2], 1;"
bool adds_one(const described& d) {
  const std::size_t bracket = d.text.find(']');
  if (d.i.moves != traffic::atomic || !has(d.opcode, ".add") || bracket == d.text.npos) return false;
  std::string_view value = trimmed(d.text.substr(std::min(bracket + 2, d.text.size())));
  if (value.ends_with(';')) value.remove_suffix(1);
  return trimmed(value) == "1";
}

// What an access takes depends on addresses: memory_system knows.
operation of_memory(const described& d, const machine& m) {
  if (d.i.where == space::param) return nothing();
  operation o = made(pipe::memory, m.l1, wait::shared);
  if (d.i.where == space::constant) return o;
  o.counts_one = adds_one(d);
  o.keeps_l1 = d.i.copies != copying::none ? has(d.opcode, ".ca")
                                           : !has(d.opcode, "no_allocate") && !d.i.relaxed && !d.i.acquires;
  return o;
}

operation of_warp(const described& d, const machine& m) {
  if (d.name == "shfl") return made(pipe::memory, m.shuffle, wait::shuffle);
  if (d.name == "redux") return made(pipe::slow, m.redux, wait::special);
  if (d.name == "match") return made(pipe::slow, m.match, wait::special);
  if (d.is({"vote", "activemask"})) return made(pipe::alu, m.vote, wait::special);
  return made(pipe::control, m.warp_sync, wait::branch);  // bar.warp.sync
}

operation of_move(const described& d, const machine& m) {
  // Others are constants: sizes of grid and block.
  constexpr std::string_view special_registers[] = {"%tid",  "%ctaid",    "%laneid", "%warpid",
                                                    "%smid", "%lanemask", "%clock",  "%globaltimer"};
  for (const std::string_view reads : special_registers)
    if (has(d.text, reads)) return made(pipe::slow, m.special, wait::special);
  return nothing();
}

operation of_conversion(const described& d, const machine& m) {
  if (d.any({".f16", ".f32", ".f64", ".bf16"})) return made(pipe::slow, m.slow, wait::special);
  const bool narrow = d.any({"u8", "s8", "s16"}), extends_sign = d.any({"s64"}) && d.any({"s32"});
  return narrow || extends_sign ? made(pipe::alu, m.alu) : nothing();
}

operation of_division(const described& d) {  // a routine
  if (d.i.t == type::f32) return made(pipe::fp32, 40, wait::special, 10);
  if (d.i.t == type::f64) return made(pipe::fp64, 150, wait::special, 24);
  return made(pipe::alu_or_fma, d.wide ? 200 : 90, wait::special, d.wide ? 70 : 20);
}

operation of_product(const described& d, const machine& m) {
  if (has(d.opcode, ".wide")) return made(pipe::fma, m.wide);
  if (has(d.opcode, ".hi")) return made(pipe::fma, m.wide, wait::latency, d.wide ? 8 : 1);
  return made(pipe::fma, m.alu, wait::latency, d.wide ? 4 : 1);
}

operation of_arithmetic(const described& d, const machine& m) {
  if (d.is({"div", "rem"})) return of_division(d);
  if (d.is({"rcp", "sqrt"})) return made(pipe::slow, m.mufu, wait::special, 4);
  if (d.is({"popc", "clz", "bfind", "brev"}))
    return made(pipe::slow, m.slow, wait::special, d.wide ? 3 : d.name == "clz" ? 2 : 1);
  const bool f32 = d.i.t == type::f32 || d.any({".f32"}), f64 = d.i.t == type::f64 || d.any({".f64"});
  const int halves = d.wide ? 2 : 1;
  if (d.is({"add", "sub", "mul", "mad", "fma", "setp"})) {
    if (f64) return made(pipe::fp64, m.fp64);
    if (f32) return made(d.name == "setp" ? pipe::alu : pipe::fp32, m.alu);
  }
  if (d.is({"mul", "mad", "fma"})) return of_product(d, m);
  if (d.is({"add", "sub"})) return made(pipe::alu_or_fma, m.alu, wait::latency, halves);
  if (d.name == "shl") return made(d.wide ? pipe::alu : pipe::alu_or_fma, m.alu, wait::latency, halves);
  if (d.name == "bfe") return made(pipe::alu, 2 * m.alu, wait::latency, 2);
  if (d.name == "bfi") return made(pipe::alu, 2 * m.alu, wait::latency, 3);
  if (d.is({"min", "max"})) return made(pipe::alu, m.alu, wait::latency, d.wide ? 4 : 1);
  if (has(d.opcode, ".pred")) return made(pipe::alu, m.alu);
  return made(pipe::alu, m.alu, wait::latency, halves);  // logic, shifts, selects, prmt
}

// What copies and mbarriers do beside their traffic. A poll that fails waits for threads that have not arrived.
operation of_copies(const described& d, const machine& m) {
  if (d.i.copies == copying::commit || d.i.copies == copying::wait) return made(pipe::control, 0, wait::branch);
  return made(pipe::memory, m.shared, d.i.copies == copying::poll ? wait::barrier : wait::shared);
}

operation kind_of(const described& d, const machine& m) {
  switch (d.i.how) {
    case flow::branch:
    case flow::exit: return made(pipe::control, 0, wait::branch);
    case flow::branch_table: return made(pipe::control, 0, wait::branch, 4);
    case flow::block_barrier: return made(pipe::memory, m.barrier, wait::barrier);
    case flow::warp_sync: return of_warp(d, m);
    case flow::next: break;
  }
  if (d.i.moves != traffic::none) return of_memory(d, m);
  if (d.i.copies != copying::none) return of_copies(d, m);
  if (d.is({"vote", "activemask", "bar", "barrier"})) return of_warp(d, m);
  if (d.is({"fence", "membar"})) {
    const bool near = d.any({".cta", "shared::"});
    return made(pipe::memory, near ? 8 : m.fence, wait::atomic);
  }
  if (d.name == "nanosleep") return made(pipe::control, 0, wait::look_back);
  if (d.name == "mov") return of_move(d, m);
  if (d.name == "cvta") return nothing();
  if (d.name == "cvt") return of_conversion(d, m);
  return of_arithmetic(d, m);
}

void take_operands(const instruction& i, operation& o) {
  constexpr uint32_t column_bytes = 128;
  const auto take = [&](uint32_t c) {
    if (c != no_operand && (c & is_constant) == 0) o.source[o.sources++] = static_cast<uint16_t>(c / column_bytes);
  };
  for (const uint32_t c : i.from_columns) take(c);
  take(i.source.column);
  take(i.mbarrier.column);
  for (const uint32_t c : i.to)
    if (c != no_operand) o.result[o.results++] = static_cast<uint16_t>(c / column_bytes);
  o.guarded = i.guard.index != no_operand;
  if (o.guarded) o.from_flag[o.from_flags++] = static_cast<uint16_t>(i.guard.index);
  for (const predicate& p : i.from_predicates)
    if (p.index != no_operand) o.from_flag[o.from_flags++] = static_cast<uint16_t>(p.index);
  for (const uint32_t p : i.to_predicates)
    if (p != no_operand) o.to_flag[o.to_flags++] = static_cast<uint16_t>(p);
}

}  // namespace

std::string_view opcode_of(std::string_view text) {
  std::string_view t = trimmed(text);
  if (t.starts_with('@')) t = trimmed(t.substr(t.find_first_of(" \t")));
  return t.substr(0, t.find_first_of(" \t;"));
}

operation operation_of(const instruction& i, std::string_view text, const machine& m) {
  const std::string_view opcode = opcode_of(text);
  const bool wide = has(opcode, ".b64") || has(opcode, ".u64") || has(opcode, ".s64") || bits_of(i.t) == 64;
  operation o = kind_of({i, text, opcode, mnemonic_of(opcode), wide}, m);
  o.copies = i.copies;
  take_operands(i, o);
  return o;
}

}  // namespace ptx::time
