// SPDX-License-Identifier: Apache-2.0
// Zigzag codes: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4, so that small numbers of either sign have few bits.
#pragma once

#include <tuck/core/config.hpp>
#include <tuck/core/standard.hpp>

namespace tuck::inline TUCK_ABI {

/// Returns the zigzag code of an integer: 2 d, or -2 d - 1 for a negative d. The bits of an unsigned d count as a
/// signed integer.
template <class Integer> TUCK_HD constexpr std::make_unsigned_t<Integer> zigzag(Integer d) noexcept {
  using word = std::make_unsigned_t<Integer>;
  const auto sign = static_cast<word>(static_cast<std::make_signed_t<Integer>>(d) >> (8 * sizeof(word) - 1));
  return static_cast<word>(static_cast<word>(d) << 1 ^ sign);
}
/// Returns the bits of the integer that has a zigzag code.
template <class Word> TUCK_HD constexpr Word unzigzag(Word z) noexcept {
  return static_cast<Word>(z >> 1 ^ (Word{0} - (z & 1)));
}

}  // namespace tuck::inline TUCK_ABI
