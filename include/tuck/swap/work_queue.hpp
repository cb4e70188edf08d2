// A queue of work for background threads, and a bell that signals progress to waiting threads.
#pragma once

#include <tuck/core/config.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tuck::inline TUCK_ABI {

/// A counter that signals progress. `ring` is called after each step for which another thread may wait. To miss no
/// step, a thread calls `rung`, checks its condition, and then calls wait_beyond. Thread-safe.
class bell {
 public:
  /// Longest wait of wait_beyond. Callers then check their condition again, because a failed device never rings.
  static constexpr std::chrono::seconds patience{10};

  /// Counts up and wakes all waiting threads.
  void ring() noexcept {
    {
      const std::lock_guard lock(mutex_);
      ++rung_;
    }
    changed_.notify_all();
  }
  /// Returns how often the bell has been rung.
  uint64_t rung() {
    const std::lock_guard lock(mutex_);
    return rung_;
  }
  /// Waits until the count differs from `seen`, at most for `patience`.
  void wait_beyond(uint64_t seen) {
    std::unique_lock lock(mutex_);
    // The system clock, because ThreadSanitizer does not support waits on the steady clock.
    changed_.wait_until(lock, std::chrono::system_clock::now() + patience, [&] { return rung_ != seen; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t rung_ = 0;
};

/// Runs work on background threads, started in the order in which it was added. Thread-safe.
class work_queue {
 public:
  /// Starts `threads` threads, which ring `done` after each piece of work. Throws std::system_error if a thread cannot
  /// be started.
  explicit work_queue(unsigned threads, std::shared_ptr<bell> done = std::make_shared<bell>())
      : done_(std::move(done)) {
    try {
      for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  work_queue(const work_queue&) = delete;
  work_queue& operator=(const work_queue&) = delete;
  /// Calls stop.
  ~work_queue() { stop(); }

  /// Adds work, which must not throw. Throws std::bad_alloc.
  /// @return false if there are no threads or they have been stopped
  bool add(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || threads_.empty()) return false;
      waiting_.push_back(std::move(work));
    }
    changed_.notify_all();
    return true;
  }

  /// Returns whether no work is waiting or running.
  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return idle();
  }
  /// Waits until no work is waiting or running.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return idle(); });
  }
  /// Finishes all waiting work, then ends the threads. Two threads must not call it at the same time.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    threads_.clear();
  }

 private:
  bool idle() const { return waiting_.empty() && running_ == 0; }
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      {
        const auto work = std::move(waiting_.front());
        waiting_.pop_front();
        ++running_;
        lock.unlock();
        work();
      }
      lock.lock();
      --running_;
      if (idle()) changed_.notify_all();
      done_->ring();
    }
  }

  std::shared_ptr<bell> done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  unsigned running_ = 0;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace tuck::inline TUCK_ABI
