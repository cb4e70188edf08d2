// Deltas on a CUDA stream. A delta is a tensor encoded relative to a base, and is decoded with that base, also in
// place. What frame/device.cuh says about calls holds here too.
#pragma once

#include <tuck/frame/delta_kernels.cuh>
#include <tuck/frame/device.cuh>

namespace tuck::inline TUCK_ABI {
inline namespace TUCK_ARCH {

/// Encodes `values` relative to `base`. The bytes are those that host::encode_delta writes. Asynchronous on `stream`:
/// one launch, which reads values and base once. They must not change until the launch is done.
///
/// @param codec    a codec for which takes_deltas is true: lossless and not adaptive
/// @param base     as many values as `values`; device memory, aligned to 4 bytes (8 for 8-byte values)
/// @param frame    max_delta_bytes(codec, values.size(), options) bytes are always enough
/// @param scratch  scratch_bytes(codec, values.size(), options) bytes, aligned to 16, initialized once
/// @param written  as for encode. If the outcome is output_too_small, `frame` holds no frame
/// @return the errors of encode; lossy_delta if the codec cannot encode deltas; wrong_base if the base has another
///         number of values. After an error that is returned, nothing is written
template <codec C>
result encode_delta(const C& codec, span<const value_t<C>> values, span<const value_t<C>> base, bytes frame,
                    scratch_span scratch, outcome* written, cudaStream_t stream, frame_options options = {},
                    const launch_options& how = {}) noexcept {
  if constexpr (!takes_deltas<C>) {
    return {status::lossy_delta};
  } else {
    options.checksums = true;
    if (frame.data() == nullptr) return {detail::why_no_room(codec, values.size(), options)};
    if (base.is_null()) return {status::invalid_argument};
    if (base.size() != values.size()) return {status::wrong_base};
    if (!tuck::aligned(base.data(), sizeof(typename block_tile<value_t<C>, block_threads>::word)))
      return {status::misaligned};
    encode_delta_job<C> job{};
    job.base = base.data();
    return detail::encode(codec, values, frame, {}, scratch, written, stream, options, how,
                          encode_delta_kernel<C, block_threads>, job);
  }
}

}  // namespace TUCK_ARCH

namespace detail {
inline namespace TUCK_ARCH {
template <codec C, delta_pass Pass>
result decode_delta(void (*kernel)(decode_delta_job<C, Pass>), const C& codec, const_bytes frame,
                    span<const value_t<C>> base, span<value_t<C>> out, scratch_span scratch, outcome* restored,
                    cudaStream_t stream, const launch_options& how) noexcept {
  const decode_delta_job<C, Pass> job{
      codec,       frame.data(), frame.size(), out.data(),
      {},          out.size(),   restored,     reinterpret_cast<scratch_head*>(scratch.memory().data()),
      base.data(), base.size()};
  return launch(kernel, job, useful_decoders(frame, out.size_bytes()), how, stream);
}
}  // namespace TUCK_ARCH
}  // namespace detail

inline namespace TUCK_ARCH {

/// Restores the tensor of a delta from its base. Other arguments and outcomes are those of decode and
/// host::decode_delta. Asynchronous, two launches. The first verifies frame and base and writes `*restored`. If that is
/// ok, the second writes `out`. The frame, and a base other than `out`, must not change until the second launch is
/// done.
///
/// With `chunk_by_chunk` there is one launch. `out` does not change if the frame is truncated, or if its header is
/// damaged or does not fit the call. Otherwise all of `out` is written, and damaged chunks become zeros. Two errors are
/// found only at the end. bad_directory: all of `out` becomes zeros (on the host: no change). A base with a wrong
/// digest: the outcome is wrong_base, and `out` is wrong where the base is.
///
/// @param base  device memory, aligned to sizeof(value). The call is faster if `base` and `out` are aligned to 16 bytes
/// @param out   as many values as the frame. It may be `base` itself; otherwise they must not overlap
/// @return the errors of decode; lossy_delta. After an error that is returned, `out` does not change. If only the
///         second launch fails, `*restored` may still become ok: rely on the returned error
template <codec C>
result decode_delta(const C& codec, const_bytes frame, span<const value_t<C>> base, span<value_t<C>> out,
                    scratch_span scratch, outcome* restored, cudaStream_t stream, const delta_options& options = {},
                    const launch_options& how = {}) noexcept {
  if constexpr (!takes_deltas<C>) {
    return {status::lossy_delta};
  } else {
    if (base.is_null()) return {status::invalid_argument};
    if (!tuck::aligned(base.data(), sizeof(value_t<C>))) return {status::misaligned};
    if (const status s = detail::check_decode(frame, out, scratch, restored); s != status::ok) return {s};
    const auto run = [&](auto kernel) {
      return detail::decode_delta(kernel, codec, frame, base, out, scratch, restored, stream, how);
    };
    if (options.chunk_by_chunk) return run(decode_delta_kernel<C, block_threads>);
    const result verified = run(verify_delta_kernel<C, block_threads>);
    return verified ? run(apply_delta_kernel<C, block_threads>) : verified;
  }
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
