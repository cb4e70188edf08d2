// Launches as nvcc's programs make them, and the runner of kernels behind them.
#include "registration.hpp"

#include "../../cudasim/src/host.hpp"

#include <cuda_runtime.h>

#include <cstring>

namespace cudasim::detail {
namespace {

struct ptx_call final : kernel_call {
  void run() const override {}  // of one thread: there are none
  const ptx::kernel* code = nullptr;
  std::vector<std::byte> arguments;
};

// The number in TUCK_PTX_ARCH: 75.
constexpr int architecture = CUDAPTX_ARCH;

const ptx::kernel* find(const void* function) {
  std::string why;
  const ptx::kernel* k = registered_kernel(function, why);
  if (k == nullptr) record_error("cudaptx: a kernel that cannot run: " + why + "\n");
  return k;
}

cudaError_t launch_kernel(const cudaLaunchConfig_t& config, const void* function, void** arguments) {
  if (function == nullptr) return submit_launch(config, nullptr, nullptr, {"", 0});
  auto call = std::make_shared<ptx_call>();
  call->code = find(function);
  if (call->code == nullptr) return cudaErrorInvalidKernelImage;
  call->arguments.resize(ptx::parameter_bytes(*call->code));
  std::size_t i = 0;
  for (const auto& [offset, bytes] : ptx::parameters(*call->code))
    std::memcpy(call->arguments.data() + offset, arguments[i++], bytes);
  return submit_launch(config, function, std::move(call), {"", 0});
}

void add(const ptx::counters& c) {
  add_counts({c.atomics, c.shared_atomics, c.polls, c.barriers});
  count(&counters::tensor_bytes_read, c.tensor_bytes_read);
  count(&counters::tensor_bytes_written, c.tensor_bytes_written);
  count(&counters::other_bytes_read, c.other_bytes_read);
  count(&counters::other_bytes_written, c.other_bytes_written);
  count(&counters::tensor_sectors_read, c.tensor_sectors_read);
  count(&counters::tensor_sectors_written, c.tensor_sectors_written);
  count(&counters::other_sectors_read, c.other_sectors_read);
  count(&counters::other_sectors_written, c.other_sectors_written);
}

}  // namespace

void run_launch(CUstream_st&, const launch_request& request) {
  const auto& call = static_cast<const ptx_call&>(*request.call);
  std::vector<ptx::range> tensors;
  for (const auto& r : request.tensors->ranges) tensors.push_back({r.begin, r.end});
  ptx::launch l;
  l.code = call.code;
  l.grid = {request.grid.x, request.grid.y, request.grid.z};
  l.block = {request.block.x, request.block.y, request.block.z};
  l.dynamic_shared = static_cast<uint32_t>(request.dynamic_bytes);
  l.arguments = call.arguments;
  l.seed = request.seed;
  l.poison = request.options.poison;
  l.tensors = tensors;
  l.traffic = request.options.count_traffic;
  try {
    add(ptx::run(l));
  } catch (const ptx::error& e) {
    record_error(e.what());
  }
}

void prepare_to_run() {}
void retire_runners(CUstream_st&) {}

// The CUDA C++ programming guide's table of technical specifications.
device_limits limits_of_device() {
  constexpr int major = architecture / 10, minor = architecture % 10;
  constexpr bool large = architecture == 90 || architecture == 100 || architecture == 103;
  constexpr int shared = architecture == 75 ? 64 : architecture == 80 ? 164 : large ? 228 : 100;
  constexpr int threads = architecture == 75 ? 1024 : architecture == 80 || large ? 2048 : 1536;
  return {major, minor, (architecture == 75 ? shared : shared - 1) * 1024, shared * 1024, threads};
}

kernel_limits limits_of_kernel(const void* function) {
  const ptx::kernel* k = find(function);
  if (k == nullptr) return {0, 0, 0};
  return {ptx::max_threads(*k), ptx::static_shared_bytes(*k), ptx::local_bytes(*k)};
}

void memory_added(const void* p, std::size_t bytes, bool device_memory) {
  ptx::add_memory(p, bytes, device_memory ? ptx::memory_kind::device : ptx::memory_kind::host);
}
void memory_removed(const void* p) { ptx::remove_memory(p); }
void memory_written(const void* p, std::size_t bytes) { ptx::mark_written(p, bytes); }
void memory_copied(const void* to, const void* from, std::size_t bytes) { ptx::mark_copied(to, from, bytes); }

}  // namespace cudasim::detail

using namespace cudasim::detail;

extern "C" {

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return config == nullptr ? cudaErrorInvalidValue : launch_kernel(*config, function, arguments);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t dynamic_bytes,
                             cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = dynamic_bytes;
  config.stream = stream;
  return launch_kernel(config, function, arguments);
}

// Behind <<<>>>: the configuration waits for the stub that takes the arguments.
static thread_local std::vector<cudaLaunchConfig_t> configurations;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t dynamic_bytes, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = dynamic_bytes;
  config.stream = stream;
  configurations.push_back(config);
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* dynamic_bytes, void* stream) {
  if (configurations.empty()) return cudaErrorInvalidConfiguration;
  const cudaLaunchConfig_t config = configurations.back();
  configurations.pop_back();
  *grid = config.gridDim;
  *block = config.blockDim;
  *dynamic_bytes = config.dynamicSmemBytes;
  *static_cast<cudaStream_t*>(stream) = config.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t dynamic_bytes,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, dynamic_bytes, stream);
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return set_function_attribute(function, attribute, value);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return get_function_attributes(attributes, function);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                          size_t dynamic_bytes) {
  return resident_blocks(blocks, function, threads, dynamic_bytes);
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads,
                                                                   size_t dynamic_bytes, unsigned) {
  return resident_blocks(blocks, function, threads, dynamic_bytes);
}
cudaError_t cudaMallocHost(void** p, size_t bytes) { return cudaHostAlloc(p, bytes, cudaHostAllocDefault); }
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }

}  // extern "C"
