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
  epoch_ = 1;
}

void shared_memory::remember_read(cell& c, uint32_t thread, const warp_clock& clock) const {
  const uint32_t warp = thread / 32, lane = thread % 32;
  if (c.read_epoch != epoch_) c.reading_warps = c.reading_lanes = 0;
  if (c.reader / 32 != warp) c.reading_lanes = 0;
  for (uint32_t left = c.reading_lanes; left != 0; left &= left - 1) {
    const auto l = static_cast<uint32_t>(std::countr_zero(left));
    if (clock.ordered(lane, l, c.read_time)) c.reading_lanes &= ~(1u << l);
  }
  c.read_epoch = epoch_;
  c.reading_warps |= 1u << warp;
  c.reading_lanes |= 1u << lane;
  c.reader = static_cast<uint16_t>(thread);
  c.read_time = clock.now();
}

const char* shared_memory::touch(access kind, uint32_t address, uint32_t bytes, uint32_t thread,
                                 const warp_clock& clock, const std::byte* value, uint32_t used, bool may_be_unwritten,
                                 uint32_t& other) {
  const uint32_t warp = thread / 32, lane = thread % 32;
  // Did that thread's access, at that time, come before this one?
  const auto ordered = [&](uint32_t t, uint32_t time) {
    return t == thread || (t / 32 == warp && clock.ordered(lane, t % 32, time));
  };
  for (uint32_t k = 0; k < bytes; ++k) {
    cell& c = cells_[address + k];
    const bool reads = kind == access::read || kind == access::relaxed_read;
    if (reads && (used >> k & 1) == 0) continue;
    if (value == nullptr && !c.written && !may_be_unwritten) return "uninitialised";
    other = c.writer;
    const bool wrote = c.write_epoch == epoch_ && !ordered(c.writer, c.write_time);
    const bool atomic_both = c.atomic && (kind == access::relaxed_read || kind == access::atomic);
    if (wrote && !atomic_both && reads) return "race";
    if (reads) {
      remember_read(c, thread, clock);
      continue;
    }
    // One instruction may write a byte by several lanes, if all write the same.
    const bool together = kind == access::write && c.writer / 32 == warp && c.write_time == clock.now() &&
                          value[k] == bytes_[address + k];
    if (wrote && !together && !atomic_both) return "race";
    if (c.read_epoch == epoch_) {
      other = c.reader;
      if ((c.reading_warps & ~(1u << warp)) != 0) return "race";
      for (uint32_t left = c.reading_lanes; left != 0; left &= left - 1) {
        other = warp * 32 + static_cast<uint32_t>(std::countr_zero(left));
        if (!ordered(other, c.read_time)) return "race";
      }
    }
    c.write_epoch = epoch_;
    c.write_time = clock.now();
    c.writer = static_cast<uint16_t>(thread);
    c.written = true;
    c.atomic = kind == access::atomic;
  }
  return nullptr;
}

}  // namespace ptx
