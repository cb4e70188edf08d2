// The side stream of quantize: the exponent that codes depend on, and the exceptions, which are values without a code.
// A side stream with m exceptions has
//
//   u16 exponent       only for 16-bit types or pointwise bounds: the biased exponent of a value of the chunk. With a
//                      pointwise bound, that is the finite value that is closest to 0 but not 0. Otherwise it is the
//                      finite value with the largest magnitude. 0 if there is no such value
//   u16 position[m]    indices of the exceptions in the chunk, ascending
//   u8  0[]            up to a multiple of sizeof(T) from the beginning of the side stream
//   T   exception[m]   the unchanged values
//   u8  0[]            up to a multiple of 4
//
// Decoders ignore the padding. They reject exponents that no finite value has, and positions that do not ascend or are
// past the end.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/floating.hpp>

namespace tuck::inline TUCK_ABI {

/// Layout of the side stream of quantize and quantize_codes.
template <floating_element T> struct quantize_side {
  static constexpr uint32_t width = sizeof(T);

  uint32_t positions;  ///< offset of the positions: 2 after an exponent, else 0

  /// Returns the offset of the exceptions.
  TUCK_HD constexpr uint32_t values(uint32_t exceptions) const noexcept {
    return ceil_div(positions + 2 * exceptions, width) * width;
  }
  /// Returns the size in bytes.
  TUCK_HD constexpr uint32_t bytes(uint32_t exceptions) const noexcept {
    if ((positions | exceptions) == 0) return 0;  // the common case
    return ceil_div(values(exceptions) + exceptions * width, 4u) * 4;
  }
  /// Returns the number of exceptions of a side stream of `size` bytes. The size is valid only if bytes() of the result
  /// is equal to `size`.
  TUCK_HD constexpr uint32_t exceptions(uint32_t size) const noexcept {
    return size < positions ? 0 : (size - positions) / (2 + width);
  }

  /// Writes the side stream. `fails` has one bit per value, which is 1 for exceptions.
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
  /// Writes the exceptions to their positions. Returns false if the positions do not ascend or are past the end.
  bool patch(const std::byte* side, uint32_t exceptions, span<T> all) const noexcept {
    uint32_t next = 0;  // the lowest position that is allowed
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
