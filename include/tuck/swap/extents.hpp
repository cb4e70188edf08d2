// Bookkeeping of free extents in a range of bytes. Extents are taken and given back in any order; adjacent free extents
// are merged. The bytes themselves are never accessed.
#pragma once

#include <tuck/core/config.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace tuck::inline TUCK_ABI {

/// A contiguous part of the range.
struct extent {
  uint64_t begin = 0;  ///< offset of the first byte
  uint64_t size = 0;   ///< bytes

  constexpr uint64_t end() const noexcept { return begin + size; }  ///< offset after the last byte
  /// Compares begin and size.
  friend constexpr bool operator==(const extent&, const extent&) = default;
};

/// A best-fit allocator of extents. Not thread-safe. Complexity in the number of free extents: `take` is linear,
/// give_back logarithmic.
/// give_back may need a node of the map but must not fail. So each `take` allocates the node for its give_back.
class free_extents {
 public:
  /// Starts with [0, size) free.
  explicit free_extents(uint64_t size) {
    if (size != 0) by_begin_[0] = size;
  }

  /// Takes the first `size` > 0 bytes of the smallest free extent that is large enough. Among equal extents it takes
  /// the first.
  /// @return false if there is no such extent. Throws std::bad_alloc without effect.
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

  /// Takes the whole largest free extent. Among equal extents it takes the first.
  /// @return false if it has fewer than `least` bytes. Throws std::bad_alloc without effect.
  bool take_largest(uint64_t least, extent& taken) {
    const auto largest = find_largest();
    if (largest == by_begin_.end() || largest->second < least) return false;
    expect();
    taken = {largest->first, largest->second};
    by_begin_.erase(largest);
    return true;
  }

  /// Prepares for another give_back. Needed if a taken extent will be given back in parts. Throws std::bad_alloc
  /// without effect.
  void expect() {
    std::map<uint64_t, uint64_t> one{{0, 0}};
    spare_.push_back(one.extract(one.begin()));
  }
  /// Cancels one expected give_back.
  void forget() noexcept { spare_.pop_back(); }

  /// Frees an extent that was taken, or, after expect, a part of it. For an empty extent only one expected give_back is
  /// used up.
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

  /// Returns the size of the largest free extent.
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
  std::vector<std::map<uint64_t, uint64_t>::node_type> spare_;  // one per expected give_back
};

}  // namespace tuck::inline TUCK_ABI
