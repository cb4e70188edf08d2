// Gaps stores sparse values: the number of zeros before each non-zero value as a Golomb-Rice code, and the value.
// It is for deltas (frame/host_delta.hpp): at least three quarters of a chunk's values must be zeros, and it is best
// with more than nine tenths. If changes are independent, the size is close to the entropy. No tables are needed.
//
// A chunk has n values. k <= n / 4 of them are not zero. A gap is the number of zeros between a non-zero value and the
// non-zero value before it, or the beginning. The chunk is one string of bits, lowest bit of a byte first, padded with
// zeros to a whole byte:
//
//   header      32 bits       bits 0 to 15: k; 16 to 19: r; 20 to 26: w; 27: has classes; others: 0
//   remainders  k times r     the lowest r bits of each gap
//   quotients   unary         the other bits q of each gap: q zeros, then a one
//   classes     unary         class c of each non-zero value: c zeros, then a one. Only if bit 27 is set
//   values      w bits each   the stored values: those of class 3, or all non-zero values if there are no classes
//
//   class    value
//   0, 1, 2  2^(c + 1) - 1
//   3        stored
//   4, 5...  2^c - 1
//
// From one training step to the next, weights often change by one in their last place. The XOR of their bits is then a
// run of ones from the lowest bit. Such values have low classes, which take few bits. Zeros after the last non-zero
// value are not written.
// Encoders set r = bit_width(31 (n - k) / (64 k)), or 0 if k is 0. They set w to the width of the widest stored value.
// They use classes if that takes fewer bits, not counting the padding. A chunk that would not be smaller than its
// values, or with more than n / 4 non-zero values, is incompressible. The bytes are canonical: host and device write
// the same.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/rice.hpp>
#include <tuck/core/bits.hpp>
#include <tuck/core/standard.hpp>

#if defined(TUCK_HOST)
#include <tuck/core/masks.hpp>
#endif

namespace tuck::inline TUCK_ABI {

namespace gaps_format {

inline constexpr uint32_t header_bits = 32, stored_class = 3;

struct header {
  uint32_t word = 0;

  TUCK_HD static constexpr header make(uint32_t k, uint32_t r, uint32_t w, bool classes) noexcept {
    return {k | r << 16 | w << 20 | uint32_t{classes} << 27};
  }
  TUCK_HD constexpr uint32_t values() const noexcept { return word & 0xffff; }
  TUCK_HD constexpr uint32_t remainder_bits() const noexcept { return word >> 16 & 15; }
  TUCK_HD constexpr uint32_t value_bits() const noexcept { return word >> 20 & 127; }
  TUCK_HD constexpr bool has_classes() const noexcept { return (word >> 27 & 1) != 0; }
  // Returns whether a chunk of `count` values with `most_bits` bits each can have this header.
  TUCK_HD constexpr bool fits(uint32_t count, uint32_t most_bits) const noexcept {
    return word >> 28 == 0 && values() <= count / 4 && value_bits() <= most_bits;
  }
};

template <class U> TUCK_HD constexpr uint32_t width_of(U value) noexcept {
  return tuck::bit_width(static_cast<std::conditional_t<sizeof(U) == 8, uint64_t, uint32_t>>(value));
}

// Returns the class of a non-zero value.
template <class U> TUCK_HD constexpr uint32_t class_of(U value) noexcept {
  if ((value & static_cast<U>(value + 1)) != 0) return stored_class;
  const uint32_t bits = width_of(value);
  return bits <= stored_class ? bits - 1 : bits;
}
// Returns the value of a class other than stored_class. The result is unspecified for classes that no type has.
TUCK_HD constexpr uint64_t ones(uint32_t c) noexcept {
  return ~uint64_t{0} >> (c < stored_class ? 63 - c : c <= 64 ? 64 - c : 0);
}

}  // namespace gaps_format

/// Codec for sparse values, such as deltas: at least three quarters of each chunk are zeros. Lossless.
/// concept.hpp documents the members that are not described here.
/// @tparam T element type
template <element T> struct gaps : plain_codec<gaps<T>, T, codec_id::gaps> {
  template <element U> using rebind = gaps<U>;  ///< for by_width
#if defined(TUCK_HOST)
  static constexpr uint32_t workspace_bytes(uint32_t count) noexcept;
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept {
    return detail::with_workspace(workspace_bytes(static_cast<uint32_t>(values.size())), incompressible,
                                  [&](workspace memory) { return encode_chunk(values, out, memory); });
  }
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
    return detail::with_workspace(workspace_bytes(static_cast<uint32_t>(restored.size())), status::out_of_memory,
                                  [&](workspace memory) { return decode_chunk(encoded, restored, memory); });
  }
  uint32_t encode_chunk(span<const T> values, bytes out, workspace memory) const noexcept;
  status decode_chunk(const_bytes encoded, span<T> restored, workspace memory) const noexcept;
#endif

 private:
  using word = bits_t<T>;
  static constexpr uint32_t max_values = max_chunk_values({{gaps::description()}}, sizeof(T));
};

#if defined(TUCK_HOST)
template <element T> constexpr uint32_t gaps<T>::workspace_bytes(uint32_t count) noexcept {
  const uint32_t n = count < max_values ? count : max_values;
  const uint32_t encoding = workspace::bytes_of<uint32_t>(mask_words(n) + 1) + workspace::bytes_of<uint16_t>(n / 4) +
                            workspace::bytes_of<word>(n / 4) + workspace::bytes_of<uint8_t>(n / 4);
  const uint32_t decoding =
      workspace::bytes_of<std::byte>(n * uint32_t{sizeof(T)} + 16) + workspace::bytes_of<uint16_t>(n / 4);
  return encoding > decoding ? encoding : decoding;
}

template <element T> uint32_t gaps<T>::encode_chunk(span<const T> values, bytes out, workspace memory) const noexcept {
  using namespace gaps_format;
  if (values.size() > max_values) return incompressible;
  const auto count = static_cast<uint32_t>(values.size());
  auto* const masks = reinterpret_cast<std::byte*>(memory.take<uint32_t>(mask_words(count) + 1));
  const uint32_t k = mask_loops<ones::non_zeros, sizeof(T)>::masks_of(as_bytes(values).data(), count, masks);
  if (k > count / 4) return incompressible;
  const uint32_t r = rice::remainder_bits(k, count);

  auto* const gap = memory.take<uint16_t>(count / 4);
  auto* const value = memory.take<word>(count / 4);
  auto* const class_at = memory.take<uint8_t>(count / 4);
  uint64_t quotients = k, classes = k;
  uint32_t stored = 0, before = 0, i = 0;
  word any = 0, any_stored = 0;
  for (uint32_t begin = 0; begin < count; begin += mask_window)
    for (auto left = load_unaligned<uint32_t>(masks + begin / 8); left != 0; left &= left - 1, ++i) {
      const uint32_t at = begin + static_cast<uint32_t>(std::countr_zero(left));
      const word x = value[i] = bits_at(values.data(), at);
      const uint32_t c = class_of(x);
      class_at[i] = static_cast<uint8_t>(c);
      gap[i] = static_cast<uint16_t>(at - before);
      quotients += (at - before) >> r;
      before = at + 1;
      classes += c;
      any |= x;
      stored += c == stored_class;
      any_stored |= c == stored_class ? x : word{0};
    }
  const uint32_t all_wide = width_of(any), stored_wide = width_of(any_stored);
  const uint64_t with_classes = classes + uint64_t{stored} * stored_wide;
  const bool has_classes = with_classes < uint64_t{k} * all_wide;
  const uint32_t w = has_classes ? stored_wide : all_wide;
  const uint64_t bits = header_bits + uint64_t{k} * r + quotients + (has_classes ? with_classes : uint64_t{k} * w);
  const uint64_t size = ceil_div(bits, uint64_t{8});
  if (size >= values.size_bytes()) return incompressible;

  bit_writer writer(out.data());
  writer.put(header::make(k, r, w, has_classes).word, header_bits);
  for (i = 0; i < k; ++i) writer.put(gap[i] & low_mask(r), r);
  for (i = 0; i < k; ++i) rice::put_unary(writer, uint32_t{gap[i]} >> r);
  if (has_classes)
    for (i = 0; i < k; ++i) rice::put_unary(writer, class_at[i]);
  for (i = 0; i < k; ++i)
    if (!has_classes || class_at[i] == stored_class) writer.put(value[i], w);
  writer.finish();
  return static_cast<uint32_t>(size);
}

template <element T>
status gaps<T>::decode_chunk(const_bytes encoded, span<T> restored, workspace memory) const noexcept {
  using namespace gaps_format;
  if (encoded.size() < header_bits / 8 || encoded.size() >= restored.size_bytes() || restored.size() > max_values)
    return status::bad_payload;
  const auto count = static_cast<uint32_t>(restored.size());
  auto* const chunk = memory.take<std::byte>(count * uint32_t{sizeof(T)} + 16);
  std::memcpy(chunk, encoded.data(), encoded.size());
  std::memset(chunk + encoded.size(), 0, 16);
  const header h{load_unaligned<uint32_t>(chunk)};
  if (!h.fits(count, 8 * sizeof(T))) return status::bad_payload;
  const uint32_t k = h.values(), r = h.remainder_bits(), w = h.value_bits();
  const uint64_t end = 8 * encoded.size();
  const uint64_t quotients = header_bits + uint64_t{k} * r;
  if (quotients > end) return status::bad_payload;
  rice::unary_reader unary(chunk, quotients, end);

  auto* const at = memory.take<uint16_t>(count / 4);
  uint64_t next = 0;
  for (uint32_t i = 0; i < k; ++i) {
    uint32_t q;
    if (!unary.get(q)) return status::bad_payload;
    next += (uint64_t{q} << r | bits_from<uint32_t>(chunk, header_bits + i * r, r));
    if (next >= count) return status::bad_payload;
    at[i] = static_cast<uint16_t>(next++);
  }
  std::memset(static_cast<void*>(restored.data()), 0, restored.size_bytes());
  // Not by bit_cast: GCC 12 fails with an internal error when it vectorizes that loop over structs.
  std::byte* const to = as_writable_bytes(restored).data();
  const auto set = [&](uint32_t i, word value) { store_unaligned(to + at[i] * sizeof(T), value); };
  uint32_t stored = k;
  if (h.has_classes()) {
    stored = 0;
    for (uint32_t i = 0; i < k; ++i) {
      uint32_t c;
      if (!unary.get(c) || c > 8 * sizeof(T)) return status::bad_payload;
      set(i, static_cast<word>(gaps_format::ones(c)));
      if (c == stored_class) at[stored++] = at[i];
    }
  }
  const uint64_t last = unary.position() + uint64_t{stored} * w;
  if (last > end || end - last >= 8) return status::bad_payload;
  using field = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  for (uint32_t i = 0; i < stored; ++i)
    set(i, static_cast<word>(bits_from<field>(chunk, unary.position() + uint64_t{i} * w, w)));
  return bits_from<uint32_t>(chunk, last, static_cast<uint32_t>(end - last)) == 0 ? status::ok : status::bad_payload;
}

#endif

static_assert(codec<gaps<float>>);

}  // namespace tuck::inline TUCK_ABI
