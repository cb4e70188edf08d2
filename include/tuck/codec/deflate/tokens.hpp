// Which literals and matches a piece of a chunk becomes: one rule for the scalar encoder, which goes from cell to cell,
// and for a thread block, where each thread has cells of its own.
//
// Runs are what repeats at distance 1, and where that does not, at the size of an element; three bytes or more of them.
// A run that a sub-block's begin cuts begins anew behind as many literals as its distance. From its begin on, a run is
// matches of 258 bytes and one of what is left.
#pragma once

#include <tuck/codec/deflate/layout.hpp>
#include <tuck/core/bits.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

enum run_kind : int { byte_run = 0, element_run = 1 };

template <uint32_t Width> TUCK_HD constexpr uint32_t distance_of_run(int kind) noexcept {
  return kind == byte_run ? 1 : Width;
}

// Of a cell, a bit a byte.
struct cell_bits {
  uint32_t of[2];  // by run_kind

  // of[kind] of what is in registers, which have no index.
  TUCK_HD constexpr uint32_t kind(int which) const noexcept {
    return which == byte_run ? of[byte_run] : of[element_run];
  }
  TUCK_HD constexpr uint32_t any() const noexcept { return of[byte_run] | of[element_run]; }
};

namespace detail {

// A bit for each of the four bytes that is zero.
TUCK_HD constexpr uint32_t zero_bytes(uint32_t x) noexcept {
  const uint32_t low = (x & 0x7f7f7f7f) + 0x7f7f7f7f;
  return (~(low | x | 0x7f7f7f7f) >> 7) * 0x10204080u >> 28;
}

// The word `distance` bytes earlier.
TUCK_HD constexpr uint32_t earlier(uint32_t before, uint32_t word, uint32_t distance) noexcept {
  return word << (8 * distance) | before >> (32 - 8 * distance);
}

}  // namespace detail

// Bytes of the piece's cell that repeat what is 1 and Width bytes before them in the piece, which has `size` bytes.
// word(i) is its i-th word of 4 bytes, anything past the end.
template <uint32_t Width, class Words>
TUCK_HD cell_bits repeats_in_cell(const Words& word, uint32_t cell, uint32_t size) noexcept {
  constexpr uint32_t words = cell_bytes / 4;
  const uint32_t first = cell * words;
  uint32_t before[2] = {cell == 0 ? 0 : word(first - 2), cell == 0 ? 0 : word(first - 1)};
  cell_bits repeats{};
  for (uint32_t j = 0; j < words; ++j) {
    const uint32_t x = word(first + j);
    repeats.of[byte_run] |= detail::zero_bytes(x ^ detail::earlier(before[1], x, 1)) << (4 * j);
    if constexpr (Width == 2)
      repeats.of[element_run] |= detail::zero_bytes(x ^ detail::earlier(before[1], x, 2)) << (4 * j);
    if constexpr (Width == 4) repeats.of[element_run] |= detail::zero_bytes(x ^ before[1]) << (4 * j);
    if constexpr (Width == 8) repeats.of[element_run] |= detail::zero_bytes(x ^ before[0]) << (4 * j);
    before[0] = before[1];
    before[1] = x;
  }
  const uint32_t left = size - cell * cell_bytes, valid = low_mask(left);
  repeats.of[byte_run] &= cell == 0 ? valid & ~1u : valid;
  repeats.of[element_run] &= cell == 0 ? valid & ~low_mask(Width) : valid;
  return repeats;
}

// The bits of `bits` that are in rows of three or more, rows that go on in the neighbours counted in.
TUCK_HD constexpr uint32_t rows_of_three(uint32_t before, uint32_t bits, uint32_t after) noexcept {
  const uint32_t begin = bits & (bits >> 1 | after << 31) & (bits >> 2 | after << 30);
  const uint32_t begin_before = before & (before >> 1 | bits << 31) & (before >> 2 | bits << 30);
  return begin | (begin << 1 | begin_before >> 31) | (begin << 2 | begin_before >> 30);
}

// The symbols that a cell of `size` bytes becomes where nothing cuts it, long runs counted once: literals and begins of
// runs.
TUCK_HD constexpr uint32_t symbols_in_cell(const cell_bits& before, const cell_bits& runs, uint32_t size) noexcept {
  uint32_t symbols = popcount(~runs.any() & low_mask(size));
  symbols += popcount(runs.of[byte_run] & ~(runs.of[byte_run] << 1 | before.of[byte_run] >> 31));
  symbols += popcount(runs.of[element_run] & ~(runs.of[element_run] << 1 | before.of[element_run] >> 31));
  return symbols;
}

// Sub-blocks of a piece of so many symbols; a group begins one where `before` symbols are before it, and the last of
// them are in the group before it.
TUCK_HD constexpr uint32_t sub_blocks_of(uint32_t symbols) noexcept {
  const uint32_t n = ceil_div(symbols, symbols_a_sub_block);
  return n == 0 ? 1 : n;
}
TUCK_HD constexpr bool begins_sub_block(uint32_t before, uint32_t last, uint32_t symbols, uint32_t n) noexcept {
  return before < symbols && before * n / symbols != (before - last) * n / symbols;
}

// Where in the piece the run begins that reaches the end of this cell; 0 where none does, or one that began before it.
// A piece as in visit_symbols.
template <uint32_t Width, class Piece> TUCK_HD uint32_t open_run(const Piece& piece, uint32_t cell) noexcept {
  const cell_bits runs = piece.runs(cell);
  if (runs.any() >> 31 == 0) return 0;
  const int kind = runs.of[byte_run] >> 31 != 0 ? byte_run : element_run;
  const uint32_t first = tuck::bit_width(~runs.kind(kind));
  if (piece.begins_sub_block(cell)) {
    const uint32_t distance = distance_of_run<Width>(kind);
    return cell * cell_bytes + (first < distance ? distance : first);
  }
  if (first == 0 && piece.runs(cell - 1).kind(kind) >> 31 != 0) return 0;
  return cell * cell_bytes + first;
}

namespace detail {

// How far a run of the piece that reaches the end of `cell` goes, but not beyond `limit`.
template <class Piece>
TUCK_HD uint32_t end_of_run(const Piece& piece, uint32_t cell, int kind, uint32_t limit) noexcept {
  uint32_t end = (cell + 1) * cell_bytes;
  while (end < limit && !piece.begins_sub_block(++cell)) {
    const uint32_t other = ~piece.runs(cell).kind(kind);
    if (other != 0) return end + trailing_zeros(other);
    end += cell_bytes;
  }
  return end;
}

}  // namespace detail

// Calls visitor.literal(byte) and visitor.match(length, kind, first byte) for the symbols that begin in a cell, in
// order; literals instead of a match that visitor.skips(length, kind, first byte). A piece has
//
// clang-format off
//   size()                  in bytes
//   byte(i)
//   runs(cell)              cell_bits: what is in runs of either kind; nothing past its end, none after the last cell
//   begins_sub_block(cell)  true of the first cell, and of the one after the last
//   open(cell)              the largest open_run of the cells before this one
// clang-format on
template <uint32_t Width, class Piece, class Visitor>
TUCK_HD void visit_symbols(const Piece& piece, uint32_t cell, Visitor& visitor) noexcept {
  const uint32_t base = cell * cell_bytes;
  const uint32_t length = piece.size() - base < cell_bytes ? piece.size() - base : cell_bytes;
  const bool cut = piece.begins_sub_block(cell);
  const cell_bits runs = piece.runs(cell);
  for (uint32_t i = 0; i < length;) {
    if ((runs.any() >> i & 1) == 0) {
      visitor.literal(piece.byte(base + i++));
      continue;
    }
    const int kind = (runs.of[byte_run] >> i & 1) != 0 ? byte_run : element_run;
    const uint32_t distance = distance_of_run<Width>(kind);
    const uint32_t other = ~runs.kind(kind) & ~low_mask(i);
    const uint32_t end = other == 0 ? cell_bytes : trailing_zeros(other);

    uint32_t begin = base + i;
    if (cut) {
      if (i < distance) begin = base + distance;
    } else if (i == 0 && piece.runs(cell - 1).kind(kind) >> 31 != 0) {
      begin = piece.open(cell);
    }
    for (; i < end && base + i < begin; ++i) visitor.literal(piece.byte(base + i));
    if (i == end) continue;

    // The first match that begins here.
    const uint32_t phase = (base + i - begin) % max_match;
    const uint32_t first = base + i + (phase == 0 ? 0 : max_match - phase);
    i = end;
    if (first >= base + end) continue;
    uint32_t last = first + max_match;
    const uint32_t run_end = end < cell_bytes ? base + end : detail::end_of_run(piece, cell, kind, last);
    if (run_end < last) last = run_end;
    if (last - first >= min_match && !visitor.skips(last - first, kind, piece.byte(first)))
      visitor.match(last - first, kind, piece.byte(first));
    else
      for (uint32_t k = first; k < last; ++k) visitor.literal(piece.byte(k));
  }
}

}  // namespace tuck::inline TUCK_ABI::deflate_format
