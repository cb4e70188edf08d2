// SPDX-License-Identifier: Apache-2.0
// The functions of swap_stream that launch kernels. swap_stream.hpp has the classes and describes them.
#pragma once

#include <tuck/swap/swap_state.cuh>
#include <tuck/swap/swap_stream.hpp>

namespace tuck::inline TUCK_ABI {

namespace detail::inline TUCK_ARCH {
struct swap_kernels {};
}  // namespace detail::inline TUCK_ARCH

template <stream_resource R, class Kernels>
  requires(detail::kernels_here<Kernels>::value)
swap_stream::swap_stream(const swap_options& options, R& resource) {
  swap_options o = options;
  if (o.path > swap_path::cpu || o.full > on_full::block || o.cpu_threads > 1024) throw error(status::invalid_argument);
  if (o.device < 0) detail::require(cudaGetDevice(&o.device));
  const detail::swap_scope device(o.device);
  detail::require(device.entered());
  state_ = {new detail::swap_state(o, resource_ref(resource)), [](detail::swap_state* state) {
              const detail::swap_scope last(state->options().device);
              delete state;
            }};
}

template <codec C, class Kernels>
  requires(detail::kernels_here<Kernels>::value)
result swap_stream::out_typed(const C& codec, dtype type, span<const value_t<C>> values, stream_handle producer,
                              swap_handle& handle, std::optional<swap_path> wanted) noexcept {
  const swap_path path = wanted.value_or(state_->options().path);
  if (path > swap_path::cpu) return {status::invalid_argument};
  if (path == swap_path::raw) return out_raw(values, producer, handle);
  using T = value_t<C>;
  const frame_options options{.alignment = append_alignment, .checksums = state_->options().checksums, .type = type};
  frame_header header;
  if (const status s = tuck::make_header(codec, values.size(), options, header); s != status::ok) return {s};
  if (header.chunk_values > max_device_chunk_values<C>) return {status::unsupported};  // in() decodes by a kernel
  if constexpr (adaptive_codec<C>)
    if (codec.device_parameter() != nullptr) return {status::not_swappable};
  return detail::guarded([&] {
    detail::swap_request request{.source = tuck::as_bytes(values),
                                 .type = detail::element_type::of<T>(),
                                 .path = path,
                                 .most = worst_case_bytes(header),
                                 .scratch = tuck::scratch_bytes(codec, values.size(), options),
                                 .alignment = sizeof(T)};
    request.encode = [&](bytes to, detail::append_target target, scratch_span scratch, outcome* written,
                         cudaStream_t stream) {
      return detail::append(codec, values, to, target, scratch, written, stream, options, state_->options().limits);
    };
    request.decode = [](const_bytes frame, bytes to, scratch_span scratch, outcome* restored,
                        cudaStream_t stream) noexcept {
      const span<T> out(reinterpret_cast<T*>(to.data()), to.size() / sizeof(T));
      return tuck::decode(C{}, frame, out, scratch, restored, stream);
    };
    if (path == swap_path::cpu)
      request.on_host = [codec, options](const_bytes from, bytes to) {
        const span<const T> source(reinterpret_cast<const T*>(from.data()), from.size() / sizeof(T));
        return host::encode(codec, source, to, options);
      };
    return start(request, producer, handle);
  });
}

}  // namespace tuck::inline TUCK_ABI
