// Threads that do what is given to them, in order, off everybody's critical path, and a bell for who waits for others.
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

// Rung whenever something has been done that somebody may wait for. To miss nothing, ask how often it has been rung,
// look what there is, and only then wait for one more.
class bell {
 public:
  // A device that is broken rings no bell: who waits looks again after this time.
  static constexpr std::chrono::seconds patience{10};

  void ring() noexcept {
    {
      const std::lock_guard lock(mutex_);
      ++rung_;
    }
    changed_.notify_all();
  }
  uint64_t rung() {
    const std::lock_guard lock(mutex_);
    return rung_;
  }
  void wait_beyond(uint64_t seen) {
    std::unique_lock lock(mutex_);
    // By this clock because ThreadSanitizer knows no wait by the other.
    changed_.wait_until(lock, std::chrono::system_clock::now() + patience, [&] { return rung_ != seen; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t rung_ = 0;
};

class work_queue {
 public:
  // Rings the bell after each piece of work. Throws std::system_error where the system has no more threads.
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
  ~work_queue() { stop(); }

  // False: there are no threads, or they have stopped.
  bool add(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || threads_.empty()) return false;
      waiting_.push_back(std::move(work));
    }
    changed_.notify_all();
    return true;
  }

  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return idle();
  }
  // Until there is nothing to do.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return idle(); });
  }
  // Does what is waiting, then ends the threads. Once.
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
