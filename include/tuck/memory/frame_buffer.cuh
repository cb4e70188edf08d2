// Frames that own their memory, and encode and decode calls that allocate their own scratch. Thin wrappers around
// frame/device.cuh that throw tuck::error.
#pragma once

#include <tuck/frame/device.cuh>
#include <tuck/memory/resource.cuh>

#include <optional>
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
  device_buffer(R& resource, uint64_t size, stream_handle stream) : own_{&resource, stream} {
    detail::require(cudaGetDevice(&own_.device));
    if (size != 0) own_.memory = {static_cast<std::byte*>(allocate_from(resource, size, alignment, stream)), size};
  }
  /// Takes over the memory; `other` becomes empty.
  device_buffer(device_buffer&& other) noexcept { *this = std::move(other); }
  /// Exchanges the memory with `other`, which then frees it when it is destroyed.
  device_buffer& operator=(device_buffer&& other) noexcept {
    std::swap(own_, other.own_);
    return *this;
  }
  /// Frees the memory in stream order on stream().
  ~device_buffer() {
    if (all().data() == nullptr) return;
    const detail::device_scope device(own_.device);  // the null stream is that of the current device
    deallocate_to(resource(), all().data(), all().size(), alignment, stream());
  }

  bytes all() const noexcept { return own_.memory; }                     ///< the whole buffer
  scratch_span scratch() const noexcept { return scratch_span(all()); }  ///< the whole buffer as scratch
  R& resource() const noexcept { return *own_.resource; }                ///< resource of a non-empty buffer
  cudaStream_t stream() const noexcept { return own_.stream; }           ///< the stream on which it will be freed
  int device() const noexcept { return own_.device; }                    ///< the device that has the buffer
  /// Changes the stream on which the memory will be freed. The caller must have made `stream` wait for the work on the
  /// previous stream.
  void move_to(stream_handle stream) noexcept { own_.stream = stream; }

 private:
  static constexpr size_t alignment = 256;

  struct allocation {
    R* resource = nullptr;
    cudaStream_t stream = nullptr;
    int device = 0;
    bytes memory = {};
  };
  allocation own_;
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
// Calls decode(scratch, outcome) with memory from `resource`, and waits for the outcome.
template <stream_resource R, class Decode> outcome decode_sync(R& resource, cudaStream_t stream, const Decode& decode) {
  const device_buffer<R> scratch(resource, scratch_head_bytes, stream), restored(resource, sizeof(outcome), stream);
  auto* const result_on_device = reinterpret_cast<outcome*>(restored.all().data());
  require(initialize(scratch.scratch(), stream));
  require(decode(scratch.scratch(), result_on_device));
  return read_outcome(result_on_device, stream);
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

inline namespace TUCK_ARCH {

/// Encodes `values` into a frame with memory from `resource`. Asynchronous. Requirements for `values` and options are
/// those of encode in frame/device.cuh. Scratch is allocated and freed in stream order. The resource must be an
/// lvalue, not a pointer.
/// Throws tuck::error for misuse and CUDA errors. Exceptions of the resource are passed on. An error that only the
/// kernel can find, such as an invalid bound in device memory, is in the frame's outcome.
/// @return a frame of worst-case size; shrink_sync reduces it
template <codec C, stream_resource R>
frame_buffer<R> encode(const C& codec, span<const value_t<C>> values, R& resource, stream_handle stream,
                       const frame_options& options = {}, const launch_options& how = {}) {
  const uint64_t most = tuck::max_frame_bytes(codec, values.size(), options);
  frame_header checked;
  detail::require(result{tuck::make_header(codec, values.size(), options, checked)});
  device_buffer<R> written(resource, sizeof(outcome), stream), frame(resource, most, stream);
  const device_buffer<R> scratch(resource, tuck::scratch_bytes(codec, values.size(), options), stream);
  detail::require(initialize(scratch.scratch(), stream));
  detail::require(tuck::encode(codec, values, frame.all(), scratch.scratch(),
                               reinterpret_cast<outcome*>(written.all().data()), stream, options, how));
  return {std::move(written), std::move(frame)};
}

/// Encodes with a codec that was chosen at run time. `values` are the bytes of whole elements of the codec's type.
/// Throws unknown_codec if none was chosen. Everything else is as for a known codec.
template <codec... Cs, stream_resource R>
frame_buffer<R> encode(const any_codec<codec_list<Cs...>>& codec, const_bytes values, R& resource, stream_handle stream,
                       const frame_options& options = {}, const launch_options& how = {}) {
  std::optional<frame_buffer<R>> made;
  detail::require(result{codec.visit(values, [&](const auto& chosen, auto elements) {
    made.emplace(tuck::encode(chosen, elements, resource, stream, codec.typed(options), how));
  })});
  return *std::move(made);
}

/// Decodes values [first_value, first_value + out.size()) of a frame and waits for the result. Requirements for the
/// arguments are those of decode in frame/device.cuh. Scratch is allocated from `resource` in stream order.
/// Throws tuck::error for misuse and CUDA errors. Exceptions of the resource are passed on.
/// @return the outcome of the decode. It reports frames that are damaged or do not fit the call; these do not throw
template <codec C, stream_resource R>
outcome decode_sync(const C& codec, const_bytes frame, span<value_t<C>> out, R& resource, stream_handle stream,
                    uint64_t first_value = 0, const launch_options& how = {}) {
  return detail::decode_sync(resource, stream, [&](scratch_span scratch, outcome* restored) {
    return tuck::decode(codec, frame, out, scratch, restored, stream, first_value, how);
  });
}

/// Decodes a frame whose codec is known only at run time, and waits for the result. `header` is from inspect. Throws
/// the error of visit if no codec of the list can have written the frame. Everything else is as for a known codec.
template <codec... Cs, stream_resource R>
outcome decode_sync(codec_list<Cs...> codecs, const frame_header& header, const_bytes frame, bytes out, R& resource,
                    stream_handle stream, uint64_t first_value = 0, const launch_options& how = {}) {
  return detail::decode_sync(resource, stream, [&](scratch_span scratch, outcome* restored) {
    return tuck::decode(codecs, header, frame, out, scratch, restored, stream, first_value, how);
  });
}

template <no_codec X, stream_resource R>
codec_missing<X> encode(const X&, const auto&, R&, const auto&, const frame_options& = {}, const launch_options& = {});

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
