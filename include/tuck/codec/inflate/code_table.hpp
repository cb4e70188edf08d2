// The codes of a block as tables, and the tokens that they are written in: what any RFC 1951 stream may have, up to 15
// bits a code. The first bits of a code are looked up; longer codes are found by their place in canonical order.
#pragma once

#include <tuck/codec/inflate/code_lengths.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

inline constexpr uint32_t no_symbol = 0xffff;

// A code of up to `Symbols` symbols, looked up by up to `LookupBits` bits. Made by sort, then fill.
template <uint32_t LookupBits, uint32_t Symbols> class code_table {
 public:
  // Puts the symbols that have a code into canonical order. By one thread; the lengths are a code's (is_code).
  TUCK_HD void sort(const uint8_t* length, uint32_t symbols) noexcept {
    for (uint32_t l = 0; l <= max_code_bits; ++l) end_[l] = 0;
    for (uint32_t s = 0; s < symbols; ++s) ++end_[length[s]];  // counts, at first
    uint32_t longest = 1, before = 0;
    for (uint32_t l = 1; l <= max_code_bits; ++l) {
      shift_[l] = static_cast<uint16_t>(before);
      before += end_[l];
      if (end_[l] != 0) longest = l;
    }
    bits_ = longest < LookupBits ? longest : LookupBits;
    for (uint32_t s = 0; s < symbols; ++s)
      if (length[s] != 0) symbol_[shift_[length[s]]++] = static_cast<uint16_t>(s);
    for (uint32_t l = 1, code = 0; l <= max_code_bits; ++l) {
      const uint32_t count = end_[l];
      shift_[l] = static_cast<uint16_t>(shift_[l] - count - code);
      code += count;
      end_[l] = static_cast<uint16_t>(code << (max_code_bits - l));
      code <<= 1;
    }
  }

  // A share of the lookup, by thread `first` of `stride` ones that see what sort wrote.
  TUCK_HD void fill(const uint8_t* length, uint32_t first, uint32_t stride) noexcept {
    const uint32_t assigned = end_[bits_] >> (max_code_bits - bits_);  // of the codewords of bits_ bits
    const uint32_t short_codes = (assigned + shift_[bits_]) & 0xffff;
    for (uint32_t i = first; i < short_codes; i += stride) {
      const uint32_t s = symbol_[i], l = length[s];
      const uint32_t code = (i - shift_[l]) & 0xffff;
      for (uint32_t at = reversed(code, l); at < 1u << bits_; at += 1u << l)
        lookup_[at] = static_cast<uint16_t>(s << 4 | l);
    }
    for (uint32_t code = assigned + first; code < 1u << bits_; code += stride) lookup_[reversed(code, bits_)] = 0;
  }

  // The next symbol, of which a refill has made the bits available; no_symbol, and one bit, where it has no code.
  template <class Input> TUCK_HD uint32_t take(Input& in) const noexcept {
    const uint32_t entry = lookup_[in.peek() & low_mask(bits_)];
    if (entry == 0) return take_long(in);
    in.drop(entry & 15);
    return entry >> 4;
  }

 private:
  template <class Input> TUCK_HD uint32_t take_long(Input& in) const noexcept {
    const uint32_t code = reversed(in.peek() & low_mask(max_code_bits), max_code_bits);
    for (uint32_t l = bits_ + 1; l <= max_code_bits; ++l) {
      if (code >= end_[l]) continue;
      in.drop(l);
      return symbol_[((code >> (max_code_bits - l)) + shift_[l]) & 0xffff];
    }
    in.drop(1);
    return no_symbol;
  }

  uint16_t lookup_[1 << LookupBits];   // by the next bits_ bits: symbol << 4 | length, 0: a longer code, or none
  uint16_t symbol_[Symbols];           // in the order of their codes
  uint16_t end_[max_code_bits + 1];    // by length: the first code behind those of that length, in 15 bits
  uint16_t shift_[max_code_bits + 1];  // by length: from a code to its place in symbol_, modulo 2^16
  uint32_t bits_;
};

// Both codes of a block.
struct block_codes {
  static constexpr uint32_t literal_lookup_bits = 10;
  static constexpr uint32_t distance_lookup_bits = 8;

  code_table<literal_lookup_bits, fixed_literal_symbols> literals;
  code_table<distance_lookup_bits, fixed_distance_symbols> distances;

  TUCK_HD void sort(const code_lengths& lengths) noexcept {
    literals.sort(lengths.of, lengths.literals);
    distances.sort(lengths.of_distances(), lengths.distances);
  }
  TUCK_HD void fill(const code_lengths& lengths, uint32_t first, uint32_t stride) noexcept {
    literals.fill(lengths.of, first, stride);
    distances.fill(lengths.of_distances(), first, stride);
  }
};

// The code lengths of fixed blocks.
TUCK_HD inline void set_fixed(code_lengths& lengths) noexcept {
  lengths.literals = fixed_literal_symbols;
  lengths.distances = fixed_distance_symbols;
  for (uint32_t i = 0; i < fixed_literal_symbols; ++i) lengths.of[i] = static_cast<uint8_t>(fixed_literal_bits(i));
  for (uint32_t i = 0; i < fixed_distance_symbols; ++i)
    lengths.of[fixed_literal_symbols + i] = static_cast<uint8_t>(fixed_distance_bits);
}

// A literal, a match, or why there are no more of them:
//
//   [24:9] distance, 0: no match   [8:0] a match's length | a literal | 256 + a status, ok at the end of the block
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

// The next token of a block. `Input` is like bit_input; Input::refilled_bits is what a refill makes available.
template <class Input> TUCK_HD token take_token(Input& in, const block_codes& codes) noexcept {
  in.refill();
  const uint32_t symbol = codes.literals.take(in);
  if (symbol < end_of_block) return token::literal(symbol);
  if (symbol == end_of_block) return token::end(status::ok);
  if (symbol == no_symbol) return token::end(status::deflate_codeword);
  if (symbol >= literal_symbols) return token::end(status::deflate_length_symbol);
  const symbol_meaning length = length_of(symbol);
  const uint32_t more_length = in.peek() & low_mask(length.extra_bits);
  in.drop(length.extra_bits);

  if constexpr (Input::refilled_bits < 48) in.refill();
  const uint32_t distance_symbol = codes.distances.take(in);
  if (distance_symbol == no_symbol) return token::end(status::deflate_codeword);
  if (distance_symbol >= distance_symbols) return token::end(status::deflate_distance_symbol);
  const symbol_meaning distance = distance_of(distance_symbol);
  const uint32_t more_distance = in.peek() & low_mask(distance.extra_bits);
  in.drop(distance.extra_bits);
  return token::match(length.base + more_length, distance.base + more_distance);
}

}  // namespace tuck::inline TUCK_ABI::deflate_format
