// SPDX-License-Identifier: Apache-2.0
// Encode and decode calls that allocate their own memory. Thin wrappers around frame/device.cuh that throw tuck::error.
// memory/frame_buffer.hpp has the frames.
#pragma once

#include <tuck/frame/device.cuh>
#include <tuck/memory/frame_buffer.hpp>

#include <optional>
#include <utility>

namespace tuck::inline TUCK_ABI {

namespace detail::inline TUCK_ARCH {
// Calls decode(scratch, outcome) with memory from `resource`, and waits for the outcome.
template <stream_resource R, class Decode> outcome decode_sync(R& resource, cudaStream_t stream, const Decode& decode) {
  const device_buffer<R> scratch(resource, scratch_head_bytes, stream), restored(resource, sizeof(outcome), stream);
  auto* const result_on_device = reinterpret_cast<outcome*>(restored.all().data());
  require(initialize(scratch.scratch(), stream));
  require(decode(scratch.scratch(), result_on_device));
  return read_outcome(result_on_device, stream);
}
}  // namespace detail::inline TUCK_ARCH

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
