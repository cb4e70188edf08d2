// Batches of deltas on a CUDA stream: one launch encodes many tensors relative to their bases, two launches decode
// them. What frame/batch.cuh says about batches and frame/delta.cuh about deltas holds here too.
#pragma once

#include <tuck/frame/batch.cuh>
#include <tuck/frame/delta.cuh>

namespace tuck::inline TUCK_ABI {

/// @cond
// Jobs of the kernels below.
template <codec C>
using encode_delta_batch_job = encode_batch_job<C, encode_delta_job<C>, encode_delta_item<value_t<C>>>;
template <codec C, delta_pass Pass>
using decode_delta_batch_job = decode_batch_job<C, decode_delta_job<C, Pass>, decode_delta_item<value_t<C>>>;

namespace detail {
template <class B>
inline constexpr int delta_batch_blocks_of =
    delta_blocks_of<B> < batch_blocks_of<B> ? delta_blocks_of<B> : batch_blocks_of<B>;
}  // namespace detail

// What one block of a decoding launch does.
template <codec C, int Threads, delta_pass Pass>
__device__ __forceinline__ void run_delta_batch(const decode_delta_batch_job<C, Pass>& job) {
  using slot = decode_slot<C, Threads, decode_delta_job<C, Pass>, decode_delta_item<value_t<C>>>;
  using worker = batch_worker<slot, Threads>;
  using storage = typename worker::TempStorage;
  TUCK_SHARED(storage, temp);
  worker(temp, job).run();
}

inline namespace TUCK_ARCH {

template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::delta_batch_blocks_of<block_codec<C, Threads>>)
    encode_delta_batch_kernel(const __grid_constant__ encode_delta_batch_job<C> job) {
  using slot = encode_slot<C, Threads, encode_delta_job<C>, encode_delta_item<value_t<C>>>;
  using worker = batch_worker<slot, Threads>;
  using storage = typename worker::TempStorage;
  TUCK_SHARED(storage, temp);
  worker(temp, job).run();
}
template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::delta_batch_blocks_of<block_decoder<C, Threads>>)
    verify_delta_batch_kernel(const __grid_constant__ decode_delta_batch_job<C, delta_pass::verify> job) {
  run_delta_batch<C, Threads, delta_pass::verify>(job);
}
template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::delta_batch_blocks_of<block_decoder<C, Threads>>)
    apply_delta_batch_kernel(const __grid_constant__ decode_delta_batch_job<C, delta_pass::apply> job) {
  run_delta_batch<C, Threads, delta_pass::apply>(job);
}
template <codec C, int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::delta_batch_blocks_of<block_decoder<C, Threads>> - 1)
    decode_delta_batch_kernel(const __grid_constant__ decode_delta_batch_job<C, delta_pass::both> job) {
  run_delta_batch<C, Threads, delta_pass::both>(job);
}

/// @endcond

/// Encodes the values of each item relative to its base. The frames are those that encode_delta writes. Outcome i is
/// what encode_delta writes or returns for item i. Arguments and errors are those of encode_batch, and lossy_delta.
/// Bases need the same alignment as values.
template <codec C>
result encode_delta_batch(const C& codec, span<const encode_delta_item<value_t<C>>> items, const batch_sizes& sizes,
                          scratch_span scratch, span<outcome> outcomes, cudaStream_t stream, frame_options options = {},
                          const launch_options& how = {}) noexcept {
  if constexpr (!takes_deltas<C>) {
    return {status::lossy_delta};
  } else {
    options.checksums = true;
    encode_delta_batch_job<C> job{};
    if (const status s = detail::make_job(job, codec, items, sizes, scratch, outcomes, options); s != status::ok)
      return {s};
    if (items.empty()) return {};
    return detail::launch(encode_delta_batch_kernel<C, block_threads>, job, job.slots.most(), how, stream);
  }
}

}  // namespace TUCK_ARCH

namespace detail {
inline namespace TUCK_ARCH {
// Launches one of the three decoding kernels.
template <codec C, delta_pass Pass>
result decode_delta_batch(void (*kernel)(decode_delta_batch_job<C, Pass>), const C& codec,
                          span<const decode_delta_item<value_t<C>>> items, const batch_sizes& sizes,
                          scratch_span scratch, span<outcome> outcomes, cudaStream_t stream,
                          const launch_options& how) noexcept {
  decode_delta_batch_job<C, Pass> job{};
  if (const status s = make_job(job, codec, items, sizes, scratch, outcomes); s != status::ok) return {s};
  if (items.empty()) return {};
  return launch(kernel, job, job.slots.most(), how, stream);
}
}  // namespace TUCK_ARCH
}  // namespace detail

inline namespace TUCK_ARCH {

/// Restores the values of each item from its frame and its base. Two launches: the first verifies all items, the second
/// writes the items that are valid. Outcome i is what decode_delta writes or returns for item i. Unless it is ok, no
/// value of item i is written. A failed item does not affect other items. With `chunk_by_chunk` there is one launch,
/// which writes what decode_delta writes with this option.
///
/// To restore all items or none, do not decode in place, and check all outcomes before you use the values.
///
/// @param items  the values of an item may be its base itself; otherwise they must not overlap anything
/// @return the errors of decode_batch; lossy_delta. After an error no values are written
template <codec C>
result decode_delta_batch(const C& codec, span<const decode_delta_item<value_t<C>>> items, const batch_sizes& sizes,
                          scratch_span scratch, span<outcome> outcomes, cudaStream_t stream,
                          const delta_options& options = {}, const launch_options& how = {}) noexcept {
  if constexpr (!takes_deltas<C>) {
    return {status::lossy_delta};
  } else {
    const auto run = [&](auto kernel) {
      return detail::decode_delta_batch(kernel, codec, items, sizes, scratch, outcomes, stream, how);
    };
    if (options.chunk_by_chunk) return run(decode_delta_batch_kernel<C, block_threads>);
    const result verified = run(verify_delta_batch_kernel<C, block_threads>);
    return verified ? run(apply_delta_batch_kernel<C, block_threads>) : verified;
  }
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
