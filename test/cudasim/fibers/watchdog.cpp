#include "watchdog.hpp"

#include "../host/quiet_mutex.hpp"
#include "engine.hpp"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

namespace cudasim::detail {
namespace {

struct launches {
  quiet_mutex mutex;
  std::vector<engine*> engines;
  std::uint64_t retired = 0;  // progress of engines that are gone
  bool started = false;
};

launches& all_launches() {
  static launches& r = *new launches;
  return r;
}

// Names the CUDA thread that made an invalid access; sanitizers say more, and keep their own handler.
void on_segv(int signal, siginfo_t* info, void*) {
  if (engine* e = engine::here(); e && e->current()) {
    const fiber& f = *e->current();
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr),
               stack = reinterpret_cast<std::uintptr_t>(f.registers.stack);
    const bool overflow = address < stack && address + 65536 >= stack;
    std::fprintf(stderr, "cudasim: %s at address %p in kernel %s, block %u, warp %u, lane %u\n",
                 overflow ? "stack overflow" : "invalid access", info->si_addr, kernel_name(e->job().kernel).c_str(),
                 f.home->home->index.x, f.home->index, f.lane);
  }
  ::signal(signal, SIG_DFL);
}

struct signal_stack {
  signal_stack() : memory(std::make_unique<std::byte[]>(bytes)) {
    stack_t stack{};
    stack.ss_sp = memory.get();
    stack.ss_size = bytes;
    sigaltstack(&stack, nullptr);
  }
  ~signal_stack() {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
  static constexpr std::size_t bytes = 128 * 1024;
  std::unique_ptr<std::byte[]> memory;
};

void install_handler() {
  if (asan() || tsan()) return;
  struct sigaction action{};
  action.sa_sigaction = on_segv;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

// Ends the process when a CUDA thread neither ends nor calls the runtime: nothing can preempt it.
void watch_clock() {
  std::map<engine*, std::pair<std::uint64_t, std::uint64_t>> seen;  // visits, milliseconds without a change
  constexpr std::uint64_t interval = 50;
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(interval));
    const std::uint64_t limit = get_settings().watchdog_ms;
    quiet_lock lock(all_launches().mutex);
    for (engine* e : all_launches().engines) {
      auto& [visits, waited] = seen[e];
      waited = e->busy() && e->visits() == visits ? waited + interval : 0;
      visits = e->visits();
      if (waited < limit) continue;
      std::fprintf(stderr, "cudasim: a CUDA thread has not given way for %llu ms\n  kernel %s\n%s",
                   static_cast<unsigned long long>(waited), kernel_name(e->job().kernel).c_str(),
                   e->whereabouts().c_str());
      std::abort();
    }
  }
}

}  // namespace

void provide_signal_stack() {
  if (asan() || tsan()) return;
  static thread_local signal_stack stack;
}

void watch(engine* e) {
  quiet_lock lock(all_launches().mutex);
  all_launches().engines.push_back(e);
  if (all_launches().started) return;
  all_launches().started = true;
  install_handler();
  std::thread([] {
    runtime_scope quiet;
    watch_clock();
  }).detach();
}

void unwatch(engine* e) {
  quiet_lock lock(all_launches().mutex);
  std::erase(all_launches().engines, e);
  all_launches().retired += e->progress_made();
}

std::uint64_t total_progress() {
  quiet_lock lock(all_launches().mutex);
  std::uint64_t sum = all_launches().retired;
  for (const engine* e : all_launches().engines) sum += e->progress_made();
  return sum;
}

bool all_hung(const launch* job, std::uint64_t progress) {
  quiet_lock lock(all_launches().mutex);
  return std::all_of(all_launches().engines.begin(), all_launches().engines.end(),
                     [&](const engine* e) { return e->hung_since(job, progress); });
}

// They go on meanwhile, so this may be a moment's view of each.
std::string others_of(const launch* job, const engine* but) {
  quiet_lock lock(all_launches().mutex);
  std::string s;
  for (const engine* e : all_launches().engines)
    if (e != but && e->works_on(job)) s += "  another worker:\n" + e->whereabouts();
  return s;
}

void give_time() { sched_yield(); }

}  // namespace cudasim::detail
