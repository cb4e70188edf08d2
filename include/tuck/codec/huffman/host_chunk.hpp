// SPDX-License-Identifier: Apache-2.0
// A chunk on one thread. This code defines the bytes that layout.hpp describes.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/huffman/host_parts.hpp>
#include <tuck/codec/huffman/host_planes.hpp>
#include <tuck/core/cpu.hpp>

#include <utility>

namespace tuck::inline TUCK_ABI::huffman_format {

template <uint32_t Width> class host_chunk {
  static constexpr uint32_t width = Width, max_values = max_chunk_raw_bytes / width;
  using value = bits_t<untyped<Width>>;
  using word = std::conditional_t<width == 8, uint64_t, uint32_t>;
  using lanes = lanes_of<value, width>;

 public:
  // `values` <= max_values: `huffman` checks it.
  explicit host_chunk(uint32_t values) noexcept : shape_{width, values} {}

  // Returns the size of the encoded values in bytes, or more than their own. Writes it if it is not larger than
  // `limit`.
  uint32_t encode(const std::byte* from, mapping how, std::byte* to, uint32_t limit) noexcept;

  status decode(const_bytes encoded, std::byte* to) noexcept;

 private:
  static constexpr uint32_t too_many = 1u << 20;  // bytes

  // Finds the numbers, and the code of their symbols. Returns whether it pays.
  bool measure_values(const std::byte* from, mapping how) noexcept {
    const uint32_t n = shape_.values;
    std::memcpy(numbers_, from, size_t{n} * width);
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
    round_lengths<symbols>(counts, length_);
    uint32_t bits = escapes * shape_.escape_bits(), last = 0;
    for (uint32_t s = 0; s < symbols; ++s) {
      bits += counts[s] * length_[s];
      if (length_[s] != 0 && s != escape) last = (std::max)(last, length_index(s, how.exponent));
    }
    shape_.head[0] |= uint32_t{length_[escape]} << 25 | last / 8 << 29;
    bits_ = bits;
    return pays(n, bits, last / 8 + 1, shape_.saved_bits());
  }
  void set_symbols() noexcept {
    const uint32_t shift = shape_.shift();
    for (uint32_t i = 0; i < shape_.values; ++i) {
      const auto s = static_cast<value>(static_cast<word>(numbers_[i]) >> shift);
      symbol_[i] = static_cast<uint8_t>(s < escape ? s : static_cast<value>(escape));
    }
    std::memset(symbol_ + shape_.values, symbols, 3);
  }

  // Sets the head. Returns the words of the chunk.
  uint32_t measure() noexcept {
    const auto entry = [](uint32_t slot, uint32_t l) { return slot >> (max_length - l) << 6 | l; };
    std::fill_n(code_, symbols, no_code);
    code_[symbols] = 0;  // of values behind the last one
    visit_codes(length_, symbols, [&](uint32_t s, uint32_t l, uint32_t slot) { code_[s] = entry(slot, l); });
    escape_code_ = std::exchange(code_[escape], no_code);
    const uint32_t streams = at_.streams = streams_of(shape_.find().directory + bits_ / 32);
    detail::vectorized([&] { put_streams(); });
    uint32_t least = ~0u, most = 0;
    bits_ = 0;  // measure_values counts the escape once if there is none; `streams` depends on that in blocks too
    for (uint32_t t = 0; t < streams; ++t) {
      bits_ += stream_bits_[t];
      least = (std::min)(least, stream_bits_[t]);
      most = (std::max)(most, stream_bits_[t]);
    }
    if (!shape_.set_streams(streams, least, most)) return too_many / 4;
    at_ = shape_.find();
    return at_.bits + (bits_ + 31) / 32;
  }

  void write(std::byte* to) noexcept {
    std::memset(to, 0, 4 * (size_t{at_.bits} + (bits_ + 31) / 32));
    std::memcpy(to, shape_.head, sizeof shape_.head);
    detail::vectorized([&] { host_planes<value>(shape_).write(numbers_, to + 4 * shape::head_words); });
    uint8_t lengths[symbols] = {};
    for (uint32_t s = 0; s < escape; ++s) lengths[length_index(s, shape_.exponent())] = length_[s];
    bit_writer directory(write_lengths(lengths, 8 * shape_.table_words(), to + 4 * at_.tables));
    for (uint32_t t = 0; t < at_.streams; ++t) directory.put(stream_bits_[t] - shape_.least(), shape_.entry_bits());
    directory.finish();
    copy_reversed(stream_bytes_, (bits_ + 31) / 32, to + 4 * size_t{at_.bits});
  }
  // Writes all streams, and sets the bits of each. Coding pays, so they are not larger than the values.
  void put_streams() noexcept {
    bits_out out{stream_bytes_};
    const uint32_t step = 4 * at_.streams;
    for (uint32_t t = 0; t < at_.streams; ++t) {
      const std::byte* const begin = out.to;
      const uint32_t before = out.fill;
      for (uint32_t i = 4 * t; i < shape_.values; i += step) {
        const uint32_t a = code_[symbol_[i]], b = code_[symbol_[i + 1]], c = code_[symbol_[i + 2]],
                       d = code_[symbol_[i + 3]];
        if (((a | b | c | d) & no_code) == 0)
          out.put(joined(joined(joined(a >> 6, b), c), d), (a + b + c + d) & 63);
        else
          for (uint32_t k = i; k < (std::min)(i + 4, shape_.values); ++k) put_value(k, out);
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
  bool read(const_bytes encoded, std::byte* to) noexcept {
    if (encoded.size() % 4 != 0 || encoded.size() / 4 < shape::head_words) return false;
    std::memcpy(shape_.head, encoded.data(), sizeof shape_.head);
    if (!shape_.fits()) return false;
    at_ = shape_.find();
    if (at_.bits > encoded.size() / 4) return false;
    uint8_t lengths[symbols] = {};
    const std::byte* const directory = read_lengths(encoded.data() + 4 * at_.tables, 8 * shape_.table_words(), lengths);
    for (uint32_t s = 0; s < escape; ++s) {
      length_[s] = lengths[length_index(s, shape_.exponent())];
      if (length_[s] != 0 && !shape_.can_have(s)) return false;
    }
    length_[escape] = static_cast<uint8_t>(shape_.escape_length());
    if (!fill_table(length_, entry_)) return false;
    const uint32_t words = static_cast<uint32_t>(encoded.size() / 4) - at_.bits;
    if (!read_streams(directory, encoded.data() + 4 * at_.bits, words)) return false;
    const std::byte* const at = encoded.data() + 4 * shape::head_words;
    detail::vectorized([&] { host_planes<value>(shape_).add(at, numbers_); });
    const uint32_t top = shape_.top(), zeros = shape_.zeros();
    const auto shift_up = [&] { each_number([=](value y) { return word{y} << zeros; }); };
    if (zeros != 0 && shape_.exponent() != 0) shift_up();
    convert([=](value y, uint32_t e, bool zigzag) { return lanes::value(y, e, zigzag, top); }, shape_.exponent(),
            shape_.zigzag());
    if (zeros != 0 && shape_.exponent() == 0) shift_up();
    std::memcpy(to, numbers_, size_t{shape_.values} * width);
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
      all += stream_bits_[t];  // each below 4 * 2^12 + 2^15, so the sum cannot overflow
    }
    if ((all + 31) / 32 != words) return false;
    if (4 * size_t{words} + 8 > sizeof stream_bytes_) return false;
    copy_reversed(from, words, stream_bytes_);
    const bits_in in{stream_bytes_, 4 * words};
    uint32_t position[max_streams], last = at_.streams - 1;  // a mask, as all numbers of streams are powers of 2
    for (uint32_t t = 0, begin = 0; t < at_.streams; begin += stream_bits_[t++]) position[t] = begin;
    // Quad by quad: streams do not wait for each other.
    const uint32_t whole = shape_.values / 4 * 4;
    detail::vectorized([&] { read_quads(in, whole, position); });
    for (uint32_t i = whole; i < shape_.values; ++i) numbers_[i] = read_value(in, position[whole / 4 & last]);
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

  shape shape_;
  shape::offsets at_{};
  uint32_t bits_ = 0, stream_bits_[max_streams];
  uint8_t length_[symbols] = {};
  uint8_t symbol_[max_values + 3];
  // A code of at most 10 bits and its length, or no_code for symbols without a code, and for the escape. The lengths of
  // four codes are added in their field: at most 40.
  //
  //       31      30   16 15    6 5      0
  //   +---------+--------+-------+--------+
  //   | no_code |   0    | code  | length |
  //   +---------+--------+-------+--------+
  static constexpr uint32_t no_code = 1u << 31;
  uint32_t code_[symbols + 1], escape_code_ = 0;
  uint16_t entry_[all_slots];
  std::byte stream_bytes_[max_chunk_raw_bytes + 64];  // of all streams, in the order of bytes
  value numbers_[max_values + 8];
};

template <uint32_t Width>
uint32_t host_chunk<Width>::encode(const std::byte* from, mapping how, std::byte* to, uint32_t limit) noexcept {
  if (!measure_values(from, how)) return too_many;
  const uint32_t bytes = 4 * measure();
  if (bytes <= limit) write(to);
  return bytes;
}

template <uint32_t Width> status host_chunk<Width>::decode(const_bytes encoded, std::byte* to) noexcept {
  return read(encoded, to) ? status::ok : status::bad_payload;
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
