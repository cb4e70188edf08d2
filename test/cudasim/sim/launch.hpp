// Launching: cudaLaunchKernelEx copies the arguments into an object that every CUDA thread calls.
#pragma once

#include "host_api.hpp"
#include "runtime.hpp"

#include <memory>
#include <tuple>
#include <utility>

namespace cudasim::detail {

// Takes the caller's place along with the configuration: a parameter pack leaves no room for defaults.
struct placed_config {
  placed_config(const cudaLaunchConfig_t* c, site w = {}) : config(c), where(w) {}
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
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
template <class... Parameters>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void (*kernel)(Parameters...), int threads,
                                                          std::size_t dynamic_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, reinterpret_cast<const void*>(kernel), threads,
                                                                dynamic_bytes, cudaOccupancyDefault);
}
