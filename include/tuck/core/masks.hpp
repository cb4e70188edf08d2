// Masks with one bit per value, in words of 32, and the values at their ones: the basis of ZVC and RLE.
#pragma once

#include <tuck/core/cpu.hpp>
#include <tuck/core/dtype.hpp>
#include <tuck/core/span.hpp>

namespace tuck::inline TUCK_ABI {

inline constexpr uint32_t mask_window = 32;  ///< values per mask word

/// Returns the number of mask words of `count` values.
TUCK_HD constexpr uint32_t mask_words(uint32_t count) noexcept { return (count + mask_window - 1) / mask_window; }

/// What a set bit says of its value. non_zeros: the value is not zero. changes: it differs from the value before it; a
/// zero precedes the first value.
enum class ones { non_zeros, changes };

namespace detail {

// Returns the top bit of each byte of `mask` that is not zero.
TUCK_HD constexpr uint32_t non_zero_bytes(uint32_t mask) noexcept {
  return (((mask & 0x7f7f7f7fu) + 0x7f7f7f7fu) | mask) & 0x80808080u;
}

// The functions at the end of this file for one CPU level, always inlined into code for that level.
template <class Cpu> struct masks_on {
  static constexpr uint32_t window = mask_window;

  static uint32_t mask_at(const std::byte* masks, uint32_t word) noexcept {
    return load_unaligned<uint32_t>(masks + 4 * word);
  }

  template <ones What, size_t Size>
  [[gnu::always_inline]] static uint32_t masks_of(const std::byte* values, uint32_t count, std::byte* masks) noexcept {
    constexpr bool changes = What == ones::changes;
    uint32_t sum = 0;
    // The first window of changes has no value before it, and the last window may be incomplete. Both are copied first.
    const auto by_copy = [&](uint32_t word) __attribute__((always_inline)) {
      const uint32_t left = count - window * word, length = left < window ? left : window;
      std::byte copy[(1 + window) * Size] = {};
      const size_t before = changes && word != 0 ? Size : 0;
      std::memcpy(copy + Size - before, values + window * Size * word - before, length * Size + before);
      const uint32_t mask = Cpu::template mask_of<Size, changes>(copy + Size) & low_mask(length);
      store_unaligned(masks + 4 * word, mask);
      sum += Cpu::popcount(mask);
    };
    uint32_t word = 0;
    if (changes && count != 0) by_copy(word++);
    for (; word < count / window; ++word) {
      const uint32_t mask = Cpu::template mask_of<Size, changes>(values + window * Size * word);
      store_unaligned(masks + 4 * word, mask);
      sum += Cpu::popcount(mask);
    }
    if (word < mask_words(count)) by_copy(word);
    return sum;
  }

  [[gnu::always_inline]] static uint32_t count_ones(const std::byte* masks, uint32_t bytes) noexcept {
    uint32_t sum = 0, at = 0;
    for (; at + 8 <= bytes; at += 8) sum += Cpu::popcount(load_unaligned<uint64_t>(masks + at));
    uint64_t rest = 0;
    for (uint32_t shift = 0; at < bytes; ++at, shift += 8) rest |= static_cast<uint64_t>(masks[at]) << shift;
    return sum + Cpu::popcount(rest);
  }

  template <size_t Size>
  [[gnu::always_inline]] static std::byte* pack(const std::byte* values, uint32_t count, const std::byte* masks,
                                                std::byte* to, const std::byte* end) noexcept {
    constexpr auto window_bytes = static_cast<ptrdiff_t>(window * Size);
    uint32_t word = 0;
    for (; word < count / window && end - to >= window_bytes; ++word)
      if (const uint32_t mask = mask_at(masks, word); mask != 0)
        to = Cpu::template pack<Size>(values + window * Size * word, mask, to);
    if (word == mask_words(count)) return to;
    // Less than a window of values remains to be written.
    std::byte last[window * Size] = {}, packed[2 * window * Size];
    std::byte* next = packed;
    for (; word < mask_words(count); ++word) {
      const std::byte* from = values + window * Size * word;
      if (word == count / window) from = static_cast<std::byte*>(std::memcpy(last, from, count % window * Size));
      next = Cpu::template pack<Size>(from, mask_at(masks, word), next);
    }
    std::memcpy(to, packed, static_cast<size_t>(next - packed));
    return to + (next - packed);
  }

  // Does the work of masks_of and of `pack` for whole windows, as long as they shrink by an eighth in total. Reads the
  // values once; those two functions read them twice. Returns the number of windows.
  template <size_t Size>
  [[gnu::always_inline]] static uint32_t pack_first(const std::byte* values, uint32_t count, std::byte* masks,
                                                    std::byte*& to, const std::byte* end) noexcept {
    constexpr auto window_bytes = static_cast<ptrdiff_t>(window * Size);
    const std::byte* const begin = to;
    uint32_t word = 0;
    for (; word < count / window && end - to >= window_bytes && to - begin <= window_bytes * word / 8 * 7; ++word) {
      const std::byte* const from = values + window * Size * word;
      const uint32_t mask = Cpu::template mask_of<Size, false>(from);
      if (mask != 0) to = Cpu::template pack<Size>(from, mask, to);
      store_unaligned(masks + 4 * word, mask);
    }
    return word;
  }

  template <ones What, size_t Size>
  [[gnu::always_inline]] static void spread(const std::byte* masks, const std::byte* packed, const std::byte* end,
                                            std::byte* out, uint32_t count) noexcept {
    constexpr bool runs = What == ones::changes;
    constexpr auto window_bytes = static_cast<ptrdiff_t>(window * Size);
    uint32_t word = 0;
    // Before the first change all values are zero. The window with the first change needs a zero before it.
    std::byte copy[(1 + 2 * window) * Size];
    const auto to_copy = [&](size_t before) __attribute__((always_inline)) {
      std::memset(copy, 0, sizeof copy);
      const auto left = static_cast<size_t>(end - packed);
      std::memcpy(copy + Size - before, packed - before, before + (left < window * Size ? left : window * Size));
    };
    const auto one = [&](const std::byte* from) __attribute__((always_inline)) {
      if (word < count / window)
        return Cpu::template spread<Size, runs>(mask_at(masks, word), from, out + window * Size * word);
      std::byte last[window * Size];
      from = Cpu::template spread<Size, runs>(mask_at(masks, word), from, last);
      std::memcpy(out + window * Size * word, last, count % window * Size);
      return from;
    };
    if (runs) {
      while (word < mask_words(count) && mask_at(masks, word) == 0) ++word;
      std::memset(out, 0, (word < mask_words(count) ? window * word : count) * Size);
      if (word == mask_words(count)) return;
      to_copy(0);
      packed += one(copy + Size) - (copy + Size);
      ++word;
    }
    for (; word < count / window && end - packed >= window_bytes; ++word)
      packed = Cpu::template spread<Size, runs>(mask_at(masks, word), packed, out + window * Size * word);
    if (word == mask_words(count)) return;
    // Less than a window of values remains, or one window.
    to_copy(runs ? Size : 0);
    for (packed = copy + Size; word < mask_words(count); ++word) packed = one(packed);
  }
};

}  // namespace detail

// These functions handle few values at a time, inside other `vectorized` code.

/// Computes the mask of `values`. Bits past the last value are 0.
/// @param masks 4 * mask_words(values.size()) bytes
/// @return the number of ones
template <element T> uint32_t masks_of(span<const T> values, ones what, std::byte* masks) noexcept {
  const auto count = static_cast<uint32_t>(values.size());
  const std::byte* const from = as_bytes(values).data();
  return detail::vectorized([=]<class Cpu>(Cpu) {
    using loops = detail::masks_on<Cpu>;
    if (what == ones::changes) return loops::template masks_of<ones::changes, sizeof(T)>(from, count, masks);
    return loops::template masks_of<ones::non_zeros, sizeof(T)>(from, count, masks);
  });
}

/// Copies the values at the ones to the range from `to` to `end`, which must have the capacity for them.
/// Bytes of that range after the copied values may also be overwritten.
/// @return the end of the copied values
template <element T>
std::byte* pack(span<const T> values, const std::byte* masks, std::byte* to, const std::byte* end) noexcept {
  return detail::vectorized([=]<class Cpu>(Cpu) {
    return detail::masks_on<Cpu>::template pack<sizeof(T)>(as_bytes(values).data(),
                                                           static_cast<uint32_t>(values.size()), masks, to, end);
  });
}

/// Undoes `pack`: gives each one of the mask its value from the range from `packed` to `end`, which must have as many
/// values as the mask has ones. Gives each zero the value zero, or with ones::changes the value of the last one before
/// it, if there is any.
template <ones What, element T>
void spread(const std::byte* masks, const std::byte* packed, const std::byte* end, span<T> out) noexcept {
  detail::vectorized([=]<class Cpu>(Cpu) {
    detail::masks_on<Cpu>::template spread<What, sizeof(T)>(masks, packed, end, as_writable_bytes(out).data(),
                                                            static_cast<uint32_t>(out.size()));
  });
}

}  // namespace tuck::inline TUCK_ABI
