// The encoder for one thread: a block of DEFLATE and where its sub-blocks lie.
#pragma once

#include <tuck/codec/deflate/encoder_codes.hpp>
#include <tuck/codec/deflate/sections_layout.hpp>
#include <tuck/core/avx2.hpp>
#include <tuck/core/bit_stream.hpp>
#include <tuck/core/span.hpp>

#include <algorithm>

namespace tuck::inline TUCK_ABI::deflate_format {

// A piece and what is known of its cells, for one thread.
template <uint32_t Width> class host_piece {
 public:
  void analyse(const_bytes values) noexcept {
    values_ = values;
    cells_ = static_cast<uint32_t>(ceil_div(values.size(), uint64_t{cell_bytes}));
    find_runs();
    cut();
    uint32_t open = 0;
    for (uint32_t c = 0; c < cells_; ++c) {
      open_[c] = static_cast<uint16_t>(open);
      open = std::max(open, open_run<Width>(*this, c));
    }
  }
  uint32_t cells() const noexcept { return cells_; }
  uint8_t sub_blocks() const noexcept { return sub_blocks_; }

  // Called from what kernels call too.
  TUCK_HD uint32_t size() const noexcept { return static_cast<uint32_t>(values_.size()); }
  TUCK_HD uint32_t byte(uint32_t i) const noexcept { return static_cast<uint8_t>(values_[i]); }
  TUCK_HD cell_bits runs(uint32_t cell) const noexcept { return runs_[cell]; }
  TUCK_HD bool begins_sub_block(uint32_t cell) const noexcept { return begins_[cell]; }
  TUCK_HD uint32_t open(uint32_t cell) const noexcept { return open_[cell]; }

 private:
  struct words {
    const_bytes values;

    TUCK_HD uint32_t operator()(uint32_t i) const noexcept {
      if (4 * i + 4 <= values.size()) return load_unaligned<uint32_t>(values.data() + 4 * i);
      uint32_t x = 0;
      for (uint32_t k = 4 * i; k < values.size(); ++k) x |= uint32_t{static_cast<uint8_t>(values[k])} << (8 * (k % 4));
      return x;
    }
  };

  void find_runs() noexcept {
    uint32_t first = 0;
#if defined(TUCK_AVX2)
    if (const uint32_t whole = size() / cell_bytes; Width > 1 && whole > 1 && avx2::available()) {
      uint32_t masks[2 * piece_cells];
      avx2::repeats(values_.data(), Width, whole, masks);
      runs_[0] = repeats_in_cell<Width>(words{values_}, 0, size());
      for (first = 1; first < whole; ++first) runs_[first] = {{masks[2 * first], masks[2 * first + 1]}};
    }
#endif
    for (uint32_t c = first; c < cells_; ++c) runs_[c] = repeats_in_cell<Width>(words{values_}, c, size());
    runs_[cells_] = {};
    for (const int kind : {byte_run, element_run}) {
      uint32_t before = 0;
      for (uint32_t c = 0; c < cells_; ++c) {
        const uint32_t repeats = runs_[c].of[kind];
        runs_[c].of[kind] = rows_of_three(before, repeats, runs_[c + 1].of[kind]);
        before = repeats;
      }
      if (kind == byte_run)
        for (uint32_t c = 0; c < cells_; ++c) runs_[c].of[element_run] &= ~runs_[c].of[byte_run];
    }
  }

  void cut() noexcept {
    uint16_t symbols[piece_groups] = {};
    uint32_t all = 0;
    for (uint32_t c = 0; c < cells_; ++c) {
      const uint32_t n =
          symbols_in_cell(c == 0 ? cell_bits{} : runs_[c - 1], runs_[c], std::min(size() - c * cell_bytes, cell_bytes));
      symbols[c / 2] = static_cast<uint16_t>(symbols[c / 2] + n);
      all += n;
    }
    sub_blocks_ = static_cast<uint8_t>(sub_blocks_of(all));
    for (uint32_t c = 0, before = 0; c < cells_; ++c) {
      const uint32_t last = c < 2 ? 0 : symbols[c / 2 - 1];
      if (c % 2 == 0) before += last;
      begins_[c] = c == 0 || (c % 2 == 0 && deflate_format::begins_sub_block(before, last, all, sub_blocks_));
    }
    begins_[cells_] = true;
  }

  const_bytes values_;
  uint32_t cells_ = 0;
  uint8_t sub_blocks_ = 0;
  bool begins_[piece_cells + 1];
  uint16_t open_[piece_cells];
  cell_bits runs_[piece_cells + 1];
};

// Where the sub-blocks of a stream's pieces begin, for its index.
class sub_block_list {
 public:
  void begin(uint32_t bit, uint32_t group) noexcept { at_[all_++] = {bit, static_cast<uint16_t>(group)}; }
  // Of a piece of so many sub-blocks.
  void end(uint32_t bit, uint32_t group, uint8_t sub_blocks) noexcept {
    begin(bit, group);
    of_piece_[pieces_++] = sub_blocks;
  }

  index_plan plan(uint32_t stream_bytes) const noexcept { return plan_index(of_piece_, pieces_, stream_bytes); }
  index_plan plan_of_sections(uint32_t stream_bytes) const noexcept {
    return plan_sections_index(of_piece_, pieces_, stream_bytes);
  }
  // The entries of the index, from `to` on; the byte behind them.
  std::byte* write(const index_plan& plan, std::byte* to) const noexcept {
    for (uint32_t i = 0; i < plan.entries; ++i, to += index_entry_bytes)
      write_entry(joined_entry(plan, of_piece_, pieces_, at_, i), to);
    return to;
  }

 private:
  sub_block_begin at_[max_section_sub_blocks + max_section_pieces];
  uint8_t of_piece_[max_section_pieces];
  uint32_t all_ = 0;
  uint32_t pieces_ = 0;
};

// A dynamic block of up to 64 KiB of bytes, in which what repeats does so Width bytes later, or one.
template <uint32_t Width> class host_block {
 public:
  // Looks at 1 to 64 KiB of values, which must stay; the bits of their block.
  uint32_t measure(const_bytes values) noexcept {
    pieces_ = static_cast<uint32_t>(ceil_div(values.size(), uint64_t{piece_bytes}));
    counts_ = {};
    counts_.literal[end_of_block] = 1;
    counter count{&counts_};
    for (uint32_t i = 0; i < pieces_; ++i) {
      const uint64_t first = uint64_t{i} * piece_bytes;
      piece_[i].analyse(values.subspan(first, std::min<uint64_t>(values.size() - first, piece_bytes)));
      visit(piece_[i], count);
    }
    gate_ = choose_gate(counts_);
    make_codes();
    uint32_t bits = header_.bits + bits_of_distances<Width>(counts_);
    for (uint32_t i = 0; i < literal_symbols; ++i) bits += bits_of_symbol(counts_, codes_, i);
    return bits;
  }

  // The index of a stream of so many bytes that is this block alone.
  index_plan plan(uint32_t stream_bytes) const noexcept {
    uint8_t sub_blocks[max_pieces] = {};
    for (uint32_t i = 0; i < pieces_; ++i) sub_blocks[i] = piece_[i].sub_blocks();
    return plan_index(sub_blocks, pieces_, stream_bytes);
  }

  // Writes the block that was just measured; `list` gets its sub-blocks.
  void write(bit_writer& out, bool is_last, sub_block_list& list) const noexcept {
    write_header(header_, is_last, out);
    emitter emit{&codes_, gate_, &out};
    uint32_t group = 0;
    for (uint32_t i = 0; i < pieces_; ++i) {
      for (uint32_t c = 0; c < piece_[i].cells(); ++c) {
        if (piece_[i].begins_sub_block(c)) list.begin(static_cast<uint32_t>(out.position()), group);
        group += c % 2 == 0;
        visit_symbols<Width>(piece_[i], c, emit);
      }
      list.end(static_cast<uint32_t>(out.position()), group, piece_[i].sub_blocks());
    }
    out.put(code_bits(codes_.literal[end_of_block]), code_length(codes_.literal[end_of_block]));
  }

 private:
  struct counter {
    histogram* counts;

    TUCK_HD void literal(uint32_t byte) { ++counts->literal[byte]; }
    TUCK_HD bool skips(uint32_t, int, uint32_t) const { return false; }
    TUCK_HD void match(uint32_t length, int kind, uint32_t byte) {
      ++counts->literal[length_symbol(length)];
      ++counts->distance[kind];
      if (kind == byte_run && byte == 0 && length < min_match + gated_lengths) ++counts->zero_match[length - min_match];
    }
  };
  struct emitter {
    const encoder_codes* codes;
    gate skipped;
    bit_writer* out;

    TUCK_HD void literal(uint32_t byte) {
      out->put(code_bits(codes->literal[byte]), code_length(codes->literal[byte]));
    }
    TUCK_HD bool skips(uint32_t length, int kind, uint32_t byte) const { return skipped.skips(length, kind, byte); }
    TUCK_HD void match(uint32_t length, int kind, uint32_t) {
      const uint32_t symbol = length_symbol(length);
      literal(symbol);
      const match_tail tail = tail_of_match<Width>(*codes, symbol, length, kind);
      out->put(tail.bits, tail.width);
    }
  };

  template <class Visitor> static void visit(const host_piece<Width>& piece, Visitor& visitor) noexcept {
    for (uint32_t c = 0; c < piece.cells(); ++c) visit_symbols<Width>(piece, c, visitor);
  }

  void make_codes() noexcept {
    code_memory memory;
    uint8_t length[literal_symbols] = {};
    uint32_t n = 0;
    for (uint32_t i = 0; i < literal_symbols; ++i)
      if (counts_.literal[i] != 0) memory.key[n++] = sort_key(counts_.literal[i], i);
    std::sort(memory.key, memory.key + n);
    assign_lengths(memory, n, max_literal_bits, length);
    uint32_t next[max_code_bits + 1];
    first_codewords(memory.count, next);
    for (uint32_t i = 0; i < literal_symbols; ++i)
      codes_.literal[i] = length[i] == 0 ? uint16_t{0} : make_code(next[length[i]]++, length[i]);
    make_distance_codes(counts_, codes_);
    plan_header<Width>(length, codes_, memory, header_);
  }

  uint32_t pieces_ = 0;
  histogram counts_;
  gate gate_;
  encoder_codes codes_;
  block_header header_;
  host_piece<Width> piece_[max_pieces];
};

}  // namespace tuck::inline TUCK_ABI::deflate_format
