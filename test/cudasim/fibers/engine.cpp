// The scheduler: starts and ends blocks, visits warps.
#include "engine.hpp"

#include "watchdog.hpp"

#include <pthread.h>

#include <algorithm>

constinit thread_local uint3 threadIdx{0, 0, 0};
constinit thread_local uint3 blockIdx{0, 0, 0};
constinit thread_local dim3 blockDim{};
constinit thread_local dim3 gridDim{};

namespace cudasim::detail {
namespace {

constinit thread_local engine* this_engine = nullptr;
constinit thread_local order_point* birth = nullptr;

void fiber_main() {
  engine& e = *engine::here();
  entered(e.current()->registers);
  e.current()->home->home->start.acquire();
  e.job().call->run();
  e.exit();
}

// Of the thread's own stack, which ASan must know to switch back to it.
void find_stack(context& c) {
  pthread_attr_t attributes;
  void* bottom = nullptr;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &bottom, &c.stack_bytes);
  pthread_attr_destroy(&attributes);
  c.stack = bottom;
}

}  // namespace

bool launch::take(uint3& index) {
  const std::uint64_t position = next.fetch_add(1, std::memory_order_relaxed);
  if (position >= blocks) return false;
  const std::uint64_t b = shuffled_block(position, blocks, seed);
  index.x = static_cast<unsigned>(b % grid.x);
  index.y = static_cast<unsigned>(b / grid.x % grid.y);
  index.z = static_cast<unsigned>(b / grid.x / grid.y);
  return true;
}

block::~block() {
  for (fiber& f : fibers)
    if (f.registers.tsan_fiber) __tsan_destroy_fiber(f.registers.tsan_fiber);
}

engine* engine::here() { return this_engine; }

void thread_born() {
  if (!tsan()) return;
  birth = new order_point;  // as long as the helper lives, which is for ever
  birth->release();
}

engine::engine() {
  if (tsan()) root_ = __tsan_create_fiber(0);
  watch(this);
}

engine::~engine() {
  unwatch(this);
  slots_.clear();
  if (root_) __tsan_destroy_fiber(root_);
}

void engine::run(launch& job, int index) {
  provide_signal_stack();
  void* native = nullptr;
  if (tsan()) {
    native = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(root_, 1);
  }
  if (birth) birth->acquire();
  job.start.acquire();
  {
    // The scheduler never acquires from CUDA threads: it would order each block after the ones before.
    runtime_scope quiet;
    this_engine = this;
    job_ = &job;
    random_ = random(mix(job.seed, static_cast<std::uint64_t>(index) + 1000));
    const std::size_t threads = std::size_t{job.block.x} * job.block.y * job.block.z;
    resident_limit_ =
        std::min<std::size_t>(1 + random_.below(tsan() ? 2 : 4), std::max<std::size_t>(1, 4096 / threads));
    scheduler_.tsan_fiber = root_;
    if (asan()) find_stack(scheduler_);
    blockDim = job.block;
    gridDim = job.grid;
    stale_polls_ = 0;
    stale_at_.store(never);
    busy_.store(true);
    while (start_block()) {
    }
    for (;;) {
      if (job.failed.load(std::memory_order_relaxed)) break;
      if (queue_.empty()) {
        if (std::none_of(slots_.begin(), slots_.end(), [](const auto& b) { return b->active; })) break;
        report_deadlock();
        break;
      }
      const std::size_t pick = random_.below(queue_.size());
      warp& w = *queue_[pick];
      if (w.ready == 0) {
        w.queued = false;
        queue_[pick] = queue_.back();
        queue_.pop_back();
        continue;
      }
      visit(first_that_runs(w));
      if (w.home->live == 0 && w.home->active) {
        finish_block(*w.home);
        while (start_block()) {
        }
      }
    }
    queue_.clear();
    for (auto& b : slots_)
      if (b->active) give_up(*b);
    busy_.store(false);
    add_counts(counts_);
    counts_ = {};
    this_engine = nullptr;
    job_ = nullptr;
  }
  job.end.release();
  if (tsan()) __tsan_switch_to_fiber(native, 1);
}

// Of a launch that failed: what its threads did is still before the end of the launch.
void engine::give_up(block& b) {
  b.active = false;
  b.abandoned = true;
  if (!tsan()) return;
  for (unsigned t = 0; t < b.threads; ++t) {
    __tsan_switch_to_fiber(b.fibers[t].registers.tsan_fiber, 1);
    job_->end.release();
    __tsan_switch_to_fiber(root_, 1);
  }
}

bool engine::start_block() {
  const auto active = std::count_if(slots_.begin(), slots_.end(), [](const auto& b) { return b->active; });
  if (static_cast<std::size_t>(active) >= resident_limit_) return false;
  uint3 index;
  if (!job_->take(index)) return false;
  const std::size_t threads = std::size_t{job_->block.x} * job_->block.y * job_->block.z;
  auto slot = std::find_if(slots_.begin(), slots_.end(), [](const auto& b) { return !b->active; });
  if (slot == slots_.end()) slot = slots_.insert(slots_.end(), nullptr);
  if (!*slot || (*slot)->fibers.size() < threads) *slot = std::make_unique<block>(threads);
  block& b = **slot;
  b.index = index;
  b.threads = b.live = static_cast<unsigned>(threads);
  b.arrived = 0;
  b.barriers = b.steps_since_poll = 0;
  b.storage_uses.clear();
  b.active = true;
  b.shared.begin(job_->dynamic_bytes, job_->options.poison);
  if (tsan()) b.start.release();
  for (unsigned i = 0; i * 32 < b.threads; ++i) {
    warp& w = b.warps[i];
    w.lanes = &b.fibers[i * 32];
    w.home = &b;
    w.index = i;
    const unsigned lanes = std::min(32u, b.threads - i * 32);
    w.exists = w.ready = lanes == 32 ? ~0u : (1u << lanes) - 1;
    w.waiting = w.exited = 0;
    w.queued = false;
    enqueue(w);
  }
  for (unsigned t = 0; t < b.threads; ++t) start_fiber(b, t);
  choose_order(b);
  b.abandoned = false;
  progress();
  return true;
}

void engine::start_fiber(block& b, unsigned thread) {
  fiber& f = b.fibers[thread];
  f.registers.stack = b.stacks.lowest(thread);
  f.registers.stack_bytes = stack_slab::usable_bytes();
  // The frames of the last thread here were left, not returned from: their red zones are still set.
  const std::size_t stale = b.abandoned ? f.registers.stack_bytes : 4096;
  unhide(b.stacks.lowest(thread) + f.registers.stack_bytes - stale, stale);
  prepare(f.registers, fiber_main);
  if (tsan() && !f.registers.tsan_fiber) f.registers.tsan_fiber = __tsan_create_fiber(0);
  const dim3& d = job_->block;
  f.thread = {thread % d.x, thread / d.x % d.y, thread / d.x / d.y};
  f.lane = thread % 32;
  f.home = &b.warps[thread / 32];
  f.doing = activity::running;
  f.where = {"", 0};
  f.copies.clear();
  f.copy_groups = 0;
}

void engine::finish_block(block& b) {
  b.active = false;
  progress();
  for (unsigned i = 0; i * 32 < b.threads; ++i) b.warps[i].traffic.flush(*job_->tensors);
  const std::string damage = b.shared.damage();
  if (!damage.empty()) stop_launch(report("shared memory out of bounds", damage, nullptr, &b, {"", 0}));
}

void engine::enqueue(warp& w) {
  if (w.queued) return;
  w.queued = true;
  queue_.push_back(&w);
}

// Warps that take turns are never far from each other: one that begins has begun before another is through. A missing
// barrier often shows only where one warp is at its end before another begins.
void engine::choose_order(block& b) {
  const std::uint64_t r = random_.next();
  b.ordered = (r & 1) != 0;
  b.order_falls = (r & 2) != 0;
  b.order_begin = static_cast<unsigned>(r >> 32) % ((b.threads + 31) / 32);
}

// The warp of the same block that runs instead of this one. Sometimes it is this one, as others may wait for it.
warp& engine::first_that_runs(warp& w) {
  block& b = *w.home;
  if (!b.ordered || random_.below(32) == 0) return w;
  const unsigned warps = (b.threads + 31) / 32;
  for (unsigned i = 0; i < warps; ++i) {
    warp& other = b.warps[(b.order_begin + (b.order_falls ? warps - i : i)) % warps];
    if (other.ready != 0) return other;
  }
  return w;
}

void engine::visit(warp& w) {
  visits_.store(visits() + 1, std::memory_order_relaxed);
  visited_ = &w;
  done_lanes_ = order_step_ = 0;
  const std::uint64_t r = random_.next();
  order_offset_ = static_cast<unsigned>(r) & 31;
  order_stride_ = static_cast<unsigned>(r >> 32) | 1;
  blockIdx = w.home->index;
  if (fiber* f = next_lane()) {
    current_ = f;
    threadIdx = f->thread;
    switch_context(scheduler_, f->registers);
  }
  current_ = nullptr;
}

fiber* engine::next_lane() {
  while (visited_->ready & ~done_lanes_ && order_step_ < 32) {
    const unsigned lane = (order_stride_ * order_step_++ + order_offset_) & 31;
    if (visited_->ready >> lane & 1) {
      done_lanes_ |= 1u << lane;
      return visited_->lanes + lane;
    }
  }
  return nullptr;
}

void engine::leave() {
  fiber* self = current_;
  fiber* next = next_lane();
  current_ = next;
  if (next) {
    threadIdx = next->thread;
    switch_context(self->registers, next->registers);
  } else {
    switch_context(self->registers, scheduler_);
  }
}

}  // namespace cudasim::detail
