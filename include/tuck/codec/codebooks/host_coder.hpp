// SPDX-License-Identifier: Apache-2.0
// Codebooks on one thread. The bytes are those of layout.hpp.
#pragma once

#include <tuck/codec/codebooks/layout.hpp>
#include <tuck/codec/concept.hpp>
#include <tuck/codec/huffman/host_planes.hpp>
#include <tuck/codec/workspace.hpp>
#include <tuck/core/cpu.hpp>

#include <algorithm>
#include <cstring>

namespace tuck::inline TUCK_ABI::codebooks_format {

// Appends bits to words, from the highest bit of each down. The word behind them is written too.
struct word_writer {
  std::byte* to;
  uint64_t pending = 0;
  uint32_t fill = 0;  // < 32

  // Appends `bits` <= 32 bits, which are at the top of x with zeros behind them.
  void put(uint32_t x, uint32_t bits) noexcept {
    pending |= uint64_t{x} << 32 >> fill;
    fill += bits;
    store_unaligned(to, pending << 32 | pending >> 32);
    to += fill / 32 * 4;
    pending <<= fill / 32 * 32;
    fill %= 32;
  }
};

// The loops over the values of a part, of Width bytes with Mantissa bits. Compilers vectorise them: all that decides is
// constant, and no object is in the memory that they write.
template <uint32_t Width, uint32_t Mantissa> struct part_loops {
  using value = std::conditional_t<Width == 1, uint8_t, std::conditional_t<Width == 2, uint16_t, uint32_t>>;
  static constexpr uint32_t sign = 8 * Width - 1;
  static constexpr auto low = static_cast<value>(low_mask(Mantissa));

  // Takes the exponents of values. Returns the largest.
  static uint8_t exponents(const std::byte* __restrict values, uint32_t count, uint8_t* __restrict exponent) noexcept {
    for (size_t i = 0; i < count; ++i)
      exponent[i] =
          static_cast<uint8_t>(load_unaligned<value>(values + i * Width) >> Mantissa & low_mask(sign - Mantissa));
    uint8_t most = 0;
    for (size_t i = 0; i < count; ++i) most = exponent[i] > most ? exponent[i] : most;
    return most;
  }
  // Takes sign and mantissa. Returns the bits that any value has.
  static value numbers(const std::byte* __restrict values, uint32_t count, value* __restrict number) noexcept {
    value any = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto x = load_unaligned<value>(values + i * Width);
      any |= x;
      number[i] = static_cast<value>((x & low) | uint32_t{x} >> sign << Mantissa);
    }
    return any;
  }
  // Joins sign and mantissa, of which the lowest `zeros` bits are missing, with exponents.
  static void join(const value* __restrict number, const uint8_t* __restrict exponent, uint32_t count, uint32_t zeros,
                   std::byte* __restrict to) noexcept {
    for (size_t i = 0; i < count; ++i) {
      const auto y = static_cast<value>(number[i] << zeros);
      store_unaligned(to + i * Width, static_cast<value>((y & low) | uint32_t{y} >> Mantissa << sign |
                                                         uint32_t{exponent[i]} << Mantissa));
    }
  }
};

// Computes symbols; of `second` look.
inline void make_symbols(const uint8_t* __restrict exponent, uint32_t count, uint8_t top, bool second,
                         uint8_t* __restrict symbol) noexcept {
  for (uint32_t i = 0; i < count; ++i) symbol[i] = static_cast<uint8_t>(top - exponent[i]);
  if (second)
    for (uint32_t i = 0; i < count; ++i) symbol[i] = exponent[i] == 0 ? uint8_t{0} : symbol[i];
}

// Makes a decoder's table, whose symbols are exponents. Of a `second` look, symbol 0 is exponent 0.
inline void make_table(const uint16_t* __restrict symbols_of, uint32_t top, uint32_t exponents, bool second,
                       uint16_t* __restrict table) noexcept {
  for (size_t i = 0; i < 1u << code_bits; ++i) {
    const uint32_t e = symbols_of[i], field = second && e < 256 ? 0 : top - e / 256;
    table[i] = static_cast<uint16_t>((field & exponents) << 8 | e % 256);
  }
}

// Encodes and decodes chunks of floats of Width bytes.
template <uint32_t Width> class host_coder {
  using value = typename part_loops<Width, 1>::value;
  using planes = huffman_format::host_planes<value>;
  using type = std::conditional_t<Width == 1, f8e4m3, std::conditional_t<Width == 2, bf16, float>>;
  using shape = shape_of<type>;  // what depends only on the width
  static constexpr uint32_t lane_values = shape::lane_values, row_values = shape::row_values;
  static constexpr uint32_t part_values = shape::part_values;
  static constexpr uint32_t stream_bytes = 2 * part_values + 12;  // of a part, if each symbol is an escape

  // Of a part. `bits` has the streams, with three words behind them.
  struct buffers {
    value number[part_values];
    uint8_t exponent[part_values + lane_bytes], symbol[part_values + lane_bytes];
    std::byte part[part_bytes + 4 * 16 + stream_bytes], bits[stream_bytes];
  };

 public:
  static constexpr uint32_t workspace_bytes() noexcept { return workspace::bytes_of<buffers>(); }

  host_coder(uint32_t mantissa, workspace memory) noexcept : mantissa_(mantissa), my_(memory.make<buffers>()) {}

  // Returns the size of the chunk, or incompressible.
  uint32_t encode(const_bytes values, bytes out) noexcept;
  // Returns false for a chunk that encoding does not write.
  bool decode(const_bytes encoded, bytes restored) noexcept;

 private:
  uint32_t exponent_mask() const noexcept { return low_mask(8 * Width - 1 - mantissa_); }

  bool has_small_exponents() const noexcept { return exponent_mask() < 255; }
  // Returns the index in the part of the first value of a cell.
  static uint32_t index(uint32_t row, uint32_t stream) noexcept { return row * row_values + stream * lane_values; }
  bool is_stored(uint32_t row, uint32_t stream) const noexcept { return (stored_[row] >> stream & 1) != 0; }
  bool in_sample(uint32_t row, uint32_t stream, uint32_t count) const noexcept {
    return is_stored(row, stream) && index(row, stream) + row % lane_values < count;
  }

  // Calls f<Mantissa>(), vectorised.
  template <class F> void with_mantissa(const F& f) const noexcept {
    constexpr uint32_t first = Width == 1 ? 3 : Width == 2 ? 7 : 23, second = Width == 1 ? 2 : 10;
    detail::vectorized([&] {
      if (Width == 4 || mantissa_ == first)
        f.template operator()<first>();
      else
        f.template operator()<second>();
    });
  }

  void split(const std::byte* values, uint32_t count) noexcept;
  void find_symbols(uint32_t count, bool second) noexcept;
  void store_all(uint32_t count) noexcept;
  void find_masks(const std::byte* values) noexcept;
  bool find_book(uint32_t count, bool second) noexcept;
  uint32_t second_top(uint32_t count) const noexcept;
  bool put_streams(uint32_t book) noexcept;
  uint32_t encode_part(const std::byte* values, uint32_t count) noexcept;

  void get_exponents(const uint16_t (&table)[1u << code_bits], uint32_t words) noexcept;
  void spread(uint32_t stored) noexcept;
  bool decode_part(part_head head, const_bytes part, uint32_t count, std::byte* restored) noexcept;

  uint32_t mantissa_;
  buffers& my_;
  // Of a part that is encoded.
  uint32_t top_ = 0, zeros_ = 0, book_ = 0;
  bool masked_ = false;
  // Of a part: which cells are stored; where each stream begins, in bits, and their end.
  uint32_t stored_[rows] = {}, begin_[streams + 1] = {};
};

// Parts values into exponents and numbers of sign and mantissa. Finds the largest exponent, and the bits that are 0.
template <uint32_t Width> void host_coder<Width>::split(const std::byte* values, uint32_t count) noexcept {
  value any = 0;
  with_mantissa([&]<uint32_t Mantissa>() {
    using loops = part_loops<Width, Mantissa>;
    top_ = loops::exponents(values, count, my_.exponent);
    any = loops::numbers(values, count, my_.number);
  });
  zeros_ = huffman_format::zeros_of(any & low_mask(mantissa_), mantissa_);
  if (Width == 4) zeros_ = zeros_ / 2 * 2;
  if (zeros_ != 0)
    for (uint32_t i = 0; i < count; ++i) my_.number[i] = static_cast<value>(my_.number[i] >> zeros_);
}

template <uint32_t Width> void host_coder<Width>::find_symbols(uint32_t count, bool second) noexcept {
  detail::vectorized([&] { make_symbols(my_.exponent, count, static_cast<uint8_t>(top_), second, my_.symbol); });
  std::memset(my_.symbol + count, 0, lane_bytes);
  std::memset(my_.exponent + count, second ? 0 : static_cast<int>(top_), lane_bytes);
}

// All cells with values are stored.
template <uint32_t Width> void host_coder<Width>::store_all(uint32_t count) noexcept {
  for (uint32_t r = 0; r < rows; ++r) {
    const uint32_t first = index(r, 0), here = count > first ? count - first : 0;
    stored_[r] = low_mask((here + lane_values - 1) / lane_values);
  }
}
// Finds which cells of a part of 4 KiB are zeros. If that is worth it, only others are stored.
template <uint32_t Width> void host_coder<Width>::find_masks(const std::byte* values) noexcept {
  uint32_t masks[rows], all = 0;
  for (uint32_t r = 0; r < rows; ++r) {
    masks[r] = 0;
    for (uint32_t l = 0; l < streams; ++l) {
      uint64_t x[2];
      std::memcpy(x, values + r * row_bytes + l * lane_bytes, sizeof x);
      masks[r] |= uint32_t{(x[0] | x[1]) != 0} << l;
    }
    all += popcount(masks[r]);
  }
  masked_ = rows * streams - all >= worth_masks;
  if (!masked_) return;
  uint32_t to = 0;
  for (uint32_t r = 0; r < rows; ++r) {
    stored_[r] = masks[r];
    for (uint32_t l = 0; l < streams; ++l)
      if (is_stored(r, l)) {
        std::memmove(my_.number + to, my_.number + index(r, l), lane_bytes);
        to += lane_values;
      }
  }
}

// Finds the book with the least cost. Returns whether it is good enough.
template <uint32_t Width> bool host_coder<Width>::find_book(uint32_t count, bool second) noexcept {
  using costs [[gnu::__vector_size__(first_of_second)]] = uint8_t;
  using sums [[gnu::__vector_size__(2 * first_of_second)]] = uint16_t;
  uint16_t sum[first_of_second];
  uint32_t n = 0, zeros = 0;
  detail::vectorized([&] {
    sums all = {};
    for (uint32_t l = 0; l < streams; ++l) {
      costs of_stream = {};  // at most 15 in each row
      for (uint32_t r = 0; r < rows; ++r) {
        if (!in_sample(r, l, count)) continue;
        const uint32_t symbol = my_.symbol[index(r, l) + r % lane_values];
        zeros += has_small_exponents() && my_.exponent[index(r, l) + r % lane_values] == 0;
        costs cost;
        std::memcpy(&cost, tables.cost[second][(std::min)(symbol, escape)], sizeof cost);
        of_stream += cost;
        ++n;
      }
      all += __builtin_convertvector(of_stream, sums);
    }
    std::memcpy(sum, &all, sizeof sum);
  });
  const auto* const least = std::min_element(sum, sum + first_of_second);
  book_ = static_cast<uint32_t>(least - sum) + (second ? first_of_second : 0);
  return 16u * *least <= dear * n && (4 * zeros < n || n == 0);
}

template <uint32_t Width> uint32_t host_coder<Width>::second_top(uint32_t count) const noexcept {
  uint8_t most[streams] = {};
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t l = 0; l < streams; ++l)
      if (in_sample(r, l, count)) most[l] = (std::max)(most[l], my_.exponent[index(r, l) + r % lane_values]);
  std::nth_element(most, most + 7, most + streams, std::greater<>());
  bool taken[256] = {};
  for (uint32_t i = 0; i < count; ++i) taken[my_.exponent[i]] = true;
  uint32_t top = most[7] + 1u;
  while (top < 256 && taken[top]) ++top;
  return top % 256;
}

// Writes the streams. Returns false if one is too long.
template <uint32_t Width> bool host_coder<Width>::put_streams(uint32_t book) noexcept {
  word_writer out{my_.bits};
  const auto& pair = tables.pair[book];
  const auto& single = tables.single[book];
  uint32_t before = 0, most = 0;
  for (uint32_t l = 0; l < streams; ++l) {
    for (uint32_t r = 0; r < rows; ++r) {
      if (!is_stored(r, l)) continue;
      for (uint32_t k = index(r, l), end = k + lane_values; k < end; k += 4) {
        uint32_t four;
        std::memcpy(&four, my_.symbol + k, 4);
        const uint32_t two = four | four >> 4, a = pair[two & 255], b = pair[two >> 16 & 255];
        if (((four & 0xf0f0f0f0) | ((a | b) & no_code)) == 0) [[likely]] {
          out.put((a & 0xffff0000) | (b & 0xffff0000) >> a % 32, (a + b) % 64);
          continue;
        }
        for (uint32_t j = k; j < k + 4; ++j) {
          const uint32_t e = single[(std::min)(uint32_t{my_.symbol[j]}, escape)];
          out.put(e & 0xff000000, e % 16);
          if ((e & no_code) != 0) out.put(uint32_t{my_.exponent[j]} << 24, 8);
        }
      }
    }
    const auto end = static_cast<uint32_t>(out.to - my_.bits) * 8 + out.fill;
    most = (std::max)(most, end - before);
    begin_[l] = before;
    before = end;
  }
  begin_[streams] = before;
  return most <= shape::most_stream_bits;
}

// Writes a part to my_.part, behind its head. Returns its size with the head, or incompressible.
template <uint32_t Width> uint32_t host_coder<Width>::encode_part(const std::byte* values, uint32_t count) noexcept {
  split(values, count);
  masked_ = false;
  store_all(count);
  find_symbols(count, false);
  if (!find_book(count, false) || top_ == 0) {
    if (count == part_values) find_masks(values);
    top_ = second_top(count);
    find_symbols(count, true);
    find_book(count, true);
  }
  if (!put_streams(book_)) {
    book_ = raw;
    if (!put_streams(book_)) return incompressible;
  }
  uint32_t least = ~0u, most = 0, stored = count;
  for (uint32_t l = 0; l < streams; ++l) {
    least = (std::min)(least, begin_[l + 1] - begin_[l]);
    most = (std::max)(most, begin_[l + 1] - begin_[l]);
  }
  if (masked_) {
    stored = 0;
    for (const uint32_t mask : stored_) stored += popcount(mask) * lane_values;
  }
  const uint32_t bits = begin_[streams];
  const huffman_format::shape rests = shape::planes(stored, mantissa_ + 1 - zeros_);
  part_head head;
  head.set(part_head::fixed(top_, zeros_, book_), masked_, rests.rest_words(), least, most, bits);
  const uint32_t entry = head.entry();
  std::memcpy(my_.part, &head, sizeof head);
  std::byte* to = my_.part + sizeof head;
  std::memset(to, 0, 4 * head.words());
  if (masked_) std::memcpy(to, stored_, sizeof stored_);
  to += 4 * head.mask_words();
  detail::vectorized([&] { planes(rests).write(my_.number, to); });
  to += 4 * rests.rest_words();
  uint64_t pending = 0;
  for (uint32_t l = 0, fill = 0; l < streams; ++l) {
    pending |= uint64_t{begin_[l + 1] - begin_[l] - least} << fill;
    fill += entry;
    if (fill < 32) continue;
    store_unaligned(to, static_cast<uint32_t>(pending));
    to += 4;
    pending >>= 32;
    fill -= 32;
  }
  std::memcpy(to, my_.bits, (bits + 31) / 32 * 4);
  return sizeof head + 4 * head.words();
}

template <uint32_t Width> uint32_t host_coder<Width>::encode(const_bytes values, bytes out) noexcept {
  const auto count = static_cast<uint32_t>(values.size() / Width);
  const uint32_t limit = count * Width;
  uint32_t at = 8 * shape::parts(count);
  for (uint32_t first = 0; first < count; first += part_values) {
    const uint32_t size = encode_part(values.data() + first * Width, (std::min)(count - first, part_values));
    if (size == incompressible || at + size - 8 >= limit) return incompressible;
    std::memcpy(out.data() + first / part_values * 8, my_.part, 8);
    std::memcpy(out.data() + at, my_.part + 8, size - 8);
    at += size - 8;
  }
  return at;
}

// Restores exponents from the streams, of `words` words. Quad by quad of a row: streams do not wait for each other.
template <uint32_t Width>
void host_coder<Width>::get_exponents(const uint16_t (&table)[1u << code_bits], uint32_t words) noexcept {
  uint8_t* const exponent = my_.exponent;
  // Returns 64 bits. Behind the last word, positions stay there: the caller sees that the end is wrong.
  const auto window = [&](uint32_t bit) {
    const std::byte* const p = my_.bits + (std::min)(bit / 32, words) * 4;
    const uint64_t two = uint64_t{load_unaligned<uint32_t>(p)} << 32 | load_unaligned<uint32_t>(p + 4);
    return two << bit % 32 | uint64_t{load_unaligned<uint32_t>(p + 8)} << bit % 32 >> 32;
  };
  const auto read_cell = [&](uint32_t i, uint32_t l) {
    uint32_t bit = begin_[l];
    uint64_t w = 0;
    // A window is enough for two quads without escapes. An escape makes `used` larger than 32, as it counts no_code.
    static_assert(8 * code_bits <= 64 && no_code >= 32 && 4 * (no_code + code_bits) < 256);
    TUCK_UNROLL(4)
    for (uint32_t k = 0; k < lane_values; k += 4) {
      if (k % 8 == 0) w = window(bit);
      uint32_t used = 0, four = 0;
      TUCK_UNROLL(4)
      for (uint32_t j = 0; j < 4; ++j) {
        const uint32_t e = table[w >> 56];
        w <<= e % 32;
        used += e % 256;
        four |= e / 256 << 8 * j;
      }
      if (used <= 32) [[likely]] {
        bit += used;
      } else {
        four = 0;
        for (uint32_t j = 0; j < 4; ++j) {
          uint32_t e = table[window(bit) >> 56];
          bit += e % 32;
          if ((e & no_code) != 0) {
            e = (static_cast<uint32_t>(window(bit) >> 56) & exponent_mask()) << 8;
            bit += 8;
          }
          four |= e / 256 << 8 * j;
        }
        w = window(bit);
      }
      std::memcpy(exponent + i + k, &four, 4);
    }
    begin_[l] = bit;
  };
  for (uint32_t r = 0; r < rows; ++r)
    for (uint32_t l = 0; l < streams; ++l)
      if (is_stored(r, l)) read_cell(index(r, l), l);
}

template <uint32_t Width>
bool host_coder<Width>::decode_part(part_head head, const_bytes part, uint32_t count, std::byte* restored) noexcept {
  const uint32_t zeros = head.zeros(), entry = head.entry();
  if (!head.fits(count, part_values, mantissa_)) return false;
  const std::byte* from = part.data();
  uint32_t stored = count;
  store_all(count);
  if (head.masked()) {
    if (part.size() < sizeof stored_) return false;
    std::memcpy(stored_, from, sizeof stored_);
    from += sizeof stored_;
    stored = 0;
    for (const uint32_t mask : stored_) stored += popcount(mask) * lane_values;
  }
  const huffman_format::shape rests = shape::planes(stored, mantissa_ + 1 - zeros);
  if (part.size() < 4 * (uint64_t{head.mask_words()} + rests.rest_words() + entry)) return false;
  const std::byte* const rest_planes = from;
  from += 4 * rests.rest_words();
  uint32_t end = 0, ends[streams];
  for (uint32_t l = 0; l < streams; ++l) {
    const uint32_t bit = l * entry;
    uint64_t two = 0;  // two words of the directory, or its last one
    std::memcpy(&two, from + bit / 32 * 4, bit / 32 + 1 < entry ? 8 : entry != 0 ? 4 : 0);
    begin_[l] = end;
    end += head.least() + (static_cast<uint32_t>(two >> bit % 32) & low_mask(entry));
    ends[l] = end;
  }
  const uint32_t words = (end + 31) / 32;
  if (4 * uint64_t{head.words_of(rests.rest_words(), end)} != part.size() || 4 * words + 12 > stream_bytes)
    return false;
  from += 4 * entry;
  std::memcpy(my_.bits, from, 4 * words);
  std::memset(my_.bits + 4 * words, 0, 12);
  uint16_t table[1u << code_bits];
  detail::vectorized([&] {
    make_table(tables.decode[head.book()], head.top(), exponent_mask(), head.book() >= first_of_second, table);
    get_exponents(table, words);
  });
  for (uint32_t l = 0; l < streams; ++l)
    if (begin_[l] != ends[l]) return false;
  detail::vectorized([&] {
    std::memset(my_.number, 0, stored * Width);
    planes(rests).add(rest_planes, my_.number);
  });
  if (head.masked()) spread(stored);
  with_mantissa([&]<uint32_t Mantissa>() {
    part_loops<Width, Mantissa>::join(my_.number, my_.exponent, count, zeros, restored);
  });
  return true;
}

// Moves the numbers and exponents of stored cells to their places; others become 0.
template <uint32_t Width> void host_coder<Width>::spread(uint32_t stored) noexcept {
  for (uint32_t r = rows; r-- > 0;)
    for (uint32_t l = streams; l-- > 0;) {
      value* const to = my_.number + index(r, l);
      if (is_stored(r, l)) {
        stored -= lane_values;
        std::memmove(to, my_.number + stored, lane_bytes);
      } else {
        std::memset(to, 0, lane_bytes);
        std::memset(my_.exponent + index(r, l), 0, lane_values);
      }
    }
}

template <uint32_t Width> bool host_coder<Width>::decode(const_bytes encoded, bytes restored) noexcept {
  const auto count = static_cast<uint32_t>(restored.size() / Width);
  uint64_t at = 8 * uint64_t{shape::parts(count)};
  if (at > encoded.size() || encoded.size() >= restored.size()) return false;
  for (uint32_t first = 0; first < count; first += part_values) {
    part_head head;
    std::memcpy(&head, encoded.data() + first / part_values * sizeof head, sizeof head);
    const uint64_t size = 4 * uint64_t{head.words()};
    if (size > encoded.size() - at) return false;
    if (!decode_part(head, encoded.subspan(at, size), (std::min)(count - first, part_values),
                     restored.data() + first * Width))
      return false;
    at += size;
  }
  return at == encoded.size();
}

}  // namespace tuck::inline TUCK_ABI::codebooks_format
