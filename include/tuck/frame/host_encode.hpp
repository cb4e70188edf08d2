// SPDX-License-Identifier: Apache-2.0
// How host calls encode a frame.
#pragma once

#include <tuck/frame/execution.hpp>
#include <tuck/frame/format.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <utility>

namespace tuck::inline TUCK_ABI::host::detail {

// Writes the metadata and the zeros before and after the tables, which are written later.
inline void write_metadata(bytes frame, const_bytes metadata, const frame_layout& at) noexcept {
  if (!metadata.empty()) std::memcpy(frame.data() + sizeof(frame_header), metadata.data(), metadata.size());
  const uint64_t end = sizeof(frame_header) + metadata.size();
  std::memset(frame.data() + end, 0, at.directory - end);
  std::memset(frame.data() + at.contents_end, 0, at.payloads - at.contents_end);
}

inline constexpr uint64_t batch_bytes = 128 * 1024;  // bytes of values that a thread takes at a time
inline constexpr uint64_t batch_chunks = 64;         // maximum number of chunks that a thread takes at a time

// What calls do with one chunk, without the codec's type: all that calls these is compiled once, not for each codec.
// The bytes are those of whole values. `base`: the base's values of a delta; only codecs that use it read it.
// Arguments: values, base, output, workspace, bytes used; and payload, base, values, workspace, verdict.
using chunk_encoder = function_ref<const_bytes, const_bytes, bytes, workspace, uint32_t&>;
using chunk_decoder = function_ref<const_bytes, const_bytes, bytes, workspace, status&>;

template <element T> span<const T> elements(const_bytes values) noexcept {
  return {reinterpret_cast<const T*>(values.data()), values.size() / sizeof(T)};
}
template <element T> span<T> elements(bytes values) noexcept {
  return {reinterpret_cast<T*>(values.data()), values.size() / sizeof(T)};
}

template <codec C> auto encodes_chunks(const C& codec) noexcept {
  return [&codec](const_bytes values, [[maybe_unused]] const_bytes base, bytes out, workspace memory,
                  uint32_t& used) noexcept {
    using T = value_t<C>;
    if constexpr (uses_base<C>)
      used = tuck::detail::encode_chunk_in(memory, codec, elements<T>(values), elements<T>(base), out);
    else
      used = tuck::detail::encode_chunk_in(memory, codec, elements<T>(values), out);
  };
}
template <codec C> auto decodes_chunks(const C& codec) noexcept {
  return [&codec](const_bytes payload, [[maybe_unused]] const_bytes base, bytes restored, workspace memory,
                  status& verdict) noexcept {
    using T = value_t<C>;
    if constexpr (uses_base<C>)
      verdict = tuck::detail::decode_chunk_in(memory, codec, payload, elements<T>(base), elements<T>(restored));
    else
      verdict = tuck::detail::decode_chunk_in(memory, codec, payload, elements<T>(restored));
  };
}

// Encodes one chunk into `out`, which is large enough for the codec's worst case and for a raw chunk. Returns how the
// chunk is stored. Sets `used` to the size of its payload in bytes.
inline chunk_kind encode_chunk(const chunk_encoder& encode, uint32_t value_bytes, const_bytes values, const_bytes base,
                               bytes out, workspace memory, uint32_t& used) noexcept {
  const auto raw_bytes = static_cast<uint32_t>(values.size());
  if (std::memcmp(values.data(), values.data() + value_bytes, raw_bytes - value_bytes) == 0) {
    uint64_t value = 0;
    std::memcpy(&value, values.data(), value_bytes);
    used = value == 0 ? 0 : value_bytes;
    std::memcpy(out.data(), values.data(), used);
    return chunk_kind::uniform;
  }
  encode(values, base, out, memory, used);
  if (used != incompressible && used < raw_bytes) return chunk_kind::encoded;
  used = raw_bytes;
  std::memcpy(out.data(), values.data(), raw_bytes);
  return chunk_kind::raw;
}

// Sets each byte of `out` to a ^ b. All have the size of `out`, which may be `a` or `b` itself.
inline void exclusive_or(const std::byte* a, const std::byte* b, bytes out) noexcept {
  tuck::detail::vectorized([=] {
    using lanes [[gnu::vector_size(32), gnu::aligned(1), gnu::may_alias]] = uint64_t;
    std::byte* const to = out.data();
    const uint64_t whole = out.size() & ~uint64_t{31};
    for (uint64_t i = 0; i < whole; i += 32)
      *reinterpret_cast<lanes*>(to + i) =
          *reinterpret_cast<const lanes*>(a + i) ^ *reinterpret_cast<const lanes*>(b + i);
    for (uint64_t i = whole; i < out.size(); ++i) to[i] = a[i] ^ b[i];
  });
}

// Adds chunk i to the digest of a tensor. Several threads do so.
inline void add_chunk(std::atomic<uint64_t>& digest, const_bytes chunk, uint64_t i) noexcept {
  digest.fetch_add(share_of_digest(checksum(chunk), i), std::memory_order_relaxed);
}

// Assigns offsets in the frame in chunk order, whichever thread asks first.
class offset_line {
 public:
  offset_line(uint64_t first_offset, unsigned threads) noexcept : waits_(threads > 1), end_(first_offset) {}

  // Waits until all chunks before `first` have their offsets, then reserves `size` bytes for the chunks [first, last).
  uint64_t reserve(uint64_t first, uint64_t last, uint64_t size) noexcept {
    if (!waits_) return std::exchange(end_, end_ + size);
    for (uint64_t next; (next = next_.load(std::memory_order_acquire)) != first;)
      next_.wait(next, std::memory_order_acquire);
    const uint64_t offset = end_;
    end_ += size;
    next_.store(last, std::memory_order_release);
    next_.notify_all();
    return offset;
  }
  uint64_t end() const noexcept { return end_; }

 private:
  bool waits_;
  std::atomic<uint64_t> next_{0};
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

// One call of encode, without types.
struct encode_call {
  frame_header header;  // without sizes and digests
  const_bytes values;
  const_bytes base;      // of a delta
  uint32_t chunk_bound;  // maximum size of the payload of a chunk in bytes
  uint32_t workspace_bytes;
  chunk_encoder encode;
  chunk_decoder decode;  // of a lossy codec

  // Returns the digest of the values that `encoded` decodes to, or 0 if the codec cannot decode what it has encoded.
  // `scratch` is memory for the values of one chunk.
  uint64_t digest_of_decoded(chunk_kind kind, const_bytes chunk, const_bytes encoded, std::byte* scratch,
                             workspace memory) const noexcept {
    if (!decode || kind != chunk_kind::encoded) return checksum(chunk);
    const bytes restored(scratch, chunk.size());
    status verdict = status::ok;
    decode(encoded, {}, restored, memory, verdict);
    return verdict == status::ok ? checksum(restored) : 0;
  }
};

// Encodes into `frame`. If `frame` ends before the payloads begin, computes only the size of the frame.
inline outcome encode_values(encode_call& call, bytes frame, const frame_options& options,
                             const execution& how) noexcept {
  frame_header& header = call.header;
  const frame_layout at = layout_of(header);
  const unsigned align = header.alignment_log2;
  const uint32_t value_bytes = size_of(header.type);
  const uint64_t chunk_bytes = uint64_t{header.chunk_values} * value_bytes;
  // max_chunk_bytes may be larger than the values of a chunk, but not larger than 4 * max_chunk_raw_bytes.
  if (call.chunk_bound > 4 * max_chunk_raw_bytes) return outcome{.code = status::size_overflow};
  const auto raw = static_cast<uint32_t>((std::min)(chunk_bytes, call.values.size()));
  const uint32_t slot = round_up_pow2((std::max)(call.chunk_bound, raw), align);
  const uint64_t batch =
      std::clamp<uint64_t>(batch_bytes / (std::max)(slot, 1u), 1, std::clamp<uint64_t>(at.chunks, 1, batch_chunks));
  const unsigned threads = useful_threads(how.threads, at.chunks, batch);
  // A single thread knows each offset in advance. It writes a batch directly into `frame` if the batch fits there in
  // the worst case. If all chunks fit in the worst case, no working memory is needed.
  const bool writes = frame.size() >= at.payloads, alone = threads <= 1 && writes;
  const bool all_in_place = alone && frame.size() - at.payloads >= at.chunks * slot;
  const uint64_t wanted_bytes = all_in_place ? 0 : threads * batch * slot;
  const std::unique_ptr<std::byte[]> memory(wanted_bytes == 0 ? nullptr : new (std::nothrow) std::byte[wanted_bytes]);
  if (wanted_bytes != 0 && memory == nullptr) return outcome{.code = status::out_of_memory};
  // Values of a chunk, for each thread.
  const bool is_delta = (header.flags & flag_delta) != 0, decodes = call.decode && options.checksums;
  const std::unique_ptr<std::byte[]> scratch(decodes || is_delta ? new (std::nothrow) std::byte[threads * chunk_bytes]
                                                                 : nullptr);
  const tuck::detail::workspaces workspaces(threads, call.workspace_bytes);
  if (((decodes || is_delta) && scratch == nullptr) || !workspaces) return outcome{.code = status::out_of_memory};

  if (frame.size() >= 8) store_unaligned(frame.data(), uint64_t{0});  // no frame until the header is written
  if (writes) write_metadata(frame, options.metadata, at);

  offset_line line(at.payloads, threads);
  std::atomic<uint64_t> base_digest{0}, result_digest{0};
  in_batches(at.chunks, batch, threads, how.pool, [&](unsigned worker, uint64_t first, uint64_t last) {
    const bool in_place = alone && frame.size() - (std::min)(line.end(), frame.size()) >= (last - first) * slot;
    std::byte* const begin = in_place ? frame.data() + line.end() : memory.get() + worker * batch * slot;
    std::byte* end = begin;
    std::byte* const mine = scratch == nullptr ? nullptr : scratch.get() + worker * chunk_bytes;
    uint64_t entries[batch_chunks];
    for (uint64_t i = first; i < last; ++i) {
      const uint64_t size = uint64_t{values_in_chunk(header, i)} * value_bytes;
      const_bytes chunk = call.values.subspan(i * chunk_bytes, size), base;
      if (is_delta) {
        base = call.base.subspan(i * chunk_bytes, size);
        add_chunk(base_digest, base, i);
        add_chunk(result_digest, chunk, i);
        exclusive_or(chunk.data(), base.data(), {mine, size});
        chunk = {mine, size};
      }
      uint32_t used = 0;
      const workspace work = workspaces.of(worker);
      const chunk_kind kind = encode_chunk(call.encode, value_bytes, chunk, base, {end, slot}, work, used);
      entries[i - first] = directory_entry::make(kind, used, static_cast<uint64_t>(end - begin) >> align).word;
      if (writes && options.checksums)
        store_unaligned(frame.data() + at.checksums + 8 * i,
                        call.digest_of_decoded(kind, chunk, {end, used}, mine, work));
      const uint64_t padded = round_up_pow2(used, align);
      std::memset(end + used, 0, padded - used);
      end += padded;
    }
    const auto size = static_cast<uint64_t>(end - begin);
    const uint64_t offset = line.reserve(first, last, size);
    if (writes && offset + size <= frame.size()) {
      for (uint64_t i = first; i < last; ++i)
        store_unaligned(frame.data() + at.directory + 8 * i, entries[i - first] + (offset >> align));
      if (!in_place) std::memcpy(frame.data() + offset, begin, size);
    }
    if (how.chunks_done != nullptr) how.chunks_done->fetch_add(last - first, std::memory_order_relaxed);
  });

  if (line.end() > frame.size()) return outcome{.bytes = line.end(), .code = status::output_too_small};
  if (at.result != at.contents_end) store_unaligned(frame.data() + at.result, result_digest.load());
  header.frame_bytes = line.end();
  header.base_digest = base_digest;
  header.contents_digest = checksum(frame.subspan(sizeof header, at.contents_end - sizeof header));
  header.header_digest = digest_of(header);
  std::memcpy(frame.data(), &header, sizeof header);
  return outcome{.bytes = line.end()};
}

// As encode_values. `base`: as many values, of a delta; else null.
template <codec C>
outcome encode(const C& wanted, span<const value_t<C>> values, bytes frame, const frame_options& options,
               const execution& how, const span<const value_t<C>>* base = nullptr) noexcept {
  encode_call call;
  frame_header& header = call.header;
  if (const status s = tuck::make_header(wanted, values.size(), options, header); s != status::ok)
    return outcome{.code = s};
  if (base != nullptr) header.flags |= flag_delta;
  if (!options.metadata_on_device.empty()) return outcome{.code = status::wrong_metadata};
  if (values.is_null() || options.metadata.is_null()) return outcome{.code = status::invalid_argument};
  C codec;
  if (const status s = detail::prepare(codec_of_values(wanted, header), values, how, codec); s != status::ok)
    return outcome{.code = s};
  if constexpr (adaptive_codec<C>) header.stages = codec.stages();
  call.values = tuck::as_bytes(values);
  if (base != nullptr) call.base = tuck::as_bytes(*base);
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(header.chunk_values, values.size()));
  call.chunk_bound = codec.max_chunk_bytes(most);
  call.workspace_bytes = tuck::detail::workspace_bytes_of<C>(most);
  const auto encodes = encodes_chunks(codec);
  call.encode = encodes;
  if constexpr (is_lossy<C>) {
    const auto decodes = decodes_chunks(codec);
    call.decode = decodes;
    return encode_values(call, frame, options, how);
  }
  return encode_values(call, frame, options, how);
}

}  // namespace tuck::inline TUCK_ABI::host::detail
