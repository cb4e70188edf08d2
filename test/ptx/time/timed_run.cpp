// Of timed_run, how blocks and warps come, meet at barriers and go. schedulers.cpp has how instructions issue.
#include "timed_run.hpp"

#include "../src/handlers.hpp"

#include <algorithm>
#include <cmath>

namespace ptx::time {
namespace {

// Multiprocessors run one after the other for so many clocks: what one of them writes, another one may see so much too
// early or too late.
constexpr cycle quantum = 64;

// A launch in which nothing changes for so many clocks, some milliseconds, hangs.
constexpr cycle no_progress = 1 << 23;

// The model decides on all orders; it needs sectors and wavefronts, and nothing is checked.
settings timed_settings() {
  settings s = current_settings();
  s.check = s.weak = s.shuffle = false;
  s.traffic = true;
  return s;
}

std::size_t l1_lines(const machine& m, double blocks, uint32_t shared_bytes) {
  const double shared = std::min(m.shared_bytes, blocks * (shared_bytes + m.reserved_bytes));
  return static_cast<std::size_t>(std::max(m.l1_bytes - shared, 8192.) / 128);
}

bool is_ready(const warp_state& x) {
  return std::any_of(x.w->groups.begin(), x.w->groups.end(),
                     [](const group& g) { return g.is == group::state::ready; });
}

stamp later(stamp a, stamp b) { return b.at() > a.at() ? b : a; }

}  // namespace

timed_run::timed_run(const launch& l, const program& p, const model& m)
    : launch_run(l, timed_settings()),
      model_(m),
      m_(m.on),
      operations_(p.operations),
      memory_(m.on),
      account_(p.code.code.size()) {
  record = &access_;
  const uint32_t threads = l.block.x * l.block.y * l.block.z, shared_bytes = code.shared_bytes + l.dynamic_shared;
  registers_ = m.registers(*l.code);
  resident_ = resident_blocks(m_, registers_, threads, shared_bytes);
  const std::size_t lines = l1_lines(m_, static_cast<double>(resident_), shared_bytes);
  for (double k = 0; k < m_.processors; ++k) processors_.emplace_back(lines, code.code.size());
}

counters timed_run::run() {
  for (std::size_t slot = 0; slot < resident_; ++slot)
    for (multiprocessor& p : processors_)
      if (!place(p, static_cast<cycle>(static_cast<double>(slot) * m_.first_blocks))) break;
  for (cycle until = quantum, changed = 0; !live_.empty(); until += quantum) {
    cycle next = never;
    for (multiprocessor& p : processors_) next = std::min(next, go(p, until));
    if (live_.empty()) break;
    if (next == never) report_deadlock();
    if (next > until) until = next / quantum * quantum;
    if (seen_changes_ != changes) {
      seen_changes_ = changes;
      changed = until;
    } else if (until - changed > no_progress) {
      report_no_progress(live_.front());
    }
    if (until > stamp::latest / 2)
      throw error("no progress", "PTX engine: a launch takes longer than the model of time can count: over " +
                                     std::to_string(stamp::latest / 2 / m_.ghz * 1e-6) + " ms\n");
  }
  return totals;
}

timed_launch timed_run::report(const program& p) const {
  timed_launch t;
  t.launch_us = m_.launch_us;
  t.clocks = end_;
  t.microseconds = m_.launch_us + end_ / m_.ghz / 1000;
  t.blocks = static_cast<uint32_t>(blocks_);
  t.threads = job.block.x * job.block.y * job.block.z;
  t.resident_blocks = static_cast<uint32_t>(resident_);
  t.registers = registers_;
  t.shared_bytes = code.shared_bytes + job.dynamic_shared;
  t.costless = p.costless;
  const double warps = m_.processors * static_cast<double>(resident_) * ((t.threads + 31) / 32);
  account_.report(t, p, model_.helpers, warps * end_);
  t.issue_active = t.slots / (schedulers_each * m_.processors * std::max(end_, 1u));
  return t;
}

// --- Blocks ---------------------------------------------------------------------------------------------------------

bool timed_run::place(multiprocessor& p, cycle at) {
  if (!start_block()) return false;
  auto b = std::make_unique<block_state>();
  b->b = &live_.back();
  for (warp& w : b->b->warps) {
    b->warps.push_back(std::make_unique<warp_state>());
    warp_state& x = *b->warps.back();
    x.w = &w;
    x.registers.resize(code.register_bytes / 128 + 2);
    x.flags.resize(code.predicates + 1);
    x.last = x.earliest = at;
    p.schedulers[p.placed++ % schedulers_each].add(x, at);
    find_next(x, at);
  }
  p.blocks.push_back(std::move(b));
  return true;
}

// If it was the block's last warp, the next block takes its place.
void timed_run::leave_block(multiprocessor& p, const warp_state& x, cycle now) {
  block_state& b = p.home(x);
  if (!std::all_of(b.warps.begin(), b.warps.end(), [](const auto& y) { return y->done; })) return;
  account_.longest(x.since_barrier);
  end_ = std::max(end_, now);
  for (scheduler_state& s : p.schedulers) s.remove_done();
  live_.remove_if([&](const block& o) { return &o == b.b; });
  const auto at = std::find_if(p.blocks.begin(), p.blocks.end(), [&](const auto& o) { return o.get() == &b; });
  gone_.push_back(std::move(*at));
  p.blocks.erase(at);
  if (gone_.size() > 8) gone_.erase(gone_.begin());
  place(p, now + static_cast<cycle>(m_.next_block));
}

// x came to a barrier, or ended: others may wait no longer.
void timed_run::arrive(multiprocessor& p, warp_state& x, uint32_t pc, cycle now) {
  block_state& b = p.home(x);
  const cycle at = std::max(now + static_cast<cycle>(m_.barrier), x.last);
  bool woke = b.warps.size() == 1;
  for (const auto& y : b.warps) {
    if (y.get() == &x || !y->waits || y->done || !is_ready(*y)) continue;
    woke = true;
    account_.spend(y->pc, wait::barrier, at - y->last);
    y->last = y->earliest = at;
    y->since_barrier.clear();
    find_next(*y, at);
    y->home->next = std::min(y->home->next, std::max(y->ready, now + 1));
  }
  if (x.done) return;
  if (!is_ready(x)) return stop(x, false);
  if (woke) {  // the last one
    x.since_barrier.add(pc, at - x.last);
    account_.longest(x.since_barrier);
    x.since_barrier.clear();
  }
  account_.spend(pc, wait::barrier, at - x.last);
  x.last = x.earliest = at;
}

// --- Warps ----------------------------------------------------------------------------------------------------------

void timed_run::stop(warp_state& x, bool done) {
  x.done = x.done || done;
  x.waits = true;
  x.home->ready[x.slot] = x.ready = never;
}

cycle timed_run::when_known(const warp_state& x, const operation& o, cycle earliest, wait& reason) const {
  stamp known(earliest, wait::branch);  // which is what it waits for if not for operands
  for (int k = 0; k < o.sources; ++k) known = later(known, x.registers[o.source[k]]);
  for (int k = 0; k < o.from_flags; ++k) {
    stamp flag = x.flags[o.from_flag[k]];
    if (k == 0 && o.guarded && flag.at() != 0) flag = stamp(flag.at() + static_cast<cycle>(m_.to_guard), flag.kind());
    known = later(known, flag);
  }
  reason = known.kind();
  return known.at();
}

// Executes what takes no time, and finds when the instruction behind it can issue.
void timed_run::find_next(warp_state& x, cycle earliest) {
  warp& w = *x.w;
  for (;;) {
    std::size_t g = choose_group(w);
    if (g == w.groups.size()) return stop(x, false);
    merge(w, g);
    x.pc = w.groups[g].pc;
    const operation& o = operations_[x.pc];
    const instruction& i = code.code[x.pc];
    const bool others_see =
        i.how == flow::block_barrier || i.how == flow::exit || i.relaxed || i.acquires || o.copies == copying::poll;
    if ((!o.free && !o.costless) || (o.costless && others_see)) {
      x.ready = x.known = when_known(x, o, earliest, x.reason);
      x.waits = false;
      x.home->ready[x.slot] = x.ready;
      return;
    }
    execute_free(x, g, o);
  }
}

void timed_run::execute_free(warp_state& x, std::size_t group, const operation& o) {
  stamp known;
  if (!o.costless) {
    for (int k = 0; k < o.sources; ++k) known = later(known, x.registers[o.source[k]]);
    for (int k = 0; k < o.from_flags; ++k) known = later(known, x.flags[o.from_flag[k]]);
  }
  go_on(*x.w, group, 1);
  x.w->yields = false;
  for (int k = 0; k < o.results; ++k) x.registers[o.result[k]] = known;
  for (int k = 0; k < o.to_flags; ++k) x.flags[o.to_flag[k]] = known;
}

// --- A launch -------------------------------------------------------------------------------------------------------

counters run(const launch& l, const model& m, const program& p, std::vector<pc_counts>& counts, timed_launch& time) {
  launch ordered = l;
  ordered.code = &p.code;
  timed_run r(ordered, p, m);
  const counters rest = r.run();
  counts.assign(r.counts.size(), {});
  for (std::size_t pc = 0; pc < r.counts.size(); ++pc) counts[p.original_pc[pc]] = r.counts[pc];
  time = r.report(p);
  return rest;
}

}  // namespace ptx::time
