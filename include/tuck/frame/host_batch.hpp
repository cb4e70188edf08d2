// Batches on the CPU: many tensors, spread over threads.
#pragma once

#include <tuck/frame/host_delta.hpp>

namespace tuck::inline TUCK_ABI::host {

namespace detail {

// Calls work(i, how) for each item: large items one after the other, each with all threads, then small items in
// parallel, each on one thread.
template <class Item, class Work> void for_items(span<const Item> items, const execution& how, const Work& work) {
  constexpr uint64_t large = 4 << 20;  // bytes of values that keep several threads busy
  const execution alone{.chunks_done = how.chunks_done};
  for (uint64_t i = 0; i < items.size(); ++i)
    if (items[i].values.size_bytes() >= large) work(i, how);
  in_batches(items.size(), 1, useful_threads(how.threads, items.size(), 1), how.pool,
             [&](unsigned, uint64_t i, uint64_t) {
               if (items[i].values.size_bytes() < large) work(i, alone);
             });
}

}  // namespace detail

/// Encodes each item into its frame. If one item fails, the others are not affected.
///
/// @param items     a null `frame` is treated as a buffer of 0 bytes
/// @param outcomes  at least as many as items. Outcome i is what host::encode returns for item i
/// @param how       threads. All threads share the chunks of a large item. One thread encodes a whole small item
/// @return output_too_small if there are fewer outcomes than items; nothing is written then
template <codec C>
result encode_batch(const C& codec, span<const encode_item<value_t<C>>> items, span<outcome> outcomes,
                    const frame_options& options = {}, const execution& how = {}) noexcept {
  if (outcomes.size() < items.size()) return {status::output_too_small};
  detail::for_items(items, how, [&](uint64_t i, const execution& of_item) {
    const bytes room = items[i].frame.is_null() ? bytes{} : items[i].frame;
    outcomes[i] = host::encode(codec, items[i].values, room, options, of_item);
  });
  return {};
}

/// Decodes the first decode_item::values.size() values of each frame. Outcome i is what host::decode returns for item
/// i. Everything else is as for encode_batch.
template <codec C>
result decode_batch(const C& codec, span<const decode_item<value_t<C>>> items, span<outcome> outcomes,
                    const execution& how = {}) noexcept {
  if (outcomes.size() < items.size()) return {status::output_too_small};
  detail::for_items(items, how, [&](uint64_t i, const execution& of_item) {
    outcomes[i] = host::decode(codec, items[i].frame, items[i].values, 0, of_item);
  });
  return {};
}

/// Encodes each item relative to its base. Outcome i is what host::encode_delta returns for item i. Everything else is
/// as for encode_batch.
template <codec C>
result encode_delta_batch(const C& codec, span<const encode_delta_item<value_t<C>>> items, span<outcome> outcomes,
                          const frame_options& options = {}, const execution& how = {}) noexcept {
  if (outcomes.size() < items.size()) return {status::output_too_small};
  detail::for_items(items, how, [&](uint64_t i, const execution& of_item) {
    const bytes room = items[i].frame.is_null() ? bytes{} : items[i].frame;
    outcomes[i] = host::encode_delta(codec, items[i].values, items[i].base, room, options, of_item);
  });
  return {};
}

/// Applies each delta to its base. Outcome i is what host::decode_delta returns for item i. Unless it is ok, the values
/// of item i do not change; with `chunk_by_chunk` they may change. A failed item does not affect other items.
/// Everything else is as for encode_batch.
template <codec C>
result decode_delta_batch(const C& codec, span<const decode_delta_item<value_t<C>>> items, span<outcome> outcomes,
                          const delta_options& options = {}, const execution& how = {}) noexcept {
  if (outcomes.size() < items.size()) return {status::output_too_small};
  detail::for_items(items, how, [&](uint64_t i, const execution& of_item) {
    outcomes[i] = host::decode_delta(codec, items[i].frame, items[i].base, items[i].values, options, of_item);
  });
  return {};
}

}  // namespace tuck::inline TUCK_ABI::host
