// Deltas on the CPU: a tensor encoded against a base, and restored from both. The base may be restored in place.
#pragma once

#include <tuck/frame/host.hpp>

namespace tuck::inline TUCK_ABI::host {

namespace detail {

// Sets each byte of `out` to a ^ b, of the same size; `out` may be either.
inline void exclusive_or(const std::byte* a, const std::byte* b, bytes out) noexcept {
  const uint64_t whole = out.size() & ~uint64_t{7};
  for (uint64_t i = 0; i < whole; i += 8)
    store_unaligned(out.data() + i, load_unaligned<uint64_t>(a + i) ^ load_unaligned<uint64_t>(b + i));
  for (uint64_t i = whole; i < out.size(); ++i) out.data()[i] = a[i] ^ b[i];
}

// The digest of a tensor whose chunks threads add up.
class shared_digest {
 public:
  void add(const_bytes chunk, uint64_t i) noexcept {
    sum_.fetch_add(share_of_digest(checksum(chunk), i), std::memory_order_relaxed);
  }
  uint64_t get() const noexcept { return sum_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> sum_{0};
};

// What is encoded of a chunk of a delta, in `room`.
template <class T> struct delta_chunks {
  span<const T> base;
  shared_digest of_base, of_result;
  static constexpr uint32_t flags = flag_delta;

  span<const T> take(span<const T> chunk, uint64_t i, uint64_t first, T* room) noexcept {
    const auto result = tuck::as_bytes(chunk), before = tuck::as_bytes(base.subspan(first, chunk.size()));
    of_base.add(before, i);
    of_result.add(result, i);
    exclusive_or(result.data(), before.data(), {reinterpret_cast<std::byte*>(room), before.size()});
    return {room, chunk.size()};
  }
  uint64_t base_digest() const noexcept { return of_base.get(); }
  uint64_t result_digest() const noexcept { return of_result.get(); }
};

// Is the frame a delta of this codec, and for such a base and such an output? The codec gets the frame's parameters.
template <codec C>
status match_delta(const frame_header& header, C& codec, uint64_t base_values, uint64_t out_values) noexcept {
  if (const status s = C::from_stages(header.stages, codec); s != status::ok) return s;
  if (!holds<value_t<C>>(header.type)) return status::type_mismatch;
  if ((header.flags & flag_delta) == 0) return status::not_a_delta;
  if (base_values != header.value_count) return status::wrong_base;
  return out_values == header.value_count ? status::ok : status::bad_range;
}

// One pass over the chunks of a delta.
template <codec C> class delta_pass {
  using T = value_t<C>;

 public:
  delta_pass(const C& codec, const frame_view& frame, span<const T> base, const execution& how) noexcept
      : codec_(codec), frame_(frame), base_(base), has_base_(true), how_(how) {}
  // Without a base chunks are applied to what is in `out`.
  delta_pass(const C& codec, const frame_view& frame, const execution& how) noexcept
      : codec_(codec), frame_(frame), has_base_(false), how_(how) {}

  // Verifies chunks and base, if `verifies`, and applies the chunks to `out`, if there is one.
  outcome run(bool verifies, span<T> out) noexcept {
    const span<const T> before = has_base_ ? base_ : out;
    const uint64_t chunk_values = frame_.header().chunk_values;
    const uint64_t batch = std::max<uint64_t>(batch_bytes / (chunk_values * sizeof(T)), 1);
    const unsigned threads = useful_threads(how_.threads, frame_.chunks(), batch);
    const std::unique_ptr<T[]> memory(new (std::nothrow) T[threads * chunk_values]);
    if (memory == nullptr) return {.code = status::out_of_memory};
    first_failure failure;
    shared_digest base_digest;
    in_batches(frame_.chunks(), batch, threads, how_.pool, [&](unsigned worker, uint64_t begin, uint64_t end) {
      for (uint64_t i = begin; i < end; ++i) {
        const uint64_t first = i * chunk_values;
        const span<T> room(memory.get() + worker * chunk_values, values_in_chunk(frame_.header(), i));
        const auto of_base = tuck::as_bytes(before.subspan(first, room.size()));
        if (verifies && has_base_) base_digest.add(of_base, i);
        const status s = restore(i, room, verifies);
        if (s != status::ok) failure.note(i, s);
        if (out.empty()) continue;
        const bytes to = tuck::as_writable_bytes(out.subspan(first, room.size()));
        if (s == status::ok)
          exclusive_or(tuck::as_bytes(room).data(), of_base.data(), to);
        else
          std::memset(to.data(), 0, to.size());
      }
      if (how_.chunks_done != nullptr) how_.chunks_done->fetch_add(end - begin, std::memory_order_relaxed);
    });
    const outcome restored = failure.result(before.size_bytes());
    if (restored && verifies && has_base_ && base_digest.get() != frame_.header().base_digest)
      return {.code = status::wrong_base};
    return restored;
  }

 private:
  status restore(uint64_t i, span<T> room, bool verifies) const noexcept {
    if (verifies) return detail::decode_verified(codec_, frame_, i, room);
    chunk_view chunk;
    const status s = frame_.chunk(i, chunk);
    return s != status::ok ? s : detail::decode_chunk(codec_, chunk, room);
  }

  const C& codec_;
  const frame_view& frame_;
  span<const T> base_;
  bool has_base_;
  execution how_;
};

}  // namespace detail

// As encode, but a delta: what `values` has other than `base`, which has as many values; else wrong_base. Takes any
// lossless codec that is not adaptive; others are refused as lossy_delta. A delta always has checksums, so that
// max_delta_bytes is always enough room.
template <codec C>
outcome encode_delta(const C& codec, span<const value_t<C>> values, span<const value_t<C>> base, bytes frame,
                     frame_options options = {}, const execution& how = {}) noexcept {
  if (!takes_deltas<C>) return {.code = status::lossy_delta};
  if (frame.is_null() || base.is_null()) return {.code = status::invalid_argument};
  if (base.size() != values.size()) return {.code = status::wrong_base};
  options.checksums = true;
  detail::delta_chunks<value_t<C>> chunks{base, {}, {}};
  return detail::encode(codec, values, frame, options, how, chunks);
}

// Restores the tensor of a delta from its base; `out` may be the base itself, but not overlap it otherwise. Both have
// all values of the frame; else wrong_base, or bad_range of `out`. Frame and base are verified before the first value
// is written: where the outcome is not ok, `out` is as it was. So a delta cannot be applied twice, wrong_base, and a
// frame that is no delta is refused, not_a_delta.
//
// Verifying decodes the frame once more. With `chunk_by_chunk` that is left out: each chunk is verified and written at
// once, a bad one as zeros, and the outcome names the first of them. Whether it was the right base is known only at the
// end: then wrong_base comes when all has been written.
template <codec C>
outcome decode_delta(const C& codec, const_bytes frame, span<const value_t<C>> base, span<value_t<C>> out,
                     const delta_options& options = {}, const execution& how = {}) noexcept {
  if (!takes_deltas<C>) return {.code = status::lossy_delta};
  if (frame.is_null() || base.is_null() || out.is_null()) return {.code = status::invalid_argument};
  frame_header header;
  if (const status s = frame_view::read_header(frame, header); s != status::ok) return {.code = s};
  C stored = codec;
  if (const status s = detail::match_delta(header, stored, base.size(), out.size()); s != status::ok)
    return {.code = s};
  frame_view view;
  if (const status s = frame_view::open(frame, view); s != status::ok) return {.code = s};
  detail::delta_pass<C> pass(stored, view, base, how);
  if (options.chunk_by_chunk) return pass.run(true, out);
  outcome verified = pass.run(true, {});
  if (verified) return pass.run(false, out);
  verified.bytes = 0;
  return verified;
}

namespace detail {

// What several deltas changed together, to be encoded as one.
template <class T> struct changed_chunks {
  uint64_t of_base, of_result;
  static constexpr uint32_t flags = flag_delta;

  static span<const T> take(span<const T> chunk, uint64_t, uint64_t, T*) noexcept { return chunk; }
  uint64_t base_digest() const noexcept { return of_base; }
  uint64_t result_digest() const noexcept { return of_result; }
};

// Is `next` a delta of such values that follows on one of the header `before`, whose result has this digest?
template <codec C>
status match_next(const frame_header& next, const frame_header& before, uint64_t result, C& codec) noexcept {
  if (const status s = detail::match_delta(next, codec, next.value_count, next.value_count); s != status::ok) return s;
  if (next.type != before.type) return status::type_mismatch;
  const bool same = next.value_count == before.value_count && next.chunk_values == before.chunk_values;
  return same && next.base_digest == result ? status::ok : status::not_consecutive;
}

}  // namespace detail

// Makes one delta of several in a row, without the base of the first or any tensor between: a delta from that base to
// the last one's result, in chunks of as many values as theirs, and otherwise what encode_delta makes of both with this
// codec and these options. Each delta is verified, and that its base is the result of the one before it; else
// not_consecutive. `room` is memory to work in: as many values as the tensor has; else bad_range.
//
// Where the outcome is not ok, `frame` holds no frame, and `which`, if given, gets the index of the delta at fault.
template <codec C>
outcome compact_deltas(const C& codec, span<const const_bytes> deltas, span<value_t<C>> room, bytes frame,
                       frame_options options = {}, const execution& how = {}, uint64_t* which = nullptr) noexcept {
  if (!takes_deltas<C>) return {.code = status::lossy_delta};
  if (deltas.empty() || frame.is_null() || room.is_null()) return {.code = status::invalid_argument};
  if (frame.size() >= 8) store_unaligned(frame.data(), uint64_t{0});
  std::fill(room.begin(), room.end(), value_t<C>{});
  frame_header before;
  uint64_t base = 0, result = 0;
  for (uint64_t i = 0; i < deltas.size(); ++i) {
    if (which != nullptr) *which = i;
    if (deltas[i].is_null()) return {.code = status::invalid_argument};
    frame_view view;
    if (const status s = frame_view::open(deltas[i], view); s != status::ok) return {.code = s};
    if (i == 0) before = view.header(), base = result = before.base_digest;
    C stored = codec;
    if (const status s = detail::match_next(view.header(), before, result, stored); s != status::ok) return {.code = s};
    if (view.header().value_count != room.size()) return {.code = status::bad_range};
    outcome added = detail::delta_pass<C>(stored, view, how).run(true, room);
    added.bytes = 0;
    if (!added) return added;
    result = view.result_digest();
  }
  options.checksums = true;
  options.type = before.type;
  options.chunk_values = before.chunk_values;
  return detail::encode(codec, span<const value_t<C>>(room), frame, options, how,
                        detail::changed_chunks<value_t<C>>{base, result});
}

template <no_codec X>
outcome encode_delta(const X&, const auto&, const auto&, bytes, const frame_options& = {}, const execution& = {}) {
  static_assert(codec<X>, TUCK_NO_CODEC);
  return {};
}
template <no_codec X>
outcome decode_delta(const X&, const auto&, const auto&, const auto&, const delta_options& = {},
                     const execution& = {}) {
  static_assert(codec<X>, TUCK_NO_CODEC);
  return {};
}

}  // namespace tuck::inline TUCK_ABI::host
