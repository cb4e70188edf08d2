// The meaning of DEFLATE's symbols (RFC 1951, sections 3.2.5 to 3.2.7), by arithmetic instead of tables.
#pragma once

#include <tuck/core/bits.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

inline constexpr uint32_t literal_symbols = 286;  // 0 to 255 literals, 256 the end of the block, 257 to 285 lengths
inline constexpr uint32_t distance_symbols = 30;
inline constexpr uint32_t precode_symbols = 19;  // symbols of the code of code lengths
inline constexpr uint32_t end_of_block = 256;
inline constexpr uint32_t first_length_symbol = 257;
inline constexpr uint32_t min_match = 3;
inline constexpr uint32_t max_match = 258;
inline constexpr uint32_t max_stored = 65535;  // bytes of a stored block
inline constexpr uint32_t max_code_bits = 15;
inline constexpr uint32_t max_precode_bits = 7;

enum block_type : uint32_t { stored = 0, fixed = 1, dynamic = 2 };

// The least value of a symbol, and the number of extra bits, which are added to it.
struct symbol_meaning {
  uint32_t base;
  uint32_t extra_bits;
};

// Returns the meaning of a length symbol, 257 to 285.
TUCK_HD constexpr symbol_meaning length_of(uint32_t symbol) noexcept {
  const uint32_t i = symbol - first_length_symbol;
  if (i < 8) return {min_match + i, 0};
  if (i == 28) return {max_match, 0};
  const uint32_t extra = i / 4 - 1;
  return {min_match + ((4 + i % 4) << extra), extra};
}

// Returns the meaning of a distance symbol, 0 to 29.
TUCK_HD constexpr symbol_meaning distance_of(uint32_t symbol) noexcept {
  if (symbol < 4) return {1 + symbol, 0};
  const uint32_t extra = symbol / 2 - 1;
  return {1 + ((2 + symbol % 2) << extra), extra};
}

// Returns the symbol of a length, 3 to 258.
TUCK_HD constexpr uint32_t length_symbol(uint32_t length) noexcept {
  if (length == max_match) return first_length_symbol + 28;
  const uint32_t x = length - min_match;
  if (x < 8) return first_length_symbol + x;
  const uint32_t extra = tuck::bit_width(x) - 3;
  return first_length_symbol + 4 * (extra + 1) + ((x >> extra) - 4);
}

// Returns the symbol of a distance, 1 to 32768.
TUCK_HD constexpr uint32_t distance_symbol(uint32_t distance) noexcept {
  const uint32_t x = distance - 1;
  if (x < 4) return x;
  const uint32_t extra = tuck::bit_width(x) - 2;
  return 2 * (extra + 1) + ((x >> extra) - 2);
}

// Returns the symbol whose code length is the i-th in the header of a dynamic block: 16 17 18 0 8 7 9 6 10 5 11 4 12 3
// 13 2 14 1 15.
TUCK_HD constexpr uint32_t precode_order(uint32_t i) noexcept {
  if (i < 3) return 16 + i;
  if (i == 3) return 0;
  return i % 2 == 0 ? 6 + i / 2 : 7 - (i - 5) / 2;
}

// Returns the length in bits of a literal or length code in a fixed block.
TUCK_HD constexpr uint32_t fixed_literal_bits(uint32_t symbol) noexcept {
  return symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8;
}
inline constexpr uint32_t fixed_literal_symbols = 288;
inline constexpr uint32_t fixed_distance_symbols = 32;
inline constexpr uint32_t fixed_distance_bits = 5;

// Reverses the low `width` bits of a code, 1 to 32, into the order of a stream: first bit lowest.
TUCK_HD constexpr uint32_t reversed(uint32_t code, uint32_t width) noexcept {
  return reverse_bits(code) >> (32 - width);
}

}  // namespace tuck::inline TUCK_ABI::deflate_format
