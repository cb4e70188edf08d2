// What quantize stores besides its codes: the exponent that they depend on, and the exceptions, values that no code
// holds. Of m exceptions, from the side's begin:
//
//   u16 exponent            of 16-bit types the biased one of the chunk's largest finite value; where the bound is
//                           pointwise, of all types, that of the least finite value that is not 0. 0 where there is
//                           none
//   u16 position[m]         ascending
//   T   exception[m]        bit for bit; before them and behind them zeros, to a multiple of sizeof(T) and of 4
//
// Decoders refuse exponents that no finite value has, and positions that do not ascend or are past the end.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/floating.hpp>

namespace tuck::inline TUCK_ABI {

template <floating_element T> struct quantize_side {
  static constexpr uint32_t width = sizeof(T);

  uint32_t positions;  // where they begin: 2 behind an exponent, else 0

  // Where the exceptions begin, and the bytes of a side.
  TUCK_HD constexpr uint32_t values(uint32_t exceptions) const noexcept {
    return ceil_div(positions + 2 * exceptions, width) * width;
  }
  TUCK_HD constexpr uint32_t bytes(uint32_t exceptions) const noexcept {
    if ((positions | exceptions) == 0) return 0;  // as most sides are
    return ceil_div(values(exceptions) + exceptions * width, 4u) * 4;
  }
  // The exceptions of a side of so many bytes; if none has, such as have another.
  TUCK_HD constexpr uint32_t exceptions(uint32_t size) const noexcept {
    return size < positions ? 0 : (size - positions) / (2 + width);
  }

  // Of exceptions at the ones of `fails`, a bit a value.
  void write(std::byte* to, uint32_t exponent, uint32_t exceptions, const uint32_t* fails,
             span<const T> all) const noexcept {
    std::memset(to, 0, bytes(exceptions));
    if (positions != 0) store_unaligned(to, static_cast<uint16_t>(exponent));
    std::byte *position = to + positions, *value = to + values(exceptions);
    for (uint32_t i = 0; exceptions != 0 && 32 * i < all.size(); ++i)
      for (uint32_t left = fails[i]; left != 0; left &= left - 1) {
        const uint32_t at = 32 * i + trailing_zeros(left);
        store_unaligned(position, static_cast<uint16_t>(at));
        tuck::store_unaligned(value, all[at]);
        position += 2;
        value += width;
      }
  }

  TUCK_HD uint32_t exponent(const std::byte* side) const noexcept {
    return positions != 0 ? load_unaligned<uint16_t>(side) : 0;
  }
  // Puts the exceptions in their places; false where these are not in order.
  bool patch(const std::byte* side, uint32_t exceptions, span<T> all) const noexcept {
    uint32_t next = 0;  // the lowest position that the next one may have
    for (uint32_t i = 0; i < exceptions; ++i) {
      const uint32_t at = load_unaligned<uint16_t>(side + positions + 2 * i);
      if (at < next || at >= all.size()) return false;
      next = at + 1;
      std::memcpy(&all[at], side + values(exceptions) + i * width, width);
    }
    return true;
  }
};

}  // namespace tuck::inline TUCK_ABI
