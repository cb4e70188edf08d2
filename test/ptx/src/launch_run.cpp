// Which block, warp and group of lanes goes on; and what starts and ends them.
#include "launch_run.hpp"

#include "handlers.hpp"

#include <algorithm>
#include <thread>

namespace ptx {
namespace {

uint32_t first_lanes(uint32_t count) { return count >= 32 ? ~0u : (1u << count) - 1; }

struct special {
  std::string_view name;
  uint32_t (*value)(const launch_run& r, const block& b, uint32_t thread);
};
uint32_t bit_of(uint32_t thread) { return 1u << thread % 32; }
using run = const launch_run&;
using in_block = const block&;
constexpr special specials[] = {
    {"%tid.x", [](run r, in_block, uint32_t t) { return t % r.job.block.x; }},
    {"%tid.y", [](run r, in_block, uint32_t t) { return t / r.job.block.x % r.job.block.y; }},
    {"%tid.z", [](run r, in_block, uint32_t t) { return t / r.job.block.x / r.job.block.y; }},
    {"%ntid.x", [](run r, in_block, uint32_t) { return r.job.block.x; }},
    {"%ntid.y", [](run r, in_block, uint32_t) { return r.job.block.y; }},
    {"%ntid.z", [](run r, in_block, uint32_t) { return r.job.block.z; }},
    {"%ctaid.x", [](run, in_block b, uint32_t) { return b.index[0]; }},
    {"%ctaid.y", [](run, in_block b, uint32_t) { return b.index[1]; }},
    {"%ctaid.z", [](run, in_block b, uint32_t) { return b.index[2]; }},
    {"%nctaid.x", [](run r, in_block, uint32_t) { return r.job.grid.x; }},
    {"%nctaid.y", [](run r, in_block, uint32_t) { return r.job.grid.y; }},
    {"%nctaid.z", [](run r, in_block, uint32_t) { return r.job.grid.z; }},
    {"%laneid", [](run, in_block, uint32_t t) { return t % 32; }},
    {"%warpid", [](run, in_block, uint32_t t) { return t / 32; }},
    {"%nwarpid", [](run, in_block b, uint32_t) { return static_cast<uint32_t>(b.warps.size()); }},
    {"%lanemask_eq", [](run, in_block, uint32_t t) { return bit_of(t); }},
    {"%lanemask_le", [](run, in_block, uint32_t t) { return bit_of(t) | (bit_of(t) - 1); }},
    {"%lanemask_lt", [](run, in_block, uint32_t t) { return bit_of(t) - 1; }},
    {"%lanemask_ge", [](run, in_block, uint32_t t) { return ~(bit_of(t) - 1); }},
    {"%lanemask_gt", [](run, in_block, uint32_t t) { return ~(bit_of(t) | (bit_of(t) - 1)); }},
    {"%smid", [](run r, in_block, uint32_t) { return static_cast<uint32_t>(r.next_block() % r.resident()); }},
    {"%nsmid", [](run r, in_block, uint32_t) { return static_cast<uint32_t>(r.resident()); }},
    {"%dynamic_smem_size", [](run r, in_block, uint32_t) { return r.job.dynamic_shared; }},
    {"%total_smem_size", [](run r, in_block, uint32_t) { return r.code.shared_bytes + r.job.dynamic_shared; }},
};

}  // namespace

std::optional<uint32_t> special_named(std::string_view name) {
  for (uint32_t k = 0; k < std::size(specials); ++k)
    if (specials[k].name == name) return k;
  return std::nullopt;
}

launch_run::launch_run(const launch& l, settings s)
    : job(l), how(std::move(s)), code(*l.code), weak(l.seed + 1), counts(code.code.size()), random_(l.seed) {
  blocks_ = uint64_t{l.grid.x} * l.grid.y * l.grid.z;
  if (!how.may_read_unwritten.empty())
    for (const std::string& file : code.files) {
      const std::string name = file.substr(file.find_last_of('/') + 1);
      const auto& all = how.may_read_unwritten;
      spared_.push_back(std::find(all.begin(), all.end(), name) != all.end());
    }
  resident_ = how.resident != 0 ? how.resident : 1 + random_.below(4);
}

counters launch_run::run() {
  while (live_.size() < resident_ && start_block()) {
  }
  while (!live_.empty()) step();
  return totals;
}

bool launch_run::take(std::array<uint32_t, 3>& index) {
  if (next_block_ == blocks_) return false;
  const uint64_t position = next_block_++;
  const uint64_t b = how.shuffle ? cudasim::detail::shuffled_block(position, blocks_, job.seed) : position;
  index = {static_cast<uint32_t>(b % job.grid.x), static_cast<uint32_t>(b / job.grid.x % job.grid.y),
           static_cast<uint32_t>(b / job.grid.x / job.grid.y)};
  return true;
}

bool launch_run::start_block() {
  std::array<uint32_t, 3> index;
  if (!take(index)) return false;
  const uint32_t threads = job.block.x * job.block.y * job.block.z;
  block& b = live_.emplace_back();
  b.index = index;
  b.alive = threads;
  b.shared.begin(code.shared_bytes + job.dynamic_shared, job.poison, how.check);
  b.warps.resize((threads + 31) / 32);
  for (uint32_t k = 0; k < b.warps.size(); ++k) start_warp(b, b.warps[k], k, threads);
  return true;
}

void launch_run::start_warp(block& b, warp& w, uint32_t index, uint32_t threads) {
  w.run = this;
  w.home = &b;
  w.code = &code;
  w.index = index;
  w.alive = first_lanes(threads - index * 32);
  w.registers.assign(code.register_bytes, std::byte{job.poison});
  w.predicates.assign(code.predicates, job.poison * 0x01010101u);
  w.local.assign(std::size_t{code.local_bytes} * 32, std::byte{job.poison});
  w.groups = {{group::state::ready, 0, w.alive}};
  for (const auto& [what, column] : code.specials)
    for (uint32_t l = 0; l < 32; ++l)
      put<uint32_t>(w.out(column), static_cast<int>(l), specials[what].value(*this, b, index * 32 + l));
}

// A random warp that can go on does so for a while.
void launch_run::step() {
  auto b = std::next(live_.begin(), static_cast<std::ptrdiff_t>(random_.below(live_.size())));
  const uint32_t budget = 20 + random_.below(400);
  bool went_on = false;
  for (std::size_t tries = 0; tries < live_.size() && !went_on; ++tries) {
    const std::size_t first = random_.below(b->warps.size());
    for (std::size_t k = 0; k < b->warps.size() && !went_on; ++k)
      went_on = run_warp(b->warps[(first + k) % b->warps.size()], budget);
    if (went_on) break;
    if (++b == live_.end()) b = live_.begin();
  }
  const bool copies = std::any_of(live_.begin(), live_.end(), [](const block& o) { return o.copies.any_on_its_way(); });
  if (!went_on && !copies) report_deadlock();
  if (copies)
    for (block& o : live_) o.copies.arrive_some(o, !went_on);
  if (how.weak) weak.release_some(*b);
  if (changes != seen_changes_) {
    seen_changes_ = changes;
    since_change_ = 0;
  } else if ((since_change_ += budget) > how.no_progress) {
    report_no_progress(*b);
  } else if (since_change_ > 100000) {
    std::this_thread::yield();  // for another launch, or the host
  }
  if (b->alive == 0) {
    check_bulk_copies(*b);
    if (how.weak) weak.release_all(*b);
    live_.erase(b);
    start_block();
  }
}

void launch_run::report_no_progress(block& b) {
  const auto w = std::find_if(b.warps.begin(), b.warps.end(), [](const warp& x) { return x.alive != 0; });
  w->pc = w->groups[0].pc;
  fault(*w, "no progress",
        "threads run, and nothing changes that others could wait for" + b.copies.what_mbarriers_lack());
}

// Returns whether anything was executed.
bool launch_run::run_warp(warp& w, uint32_t budget) {
  uint64_t done = 0;
  while (done < budget && !w.yields) {
    std::size_t g = choose_group(w);
    if (g == w.groups.size()) break;
    merge(w, g);
    done += go_on(w, g, budget - static_cast<uint32_t>(done));
  }
  w.yields = false;
  return done != 0;
}

std::size_t launch_run::choose_group(const warp& w) {
  std::size_t lowest = w.groups.size(), ready = 0;
  for (std::size_t g = 0; g < w.groups.size(); ++g) {
    if (w.groups[g].is != group::state::ready) continue;
    ++ready;
    if (lowest == w.groups.size() || w.groups[g].pc < w.groups[lowest].pc) lowest = g;
  }
  if (!how.shuffle || ready < 2 || random_.below(4) != 0) return lowest;
  for (std::size_t pick = random_.below(ready), g = 0;; ++g)
    if (w.groups[g].is == group::state::ready && pick-- == 0) return g;
}

// Lanes that stand at the same instruction go on together.
void launch_run::merge(warp& w, std::size_t& g) {
  if (w.groups.size() == 1) return;
  for (std::size_t o = w.groups.size(); o-- > 0;) {
    if (o == g || w.groups[o].is != group::state::ready || w.groups[o].pc != w.groups[g].pc) continue;
    w.groups[g].lanes |= w.groups[o].lanes;
    w.groups.erase(w.groups.begin() + static_cast<std::ptrdiff_t>(o));
    if (o < g) --g;
  }
}

// Until others of the warp might go first, or must.
uint64_t launch_run::go_on(warp& w, std::size_t g, uint32_t budget) {
  uint32_t limit = ~0u;  // where others stand
  for (const group& o : w.groups)
    if (o.is == group::state::ready && o.pc > w.groups[g].pc) limit = std::min(limit, o.pc);
  uint32_t pc = w.groups[g].pc;
  const uint32_t all = w.groups[g].lanes;
  const instruction* const program = code.code.data();
  for (uint64_t done = 0;;) {
    const instruction& i = program[pc];
    uint32_t lanes = all;
    if (i.guard.index != no_operand) lanes &= w.mask(i.guard);
    w.pc = pc;
    const bool waits = lanes != 0 && (i.how == flow::warp_sync || i.how == flow::block_barrier);
    if (!waits) {
      ++counts[pc].executed;
      counts[pc].lanes += static_cast<uint64_t>(std::popcount(lanes));
      ++done;
    }
    if (lanes == 0) {
      ++pc;
    } else {
      switch (i.how) {
        case flow::next:
          i.run(w, i, lanes);
          ++pc;
          break;
        case flow::branch: {
          if (lanes == all) {
            const bool back = i.target <= pc;
            pc = i.target;
            if (w.groups.size() == 1) break;
            w.groups[g].pc = pc;
            if (back || pc >= limit) return done;
            break;
          }
          w.groups[g] = {group::state::ready, pc + 1, all & ~lanes};
          w.groups.push_back({group::state::ready, i.target, lanes});
          return done;
        }
        case flow::branch_table: {
          w.groups[g].pc = pc;
          switch_to_targets(w, g, lanes);
          return done;
        }
        case flow::exit:
          w.groups[g].pc = pc;
          leave(w, g, lanes);
          return done;
        case flow::warp_sync:
        case flow::block_barrier:
          w.groups[g].pc = pc;
          if (lanes != all) {
            w.groups[g].lanes = lanes;
            w.groups.push_back({group::state::ready, pc + 1, all & ~lanes});
            ++done;
            meet(w, g, i, lanes);
            return done;
          }
          if (i.how == flow::warp_sync && lanes == w.alive && alone(w, i, lanes)) {
            ++counts[pc].executed;
            counts[pc].lanes += static_cast<uint64_t>(std::popcount(lanes));
            ++done;
            i.run(w, i, lanes);
            ++pc;
            break;
          }
          meet(w, g, i, lanes);
          return done + 1;
      }
    }
    if (done >= budget || pc >= limit || w.yields) {
      w.groups[g].pc = pc;
      return done;
    }
  }
}

void launch_run::switch_to_targets(warp& w, std::size_t g, uint32_t lanes) {
  const instruction& i = code.code[w.pc];
  const auto& targets = code.branch_tables[i.target];
  const uint32_t rest = w.groups[g].lanes & ~lanes;
  w.groups.erase(w.groups.begin() + static_cast<std::ptrdiff_t>(g));
  if (rest != 0) w.groups.push_back({group::state::ready, w.pc + 1, rest});
  for (std::size_t t = 0; t < targets.size(); ++t) {
    uint32_t there = 0;
    for_lanes(lanes, [&](int l) { there |= uint32_t(get<uint32_t>(w.in(i.from_columns[0]), l) == t) << l; });
    if (there == 0) continue;
    w.groups.push_back({group::state::ready, targets[t], there});
    lanes &= ~there;
  }
  if (lanes != 0) fault(w, "out of bounds", "brx.idx beyond its table", std::countr_zero(lanes));
}

void launch_run::leave(warp& w, std::size_t g, uint32_t lanes) {
  block& b = *w.home;
  check_copies(w, lanes);
  w.alive &= ~lanes;
  b.alive -= static_cast<uint32_t>(std::popcount(lanes));
  ++changes;
  w.groups[g].lanes &= ~lanes;
  ++w.groups[g].pc;
  if (w.groups[g].lanes == 0) w.groups.erase(w.groups.begin() + static_cast<std::ptrdiff_t>(g));
  // Others may have waited for these.
  for (group& o : w.groups)
    if (o.is == group::state::at_warp_sync) o.is = group::state::ready;
  for (uint32_t id = 0; id < b.barriers.size(); ++id)
    if (b.barriers[id].arrived != 0 && b.barriers[id].expected == 0 && b.barriers[id].arrived == b.alive)
      complete(b, id);
}

// --- meeting --------------------------------------------------------------------------------------------------------

bool launch_run::alone(const warp& w, const instruction& i, uint32_t lanes) const {
  const std::byte* masks = w.in(i.from_columns[4]);
  const auto first = get<uint32_t>(masks, std::countr_zero(lanes));
  if ((first & w.alive) != lanes) return false;
  bool same = true;
  for_lanes(lanes, [&](int l) { same = same && get<uint32_t>(masks, l) == first; });
  return same;
}

void launch_run::meet(warp& w, std::size_t g, const instruction& i, uint32_t lanes) {
  if (i.how == flow::block_barrier) return arrive(w, g, lanes);
  w.groups[g].is = group::state::at_warp_sync;
  const std::byte* masks = w.in(i.from_columns[4]);
  for (uint32_t left = lanes; left != 0;) {
    const auto wanted = get<uint32_t>(masks, std::countr_zero(left));
    uint32_t same = 0;
    for_lanes(left, [&](int l) { same |= uint32_t(get<uint32_t>(masks, l) == wanted) << l; });
    if ((same & ~wanted) != 0)
      fault(w, "divergent sync", "a lane is not in its own mask", std::countr_zero(same & ~wanted));
    left &= ~same;
    synchronise(w, i, wanted);
  }
}

// Executes for the lanes of this mask if all of them have come. bar.warp.sync may stand in several places.
void launch_run::synchronise(warp& w, const instruction& i, uint32_t wanted) {
  const uint32_t pc = w.pc;
  const auto waits = [&](const group& q) {
    return q.is == group::state::at_warp_sync &&
           (q.pc == pc || (code.code[q.pc].run == i.run && i.to[0] == no_operand && i.from_columns[0] == no_operand));
  };
  uint32_t come = 0;
  for (const group& q : w.groups)
    if (waits(q))
      for_lanes(q.lanes, [&](int l) {
        come |= uint32_t(get<uint32_t>(w.in(code.code[q.pc].from_columns[4]), l) == wanted) << l;
      });
  const uint32_t needed = wanted & w.alive;
  if ((come & needed) != needed) return;
  ++counts[pc].executed;
  counts[pc].lanes += static_cast<uint64_t>(std::popcount(needed));
  i.run(w, i, needed);
  for (std::size_t q = w.groups.size(); q-- > 0;) {
    if (!waits(w.groups[q]) || (w.groups[q].lanes & needed) == 0) continue;
    const group on{group::state::ready, w.groups[q].pc + 1, w.groups[q].lanes & needed};
    w.groups[q].lanes &= ~needed;
    if (w.groups[q].lanes == 0)
      w.groups[q] = on;
    else
      w.groups.push_back(on);
  }
}

// Do these lanes agree with each other, and with those that have come before?
void launch_run::check_barrier(const warp& w, const instruction& i, uint32_t lanes) const {
  const int first = std::countr_zero(lanes);
  for (const uint32_t column : {i.from_columns[0], i.from_columns[1]})
    if (column != no_operand)
      for_lanes(lanes, [&](int l) {
        if (get<uint32_t>(w.in(column), l) != get<uint32_t>(w.in(column), first))
          fault(w, "divergent barrier", "lanes of a warp name different barriers", l);
      });
  const auto id = get<uint32_t>(w.in(i.from_columns[0]), first);
  if (id >= w.home->barriers.size()) fault(w, "divergent barrier", "there is no barrier " + std::to_string(id), first);
  const uint32_t all = static_cast<uint32_t>(w.home->warps.size()) * 32;
  const uint32_t expected = i.from_columns[1] == no_operand ? all : get<uint32_t>(w.in(i.from_columns[1]), first);
  if (expected == 0 || expected % 32 != 0)
    fault(w, "divergent barrier", "a barrier of " + std::to_string(expected) + " threads: not a multiple of 32", first);
  const barrier& at = w.home->barriers[id];
  if (at.arrived == 0) return;
  if (expected != (at.expected == 0 ? all : at.expected))
    fault(w, "divergent barrier", "others wait at barrier " + std::to_string(id) + " for another number of threads",
          first);
  if (at.reduction != (i.mode >= 2 ? i.mode : 0))
    fault(w, "divergent barrier", "others reduce something else at barrier " + std::to_string(id) + ", or nothing",
          first);
}

void launch_run::arrive(warp& w, std::size_t g, uint32_t lanes) {
  block& b = *w.home;
  const instruction& i = code.code[w.pc];
  ++counts[w.pc].executed;
  counts[w.pc].lanes += static_cast<uint64_t>(std::popcount(lanes));
  const auto n = static_cast<uint32_t>(std::popcount(lanes));
  const int first = std::countr_zero(lanes);
  const uint32_t id = get<uint32_t>(w.in(i.from_columns[0]), first);
  check_barrier(w, i, lanes);
  barrier& at = b.barriers[id];
  at.arrived += n;
  at.warps |= 1u << w.index;
  at.expected = i.from_columns[1] == no_operand ? 0 : get<uint32_t>(w.in(i.from_columns[1]), first);
  at.reduction = i.mode >= 2 ? i.mode : 0;
  if (i.mode >= 2) at.ones += static_cast<uint32_t>(std::popcount(w.mask(i.from_predicates[0]) & lanes));
  if (i.mode == 1)
    ++w.groups[g].pc;
  else
    w.groups[g].is = group::state::at_barrier;
  const uint32_t wanted = at.expected == 0 ? b.alive : at.expected;
  if (at.arrived > wanted)
    fault(w, "divergent barrier", "more threads than barrier " + std::to_string(id) + " expects", first);
  if (at.arrived == wanted) complete(b, id);
}

// All have come: what they know of memory they now know together.
void launch_run::complete(block& b, uint32_t id) {
  barrier& at = b.barriers[id];
  const bool ended = at.expected == 0 && b.alive != job.block.x * job.block.y * job.block.z;
  weak_view known;
  std::vector<warp*> there;
  for (warp& w : b.warps) {
    bool waits = false;
    uint32_t where = 0;
    for (group& g : w.groups) {
      if (g.is != group::state::at_barrier) continue;
      const instruction& i = code.code[g.pc];
      if (get<uint32_t>(w.in(i.from_columns[0]), std::countr_zero(g.lanes)) != id) continue;
      w.pc = g.pc;
      if (ended)
        fault(w, "divergent barrier", "threads of the block have ended and never come", std::countr_zero(g.lanes));
      if (waits && i.flag && g.pc != where)
        fault(w, "divergent barrier", "lanes of a warp wait at different barriers", std::countr_zero(g.lanes));
      waits = true;
      where = g.pc;
      if (i.mode == 2) for_lanes(g.lanes, [&](int l) { put<uint32_t>(w.out(i.to[0]), l, at.ones); });
      if (i.mode == 3) w.set(i.to_predicates[0], g.lanes, at.ones == at.arrived ? ~0u : 0);
      if (i.mode == 4) w.set(i.to_predicates[0], g.lanes, at.ones != 0 ? ~0u : 0);
      g.is = group::state::ready;
      ++g.pc;
    }
    if (!waits) continue;
    there.push_back(&w);
    known.join(w.view);
  }
  for (warp* w : there) w->view.join(known);
  const bool all = at.warps == first_lanes(static_cast<uint32_t>(b.warps.size()));
  b.shared.barrier(at.warps, all);
  if (all) b.copies.met(b);
  at = {};
}

// --- asynchronous copies --------------------------------------------------------------------------------------------

const async_copy* launch_run::copy_reading(uint64_t address, uint32_t bytes) const {
  for (const block& b : live_)
    if (const async_copy* c = b.copies.reading(address, bytes)) return c;
  return nullptr;
}

// Of lanes that end.
void launch_run::check_copies(warp& w, uint32_t lanes) {
  for_lanes(lanes, [&](int l) {
    if (const async_copy* c = w.home->copies.unfinished(w.index * 32 + static_cast<uint32_t>(l)))
      report_unfinished(w, *c);
  });
}

void launch_run::check_bulk_copies(block& b) {
  if (const async_copy* c = b.copies.unfinished_bulk(b)) report_unfinished(b.warps[c->thread / 32], *c);
}

void launch_run::report_unfinished(warp& w, const async_copy& c) {
  w.pc = c.pc;
  fault(w, "unfinished copy", "nobody has waited for this copy when the kernel ends", static_cast<int>(c.thread % 32));
}

void launch_run::report_deadlock() {
  for (block& b : live_)
    for (warp& w : b.warps)
      for (const group& g : w.groups) {
        w.pc = g.pc;
        if (g.is == group::state::at_warp_sync)
          fault(w, "divergent sync", "lanes of its mask never come", std::countr_zero(g.lanes));
      }
  for (block& b : live_)
    for (warp& w : b.warps)
      for (const group& g : w.groups) {
        w.pc = g.pc;
        fault(w, "divergent barrier", "threads of the block never come", std::countr_zero(g.lanes));
      }
  throw error("deadlock", "PTX engine: no thread can go on\n");
}

}  // namespace ptx
