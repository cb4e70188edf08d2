// Between the host half, which this folder is, and what runs kernels: fibers of the simulator, or the PTX engine behind
// programs of nvcc. Which of them it is the include path says, by its <kernel_runner.hpp>.
#pragma once

#include "state.hpp"
#include "traffic.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

namespace cudasim::detail {

struct launch_request {
  std::shared_ptr<const kernel_call> call;
  const void* kernel = nullptr;
  dim3 grid, block;
  std::size_t dynamic_bytes = 0;
  site where{"", 0};
  std::uint64_t seed = 0;
  settings options;
  std::shared_ptr<const tensor_ranges> tensors;
  std::uint64_t blocks = 0;
};

cudaError_t submit_launch(const cudaLaunchConfig_t& config, const void* kernel, std::shared_ptr<const kernel_call> call,
                          site where);

cudaError_t set_function_attribute(const void* kernel, cudaFuncAttribute attribute, int value);
cudaError_t get_function_attributes(cudaFuncAttributes* attributes, const void* kernel);
cudaError_t resident_blocks(int* blocks, const void* kernel, int threads, std::size_t dynamic_bytes);

// --- What a runner of kernels provides -----------------------------------------------------------------------------

// Runs it to its end, on the stream's thread and maybe others; an error is recorded (record_error).
void run_launch(CUstream_st& s, const launch_request& request);
void prepare_to_run();                // by the host, before the first launch of a new stream
void retire_runners(CUstream_st& s);  // of a stream that ends

struct device_limits {
  int major, minor;
  int max_shared, shared_per_sm;  // bytes: of a block that opts in, and of a multiprocessor
  int threads_per_sm;
};
device_limits limits_of_device();
struct kernel_limits {
  int max_threads;
  std::size_t static_shared, local;  // bytes
};
kernel_limits limits_of_kernel(const void* kernel);

// Memory comes and goes, and the host or a copy writes it.
void memory_added(const void* p, std::size_t bytes, bool device_memory);
void memory_removed(const void* p);
void memory_written(const void* p, std::size_t bytes);
void memory_copied(const void* to, const void* from, std::size_t bytes);

}  // namespace cudasim::detail
