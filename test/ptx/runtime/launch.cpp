// Launches, by <<<>>> and by cudaLaunchKernelEx.
#include "launch.hpp"

#include "../../cudasim/sim/submit.hpp"
#include "registry.hpp"

#include <cstring>

namespace cudaptx {
namespace {

using cudasim::detail::kernel_call;

cudaError_t launch(const cudaLaunchConfig_t& config, const void* host, void** arguments) {
  std::shared_ptr<kernel_call> call;
  const ptx::kernel* code = nullptr;
  if (find(host, code) == cudaSuccess) {  // else the host side refuses
    call = std::make_shared<kernel_call>(code, std::vector<std::byte>(ptx::parameter_bytes(*code)));
    for (const ptx::parameter& p : ptx::parameters(*code))
      std::memcpy(call->arguments.data() + p.offset, *arguments++, p.bytes);
  }
  return cudasim::detail::submit_launch(config, host, call, {"", 0});
}

cudaLaunchConfig_t configuration(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  return {grid, block, shared, stream, nullptr, 0};
}

thread_local std::vector<cudaLaunchConfig_t> pushed;

}  // namespace
}  // namespace cudaptx

using namespace cudaptx;

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                             cudaStream_t stream) {
  return launch(configuration(grid, block, shared, stream), kernel, arguments);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  return config ? launch(*config, kernel, arguments) : launch({}, nullptr, arguments);
}

// A kernel's handle is its host function.
cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}

// What nvcc's host code calls.
extern "C" {

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) { return cudaGetKernel(kernel, host); }

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, CUstream_st* stream) {
  pushed.push_back(configuration(grid, block, shared, stream));
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  if (pushed.empty()) return cudaErrorInvalidConfiguration;
  const cudaLaunchConfig_t c = pushed.back();
  pushed.pop_back();
  *grid = c.gridDim;
  *block = c.blockDim;
  *shared = c.dynamicSmemBytes;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}

}  // extern "C"
