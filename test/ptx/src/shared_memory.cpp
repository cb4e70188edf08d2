#include "shared_memory.hpp"

#include <algorithm>
#include <cstring>

namespace ptx {

void warp_clock::synchronise(uint32_t lanes, bool all_alive) {
  ++now_;
  if (all_alive) {
    all_ = now_;
    return;
  }
  if (!pairs_) pairs_ = std::make_unique<pairs>();
  for (uint32_t a = 0; a < 32; ++a)
    for (uint32_t b = 0; b < 32; ++b)
      if ((lanes >> a & lanes >> b & 1) != 0) (*pairs_)[a][b] = now_;
}

void shared_memory::begin(std::size_t bytes, uint8_t poison, bool check) {
  bytes_.assign(bytes, std::byte{poison});
  cells_.assign(check ? bytes : 0, {});
  epoch_ = 1;
}

const char* shared_memory::touch(access kind, uint32_t address, uint32_t bytes, uint32_t thread,
                                 const warp_clock& clock, const std::byte* value, uint32_t used, uint32_t& other) {
  const uint32_t warp = thread / 32, lane = thread % 32;
  // Did that thread's access, at that time, come before this one?
  const auto ordered = [&](uint32_t t, uint32_t time) {
    return t == thread || (t / 32 == warp && clock.ordered(lane, t % 32, time));
  };
  for (uint32_t k = 0; k < bytes; ++k) {
    cell& c = cells_[address + k];
    if (kind == access::read && (used >> k & 1) == 0) continue;
    if (kind != access::write && !c.written) return "uninitialised";
    other = c.writer;
    const bool wrote = c.write_epoch == epoch_ && !ordered(c.writer, c.write_time);
    if (kind == access::read) {
      if (wrote) return "race";
      if (c.read_epoch != epoch_) c.reading_warps = 0;
      c.read_epoch = epoch_;
      c.reading_warps |= 1u << warp;
      c.reader = static_cast<uint16_t>(thread);
      c.read_time = clock.now();
      continue;
    }
    // One instruction may write a byte by several lanes, if all write the same.
    const bool together = kind == access::write && c.writer / 32 == warp && c.write_time == clock.now() &&
                          value[k] == bytes_[address + k];
    if (wrote && !together && !(kind == access::atomic && c.atomic)) return "race";
    if (c.read_epoch == epoch_) {
      other = c.reader;
      if ((c.reading_warps & ~(1u << warp)) != 0 || !ordered(c.reader, c.read_time)) return "race";
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
