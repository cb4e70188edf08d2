// SPDX-License-Identifier: Apache-2.0
// Canonical Huffman codes of at most 10 bits, on host and device.
//
// The bytes of a chunk depend on the lengths, so these are the complete rules. N is the sum of all counts. Divisions
// round down.
//
//   round    the length of a symbol is the least l >= 1 with count * 2^l >= x, at most the limit. x is the least
//            N / 2 + k N / 32, k = 0 to 63, for which Kraft's sum is at most 1, found by bisection.
//   shorter  while Kraft's sum is below 1: of the symbols above 1 bit whose shorter code fits in the free slots, the
//            symbol with the largest count * 2^length gets a bit less. Ties prefer the lowest symbol.
//
// A symbol that occurs alone gets a code of one bit, and so does the symbol whose number differs in bit 0. Codes are
// assigned by length, then by symbol. The first code is all zeros, and each code takes the slots after the code before
// it.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/standard.hpp>

#if defined(TUCK_HOST)
#include <algorithm>
#endif

namespace tuck::inline TUCK_ABI::huffman_format {

inline constexpr uint32_t max_length = 10;
inline constexpr uint32_t all_slots = 1u << max_length;  // the unit of Kraft's sum: all slots are 1

// Returns the slots that a code of `length` bits takes.
TUCK_HD constexpr uint32_t slots_of(uint32_t length) noexcept { return all_slots >> length; }

// Returns the least l >= 1 with count * 2^l >= least, at most max_length. `count` must not be 0.
TUCK_HD constexpr uint32_t rounded_length(uint32_t count, uint32_t least) noexcept {
  const uint32_t width = tuck::bit_width(count), wanted = tuck::bit_width(least);
  uint32_t l = wanted > width ? wanted - width : 0;
  if ((count << l) < least) ++l;
  return l < 1 ? 1 : l > max_length ? max_length : l;
}
TUCK_HD constexpr uint32_t round_begin(uint32_t total, uint32_t k) noexcept { return total / 2 + k * total / 32; }

#if defined(TUCK_HOST)
// Makes the lengths of a code.
template <uint32_t Symbols> void round_lengths(const uint32_t (&counts)[Symbols], uint8_t (&length)[Symbols]) noexcept {
  uint32_t total = 0, present = 0, one = 0;
  for (uint32_t s = 0; s < Symbols; ++s) {
    length[s] = 0;
    total += counts[s];
    if (counts[s] == 0) continue;
    ++present;
    one = s;
  }
  if (present <= 1) {
    if (present == 1) length[one] = length[one ^ 1] = 1;
    return;
  }
  const auto round_to = [&](uint32_t least) {
    uint32_t used = 0;
    for (uint32_t s = 0; s < Symbols; ++s) {
      if (counts[s] == 0) continue;
      length[s] = static_cast<uint8_t>(rounded_length(counts[s], least));
      used += slots_of(length[s]);
    }
    return used;
  };
  uint32_t low = 0;
  for (uint32_t step = 32; step != 0; step /= 2)
    if (round_to(round_begin(total, low + step - 1)) > all_slots) low += step;
  for (uint32_t used = round_to(round_begin(total, low)); used != all_slots;) {
    const uint32_t before = used;
    const auto key = [&](uint32_t s) {
      return length[s] > 1 && before + slots_of(length[s]) <= all_slots ? counts[s] << length[s] : 0;
    };
    uint32_t best = 0;
    for (uint32_t s = 0; s < Symbols; ++s) best = (std::max)(best, key(s));
    for (uint32_t s = 0; s < Symbols; ++s)  // all of them that fit, up to the first that does not
      if (key(s) == best) {
        if (used + slots_of(length[s]) > all_slots) break;
        used += slots_of(length[s]--);
      }
  }
}

// Calls visit(symbol, length, first slot) for each symbol with a length of 1 to max_length, if there are enough slots.
// Returns the number of slots that all codes need.
template <class Visit> uint32_t visit_codes(const uint8_t* length, uint32_t symbols, const Visit& visit) noexcept {
  uint32_t count[16] = {}, next[max_length + 1], end = 0;
  for (uint32_t s = 0; s < symbols; ++s) ++count[length[s]];
  for (uint32_t l = 1; l <= max_length; ++l) {
    next[l] = end;
    end += count[l] * slots_of(l);
  }
  if (end > all_slots) return end;
  for (uint32_t s = 0; s < symbols; ++s)
    if (const uint32_t l = length[s]; l != 0 && l <= max_length) {
      visit(s, l, next[l]);
      next[l] += slots_of(l);
    }
  return end;
}
#endif

}  // namespace tuck::inline TUCK_ABI::huffman_format
