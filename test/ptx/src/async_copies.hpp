// A block's asynchronous copies while they last, and its mbarriers. The bytes of cp.async come to shared memory when
// the thread waits; those of bulk copies at a random time, before their phase completes. They are read from global
// memory at once or in the end, as the seed decides.
//
// A model of time sees instruction::copies (module.hpp), says when each copy is due, and lets bulk copies come then.
#pragma once

#include "weak_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace ptx {

struct warp;
struct block;
class launch_run;

struct async_copy {
  uint32_t to = 0, bytes = 0;   // in shared memory; 0 bytes: this number is free
  uint64_t from = 0;            // in global memory
  uint32_t read = 0;            // of the bytes; zeros follow
  uint32_t thread = 0, pc = 0;  // who started it, and where
  bool is_bulk = false;
  uint32_t group = 0;     // of cp.async: how many groups the thread had before
  uint32_t mbarrier = 0;  // of a bulk copy
  uint64_t phase = 0;     // of the mbarrier when it arrived
  bool arrived = false;
  uint64_t due = 0;              // when it comes, by a model of time; 0 if none has said so
  std::vector<std::byte> early;  // what has been read
};

struct mbarrier {
  uint32_t expected = 0, pending = 0;  // arrivals of a phase, and those that it lacks
  int64_t bytes = 0;                   // of copies that the phase lacks: the tx-count
  uint64_t phase = 0;
  uint32_t pc = 0;  // of mbarrier.init
};

// Bytes of global memory that copies of this launch have yet to read.
class copy_sources {
 public:
  void add(uint64_t address, uint32_t bytes) { count(address, bytes, 1); }
  void remove(uint64_t address, uint32_t bytes) { count(address, bytes, -1); }
  bool may_touch(uint64_t address, uint32_t bytes) const;

 private:
  void count(uint64_t address, uint32_t bytes, int by);
  std::unordered_map<uint64_t, int> lines_;  // of 16 bytes
};

class async_copies {
 public:
  static constexpr int64_t most_bytes = (1 << 20) - 1, most_arrivals = most_bytes;  // of a phase

  // Starts it for a lane of the warp, which stands at that instruction. Ends the launch where its bytes are not free.
  void start(warp& w, int lane, async_copy c);
  // cp.async.commit_group, and wait_group. `all`: also what has not been committed.
  void commit(uint32_t thread) { ++of_thread(thread).groups; }
  void wait(warp& w, int lane, uint32_t newest, bool all);
  // Bulk copies come: some of them, as the seed decides; or those that are due.
  bool any_on_its_way() const { return on_their_way_ != 0; }
  void arrive_some(block& b, bool all);
  void arrive_due(block& b, uint64_t now);
  // The thread's last cp.async, and bulk copies on their way for which nobody has said when they come.
  async_copy& last_of(uint32_t thread) { return copies_[of_thread(thread).open.back()]; }
  std::vector<async_copy*> bulks_not_due();
  // When the last of those comes that a wait is for; or of those that an mbarrier lacks. 0 if there are none.
  uint64_t due(uint32_t thread, uint32_t newest, bool all) const;
  uint64_t due(uint32_t mbarrier) const;
  const std::vector<async_copy>& all() const { return copies_; }  // by number

  uint64_t& global_fence(uint32_t thread) { return of_thread(thread).global_fence; }

  std::map<uint32_t, mbarrier> mbarriers;  // by address
  // Completes the phase if nothing lacks. Threads that see it complete, see the copies that arrived until then.
  static void complete_phase(mbarrier& m);
  void saw_phase(warp& w, int lane, uint32_t address);
  // All warps have met: all know what one has seen.
  void met(block& b);

  // A copy of the thread that it has not waited for; or a bulk copy of the block whose end nobody has seen. Else null.
  const async_copy* unfinished(uint32_t thread) const;
  const async_copy* unfinished_bulk(const block& b) const;
  // The copy that still reads bytes from there, or null.
  const async_copy* reading(uint64_t address, uint32_t bytes) const;
  std::string what_mbarriers_lack() const;

 private:
  struct thread_copies {
    std::vector<uint16_t> open;
    uint32_t groups = 0;        // committed
    uint64_t global_fence = 0;  // when it last fenced the async proxy, by weak_memory's time
  };
  thread_copies& of_thread(uint32_t thread) {
    if (threads_.size() <= thread) threads_.resize(thread + 1u);
    return threads_[thread];
  }
  static bool waits_for(const async_copy& c, uint32_t groups, uint32_t newest) {
    return c.group < groups && groups - c.group > newest;
  }
  void arrive(block& b, uint16_t number);
  void forget(uint16_t bulk);
  uint16_t free_number();
  void read(warp& w, async_copy& c);
  void finish(warp& w, async_copy& c);  // its bytes are there

  std::vector<async_copy> copies_;
  std::vector<uint16_t> free_;
  std::vector<thread_copies> threads_;
  std::size_t on_their_way_ = 0, bulks_ = 0;  // bulk copies that have not arrived; and those that are not forgotten
};

}  // namespace ptx
