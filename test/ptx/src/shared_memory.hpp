// A block's shared memory, and who touched each byte of it since the last barrier.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ptx {

// When lanes of a warp last synchronised with each other: bar.warp.sync orders memory, nothing else within a warp does.
// The same for warps of a block, of which there are no more than 32, and its barriers.
class warp_clock {
 public:
  uint32_t now() const { return now_; }
  void tick() { ++now_; }
  void synchronise(uint32_t lanes, bool all_alive);
  // Does `lane` know by now what `other` did at `time`, maybe by way of others?
  bool ordered(uint32_t lane, uint32_t other, uint32_t time) const {
    return all_know(time) || (known_ && (*known_)[lane][other] > time);
  }
  bool all_know(uint32_t time) const { return all_ > time; }
  bool some_know() const { return known_ != nullptr; }  // have only some of them ever met?

 private:
  using table = std::array<std::array<uint32_t, 32>, 32>;
  uint32_t now_ = 1, all_ = 0;
  std::unique_ptr<table> known_;  // until when a lane knows of another; only where a part of the warp synchronised
};

// Relaxed reads and atomic accesses do not race with each other.
enum class access : uint8_t { read, relaxed_read, write, atomic };

// What is wrong with an access: nothing, or a text.
class shared_memory {
 public:
  void begin(std::size_t bytes, uint8_t poison, bool check);
  std::byte* data() { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  void barrier(uint32_t warps, bool all) { barriers_.synchronise(warps, all); }

  // Before the access takes place. `value`: what is to be written; null for reads and
  // atomic operations. Null, or the kind of the fault ("race",
  // "uninitialised"), and then `other` is the thread it collides with.
  const char* touch(access kind, uint32_t address, uint32_t bytes, uint32_t thread, const warp_clock& clock,
                    const std::byte* value, uint32_t used, bool may_be_unwritten, uint32_t& other);
  bool checked() const { return !cells_.empty(); }

 private:
  // Who did something to a byte. Epochs are of the block's barriers, times of a warp's own.
  struct threads {
    uint32_t epoch = 0, time = 0;   // no lane's time is before this
    uint32_t warps = 0, lanes = 0;  // lanes: of the last of these warps
    uint16_t last = 0;
  };
  struct cell {  // of a byte; its writer is the last that did not write atomically
    uint32_t write_epoch = 0, write_time = 0;
    threads readers;
    uint16_t writer = 0;
    bool written = false;
  };
  struct relaxed_cell {
    threads readers, writers;
  };

  void remember(threads& all, uint32_t thread, const warp_clock& clock) const;
  // Did one of them act and that thread not know of it? Then `other` is one.
  bool unordered(const threads& all, uint32_t thread, const warp_clock& clock, uint32_t& other) const;

  std::vector<std::byte> bytes_;
  std::vector<cell> cells_;
  std::vector<relaxed_cell> relaxed_;  // of as many bytes, once there was an access of that kind
  warp_clock barriers_;
};

}  // namespace ptx
