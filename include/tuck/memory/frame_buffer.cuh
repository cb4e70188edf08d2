// Frames that own their memory, and calls that find their own scratch: thin wrappers that throw tuck::error.
#pragma once

#include <tuck/frame/device.cuh>
#include <tuck/memory/resource.cuh>

#include <utility>

namespace tuck::inline TUCK_ABI {

// Device memory from a resource, given back in the order of the stream it was taken on. Move-only; the resource
// outlives it.
template <stream_resource R> class device_buffer {
 public:
  device_buffer() = default;
  device_buffer(R& resource, uint64_t size, cudaStream_t stream)
      : resource_(&resource), stream_(stream), size_(size), data_(allocate_from(resource, size, alignment, stream)) {}
  device_buffer(device_buffer&& other) noexcept { *this = std::move(other); }
  device_buffer& operator=(device_buffer&& other) noexcept {
    std::swap(resource_, other.resource_);
    std::swap(stream_, other.stream_);
    std::swap(size_, other.size_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~device_buffer() {
    if (data_ != nullptr) deallocate_to(*resource_, data_, size_, alignment, stream_);
  }

  bytes all() const noexcept { return {static_cast<std::byte*>(data_), size_}; }
  scratch_span scratch() const noexcept { return scratch_span(all()); }  // all of it, as such
  R& resource() const noexcept { return *resource_; }
  cudaStream_t stream() const noexcept { return stream_; }
  // From now on it is this stream that the memory is used on and given back in the order of; the caller has seen to it
  // that it comes after the other.
  void move_to(cudaStream_t stream) noexcept { stream_ = stream; }

 private:
  static constexpr size_t alignment = 256;

  R* resource_ = nullptr;
  cudaStream_t stream_ = nullptr;
  uint64_t size_ = 0;
  void* data_ = nullptr;
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

// A frame on its way: as large as the worst case, until shrink_sync makes it as large as it is.
template <stream_resource R> class frame_buffer {
 public:
  frame_buffer(device_buffer<R> outcome_memory, device_buffer<R> frame) noexcept
      : outcome_(std::move(outcome_memory)), frame_(std::move(frame)) {}

  // For decode: the frame knows its own size.
  const_bytes frame() const noexcept { return frame_.all(); }
  // On the device, once the stream has come to it.
  const outcome* written() const noexcept { return reinterpret_cast<const outcome*>(outcome_.all().data()); }

  // Waits for the stream; what became of the frame.
  outcome wait_sync() const { return detail::read_outcome(written(), frame_.stream()); }

  // Waits, then moves the frame into memory of its own size and gives the rest back. Throws where encoding failed.
  outcome shrink_sync() {
    const outcome done = wait_sync();
    if (!done) throw error(done.code);
    if (done.bytes == frame_.all().size()) return done;
    device_buffer<R> exact(frame_.resource(), done.bytes, frame_.stream());
    detail::require(
        cudaMemcpyAsync(exact.all().data(), frame_.all().data(), done.bytes, cudaMemcpyDefault, frame_.stream()));
    frame_ = std::move(exact);
    return done;
  }

 private:
  device_buffer<R> outcome_;
  device_buffer<R> frame_;
};

inline namespace TUCK_ARCH {

// As encode, into memory from `resource`. Asynchronous; the scratch is given back in stream order.
template <codec C, stream_resource R>
frame_buffer<R> encode(const C& codec, span<const value_t<C>> values, R& resource, cudaStream_t stream,
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

// As decode, with scratch from `resource`; waits, and returns what the device has to say of the data.
template <codec C, stream_resource R>
outcome decode_sync(const C& codec, const_bytes frame, span<value_t<C>> out, R& resource, cudaStream_t stream,
                    uint64_t first_value = 0, const launch_options& how = {}) {
  const device_buffer<R> scratch(resource, scratch_head_bytes, stream), restored(resource, sizeof(outcome), stream);
  auto* const result_on_device = reinterpret_cast<outcome*>(restored.all().data());
  detail::require(initialize(scratch.scratch(), stream));
  detail::require(tuck::decode(codec, frame, out, scratch.scratch(), result_on_device, stream, first_value, how));
  return detail::read_outcome(result_on_device, stream);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
