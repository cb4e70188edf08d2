// How kernels run that nvcc compiled: by the PTX engine, on the stream's own thread.
#include "../../cudasim/host/kernels.hpp"

#include "launch.hpp"
#include "registry.hpp"
#include "time.hpp"

#include <cstdlib>
#include <mutex>
#include <sstream>

namespace cudasim::detail {
namespace {

counters counted(const ptx::counters& c) {
  counters sum;
  sum.atomics = c.atomics;
  sum.shared_atomics = c.shared_atomics;
  sum.polls = c.polls;
  sum.barriers = c.barriers;
  sum.tensor_bytes_read = c.tensor_bytes_read;
  sum.tensor_bytes_written = c.tensor_bytes_written;
  sum.other_bytes_read = c.other_bytes_read;
  sum.other_bytes_written = c.other_bytes_written;
  sum.tensor_sectors_read = c.tensor_sectors_read;
  sum.tensor_sectors_written = c.tensor_sectors_written;
  sum.other_sectors_read = c.other_sectors_read;
  sum.other_sectors_written = c.other_sectors_written;
  return sum;
}

ptx::extent extent(const dim3& d) { return {d.x, d.y, d.z}; }

class ptx_runner final : public kernel_runner {
 public:
  void run(const kernel_launch& l) override {
    std::vector<ptx::range> tensors;
    for (const auto& r : l.tensors->ranges) tensors.push_back({r.begin, r.end});
    ptx::launch job;
    job.code = l.call->code;
    job.grid = extent(l.grid);
    job.block = extent(l.block);
    job.dynamic_shared = static_cast<std::uint32_t>(l.dynamic_bytes);
    job.arguments = l.call->arguments;
    job.seed = l.seed;
    job.poison = l.options.poison;
    job.tensors = tensors;
    try {
      add_counts(counted(ptx::run(job)));
    } catch (const std::exception& e) {
      const std::string report = e.what();
      record_error(report.ends_with('\n') ? report : report + "\n");
    }
  }
};

struct architecture {
  int target;
  device_limits limits;
};
// From the table of compute capabilities in CUDA's programming guide. The first is for what is not listed.
constexpr int kib = 1024;
constexpr architecture architectures[] = {
    {75, {75, 1024, 16, 64 * kib, 64 * kib, 0}},      {80, {80, 2048, 32, 164 * kib, 163 * kib, kib}},
    {86, {86, 1536, 16, 100 * kib, 99 * kib, kib}},   {89, {89, 1536, 24, 100 * kib, 99 * kib, kib}},
    {90, {90, 2048, 32, 228 * kib, 227 * kib, kib}},  {100, {100, 2048, 32, 228 * kib, 227 * kib, kib}},
    {120, {120, 1536, 24, 100 * kib, 99 * kib, kib}},
};

device_limits limits_of(int target) {
  for (const architecture& a : architectures)
    if (a.target == target) return a.limits;
  return architectures[0].limits;
}

}  // namespace

// CUDASIM_MAY_READ_UNWRITTEN=one.cuh:two.cuh in the environment.
static void read_environment() {
  const char* files = std::getenv("CUDASIM_MAY_READ_UNWRITTEN");
  if (files == nullptr) return;
  ptx::settings changed = ptx::current_settings();
  std::istringstream all(files);
  for (std::string file; std::getline(all, file, ':');) changed.may_read_unwritten.push_back(file);
  ptx::configure(changed);
}

std::unique_ptr<kernel_runner> make_runner() { return std::make_unique<ptx_runner>(); }
void before_streams() {
  static std::once_flag once;
  std::call_once(once, read_environment);
}

void apply(const settings& s) {
  ptx::settings changed = ptx::current_settings();
  changed.traffic = s.count_traffic;
  changed.shuffle = !s.count_traffic;  // or lanes of one request come apart
  ptx::configure(changed);
}

device_limits limits() {
  if (const auto model = ptx::time::current_model()) {
    const auto whole = [](double n) { return static_cast<int>(n); };
    const ptx::time::machine& on = model->on;
    device_limits l = limits_of(on.arch);
    l.threads_per_sm = whole(on.threads);
    l.blocks_per_sm = whole(on.blocks);
    l.shared_per_sm = whole(on.shared_bytes);
    l.processors = whole(on.processors);
    return l;
  }
  return limits_of(cudaptx::target());
}
cudaError_t find_kernel(const void* kernel, kernel_limits& l) {
  const ptx::kernel* code = nullptr;
  const cudaError_t e = cudaptx::find(kernel, code);
  if (e == cudaSuccess) l = {ptx::max_threads(*code), ptx::static_shared_bytes(*code), ptx::local_bytes(*code)};
  return e;
}

cudaError_t count_registers(const void* kernel, int threads, std::size_t dynamic_bytes, int& blocks) {
  const auto model = ptx::time::current_model();
  if (model == nullptr) return cudaSuccess;
  const ptx::kernel* code = nullptr;
  if (const cudaError_t e = cudaptx::find(kernel, code); e != cudaSuccess) return e;
  try {
    const std::size_t shared = ptx::static_shared_bytes(*code) + dynamic_bytes;
    blocks = static_cast<int>(ptx::time::resident_blocks(
        model->on, model->registers(*code), static_cast<std::uint32_t>(threads), static_cast<std::uint32_t>(shared)));
    return cudaSuccess;
  } catch (const std::exception& e) {
    record_error(std::string(e.what()) + "\n");
    return cudaErrorInvalidKernelImage;
  }
}

// A graph's replays hand out the same memory again and again.
void memory_comes(const void* p, std::size_t bytes, bool device_memory) {
  ptx::remove_memory(p);
  ptx::add_memory(p, bytes, device_memory ? ptx::memory_kind::device : ptx::memory_kind::host);
}

void memory_goes(const void* p) { ptx::remove_memory(p); }
void bytes_written(const void* to, std::size_t bytes) { ptx::mark_written(to, bytes); }
void bytes_copied(const void* to, const void* from, std::size_t bytes) { ptx::mark_copied(to, from, bytes); }

}  // namespace cudasim::detail
