// What a chunk is made of, on one thread: masks, and streams of words. layout.hpp describes the format.
#pragma once

#include <tuck/codec/huffman/layout.hpp>
#include <tuck/core/bit_writer.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tuck::inline TUCK_ABI::huffman_format {

static_assert(std::endian::native == std::endian::little);

// Flags, edges, or a mask.
inline std::byte* as_bytes(uint8_t* p) noexcept { return reinterpret_cast<std::byte*>(p); }

// Returns whether the first `count` bits of a mask have `found` ones, and no bit after them in the last byte is set.
inline bool has_ones(const uint8_t* mask, uint32_t count, uint32_t found) noexcept {
  uint32_t ones = 0;
  for (uint32_t i = 0; i < ceil_div(count, 8u); ++i) ones += popcount(mask[i]);
  return ones == found && (count % 8 == 0 || mask[count / 8] >> count % 8 == 0);
}

// Writes bits from the highest bit of each 32-bit word down.
struct word_writer {
  std::byte* to;
  uint64_t bits = 0;  // the lowest `fill` < 32 bits are to be written
  uint32_t fill = 0;

  // Appends `count` <= 32 bits; those above them must be 0.
  void put(uint32_t x, uint32_t count) noexcept {
    bits = bits << count | x;
    fill += count;
    if (fill < 32) return;
    fill -= 32;
    store_unaligned(to, static_cast<uint32_t>(bits >> fill));
    to += 4;
  }
  void finish() noexcept {
    if (fill != 0) store_unaligned(to, static_cast<uint32_t>(bits << (32 - fill)));
  }
};
// Reads such bits. After the last word come zeros.
struct word_reader {
  const std::byte* from;
  uint32_t words, at;  // `at` in bits

  uint32_t word(uint32_t i) const noexcept { return i < words ? load_unaligned<uint32_t>(from + 4 * size_t{i}) : 0; }
  uint32_t peek() const noexcept {
    return static_cast<uint32_t>((uint64_t{word(at / 32)} << 32 | word(at / 32 + 1)) >> (32 - at % 32));
  }
  void skip(uint32_t count) noexcept { at += count; }
  uint32_t take(uint32_t count) noexcept {
    const uint32_t x = count == 0 ? 0 : peek() >> (32 - count);
    skip(count);
    return x;
  }
};

// Returns the rule for side streams.
inline uint32_t find_rule(const uint32_t* sides, uint32_t words) noexcept {
  uint32_t set = 0, changes = 0, last = 0;
  for (uint32_t i = 0; i < words; ++i) {
    set += popcount(sides[i]);
    changes += popcount(sides[i] ^ (sides[i] << 1 | last));
    last = sides[i] >> 31;
  }
  return best_rule(set, 32 * words - set, changes);
}
// Replaces side streams by marks.
inline void to_marks(uint32_t* sides, uint32_t words, uint32_t rule) noexcept {
  for (uint32_t i = words; i-- > 0;)
    sides[i] ^= rule == differences ? sides[i] << 1 | (i != 0 ? sides[i - 1] >> 31 : 0) : rule == inverted ? ~0u : 0;
}
// Undoes to_marks.
inline void from_marks(uint32_t* sides, uint32_t words, uint32_t rule) noexcept {
  if (rule != differences) return to_marks(sides, words, rule);
  for (uint32_t i = 0, last = 0; i < words; ++i) {
    for (uint32_t shift = 1; shift < 32; shift *= 2) sides[i] ^= sides[i] << shift;
    sides[i] ^= 0 - last;
    last = sides[i] >> 31;
  }
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
