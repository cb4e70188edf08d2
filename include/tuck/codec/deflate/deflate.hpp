// SPDX-License-Identifier: Apache-2.0
// deflate-lite: valid DEFLATE (RFC 1951) with literals and runs only. The lanes of a warp decode its parts in parallel.
//
// A chunk begins with its stream, so any inflate can read it. The index after the stream tells lanes where to begin.
// layout.hpp has the format and the rules of the encoder. Host and device write the same bytes. The encoder finds only
// repeats at a distance of 1 byte or of one element. Text has many other repeats, tensors have few.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/deflate/layout.hpp>
#include <tuck/core/standard.hpp>

#if defined(TUCK_HOST)
#include <tuck/core/bit_writer.hpp>

#include <algorithm>
#endif

namespace tuck::inline TUCK_ABI {

/// Codec that writes valid DEFLATE with literals and runs: any inflate can restore a chunk. Lossless.
/// concept.hpp documents the members that are not described here.
/// @tparam T element type
template <element T> struct deflate : plain_codec<deflate<T>, T, codec_id::deflate> {
  template <element U> using rebind = deflate<U>;  ///< for by_width
  static constexpr uint32_t width = sizeof(T);     ///< distance of matches in bytes; the other distance is 1
  static constexpr bool stands_alone = true;       ///< no stage of a chain: other programs read the stream

#if defined(TUCK_HOST)
  /// Returns incompressible for more than 64 KiB of values.
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept;
  uint32_t encode_chunk(span<const T> values, bytes out, workspace memory) const noexcept;
  static constexpr uint32_t workspace_bytes(uint32_t) noexcept;
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

  /// Returns the DEFLATE stream at the beginning of a chunk that encode_chunk wrote. For other bytes, returns an
  /// unspecified part of them.
  static const_bytes stream_of(const_bytes encoded) noexcept;
#endif
};

#if defined(TUCK_HOST)
namespace deflate_format {

// Encoder for elements of Width bytes.
template <uint32_t Width> class host_encoder {
 public:
  // Encodes a chunk into memory of its size. Returns the size of the encoded chunk, or `incompressible`.
  uint32_t encode(const_bytes values, std::byte* to) noexcept;

 private:
  static constexpr uint32_t max_cells = deflate_format::cells_of(max_chunk_raw_bytes);
  static constexpr uint32_t max_sub_blocks = sub_block_plan::most(max_chunk_raw_bytes);
  static constexpr uint32_t far_token = 513;  // added to the near token of the same length, at most 512

  // Fills near_ and far_ for whole cells; bytes past the end are neither.
  void find_equal_bytes() noexcept {
    cells_ = deflate_format::cells_of(bytes_);
    uint64_t before = 0;
    for (uint32_t i = 0; i < 4 * cells_; ++i) {
      uint64_t x = 0;
      if (8 * i < bytes_) std::memcpy(&x, values_ + 8 * i, (std::min)(8u, bytes_ - 8 * i));
      reinterpret_cast<uint8_t*>(near_)[i] = zero_bytes(x ^ (x << 8 | before >> 56));
      const uint64_t earlier = Width == 8 ? before : x << 8 * (Width % 8) | before >> (64 - 8 * Width) % 64;
      reinterpret_cast<uint8_t*>(far_)[i] = Width > 1 ? zero_bytes(x ^ earlier) : 0;
      before = x;
    }
    std::fill(near_ + cells_, near_ + round_up_pow2(cells_, 5), 0u);
    near_[cells_ - 1] &= valid_bytes(cells_ - 1);
    far_[cells_ - 1] &= valid_bytes(cells_ - 1);
  }
  static uint8_t zero_bytes(uint64_t x) noexcept {
    constexpr uint64_t low = 0x7f7f7f7f7f7f7f7f;
    return static_cast<uint8_t>((~(((x & low) + low) | x | low) >> 7) * 0x0102040810204080 >> 56);
  }
  uint32_t cells_of(uint32_t sub_block) const noexcept { return begin_[sub_block + 1] - begin_[sub_block]; }
  uint32_t valid_bytes(uint32_t cell) const noexcept { return low_mask(bytes_ - cell * cell_bytes); }

  // Finds the sub-blocks, and the bytes at which tokens begin.
  void find_sub_blocks() noexcept {
    near_[0] &= ~1u;
    far_[0] &= ~low_mask(Width);
    uint32_t tokens = 0, before = 0;
    for (uint32_t c = 0; c < cells_; c += unit_cells) mark_unit(c);
    for (uint32_t c = 0; c < cells_; ++c) tokens += popcount(begins_[c]);
    const sub_block_plan plan(bytes_, tokens);
    sub_blocks_ = 0;
    for (uint32_t c = 0; c < cells_; ++c) {
      if (plan.at(c, before) == sub_blocks_) begin_[sub_blocks_++] = c;
      before += popcount(begins_[c]);
    }
    begin_[sub_blocks_] = cells_;
    for (uint32_t i = 1; i < sub_blocks_; ++i) {
      const uint32_t c = begin_[i];
      near_[c] &= ~1u;
      far_[c] &= ~low_mask(Width);
      if (i + 1 == sub_blocks_ || c / unit_cells != begin_[i + 1] / unit_cells) mark_unit(c / unit_cells * unit_cells);
    }
  }
  // Fills begins_ and far_run_ for a unit.
  void mark_unit(uint32_t first) noexcept {
    const uint32_t end = (std::min)(first + unit_cells, cells_);
    std::fill(begins_ + first, begins_ + end, 0u);
    find_runs(near_, near_run_, first, end);
    for (uint32_t c = first; c < first + unit_cells; ++c) other_[c] = c < end ? far_[c] & ~near_run_[c] : 0;
    find_runs(other_, far_run_, first, end);
    for (uint32_t c = first; c < end; ++c) begins_[c] |= ~(near_run_[c] | far_run_[c]);
    if (end == cells_) begins_[end - 1] &= valid_bytes(end - 1);
  }
  // Finds the bytes of a unit that are in runs. Adds those that begin one to begins_.
  void find_runs(const uint32_t* x, uint32_t* runs, uint32_t first, uint32_t end) noexcept {
    const auto after = [&](uint32_t c) { return c + 1 == end ? 0 : x[c + 1]; };
    for (uint32_t c = first; c < end; ++c) runs[c] = in_runs(c == first ? 0 : x[c - 1], x[c], after(c));
    for (uint32_t c = first + 2 * line_cells; c < end; c += 2 * line_cells) {
      if (!is_full(x + c - line_cells) && !is_full(x + c)) continue;
      runs[c - 1] = in_runs(x[c - 2], x[c - 1], 0);
      runs[c] = in_runs(0, x[c], after(c));
      begins_[c] |= runs[c] & 1;
    }
    for (uint32_t c = first; c < end; ++c) begins_[c] |= run_begins(c == first ? 0 : runs[c - 1], runs[c]);
  }

  // Lists the tokens in token_, and counts them.
  void find_tokens() noexcept {
    std::fill(std::begin(entries_), std::end(entries_), 0u);
    uint32_t count = 0, first = 0, run = 0;  // of the last token: its first byte, and far_run_ from there on
    const auto add = [&](uint32_t end) {
      const uint32_t length = end - first, for_far = (run & 1) * far_token;
      const uint32_t token = length == 1 ? static_cast<uint8_t>(values_[first]) : 256 + length + for_far;
      ++entries_[token];
      token_[count++] = static_cast<uint16_t>(token);
    };
    for (uint32_t i = 0; i < sub_blocks_; ++i) {
      token_begin_[i] = count;
      for (uint32_t c = begin_[i]; c < begin_[i + 1]; ++c)
        for (uint32_t x = begins_[c]; x != 0; x &= x - 1) {
          const uint32_t bit = trailing_zeros(x), at = c * cell_bytes + bit;
          if (at != begin_[i] * cell_bytes) add(at);
          first = at;
          run = far_run_[c] >> bit;
        }
      add((std::min)(begin_[i + 1] * cell_bytes, bytes_));
    }
    token_begin_[sub_blocks_] = count;
  }
  // Makes the code, and an encoder_entry of each token. Returns the number of bits of all codes.
  uint64_t make_entries() noexcept {
    uint32_t counts[counted_symbols] = {}, first_slots[counted_symbols];
    counts[end_of_block] = 1;
    for (uint32_t t = 0; t < far_token; ++t)
      if (const uint32_t count = entries_[t] + entries_[t + far_token]; count != 0) counts[symbol_of_token(t)] += count;
    huffman_format::round_lengths<counted_symbols>(counts, length_);
    huffman_format::visit_codes(length_, coded_symbols, [&](uint32_t s, uint32_t, uint32_t slot) {
      first_slots[s] = slot << (32 - max_length);
    });
    for (uint32_t t = 0; t < far_token; ++t) {
      if (t >= 256 && t < 256 + min_match) continue;
      const uint32_t s = symbol_of_token(t);
      if (length_[s] == 0) continue;
      entries_[t] = encoder_entry(t, first_slots[s], length_[s]);
      entries_[t + far_token] = far_entry<Width>(entries_[t]);
    }
    end_code_ = reverse_bits(first_slots[end_of_block]);
    uint64_t bits = 0;
    for (uint32_t s = 0; s < coded_symbols; ++s) bits += uint64_t{counts[s]} * length_[s];
    return bits;
  }

  // Writes stream_, and sets the bits of each segment and sub-block. Returns the size in bytes.
  uint32_t write_stream() noexcept {
    bit_writer out(stream_);
    uint64_t begin = prefix_bits;
    const auto bits_of_part = [&] {
      const uint64_t bits = out.position() - begin;
      begin += bits;
      return static_cast<uint32_t>(bits);
    };
    for (uint32_t i = 0; i < prefix_bits; i += 32)
      out.put(prefix_word<Width>(i / 32), (std::min)(32u, prefix_bits - i));
    for (uint32_t i = 0; i <= whole_segments; ++i) {
      const auto length = [&](uint32_t k) -> uint32_t {
        const uint32_t s = i * segment_symbols + k;
        return s < coded_symbols ? length_[s] : distance_length<Width>(s - coded_symbols);
      };
      visit_fields(segment_size<Width>(i), length, [&](const header_field& f) { out.put(f.bits, f.count); });
      segment_bits_[i] = bits_of_part();
    }
    for (uint32_t i = 0; i < sub_blocks_; ++i) {
      for (uint32_t t = token_begin_[i]; t < token_begin_[i + 1]; ++t) {
        const uint32_t entry = entries_[token_[t]];
        out.put(entry & low_mask(27), entry >> 27);
      }
      bits_[i] = bits_of_part();
    }
    out.put(end_code_, length_[end_of_block]);
    out.finish();
    return static_cast<uint32_t>(ceil_div(out.position(), uint64_t{8}));
  }
  void write_index(const chunk_footer& footer, std::byte* to) const noexcept {
    std::byte* const segments = to + footer.stream;
    std::fill(segments, to + footer.begin(), std::byte{});
    bit_writer out(segments);
    for (uint32_t i = 0; i < whole_segments; ++i) out.put(segment_bits_[i], segment_bits);
    for (uint32_t i = 0; i < sub_blocks_; ++i)
      out.put((cells_of(i) - 1) | bits_[i] << footer.cell_bits, footer.width());
    out.finish();
    store_unaligned(to + footer.begin(), footer.packed());
  }

  const std::byte* values_ = nullptr;
  uint32_t bytes_ = 0, cells_ = 0, sub_blocks_ = 0, end_code_ = 0;
  uint32_t near_[max_cells], far_[max_cells];  // a bit for each byte of a cell
  uint32_t near_run_[max_cells], far_run_[max_cells], begins_[max_cells];
  uint32_t other_[max_cells];  // far_ without near_run_
  uint32_t begin_[max_sub_blocks + 1], token_begin_[max_sub_blocks + 1], bits_[max_sub_blocks];
  uint16_t token_[max_chunk_raw_bytes];
  uint32_t entries_[2 * far_token];  // first the counts of tokens, then their encoder_entry
  uint8_t length_[counted_symbols];
  uint32_t segment_bits_[whole_segments + 1];
  std::byte stream_[max_chunk_raw_bytes / 8 * max_length + 512];  // each byte has a literal of max_length bits
};

// Decoder for elements of Width bytes.
template <uint32_t Width> class host_decoder {
 public:
  status decode(const_bytes encoded, bytes values) noexcept;

 private:
  // Up to the end of the stream, the index is long enough to be read with the next bits.
  uint64_t window(uint32_t at) const noexcept { return bit_window(stream_, at); }
  // Returns 32 bits of the index, which end at most 32 bits behind it.
  uint32_t of_index(uint32_t at) const noexcept {
    const uint32_t byte = (std::min)(at / 8, last_window_);
    return static_cast<uint32_t>(load_unaligned<uint64_t>(stream_ + byte) >> (at - 8 * byte));
  }

  // Reads the header into the table, and sets `at` to the first bit after it.
  bool read_header(const chunk_footer& footer, uint32_t& at) noexcept {
    for (uint32_t i = 0; i < prefix_bits; i += 32)
      if ((static_cast<uint32_t>(window(i)) & low_mask(prefix_bits - i)) != prefix_word<Width>(i / 32)) return false;
    uint8_t length[whole_segments * segment_symbols + segment_size<Width>(whole_segments)] = {};
    at = prefix_bits;
    for (uint32_t i = 0; i <= whole_segments; ++i) {
      const uint32_t to = read_segment<Width>(
          i, at, [&](uint32_t bit) { return bit < stream_bits_ ? static_cast<uint32_t>(window(bit)) : 0; },
          precode_entry, [&](uint32_t k, uint32_t l) { length[i * segment_symbols + k] = static_cast<uint8_t>(l); });
      if (to == 0 || (i < whole_segments && to - at != (of_index(footer.segment(i)) & low_mask(segment_bits))))
        return false;
      at = to;
    }
    for (uint32_t i = 0; i < distance_codes<Width>; ++i)
      if (length[coded_symbols + i] != distance_length<Width>(i)) return false;
    const auto fill = [&](uint32_t s, uint32_t l, uint32_t slot) {
      const uint32_t entry = decoder_entry(s, l);
      for (uint32_t i = reversed(slot, max_length); i < huffman_format::all_slots; i += 1u << l) table_[i] = entry;
    };
    return huffman_format::visit_codes(length, coded_symbols, fill) == huffman_format::all_slots &&
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
        bits >>= token_bits(entry);
        at += token_bits(entry);
        entry = lookup(bits);
      }
      at += token_bits(entry);
      if (is_literal(entry)) {
        *out++ = static_cast<std::byte>(entry >> 8);
        continue;
      }
      const uint32_t length = token_bytes(entry, static_cast<uint32_t>(bits >> code_bits(entry) % 32));
      const uint64_t last = bits >> (token_bits(entry) - 1);
      const bool is_far = (last & 1) != 0;
      if (is_end(entry) || length > static_cast<uint32_t>(out_end - out)) return false;
      if (Width == 8) at += is_far;
      if (is_far && (Width == 1 || (Width == 8 && (last & 2) == 0))) return false;
      if (out - out_begin < static_cast<std::ptrdiff_t>(is_far ? Width : 1)) return false;
      if constexpr (Width == 1)
        out = repeat<1>(out, length);
      else
        out = is_far ? repeat<Width>(out, length) : repeat<1>(out, length);
    }
    return at == end;
  }
  uint32_t lookup(uint64_t bits) const noexcept { return table_[bits % huffman_format::all_slots]; }
  template <uint32_t Distance> static std::byte* repeat(std::byte* out, uint32_t length) noexcept {
    if constexpr (Distance == 1) {
      std::memset(out, static_cast<int>(out[-1]), length);
    } else {
      for (uint32_t i = 0; i < length; ++i) out[i] = out[static_cast<std::ptrdiff_t>(i) - std::ptrdiff_t{Distance}];
    }
    return out + length;
  }

  uint32_t table_[huffman_format::all_slots];  // by the next bits, lowest first
  const std::byte* stream_ = nullptr;
  uint32_t stream_bits_ = 0, last_window_ = 0;  // the latter: where the last 8 bytes begin
};

template <uint32_t Width> uint32_t host_encoder<Width>::encode(const_bytes values, std::byte* to) noexcept {
  values_ = values.data();
  bytes_ = static_cast<uint32_t>(values.size());
  find_equal_bytes();
  find_sub_blocks();
  find_tokens();
  if (make_entries() >= 8 * bytes_) return incompressible;
  chunk_footer footer{write_stream(), 0, tuck::bit_width(*std::max_element(bits_, bits_ + sub_blocks_)), sub_blocks_};
  for (uint32_t i = 0; i < sub_blocks_; ++i)
    footer.cell_bits = (std::max)(footer.cell_bits, tuck::bit_width(cells_of(i) - 1));
  if (footer.begin() + 4 >= bytes_) return incompressible;
  std::memcpy(to, stream_, footer.stream);
  write_index(footer, to);
  return footer.begin() + 4;
}

template <uint32_t Width> status host_decoder<Width>::decode(const_bytes encoded, bytes values) noexcept {
  if (encoded.size() < 4 || encoded.size() > max_chunk_raw_bytes || values.size() > max_chunk_raw_bytes)
    return status::bad_payload;
  const auto size = static_cast<uint32_t>(values.size());
  const auto footer = chunk_footer::of(load_unaligned<uint32_t>(encoded.data() + encoded.size() - 4));
  if (!footer.fits(static_cast<uint32_t>(encoded.size()), size)) return status::bad_payload;
  stream_ = encoded.data();
  last_window_ = static_cast<uint32_t>(encoded.size()) - 8;
  stream_bits_ = 8 * footer.stream;
  uint32_t at = 0;
  if (!read_header(footer, at)) return status::bad_payload;
  uint32_t first = 0;
  for (uint32_t i = 0; i < footer.sub_blocks; ++i) {
    const auto entry = of_index(footer.entry(i));
    const uint32_t begin = first * cell_bytes;
    first += footer.cells(entry);
    if (begin >= size || (i + 1 == footer.sub_blocks) != (first == cells_of(size))) return status::bad_payload;
    const uint32_t to = at + footer.bits(entry);
    if (to > stream_bits_ ||
        !decode_sub_block(at, to, values.data() + begin, values.data() + (std::min)(first * cell_bytes, size)))
      return status::bad_payload;
    at = to;
  }
  const uint32_t entry = lookup(window(at));
  if (!is_end(entry) || ceil_div(at + token_bits(entry), 8u) != footer.stream) return status::bad_payload;
  const uint32_t padding = 8 * footer.begin() - footer.entry(footer.sub_blocks);
  return (of_index(footer.entry(footer.sub_blocks)) & low_mask(padding)) == 0 ? status::ok : status::bad_payload;
}

}  // namespace deflate_format

template <element T> constexpr uint32_t deflate<T>::workspace_bytes(uint32_t) noexcept {
  return workspace::bytes_of<deflate_format::host_encoder<width>>();
}
template <element T> uint32_t deflate<T>::encode_chunk(span<const T> values, bytes out) const noexcept {
  return detail::with_workspace(workspace_bytes(0), incompressible,
                                [&](workspace memory) { return encode_chunk(values, out, memory); });
}
template <element T>
uint32_t deflate<T>::encode_chunk(span<const T> values, bytes out, workspace memory) const noexcept {
  if (values.empty() || values.size_bytes() > max_chunk_raw_bytes) return incompressible;
  return memory.make<deflate_format::host_encoder<width>>().encode(as_bytes(values), out.data());
}

template <element T> status deflate<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  deflate_format::host_decoder<width> decoder;
  return decoder.decode(encoded, as_writable_bytes(restored));
}

template <element T> const_bytes deflate<T>::stream_of(const_bytes encoded) noexcept {
  if (encoded.size() < 4) return {};
  const auto footer = deflate_format::chunk_footer::of(load_unaligned<uint32_t>(encoded.data() + encoded.size() - 4));
  return footer.stream <= encoded.size() ? encoded.subspan(0, footer.stream) : const_bytes{};
}

#endif

static_assert(codec<deflate<float>>);

}  // namespace tuck::inline TUCK_ABI
