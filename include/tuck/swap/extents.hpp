// Which parts of a range of bytes are free. Extents are handed out and given back in any order and joined with their
// neighbours; all of it is bookkeeping, the bytes themselves may be anywhere.
#pragma once

#include <tuck/core/config.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace tuck::inline TUCK_ABI {

struct extent {
  uint64_t begin = 0;
  uint64_t size = 0;

  constexpr uint64_t end() const noexcept { return begin + size; }
  friend constexpr bool operator==(const extent&, const extent&) = default;
};

// A piece that is given back may need a few words of host memory, and whoever gives back cannot do without: these are
// set aside beforehand, when it is taken.
class free_extents {
 public:
  // All of [0, size) is free.
  explicit free_extents(uint64_t size) {
    if (size != 0) by_begin_[0] = size;
  }

  // `size` > 0 bytes from the smallest extent that has them, of several the first. False: none has. Throws
  // std::bad_alloc, and then has taken nothing.
  bool take(uint64_t size, extent& taken) {
    auto best = by_begin_.end();
    for (auto at = by_begin_.begin(); at != by_begin_.end(); ++at)
      if (at->second >= size && (best == by_begin_.end() || at->second < best->second)) best = at;
    if (best == by_begin_.end()) return false;
    expect();
    taken = {best->first, size};
    auto rest = by_begin_.extract(best);
    rest.key() += size;
    rest.mapped() -= size;
    if (rest.mapped() != 0) by_begin_.insert(std::move(rest));
    return true;
  }

  // All of the largest extent. False: it has fewer than `least` bytes. Throws as take does.
  bool take_largest(uint64_t least, extent& taken) {
    const auto largest = find_largest();
    if (largest == by_begin_.end() || largest->second < least) return false;
    expect();
    taken = {largest->first, largest->second};
    by_begin_.erase(largest);
    return true;
  }

  // What has been taken will come back in one more piece. Throws std::bad_alloc.
  void expect() {
    std::map<uint64_t, uint64_t> one{{0, 0}};
    spare_.push_back(one.extract(one.begin()));
  }
  // One piece that was expected will not come.
  void forget() noexcept { spare_.pop_back(); }

  // A piece that was taken or expected.
  void give_back(extent e) noexcept {
    auto node = std::move(spare_.back());
    spare_.pop_back();
    if (e.size == 0) return;
    const auto after = by_begin_.upper_bound(e.begin);
    if (after != by_begin_.end() && after->first == e.end()) {
      e.size += after->second;
      by_begin_.erase(after);
    }
    const auto next = by_begin_.upper_bound(e.begin);
    if (next != by_begin_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == e.begin) {
        before->second += e.size;
        return;
      }
    }
    node.key() = e.begin;
    node.mapped() = e.size;
    by_begin_.insert(std::move(node));
  }

  uint64_t largest() const noexcept {
    const auto found = find_largest();
    return found == by_begin_.end() ? 0 : found->second;
  }

 private:
  std::map<uint64_t, uint64_t>::const_iterator find_largest() const noexcept {
    return std::max_element(by_begin_.begin(), by_begin_.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; });
  }

  std::map<uint64_t, uint64_t> by_begin_;                       // begin -> size
  std::vector<std::map<uint64_t, uint64_t>::node_type> spare_;  // as many as there are pieces to come
};

}  // namespace tuck::inline TUCK_ABI
