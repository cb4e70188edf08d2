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

// Encodes one chunk into `out`, which is large enough for the codec's worst case and for a raw chunk. Returns how the
// chunk is stored. Sets `used` to the size of its payload in bytes. `base`: of a delta, else empty.
template <codec C>
chunk_kind encode_chunk(const C& codec, span<const value_t<C>> values, [[maybe_unused]] span<const value_t<C>> base,
                        bytes out, uint32_t& used) noexcept {
  constexpr uint32_t value_bytes = sizeof(value_t<C>);
  const auto raw_bytes = static_cast<uint32_t>(values.size_bytes());
  if (std::memcmp(values.data(), values.data() + 1, raw_bytes - value_bytes) == 0) {
    used = tuck::bits_of(values[0]) == 0 ? 0 : value_bytes;
    if (used != 0) store_unaligned(out.data(), values[0]);
    return chunk_kind::uniform;
  }
  if constexpr (uses_base<C>)
    used = codec.encode_chunk(values, base, out);
  else
    used = codec.encode_chunk(values, out);
  if (used != incompressible && used < raw_bytes) return chunk_kind::encoded;
  used = raw_bytes;
  std::memcpy(out.data(), values.data(), raw_bytes);
  return chunk_kind::raw;
}

// Returns the digest of the values that `encoded` decodes to. `scratch` is working memory for the values of one chunk.
// Returns 0 if the codec cannot decode what it has encoded.
template <codec C>
uint64_t digest_of_decoded(const C& codec, chunk_kind kind, span<const value_t<C>> values, const_bytes encoded,
                           value_t<C>* scratch) noexcept {
  if (!is_lossy<C> || kind != chunk_kind::encoded) return checksum(tuck::as_bytes(values));
  const span<value_t<C>> restored(scratch, values.size());
  return codec.decode_chunk(encoded, restored) == status::ok ? checksum(tuck::as_bytes(restored)) : 0;
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

// The source of the values that `encode` reads. `values_of` returns the values of a chunk, and may use its last
// argument as memory for them. base_of returns those of the base. This source reads a tensor; host_delta.hpp has that
// of a delta.
template <class T> struct plain_chunks {
  static constexpr uint32_t flags = 0;                           // of the frame
  static constexpr uint64_t base_digest = 0, result_digest = 0;  // with flag_delta

  static span<const T> values_of(span<const T> chunk, uint64_t, uint64_t, T*) noexcept { return chunk; }
  static span<const T> base_of(uint64_t, uint64_t) noexcept { return {}; }
};

// Encodes into `frame`. If `frame` ends before the payloads begin, computes only the size of the frame.
template <codec C, class Chunks = plain_chunks<value_t<C>>>
outcome encode(const C& wanted, span<const value_t<C>> values, bytes frame, const frame_options& options,
               const execution& how, Chunks&& chunks = {}) noexcept {
  frame_header header;
  if (const status s = tuck::make_header(wanted, values.size(), options, header); s != status::ok)
    return outcome{.code = s};
  header.flags |= chunks.flags;
  if (!options.metadata_on_device.empty()) return outcome{.code = status::wrong_metadata};
  if (values.is_null() || options.metadata.is_null()) return outcome{.code = status::invalid_argument};
  C codec;
  if (const status s = detail::prepare(codec_of_values(wanted, header), values, how, codec); s != status::ok)
    return outcome{.code = s};
  if constexpr (adaptive_codec<C>) header.stages = codec.stages();
  const frame_layout at = layout_of(header);
  const unsigned align = header.alignment_log2;
  // max_chunk_bytes may be larger than the values of a chunk, but not larger than 4 * max_chunk_raw_bytes.
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(header.chunk_values, values.size()));
  const uint32_t bound = codec.max_chunk_bytes(most), raw = most * uint32_t{sizeof(value_t<C>)};
  if (bound > 4 * max_chunk_raw_bytes) return outcome{.code = status::size_overflow};
  const uint32_t slot = round_up_pow2(bound > raw ? bound : raw, align);
  const uint64_t batch =
      std::clamp<uint64_t>(batch_bytes / std::max(slot, 1u), 1, std::clamp<uint64_t>(at.chunks, 1, batch_chunks));
  const unsigned threads = useful_threads(how.threads, at.chunks, batch);
  // A single thread knows each offset in advance. It writes a batch directly into `frame` if the batch fits there in
  // the worst case. If all chunks fit in the worst case, no working memory is needed.
  const bool writes = frame.size() >= at.payloads, alone = threads <= 1 && writes;
  const bool all_in_place = alone && frame.size() - at.payloads >= at.chunks * slot;
  const uint64_t wanted_bytes = all_in_place ? 0 : threads * batch * slot;
  const std::unique_ptr<std::byte[]> memory(wanted_bytes == 0 ? nullptr : new (std::nothrow) std::byte[wanted_bytes]);
  if (wanted_bytes != 0 && memory == nullptr) return outcome{.code = status::out_of_memory};
  using T = value_t<C>;
  const bool decodes = (is_lossy<C> && options.checksums) || header.flags > flag_checksums;
  const std::unique_ptr<T[]> restored(decodes ? new (std::nothrow) T[threads * uint64_t{header.chunk_values}]
                                              : nullptr);
  if (decodes && restored == nullptr) return outcome{.code = status::out_of_memory};

  if (frame.size() >= 8) store_unaligned(frame.data(), uint64_t{0});  // no frame until the header is written
  if (writes) write_metadata(frame, options.metadata, at);

  offset_line line(at.payloads, threads);
  in_batches(at.chunks, batch, threads, how.pool, [&](unsigned worker, uint64_t first, uint64_t last) {
    const bool in_place = alone && frame.size() - std::min(line.end(), frame.size()) >= (last - first) * slot;
    std::byte* const begin = in_place ? frame.data() + line.end() : memory.get() + worker * batch * slot;
    std::byte* end = begin;
    uint64_t entries[batch_chunks];
    for (uint64_t i = first; i < last; ++i) {
      const uint64_t begins = i * header.chunk_values;
      T* const scratch = restored.get() + (decodes ? worker * uint64_t{header.chunk_values} : 0);
      const auto chunk = chunks.values_of(values.subspan(begins, values_in_chunk(header, i)), i, begins, scratch);
      uint32_t used = 0;
      const chunk_kind kind =
          detail::encode_chunk(codec, chunk, chunks.base_of(begins, chunk.size()), {end, slot}, used);
      entries[i - first] = directory_entry::make(kind, used, static_cast<uint64_t>(end - begin) >> align).word;
      const uint64_t padded = round_up_pow2(used, align);
      std::memset(end + used, 0, padded - used);
      end += padded;
      if (writes && options.checksums)
        store_unaligned(frame.data() + at.checksums + 8 * i,
                        digest_of_decoded(codec, kind, chunk, {end - padded, used}, scratch));
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
  if (at.result != at.contents_end) store_unaligned(frame.data() + at.result, uint64_t{chunks.result_digest});
  header.frame_bytes = line.end();
  header.base_digest = chunks.base_digest;
  header.contents_digest = checksum(frame.subspan(sizeof header, at.contents_end - sizeof header));
  header.header_digest = digest_of(header);
  std::memcpy(frame.data(), &header, sizeof header);
  return outcome{.bytes = line.end()};
}

}  // namespace tuck::inline TUCK_ABI::host::detail
