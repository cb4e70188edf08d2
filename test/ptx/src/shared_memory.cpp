#include "shared_memory.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ptx {

void warp_clock::synchronise(uint32_t lanes, bool all_alive) {
  ++now_;
  if (all_alive) {
    all_ = now_;
    return;
  }
  if (!known_) known_ = std::make_unique<table>();
  std::array<uint32_t, 32> all{};
  for (uint32_t a = 0; a < 32; ++a) {
    if ((lanes >> a & 1) == 0) continue;
    for (uint32_t b = 0; b < 32; ++b) all[b] = std::max(all[b], (*known_)[a][b]);
    all[a] = now_;
  }
  for (uint32_t a = 0; a < 32; ++a)
    if ((lanes >> a & 1) != 0) (*known_)[a] = all;
}

void shared_memory::begin(std::size_t bytes, uint8_t poison, bool check) {
  bytes_.assign(bytes, std::byte{poison});
  cells_.assign(check ? bytes : 0, {});
  relaxed_.clear();
  seen_.clear();
  barriers_.synchronise(~0u, true);  // what nobody has touched is known to all
}

// The time that is kept is the first of those that the others do not know of: a later one would make a race of what has
// been ordered in between.
void shared_memory::remember(threads& all, uint32_t thread, const warp_clock& clock) const {
  const uint32_t warp = thread / 32, lane = thread % 32;
  if (barriers_.all_know(all.epoch)) all.warps = 0;
  for (uint32_t left = barriers_.some_know() ? all.warps : 0; left != 0; left &= left - 1) {
    const auto w = static_cast<uint32_t>(std::countr_zero(left));
    if (barriers_.ordered(warp, w, all.epoch)) all.warps &= ~(1u << w);
  }
  if (all.last / 32 != warp || (all.warps >> warp & 1) == 0) all.lanes = 0;
  for (uint32_t left = all.lanes; left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    if (clock.ordered(lane, l, all.time)) all.lanes &= ~(1u << l);
  }
  if (all.warps == 0) all.epoch = barriers_.now();
  if (all.lanes == 0) all.time = clock.now();
  all.warps |= 1u << warp;
  all.lanes |= 1u << lane;
  all.last = static_cast<uint16_t>(thread);
}

bool shared_memory::unordered(const threads& all, uint32_t thread, const warp_clock& clock, uint32_t& other) const {
  if (all.warps == 0 || barriers_.all_know(all.epoch)) return false;
  const uint32_t warp = thread / 32, lane = thread % 32;
  for (uint32_t left = all.warps & ~(1u << warp); left != 0; left &= left - 1) {
    const auto w = static_cast<uint32_t>(std::countr_zero(left));
    other = all.last / 32 == w ? all.last : w * 32;
    if (!barriers_.ordered(warp, w, all.epoch)) return true;
  }
  if (all.last / 32 != warp || barriers_.ordered(warp, warp, all.epoch)) return false;
  for (uint32_t left = all.lanes & ~(1u << lane); left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    other = warp * 32 + l;
    if (!clock.ordered(lane, l, all.time)) return true;
  }
  return false;
}

const char* shared_memory::touch(access kind, uint32_t address, uint32_t bytes, uint32_t thread,
                                 const warp_clock& clock, const std::byte* value, uint32_t used, bool may_be_unwritten,
                                 uint32_t& other) {
  const uint32_t warp = thread / 32, lane = thread % 32;
  const bool reads = kind == access::read || kind == access::relaxed_read;
  const bool relaxed = kind == access::relaxed_read || kind == access::atomic || kind == access::mbarrier;
  if (relaxed && relaxed_.empty()) relaxed_.resize(cells_.size());
  for (uint32_t k = 0; k < bytes; ++k) {
    cell& c = cells_[address + k];
    if (reads && k < 32 && (used >> k & 1) == 0) continue;
    if ((c.is == cell::use::mbarrier) != (kind == access::mbarrier)) return "mbarrier";
    const bool copied = c.is == cell::use::copy;
    other = c.writer;
    if (copied && !knows_end(c.writer, thread, clock)) return "pending copy";
    if (value == nullptr && !c.written && !may_be_unwritten) return "uninitialised";
    if (!copied && !barriers_.ordered(warp, c.writer / 32, c.write_epoch) && c.writer != thread &&
        !(c.writer / 32 == warp && clock.ordered(lane, c.writer % 32, c.write_time))) {
      // One instruction may write a byte by several lanes, if all write the same.
      const bool together = kind == access::write && c.writer / 32 == warp && c.write_time == clock.now() &&
                            value != nullptr && value[k] == bytes_[address + k];
      if (!together) return "race";
    }
    relaxed_cell* const r = relaxed_.empty() ? nullptr : &relaxed_[address + k];
    if (!relaxed && r != nullptr && unordered(r->writers, thread, clock, other)) return "race";
    if (reads) {
      remember(relaxed ? r->readers : c.readers, thread, clock);
      continue;
    }
    if (unordered(c.readers, thread, clock, other)) return "race";
    c.written = true;
    if (relaxed && !copied) {
      remember(r->writers, thread, clock);
      continue;
    }
    if (r != nullptr && unordered(r->readers, thread, clock, other)) return "race";
    set_writer(c, thread, clock);
  }
  return nullptr;
}

void shared_memory::set_writer(cell& c, uint32_t thread, const warp_clock& clock) {
  c.write_epoch = barriers_.now();
  c.write_time = clock.now();
  c.writer = static_cast<uint16_t>(thread);
  c.written = true;
  c.is = cell::use::plain;
}

// --- asynchronous copies --------------------------------------------------------------------------------------------

void shared_memory::set_mbarrier(uint32_t address) {
  for (uint32_t k = 0; k < 8; ++k) cells_[address + k].is = cell::use::mbarrier;
}

// Of a copy of the async proxy: the writer must have fenced behind its write, or this thread since they met.
const char* shared_memory::check_fence(uint32_t address, uint32_t bytes, uint32_t thread, uint32_t& other) const {
  for (uint32_t k = 0; k < bytes; ++k) {
    const cell& c = cells_[address + k];
    if (!c.written || c.is == cell::use::plain_of_bulk || c.is == cell::use::copy) continue;
    const moment &of_writer = fences_[c.writer], &own = fences_[thread];
    const bool of_warp = c.writer / 32 == thread / 32;
    other = c.writer;
    if (of_writer.time <= c.write_time && own.epoch <= c.write_epoch && !(of_warp && own.time > c.write_time))
      return "proxy";
  }
  return nullptr;
}

const char* shared_memory::start_copy(uint32_t address, uint32_t bytes, uint32_t thread, const warp_clock& clock,
                                      uint16_t copy, bool bulk, uint32_t& other) {
  if (bulk)
    if (const char* wrong = check_fence(address, bytes, thread, other)) return wrong;
  if (const char* wrong = touch(access::write, address, bytes, thread, clock, nullptr, ~0u, true, other)) return wrong;
  for (uint32_t k = 0; k < bytes; ++k) {
    cells_[address + k].is = cell::use::copy;
    cells_[address + k].writer = copy;
  }
  return nullptr;
}

void shared_memory::finish_copy(uint32_t address, uint32_t bytes, uint32_t thread, const warp_clock& clock,
                                uint16_t copy) {
  for (uint32_t k = 0; k < bytes; ++k)
    if (cell& c = cells_[address + k]; c.is == cell::use::copy && c.writer == copy) set_writer(c, thread, clock);
}

void shared_memory::bulk_arrived(uint32_t address, uint32_t bytes, uint16_t copy, std::size_t threads) {
  if (seen_.size() <= copy) seen_.resize(copy + 1u);
  seen_[copy].assign(threads, {});
  for (uint32_t k = 0; k < bytes && checked(); ++k) cells_[address + k].written = true;
}

void shared_memory::saw_bulk(uint16_t copy, uint32_t thread, const warp_clock& clock) {
  if (seen_[copy][thread].epoch == 0) seen_[copy][thread] = {barriers_.now(), clock.now()};
}

bool shared_memory::anyone_saw(uint16_t copy) const {
  return std::any_of(seen_[copy].begin(), seen_[copy].end(), [](const moment& m) { return m.epoch != 0; });
}

bool shared_memory::knows_end(uint16_t copy, uint32_t thread, const warp_clock& clock) const {
  if (copy >= seen_.size() || seen_[copy].empty()) return false;
  const auto& seen = seen_[copy];
  if (seen[thread].epoch != 0) return true;
  for (uint32_t o = 0; o < seen.size(); ++o) {
    if (seen[o].epoch == 0) continue;
    if (barriers_.ordered(thread / 32, o / 32, seen[o].epoch)) return true;
    if (o / 32 == thread / 32 && clock.ordered(thread % 32, o % 32, seen[o].time)) return true;
  }
  return false;
}

void shared_memory::all_saw_bulk(uint32_t address, uint32_t bytes, uint16_t copy) {
  seen_[copy].clear();
  for (uint32_t k = 0; k < bytes && checked(); ++k) {
    cell& c = cells_[address + k];
    if (c.is != cell::use::copy || c.writer != copy) continue;
    c.is = cell::use::plain_of_bulk;
    c.write_epoch = c.writer = 0;
  }
}

}  // namespace ptx
