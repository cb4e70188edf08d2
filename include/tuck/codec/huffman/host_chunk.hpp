// A chunk on one thread. This code defines the bytes that layout.hpp describes.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/huffman/host_parts.hpp>
#include <tuck/core/masks.hpp>

namespace tuck::inline TUCK_ABI::huffman_format {

inline constexpr uint32_t max_row_bytes = max_chunk_raw_bytes + 4096 + 16;  // values, side streams and padding

template <element T> class host_chunk {
  static constexpr uint32_t width = sizeof(T), max_values = max_row_bytes / width;
  using value = bits_t<T>;
  using word = std::conditional_t<width == 8, uint64_t, uint32_t>;
  using lanes = lanes_of<word, width>;

 public:
  host_chunk(const section_list& sections) noexcept
      : sections_(sections), shape_{width, sections.size(0) / width, padded_sides(sections)} {}

  // Returns the size of the encoded row in bytes. Writes it if it is not larger than `limit`.
  uint32_t encode(const std::byte* row, mapping how, std::byte* to, uint32_t limit) noexcept {
    take_values(row, how);
    take_sides(row);
    const uint32_t bytes = 4 * measure();
    if (bytes <= limit) write(row, to);
    return bytes;
  }

  status decode(const_bytes encoded, std::byte* row) noexcept {
    return read(encoded, row) && give_sides(row) ? status::ok : status::bad_payload;
  }

 private:
  static constexpr uint32_t flags_part = 0, marks_part = 1;
  span<uint8_t> mark_bytes() noexcept { return {reinterpret_cast<uint8_t*>(mask_), shape_.sides}; }
  uint8_t* part(uint32_t p) noexcept { return p == flags_part ? flags_ : marks_; }
  uint32_t part_bytes(uint32_t p) const noexcept { return p == flags_part ? shape_.flag_bytes() : shape_.marks(); }
  bool codes_part(uint32_t p) const noexcept { return p == flags_part ? shape_.codes_flags() : shape_.codes_marks(); }

  // Finds the numbers, and the code of their symbols.
  void take_values(const std::byte* row, mapping how) noexcept {
    const uint32_t n = shape_.values;
    const uint32_t bin = how.exponent != 0 ? find_bin(row, how.exponent) : 0;
    const uint32_t top = top_of_bin(bin, how.exponent);
    word any = 0;
    for (uint32_t i = 0; i < n; ++i) {
      const auto y =
          static_cast<value>(lanes::number(load_unaligned<value>(row + width * i), how.exponent, how.zigzag, top));
      numbers_[i] = y;
      any |= y;
    }
    uint32_t shift = how.exponent != 0 ? float_shift(width, how.exponent) : 0;
    if (how.exponent == 0) {
      uint32_t of_width[65] = {}, above = 0;
      for (uint32_t i = 0; i < n; ++i) ++of_width[bit_width(static_cast<word>(numbers_[i]))];
      for (uint32_t b = 8 * width; b > symbol_bits; --b) {
        above += of_width[b];
        if (64 * above > n) {
          shift = round_up(b - symbol_bits);
          break;
        }
      }
    }
    uint32_t dropped = 0;
    while (dropped < shift / 8 && (any >> 8 * dropped & 255) == 0) ++dropped;
    shape_.head[0] = shape::values_head(how, bin, shift) | dropped << 6;
    if (n == 0) return;
    uint32_t counts[symbols] = {};
    for (uint32_t i = 0; i < n; ++i) ++counts[symbol_of(numbers_[i])];
    uint32_t escapes = counts[escape];
    if (counts[escape] == 0) counts[escape] = 1;
    round_lengths<symbols, max_length>(counts, length_);
    uint32_t bits = escapes * shape_.escape_bits(), last = 0;
    for (uint32_t s = 0; s < symbols; ++s) {
      bits += counts[s] * length_[s];
      if (length_[s] != 0 && s != escape) last = std::max(last, place_of(s, how.exponent));
    }
    if (pays(n, bits, last / 8 + 1, shape_.saved_bits())) {
      shape_.head[0] |= uint32_t{length_[escape]} << 25 | last / 8 << 29;
      bits_ += bits;
    } else {
      shape_.head[0] = shape::plain_mapping << 9;
    }
  }
  uint32_t find_bin(const std::byte* row, uint32_t exponent) const noexcept {
    uint32_t counts[bins] = {}, best = 0, most = 0, in_window = 0;
    constexpr uint32_t group = sample_group(width);
    for (uint32_t g = 0; g * group + g % group < shape_.values; ++g) {
      const uint32_t i = g * group + g % group;
      const auto field = static_cast<word>(load_unaligned<value>(row + width * i)) >> (8 * width - 1 - exponent);
      ++counts[(field & low_mask(exponent)) >> bin_shift(exponent)];
    }
    for (uint32_t b = 0; b < bins; ++b) {
      in_window += counts[b] - (b >= window_bins ? counts[b - window_bins] : 0);
      if (in_window > most) most = in_window, best = b;
    }
    return best;
  }
  static constexpr uint32_t round_up(uint32_t shift) noexcept {
    return (shift + shift_step(width) - 1) / shift_step(width) * shift_step(width);
  }
  uint32_t symbol_of(value y) const noexcept {
    const auto s = static_cast<word>(y) >> shape_.shift();
    return s < escape ? static_cast<uint32_t>(s) : escape;
  }

  void take_sides(const std::byte* row) noexcept {
    const uint32_t words = shape_.sides / 4;
    std::memset(mask_, 0, shape_.sides);
    visit_sides([&](uint32_t begin, std::byte* side, uint32_t size) { std::memcpy(side, row - begin, size); });
    const uint32_t rule = find_rule(mask_, words);
    to_marks(mask_, words, rule);
    shape_.head[1] = rule << 15 | masks_of<uint8_t>(mark_bytes(), ones::non_zeros, as_bytes(flags_));
    pack<uint8_t>(mark_bytes(), as_bytes(flags_), as_bytes(marks_), as_bytes(std::end(marks_)));
    std::memset(marks_ + shape_.marks(), 0, 4);
    std::memset(flags_ + shape_.flag_bytes(), 0, 4);
    for (const uint32_t p : {flags_part, marks_part}) {
      uint32_t counts[nibbles] = {}, bits = 0;
      for (uint32_t i = 0; i < part_bytes(p); ++i) ++counts[part(p)[i] & 15], ++counts[part(p)[i] >> 4];
      round_lengths<nibbles, nibble_length>(counts, nibble_lengths_[p]);
      for (uint32_t s = 0; s < nibbles; ++s) bits += counts[s] * nibble_lengths_[p][s];
      if (!nibbles_pay(part_bytes(p), bits)) continue;
      shape_.head[0] |= 1u << (12 + p);
      bits_ += bits;
    }
  }
  bool give_sides(std::byte* row) noexcept {
    if (!has_ones(flags_, shape_.sides, shape_.marks())) return false;
    spread<ones::non_zeros>(as_bytes(flags_), as_bytes(marks_), as_bytes(marks_ + shape_.marks()), mark_bytes());
    from_marks(mask_, shape_.sides / 4, shape_.rule());
    visit_sides([&](uint32_t begin, const std::byte* side, uint32_t size) { std::memcpy(row - begin, side, size); });
    return true;
  }
  // Calls visit(where it begins before the values, its place in mask_, its bytes) for each side stream.
  template <class Visit> void visit_sides(const Visit& visit) noexcept {
    auto* side = reinterpret_cast<std::byte*>(mask_);
    for (uint32_t i = 1; i < sections_.count; side += round_up_pow2(sections_.size(i++), 2))
      visit(sections_.before_values(i), side, sections_.size(i));
  }

  // Calls value(quad) and nibbles(part, byte) for what stream t has, in this order.
  template <class Quad, class Byte> void visit_stream(uint32_t t, const Quad& quad, const Byte& byte) const noexcept {
    const uint32_t streams = at_.streams;
    if (shape_.codes_values())
      for (uint32_t i = 4 * t; i < shape_.values; i += 4 * streams) quad(i, std::min(shape_.values - i, 4u));
    for (const uint32_t p : {flags_part, marks_part})
      if (codes_part(p))
        for (uint32_t i = 4 * t; i < part_bytes(p); i += 4 * streams)
          for (uint32_t k = i; k < std::min(i + 4, part_bytes(p)); ++k) byte(p, k);
  }

  // Sets the head. Returns the words of the chunk.
  uint32_t measure() noexcept {
    const auto entry = [](uint32_t slot, uint32_t l) { return slot >> (max_length - l) << 4 | l; };
    if (shape_.codes_values()) {
      std::fill_n(code_, symbols, 0u);
      visit_codes(length_, symbols, [&](uint32_t s, uint32_t l, uint32_t slot) { code_[s] = entry(slot, l); });
    }
    for (const uint32_t p : {flags_part, marks_part})
      visit_codes(nibble_lengths_[p], nibbles,
                  [&](uint32_t s, uint32_t l, uint32_t slot) { nibble_code_[p][s] = entry(slot, l); });
    uint32_t cost[symbols];
    for (uint32_t s = 0; s < symbols; ++s)
      cost[s] = s == escape || code_[s] == 0 ? (code_[escape] & 15) + shape_.escape_bits() : code_[s] & 15;
    const uint32_t streams = at_.streams = shape_.has_streams() ? streams_of(shape_.find().directory + bits_ / 32) : 0;
    uint32_t least = ~0u, most = 0;
    bits_ = 0;
    for (uint32_t t = 0; t < streams; ++t) {
      uint32_t bits = 0;
      visit_stream(
          t,
          [&](uint32_t i, uint32_t count) {
            for (uint32_t k = 0; k < count; ++k) bits += cost[symbol_of(numbers_[i + k])];
          },
          [&](uint32_t p, uint32_t i) {
            const uint8_t x = part(p)[i];
            bits += (nibble_code_[p][x & 15] & 15) + (nibble_code_[p][x >> 4] & 15);
          });
      stream_bits_[t] = bits;
      bits_ += bits;
      least = std::min(least, bits);
      most = std::max(most, bits);
    }
    if (streams != 0 && !shape_.set_streams(streams, least, most)) return 1u << 20;
    at_ = shape_.find();
    return at_.bits + (bits_ + 31) / 32;
  }

  void write(const std::byte* row, std::byte* to) noexcept {
    std::memset(to, 0, 4 * (size_t{at_.bits} + (bits_ + 31) / 32));
    std::memcpy(to, shape_.head, sizeof shape_.head);
    std::byte* at = to + 4 * shape::head_words;
    if (shape_.plain())
      std::memcpy(at, row, width * shape_.values);
    else
      visit_planes([&](uint32_t from, uint32_t k, uint32_t words) {
        write_plane(from, k, at);
        at += 4 * words;
      });
    for (const uint32_t p : {flags_part, marks_part})
      if (!codes_part(p)) std::memcpy(to + 4 * (p == flags_part ? at_.flags : at_.marks), part(p), part_bytes(p));
    at = to + 4 * at_.tables;
    if (shape_.codes_values()) {
      uint8_t places[symbols] = {};
      for (uint32_t s = 0; s < escape; ++s) places[place_of(s, shape_.exponent())] = length_[s];
      at = write_lengths(places, 8 * shape_.table_words(), at);
    }
    for (const uint32_t p : {flags_part, marks_part})
      if (codes_part(p)) at = write_lengths(nibble_lengths_[p], nibbles, at);
    bit_writer directory(at);
    for (uint32_t t = 0; t < at_.streams; ++t) directory.put(stream_bits_[t] - shape_.least(), shape_.more());
    directory.finish();
    word_writer out{to + 4 * at_.bits};
    for (uint32_t t = 0; t < at_.streams; ++t)
      visit_stream(
          t,
          [&](uint32_t i, uint32_t count) {
            for (uint32_t k = 0; k < count; ++k) {
              const uint32_t s = symbol_of(numbers_[i + k]), e = code_[s];
              if (s != escape && e != 0) {
                out.put(e >> 4, e & 15);
              } else {
                const uint32_t bits = shape_.escape_bits();
                const uint64_t x = static_cast<word>(numbers_[i + k]) >> shape_.shift();
                out.put(code_[escape] >> 4, code_[escape] & 15);
                if (bits > 32) out.put(static_cast<uint32_t>(x >> 32), bits - 32);
                out.put(static_cast<uint32_t>(x), std::min(bits, 32u));
              }
            }
          },
          [&](uint32_t p, uint32_t i) {
            for (const uint32_t s : {uint32_t{part(p)[i]} & 15, uint32_t{part(p)[i]} >> 4})
              out.put(nibble_code_[p][s] >> 4, nibble_code_[p][s] & 15);
          });
    out.finish();
  }
  static std::byte* write_lengths(const uint8_t* length, uint32_t count, std::byte* to) noexcept {
    for (uint32_t s = 0; s < count; s += 2) *to++ = static_cast<std::byte>(length[s] | length[s + 1] << 4);
    return to;
  }
  // Calls visit(lowest bit in a number, bits, words) for each plane of the rests.
  template <class Visit> void visit_planes(const Visit& visit) const noexcept {
    for (uint32_t b = shape_.dropped(); b < shape_.shift() / 8; ++b) visit(8 * b, 8, shape_.plane_words(8));
    uint32_t from = shape_.shift() / 8 * 8;
    for (uint32_t k = 4; k != 0; k /= 2)
      if ((shape_.shift() & k) != 0) {
        visit(from, k, shape_.plane_words(k));
        from += k;
      }
  }
  void write_plane(uint32_t from, uint32_t k, std::byte* to) const noexcept {
    bit_writer out(to);
    for (uint32_t i = 0; i < shape_.values; ++i) out.put(numbers_[i] >> from & low_mask(k), k);
    out.finish();
  }

  // Reads all parts from untrusted bytes. Returns false if they are malformed.
  bool read(const_bytes encoded, std::byte* row) noexcept {
    if (encoded.size() % 4 != 0 || encoded.size() / 4 < shape::head_words) return false;
    std::memcpy(shape_.head, encoded.data(), sizeof shape_.head);
    if (!shape_.fits()) return false;
    at_ = shape_.find();
    if (at_.bits > encoded.size() / 4) return false;
    const std::byte* at = encoded.data() + 4 * at_.tables;
    if (shape_.codes_values()) {
      uint8_t places[symbols] = {};
      at = read_lengths(at, 8 * shape_.table_words(), places);
      for (uint32_t s = 0; s < escape; ++s) {
        length_[s] = places[place_of(s, shape_.exponent())];
        if (length_[s] != 0 && !shape_.can_have(s)) return false;
      }
      length_[escape] = static_cast<uint8_t>(shape_.escape_length());
      if (!fill(length_, symbols, max_length, entry_)) return false;
    }
    for (const uint32_t p : {flags_part, marks_part})
      if (codes_part(p)) {
        at = read_lengths(at, nibbles, nibble_lengths_[p]);
        if (!fill(nibble_lengths_[p], nibbles, nibble_length, nibble_entry_[p])) return false;
      } else {
        std::memcpy(part(p), encoded.data() + 4 * (p == flags_part ? at_.flags : at_.marks), part_bytes(p));
      }
    const uint32_t words = static_cast<uint32_t>(encoded.size() / 4) - at_.bits;
    if (!read_streams(at, encoded.data() + 4 * at_.bits, words)) return false;
    for (const uint32_t p : {flags_part, marks_part}) std::memset(part(p) + part_bytes(p), 0, 4);
    at = encoded.data() + 4 * shape::head_words;
    if (shape_.plain()) {
      std::memcpy(row, at, width * shape_.values);
      return true;
    }
    for (uint32_t i = 0; i < shape_.values; ++i)
      numbers_[i] = static_cast<value>(static_cast<word>(numbers_[i]) << shape_.shift());
    visit_planes([&](uint32_t from, uint32_t k, uint32_t plane) {
      for (uint32_t i = 0; i < shape_.values; ++i)
        numbers_[i] |= static_cast<value>(
            static_cast<word>(static_cast<uint32_t>(at[i * k / 8]) >> i * k % 8 & low_mask(k)) << from);
      at += 4 * plane;
    });
    for (uint32_t i = 0; i < shape_.values; ++i)
      store_unaligned(row + width * i,
                      static_cast<value>(lanes::value(numbers_[i], shape_.exponent(), shape_.zigzag(), shape_.top())));
    return true;
  }
  static const std::byte* read_lengths(const std::byte* from, uint32_t count, uint8_t* length) noexcept {
    for (uint32_t s = 0; s < count; s += 2, ++from) {
      length[s] = static_cast<uint8_t>(*from) & 15;
      length[s + 1] = static_cast<uint8_t>(*from) >> 4;
    }
    return from;
  }
  // Sets the entry of each pattern of `most` bits: symbol << 8 | length. Returns whether the code is complete.
  static bool fill(const uint8_t* length, uint32_t count, uint32_t most, uint16_t* entry) noexcept {
    for (uint32_t s = 0; s < count; ++s)
      if (length[s] > most) return false;
    return visit_codes(length, count, [&](uint32_t s, uint32_t l, uint32_t slot) {
             std::fill_n(entry + (slot >> (max_length - most)), 1u << (most - l), static_cast<uint16_t>(s << 8 | l));
           }) == slots;
  }
  bool read_streams(const std::byte* directory, const std::byte* from, uint32_t words) noexcept {
    uint32_t all = 0;
    for (uint32_t t = 0, bit = 0; t < at_.streams; ++t, bit += shape_.more()) {
      uint32_t more = 0;  // byte by byte: nothing behind the directory is read
      for (uint32_t b = 0; b < shape_.more(); ++b)
        more |= (static_cast<uint32_t>(directory[(bit + b) / 8]) >> (bit + b) % 8 & 1) << b;
      stream_bits_[t] = shape_.least() + more;
      all += stream_bits_[t];
    }
    if ((all + 31) / 32 != words) return false;
    uint32_t begin = 0;
    for (uint32_t t = 0; t < at_.streams; ++t) {
      word_reader in{from, words, begin};
      visit_stream(
          t,
          [&](uint32_t i, uint32_t count) {
            for (uint32_t k = 0; k < count; ++k) {
              const uint32_t e = entry_[in.peek() >> (32 - max_length)];
              in.skip(e & 255);
              uint64_t x = e >> 8;
              if (x == escape) {
                const uint32_t bits = shape_.escape_bits();
                x = 0;
                if (bits > 32) x = uint64_t{in.take(bits - 32)} << 32;
                x |= in.take(std::min(bits, 32u));
              }
              numbers_[i + k] = static_cast<value>(x);
            }
          },
          [&](uint32_t p, uint32_t i) {
            uint32_t x = 0;
            for (uint32_t k = 0; k < 8; k += 4) {
              const uint32_t e = nibble_entry_[p][in.peek() >> (32 - nibble_length)];
              in.skip(e & 255);
              x |= e >> 8 << k;
            }
            part(p)[i] = static_cast<uint8_t>(x);
          });
      begin += stream_bits_[t];
      if (in.at != begin) return false;
    }
    return true;
  }

  const section_list& sections_;
  shape shape_;
  shape::places at_{};
  uint32_t bits_ = 0, stream_bits_[max_streams];
  uint8_t length_[symbols] = {}, nibble_lengths_[2][nibbles] = {};
  uint32_t code_[symbols], nibble_code_[2][nibbles];  // code << 4 | length
  uint16_t entry_[slots], nibble_entry_[2][1u << nibble_length];
  // The parts, and before them the string of side streams. After each there is capacity for padding.
  uint32_t mask_[max_row_bytes / 4];
  uint8_t flags_[max_row_bytes / 8 + 8], marks_[max_row_bytes + 4];
  value numbers_[max_values];
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
