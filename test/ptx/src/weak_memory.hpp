// Global memory as other blocks may see it: stores are delayed and arrive in any order until something releases them;
// loads may see old values until something acquires. Finer than PTX allows nowhere, coarser in places: a block's stores
// are seen by all of the block at once, and what a warp acquires all its lanes have acquired.
#pragma once

#include "../../cudasim/host/random.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace ptx {

using cudasim::detail::random;
struct block;

// What a warp knows: times are those of the launch's weak_memory.
struct weak_view {
  uint64_t acquired = 0;                        // all that was written until then is seen
  uint64_t pending = 0;                         // what a fence would acquire, from loads before it
  uint64_t fence = 0;                           // of the last releasing fence
  std::unordered_map<uint64_t, uint64_t> seen;  // by word: no older value than of this time

  void join(const weak_view& other) {
    acquired = other.acquired > acquired ? other.acquired : acquired;
    pending = other.pending > pending ? other.pending : pending;
    fence = other.fence > fence ? other.fence : fence;
  }
};

// Bytes of an aligned word of 8 that only the block sees as yet.
struct held_word {
  uint64_t value = 0;
  uint64_t released = 0;  // what reading it acquires
  uint8_t bytes = 0;      // a bit each
};
struct weak_stores {
  std::unordered_map<uint64_t, held_word> words;  // by address
};

class weak_memory {
 public:
  explicit weak_memory(uint64_t seed) : random_(seed) {}

  void read(block& b, weak_view& view, uint64_t address, void* to, unsigned bytes, bool acquires);
  void write(block& b, weak_view& view, uint64_t address, const void* from, unsigned bytes, bool releases);
  // Around a read-modify-write of one word: what the block holds of it arrives before, and what is known of it after.
  void before_atomic(block& b, uint64_t address, bool releases);
  void after_atomic(block& b, weak_view& view, uint64_t address, uint64_t word_before, bool acquires, bool releases);
  void fence(block& b, weak_view& view, bool sequential);
  void release_all(block& b);
  void release_some(block& b);  // a few, at random
  // When this launch last wrote there, as far as the block may know: 0 where it has not, ~0 where only the block sees
  // it.
  uint64_t last_write(const block& b, uint64_t address, unsigned bytes) const;
  bool wrote(const block& b, uint64_t address, unsigned bytes) const { return last_write(b, address, bytes) != 0; }
  uint64_t now() const { return now_; }

 private:
  struct version {
    uint64_t value = 0;
    uint64_t time = 0;      // when it was written; 0: before the launch
    uint64_t released = 0;  // what reading it acquires
    uint64_t replaced = 0;
    const block* writer = nullptr;
  };
  struct history {
    version now;  // but for its value, which is in memory
    std::array<version, 4> old{};
    unsigned count = 0;  // of those, ever
  };

  void arrive(const block& b, uint64_t address, const held_word& word);
  void replace(history& h, uint64_t before, const block& b, uint64_t released);
  const version* choose(const history& h, const block& b, const weak_view& view, uint64_t address);

  std::unordered_map<uint64_t, history> words_;
  uint64_t now_ = 0;
  random random_;
};

}  // namespace ptx
