// SPDX-License-Identifier: Apache-2.0
// What swap_stream and swap_handle call. swap_state.cuh implements it with kernels, for the architectures of its file.
#pragma once

#include <tuck/core/dtype.hpp>
#include <tuck/memory/resource.hpp>
#include <tuck/swap/swap_options.hpp>

#include <functional>
#include <memory>
#include <type_traits>

namespace tuck::inline TUCK_ABI::detail {

// Runs `body` and converts exceptions: an `error` to its result, any other to out_of_memory. A void body gives ok.
template <class Body> result guarded(const Body& body) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>)
      return body(), result{};
    else
      return body();
  } catch (const error& e) {
    return e.why();
  } catch (...) {
    return {status::out_of_memory};
  }
}

// The element type of an offloaded tensor.
struct element_type {
  dtype type = dtype::none;  // none: not known
  uint32_t bytes = 0;        // of a value; 0: of any

  template <element T> static constexpr element_type of() noexcept { return {dtype_of<T>, sizeof(T)}; }
  // Returns whether values of this type can be restored as values of type T.
  template <element T> constexpr bool fits() const noexcept {
    return type != dtype::none ? holds<T>(type) : bytes == 0 || bytes == sizeof(T);
  }
};

// A request to offload a tensor.
struct swap_request {
  const_bytes source;
  element_type type = {};
  swap_path path = swap_path::raw;
  uint64_t most = 0;       // worst-case bytes of the frame
  uint64_t scratch = 0;    // bytes of scratch for encoding
  uint32_t alignment = 1;  // of destinations, in bytes
  // Encodes into a buffer, on the device. It is called during the call only.
  std::function<result(bytes, append_target, scratch_span, outcome*, cudaStream_t)> encode = {};
  result (*decode)(const_bytes, bytes, scratch_span, outcome*, cudaStream_t) noexcept = nullptr;  // on the device
  std::function<outcome(const_bytes, bytes)> on_host = {};  // encodes on the CPU, for swap_path::cpu
};

struct offloaded_tensor;

// Functions that return a result may throw: see `guarded`.
class swap_backend {
 public:
  using tensor = std::shared_ptr<offloaded_tensor>;

  virtual ~swap_backend() = default;
  virtual const swap_options& options() const noexcept = 0;
  virtual pool_statistics statistics() = 0;
  virtual result out(const swap_request& request, cudaStream_t producer, tensor& offloaded) = 0;
  virtual result prefetch(const tensor& t) = 0;
  virtual result in(const tensor& t, bytes destination, cudaStream_t consumer) = 0;
  virtual result wait_source(const tensor& t, cudaStream_t stream) = 0;
  virtual outcome report(const tensor& t) = 0;
  virtual bool is_kept(const tensor& t) = 0;
  virtual uint64_t pool_bytes(const tensor& t) = 0;
  virtual uint64_t raw_bytes(const tensor& t) const noexcept = 0;
  virtual element_type type(const tensor& t) const noexcept = 0;
  virtual void release(tensor t) noexcept = 0;  // the handle has been destroyed
  virtual result poll() = 0;
  virtual result drain() = 0;
  virtual void stop() = 0;
};

// Complete where swap_stream.cuh is included. Names the kernels of this file in the functions that use them, so that
// files for different architectures share no such function.
inline namespace TUCK_ARCH {
struct swap_kernels;
}
template <class Kernels> struct kernels_here {
  static_assert(requires { sizeof(Kernels); }, "tuck: this launches kernels: call it in a .cu file with tuck/swap.cuh");
  static constexpr bool value = true;
};

}  // namespace tuck::inline TUCK_ABI::detail
