// Counting the global memory traffic of device::load and store in 32-byte sectors, as a GPU does: the
// lanes of a warp that execute a source line for the n-th time since they were last together are one request.
#pragma once

#include "../host/kernels.hpp"
#include "../sim/runtime.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

namespace cudasim::detail {

class warp_traffic {
 public:
  void add(unsigned lane, const void* address, std::size_t bytes, bool write, site where);
  void converge();                           // the lanes are together: later accesses are later requests
  void flush(const tensor_ranges& tensors);  // at the end of the block: into the counters

 private:
  struct request {
    std::vector<std::uintptr_t> sectors;
    std::uintptr_t address = 0;  // of its first access, which says whose it is
    std::uint64_t bytes = 0;
  };
  struct line {
    std::array<std::uint32_t, 32> visits{};  // of each lane
    std::deque<request> requests;            // by visit number
  };
  struct key {
    const char* file;
    int line;
    bool write;
    bool operator==(const key&) const = default;
  };
  struct hash {
    std::size_t operator()(const key& k) const {
      return reinterpret_cast<std::size_t>(k.file) * 31 + static_cast<std::size_t>(k.line) * 2 + k.write;
    }
  };
  std::unordered_map<key, line, hash> lines_;
};

}  // namespace cudasim::detail
