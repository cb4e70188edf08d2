// Of timed_run, which warp issues when, and what that costs.
#include "timed_run.hpp"

#include "../src/access.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace ptx::time {
namespace {

// A pipe that is free within a clock takes an instruction then: what is left of the clock is kept for the next.
cycle whole(double clocks) { return static_cast<cycle>(clocks); }

// When the pipe that an instruction needs is free.
cycle free_at(const multiprocessor& p, const scheduler_state& s, const operation& o, const machine& m) {
  switch (o.where) {
    case pipe::alu: return whole(s.alu);
    case pipe::fma: return whole(s.fma);
    case pipe::alu_or_fma: return whole(std::min(s.alu, s.fma));
    case pipe::fp32: return whole(s.fp32);
    case pipe::fp64: return whole(s.fp64);
    case pipe::slow: return whole(s.slow);
    case pipe::memory: return whole(std::max(p.port.busy - m.queue, 0.));
    default: return 0;
  }
}

void occupy(double& pipe, cycle now, double clocks) { pipe = std::max(pipe, static_cast<double>(now)) + clocks; }

void occupy_pipe(scheduler_state& s, const operation& o, const machine& m, cycle now) {
  if (o.costless) return;
  const double n = std::max<uint32_t>(1, o.issues);
  switch (o.where) {
    case pipe::alu: return occupy(s.alu, now, m.alu_every * n);
    case pipe::fma: return occupy(s.fma, now, m.fma_every * n);
    case pipe::fp32: return occupy(s.fp32, now, m.fp32_every * n);
    case pipe::fp64: return occupy(s.fp64, now, m.fp64_every * n);
    case pipe::slow: return occupy(s.slow, now, m.slow_every);
    case pipe::alu_or_fma:
      if (n > 1) {  // some of them here, some there
        occupy(s.alu, now, m.alu_every * n / 2);
        occupy(s.fma, now, m.fma_every * n / 2);
      } else if (s.alu <= s.fma) {
        occupy(s.alu, now, m.alu_every);
      } else {
        occupy(s.fma, now, m.fma_every);
      }
      return;
    default: return;
  }
}

// The clocks of a nanosleep, which takes no more than a millisecond.
cycle asleep(uint32_t nanoseconds, const machine& m) {
  return static_cast<cycle>(std::min(nanoseconds, 1000000u) * m.ghz * m.sleep);
}

uint32_t next_pc(const warp& w) {
  uint32_t lowest = ~0u;
  for (const group& g : w.groups)
    if (g.is == group::state::ready) lowest = std::min(lowest, g.pc);
  return lowest;
}

}  // namespace

// All of one multiprocessor up to a time. Returns when it goes on.
cycle timed_run::go(multiprocessor& p, cycle until) {
  cycle now = never;
  for (const scheduler_state& s : p.schedulers) now = std::min(now, s.next);
  while (now < until) {
    cycle next = never;
    for (scheduler_state& s : p.schedulers) {
      if (s.next <= now) step(p, s, now);
      next = std::min(next, s.next);
    }
    if (next == never) return never;
    now = std::max(next, now + 1);
  }
  return now;
}

void timed_run::step(multiprocessor& p, scheduler_state& s, cycle now) {
  cycle next = s.busy > now ? s.busy : never;
  if (next == never) {
    if (warp_state* const x = choose(p, s, now, next)) {
      issue(p, s, *x, now);
      next = std::max(now + 1, s.busy);
    }
  }
  s.next = next;
}

// The warp that issued last, as long as it can; then the youngest. Null if none can, and `next` is when one may.
warp_state* timed_run::choose(multiprocessor& p, scheduler_state& s, cycle now, cycle& next) {
  const std::size_t n = s.warps.size(), first = std::min(s.last, n);
  for (std::size_t k = 0; k <= n; ++k) {
    const std::size_t at = k == 0 ? first : n - k;
    if (at == n || (k != 0 && at == first)) continue;
    if (s.ready[at] > now) {
      next = std::min(next, s.ready[at]);
      continue;
    }
    warp_state& x = *s.warps[at];
    if (const cycle free = free_at(p, s, operations_[x.pc], m_); free > now) {
      x.held = true;
      next = std::min(next, free);
    } else if (!p.has_code[x.pc / code_line]) {
      p.has_code[x.pc / code_line] = true;
      wait_longer(x, wait::code, now, now + static_cast<cycle>(m_.first_code));
      next = std::min(next, x.ready);
    } else if (const cycle known = copies_known(x); known > now) {
      wait_longer(x, wait::global, now, known);
      next = std::min(next, known);
    } else {
      s.last = at;
      return &x;
    }
  }
  return nullptr;
}

// When the copies have come that the warp's next instruction waits for.
cycle timed_run::copies_known(const warp_state& x) {
  const copying what = operations_[x.pc].copies;
  if (what != copying::wait && what != copying::poll) return 0;
  const warp& w = *x.w;
  const instruction& i = code.code[x.pc];
  const uint32_t guard = i.guard.index == no_operand ? ~0u : w.mask(i.guard);
  return static_cast<cycle>(copies_due(w, i, w.groups[choose_group(w)].lanes & guard));
}

// These lanes have just started copies.
void timed_run::start_copies(multiprocessor& p, warp& w, const operation& o, uint32_t lanes, cycle now, cycle known) {
  if (o.copies == copying::start)
    for_lanes(lanes, [&](int l) { w.home->copies.last_of(w.index * 32 + static_cast<uint32_t>(l)).due = known; });
  if (o.copies == copying::bulk)
    for (async_copy* const c : w.home->copies.bulks_not_due())
      c->due = memory_.bulk_copy(p.port, c->from, c->read, now);
}

// What the warp waited for until now.
void timed_run::charge(warp_state& x, const operation& o, cycle now) {
  if (x.known > x.last) account_.spend(x.pc, x.reason, x.known - x.last);
  const cycle from = std::max(x.known, x.last);
  const wait held = o.where == pipe::memory ? wait::shared_queue : wait::pipe;
  if (now > from) account_.spend(x.pc, x.held ? held : wait::not_selected, now - from);
  x.held = false;
}

// It could issue now but for another reason, until `known`.
void timed_run::wait_longer(warp_state& x, wait reason, cycle now, cycle known) {
  charge(x, operations_[x.pc], now);
  x.since_barrier.add(x.pc, now - x.last);
  x.last = now;
  x.home->ready[x.slot] = x.ready = x.known = known;
  x.reason = reason;
}

void timed_run::issue(multiprocessor& p, scheduler_state& s, warp_state& x, cycle now) {
  warp& w = *x.w;
  const uint32_t pc = x.pc;
  const operation& o = operations_[pc];
  const instruction& i = code.code[pc];
  charge(x, o, now);

  access_.where = space::generic;
  const std::size_t g = choose_group(w), groups = w.groups.size();
  const uint32_t guard = i.guard.index == no_operand ? ~0u : w.mask(i.guard);
  const uint32_t lanes = w.groups[g].lanes & guard;
  const bool acts = lanes != 0;
  if (o.copies == copying::poll) w.home->copies.arrive_due(*w.home, now);
  go_on(w, g, 1);
  const bool polls = std::exchange(w.yields, false);

  const uint32_t slots = o.costless ? 0 : std::max<uint32_t>(1, o.issues);
  account_.issue(pc, slots);
  x.since_barrier.add(pc, now - x.last + slots);
  x.last = s.busy = now + slots;
  occupy_pipe(s, o, m_, now);
  const auto [known, kind] = result(p, i, o, now, polls, acts);
  if (acts) {
    start_copies(p, w, o, lanes, now, known);
    for (int k = 0; k < o.results; ++k) x.registers[o.result[k]] = stamp(known, kind);
    for (int k = 0; k < o.to_flags; ++k) x.flags[o.to_flag[k]] = stamp(known, kind);
  }
  settle(p, x, pc, now, next_issue(x, o, pc, groups, lanes, now, known), i.how == flow::block_barrier && acts);
}

memory_system::answer timed_run::result(multiprocessor& p, const instruction& i, const operation& o, cycle now,
                                        bool polls, bool acts) {
  if (o.where == pipe::memory && acts) return memory_.access(p.port, access_, i, o, now, polls);
  const uint32_t slots = o.costless ? 0 : std::max<uint32_t>(1, o.issues);
  return {now + slots - 1 + static_cast<cycle>(o.latency), o.kind};
}

// When the warp's next instruction may issue, operands aside. lanes: that execute this one.
cycle timed_run::next_issue(const warp_state& x, const operation& o, uint32_t pc, std::size_t groups_before,
                            uint32_t lanes, cycle now, cycle known) const {
  const warp& w = *x.w;
  const instruction& i = code.code[pc];
  if (i.how == flow::branch || i.how == flow::branch_table) {
    const bool split = w.groups.size() > groups_before;
    const bool taken = w.groups.size() == groups_before && next_pc(w) != pc + 1;
    return now + static_cast<cycle>(split ? m_.divergent : taken ? m_.taken : m_.not_taken);
  }
  if (o.where == pipe::control && i.how == flow::warp_sync) return now + static_cast<cycle>(m_.warp_sync);
  const bool sleeps = o.where == pipe::control && i.how == flow::next && lanes != 0 && i.from_columns[0] != no_operand;
  if (sleeps) return now + asleep(get<uint32_t>(w.in(i.from_columns[0]), std::countr_zero(lanes)), m_);
  if (o.kind == wait::atomic && i.moves == traffic::none) return known;  // a fence
  return now + (o.costless ? 1u : std::max<uint32_t>(1, o.issues));
}

// What follows an instruction: others wait no longer, the warp ends, or it goes on.
void timed_run::settle(multiprocessor& p, warp_state& x, uint32_t pc, cycle now, cycle earliest, bool meets) {
  if (x.w->alive == 0) stop(x, true);
  if (meets || x.done) {
    arrive(p, x, pc, now);
    if (x.done) return leave_block(p, x, now);
    if (x.waits) return;
    earliest = std::max(earliest, x.earliest);
  }
  find_next(x, earliest);
}

}  // namespace ptx::time
