// SPDX-License-Identifier: Apache-2.0
// Buffers and frames that own their memory. Nothing here launches a kernel: a class with such members can be used in
// .cpp files too. memory/frame_buffer.cuh has the calls that make frames.
#pragma once

#include <tuck/frame/launch.hpp>
#include <tuck/memory/resource.hpp>

#include <utility>

namespace tuck::inline TUCK_ABI {

/// A buffer from a resource, allocated and freed in stream order on the device that was current. Move-only. Only the
/// address of the resource is stored, so the resource must outlive the buffer. This is also true for a small object
/// such as rmm::device_async_resource_ref. The stream must outlive the buffer too. A buffer of cudaStreamPerThread must
/// be used and destroyed by the thread that made it.
/// @tparam R type of the resource
template <stream_resource R> class device_buffer {
 public:
  /// Makes an empty buffer without a resource.
  device_buffer() = default;
  /// Allocates `size` bytes, aligned to 256, in stream order on `stream`; nothing if `size` is 0. Throws what the
  /// resource throws.
  device_buffer(R& resource, uint64_t size, stream_handle stream) : allocation_{&resource, stream} {
    detail::require(cudaGetDevice(&allocation_.device));
    if (size != 0)
      allocation_.memory = {static_cast<std::byte*>(allocate_from(resource, size, alignment, stream)), size};
  }
  /// Takes over the memory; `other` becomes empty.
  device_buffer(device_buffer&& other) noexcept { *this = std::move(other); }
  /// Exchanges the memory with `other`, which then frees it when it is destroyed.
  device_buffer& operator=(device_buffer&& other) noexcept {
    std::swap(allocation_, other.allocation_);
    return *this;
  }
  /// Frees the memory in stream order on stream().
  ~device_buffer() {
    if (all().data() == nullptr) return;
    const detail::device_scope device(allocation_.device);  // the null stream is that of the current device
    deallocate_to(resource(), all().data(), all().size(), alignment, stream());
  }

  bytes all() const noexcept { return allocation_.memory; }              ///< the whole buffer
  scratch_span scratch() const noexcept { return scratch_span(all()); }  ///< the whole buffer as scratch
  R& resource() const noexcept { return *allocation_.resource; }         ///< resource of a non-empty buffer
  cudaStream_t stream() const noexcept { return allocation_.stream; }    ///< the stream on which it will be freed
  int device() const noexcept { return allocation_.device; }             ///< the device that has the buffer
  /// Changes the stream on which the memory will be freed. The caller must have made `stream` wait for the work on the
  /// previous stream.
  void move_to(stream_handle stream) noexcept { allocation_.stream = stream; }

 private:
  static constexpr size_t alignment = 256;

  struct allocation {
    R* resource = nullptr;
    cudaStream_t stream = nullptr;
    int device = 0;
    bytes memory = {};
  };
  allocation allocation_;
};

namespace detail {
inline void require(const result& r) {
  if (!r) throw error(r);
}
inline outcome read_outcome(const outcome* on_device, cudaStream_t stream) {
  outcome seen;
  require(cudaMemcpyAsync(&seen, on_device, sizeof seen, cudaMemcpyDefault, stream));
  require(cudaStreamSynchronize(stream));
  return seen;
}
}  // namespace detail

/// A frame that owns its memory. The buffer has the worst-case size until shrink_sync reduces it to the size of the
/// frame. Move-only. Lifetimes are those of device_buffer. Any device may be current when its members are called.
template <stream_resource R> class frame_buffer {
 public:
  /// Takes over a buffer for the outcome and a buffer for the frame; encode returns such an object.
  frame_buffer(device_buffer<R> outcome_memory, device_buffer<R> frame) noexcept
      : outcome_(std::move(outcome_memory)), frame_(std::move(frame)) {}

  /// Returns the whole buffer as input for decode, which reads the size of the frame from its header.
  const_bytes frame() const noexcept { return frame_.all(); }
  /// Returns the address of the encode's outcome in device memory. It is valid for work on the stream after the encode.
  const outcome* written() const noexcept { return reinterpret_cast<const outcome*>(outcome_.all().data()); }

  /// Waits for the stream and returns the outcome of the encode. Throws tuck::error on CUDA errors.
  outcome wait_sync() const {
    const detail::device_scope device(frame_.device());
    detail::require(device.entered());
    return detail::read_outcome(written(), frame_.stream());
  }

  /// Waits for the stream, copies the frame into a buffer of its exact size, waits for the copy, and frees the larger
  /// buffer in stream order. Throws tuck::error if the encode failed, or on CUDA errors. Exceptions of the resource are
  /// passed on. After an exception the frame is as before.
  /// @return the outcome of the encode
  outcome shrink_sync() {
    const outcome done = wait_sync();
    if (!done) throw error(done.code);
    if (done.bytes == frame_.all().size()) return done;
    const detail::device_scope device(frame_.device());
    device_buffer<R> exact(frame_.resource(), done.bytes, frame_.stream());
    detail::require(
        cudaMemcpyAsync(exact.all().data(), frame_.all().data(), done.bytes, cudaMemcpyDefault, frame_.stream()));
    detail::require(cudaStreamSynchronize(frame_.stream()));
    frame_ = std::move(exact);
    return done;
  }

 private:
  device_buffer<R> outcome_;
  device_buffer<R> frame_;
};

}  // namespace tuck::inline TUCK_ABI
