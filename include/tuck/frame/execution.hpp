// SPDX-License-Identifier: Apache-2.0
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

/// Refers to a function or a function object, which must outlive it, or to nothing.
template <class... Args> class function_ref {
 public:
  function_ref() = default;  ///< refers to nothing
  /// Refers to `f`.
  template <class F>
    requires(!std::is_same_v<std::remove_const_t<F>, function_ref> && std::is_invocable_v<F&, Args...>)
  function_ref(F& f) noexcept
      : f_(const_cast<std::remove_const_t<F>*>(&f)),
        call_([](void* it, Args... args) noexcept { (*static_cast<F*>(it))(args...); }) {}

  explicit operator bool() const noexcept { return call_ != nullptr; }  ///< does it refer to something?
  void operator()(Args... args) const noexcept { call_(f_, args...); }  ///< calls it

 private:
  void* f_ = nullptr;
  void (*call_)(void*, Args...) noexcept = nullptr;
};

/// The work of a call: task(i) does part i.
using task = function_ref<unsigned>;

/// Refers to a thread pool of the caller. `pool(count, task)` must call task(i) once for each i < count, on any threads
/// and in any order, also sequentially. It must return after all calls have returned. It must not throw.
using executor = function_ref<unsigned, task>;

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
  if (wanted == 0) wanted = (std::max)(std::thread::hardware_concurrency(), 1u);  // it may return 0
  return static_cast<unsigned>(std::min<uint64_t>(wanted, ceil_div(count, batch)));
}

// Calls all(i) for each i < count, all(0) on the calling thread. If not all threads can be started, it calls only those
// that can.
inline void on_new_threads(unsigned count, task all) {
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

// The work of a batch: work(worker, first, last).
using batch_task = function_ref<unsigned, uint64_t, uint64_t>;

// As in_batches. Compiled once for all codecs: threads take long to compile.
inline void run_batches(uint64_t count, uint64_t batch, unsigned threads, const executor& pool, batch_task work) {
  if (threads <= 1) {
    for (uint64_t first = 0; first < count; first += batch) work(0u, first, (std::min)(count, first + batch));
    return;
  }
  std::atomic<uint64_t> next{0};
  const auto run = [&](unsigned worker) {
    for (uint64_t first; (first = next.fetch_add(batch, std::memory_order_relaxed)) < count;)
      work(worker, first, (std::min)(count, first + batch));
  };
  if (pool)
    pool(threads, task(run));
  else
    on_new_threads(threads, task(run));
}

// Runs work(worker, first, last) over batches of [0, count) on up to `threads` workers. Batches start in order of
// `first`.
template <class Work>
void in_batches(uint64_t count, uint64_t batch, unsigned threads, const executor& pool, const Work& work) {
  run_batches(count, batch, threads, pool, batch_task(work));
}

}  // namespace detail
}  // namespace tuck::inline TUCK_ABI::host
