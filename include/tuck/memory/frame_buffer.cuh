// Encode and decode calls that allocate their own memory. Thin wrappers around frame/device.cuh that throw tuck::error.
// memory/frame_buffer.hpp has the frames.
#pragma once

#include <tuck/frame/device.cuh>
#include <tuck/memory/frame_buffer.hpp>

#include <utility>

namespace tuck::inline TUCK_ABI {

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

/// Decodes values [first_value, first_value + out.size()) of a frame and waits for the result. Requirements for the
/// arguments are those of decode in frame/device.cuh. Scratch is allocated from `resource` in stream order.
/// Throws tuck::error for misuse and CUDA errors. Exceptions of the resource are passed on.
/// @return the outcome of the decode. It reports frames that are damaged or do not fit the call; these do not throw
template <codec C, stream_resource R>
outcome decode_sync(const C& codec, const_bytes frame, span<value_t<C>> out, R& resource, stream_handle stream,
                    uint64_t first_value = 0, const launch_options& how = {}) {
  const device_buffer<R> scratch(resource, scratch_head_bytes, stream), restored(resource, sizeof(outcome), stream);
  auto* const result_on_device = reinterpret_cast<outcome*>(restored.all().data());
  detail::require(initialize(scratch.scratch(), stream));
  detail::require(tuck::decode(codec, frame, out, scratch.scratch(), result_on_device, stream, first_value, how));
  return detail::read_outcome(result_on_device, stream);
}

template <no_codec X, stream_resource R>
codec_missing<X> encode(const X&, const auto&, R&, const auto&, const frame_options& = {}, const launch_options& = {});

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
