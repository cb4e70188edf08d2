// A chunk on one thread. This code defines the bytes that layout.hpp describes.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/huffman/host_parts.hpp>
#include <tuck/core/masks.hpp>

namespace tuck::inline TUCK_ABI::huffman_format {

inline constexpr uint32_t max_row_bytes = max_chunk_raw_bytes + 4096 + 16;  // values, side streams and padding

template <element T> class host_chunk {
  static constexpr uint32_t width = sizeof(T), max_values = max_row_bytes / width;
  using word = bits_t<T>;

 public:
  host_chunk(const section_list& sections) noexcept
      : sections_(sections), shape_{width, sections.size(0) / width, padded_sides(sections)} {}

  uint32_t encode(const std::byte* row, std::byte* to) noexcept {
    take_values(row);
    take_sides(row);
    for (uint32_t p = 0; p < shape_.parts() && p < most_coded; ++p)
      if (p < nibble_parts ? code_part<16>(p) : code_part<256>(p)) shape_.header |= 1u << p;
    return write(to);
  }

  status decode(const_bytes encoded, std::byte* row) noexcept {
    return read(encoded) && give_sides(row) && give_values(row) ? status::ok : status::bad_payload;
  }

 private:
  uint8_t* part(uint32_t p) noexcept {
    if (p == upper_part && shape_.has_heads()) return kept_;
    return p == 0 ? flags_ : p == 1 ? edges_ : p == 2 ? heads_ : planes_[p - upper_part];
  }
  span<uint8_t> edge_bytes() noexcept { return {reinterpret_cast<uint8_t*>(mask_), shape_.sides}; }
  span<uint8_t> upper_bytes() noexcept { return {planes_[0], shape_.values}; }

  void take_values(const std::byte* row) noexcept {
    int votes = 0;
    visit_sample([&](uint32_t i, bool) { votes += rotation_vote(load_unaligned<word>(row + width * i)); });
    const bool rotates = width > 1 && votes > 0;
    word any = 0;
    for (uint32_t i = 0; i < shape_.values; ++i) any |= load_unaligned<word>(row + width * i);
    uint32_t dropped = 0;
    if (!rotates)
      while (dropped + 1 < width && any >> 8 * (width - 1 - dropped) == 0) ++dropped;
    shape_.header = shape::make_header(false, rotates && any >> (8 * width - 1) == 0, rotates, dropped, 0);
    visit_blocks([&](uint32_t first, auto n) {
      word x[block];
      std::memcpy(x, row + width * first, width * n);
      for (uint32_t i = 0; i < n; ++i) x[i] = std::rotl(x[i], static_cast<int>(shape_.rotation()));
      for (uint32_t p = 0; p < shape_.planes(); ++p) {
        uint8_t plane[block];
        for (uint32_t i = 0; i < n; ++i) plane[i] = static_cast<uint8_t>(x[i] >> 8 * (width - 1 - p));
        std::memcpy(planes_[p] + first, plane, n);
      }
    });
    for (uint8_t(&plane)[max_values + 32] : planes_) std::memset(plane + shape_.values, 0, 32);
    if (!look()) return;
    uint32_t heads = masks_of<uint8_t>(upper_bytes(), ones::changes, as_bytes(heads_));
    if (planes_[0][0] == 0) ++heads;
    heads_[0] |= 1;
    if (!wants_heads(heads, shape_.values)) return;
    pack<uint8_t>(upper_bytes(), as_bytes(heads_), as_bytes(kept_), as_bytes(std::end(kept_)));
    std::memset(kept_ + heads, 0, 4);
    shape_.header |= shape::make_header(true, false, false, 0, heads);
  }
  bool give_values(std::byte* row) noexcept {
    const auto rotation = static_cast<int>(shape_.rotation());
    if (shape_.has_heads()) {
      if ((heads_[0] & 1) == 0 || !has_ones(heads_, shape_.values, shape_.heads())) return false;
      spread<ones::changes>(as_bytes(heads_), as_bytes(kept_), as_bytes(kept_ + shape_.heads()), upper_bytes());
    }
    detail::vectorized([&] {
      visit_blocks([&](uint32_t first, auto n) {
        uint8_t bytes[width][block];
        word x[block];
        for (uint32_t p = 0; p < width; ++p) std::memcpy(bytes[p], planes_[p] + first, n);
        for (uint32_t i = 0; i < n; ++i) {
          word value = 0;
          for (const uint8_t(&plane)[block] : bytes) value = static_cast<word>(value << (width > 1 ? 8 : 0) | plane[i]);
          x[i] = std::rotr(value, rotation);
        }
        std::memcpy(row + width * first, x, width * n);
      });
    });
    return true;
  }
  // Calls visit(first, number) for blocks of values. The number is a constant, except in the last block, so that
  // compilers vectorize.
  static constexpr uint32_t block = 64;
  template <class Visit> void visit_blocks(const Visit& visit) const noexcept {
    uint32_t first = 0;
    for (; first + block <= shape_.values; first += block) visit(first, std::integral_constant<uint32_t, block>{});
    if (first != shape_.values) visit(first, shape_.values - first);
  }
  // Calls visit(index, paired) for each value of the sample. `paired`: it is not the first of its run.
  template <class Visit> void visit_sample(const Visit& visit) const noexcept {
    for (uint32_t begin = 0; begin < shape_.values; begin += sample_stride<width>)
      for (uint32_t i = begin; i < std::min(begin + sample_run, shape_.values); ++i) visit(i, i != begin);
  }
  // Finds the planes that may pay. Returns whether to look for heads.
  bool look() noexcept {
    uint32_t sampled = 0, pairs = 0, heads = 0;
    visit_sample([&](uint32_t i, bool paired) {
      ++sampled;
      pairs += paired;
      heads += paired && planes_[0][i] != planes_[0][i - 1];
    });
    for (uint32_t p = 1; p < shape_.planes() && p + upper_part < most_coded; ++p) {
      uint32_t counts[256] = {}, squares = 0;
      visit_sample([&](uint32_t i, bool) { ++counts[planes_[p][i]]; });
      for (const uint32_t count : counts) squares += count * count;
      worth_ |= uint32_t{may_pay(sampled, squares)} << (p + upper_part);
    }
    return shape_.values != 0 && width > 1 && may_want_heads(heads, pairs);
  }

  void take_sides(const std::byte* row) noexcept {
    const uint32_t words = shape_.sides / 4;
    std::memset(mask_, 0, shape_.sides);
    visit_sides([&](uint32_t begin, std::byte* side, uint32_t size) { std::memcpy(side, row - begin, size); });
    for (uint32_t i = words; i-- > 0;) mask_[i] ^= mask_[i] << 1 | (i != 0 ? mask_[i - 1] >> 31 : 0);
    shape_.edges = masks_of<uint8_t>(edge_bytes(), ones::non_zeros, as_bytes(flags_));
    pack<uint8_t>(edge_bytes(), as_bytes(flags_), as_bytes(edges_), as_bytes(std::end(edges_)));
    std::memset(edges_ + shape_.edges, 0, 4);
  }
  bool give_sides(std::byte* row) noexcept {
    if (!has_ones(flags_, shape_.sides, shape_.edges)) return false;
    spread<ones::non_zeros>(as_bytes(flags_), as_bytes(edges_), as_bytes(edges_ + shape_.edges), edge_bytes());
    for (uint32_t i = 0, carry = 0; i < shape_.sides / 4; ++i) {
      uint32_t x = mask_[i];
      for (uint32_t shift = 1; shift < 32; shift *= 2) x ^= x << shift;
      mask_[i] = x ^ (0 - carry);
      carry = mask_[i] >> 31;
    }
    visit_sides([&](uint32_t begin, const std::byte* side, uint32_t size) { std::memcpy(row - begin, side, size); });
    return true;
  }
  // Calls visit(where it begins before the values, its place in mask_, its bytes) for each side stream.
  template <class Visit> void visit_sides(const Visit& visit) noexcept {
    auto* side = reinterpret_cast<std::byte*>(mask_);
    for (uint32_t i = 1; i < sections_.count; side += round_up_pow2(sections_.size(i++), 2))
      visit(sections_.before_values(i), side, sections_.size(i));
  }

  // Makes the code of a part and its table. Returns whether coding it pays.
  template <uint32_t Symbols> bool code_part(uint32_t p) noexcept {
    const uint32_t bytes = shape_.bytes(p);
    if (bytes == 0 || (p > upper_part && (worth_ >> p & 1) == 0)) return false;
    uint32_t counts[4][Symbols] = {};  // four, because increments of the same count wait for each other
    const uint8_t* const from = part(p);
    for (uint32_t i = 0; i < bytes; ++i) {
      ++counts[i % 4][from[i] % Symbols];
      if constexpr (Symbols == 16) ++counts[i % 4][from[i] / 16];
    }
    for (uint32_t s = 0; s < Symbols; ++s) counts[0][s] += counts[1][s] + counts[2][s] + counts[3][s];
    code_maker<Symbols> made(counts[0]);
    for (uint32_t s = 0; s < Symbols && made.present == 1; ++s)
      if (counts[0][s] != 0) made.length[s] = only_symbol;
    const uint32_t words = made_.table_words[p] = write_table(made.length, Symbols, made_.tables[p]);
    if (!pays(4 * shape_.stored_words(p), static_cast<uint32_t>(made.bits()), words)) return false;
    uint32_t* const entry = made_.codes[p];
    std::fill_n(entry, Symbols, 0u);
    visit_codes(made.length, Symbols,
                [&](uint32_t s, uint32_t l, uint32_t slot) { entry[s] = slot >> (max_length - l) << 4 | l; });
    return true;
  }

  uint32_t write(std::byte* to) noexcept {
    const uint32_t streams = shape_.streams();
    uint32_t bits[max_streams] = {};
    const uint32_t words = encode_streams(streams, bits);
    if (streams != 0) {
      const auto [least, most] = std::minmax_element(bits, bits + streams);
      shape_.shortest = *least / 2 * 2;
      if (*most - shape_.shortest > 255) shape_.header |= 1u << 10;
    }
    const uint32_t head[] = {shape_.header, shape_.sizes()};
    std::byte* at = append(to, head, sizeof head);
    for (uint32_t p = 0; p < shape_.parts(); ++p)
      if (shape_.coded(p)) at = append(at, made_.tables[p], 4 * made_.table_words[p]);
    for (uint32_t t = 0; t < streams; ++t) {
      const uint32_t more = bits[t] - shape_.shortest;
      at = append(at, &more, shape_.wide() ? 2 : 1);
    }
    at = append(at, made_.words, 4 * words);
    for (uint32_t p = 0; p < shape_.parts(); ++p) {
      if (shape_.coded(p)) continue;
      if (shape_.narrow_if_stored(p)) narrow_plane(part(p), shape_.values, made_.words);
      at = append(at, shape_.narrow_if_stored(p) ? static_cast<const void*>(made_.words) : part(p),
                  4 * shape_.stored_words(p));
    }
    return static_cast<uint32_t>(at - to);
  }
  static std::byte* append(std::byte* to, const void* from, uint32_t size) noexcept {
    std::memcpy(to, from, size);
    return to + size;
  }
  // Encodes the streams one after the other. Sets the bits of each. Returns the words of all.
  uint32_t encode_streams(uint32_t streams, uint32_t (&bits)[max_streams]) noexcept {
    auto* const begin = reinterpret_cast<std::byte*>(made_.words);
    bit_appender out{begin};
    uint32_t all = 0;
    for (uint32_t t = 0; t < streams; ++t) {
      for (uint32_t p = 0; p < shape_.parts(); ++p) {
        if (!shape_.coded(p)) continue;
        const uint32_t size = shape_.bytes(p);
        for (uint32_t i = 4 * t; i < size; i += 4 * streams) {
          const auto x = load_unaligned<uint32_t>(as_bytes(part(p) + i));
          const uint32_t end = 8 * std::min(size - i, 4u);
          if (p >= nibble_parts)
            out.put<8>(made_.codes[p], x, end / 8);
          else
            for (uint32_t bit = 0; bit < end; bit += 16) out.put<4>(made_.codes[p], x >> bit, (end - bit) / 4);
        }
      }
      const auto end = static_cast<uint32_t>(8 * (out.to - begin)) + out.fill;
      bits[t] = end - all;
      all = end;
    }
    out.finish();
    for (uint32_t i = 0; i < (all + 31) / 32; ++i) made_.words[i] = __builtin_bswap32(made_.words[i]);
    return (all + 31) / 32;
  }

  // Reads all parts from untrusted bytes. Returns false if they are malformed.
  bool read(const_bytes encoded) noexcept {
    if (encoded.size() % 4 != 0 || encoded.size() / 4 < shape::head_words) return false;
    const std::byte* at = encoded.data();
    auto left = static_cast<uint32_t>(encoded.size() / 4);
    const auto skip = [&](uint32_t words) {
      left -= words;
      return std::exchange(at, at + 4 * words);
    };
    shape_.read(load_unaligned<uint32_t>(at), load_unaligned<uint32_t>(at + 4));
    if (!shape_.fits()) return false;
    skip(shape::head_words);
    uint32_t stored = 0;
    for (uint32_t p = 0; p < shape_.parts(); ++p) {
      if (!shape_.coded(p)) {
        stored += shape_.stored_words(p);
        continue;
      }
      const uint32_t used = read_table(at, left, p < nibble_parts ? 16 : 256, read_.tables[p]);
      if (used == 0) return false;
      skip(used);
    }
    if (left < shape_.stream_words()) return false;
    const std::byte* const directory = skip(shape_.stream_words());
    if (left < stored || !read_streams(directory, at, left - stored, shape_.streams())) return false;
    skip(left - stored);
    for (uint32_t p = 0; p < shape_.parts(); ++p) {
      if (!shape_.coded(p)) {
        const std::byte* const from = skip(shape_.stored_words(p));
        if (shape_.narrow_if_stored(p)) {
          std::memcpy(read_.turned, from, 4 * shape_.stored_words(p));
          widen_plane(read_.turned, shape_.values, part(p));
        } else if (shape_.bytes(p) != 0) {
          std::memcpy(part(p), from, shape_.bytes(p));
        }
      }
      std::memset(part(p) + shape_.bytes(p), 0, 4);  // masks are read by words
    }
    for (uint32_t p = shape_.planes(); p < width; ++p) std::memset(planes_[p], 0, shape_.values);
    return true;
  }
  bool read_streams(const std::byte* directory, const std::byte* from, uint32_t words, uint32_t streams) noexcept {
    uint32_t at[max_streams], end[max_streams], all = 0;
    for (uint32_t t = 0; t < streams; ++t) {
      at[t] = all;
      all += shape_.shortest +
             (shape_.wide() ? load_unaligned<uint16_t>(directory + 2 * t) : static_cast<uint8_t>(directory[t]));
      end[t] = all;
    }
    if ((all + 31) / 32 != words || words > max_row_bytes / 4) return false;
    detail::vectorized([&] {
      for (uint32_t i = 0; i < words; ++i) read_.turned[i] = __builtin_bswap32(load_unaligned<uint32_t>(from + 4 * i));
    });
    read_.turned[words] = read_.turned[words + 1] = 0;
    for (uint32_t p = 0; p < shape_.parts(); ++p)
      if (shape_.coded(p)) p < nibble_parts ? read_part<4>(p, streams, words, at) : read_part<8>(p, streams, words, at);
    return std::equal(at, at + streams, end);
  }
  // Reads the symbols of a part from the streams, which begin at bits at[0], at[1], ...
  template <uint32_t SymbolBits>
  void read_part(uint32_t p, uint32_t streams, uint32_t words, uint32_t (&at)[max_streams]) noexcept {
    const auto* const bits = reinterpret_cast<const std::byte*>(read_.turned);
    const uint16_t* const entry = read_.tables[p];
    uint8_t* const to = part(p);
    const auto read_word = [=, &at](uint32_t i, auto n) {  // with n bytes
      uint32_t x = 0;
      for (uint32_t bit = 0; bit < 8 * n; bit += 4 * SymbolBits)
        x |= take_symbols<SymbolBits>(bits, 4 * words, at[i & (streams - 1)], entry, (8 * n - bit) / SymbolBits) << bit;
      std::memcpy(to + 4 * i, &x, n);
    };
    const uint32_t size = shape_.bytes(p);
    for (uint32_t i = 0; i < size / 4; ++i) read_word(i, std::integral_constant<uint32_t, 4>{});
    if (size % 4 != 0) read_word(size / 4, size % 4);
  }

  const section_list& sections_;
  shape shape_;
  uint32_t worth_ = 0;  // one bit per part below the upper part: may coding it pay?
  // The parts, and before them the string of side streams. After each part there is capacity for padding.
  uint32_t mask_[max_row_bytes / 4];
  uint8_t flags_[max_row_bytes / 8 + 8], edges_[max_row_bytes + 4];
  uint8_t heads_[max_values / 8 + 8], kept_[max_values + 32];  // spread reads, and ignores, the byte before kept_
  uint8_t planes_[width][max_values + 32];
  struct encoding {
    uint32_t codes[most_coded][256];
    uint32_t tables[most_coded][33], table_words[most_coded];
    uint32_t words[max_row_bytes / 4 + 8];
  };
  struct decoding {
    uint16_t tables[most_coded][slots];
    uint32_t turned[max_row_bytes / 4 + 8];  // the streams, each word in reversed byte order; then narrow planes
  };
  union {
    encoding made_;
    decoding read_;
  };
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
