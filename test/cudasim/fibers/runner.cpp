// How kernels run that g++ compiled: on engines, one of which the stream's own thread has.
#include "../host/quiet_mutex.hpp"
#include "engine.hpp"
#include "helpers.hpp"

#include <algorithm>

namespace cudasim::detail {
namespace {

struct spares {
  quiet_mutex mutex;
  std::vector<std::unique_ptr<engine>> engines;
};

spares& all_spares() {
  static spares& s = *new spares;
  return s;
}

std::unique_ptr<engine> new_or_spare() {
  quiet_lock lock(all_spares().mutex);
  if (all_spares().engines.empty()) return std::make_unique<engine>();
  auto e = std::move(all_spares().engines.back());
  all_spares().engines.pop_back();
  return e;
}

class fiber_runner final : public kernel_runner {
 public:
  // The other engines run on helpers if any is free in time.
  void run(const kernel_launch& l) override {
    launch job(l);
    const std::uint64_t wanted =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(std::max(1, job.options.workers)), job.blocks);
    while (engines_.size() < wanted) engines_.push_back(new_or_spare());
    job.start.release();
    std::vector<std::shared_ptr<help>> helpers;
    for (std::size_t i = 1; i < wanted; ++i) helpers.push_back(ask_for_help(job, *engines_[i], static_cast<int>(i)));
    engines_[0]->run(job, 0);
    for (auto& h : helpers) h->finish();
    job.end.acquire();
  }

  // ThreadSanitizer has 8128 threads and fibers at most: beside those that run, a quarter of them.
  void recycle() override {
    quiet_lock lock(all_spares().mutex);
    std::size_t kept = 0;
    for (const auto& e : all_spares().engines) kept += e->fibers();
    for (auto& e : engines_) {
      kept += e->fibers();
      if (tsan() && kept > 2048) break;
      all_spares().engines.push_back(std::move(e));
    }
    engines_.clear();
  }

 private:
  std::vector<std::unique_ptr<engine>> engines_;
};

}  // namespace

std::unique_ptr<kernel_runner> make_runner() { return std::make_unique<fiber_runner>(); }
void before_streams() { provide_helpers(get_settings().workers); }
void apply(const settings& s) { traffic_enabled = s.count_traffic; }

device_limits limits() { return {90, 2048, 32, 228 * 1024, 227 * 1024, 1024}; }
// The shared memory that a kernel has of its own is not known before it runs.
cudaError_t count_registers(const void*, int, std::size_t, int&) { return cudaSuccess; }
cudaError_t find_kernel(const void* kernel, kernel_limits&) {
  return kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

// The sanitizers know.
void memory_comes(const void*, std::size_t, bool) {}
void memory_goes(const void*) {}
void bytes_written(const void*, std::size_t) {}
void bytes_copied(const void*, const void*, std::size_t) {}

}  // namespace cudasim::detail
