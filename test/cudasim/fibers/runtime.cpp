// The functions behind sim/runtime.hpp: the calling CUDA thread's engine does the work.
#include "engine.hpp"

#include <cstdio>
#include <cstdlib>

namespace cudasim::detail {
namespace {

engine& running(site where) {
  engine* e = engine::here();
  if (!e || !e->current()) {
    std::fprintf(stderr, "cudasim: %s:%d: device function called outside a kernel\n", where.file, where.line);
    std::abort();
  }
  return *e;
}

order_point fences;

}  // namespace

bool inside_kernel() { return engine::here() && engine::here()->current(); }

std::uint64_t warp_collective(const warp_request& request, site where) {
  return running(where).collective(request, where);
}
int block_barrier(barrier_op op, bool predicate, site where) { return running(where).barrier(op, predicate, where); }

std::uint64_t block_sum(const void* storage, std::size_t bytes, std::uint64_t value, std::uint64_t& total, site where) {
  return running(where).sum(storage, bytes, value, total, where);
}

void begin_copy(void* to, const void* from, std::size_t bytes, site where) {
  running(where).begin_copy({to, from, bytes, 0, where});
}
void commit_copies() { ++running({}).current()->copy_groups; }
void wait_for_copies(unsigned newest) { running({}).wait_for_copies(newest); }

void* shared_slot(const void* key, std::size_t bytes, std::size_t alignment, const char* name, site where) {
  engine& e = running(where);
  void* p = nullptr;
  {
    runtime_scope quiet;
    p = e.current()->home->home->shared.slot(key, bytes, alignment, name, where);
  }
  if (!p)
    e.fail(
        "too much shared memory",
        [&] { return std::string(name) + " does not fit: 48 KiB of static variables, 227 KiB in all"; }, where);
  return p;
}

std::byte* dynamic_shared_memory() { return running({}).current()->home->home->shared.dynamic(); }

void polled(site where) {
  if (inside_kernel()) engine::here()->poll(where);
}
void yield(site where) {
  if (inside_kernel()) engine::here()->idle(where);
}
void stored() {
  if (inside_kernel()) engine::here()->progress();
}
void atomic_done(const void* p, bool changed, site where) {
  if (inside_kernel()) engine::here()->atomic_done(p, changed, where);
}

// ThreadSanitizer knows no fences. All fences of a program being ordered is more than CUDA promises, but
// what is published behind a fence is never reported in error.
void fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  fences.acquire();
  fences.release();
}

void device_error(const char* kind, const char* text, site where) {
  running(where).fail(kind, [text] { return text; }, where);
}

void misaligned(const void* address, std::size_t bytes, site where) {
  char text[96];
  std::snprintf(text, sizeof text, "%zu bytes at address %p", bytes, address);
  device_error("misaligned access", text, where);
}

void record_traffic(const void* address, std::size_t bytes, bool write, site where) {
  if (!inside_kernel()) return;
  runtime_scope quiet;
  const fiber& f = *engine::here()->current();
  f.home->traffic.add(f.lane, address, bytes, write, where);
}

}  // namespace cudasim::detail

// assert() in a kernel ends the launch, not the process; elsewhere it does what it always does.
extern "C" void __assert_fail(const char* expression, const char* file, unsigned line, const char* function) noexcept {
  if (cudasim::detail::inside_kernel())
    cudasim::detail::device_error("assertion failed", expression, {file, static_cast<int>(line)});
  std::fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function, expression);
  std::abort();
}

// Not a second's pause at the end of every test; TSAN_OPTIONS overrides it.
extern "C" [[gnu::weak]] const char* __tsan_default_options() { return "atexit_sleep_ms=0"; }
