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

  explicit code_maker(const uint32_t (&counts)[Symbols]) noexcept : counts_(counts) {
    for (uint32_t i = 0; i < Symbols; ++i)
      if (counts[i] != 0) {
        symbol_[present++] = static_cast<uint16_t>(i);
        total_ += counts[i];
      }
    if (present <= 1) return;
    if (present <= few_symbols)
      merge();
    else
      round();
    mend();
  }

  uint64_t bits() const noexcept {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < Symbols; ++i) sum += uint64_t{counts_[i]} * length[i];
    return sum;
  }

 private:
  void merge() noexcept {
    uint32_t symbol[few_symbols], key[few_symbols], group[few_symbols], depth[few_symbols] = {}, n = 0;
    for (uint32_t i = 0; i < Symbols; ++i)
      if (counts_[i] != 0) {
        symbol[n] = i;
        key[n] = counts_[i] << 5 | n;
        group[n] = n;
        ++n;
      }
    for (uint32_t left = n; left > 1; --left) {
      const uint32_t a = take_least(key, n), b = take_least(key, n);
      key[a % 32] = (a / 32 + b / 32) << 5 | a % 32;
      for (uint32_t i = 0; i < n; ++i)
        if (group[i] == a % 32 || group[i] == b % 32) {
          ++depth[i];
          group[i] = a % 32;
        }
    }
    for (uint32_t i = 0; i < n; ++i)
      length[symbol[i]] = static_cast<uint8_t>(depth[i] < max_length ? depth[i] : max_length);
  }
  static uint32_t take_least(uint32_t (&key)[few_symbols], uint32_t n) noexcept {
    uint32_t least = 0;
    for (uint32_t i = 1; i < n; ++i)
      if (key[i] < key[least]) least = i;
    const uint32_t found = key[least];
    key[least] = ~0u;
    return found;
  }

  void round() noexcept {
    for (uint32_t i = 0; i < present; ++i) width_[i] = static_cast<uint8_t>(tuck::bit_width(count_of(i)));
    uint32_t low = 0;
    for (uint32_t step = 32; step != 0; step /= 2)
      if (kraft(round_begin(total_, low + step - 1)) > slots) low += step;
    const uint32_t least = round_begin(total_, low);
    for (uint32_t i = 0; i < present; ++i)
      length[symbol_[i]] = static_cast<uint8_t>(rounded_length(count_of(i), least));
  }
  // All counts of the same bit width have one of two lengths.
  uint32_t kraft(uint32_t least) const noexcept {
    uint32_t from[18], few[18], more[18], sum = 0;  // slots of the lower counts, and additional slots of the others
    for (uint32_t w = 1, wanted = tuck::bit_width(least); w < 18; ++w) {
      const uint32_t l = wanted > w ? wanted - w : 0;
      from[w] = (least + (1u << l) - 1) >> l;
      few[w] = slots_of(std::clamp(l + 1, 1u, max_length));
      more[w] = slots_of(std::clamp(l, 1u, max_length)) - few[w];
    }
    for (uint32_t i = 0; i < present; ++i) {
      const uint32_t w = width_[i];
      sum += few[w] + ((0 - uint32_t{count_of(i) >= from[w]}) & more[w]);
    }
    return sum;
  }

  void mend() noexcept {
    uint32_t used = 0;
    for (uint32_t i = 0; i < present; ++i) used += slots_of(length[symbol_[i]]);
    if (used > slots) {  // the least count stays the least until it has max_length
      std::stable_sort(symbol_, symbol_ + present, [&](uint16_t a, uint16_t b) { return counts_[a] < counts_[b]; });
      for (uint32_t i = 0; used > slots; ++i)
        for (uint8_t& l = length[symbol_[i]]; l < max_length && used > slots;) used -= slots_of(++l);
      std::sort(symbol_, symbol_ + present);
    }
    if (used == slots) return;
    // Free slots only decrease. A symbol whose shorter code does not fit leaves the heap for good.
    uint64_t heap[Symbols], *end = heap;
    const auto key = [&](uint64_t s) { return uint64_t{counts_[s]} << length[s] << 16 | (Symbols - s); };
    for (uint32_t i = 0; i < present; ++i)
      if (const uint32_t l = length[symbol_[i]]; l > 1 && slots_of(l) <= slots - used) *end++ = key(symbol_[i]);
    for (std::make_heap(heap, end); used < slots;) {
      std::pop_heap(heap, end);
      const auto s = static_cast<uint32_t>(Symbols - (end[-1] & 0xffff));
      const bool fits = slots_of(length[s]) <= slots - used;
      if (fits) used += slots_of(length[s]--);
      if (fits && length[s] > 1) {
        end[-1] = key(s);
        std::push_heap(heap, end);
      } else {
        --end;
      }
    }
  }
  uint32_t count_of(uint32_t i) const noexcept { return counts_[symbol_[i]]; }

  const uint32_t (&counts_)[Symbols];
  uint16_t symbol_[Symbols];  // the symbols that occur
  uint8_t width_[Symbols];    // bit widths of their counts
  uint32_t total_ = 0;
};

// Calls visit(symbol, length, first slot) for each symbol with a code, if there are enough slots. Returns the number of
// slots that all codes need.
template <class Visit> uint32_t visit_codes(const uint8_t* length, uint32_t symbols, const Visit& visit) noexcept {
  uint32_t count[16] = {}, next[max_length + 1], end = 0;
  for (uint32_t s = 0; s < symbols; ++s) ++count[length[s]];
  for (uint32_t l = 1; l <= max_length; ++l) {
    next[l] = end;
    end += count[l] * slots_of(l);
  }
  if (end > slots) return end;
  for (uint32_t s = 0; s < symbols; ++s)
    if (const uint32_t l = length[s]; l != 0) {
      visit(s, l, next[l]);
      next[l] += slots_of(l);
    }
  return end;
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
