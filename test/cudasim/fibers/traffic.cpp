#include "traffic.hpp"

#include "../host/quiet_mutex.hpp"
#include "../host/sanitizers.hpp"
#include "../host/state.hpp"

#include <algorithm>
#include <map>

namespace cudasim::detail {

std::atomic<bool> traffic_enabled{false};

void warp_traffic::add(unsigned lane, const void* address, std::size_t bytes, bool write, site where) {
  line& l = lines_[{where.file, where.line, write}];
  const std::uint32_t visit = l.visits[lane]++;
  if (visit >= l.requests.size()) l.requests.resize(visit + 1);
  request& r = l.requests[visit];
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  if (r.bytes == 0) r.address = first;
  r.bytes += bytes;
  for (std::uintptr_t sector = first / 32; sector <= (first + bytes - 1) / 32; ++sector)
    if (r.sectors.empty() || r.sectors.back() != sector) r.sectors.push_back(sector);
}

void warp_traffic::converge() {
  for (auto& [where, l] : lines_) l.visits.fill(static_cast<std::uint32_t>(l.requests.size()));
}

void warp_traffic::flush(const tensor_ranges& tensors) {
  if (lines_.empty()) return;
  counters sum;
  for (auto& [where, l] : lines_) {
    for (request& r : l.requests) {
      std::sort(r.sectors.begin(), r.sectors.end());
      const auto sectors =
          static_cast<std::uint64_t>(std::unique(r.sectors.begin(), r.sectors.end()) - r.sectors.begin());
      const bool tensor = tensors.contains(r.address);
      using field = std::uint64_t counters::*;
      const field bytes = where.write ? (tensor ? &counters::tensor_bytes_written : &counters::other_bytes_written)
                                      : (tensor ? &counters::tensor_bytes_read : &counters::other_bytes_read);
      const field lines = where.write ? (tensor ? &counters::tensor_sectors_written : &counters::other_sectors_written)
                                      : (tensor ? &counters::tensor_sectors_read : &counters::other_sectors_read);
      sum.*bytes += r.bytes;
      sum.*lines += sectors;
    }
  }
  lines_.clear();
  add_counts(sum);
}

}  // namespace cudasim::detail
