// Batches on a CUDA stream: one launch encodes or decodes many tensors. Encoding takes two launches if the codec must
// see each tensor first, as quantize does for a range-relative bound. With small tensors, the launches take most of the
// time of single calls. A batch has one launch for all of them.
//
// What frame/device.cuh says about single calls holds here too. Items and outcomes must be in memory that the device
// can read and write; the types cannot check this. Kernels read the items when they run. So each replay of a captured
// graph uses the addresses and sizes that the items have at that time. Do not change the items before the last kernel
// of the call is done. Device memory is best, because each block reads all items. Pinned memory is good enough for a
// few items.
#pragma once

#include <tuck/frame/batch_kernels.cuh>
#include <tuck/frame/device.cuh>

namespace tuck::inline TUCK_ABI {

/// Returns how many bytes of scratch a batch of at most these sizes needs, for encoding or decoding. Returns 0 if the
/// options or sizes are invalid. Single calls can use the same scratch. encode_batch and decode_batch return
/// size_overflow if there are more than 2^30 items, or if sizes.values is more than 2^30 chunks.
template <codec C>
constexpr uint64_t scratch_bytes(const C& codec, const batch_sizes& sizes, const frame_options& options = {}) noexcept {
  frame_header header;
  if (tuck::plan_header(codec, sizes.values, options, header) != status::ok) return 0;
  const uint64_t slots = saturating_add(sizes.items, sizes.values / header.chunk_values);
  return saturating_add(scratch_head_bytes,
                        saturating_add(saturating_mul(scratch_head_bytes, sizes.items), saturating_mul(8, slots)));
}

namespace detail {

// Checks the arguments that encoding and decoding have in common.
template <class Item>
status check_batch(span<const Item> items, const batch_sizes& sizes, scratch_span scratch,
                   span<outcome> outcomes) noexcept {
  if (scratch.memory().data() == nullptr || items.is_null() || (outcomes.data() == nullptr && !items.empty()))
    return status::invalid_argument;
  if (!tuck::aligned(items.data(), alignof(Item)) || !tuck::aligned(outcomes.data(), alignof(outcome)) ||
      !tuck::aligned(scratch.memory().data(), device_alignment))
    return status::misaligned;
  if (items.size() > sizes.items) return status::batch_too_large;
  return outcomes.size() < items.size() ? status::output_too_small : status::ok;
}

// Makes one slot per item, and one more per `values` values of the whole batch. Returns false if there are too many.
inline bool make_slots(uint64_t items, uint64_t all_values, uint32_t values, batch_slots& slots) noexcept {
  if (items > batch_slots::max || all_values / values > batch_slots::max) return false;
  slots = {static_cast<uint32_t>(items), static_cast<uint32_t>(all_values / values), values};
  return true;
}

// Checks the arguments and makes the job of an encoding kernel.
template <codec C, class ItemJob, class Item>
status make_job(encode_batch_job<C, ItemJob, Item>& job, const C& codec, span<const Item> items,
                const batch_sizes& sizes, scratch_span scratch, span<outcome> outcomes,
                const frame_options& options) noexcept {
  if (const status s = tuck::make_header(codec, sizes.values, options, job.item.header); s != status::ok) return s;
  if constexpr (is_delta_job<ItemJob>) job.item.header.flags |= flag_delta;
  if (const status s = detail::check_batch(items, sizes, scratch, outcomes); s != status::ok) return s;
  if (!options.metadata.empty()) return status::wrong_metadata;
  if (options.metadata_on_device.is_null()) return status::invalid_argument;
  const uint32_t chunk_values = job.item.header.chunk_values;
  if (chunk_values > max_device_chunk_values<C>) return status::unsupported;
  if (!detail::make_slots(items.size(), sizes.values, chunk_values, job.slots)) return status::size_overflow;
  if (scratch.memory().size() < tuck::scratch_bytes(codec, sizes, options)) return status::scratch_too_small;
  job.item.codec = codec;
  job.item.metadata = options.metadata_on_device.data();
  job.head = reinterpret_cast<scratch_head*>(scratch.memory().data());
  job.item.head = job.head + 1;
  job.item.states = reinterpret_cast<uint64_t*>(job.item.head + items.size());
  job.item.state_count = (scratch.memory().size() - scratch_head_bytes) / 8;
  job.items = items;
  job.outcomes = outcomes.data();
  return status::ok;
}

// Checks the arguments and makes the job of a decoding kernel.
template <codec C, class ItemJob, class Item>
status make_job(decode_batch_job<C, ItemJob, Item>& job, const C& codec, span<const Item> items,
                const batch_sizes& sizes, scratch_span scratch, span<outcome> outcomes) noexcept {
  if (const status s = detail::check_batch(items, sizes, scratch, outcomes); s != status::ok) return s;
  // A slot is 16 KiB of output, or the default chunk of the codec if that is larger. It does not depend on the frames,
  // because they are untrusted.
  constexpr uint32_t slot_values = std::max<uint32_t>(C::chunk_bytes, tile_bytes) / uint32_t{sizeof(value_t<C>)};
  if (!detail::make_slots(items.size(), sizes.values, slot_values, job.slots)) return status::size_overflow;
  if (scratch.memory().size() < saturating_mul(scratch_head_bytes, saturating_add(items.size(), 1)))
    return status::scratch_too_small;
  job.item.codec = codec;
  job.head = reinterpret_cast<scratch_head*>(scratch.memory().data());
  job.item.head = job.head + 1;
  job.items = items;
  job.outcomes = outcomes.data();
  return status::ok;
}

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
///                  encode returns if a pointer of the item is null or misaligned. With output_too_small, `bytes` is
///                  the size that is needed, also for a null frame
/// @return the errors that encode returns; batch_too_large if there are more than sizes.items items; output_too_small
///         if there are fewer outcomes than items. After an error nothing is written
template <codec C>
result encode_batch(const C& codec, span<const encode_item<value_t<C>>> items, const batch_sizes& sizes,
                    scratch_span scratch, span<outcome> outcomes, cudaStream_t stream,
                    const frame_options& options = {}, const launch_options& how = {}) noexcept {
  encode_batch_job<C> job{};
  if (const status s = detail::make_job(job, codec, items, sizes, scratch, outcomes, options); s != status::ok)
    return {s};
  if (items.empty()) return {};
  if constexpr (adaptive_codec<C>) {
    if (!tuck::aligned(codec.device_parameter(), sizeof(double))) return {status::misaligned};
    if constexpr (floating_element<value_t<C>>) {
      job.has_prepass = codec.needs_range();
      if (job.has_prepass)
        if (const result r = detail::launch(prepass_batch_kernel<C, block_threads>, job, job.slots.most(), how, stream);
            !r)
          return r;
    }
  }
  return detail::launch(encode_batch_kernel<C, block_threads>, job, job.slots.most(), how, stream);
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
  decode_batch_job<C> job{};
  if (const status s = detail::make_job(job, codec, items, sizes, scratch, outcomes); s != status::ok) return {s};
  if (items.empty()) return {};
  return detail::launch(decode_batch_kernel<C, block_threads>, job, job.slots.most(), how, stream);
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
