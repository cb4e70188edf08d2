// What a CUDA thread calls while it runs: polls, atomics, block barriers and sums, and its end.
#include "engine.hpp"
#include "watchdog.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace cudasim::detail {

void engine::give_way(site where) {
  current_->where = where;
  leave();
}

// A block that goes on without polling makes progress, if slowly; one that polls does not.
void engine::step(block& b) {
  if (++b.steps_since_poll > 1024) {
    b.steps_since_poll = 0;
    progress();
  }
}

void engine::poll(site where) {
  ++counts_.polls;
  idle(where);
}

void engine::idle(site where) {
  fiber& f = *current_;
  f.home->home->steps_since_poll = 0;
  f.doing = activity::polling;
  f.where = where;
  if ((++idle_steps_ & 1023) == 0) check_progress(where);
  leave();
  f.doing = activity::running;
}

void engine::check_progress(site where) {
  constexpr std::uint64_t hung = 200000;  // polls of each worker without any progress
  const std::uint64_t all = total_progress();
  if (all != seen_progress_) {
    seen_progress_ = all;
    stale_polls_ = 0;
    return;
  }
  stale_polls_ += 1024;
  give_time();  // what is awaited may need this processor
  if (stale_polls_ < hung) return;
  stale_at_.store(all);
  // Another worker may have run to its end since `all` was read. Then it is idle, but has made progress.
  if (all_hung(job_, all) && total_progress() == all)
    fail(
        "no progress",
        [&] {
          return "every block that runs polls, and none of them changes anything; a block that is waited for may not "
                 "have been started\n" +
                 others_of(job_, this);
        },
        where);
}

void engine::atomic_done(const void* p, bool changed, site where) {
  ++(current_->home->home->shared.contains(p) ? counts_.shared_atomics : counts_.atomics);
  if (changed) {
    progress();
    maybe_give_way(where);
  } else {
    idle(where);  // as a lock that is spun on
  }
}

void engine::arrive(block& b, barrier_op op, site where) {
  fiber& f = *current_;
  f.where = where;
  if (b.live != b.threads)
    fail(
        "divergent barrier",
        [&] { return std::to_string(b.threads - b.live) + " threads of the block have returned from the kernel"; },
        where);
  if (b.arrived == 0) {
    b.op = op;
    b.barrier_site = where;
    b.true_votes = 0;
  } else if (op != b.op || where.line != b.barrier_site.line) {
    fail(
        "divergent barrier", [&] { return std::to_string(b.arrived) + " threads wait at " + describe(b.barrier_site); },
        where);
  }
  ++b.arrived;
}

int engine::barrier(barrier_op op, bool predicate, site where) {
  fiber& f = *current_;
  warp& w = *f.home;
  block& b = *w.home;
  ++counts_.barriers;
  arrive(b, op, where);
  b.true_votes += predicate;
  order_point& order = b.order[b.barriers & 1];
  order.release();
  if (b.arrived == b.threads) {
    complete_barrier(b);
  } else {
    w.ready &= ~(1u << f.lane);
    f.doing = activity::barrier;
    leave();
    f.doing = activity::running;
  }
  order.acquire();
  return b.barrier_result;
}

void engine::complete_barrier(block& b) {
  b.barrier_result = b.true_votes > 0;
  b.arrived = 0;
  if (b.op != barrier_op::sum) ++b.barriers;
  for (unsigned i = 0; i * 32 < b.threads; ++i) {
    b.warps[i].ready = b.warps[i].exists;
    b.warps[i].traffic.converge();
    enqueue(b.warps[i]);
  }
  choose_order(b);
  step(b);
}

std::uint64_t engine::sum(const void* storage, std::size_t bytes, std::uint64_t value, std::uint64_t& total,
                          site where) {
  fiber& f = *current_;
  block& b = *f.home->home;
  const auto* begin = static_cast<const std::byte*>(storage);
  if (b.arrived == 0) {
    std::erase_if(b.storage_uses, [&](const auto& use) { return use.barriers != b.barriers; });
    if (std::any_of(b.storage_uses.begin(), b.storage_uses.end(),
                    [&](const auto& use) { return begin < use.end && use.begin < begin + bytes; }))
      fail("TempStorage reused", [] { return "no barrier since its last use"; }, where);
    runtime_scope quiet;
    b.storage_uses.push_back({begin, begin + bytes, b.barriers});
  }
  arrive(b, barrier_op::sum, where);
  f.request.value = value;
  order_point& order = b.sum_order[b.sums & 1];
  order.release();
  if (b.arrived == b.threads) {
    ++b.sums;
    std::uint64_t before = 0;
    for (unsigned t = 0; t < b.threads; ++t) {
      b.fibers[t].result = before;
      before += b.fibers[t].request.value;
    }
    b.sum = before;
    complete_barrier(b);
  } else {
    f.home->ready &= ~(1u << f.lane);
    f.doing = activity::barrier;
    leave();
    f.doing = activity::running;
  }
  order.acquire();
  total = b.sum;
  return f.result;
}

// The copies read and write as the thread itself does, so that sanitizers see them.
void engine::begin_copy(pending_copy c) {
  fiber& f = *current_;
  f.where = c.where;
  c.group = f.copy_groups;
  std::memset(c.to, job_->options.poison, c.bytes);
  hide(c.to, c.bytes);
  runtime_scope quiet;
  f.copies.push_back(c);
}

void engine::wait_for_copies(unsigned newest) {
  fiber& f = *current_;
  if (newest == 0) ++f.copy_groups;  // also what belongs to none
  const auto awaited = [&](const pending_copy& c) { return f.copy_groups - c.group > newest; };
  for (const pending_copy& c : f.copies) {
    if (!awaited(c)) continue;
    unhide(c.to, c.bytes);
    std::memcpy(c.to, c.from, c.bytes);
  }
  runtime_scope quiet;
  std::erase_if(f.copies, awaited);
}

void engine::exit() {
  fiber& f = *current_;
  if (!f.copies.empty())
    fail(
        "unfinished copy", [] { return "the thread returns from the kernel and has not waited for it"; },
        f.copies[0].where);
  warp& w = *f.home;
  block& b = *w.home;
  const unsigned bit = 1u << f.lane;
  f.doing = activity::exited;
  w.exited |= bit;
  w.ready &= ~bit;
  --b.live;
  if (b.arrived > 0)
    fail(
        "divergent barrier",
        [&] {
          return "the thread returns from the kernel while " + std::to_string(b.arrived) + " threads wait for it";
        },
        b.barrier_site);
  for (unsigned lanes = w.waiting; lanes != 0; lanes &= lanes - 1) {
    const fiber& other = w.lanes[std::countr_zero(lanes)];
    if (other.request.mask & bit)
      fail(
          "exited lane",
          [&] { return "the lane returns from the kernel while lane " + std::to_string(other.lane) + " waits for it"; },
          other.where);
  }
  progress();
  job_->end.release();
  leave();
  __builtin_unreachable();
}

}  // namespace cudasim::detail
