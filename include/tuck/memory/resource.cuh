// Memory resources: what hands out device memory in stream order. Detected by what they can do, so that rmm's,
// CCCL's and your own come along without an adaptor; none of their headers is needed here.
#pragma once

#include <tuck/core/cuda_result.cuh>

#include <concepts>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

namespace tuck::inline TUCK_ABI {

// What the functions that own memory throw: misuse and CUDA's errors.
class error : public std::runtime_error {
 public:
  explicit error(const result& why)
      : std::runtime_error((why.code == status::cuda_error ? "CUDA: " : "") + std::string(message(why))), why_(why) {}
  explicit error(status code) : error(result{code}) {}
  explicit error(cudaError_t cuda) : error(from_cuda(cuda)) {}

  status code() const noexcept { return why_.code; }
  const result& why() const noexcept { return why_; }

 private:
  result why_;
};

namespace detail {
inline void require(cudaError_t e) {
  if (e != cudaSuccess) throw error(e);
}

// clang-format off
// As current rmm and CCCL have it.
template <class R>
concept allocates_stream_first = requires(R& r, cudaStream_t stream, void* p, size_t size) {
  { r.allocate(stream, size, size) } -> std::convertible_to<void*>;
  r.deallocate(stream, p, size, size);
};
// As CCCL 3.0 and older rmm have it.
template <class R>
concept allocates_async = requires(R& r, cudaStream_t stream, void* p, size_t size) {
  { r.allocate_async(size, size, stream) } -> std::convertible_to<void*>;
  r.deallocate_async(p, size, size, stream);
};
// clang-format on
}  // namespace detail

// allocate(stream, bytes, alignment) or allocate_async(bytes, alignment, stream), and the deallocation that goes with
// it. Throws where there is no memory; what it hands out may be used on that stream at once.
template <class R>
concept stream_resource = detail::allocates_stream_first<R> || detail::allocates_async<R>;

template <stream_resource R> void* allocate_from(R& r, size_t size, size_t alignment, cudaStream_t stream) {
  if constexpr (detail::allocates_stream_first<R>)
    return r.allocate(stream, size, alignment);
  else
    return r.allocate_async(size, alignment, stream);
}
template <stream_resource R>
void deallocate_to(R& r, void* p, size_t size, size_t alignment, cudaStream_t stream) noexcept {
  if constexpr (detail::allocates_stream_first<R>)
    r.deallocate(stream, p, size, alignment);
  else
    r.deallocate_async(p, size, alignment, stream);
}

namespace detail {
// CUDA may answer a call that gives something back with the error of another: it is asked once more. If that does not
// help nothing will; while the process ends there may be no CUDA left, and that is no error.
template <class Call> void give_back(const Call& call) noexcept {
  if (call() != cudaSuccess) static_cast<void>(call());
}
}  // namespace detail

// A stream as CUDA, rmm and CCCL hand them over.
class stream_handle {
 public:
  template <class S>
    requires std::convertible_to<const S&, cudaStream_t>
  stream_handle(const S& stream) noexcept : stream_(stream) {}
  template <class S>
    requires(!std::convertible_to<const S&, cudaStream_t> &&
             requires(const S& s) {
               { s.get() } -> std::same_as<cudaStream_t>;
             })
  stream_handle(const S& stream) noexcept : stream_(stream.get()) {}
  operator cudaStream_t() const noexcept { return stream_; }

 private:
  cudaStream_t stream_;
};

// The calls that resources of rmm and CCCL also have, for one with `allocate` and `deallocate`; those without a stream
// are on the legacy default one. With tuck/memory/cuda_mr.cuh tuck's resources are theirs.
template <class Resource> class resource_calls {
 public:
  void* allocate_sync(size_t size, size_t alignment = 256) {
    void* const p = self().allocate(cudaStreamLegacy, size, alignment);
    if (const cudaError_t e = cudaStreamSynchronize(cudaStreamLegacy); e != cudaSuccess) {
      self().deallocate(cudaStreamLegacy, p, size, alignment);
      throw error(e);
    }
    return p;
  }
  void deallocate_sync(void* p, size_t size, size_t alignment = 256) noexcept {
    self().deallocate(cudaStreamLegacy, p, size, alignment);
  }

  // As CCCL 3.0 has them.
  void* allocate(size_t size, size_t alignment) { return allocate_sync(size, alignment); }
  void deallocate(void* p, size_t size, size_t alignment) noexcept { deallocate_sync(p, size, alignment); }
  void* allocate_async(size_t size, size_t alignment, stream_handle stream) {
    return self().allocate(stream, size, alignment);
  }
  void deallocate_async(void* p, size_t size, size_t alignment, stream_handle stream) noexcept {
    self().deallocate(stream, p, size, alignment);
  }

 private:
  Resource& self() noexcept { return static_cast<Resource&>(*this); }
};

// cudaMallocAsync, from the pool of the current device.
class async_resource : public resource_calls<async_resource> {
 public:
  using resource_calls::allocate, resource_calls::deallocate;

  void* allocate(stream_handle stream, size_t size, size_t /*alignment: that of cudaMalloc*/ = 256) {
    void* p = nullptr;
    detail::require(cudaMallocAsync(&p, size, stream));
    return p;
  }
  void deallocate(stream_handle stream, void* p, size_t /*size*/, size_t /*alignment*/ = 256) noexcept {
    detail::give_back([&] { return cudaFreeAsync(p, stream); });
  }
  friend bool operator==(const async_resource&, const async_resource&) noexcept { return true; }
};
static_assert(stream_resource<async_resource>);

namespace detail {

struct free_host {
  void operator()(std::byte* p) const noexcept {
    detail::give_back([&] { return cudaFreeHost(p); });
  }
};
using host_memory = std::unique_ptr<std::byte, free_host>;

// Pinned host memory that kernels can use too.
inline host_memory allocate_host(size_t size) {
  void* p = nullptr;
  require(cudaHostAlloc(&p, size, cudaHostAllocPortable | cudaHostAllocMapped));
  return host_memory(static_cast<std::byte*>(p));
}
template <class Pointer> std::byte* device_address(const Pointer& memory) {
  void* p = nullptr;
  require(cudaHostGetDevicePointer(&p, memory.get(), 0));
  return static_cast<std::byte*>(p);
}

}  // namespace detail

// Pinned host memory that kernels can use too (cudaHostAlloc, portable and mapped). CUDA has it in no stream's order:
// allocating may wait for the device, and deallocating waits for the stream.
class pinned_resource : public resource_calls<pinned_resource> {
 public:
  using resource_calls::allocate, resource_calls::deallocate;

  void* allocate(stream_handle /*stream*/, size_t size, size_t /*alignment: that of cudaHostAlloc*/ = 256) {
    return detail::allocate_host(size).release();
  }
  void deallocate(stream_handle stream, void* p, size_t /*size*/, size_t /*alignment*/ = 256) noexcept {
    detail::give_back([&] { return cudaStreamSynchronize(stream); });
    detail::free_host{}(static_cast<std::byte*>(p));
  }
  friend bool operator==(const pinned_resource&, const pinned_resource&) noexcept { return true; }
};
static_assert(stream_resource<pinned_resource>);

// Any resource, known at run time; it must live as long as this and its copies.
class resource_ref : public resource_calls<resource_ref> {
 public:
  using resource_calls::allocate, resource_calls::deallocate;

  template <stream_resource R>
    requires(!std::same_as<R, resource_ref>)
  resource_ref(R& resource) noexcept
      : resource_(&resource),
        take_([](void* r, size_t size, size_t alignment, cudaStream_t stream) {
          return tuck::allocate_from(*static_cast<R*>(r), size, alignment, stream);
        }),
        give_([](void* r, void* p, size_t size, size_t alignment, cudaStream_t stream) noexcept {
          tuck::deallocate_to(*static_cast<R*>(r), p, size, alignment, stream);
        }) {}

  void* allocate(stream_handle stream, size_t size, size_t alignment = 256) {
    return take_(resource_, size, alignment, stream);
  }
  void deallocate(stream_handle stream, void* p, size_t size, size_t alignment = 256) noexcept {
    give_(resource_, p, size, alignment, stream);
  }

  friend bool operator==(const resource_ref& a, const resource_ref& b) noexcept { return a.resource_ == b.resource_; }

 private:
  void* resource_;
  void* (*take_)(void*, size_t, size_t, cudaStream_t);
  void (*give_)(void*, void*, size_t, size_t, cudaStream_t) noexcept;
};
static_assert(stream_resource<resource_ref>);

}  // namespace tuck::inline TUCK_ABI
