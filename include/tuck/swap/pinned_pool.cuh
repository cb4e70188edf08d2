// SPDX-License-Identifier: Apache-2.0
// A bounded pool of pinned host memory for offloaded tensors, allocated once.
//
// If a size is known, `allocate` returns an extent. The size of a frame is unknown while an encode kernel writes it.
// Such frames are appended to a *run*: the largest free extent, whose fill level is in device memory (`append` in
// frame/device.cuh). The host reserves the worst case of each frame, so that each frame fits into the run. When the
// device has reported the size of a frame, `settle` replaces the reservation by the size of the frame.
//
//   range of a run   | frames | reserved for frames in progress | left |
//                    0        known                  known + reserved  range.size
//
// So there are no gaps between frames, although the host never waits for their sizes. The source of an encode can be
// released in stream order before the encode has run.
#pragma once

#include <tuck/frame/device.cuh>
#include <tuck/memory/resource.hpp>
#include <tuck/swap/extents.hpp>
#include <tuck/swap/swap_options.hpp>

#include <memory>
#include <utility>

namespace tuck::inline TUCK_ABI {

/// A pool of pinned host memory. Not thread-safe. Complexity: each call is at most linear in the number of free
/// extents.
class pinned_pool {
 public:
  /// Alignment and granularity of all extents, in bytes.
  static constexpr uint64_t unit = append_alignment;

  /// Allocates at least `size` bytes, portable and mapped. Throws tuck::error if there is not enough memory.
  explicit pinned_pool(uint64_t size) : capacity_(round_up(size)), free_(capacity_) {
    if (capacity_ == 0) return;
    memory_ = detail::allocate_host(capacity_);
    mapped_ = detail::device_address(memory_.get());
  }

  uint64_t capacity() const noexcept { return capacity_; }                           ///< size of the pool in bytes
  bytes host(extent e) const noexcept { return {memory_.get() + e.begin, e.size}; }  ///< an extent's bytes on the host
  bytes device(extent e) const noexcept { return {mapped_ + e.begin, e.size}; }      ///< the same bytes for kernels

  /// Rounds up to a multiple of `unit`. Sizes that would overflow become the largest multiple.
  static constexpr uint64_t round_up(uint64_t size) noexcept {
    return size > ~uint64_t{0} - unit ? ~uint64_t{0} / unit * unit : (size + unit - 1) / unit * unit;
  }

  /// Allocates an extent of `size` bytes, rounded up to whole units. With 0 bytes the extent is empty.
  /// @return false if no free extent is large enough. Throws std::bad_alloc without effect.
  bool allocate(uint64_t size, extent& allocated) {
    size = round_up(size);
    if (size == 0) {
      allocated = {};
      return true;
    }
    if (!free_.allocate(size, allocated) && !allocate_from_run(size, allocated)) return false;
    hold(size);
    return true;
  }
  /// Returns an extent from allocate or settle to the pool.
  void deallocate(extent e) noexcept {
    if (e.size == 0) return;
    held_ -= e.size;
    free_.deallocate(e);
    if (held_ == 0 && reserved_ == 0 && open_ != nullptr) close();
  }
  /// Keeps only the first `size` bytes of an extent, rounded up to whole units. Throws std::bad_alloc without effect.
  void shrink(extent& e, uint64_t size) {
    const uint64_t needed = round_up(size);
    if (needed == e.size) return;
    free_.expect();
    free_.deallocate({e.begin + needed, e.size - needed});
    held_ -= e.size - needed;
    e.size = needed;
  }

  /// An extent to which the device appends frames.
  struct run {
    extent range;            ///< the extent; allocate may shorten it at its end
    uint64_t known = 0;      ///< bytes occupied by frames whose size is known
    uint64_t reserved = 0;   ///< worst-case bytes of frames in progress
    unsigned under_way = 0;  ///< number of frames in progress
    bool fresh = true;       ///< whether there has been no reservation yet
    bool closed = false;     ///< if true, no more reservations; the rest is freed when no frame is in progress

    /// Returns the bytes that are neither occupied nor reserved.
    uint64_t left() const noexcept { return range.size - known - reserved; }
  };
  /// Capacity that is reserved for a frame in progress.
  struct reservation {
    std::shared_ptr<run> in;  ///< the run of the frame; null: no reservation
    uint64_t most = 0;        ///< largest possible size of the frame in bytes
    bool fresh = false;  ///< the first of its run: the caller must set the fill level to 0 before the frame is written
  };

  /// Reserves capacity in `made.in->range` for a frame of at most `most` bytes. Starts another run if necessary.
  /// @return false if there is not enough capacity. Throws std::bad_alloc without a reservation.
  bool reserve(uint64_t most, reservation& made) {
    most = round_up(most);
    if (open_ == nullptr || open_->left() < most) {
      if (open_ != nullptr && open_->under_way == 0) close();
      auto next = std::make_shared<run>();
      if (!free_.allocate_largest(most, next->range)) return false;
      if (open_ != nullptr) close();
      open_ = std::move(next);
    }
    free_.expect();  // for the frame. If this throws, the run stays open without a reservation
    open_->reserved += most;
    reserved_ += most;
    ++open_->under_way;
    made = {open_, most, std::exchange(open_->fresh, false)};
    return true;
  }
  /// Replaces the oldest reservation of its run by the extent that the frame occupies.
  /// @param offset of the frame in the run's range, in bytes, as the device reported it
  /// @param size of the frame in bytes; 0: there is no frame
  /// @return the extent of the frame, to be deallocated later; empty if `size` is 0
  extent settle(reservation& p, uint64_t offset, uint64_t size) noexcept {
    run& r = *p.in;
    size = round_up(size);
    r.reserved -= p.most;
    reserved_ -= p.most;
    --r.under_way;
    if (size != 0)
      r.known = offset + size;
    else
      free_.forget();
    const extent placed{r.range.begin + offset, size};
    if (r.closed && r.under_way == 0) deallocate_rest(r);
    hold(size);
    p = {};
    return size == 0 ? extent{} : placed;
  }
  /// Cancels the reservation of a frame whose size will not be reported.
  /// @param written whether a kernel may have written the frame. The fill level in device memory is then unknown, and
  /// the run is closed. If the reservation is fresh, the fill level has not been set, and the run is closed too.
  void withdraw(reservation& p, bool written) noexcept {
    if ((written || p.fresh) && open_ == p.in) close();
    settle(p, 0, 0);
  }

  /// Returns the current usage.
  pool_statistics statistics() const {
    const uint64_t tail = open_ == nullptr ? 0 : open_->left();
    const uint64_t free = capacity_ - held_ - reserved_;
    return {capacity_, held_, peak_, reserved_, free - (std::max)(free_.largest(), tail)};
  }

 private:
  // Allocates in the open run. While frames are in progress, at the end of its range, which they cannot reach.
  bool allocate_from_run(uint64_t size, extent& allocated) {
    if (open_ == nullptr) return false;
    if (open_->under_way == 0) {
      close();
      return free_.allocate(size, allocated);
    }
    if (open_->left() < size) return false;
    free_.expect();
    open_->range.size -= size;
    allocated = {open_->range.end(), size};
    return true;
  }
  void hold(uint64_t size) noexcept {
    held_ += size;
    peak_ = (std::max)(peak_, held_);
  }
  void close() noexcept {
    open_->closed = true;
    if (open_->under_way == 0) deallocate_rest(*open_);
    open_ = nullptr;
  }
  void deallocate_rest(run& r) noexcept { free_.deallocate({r.range.begin + r.known, r.range.size - r.known}); }

  uint64_t capacity_;
  free_extents free_;
  detail::host_memory memory_;
  std::byte* mapped_ = nullptr;
  std::shared_ptr<run> open_;
  uint64_t held_ = 0, peak_ = 0, reserved_ = 0;
};

}  // namespace tuck::inline TUCK_ABI
