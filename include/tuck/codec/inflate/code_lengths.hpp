// The header of a dynamic block: the lengths of all its codes (RFC 1951, section 3.2.7), checked as zlib checks them.
#pragma once

#include <tuck/codec/inflate/symbols.hpp>
#include <tuck/core/status.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

// The lengths in bits of a block's codes; 0: the symbol has none.
struct code_lengths {
  uint8_t of[literal_symbols + distance_symbols + 4];  // the literals', then the distances'
  uint32_t literals;                                   // how many of each
  uint32_t distances;

  TUCK_HD const uint8_t* of_distances() const noexcept { return of + literals; }
};

// Working memory: on the device one thread reads the header, and it has no stack.
struct precode_memory {
  uint8_t length[precode_symbols + 1];
  uint8_t symbol[1 << max_precode_bits];  // by the next 7 bits, | length << 5
};

namespace detail {

// How much of the space of codewords these codes fill.
struct code_space {
  static constexpr uint32_t all = 1u << max_code_bits;
  uint32_t used = 0;
  uint32_t longest = 0;

  TUCK_HD void add(uint32_t length) noexcept {
    if (length == 0) return;
    used += all >> length;
    if (length > longest) longest = length;
  }
  // Neither over-subscribed nor incomplete - but for a single code of one bit, and for none at all.
  TUCK_HD bool is_code() const noexcept { return used == all || (used < all && longest <= 1); }
};

// Fills the table of the precode, which is complete and has no code longer than 7 bits.
TUCK_HD inline void build_precode(precode_memory& memory) noexcept {
  uint32_t code = 0;  // the next one, in 7 bits
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

// Reads what follows the type of a dynamic block, up to its first symbol. `Input` is like bit_input.
template <class Input>
TUCK_HD status read_code_lengths(Input& in, code_lengths& lengths, precode_memory& memory) noexcept {
  const status s = detail::read_code_lengths(in, lengths, memory);
  return in.overrun() ? status::deflate_ends_early : s;
}

}  // namespace tuck::inline TUCK_ABI::deflate_format
