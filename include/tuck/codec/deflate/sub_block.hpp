// What decoding an indexed chunk consists of, for one thread that restores it all and for lanes that restore a
// sub-block each: both run this code and come to the same verdict.
#pragma once

#include <tuck/codec/deflate/code_lengths.hpp>
#include <tuck/codec/deflate/layout.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

inline constexpr uint32_t max_distance_bits = 7;  // of the codes of a chunk's distances

// A block's symbols by the bits that come next; 0 where those are no symbol's.
struct decode_tables {
  uint16_t literal[1 << max_literal_bits];   // symbol | length of the code << 9
  uint8_t distance[1 << max_distance_bits];  // symbol | length of the code << 5
};

// What begins a block of an indexed stream. Leaves `in` at the first symbol.
template <class Input>
TUCK_HD status read_block_header(Input& in, bool is_last, code_lengths& lengths, precode_memory& memory) noexcept {
  const uint32_t begin = in.take(3);
  if (in.overrun()) return status::deflate_ends_early;
  if (begin >> 1 == 3) return status::deflate_block_type;
  if (begin != ((is_last ? 1u : 0u) | dynamic << 1)) return status::deflate_not_indexed;
  if (const status s = read_code_lengths(in, lengths, memory); s != status::ok) return s;
  for (uint32_t i = 0; i < lengths.literals + lengths.distances; ++i)
    if (lengths.of[i] > (i < lengths.literals ? max_literal_bits : max_distance_bits))
      return status::deflate_not_indexed;
  return status::ok;
}

// A sub-block's place in stream and chunk.
struct sub_block {
  uint32_t first_bit;
  uint32_t end_bit;  // of its symbols; of the stream, where the chunk has no index
  uint32_t first_byte;
  uint32_t end_byte;
  bool indexed;
  bool is_last;
};

// Restores a sub-block from `in`, which is at its first bit. Output: put(byte), and repeat(distance, length) of bytes
// that were put before; takes_literals_at_once is whether more code is worth fewer steps.
template <class Input, class Output>
TUCK_HD status decode_sub_block(const decode_tables& tables, const sub_block& part, Input& in, Output& out) noexcept {
  const status past_end = part.indexed ? status::deflate_index : status::deflate_ends_early;
  for (uint32_t at = part.first_byte; at < part.end_byte;) {
    in.refill();
    if constexpr (Output::takes_literals_at_once) {
      // Four literals are in the bits of a refill, and where these and as many bytes are there, nothing can end.
      if (part.end_byte - at >= 4 && in.position() + Input::refilled_bits <= part.end_bit) {
        uint32_t literals = 0;
        for (; literals < 4; ++literals) {
          const uint32_t entry = tables.literal[in.peek() & low_mask(max_literal_bits)];
          if (entry == 0 || (entry & 511) >= end_of_block) break;
          in.drop(entry >> 9);
          out.put(entry & 511);
        }
        at += literals;
        if (literals == 4) continue;
        in.refill();
      }
    }
    const uint32_t entry = tables.literal[in.peek() & low_mask(max_literal_bits)], symbol = entry & 511;
    if (entry == 0) return in.overrun() ? past_end : status::deflate_codeword;
    in.drop(entry >> 9);
    if (symbol < end_of_block) {
      if (in.position() > part.end_bit) return past_end;
      out.put(symbol);
      ++at;
      continue;
    }
    if (symbol == end_of_block) return in.position() > part.end_bit ? past_end : status::deflate_too_short;
    const symbol_meaning length = length_of(symbol);
    const uint32_t bytes = length.base + (in.peek() & low_mask(length.extra_bits));
    in.drop(length.extra_bits);
    const uint32_t code = tables.distance[in.peek() & low_mask(max_distance_bits)];
    if (code == 0) return in.position() > part.end_bit ? past_end : status::deflate_codeword;
    in.drop(code >> 5);
    const symbol_meaning meaning = distance_of(code & 31);
    const uint32_t distance = meaning.base + (in.peek() & low_mask(meaning.extra_bits));
    in.drop(meaning.extra_bits);
    if (in.position() > part.end_bit) return past_end;
    if (distance > max_distance || (distance & (distance - 1)) != 0) return status::deflate_not_indexed;
    if (distance > at - part.first_byte) return status::deflate_distance;
    if (bytes > part.end_byte - at) return part.indexed ? status::deflate_index : status::deflate_too_long;
    out.repeat(distance, bytes);
    at += bytes;
  }
  return !part.indexed || in.position() == part.end_bit ? status::ok : status::deflate_index;
}

// The end of a block.
template <class Input> TUCK_HD status read_end_of_block(const decode_tables& tables, Input& in) noexcept {
  in.refill();
  const uint32_t entry = tables.literal[in.peek() & low_mask(max_literal_bits)];
  in.drop(entry >> 9);
  if (in.overrun()) return status::deflate_ends_early;
  if (entry == 0) return status::deflate_codeword;
  return (entry & 511) == end_of_block ? status::ok : status::deflate_too_long;
}

// What ends the stream of a block alone: its end, and nothing behind it.
template <class Input> TUCK_HD status read_end(const decode_tables& tables, Input& in) noexcept {
  if (const status s = read_end_of_block(tables, in); s != status::ok) return s;
  return in.ends_here() ? status::ok : status::deflate_trailing;
}

}  // namespace tuck::inline TUCK_ABI::deflate_format
