// The engine of one worker thread: runs blocks of a launch, every CUDA thread a fiber.
//
// The scheduler picks a random warp that can run and visits it; in half of all intervals between barriers, the warps of
// a block go one before the other instead. The lanes of a warp run one after the other in a random order, each until it
// has to wait, and each switches straight to the next. Lanes that a collective or a barrier releases become ready
// again; the last to arrive just runs on.
#pragma once

#include "../host/kernels.hpp"
#include "../host/sanitizers.hpp"
#include "../sim/runtime.hpp"
#include "../sim/vector_types.hpp"
#include "context.hpp"
#include "shared_arena.hpp"
#include "traffic.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace cudasim::detail {

struct block;
struct warp;
class engine;

enum class activity : unsigned char { running, collective, barrier, polling, exited };

// Of a thread, until it waits for it.
struct pending_copy {
  void* to;
  const void* from;
  std::size_t bytes;
  unsigned group;
  site where;
};

struct fiber {
  context registers;
  uint3 thread{};
  unsigned lane = 0;
  warp* home = nullptr;
  warp_request request{};
  std::uint64_t result = 0;
  activity doing = activity::running;
  site where{"", 0};  // the last call into the runtime
  std::vector<pending_copy> copies;
  unsigned copy_groups = 0;  // committed
};

struct warp {
  fiber* lanes = nullptr;
  block* home = nullptr;
  unsigned index = 0;
  unsigned exists = 0, ready = 0, waiting = 0, exited = 0;  // lanes
  bool queued = false;
  // __syncwarp orders memory. Groups of lanes are told apart by their lowest lane; two points each, used
  // in turn, because a fast lane may arrive at the next barrier before a slow one has left this one.
  unsigned phase = 0;
  std::array<std::array<order_point, 2>, 32> order;
  warp_traffic traffic;
};

struct block {
  explicit block(std::size_t threads) : stacks(threads), fibers(threads) {}
  ~block();
  stack_slab stacks;
  std::vector<fiber> fibers;
  std::array<warp, 32> warps;
  shared_arena shared;
  uint3 index{};
  unsigned threads = 0, live = 0;
  bool active = false;
  unsigned arrived = 0, true_votes = 0;  // at the barrier
  barrier_op op = barrier_op::plain;
  site barrier_site{"", 0};
  int barrier_result = 0;
  std::uint64_t barriers = 0;  // completed; its parity picks the order point
  std::uint64_t sums = 0;      // the same of block_sum
  std::array<order_point, 2> order, sum_order;
  order_point start;
  struct storage_use {
    const std::byte *begin, *end;
    std::uint64_t barriers;
  };
  std::vector<storage_use> storage_uses;  // of block-wide sums
  std::uint64_t sum = 0;
  bool abandoned = false;  // in the middle of a kernel that failed
  std::uint64_t steps_since_poll = 0;
  // Until the next barrier: whether its warps run one before the other, the first of them, and whether the one with the
  // next lower index follows, or the next higher.
  bool ordered = false;
  unsigned order_begin = 0;
  bool order_falls = false;
};

struct launch : kernel_launch {
  explicit launch(const kernel_launch& l) : kernel_launch(l), blocks(std::uint64_t{grid.x} * grid.y * grid.z) {}
  std::uint64_t blocks;
  std::atomic<std::uint64_t> next{0};
  std::atomic<bool> failed{false};
  order_point start, end;

  bool take(uint3& index);  // the next block, in an order permuted within windows
};

class engine {
 public:
  engine();
  ~engine();
  // Runs blocks of the launch until none is left. `index` tells the engines of one launch apart.
  void run(launch& job, int index);

  std::size_t fibers() const {
    std::size_t sum = 0;
    for (const auto& b : slots_) sum += b->fibers.size();
    return sum;
  }
  fiber* current() const { return current_; }
  launch& job() const { return *job_; }
  counters& counts() { return counts_; }
  static engine* here();  // of this thread, inside a launch

  // For the fiber that runs:
  std::uint64_t collective(const warp_request& request, site where);
  int barrier(barrier_op op, bool predicate, site where);
  std::uint64_t sum(const void* storage, std::size_t storage_bytes, std::uint64_t value, std::uint64_t& total,
                    site where);
  void begin_copy(pending_copy c);
  void wait_for_copies(unsigned newest);
  void poll(site where);
  void idle(site where);  // a step that changed nothing
  void give_way(site where);
  void maybe_give_way(site where) {
    if (random_.below(8) == 0) give_way(where);
  }
  void atomic_done(const void* p, bool changed, site where);
  void progress() { progress_.store(progress_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  // Ends the launch. The text is made by a callable, because the stack of the fiber, with any string on it,
  // is abandoned rather than unwound.
  template <class Text> [[noreturn]] void fail(const char* kind, Text text, const fiber& f, site where) {
    {
      runtime_scope quiet;
      stop_launch(report(kind, text(), &f, nullptr, where));
    }
    abandon();
  }
  template <class Text> [[noreturn]] void fail(const char* kind, Text text, site where) {
    fail(kind, text, *current_, where);
  }
  [[noreturn]] void exit();  // the CUDA thread returned from its kernel

  // For the watchdog, from other threads:
  std::uint64_t visits() const { return visits_.load(std::memory_order_relaxed); }
  bool busy() const { return busy_.load(std::memory_order_acquire); }
  std::string whereabouts() const;
  bool hung_since(const launch* job, std::uint64_t progress) const {
    return !busy() || job_ != job || stale_at_.load() == progress;
  }
  bool works_on(const launch* job) const { return busy() && job_ == job; }
  std::uint64_t progress_made() const { return progress_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t never = ~std::uint64_t{0};

  bool start_block();
  void start_fiber(block& b, unsigned thread);
  void finish_block(block& b);
  void give_up(block& b);
  void choose_order(block& b);
  warp& first_that_runs(warp& w);
  void visit(warp& w);
  fiber* next_lane();
  void leave();  // the fiber that runs stops here until it is ready and picked again
  void stop_launch(const std::string& report);
  void complete(warp& w, unsigned lanes);
  void arrive(block& b, barrier_op op, site where);
  void complete_barrier(block& b);
  void check_progress(site where);
  void enqueue(warp& w);
  void step(block& b);
  void check_partners(const warp& w, const fiber& f);
  [[noreturn]] void abandon();
  std::string report(const std::string& kind, const std::string& text, const fiber* f, const block* b,
                     site where) const;
  void report_deadlock();

  launch* job_ = nullptr;
  fiber* current_ = nullptr;
  warp* visited_ = nullptr;
  unsigned done_lanes_ = 0, order_step_ = 0, order_offset_ = 0, order_stride_ = 1;
  random random_;
  std::vector<std::unique_ptr<block>> slots_;
  std::size_t resident_limit_ = 1;
  std::vector<warp*> queue_;  // warps with ready lanes; may hold some that no longer have any
  context scheduler_;
  counters counts_;
  std::atomic<std::uint64_t> visits_{0}, progress_{0};
  std::atomic<bool> busy_{false};
  std::atomic<std::uint64_t> stale_at_{never};  // the sum of all progress since which this engine only polled
  std::uint64_t idle_steps_ = 0, stale_polls_ = 0, seen_progress_ = 0;
  void* root_ = nullptr;  // the scheduler's identity for ThreadSanitizer
};

std::string kernel_name(const void* function);
std::string describe(site where);  // file:line, the file without its directories

// A helper thread calls this first. To ThreadSanitizer the birth of a thread writes its thread_locals,
// threadIdx among them, which the CUDA threads that run on it then read.
void thread_born();

}  // namespace cudasim::detail
