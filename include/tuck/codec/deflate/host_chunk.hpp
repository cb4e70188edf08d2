// Encodes and decodes the chunks of layout.hpp by one thread.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/deflate/layout.hpp>
#include <tuck/core/status.hpp>

#include <algorithm>
#include <cstring>
#include <optional>

namespace tuck::inline TUCK_ABI::deflate_format {

// Encoder for elements of Width bytes.
template <uint32_t Width> class host_encoder {
 public:
  // Returns the size of the encoded chunk, which `write` then writes, or `incompressible` if the chunk is
  // incompressible.
  uint32_t measure(const_bytes values) noexcept {
    values_ = values.data();
    bytes_ = static_cast<uint32_t>(values.size());
    find_equal_bytes();
    find_tokens();
    take_tokens();
    code_.emplace(counts_);
    huffman_format::visit_codes(code_->length, coded_symbols,
                                [&](uint32_t s, uint32_t, uint32_t slot) { slots_[s] = slot << (32 - max_length); });
    return size();
  }

  void write(std::byte* to) noexcept {
    const uint32_t stream = write_stream(to);
    std::byte* at = to + stream;
    for (uint32_t i = 0; i < whole_segments; ++i) *at++ = static_cast<std::byte>(segment_bits_[i]);
    for (uint32_t i = 0; i < sub_blocks_; ++i)
      for (uint32_t k = 0; k < 3; ++k)
        *at++ = static_cast<std::byte>(entry_of(begin_[i + 1] - begin_[i], bits_[i]) >> 8 * k);
    std::byte* const end = to + stream + index_bytes(stream, sub_blocks_) - 4;
    while (at != end) *at++ = std::byte{};
    store_unaligned(at, chunk_end(stream | sub_blocks_ << 24).word());
  }
  // Writes the stream without an index. Returns its size in bytes.
  uint32_t write_stream(std::byte* to) noexcept {
    bit_writer out(to);
    for (uint32_t i = 0; i < prefix_bits; i += 32) out.put(prefix_word<Width>(i / 32), std::min(32u, prefix_bits - i));
    for (uint32_t i = 0; i <= whole_segments; ++i)
      visit_segment<Width>(i, lengths_of(i), [&](uint32_t bits, uint32_t count) { out.put(bits, count); });
    for (uint32_t i = 0; i < tokens_; ++i) {
      const uint32_t entry = entries_[token_[i]];
      out.put(entry & low_mask(27), entry >> 27);
    }
    out.put(reverse_bits(slots_[end_of_block]), code_->length[end_of_block]);
    out.finish_bytes();
    return static_cast<uint32_t>(ceil_div(out.position(), uint64_t{8}));
  }
  uint32_t stream_bytes() const noexcept { return stream_; }

 private:
  static constexpr uint32_t max_cells = cells_of(max_chunk_raw_bytes);
  static constexpr uint32_t far_token = 513;  // added to the near token of the same length, at most 512

  auto lengths_of(uint32_t segment) const noexcept {
    return [this, segment](uint32_t i) -> uint32_t {
      const uint32_t s = segment * segment_symbols + i;
      return s < coded_symbols ? code_->length[s] : distance_length<Width>(s - coded_symbols);
    };
  }

  // Fills near_ and far_ for whole cells; bytes past the end are neither.
  void find_equal_bytes() noexcept {
    cells_ = cells_of(bytes_);
    uint64_t before = 0;
    for (uint32_t i = 0; i < 4 * cells_; ++i) {
      uint64_t x = 0;
      if (8 * i < bytes_) std::memcpy(&x, values_ + 8 * i, std::min(8u, bytes_ - 8 * i));
      auto* const near = reinterpret_cast<uint8_t*>(near_);
      auto* const far = reinterpret_cast<uint8_t*>(far_);
      near[i] = zero_bytes(x ^ (x << 8 | before >> 56));
      if constexpr (Width == 8) far[i] = zero_bytes(x ^ before);
      if constexpr (Width == 2 || Width == 4) far[i] = zero_bytes(x ^ (x << 8 * Width | before >> (64 - 8 * Width)));
      if constexpr (Width == 1) far[i] = 0;
      before = x;
    }
    if (bytes_ % cell_bytes != 0) {
      near_[cells_ - 1] &= low_mask(bytes_ % cell_bytes);
      far_[cells_ - 1] &= low_mask(bytes_ % cell_bytes);
    }
  }
  static uint8_t zero_bytes(uint64_t x) noexcept {
    constexpr uint64_t low = 0x7f7f7f7f7f7f7f7f;
    return static_cast<uint8_t>((~(((x & low) + low) | x | low) >> 7) * 0x0102040810204080 >> 56);
  }

  // Fills begins_ and matches_far_ for a unit. `begins` has a bit for each cell of the unit that begins a sub-block.
  void mark_unit(uint32_t first, uint32_t begins) noexcept {
    uint32_t near[unit_cells + 2] = {}, far[unit_cells + 2] = {}, near_run[unit_cells + 1] = {};
    uint32_t far_run[unit_cells + 1] = {};
    const uint32_t count = std::min(unit_cells, cells_ - first);
    const auto begins_at = [&](uint32_t k) { return k == 0 || (begins >> k & 1) != 0; };
    for (uint32_t k = 0; k < count; ++k) {
      const bool is_first = (begins >> k & 1) != 0;
      near[k] = near_[first + k] & (is_first ? ~1u : ~0u);
      far[k] = far_[first + k] & (is_first ? ~low_mask(Width) : ~0u);
    }
    for (uint32_t k = 0; k < count; ++k) {
      near_run[k] = in_runs(begins_at(k) ? 0 : near[k - 1], near[k], begins_at(k + 1) ? 0 : near[k + 1]);
      far[k] &= ~near_run[k];
    }
    for (uint32_t k = 0; k < count; ++k) {
      far_run[k] = in_runs(begins_at(k) ? 0 : far[k - 1], far[k], begins_at(k + 1) ? 0 : far[k + 1]);
      const uint32_t of_far = run_begins(begins_at(k) ? 0 : far_run[k - 1], far_run[k]);
      const uint32_t of_near = run_begins(begins_at(k) ? 0 : near_run[k - 1], near_run[k]);
      begins_[first + k] = ~(near_run[k] | far_run[k]) | of_near | of_far;
      matches_far_[first + k] = of_far;
    }
  }
  uint32_t tokens_in(uint32_t cell) const noexcept {
    return popcount(begins_[cell] & low_mask(bytes_ - cell * cell_bytes));
  }
  // Finds the sub-blocks, and the bytes at which tokens begin.
  void find_tokens() noexcept {
    uint32_t tokens = 0;
    for (uint32_t c = 0; c < cells_; c += unit_cells) mark_unit(c, c == 0);
    for (uint32_t c = 0; c < cells_; ++c) tokens += tokens_in(c);
    const sub_block_plan plan(bytes_, tokens);
    sub_blocks_ = 0;
    uint32_t before = 0;
    for (uint32_t c = 0; c < cells_; ++c) {
      if (plan.at(c, before) == sub_blocks_) begin_[sub_blocks_++] = c;
      before += tokens_in(c);
    }
    begin_[sub_blocks_] = cells_;
    for (uint32_t i = 0; i < sub_blocks_;) {
      const uint32_t first = begin_[i] / unit_cells * unit_cells;
      uint32_t begins = 0;
      for (; i < sub_blocks_ && begin_[i] < first + unit_cells; ++i) begins |= 1u << (begin_[i] - first);
      mark_unit(first, begins);
    }
  }

  // Lists the tokens of each sub-block in token_, and counts the symbols.
  void take_tokens() noexcept {
    std::fill(std::begin(entries_), std::end(entries_), 0u);
    tokens_ = 0;
    for (uint32_t i = 0; i < sub_blocks_; ++i) {
      token_begin_[i] = tokens_;
      uint32_t first = begin_[i] * cell_bytes, is_far = 0;  // of the pending token
      for (uint32_t c = begin_[i]; c < begin_[i + 1]; ++c) {
        uint32_t x = begins_[c] & (c == begin_[i] ? ~1u : ~0u) & low_mask(bytes_ - c * cell_bytes);
        for (; x != 0; x &= x - 1) {
          const uint32_t bit = trailing_zeros(x), at = c * cell_bytes + bit;
          add_token(first, at, is_far);
          first = at;
          is_far = matches_far_[c] >> bit & 1;
        }
      }
      add_token(first, std::min(begin_[i + 1] * cell_bytes, bytes_), is_far);
    }
    token_begin_[sub_blocks_] = tokens_;
    std::fill(std::begin(counts_), std::end(counts_), 0u);
    counts_[end_of_block] = 1;
    for (uint32_t t = 0; t < far_token; ++t)
      if (const uint32_t count = entries_[t] + entries_[t + far_token]; count != 0)
        counts_[symbol_of_token(t)] += count;
  }
  void add_token(uint32_t from, uint32_t to, uint32_t is_far) noexcept {
    const uint32_t length = to - from;
    const uint32_t token = length == 1 ? static_cast<uint8_t>(values_[from]) : 256 + length + far_token * is_far;
    ++entries_[token];
    token_[tokens_++] = static_cast<uint16_t>(token);
  }

  // Computes the bits of each token, segment and sub-block. Returns the size of the chunk, or `incompressible`.
  uint32_t size() noexcept {
    for (uint32_t t = 0; t < far_token; ++t) {
      if (t >= 256 && t < 256 + min_match) continue;
      const uint32_t s = symbol_of_token(t);
      if (code_->length[s] == 0) continue;
      entries_[t] = encoder_entry(t, slots_[s], code_->length[s]);
      entries_[t + far_token] = far_entry<Width>(entries_[t]);
    }
    uint32_t all = prefix_bits + code_->length[end_of_block];
    for (uint32_t i = 0; i <= whole_segments; ++i) {
      segment_bits_[i] = 0;
      visit_segment<Width>(i, lengths_of(i), [&](uint32_t, uint32_t count) { segment_bits_[i] += count; });
      all += segment_bits_[i];
    }
    bool fits = true;
    for (uint32_t i = 0; i < sub_blocks_; ++i) {
      bits_[i] = 0;
      for (uint32_t t = token_begin_[i]; t < token_begin_[i + 1]; ++t) bits_[i] += entries_[token_[t]] >> 27;
      all += bits_[i];
      fits &= bits_[i] < max_entry_bits && begin_[i + 1] - begin_[i] <= max_entry_cells;
    }
    stream_ = ceil_div(all, 8u);
    const uint32_t size = stream_ + index_bytes(stream_, sub_blocks_);
    return fits && size < bytes_ ? size : incompressible;
  }

  const std::byte* values_ = nullptr;
  uint32_t bytes_ = 0, cells_ = 0, sub_blocks_ = 0, tokens_ = 0, stream_ = 0;
  uint32_t near_[max_cells], far_[max_cells], begins_[max_cells], matches_far_[max_cells];
  uint32_t begin_[max_sub_blocks + 1], token_begin_[max_sub_blocks + 1], bits_[max_sub_blocks];
  uint16_t token_[max_chunk_raw_bytes];
  uint32_t counts_[counted_symbols], slots_[counted_symbols];
  uint32_t entries_[2 * far_token];  // first the counts of tokens, then their encoder_entry
  uint32_t segment_bits_[whole_segments + 1];
  std::optional<huffman_format::code_maker<counted_symbols>> code_;
};

// Decoder for elements of Width bytes.
template <uint32_t Width> class host_decoder {
 public:
  status decode(const_bytes encoded, bytes values) noexcept {
    if (encoded.size() < 4 || encoded.size() > max_chunk_raw_bytes || values.size() > max_chunk_raw_bytes)
      return status::bad_payload;
    const auto size = static_cast<uint32_t>(values.size());
    const auto last = load_unaligned<uint32_t>(encoded.data() + encoded.size() - 4);
    const chunk_end end(last);
    if (!end.fits(last, static_cast<uint32_t>(encoded.size()), size)) return status::bad_payload;
    std::memcpy(stream_, encoded.data(), end.stream);
    std::memset(stream_ + end.stream, 0, end.stream < header_reach ? header_reach : sizeof(uint64_t));
    const std::byte* const index = encoded.data() + end.stream;
    uint32_t at = 0;
    if (!read_header(index, at)) return status::bad_payload;
    uint32_t first = 0;
    for (uint32_t i = 0; i < end.sub_blocks; ++i) {
      uint32_t entry = 0;
      for (uint32_t k = 0; k < 3; ++k)
        entry |= uint32_t{static_cast<uint8_t>(index[whole_segments + 3 * i + k])} << 8 * k;
      const uint32_t begin = first * cell_bytes;
      first += entry_cells(entry);
      if (begin >= size || (i + 1 == end.sub_blocks) != (first == cells_of(size))) return status::bad_payload;
      const uint32_t to = at + entry_bits(entry);
      if (to > 8 * end.stream) return status::bad_payload;
      if (!decode_sub_block(at, to, values.data() + begin, values.data() + std::min(first * cell_bytes, size)))
        return status::bad_payload;
      at = to;
    }
    const uint32_t entry = lookup(window(at));
    if ((entry >> 4) != 0 || ceil_div(at + (entry & 15), 8u) != end.stream) return status::bad_payload;
    for (const std::byte* p = index + whole_segments + 3 * end.sub_blocks; p != encoded.data() + encoded.size() - 4;
         ++p)
      if (*p != std::byte{}) return status::bad_payload;
    return status::ok;
  }

 private:
  static constexpr uint32_t header_reach = 344;  // bytes that reading a header may access, for any index

  uint64_t window(uint32_t at) const noexcept { return load_unaligned<uint64_t>(stream_ + at / 8) >> at % 8; }

  // Reads the header into the table, and sets `at` to the first bit after it.
  bool read_header(const std::byte* index, uint32_t& at) noexcept {
    for (uint32_t i = 0; i < prefix_bits; i += 32)
      if ((static_cast<uint32_t>(window(i)) & low_mask(prefix_bits - i)) != prefix_word<Width>(i / 32)) return false;
    uint8_t length[whole_segments * segment_symbols + segment_size<Width>(whole_segments)] = {};
    at = prefix_bits;
    for (uint32_t i = 0; i <= whole_segments; ++i) {
      const uint32_t to = read_segment<Width>(
          i, at, [&](uint32_t bit) { return static_cast<uint32_t>(window(bit)); }, precode_entry,
          [&](uint32_t k, uint32_t l) { length[i * segment_symbols + k] = static_cast<uint8_t>(l); });
      if (to == 0 || (i < whole_segments && to != at + static_cast<uint8_t>(index[i]))) return false;
      at = to;
    }
    for (uint32_t i = 0; i < distance_codes<Width>; ++i)
      if (length[coded_symbols + i] != distance_length<Width>(i)) return false;
    const auto fill = [&](uint32_t s, uint32_t l, uint32_t slot) {
      const uint32_t entry = decoder_entry(s, l);
      for (uint32_t i = reversed(slot, max_length); i < huffman_format::slots; i += 1u << l) table_[i] = entry;
    };
    return huffman_format::visit_codes(length, coded_symbols, fill) == huffman_format::slots &&
           length[end_of_block] != 0;
  }

  bool decode_sub_block(uint32_t at, uint32_t end, std::byte* out, std::byte* const out_end) const noexcept {
    const std::byte* const out_begin = out;
    while (out != out_end) {
      if (at >= end) return false;
      uint64_t bits = window(at);
      uint32_t entry = lookup(bits);
      // A window has at least 57 bits: up to four literals of 10 bits each, and 17 bits of a match.
      for (uint32_t i = 0; i < 3 && is_literal(entry) && out + 1 < out_end; ++i) {
        *out++ = static_cast<std::byte>(entry >> 8);
        bits >>= entry & 15;
        at += entry & 15;
        entry = lookup(bits);
      }
      bits >>= entry & 15;
      at += entry & 15;
      if (is_literal(entry)) {
        *out++ = static_cast<std::byte>(entry >> 8);
        continue;
      }
      const uint32_t extra = entry >> 4 & 15, length = (entry >> 8) + (static_cast<uint32_t>(bits) & low_mask(extra));
      bits >>= extra;
      const bool is_far = (bits & 1) != 0;
      at += extra + distance_bits<Width>(is_far);
      if (length == 0 || length > static_cast<uint32_t>(out_end - out)) return false;
      if (is_far && (Width == 1 || (Width == 8 && (bits & 2) == 0))) return false;
      if (out - out_begin < static_cast<std::ptrdiff_t>(is_far ? Width : 1)) return false;
      out = is_far ? repeat<Width>(out, length) : repeat<1>(out, length);
    }
    return at == end;
  }
  uint32_t lookup(uint64_t bits) const noexcept { return table_[bits % huffman_format::slots]; }
  template <uint32_t Distance> static std::byte* repeat(std::byte* out, uint32_t length) noexcept {
    if constexpr (Distance == 1) {
      std::memset(out, static_cast<int>(out[-1]), length);
    } else {
      for (uint32_t i = 0; i < length; ++i) out[i] = out[static_cast<std::ptrdiff_t>(i) - std::ptrdiff_t{Distance}];
    }
    return out + length;
  }

  uint32_t table_[huffman_format::slots];  // by the next bits, lowest first
  std::byte stream_[(1 << 16) + 8];
};

}  // namespace tuck::inline TUCK_ABI::deflate_format
