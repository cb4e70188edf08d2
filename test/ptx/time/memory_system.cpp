#include "memory_system.hpp"

#include <algorithm>

namespace ptx::time {
namespace {

constexpr uint32_t sector_bytes = 32, line_sectors = 4;

// Keeps the port busy. Returns until when.
cycle occupy(memory_port& port, cycle now, double clocks) {
  port.busy = std::max(port.busy, static_cast<double>(now)) + clocks;
  return static_cast<cycle>(port.busy);
}

}  // namespace

bool l1_cache::hits(uint64_t sector) {
  const uint64_t number = sector / line_sectors;
  const auto bit = static_cast<uint8_t>(1u << sector % line_sectors);
  const auto [found, fresh] = places_.try_emplace(number);
  if (!fresh) {
    lines_.splice(lines_.begin(), lines_, found->second);
  } else {
    lines_.push_front({number, 0});
    found->second = lines_.begin();
    if (lines_.size() > room_) {
      places_.erase(lines_.back().number);
      lines_.pop_back();
    }
  }
  const bool there = (lines_.front().sectors & bit) != 0;
  lines_.front().sectors |= bit;
  return there;
}

memory_system::answer memory_system::access(memory_port& port, const access_record& a, const instruction& i,
                                            const operation& o, cycle now, bool polls) {
  if (i.how == flow::warp_sync)
    return {occupy(port, now, m_.shuffle_every) + static_cast<cycle>(o.latency) - 1, o.kind};
  if (a.where == space::shared) return {shared(port, a, i, o, now), wait::shared};
  if (o.copies == copying::bulk) return {occupy(port, now, 1), wait::global};
  if (a.where != space::global) {  // a fence, an mbarrier, local or constant memory
    if (i.moves == traffic::none) return {now + static_cast<cycle>(o.latency), o.kind};
    return {occupy(port, now, m_.wavefront_every) + static_cast<cycle>(m_.l1), o.kind};
  }
  const std::size_t lines = std::max<std::size_t>(1, (a.sectors.size() + line_sectors - 1) / line_sectors);
  // cp.async takes its wavefronts in advance.
  const double stores = o.copies == copying::start ? m_.wavefront_every * std::max(1u, a.wavefronts) : 0;
  const cycle begun = occupy(port, now, static_cast<double>(lines) + stores);
  switch (i.moves) {
    case traffic::atomic: return {atomic(a, begun), wait::atomic};
    case traffic::store: write(port, a, begun); return {begun, wait::global};
    default: return {load(port, a, o, begun), polls ? wait::look_back : wait::global};
  }
}

cycle memory_system::shared(memory_port& port, const access_record& a, const instruction& i, const operation& o,
                            cycle now) const {
  uint32_t wavefronts = std::max(1u, a.wavefronts);
  if (i.moves != traffic::atomic)
    return occupy(port, now, m_.wavefront_every * wavefronts) + static_cast<cycle>(m_.shared) - 1;
  // Without a result to combine, lanes at one word take a wavefront each.
  if (!o.counts_one) wavefronts = std::max(wavefronts, a.lane_wavefronts);
  return occupy(port, now, m_.atomic_wavefront_every * wavefronts) + static_cast<cycle>(m_.shared_atomic);
}

cycle memory_system::atomic(const access_record& a, cycle begun) {
  for (const uint64_t sector : a.sectors) touch(sector);
  double& free = atomics_[a.sectors.front()];
  free = std::max(free, begun + m_.atomic / 2) + m_.atomic_every;
  return static_cast<cycle>(free + m_.atomic / 2);
}

// Nobody waits for a store; it takes its share of the rates.
void memory_system::write(memory_port& port, const access_record& a, cycle begun) {
  const auto fresh = static_cast<uint32_t>(
      std::count_if(a.sectors.begin(), a.sectors.end(), [&](uint64_t sector) { return touch(sector); }));
  leave(port, begun, a.sectors.size());
  l2_.pass(begun, sector_bytes * static_cast<uint32_t>(a.sectors.size()));
  if (fresh != 0) dram_.pass(begun + static_cast<cycle>(m_.l2 / 2), sector_bytes * fresh);
}

cycle memory_system::load(memory_port& port, const access_record& a, const operation& o, cycle begun) {
  if (!o.keeps_l1) return read(port, a.sectors, begun);
  missing_.clear();
  for (const uint64_t sector : a.sectors)
    if (!port.l1.hits(sector)) missing_.push_back(sector);
  return missing_.empty() ? begun + static_cast<cycle>(m_.l1) : read(port, missing_, begun);
}

cycle memory_system::bulk_copy(memory_port& port, uint64_t from, uint32_t bytes, cycle now) {
  missing_.clear();
  for (uint64_t sector = from / sector_bytes; sector * sector_bytes < from + bytes; ++sector)
    missing_.push_back(sector);
  return read(port, missing_, now) + static_cast<cycle>(m_.bulk);
}

cycle memory_system::read(memory_port& port, std::span<const uint64_t> sectors, cycle at) {
  uint32_t fresh = 0;
  for (const uint64_t sector : sectors) fresh += touch(sector);
  const cycle passed = l2_.pass(leave(port, at, sectors.size()), sector_bytes * static_cast<uint32_t>(sectors.size()));
  const cycle from_l2 = passed + static_cast<cycle>(m_.l2);
  if (fresh == 0) return from_l2;
  return std::max(from_l2, dram_.pass(passed, sector_bytes * fresh) + static_cast<cycle>(m_.dram));
}

// Is the sector touched for the first time? L2 begins cold and keeps all that a launch touches.
bool memory_system::touch(uint64_t sector) {
  const uint64_t page = sector >> 12;
  if (page != last_page_) {
    auto& found = pages_[page];
    if (found == nullptr) found = std::make_unique<std::array<uint64_t, 64>>();
    last_page_ = page;
    last_ = found.get();
  }
  uint64_t& bits = (*last_)[sector >> 6 & 63];
  const uint64_t bit = uint64_t{1} << (sector & 63);
  const bool fresh = (bits & bit) == 0;
  bits |= bit;
  return fresh;
}

cycle memory_system::leave(memory_port& port, cycle at, std::size_t sectors) const {
  port.out = std::max(port.out, static_cast<double>(at)) + static_cast<double>(sector_bytes * sectors) / m_.port_bytes;
  return static_cast<cycle>(port.out);
}

}  // namespace ptx::time
