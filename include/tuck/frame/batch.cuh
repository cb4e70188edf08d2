// Batches on a stream: many tensors, one launch each way. (Encoding takes two where a codec must see each tensor first,
// as quantize with a range-relative bound.) A single call is a launch, and small tensors are done before it has begun;
// a batch costs what its bytes cost.
//
// What frame/device.cuh says of single calls holds here too. The items and the outcomes are in memory that the device
// can read and write, which no type can check. Items are read when the kernels run: a captured graph follows the
// addresses and sizes that it then finds there, which stay as they are until the last of its kernels is done. Device
// memory is best, for each block reads them all; pinned memory will do for a few.
#pragma once

#include <tuck/frame/batch_kernels.cuh>
#include <tuck/frame/device.cuh>

namespace tuck::inline TUCK_ABI {

// Bytes of scratch that a batch of at most these sizes needs, encoding or decoding. The same scratch serves single
// calls. A batch has up to 2^30 items, and as many chunks beyond the first of each; else size_overflow.
template <codec C>
constexpr uint64_t scratch_bytes(const C& codec, const batch_sizes& sizes, const frame_options& options = {}) noexcept {
  frame_header header;
  if (tuck::plan_header(codec, sizes.values, options, header) != status::ok) return 0;
  const uint64_t slots = saturating_add(sizes.items, sizes.values / header.chunk_values);
  return saturating_add(scratch_head_bytes,
                        saturating_add(saturating_mul(scratch_head_bytes, sizes.items), saturating_mul(8, slots)));
}

namespace detail {

// What encoding and decoding ask of their arguments alike.
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

// Of so many values, a slot each `values`; false: there are too many.
inline bool make_slots(uint64_t items, uint64_t all_values, uint32_t values, batch_slots& slots) noexcept {
  if (items > batch_slots::max || all_values / values > batch_slots::max) return false;
  slots = {static_cast<uint32_t>(items), static_cast<uint32_t>(all_values / values), values};
  return true;
}

// What encoding kernels are told.
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

// What decoding kernels are told.
template <codec C, class ItemJob, class Item>
status make_job(decode_batch_job<C, ItemJob, Item>& job, const C& codec, span<const Item> items,
                const batch_sizes& sizes, scratch_span scratch, span<outcome> outcomes) noexcept {
  if (const status s = detail::check_batch(items, sizes, scratch, outcomes); s != status::ok) return s;
  // By what is written, for frames are not to be believed: 16 KiB, or a chunk as its codec makes them.
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

// Encodes each item's values into its frame: the bytes, and in the outcome of the same index what encode would write
// there. What encode refuses by its result - null and misaligned pointers, rooms that are too small, which get the
// bytes that they need - is that item's outcome, and no other's affair. All frames have the same options and metadata.
// `sizes`: as for scratch_bytes. Where the items have more values, those for whose chunks there is no scratch left come
// back as batch_too_large, none of them written; those of one chunk always have some. Earlier items have theirs first.
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
      job.surveyed = codec.needs_range();
      if (job.surveyed)
        if (const result r = detail::launch(survey_batch_kernel<C, block_threads>, job, job.slots.most(), how, stream);
            !r)
          return r;
    }
  }
  return detail::launch(encode_batch_kernel<C, block_threads>, job, job.slots.most(), how, stream);
}

// Restores each item's values, all or the first of its frame's, as decode does, which says what becomes of damaged
// frames; none harms another item. `sizes.values` is the room for values of all items together, and items with more
// come back as batch_too_large where that would want more work than was promised, none of them written.
template <codec C>
result decode_batch(const C& codec, span<const decode_item<value_t<C>>> items, const batch_sizes& sizes,
                    scratch_span scratch, span<outcome> outcomes, cudaStream_t stream,
                    const launch_options& how = {}) noexcept {
  decode_batch_job<C> job{};
  if (const status s = detail::make_job(job, codec, items, sizes, scratch, outcomes); s != status::ok) return {s};
  if (items.empty()) return {};
  return detail::launch(decode_batch_kernel<C, block_threads>, job, job.slots.most(), how, stream);
}

template <no_codec X>
result encode_batch(const X&, const auto&, const batch_sizes&, scratch_span, const auto&, cudaStream_t,
                    const frame_options& = {}, const launch_options& = {}) noexcept {
  static_assert(codec<X>, TUCK_NO_CODEC);
  return {};
}
template <no_codec X>
result decode_batch(const X&, const auto&, const batch_sizes&, scratch_span, const auto&, cudaStream_t,
                    const launch_options& = {}) noexcept {
  static_assert(codec<X>, TUCK_NO_CODEC);
  return {};
}

}  // namespace TUCK_ARCH
}  // namespace tuck::inline TUCK_ABI
