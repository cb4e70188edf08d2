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

// Relaxed reads and atomic accesses do not race with each other. mbarrier: an atomic access to an mbarrier object,
// which no other kind may touch.
enum class access : uint8_t { read, relaxed_read, write, atomic, mbarrier };

// What is wrong with an access: nothing, or a text.
class shared_memory {
 public:
  void begin(std::size_t bytes, uint8_t poison, bool check);
  std::byte* data() { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  void barrier(uint32_t warps, bool all) { barriers_.synchronise(warps, all); }

  // Before the access takes place. `value`: what is to be written; null for reads and
  // atomic operations. Null, or the kind of the fault ("race",
  // "uninitialised"), and then `other` is the thread it collides with; of a "pending copy", its number.
  const char* touch(access kind, uint32_t address, uint32_t bytes, uint32_t thread, const warp_clock& clock,
                    const std::byte* value, uint32_t used, bool may_be_unwritten, uint32_t& other);
  bool checked() const { return !cells_.empty(); }

  // An mbarrier object of 8 bytes begins there: touched as a write before.
  void set_mbarrier(uint32_t address);

  // Asynchronous copies, each with a number of its own while it lasts. Its bytes are nobody's from its start until a
  // thread has waited for its end: then they are written by this thread, or with `bulk` known to all that have seen
  // the end, or have met one that has.
  // Before it starts. Null, or a kind of fault as of touch(); "proxy": a write before has not been fenced.
  const char* start_copy(uint32_t address, uint32_t bytes, uint32_t thread, const warp_clock& clock, uint16_t copy,
                         bool bulk, uint32_t& other);
  void finish_copy(uint32_t address, uint32_t bytes, uint32_t thread, const warp_clock& clock, uint16_t copy);
  void bulk_arrived(uint32_t address, uint32_t bytes, uint16_t copy, std::size_t threads);
  void saw_bulk(uint16_t copy, uint32_t thread, const warp_clock& clock);
  bool anyone_saw(uint16_t copy) const;
  void all_saw_bulk(uint32_t address, uint32_t bytes, uint16_t copy);
  // fence.proxy.async by this thread.
  void fence(uint32_t thread, const warp_clock& clock) { fences_[thread] = {barriers_.now(), clock.now()}; }
  const char* check_fence(uint32_t address, uint32_t bytes, uint32_t thread, uint32_t& other) const;

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
    uint16_t writer = 0;  // with use::copy, its number
    bool written = false;
    // plain_of_bulk: a bulk copy wrote it last; copy: one is on its way
    enum class use : uint8_t { plain, plain_of_bulk, copy, mbarrier } is = use::plain;
  };
  struct moment {
    uint32_t epoch = 0, time = 0;
  };
  struct relaxed_cell {
    threads readers, writers;
  };

  void set_writer(cell& c, uint32_t thread, const warp_clock& clock);
  void remember(threads& all, uint32_t thread, const warp_clock& clock) const;
  // Did one of them act and that thread not know of it? Then `other` is one.
  bool unordered(const threads& all, uint32_t thread, const warp_clock& clock, uint32_t& other) const;
  // Has the thread seen the end of the bulk copy, or met one that has?
  bool knows_end(uint16_t copy, uint32_t thread, const warp_clock& clock) const;

  std::vector<std::byte> bytes_;
  std::vector<cell> cells_;
  std::vector<relaxed_cell> relaxed_;      // of as many bytes, once there was an access of that kind
  std::vector<std::vector<moment>> seen_;  // of bulk copies that have arrived: when a thread saw it, or epoch 0
  std::array<moment, 1024> fences_{};      // by thread, the last one
  warp_clock barriers_;
};

}  // namespace ptx
