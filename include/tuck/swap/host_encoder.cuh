// SPDX-License-Identifier: Apache-2.0
// swap_path::cpu, as in vDNN++: tensors are copied to the pool raw. CPU threads then encode them and replace the values
// in the pool by the frame.
#pragma once

#include <tuck/swap/offloaded_tensor.cuh>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace tuck::inline TUCK_ABI {

/// Runs work on background threads, started in the order in which it was added. Thread-safe.
class work_queue {
 public:
  /// Starts up to `threads` threads: fewer, or none, if the system has no more.
  explicit work_queue(unsigned threads) {
    try {
      for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
    } catch (const std::system_error&) {
    }
  }

  /// Adds work, which must not throw. Throws std::bad_alloc.
  /// @return false if there are no threads or they have been stopped
  bool add(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      if (threads_.empty()) return false;
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
  /// Finishes all waiting work, then ends the threads, as destroying the queue does.
  void stop() {
    std::vector<std::jthread> ending;
    const std::unique_lock lock(mutex_);
    ending.swap(threads_);
  }

 private:
  bool idle() const { return waiting_.empty() && running_ == 0; }
  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return !waiting_.empty(); })) {
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
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> waiting_;
  unsigned running_ = 0;
  std::vector<std::jthread> threads_;  // destroyed first: each is told to stop, and finishes the work
};

namespace detail {

class host_encoder {
 public:
  using tensor = std::shared_ptr<offloaded_tensor>;
  using encode_call = std::function<outcome(const_bytes, bytes)>;

  // `mutex` is the lock of the swap_stream. It guards the pool and all tensors.
  host_encoder(unsigned threads, std::mutex& mutex, pinned_pool& pool)
      : mutex_(mutex), pool_(pool), threads_(threads) {}

  // Queues the encode of a tensor after all work submitted to `stream`. Its frame has at most `most` bytes.
  void add(const tensor& t, uint64_t most, const encode_call& encode, cudaStream_t stream) {
    call_behind(stream, [this, t, most, encode] {
      // If there is no memory for the queue entry, the tensor stays raw.
      static_cast<void>(guarded([&] { threads_.add([this, t, most, encode] { run(t, most, encode); }); }));
    });
  }

  // Waits while a thread is overwriting the tensor's values. Releases the lock while it waits.
  void wait_for(const offloaded_tensor& t, std::unique_lock<std::mutex>& lock) {
    rewritten_.wait(lock, [&] { return !t.is_rewritten; });
  }
  bool is_idle() { return threads_.is_idle(); }
  void wait() { threads_.wait(); }
  void stop() { threads_.stop(); }

 private:
  void run(const tensor& t, uint64_t most, const encode_call& encode) noexcept {
    static_cast<void>(guarded([&] {
      std::unique_lock lock(mutex_);
      if (!t->wanted) return;
      auto values = t->storage;
      const const_bytes from = pool_.host(values->range).subspan(0, t->source.size());
      lock.unlock();
      const std::unique_ptr<std::byte[]> frame(new (std::nothrow) std::byte[most]);
      const outcome written =
          frame == nullptr ? outcome{.code = status::out_of_memory} : encode(from, {frame.get(), most});
      lock.lock();
      if (written && t->wanted) put(*t, values, {frame.get(), written.bytes}, written, lock);
      values = nullptr;
    }));
  }

  // Copies the frame into the pool: into another extent if one is free, else over the values. If an operation is
  // reading the values, the tensor stays raw, because it is being restored.
  void put(offloaded_tensor& t, const std::shared_ptr<pool_extent>& values, const_bytes frame, const outcome& written,
           std::unique_lock<std::mutex>& lock) {
    if (pinned_pool::round_up(frame.size()) >= values->range.size) return;
    auto to = std::make_shared<pool_extent>(pool_);
    const bool elsewhere = pool_.allocate(frame.size(), to->range);
    if (!elsewhere) {
      if (values.use_count() != 2) return;  // an operation that reads them is a third owner
      pool_.shrink(values->range, frame.size());
      to = values;
      t.is_rewritten = true;
    }
    lock.unlock();
    std::memcpy(pool_.host(to->range).data(), frame.data(), frame.size());
    lock.lock();
    if (!elsewhere) {
      t.is_rewritten = false;
      rewritten_.notify_all();
    }
    if (!t.wanted) return;
    t.storage = std::move(to);
    t.is_frame = true;
    t.written = written;
  }

  std::mutex& mutex_;
  pinned_pool& pool_;
  std::condition_variable rewritten_;
  work_queue threads_;
};

}  // namespace detail
}  // namespace tuck::inline TUCK_ABI
