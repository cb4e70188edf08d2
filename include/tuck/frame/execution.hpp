// Who does the work of a host call: the calling thread, threads that the call starts, or a caller's own.
#pragma once

#include <tuck/core/bits.hpp>

#include <algorithm>
#include <atomic>
#include <thread>
#include <type_traits>
#include <vector>

namespace tuck::inline TUCK_ABI::host {

// A call's work, by number.
class task {
 public:
  template <class Body>
    requires(!std::is_same_v<Body, task>)
  explicit task(const Body& body) noexcept
      : body_(&body), call_([](const void* it, unsigned i) noexcept { (*static_cast<const Body*>(it))(i); }) {}

  void operator()(unsigned i) const noexcept { call_(body_, i); }

 private:
  const void* body_;
  void (*call_)(const void*, unsigned) noexcept;
};

// Refers to a caller's threads: pool(count, task) calls task(i) once for each i below count, on any threads and in any
// order, be it one after the other, and returns when all have returned. It must not throw.
class executor {
 public:
  executor() = default;  // no threads of the caller's
  template <class Pool>
    requires(!std::is_same_v<std::remove_const_t<Pool>, executor> && std::is_invocable_v<Pool&, unsigned, task>)
  executor(Pool& pool) noexcept
      : pool_(const_cast<std::remove_const_t<Pool>*>(&pool)),
        call_([](void* it, unsigned count, task all) noexcept { (*static_cast<Pool*>(it))(count, all); }) {}

  explicit operator bool() const noexcept { return call_ != nullptr; }
  void operator()(unsigned count, task all) const noexcept { call_(pool_, count, all); }

 private:
  void* pool_ = nullptr;
  void (*call_)(void*, unsigned, task) noexcept = nullptr;
};

// How a call runs; none of it changes a byte of the result.
struct execution {
  unsigned threads = 1;                          // at most; 0: one a core. Small tensors take fewer
  std::atomic<uint64_t>* chunks_done = nullptr;  // counted up as chunks are finished, for progress displays
  executor pool = {};                            // whose threads these are; else the call starts and ends them
};

namespace detail {

inline unsigned useful_threads(unsigned wanted, uint64_t count, uint64_t batch) noexcept {
  if (wanted == 0) wanted = std::max(std::thread::hardware_concurrency(), 1u);  // which may not know
  return static_cast<unsigned>(std::min<uint64_t>(wanted, ceil_div(count, batch)));
}

// Calls all(i) for each i below count, all(0) on the calling thread. Where there are not so many threads to be had, for
// those i that there are threads for.
template <class All> void on_new_threads(unsigned count, const All& all) {
  std::vector<std::jthread> others;
#if defined(__cpp_exceptions)
  try {
#endif
    for (unsigned i = 1; i < count; ++i) others.emplace_back(all, i);
#if defined(__cpp_exceptions)
  } catch (...) {
  }
#endif
  all(0u);
}

// Runs work(worker, first, last) over batches of [0, count) as up to `threads` workers, in order of `first`: a batch
// starts only after all earlier ones have.
template <class Work>
void in_batches(uint64_t count, uint64_t batch, unsigned threads, const executor& pool, const Work& work) {
  if (threads <= 1) {
    for (uint64_t first = 0; first < count; first += batch) work(0u, first, std::min(count, first + batch));
    return;
  }
  std::atomic<uint64_t> next{0};
  const auto run = [&](unsigned worker) {
    for (uint64_t first; (first = next.fetch_add(batch, std::memory_order_relaxed)) < count;)
      work(worker, first, std::min(count, first + batch));
  };
  if (pool)
    pool(threads, task(run));
  else
    on_new_threads(threads, run);
}

}  // namespace detail
}  // namespace tuck::inline TUCK_ABI::host
