// The codes of a dynamic block, made from how often its symbols occur, and the header that describes them. All integer
// and all in a fixed order: host and device come to the same bits.
#pragma once

#include <tuck/codec/deflate/layout.hpp>
#include <tuck/codec/deflate/tokens.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

// Literals that are zeros instead of a match: for runs of 3 to 10 bytes, whose symbols have no extra bits.
inline constexpr uint32_t gated_lengths = 8;

// How often the symbols of a chunk occur.
struct histogram {
  uint32_t literal[literal_symbols];
  uint32_t distance[2];                // by run_kind
  uint32_t zero_match[gated_lengths];  // matches of 3, 4 ... zero bytes at distance 1, counted above too
};

// Which of those matches are cheaper as literals: bit i for length 3 + i.
struct gate {
  uint32_t lengths = 0;

  TUCK_HD constexpr bool skips(uint32_t length, int kind, uint32_t byte) const noexcept {
    return kind == byte_run && byte == 0 && length < min_match + gated_lengths && (lengths >> (length - min_match) & 1);
  }
};

namespace detail {

// About 256 log2(x), x >= 1.
TUCK_HD constexpr uint32_t log2_256(uint32_t x) noexcept {
  const uint32_t whole = tuck::bit_width(x) - 1;
  return 256 * whole + ((uint32_t{x} << (31 - whole) >> 23) & 255);
}

}  // namespace detail

// Decides which short runs of zeros become literals, by what the symbols would cost if all of them did, and corrects
// the counts accordingly.
TUCK_HD inline gate choose_gate(histogram& counts) noexcept {
  uint32_t zeros = counts.literal[0], all = 0;
  for (uint32_t i = 0; i < literal_symbols; ++i) all += counts.literal[i];
  for (uint32_t i = 0; i < gated_lengths; ++i) {
    zeros += (min_match + i) * counts.zero_match[i];
    all += (min_match + i - 1) * counts.zero_match[i];
  }
  gate chosen;
  if (zeros == 0) return chosen;
  const uint32_t bits = detail::log2_256(all) - detail::log2_256(zeros), zero_cost = bits < 256 ? 256 : bits;
  for (uint32_t i = 0; i < gated_lengths; ++i) {
    if (counts.zero_match[i] == 0) continue;
    uint32_t& symbol = counts.literal[first_length_symbol + i];
    const uint32_t match_cost = 256 + detail::log2_256(all) - detail::log2_256(symbol);
    if ((min_match + i) * zero_cost >= match_cost) continue;
    chosen.lengths |= 1u << i;
    symbol -= counts.zero_match[i];
    counts.distance[byte_run] -= counts.zero_match[i];
    counts.literal[0] += (min_match + i) * counts.zero_match[i];
  }
  return chosen;
}

// Symbols that occur, ordered by key: the rarest first, of equal ones the lowest.
TUCK_HD constexpr uint32_t sort_key(uint32_t count, uint32_t symbol) noexcept { return count << 9 | symbol; }
TUCK_HD constexpr uint32_t symbol_of(uint32_t key) noexcept { return key & 511; }
TUCK_HD constexpr uint32_t count_of(uint32_t key) noexcept { return key >> 9; }

// Working memory for a code: on the device one thread makes it, and it has no stack.
struct code_memory {
  uint32_t key[literal_symbols];
  uint32_t weight[literal_symbols];
  uint32_t count[max_code_bits + 1];  // codes of each length
};

// The lengths of a prefix code for the n >= 2 symbols of memory.key, sorted, none longer than `limit`, where 2^limit >=
// n: those of a Huffman code (in place: Moffat and Katajainen, 1995), and where that has longer ones, they are cut and
// the longest of the others give up room for them. Leaves in memory.count how many there are of each length.
TUCK_HD inline void assign_lengths(code_memory& memory, uint32_t n, uint32_t limit, uint8_t* length) noexcept {
  // Joins the two lightest trees n - 1 times. weight[i] becomes the i-th inner node's, then its parent.
  uint32_t* const weight = memory.weight;
  uint32_t leaf = 0, node = 0;
  for (uint32_t next = 0; next + 1 < n; ++next) {
    uint32_t sum = 0;
    for (int child = 0; child < 2; ++child) {
      if (leaf == n || (node < next && weight[node] < count_of(memory.key[leaf]))) {
        sum += weight[node];
        weight[node++] = next;
      } else {
        sum += count_of(memory.key[leaf++]);
      }
    }
    weight[next] = sum;
  }

  // The inner nodes' depths, from the root down. What they leave of each level is leaves.
  for (uint32_t l = 0; l <= max_code_bits; ++l) memory.count[l] = 0;
  weight[n - 2] = 0;
  for (uint32_t i = n - 2; i-- > 0;) weight[i] = weight[weight[i]] + 1;
  for (uint32_t depth = 1, left = n - 2, parents = 1; parents != 0; ++depth) {
    uint32_t inner = 0;
    for (; left != 0 && weight[left - 1] == depth; --left) ++inner;
    memory.count[depth < limit ? depth : limit] += 2 * parents - inner;
    parents = inner;
  }

  uint32_t space = 0;
  for (uint32_t l = 1; l <= limit; ++l) space += memory.count[l] << (limit - l);
  for (; space > 1u << limit; --space) {
    uint32_t longest = limit - 1;
    while (memory.count[longest] == 0) --longest;
    --memory.count[longest];
    memory.count[longest + 1] += 2;
    --memory.count[limit];
  }

  uint32_t i = 0;
  for (uint32_t l = limit; l != 0; --l)
    for (uint32_t k = 0; k < memory.count[l]; ++k) length[symbol_of(memory.key[i++])] = static_cast<uint8_t>(l);
}

// The codeword of the first symbol that has each length, from the counts of lengths, of which count[0] is 0.
TUCK_HD inline void first_codewords(const uint32_t* count, uint32_t* first) noexcept {
  uint32_t code = 0;
  first[0] = 0;
  for (uint32_t l = 1; l <= max_code_bits; ++l) {
    code = (code + count[l - 1]) << 1;
    first[l] = code;
  }
}

// A codeword as streams have it, and its length.
TUCK_HD constexpr uint16_t make_code(uint32_t codeword, uint32_t length) noexcept {
  return static_cast<uint16_t>(reversed(codeword, length) | length << max_literal_bits);
}
TUCK_HD constexpr uint32_t code_bits(uint16_t code) noexcept { return code & low_mask(max_literal_bits); }
TUCK_HD constexpr uint32_t code_length(uint16_t code) noexcept { return code >> max_literal_bits; }

// What symbols are written with.
struct encoder_codes {
  uint16_t literal[literal_symbols];
  uint16_t distance[2];  // by run_kind
};

// The header of the block.
struct block_header {
  uint16_t item[literal_symbols + distance_symbols];  // symbols of the precode, | extra bits << 5
  uint8_t precode_length[precode_symbols];
  uint16_t precode[precode_symbols];
  uint32_t items;
  uint32_t literals;   // codes described
  uint32_t distances;  // likewise
  uint32_t precodes;   // lengths of the precode that are written
  uint32_t bits;       // of it all
};

namespace detail {

TUCK_HD constexpr uint32_t precode_extra_bits(uint32_t symbol) noexcept {
  return symbol < 16 ? 0 : symbol == 16 ? 2 : symbol == 17 ? 3 : 7;
}

// Appends `times` lengths of a kind, and counts the symbols.
TUCK_HD inline void put_lengths(block_header& header, uint32_t* counts, uint32_t length, uint32_t times) noexcept {
  const auto put = [&](uint32_t symbol, uint32_t extra) {
    header.item[header.items++] = static_cast<uint16_t>(symbol | extra << 5);
    ++counts[symbol];
  };
  if (length != 0) {
    put(length, 0);
    --times;
  }
  while (times >= 3) {
    const uint32_t most = length != 0 ? 6 : 138, n = times < most ? times : most;
    if (length != 0)
      put(16, n - 3);
    else if (n <= 10)
      put(17, n - 3);
    else
      put(18, n - 11);
    times -= n;
  }
  for (; times != 0; --times) put(length, 0);
}

}  // namespace detail

// How the block's header describes its codes: the lengths of all literals' codes, and of the distances'. `memory` is
// overwritten.
template <uint32_t Width>
TUCK_HD void plan_header(const uint8_t* literal_length, const encoder_codes& codes, code_memory& memory,
                         block_header& header) noexcept {
  const auto distance_length = [&](uint32_t symbol) -> uint32_t {
    uint32_t length = symbol == 0 ? code_length(codes.distance[byte_run]) : 0;
    if (Width > 1 && symbol == distance_symbol(Width)) length = code_length(codes.distance[element_run]);
    return length;
  };
  header.literals = literal_symbols;
  while (literal_length[header.literals - 1] == 0) --header.literals;
  header.distances = Width > 1 && code_length(codes.distance[element_run]) != 0 ? distance_symbol(Width) + 1 : 1;

  // The lengths as symbols of the precode. memory.weight counts them until they are sorted.
  uint32_t* const counts = memory.weight;
  for (uint32_t i = 0; i < precode_symbols; ++i) counts[i] = 0;
  header.items = 0;
  uint32_t pending = literal_length[0], times = 0;
  for (uint32_t i = 0; i < header.literals + header.distances; ++i) {
    const uint32_t length = i < header.literals ? literal_length[i] : distance_length(i - header.literals);
    if (length != pending) {
      detail::put_lengths(header, counts, pending, times);
      pending = length;
      times = 0;
    }
    ++times;
  }
  detail::put_lengths(header, counts, pending, times);

  // zlib wants the precode complete, with two codes at least.
  uint32_t n = 0;
  for (uint32_t i = 0; i < precode_symbols; ++i) {
    header.precode_length[i] = 0;
    if (counts[i] == 0) continue;
    const uint32_t key = sort_key(counts[i], i);
    uint32_t at = n++;
    for (; at != 0 && memory.key[at - 1] > key; --at) memory.key[at] = memory.key[at - 1];
    memory.key[at] = key;
  }
  if (n == 1) {
    const uint32_t other = symbol_of(memory.key[0]) == 0 ? 1 : 0;
    memory.key[n++] = sort_key(1, other);
  }
  assign_lengths(memory, n, max_precode_bits, header.precode_length);
  first_codewords(memory.count, memory.weight);
  for (uint32_t i = 0; i < precode_symbols; ++i)
    if (const uint32_t l = header.precode_length[i]; l != 0) header.precode[i] = make_code(memory.weight[l]++, l);
  header.precodes = precode_symbols;
  while (header.precode_length[precode_order(header.precodes - 1)] == 0) --header.precodes;

  header.bits = 3 + 14 + 3 * header.precodes;
  for (uint32_t i = 0; i < header.items; ++i) {
    const uint32_t symbol = header.item[i] & 31;
    header.bits += header.precode_length[symbol] + detail::precode_extra_bits(symbol);
  }
}

// Writes the header's bits: writer.put(bits, width <= 16).
template <class Writer> TUCK_HD void write_header(const block_header& header, bool is_last, Writer& writer) noexcept {
  writer.put((is_last ? 1 : 0) | dynamic << 1, 3);
  writer.put(header.literals - first_length_symbol, 5);
  writer.put(header.distances - 1, 5);
  writer.put(header.precodes - 4, 4);
  for (uint32_t i = 0; i < header.precodes; ++i) writer.put(header.precode_length[precode_order(i)], 3);
  for (uint32_t i = 0; i < header.items; ++i) {
    const uint32_t symbol = header.item[i] & 31;
    writer.put(code_bits(header.precode[symbol]), code_length(header.precode[symbol]));
    writer.put(uint32_t{header.item[i]} >> 5, detail::precode_extra_bits(symbol));
  }
}

// The distances' codes: one bit, for the runs that there are; for those of bytes where there are none, for zlib wants a
// code.
TUCK_HD inline void make_distance_codes(const histogram& counts, encoder_codes& codes) noexcept {
  const bool elements = counts.distance[element_run] != 0, of_bytes = counts.distance[byte_run] != 0 || !elements;
  codes.distance[byte_run] = of_bytes ? make_code(0, 1) : uint16_t{0};
  codes.distance[element_run] = elements ? make_code(of_bytes ? 1 : 0, 1) : uint16_t{0};
}

// The bits of a literal or length symbol, or the block's end, as often as it was counted; then those of all distances.
TUCK_HD inline uint32_t bits_of_symbol(const histogram& counts, const encoder_codes& codes, uint32_t symbol) noexcept {
  const uint32_t extra = symbol < first_length_symbol ? 0 : length_of(symbol).extra_bits;
  return counts.literal[symbol] * (code_length(codes.literal[symbol]) + extra);
}
template <uint32_t Width> TUCK_HD uint32_t bits_of_distances(const histogram& counts) noexcept {
  return counts.distance[byte_run] +
         counts.distance[element_run] * (1 + distance_of(distance_symbol(Width)).extra_bits);
}

// A match's bits behind its length's code: the length's extra bits, then the distance.
struct match_tail {
  uint32_t bits;
  uint32_t width;
};
template <uint32_t Width>
TUCK_HD match_tail tail_of_match(const encoder_codes& codes, uint32_t symbol, uint32_t length, int kind) noexcept {
  const symbol_meaning meaning = length_of(symbol);
  match_tail tail{length - meaning.base, meaning.extra_bits};
  tail.bits |= code_bits(codes.distance[kind]) << tail.width;
  tail.width += 1;
  if (Width == max_distance && kind == element_run) tail.bits |= 1u << tail.width++;  // 8 is 7 + 1
  return tail;
}

}  // namespace tuck::inline TUCK_ABI::deflate_format
