// Asynchronous copies from global to shared memory, mbarriers, and fences of the async proxy.
#include "access.hpp"

#include <algorithm>

namespace ptx {
namespace {

uint32_t thread_of(const warp& w, int lane) { return w.index * 32 + static_cast<uint32_t>(lane); }

uint64_t address_of(const warp& w, const address_operand& a, int lane) {
  const std::byte* column = w.in(a.column);
  if (a.narrow) return get<uint32_t>(column, lane) + static_cast<uint32_t>(a.offset);
  return get<uint64_t>(column, lane) + static_cast<uint64_t>(a.offset);
}

void need_multiple(const warp& w, const char* what, uint64_t value, unsigned of, int lane) {
  if (value % of != 0)
    fault(w, "misaligned", std::string(what) + " " + std::to_string(value) + " is no multiple of " + std::to_string(of),
          lane);
}

// The last operand's sectors, after the first one's wavefronts.
void count_source(warp& w, const instruction& i, uint32_t lanes, unsigned bytes) {
  instruction source = i;
  source.from_columns[0] = i.source.column;
  source.offset = i.source.offset;
  source.flag = i.source.narrow;
  source.where = space::global;
  count_traffic(w, source, lanes, bytes, true, false);
}

// --- cp.async -------------------------------------------------------------------------------------------------------

void run_copy(warp& w, const instruction& i, uint32_t lanes) {
  const uint32_t ignored = i.from_predicates[0].index != no_operand ? w.mask(i.from_predicates[0]) : 0;
  const auto read_by = [&](int l) {
    if ((ignored >> l & 1) != 0) return 0u;
    return i.from_columns[1] == no_operand ? i.copy_bytes : get<uint32_t>(w.in(i.from_columns[1]), l);
  };
  if (w.run->how.traffic) {
    count_traffic(w, i, lanes, i.copy_bytes, false, true);
    uint32_t reading = 0;
    for_lanes(lanes, [&](int l) { reading |= uint32_t{read_by(l) != 0} << l; });
    if (reading != 0) count_source(w, i, reading, i.copy_bytes);
  }
  w.clock.tick();
  for_lanes(lanes, [&](int l) {
    async_copy c;
    const uint64_t to = address_in(w, i, l);
    c.from = address_of(w, i.source, l);
    c.bytes = i.copy_bytes;
    c.read = read_by(l);
    if (c.read > c.bytes) fault(w, "out of bounds", "src-size is " + std::to_string(c.read) + ", more than cp-size", l);
    need_multiple(w, "shared memory: address", to, c.bytes, l);
    need_multiple(w, "global memory: address", c.from, c.bytes, l);
    check_shared_bounds(w, to, c.bytes, l);
    if (c.read != 0) check_source(w, i, l, c.from, c.read);
    c.to = static_cast<uint32_t>(to);
    c.thread = thread_of(w, l);
    c.pc = w.pc;
    w.home->copies.start(w, l, std::move(c));
  });
}

void run_commit(warp& w, const instruction&, uint32_t lanes) {
  for_lanes(lanes, [&](int l) { w.home->copies.commit(thread_of(w, l)); });
}

void run_wait(warp& w, const instruction& i, uint32_t lanes) {
  w.clock.tick();
  for_lanes(lanes, [&](int l) { w.home->copies.wait(w, l, static_cast<uint32_t>(i.offset), i.flag); });
}

// --- mbarriers ------------------------------------------------------------------------------------------------------

// Checks the address and touches it; it need not have begun.
uint32_t mbarrier_address(warp& w, uint64_t address, int lane) {
  need_multiple(w, "mbarrier: address", address, 8, lane);
  check_shared_bounds(w, address, 8, lane);
  return static_cast<uint32_t>(address);
}

void touch_mbarrier(warp& w, uint32_t address, access kind, int lane) {
  uint32_t other = 0;
  shared_memory& s = w.home->shared;
  const char* wrong =
      s.checked() ? s.touch(kind, address, 8, thread_of(w, lane), w.clock, nullptr, ~0u, true, other) : nullptr;
  if (wrong != nullptr) fault_in_shared(w, wrong, address, other, lane);
}

mbarrier& live_mbarrier(warp& w, uint32_t address, int lane) {
  auto& all = w.home->copies.mbarriers;
  const auto m = all.find(address);
  if (m == all.end()) fault(w, "uninitialised", "no mbarrier begins at byte " + std::to_string(address), lane);
  touch_mbarrier(w, address, access::mbarrier, lane);
  return m->second;
}

void run_init(warp& w, const instruction& i, uint32_t lanes) {
  w.clock.tick();
  ++w.run->changes;
  for_lanes(lanes, [&](int l) {
    const uint32_t a = mbarrier_address(w, address_in(w, i, l), l);
    auto& all = w.home->copies.mbarriers;
    const auto n = get<uint32_t>(w.in(i.from_columns[1]), l);
    if (n == 0 || n > async_copies::most_arrivals)
      fault(w, "mbarrier", "a phase of " + std::to_string(n) + " arrivals", l);
    if (const auto m = all.find(a); m != all.end())
      fault(w, "mbarrier", "begun again; begun before at\n" + w.code->place(m->second.pc), l);
    touch_mbarrier(w, a, access::write, l);
    if (w.home->shared.checked()) w.home->shared.set_mbarrier(a);
    all[a] = {n, n, 0, 0, w.pc};
  });
}

// mode: 0 arrives, 1 expects bytes and arrives, 2 expects bytes.
void run_arrive(warp& w, const instruction& i, uint32_t lanes) {
  w.clock.tick();
  ++w.run->changes;
  for_lanes(lanes, [&](int l) {
    const uint32_t a = mbarrier_address(w, address_in(w, i, l), l);
    mbarrier& m = live_mbarrier(w, a, l);
    const uint32_t n = i.from_columns[1] == no_operand ? 1 : get<uint32_t>(w.in(i.from_columns[1]), l);
    if (i.mode != 0) {
      m.bytes += n;
      if (m.bytes > async_copies::most_bytes)
        fault(w, "mbarrier", "a phase that expects " + std::to_string(m.bytes) + " bytes", l);
    }
    if (i.mode == 2) return;
    const uint32_t arrivals = i.mode == 0 ? n : 1;
    if (arrivals == 0 || arrivals > m.pending)
      fault(w, "mbarrier", std::to_string(arrivals) + " arrivals at a phase that lacks " + std::to_string(m.pending),
            l);
    m.pending -= arrivals;
    async_copies::complete_phase(m);
  });
}

// Whether the phase that a poll's parity names is over.
bool is_over(const warp& w, const instruction& i, int lane, const mbarrier& m) {
  return (m.phase & 1) != get<uint32_t>(w.in(i.from_columns[1]), lane);
}

void run_poll(warp& w, const instruction& i, uint32_t lanes) {
  w.clock.tick();
  uint32_t done = 0;
  for_lanes(lanes, [&](int l) {
    const uint32_t a = mbarrier_address(w, address_in(w, i, l), l);
    const mbarrier& m = live_mbarrier(w, a, l);
    const auto parity = get<uint32_t>(w.in(i.from_columns[1]), l);
    if (parity > 1) fault(w, "mbarrier", "a parity of " + std::to_string(parity), l);
    done |= uint32_t(is_over(w, i, l, m)) << l;
    if ((done >> l & 1) != 0 && !i.relaxed) w.home->copies.saw_phase(w, l, a);
  });
  w.set(i.to_predicates[0], lanes, done);
  if (done != lanes) w.yields = true;
}

// --- cp.async.bulk --------------------------------------------------------------------------------------------------

void run_bulk(warp& w, const instruction& i, uint32_t lanes) {
  w.clock.tick();
  launch_run& run = *w.run;
  for_lanes(lanes, [&](int l) {
    async_copy c;
    const uint64_t to = address_in(w, i, l);
    c.from = address_of(w, i.source, l);
    c.bytes = c.read = get<uint32_t>(w.in(i.from_columns[1]), l);
    need_multiple(w, "shared memory: address", to, 16, l);
    need_multiple(w, "global memory: address", c.from, 16, l);
    need_multiple(w, "a bulk copy's size", c.bytes, 16, l);
    check_shared_bounds(w, to, c.bytes, l);
    c.mbarrier = mbarrier_address(w, address_of(w, i.mbarrier, l), l);
    live_mbarrier(w, c.mbarrier, l);
    c.thread = thread_of(w, l);
    uint32_t other = 0;
    shared_memory& s = w.home->shared;
    if (s.checked() && s.check_fence(c.mbarrier, 8, c.thread, other) != nullptr)
      fault_in_shared(w, "proxy", c.mbarrier, other, l);
    if (c.bytes == 0) return;
    check_source(w, i, l, c.from, c.read);
    if (run.how.weak && run.weak.last_write(*w.home, c.from, c.read) > w.home->copies.global_fence(c.thread))
      fault(w, "race", "a bulk copy of what this launch has written, and no fence.proxy.async between", l);
    if (run.how.traffic) {
      const uint64_t wavefronts = (c.bytes + 127) / 128;
      pc_counts& counts = run.counts[w.pc];
      counts.wavefronts += wavefronts;
      counts.least_wavefronts += wavefronts;
      count_source(w, i, 1u << l, c.bytes);
    }
    c.to = static_cast<uint32_t>(to);
    c.pc = w.pc;
    c.is_bulk = true;
    w.home->copies.start(w, l, std::move(c));
  });
}

// mode: 1 shared memory, 2 global memory, 3 both.
void run_proxy_fence(warp& w, const instruction& i, uint32_t lanes) {
  w.clock.tick();
  launch_run& run = *w.run;
  if ((i.mode & 2) != 0 && run.how.weak) run.weak.release_all(*w.home);
  for_lanes(lanes, [&](int l) {
    const uint32_t thread = thread_of(w, l);
    if ((i.mode & 1) != 0) w.home->shared.fence(thread, w.clock);
    if ((i.mode & 2) != 0) w.home->copies.global_fence(thread) = run.weak.now();
  });
}

// --- decoding -------------------------------------------------------------------------------------------------------

void decode_bulk(decoder& d) {
  d.needs_target(90);
  d.i.copies = copying::bulk;
  d.i.moves = traffic::load;
  if ((!d.take_both("shared::cluster", "global") && !d.take_both("shared::cta", "global")) ||
      !d.take("mbarrier::complete_tx::bytes"))
    d.fail("only bulk copies from global to shared memory, with an mbarrier");
  d.i.where = space::shared;
  d.address();
  d.i.source = d.another_address();
  d.i.from_columns[1] = d.source(type::u32);
  d.i.mbarrier = d.another_address();
  d.i.run = &run_bulk;
}

void decode_cp(decoder& d) {
  if (!d.take("async")) d.fail("only cp.async");
  if (d.take("bulk")) return decode_bulk(d);
  d.needs_target(80);
  if (d.take("commit_group")) {
    d.i.copies = copying::commit;
    d.i.run = &run_commit;
    return;
  }
  if (const int wait = d.take_one({"wait_group", "wait_all"}); wait >= 0) {
    d.i.copies = copying::wait;
    d.i.flag = wait == 1;
    if (wait == 0) {
      const auto n = d.immediate(d.next_operand());
      if (!n) d.fail("a number of groups is missing");
      d.i.offset = static_cast<int64_t>(*n);
    }
    d.i.run = &run_wait;
    return;
  }
  const int cache = d.need_one({"ca", "cg"});
  if (!d.take_both("shared", "global") && !d.take_both("shared::cta", "global"))
    d.fail("copies are from global to shared memory");
  d.take_one({"L2::64B", "L2::128B", "L2::256B"});
  d.i.copies = copying::start;
  d.i.moves = traffic::load;
  d.i.where = space::shared;
  d.address();
  d.i.source = d.another_address();
  const auto size = d.immediate(d.next_operand());
  if (!size || (*size != 16 && (cache == 1 || (*size != 4 && *size != 8)))) d.fail("not of a size that is supported");
  d.i.copy_bytes = static_cast<uint8_t>(*size);
  if (const auto n = d.immediate(d.peek()); n && *n > *size) d.fail("src-size is more than cp-size");
  if (d.next_is_predicate())
    d.i.from_predicates[0] = d.source_predicate();
  else if (d.operands_left() != 0)
    d.i.from_columns[1] = d.source(type::u32);
  d.i.run = &run_copy;
}

void take_order(decoder& d, std::initializer_list<std::string_view> orders) {
  const int order = d.take_one(orders);
  if (order >= 0) d.need_one({"cta", "cluster"});
  d.i.relaxed = order == 1;
}

void decode_mbarrier(decoder& d) {
  d.needs_target(80);
  const int what = d.need_one({"init", "arrive", "expect_tx", "test_wait", "try_wait"});
  if (what == 2 || what == 4) d.needs_target(90);
  if (d.take_one({"shared", "shared::cta"}) < 0) d.fail("an mbarrier's address is of shared memory");
  d.i.where = space::shared;
  d.need_type({type::b64});
  if (what == 0) {
    d.i.copies = copying::init;
    d.address();
    d.i.from_columns[1] = d.source(type::u32);
    d.i.run = &run_init;
  } else if (what <= 2) {
    d.i.copies = copying::arrive;
    const bool bytes = what == 1 && d.take("expect_tx");
    if (bytes) d.needs_target(90);
    d.i.mode = what == 2 ? 2 : bytes ? 1 : 0;
    take_order(d, {"release", "relaxed"});
    if (what == 1 && d.next_operand() != "_") d.fail("the state of an mbarrier is not supported: only parities are");
    d.address();
    if (d.operands_left() != 0) d.needs_target(90);
    if (d.i.mode != 0 || d.operands_left() != 0) d.i.from_columns[1] = d.source(type::u32);
    d.i.run = &run_arrive;
  } else {
    d.i.copies = copying::poll;
    if (!d.take("parity")) d.fail("the state of an mbarrier is not supported: only parities are");
    take_order(d, {"acquire", "relaxed"});
    d.i.to_predicates[0] = d.destination_predicate(d.next_operand());
    d.address();
    d.i.from_columns[1] = d.source(type::u32);
    if (what == 4 && d.operands_left() != 0) d.source(type::u32);  // how long it may wait
    d.i.run = &run_poll;
  }
}

constexpr mnemonic table[] = {{"cp", &decode_cp}, {"mbarrier", &decode_mbarrier}};

}  // namespace

uint64_t copies_due(const warp& w, const instruction& i, uint32_t lanes) {
  const async_copies& copies = w.home->copies;
  uint64_t last = 0;
  for_lanes(lanes, [&](int l) {
    if (i.copies == copying::wait) {
      last = std::max(last, copies.due(thread_of(w, l), static_cast<uint32_t>(i.offset), i.flag));
    } else if (i.copies == copying::poll) {
      const auto a = static_cast<uint32_t>(address_in(w, i, l));
      const auto m = copies.mbarriers.find(a);
      if (m != copies.mbarriers.end() && m->second.pending == 0 && !is_over(w, i, l, m->second))
        last = std::max(last, copies.due(a));
    }
  });
  return last;
}

std::span<const mnemonic> copy_mnemonics() { return table; }

void decode_proxy_fence(decoder& d) {
  d.needs_target(90);
  if (!d.take("proxy") || !d.take("async")) d.fail("only fence.proxy.async");
  const int where = d.take_one({"shared::cta", "shared::cluster", "global"});
  d.i.mode = where < 0 ? 3 : where == 2 ? 2 : 1;
  d.i.run = &run_proxy_fence;
}

}  // namespace ptx
