// SPDX-License-Identifier: Apache-2.0
// Masks with one bit per value, in words of 32, and the values at their ones: the basis of ZVC and RLE.
#pragma once

#include <tuck/core/dtype.hpp>
#include <tuck/core/span.hpp>

#if defined(TUCK_HOST)
#include <tuck/core/cpu.hpp>

#include <algorithm>
#endif

namespace tuck::inline TUCK_ABI {

inline constexpr uint32_t mask_window = 32;  ///< values per mask word

/// Returns the number of mask words of `count` values.
TUCK_HD constexpr uint32_t mask_words(uint32_t count) noexcept { return (count + mask_window - 1) / mask_window; }

/// What a set bit says of its value. non_zeros: the value is not zero. changes: it differs from the value before it; a
/// zero precedes the first value.
enum class ones { non_zeros, changes };

#if defined(TUCK_HOST)
namespace detail {

// The loops below on one CPU, always inlined into code for it. Nothing needs to be aligned.
template <class Cpu> struct masks_on {
  static constexpr uint32_t window = mask_window;

  static uint32_t mask_at(const std::byte* masks, uint32_t word) noexcept {
    return load_unaligned<uint32_t>(masks + 4 * word);
  }

  // Computes the mask of `count` values: mask_words(count) words. Bits past the last value are 0. Returns the number of
  // ones.
  template <ones What, size_t Size>
  [[gnu::__always_inline__]] static uint32_t masks_of(const std::byte* values, uint32_t count,
                                                      std::byte* masks) noexcept {
    constexpr bool changes = What == ones::changes;
    uint32_t sum = 0;
    // The first window of changes has no value before it, and the last window may be incomplete. Both are copied first.
    const auto by_copy = [&](uint32_t word) __attribute__((__always_inline__)) {
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

  [[gnu::__always_inline__]] static uint32_t count_ones(const std::byte* masks, uint32_t size) noexcept {
    uint32_t sum = 0, at = 0;
    for (; at + 8 <= size; at += 8) sum += Cpu::popcount(load_unaligned<uint64_t>(masks + at));
    uint64_t rest = 0;
    for (uint32_t shift = 0; at < size; ++at, shift += 8) rest |= static_cast<uint64_t>(masks[at]) << shift;
    return sum + Cpu::popcount(rest);
  }

  // Copies the values at the ones to the range from `to` to `end`, which must have the capacity for them. Bytes of that
  // range after the copied values may also be overwritten. Returns the end of the copied values.
  template <size_t Size>
  [[gnu::__always_inline__]] static std::byte* pack(const std::byte* values, uint32_t count, const std::byte* masks,
                                                    std::byte* to, const std::byte* end) noexcept {
    constexpr auto window_bytes = static_cast<ptrdiff_t>(window * Size);
    uint32_t word = 0;
    for (; word < count / window && end - to >= window_bytes; ++word)
      if (const uint32_t mask = mask_at(masks, word); mask != 0)
        to = Cpu::template pack<Size>(values + window * Size * word, mask, to);
    for (; word < mask_words(count); ++word) {
      std::byte copy[window * Size] = {}, packed[window * Size];
      std::memcpy(copy, values + window * Size * word, (word < count / window ? window : count % window) * Size);
      const auto size = static_cast<size_t>(Cpu::template pack<Size>(copy, mask_at(masks, word), packed) - packed);
      std::memcpy(to, packed, size);
      to += size;
    }
    return to;
  }

  // Does the work of masks_of and of `pack` for whole windows, as long as they shrink by an eighth in total. Reads the
  // values once; those two functions read them twice. Returns the number of windows.
  template <size_t Size>
  [[gnu::__always_inline__]] static uint32_t pack_first(const std::byte* values, uint32_t count, std::byte* masks,
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

  // Undoes `pack`: gives each one of the mask its value from the range from `packed` to `end`, which must have as many
  // values as the mask has ones. Gives each zero the value zero, or with ones::changes the value of the last one before
  // it, if there is any. Then it also reads the value before `packed`.
  template <ones What, size_t Size>
  [[gnu::__always_inline__]] static void spread(const std::byte* masks, const std::byte* packed, const std::byte* end,
                                                std::byte* out, uint32_t count) noexcept {
    constexpr bool runs = What == ones::changes;
    constexpr auto window_bytes = static_cast<ptrdiff_t>(window * Size);
    constexpr size_t before = runs ? Size : 0;
    uint32_t word = 0;
    for (; word < count / window && end - packed >= window_bytes; ++word)
      packed = Cpu::template spread<Size, runs>(mask_at(masks, word), packed, out + window * Size * word);
    if (word < mask_words(count)) {
      // At most a window of values remains, in any number of windows of the mask.
      std::byte copy[(1 + 2 * window) * Size] = {}, last[window * Size];
      const size_t left = (std::min)(static_cast<size_t>(end - packed), size_t{window * Size});
      std::memcpy(copy + Size - before, packed - before, before + left);
      packed = copy + Size;
      for (; word < count / window; ++word)
        packed = Cpu::template spread<Size, runs>(mask_at(masks, word), packed, out + window * Size * word);
      if (word < mask_words(count)) Cpu::template spread<Size, runs>(mask_at(masks, word), packed, last);
      std::memcpy(out + window * Size * word, last, count % window * Size);
    }
    if constexpr (runs) {
      for (word = 0; word < mask_words(count) && mask_at(masks, word) == 0;) ++word;
      const uint32_t zeros = window * word + (word < mask_words(count) ? trailing_zeros(mask_at(masks, word)) : 0);
      std::memset(out, 0, (std::min)(zeros, count) * Size);
    }
  }
};

}  // namespace detail

/// Masks on the CPU, for values of Size bytes of any type. Each function chooses the CPU's instructions itself. None is
/// inlined: what calls them stays small, and a program can compile them in one place.
template <ones What, size_t Size> struct mask_loops {
  /// Computes the mask of `count` values: mask_words(count) words. Bits past the last value are 0.
  /// @return the number of ones
  [[gnu::__noinline__]] static uint32_t masks_of(const std::byte* values, uint32_t count, std::byte* masks) noexcept;

  /// Undoes `pack`: gives each one of the mask its value from the range from `packed` to `end`, which must have as many
  /// values as the mask has ones. Gives each zero the value zero, or with ones::changes the value of the last one
  /// before it, if there is any. Then it also reads the value before `packed`.
  [[gnu::__noinline__]] static void spread(const std::byte* masks, const std::byte* packed, const std::byte* end,
                                           std::byte* out, uint32_t count) noexcept;
};

/// The values at the ones of masks, in the same way.
template <size_t Size> struct value_loops {
  /// Copies the values at the ones to the range from `to` to `end`, which must have the capacity for them.
  /// Bytes of that range after the copied values may also be overwritten.
  /// @return the end of the copied values
  [[gnu::__noinline__]] static std::byte* pack(const std::byte* values, uint32_t count, const std::byte* masks,
                                               std::byte* to, const std::byte* end) noexcept;

  /// Computes the mask of the non-zeros, and packs them from `to` on. Returns the end of the copied values, or null if
  /// they end behind `end`; then the bytes from `masks` to `end` are unspecified.
  [[gnu::__noinline__]] static std::byte* mask_and_pack(const std::byte* values, uint32_t count, std::byte* masks,
                                                        std::byte* to, const std::byte* end) noexcept;
};

template <ones What, size_t Size>
uint32_t mask_loops<What, Size>::masks_of(const std::byte* values, uint32_t count, std::byte* masks) noexcept {
  return detail::on_cpu(
      [=]<class Cpu>(Cpu) { return detail::masks_on<Cpu>::template masks_of<What, Size>(values, count, masks); });
}

template <ones What, size_t Size>
void mask_loops<What, Size>::spread(const std::byte* masks, const std::byte* packed, const std::byte* end,
                                    std::byte* out, uint32_t count) noexcept {
  detail::on_cpu(
      [=]<class Cpu>(Cpu) { detail::masks_on<Cpu>::template spread<What, Size>(masks, packed, end, out, count); });
}

template <size_t Size>
std::byte* value_loops<Size>::pack(const std::byte* values, uint32_t count, const std::byte* masks, std::byte* to,
                                   const std::byte* end) noexcept {
  return detail::on_cpu(
      [=]<class Cpu>(Cpu) { return detail::masks_on<Cpu>::template pack<Size>(values, count, masks, to, end); });
}

template <size_t Size>
std::byte* value_loops<Size>::mask_and_pack(const std::byte* values, uint32_t count, std::byte* masks, std::byte* to,
                                            const std::byte* end) noexcept {
  return detail::on_cpu([=]<class Cpu>(Cpu) -> std::byte* {
    using loops = detail::masks_on<Cpu>;
    std::byte* at = to;
    const uint32_t words = loops::template pack_first<Size>(values, count, masks, at, end), first = words * mask_window;
    const std::byte* const rest = values + first * Size;
    const uint32_t left = loops::template masks_of<ones::non_zeros, Size>(rest, count - first, masks + 4 * words);
    if (end - at < static_cast<ptrdiff_t>(left * Size)) return nullptr;
    return loops::template pack<Size>(rest, count - first, masks + 4 * words, at, end);
  });
}

/// Returns the number of ones in `size` bytes.
inline uint32_t count_ones(const std::byte* masks, uint32_t size) noexcept {
  return detail::on_cpu([=]<class Cpu>(Cpu) { return detail::masks_on<Cpu>::count_ones(masks, size); });
}

#endif  // TUCK_HOST

}  // namespace tuck::inline TUCK_ABI
