// Masks, a bit a value in words of 32, and the values at their ones: what ZVC and RLE are made of.
#pragma once

#include <tuck/core/avx2.hpp>
#include <tuck/core/dtype.hpp>
#include <tuck/core/span.hpp>

namespace tuck::inline TUCK_ABI {

inline constexpr uint32_t mask_window = 32;  // values a word

TUCK_HD constexpr uint32_t mask_words(uint32_t count) noexcept { return (count + mask_window - 1) / mask_window; }

// What a one says of its value: that it is not zero, or that it differs from the one before it (zero, before the
// first).
enum class ones { non_zeros, changes };

// Groups of 8 bytes of a mask that are not all zero, bytes that are not zero, and ones.
struct mask_counts {
  uint32_t groups = 0, bytes = 0, ones = 0;
};

namespace detail {

// The top bit of each byte that is not zero.
TUCK_HD constexpr uint32_t non_zero_bytes(uint32_t mask) noexcept {
  return (((mask & 0x7f7f7f7fu) + 0x7f7f7f7fu) | mask) & 0x80808080u;
}
TUCK_HD inline uint32_t mask_at(const std::byte* masks, uint32_t word) noexcept {
  return load_unaligned<uint32_t>(masks + 4 * word);
}
TUCK_HD constexpr uint32_t window_length(uint32_t word, uint32_t count) noexcept {
  const uint32_t left = count - mask_window * word;
  return left < mask_window ? left : mask_window;
}

// Bit i: one[i], which is 0 or 1.
TUCK_HD inline uint32_t mask_of_flags(const uint8_t (&one)[mask_window]) noexcept {
  uint32_t mask = 0;
  for (uint32_t b = 0; b < 4; ++b) {
    uint64_t eight;
    std::memcpy(&eight, one + 8 * b, sizeof eight);
    mask |= static_cast<uint32_t>(eight * 0x0102040810204080u >> 56) << (8 * b);
  }
  return mask;
}

template <element T> TUCK_HD uint32_t mask_of_window(span<const T> values, ones what, uint32_t word) noexcept {
  // First a byte a value, in loops of known length, which compilers turn into vectors; then eight to a byte.
  uint8_t one[mask_window];
  const uint32_t begin = mask_window * word, length = window_length(word, static_cast<uint32_t>(values.size()));
  const T* const v = values.data() + begin;
  const bits_t<T> before = begin == 0 || what == ones::non_zeros ? bits_t<T>{0} : bits_at(values.data(), begin - 1);
  if (length < mask_window) {
    std::memset(one, 0, sizeof one);
    for (uint32_t i = 0; i < length; ++i)
      one[i] = bits_at(v, i) != (what == ones::non_zeros || i == 0 ? before : bits_at(v, i - 1));
  } else if (what == ones::non_zeros) {
    for (uint32_t i = 0; i < mask_window; ++i) one[i] = bits_at(v, i) != 0;
  } else {
    one[0] = bits_at(v, 0) != before;
    for (uint32_t i = 1; i < mask_window; ++i) one[i] = bits_at(v, i) != bits_at(v, i - 1);
  }
  return mask_of_flags(one);
}

}  // namespace detail

// The mask of `values` to `masks`, 4 * mask_words(values.size()) bytes; bits past the last value are 0.
template <element T> TUCK_HD void masks_of(span<const T> values, ones what, std::byte* masks) noexcept {
  const auto count = static_cast<uint32_t>(values.size());
  uint32_t word = 0;
#if defined(TUCK_AVX2)
  if (const uint32_t whole = count / mask_window; whole != 0 && avx2::available()) {
    if (what == ones::changes) store_unaligned(masks, detail::mask_of_window(values, what, word++));
    avx2::masks_of<sizeof(T)>(as_bytes(values).data() + mask_window * sizeof(T) * word, what == ones::changes,
                              whole - word, masks + 4 * word);
    word = whole;
  }
#endif
  for (; word < mask_words(count); ++word)
    store_unaligned(masks + 4 * word, detail::mask_of_window(values, what, word));
}

namespace detail {

// count_mask where there are no vectors.
TUCK_HD inline mask_counts count_words(const std::byte* masks, uint32_t words) noexcept {
  mask_counts sum;
  for (uint32_t word = 0; word < words; ++word) {
    const uint32_t mask = detail::mask_at(masks, word);
    sum.groups += mask != 0 && (word % 2 == 0 || detail::mask_at(masks, word - 1) == 0);
    sum.bytes += popcount(detail::non_zero_bytes(mask));
    sum.ones += popcount(mask);
  }
  return sum;
}

}  // namespace detail

TUCK_HD inline mask_counts count_mask(const std::byte* masks, uint32_t words) noexcept {
#if defined(TUCK_AVX2)
  if (avx2::available()) {
    mask_counts sum;
    avx2::count(masks, words, sum.groups, sum.bytes, sum.ones);
    return sum;
  }
#endif
  return detail::count_words(masks, words);
}

// The values at the ones, one behind the other, to [to, end), where there is room for them. Returns their end; behind
// it other values may have been written.
template <element T>
TUCK_HD std::byte* pack(span<const T> values, const std::byte* masks, std::byte* to, const std::byte* end) noexcept {
  const auto count = static_cast<uint32_t>(values.size());
  uint32_t word = 0;
#if defined(TUCK_AVX2)
  if (avx2::available()) word = avx2::pack<sizeof(T)>(as_bytes(values).data(), masks, count / mask_window, to, end);
#endif
  for (; word < mask_words(count); ++word) {
    uint32_t mask = detail::mask_at(masks, word);
    const T* const v = values.data() + mask_window * word;
    if (end - to >= static_cast<ptrdiff_t>(mask_window * sizeof(T))) {
      // Always stores and advances only past what counts: no branch.
      for (uint32_t i = 0, length = detail::window_length(word, count); i < length; ++i) {
        tuck::store_unaligned(to, v[i]);
        to += (mask >> i & 1) * sizeof(T);
      }
    } else {
      for (; mask != 0; mask &= mask - 1, to += sizeof(T)) tuck::store_unaligned(to, v[trailing_zeros(mask)]);
    }
  }
  return to;
}

namespace detail {

// One window of `spread`, of `length` values.
template <ones What, element T>
TUCK_HD void spread_window(uint32_t mask, const std::byte* packed, bool any_before, T* out, uint32_t length) noexcept {
  if (mask == low_mask(length)) {
    std::memcpy(out, packed, length * sizeof(T));
    return;
  }
  if constexpr (What == ones::non_zeros) {
    std::memset(out, 0, length * sizeof(T));
    for (; mask != 0; mask &= mask - 1, packed += sizeof(T)) std::memcpy(out + trailing_zeros(mask), packed, sizeof(T));
  } else {
    packed -= sizeof(T);
    for (uint32_t i = 0; i < length; ++i) {
      const uint32_t one = mask >> i & 1;
      any_before = any_before | (one != 0);
      packed += one * sizeof(T);
      const bits_t<T> value = any_before ? load_unaligned<bits_t<T>>(packed) : bits_t<T>{0};
      store_unaligned(reinterpret_cast<std::byte*>(out + i), value);
    }
  }
}

}  // namespace detail

// The reverse: gives each one its value from [packed, end), where there is one for each, and each zero of the mask zero
// or, of changes, the value of the last one before it, if there is any.
template <ones What, element T>
TUCK_HD void spread(const std::byte* masks, const std::byte* packed, const std::byte* end, span<T> out) noexcept {
  const auto count = static_cast<uint32_t>(out.size());
  const std::byte* const first = packed;
  for (uint32_t word = 0; word < mask_words(count); ++word) {
#if defined(TUCK_AVX2)
    // A change needs a value before it that it can repeat.
    if ((What == ones::non_zeros || packed != first) && avx2::available()) {
      const uint32_t done = avx2::spread<sizeof(T), (What == ones::changes)>(
          masks + 4 * word, packed, end, count / mask_window - word,
          as_writable_bytes(out).data() + mask_window * word * sizeof(T));
      word += done;
      if (word == mask_words(count)) return;
    }
#endif
    const uint32_t mask = detail::mask_at(masks, word);
    detail::spread_window<What>(mask, packed, packed != first, out.data() + mask_window * word,
                                detail::window_length(word, count));
    packed += popcount(mask) * sizeof(T);
  }
}

}  // namespace tuck::inline TUCK_ABI
