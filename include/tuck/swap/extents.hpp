// SPDX-License-Identifier: Apache-2.0
// Bookkeeping of free extents in a range of bytes. Extents are allocated and freed in any order; adjacent free extents
// are merged. The bytes themselves are never accessed.
#pragma once

#include <tuck/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

/// A best-fit allocator of extents. Not thread-safe. Complexity: each call is linear in the number of free extents.
/// `deallocate` must not fail, so `allocate` reserves the memory that it may need.
class free_extents {
 public:
  /// Starts with [0, size) free.
  explicit free_extents(uint64_t size) {
    if (size != 0) free_.push_back({0, size});
  }

  /// Allocates the first `size` > 0 bytes of the smallest free extent that is large enough: of equal extents, of the
  /// first.
  /// @return false if there is no such extent. Throws std::bad_alloc without effect.
  bool allocate(uint64_t size, extent& allocated) {
    size_t best = free_.size();
    for (size_t i = 0; i < free_.size(); ++i)
      if (free_[i].size >= size && (best == free_.size() || free_[i].size < free_[best].size)) best = i;
    if (best == free_.size()) return false;
    carve(best, size, allocated);
    return true;
  }

  /// Allocates the whole largest free extent: of equal extents, the first.
  /// @return false if it has fewer than `least` bytes. Throws std::bad_alloc without effect.
  bool allocate_largest(uint64_t least, extent& allocated) {
    const auto found = find_largest();
    if (found == free_.end() || found->size < least) return false;
    carve(static_cast<size_t>(found - free_.begin()), found->size, allocated);
    return true;
  }

  /// Prepares for another call of deallocate. Needed if an extent will be freed in parts. Throws std::bad_alloc without
  /// effect.
  void expect() {
    const size_t most = free_.size() + expected_ + 1;
    if (most > free_.capacity()) free_.reserve(2 * most);
    ++expected_;
  }
  /// Cancels one expected call of deallocate.
  void forget() noexcept { --expected_; }

  /// Frees an allocated extent, or, after expect, a part of it. With an empty extent it only counts as an expected
  /// call.
  void deallocate(extent e) noexcept {
    --expected_;
    if (e.size == 0) return;
    auto at = std::upper_bound(free_.begin(), free_.end(), e, [](extent a, extent b) { return a.begin < b.begin; });
    at = free_.insert(at, e);
    join(at, at + 1);
    if (at != free_.begin()) join(at - 1, at);
  }

  /// Returns the size of the largest free extent.
  uint64_t largest() const noexcept { return free_.empty() ? 0 : find_largest()->size; }

 private:
  std::vector<extent>::const_iterator find_largest() const noexcept {
    return std::max_element(free_.begin(), free_.end(), [](extent a, extent b) { return a.size < b.size; });
  }
  void carve(size_t i, uint64_t size, extent& allocated) {
    expect();
    allocated = {free_[i].begin, size};
    free_[i] = {free_[i].begin + size, free_[i].size - size};
    if (free_[i].size == 0) free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  // Makes one extent of two if nothing lies between them.
  void join(std::vector<extent>::iterator a, std::vector<extent>::iterator b) noexcept {
    if (b == free_.end() || a->end() != b->begin) return;
    a->size += b->size;
    free_.erase(b);
  }

  std::vector<extent> free_;  // in their order, with capacity for the expected ones
  size_t expected_ = 0;       // calls of deallocate that may come
};

}  // namespace tuck::inline TUCK_ABI
