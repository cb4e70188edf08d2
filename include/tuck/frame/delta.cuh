// Deltas on a stream: a tensor encoded against a base, and restored from both. What frame/device.cuh says of calls
// holds here too.
#pragma once

#include <tuck/frame/delta_kernels.cuh>
#include <tuck/frame/device.cuh>

namespace tuck::inline TUCK_ABI {

// As encode, of what `values` has other than `base`: the bytes that host::encode_delta writes. One launch, which reads
// both once. The base is aligned as the values are, and stays as it is until the stream has done the work.
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

namespace detail {
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
}  // namespace detail

// As host::decode_delta: `out` may be the base, and nothing is written to it unless frame and base are both sound. Two
// launches, the first of which verifies. With `chunk_by_chunk` it is one: then a damaged directory is known only at the
// end, too, when all of `out` becomes zero. Base and out are aligned as decode's out is.
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

}  // namespace tuck::inline TUCK_ABI
