// SPDX-License-Identifier: Apache-2.0
// Batches on a CUDA stream: one launch encodes or decodes many tensors, or decodes many DEFLATE streams. Encoding takes
// two launches if the codec must see each tensor first, as quantize does for a range-relative bound. With small
// tensors, the launches take most of the time of single calls. A batch has one launch for all of them.
//
// What frame/device.cuh says about single calls holds here too. Items and outcomes must be in memory that the device
// can read and write; the types cannot check this. Kernels read the items when they run. So each replay of a captured
// graph uses the addresses and sizes that the items have at that time. Do not change the items before the last kernel
// of the call is done. Device memory is best, because each block reads all items. Pinned memory is good enough for a
// few items.
#pragma once

#include <tuck/codec/inflate/inflate_warp.cuh>
#include <tuck/frame/device.cuh>
#include <tuck/frame/slots.cuh>

namespace tuck::inline TUCK_ABI {

/// A DEFLATE stream and the buffer for its output, both in device memory.
struct inflate_item {
  const_bytes stream;  ///< raw DEFLATE (RFC 1951), with any alignment
  bytes out;           ///< buffer for the output, with any alignment
};

/// Returns how many bytes of scratch a batch of at most these sizes needs, for encoding or decoding. Returns 0 if the
/// options or sizes are invalid. Single calls can use the same scratch. encode_batch and decode_batch return
/// size_overflow if there are more than 2^30 items, or if sizes.values is more than 2^26 chunks.
template <codec C>
constexpr uint64_t scratch_bytes(const C& codec, const batch_sizes& sizes, const frame_options& options = {}) noexcept {
  frame_header header;
  if (tuck::plan_header(codec, sizes.values, options, header) != status::ok) return 0;
  const uint64_t all = saturating_add(sizes.items, sizes.values / header.chunk_values);
  return saturating_add(scratch_head_bytes,
                        saturating_add(saturating_mul(scratch_head_bytes, sizes.items), saturating_mul(8, all)));
}

/// Returns the same for a codec that was chosen at run time; 0 also if none was chosen.
template <codec... Cs>
uint64_t scratch_bytes(const any_codec<codec_list<Cs...>>& codec, const batch_sizes& sizes,
                       const frame_options& options = {}) noexcept {
  uint64_t most = 0;
  codec.visit([&](const auto& chosen) { most = tuck::scratch_bytes(chosen, sizes, codec.typed(options)); });
  return most;
}

namespace detail {

struct inflate_job {
  span<const inflate_item> items;
  inflate_result* results;
};

// Checks the arguments that encoding and decoding have in common, and sets the parts of the job that they have in
// common: one slot per item, and one more per `slot_values` values of the whole batch.
template <class Job, class Item>
status make_job(Job& job, span<const Item> items, const batch_sizes& sizes, scratch_span scratch,
                span<outcome> outcomes, uint32_t slot_values, uint64_t scratch_bytes) noexcept {
  if (items.is_null() || (outcomes.data() == nullptr && !items.empty())) return status::invalid_argument;
  if (!tuck::aligned(items.data(), alignof(Item)) || !tuck::aligned(outcomes.data(), alignof(outcome)))
    return status::misaligned;
  if (items.size() > sizes.items) return status::batch_too_large;
  if (outcomes.size() < items.size()) return status::output_too_small;
  const uint64_t extra = sizes.values / slot_values;
  if (items.size() > batch_slots::max_items || extra > batch_slots::max_extra) return status::size_overflow;
  if (const status s = scratch.check(scratch_bytes); s != status::ok) return s;
  job.to_draw = {static_cast<uint32_t>(items.size()), static_cast<uint32_t>(extra), slot_values};
  job.head = reinterpret_cast<scratch_head*>(scratch.memory().data());
  job.item.head = job.head + 1;
  job.items = detail::by_width_of<typename decltype(Job::item)::item>(items);
  job.outcomes = outcomes.data();
  return status::ok;
}

inline namespace TUCK_ARCH {

template <class ItemJob, codec C, class Item>
result encode_batch(const C& codec, span<const Item> items, const batch_sizes& sizes, scratch_span scratch,
                    span<outcome> outcomes, cudaStream_t stream, const frame_options& options,
                    const launch_options& how) noexcept {
  const profiler_range range(is_delta_job<ItemJob> ? "encode_delta_batch" : "encode_batch", codec.stages(),
                             dtype_of<value_t<C>>);
  batch_job<ItemJob> job{};
  if (const status s = detail::prepare_job(job.item, codec, sizes.values, options); s != status::ok) return {s};
  if (const status s = detail::make_job(job, items, sizes, scratch, outcomes, job.item.header.chunk_values,
                                        tuck::scratch_bytes(codec, sizes, options));
      s != status::ok)
    return {s};
  job.item.states = reinterpret_cast<uint64_t*>(job.item.head + items.size());
  job.item.state_count = (scratch.memory().size() - scratch_head_bytes) / 8;
  if (items.empty()) return {};
  if constexpr (adaptive_codec<C> && floating_element<value_t<C>>) {
    using prepass = batch_job<prepass_job<value_t<C>>>;
    job.has_prepass = codec.needs_range();
    if (job.has_prepass) {
      const prepass first{{{}, 0, job.item.head}, job.items, job.outcomes, job.to_draw, true, job.head};
      const result r = launch(prepass_kernel<prepass, block_threads>, first, job.to_draw.most(), how, stream);
      if (!r) return r;
    }
  }
  return launch(encode_kernel<batch_job<ItemJob>, block_threads>, job, job.to_draw.most(), how, stream);
}

template <class ItemJob, codec C, class Item>
result decode_batch(const C& codec, span<const Item> items, const batch_sizes& sizes, scratch_span scratch,
                    span<outcome> outcomes, cudaStream_t stream, const launch_options& how) noexcept {
  const profiler_range range(is_delta_job<ItemJob> ? "decode_delta_batch" : "decode_batch", codec.stages(),
                             dtype_of<value_t<C>>);
  // A slot is 16 KiB of output, or the default chunk of the codec if that is larger. It does not depend on the frames,
  // because they are untrusted.
  constexpr uint32_t slot_values = std::max<uint32_t>(C::chunk_bytes, tile_bytes) / uint32_t{sizeof(value_t<C>)};
  batch_job<ItemJob> job{};
  if (const status s = detail::make_job(job, items, sizes, scratch, outcomes, slot_values,
                                        saturating_mul(scratch_head_bytes, saturating_add(items.size(), 1)));
      s != status::ok)
    return {s};
  if constexpr (std::is_same_v<C, by_width<C>>) job.item.codec = codec;
  job.item.type = dtype_of<value_t<C>>;
  if (items.empty()) return {};
  return launch(decode_kernel<batch_job<ItemJob>, block_threads>, job, job.to_draw.most(), how, stream);
}

}  // namespace TUCK_ARCH
}  // namespace detail

inline namespace TUCK_ARCH {

/// Encodes the values of each item into its frame. The frames are those that encode writes. All have the same options
/// and metadata. Asynchronous on `stream`. Frames, outcomes and scratch must not overlap each other or any input.
///
/// @param items     aligned to 8 bytes. If one item fails, the others are not affected
/// @param sizes     at least the number of items and of all their values. If the items have more values than that,
///                  they get scratch in order. An item that gets too little has the outcome batch_too_large, and its
///                  frame is not written. Items of one chunk always get enough
/// @param scratch   scratch_bytes(codec, sizes, options) bytes, aligned to 16, initialized once
/// @param outcomes  aligned to 16, at least as many as items. Outcome i is what encode writes for item i, or what
///                  encode returns if a pointer of the item is null or misaligned, which is checked before sizes.
///                  With output_too_small, `bytes` is the size that is needed, also for a null frame
/// @return the errors that encode returns; batch_too_large if there are more than sizes.items items; output_too_small
///         if there are fewer outcomes than items. After an error nothing is written
template <codec C>
result encode_batch(const C& codec, span<const encode_item<value_t<C>>> items, const batch_sizes& sizes,
                    scratch_span scratch, span<outcome> outcomes, cudaStream_t stream,
                    const frame_options& options = {}, const launch_options& how = {}) noexcept {
  return detail::encode_batch<encode_job<by_width<C>>>(codec, items, sizes, scratch, outcomes, stream, options, how);
}

/// Encodes each item with a codec that was chosen at run time.
/// @return as for a known codec; unknown_codec if none was chosen; type_mismatch if it takes values of another type
template <codec... Cs, element T>
result encode_batch(const any_codec<codec_list<Cs...>>& codec, span<const encode_item<T>> items,
                    const batch_sizes& sizes, scratch_span scratch, span<outcome> outcomes, cudaStream_t stream,
                    const frame_options& options = {}, const launch_options& how = {}) noexcept {
  result answer;
  const status found = codec.template visit_as<T>([&](const auto& chosen) {
    answer = tuck::encode_batch(chosen, items, sizes, scratch, outcomes, stream, codec.typed(options), how);
  });
  return found == status::ok ? answer : result{found};
}

/// Decodes the first decode_item::values.size() values of each frame. Outcome i is what decode writes for item i, or
/// what decode returns if a pointer of the item is null or misaligned. A damaged frame does not affect other items.
/// Asynchronous on `stream`: one launch. Everything else is as for encode_batch.
///
/// @param sizes    at least the number of items and of the values of all outputs together. If there are more values,
///                 items are served in order. An item for which too little is left has the outcome batch_too_large,
///                 and its values do not change. Items of up to 16 KiB, or a chunk of C if that is larger, are always
///                 decoded
/// @param scratch  scratch_bytes(codec, sizes) bytes, aligned to 16, initialized once
/// @return the errors that decode returns; batch_too_large if there are more than sizes.items items; output_too_small
///         if there are fewer outcomes than items; size_overflow. After an error nothing is written
template <codec C>
result decode_batch(const C& codec, span<const decode_item<value_t<C>>> items, const batch_sizes& sizes,
                    scratch_span scratch, span<outcome> outcomes, cudaStream_t stream,
                    const launch_options& how = {}) noexcept {
  return detail::decode_batch<decode_job<by_width<C>, known_zero>>(codec, items, sizes, scratch, outcomes, stream, how);
}

/// @cond
template <int Threads>
TUCK_KERNEL void __launch_bounds__(Threads, detail::blocks_with(64))
    inflate_batch_kernel(const __grid_constant__ detail::inflate_job job) {
  constexpr uint32_t warps = Threads / device::warp_size;
  using storage = inflate_warp::TempStorage[warps];
  TUCK_SHARED(storage, temp);
  inflate_warp inflate(temp[device::warp_id()]);
  for (uint64_t i = uint64_t{blockIdx.x} * warps + device::warp_id(); i < job.items.size();
       i += uint64_t{gridDim.x} * warps) {
    const inflate_item item = job.items[i];
    const inflate_result result = inflate(item.stream, item.out);
    if (device::lane_id() == 0) job.results[i] = result;
    device::sync_warp();
  }
}
/// @endcond

/// Decodes each stream into its output, as tuck::inflate does, and writes the result with the same index. Asynchronous
/// on `stream`: one launch.
///
/// @param items    in device memory. Outputs must not overlap each other or a stream. Items may share a stream
/// @param results  in device memory, at least as many as items
/// @return invalid_argument, misaligned, output_too_small (fewer results than items) or a CUDA error
inline result inflate_batch(span<const inflate_item> items, span<inflate_result> results, cudaStream_t stream,
                            const launch_options& how = {}) noexcept {
  const detail::profiler_range range("inflate_batch");
  if (items.is_null() || results.is_null()) return {status::invalid_argument};
  if (!tuck::aligned(items.data(), alignof(inflate_item)) || !tuck::aligned(results.data(), alignof(inflate_result)))
    return {status::misaligned};
  if (results.size() < items.size()) return {status::output_too_small};
  if (items.empty()) return {};
  constexpr uint64_t warps = block_threads / device::warp_size;
  return detail::launch(inflate_batch_kernel<block_threads>, detail::inflate_job{items, results.data()},
                        ceil_div(items.size(), warps), how, stream);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
