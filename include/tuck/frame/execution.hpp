// Which threads run a host call: the calling thread, threads that the call starts, or the caller's own.
#pragma once

#include <tuck/core/bits.hpp>

#include <algorithm>
#include <atomic>
#include <thread>
#include <type_traits>
#include <vector>

/// Calls on the CPU.
namespace tuck::inline TUCK_ABI::host {

/// The work of a call: task(i) does part i.
class task {
 public:
  /// Refers to `body`, which must outlive it.
  template <class Body>
    requires(!std::is_same_v<Body, task>)
  explicit task(const Body& body) noexcept
      : body_(&body), call_([](const void* it, unsigned i) noexcept { (*static_cast<const Body*>(it))(i); }) {}

  void operator()(unsigned i) const noexcept { call_(body_, i); }  ///< does part i

 private:
  const void* body_;
  void (*call_)(const void*, unsigned) noexcept;
};

/// Refers to a thread pool of the caller. `pool(count, task)` must call task(i) once for each i < count, on any threads
/// and in any order, also sequentially. It must return after all calls have returned. It must not throw.
class executor {
 public:
  executor() = default;  ///< no pool
  /// Refers to `pool`, which must outlive it.
  template <class Pool>
    requires(!std::is_same_v<std::remove_const_t<Pool>, executor> && std::is_invocable_v<Pool&, unsigned, task>)
  executor(Pool& pool) noexcept
      : pool_(const_cast<std::remove_const_t<Pool>*>(&pool)),
        call_([](void* it, unsigned count, task all) noexcept { (*static_cast<Pool*>(it))(count, all); }) {}

  explicit operator bool() const noexcept { return call_ != nullptr; }                    ///< is there a pool?
  void operator()(unsigned count, task all) const noexcept { call_(pool_, count, all); }  ///< runs on the pool

 private:
  void* pool_ = nullptr;
  void (*call_)(void*, unsigned, task) noexcept = nullptr;
};

/// How a host call runs. It does not change the bytes of the result.
struct execution {
  unsigned threads = 1;  ///< maximum number of threads; 0: one per core. Small tensors use fewer
  std::atomic<uint64_t>* chunks_done =
      nullptr;         ///< null, or counts finished chunks; decode_delta counts each twice if it has two passes
  executor pool = {};  ///< runs the work; without a pool the call starts its own threads
};

namespace detail {

inline unsigned useful_threads(unsigned wanted, uint64_t count, uint64_t batch) noexcept {
  if (count <= batch) return count != 0 ? 1 : 0;
  if (wanted == 0) wanted = std::max(std::thread::hardware_concurrency(), 1u);  // it may return 0
  return static_cast<unsigned>(std::min<uint64_t>(wanted, ceil_div(count, batch)));
}

// Calls all(i) for each i < count, all(0) on the calling thread. If not all threads can be started, it calls only those
// that can.
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

// Runs work(worker, first, last) over batches of [0, count) on up to `threads` workers. Batches start in order of
// `first`.
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
