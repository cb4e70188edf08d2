// The codes of a block of any RFC 1951 stream: reads them from its header, makes tables, and decodes tokens.
#pragma once

#include <tuck/codec/inflate/symbols.hpp>
#include <tuck/core/span.hpp>
#include <tuck/core/status.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

// Reads the bits of a DEFLATE stream, lowest first. Bits past the end are zeros; overrun() tells whether any were
// taken.
class bit_input {
 public:
  static constexpr uint32_t refilled_bits = 48;

  TUCK_HD explicit constexpr bit_input(const_bytes stream) noexcept : stream_(stream) {}

  // Makes the next 48 bits available.
  TUCK_HD void refill() noexcept {
    if (ample()) {
      bits_ |= load_unaligned<uint64_t>(stream_.data() + next_) << fill_;
      const uint32_t taken = (63 - fill_) / 8;
      next_ += taken;
      fill_ += 8 * taken;
    } else {
      for (; fill_ <= 56; fill_ += 8, ++next_)
        if (next_ < stream_.size()) bits_ |= uint64_t{static_cast<uint8_t>(stream_[next_])} << fill_;
    }
  }
  // Returns the available bits, without consuming them.
  TUCK_HD uint32_t peek() const noexcept { return static_cast<uint32_t>(bits_); }
  TUCK_HD void drop(uint32_t width) noexcept {
    bits_ >>= width;
    fill_ -= width;
  }
  // Refills, and consumes the next `width` <= 16 bits.
  TUCK_HD uint32_t take(uint32_t width) noexcept {
    refill();
    const uint32_t x = peek() & low_mask(width);
    drop(width);
    return x;
  }

  // Returns whether the next refill reads no byte past the end.
  TUCK_HD bool ample() const noexcept { return next_ + 8 <= stream_.size(); }
  TUCK_HD uint64_t position() const noexcept { return 8 * next_ - fill_; }  // in bits from the beginning
  TUCK_HD bool overrun() const noexcept { return position() > 8 * stream_.size(); }
  TUCK_HD void align() noexcept { drop(fill_ % 8); }  // to the next byte boundary
  TUCK_HD void seek(uint64_t byte) noexcept {
    next_ = byte;
    bits_ = 0;
    fill_ = 0;
  }

 private:
  const_bytes stream_;
  uint64_t next_ = 0;  // offset of the next byte
  uint64_t bits_ = 0;
  uint32_t fill_ = 0;  // number of valid bits in bits_
};

// -- the header of a dynamic block: the lengths of all its codes (section 3.2.7), checked as zlib checks them ---------

// The code lengths of a block in bits; 0 means that the symbol has no code.
struct code_lengths {
  uint8_t of[literal_symbols + distance_symbols + 4];  // of literals and lengths, then of distances
  uint32_t literals;                                   // number of symbols of each kind
  uint32_t distances;

  TUCK_HD const uint8_t* of_distances() const noexcept { return of + literals; }
};

// Working memory of the header reader: on the device one thread reads the header, without a stack.
struct precode_memory {
  uint8_t length[precode_symbols + 1];
  uint8_t symbol[1 << max_precode_bits];  // by the next 7 bits: symbol | length << 5
};

namespace detail {

// The part of the code space that a code fills.
struct code_space {
  static constexpr uint32_t all = 1u << max_code_bits;
  uint32_t used = 0;
  uint32_t longest = 0;

  TUCK_HD void add(uint32_t length) noexcept {
    if (length == 0) return;
    used += all >> length;
    if (length > longest) longest = length;
  }
  // Returns whether the code is complete; a single code of one bit, or no code at all, is also allowed.
  TUCK_HD bool is_code() const noexcept { return used == all || (used < all && longest <= 1); }
};

// Fills the table of the precode, which must be complete and have codes of at most 7 bits.
TUCK_HD inline void build_precode(precode_memory& memory) noexcept {
  uint32_t code = 0;  // the next code, left-aligned in 7 bits
  for (uint32_t length = 1; length <= max_precode_bits; ++length)
    for (uint32_t symbol = 0; symbol < precode_symbols; ++symbol) {
      if (memory.length[symbol] != length) continue;
      const uint32_t first = reversed(code >> (max_precode_bits - length), length);
      for (uint32_t i = first; i < 1u << max_precode_bits; i += 1u << length)
        memory.symbol[i] = static_cast<uint8_t>(symbol | length << 5);
      code += 1u << (max_precode_bits - length);
    }
}

template <class Input>
TUCK_HD status read_code_lengths(Input& in, code_lengths& lengths, precode_memory& memory) noexcept {
  lengths.literals = first_length_symbol + in.take(5);
  lengths.distances = 1 + in.take(5);
  const uint32_t precodes = 4 + in.take(4);
  if (lengths.literals > literal_symbols || lengths.distances > distance_symbols) return status::deflate_code_counts;

  code_space space;
  for (uint32_t i = 0; i < precode_symbols; ++i) {
    const uint32_t length = i < precodes ? in.take(3) : 0;
    memory.length[precode_order(i)] = static_cast<uint8_t>(length);
    space.add(length);
  }
  if (space.used != code_space::all) return status::deflate_precode;
  build_precode(memory);

  const uint32_t count = lengths.literals + lengths.distances;
  for (uint32_t i = 0; i < count;) {
    in.refill();
    const uint32_t entry = memory.symbol[in.peek() & low_mask(max_precode_bits)], symbol = entry & 31;
    in.drop(entry >> 5);
    uint32_t length = symbol, times = 1;
    if (symbol >= 16) {
      if (symbol == 16 && i == 0) return status::deflate_first_repeat;
      length = symbol == 16 ? lengths.of[i - 1] : 0;
      const uint32_t width = symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
      times = (symbol == 18 ? 11 : 3) + (in.peek() & low_mask(width));
      in.drop(width);
      if (i + times > count) return status::deflate_long_repeat;
    }
    for (; times != 0; --times) lengths.of[i++] = static_cast<uint8_t>(length);
  }

  code_space literals, distances;
  for (uint32_t i = 0; i < lengths.literals; ++i) literals.add(lengths.of[i]);
  for (uint32_t i = lengths.literals; i < count; ++i) distances.add(lengths.of[i]);
  if (lengths.of[end_of_block] == 0) return status::deflate_no_end_code;
  if (!literals.is_code()) return status::deflate_literal_code;
  if (!distances.is_code()) return status::deflate_distance_code;
  return status::ok;
}

}  // namespace detail

// Reads the header of a dynamic block after its type, up to its first symbol. `Input` has the interface of bit_input.
template <class Input>
TUCK_HD status read_code_lengths(Input& in, code_lengths& lengths, precode_memory& memory) noexcept {
  const status s = detail::read_code_lengths(in, lengths, memory);
  return in.overrun() ? status::deflate_ends_early : s;
}

// -- codes as tables: a lookup by the first bits of a code; the canonical order of codes finds longer ones -----------

inline constexpr uint32_t no_symbol = 0xffff;

// A code of at most `Symbols` symbols with a lookup table of at most `LookupBits` bits. Call sort, then fill.
template <uint32_t LookupBits, uint32_t Symbols> class code_table {
 public:
  // Sorts the symbols with a code into canonical order. Called by one thread; the lengths must satisfy is_code.
  TUCK_HD void sort(const uint8_t* length, uint32_t symbols) noexcept {
    for (uint32_t l = 0; l <= max_code_bits; ++l) end_[l] = 0;
    for (uint32_t s = 0; s < symbols; ++s) ++end_[length[s]];  // counts, until the last loop
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

  uint16_t lookup_[1 << LookupBits];  // by the next bits_ bits: symbol << 4 | length, or 0 for a longer or invalid code
  uint16_t symbol_[Symbols];          // in the order of their codes
  uint16_t end_[max_code_bits + 1];   // by length: the first code after those of that length, left-aligned in 15 bits
  uint16_t shift_[max_code_bits + 1];  // by length: from a code to its index in symbol_, modulo 2^16
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

// Sets the code lengths of fixed blocks.
TUCK_HD inline void set_fixed(code_lengths& lengths) noexcept {
  lengths.literals = fixed_literal_symbols;
  lengths.distances = fixed_distance_symbols;
  for (uint32_t i = 0; i < fixed_literal_symbols; ++i) lengths.of[i] = static_cast<uint8_t>(fixed_literal_bits(i));
  for (uint32_t i = 0; i < fixed_distance_symbols; ++i)
    lengths.of[fixed_literal_symbols + i] = static_cast<uint8_t>(fixed_distance_bits);
}

// A literal, a match, or the reason why the block has no more tokens:
//
//   [24:9] distance, 0 if not a match   [8:0] length of a match | literal | 256 + status, ok at the end of the block
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

// Decodes the next token of a block. `Input` has the interface of bit_input; a refill provides Input::refilled_bits
// bits.
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
