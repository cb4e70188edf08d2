// SPDX-License-Identifier: Apache-2.0
// The codes of a block of any RFC 1951 stream: reads them from its header, makes tables, and decodes tokens.
#pragma once

#include <tuck/core/bit_reader.hpp>
#include <tuck/core/status.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

// -- the meaning of symbols (sections 3.2.5 to 3.2.7), by arithmetic instead of tables --------------------------------

inline constexpr uint32_t literal_symbols = 286;  // 0 to 255 literals, 256 the end of the block, 257 to 285 lengths
inline constexpr uint32_t distance_symbols = 30;
inline constexpr uint32_t precode_symbols = 19;  // symbols of the code of code lengths
inline constexpr uint32_t end_of_block = 256;
inline constexpr uint32_t first_length_symbol = 257;
inline constexpr uint32_t min_match = 3;
inline constexpr uint32_t max_match = 258;
inline constexpr uint32_t max_code_bits = 15;

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

// -- codes as tables: a lookup by the first bits of a code; the canonical order of codes finds longer ones -----------

inline constexpr uint32_t no_symbol = 0xffff;

// A code of at most `Symbols` symbols with a lookup table of at most `LookupBits` bits. Call sort, then fill.
template <uint32_t LookupBits, uint32_t Symbols> class code_table {
 public:
  // Sorts the symbols with a code into canonical order. Called by one thread. Returns whether the lengths are those of
  // a code that zlib accepts: it is complete, or it has no codeword but one of one bit. Unrolled loops would take more
  // registers than a whole kernel has otherwise.
  TUCK_HD bool sort(const uint8_t* length, uint32_t symbols) noexcept {
    for (uint32_t l = 0; l <= max_code_bits; ++l) end_[l] = 0;
    for (uint32_t s = 0; s < symbols; ++s) ++end_[length[s]];  // counts, until the last loop
    uint32_t longest = 1, before = 0;
    TUCK_UNROLL(1)
    for (uint32_t l = 1; l <= max_code_bits; ++l) {
      shift_[l] = static_cast<uint16_t>(before);
      before += end_[l];
      if (end_[l] != 0) longest = l;
    }
    bits_ = longest < LookupBits ? longest : LookupBits;
    TUCK_UNROLL(1)
    for (uint32_t s = 0; s < symbols; ++s)
      if (length[s] != 0) symbol_[shift_[length[s]]++] = static_cast<uint16_t>(s);
    uint32_t code = 0;
    TUCK_UNROLL(1)
    for (uint32_t l = 1; l <= max_code_bits; ++l) {
      const uint32_t count = end_[l];
      shift_[l] = static_cast<uint16_t>(shift_[l] - count - 2 * code);
      code = 2 * code + count;
      end_[l] = static_cast<uint16_t>(code << (max_code_bits - l));
    }
    return code == all_codes || (code < all_codes && longest == 1);
  }
  TUCK_HD bool is_complete() const noexcept { return end_[max_code_bits] == all_codes; }

  // Fills part of the lookup table: thread `first` of `stride` threads, which must see what sort wrote.
  TUCK_HD void fill(const uint8_t* length, uint32_t first, uint32_t stride) noexcept {
    const uint32_t assigned = end_[bits_] >> (max_code_bits - bits_);  // among the codewords of bits_ bits
    const uint32_t short_codes = (assigned + shift_[bits_]) & 0xffff;
    for (uint32_t i = first; i < short_codes; i += stride) {
      const uint32_t s = symbol_[i], l = length[s];
      const uint32_t code = (i - shift_[l]) & 0xffff;
      for (uint32_t at = reversed(code, l); at < 1u << bits_; at += 1u << l)
        lookup_[at] = static_cast<uint16_t>(s << 4 | l);
    }
    for (uint32_t code = assigned + first; code < 1u << bits_; code += stride) lookup_[reversed(code, bits_)] = 0;
  }

  // Returns the next symbol; a refill must have made its bits available. Returns no_symbol, and consumes one bit, if
  // the bits are no codeword.
  template <class Input> TUCK_HD uint32_t decode_symbol(Input& in) const noexcept {
    const uint32_t entry = lookup_[in.peek() & low_mask(bits_)];
    if (entry == 0) return decode_long(in);
    in.drop(entry & 15);
    return entry >> 4;
  }

 private:
  static constexpr uint32_t all_codes = 1u << max_code_bits;

  template <class Input> TUCK_HD uint32_t decode_long(Input& in) const noexcept {
    const uint32_t code = reversed(in.peek() & low_mask(max_code_bits), max_code_bits);
    for (uint32_t l = bits_ + 1; l <= max_code_bits; ++l) {
      if (code >= end_[l]) continue;
      in.drop(l);
      return symbol_[((code >> (max_code_bits - l)) + shift_[l]) & 0xffff];
    }
    in.drop(1);
    return no_symbol;
  }

  // By the next bits_ bits: [12:4] symbol, below 288; [3:0] length, at most 10. 0 for a longer or invalid code.
  uint16_t lookup_[1 << LookupBits];
  uint16_t symbol_[Symbols];           // in the order of their codes
  uint16_t end_[max_code_bits + 1];    // by length: the first code after those of that length, left-aligned in 15 bits
  uint16_t shift_[max_code_bits + 1];  // by length: from a code to its index in symbol_, modulo 2^16
  uint32_t bits_;
};

// A block of a stream up to its first symbol or byte. It has no constructor, because it may be in shared memory.
class block {
 public:
  // The members that `read` sets.
  bool is_final;
  block_type type;
  uint32_t stored_bytes;                                           // of a stored block
  uint32_t literal_count, distance_count;                          // numbers of symbols
  uint8_t length[fixed_literal_symbols + fixed_distance_symbols];  // of literals and lengths, then of distances; or 0
  code_table<10, fixed_literal_symbols> literals;
  code_table<8, fixed_distance_symbols> distances;

  // Reads the header of a block on one thread. Then `fill` must complete the codes, unless the block is stored, or
  // fixed and `fixed_codes` is set: the codes are those of fixed blocks already. `Input` derives from bit_buffer and
  // has the other members of bit_reader.
  template <class Input> TUCK_HD status read(Input& in, bool fixed_codes) noexcept {
    in.refill();
    is_final = in.read_bits(1) != 0;
    type = static_cast<block_type>(in.read_bits(2));
    if (in.overrun()) return status::deflate_ends_early;
    if (type == fixed && fixed_codes) return status::ok;
    status found = status::ok;
    switch (type) {
      case stored: found = read_stored(in); break;
      case fixed: set_fixed(); break;
      case dynamic: found = read_lengths(in); break;
      default: return status::deflate_block_type;
    }
    if (in.overrun()) return status::deflate_ends_early;
    return found == status::ok && type != stored ? sort() : found;
  }
  // Does a part of the work of thread `first` of `stride` threads, which must see what `read` wrote.
  TUCK_HD void fill(uint32_t first, uint32_t stride) noexcept {
    literals.fill(length, first, stride);
    distances.fill(length + literal_count, first, stride);
  }
  // Returns the status of a stored block of which `count` bytes were copied.
  TUCK_HD status after_stored(uint64_t count, uint64_t capacity) const noexcept {
    if (count == stored_bytes) return status::ok;
    return count == capacity ? status::deflate_too_long : status::deflate_ends_early;
  }

 private:
  template <class Input> TUCK_HD status read_stored(Input& in) noexcept {
    static_assert(Input::refilled_bits >= 32);  // the length and its complement
    in.align();
    in.refill();
    stored_bytes = in.read_bits(16);
    return in.read_bits(16) == (~stored_bytes & 0xffff) ? status::ok : status::deflate_stored_length;
  }
  TUCK_HD void set_fixed() noexcept {
    literal_count = fixed_literal_symbols;
    distance_count = fixed_distance_symbols;
    for (uint32_t i = 0; i < fixed_literal_symbols; ++i) length[i] = static_cast<uint8_t>(fixed_literal_bits(i));
    for (uint32_t i = 0; i < fixed_distance_symbols; ++i) length[fixed_literal_symbols + i] = fixed_distance_bits;
  }
  // Reads the lengths of all codes (section 3.2.7).
  template <class Input> TUCK_HD status read_lengths(Input& in) noexcept {
    in.refill();
    literal_count = first_length_symbol + in.read_bits(5);
    distance_count = 1 + in.read_bits(5);
    const uint32_t count = literal_count + distance_count, precodes = 4 + in.read_bits(4);
    if (literal_count > literal_symbols || distance_count > distance_symbols) return status::deflate_code_counts;

    auto& precode = distances;  // until the lengths are known
    for (uint32_t i = 0; i < precode_symbols; ++i) {
      in.refill();
      length[precode_order(i)] = static_cast<uint8_t>(i < precodes ? in.read_bits(3) : 0);
    }
    if (!precode.sort(length, precode_symbols) || !precode.is_complete()) return status::deflate_precode;
    precode.fill(length, 0, 1);

    for (uint32_t i = 0; i < count;) {
      in.refill();
      const uint32_t symbol = precode.decode_symbol(in);
      uint32_t bits = symbol, times = 1;
      if (symbol >= 16) {
        if (symbol == 16 && i == 0) return status::deflate_first_repeat;
        bits = symbol == 16 ? length[i - 1] : 0;
        times = (symbol == 18 ? 11 : 3) + in.read_bits(symbol == 16 ? 2 : symbol == 17 ? 3 : 7);
        if (i + times > count) return status::deflate_long_repeat;
      }
      for (; times != 0; --times) length[i++] = static_cast<uint8_t>(bits);
    }
    return status::ok;
  }
  // Sorts both codes. Returns whether zlib accepts them.
  TUCK_HD status sort() noexcept {
    if (length[end_of_block] == 0) return status::deflate_no_end_code;
    if (!literals.sort(length, literal_count)) return status::deflate_literal_code;
    if (!distances.sort(length + literal_count, distance_count)) return status::deflate_distance_code;
    return status::ok;
  }
};

// A literal, a match, or the reason why the block has no more tokens:
//
//    31    25 24          9 8              0
//   +--------+-------------+----------------+
//   |   0    |  distance   |     length     |   match: distance 1 to 32768, length 3 to 258
//   |   0    |      0      |    literal     |
//   |   0    |      0      |  256 + status  |   a status is below 256; ok at the end of the block
//   +--------+-------------+----------------+
class token {
 public:
  token() = default;
  TUCK_HD static token literal(uint32_t byte) noexcept { return token(byte); }
  TUCK_HD static token match(uint32_t length, uint32_t distance) noexcept { return token(distance << 9 | length); }
  TUCK_HD static token end(status s) noexcept { return token(256 + static_cast<uint32_t>(s)); }

  TUCK_HD bool is_literal() const noexcept { return bits_ < 256; }
  TUCK_HD bool is_match() const noexcept { return bits_ >= 512; }
  TUCK_HD std::byte byte() const noexcept { return static_cast<std::byte>(bits_); }
  TUCK_HD uint32_t length() const noexcept { return is_literal() ? 1 : bits_ & 511; }
  TUCK_HD uint32_t distance() const noexcept { return bits_ >> 9; }
  TUCK_HD status why() const noexcept { return static_cast<status>(bits_ - 256); }

 private:
  TUCK_HD explicit token(uint32_t bits) noexcept : bits_(bits) {}

  uint32_t bits_;
};

// Decodes the next token of a block. A refill provides Input::refilled_bits bits.
template <class Input> TUCK_HD token read_token(Input& in, const block& codes) noexcept {
  in.refill();
  const uint32_t symbol = codes.literals.decode_symbol(in);
  if (symbol < end_of_block) return token::literal(symbol);
  if (symbol == end_of_block) return token::end(status::ok);
  if (symbol == no_symbol) return token::end(status::deflate_codeword);
  if (symbol >= literal_symbols) return token::end(status::deflate_length_symbol);
  const symbol_meaning length = length_of(symbol);
  const uint32_t extra_length = in.read_bits(length.extra_bits);

  if constexpr (Input::refilled_bits < 48) in.refill();
  const uint32_t distance_symbol = codes.distances.decode_symbol(in);
  if (distance_symbol == no_symbol) return token::end(status::deflate_codeword);
  if (distance_symbol >= distance_symbols) return token::end(status::deflate_distance_symbol);
  const symbol_meaning distance = distance_of(distance_symbol);
  return token::match(length.base + extra_length, distance.base + in.read_bits(distance.extra_bits));
}

}  // namespace tuck::inline TUCK_ABI::deflate_format
