// Tensors out to pinned host memory and back, beside what the GPU computes.
//
//   tuck::async_resource memory;
//   tuck::swap_stream swap({.pinned_bytes = 8ull << 30}, memory);
//   tuck::swap_handle handle;
//   swap.out(tuck::zvc<float>{}, values, stream, handle);   // behind what `stream` has been given so far
//   handle.wait_source(stream);                             // from here on `stream` may overwrite or free the values
//   ...
//   swap.prefetch(handle);                                  // to device memory, ahead of time
//   swap.in(handle, destination, stream);                   // what is given to `stream` next sees the values
//
// out, in and prefetch allocate device memory from the resource, in stream order, and synchronise with nothing; pinned
// memory is reserved once (and 32 KiB more whenever another thousand calls are under way). They cannot be captured in a
// graph, and refuse a stream that is, as not_swappable. Each check of a result is left out here.
#pragma once

#if !defined(__cpp_exceptions)
#error "tuck/swap_stream.cuh owns memory and needs exceptions; tuck/frame/device.cuh does without"
#endif

#include <tuck/swap/swap_state.cuh>

#include <concepts>
#include <system_error>
#include <tuple>

namespace tuck::inline TUCK_ABI {

namespace detail {

// As tuck/model.hpp has them, or whoever else decides.
template <class D>
concept decision = requires(const D& d) {
  { d.how == D::mode::raw || d.how == D::mode::encode } -> std::convertible_to<bool>;
  { d.codec } -> std::convertible_to<size_t>;
};

}  // namespace detail

inline namespace TUCK_ARCH {

// A tensor that is swapped out; without a tensor, empty. Destroying it gives up the tensor. Move-only; what one thread
// does with it another must not do at the same time, but for `in`, `prefetch` and `wait_source`.
class swap_handle {
 public:
  swap_handle() = default;
  swap_handle(swap_handle&& other) noexcept { *this = std::move(other); }
  swap_handle& operator=(swap_handle&& other) noexcept {
    if (this == &other) return *this;
    reset();
    state_ = std::move(other.state_);
    tensor_ = std::move(other.tensor_);
    return *this;
  }
  ~swap_handle() { reset(); }

  // Gives the tensor up.
  void reset() noexcept {
    if (state_ != nullptr) state_->release(std::move(tensor_));
    tensor_ = nullptr;
    state_ = nullptr;
  }

  explicit operator bool() const noexcept { return tensor_ != nullptr; }

  // What is given to `stream` behind this may overwrite or free the source. pool_full: it may not, the tensor was kept
  // where it is.
  result wait_source(cudaStream_t stream) const noexcept {
    if (tensor_ == nullptr) return {status::invalid_argument};
    return detail::guarded([&] { return state_->wait_source(tensor_, stream); });
  }

  // Was the pool full? Then the source is still the caller's, and must stay as it is until the handle is gone and what
  // `in` was asked for has been done: it copies from the source.
  bool kept_on_device() const noexcept { return tensor_ != nullptr && state_->is_kept(tensor_); }

  // Its bytes in the pool, once there: of the frame, or of the values where it is none; not_ready before, pool_full
  // where it was kept on the device.
  outcome report() const noexcept {
    return tensor_ == nullptr ? outcome{.code = status::invalid_argument} : state_->report(tensor_);
  }
  // The same in whole units of the pool, which nobody else can use; 0 while it is not known.
  uint64_t host_bytes() const noexcept { return tensor_ == nullptr ? 0 : state_->pool_bytes(tensor_); }
  // Of the values.
  uint64_t raw_bytes() const noexcept { return tensor_ == nullptr ? 0 : tensor_->source.size(); }

 private:
  friend class swap_stream;
  swap_handle(std::shared_ptr<detail::swap_state> state, detail::swap_state::tensor tensor) noexcept
      : state_(std::move(state)), tensor_(std::move(tensor)) {}

  std::shared_ptr<detail::swap_state> state_;
  detail::swap_state::tensor tensor_;
};

// One device's; any threads may use it at the same time. A call that returns an error has left everything as it was:
// a tensor is where it was before, and may be moved again. Tensors leave in the order of `out`, and are prefetched in
// that of `prefetch`: a producer that is late holds up what comes behind it.
class swap_stream {
 public:
  // Throws tuck::error where the device, memory or threads cannot be had, and what the resource throws. `resource`
  // gives device memory; it must take calls of any thread that this object is used by, outlive it and its handles, and
  // not use them itself.
  template <stream_resource R> swap_stream(const swap_options& options, R& resource) {
    swap_options o = options;
    if (o.device < 0) detail::require(cudaGetDevice(&o.device));
    const detail::device_scope device(o.device);
    detail::require(device.entered());
    try {
      state_ = {new detail::swap_state(o, resource_ref(resource)), [](detail::swap_state* state) {
                  const detail::device_scope last(state->options().device);
                  delete state;
                }};
    } catch (const std::system_error&) {  // of threads
      throw error(status::out_of_memory);
    }
  }
  swap_stream(const swap_stream&) = delete;
  swap_stream& operator=(const swap_stream&) = delete;

  // Waits for all that is under way. Handles may outlive it, but can then only be destroyed.
  ~swap_stream() {
    if (!drain()) static_cast<void>(drain());
    state_->stop();
  }

  // Puts `values`, as `producer` has them by then, into the pool, by the path of the options or another; `handle` is
  // theirs from then on, and what it had before is given up. They must stay as they are until wait_source. With
  // swap_path::raw the codec is not used. Refused are what encode refuses - though raw and cpu take any alignment -
  // and, as not_swappable, bounds in device memory, since it would be known too late that they are none.
  //
  // The pool must have room for max_frame_bytes(codec, values.size(), {.alignment = append_alignment}), with checksums
  // where the options want them, of which the frame keeps what it needs; by swap_path::raw and cpu, for the values.
  template <codec C>
  result out(const C& codec, span<const value_t<C>> values, cudaStream_t producer, swap_handle& handle) noexcept {
    return out(codec, values, producer, handle, state_->options().path);
  }
  template <codec C>
  result out(const C& codec, span<const value_t<C>> values, cudaStream_t producer, swap_handle& handle,
             swap_path path) noexcept {
    if (values.size() > ~uint64_t{0} / sizeof(value_t<C>)) return {status::size_overflow};
    if (path > swap_path::cpu) return {status::invalid_argument};
    if (path == swap_path::raw) return out(tuck::as_bytes(values), producer, handle);
    detail::swap_request request{.source = tuck::as_bytes(values),
                                 .path = path,
                                 .codec = &codec,
                                 .calls = &detail::calls_of<C>,
                                 .options = {.alignment = append_alignment, .checksums = state_->options().checksums}};
    frame_header header;
    if (const status s = tuck::make_header(codec, values.size(), request.options, header); s != status::ok) return {s};
    if (header.chunk_values > max_device_chunk_values<C>) return {status::unsupported};  // in() decodes by a kernel
    if constexpr (adaptive_codec<C>)
      if (codec.device_parameter() != nullptr) return {status::not_swappable};
    request.most = worst_case_bytes(header);
    request.scratch = tuck::scratch_bytes(codec, values.size(), request.options);
    return detail::guarded([&] {
      if (path == swap_path::cpu)
        request.on_host = [codec, options = request.options](const_bytes from, bytes to) {
          return host::encode(codec, detail::span_of<value_t<C>>(from), to, options, {.threads = 1});
        };
      return start(request, producer, handle);
    });
  }

  // The same of any bytes, as they are.
  result out(const_bytes values, cudaStream_t producer, swap_handle& handle) noexcept {
    return detail::guarded([&] { return start({.source = values}, producer, handle); });
  }

  // As it was decided: by that of `codecs` which the decision names by its number, or as it is. What is to be computed
  // anew is not swapped out, and a number that is none cannot be: invalid_argument.
  template <detail::decision Decision, codec C, codec... Others>
    requires(std::same_as<value_t<Others>, value_t<C>> && ...)
  result out(const Decision& decision, const std::tuple<C, Others...>& codecs, span<const value_t<C>> values,
             cudaStream_t producer, swap_handle& handle) noexcept {
    if (decision.how == Decision::mode::raw) {
      if (values.size() > ~uint64_t{0} / sizeof(value_t<C>)) return {status::size_overflow};
      return out(tuck::as_bytes(values), producer, handle);
    }
    result answer{status::invalid_argument};
    if (decision.how != Decision::mode::encode) return answer;
    size_t number = 0;
    const auto try_codec = [&](const auto& codec) {
      if (number++ == decision.codec) answer = out(codec, values, producer, handle);
    };
    std::apply([&](const auto&... each) { (try_codec(each), ...); }, codecs);
    return answer;
  }

  // Brings what is handle back to device memory, still encoded, so that the next `in` need not wait for the link.
  result prefetch(const swap_handle& handle) noexcept {
    if (!is_mine(handle)) return {status::invalid_argument};
    return detail::guarded([&] { return state_->prefetch(handle.tensor_); });
  }

  // Restores the values into `destination`, in the order of `consumer`, as often as one likes; the tensor stays handle.
  // invalid_argument where `destination` is not as long as they are, misaligned where it is no place for such values,
  // not_swappable where `consumer` is being captured; of a tensor that never left, what it was lost to.
  result in(const swap_handle& handle, bytes destination, cudaStream_t consumer) noexcept {
    if (!is_mine(handle)) return {status::invalid_argument};
    return detail::guarded([&] { return state_->in(handle.tensor_, destination, consumer); });
  }
  template <element T> result in(const swap_handle& handle, span<T> destination, cudaStream_t consumer) noexcept {
    if (destination.size() > ~uint64_t{0} / sizeof(T)) return {status::invalid_argument};
    return in(handle, tuck::as_writable_bytes(destination), consumer);
  }

  // Looks what the device has done, waiting for nothing. Not ok: a CUDA error, or what a decode had to say of its frame
  // since the last poll, which can only be that its memory was damaged.
  result poll() noexcept {
    return detail::guarded([&] { return state_->poll(); });
  }
  // The same once everything that is under way, also on the CPU, has been done.
  result drain() noexcept {
    return detail::guarded([&] { return state_->drain(); });
  }

  pool_statistics statistics() const { return state_->statistics(); }

 private:
  bool is_mine(const swap_handle& handle) const noexcept {
    return handle.tensor_ != nullptr && handle.state_ == state_;
  }
  result start(const detail::swap_request& request, cudaStream_t producer, swap_handle& handle) {
    if (request.source.is_null()) return {status::invalid_argument};
    detail::swap_state::tensor tensor;
    if (const result r = state_->out(request, producer, tensor); !r) return r;
    handle = swap_handle(state_, std::move(tensor));
    return {};
  }

  std::shared_ptr<detail::swap_state> state_;
};

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
