// SPDX-License-Identifier: Apache-2.0
// Offloads tensors to pinned host memory and restores them while the GPU computes. An example without error checks:
//
//   tuck::async_resource memory;
//   tuck::swap_stream swap({.pinned_bytes = 8ull << 30}, memory);
//   tuck::swap_handle handle;
//   swap.out(tuck::zvc<float>{}, values, stream, handle);   // reads the values after earlier work on `stream`
//   handle.wait_source(stream);                             // later work on `stream` may overwrite or free the values
//   ...
//   swap.prefetch(handle);                                  // starts the copy to the device early
//   swap.in(handle, destination, stream);                   // later work on `stream` sees the values
//
// out, in and prefetch are asynchronous and allocate device memory from the resource in stream order (docs/guide.md
// says how much). They wait only in these cases:
//   * on_full::block: out waits for capacity in the pool, and polls every 200 us.
//   * A call that fails waits for the work that it has started.
//   * swap_path::cpu: if the pool has no other space for the frame, a CPU thread copies it over the raw values in
//     the pool. in and prefetch wait during this copy. They do not wait for the encoding.
//   * in: if the resource has no memory for the largest possible frame, and the frame's size is not known yet, the
//     call waits until the frame is in the pool.
//   * If more than 1024 operations are in progress, the call allocates another 32 KiB of pinned memory, and CUDA may
//     wait for the device.
//   * CUDA loads a kernel when it is first launched, and may wait for the device then (CUDA_MODULE_LOADING=EAGER loads
//     all kernels at the start).
// The constructor allocates all other pinned memory. No call can be captured in a CUDA graph: a capturing stream is
// rejected as not_swappable. Calls with other streams are allowed during a capture.
//
// swap_path::cpu submits host functions (cudaLaunchHostFunc). CUDA may run the host functions of all streams one at a
// time. So a host function of the program delays them, and must never wait for a swap_stream.
//
// The constructor, and `out` with a codec, launch kernels: they need swap_stream.cuh and nvcc. Everything else can be
// called in .cpp files too, so a class with such members can be declared in a header of theirs.
#pragma once

#if !defined(__cpp_exceptions)
#error "tuck/swap/swap_stream.hpp owns memory and needs exceptions; tuck/frame/device.cuh does not need them"
#endif

#include <tuck/codec/concept.hpp>
#include <tuck/frame/any_codec.hpp>
#include <tuck/swap/swap_backend.hpp>

#include <concepts>
#include <optional>
#include <tuple>
#include <utility>

namespace tuck::inline TUCK_ABI {

namespace detail {

// A type with the members `how` and `codec` of swap_decision (tuck/model.hpp). Any such type is accepted, so this
// folder does not include the model.
template <class Decision>
concept decision = requires(const Decision& d) {
  { d.how == Decision::mode::raw || d.how == Decision::mode::encode } -> std::convertible_to<bool>;
  { d.codec } -> std::convertible_to<size_t>;
};

}  // namespace detail

/// Owns an offloaded tensor, or is empty. Destroying it discards the tensor. Move-only.
/// A tensor is lost only if the device fails while encoding it. Calls then return the error of the encode.
/// Several threads may call `in`, `prefetch` and `wait_source` with the same handle at the same time. All other uses of
/// a handle need external synchronization.
class swap_handle {
 public:
  /// Makes an empty handle.
  swap_handle() = default;
  /// Takes over the tensor of `other`, which becomes empty.
  swap_handle(swap_handle&& other) noexcept = default;
  /// Discards the tensor and takes over that of `other`.
  swap_handle& operator=(swap_handle other) noexcept {
    std::swap(state_, other.state_);
    std::swap(tensor_, other.tensor_);
    return *this;
  }
  /// Discards the tensor, as reset does.
  ~swap_handle() {
    if (state_ != nullptr) state_->release(std::move(tensor_));
  }

  /// Discards the tensor. Does not wait. The pinned memory can be reused when all started transfers are done.
  void reset() noexcept { *this = swap_handle(); }

  /// Returns whether there is a tensor.
  explicit operator bool() const noexcept { return tensor_ != nullptr; }

  /// Makes `stream` wait until the source has been read. Later work on `stream` may overwrite or free the source.
  /// Asynchronous; not capturable.
  /// Errors: pool_full or pool_too_small if the tensor was kept on the device: the source is then the only copy and
  /// must not be changed or freed. empty_handle; not_swappable if `stream` is capturing; the error of the encode if the
  /// tensor is lost.
  result wait_source(stream_handle stream) const noexcept {
    if (tensor_ == nullptr) return {status::empty_handle};
    return detail::guarded([&] { return state_->wait_source(tensor_, stream); });
  }

  /// Returns whether the tensor was kept on the device because the pool was full or too small
  /// (on_full::keep_on_device). The source is then the only copy, and `in` copies from it. The source must stay
  /// unchanged until the handle is destroyed and all streams passed to `in` have finished the copy.
  bool kept_on_device() const noexcept { return tensor_ != nullptr && state_->is_kept(tensor_); }

  /// Returns the state of the tensor without waiting. ok: it is in the pool, and `bytes` is the size of its frame, or
  /// of its values if it is stored raw. not_ready: it is not in the pool yet. pool_full, pool_too_small: it was kept on
  /// the device. empty_handle: there is none. Other errors: the tensor is lost.
  outcome report() const noexcept {
    return tensor_ == nullptr ? outcome{.code = status::empty_handle} : state_->report(tensor_);
  }
  /// Returns the bytes that the tensor occupies in the pool, a multiple of pinned_pool::unit. Returns 0 until the size
  /// is known.
  uint64_t host_bytes() const noexcept { return tensor_ == nullptr ? 0 : state_->pool_bytes(tensor_); }
  /// Returns the size of the tensor's values in bytes; 0 for an empty handle.
  uint64_t raw_bytes() const noexcept { return tensor_ == nullptr ? 0 : state_->raw_bytes(tensor_); }

 private:
  friend class swap_stream;
  swap_handle(std::shared_ptr<detail::swap_backend> state, detail::swap_backend::tensor tensor) noexcept
      : state_(std::move(state)), tensor_(std::move(tensor)) {}

  std::shared_ptr<detail::swap_backend> state_;
  detail::swap_backend::tensor tensor_;
};

/// Moves tensors of one device to a pool of pinned host memory and back. Thread-safe.
/// If out, in, prefetch or wait_source returns an error, the call has changed nothing. Unless the tensor is lost (see
/// swap_handle), it is where it was before and can be moved again. poll and drain return errors of earlier operations.
/// Tensors are offloaded in the order of the `out` calls and prefetched in the order of the `prefetch` calls. If the
/// stream passed to `out` still has much work to do, this tensor and all tensors of later `out` calls are offloaded
/// after that work. The calls do not wait for it.
class swap_stream {
 public:
  /// Allocates the pool and starts the CPU threads, or those of them for which the system has room.
  /// Throws tuck::error if an option is out of range, or the device or memory is not available. Exceptions of the
  /// resource are passed on.
  /// Calls may be made while any device is current.
  /// @param resource allocates device memory. Only its address is stored, so it must outlive this swap_stream and
  /// its handles. This is also true for a small object such as rmm::device_async_resource_ref. It must accept calls
  /// from every thread that uses the swap_stream or a handle. It must not call the swap_stream or a handle.
  template <stream_resource R, class Kernels = detail::swap_kernels>
    requires(detail::kernels_here<Kernels>::value)
  swap_stream(const swap_options& options, R& resource);
  swap_stream(const swap_stream&) = delete;
  swap_stream& operator=(const swap_stream&) = delete;

  /// Waits for all started work. Handles may outlive this object, but may then only be destroyed.
  ~swap_stream() {
    if (!drain()) static_cast<void>(drain());
    state_->stop();
  }

  /// Offloads `values` after all work submitted to `producer`. `handle` then owns the tensor; its previous tensor is
  /// discarded. Asynchronous; not capturable. The values must stay unchanged until wait_source has taken effect.
  ///
  /// The pool needs capacity for the worst case: max_frame_bytes with append_alignment as alignment, and with checksums
  /// if swap_options::checksums is set. The unused part becomes free when the size of the frame is known.
  /// swap_path::raw and cpu need capacity for the values only. The capacity must be contiguous, and the previous tensor
  /// of `handle` still occupies its own, until the work with it is done. So a handle that is used for one tensor again
  /// and again needs a pool of three worst cases, or of one if it is reset before each call; more if calls come faster
  /// than the work is done. If the pool is full, swap_options::full says what happens.
  ///
  /// Errors: those of encode, but null_pointer for null; pool_full; pool_too_small; out_of_memory if the resource
  /// throws; unsupported if chunks are too large to decode on the device; not_swappable for error bounds in device
  /// memory (their validity would be known too late) and for a capturing `producer`.
  /// @param values device memory, aligned as for encode; any alignment for swap_path::raw and cpu
  /// @param wanted path of this tensor, in place of swap_options::path. With swap_path::raw the codec is not used
  template <codec C, class Kernels = detail::swap_kernels>
    requires(detail::kernels_here<Kernels>::value)
  result out(const C& codec, span<const value_t<C>> values, stream_handle producer, swap_handle& handle,
             std::optional<swap_path> wanted = {}) noexcept {
    using T = value_t<C>;
    const dtype type = is_untyped<T> ? dtype_of<bits_t<T>> : dtype_of<T>;
    return out_typed<C, Kernels>(codec, type, values, producer, handle, wanted);
  }

  /// Offloads with a codec that was chosen at run time, as values of the type that was chosen with it.
  /// @param values the bytes of whole elements of the codec's type, else invalid_argument; device memory
  /// @return as for a known codec; unknown_codec if none was chosen
  template <codec... Cs, class Kernels = detail::swap_kernels>
    requires(detail::kernels_here<Kernels>::value)
  result out(const any_codec<codec_list<Cs...>>& codec, const_bytes values, stream_handle producer, swap_handle& handle,
             std::optional<swap_path> wanted = {}) noexcept {
    result answer{status::invalid_argument};
    const status found = codec.visit([&]<class C>(const C& chosen) {
      using T = value_t<C>;
      if (values.size() % sizeof(T) != 0) return;
      const span<const T> elements(reinterpret_cast<const T*>(values.data()), values.size() / sizeof(T));
      answer = out_typed<C, Kernels>(chosen, codec.type(), elements, producer, handle, wanted);
    });
    return found == status::ok ? answer : result{found};
  }

  /// Offloads bytes unchanged. They may have any alignment. Everything else is as for `out` with a codec.
  result out(const_bytes values, stream_handle producer, swap_handle& handle) noexcept {
    return detail::guarded([&] { return start({.source = values}, producer, handle); });
  }

  /// Offloads `values` as decided: raw, or encoded by the codec of `codecs` whose index is decision.codec. Everything
  /// else is as for `out` with a codec. Returns invalid_argument if the decision is to recompute, or if the index is
  /// out of range.
  /// @tparam Decision tuck::swap_decision or a type with the same members `how` and `codec`
  template <detail::decision Decision, class Kernels = detail::swap_kernels, codec C, codec... Others>
    requires(detail::kernels_here<Kernels>::value && (std::same_as<value_t<Others>, value_t<C>> && ...))
  result out(const Decision& decision, const std::tuple<C, Others...>& codecs, span<const value_t<C>> values,
             stream_handle producer, swap_handle& handle) noexcept {
    if (decision.how == Decision::mode::raw) return out_raw(values, producer, handle);
    result answer{status::invalid_argument};
    if (decision.how != Decision::mode::encode) return answer;
    size_t number = 0;
    const auto try_codec = [&](const auto& codec) {
      if (number++ == decision.codec) answer = out(codec, values, producer, handle);
    };
    std::apply([&](const auto&... each) { (try_codec(each), ...); }, codecs);
    return answer;
  }

  /// Copies an offloaded tensor to device memory, still encoded, so that the next `in` does not wait for the link.
  /// Asynchronous. Does nothing if the tensor has already been prefetched, or if it was kept on the device.
  /// Errors: empty_handle; foreign_handle; out_of_memory if the resource throws; the error of the encode if the tensor
  /// is lost.
  result prefetch(const swap_handle& handle) noexcept {
    if (const status s = check(handle); s != status::ok) return {s};
    return detail::guarded([&] { return state_->prefetch(handle.tensor_); });
  }

  /// Restores the values into `destination`, in stream order on `consumer`. The tensor stays offloaded and can be
  /// restored any number of times. Asynchronous; not capturable. poll and drain report a damaged frame.
  /// If the resource has no memory for the frame, the kernel decodes from the pool, over the link. Such decodes run one
  /// after the other.
  /// Errors: empty_handle; foreign_handle; null_pointer; wrong_size; misaligned; not_swappable if `consumer` is
  /// capturing; out_of_memory if the host has none; the error of the encode if the tensor is lost.
  /// @param destination device memory of exactly the size of the values, aligned to the codec's element size, or of any
  ///                    alignment if no codec was used (swap_path::raw)
  result in(const swap_handle& handle, bytes destination, stream_handle consumer) noexcept {
    if (const status s = check(handle); s != status::ok) return {s};
    return detail::guarded([&] { return state_->in(handle.tensor_, destination, consumer); });
  }
  /// Restores the values into a span of elements. If the destination is a container, pass tuck::span<T>(destination).
  /// Returns wrong_type if T is not the type of the values that were offloaded; `untyped` stands for all types of its
  /// size, and offloaded bytes have no type. Everything else is as for a destination of bytes.
  template <element T> result in(const swap_handle& handle, span<T> destination, stream_handle consumer) noexcept {
    if (const status s = check(handle); s != status::ok) return {s};
    if (!state_->type(handle.tensor_).template fits<T>()) return {status::wrong_type};
    if (destination.size() > ~uint64_t{0} / sizeof(T)) return {status::wrong_size};
    return in(handle, tuck::as_writable_bytes(destination), consumer);
  }

  /// Collects finished operations without waiting. Frees pinned memory that is no longer needed: what frames did not
  /// use of their reservations, and the memory of discarded or lost tensors.
  /// @return ok, a CUDA error, or the first error of an encode or decode since the last poll. A decode fails only if
  /// memory was damaged.
  result poll() noexcept {
    return detail::guarded([&] { return state_->poll(); });
  }
  /// Waits for all started work, on the device and on CPU threads, then returns what poll returns.
  result drain() noexcept {
    return detail::guarded([&] { return state_->drain(); });
  }

  /// Returns the current usage of the pool.
  pool_statistics statistics() const { return state_->statistics(); }

 private:
  // `type`: of the values, for the frame
  template <codec C, class Kernels>
    requires(detail::kernels_here<Kernels>::value)
  result out_typed(const C& codec, dtype type, span<const value_t<C>> values, stream_handle producer,
                   swap_handle& handle, std::optional<swap_path> wanted) noexcept;
  status check(const swap_handle& handle) const noexcept {
    if (handle.tensor_ == nullptr) return status::empty_handle;
    return handle.state_ == state_ ? status::ok : status::foreign_handle;
  }
  template <element T> result out_raw(span<const T> values, cudaStream_t producer, swap_handle& handle) noexcept {
    if (values.size() > ~uint64_t{0} / sizeof(T)) return {status::size_overflow};
    const detail::swap_request request{.source = tuck::as_bytes(values), .type = detail::element_type::of<T>()};
    return detail::guarded([&] { return start(request, producer, handle); });
  }
  result start(const detail::swap_request& request, cudaStream_t producer, swap_handle& handle) {
    if (request.source.is_null()) return {status::null_pointer};
    detail::swap_backend::tensor tensor;
    if (const result r = state_->out(request, producer, tensor); !r) return r;
    handle = swap_handle(state_, std::move(tensor));
    return {};
  }

  std::shared_ptr<detail::swap_backend> state_;
};

}  // namespace tuck::inline TUCK_ABI
