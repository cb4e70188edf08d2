// SPDX-License-Identifier: Apache-2.0
// What a chunk is made of, on one thread: codes and streams of bits. layout.hpp describes the format.
#pragma once

#include <tuck/codec/huffman/layout.hpp>
#include <tuck/core/bit_writer.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tuck::inline TUCK_ABI::huffman_format {

static_assert(std::endian::native == std::endian::little);

// Copies words and reverses their bytes: bits from the highest bit of each word down are then in the order of bytes.
inline void copy_reversed(const std::byte* from, uint32_t words, std::byte* to) noexcept {
  for (uint32_t i = 0; i < words; ++i)
    store_unaligned(to + 4 * size_t{i}, __builtin_bswap32(load_unaligned<uint32_t>(from + 4 * size_t{i})));
}
// Writes bits, the highest bit of each byte first. Up to 8 bytes behind them are overwritten.
struct bits_out {
  std::byte* to;
  uint64_t bits = 0;  // from the highest on; `fill` < 8 of them are to be written
  uint32_t fill = 0;

  // Appends `count` bits, 1 to 56; those above them must be 0.
  void put(uint64_t x, uint32_t count) noexcept {
    bits |= x << (64 - fill - count);
    fill += count;
    store_unaligned(to, __builtin_bswap64(bits));
    to += fill / 8;
    bits <<= fill & 56;
    fill &= 7;
  }
  // Fills the last word with zeros.
  void finish() const noexcept { store_unaligned(to, __builtin_bswap64(bits)); }
};
// Reads such bits. Past the end come others.
struct bits_in {
  const std::byte* from;
  uint32_t end;  // bytes; 8 more can be read

  // Returns the 57 bits from bit `at` on, highest first, and 7 others.
  uint64_t window(uint32_t at) const noexcept {
    return __builtin_bswap64(load_unaligned<uint64_t>(from + (std::min)(at / 8, end))) << at % 8;
  }
  uint64_t read_bits(uint32_t& at, uint32_t count) const noexcept {  // up to 64
    uint64_t x = 0;
    for (uint32_t left = count; left != 0;) {
      const uint32_t n = (std::min)(left, 32u);
      x = x << n | window(at) >> (64 - n);
      at += n;
      left -= n;
    }
    return x;
  }
};

// Lengths of codes, four bits each.
inline std::byte* write_lengths(const uint8_t* length, uint32_t count, std::byte* to) noexcept {
  for (uint32_t s = 0; s < count; s += 2) *to++ = static_cast<std::byte>(length[s] | length[s + 1] << 4);
  return to;
}
inline const std::byte* read_lengths(const std::byte* from, uint32_t count, uint8_t* length) noexcept {
  for (uint32_t s = 0; s < count; s += 2, ++from) {
    length[s] = static_cast<uint8_t>(*from) & 15;
    length[s + 1] = static_cast<uint8_t>(*from) >> 4;
  }
  return from;
}

// In the length of an entry of the escape: more than four codes have, and four of them fit in a byte.
inline constexpr uint32_t escape_mark = 48;

// Sets the entry of each pattern of max_length bits. Returns whether the code is complete.
//
//    15 14 13      8 7 6 5    4 3      0
//   +-----+---------+---+------+--------+
//   |  0  | symbol  | 0 | mark | length |   mark: 3 for the escape (escape_mark), else 0
//   +-----+---------+---+------+--------+
inline bool fill_table(const uint8_t (&length)[symbols], uint16_t* entry) noexcept {
  for (const uint8_t l : length)
    if (l > max_length) return false;
  return visit_codes(length, symbols, [&](uint32_t s, uint32_t l, uint32_t slot) {
           const uint32_t mark = s == escape ? escape_mark : 0;
           std::fill_n(entry + slot, 1u << (max_length - l), static_cast<uint16_t>(s << 8 | l | mark));
         }) == all_slots;
}

// Returns the bin of `top`.
template <class Value> uint32_t find_bin(const Value* values, uint32_t count, uint32_t exponent) noexcept {
  constexpr uint32_t width = sizeof(Value), group = sample_group(width);
  uint32_t counts[bins] = {}, best = 0, most = 0, in_window = 0;
  for (uint32_t g = 0; g * group + g % group < count; ++g) {
    const auto field = static_cast<uint32_t>(values[g * group + g % group] >> (8 * width - 1 - exponent));
    ++counts[(field & low_mask(exponent)) >> bin_shift(exponent)];
  }
  for (uint32_t b = 0; b < bins; ++b) {
    in_window += counts[b] - (b >= window_bins ? counts[b - window_bins] : 0);
    if (in_window <= most) continue;
    most = in_window;
    best = b;
  }
  return best;
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
