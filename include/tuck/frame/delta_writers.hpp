// SPDX-License-Identifier: Apache-2.0
// Which items of a batch of deltas write: memory that several items name is written once, and memory of other items
// must not be written.
#pragma once

#include <tuck/frame/reader.hpp>

#include <algorithm>
#include <memory>
#include <new>

namespace tuck::inline TUCK_ABI {

/// The memory of an item of a batch of deltas, on the host or on a device.
struct delta_memory {
  const_bytes frame;  ///< the delta
  const_bytes base;   ///< its base
  bytes values;       ///< the output; may be the base
};

/// Returns whether two frames are the same memory, or valid deltas with the same base, result, type and chunk size. The
/// frames are in host memory.
inline bool same_delta(const_bytes a, const_bytes b) noexcept {
  if (a.data() == b.data() && a.size() == b.size()) return true;
  if (a.is_null() || b.is_null()) return false;
  frame_view first, second;
  if (frame_view::open(a, first) != status::ok || frame_view::open(b, second) != status::ok) return false;
  const frame_header &x = first.header(), &y = second.header();
  return first.is_delta() && second.is_delta() && x.type == y.type && x.value_count == y.value_count &&
         x.chunk_values == y.chunk_values && x.base_digest == y.base_digest &&
         first.result_digest() == second.result_digest();
}

/// Returns whether both frames are valid, and not the same delta.
inline bool are_other_deltas(const_bytes a, const_bytes b) noexcept {
  frame_view unused;
  const auto opens = [&](const_bytes x) { return !x.is_null() && frame_view::open(x, unused) == status::ok; };
  return !same_delta(a, b) && opens(a) && opens(b);
}

/// Finds for each item of a batch of deltas the item that writes its values: itself, or the first item with the same
/// values. Only compares addresses, so it is also for items of a device. It does not know whether two deltas are the
/// same: same_delta compares frames on the host.
class delta_writers {
 public:
  /// @param memory_of  memory_of(i) returns the delta_memory of item i < count
  /// @return ok; overlapping: the values of an item overlap other memory than its base and the same values of another
  ///         item, and `which` is that item; out_of_memory. O(count log count); the memory for it is freed later
  template <class MemoryOf> status find(uint64_t count, const MemoryOf& memory_of) noexcept {
    which = 0;
    const std::unique_ptr<range[]> ranges(new (std::nothrow) range[3 * count]);
    writers_.reset(new (std::nothrow) uint64_t[count]);
    if (ranges == nullptr || writers_ == nullptr) return status::out_of_memory;
    range* end = ranges.get();
    const auto add = [&](const_bytes b, uint64_t item, bool is_written) {
      const auto begin = reinterpret_cast<uintptr_t>(b.data());
      if (!b.is_null() && !b.empty()) *end++ = {begin, begin + b.size(), item, is_written};
    };
    for (uint64_t i = 0; i < count; ++i) {
      writers_[i] = i;
      const delta_memory memory = memory_of(i);
      add(memory.values, i, true);
      add(memory.frame, i, false);
      if (memory.base.data() != memory.values.data()) add(memory.base, i, false);
    }
    return compare(ranges.get(), end);
  }
  uint64_t operator[](uint64_t i) const noexcept { return writers_[i]; }  ///< the writer of the values of item i

  uint64_t which = 0;  ///< the item of the last error

 private:
  struct range {
    uintptr_t begin, end;
    uint64_t item;
    bool is_written;
  };

  status compare(range* first, range* last) noexcept {
    std::sort(first, last,
              [](const range& a, const range& b) { return a.begin != b.begin ? a.begin < b.begin : a.item < b.item; });
    uintptr_t read_end = 0;  // of the frames and bases so far, which may overlap each other
    range written{};         // the one before
    for (const range* r = first; r != last; ++r) {
      which = r->item;
      const bool is_same = r->is_written && r->begin == written.begin && r->end == written.end;
      if (r->begin < written.end && !is_same) return status::overlapping;
      if (r->is_written && r->begin < read_end) return status::overlapping;
      if (!r->is_written)
        read_end = (std::max)(read_end, r->end);
      else if (is_same)
        writers_[r->item] = written.item;
      else
        written = *r;
    }
    return status::ok;
  }

  std::unique_ptr<uint64_t[]> writers_;
};

}  // namespace tuck::inline TUCK_ABI
