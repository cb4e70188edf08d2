// SPDX-License-Identifier: Apache-2.0
// The classes of a chunk's values on the CPU.
#pragma once

#include <tuck/codec/steps/layout.hpp>
#include <tuck/core/masks.hpp>

#include <bit>
#include <type_traits>

namespace tuck::inline TUCK_ABI::steps_format {

/// The values of a chunk's base; none: zeros.
template <floating_element T> struct base_of_chunk {
  span<const T> values;

  bits_t<T> at(uint32_t i) const noexcept { return values.empty() ? bits_t<T>{0} : bits_at(values.data(), i); }
};

/// Returns a mask of what is left of `count` values from `begin` on, up to 64.
inline uint64_t mask_of_rest(uint32_t begin, uint32_t count) noexcept {
  return ~uint64_t{0} >> (count - begin < 64 ? 64 - (count - begin) : 0);
}

inline constexpr uint32_t positions_at_once = 8;

/// Finds the positions of the ones among `count` bits.
/// @param bits  whole words of 64 bits
/// @param to    memory for as many positions as there are ones, and positions_at_once more
template <class Cpu> void find_positions(const std::byte* bits, uint32_t count, uint16_t* to) noexcept {
  for (uint32_t begin = 0; begin < count; begin += 64) {
    uint64_t left = load_unaligned<uint64_t>(bits + begin / 8) & mask_of_rest(begin, count);
    uint16_t* const end = to + Cpu::popcount(left);
    do {  // always so many: how many there are cannot be predicted
      for (uint32_t k = 0; k < positions_at_once; ++k, left &= left - 1)
        *to++ = static_cast<uint16_t>(begin + static_cast<uint32_t>(std::countr_zero(left)));
    } while (to < end);
    to = end;
  }
}

/// Masks of the values of classes 0 to c, for c = 0, 1 and 2. Up to Most values.
template <floating_element T, uint32_t Most> struct class_masks {
  static_assert(Most % 64 == 0, "tuck: of_class reads 64 bits at once");
  std::byte up_to[classes - 1][Most / 8];
  uint32_t values[classes];  ///< of each class

  /// The values of classes 0 to c in a window are mask[c + 1]; mask[0] is 0.
  struct window {
    uint32_t mask[classes + 1];

    /// Returns the values of a class.
    uint32_t of_class(uint32_t c) const noexcept { return mask[c + 1] & ~mask[c]; }
  };
  window at(uint32_t begin, uint32_t count) const noexcept {
    const auto up = [&](uint32_t c) { return load_unaligned<uint32_t>(up_to[c] + begin / 8); };
    return {{0, up(0), up(1), up(2), low_mask(count - begin)}};
  }

  /// Returns the values of a class in a window of 64 of `count` values.
  uint64_t of_class(uint32_t c, uint32_t begin, uint32_t count) const noexcept {
    const auto up = [&](uint32_t k) { return load_unaligned<uint64_t>(up_to[k] + begin / 8); };
    const uint64_t below = c == 0 ? 0 : up(c - 1), all = mask_of_rest(begin, count);
    return (c + 1 < classes ? up(c) : all) & ~below & all;
  }

  /// Finds the classes of `count` values.
  void find(const base_of_chunk<T>& base, uint32_t count, uint32_t threshold) noexcept {
    uint32_t sums[classes] = {0, 0, 0, count};
    if (!base.values.empty()) {
      find(base.values, threshold, sums);
    } else {
      for (uint32_t c = 0; c + 1 < classes; ++c) {
        sums[c] = least_exponent(threshold, c) == 0 ? count : 0;
        for (uint32_t begin = 0; begin < count; begin += mask_window)
          store_unaligned(up_to[c] + begin / 8, sums[c] == 0 ? 0 : low_mask(count - begin));
      }
    }
    for (uint32_t c = 0; c < classes; ++c) values[c] = sums[c] - (c == 0 ? 0 : sums[c - 1]);
  }

 private:
  void find(span<const T> base, uint32_t threshold, uint32_t (&sums)[classes]) noexcept {
    detail::vectorized([&]<class Cpu>(Cpu) {
      // Signed, as vectors of x86 compare. Neither magnitudes nor exponent fields have the sign bit.
      using lane = std::make_signed_t<bits_t<T>>;
      using lanes [[gnu::vector_size(32), gnu::aligned(1), gnu::may_alias]] = lane;
      constexpr uint32_t window_bytes = mask_window * sizeof(T);
      constexpr auto magnitude = static_cast<lane>(~float_format<T>::sign);
      lane below[classes - 1];
      for (uint32_t c = 0; c + 1 < classes; ++c)
        below[c] = static_cast<lane>((least_exponent(threshold, c) << float_format<T>::mantissa_bits) - 1u);
      const auto find_window = [&](const std::byte* from, uint32_t begin, uint32_t left) {
        TUCK_UNROLL(3)
        for (uint32_t c = 0; c + 1 < classes; ++c) {
          std::byte above[window_bytes];
          for (uint32_t i = 0; i < window_bytes; i += 32)
            *reinterpret_cast<lanes*>(above + i) =
                static_cast<lanes>((*reinterpret_cast<const lanes*>(from + i) & magnitude) > below[c]);
          const uint32_t mask = Cpu::template mask_of<sizeof(T), false>(above) & low_mask(left);
          store_unaligned(up_to[c] + begin / 8, mask);
          sums[c] += Cpu::popcount(mask);
        }
      };
      const std::byte* const from = as_bytes(base).data();
      const auto count = static_cast<uint32_t>(base.size());
      const uint32_t whole = count / mask_window * mask_window;
      for (uint32_t begin = 0; begin < whole; begin += mask_window)
        find_window(from + begin * sizeof(T), begin, mask_window);
      if (whole < count) {
        std::byte last[window_bytes] = {};
        std::memcpy(last, from + whole * sizeof(T), (count - whole) * sizeof(T));
        find_window(last, whole, count - whole);
      }
    });
  }
};

}  // namespace tuck::inline TUCK_ABI::steps_format
