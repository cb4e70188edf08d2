// A mutex that ThreadSanitizer does not see: built on futexes in code that is not instrumented, so that
// the runtime's bookkeeping orders nothing in the program under test.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace cudasim::detail {

class quiet_mutex {
 public:
  void lock() {
    std::uint32_t expected = 0;
    if (state_.compare_exchange_strong(expected, 1, std::memory_order_acquire)) return;
    while (state_.exchange(2, std::memory_order_acquire) != 0) state_.wait(2);
  }
  void unlock() {
    if (state_.exchange(0, std::memory_order_release) == 2) state_.notify_one();
  }

 private:
  std::atomic<std::uint32_t> state_{0};  // 0 free, 1 held, 2 held and somebody waits
};

using quiet_lock = std::lock_guard<quiet_mutex>;

}  // namespace cudasim::detail
