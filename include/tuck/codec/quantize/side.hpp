// What quantize stores besides its codes: the exponent that the step of 16-bit types depends on, and the exceptions,
// values that no code holds. Of m exceptions, from the side's begin:
//
//   u16 exponent            of 16-bit types: the biased one of the chunk's largest finite value, which is 0 where the
//                           bound is pointwise; of others nothing
//   u16 position[m]         ascending
//   T   exception[m]        bit for bit; before them and behind them zeros, to a multiple of sizeof(T) and of 4
//
// Decoders refuse exponents that no finite value has, or not 0 where they are to be, and positions that do not ascend
// or are past the end.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/floating.hpp>

namespace tuck::inline TUCK_ABI {

template <floating_element T> struct quantize_side {
  static constexpr uint32_t width = sizeof(T);
  static constexpr uint32_t positions = sizeof(T) == 2 ? 2 : 0;  // where they begin

  // Where the exceptions begin, and the bytes of a side.
  TUCK_HD static constexpr uint32_t values(uint32_t exceptions) noexcept {
    return ceil_div(positions + 2 * exceptions, width) * width;
  }
  TUCK_HD static constexpr uint32_t bytes(uint32_t exceptions) noexcept {
    return ceil_div(values(exceptions) + (exceptions != 0 ? exceptions * width : 0), 4u) * 4;
  }

  // Of exceptions at the ones of `fails`, a bit a value.
  static void write(std::byte* to, uint32_t exponent, uint32_t exceptions, const uint32_t* fails,
                    span<const T> all) noexcept {
    std::memset(to, 0, bytes(exceptions));
    if constexpr (positions != 0) store_unaligned(to, static_cast<uint16_t>(exponent));
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

  TUCK_HD static uint32_t exponent(const std::byte* side) noexcept {
    if constexpr (positions != 0) return load_unaligned<uint16_t>(side);
    return 0;
  }
  // Puts the exceptions in their places; false where these are not in order.
  static bool patch(const std::byte* side, uint32_t exceptions, span<T> all) noexcept {
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
