#include "async_copies.hpp"

#include "access.hpp"

#include <algorithm>

namespace ptx {

void copy_sources::count(uint64_t address, uint32_t bytes, int by) {
  for (uint64_t line = address / 16; line * 16 < address + bytes; ++line)
    if ((lines_[line] += by) == 0) lines_.erase(line);
}

bool copy_sources::may_touch(uint64_t address, uint32_t bytes) const {
  if (lines_.empty()) return false;
  for (uint64_t line = address / 16; line * 16 < address + bytes; ++line)
    if (lines_.contains(line)) return true;
  return false;
}

uint16_t async_copies::free_number() {
  if (free_.empty()) {
    copies_.emplace_back();
    return static_cast<uint16_t>(copies_.size() - 1);  // fewer than there are words of shared memory
  }
  const uint16_t number = free_.back();
  free_.pop_back();
  return number;
}

void async_copies::start(warp& w, int lane, async_copy c) {
  launch_run& run = *w.run;
  shared_memory& s = w.home->shared;
  const uint16_t number = free_number();
  uint32_t other = 0;
  const char* wrong = s.checked() ? s.start_copy(c.to, c.bytes, c.thread, w.clock, number, c.is_bulk, other) : nullptr;
  if (wrong != nullptr) fault_in_shared(w, wrong, c.to, other, lane);
  run.sources.add(c.from, c.read);
  if (run.flip()) read(w, c);
  if (c.is_bulk) {
    ++on_their_way_;
    ++bulks_;
  } else {
    c.group = of_thread(c.thread).groups;
    of_thread(c.thread).open.push_back(number);
  }
  copies_[number] = std::move(c);
}

void async_copies::read(warp& w, async_copy& c) {
  c.early.resize(c.bytes);
  if (w.run->how.weak)
    w.run->weak.read(*w.home, w.view, c.from, c.early.data(), c.read, false);
  else
    std::memcpy(c.early.data(), reinterpret_cast<const std::byte*>(c.from), c.read);
}

void async_copies::finish(warp& w, async_copy& c) {
  if (c.early.empty()) read(w, c);
  std::memcpy(w.home->shared.data() + c.to, c.early.data(), c.bytes);
  c.early = {};
  w.run->sources.remove(c.from, c.read);
  c.arrived = true;
}

void async_copies::wait(warp& w, int lane, uint32_t newest, bool all) {
  const uint32_t thread = w.index * 32 + static_cast<uint32_t>(lane);
  thread_copies& t = of_thread(thread);
  if (all) ++t.groups;
  std::erase_if(t.open, [&](uint16_t number) {
    async_copy& c = copies_[number];
    if (!waits_for(c, t.groups, newest)) return false;
    finish(w, c);
    shared_memory& s = w.home->shared;
    if (s.checked()) s.finish_copy(c.to, c.bytes, thread, w.clock, number);
    c.bytes = 0;
    free_.push_back(number);
    return true;
  });
}

void async_copies::complete_phase(mbarrier& m) {
  if (m.pending != 0 || m.bytes != 0) return;
  m.pending = m.expected;
  ++m.phase;
}

void async_copies::arrive(block& b, uint16_t number) {
  async_copy& c = copies_[number];
  warp& w = b.warps[c.thread / 32];
  mbarrier& m = mbarriers.at(c.mbarrier);
  finish(w, c);
  c.phase = m.phase;
  b.shared.bulk_arrived(c.to, c.bytes, number, b.warps.size() * 32);
  m.bytes -= c.bytes;
  complete_phase(m);
  --on_their_way_;
  ++w.run->changes;
  if (!b.shared.checked()) forget(number);  // nobody asks who has seen it
}

void async_copies::forget(uint16_t bulk) {
  --bulks_;
  copies_[bulk].bytes = 0;
  free_.push_back(bulk);
}

void async_copies::arrive_some(block& b, bool all) {
  if (on_their_way_ == 0) return;
  for (std::size_t n = 0; n < copies_.size(); ++n)
    if (copies_[n].bytes != 0 && copies_[n].is_bulk && !copies_[n].arrived && (all || b.warps[0].run->flip()))
      arrive(b, static_cast<uint16_t>(n));
}

void async_copies::arrive_due(block& b, uint64_t now) {
  if (on_their_way_ == 0) return;
  for (std::size_t n = 0; n < copies_.size(); ++n)
    if (const async_copy& c = copies_[n]; c.bytes != 0 && c.is_bulk && !c.arrived && c.due <= now)
      arrive(b, static_cast<uint16_t>(n));
}

std::vector<async_copy*> async_copies::bulks_not_due() {
  std::vector<async_copy*> found;
  for (async_copy& c : copies_)
    if (c.bytes != 0 && c.is_bulk && !c.arrived && c.due == 0) found.push_back(&c);
  return found;
}

uint64_t async_copies::due(uint32_t thread, uint32_t newest, bool all) const {
  uint64_t last = 0;
  if (thread >= threads_.size()) return last;
  const thread_copies& t = threads_[thread];
  for (const uint16_t number : t.open)
    if (const async_copy& c = copies_[number]; waits_for(c, t.groups + all, newest)) last = std::max(last, c.due);
  return last;
}

uint64_t async_copies::due(uint32_t mbarrier) const {
  uint64_t last = 0;
  for (const async_copy& c : copies_)
    if (c.bytes != 0 && c.is_bulk && !c.arrived && c.mbarrier == mbarrier) last = std::max(last, c.due);
  return last;
}

void async_copies::saw_phase(warp& w, int lane, uint32_t address) {
  if (bulks_ == 0) return;
  const uint64_t now = mbarriers.at(address).phase;
  for (std::size_t n = 0; n < copies_.size(); ++n)
    if (const async_copy& c = copies_[n];
        c.is_bulk && c.bytes != 0 && c.arrived && c.mbarrier == address && c.phase < now)
      w.home->shared.saw_bulk(static_cast<uint16_t>(n), w.index * 32 + static_cast<uint32_t>(lane), w.clock);
}

void async_copies::met(block& b) {
  if (bulks_ == 0) return;
  for (std::size_t n = 0; n < copies_.size(); ++n) {
    const async_copy& c = copies_[n];
    const auto number = static_cast<uint16_t>(n);
    if (!c.is_bulk || c.bytes == 0 || !c.arrived || !b.shared.anyone_saw(number)) continue;
    b.shared.all_saw_bulk(c.to, c.bytes, number);
    forget(number);
  }
}

const async_copy* async_copies::unfinished(uint32_t thread) const {
  return thread < threads_.size() && !threads_[thread].open.empty() ? &copies_[threads_[thread].open.front()] : nullptr;
}

const async_copy* async_copies::unfinished_bulk(const block& b) const {
  if (bulks_ == 0) return nullptr;
  for (std::size_t n = 0; n < copies_.size(); ++n)
    if (const async_copy& c = copies_[n];
        c.is_bulk && c.bytes != 0 && !(c.arrived && b.shared.anyone_saw(static_cast<uint16_t>(n))))
      return &c;
  return nullptr;
}

const async_copy* async_copies::reading(uint64_t address, uint32_t bytes) const {
  for (const async_copy& c : copies_)
    if (c.bytes != 0 && !c.arrived && address < c.from + c.read && c.from < address + bytes) return &c;
  return nullptr;
}

std::string async_copies::what_mbarriers_lack() const {
  std::string s;
  for (const auto& [address, m] : mbarriers)
    s += "; phase " + std::to_string(m.phase) + " of the mbarrier at byte " + std::to_string(address) + " lacks " +
         std::to_string(m.pending) + " arrivals and " + std::to_string(m.bytes) + " bytes";
  return s;
}

}  // namespace ptx
