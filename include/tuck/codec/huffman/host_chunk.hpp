// A chunk on one thread. This code defines the bytes that layout.hpp describes.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/huffman/host_parts.hpp>
#include <tuck/codec/huffman/host_planes.hpp>
#include <tuck/core/masks.hpp>

#include <utility>

namespace tuck::inline TUCK_ABI::huffman_format {

inline constexpr uint32_t max_row_bytes = max_chunk_raw_bytes + 4096 + 16;  // values, side streams and padding

template <uint32_t Width> class host_chunk {
  static constexpr uint32_t width = Width, max_values = max_row_bytes / width;
  using value = bits_t<untyped<Width>>;
  using word = std::conditional_t<width == 8, uint64_t, uint32_t>;
  using lanes = lanes_of<value, width>;

 public:
  host_chunk(const section_list& sections) noexcept
      : sections_(sections), shape_{width, sections.size(0) / width, padded_sides(sections)} {}

  // Returns the size of the encoded row in bytes. Writes it if it is not larger than `limit`.
  uint32_t encode(const std::byte* row, mapping how, std::byte* to, uint32_t limit) noexcept;

  status decode(const_bytes encoded, std::byte* row) noexcept;

 private:
  static constexpr uint32_t flags_part = 0, marks_part = 1;
  // For the bits of streams, while the string of side streams is not needed.
  std::byte* scratch() noexcept { return reinterpret_cast<std::byte*>(mask_); }
  std::byte* mark_bytes() noexcept { return scratch(); }
  uint8_t* part(uint32_t p) noexcept { return p == flags_part ? flags_ : marks_; }
  uint32_t part_bytes(uint32_t p) const noexcept { return p == flags_part ? shape_.flag_bytes() : shape_.marks(); }
  bool codes_part(uint32_t p) const noexcept { return p == flags_part ? shape_.codes_flags() : shape_.codes_marks(); }

  // Finds the numbers, and the code of their symbols.
  void measure_values(const std::byte* row, mapping how) noexcept {
    const uint32_t n = shape_.values;
    std::memcpy(numbers_, row, size_t{n} * width);
    const uint32_t bin = how.exponent != 0 ? find_bin(numbers_, n, how.exponent) : 0;
    const uint32_t top = top_of_bin(bin, how.exponent);
    const value any = detail::vectorized([&] {
      value bits = 0;
      for (uint32_t i = 0; i < n; ++i) bits |= numbers_[i];
      return bits;
    });
    convert([=](value x, uint32_t e, bool zigzag) { return lanes::number(x, e, zigzag, top); }, how.exponent,
            how.zigzag);
    uint32_t shift = how.exponent != 0 ? float_shift(width, how.exponent) : 0;
    if (how.exponent == 0) {
      uint32_t of_width[65] = {}, above = 0;
      for (uint32_t i = 0; i < n; ++i) ++of_width[bit_width(static_cast<word>(numbers_[i]))];
      for (uint32_t b = 8 * width; b > symbol_bits; --b) {
        above += of_width[b];
        if (64 * above > n) {
          shift = round_shift(b - symbol_bits, width);
          break;
        }
      }
    }
    const uint32_t zeros = zeros_of(any, shift);
    if (zeros != 0) each_number([=](value y) { return y >> zeros; });
    shape_.head[0] = shape::values_head(how, bin, shift);
    shape_.set_zeros(zeros);
    if (n == 0) return;
    detail::vectorized([&] { set_symbols(); });
    uint32_t of_lane[4][symbols] = {}, counts[symbols];
    for (uint32_t i = 0; i < n / 4 * 4; i += 4) {
      TUCK_UNROLL(4)
      for (uint32_t k = 0; k < 4; ++k) ++of_lane[k][symbol_[i + k]];
    }
    for (uint32_t i = n / 4 * 4; i < n; ++i) ++of_lane[0][symbol_[i]];
    for (uint32_t s = 0; s < symbols; ++s) counts[s] = of_lane[0][s] + of_lane[1][s] + of_lane[2][s] + of_lane[3][s];
    uint32_t escapes = counts[escape];
    if (counts[escape] == 0) counts[escape] = 1;
    round_lengths<symbols, max_length>(counts, length_);
    uint32_t bits = escapes * shape_.escape_bits(), last = 0;
    for (uint32_t s = 0; s < symbols; ++s) {
      bits += counts[s] * length_[s];
      if (length_[s] != 0 && s != escape) last = (std::max)(last, length_index(s, how.exponent));
    }
    if (pays(n, bits, last / 8 + 1, shape_.saved_bits())) {
      shape_.head[0] |= uint32_t{length_[escape]} << 25 | last / 8 << 29;
      bits_ += bits;
    } else {
      shape_.head[0] = shape::plain_mapping << 9;
    }
  }
  void set_symbols() noexcept {
    const uint32_t shift = shape_.shift();
    for (uint32_t i = 0; i < shape_.values; ++i) {
      const auto s = static_cast<value>(static_cast<word>(numbers_[i]) >> shift);
      symbol_[i] = static_cast<uint8_t>(s < escape ? s : static_cast<value>(escape));
    }
    std::memset(symbol_ + shape_.values, symbols, 3);
  }

  void measure_sides(const std::byte* row) noexcept {
    const uint32_t words = shape_.sides / 4;
    std::memset(mask_, 0, shape_.sides);
    visit_sides([&](uint32_t begin, std::byte* side, uint32_t size) { std::memcpy(side, row - begin, size); });
    const uint32_t rule = find_rule(mask_, words);
    to_marks(mask_, words, rule);
    shape_.head[1] =
        rule << 15 | mask_loops<ones::non_zeros, 1>::masks_of(mark_bytes(), shape_.sides, as_bytes(flags_));
    value_loops<1>::pack(mark_bytes(), shape_.sides, as_bytes(flags_), as_bytes(marks_), as_bytes(std::end(marks_)));
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
  bool restore_sides(std::byte* row) noexcept {
    if (!has_ones(flags_, shape_.sides, shape_.marks())) return false;
    mask_loops<ones::non_zeros, 1>::spread(as_bytes(flags_), as_bytes(marks_), as_bytes(marks_ + shape_.marks()),
                                           mark_bytes(), shape_.sides);
    from_marks(mask_, shape_.sides / 4, shape_.rule());
    visit_sides([&](uint32_t begin, const std::byte* side, uint32_t size) { std::memcpy(row - begin, side, size); });
    return true;
  }
  // Calls visit(where it begins before the values, its bytes in mask_, their number) for each side stream.
  template <class Visit> void visit_sides(const Visit& visit) noexcept {
    auto* side = reinterpret_cast<std::byte*>(mask_);
    for (uint32_t i = 1; i < sections_.count; side += round_up_pow2(sections_.size(i++), 2))
      visit(sections_.before_values(i), side, sections_.size(i));
  }

  // Sets the head. Returns the words of the chunk.
  uint32_t measure() noexcept {
    const auto entry = [](uint32_t slot, uint32_t l) { return slot >> (max_length - l) << 6 | l; };
    if (shape_.codes_values()) {
      std::fill_n(code_, symbols, no_code);
      code_[symbols] = 0;  // of values behind the last one
      visit_codes(length_, symbols, [&](uint32_t s, uint32_t l, uint32_t slot) { code_[s] = entry(slot, l); });
      escape_code_ = std::exchange(code_[escape], no_code);
    }
    for (const uint32_t p : {flags_part, marks_part})
      visit_codes(nibble_lengths_[p], nibbles,
                  [&](uint32_t s, uint32_t l, uint32_t slot) { nibble_code_[p][s] = entry(slot, l); });
    const uint32_t streams = at_.streams = shape_.has_streams() ? streams_of(shape_.find().directory + bits_ / 32) : 0;
    detail::vectorized([&] { put_streams(); });
    uint32_t least = ~0u, most = 0;
    bits_ = 0;
    for (uint32_t t = 0; t < streams; ++t) {
      bits_ += stream_bits_[t];
      least = (std::min)(least, stream_bits_[t]);
      most = (std::max)(most, stream_bits_[t]);
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
      detail::vectorized([&] { host_planes<value>(shape_).write(numbers_, at); });
    for (const uint32_t p : {flags_part, marks_part})
      if (!codes_part(p)) std::memcpy(to + 4 * (p == flags_part ? at_.flags : at_.marks), part(p), part_bytes(p));
    at = to + 4 * at_.tables;
    if (shape_.codes_values()) {
      uint8_t lengths[symbols] = {};
      for (uint32_t s = 0; s < escape; ++s) lengths[length_index(s, shape_.exponent())] = length_[s];
      at = write_lengths(lengths, 8 * shape_.table_words(), at);
    }
    for (const uint32_t p : {flags_part, marks_part})
      if (codes_part(p)) at = write_lengths(nibble_lengths_[p], nibbles, at);
    bit_writer directory(at);
    for (uint32_t t = 0; t < at_.streams; ++t) directory.put(stream_bits_[t] - shape_.least(), shape_.entry_bits());
    directory.finish();
    copy_reversed(scratch(), (bits_ + 31) / 32, to + 4 * size_t{at_.bits});
  }
  // Writes all streams to scratch(), and sets the bits of each. Coding pays, so they are not larger than the row.
  void put_streams() noexcept {
    bits_out out{scratch()};
    const uint32_t step = 4 * at_.streams;
    for (uint32_t t = 0; t < at_.streams; ++t) {
      const std::byte* const begin = out.to;
      const uint32_t before = out.fill;
      if (shape_.codes_values())
        for (uint32_t i = 4 * t; i < shape_.values; i += step) {
          const uint32_t a = code_[symbol_[i]], b = code_[symbol_[i + 1]], c = code_[symbol_[i + 2]],
                         d = code_[symbol_[i + 3]];
          if (((a | b | c | d) & no_code) == 0)
            out.put(joined(joined(joined(a >> 6, b), c), d), (a + b + c + d) & 63);
          else
            for (uint32_t k = i; k < (std::min)(i + 4, shape_.values); ++k) put_value(k, out);
        }
      for (const uint32_t p : {flags_part, marks_part})
        if (codes_part(p))
          for (uint32_t i = 4 * t; i < part_bytes(p); i += step)
            for (uint32_t k = i; k < (std::min)(i + 4, part_bytes(p)); ++k) {
              const uint32_t a = nibble_code_[p][part(p)[k] & 15], b = nibble_code_[p][part(p)[k] >> 4];
              out.put(joined(a >> 6, b), (a + b) & 63);
            }
      stream_bits_[t] = static_cast<uint32_t>(8 * (out.to - begin)) + out.fill - before;
    }
    out.finish();
  }
  static uint64_t joined(uint64_t codes, uint32_t entry) noexcept { return codes << (entry & 63) | entry >> 6; }
  void put_value(uint32_t i, bits_out& out) const noexcept {
    const uint32_t e = code_[symbol_[i]];
    if (e != no_code) return out.put(e >> 6, e & 63);
    out.put(escape_code_ >> 6, escape_code_ & 63);
    const uint64_t x = static_cast<word>(numbers_[i]) >> shape_.shift();
    const uint32_t bits = shape_.escape_bits();
    if (bits > 32) out.put(x >> 32, bits - 32);
    out.put(x & low_mask((std::min)(bits, 32u)), (std::min)(bits, 32u));
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
      uint8_t lengths[symbols] = {};
      at = read_lengths(at, 8 * shape_.table_words(), lengths);
      for (uint32_t s = 0; s < escape; ++s) {
        length_[s] = lengths[length_index(s, shape_.exponent())];
        if (length_[s] != 0 && !shape_.can_have(s)) return false;
      }
      length_[escape] = static_cast<uint8_t>(shape_.escape_length());
      if (!fill_table(length_, symbols, max_length, entry_)) return false;
    }
    for (const uint32_t p : {flags_part, marks_part})
      if (codes_part(p)) {
        at = read_lengths(at, nibbles, nibble_lengths_[p]);
        if (!fill_table(nibble_lengths_[p], nibbles, nibble_length, nibble_entry_[p])) return false;
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
    detail::vectorized([&] { host_planes<value>(shape_).add(at, numbers_); });
    const uint32_t top = shape_.top(), zeros = shape_.zeros();
    const auto shift_up = [&] { each_number([=](value y) { return word{y} << zeros; }); };
    if (zeros != 0 && shape_.exponent() != 0) shift_up();
    convert([=](value y, uint32_t e, bool zigzag) { return lanes::value(y, e, zigzag, top); }, shape_.exponent(),
            shape_.zigzag());
    if (zeros != 0 && shape_.exponent() == 0) shift_up();
    std::memcpy(row, numbers_, size_t{shape_.values} * width);
    return true;
  }
  // Calls one(x, exponent, zigzag) for all numbers in loops of their own, which compilers vectorise.
  template <class One> void convert(const One& one, uint32_t exponent, bool zigzag) noexcept {
    const auto all = [&](uint32_t e, bool z) { each_number([&](value x) { return one(x, e, z); }); };
    switch (exponent) {
      case 0: return zigzag ? all(0, true) : static_cast<void>(0);
      case 4: return all(4, false);
      case 5: return all(5, false);
      case 8: return all(8, false);
      default: return all(11, false);
    }
  }
  template <class One> void each_number(const One& one) noexcept {
    detail::vectorized([&] {
      for (uint32_t i = 0, n = shape_.values; i < n; ++i) numbers_[i] = static_cast<value>(one(numbers_[i]));
    });
  }
  bool read_streams(const std::byte* directory, const std::byte* from, uint32_t words) noexcept {
    uint32_t all = 0;
    for (uint32_t t = 0, bit = 0; t < at_.streams; ++t, bit += shape_.entry_bits()) {
      uint32_t above = 0;  // byte by byte: nothing behind the directory is read
      for (uint32_t b = 0; b < shape_.entry_bits(); ++b)
        above |= (static_cast<uint32_t>(directory[(bit + b) / 8]) >> (bit + b) % 8 & 1) << b;
      stream_bits_[t] = shape_.least() + above;
      all += stream_bits_[t];
    }
    if ((all + 31) / 32 != words) return false;
    if (4 * size_t{words} + 8 > sizeof mask_) return false;
    copy_reversed(from, words, scratch());
    const bits_in in{scratch(), 4 * words};
    uint32_t position[max_streams], last = at_.streams - 1;  // a mask, as all numbers of streams are powers of 2
    for (uint32_t t = 0, begin = 0; t < at_.streams; begin += stream_bits_[t++]) position[t] = begin;
    if (shape_.codes_values()) {  // quad by quad: streams do not wait for each other
      const uint32_t whole = shape_.values / 4 * 4;
      detail::vectorized([&] { read_quads(in, whole, position); });
      for (uint32_t i = whole; i < shape_.values; ++i) numbers_[i] = read_value(in, position[whole / 4 & last]);
    }
    for (const uint32_t p : {flags_part, marks_part})
      if (codes_part(p))
        for (uint32_t i = 0; i < part_bytes(p); ++i) {
          uint32_t& bit = position[i / 4 & last];
          const uint64_t w = in.window(bit);
          const uint32_t a = nibble_entry_[p][w >> (64 - nibble_length)];
          const uint32_t b = nibble_entry_[p][w << (a & 63) >> (64 - nibble_length)];
          bit += (a + b) & 255;
          part(p)[i] = static_cast<uint8_t>(a >> 8 | b >> 8 << 4);
        }
    for (uint32_t t = 0, end = 0; t < at_.streams; ++t)
      if (position[t] != (end += stream_bits_[t])) return false;
    return true;
  }
  // Reads the first `count` values, a multiple of 4.
  void read_quads(const bits_in& in, uint32_t count, uint32_t* position) noexcept {
    const uint32_t streams = at_.streams;
    value* to = numbers_;
    for (uint32_t left = count / 4; left != 0;) {
      const uint32_t row = (std::min)(left, streams);
      left -= row;
      for (uint32_t t = 0; t < row; ++t, to += 4) {
        uint64_t w = in.window(position[t]);
        const auto next = [&] {
          const uint32_t e = entry_[w >> (64 - max_length)];
          w <<= e & 63;
          return e;
        };
        const uint32_t a = next(), b = next(), c = next(), d = next(), used = (a + b + c + d) & 255;
        if (used >= escape_mark) {
          for (uint32_t k = 0; k < 4; ++k) to[k] = read_value(in, position[t]);
          continue;
        }
        position[t] += used;
        to[0] = static_cast<value>(a >> 8);
        to[1] = static_cast<value>(b >> 8);
        to[2] = static_cast<value>(c >> 8);
        to[3] = static_cast<value>(d >> 8);
      }
    }
  }
  value read_value(const bits_in& in, uint32_t& bit) const noexcept {
    const uint32_t e = entry_[in.window(bit) >> (64 - max_length)];
    bit += e & 15;
    return static_cast<value>(e >> 8 == escape ? in.read_bits(bit, shape_.escape_bits()) : e >> 8);
  }

  const section_list& sections_;
  shape shape_;
  shape::offsets at_{};
  uint32_t bits_ = 0, stream_bits_[max_streams];
  uint8_t length_[symbols] = {}, nibble_lengths_[2][nibbles] = {};
  uint8_t symbol_[max_values + 3];
  // A code of at most 10 bits and its length, or no_code for symbols without a code, and for the escape. The lengths of
  // four codes are added in their field: at most 40.
  //
  //       31      30   16 15    6 5      0
  //   +---------+--------+-------+--------+
  //   | no_code |   0    | code  | length |
  //   +---------+--------+-------+--------+
  static constexpr uint32_t no_code = 1u << 31;
  uint32_t code_[symbols + 1], escape_code_ = 0, nibble_code_[2][nibbles];
  uint16_t entry_[all_slots], nibble_entry_[2][1u << nibble_length];
  // The parts, and before them the string of side streams. After each there is capacity for padding.
  uint32_t mask_[max_row_bytes / 4 * 9 / 8 + 16];
  uint8_t flags_[max_row_bytes / 8 + 8], marks_[max_row_bytes + 4];
  value numbers_[max_values + 8];
};

template <uint32_t Width>
uint32_t host_chunk<Width>::encode(const std::byte* row, mapping how, std::byte* to, uint32_t limit) noexcept {
  measure_values(row, how);
  measure_sides(row);
  const uint32_t bytes = 4 * measure();
  if (bytes <= limit) write(row, to);
  return bytes;
}

template <uint32_t Width> status host_chunk<Width>::decode(const_bytes encoded, std::byte* row) noexcept {
  return read(encoded, row) && restore_sides(row) ? status::ok : status::bad_payload;
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
