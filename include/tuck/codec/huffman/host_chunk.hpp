// A chunk on one thread. This code defines the bytes that layout.hpp describes.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/huffman/host_parts.hpp>

namespace tuck::inline TUCK_ABI::huffman_format {

inline constexpr uint32_t max_row_bytes = max_chunk_raw_bytes + 4096 + 16;  // values, side streams and padding
template <element T> class host_chunk {
  static constexpr uint32_t width = sizeof(T);
  using word = bits_t<T>;

 public:
  host_chunk(const section_list& sections) noexcept
      : sections_(sections), shape_{width, sections.size(0) / width, padded_sides(sections)} {}

  uint32_t encode(const std::byte* row, std::byte* to) noexcept {
    take_values(row);
    take_sides(row);
    choose();
    return write(to);
  }

  status decode(const_bytes encoded, std::byte* row) noexcept {
    if (!read(encoded)) return status::bad_payload;
    if (!edges_to_mask(room_.flags, room_.edges, shape_.edges, shape_.sides, mask_)) return status::bad_payload;
    if (shape_.has_heads() &&
        !join_heads(room_.heads, room_.planes[0], shape_.heads(), shape_.values, reinterpret_cast<uint8_t*>(upper_)))
      return status::bad_payload;
    give_sides(row);
    give_values(row);
    return status::ok;
  }

 private:
  void take_values(const std::byte* row) noexcept {
    int votes = 0;
    visit_sample([&](uint32_t i, bool) { votes += rotation_vote(load_unaligned<word>(row + width * i)); });
    const bool rotates = width > 1 && votes > 0;
    word any = 0;
    visit_blocks([&](uint32_t first, auto n) {
      word x[block], all = 0;
      std::memcpy(x, row + width * first, width * n);
      for (uint32_t i = 0; i < n; ++i) all |= x[i];
      any |= all;
    });
    const bool narrow = rotates && any >> (8 * width - 1) == 0;
    uint32_t dropped = 0;
    if (!rotates)
      while (dropped + 1 < width && any >> 8 * (width - 1 - dropped) == 0) ++dropped;
    shape_.header = shape::make_header(false, narrow, rotates, dropped, 0);
    const auto turn = static_cast<int>(rotates ? 1 : 8 * dropped);  // to the left, so that the upper byte is used
    visit_blocks([&](uint32_t first, auto n) {
      word x[block];
      std::memcpy(x, row + width * first, width * n);
      for (uint32_t i = 0; i < n; ++i) x[i] = std::rotl(x[i], turn);
      for (uint32_t p = 0; p < shape_.planes(); ++p) {
        uint8_t plane[block];
        for (uint32_t i = 0; i < n; ++i) plane[i] = static_cast<uint8_t>(x[i] >> 8 * (width - 1 - p));
        std::memcpy(room_.planes[p] + first, plane, n);
      }
    });
    for (uint32_t p = 0; p < width; ++p) std::memset(room_.planes[p] + shape_.values, 0, 4);
    if (!look()) return;
    const uint32_t heads = split_heads(room_.planes[0], shape_.values, room_.heads, reinterpret_cast<uint8_t*>(upper_));
    if (wants_heads(heads, shape_.values)) {
      shape_.header |= shape::make_header(true, false, false, 0, heads);
      std::memcpy(room_.planes[0], upper_, heads);
      std::memset(room_.planes[0] + heads, 0, 4);
    }
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
      heads += paired && room_.planes[0][i] != room_.planes[0][i - 1];
    });
    for (uint32_t p = 1; p < shape_.planes() && p + upper_part < most_coded; ++p) {
      uint32_t counts[256] = {}, squares = 0;
      visit_sample([&](uint32_t i, bool) { ++counts[room_.planes[p][i]]; });
      for (const uint32_t count : counts) squares += count * count;
      worth_ |= uint32_t{may_pay(sampled, squares)} << (p + upper_part);
    }
    return width > 1 && may_want_heads(heads, pairs);
  }
  void take_sides(const std::byte* row) noexcept {
    std::memset(mask_, 0, shape_.sides);
    auto* to = reinterpret_cast<std::byte*>(mask_);
    for (uint32_t i = 1; i < sections_.count; ++i) {
      std::memcpy(to, row + sections_.begin(i), sections_.size(i));
      to += round_up_pow2(sections_.size(i), 2);
    }
    mask_to_edges(mask_, shape_.sides, room_.flags, room_.edges, shape_.edges);
  }
  void give_sides(std::byte* row) const noexcept {
    const auto* from = reinterpret_cast<const std::byte*>(mask_);
    for (uint32_t i = 1; i < sections_.count; ++i) {
      std::memcpy(row + sections_.begin(i), from, sections_.size(i));
      from += round_up_pow2(sections_.size(i), 2);
    }
  }
  void give_values(std::byte* row) const noexcept {
    const auto* const upper = shape_.has_heads() ? reinterpret_cast<const uint8_t*>(upper_) : room_.planes[0];
    visit_blocks([&](uint32_t first, auto n) {
      word x[block];
      for (uint32_t i = 0; i < n; ++i) x[i] = upper[first + i];
      for (uint32_t p = 1; p < shape_.planes(); ++p) {
        uint8_t plane[block];
        std::memcpy(plane, room_.planes[p] + first, n);
        for (uint32_t i = 0; i < n; ++i) x[i] = static_cast<word>(x[i] << (width > 1 ? 8 : 0) | plane[i]);
      }
      if (shape_.rotated())
        for (uint32_t i = 0; i < n; ++i) x[i] = std::rotr(x[i], 1);
      std::memcpy(row + width * first, x, width * n);
    });
  }

  // Chooses the parts to code, and makes their codes.
  void choose() noexcept {
    uint32_t coded = 0;
    for (uint32_t p = 0; p < shape_.parts() && p < most_coded; ++p) {
      const uint32_t bytes = shape_.bytes(p);
      if (bytes != 0 && (p < nibble_parts ? code_part<16>(p, bytes) : code_part<256>(p, bytes))) coded |= 1u << p;
    }
    shape_.header |= coded;
  }
  template <uint32_t Symbols> bool code_part(uint32_t p, uint32_t bytes) noexcept {
    if (p > upper_part && (worth_ >> p & 1) == 0) return false;
    uint32_t counts[Symbols] = {}, more[3][Symbols] = {};  // increments of the same count would wait for each other
    const uint8_t* const from = room_.part(p);
    const auto add = [](uint32_t* to, uint32_t x) {
      ++to[x % Symbols];
      if constexpr (Symbols == 16) ++to[x / 16];
    };
    for (uint32_t i = 0; i < bytes % 4; ++i) add(counts, from[bytes - 1 - i]);
    for (uint32_t i = 0; i < bytes / 4 * 4; i += 4) {
      add(counts, from[i]);
      for (uint32_t k = 0; k < 3; ++k) add(more[k], from[i + 1 + k]);
    }
    for (uint32_t s = 0; s < Symbols; ++s) counts[s] += more[0][s] + more[1][s] + more[2][s];
    const code_maker<Symbols> made(counts);
    std::memcpy(made_.nibbles[p], made.length, Symbols);
    if (made.present == 1)
      for (uint32_t s = 0; s < Symbols; ++s)
        if (counts[s] != 0) made_.nibbles[p][s] = only_symbol;
    if (!pays(4 * shape_.stored_words(p), static_cast<uint32_t>(made.bits()), table_words(made_.nibbles[p], Symbols)))
      return false;
    made_.codes[p].assign(made.length, Symbols);
    return true;
  }

  // Calls visit(part, index of the word, bytes of it) for each word of the coded parts, part after part.
  template <class Visit> void visit_words(const Visit& visit) const noexcept {
    for (uint32_t p = 0; p < shape_.parts(); ++p) {
      if (!shape_.coded(p)) continue;
      const uint32_t bytes = shape_.bytes(p);
      for (uint32_t i = 0; i < bytes / 4; ++i) visit(p, i, std::integral_constant<uint32_t, 4>{});
      if (bytes % 4 != 0) visit(p, bytes / 4, bytes % 4);
    }
  }
  // Calls visit(entry, entry) for pairs of codes of such a word. The second entry may be 0: no bits.
  template <class Size, class Visit> void visit_pairs(uint32_t p, uint32_t i, Size n, const Visit& visit) noexcept {
    const uint32_t* const entry = made_.codes[p].entry;
    const uint8_t* const x = room_.part(p) + 4 * i;
    if (p < nibble_parts) {
      for (uint32_t k = 0; k < n; ++k) visit(entry[x[k] % 16], entry[x[k] / 16]);
    } else {
      for (uint32_t k = 0; k < n; k += 2) visit(entry[x[k]], k + 1 < n ? entry[x[k + 1]] : 0);
    }
  }

  uint32_t write(std::byte* to) noexcept {
    const uint32_t streams = shape_.streams();
    uint32_t bits[max_streams] = {}, least = ~0u, most = 0, all = 0;
    visit_words([&](uint32_t p, uint32_t i, auto n) {
      uint32_t sum = 0;
      visit_pairs(p, i, n, [&](uint32_t a, uint32_t b) { sum += a % 16 + b % 16; });
      bits[i % streams] += sum;
    });
    for (uint32_t t = 0; t < streams; ++t) {
      least = std::min(least, bits[t]);
      most = std::max(most, bits[t]);
      all += bits[t];
    }
    if (streams != 0) {
      shape_.shortest = least = least / 2 * 2;
      if (most - least > 255) shape_.header |= 1u << 10;
    }
    const uint32_t head[] = {shape_.header, shape_.sizes()};
    std::byte* at = append(to, head, sizeof head);
    for (uint32_t p = 0; p < shape_.parts(); ++p)
      if (shape_.coded(p)) {
        uint32_t table[33];
        const uint32_t* const end = write_table(made_.nibbles[p], p < nibble_parts ? 16 : 256, table);
        at = append(at, table, 4 * static_cast<uint64_t>(end - table));
      }
    for (uint32_t t = 0; t < streams; ++t) {
      const auto more = static_cast<uint16_t>(bits[t] - least);
      at = append(at, &more, shape_.wide() ? 2 : 1);
    }
    at = write_bits(at, streams, bits, all);
    for (uint32_t p = 0; p < shape_.parts(); ++p)
      if (!shape_.coded(p)) {
        if (shape_.stored_narrow(p)) narrow_plane(room_.part(p), shape_.values, made_.words);
        at = append(at, shape_.stored_narrow(p) ? static_cast<const void*>(made_.words) : room_.part(p),
                    4 * shape_.stored_words(p));
      }
    return static_cast<uint32_t>(at - to);
  }
  std::byte* write_bits(std::byte* at, uint32_t streams, const uint32_t* bits, uint32_t all) noexcept {
    const uint32_t words = (all + 31) / 32;
    std::memset(made_.words, 0, 4 * words);
    stream_writer out[max_streams];
    for (uint32_t t = 0, begin = 0; t < streams; begin += bits[t++]) out[t] = {made_.words + begin / 32, 0, begin % 32};
    visit_words([&](uint32_t p, uint32_t i, auto n) {
      stream_writer own = out[i % streams];
      visit_pairs(p, i, n, [&](uint32_t a, uint32_t b) { own.put(a, b); });
      out[i % streams] = own;
    });
    for (uint32_t t = 0; t < streams; ++t) out[t].finish();
    return append(at, made_.words, 4 * words);
  }
  static std::byte* append(std::byte* to, const void* from, uint64_t size) noexcept {
    std::memcpy(to, from, size);
    return to + size;
  }

  // Reads all parts from untrusted bytes. Returns false if they are malformed.
  bool read(const_bytes encoded) noexcept {
    if (encoded.size() % 4 != 0 || encoded.size() / 4 < shape::head_words) return false;
    const std::byte* at = encoded.data();
    auto left = static_cast<uint32_t>(encoded.size() / 4);
    shape_.read(load_unaligned<uint32_t>(at), load_unaligned<uint32_t>(at + 4));
    if (!shape_.fits()) return false;
    at += 4 * shape::head_words;
    left -= shape::head_words;
    for (uint32_t p = 0; p < shape_.parts(); ++p)
      if (shape_.coded(p)) {
        const uint32_t used = read_table(at, left, p < nibble_parts ? 16 : 256, read_.tables[p]);
        if (used == 0) return false;
        at += 4 * used;
        left -= used;
      }
    const uint32_t streams = shape_.streams();
    if (left < shape_.stream_words()) return false;
    const std::byte* const directory = at;
    at += 4 * shape_.stream_words();
    left -= shape_.stream_words();
    uint32_t stored = 0;
    for (uint32_t p = 0; p < shape_.parts(); ++p)
      if (!shape_.coded(p)) stored += shape_.stored_words(p);
    if (left < stored || !read_streams(directory, at, left - stored, streams)) return false;
    at += 4 * (left - stored);
    for (uint32_t p = 0; p < shape_.parts(); ++p)
      if (!shape_.coded(p)) {
        if (shape_.stored_narrow(p))
          widen_plane(reinterpret_cast<const uint32_t*>(at), shape_.values, room_.part(p));
        else if (shape_.bytes(p) != 0)
          std::memcpy(room_.part(p), at, shape_.bytes(p));
        at += 4 * shape_.stored_words(p);
      }
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
    for (uint32_t i = 0; i < words; ++i) read_.turned[i] = __builtin_bswap32(load_unaligned<uint32_t>(from + 4 * i));
    read_.turned[words] = read_.turned[words + 1] = 0;
    const auto* const bits = reinterpret_cast<const std::byte*>(read_.turned);
    visit_words([&](uint32_t p, uint32_t i, auto n) {
      const uint16_t* const entry = read_.tables[p].entry;
      uint32_t own = at[i % streams], x;
      if (p < nibble_parts) {  // the first two bytes, then the others
        x = take_symbols(bits, 4 * words, own, entry, std::min(2 * n, 4u), 4);
        if (n > 2) x |= take_symbols(bits, 4 * words, own, entry, 2 * n - 4, 4) << 16;
      } else {
        x = take_symbols(bits, 4 * words, own, entry, n, 8);
      }
      at[i % streams] = own;
      std::memcpy(room_.part(p) + 4 * i, &x, n);
    });
    return std::equal(at, at + streams, end);
  }

  const section_list& sections_;
  shape shape_;
  uint32_t worth_ = 0;  // one bit per part below the upper part: may coding it pay?
  part_room<width, max_row_bytes> room_;
  uint32_t mask_[max_row_bytes / 4];
  uint32_t upper_[max_row_bytes / width / 4 + 2];
  struct encoding {
    part_code codes[most_coded];
    uint8_t nibbles[most_coded][256];
    uint32_t words[max_row_bytes / 4];
  };
  struct decoding {
    lookup_table tables[most_coded];
    uint32_t turned[max_row_bytes / 4 + 2];  // the streams, each word in reversed byte order
  };
  union {
    encoding made_;
    decoding read_;
  };
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
