// The context switch. Only callee-saved registers move: a switch is a function call to the compiler.
#include "context.hpp"

#include "../host/sanitizers.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

extern "C" void cudasim_switch(void** save, void* load);

#if defined(__x86_64__)
asm(R"(
.text
.globl cudasim_switch
.hidden cudasim_switch
.type cudasim_switch, @function
.balign 16
cudasim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cudasim_switch, .-cudasim_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl cudasim_switch
.hidden cudasim_switch
.type cudasim_switch, %function
.balign 16
cudasim_switch:
  stp x29, x30, [sp, #-160]!
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #160
  ret
.size cudasim_switch, .-cudasim_switch
)");
#else
#error "the simulator switches stacks on x86-64 and aarch64 alone"
#endif

namespace cudasim::detail {
namespace {

constexpr std::size_t page = 4096;
// ASan's frames are several times as large.
std::size_t stride() { return (asan() ? 512 : 128) * 1024; }

}  // namespace

void prepare(context& c, void (*entry)()) {
  auto* top = reinterpret_cast<std::uint64_t*>(reinterpret_cast<std::uintptr_t>(c.stack) + c.stack_bytes);
#if defined(__x86_64__)
  // ret pops the entry from a 16-byte boundary: rsp = 8 (mod 16) at the entry, as after a call.
  top -= 8;
  for (int i = 0; i < 8; ++i) top[i] = 0;
  top[6] = reinterpret_cast<std::uint64_t>(entry);
#else
  top -= 20;
  for (int i = 0; i < 20; ++i) top[i] = 0;
  top[1] = reinterpret_cast<std::uint64_t>(entry);  // x30
#endif
  c.stack_pointer = top;
  c.fake_stack = nullptr;
}

void entered(context& self) {
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(self.fake_stack, nullptr, nullptr);
}

void switch_context(context& from, context& to) {
  if (tsan()) __tsan_switch_to_fiber(to.tsan_fiber, 1 /* orders nothing */);
  if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
  cudasim_switch(&from.stack_pointer, to.stack_pointer);
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
}

stack_slab::stack_slab(std::size_t count) : count_(count) {
  void* p = mmap(nullptr, count * stride(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) std::abort();
  base_ = static_cast<std::byte*>(p);
  for (std::size_t i = 0; i < count; ++i) mprotect(base_ + i * stride(), page, PROT_NONE);
}

stack_slab::~stack_slab() {
  unhide(base_, count_ * stride());
  munmap(base_, count_ * stride());
}

std::byte* stack_slab::lowest(std::size_t index) const { return base_ + index * stride() + page; }
std::size_t stack_slab::usable_bytes() { return stride() - page; }

}  // namespace cudasim::detail
