// SPDX-License-Identifier: Apache-2.0
// Memory resources: types that allocate memory in stream order. A concept detects them by their member functions, so
// that resources of rmm, CCCL and the user work without an adaptor. No header of rmm or CCCL is needed here.
// Like all .hpp files of this folder it needs the headers of CUDA's runtime, but no nvcc.
#pragma once

#include <tuck/core/cuda_result.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

namespace tuck::inline TUCK_ABI {

/// The exception of functions and types that allocate memory. Reports misuse or a CUDA error.
class error : public std::runtime_error {
 public:
  /// Wraps a failed result. what() is its message; CUDA errors are prefixed with "CUDA: ".
  explicit error(const result& why)
      : std::runtime_error((why.code == status::cuda_error ? "CUDA: " : "") + std::string(message(why))), why_(why) {}
  /// Wraps a status.
  explicit error(status code) : error(result{code}) {}
  /// Wraps a CUDA error code.
  explicit error(cudaError_t cuda) : error(from_cuda(cuda)) {}

  status code() const noexcept { return why_.code; }   ///< the status
  const result& why() const noexcept { return why_; }  ///< the status and the CUDA error code

 private:
  result why_;
};

namespace detail {
inline void require(cudaError_t e) {
  if (e != cudaSuccess) throw error(e);
}

// Calls a CUDA function that frees or restores something, and repeats it once if it fails: CUDA may return the pending
// error of an earlier call. A second failure is ignored. It is normal at process exit, when CUDA may already be gone.
template <class Call> void release(const Call& call) noexcept {
  if (call() != cudaSuccess) static_cast<void>(call());
}
// Makes `device` the calling thread's current device during its lifetime.
class device_scope {
 public:
  explicit device_scope(int device) noexcept {
    error_ = cudaGetDevice(&before_);
    if (error_ != cudaSuccess || before_ == device) return;
    error_ = cudaSetDevice(device);
    changed_ = error_ == cudaSuccess;
  }
  device_scope(const device_scope&) = delete;
  device_scope& operator=(const device_scope&) = delete;
  ~device_scope() {
    if (changed_) release([&] { return cudaSetDevice(before_); });
  }
  result entered() const noexcept { return from_cuda(error_); }

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaError_t error_ = cudaSuccess;
};

// clang-format off
// The interface of current rmm and CCCL.
template <class R>
concept allocates_stream_first = requires(R& r, cudaStream_t stream, void* p, size_t size) {
  { r.allocate(stream, size, size) } -> std::convertible_to<void*>;
  r.deallocate(stream, p, size, size);
};
// The interface of CCCL 3.0 and older rmm.
template <class R>
concept allocates_async = requires(R& r, cudaStream_t stream, void* p, size_t size) {
  { r.allocate_async(size, size, stream) } -> std::convertible_to<void*>;
  r.deallocate_async(p, size, size, stream);
};
// clang-format on
}  // namespace detail

/// A type that allocates in stream order: allocate(stream, bytes, alignment) with deallocate(stream, p, bytes,
/// alignment), or allocate_async(bytes, alignment, stream) with deallocate_async(p, bytes, alignment, stream).
/// Allocation throws if there is no memory. Work that is submitted to that stream afterwards may use the memory.
template <class R>
concept stream_resource = detail::allocates_stream_first<R> || detail::allocates_async<R>;

/// Allocates `size` bytes from `r` in stream order on `stream`, by either interface. Throws what `r` throws.
template <stream_resource R> void* allocate_from(R& r, size_t size, size_t alignment, cudaStream_t stream) {
  if constexpr (detail::allocates_stream_first<R>)
    return r.allocate(stream, size, alignment);
  else
    return r.allocate_async(size, alignment, stream);
}
/// Gives memory from allocate_from back to `r`. Work that was submitted to `stream` earlier may still use it.
template <stream_resource R>
void deallocate_to(R& r, void* p, size_t size, size_t alignment, cudaStream_t stream) noexcept {
  if constexpr (detail::allocates_stream_first<R>)
    r.deallocate(stream, p, size, alignment);
  else
    r.deallocate_async(p, size, alignment, stream);
}

/// A stream parameter that accepts the stream types of CUDA, rmm and CCCL.
class stream_handle {
 public:
  /// Takes a CUDA stream; 0 is the null stream.
  stream_handle(cudaStream_t stream) noexcept : stream_(stream) {}
  /// Takes anything that converts to cudaStream_t, also explicitly, such as rmm::cuda_stream.
  template <class S>
    requires std::constructible_from<cudaStream_t, const S&>
  stream_handle(const S& stream) noexcept : stream_(static_cast<cudaStream_t>(stream)) {}
  /// Takes a wrapper whose get() returns a cudaStream_t, such as cuda::stream_ref.
  template <class S>
    requires(!std::constructible_from<cudaStream_t, const S&> &&
             requires(const S& s) {
               { s.get() } -> std::same_as<cudaStream_t>;
             })
  stream_handle(const S& stream) noexcept : stream_(stream.get()) {}
  operator cudaStream_t() const noexcept { return stream_; }  ///< the CUDA stream

 private:
  cudaStream_t stream_;
};

/// Adds the other allocation calls of rmm and CCCL to a resource that has allocate(stream, size, alignment) and
/// deallocate(stream, p, size, alignment). Calls without a stream use the legacy default stream.
/// @tparam Resource the resource, which derives from this class
template <class Resource> class resource_calls {
 public:
  /// Allocates on the legacy default stream and waits for it. Throws tuck::error if waiting fails.
  void* allocate_sync(size_t size, size_t alignment = 256) {
    void* const p = self().allocate(cudaStreamLegacy, size, alignment);
    if (const cudaError_t e = cudaStreamSynchronize(cudaStreamLegacy); e != cudaSuccess) {
      self().deallocate(cudaStreamLegacy, p, size, alignment);
      throw error(e);
    }
    return p;
  }
  /// Frees memory in stream order on the legacy default stream and waits for it. Errors of waiting are ignored.
  void deallocate_sync(void* p, size_t size, size_t alignment = 256) noexcept {
    self().deallocate(cudaStreamLegacy, p, size, alignment);
    detail::release([] { return cudaStreamSynchronize(cudaStreamLegacy); });
  }

  // The interface of CCCL 3.0.
  /// Same as allocate_sync.
  void* allocate(size_t size, size_t alignment) { return allocate_sync(size, alignment); }
  /// Same as deallocate_sync.
  void deallocate(void* p, size_t size, size_t alignment) noexcept { deallocate_sync(p, size, alignment); }
  /// Allocates in stream order on `stream`.
  void* allocate_async(size_t size, size_t alignment, stream_handle stream) {
    return self().allocate(stream, size, alignment);
  }
  /// Frees memory in stream order on `stream`.
  void deallocate_async(void* p, size_t size, size_t alignment, stream_handle stream) noexcept {
    self().deallocate(stream, p, size, alignment);
  }

 private:
  Resource& self() noexcept { return static_cast<Resource&>(*this); }
};

/// Allocates device memory with cudaMallocAsync from the pool of the stream's device. Stateless; all objects are equal.
class async_resource : public resource_calls<async_resource> {
 public:
  using resource_calls::allocate, resource_calls::deallocate;

  /// Allocates `size` bytes, aligned as by cudaMalloc; the alignment argument is ignored. Throws tuck::error.
  void* allocate(stream_handle stream, size_t size, size_t /*alignment*/ = 256) {
    void* p = nullptr;
    detail::require(cudaMallocAsync(&p, size, stream));
    return p;
  }
  /// Frees `p` in stream order on `stream`. Errors are ignored.
  void deallocate(stream_handle stream, void* p, size_t /*size*/, size_t /*alignment*/ = 256) noexcept {
    detail::release([&] { return cudaFreeAsync(p, stream); });
  }
  /// Returns true: memory of one object may be freed by any other.
  friend bool operator==(const async_resource&, const async_resource&) noexcept { return true; }
};
static_assert(stream_resource<async_resource>);

namespace detail {

struct free_host {
  void operator()(std::byte* p) const noexcept {
    detail::release([&] { return cudaFreeHost(p); });
  }
};
using host_memory = std::unique_ptr<std::byte, free_host>;

// Allocates pinned host memory that kernels can access. It is pinned for all CUDA contexts (portable). Throws
// tuck::error.
inline host_memory allocate_host(size_t size) {
  void* p = nullptr;
  require(cudaHostAlloc(&p, size, cudaHostAllocPortable | cudaHostAllocMapped));
  return host_memory(static_cast<std::byte*>(p));
}
// Returns the address at which kernels access memory from allocate_host.
inline std::byte* device_address(std::byte* memory) {
  void* p = nullptr;
  require(cudaHostGetDevicePointer(&p, memory, 0));
  return static_cast<std::byte*>(p);
}

}  // namespace detail

/// Allocates pinned host memory that kernels can access (cudaHostAlloc, portable and mapped). Stateless.
/// cudaHostAlloc does not allocate in stream order. So allocate may wait for the device, and deallocate waits until
/// `stream` has finished its work.
class pinned_resource : public resource_calls<pinned_resource> {
 public:
  using resource_calls::allocate, resource_calls::deallocate;

  /// Allocates `size` bytes, aligned as by cudaHostAlloc; stream and alignment are ignored. Throws tuck::error.
  void* allocate(stream_handle /*stream*/, size_t size, size_t /*alignment*/ = 256) {
    return detail::allocate_host(size).release();
  }
  /// Waits for `stream`, then frees `p`. Errors are ignored.
  void deallocate(stream_handle stream, void* p, size_t /*size*/, size_t /*alignment*/ = 256) noexcept {
    detail::release([&] { return cudaStreamSynchronize(stream); });
    detail::free_host{}(static_cast<std::byte*>(p));
  }
  /// Returns true: memory of one object may be freed by any other.
  friend bool operator==(const pinned_resource&, const pinned_resource&) noexcept { return true; }
};
static_assert(stream_resource<pinned_resource>);

/// A reference to a resource whose type is known only at run time. Copyable. It stores the address of the resource, so
/// the resource must outlive all copies. This is also true for a small object such as rmm::device_async_resource_ref.
class resource_ref : public resource_calls<resource_ref> {
 public:
  using resource_calls::allocate, resource_calls::deallocate;

  /// Refers to `resource`.
  template <stream_resource R>
    requires(!std::same_as<R, resource_ref>)
  resource_ref(R& resource) noexcept
      : resource_(const_cast<std::remove_const_t<R>*>(&resource)),
        allocate_([](void* r, size_t size, size_t alignment, cudaStream_t stream) {
          return tuck::allocate_from(*static_cast<R*>(r), size, alignment, stream);
        }),
        deallocate_([](void* r, void* p, size_t size, size_t alignment, cudaStream_t stream) noexcept {
          tuck::deallocate_to(*static_cast<R*>(r), p, size, alignment, stream);
        }) {}

  /// A temporary resource would not outlive the reference: give it a name first.
  template <stream_resource R>
    requires(!std::same_as<R, resource_ref>)
  resource_ref(const R&& resource) = delete;

  /// Allocates from the resource in stream order on `stream`. Throws what the resource throws.
  void* allocate(stream_handle stream, size_t size, size_t alignment = 256) {
    return allocate_(resource_, size, alignment, stream);
  }
  /// Gives memory back to the resource in stream order on `stream`.
  void deallocate(stream_handle stream, void* p, size_t size, size_t alignment = 256) noexcept {
    deallocate_(resource_, p, size, alignment, stream);
  }

  /// Returns whether both refer to the same object.
  friend bool operator==(const resource_ref& a, const resource_ref& b) noexcept { return a.resource_ == b.resource_; }

 private:
  void* resource_;
  void* (*allocate_)(void*, size_t, size_t, cudaStream_t);
  void (*deallocate_)(void*, void*, size_t, size_t, cudaStream_t) noexcept;
};
static_assert(stream_resource<resource_ref>);

}  // namespace tuck::inline TUCK_ABI
