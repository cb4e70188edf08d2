// A block's shared memory, and who touched each byte of it since the last barrier.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ptx {

// When lanes of a warp last synchronised with each other: bar.warp.sync orders memory, nothing else within a warp does.
class warp_clock {
 public:
  uint32_t now() const { return now_; }
  void tick() { ++now_; }
  void synchronise(uint32_t lanes, bool all_alive);
  // Has there been a synchronisation of these two lanes after `time`?
  bool ordered(uint32_t lane, uint32_t other, uint32_t time) const {
    return all_ > time || (pairs_ && (*pairs_)[lane][other] > time);
  }

 private:
  using pairs = std::array<std::array<uint32_t, 32>, 32>;
  uint32_t now_ = 1, all_ = 0;
  std::unique_ptr<pairs> pairs_;  // only where a part of the warp synchronised
};

enum class access : uint8_t { read, write, atomic };

// What is wrong with an access: nothing, or a text.
class shared_memory {
 public:
  void begin(std::size_t bytes, uint8_t poison, bool check);
  std::byte* data() { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  void barrier() { ++epoch_; }

  // Before the access takes place. `value`: what is to be written. Null, or the kind of the fault ("race",
  // "uninitialised"), and then `other` is the thread it collides with.
  const char* touch(access kind, uint32_t address, uint32_t bytes, uint32_t thread, const warp_clock& clock,
                    const std::byte* value, uint32_t used, uint32_t& other);
  bool checked() const { return !cells_.empty(); }

 private:
  struct cell {  // of a byte
    uint32_t write_epoch = 0, write_time = 0, read_epoch = 0, read_time = 0;
    uint32_t reading_warps = 0;
    uint16_t writer = 0, reader = 0;
    bool written = false, atomic = false;
  };

  std::vector<std::byte> bytes_;
  std::vector<cell> cells_;
  uint32_t epoch_ = 1;
};

}  // namespace ptx
