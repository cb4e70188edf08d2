// The sanitizers' interfaces as weak symbols: null unless the executable is built with that sanitizer.
// The runtime itself is never built with -fsanitize=thread: its own locks would order CUDA threads
// that nothing orders on a GPU.
#pragma once

#include <cstddef>

extern "C" {
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __tsan_acquire(void* address);
[[gnu::weak]] void __tsan_release(void* address);
[[gnu::weak]] void __tsan_ignore_thread_begin();
[[gnu::weak]] void __tsan_ignore_thread_end();
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, std::size_t* size);
[[gnu::weak]] void __asan_poison_memory_region(const volatile void* address, std::size_t size);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* address, std::size_t size);
}

namespace cudasim::detail {

inline bool tsan() { return __tsan_create_fiber != nullptr; }
inline bool asan() { return __asan_poison_memory_region != nullptr; }

// An address that stands for an ordering in ThreadSanitizer's eyes.
struct order_point {
  void release() {
    if (tsan()) __tsan_release(this);
  }
  void acquire() {
    if (tsan()) __tsan_acquire(this);
  }
  char address[8] = {};
};

// Code of the runtime whose memory is not the program's: allocations that travel between threads under
// a quiet_mutex would otherwise be reported as races.
class runtime_scope {
 public:
  runtime_scope() {
    if (tsan()) __tsan_ignore_thread_begin();
  }
  ~runtime_scope() {
    if (tsan()) __tsan_ignore_thread_end();
  }
  runtime_scope(const runtime_scope&) = delete;
  runtime_scope& operator=(const runtime_scope&) = delete;
};

// The reverse, inside a runtime_scope: what is touched here is the program's memory again.
class program_scope {
 public:
  program_scope() {
    if (tsan()) __tsan_ignore_thread_end();
  }
  ~program_scope() {
    if (tsan()) __tsan_ignore_thread_begin();
  }
  program_scope(const program_scope&) = delete;
  program_scope& operator=(const program_scope&) = delete;
};

inline void hide(const void* p, std::size_t n) {
  if (asan()) __asan_poison_memory_region(p, n);
}
inline void unhide(const void* p, std::size_t n) {
  if (asan()) __asan_unpoison_memory_region(p, n);
}

}  // namespace cudasim::detail
