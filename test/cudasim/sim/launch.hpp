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

// A kernel and its arguments, which are a std::tuple in `arguments`. Of one type for all kernels: there are many.
struct bound_kernel final : kernel_call {
  bound_kernel(const void* k, std::size_t bytes, void (*c)(const void*, const void*))
      : kernel(k), arguments(new std::max_align_t[1 + bytes / sizeof(std::max_align_t)]), call(c) {}
  void run() const override { call(kernel, arguments.get()); }
  const void* kernel;
  std::unique_ptr<std::max_align_t[]> arguments;
  void (*call)(const void* kernel, const void* arguments);
};

}  // namespace cudasim::detail

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(cudasim::detail::placed_config config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  if (!config.config || !kernel) return cudasim::detail::submit_launch({}, nullptr, nullptr, config.where);
  using stored = std::tuple<std::remove_cvref_t<Parameters>...>;
  static_assert((std::is_trivially_destructible_v<std::remove_cvref_t<Parameters>> && ...));
  auto call = std::make_shared<cudasim::detail::bound_kernel>(
      reinterpret_cast<const void*>(kernel), sizeof(stored), [](const void* bound, const void* with) {
        std::apply(reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(bound)),
                   *static_cast<const stored*>(with));
      });
  ::new (static_cast<void*>(call->arguments.get())) stored(std::forward<Arguments>(arguments)...);
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
