// Writes DEFLATE streams by hand, right ones and wrong ones: bits, symbols, blocks.
#pragma once

#include <tuck/codec/inflate/codes.hpp>
#include <tuck/core/span.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace tuck::test {

using byte_vector = std::vector<std::byte>;

inline byte_vector bytes_of(std::string_view text) {
  byte_vector bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

// The code that has these lengths, in canonical order (RFC 1951, section 3.2.2); they may be no code.
struct prefix_code {
  std::vector<uint32_t> lengths, codes;

  prefix_code() = default;
  explicit prefix_code(std::vector<uint32_t> of_symbols) : lengths(std::move(of_symbols)), codes(lengths.size()) {
    uint32_t next = 0;
    for (uint32_t length = 1; length <= deflate_format::max_code_bits; ++length, next <<= 1)
      for (size_t symbol = 0; symbol < lengths.size(); ++symbol)
        if (lengths[symbol] == length) codes[symbol] = next++;
  }
};

// Lengths that are zero but for some: {{symbol, length}, ...}.
struct symbol_length {
  uint32_t symbol, length;
};
inline std::vector<uint32_t> code_with(uint32_t symbols, const std::vector<symbol_length>& some) {
  std::vector<uint32_t> lengths(symbols);
  for (const auto& s : some) lengths[s.symbol] = s.length;
  return lengths;
}

// The header of a dynamic block as its fields stand in the stream, whatever they are worth.
struct dynamic_header {
  struct run {
    uint32_t symbol;  // of the precode: a length, or 16-18
    uint32_t extra = 0;
  };

  uint32_t hlit = 0, hdist = 0;              // codes beyond 257 and 1
  std::vector<uint32_t> precode = complete;  // lengths of its symbols, 19
  std::vector<run> lengths = {};

  // 13 codes of 4 bits and 6 of 5: a precode with all symbols.
  inline static const std::vector<uint32_t> complete{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5};
};

class deflate_writer {
 public:
  // The low `width` bits of x, lowest first.
  deflate_writer& bits(uint32_t x, uint32_t width) {
    for (uint32_t i = 0; i < width; ++i) bit(x >> i & 1);
    return *this;
  }
  deflate_writer& code(const prefix_code& of, uint32_t symbol) {
    for (uint32_t i = of.lengths[symbol]; i-- > 0;) bit(of.codes[symbol] >> i & 1);
    return *this;
  }
  deflate_writer& align() {
    used_ = 0;
    return *this;
  }
  deflate_writer& raw(const_bytes data) {
    align().stream_.insert(stream_.end(), data.begin(), data.end());
    return *this;
  }

  deflate_writer& stored(bool final, const_bytes data) {
    const auto length = static_cast<uint32_t>(data.size());
    return stored_header(final, length, ~length).raw(data);
  }
  deflate_writer& stored_header(bool final, uint32_t length, uint32_t complement) {
    return bits(final, 1).bits(deflate_format::stored, 2).align().bits(length, 16).bits(complement, 16);
  }
  deflate_writer& begin_fixed(bool final) {
    std::vector<uint32_t> lengths(deflate_format::fixed_literal_symbols);
    for (uint32_t s = 0; s < lengths.size(); ++s) lengths[s] = deflate_format::fixed_literal_bits(s);
    literals_ = prefix_code(lengths);
    distances_ = prefix_code(std::vector<uint32_t>(32, 5));
    return bits(final, 1).bits(deflate_format::fixed, 2);
  }
  // A block with these code lengths: 257-286 of them, and 1-30.
  deflate_writer& begin_dynamic(bool final, const std::vector<uint32_t>& literals,
                                const std::vector<uint32_t>& distances) {
    dynamic_header header{static_cast<uint32_t>(literals.size()) - 257,
                          static_cast<uint32_t>(distances.size()) - 1,
                          dynamic_header::complete,
                          {}};
    for (const auto* lengths : {&literals, &distances})
      for (uint32_t length : *lengths) header.lengths.push_back({length});
    begin_dynamic(final, header);
    literals_ = prefix_code(literals);
    distances_ = prefix_code(distances);
    return *this;
  }
  // A header alone; what may follow is written as bits or after codes().
  deflate_writer& begin_dynamic(bool final, const dynamic_header& header) {
    bits(final, 1).bits(deflate_format::dynamic, 2);
    uint32_t count = deflate_format::precode_symbols;
    while (count > 4 && header.precode[deflate_format::precode_order(count - 1)] == 0) --count;
    bits(header.hlit, 5).bits(header.hdist, 5).bits(count - 4, 4);
    for (uint32_t i = 0; i < count; ++i) bits(header.precode[deflate_format::precode_order(i)], 3);
    const prefix_code precode(header.precode);
    for (const auto& run : header.lengths) {
      code(precode, run.symbol);
      if (run.symbol >= 16) bits(run.extra, run.symbol == 16 ? 2 : run.symbol == 17 ? 3 : 7);
    }
    return *this;
  }
  // What literal, match and the like write from now on.
  deflate_writer& codes(const std::vector<uint32_t>& literals, const std::vector<uint32_t>& distances) {
    literals_ = prefix_code(literals);
    distances_ = prefix_code(distances);
    return *this;
  }

  deflate_writer& symbol(uint32_t s) { return code(literals_, s); }
  deflate_writer& distance_symbol(uint32_t s) { return code(distances_, s); }
  deflate_writer& text(std::string_view letters) {
    for (char c : letters) symbol(static_cast<unsigned char>(c));
    return *this;
  }
  deflate_writer& match(uint32_t length, uint32_t distance) {
    const uint32_t l = deflate_format::length_symbol(length);
    uint32_t d = deflate_format::distance_symbols - 1;
    while (deflate_format::distance_of(d).base > distance) --d;
    const auto of_length = deflate_format::length_of(l), of_distance = deflate_format::distance_of(d);
    symbol(l).bits(length - of_length.base, of_length.extra_bits);
    return distance_symbol(d).bits(distance - of_distance.base, of_distance.extra_bits);
  }
  deflate_writer& end() { return symbol(deflate_format::end_of_block); }

  const byte_vector& stream() const { return stream_; }
  operator const byte_vector&() const { return stream_; }

 private:
  void bit(uint32_t x) {
    if (used_ == 0) stream_.push_back(std::byte{});
    stream_.back() |= static_cast<std::byte>(x << used_);
    used_ = (used_ + 1) % 8;
  }

  byte_vector stream_;
  uint32_t used_ = 0;  // bits of the last byte; 0: all
  prefix_code literals_, distances_;
};

}  // namespace tuck::test
