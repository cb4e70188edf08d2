// Pinned host memory for what is swapped out, reserved once and bounded.
//
// Where the size is known, `take` hands out an extent of it. Where it is not - an encode kernel that writes its frame
// here says only later how long it became - frames go one behind the other into a *run*: the largest free extent, whose
// fill level the device keeps (`append` in frame/device.cuh). The host promises the worst case of each, so that none
// can find the run full; once the device has reported, `settle` makes that the bytes there are. So frames lie compactly
// although nobody waited to learn their sizes, and the source of an encode may be given up before it has run.
#pragma once

#include <tuck/frame/device.cuh>
#include <tuck/memory/resource.cuh>
#include <tuck/swap/extents.hpp>

#include <memory>
#include <utility>

namespace tuck::inline TUCK_ABI {

struct pool_statistics {
  uint64_t capacity = 0;  // bytes reserved
  uint64_t held = 0;      // by what is parked, whole units
  uint64_t peak = 0;      // the most that `held` has been
  uint64_t reserved = 0;  // to frames under way, worst case
  uint64_t wasted = 0;    // free, but not in the largest piece: nothing larger than its own piece can use it
};

// Not synchronised: one thread at a time.
class pinned_pool {
 public:
  // Begins and sizes in the pool are multiples of this many bytes.
  static constexpr uint64_t unit = append_alignment;

  // Reserves at least `size` bytes, portable and mapped. Throws where there is no memory.
  explicit pinned_pool(uint64_t size) : capacity_(round_up(size)), free_(capacity_) {
    if (capacity_ == 0) return;
    memory_ = detail::allocate_host(capacity_);
    mapped_ = detail::device_address(memory_);
  }

  // Where an extent's bytes are, for the host and for kernels.
  bytes host(extent e) const noexcept { return {memory_.get() + e.begin, e.size}; }
  bytes device(extent e) const noexcept { return {mapped_ + e.begin, e.size}; }

  static constexpr uint64_t round_up(uint64_t size) noexcept {
    return size > ~uint64_t{0} - unit ? ~uint64_t{0} / unit * unit : (size + unit - 1) / unit * unit;
  }

  // Room for `size` bytes, rounded up to units. False: there is none. Throws std::bad_alloc where the host has no
  // memory for the books, and then has taken nothing.
  bool take(uint64_t size, extent& taken) {
    size = round_up(size);
    if (size == 0) {
      taken = {};
      return true;
    }
    if (!free_.take(size, taken) && !take_from_run(size, taken)) return false;
    hold(size);
    return true;
  }
  // What was taken or settled.
  void give_back(extent e) noexcept {
    if (e.size == 0) return;
    held_ -= e.size;
    free_.give_back(e);
    if (held_ == 0 && reserved_ == 0 && open_ != nullptr) close();
  }
  // Leaves of it the first `size` bytes, rounded up to units. Throws as take does.
  void shrink(extent& e, uint64_t size) {
    const uint64_t kept = round_up(size);
    if (kept == e.size) return;
    free_.expect();
    free_.give_back({e.begin + kept, e.size - kept});
    held_ -= e.size - kept;
    e.size = kept;
  }

  struct run {
    extent range;
    uint64_t known = 0;     // bytes that are taken, as far as reported
    uint64_t reserved = 0;  // to frames that have not reported
    unsigned under_way = 0;
    bool fresh = true;  // no frame has been promised a place yet
    bool closed = false;

    uint64_t left() const noexcept { return range.size - known - reserved; }
  };
  // To a frame of at most so many bytes.
  struct reservation {
    std::shared_ptr<run> in;
    uint64_t most = 0;
    bool fresh = false;  // the first of its run: the device's fill level is to be made zero before it
  };

  // A place for a frame of at most `most` bytes, in `made.in->room`. False: there is none. Throws as take does.
  bool reserve(uint64_t most, reservation& made) {
    most = round_up(most);
    if (open_ == nullptr || open_->left() < most) {
      if (open_ != nullptr && open_->under_way == 0) close();
      auto next = std::make_shared<run>();
      if (!free_.take_largest(most, next->range)) return false;
      if (open_ != nullptr) close();
      open_ = std::move(next);
    }
    free_.expect();  // the frame; should that throw, the run is open, idle and fresh
    open_->reserved += most;
    reserved_ += most;
    ++open_->under_way;
    made = {open_, most, std::exchange(open_->fresh, false)};
    return true;
  }
  // The frame of a promise, the oldest of its run, went to `offset` of the run's room and has `size` bytes; 0: there is
  // none.
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
    if (r.closed && r.under_way == 0) give_back_rest(r);
    hold(size);
    p = {};
    return size == 0 ? extent{} : placed;
  }
  // A promise whose frame nobody will report, and no kernel will write any more. Where one may have written it, the
  // device's fill level is not known, and there are no more frames for that run.
  void withdraw(reservation& p, bool written) noexcept {
    if ((written || p.fresh) && open_ == p.in) close();
    settle(p, 0, 0);
  }

  pool_statistics statistics() const {
    const uint64_t tail = open_ == nullptr ? 0 : open_->left();
    const uint64_t free = capacity_ - held_ - reserved_;
    return {capacity_, held_, peak_, reserved_, free - std::max(free_.largest(), tail)};
  }

 private:
  // What is left of the open run; while frames are under way there, its far end, which they cannot reach.
  bool take_from_run(uint64_t size, extent& taken) {
    if (open_ == nullptr) return false;
    if (open_->under_way == 0) {
      close();
      return free_.take(size, taken);
    }
    if (open_->left() < size) return false;
    free_.expect();
    open_->range.size -= size;
    taken = {open_->range.end(), size};
    return true;
  }
  void hold(uint64_t size) noexcept {
    held_ += size;
    peak_ = std::max(peak_, held_);
  }
  void close() noexcept {
    open_->closed = true;
    if (open_->under_way == 0) give_back_rest(*open_);
    open_ = nullptr;
  }
  void give_back_rest(run& r) noexcept { free_.give_back({r.range.begin + r.known, r.range.size - r.known}); }

  uint64_t capacity_;
  free_extents free_;
  detail::host_memory memory_;
  std::byte* mapped_ = nullptr;
  std::shared_ptr<run> open_;
  uint64_t held_ = 0, peak_ = 0, reserved_ = 0;
};

}  // namespace tuck::inline TUCK_ABI
