// Where a lane's access goes, and what is checked on the way.
#pragma once

#include "handlers.hpp"
#include "launch_run.hpp"

namespace ptx {

// Of one lane.
struct target_place {
  space where;
  uint64_t address;  // in its space
  std::byte* data;   // null for global memory where it is weak
};

// Addresses of 32 bits wrap at 32.
inline uint64_t address_in(const warp& w, const instruction& i, int lane) {
  const std::byte* column = w.in(i.from_columns[0]);
  if (i.flag) return get<uint32_t>(column, lane) + static_cast<uint32_t>(i.offset);
  return get<uint64_t>(column, lane) + static_cast<uint64_t>(i.offset);
}

// Checks bounds, alignment, and with settings::check what has been written and by whom. `value`: what a store writes.
target_place find_place(warp& w, const instruction& i, int lane, uint64_t address, unsigned bytes, access kind,
                        const std::byte* value);

// The same for a range of any size and alignment: shared memory has these bytes; a copy may read these of global
// memory.
void check_shared_bounds(const warp& w, uint64_t address, uint64_t bytes, int lane);
void check_source(warp& w, const instruction& i, int lane, uint64_t address, unsigned bytes);
std::string describe(const warp& w, const async_copy& c);  // who started it, and where
// Ends the launch: what shared_memory says of an access to these bytes.
[[noreturn]] void fault_in_shared(const warp& w, const char* wrong, uint64_t address, uint32_t other, int lane);

// When the last of the copies comes that these lanes wait for, or whose mbarrier they poll while it lacks nothing else.
// 0 if they wait for none.
uint64_t copies_due(const warp& w, const instruction& i, uint32_t lanes);

// Sectors and wavefronts of a warp's access.
void count_traffic(warp& w, const instruction& i, uint32_t lanes, unsigned bytes, bool reads, bool writes);

}  // namespace ptx
