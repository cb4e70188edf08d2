// Contexts: a stack and the registers to resume it with.
#pragma once

#include <cstddef>

namespace cudasim::detail {

struct context {
  void* stack_pointer = nullptr;
  const void* stack = nullptr;  // lowest address; null for a thread's own stack until it is known
  std::size_t stack_bytes = 0;
  void* fake_stack = nullptr;  // AddressSanitizer's
  void* tsan_fiber = nullptr;
};

// Makes `c` start at `entry` on the stack; entry never returns.
void prepare(context& c, void (*entry)());
// The first thing an entry does.
void entered(context& self);
void switch_context(context& from, context& to);

// Stacks of one resident block, each above a guard page.
class stack_slab {
 public:
  explicit stack_slab(std::size_t count);
  ~stack_slab();
  stack_slab(const stack_slab&) = delete;
  stack_slab& operator=(const stack_slab&) = delete;
  std::byte* lowest(std::size_t index) const;  // usable byte, above the guard
  static std::size_t usable_bytes();

 private:
  std::byte* base_;
  std::size_t count_;
};

}  // namespace cudasim::detail
