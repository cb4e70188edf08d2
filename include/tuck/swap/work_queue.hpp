// A queue of work for background threads.
#pragma once

#include <tuck/core/config.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tuck::inline TUCK_ABI {

/// Runs work on background threads, started in the order in which it was added. Thread-safe.
class work_queue {
 public:
  /// Starts `threads` threads. Throws std::system_error if a thread cannot be started.
  explicit work_queue(unsigned threads) {
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
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  unsigned running_ = 0;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace tuck::inline TUCK_ABI
