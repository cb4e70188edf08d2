// Canonical Huffman codes of at most 10 bits, on host and device.
//
// The bytes of a chunk depend on the lengths, so these are the complete rules. Up to 32 symbols that occur get lengths
// by Huffman's algorithm, limited to 10 bits. More symbols get rounded logarithms. Then both are adjusted until Kraft's
// sum is 1. N is the sum of all counts. Divisions round down.
//
//   start    up to 32 symbols: each symbol begins as a group with its count as weight and its rank among the symbols
//            that occur. The two groups of least weight are merged until one group is left. Ties prefer the lower
//            rank. The merged group takes the rank of the first of the two. The length of a symbol is the number of
//            merges of its group, at most 10.
//            more symbols: the length is the least l >= 1 with count * 2^l >= x, at most 10. x is the least
//            N / 2 + k N / 32, k = 0 to 63, for which Kraft's sum is at most 1, found by bisection as in `round`.
//   longer   while Kraft's sum is above 1: of the symbols below 10 bits, the symbol with the least count gets a bit
//            more. Ties prefer the lowest symbol.
//   shorter  while Kraft's sum is below 1: of the symbols above 1 bit whose shorter code fits in the free slots, the
//            symbol with the largest count * 2^length gets a bit less. Ties prefer the lowest symbol.
//
// If only one symbol occurs, its code has no bits. Codes are assigned by length, then by symbol. The first code is all
// zeros, and each code takes the slots after the code before it.
#pragma once

#include <tuck/core/bits.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace tuck::inline TUCK_ABI::huffman_format {

inline constexpr uint32_t max_length = 10;
inline constexpr uint32_t slots = 1u << max_length;  // the unit of Kraft's sum: all slots are 1
inline constexpr uint32_t few_symbols = 32;

// Returns the slots that a code of `length` bits takes.
TUCK_HD constexpr uint32_t slots_of(uint32_t length) noexcept { return slots >> length; }

// Returns the least l >= 1 with count * 2^l >= least, at most max_length. `count` must not be 0.
TUCK_HD constexpr uint32_t rounded_length(uint32_t count, uint32_t least) noexcept {
  const uint32_t width = tuck::bit_width(count), wanted = tuck::bit_width(least);
  uint32_t l = wanted > width ? wanted - width : 0;
  if ((count << l) < least) ++l;
  return l < 1 ? 1 : l > max_length ? max_length : l;
}
TUCK_HD constexpr uint32_t round_begin(uint32_t total, uint32_t k) noexcept { return total / 2 + k * total / 32; }

// Makes the lengths of a code for `Symbols` symbols on one thread.
template <uint32_t Symbols> class code_maker {
 public:
  uint8_t length[Symbols] = {};
  uint32_t present = 0;

  explicit code_maker(const uint32_t (&counts)[Symbols]) noexcept {
    for (uint32_t s = 0; s < Symbols; ++s)
      if (counts[s] != 0) {
        symbol_[present] = s;
        count_[present++] = counts[s];
      }
    if (present <= 1) return;
    if (present <= few_symbols)
      merge();
    else
      round();
    mend();
    for (uint32_t i = 0; i < present; ++i) length[symbol_[i]] = static_cast<uint8_t>(length_[i]);
  }

  uint64_t bits() const noexcept {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < present; ++i) sum += uint64_t{count_[i]} * length_[i];
    return sum;
  }

 private:
  void merge() noexcept {
    uint32_t key[few_symbols], group[few_symbols];
    for (uint32_t i = 0; i < present; ++i) {
      key[i] = count_[i] << 5 | i;
      group[i] = i;
    }
    const auto take_least = [&] { return std::exchange(*std::min_element(key, key + present), ~0u); };
    for (uint32_t left = present; left > 1; --left) {
      const uint32_t a = take_least(), b = take_least();
      key[a % 32] = (a / 32 + b / 32) << 5 | a % 32;
      for (uint32_t i = 0; i < present; ++i)
        if (group[i] == a % 32 || group[i] == b % 32) {
          ++length_[i];
          group[i] = a % 32;
        }
    }
    for (uint32_t i = 0; i < present; ++i) length_[i] = std::min(length_[i], max_length);
  }

  void round() noexcept {
    uint32_t total = 0, low = 0;
    for (uint32_t i = 0; i < present; ++i) total += count_[i];
    for (uint32_t step = 32; step != 0; step /= 2)
      if (round_to(round_begin(total, low + step - 1)) > slots) low += step;
    round_to(round_begin(total, low));
  }
  // Sets each length to the rounded_length of its count. Returns the slots that all codes take. Compilers vectorize it.
  uint32_t round_to(uint32_t least) noexcept {
    std::fill_n(length_, present, max_length);
    uint32_t used = present * slots_of(max_length);
    for (uint32_t l = 1; l < max_length; ++l) {
      const uint32_t from = (least + (1u << l) - 1) >> l;
      uint32_t shorter = 0;
      for (uint32_t i = 0; i < present; ++i) {
        const uint32_t one = count_[i] >= from ? 1 : 0;
        length_[i] -= one;
        shorter += one;
      }
      used += shorter * slots_of(l + 1);
    }
    return used;
  }

  void mend() noexcept {
    uint32_t used = 0;
    for (uint32_t i = 0; i < present; ++i) used += slots_of(length_[i]);
    while (used > slots) {
      const auto key = [&](uint32_t i) { return length_[i] < max_length ? count_[i] : ~0u; };
      uint32_t least = 0;
      for (uint32_t i = 1; i < present; ++i) least = key(i) < key(least) ? i : least;
      used -= slots_of(++length_[least]);
    }
    // Free slots only decrease. A symbol whose shorter code does not fit stays out of the heap.
    uint64_t heap[Symbols], *end = heap;
    const auto add = [&](uint32_t i) {
      if (length_[i] == 1 || slots_of(length_[i]) > slots - used) return;
      *end++ = uint64_t{count_[i]} << length_[i] << 16 | (Symbols - i);
      std::push_heap(heap, end);
    };
    for (uint32_t i = 0; i < present; ++i) add(i);
    while (used < slots) {
      std::pop_heap(heap, end--);
      const auto i = static_cast<uint32_t>(Symbols - (*end & 0xffff));
      if (slots_of(length_[i]) <= slots - used) used += slots_of(length_[i]--);
      add(i);
    }
  }

  // Of each symbol that occurs:
  uint32_t symbol_[Symbols], count_[Symbols], length_[Symbols] = {};
};

// Makes the lengths of a code by rounded logarithms alone: `round` and `shorter` of the rules above, with at most Most
// bits. A symbol that occurs alone gets a code of one bit, and so does the symbol whose number differs in bit 0.
template <uint32_t Symbols, uint32_t Most>
void round_lengths(const uint32_t (&counts)[Symbols], uint8_t (&length)[Symbols]) noexcept {
  uint32_t total = 0, present = 0, one = 0;
  for (uint32_t s = 0; s < Symbols; ++s) {
    length[s] = 0;
    total += counts[s];
    if (counts[s] != 0) ++present, one = s;
  }
  if (present <= 1) {
    if (present == 1) length[one] = length[one ^ 1] = 1;
    return;
  }
  const auto round_to = [&](uint32_t least) {
    uint32_t used = 0;
    for (uint32_t s = 0; s < Symbols; ++s) {
      if (counts[s] == 0) continue;
      length[s] = static_cast<uint8_t>(std::min(rounded_length(counts[s], least), Most));
      used += slots_of(length[s]);
    }
    return used;
  };
  uint32_t low = 0;
  for (uint32_t step = 32; step != 0; step /= 2)
    if (round_to(round_begin(total, low + step - 1)) > slots) low += step;
  for (uint32_t used = round_to(round_begin(total, low)); used != slots;) {
    uint32_t best = 0, which = 0;
    for (uint32_t s = 0; s < Symbols; ++s) {
      if (length[s] <= 1 || used + slots_of(length[s]) > slots) continue;
      if (const uint32_t key = counts[s] << length[s]; key > best) best = key, which = s;
    }
    used += slots_of(length[which]--);
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
  if (end > slots) return end;
  for (uint32_t s = 0; s < symbols; ++s)
    if (const uint32_t l = length[s]; l != 0 && l <= max_length) {
      visit(s, l, next[l]);
      next[l] += slots_of(l);
    }
  return end;
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
