// What a chunk is made of, on one thread: masks, narrow planes, tables and streams. layout.hpp describes the format.
#pragma once

#include <tuck/codec/huffman/layout.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tuck::inline TUCK_ABI::huffman_format {

static_assert(std::endian::native == std::endian::little);

// A byte plane, edges, or a mask.
inline std::byte* as_bytes(uint8_t* p) noexcept { return reinterpret_cast<std::byte*>(p); }

// Returns whether the first `count` bits of a mask have `found` ones, and no bit after them in the last byte is set.
inline bool has_ones(const uint8_t* mask, uint32_t count, uint32_t found) noexcept {
  uint32_t ones = 0;
  for (uint32_t i = 0; i < ceil_div(count, 8u); ++i) ones += popcount(mask[i]);
  return ones == found && (count % 8 == 0 || mask[count / 8] >> count % 8 == 0);
}

// Conversion of a plane to seven bits per byte, and back. All accesses are of 32 bytes of the plane or of seven words.
inline void narrow_plane(const uint8_t* plane, uint32_t values, uint32_t* to) noexcept {
  for (uint32_t first = 0; first < values; first += 32) {
    uint32_t quads[8];
    std::memcpy(quads, plane + first, sizeof quads);
    const uint32_t last = squeeze(quads[7]);
    for (uint32_t q = 0; q < 7; ++q) *to++ = squeeze(quads[q]) | (last >> 4 * q & 15) << 28;
  }
}
inline void widen_plane(const uint32_t* from, uint32_t values, uint8_t* plane) noexcept {
  for (uint32_t first = 0; first < values; first += 32, from += 7) {
    uint32_t quads[8] = {};
    for (uint32_t q = 0; q < 7; ++q) {
      quads[q] = widen(from[q]);
      quads[7] |= from[q] >> 28 << 4 * q;
    }
    quads[7] = widen(quads[7]);
    std::memcpy(plane + first, quads, sizeof quads);
  }
}

// Writes a table of lengths. Returns its number of words.
inline uint32_t write_table(const uint8_t* length, uint32_t symbols, uint32_t* to) noexcept {
  uint32_t groups = 0, used = symbols == 16 ? 0 : 1;
  for (uint32_t g = 0; g < symbols / 8; ++g) {
    uint32_t word = 0;
    for (uint32_t k = 0; k < 8; ++k) word |= uint32_t{length[8 * g + k]} << 4 * k;
    if (symbols != 16 && word == 0) continue;
    groups |= 1u << g;
    to[used++] = word;
  }
  if (symbols != 16) to[0] = groups;
  return used;
}
// Reads a table from at most `left` words. Sets the entry of each pattern of max_length bits: symbol << 8 | length.
// Returns the number of words used, or 0 if they are malformed.
inline uint32_t read_table(const std::byte* from, uint32_t left, uint32_t symbols, uint16_t (&entry)[slots]) noexcept {
  uint8_t length[256] = {};
  uint32_t used = symbols == 16 ? 0 : 1;
  if (used > left) return 0;
  const uint32_t groups = symbols == 16 ? 3 : load_unaligned<uint32_t>(from);
  if (used + popcount(groups) > left) return 0;
  uint32_t only = 0;
  for (uint32_t mask = groups; mask != 0; mask &= mask - 1) {
    const auto word = load_unaligned<uint32_t>(from + 4 * used++);
    for (uint32_t k = 0, s = 8 * trailing_zeros(mask); k < 8; ++k, ++s) {
      length[s] = word >> 4 * k & 15;
      if (length[s] <= max_length) continue;
      if (length[s] != only_symbol || only++ != 0) return 0;
      std::fill_n(entry, slots, static_cast<uint16_t>(s << 8));
    }
  }
  const auto fill = [&](uint32_t s, uint32_t l, uint32_t slot) {
    std::fill_n(entry + slot, slots_of(l), static_cast<uint16_t>(s << 8 | l));
  };
  return visit_codes(length, symbols, fill) == (only == 1 ? 0 : slots) ? used : 0;
}

// Writes bits from the highest bit of each byte down. Memory after the bits may be overwritten, up to 8 bytes.
struct bit_appender {
  std::byte* to;
  uint64_t bits = 0;  // the last `fill` < 8 bits, at the top
  uint32_t fill = 0;

  // Appends the codes of the first `symbols` symbols of x, at most four, lowest first. An entry is code << 4 | length.
  template <uint32_t SymbolBits> void put(const uint32_t* entry, uint32_t x, uint32_t symbols) noexcept {
    uint64_t codes = 0;
    uint32_t length = 0;
    for (uint32_t k = 0; k < std::min(symbols, 4u); ++k) {
      const uint32_t e = entry[x >> SymbolBits * k & low_mask(SymbolBits)];
      codes = codes << e % 16 | e / 16;
      length += e % 16;
    }
    bits |= codes << 1 << (63 - fill - length);
    store_unaligned(to, __builtin_bswap64(bits));
    fill += length;
    to += fill / 8;
    bits <<= fill / 8 * 8;
    fill %= 8;
  }
  // Makes the bits of the last word zero that no code has set.
  void finish() const noexcept { store_unaligned(to, __builtin_bswap64(bits)); }
};
// Reads `symbols` codes, at most four, at bit `at` of words in reversed byte order. Returns their symbols, the first
// lowest. Reads past byte `last` are redirected to it.
template <uint32_t SymbolBits>
uint32_t take_symbols(const std::byte* from, uint32_t last, uint32_t& at, const uint16_t* entry,
                      uint32_t symbols) noexcept {
  uint64_t bits = __builtin_bswap64(load_unaligned<uint64_t>(from + std::min(at / 8, last))) << at % 8;
  uint32_t x = 0, used = 0;  // `used`: in the lowest eight bits
  for (uint32_t k = 0; k < std::min(symbols, 4u); ++k) {
    const uint32_t e = entry[bits >> (64 - max_length)];
    x |= e >> 8 << SymbolBits * k;
    bits <<= e % 64;
    used += e;
  }
  at += used % 256;
  return x;
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
