// What the host side asks of those who run kernels. There are two of them: ../fibers runs what g++ made of them,
// ../../ptx/runtime what nvcc made.
#pragma once

#include "../sim/submit.hpp"
#include "state.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace cudasim::detail {

struct tensor_ranges {
  struct range {
    std::uint64_t begin, end;
  };
  std::vector<range> ranges;
  bool contains(std::uint64_t p) const {
    for (const range& r : ranges)
      if (p >= r.begin && p < r.end) return true;
    return false;
  }
};
std::shared_ptr<const tensor_ranges> current_tensors();

struct kernel_launch {
  std::shared_ptr<const kernel_call> call;
  const void* kernel = nullptr;
  dim3 grid, block;
  std::size_t dynamic_bytes = 0;
  site where{"", 0};
  std::uint64_t seed = 0;
  settings options;
  std::shared_ptr<const tensor_ranges> tensors;
};

// What a stream runs its kernels with, from its first one on.
class kernel_runner {
 public:
  virtual ~kernel_runner() = default;
  virtual void run(const kernel_launch& l) = 0;  // to its end; what goes wrong is for record_error
  virtual void recycle() {}                      // the stream has ended, and nothing binds the runner to it
};
std::unique_ptr<kernel_runner> make_runner();
void before_streams();  // on a thread of the host's, which the program's other threads may know

void apply(const settings& s);

// --- What kernels run on --------------------------------------------------------------------------------------------

struct device_limits {
  int compute_capability;  // 90 for 9.0
  int threads_per_sm, blocks_per_sm;
  int shared_per_sm, shared_per_block,
      shared_reserved;  // that a kernel may opt in to; that a block costs beside its own
  int processors = 0;   // 0: as the settings say
};
device_limits limits();

struct kernel_limits {
  int threads = 1024;
  std::size_t static_shared = 0, local = 0;
};
cudaError_t find_kernel(const void* kernel, kernel_limits& l);
// The blocks that a multiprocessor holds, if registers count; else leaves `blocks` as it is.
cudaError_t count_registers(const void* kernel, int threads, std::size_t dynamic_bytes, int& blocks);

// --- What kernels may touch, if anyone wants to know ---------------------------------------------------------------

void memory_comes(const void* p, std::size_t bytes, bool device_memory);
void memory_goes(const void* p);
// To device memory, from the host and between devices.
void bytes_written(const void* to, std::size_t bytes);
void bytes_copied(const void* to, const void* from, std::size_t bytes);

}  // namespace cudasim::detail
