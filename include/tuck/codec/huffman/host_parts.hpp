// The parts of a chunk and their streams on one thread. layout.hpp describes the format.
#pragma once

#include <tuck/codec/huffman/layout.hpp>
#include <tuck/core/dtype.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tuck::inline TUCK_ABI::huffman_format {

static_assert(std::endian::native == std::endian::little);

// Buffers for the parts of a row of up to RowBytes bytes. Each begins at a multiple of 4 and is padded with zeros.
template <uint32_t Width, uint32_t RowBytes> struct part_room {
  static constexpr uint32_t values = RowBytes / Width;
  alignas(4) uint8_t flags[RowBytes / 8 + 4];
  alignas(4) uint8_t edges[RowBytes];
  alignas(4) uint8_t heads[values / 8 + 4];
  alignas(4) uint8_t planes[Width][values + 4];  // planes[0] is the upper plane

  uint8_t* part(uint32_t i) noexcept {
    return i == 0 ? flags : i == 1 ? edges : i == 2 ? heads : planes[i - upper_part];
  }
};

// Makes the flags and edges of side streams, which are one string of words. `found` is the number of edge bytes.
inline void mask_to_edges(const uint32_t* mask, uint32_t bytes, uint8_t* flags, uint8_t* edges,
                          uint32_t& found) noexcept {
  std::memset(flags, 0, bytes / 8 + 4);
  found = 0;
  uint32_t carry = 0;
  for (uint32_t i = 0; i < bytes / 4; ++i) {
    const uint32_t edge = mask[i] ^ (mask[i] << 1 | carry);
    carry = mask[i] >> 31;
    for (uint32_t k = 0; k < 4; ++k)
      if (const auto byte = static_cast<uint8_t>(edge >> 8 * k); byte != 0) {
        flags[i / 2] = static_cast<uint8_t>(flags[i / 2] | 1u << (i % 2 * 4 + k));
        edges[found++] = byte;
      }
  }
  for (uint32_t i = found; i % 4 != 0; ++i) edges[i] = 0;
}
// Restores the side streams. Returns false if the flags do not match `found`, the number of edge bytes.
inline bool edges_to_mask(const uint8_t* flags, const uint8_t* edges, uint32_t found, uint32_t bytes,
                          uint32_t* mask) noexcept {
  uint32_t used = 0, carry = 0;
  for (uint32_t i = 0; i < bytes / 4; ++i) {
    uint32_t x = 0;
    for (uint32_t k = 0; k < 4; ++k)
      if ((flags[i / 2] >> (i % 2 * 4 + k) & 1) != 0) {
        if (used == found) return false;
        x |= uint32_t{edges[used++]} << 8 * k;
      }
    for (uint32_t shift = 1; shift < 32; shift *= 2) x ^= x << shift;
    mask[i] = x ^ (0 - carry);
    carry = mask[i] >> 31;
  }
  return used == found && (bytes % 8 == 0 || flags[bytes / 8] < 16);
}

// Finds the heads of runs of equal bytes and copies them to `kept`. Returns their number.
inline uint32_t split_heads(const uint8_t* upper, uint32_t values, uint8_t* heads, uint8_t* kept) noexcept {
  std::memset(heads, 0, values / 8 + 4);
  uint32_t n = 0;
  for (uint32_t i = 0; i < values; ++i)
    if (i == 0 || upper[i] != upper[i - 1]) {
      heads[i / 8] = static_cast<uint8_t>(heads[i / 8] | 1u << i % 8);
      kept[n++] = upper[i];
    }
  return n;
}
// Restores the upper bytes. `upper` has a capacity of `values`, rounded up to a multiple of 8. Returns false if `heads`
// does not match `found`, the number of kept bytes.
inline bool join_heads(const uint8_t* heads, const uint8_t* kept, uint32_t found, uint32_t values,
                       uint8_t* upper) noexcept {
  uint32_t all = 0;
  for (uint32_t i = 0; i < ceil_div(values, 8u); ++i) all += popcount(heads[i]);
  if (all != found || (heads[0] & 1) == 0 || (values % 8 != 0 && heads[values / 8] >> values % 8 != 0)) return false;
  for (uint32_t first = 0, rank = 0; first < values; first += 8)
    for (uint32_t k = 0, mask = heads[first / 8]; k < 8; ++k) upper[first + k] = kept[(rank += mask >> k & 1) - 1];
  return true;
}

// Conversion of a plane to seven bits per byte, bits 1 to 7, and back. layout.hpp describes the words.
inline uint32_t quad_of(const uint8_t* p) noexcept {
  return p[0] >> 1 | uint32_t{p[1]} >> 1 << 7 | uint32_t{p[2]} >> 1 << 14 | uint32_t{p[3]} >> 1 << 21;
}
inline void narrow_plane(const uint8_t* plane, uint32_t values, uint32_t* to) noexcept {
  for (uint32_t first = 0; first < values; first += 32) {
    uint32_t quads[8] = {};
    for (uint32_t q = 0; q < 8 && first + 4 * q < values; ++q) quads[q] = quad_of(plane + first + 4 * q);
    for (uint32_t q = 0; q < 7 && first + 4 * q < values; ++q) *to++ = quads[q] | (quads[7] >> 4 * q & 15) << 28;
  }
}
inline void widen_plane(const uint32_t* from, uint32_t values, uint8_t* plane) noexcept {
  for (uint32_t first = 0; first < values; first += 32) {
    uint32_t quads[8] = {};
    for (uint32_t q = 0; q < 7 && first + 4 * q < values; ++q) {
      const auto word = load_unaligned<uint32_t>(reinterpret_cast<const std::byte*>(from++));
      quads[q] = word;
      quads[7] |= word >> 28 << 4 * q;
    }
    for (uint32_t k = 0; k < 32 && first + k < values; ++k)
      plane[first + k] = static_cast<uint8_t>((quads[k / 4] >> 7 * (k % 4) & 127) << 1);
  }
}

// -- tables ------------------------------------------------------------------------------------------------------

// The codes of a part, for nibbles and bytes: code << 4 | length. It is 0 for the only symbol.
struct part_code {
  uint32_t entry[256];

  void assign(const uint8_t* length, uint32_t symbols) noexcept {
    std::fill_n(entry, symbols, 0u);
    visit_codes(length, symbols,
                [&](uint32_t s, uint32_t l, uint32_t slot) { entry[s] = slot >> (max_length - l) << 4 | l; });
  }
};
inline constexpr uint32_t only_symbol = 15;

// Returns the words of a table of lengths. An only symbol has the length only_symbol.
inline uint32_t table_words(const uint8_t* nibbles, uint32_t symbols) noexcept {
  if (symbols == 16) return 2;
  uint32_t n = 1;
  for (uint32_t g = 0; g < 32; ++g) {
    bool any = false;
    for (uint32_t k = 0; k < 8; ++k) any |= nibbles[8 * g + k] != 0;
    n += any;
  }
  return n;
}
inline uint32_t* write_table(const uint8_t* nibbles, uint32_t symbols, uint32_t* to) noexcept {
  uint32_t* const groups = symbols == 16 ? nullptr : to++;
  if (groups != nullptr) *groups = 0;
  for (uint32_t g = 0; g < symbols / 8; ++g) {
    uint32_t word = 0;
    for (uint32_t k = 0; k < 8; ++k) word |= uint32_t{nibbles[8 * g + k]} << 4 * k;
    if (groups != nullptr && word == 0) continue;
    if (groups != nullptr) *groups |= 1u << g;
    *to++ = word;
  }
  return to;
}

// The table of a decoder: symbol << 4 | length for each pattern of 10 bits.
struct lookup_table {
  uint16_t entry[slots];
};
// Reads a table from at most `left` words. Returns the number of words used, or 0 if they are malformed.
inline uint32_t read_table(const std::byte* from, uint32_t left, uint32_t symbols, lookup_table& table) noexcept {
  uint8_t nibbles[256] = {};
  uint32_t used = 0, groups = 3;
  if (symbols == 256) {
    if (left == 0) return 0;
    groups = load_unaligned<uint32_t>(from);
    used = 1;
  }
  if (used + popcount(groups) > left) return 0;
  for (uint32_t g = 0; g < 32; ++g)
    if ((groups >> g & 1) != 0) {
      const auto word = load_unaligned<uint32_t>(from + 4 * used++);
      for (uint32_t k = 0; k < 8; ++k) nibbles[8 * g + k] = static_cast<uint8_t>(word >> 4 * k & 15);
    }
  uint32_t only = 0, one = 0;
  for (uint32_t s = 0; s < 256; ++s) {
    if (nibbles[s] == only_symbol) {
      ++only;
      one = s;
      nibbles[s] = 0;
    } else if (nibbles[s] > max_length) {
      return 0;
    }
  }
  const auto fill = [&](uint32_t s, uint32_t l, uint32_t slot) {
    std::fill_n(table.entry + slot, slots_of(l), static_cast<uint16_t>(s << 4 | l));
  };
  if (only > 1 || visit_codes(nibbles, 256, fill) != (only == 1 ? 0 : slots)) return 0;
  if (only == 1) std::fill_n(table.entry, slots, static_cast<uint16_t>(one << 4));
  return used;
}

// -- streams -----------------------------------------------------------------------------------------------------

// Writes bits from the highest bit of each word down. The words must be zero before, and streams may share a word.
struct stream_writer {
  uint32_t* to;
  uint64_t bits;  // the lowest `fill` bits; higher bits have been written
  uint32_t fill;

  void put(uint32_t a, uint32_t b) noexcept {  // entries of two codes
    bits = (bits << (a & 15) | a >> 4) << (b & 15) | b >> 4;
    fill += (a & 15) + (b & 15);
    if (fill < 32) return;
    fill -= 32;
    *to++ |= static_cast<uint32_t>(bits >> fill);
  }
  void finish() noexcept {
    if (fill != 0) *to |= static_cast<uint32_t>(bits << (32 - fill));
  }
};

// Reads up to four codes at bit `at` of words in reversed byte order. Returns their symbols, the first lowest. Reads
// past byte `last` are redirected to it.
inline uint32_t take_symbols(const std::byte* from, uint32_t last, uint32_t& at, const uint16_t* entry,
                             uint32_t symbols, uint32_t symbol_bits) noexcept {
  uint64_t bits = __builtin_bswap64(load_unaligned<uint64_t>(from + std::min(at / 8, last))) << at % 8;
  uint32_t x = 0, used = 0;
  for (uint32_t k = 0; k < symbols; ++k) {
    const uint32_t e = entry[bits >> (64 - max_length)];
    x |= e / 16 << symbol_bits * k;
    bits <<= e % 16;
    used += e % 16;
  }
  at += used;
  return x;
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
