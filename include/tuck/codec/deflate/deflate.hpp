// deflate-lite: valid DEFLATE (RFC 1951) of literals and runs, which a whole thread block decodes at once.
//
// Any inflate reads a chunk, for it begins with its stream. An index behind that tells where lanes can begin;
// layout.hpp has the format, and the rules by which the encoder cuts. The bytes are canonical: host and device write
// the same. Repeats that are farther away than an element's size are not looked for: tensors have few, text has many.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/deflate/bit_input.hpp>
#include <tuck/codec/deflate/encoder_codes.hpp>
#include <tuck/codec/deflate/sub_block.hpp>

#include <algorithm>

namespace tuck::inline TUCK_ABI {

template <element T> struct deflate {
  using value_type = T;

  static constexpr uint32_t width = sizeof(T);  // the distance of matches, besides 1
  static constexpr uint32_t chunk_bytes = deflate_format::max_chunk_bytes;

  TUCK_HD static constexpr stage description() noexcept { return {.id = codec_id::deflate, .version = 1}; }
  TUCK_HD constexpr stage_list stages() const noexcept { return {{description()}}; }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, deflate&) noexcept {
    return match_single_stage(stages, description());
  }
  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count * width; }
  uint32_t encode_chunk(span<const T> values, bytes room) const noexcept;  // declines more than 64 KiB of values
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

  // The DEFLATE stream that a chunk begins with, which encode_chunk wrote; of other bytes, some part, or none.
  static const_bytes stream_of(const_bytes encoded) noexcept;

  // The stream alone, for other readers of DEFLATE, into max_stream_bytes. What would not shrink is stored, and so are
  // more than 64 KiB of values. Returns the stream's bytes.
  static constexpr uint64_t max_stream_bytes(uint64_t count) noexcept {
    return count * width + 5 * std::max<uint64_t>(ceil_div<uint64_t>(count * width, deflate_format::max_stored), 1);
  }
  static uint64_t encode_stream(span<const T> values, bytes room) noexcept;
};

namespace deflate_format {

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
    for (uint32_t c = 0; c < cells_; ++c) runs_[c] = repeats_in_cell<Width>(words{values_}, c, size());
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

// Writes bits, the first lowest, into memory that is long enough for their bytes.
class byte_writer {
 public:
  TUCK_HD explicit byte_writer(std::byte* to) noexcept : to_(to) {}

  // The low `width` <= 32 bits of x, those above them 0.
  TUCK_HD void put(uint32_t x, uint32_t width) noexcept {
    pending_ |= uint64_t{x} << fill_;
    for (fill_ += width; fill_ >= 8; fill_ -= 8, pending_ >>= 8, written_ += 8)
      *to_++ = static_cast<std::byte>(pending_);
  }
  uint64_t position() const noexcept { return written_ + fill_; }
  void finish() noexcept {
    if (fill_ != 0) *to_++ = static_cast<std::byte>(pending_);
  }

 private:
  std::byte* to_;
  uint64_t pending_ = 0;
  uint64_t written_ = 0;
  uint32_t fill_ = 0;
};

// Encodes a chunk on one thread.
template <uint32_t Width> class host_encoder {
 public:
  // Looks at 1 to 64 KiB of values, which must stay; the bytes of their stream.
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
    for (uint32_t i = 0; i < literal_symbols; ++i) bits += bits_of_symbol<Width>(counts_, codes_, i);
    return stream_bytes_ = ceil_div(bits, 8u);
  }

  // Of a chunk whose stream was just measured.
  index_plan plan() const noexcept {
    uint8_t sub_blocks[max_pieces] = {};
    for (uint32_t i = 0; i < pieces_; ++i) sub_blocks[i] = piece_[i].sub_blocks();
    return plan_index(sub_blocks, pieces_, stream_bytes_);
  }

  // Writes the stream, and its index to `index`, where that is not null.
  void write(std::byte* to, std::byte* index) const noexcept {
    byte_writer out(to);
    write_header(header_, out);
    emitter emit{&codes_, gate_, &out};
    const index_plan joined = plan();
    uint64_t begin = 0;
    uint32_t groups = 0, rank = 0;
    const auto finish = [&] {
      if (joined.run == 0 || index == nullptr || groups == 0) return;
      *index++ = static_cast<std::byte>(groups - 1);
      store_unaligned(index, static_cast<uint16_t>(out.position() - begin));
      index += 2;
    };
    for (uint32_t i = 0; i < pieces_; ++i)
      for (uint32_t c = 0; c < piece_[i].cells(); ++c) {
        if (piece_[i].begins_sub_block(c)) {
          rank = c == 0 ? 0 : rank + 1;
          if (joined.run != 0 && rank % joined.run == 0) {
            finish();
            begin = out.position();
            groups = 0;
          }
        }
        groups += c % 2 == 0;
        visit_symbols<Width>(piece_[i], c, emit);
      }
    finish();
    if (index != nullptr) *index = static_cast<std::byte>(joined.entries);
    out.put(code_bits(codes_.literal[end_of_block]), code_length(codes_.literal[end_of_block]));
    out.finish();
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
    byte_writer* out;

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
  uint32_t stream_bytes_ = 0;
  histogram counts_;
  gate gate_;
  encoder_codes codes_;
  block_header header_;
  host_piece<Width> piece_[max_pieces];
};

// Fills the tables for one thread.
inline void build_tables(const code_lengths& lengths, decode_tables& tables) noexcept {
  const auto build = [](const uint8_t* length, uint32_t symbols, uint32_t bits, auto* table, uint32_t shift) {
    std::fill_n(table, 1u << bits, static_cast<std::remove_reference_t<decltype(*table)>>(0));
    uint32_t count[max_code_bits + 1] = {}, next[max_code_bits + 1];
    for (uint32_t i = 0; i < symbols; ++i) ++count[length[i]];
    count[0] = 0;
    first_codewords(count, next);
    for (uint32_t i = 0; i < symbols; ++i) {
      if (length[i] == 0) continue;
      const uint32_t first = reversed(next[length[i]]++, length[i]);
      for (uint32_t at = first; at < 1u << bits; at += 1u << length[i])
        table[at] = static_cast<std::remove_reference_t<decltype(*table)>>(i | uint32_t{length[i]} << shift);
    }
  };
  build(lengths.of, lengths.literals, max_literal_bits, tables.literal, 9);
  build(lengths.of_distances(), lengths.distances, max_distance_bits, tables.distance, 5);
}

// Restores a sub-block in host memory, which ends at `end`.
class memory_output {
 public:
  TUCK_HD memory_output(std::byte* to, std::byte* end) noexcept : to_(to), end_(end) {}

  TUCK_HD void put(uint32_t byte) noexcept { *to_++ = static_cast<std::byte>(byte); }
  TUCK_HD void repeat(uint32_t distance, uint32_t length) noexcept {
    if (distance == 1) {
      std::memset(to_, static_cast<int>(to_[-1]), length);
      to_ += length;
      return;
    }
    if (end_ - to_ >= static_cast<std::ptrdiff_t>(length + 8)) {  // eight at a time, and a few too many
      for (std::byte* p = to_; p < to_ + length; p += 8)
        for (uint32_t k = 0; k < 8; k += distance) std::memcpy(p + k, p + k - distance, distance);
    } else {
      for (uint32_t i = 0; i < length; ++i) to_[i] = to_[static_cast<std::ptrdiff_t>(i) - distance];
    }
    to_ += length;
  }

 private:
  std::byte* to_;
  std::byte* end_;
};

inline status decode_chunk(const_bytes encoded, bytes restored) noexcept {
  if (encoded.empty()) return status::deflate_ends_early;
  const auto sub_blocks = static_cast<uint8_t>(encoded[encoded.size() - 1]);
  chunk_parts parts;
  if (!split(encoded, sub_blocks, parts)) return status::deflate_index;
  bit_input in(parts.stream);
  code_lengths lengths;
  precode_memory memory;
  if (const status s = read_block_header(in, lengths, memory); s != status::ok) return s;
  decode_tables tables;
  build_tables(lengths, tables);

  const auto size = static_cast<uint32_t>(restored.size());
  sub_block part{static_cast<uint32_t>(in.position()),
                 static_cast<uint32_t>(8 * parts.stream.size()),
                 0,
                 size,
                 sub_blocks != 0,
                 sub_blocks == 0};
  index_sums sums;
  for (uint32_t i = 0; i < sub_blocks; ++i) sums.add(read_entry(parts.index, i));
  if (sub_blocks != 0 && !sums.fit(size, part.first_bit, parts.stream.size())) return status::deflate_index;
  for (uint32_t i = 0; i < std::max<uint32_t>(sub_blocks, 1); ++i) {
    if (part.indexed) {
      const index_entry entry = read_entry(parts.index, i);
      part.end_bit = part.first_bit + entry.bits;
      part.end_byte = std::min(part.first_byte + entry.groups * group_bytes, size);
      part.is_last = i + 1 == sub_blocks;
    }
    memory_output out(restored.data() + part.first_byte, restored.data() + part.end_byte);
    if (const status s = decode_sub_block(tables, part, in, out); s != status::ok) return s;
    part.first_bit = part.end_bit;
    part.first_byte = part.end_byte;
  }
  return read_end(tables, in);
}

// Stored blocks, as many as it takes; their bytes.
inline uint64_t store_blocks(const_bytes values, std::byte* to) noexcept {
  const std::byte* const begin = to;
  uint64_t done = 0;
  do {
    const uint64_t size = std::min<uint64_t>(values.size() - done, max_stored);
    *to++ = static_cast<std::byte>(done + size == values.size());
    store_unaligned(to, static_cast<uint16_t>(size));
    store_unaligned(to + 2, static_cast<uint16_t>(~size));
    if (size != 0) std::memcpy(to + 4, values.data() + done, size);
    to += 4 + size;
    done += size;
  } while (done != values.size());
  return static_cast<uint64_t>(to - begin);
}

}  // namespace deflate_format

template <element T> uint32_t deflate<T>::encode_chunk(span<const T> values, bytes room) const noexcept {
  if (values.empty() || values.size_bytes() > chunk_bytes) return declined;
  deflate_format::host_encoder<width> encoder;
  const uint32_t stream = encoder.measure(as_bytes(values));
  const uint32_t size = stream + deflate_format::index_bytes(encoder.plan().entries);
  if (size >= values.size_bytes()) return declined;
  encoder.write(room.data(), room.data() + stream);
  return size;
}

template <element T> status deflate<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  return deflate_format::decode_chunk(encoded, as_writable_bytes(restored));
}

template <element T> const_bytes deflate<T>::stream_of(const_bytes encoded) noexcept {
  deflate_format::chunk_parts parts;
  return !encoded.empty() && deflate_format::split(encoded, static_cast<uint8_t>(encoded[encoded.size() - 1]), parts)
             ? parts.stream
             : const_bytes{};
}

template <element T> uint64_t deflate<T>::encode_stream(span<const T> values, bytes room) noexcept {
  if (!values.empty() && values.size_bytes() <= chunk_bytes) {
    deflate_format::host_encoder<width> encoder;
    const uint32_t stream = encoder.measure(as_bytes(values));
    if (stream < max_stream_bytes(values.size())) {
      encoder.write(room.data(), nullptr);
      return stream;
    }
  }
  return deflate_format::store_blocks(as_bytes(values), room.data());
}

static_assert(codec<deflate<float>>);

}  // namespace tuck::inline TUCK_ABI
