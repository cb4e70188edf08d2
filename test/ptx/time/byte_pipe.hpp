// A stream of bytes with a rate that many share, as DRAM's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ptx::time {

using cycle = uint32_t;

// Requests may come in any order of their times: time is divided into buckets, and a request takes what is left of the
// first ones from its time on. next_ leads from full buckets to the next that may have room, as in a union-find.
class byte_pipe {
 public:
  explicit byte_pipe(double bytes_a_clock)
      : capacity_(std::max(1u, static_cast<uint32_t>(bytes_a_clock * bucket_clocks))) {}

  // When the last of these bytes has passed.
  cycle pass(cycle at, uint32_t bytes) {
    for (std::size_t b = with_room(at / bucket_clocks);; b = with_room(b)) {
      const uint32_t fits = std::min(bytes, capacity_ - used_[b]);
      used_[b] += fits;
      bytes -= fits;
      if (used_[b] == capacity_) next_[b] = static_cast<uint32_t>(b + 1);
      const uint64_t offset = uint64_t{used_[b]} * bucket_clocks / capacity_;
      if (bytes == 0) return std::max(at, static_cast<cycle>(b * bucket_clocks + offset));
    }
  }

 private:
  static constexpr uint32_t bucket_clocks = 32;

  std::size_t with_room(std::size_t b) {
    grow(b);
    std::size_t root = b;
    while (next_[root] != root) grow(root = next_[root]);
    while (b != root) {
      const std::size_t after = next_[b];
      next_[b] = static_cast<uint32_t>(root);
      b = after;
    }
    return root;
  }
  void grow(std::size_t b) {
    while (next_.size() <= b) {
      next_.push_back(static_cast<uint32_t>(next_.size()));
      used_.push_back(0);
    }
  }

  uint32_t capacity_;
  std::vector<uint32_t> next_, used_;
};

}  // namespace ptx::time
