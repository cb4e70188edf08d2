// SPDX-License-Identifier: Apache-2.0
// Frames on the CPU, alone and in batches. Calls run on the calling thread, or spread the chunks over several threads.
// The bytes do not depend on the number of threads, and are the same as on a GPU.
#pragma once

#include <tuck/frame/any_codec.hpp>
#include <tuck/frame/host_encode.hpp>
#include <tuck/frame/items.hpp>
#include <tuck/frame/reader.hpp>

#include <vector>

namespace tuck::inline TUCK_ABI::host {

namespace detail {

// The lowest chunk that failed, and its status, whichever thread finds it.
class first_failure {
 public:
  void note(uint64_t chunk, status s) noexcept { raise(key_, ~(chunk << 16 | static_cast<uint32_t>(s))); }
  outcome result(uint64_t bytes) const noexcept {
    const uint64_t key = ~key_.load(std::memory_order_relaxed);
    if (key == ~uint64_t{0}) return outcome{.bytes = bytes};
    return {bytes, static_cast<status>(key & 0xffff),
            static_cast<uint32_t>(std::min<uint64_t>(key >> 16, no_chunk - 1))};
  }

 private:
  std::atomic<uint64_t> key_{0};  // as scratch_head::failure
};

// The number of chunks that a thread decodes at a time.
inline uint64_t chunks_at_a_time(const frame_header& h) noexcept {
  return std::max<uint64_t>(batch_bytes / (uint64_t{h.chunk_values} * size_of(h.type)), 1);
}

// Calls work(worker, i) for `count` chunks from `first` on, `batch` at a time, on up to `threads` workers. Returns the
// outcome of a call that writes `bytes` bytes.
template <class Work>
outcome for_chunks(uint64_t first, uint64_t count, uint64_t batch, unsigned threads, const execution& how,
                   uint64_t bytes, const Work& work) {
  first_failure failure;
  in_batches(count, batch, threads, how.pool, [&](unsigned worker, uint64_t begin, uint64_t end) {
    for (uint64_t i = first + begin; i < first + end; ++i)
      if (const status s = work(worker, i); s != status::ok) failure.note(i, s);
    if (how.chunks_done != nullptr) how.chunks_done->fetch_add(end - begin, std::memory_order_relaxed);
  });
  return failure.result(bytes);
}

// Sets all values of `out` to this one. Without bytes it is zero.
inline void repeat(const_bytes value, bytes out) noexcept {
  if (value.empty()) {
    std::memset(out.data(), 0, out.size());
    return;
  }
  std::memcpy(out.data(), value.data(), value.size());
  for (uint64_t done = value.size(); done < out.size(); done *= 2)
    std::memcpy(out.data() + done, out.data(), (std::min)(done, out.size() - done));
}

// Decodes all of chunk i into `restored`. Verifies its digest if `verifies` is true. `base`: of a delta, else empty.
inline status decode_chunk(const chunk_decoder& decode, const frame_view& frame, uint64_t i, bytes restored,
                           workspace memory, bool verifies = true, const_bytes base = {}) noexcept {
  chunk_view chunk;
  if (const status s = frame.chunk(i, chunk); s != status::ok) return s;
  if (chunk.kind == chunk_kind::encoded) {
    status s = status::ok;
    decode(chunk.payload, base, restored, memory, s);
    if (s != status::ok) return s;
  } else if (chunk.kind == chunk_kind::raw) {
    std::memcpy(restored.data(), chunk.payload.data(), chunk.payload.size());
  } else {
    repeat(chunk.payload, restored);
  }
  if (!verifies || !frame.has_checksums()) return status::ok;
  return frame.chunk_digest(i) == checksum(restored) ? status::ok : status::bad_checksum;
}

// Decodes the part of chunk i that lies in `out`, which begins with value `first`. If that is not the whole chunk,
// decodes the chunk into working memory first. Sets the part to zero after an error.
inline status decode_part(const chunk_decoder& decode, const frame_view& frame, uint64_t i, uint64_t first, bytes out,
                          workspace memory) noexcept {
  const frame_header& h = frame.header();
  const uint64_t value_bytes = size_of(h.type);
  const uint64_t begin = i * h.chunk_values * value_bytes, end = begin + values_in_chunk(h, i) * value_bytes;
  const uint64_t out_begin = first * value_bytes, from = (std::max)(begin, out_begin);
  const bytes part = out.subspan(from - out_begin, (std::min)(end, out_begin + out.size()) - from);
  status s = status::ok;
  if (part.size() == end - begin) {
    s = decode_chunk(decode, frame, i, part, memory);
  } else if (const std::unique_ptr<std::byte[]> whole(new (std::nothrow) std::byte[end - begin]); whole != nullptr) {
    s = decode_chunk(decode, frame, i, {whole.get(), end - begin}, memory);
    if (s == status::ok) std::memcpy(part.data(), whole.get() + (from - begin), part.size());
  } else {
    s = status::out_of_memory;
  }
  if (s != status::ok) std::memset(part.data(), 0, part.size());
  return s;
}

// The outcome of a call that cannot decode. Unless the frame may be valid, sets all of `out` to zero.
inline outcome refuse(bytes out, status why) noexcept {
  if (is_mismatch(why)) return outcome{.code = why};
  if (!out.empty()) std::memset(out.data(), 0, out.size());
  return {out.size(), why};
}

// Returns the size in bytes of the workspace to decode a chunk of this frame.
template <codec C> uint32_t workspace_bytes_to_decode(const frame_header& h) noexcept {
  return tuck::detail::workspace_bytes_of<C>(static_cast<uint32_t>(std::min<uint64_t>(h.chunk_values, h.value_count)));
}

// Decodes the values of `out` from value `first` on. They are in the frame.
inline outcome decode_values(const chunk_decoder& decode, const frame_view& frame, bytes out, uint64_t first,
                             const execution& how, uint32_t workspace_bytes) noexcept {
  if (out.empty()) return {};
  const frame_header& h = frame.header();
  const uint64_t first_chunk = first / h.chunk_values;
  const uint64_t count = (first + out.size() / size_of(h.type) - 1) / h.chunk_values + 1 - first_chunk;
  const uint64_t batch = chunks_at_a_time(h);
  const unsigned threads = useful_threads(how.threads, count, batch);
  const tuck::detail::workspaces workspaces(threads, workspace_bytes);
  if (!workspaces) return refuse(out, status::out_of_memory);
  return for_chunks(first_chunk, count, batch, threads, how, out.size(), [&](unsigned worker, uint64_t i) {
    return decode_part(decode, frame, i, first, out, workspaces.of(worker));
  });
}

// Decodes values of a frame whose header is valid. `unchecked`: if not 0, the size of the buffer of a frame whose
// directory is to be verified.
template <codec C>
outcome decode_opened(const C& codec, const frame_view& frame, span<value_t<C>> out, uint64_t first_value,
                      const execution& how, uint64_t unchecked = 0) noexcept {
  const bytes to = tuck::as_writable_bytes(out);
  C stored = codec;
  if (const status s = match_header(frame.header(), stored, first_value, out.size()); s != status::ok)
    return refuse(to, s);
  if (unchecked != 0)
    if (const status s = frame.check_contents(unchecked); s != status::ok) return refuse(to, s);
  const auto decodes = decodes_chunks(stored);
  return decode_values(decodes, frame, to, first_value, how, workspace_bytes_to_decode<C>(frame.header()));
}

// Sets outcomes[i] to work(item, how) for each item: for large items one after the other, each with all threads, then
// for small items in parallel, each on one thread.
template <class Item, class Work>
result for_items(span<const Item> items, span<outcome> outcomes, const execution& how, const Work& work) {
  constexpr uint64_t large = 4 << 20;  // bytes of values that keep several threads busy
  if (items.is_null() || outcomes.is_null()) return {status::invalid_argument};
  if (outcomes.size() < items.size()) return {status::output_too_small};
  const execution alone{.chunks_done = how.chunks_done};
  for (uint64_t i = 0; i < items.size(); ++i)
    if (items[i].values.size_bytes() >= large) outcomes[i] = work(items[i], how);
  in_batches(items.size(), 1, useful_threads(how.threads, items.size(), 1), how.pool,
             [&](unsigned, uint64_t i, uint64_t) {
               if (items[i].values.size_bytes() < large) outcomes[i] = work(items[i], alone);
             });
  return {};
}
// The buffer of an item.
inline bytes buffer_of(bytes frame) noexcept { return frame.is_null() ? bytes{} : frame; }

}  // namespace detail

/// Encodes `values` into `frame`.
///
/// @param frame    max_frame_bytes(codec, values.size(), options) bytes are always enough; fewer suffice if the frame
///                 fits. It must not overlap `values` or the metadata
/// @param options  chunk size, alignment, checksums, metadata, element type
/// @param how      threads; they do not change the bytes
/// @return the size of the frame in bytes, or an error. output_too_small: `bytes` is the size that is needed, and
///         `frame` holds no frame. invalid_argument: an option is invalid, a pointer with a non-zero size is null, or
///         the bound is in device memory. Also bad_bound, wrong_metadata, size_overflow, out_of_memory
template <codec C>
outcome encode(const C& codec, span<const value_t<C>> values, bytes frame, const frame_options& options = {},
               const execution& how = {}) noexcept {
  if (frame.is_null()) return outcome{.code = status::invalid_argument};
  return detail::encode(codec, values, frame, options, how);
}

/// Encodes with a codec that was chosen at run time.
/// @param values  the bytes of whole elements of the codec's type (else invalid_argument), aligned to that type (else
///                misaligned)
/// @return as for a known codec; unknown_codec if none was chosen
template <codec... Cs>
outcome encode(const any_codec<codec_list<Cs...>>& codec, const_bytes values, bytes frame,
               const frame_options& options = {}, const execution& how = {}) noexcept {
  outcome answer;
  const status found = codec.visit(values, [&](const auto& chosen, auto elements) {
    answer = host::encode(chosen, elements, frame, codec.typed(options), how);
  });
  return found == status::ok ? answer : outcome{.code = found};
}

/// Returns the size in bytes of the frame that encode would write. Costs about as much as encoding.
template <codec C>
outcome encoded_bytes(const C& codec, span<const value_t<C>> values, const frame_options& options = {},
                      const execution& how = {}) noexcept {
  outcome answer = detail::encode(codec, values, {}, options, how);
  if (answer.code == status::output_too_small) answer.code = status::ok;
  return answer;
}

/// Decodes values [first_value, first_value + out.size()) of a frame that frame_view::open has checked.
///
/// @param codec  of the same type as the encoder's; its parameters come from the frame
/// @return the bytes written to `out`, or an error. type_mismatch, codec_mismatch, needs_base and bad_range leave
///         `out` unchanged. If a chunk is damaged, its values are set to zero, and the outcome names the first such
///         chunk. The same happens if there is no memory to decode it (out_of_memory). If the frame has invalid
///         parameters or an unknown version of its codec, or if no chunk has memory, all of `out` is set to zero.
///         invalid_argument: `out` is null and not empty
template <codec C>
outcome decode(const C& codec, const frame_view& frame, span<value_t<C>> out, uint64_t first_value = 0,
               const execution& how = {}) noexcept {
  if (out.is_null()) return outcome{.code = status::invalid_argument};
  return detail::decode_opened(codec, frame, out, first_value, how);
}

/// Opens a frame, verifies its whole directory, and decodes values [first_value, first_value + out.size()) of it.
/// @param frame  may be longer than the frame that it contains, and may come from an untrusted source
/// @return as for an opened frame. If the header or directory is damaged, all of `out` is set to zero
template <codec C>
outcome decode(const C& codec, const_bytes frame, span<value_t<C>> out, uint64_t first_value = 0,
               const execution& how = {}) noexcept {
  if (frame.is_null() || out.is_null()) return outcome{.code = status::invalid_argument};
  frame_header header;
  if (const status s = inspect(frame, header); s != status::ok) return detail::refuse(tuck::as_writable_bytes(out), s);
  return detail::decode_opened(codec, frame_view(frame.data(), header), out, first_value, how, frame.size());
}

/// Decodes a frame whose codec is known only at run time. Uses the codec of `codecs` that can have written the frame.
/// @param out  receives the values from `first_value` on, as many as fit; bad_range if the frame has fewer. Its size is
///             a multiple of the element size (else invalid_argument). It is aligned to the element type (else
///             misaligned)
/// @return as for a known codec; type_mismatch or codec_mismatch if no codec of the list can have written the frame
template <codec... Cs>
outcome decode(codec_list<Cs...> codecs, const_bytes frame, bytes out, uint64_t first_value = 0,
               const execution& how = {}) noexcept {
  if (frame.is_null() || out.is_null()) return outcome{.code = status::invalid_argument};
  frame_header header;
  if (const status s = inspect(frame, header); s != status::ok) return detail::refuse(out, s);
  outcome answer;
  const status found = tuck::visit(codecs, header, [&]<class C>(const C& codec) {
    using T = value_t<C>;
    if (out.size() % sizeof(T) != 0)
      answer.code = status::invalid_argument;
    else if (reinterpret_cast<uintptr_t>(out.data()) % alignof(T) != 0)
      answer.code = status::misaligned;
    else
      answer = host::decode(codec, frame, span<T>(reinterpret_cast<T*>(out.data()), out.size() / sizeof(T)),
                            first_value, how);
  });
  return found == status::ok ? answer : detail::refuse(out, found);
}

// A type that is not a codec gets one readable error instead of a list of candidates.
template <no_codec X>
codec_missing<X> encode(const X&, const auto&, bytes, const frame_options& = {}, const execution& = {});
template <no_codec X> codec_missing<X> decode(const X&, const auto&, const auto&, uint64_t = 0, const execution& = {});

/// Encodes each item into its frame. If one item fails, the others are not affected.
///
/// @param items     a null `frame` is treated as a buffer of 0 bytes
/// @param outcomes  at least as many as items. Outcome i is what host::encode returns for item i
/// @param how       threads. All threads share the chunks of a large item. One thread encodes a whole small item
/// @return output_too_small if there are fewer outcomes than items; invalid_argument if either is null. Nothing is
///         written then
template <codec C>
result encode_batch(const C& codec, span<const encode_item<value_t<C>>> items, span<outcome> outcomes,
                    const frame_options& options = {}, const execution& how = {}) noexcept {
  return detail::for_items(items, outcomes, how, [&](const auto& item, const execution& of_item) {
    return host::encode(codec, item.values, detail::buffer_of(item.frame), options, of_item);
  });
}

/// Encodes each item with a codec that was chosen at run time.
/// @return as for a known codec; unknown_codec if none was chosen; type_mismatch if it takes values of another type
template <codec... Cs, element T>
result encode_batch(const any_codec<codec_list<Cs...>>& codec, span<const encode_item<T>> items, span<outcome> outcomes,
                    const frame_options& options = {}, const execution& how = {}) noexcept {
  result answer;
  const status found = codec.template visit_as<T>(
      [&](const auto& chosen) { answer = host::encode_batch(chosen, items, outcomes, codec.typed(options), how); });
  return found == status::ok ? answer : result{found};
}

/// Decodes the first decode_item::values.size() values of each frame. Outcome i is what host::decode returns for item
/// i. Everything else is as for encode_batch.
template <codec C>
result decode_batch(const C& codec, span<const decode_item<value_t<C>>> items, span<outcome> outcomes,
                    const execution& how = {}) noexcept {
  return detail::for_items(items, outcomes, how, [&](const auto& item, const execution& of_item) {
    return host::decode(codec, item.frame, item.values, 0, of_item);
  });
}

}  // namespace tuck::inline TUCK_ABI::host
