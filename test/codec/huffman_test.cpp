// huffman on the host: its bytes, what its decoder refuses, and its codes beside optimal ones.
#include "support/chunk_bytes.hpp"
#include "support/codecs.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

namespace tuck::test {
namespace {

using huffman_format::lanes_of;
using huffman_format::mapping;
using huffman_format::mapping_of;
using huffman_format::shape;

std::vector<uint32_t> words_of(const std::vector<std::byte>& encoded) {
  std::vector<uint32_t> words(encoded.size() / 4);
  std::memcpy(words.data(), encoded.data(), 4 * words.size());
  return words;
}
std::vector<std::byte> bytes_of_words(const std::vector<uint32_t>& words) {
  const auto* const first = reinterpret_cast<const std::byte*>(words.data());
  return {first, first + 4 * words.size()};
}
// Also what is not smaller than its values; empty if codes do not pay.
template <element T>
std::vector<std::byte> encoded_row(const std::vector<T>& values, mapping how = mapping_of(dtype_of<T>)) {
  std::vector<std::byte> encoded(2 * sizeof(T) * values.size() + 1024);
  const auto limit = static_cast<uint32_t>(encoded.size());
  const uint32_t used = huffman_format::host_chunk<sizeof(T)>(static_cast<uint32_t>(values.size()))
                            .encode(as_bytes(span<const T>(values)).data(), how, encoded.data(), limit);
  encoded.resize(used <= limit ? used : 0);
  return encoded;
}
template <element T> status decode_row(const std::vector<std::byte>& encoded, std::vector<T>& values) {
  return huffman_format::host_chunk<sizeof(T)>(static_cast<uint32_t>(values.size()))
      .decode(encoded, as_writable_bytes(span<T>(values)).data());
}
template <element T> shape shape_of(const std::vector<T>& values) {
  const auto words = words_of(encoded_row(values));
  return {sizeof(T), static_cast<uint32_t>(values.size()), {words[0], words[1]}};
}
template <class F> void for_each_type(const F& f) {
  [&]<class... Ts>(std::tuple<Ts...>*) {
    (f(Ts{}), ...);
  }(static_cast<std::tuple<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, f16, bf16, float,
                           double, f8e4m3, f8e5m2>*>(nullptr));
}
template <element T> T value_of(uint64_t bits) { return __builtin_bit_cast(T, static_cast<bits_t<T>>(bits)); }

// -- bytes -------------------------------------------------------------------------------------------------------

// 16 quads: each of 8 streams has two. Codes: 0 of symbol 0, 10 of 1, 11 of the escape.
const std::vector<uint32_t> zeros_and_ones{3 << 14 | 2 << 25,  // the directory has 3 bits a stream, the escape 2 bits
                                           8 / 4 << 20,        // each stream has 8 bits or more
                                           0x21,               // lengths
                                           4 | 4 << 21,        // 4 more in the streams 0 and 7
                                           0xaa000000,
                                           0,
                                           0xaa000000};
std::vector<uint8_t> eight_ones() {
  std::vector<uint8_t> values(64);
  for (size_t i = 0; i < 4; ++i) values[i] = values[60 + i] = 1;
  return values;
}
TEST(huffman, a_chunk_of_bytes) {
  const auto encoded = encoded_chunk_of(huffman<uint8_t>{}, eight_ones());
  EXPECT_EQ(words_of(encoded), zeros_and_ones);
  expect_restored(huffman<uint8_t>{}, eight_ones(), encoded);
}

// The example of docs/format.md: an escape, and rests of one bit above 21 zeros.
std::vector<float> example() {
  std::vector<float> values(32, 1);
  values[1] = -2;
  values[2] = 1.5;
  values[3] = 1.25;
  values[31] = 0;
  return values;
}
// Codes: 0 of symbol 0, 10 of 1.5's 1, 11 of the escape. Field 127 is in bin 63.
const std::vector<uint32_t> encoded_example{1 | 6 << 9 | 4 << 14 | 63 << 18 | 2 << 25,
                                            4 / 4 << 20,  // head
                                            8,            // bit 21
                                            0x21,         // lengths
                                            0xb000000c,   // directory: 4 + 12 bits in stream 0, 4 + 11 in stream 7
                                            0x7ff40000,   // 0, 11 and 255 << 2 | 2, 10, 0
                                            0x1bf800};    // 000, 11 and 127 << 2
TEST(huffman, a_chunk_of_floats) {
  const auto encoded = encoded_chunk_of(huffman<float>{}, example());
  EXPECT_EQ(words_of(encoded), encoded_example);
  expect_restored(huffman<float>{}, example(), encoded);
}

std::vector<uint32_t> words_behind_head(const std::vector<uint32_t>& words, size_t count) {
  return {words.begin() + 2, words.begin() + 2 + static_cast<std::ptrdiff_t>(count)};
}
TEST(huffman, planes_of_four_two_and_one_bits) {
  std::vector<uint16_t> values(40);
  for (size_t i = 1; i < 40; i += 2) values[i] = 1 << 12;
  values[2] = 0x55;
  values[39] = 0x1fff;
  const auto words = words_of(encoded_row(values));
  ASSERT_EQ(words[0] & low_mask(14), 7u);                                                     // the shift
  EXPECT_EQ(words_behind_head(words, 10), (std::vector<uint32_t>{0x500, 0, 0, 0, 0xf0000000,  // bits 0 to 3
                                                                 0x10, 0, 0xc000,             // bits 4 and 5
                                                                 0x4, 0x80}));                // bit 6
}
TEST(huffman, planes_of_bytes) {
  std::vector<uint32_t> values(80), expected(65);
  for (size_t i = 1; i < 80; i += 2) values[i] = 1u << 31;
  values[2] = 0x03050709;
  for (uint32_t k = 0; k < 3; ++k) expected[20 * k] = (9 - 2 * k) << 16;
  expected[60] = 0x30;  // bits 24 and 25
  const auto words = words_of(encoded_row(values));
  ASSERT_EQ(words[0] & low_mask(14), 26u);
  EXPECT_EQ(words_behind_head(words, 65), expected);
}

// -- numbers -----------------------------------------------------------------------------------------------------

template <uint32_t Width, class Word> void expect_numbers(uint32_t exponent) {
  const uint32_t bits = 8 * Width, mantissa = bits - 1 - exponent;
  using lanes = lanes_of<Word, Width>;
  for (const uint32_t top : {(1u << exponent) - 1, (1u << exponent) / 3}) {
    for (uint32_t x = 0; x < 1u << bits; ++x) {
      const uint32_t field = x >> mantissa & ((1u << exponent) - 1);
      if (field > top) continue;
      const uint32_t y = (top - field) << (mantissa + 1) | x >> (bits - 1) << mantissa | (x & ((1u << mantissa) - 1));
      const Word each = ~Word{0} >> (8 * sizeof(Word) - bits);
      Word word = x;
      for (uint32_t b = bits; b < 8 * sizeof(Word); b *= 2) word |= word << b;
      const Word numbers = lanes::number(word, exponent, false, top);
      ASSERT_EQ(numbers & each, y) << x << ' ' << top;
      ASSERT_EQ(numbers >> (8 * sizeof(Word) - bits), y) << x << ' ' << top;
      ASSERT_EQ(lanes::value(numbers, exponent, false, top), word) << x << ' ' << top;
      for (uint32_t zeros = 1; zeros < mantissa && (x >> (zeros - 1) & 1) == 0; ++zeros) {
        const Word fewer = lanes::down(numbers, zeros);
        ASSERT_EQ(fewer & each, y >> zeros) << x << ' ' << zeros;
        ASSERT_EQ(fewer >> (8 * sizeof(Word) - bits), y >> zeros) << x << ' ' << zeros;
        ASSERT_EQ(lanes::value(lanes::up(fewer, zeros), exponent, false, top), word) << x << ' ' << zeros;
      }
    }
  }
}
TEST(huffman, numbers_of_floats) {
  expect_numbers<1, uint32_t>(4);
  expect_numbers<1, uint64_t>(5);
  expect_numbers<2, uint32_t>(5);
  expect_numbers<2, uint32_t>(8);
}
TEST(huffman, numbers_of_integers) {
  using lanes = lanes_of<uint32_t, 2>;
  for (uint32_t x = 0; x < 65536; ++x) {
    const auto number_of = [](int v) {
      return static_cast<uint32_t>(static_cast<uint16_t>(v < 0 ? -2 * v - 1 : 2 * v));
    };
    const auto both = [](uint32_t lane) { return lane << 16 | lane; };
    const auto v = static_cast<int16_t>(x);
    const uint32_t numbers = lanes::number(both(x), 0, true, 0);
    ASSERT_EQ(numbers, both(number_of(v)));
    ASSERT_EQ(lanes::value(numbers, 0, true, 0), both(x));
    for (uint32_t zeros = 1; zeros < 16 && (x >> (zeros - 1) & 1) == 0; ++zeros) {
      const uint32_t fewer = lanes::down(numbers, zeros);
      ASSERT_EQ(fewer, both(number_of(v >> zeros))) << x << ' ' << zeros;
      ASSERT_EQ(lanes::up(lanes::value(fewer, 0, true, 0), zeros), both(x)) << x << ' ' << zeros;
      ASSERT_EQ(lanes::up(lanes::down(both(x), zeros), zeros), both(x)) << x << ' ' << zeros;
    }
  }
}

// Infinities, NaN, denormals and zeros of both signs are like other values.
TEST(huffman, top_is_where_most_exponents_of_the_sample_are) {
  for_each_type([]<class T>(T) {
    const mapping how = mapping_of(dtype_of<T>);
    if (how.exponent == 0) return;
    const uint32_t mantissa = 8 * sizeof(T) - 1 - how.exponent, step = (sizeof(T) < 4 ? 16 / sizeof(T) : 4) + 1;
    const uint64_t sign = uint64_t{1} << (8 * sizeof(T) - 1), infinity = sign - (uint64_t{1} << mantissa);
    const auto expect_top = [&](const std::vector<T>& values, uint32_t field) {
      const shape s = shape_of(values);
      const uint32_t fields_of_a_bin = how.exponent > 8 ? 16 : 2;
      EXPECT_EQ(s.bin(), field / fields_of_a_bin);
      EXPECT_EQ(s.top(), field / fields_of_a_bin * fields_of_a_bin + fields_of_a_bin - 1);
      std::vector<T> restored(values.size());
      EXPECT_EQ(decode_row(encoded_row(values), restored), status::ok);
      EXPECT_TRUE(same_bits(restored, values));
    };
    const uint32_t most = (1u << how.exponent) - 1;
    const std::vector<T> zeros(200);
    expect_top(zeros, 0);
    expect_top(std::vector<T>(200, value_of<T>(sign)), 0);
    expect_top(std::vector<T>(200, value_of<T>(sign | 1)), 0);  // denormals
    expect_top(std::vector<T>(200, value_of<T>(infinity)), most);
    expect_top(std::vector<T>(200, value_of<T>(sign | infinity | 1)), most);
    // What is not in the sample, or too far from the others, has no say.
    for (const size_t at : {size_t{step - 1}, size_t{step}}) {
      auto values = zeros;
      values[at] = value_of<T>(infinity);
      expect_top(values, at == step && how.exponent == 4 ? most : 0);
      values[at] = value_of<T>(uint64_t{most / 4} << mantissa);
      expect_top(values, at == step && how.exponent < 8 ? most / 4 : 0);
    }
    // The lowest of two windows with as many values.
    std::vector<T> even(256);
    for (size_t i = 0; i < even.size(); ++i) even[i] = value_of<T>(i / (step - 1) % 2 == 0 ? infinity : uint64_t{0});
    expect_top(even, how.exponent == 4 ? most : 0);
  });
}

TEST(huffman, the_mapping_and_the_shift_of_each_type) {
  for_each_type([]<class T>(T) {
    const mapping how = mapping_of(dtype_of<T>);
    const uint32_t bits = 8 * sizeof(T);
    std::vector<T> ones_and_zeros(1000);  // the lowest bit is not 0
    for (size_t i = 0; i < 1000; i += 9) ones_and_zeros[i] = value_of<T>(1);
    const shape s = shape_of(ones_and_zeros);
    EXPECT_EQ(s.exponent(), how.exponent);
    EXPECT_EQ(s.zeros(), 0u);
    const uint32_t codes[]{std::is_signed_v<T>, 0, 0, 0, 4, 5, 0, 0, 6, 0, 0, 7};
    EXPECT_EQ(s.mapping_code(), codes[how.exponent]);
    EXPECT_EQ(s.zigzag(), how.exponent == 0 && std::is_signed_v<T>);
    EXPECT_EQ(s.shift(), how.exponent == 0 ? 0 : sizeof(T) == 8 ? 52 : bits - how.exponent - 2);
    EXPECT_TRUE(s.fits());
    // With the type in hand, values whose type is not compiled in become the same bytes.
    std::vector<T> values(1000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = value_of<T>(uint64_t{i % 9} << (bits - 4));
    std::vector<untyped<sizeof(T)>> same(values.size());
    std::memcpy(same.data(), values.data(), values.size() * sizeof(T));
    EXPECT_EQ(encoded_row(same, how), encoded_row(values));
  });
}

// -- what the encoder chooses ------------------------------------------------------------------------------------

// Of 640 values, 10 may have more than shift + 6 bits.
template <class U> void expect_shifts() {
  const uint32_t step = sizeof(U) < 4 ? 1 : sizeof(U) / 2;
  for (uint32_t b = 7; b <= 8 * sizeof(U); ++b)
    for (const uint32_t wide : {10u, 11u}) {
      std::vector<U> values(640, 1);
      for (uint32_t i = 0; i < wide; ++i) values[50 * i] = static_cast<U>(U{1} << (b - 1) | i);
      const shape s = shape_of(values);
      EXPECT_EQ(s.shift(), wide == 10 ? 0 : (b - 6 + step - 1) / step * step) << b;
      std::vector<U> restored(values.size());
      EXPECT_EQ(decode_row(encoded_row(values), restored), status::ok);
      EXPECT_EQ(restored, values);
    }
}
TEST(huffman, chooses_the_shift_of_integers) {
  expect_shifts<uint8_t>();
  expect_shifts<uint16_t>();
  expect_shifts<uint32_t>();
  expect_shifts<uint64_t>();
}

template <class I> void expect_as_unsigned() {
  using unsigned_type = std::make_unsigned_t<I>;
  std::vector<I> values(1000);
  std::vector<unsigned_type> zigzag(1000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<I>(static_cast<int>(i * i % 61) - 30);
    zigzag[i] = static_cast<unsigned_type>(values[i] < 0 ? -2 * values[i] - 1 : 2 * values[i]);
  }
  auto expected = words_of(encoded_row(zigzag));
  expected[0] |= 1u << 9;
  EXPECT_EQ(words_of(encoded_row(values)), expected);
}
TEST(huffman, signed_integers_are_zigzag_numbers) {
  expect_as_unsigned<int8_t>();
  expect_as_unsigned<int16_t>();
  expect_as_unsigned<int32_t>();
  expect_as_unsigned<int64_t>();
}

// The lowest bits that all values have as 0 cost nothing.
TEST(huffman, zeros_cost_nothing) {
  for_each_type([]<class T>(T) {
    const mapping how = mapping_of(dtype_of<T>);
    const uint32_t bits = 8 * sizeof(T);
    std::mt19937_64 random(3);
    std::vector<uint64_t> upper(4001);
    for (uint64_t& x : upper) x = random() >> random() % 12 << (64 - bits) >> (64 - bits);
    uint32_t last = 0;
    for (uint32_t zeros = 0; zeros < bits; ++zeros) {
      std::vector<T> values(upper.size());
      for (size_t i = 0; i < values.size(); ++i) values[i] = value_of<T>(upper[i] >> zeros << zeros);
      const auto encoded = encoded_row(values);
      if (encoded.empty()) {  // codes do not pay
        last = 0;
        continue;
      }
      const auto words = words_of(encoded);
      const shape s{sizeof(T), static_cast<uint32_t>(values.size()), {words[0], words[1]}};
      EXPECT_EQ(s.zeros(), std::min(zeros, s.shift() + s.zeros())) << zeros;  // all but those of symbols
      std::vector<T> restored(values.size());
      ASSERT_EQ(decode_row(encoded, restored), status::ok) << zeros;
      ASSERT_TRUE(same_bits(restored, values)) << zeros;
      // A bit less for each value. (The sum of integers changes.)
      const auto size = static_cast<uint32_t>(encoded.size()), words_of_plane = s.plane_words(1);
      if (last != 0 && how.exponent != 0 && s.shift() != 0) {
        EXPECT_NEAR(last - size, 4 * words_of_plane, words_of_plane) << zeros;
      }
      last = size;
    }
  });
}
// Normal f32 that were rounded to fewer bits, as from f16 (13 zeros), TF32 (13) or bf16 (16), and multiples of a power
// of two.
TEST(huffman_ratio, of_values_with_zeros) {
  constexpr size_t count = 1 << 18;
  const auto ratio = []<class T>(const std::vector<T>& values) {
    return static_cast<double>(values.size() * sizeof(T)) / static_cast<double>(encoded(huffman<T>{}, values).size());
  };
  for (const auto& [zeros, least] : std::map<uint32_t, double>{
           {0, 1.19}, {4, 1.39}, {7, 1.60}, {8, 1.69}, {12, 2.14}, {13, 2.29}, {15, 2.68}, {16, 2.95}}) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& x : values)
      x = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, normal(random)) >> zeros << zeros);
    EXPECT_GE(ratio(values), least) << zeros;
  }
  std::mt19937 random(1);
  std::vector<int32_t> integers(count), multiples(count);
  for (size_t i = 0; i < count; ++i) {
    integers[i] = static_cast<int32_t>(random() % 5000) - 2500;
    multiples[i] = integers[i] * 4096;
  }
  EXPECT_GE(ratio(multiples), ratio(integers));
}

// The lengths have 32 bits. The codes of 5 values and of the escape have 9, which does not make 40 bits smaller.
TEST(huffman, codes_values_where_that_pays) {
  for (uint32_t n = 1; n < 60; ++n) {
    std::vector<uint8_t> values(n);
    for (uint32_t i = 1; i < n; i += 2) values[i] = 1;
    EXPECT_EQ(encoded_row(values).empty(), n <= 5) << n;
  }
  EXPECT_TRUE(encoded_row(test::noise<float>(1000)).empty());
}

TEST(huffman, places_of_lengths) {
  using huffman_format::length_index;
  for (const uint32_t exponent : {4u, 5u, 8u}) {  // rank, sign, a bit of the mantissa: negative ones behind the others
    uint32_t next[2] = {0, 32};
    for (uint32_t s = 0; s < 64; ++s) EXPECT_EQ(length_index(s, exponent), next[s >> 1 & 1]++) << s;
  }
  for (const uint32_t exponent : {0u, 11u})
    for (uint32_t s = 0; s < 64; ++s) EXPECT_EQ(length_index(s, exponent), s);
}

// The table ends with the word of the last length.
template <element T> void expect_table(const std::vector<T>& values, uint32_t last_place) {
  EXPECT_EQ(shape_of(values).table_words(), last_place / 8 + 1) << last_place;
  std::vector<T> restored(values.size());
  EXPECT_EQ(decode_row(encoded_row(values), restored), status::ok);
  EXPECT_TRUE(same_bits(restored, values));
}
TEST(huffman, tables_of_few_words) {
  for (uint32_t most = 0; most < 63; ++most) {
    std::vector<uint8_t> values(1000);
    for (uint32_t i = 0; i < 1000; ++i) values[i] = static_cast<uint8_t>(i % (most + 1));
    expect_table(values, most);
  }
  for_each_type([]<class T>(T) {
    const uint32_t exponent = mapping_of(dtype_of<T>).exponent, mantissa = 8 * sizeof(T) - 1 - exponent;
    if (exponent == 0) return;
    const uint64_t top = (1u << exponent) - 1, sign = uint64_t{1} << (8 * sizeof(T) - 1);
    for (uint32_t ranks = 1; ranks <= 16; ranks += 3) {
      std::vector<T> values(2000);
      const auto set = [&](uint32_t i, uint64_t of_sign) {
        values[i] = value_of<T>((top - (i < 1000 ? 0 : i % ranks)) << mantissa | of_sign);
      };
      for (uint32_t i = 0; i < 2000; ++i) set(i, 0);
      ASSERT_EQ(shape_of(values).top(), top);
      const uint32_t last = 2 * (ranks - 1);  // of f64, symbol and place have rank and sign
      expect_table(values, last);
      set(0, sign);
      expect_table(values, exponent > 8 ? std::max(last, 1u) : 32);
      for (uint32_t i = 0; i < 2000; ++i) set(i, i / 20 % 2 == 0 ? 0 : sign);
      expect_table(values, exponent > 8 ? last + 1 : 32 + last);
    }
  });
}

// A word of a chunk without its directory is one of head, rests, table, or 32 bits of codes. The escape, which does not
// occur, counts once.
TEST(huffman, has_more_streams_for_more_words) {
  using huffman_format::streams_of;
  for (const auto& [words, streams] : {std::pair{0u, 8u},
                                       {127u, 8u},
                                       {128u, 16u},
                                       {255u, 16u},
                                       {256u, 32u},
                                       {511u, 32u},
                                       {512u, 64u},
                                       {1023u, 64u},
                                       {1024u, 128u},
                                       {20000u, 128u}}) {
    EXPECT_EQ(streams_of(words), streams) << words;
    if (words < 127 || words > 1024) continue;
    const uint32_t n = 32 * (words - 3) + (words % 2 == 0 ? 0 : 31) - 1;  // n + 1 bits: the first or last of the word
    std::vector<uint8_t> values(n);
    const shape s = shape_of(values);
    EXPECT_EQ(s.streams(), streams) << words;
    EXPECT_EQ(encoded_row(values).size() / 4, 2 + 1 + (streams * s.entry_bits() + 31) / 32 + (n + 31) / 32);
    std::vector<uint8_t> restored(n, 1);
    EXPECT_EQ(decode_row(encoded_row(values), restored), status::ok);
    EXPECT_EQ(restored, values);
  }
  std::vector<float> values(256);  // 2 words of head, 176 of rests, 1 of lengths and 8 of codes
  for (uint32_t i = 0; i < 256; ++i) values[i] = value_of<float>(0x3f800000 | (i * 16411 & low_mask(22)));
  EXPECT_EQ(shape_of(values).streams(), 16u);
}

TEST(huffman, what_the_head_says_about_streams) {
  const auto expect = [](uint32_t streams, uint32_t least, uint32_t most, uint32_t stored, uint32_t more) {
    shape s{1, 100};
    EXPECT_TRUE(s.set_streams(streams, least, most));
    EXPECT_EQ(s.head[0], more << 14);
    EXPECT_EQ(s.streams(), streams);
    EXPECT_EQ(s.least(), stored);
    EXPECT_TRUE(s.fits());
  };
  for (const uint32_t streams : {8u, 16u, 32u, 64u, 128u}) expect(streams, 40, 40, 40, 0);
  expect(8, 7, 7, 4, 2);
  expect(8, 16383, 16383, 16380, 2);
  expect(128, 16384, 16384, 16380, 3);  // what the head has no room for is in the directory
  expect(8, 16384 + 1000, 16384 + 1001, 16380, 10);
  expect(8, 16380, 16380 + 32767, 16380, 15);
  expect(8, 20000, 16380 + 32767, 16380, 15);
  EXPECT_FALSE((shape{1, 100}.set_streams(8, 0, 32768)));
  EXPECT_FALSE((shape{1, 100}.set_streams(8, 20000, 16380 + 32768)));
}

// Numbers after escapes have up to 64 bits.
TEST(huffman, escapes_of_wide_values) {
  for_each_type([]<class T>(T) {
    std::mt19937_64 random(5);
    std::vector<T> values(
        6400, value_of<T>(mapping_of(dtype_of<T>).exponent == 0 ? 3 : uint64_t{0x7e} << (8 * sizeof(T) - 8)));
    for (size_t i = 7; i < values.size(); i += 64) values[i] = value_of<T>(random());
    const auto encoded = encoded_row(values);
    std::vector<T> restored(values.size());
    EXPECT_EQ(decode_row(encoded, restored), status::ok);
    EXPECT_TRUE(same_bits(restored, values));
  });
}

// -- what the decoder refuses ------------------------------------------------------------------------------------

status verdict_of_words(const std::vector<uint32_t>& words, std::vector<uint8_t>& values) {
  return huffman<uint8_t>{}.decode_chunk(bytes_of_words(words), values);
}
status verdict_of_words(const std::vector<uint32_t>& words) {
  std::vector<uint8_t> values(64);
  return verdict_of_words(words, values);
}

// The fields of a sound head, each with all other values. `taken`: those that are not refused, by the word and the
// first bit of the field.
using values_of_fields = std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>>;
template <codec C> void expect_fields(const std::vector<uint32_t>& sound, size_t count, const values_of_fields& taken) {
  ASSERT_EQ(verdict(C{}, bytes_of_words(sound), count), status::ok);
  const std::vector<uint32_t> bits_of_fields[2] = {{6, 3, 3, 2, 4, 7, 4, 3}, {17, 3, 12}};
  for (uint32_t word = 0; word < 2; ++word) {
    uint32_t at = 0;
    for (const uint32_t bits : bits_of_fields[word]) {
      for (uint32_t x = 0; x < 1u << bits; ++x) {
        auto words = sound;
        words[word] = (words[word] & ~(low_mask(bits) << at)) | x << at;
        const auto others = taken.find({word, at});
        const bool takes = words == sound ||
                           (others != taken.end() && std::count(others->second.begin(), others->second.end(), x) != 0);
        EXPECT_EQ(verdict(C{}, bytes_of_words(words), count), takes ? status::ok : status::bad_payload)
            << word << ' ' << at << ' ' << x;
      }
      at += bits;
    }
    EXPECT_EQ(at, 32u);
  }
}
TEST(huffman, refuses_another_head) {
  std::vector<uint32_t> each_bin(128);
  std::iota(each_bin.begin(), each_bin.end(), 0);
  expect_fields<huffman<float>>(encoded_example, 32, {{{0, 18}, each_bin}});
  // With zigzag the values are 0 and -1, and floats have these numbers too. There may be up to 7 zeros below the ones.
  expect_fields<huffman<uint8_t>>(zeros_and_ones, 64, {{{0, 9}, {1, 4, 5}}, {{0, 18}, {1, 2, 3, 4, 5, 6, 7}}});
}

// One rule after the other, of heads that no chunk belongs to.
TEST(huffman, heads_that_fit) {
  const auto fits = [](uint32_t width, uint32_t first, uint32_t second = 0) {
    return shape{width, 100, {first, second}}.fits();
  };
  const uint32_t exponents[8]{0, 0, 0, 0, 4, 5, 8, 11};
  for (uint32_t width = 1; width <= 8; width *= 2)
    for (uint32_t code = 0; code < 8; ++code)
      for (uint32_t shift = 0; shift < 64; ++shift) {
        const uint32_t bits = 8 * width, step = width < 4 ? 1 : width / 2, e = exponents[code];
        const uint32_t most = e + 2 <= bits ? (bits - e - 2 + step - 1) / step * step : 0;  // of floats
        const bool expected = code == 2 || code == 3 ? false
                              : e == 0               ? shift < bits
                                                     : e + 2 <= bits && shift <= most && most + e <= bits;
        for (uint32_t more = 0; more < 8; ++more)
          EXPECT_EQ(fits(width, shift | more << 6 | code << 9),
                    expected && more == 0 && (code > 1 || shift % step == 0))
              << width << ' ' << code << ' ' << shift;
        for (uint32_t bin = 0; bin < 128; ++bin) {
          const bool possible =
              e == 0 ? shift + bin < bits && (shift + bin) % step == 0 : bin <= (e < 8 ? (1u << (e - 1)) - 1 : 127);
          EXPECT_EQ(fits(width, shift | code << 9 | bin << 18), expected && possible)
              << width << ' ' << code << ' ' << shift << ' ' << bin;
        }
      }
  const uint32_t entry = 1 << 14, of_codes[]{1 << 25, 1u << 29}, log_streams = 1 << 17, least = 1 << 20;
  EXPECT_TRUE(fits(4, entry | of_codes[0] | of_codes[1], log_streams | least));
  for (uint32_t log = 0; log < 8; ++log) EXPECT_EQ(fits(4, 0, log * log_streams), log < 5);
  for (const uint32_t bit : {12u, 13u}) EXPECT_FALSE(fits(4, 1u << bit));
  for (uint32_t bit = 0; bit < 17; ++bit) EXPECT_FALSE(fits(4, 0, 1u << bit));
}

TEST(huffman, refuses_codes_that_are_not_complete) {
  const auto with = [](uint32_t lengths, uint32_t of_escape) {
    auto words = zeros_and_ones;
    words[0] = 3 << 14 | of_escape << 25;
    words[2] = lengths;
    return verdict_of_words(words);
  };
  EXPECT_EQ(with(0x21, 2), status::ok);
  EXPECT_EQ(with(0x21, 3), status::bad_payload);
  EXPECT_EQ(with(0x11, 2), status::bad_payload);
  EXPECT_EQ(with(0, 0), status::bad_payload);
  EXPECT_EQ(with(0x01, 0), status::bad_payload);
  EXPECT_EQ(with(0x00b00021, 2), status::bad_payload);
  EXPECT_EQ(with(0x00f00021, 2), status::bad_payload);
}
// Also if the escape has no bits in a code that is complete without it, or more bits than a code can have.
TEST(huffman, the_length_of_the_escape) {
  for (uint32_t l = 0; l < 16; ++l)
    EXPECT_EQ(verdict_of_words({l << 25, 8 / 4 << 20, 0x11, 0, 0}), l == 0 ? status::ok : status::bad_payload) << l;
}

// Numbers of 8 bits with a shift of 3 have 5 bits left. 32 numbers have planes of two bits and of one.
TEST(huffman, refuses_codes_of_symbols_that_no_value_has) {
  for (uint32_t s = 0; s < 63; ++s) {
    std::vector<uint32_t> words{3 | 1 << 25 | s / 8 << 29, 4 / 4 << 20, 0, 0, 0};
    words.resize(words.size() + s / 8 + 1);
    words.back() = 1u << s % 8 * 4;
    words.push_back(0);
    std::vector<uint8_t> values(32);
    EXPECT_EQ(decode_row(bytes_of_words(words), values), s < 32 ? status::ok : status::bad_payload) << s;
  }
}

// What encoders never write.
TEST(huffman, decodes_any_complete_code) {
  std::vector<uint8_t> values(64), expected(64);
  std::vector<uint32_t> words{0, 8 / 4 << 20, 0x11, 0, 0x000f0000};  // no escape
  ASSERT_EQ(verdict_of_words(words, values), status::ok);
  std::fill_n(expected.begin() + 4 * (8 + 5), 4, uint8_t{1});  // bits 44 to 47: the second quad of stream 5
  EXPECT_EQ(values, expected);
  // 5 after an escape has another code, if symbol 5 has one.
  words = {4 << 14 | 1 << 25, 8 / 4 << 20, 1, 8, 0x82800000, 0, 0};
  ASSERT_EQ(verdict_of_words(words, values), status::ok);
  EXPECT_EQ(values[0], 5);
  EXPECT_EQ(std::count(values.begin(), values.end(), 0), 63);
}
// Words of zeros behind the table, and with 8 words a length of the escape, which does not count.
TEST(huffman, decodes_longer_tables) {
  for (uint32_t more = 0; more < 8; ++more)
    for (uint32_t last = 0; last < 16; ++last) {
      auto words = zeros_and_ones;
      words[0] |= more << 29;
      words.insert(words.begin() + 3, more, 0u);
      words[2 + more] |= last << 28;
      std::vector<uint8_t> values(64);
      ASSERT_EQ(verdict_of_words(words, values), more == 7 || last == 0 ? status::ok : status::bad_payload);
      if (more == 7 || last == 0) {
        ASSERT_EQ(values, eight_ones());
      }
    }
}

// Zeros and ones with codes of one bit, in 8 << log streams. The directory has 7 bits for each.
std::vector<uint32_t> in_streams(const std::vector<uint8_t>& values, uint32_t log) {
  const uint32_t streams = 8u << log, all = static_cast<uint32_t>(values.size());
  std::vector<uint32_t> directory((7 * streams + 31) / 32), bits((all + 31) / 32), words{7 << 14, log << 17, 0x11};
  for (uint32_t t = 0, at = 0; t < streams; ++t) {
    const uint32_t begin = at;
    for (uint32_t first = 4 * t; first < all; first += 4 * streams)
      for (uint32_t i = first; i < std::min(first + 4, all); ++i, ++at)
        bits[at / 32] |= uint32_t{values[i]} << (31 - at % 32);
    for (uint32_t b = 0; b < 7; ++b) directory[(7 * t + b) / 32] |= ((at - begin) >> b & 1) << (7 * t + b) % 32;
  }
  words.insert(words.end(), directory.begin(), directory.end());
  words.insert(words.end(), bits.begin(), bits.end());
  return words;
}
TEST(huffman, decodes_any_number_of_streams) {
  std::mt19937 random(8);
  for (const size_t count : {1u, 31u, 500u}) {
    std::vector<uint8_t> values(count);
    for (uint8_t& x : values) x = random() % 2;
    for (uint32_t log = 0; log < 8; ++log) {
      std::vector<uint8_t> restored(count);
      ASSERT_EQ(decode_row(bytes_of_words(in_streams(values, log)), restored),
                log < 5 ? status::ok : status::bad_payload);
      if (log < 5) {
        EXPECT_EQ(restored, values);
      }
    }
  }
}

TEST(huffman, refuses_streams_that_end_elsewhere) {
  auto words = zeros_and_ones;
  words[3] = 5 | 3 << 21;
  EXPECT_EQ(verdict_of_words(words), status::bad_payload);
  words = zeros_and_ones;
  words[3] = 7 | 4 << 21;  // as many words
  EXPECT_EQ(verdict_of_words(words), status::bad_payload);
  for (const size_t size : {0, 1, 2, 3, 4, 6, 8}) {
    words = zeros_and_ones;
    words.resize(size);
    EXPECT_EQ(verdict_of_words(words), status::bad_payload) << size;
  }
  for (const size_t size : {1u, 7u, 27u, 29u}) {
    auto bytes = bytes_of_words(zeros_and_ones);
    bytes.resize(size);
    EXPECT_EQ(verdict(huffman<uint8_t>{}, bytes, 64), status::bad_payload) << size;
  }
}

// Ranks are taken modulo 2^exponent: with each top a chunk has values.
TEST(huffman, takes_each_bin) {
  std::vector<float> values(300, 1.f), restored(300);
  values[7] = 4;
  values[8] = -0.f;
  auto words = words_of(encoded_chunk_of(huffman<float>{}, values));
  EXPECT_EQ(words[0] >> 18 & 127, 63u);
  for (uint32_t bin = 0; bin < 128; ++bin) {
    words[0] = (words[0] & ~(127u << 18)) | bin << 18;
    ASSERT_EQ(decode_row(bytes_of_words(words), restored), status::ok);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto of = [](float x) { return __builtin_bit_cast(uint32_t, x); };
      const uint32_t field = ((of(values[i]) >> 23 & 255) + 2 * bin + 1 - 127) & 255;
      ASSERT_EQ(of(restored[i]), (of(values[i]) & 0x807fffff) | field << 23);
    }
  }
}

// Whatever happens to a chunk, its decoder says so or restores some values.
TEST(huffman, damaged_chunks) {
  for_each_type([]<class T>(T) {
    std::mt19937 random(4);
    std::vector<T> values(300), restored(300);
    for (size_t i = 0; i < 300; ++i)
      values[i] = i % 4 == 0 ? T{} : value_of<T>(uint64_t{60 + random() % 3} << (8 * sizeof(T) - 8) | random() % 3);
    uint32_t refused = 0, taken = 0;
    const auto damage = [&](const auto& codec) {
      const auto sound = encoded_chunk_of(codec, values);
      ASSERT_FALSE(sound.empty());
      for (uint32_t i = 0; i < 300; ++i) {
        auto bytes = sound;
        const size_t at = i < 64 ? i / 8 : random() % bytes.size();
        bytes[at] ^= static_cast<std::byte>(1 << (i < 64 ? i % 8 : random() % 8));
        if (i % 7 == 0) bytes.resize(bytes.size() - random() % std::min<size_t>(bytes.size(), 9));
        bytes.shrink_to_fit();
        ++(codec.decode_chunk(bytes, restored) == status::ok ? taken : refused);
      }
    };
    damage(huffman<T>{});
    damage(zvc_huffman<T>{});
    EXPECT_GT(refused, 100u);
    EXPECT_GT(taken, 10u);
  });
}

// -- codes -------------------------------------------------------------------------------------------------------

// Code lengths of an optimal prefix code; 0 where the frequency is 0. Where there is only one symbol, it takes a bit.
std::vector<uint32_t> huffman_lengths(span<const uint64_t> frequencies) {
  using weighted = std::pair<uint64_t, size_t>;  // and the node's number
  std::priority_queue<weighted, std::vector<weighted>, std::greater<>> roots;
  for (size_t symbol = 0; symbol < frequencies.size(); ++symbol)
    if (frequencies[symbol] != 0) roots.emplace(frequencies[symbol], symbol);
  std::vector<uint32_t> lengths(frequencies.size(), 0);
  if (roots.size() == 1) lengths[roots.top().second] = 1;
  if (roots.size() <= 1) return lengths;

  // Inner nodes get the numbers after the symbols; a parent's is above its children's, so depths follow from above.
  std::vector<size_t> parent(frequencies.size());
  while (roots.size() > 1) {
    uint64_t weight = 0;
    for (int child = 0; child < 2; ++child) {
      weight += roots.top().first;
      parent[roots.top().second] = parent.size();
      roots.pop();
    }
    roots.emplace(weight, parent.size());
    parent.push_back(0);
  }
  std::vector<uint32_t> depth(parent.size(), 0);
  for (size_t node = parent.size() - 1; node-- > 0;)
    if (node >= frequencies.size() || frequencies[node] != 0) depth[node] = depth[parent[node]] + 1;
  std::copy_n(depth.begin(), lengths.size(), lengths.begin());
  return lengths;
}

uint64_t optimal_bits(const std::vector<uint64_t>& counts, uint32_t& longest) {
  const auto lengths = huffman_lengths(counts);
  uint64_t bits = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    bits += counts[i] * lengths[i];
    longest = std::max(longest, lengths[i]);
  }
  return bits;
}

// The rules of docs/format.md, in plain arithmetic.
template <uint32_t Symbols> std::vector<uint8_t> expected_lengths(const uint32_t (&counts)[Symbols], uint32_t most) {
  std::vector<uint8_t> length(Symbols);
  uint64_t total = 0;
  uint32_t present = 0, last = 0;
  for (uint32_t s = 0; s < Symbols; ++s) {
    total += counts[s];
    if (counts[s] != 0) ++present, last = s;
  }
  if (present == 1) length[last] = length[last ^ 1] = 1;
  if (present <= 1) return length;
  const auto sum = [&] {
    uint32_t slots = 0;
    for (const uint8_t l : length) slots += l == 0 ? 0 : 1024 >> l;
    return slots;
  };
  for (uint64_t k = 0; k < 64; ++k) {
    const uint64_t x = total / 2 + k * total / 32;
    for (uint32_t s = 0; s < Symbols; ++s) {
      if (counts[s] == 0) continue;
      for (length[s] = 1; length[s] < most && (uint64_t{counts[s]} << length[s]) < x;) ++length[s];
    }
    if (sum() <= 1024) break;
  }
  while (sum() < 1024) {
    uint64_t best = 0;
    uint32_t which = 0;
    for (uint32_t s = 0; s < Symbols; ++s)
      if (length[s] > 1 && sum() + (1024 >> length[s]) <= 1024 && uint64_t{counts[s]} << length[s] > best) {
        best = uint64_t{counts[s]} << length[s];
        which = s;
      }
    --length[which];
  }
  return length;
}
template <uint32_t Symbols> void expect_rounded_lengths() {
  std::mt19937_64 random(6);
  uint64_t ours = 0, best = 0;
  for (uint32_t i = 0; i < 2000; ++i) {
    uint32_t counts[Symbols] = {};
    const uint32_t present = 1 + static_cast<uint32_t>(random() % Symbols);
    const uint64_t spread = 1 + random() % 16;
    for (uint32_t k = 0; k < present; ++k)
      counts[random() % Symbols] = static_cast<uint32_t>(1 + random() % (1u << random() % spread));
    uint8_t length[Symbols];
    huffman_format::round_lengths<Symbols>(counts, length);
    const auto expected = expected_lengths(counts, huffman_format::max_length);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), length));
    uint32_t longest = 0, slots = 0;
    for (uint32_t s = 0; s < Symbols; ++s) {
      ours += uint64_t{counts[s]} * length[s];
      slots += length[s] == 0 ? 0 : huffman_format::slots_of(length[s]);
    }
    ASSERT_EQ(slots, huffman_format::all_slots);
    best += optimal_bits({std::begin(counts), std::end(counts)}, longest);
  }
  EXPECT_LE(static_cast<double>(ours), 1.02 * static_cast<double>(best));
}
TEST(huffman_codes, are_rounded_by_the_rules) {
  expect_rounded_lengths<64>();
  expect_rounded_lengths<288>();
}

}  // namespace
}  // namespace tuck::test
