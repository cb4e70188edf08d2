// SPDX-License-Identifier: Apache-2.0
// Deltas on the CPU. A delta is a tensor encoded relative to a base, and is decoded with that base, also in place.
#pragma once

#include <tuck/frame/delta_writers.hpp>
#include <tuck/frame/host.hpp>

namespace tuck::inline TUCK_ABI::host {

namespace detail {

// The passes over the chunks of a delta. `base`, and `out` of `run`, have as many values as the frame: match_header
// checks that.
struct chunk_passes {
  const chunk_decoder& decode;
  const frame_view& frame;
  const execution& how;
  const_bytes base;
  uint32_t workspace_bytes;
  uint64_t batch = chunks_at_a_time(frame.header());
  unsigned threads = useful_threads(how.threads, frame.chunks(), batch);
  uint64_t value_bytes = size_of(frame.header().type), chunk_bytes = frame.header().chunk_values * value_bytes;

  const_bytes base_of(uint64_t i) const noexcept {
    return base.subspan(i * chunk_bytes, values_in_chunk(frame.header(), i) * value_bytes);
  }
  // Returns ok, or wrong_base if the digest of the base is not that in the frame.
  status check_base() const noexcept {
    std::atomic<uint64_t> digest{0};
    in_batches(frame.chunks(), batch, threads, how.pool, [&](unsigned, uint64_t begin, uint64_t end) {
      for (uint64_t i = begin; i < end; ++i) add_chunk(digest, base_of(i), i);
    });
    return digest == frame.header().base_digest ? status::ok : status::wrong_base;
  }
  // If `verifies` is true, verifies the chunks. If `out` is not empty, applies them to the base and writes the result
  // to `out`.
  outcome run(bool verifies, bytes out) const noexcept {
    const std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[threads * chunk_bytes]);
    const tuck::detail::workspaces workspaces(threads, workspace_bytes);
    if (memory == nullptr || !workspaces) return outcome{.code = status::out_of_memory};
    return for_chunks(0, frame.chunks(), batch, threads, how, base.size(), [&](unsigned worker, uint64_t i) {
      const const_bytes before = base_of(i);
      const bytes restored(memory.get() + worker * chunk_bytes, before.size());
      const status s = decode_chunk(decode, frame, i, restored, workspaces.of(worker), verifies, before);
      if (out.empty()) return s;
      const bytes to = out.subspan(i * chunk_bytes, before.size());
      if (s == status::ok)
        exclusive_or(restored.data(), before.data(), to);
      else
        std::memset(to.data(), 0, to.size());
      return s;
    });
  }
  // What decode_delta does once the frame is known to be right.
  outcome run(bytes out, const delta_options& options) const noexcept {
    if (options.passes == delta_passes::write) return run(false, out);
    if (const status s = check_base(); s != status::ok) return outcome{.code = s};
    if (options.chunk_by_chunk) return run(true, out);
    outcome verified = run(true, {});
    if (verified && options.passes == delta_passes::both) return run(false, out);
    if (!verified) verified.bytes = 0;
    return verified;
  }
};

}  // namespace detail

/// Encodes `values` relative to `base`: the codec encodes the bits of `values` XOR the bits of `base`. A delta always
/// has checksums.
///
/// @param codec  a codec for which supports_deltas is true: lossless and not adaptive
/// @param base   as many values as `values`
/// @param frame  max_delta_bytes(codec, values.size(), options) bytes are always enough. It must not overlap `values`
///               or `base`
/// @return the errors of encode; lossy_delta if the codec cannot encode deltas; wrong_base if the base has another
///         number of values. After output_too_small, `frame` holds no frame. After any other error, `frame` does not
///         change
template <codec C>
outcome encode_delta(const C& codec, span<const value_t<C>> values, span<const value_t<C>> base, bytes frame,
                     frame_options options = {}, const execution& how = {}) noexcept {
  if (!supports_deltas<C>) return outcome{.code = status::lossy_delta};
  if (frame.is_null() || base.is_null()) return outcome{.code = status::invalid_argument};
  if (base.size() != values.size()) return outcome{.code = status::wrong_base};
  options.checksums = true;
  return detail::encode(codec, values, frame, options, how, &base);
}

/// Encodes a delta with a codec that was chosen at run time.
/// @param values  the bytes of whole elements of the codec's type (else invalid_argument), aligned to that type (else
///                misaligned)
/// @param base    as many bytes, with the same alignment
/// @return as for a known codec; unknown_codec if none was chosen
template <codec... Cs>
outcome encode_delta(const any_codec<codec_list<Cs...>>& codec, const_bytes values, const_bytes base, bytes frame,
                     const frame_options& options = {}, const execution& how = {}) noexcept {
  outcome answer;
  const status found = codec.visit(values, base, [&](const auto& chosen, auto elements, auto of_base) {
    answer = host::encode_delta(chosen, elements, of_base, frame, codec.typed(options), how);
  });
  return found == status::ok ? answer : outcome{.code = found};
}

/// Restores the tensor of a delta from its base.
///
/// @param base  all values of the base
/// @param out   as many values as the frame (else bad_range). It may be `base` itself; otherwise they must not overlap
///
/// A first pass verifies the base, a second pass the frame, a third pass writes. Unless the outcome is ok, nothing is
/// written, `bytes` is 0, and the outcome names the first bad chunk if there is one. wrong_base: number or digest of
/// the base's values is not that in the frame, for example because the delta was already applied in place. No chunk is
/// decoded then. not_a_delta: use decode.
///
/// With `chunk_by_chunk` there is no second pass. Nothing is written if arguments, header, directory or base are
/// invalid, if the number of values is wrong, or after out_of_memory. Otherwise all of `out` is written. Damaged chunks
/// become zeros.
template <codec C>
outcome decode_delta(const C& codec, const_bytes frame, span<const value_t<C>> base, span<value_t<C>> out,
                     const delta_options& options = {}, const execution& how = {}) noexcept {
  if (!supports_deltas<C>) return outcome{.code = status::lossy_delta};
  if (frame.is_null() || base.is_null() || out.is_null()) return outcome{.code = status::invalid_argument};
  if (options.chunk_by_chunk && options.passes != delta_passes::both) return outcome{.code = status::invalid_argument};
  frame_header header;
  if (const status s = inspect(frame, header); s != status::ok) return outcome{.code = s};
  C stored = codec;
  if (const status s = match_header(header, stored, 0, out.size(), true, base.size()); s != status::ok)
    return outcome{.code = s};
  const frame_view view(frame.data(), header);
  if (const status s = view.check_contents(frame.size()); s != status::ok) return outcome{.code = s};
  const auto decodes = detail::decodes_chunks(stored);
  const detail::chunk_decoder decode = decodes;
  const detail::chunk_passes passes{decode, view, how, tuck::as_bytes(base),
                                    detail::workspace_bytes_to_decode<C>(header)};
  return passes.run(tuck::as_writable_bytes(out), options);
}

/// Merges consecutive deltas into one delta, from the base of the first to the result of the last. The bytes are those
/// that encode_delta writes for these two tensors.
///
/// @param codec    of the type that wrote the deltas
/// @param deltas   in order, at least one. Each is verified. Its base must be the result of the delta before it
/// @param base     of the first delta
/// @param restored receives the result of the last delta: as many values as the tensor (else bad_range). It must not
///                 overlap `base`. After an error its values are unspecified
/// @param frame    max_delta_bytes are always enough. It must not overlap `deltas`, `base` or `restored`
/// @param options  type and chunk size are ignored: those of the deltas are used
/// @param which    null, or receives an index: of the faulty delta if a delta is faulty, else of the last delta
/// @return the errors of encode_delta and decode_delta; not_consecutive if the base of a delta is not the result of the
///         delta before it, or if sizes or chunk sizes differ. After an error `frame` holds no frame. It does not
///         change after lossy_delta, or if `frame`, `base` or `restored` is null, or if `deltas` is empty
template <codec C>
outcome compact_deltas(const C& codec, span<const const_bytes> deltas, span<const value_t<C>> base,
                       span<value_t<C>> restored, bytes frame, frame_options options = {}, const execution& how = {},
                       uint64_t* which = nullptr) noexcept {
  if (!supports_deltas<C>) return outcome{.code = status::lossy_delta};
  if (deltas.empty() || deltas.is_null() || frame.is_null() || base.is_null() || restored.is_null())
    return outcome{.code = status::invalid_argument};
  if (frame.size() >= 8) store_unaligned(frame.data(), uint64_t{0});
  frame_header before;
  uint64_t result = 0;
  for (uint64_t i = 0; i < deltas.size(); ++i) {
    if (which != nullptr) *which = i;
    if (deltas[i].is_null()) return outcome{.code = status::invalid_argument};
    frame_view view;
    if (const status s = frame_view::open(deltas[i], view); s != status::ok) return outcome{.code = s};
    const frame_header& next = view.header();
    if (i == 0) {
      before = next;
      result = next.base_digest;
    }
    C stored = codec;
    if (const status s = match_header(next, stored, 0, next.value_count, true, next.value_count); s != status::ok)
      return outcome{.code = s};
    if (next.type != before.type) return outcome{.code = status::type_mismatch};
    if (next.value_count != before.value_count || next.chunk_values != before.chunk_values ||
        next.base_digest != result)
      return outcome{.code = status::not_consecutive};
    if (next.value_count != restored.size()) return outcome{.code = status::bad_range};
    outcome applied = host::decode_delta(codec, deltas[i], i == 0 ? base : span<const value_t<C>>(restored), restored,
                                         delta_options{true}, how);
    applied.bytes = 0;
    if (!applied) return applied;
    result = view.result_digest();
  }
  options.type = before.type;
  options.chunk_values = before.chunk_values;
  return host::encode_delta(codec, restored, base, frame, options, how);
}

/// Encodes each item relative to its base. Outcome i is what host::encode_delta returns for item i. Everything else is
/// as for encode_batch.
template <codec C>
result encode_delta_batch(const C& codec, span<const encode_delta_item<value_t<C>>> items, span<outcome> outcomes,
                          const frame_options& options = {}, const execution& how = {}) noexcept {
  return detail::for_items(items, outcomes, how, [&](const auto& item, const execution& of_item) {
    return host::encode_delta(codec, item.values, item.base, detail::buffer_of(item.frame), options, of_item);
  });
}

/// Encodes each item relative to its base, with a codec that was chosen at run time.
/// @return as for a known codec; unknown_codec if none was chosen; type_mismatch if it takes values of another type
template <codec... Cs, element T>
result encode_delta_batch(const any_codec<codec_list<Cs...>>& codec, span<const encode_delta_item<T>> items,
                          span<outcome> outcomes, const frame_options& options = {},
                          const execution& how = {}) noexcept {
  result answer;
  const status found = codec.template visit_as<T>([&](const auto& chosen) {
    answer = host::encode_delta_batch(chosen, items, outcomes, codec.typed(options), how);
  });
  return found == status::ok ? answer : result{found};
}

/// Applies each delta to its base. All items are verified before any value is written, unless `chunk_by_chunk` is true.
/// Outcome i is what host::decode_delta returns for item i. Unless it is ok, the values of item i do not change; with
/// `chunk_by_chunk` they may change. A failed item does not affect items with other values. Everything else is as for
/// encode_batch.
///
/// @param items  several items may have the same `values`, as tied weights do, if their deltas have the same base and
///               result. The values are then written once, and not if one of these items fails: all of them then have
///               its outcome. With `chunk_by_chunk`, too, all of these but the first one are verified before.
///               Otherwise, the values of an item must not overlap memory of other items
/// @return overlapping if they do; also out_of_memory. After an error neither values nor outcomes are written
template <codec C>
result decode_delta_batch(const C& codec, span<const decode_delta_item<value_t<C>>> items, span<outcome> outcomes,
                          const delta_options& options = {}, const execution& how = {}) noexcept {
  if (items.is_null() || outcomes.is_null()) return {status::invalid_argument};
  if (outcomes.size() < items.size()) return {status::output_too_small};
  if (options.chunk_by_chunk && options.passes != delta_passes::both) return {status::invalid_argument};
  delta_writers writers;
  const auto memory_of = [&](uint64_t i) {
    return delta_memory{items[i].frame, tuck::as_bytes(items[i].base), tuck::as_writable_bytes(items[i].values)};
  };
  if (const status s = writers.find(items.size(), memory_of); s != status::ok) return {s};
  bool any_tied = false;
  for (uint64_t i = 0; i < items.size(); ++i) {
    any_tied |= writers[i] != i;
    if (are_other_deltas(items[i].frame, items[writers[i]].frame)) return {status::overlapping};
  }
  const auto number_of = [&](const auto& item) { return static_cast<uint64_t>(&item - items.data()); };
  // Values are written only if all items that have them are right.
  const auto fail_writers = [&] {
    for (uint64_t i = 0; i < items.size(); ++i)
      if (outcome& of_writer = outcomes[writers[i]]; of_writer && !outcomes[i]) of_writer = outcomes[i];
  };
  // Of tied items `run` decodes one, so the others are verified before, if it does not do that.
  if (options.chunk_by_chunk && any_tied) {
    static_cast<void>(detail::for_items(items, outcomes, how, [&](const auto& item, const execution& of_item) {
      if (const uint64_t i = number_of(item); writers[i] == i) return outcome{};
      return host::decode_delta(codec, item.frame, item.base, item.values, {false, delta_passes::verify}, of_item);
    }));
    fail_writers();
  }
  const auto run = [&](delta_passes passes) {
    const delta_options of_pass{options.chunk_by_chunk, passes};
    const bool writes = passes != delta_passes::verify;
    const bool was_verified = passes == delta_passes::write || (options.chunk_by_chunk && any_tied);
    const result done = detail::for_items(items, outcomes, how, [&](const auto& item, const execution& of_item) {
      const uint64_t i = number_of(item);
      if (writes && writers[i] != i) return outcomes[i];
      if (was_verified && !outcomes[i]) return outcomes[i];
      return host::decode_delta(codec, item.frame, item.base, item.values, of_pass, of_item);
    });
    if (!writes) fail_writers();
    for (uint64_t i = 0; i < items.size(); ++i)
      if (const outcome& of_writer = outcomes[writers[i]]; options.chunk_by_chunk || !of_writer)
        outcomes[i] = of_writer;
    return done;
  };
  if (options.chunk_by_chunk || options.passes != delta_passes::both) return run(options.passes);
  const result verified = run(delta_passes::verify);
  return verified ? run(delta_passes::write) : verified;
}

}  // namespace tuck::inline TUCK_ABI::host
