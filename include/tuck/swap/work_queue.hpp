// Threads that do what is given to them, in order, off everybody's critical path.
#pragma once

#include <tuck/core/config.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tuck::inline TUCK_ABI {

class work_queue {
 public:
  // Throws std::system_error where the system has no more threads.
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
