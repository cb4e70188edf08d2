// operator new that fails when a test wants it to. nvcc would compile it for the device, too.
#include <cstdlib>
#include <new>

thread_local int allocations_left = -1;  // before one fails; negative: none does

[[gnu::noinline]] void* operator new(size_t size) {
  void* const p = allocations_left >= 0 && allocations_left-- == 0 ? nullptr : std::malloc(size);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }
