// Batches on the CPU: many tensors, spread over threads.
#pragma once

#include <tuck/frame/batch.hpp>
#include <tuck/frame/host_delta.hpp>

namespace tuck::inline TUCK_ABI::host {

namespace detail {

// Calls work(i, how) for each item: the large ones one after the other, with all threads, the others side by side.
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

// Encodes each item into its frame and has the outcome of the same index say what encode returned for it, or
// invalid_argument where values are null; a room that is null is none. Returns output_too_small, having done nothing,
// where there are fewer outcomes than items.
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

// The same of decode, from the first value of each frame on.
template <codec C>
result decode_batch(const C& codec, span<const decode_item<value_t<C>>> items, span<outcome> outcomes,
                    const execution& how = {}) noexcept {
  if (outcomes.size() < items.size()) return {status::output_too_small};
  detail::for_items(items, how, [&](uint64_t i, const execution& of_item) {
    outcomes[i] = host::decode(codec, items[i].frame, items[i].values, 0, of_item);
  });
  return {};
}

// The same of encode_delta.
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

// The same of decode_delta: each item is restored as a whole, or stays as it was. Where one is wrong, the others are
// restored all the same.
template <codec C>
result decode_delta_batch(const C& codec, span<const decode_delta_item<value_t<C>>> items, span<outcome> outcomes,
                          const delta_options& options = {}, const execution& how = {}) noexcept {
  if (outcomes.size() < items.size()) return {status::output_too_small};
  detail::for_items(items, how, [&](uint64_t i, const execution& of_item) {
    outcomes[i] = host::decode_delta(codec, items[i].frame, items[i].base, items[i].values, options, of_item);
  });
  return {};
}

template <no_codec X>
result encode_batch(const X&, const auto&, const auto&, const frame_options& = {}, const execution& = {}) {
  static_assert(codec<X>, TUCK_NO_CODEC);
  return {};
}
template <no_codec X> result decode_batch(const X&, const auto&, const auto&, const execution& = {}) {
  static_assert(codec<X>, TUCK_NO_CODEC);
  return {};
}

template <no_codec X>
result encode_delta_batch(const X&, const auto&, const auto&, const frame_options& = {}, const execution& = {}) {
  static_assert(codec<X>, TUCK_NO_CODEC);
  return {};
}
template <no_codec X>
result decode_delta_batch(const X&, const auto&, const auto&, const delta_options& = {}, const execution& = {}) {
  static_assert(codec<X>, TUCK_NO_CODEC);
  return {};
}

}  // namespace tuck::inline TUCK_ABI::host
