// A launch's blocks: on the stream's own thread, and on helpers if any is free in time.
#include "../host.hpp"
#include "helpers.hpp"

#include <algorithm>

namespace cudasim::detail {
namespace {

struct spares {
  quiet_mutex mutex;
  kernel_runner engines;
};

spares& all() {
  static spares& s = *new spares;
  return s;
}

std::unique_ptr<engine> spare_engine() {
  quiet_lock lock(all().mutex);
  if (all().engines.empty()) return nullptr;
  auto e = std::move(all().engines.back());
  all().engines.pop_back();
  return e;
}

}  // namespace

void run_launch(CUstream_st& s, const launch_request& request) {
  launch job(request);
  s.launched = s.completed.load() + 1;
  const std::uint64_t wanted =
      std::min<std::uint64_t>(static_cast<std::uint64_t>(std::max(1, job.options.workers)), job.blocks);
  while (s.runner.size() < wanted) {
    auto e = spare_engine();
    s.runner.push_back(e ? std::move(e) : std::make_unique<engine>());
  }
  job.start.release();
  std::vector<std::shared_ptr<help>> helpers;
  for (std::size_t i = 1; i < wanted; ++i) helpers.push_back(ask_for_help(job, *s.runner[i], static_cast<int>(i)));
  s.runner[0]->run(job, 0);
  for (auto& h : helpers) h->finish();
  job.end.acquire();
}

void prepare_to_run() { provide_helpers(get_settings().workers); }

// A ThreadSanitizer fiber remembers what its stream did before its last launch: another stream may have it only if the
// host waited for that.
void retire_runners(CUstream_st& s) {
  quiet_lock lock(all().mutex);
  s.branches.push_back(std::move(s.runner));
  if (!tsan() || static_cast<std::int32_t>(s.waited_for - s.launched) >= 0)
    for (auto& set : s.branches)
      for (auto& e : set) all().engines.push_back(std::move(e));
  s.branches.clear();
}

// Guesses: registers and static shared memory are not known.
device_limits limits_of_device() { return {9, 0, 227 * 1024, 228 * 1024, 2048}; }
kernel_limits limits_of_kernel(const void*) { return {1024, 0, 0}; }

// The sanitizers know of memory what is to be known.
void memory_added(const void*, std::size_t, bool) {}
void memory_removed(const void*) {}
void memory_written(const void*, std::size_t) {}
void memory_copied(const void*, const void*, std::size_t) {}

}  // namespace cudasim::detail
