// Launching: cudaLaunchKernelEx copies the arguments into an object that every CUDA thread calls.
#pragma once

#include "host_api.hpp"
#include "runtime.hpp"

#include <memory>
#include <tuple>
#include <utility>

enum cudaLaunchAttributeID : int {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6,
  cudaLaunchAttributePriority = 8
};
union cudaLaunchAttributeValue {
  char pad[64];
  int cooperative, programmaticStreamSerializationAllowed, priority;
  struct {
    unsigned x, y, z;
  } clusterDim;
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

enum cudaFuncAttribute : int {
  cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
  cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
struct cudaFuncAttributes {
  std::size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
  int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, maxDynamicSharedSizeBytes;
};

namespace cudasim::detail {

// Takes the caller's place along with the configuration: a parameter pack leaves no room for defaults.
struct placed_config {
  placed_config(const cudaLaunchConfig_t* c, site w = site::here()) : config(c), where(w) {}
  const cudaLaunchConfig_t* config;
  site where;
};

template <class... Parameters> struct bound_kernel final : kernel_call {
  template <class... Arguments>
  explicit bound_kernel(void (*k)(Parameters...), Arguments&&... a)
      : kernel(k), arguments(std::forward<Arguments>(a)...) {}
  void run() const override { std::apply(kernel, arguments); }
  void (*kernel)(Parameters...);
  std::tuple<std::remove_cvref_t<Parameters>...> arguments;
};

cudaError_t submit_launch(const cudaLaunchConfig_t& config, const void* kernel, std::shared_ptr<const kernel_call> call,
                          site where);
cudaError_t set_function_attribute(const void* kernel, cudaFuncAttribute attribute, int value);
cudaError_t get_function_attributes(cudaFuncAttributes* attributes, const void* kernel);
cudaError_t resident_blocks(int* blocks, const void* kernel, int threads, std::size_t dynamic_bytes);

}  // namespace cudasim::detail

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(cudasim::detail::placed_config config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  if (!config.config || !kernel) return cudasim::detail::submit_launch({}, nullptr, nullptr, config.where);
  auto call = std::make_shared<const cudasim::detail::bound_kernel<Parameters...>>(
      kernel, std::forward<Arguments>(arguments)...);
  return cudasim::detail::submit_launch(*config.config, reinterpret_cast<const void*>(kernel), std::move(call),
                                        config.where);
}

template <class... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
  return cudasim::detail::set_function_attribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
inline cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return cudasim::detail::set_function_attribute(kernel, attribute, value);
}
template <class... Parameters>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(Parameters...)) {
  return cudasim::detail::get_function_attributes(attributes, reinterpret_cast<const void*>(kernel));
}
template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*kernel)(Parameters...), int threads,
                                                          std::size_t dynamic_bytes) {
  return cudasim::detail::resident_blocks(blocks, reinterpret_cast<const void*>(kernel), threads, dynamic_bytes);
}
