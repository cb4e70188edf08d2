// Frames on the CPU. Calls run on the calling thread, or spread the chunks over several threads. The bytes do not
// depend on the number of threads, and are the same as on a GPU.
#pragma once

#include <tuck/frame/execution.hpp>
#include <tuck/frame/host_tables.hpp>
#include <tuck/frame/reader.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace tuck::inline TUCK_ABI::host {

namespace detail {

inline constexpr uint64_t batch_bytes = 128 * 1024;  // bytes of values that a thread takes at a time
inline constexpr uint64_t batch_chunks = 64;         // maximum number of chunks that a thread takes at a time

inline bool all_equal(const_bytes values, uint32_t value_bytes) noexcept {
  // Most tensors differ in their first values. That needs no call of memcmp.
  if (values.size() >= 16 + value_bytes && std::memcmp(values.data(), values.data() + value_bytes, 16) != 0)
    return false;
  return std::memcmp(values.data(), values.data() + value_bytes, values.size() - value_bytes) == 0;
}

// Encodes one chunk into `room`, which is large enough for the codec's worst case and for a raw chunk. Returns how the
// chunk is stored. Sets `used` to the size of its payload in bytes.
template <codec C>
chunk_kind encode_chunk(const C& codec, span<const value_t<C>> values, bytes room, uint32_t& used) noexcept {
  constexpr uint32_t value_bytes = sizeof(value_t<C>);
  const auto raw_bytes = static_cast<uint32_t>(values.size_bytes());
  if (all_equal(tuck::as_bytes(values), value_bytes)) {
    used = tuck::bits_of(values[0]) == 0 ? 0 : value_bytes;
    if (used != 0) store_unaligned(room.data(), values[0]);
    return chunk_kind::uniform;
  }
  used = codec.encode_chunk(values, room);
  if (used != incompressible && used < raw_bytes) return chunk_kind::encoded;
  used = raw_bytes;
  std::memcpy(room.data(), values.data(), raw_bytes);
  return chunk_kind::raw;
}

// Decodes one chunk of any kind. Does not verify its digest.
template <codec C> status decode_chunk(const C& codec, const chunk_view& chunk, span<value_t<C>> restored) noexcept {
  switch (chunk.kind) {
    case chunk_kind::encoded: return codec.decode_chunk(chunk.payload, restored);
    case chunk_kind::raw: std::memcpy(restored.data(), chunk.payload.data(), chunk.payload.size()); break;
    case chunk_kind::uniform: {
      const auto value = chunk.payload.empty() ? value_t<C>{} : load_unaligned<value_t<C>>(chunk.payload.data());
      std::fill(restored.begin(), restored.end(), value);
      break;
    }
  }
  return status::ok;
}

// Returns the digest of the values that `encoded` decodes to. `room` is working memory for the values of one chunk.
// Returns 0 if the codec cannot decode what it has encoded.
template <codec C>
uint64_t digest_of_decoded(const C& codec, chunk_kind kind, span<const value_t<C>> values, const_bytes encoded,
                           value_t<C>* room) noexcept {
  if (!is_lossy<C> || kind != chunk_kind::encoded) return checksum(tuck::as_bytes(values));
  const span<value_t<C>> restored(room, values.size());
  return codec.decode_chunk(encoded, restored) == status::ok ? checksum(tuck::as_bytes(restored)) : 0;
}

// Assigns offsets in the frame in chunk order, whichever thread asks first.
class place_line {
 public:
  place_line(uint64_t first_place, unsigned threads) noexcept : waits_(threads > 1), end_(first_place) {}

  // Waits until all chunks before `first` have their offsets, then takes `size` bytes for the chunks [first, last).
  uint64_t take(uint64_t first, uint64_t last, uint64_t size) noexcept {
    if (!waits_) return std::exchange(end_, end_ + size);
    for (uint64_t turn; (turn = turn_.load(std::memory_order_acquire)) != first;)
      turn_.wait(turn, std::memory_order_acquire);
    const uint64_t place = end_;
    end_ += size;
    turn_.store(last, std::memory_order_release);
    turn_.notify_all();
    return place;
  }
  uint64_t end() const noexcept { return end_; }

 private:
  bool waits_;
  std::atomic<uint64_t> turn_{0};
  uint64_t end_;
};

// Sets `to` to the maximum of `to` and `value`.
inline void raise(std::atomic<uint64_t>& to, uint64_t value) noexcept {
  for (uint64_t seen = to.load(std::memory_order_relaxed);
       seen < value && !to.compare_exchange_weak(seen, value, std::memory_order_relaxed);) {
  }
}

// Finds the range of a tensor.
template <class T> range_keys range_of(span<const T> values, unsigned threads, const executor& pool = {}) noexcept {
  constexpr uint64_t batch = batch_bytes / sizeof(T);
  std::atomic<uint64_t> lowest{0}, highest{0};
  in_batches(values.size(), batch, useful_threads(threads, values.size(), batch), pool,
             [&](unsigned, uint64_t first, uint64_t last) {
               value_range<T> range;
               for (uint64_t i = first; i < last; ++i) range.add(bits_at(values.data(), i));
               raise(lowest, range.keys().lowest);
               raise(highest, range.keys().highest);
             });
  return {lowest.load(std::memory_order_relaxed), highest.load(std::memory_order_relaxed)};
}

// Sets `prepared` to the codec that encodes these values. Its parameters are final: for example, the bound has been
// computed from the range of the values.
template <codec C>
status prepare(const C& codec, span<const value_t<C>> values, const execution& how, C& prepared) noexcept {
  if constexpr (adaptive_codec<C>) {
    if (codec.device_parameter() != nullptr) return status::invalid_argument;
    prepass_result seen;
    if constexpr (floating_element<value_t<C>>)
      if (codec.needs_range()) seen.range = range_of(values, how.threads, how.pool);
    return codec.prepare(seen, prepared);
  } else {
    prepared = codec;
    return status::ok;
  }
}

// The source of the values that `encode` reads. `take` returns the values of a chunk, and may use its last argument as
// memory for them. This source reads a tensor. host_delta.hpp has sources for deltas.
template <class T> struct plain_chunks {
  static constexpr uint32_t flags = 0;
  static span<const T> take(span<const T> chunk, uint64_t, uint64_t, T*) noexcept { return chunk; }
  static constexpr uint64_t base_digest() noexcept { return 0; }
  static constexpr uint64_t result_digest() noexcept { return 0; }
};

// Encodes into `frame`. If `frame` ends before the payloads begin, computes only the size of the frame.
template <codec C, class Chunks = plain_chunks<value_t<C>>>
outcome encode(const C& wanted, span<const value_t<C>> values, bytes frame, const frame_options& options,
               const execution& how, Chunks&& chunks = {}) noexcept {
  frame_header header;
  if (const status s = tuck::make_header(wanted, values.size(), options, header); s != status::ok) return {.code = s};
  header.flags |= std::remove_reference_t<Chunks>::flags;
  if (!options.metadata_on_device.empty()) return {.code = status::wrong_metadata};
  if (values.is_null() || options.metadata.is_null()) return {.code = status::invalid_argument};
  C codec;
  if (const status s = detail::prepare(wanted, values, how, codec); s != status::ok) return {.code = s};
  if constexpr (adaptive_codec<C>) header.stages = codec.stages();
  const frame_layout at = layout_of(header);
  const unsigned align = header.alignment_log2;
  // max_chunk_bytes may be larger than the values of a chunk, but not larger than 4 * max_chunk_raw_bytes.
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(header.chunk_values, values.size()));
  const uint32_t room = codec.max_chunk_bytes(most), raw = most * uint32_t{sizeof(value_t<C>)};
  if (room > 4 * max_chunk_raw_bytes) return {.code = status::size_overflow};
  const uint32_t slot = round_up_pow2(room > raw ? room : raw, align);
  const uint64_t batch =
      std::clamp<uint64_t>(batch_bytes / std::max(slot, 1u), 1, std::clamp<uint64_t>(at.chunks, 1, batch_chunks));
  const unsigned threads = useful_threads(how.threads, at.chunks, batch);
  // A single thread knows each offset in advance. It writes a batch directly into `frame` if the batch fits there in
  // the worst case. If all chunks fit in the worst case, no working memory is needed.
  const bool writes = frame.size() >= at.payloads, alone = threads <= 1 && writes;
  const bool all_in_place = alone && frame.size() - at.payloads >= at.chunks * slot;
  const uint64_t wanted_bytes = all_in_place ? 0 : threads * batch * slot;
  const std::unique_ptr<std::byte[]> memory(wanted_bytes == 0 ? nullptr : new (std::nothrow) std::byte[wanted_bytes]);
  if (wanted_bytes != 0 && memory == nullptr) return {.code = status::out_of_memory};
  using T = value_t<C>;
  const bool decodes = (is_lossy<C> && options.checksums) || header.flags > flag_checksums;
  const std::unique_ptr<T[]> restored(decodes ? new (std::nothrow) T[threads * uint64_t{header.chunk_values}]
                                              : nullptr);
  if (decodes && restored == nullptr) return {.code = status::out_of_memory};

  header_writer to_header(frame, header);
  if (writes) write_metadata(frame, options.metadata, at);

  place_line line(at.payloads, threads);
  in_batches(at.chunks, batch, threads, how.pool, [&](unsigned worker, uint64_t first, uint64_t last) {
    const bool in_place = alone && frame.size() - std::min(line.end(), frame.size()) >= (last - first) * slot;
    std::byte* const begin = in_place ? frame.data() + line.end() : memory.get() + worker * batch * slot;
    std::byte* end = begin;
    uint64_t entries[batch_chunks];
    for (uint64_t i = first; i < last; ++i) {
      const uint64_t begins = i * header.chunk_values;
      T* const values_room = restored.get() + (decodes ? worker * uint64_t{header.chunk_values} : 0);
      const auto chunk = chunks.take(values.subspan(begins, values_in_chunk(header, i)), i, begins, values_room);
      uint32_t used = 0;
      const chunk_kind kind = detail::encode_chunk(codec, chunk, {end, slot}, used);
      entries[i - first] = directory_entry::make(kind, used, static_cast<uint64_t>(end - begin) >> align).word;
      const uint64_t padded = round_up_pow2(used, align);
      fill_zeros({end + used, slot - used}, padded - used);
      end += padded;
      if (writes && options.checksums)
        store_unaligned(frame.data() + at.checksums + 8 * i,
                        digest_of_decoded(codec, kind, chunk, {end - padded, used}, values_room));
    }
    const auto size = static_cast<uint64_t>(end - begin);
    const uint64_t place = line.take(first, last, size);
    if (writes && place + size <= frame.size()) {
      for (uint64_t i = first; i < last; ++i)
        store_unaligned(frame.data() + at.directory + 8 * i, entries[i - first] + (place >> align));
      if (!in_place) std::memcpy(frame.data() + place, begin, size);
    }
    if (how.chunks_done != nullptr) how.chunks_done->fetch_add(last - first, std::memory_order_relaxed);
  });

  if (line.end() > frame.size()) return {.bytes = line.end(), .code = status::output_too_small};
  if (at.result != at.contents_end) store_unaligned(frame.data() + at.result, uint64_t{chunks.result_digest()});
  to_header.finish(line.end(), chunks.base_digest(),
                   checksum(frame.subspan(sizeof header, at.contents_end - sizeof header)));
  return {.bytes = line.end()};
}

// The lowest chunk that failed, and its status, whichever thread finds it.
class first_failure {
 public:
  void note(uint64_t chunk, status s) noexcept {
    const uint64_t mine = chunk << 16 | static_cast<uint32_t>(s);
    for (uint64_t seen = key_.load(std::memory_order_relaxed);
         mine < seen && !key_.compare_exchange_weak(seen, mine, std::memory_order_relaxed);) {
    }
  }
  outcome result(uint64_t bytes) const noexcept {
    const uint64_t key = key_.load(std::memory_order_relaxed);
    if (key == none) return {.bytes = bytes};
    return {bytes, static_cast<status>(key & 0xffff),
            static_cast<uint32_t>(std::min<uint64_t>(key >> 16, no_chunk - 1))};
  }

 private:
  static constexpr uint64_t none = ~uint64_t{0};
  std::atomic<uint64_t> key_{none};
};

// Decodes all of chunk i into `restored` and verifies its digest.
template <codec C>
status decode_verified(const C& codec, const frame_view& frame, uint64_t i, span<value_t<C>> restored) noexcept {
  chunk_view chunk;
  if (const status s = frame.chunk(i, chunk); s != status::ok) return s;
  if (const status s = detail::decode_chunk(codec, chunk, restored); s != status::ok) return s;
  return !frame.has_checksums() || frame.chunk_digest(i) == checksum(tuck::as_bytes(restored)) ? status::ok
                                                                                               : status::bad_checksum;
}

// Decodes the part of chunk i that lies in [first, first + out.size()). If that is not the whole chunk, decodes the
// chunk into working memory first. Sets the part to zero after an error.
template <codec C>
status decode_part(const C& codec, const frame_view& frame, uint64_t i, uint64_t first, span<value_t<C>> out) noexcept {
  using T = value_t<C>;
  const uint64_t begin = i * frame.header().chunk_values;
  const uint64_t end = begin + values_in_chunk(frame.header(), i);
  const uint64_t from = std::max(begin, first);
  const span<T> part = out.subspan(from - first, std::min(end, first + out.size()) - from);
  status s = status::ok;
  if (part.size() == end - begin) {
    s = detail::decode_verified(codec, frame, i, part);
  } else if (const std::unique_ptr<T[]> whole(new (std::nothrow) T[end - begin]); whole != nullptr) {
    s = detail::decode_verified(codec, frame, i, {whole.get(), end - begin});
    if (s == status::ok) std::memcpy(part.data(), whole.get() + (from - begin), part.size_bytes());
  } else {
    s = status::out_of_memory;
  }
  if (s != status::ok) std::memset(part.data(), 0, part.size_bytes());
  return s;
}

// Decodes at least one value of a frame that `codec` wrote.
template <codec C>
outcome decode_all(const C& codec, const frame_view& frame, span<value_t<C>> out, uint64_t first_value,
                   const execution& how) noexcept {
  const uint64_t chunk_values = frame.header().chunk_values;
  const uint64_t first_chunk = first_value / chunk_values;
  const uint64_t chunks = (first_value + out.size() - 1) / chunk_values + 1 - first_chunk;
  const uint64_t batch = std::max<uint64_t>(batch_bytes / (chunk_values * sizeof(value_t<C>)), 1);
  first_failure failure;
  in_batches(chunks, batch, useful_threads(how.threads, chunks, batch), how.pool,
             [&](unsigned, uint64_t begin, uint64_t end) {
               for (uint64_t i = first_chunk + begin; i < first_chunk + end; ++i)
                 if (const status s = decode_part(codec, frame, i, first_value, out); s != status::ok)
                   failure.note(i, s);
               if (how.chunks_done != nullptr) how.chunks_done->fetch_add(end - begin, std::memory_order_relaxed);
             });
  return failure.result(out.size_bytes());
}

// Sets all of `out` to zero after an error.
template <class T> outcome zeros(span<T> out, status why) noexcept {
  std::fill(out.begin(), out.end(), T{});
  return {out.size_bytes(), why};
}

// Checks that this codec with this element type wrote the frame, and that the frame contains the requested range of
// values. Sets `codec` to the parameters in the frame.
template <codec C>
outcome match(const frame_header& header, C& codec, span<value_t<C>> out, uint64_t first_value) noexcept {
  if (const status s = C::from_stages(header.stages, codec); is_mismatch(s))
    return {.code = s};
  else if (s != status::ok)
    return zeros(out, s);
  if (!holds<value_t<C>>(header.type)) return {.code = status::type_mismatch};
  if ((header.flags & flag_delta) != 0) return {.code = status::needs_base};
  if (first_value > header.value_count || out.size() > header.value_count - first_value)
    return {.code = status::bad_range};
  return {};
}

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
  if (frame.is_null()) return {.code = status::invalid_argument};
  return detail::encode(codec, values, frame, options, how);
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
///         chunk. The same happens if there is no memory to decode a part of a chunk (out_of_memory). If the frame has
///         invalid parameters or an unknown version of its codec, all of `out` is set to zero. invalid_argument: `out`
///         is null and not empty
template <codec C>
outcome decode(const C& codec, const frame_view& frame, span<value_t<C>> out, uint64_t first_value = 0,
               const execution& how = {}) noexcept {
  if (out.is_null()) return {.code = status::invalid_argument};
  C stored = codec;
  if (const outcome o = detail::match(frame.header(), stored, out, first_value); !o || out.empty()) return o;
  return detail::decode_all(stored, frame, out, first_value, how);
}

/// Opens a frame, verifies its whole directory, and decodes values [first_value, first_value + out.size()) of it.
/// @param frame  may be longer than the frame that it contains, and may come from an untrusted source
/// @return as for an opened frame. If the header or directory is damaged, all of `out` is set to zero
template <codec C>
outcome decode(const C& codec, const_bytes frame, span<value_t<C>> out, uint64_t first_value = 0,
               const execution& how = {}) noexcept {
  if (frame.is_null() || out.is_null()) return {.code = status::invalid_argument};
  frame_header header;
  if (const status s = frame_view::read_header(frame, header); s != status::ok) return detail::zeros(out, s);
  C stored = codec;
  if (const outcome o = detail::match(header, stored, out, first_value); !o) return o;
  const frame_view view(frame.data(), header);
  if (const status s = view.check_contents(frame.size()); s != status::ok) return detail::zeros(out, s);
  return out.empty() ? outcome{} : detail::decode_all(stored, view, out, first_value, how);
}

/// Decodes a frame whose codec is known only at run time. Uses the codec of `codecs` that can have written the frame.
/// @param out  receives the values from `first_value` on, as many as fit; bad_range if the frame has fewer. Its size is
///             a multiple of the element size (else invalid_argument). It is aligned to the element type (else
///             misaligned)
/// @return as for a known codec; type_mismatch or codec_mismatch if no codec of the list can have written the frame
template <codec... Cs>
outcome decode(codec_list<Cs...> codecs, const_bytes frame, bytes out, uint64_t first_value = 0,
               const execution& how = {}) noexcept {
  if (frame.is_null() || out.is_null()) return {.code = status::invalid_argument};
  frame_info info;
  if (const status s = inspect(frame, info); s != status::ok) return detail::zeros(out, s);
  outcome answer;
  const status found = tuck::visit(codecs, info, [&]<class C>(const C& codec) {
    using T = value_t<C>;
    if (out.size() % sizeof(T) != 0)
      answer.code = status::invalid_argument;
    else if (reinterpret_cast<uintptr_t>(out.data()) % alignof(T) != 0)
      answer.code = status::misaligned;
    else
      answer = host::decode(codec, frame, span<T>(reinterpret_cast<T*>(out.data()), out.size() / sizeof(T)),
                            first_value, how);
  });
  if (found == status::ok) return answer;
  return is_mismatch(found) ? outcome{.code = found} : detail::zeros(out, found);
}

// A type that is not a codec gets one readable error instead of a list of candidates.
template <no_codec X>
codec_missing<X> encode(const X&, const auto&, bytes, const frame_options& = {}, const execution& = {});
template <no_codec X> codec_missing<X> decode(const X&, const auto&, const auto&, uint64_t = 0, const execution& = {});

}  // namespace tuck::inline TUCK_ABI::host
