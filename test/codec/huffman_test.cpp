// huffman on the host: its bytes, what its decoder refuses, and its codes beside optimal ones.
#include "bench/support/reference_coders.hpp"
#include "support/chunk_bytes.hpp"
#include "support/codecs.hpp"

#include <algorithm>
#include <numeric>

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
// The row of values alone, as a chain may have it: not smaller than its values either.
template <element T>
std::vector<std::byte> encoded_row(const std::vector<T>& values, mapping how = mapping_of(dtype_of<T>)) {
  section_list sections{};
  sections.add(static_cast<uint32_t>(sizeof(T) * values.size()));
  std::vector<std::byte> encoded(2 * sections.total() + 1024);
  encoded.resize(huffman_format::host_chunk<T>(sections).encode(as_bytes(span<const T>(values)).data(), how,
                                                                encoded.data(), static_cast<uint32_t>(encoded.size())));
  return encoded;
}
template <element T> status decode_row(const std::vector<std::byte>& encoded, std::vector<T>& values) {
  section_list sections{};
  sections.add(static_cast<uint32_t>(sizeof(T) * values.size()));
  return huffman_format::host_chunk<T>(sections).decode(encoded, as_writable_bytes(span<T>(values)).data());
}
template <element T> shape shape_of(const std::vector<T>& values) {
  const auto words = words_of(encoded_row(values));
  return {sizeof(T), static_cast<uint32_t>(values.size()), 0, {words[0], words[1]}};
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
const std::vector<uint32_t> zeros_and_ones{3 << 17,      // the directory has 3 bits a stream
                                           8 / 2 << 17,  // each stream has 8 bits or more
                                           0x21,        0, 0,         0, 0, 0, 0, 0x20000000,  // lengths
                                           4 | 4 << 21,  // 4 more in the streams 0 and 7
                                           0xaa000000,  0, 0xaa000000};
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

// The example of docs/format.md: an escape, and rests of which two bytes are dropped.
std::vector<float> example() {
  std::vector<float> values(32, 1);
  values[1] = -2;
  values[2] = 1.5;
  values[3] = 1.25;
  values[31] = 0;
  return values;
}
const std::vector<uint32_t> encoded_example{22 | 2 << 6 | 8 << 9 | 4 << 17 | 127 << 21,
                                            4 / 2 << 17,  // head
                                            0,
                                            0,
                                            0,
                                            0,  // bits 16 to 19
                                            0x80,
                                            0,  // bits 20 and 21
                                            0x21,
                                            0,
                                            0,
                                            0,
                                            0,
                                            0,
                                            0,
                                            0x20000000,
                                            0xb000000c,  // directory
                                            0x7ff40000,
                                            0x1bf800};
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
  ASSERT_EQ(words[0] & low_mask(17), 7u);                                                     // the shift
  EXPECT_EQ(words_behind_head(words, 10), (std::vector<uint32_t>{0x500, 0, 0, 0, 0xf0000000,  // bits 0 to 3
                                                                 0x10, 0, 0xc000,             // bits 4 and 5
                                                                 0x4, 0x80}));                // bit 6
}
TEST(huffman, planes_of_bytes) {
  std::vector<uint32_t> values(80), expected(65);
  for (size_t i = 1; i < 80; i += 2) values[i] = 1u << 31;
  values[2] = 0x03040506;
  for (uint32_t k = 0; k < 3; ++k) expected[20 * k] = (6 - k) << 16;
  expected[60] = 0x30;  // bits 24 and 25
  const auto words = words_of(encoded_row(values));
  ASSERT_EQ(words[0] & low_mask(17), 26u);
  EXPECT_EQ(words_behind_head(words, 65), expected);
}

TEST(huffman, rows_of_a_chain) {
  std::vector<uint16_t> values(64);
  values[1] = 0x1234;
  values[4] = 0x5678;
  values[31] = 0x9abc;
  expect_chunk(zvc_huffman<uint16_t>{}, values,
               "00400000 03000000 34127856 bc9a0000 19000000 36800100 08800100");  // plain, flags, edges, record
  // No values: a mapping all the same, and the lowest top.
  expect_chunk(zvc_huffman<uint16_t>{}, std::vector<uint16_t>(64), "00000000 00000000 00000000 08000000");
  expect_chunk(zvc_huffman<float>{}, std::vector<float>(64), "96102000 00000000 00000000 08000000");
}

TEST(huffman, masks_of_a_chain_by_their_edges) {
  std::vector<uint16_t> values(2048, 0);
  for (size_t i = 512; i < 1024; ++i) values[i] = static_cast<uint16_t>(0x4000 + i * 7919 % 0x3fff);
  const auto encoded = encoded_chunk_of(zvc_huffman<uint16_t>{}, values);
  const auto words = words_of(encoded);
  EXPECT_EQ(words[1] & 0x1ffff, 2u);  // two bytes of 256 have an edge
  EXPECT_EQ(words[0] >> 15 & 3, 1u);  // the flags are coded, these edges are not
  expect_restored(zvc_huffman<uint16_t>{}, values, encoded);
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
  for (uint32_t x = 0; x < 65536; ++x) {
    const auto v = static_cast<int16_t>(x);
    const uint32_t expected = static_cast<uint16_t>(v < 0 ? -2 * v - 1 : 2 * v);
    ASSERT_EQ((lanes_of<uint32_t, 2>::number(x, 0, true, 0) & 0xffff), expected);
    ASSERT_EQ((lanes_of<uint32_t, 2>::value(expected, 0, true, 0) & 0xffff), x);
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
      const auto encoded = encoded_row(values);
      const uint32_t head = words_of(encoded)[0], fields_of_a_bin = how.exponent > 8 ? 16 : 2;
      EXPECT_EQ(head >> 14 & 1, 0u);
      EXPECT_EQ(head >> 21, field / fields_of_a_bin * fields_of_a_bin + fields_of_a_bin - 1);
      std::vector<T> restored(values.size());
      EXPECT_EQ(decode_row(encoded, restored), status::ok);
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
    const shape s = shape_of(std::vector<T>(1000));
    EXPECT_EQ(s.exponent(), how.exponent);
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
      EXPECT_FALSE(s.plain());
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
  expected[0] |= 1u << 13;
  EXPECT_EQ(words_of(encoded_row(values)), expected);
}
TEST(huffman, signed_integers_are_zigzag_numbers) {
  expect_as_unsigned<int8_t>();
  expect_as_unsigned<int16_t>();
  expect_as_unsigned<int32_t>();
  expect_as_unsigned<int64_t>();
}

// Lower bytes that are always 0 cost nothing, where coding the symbols alone would not pay either.
TEST(huffman, drops_bytes_that_are_zero) {
  std::mt19937 random(3);
  for (const uint32_t most : {16u, 1000u, 65536u}) {
    std::vector<uint16_t> narrow(2001);
    for (uint16_t& x : narrow) x = static_cast<uint16_t>((random() % most) << (most == 1000 ? 6 : 0));
    std::vector<uint32_t> wide(narrow.size());
    for (size_t i = 0; i < narrow.size(); ++i) wide[i] = uint32_t{narrow[i]} << 16;
    const auto words = words_of(encoded_row(wide));
    EXPECT_EQ(words[0] >> 14 & 1, 0u);
    EXPECT_EQ(words[0] & 63, most == 16 ? 14u : 26u);
    EXPECT_EQ(words[0] >> 6 & 7, most == 16 ? 1u : 2u);
    std::vector<uint32_t> restored(wide.size());
    EXPECT_EQ(decode_row(encoded_row(wide), restored), status::ok);
    EXPECT_EQ(restored, wide);
    EXPECT_LT(4 * words.size(), 2 * wide.size() + 400);
  }
}

// The lengths have 256 bits. The codes of 40 values have 62, which does not make 320 bits smaller.
TEST(huffman, codes_values_where_that_pays) {
  for (uint32_t n = 1; n < 60; ++n) {
    std::vector<uint8_t> values(n);
    for (uint32_t i = 1; i < n; i += 2) values[i] = 1;
    const auto words = words_of(encoded_row(values));
    EXPECT_EQ(words[0] == 1u << 14, n <= 40) << n;
    if (n <= 40) {
      EXPECT_EQ(words.size(), 2 + (n + 3) / 4);
      EXPECT_EQ(words[1], 0u);
    }
  }
  const auto noise = test::noise<float>(1000);
  const auto encoded = encoded_row(noise);
  ASSERT_EQ(encoded.size(), 4008u);
  EXPECT_EQ(words_of(encoded)[0], 1u << 14);
  EXPECT_EQ(std::memcmp(encoded.data() + 8, noise.data(), 4000), 0);
}

TEST(huffman, has_more_streams_for_more_symbols) {
  for (const auto& [n, streams] : {std::pair{511u, 8u},
                                   {512u, 16u},
                                   {1023u, 16u},
                                   {1024u, 32u},
                                   {2047u, 32u},
                                   {2048u, 64u},
                                   {4095u, 64u},
                                   {4096u, 128u},
                                   {16384u, 128u}}) {
    std::vector<uint8_t> values(n);
    const shape s = shape_of(values);
    EXPECT_EQ(s.streams(), streams);
    EXPECT_EQ(encoded_row(values).size() / 4, 2 + 8 + (streams * s.more() + 31) / 32 + (n + 31) / 32);
    std::vector<uint8_t> restored(n, 1);
    EXPECT_EQ(decode_row(encoded_row(values), restored), status::ok);
    EXPECT_EQ(restored, values);
  }
}

// Numbers after escapes have up to 64 bits.
TEST(huffman, escapes_of_wide_values) {
  for_each_type([]<class T>(T) {
    std::mt19937_64 random(5);
    std::vector<T> values(
        6400, value_of<T>(mapping_of(dtype_of<T>).exponent == 0 ? 3 : uint64_t{0x7e} << (8 * sizeof(T) - 8)));
    for (size_t i = 7; i < values.size(); i += 64) values[i] = value_of<T>(random());
    const auto encoded = encoded_row(values);
    EXPECT_EQ(words_of(encoded)[0] >> 14 & 1, 0u);
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

// Fields of a sound head, each with all other values.
template <codec C>
void expect_fields(const std::vector<uint32_t>& sound, size_t count, uint32_t word, uint32_t at, uint32_t bits,
                   std::vector<uint32_t> taken) {
  const uint32_t mask = (1u << bits) - 1;
  taken.push_back(sound[word] >> at & mask);
  for (uint32_t x = 0; x <= mask; ++x) {
    auto words = sound;
    words[word] = (words[word] & ~(mask << at)) | x << at;
    const bool takes = std::find(taken.begin(), taken.end(), x) != taken.end();
    EXPECT_EQ(verdict(C{}, bytes_of_words(words), count), takes ? status::ok : status::bad_payload) << at << ' ' << x;
  }
}
TEST(huffman, refuses_another_head) {
  std::vector<uint32_t> tops(256);
  std::iota(tops.begin(), tops.end(), 0);
  const std::vector<uint32_t> none, exponents_of_shift_0{6}, exponents_of_shift_22{9};
  using of_floats = huffman<float>;
  using of_bytes = huffman<uint8_t>;
  for (const auto& [at, bits] :
       {std::pair{0u, 6u}, {6u, 3u}, {9u, 4u}, {13u, 1u}, {14u, 1u}, {15u, 1u}, {16u, 1u}, {17u, 4u}})
    expect_fields<of_floats>(encoded_example, 32, 0, at, bits, at == 9 ? exponents_of_shift_22 : none);
  expect_fields<of_floats>(encoded_example, 32, 0, 21, 11, tops);
  expect_fields<of_floats>(encoded_example, 32, 1, 0, 17, {});
  expect_fields<of_floats>(encoded_example, 32, 1, 17, 15, {});
  for (const auto& [at, bits] :
       {std::pair{0u, 6u}, {6u, 3u}, {9u, 4u}, {14u, 1u}, {15u, 1u}, {16u, 1u}, {17u, 4u}, {21u, 11u}})
    expect_fields<of_bytes>(zeros_and_ones, 64, 0, at, bits, at == 9 ? exponents_of_shift_0 : none);
  expect_fields<of_bytes>(zeros_and_ones, 64, 0, 13, 1, {1});  // the values are then 0 and -1
}

// One rule after the other, of heads that no chunk belongs to.
TEST(huffman, heads_that_fit) {
  const auto fits = [](uint32_t width, uint32_t sides, mapping how, uint32_t shift, uint32_t top, uint32_t more = 0) {
    return shape{width, 100, sides, {shift | how.exponent << 9 | uint32_t{how.zigzag} << 13 | top << 21 | more}}.fits();
  };
  for (uint32_t width = 1; width <= 8; width *= 2)
    for (uint32_t e = 0; e < 16; ++e)
      for (uint32_t shift = 0; shift < 64; ++shift) {
        const uint32_t bits = 8 * width, step = width < 4 ? 1 : width / 2;
        bool expected = shift < bits && shift % step == 0;
        if (e != 0)
          expected =
              expected && e + 2 <= bits && shift >= bits - e - 2 && shift < bits - e - 2 + step && shift + e <= bits;
        EXPECT_EQ(fits(width, 0, {e}, shift, 0), expected) << width << ' ' << e << ' ' << shift;
        EXPECT_EQ(fits(width, 0, {e, true}, shift, 0), expected && e == 0) << width << ' ' << e << ' ' << shift;
        EXPECT_EQ(fits(width, 0, {e}, shift, (1u << std::min(e, 11u)) - 1), expected);
        EXPECT_FALSE(fits(width, 0, {e}, shift, 1u << std::min(e, 10u)) && e < 11);
        for (uint32_t dropped = 0; dropped < 8; ++dropped)
          EXPECT_EQ(fits(width, 0, {e}, shift, 0, dropped << 6), expected && dropped <= shift / 8);
      }
  const uint32_t plain = 1u << 14;
  EXPECT_TRUE(fits(4, 0, {}, 0, 0, plain));
  EXPECT_FALSE(fits(4, 0, {8}, 22, 0, plain));
  EXPECT_FALSE(fits(4, 0, {0, true}, 0, 0, plain));
  EXPECT_FALSE(fits(4, 0, {}, 2, 0, plain));
  EXPECT_FALSE(fits(4, 0, {}, 0, 1, plain));
  EXPECT_FALSE(fits(4, 0, {}, 0, 0, plain | 1 << 6));
  EXPECT_FALSE(fits(4, 0, {}, 0, 0, plain | 1 << 17));  // no streams
  EXPECT_FALSE((shape{4, 100, 0, {plain, 1u << 17}}.fits()));
  EXPECT_TRUE((shape{4, 100, 8, {plain, 8}}.fits()));
  EXPECT_FALSE((shape{4, 100, 8, {plain, 9}}.fits()));
}

TEST(huffman, refuses_codes_that_are_not_complete) {
  const auto with = [](uint32_t first, uint32_t last) {
    auto words = zeros_and_ones;
    words[2] = first;
    words[9] = last;
    return verdict_of_words(words);
  };
  EXPECT_EQ(with(0x21, 0x20000000), status::ok);
  EXPECT_EQ(with(0x21, 0x30000000), status::bad_payload);
  EXPECT_EQ(with(0x11, 0x20000000), status::bad_payload);
  EXPECT_EQ(with(0, 0), status::bad_payload);
  EXPECT_EQ(with(0x01, 0), status::bad_payload);
  EXPECT_EQ(with(0x00b00021, 0x20000000), status::bad_payload);
  EXPECT_EQ(with(0x00f00021, 0x20000000), status::bad_payload);
}

// What encoders never write.
TEST(huffman, decodes_any_complete_code) {
  std::vector<uint8_t> values(64), expected(64);
  std::vector<uint32_t> words{0, 8 / 2 << 17, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0x000f0000};  // no escape
  ASSERT_EQ(verdict_of_words(words, values), status::ok);
  std::fill_n(expected.begin() + 4 * (8 + 5), 4, uint8_t{1});  // bits 44 to 47: the second quad of stream 5
  EXPECT_EQ(values, expected);
  // 5 after an escape has another code, if symbol 5 has one.
  words = {4 << 17, 8 / 2 << 17, 1, 0, 0, 0, 0, 0, 0, 0x10000000, 8, 0x82800000, 0, 0};
  ASSERT_EQ(verdict_of_words(words, values), status::ok);
  EXPECT_EQ(values[0], 5);
  EXPECT_EQ(std::count(values.begin(), values.end(), 0), 63);
}

TEST(huffman, refuses_streams_that_end_elsewhere) {
  auto words = zeros_and_ones;
  words[10] = 5 | 3 << 21;
  EXPECT_EQ(verdict_of_words(words), status::bad_payload);
  words = zeros_and_ones;
  words[10] = 7 | 4 << 21;  // as many words
  EXPECT_EQ(verdict_of_words(words), status::bad_payload);
  for (const size_t size : {0, 1, 2, 10, 13, 15}) {
    words = zeros_and_ones;
    words.resize(size);
    EXPECT_EQ(verdict_of_words(words), status::bad_payload) << size;
  }
  for (const size_t size : {1u, 7u, 55u, 57u}) {
    auto bytes = bytes_of_words(zeros_and_ones);
    bytes.resize(size);
    EXPECT_EQ(verdict(huffman<uint8_t>{}, bytes, 64), status::bad_payload) << size;
  }
}

// Ranks are taken modulo 2^exponent: with each top a chunk has values.
TEST(huffman, takes_each_top) {
  std::vector<float> values(300, 1.f), restored(300);
  values[7] = 4;
  values[8] = -0.f;
  auto words = words_of(encoded_chunk_of(huffman<float>{}, values));
  EXPECT_EQ(words[0] >> 21, 127u);
  for (uint32_t top = 0; top < 256; ++top) {
    words[0] = (words[0] & low_mask(21)) | top << 21;
    ASSERT_EQ(decode_row(bytes_of_words(words), restored), status::ok);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto of = [](float x) { return __builtin_bit_cast(uint32_t, x); };
      const uint32_t field = ((of(values[i]) >> 23 & 255) + top - 127) & 255;
      ASSERT_EQ(of(restored[i]), (of(values[i]) & 0x807fffff) | field << 23);
    }
  }
}

TEST(huffman, refuses_flags_that_do_not_fit_the_edges) {
  std::vector<uint16_t> values(32);
  values[3] = 0x1234;
  values[4] = 0x5678;
  const auto sound = bytes_of(std::string("00400000 01000000 34127856 01000000 28000000 04000100"));
  EXPECT_EQ(hex_of(encoded_chunk_of(zvc_huffman<uint16_t>{}, values)), hex_of(sound));
  const auto with = [&](size_t at, uint32_t x) {
    auto bytes = sound;
    bytes[at] = static_cast<std::byte>(x);
    return verdict(zvc_huffman<uint16_t>{}, bytes, 32);
  };
  EXPECT_EQ(with(12, 1), status::ok);
  EXPECT_EQ(with(12, 0), status::bad_payload);
  EXPECT_EQ(with(12, 3), status::bad_payload);
  EXPECT_EQ(with(12, 0x10), status::bad_payload);  // past the end
  EXPECT_EQ(with(12, 0x11), status::bad_payload);
  EXPECT_EQ(with(13, 1), status::ok);           // padding
  EXPECT_EQ(with(16, 0), status::bad_payload);  // zvc's mask has not two ones
}

// Whatever happens to a chunk, its decoder says so or restores some values.
TEST(huffman, damaged_chunks) {
  for_each_type([]<class T>(T) {
    std::mt19937 random(4);
    std::vector<T> values(300), restored(300);
    for (size_t i = 0; i < 300; ++i)
      values[i] = i % 4 == 0 ? T{} : value_of<T>(uint64_t{60 + random() % 5} << (8 * sizeof(T) - 8) | random() % 3);
    uint32_t refused = 0, taken = 0;
    const auto damage = [&](const auto& codec) {
      const auto sound = encoded_chunk_of(codec, values);
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

uint64_t optimal_bits(const std::vector<uint64_t>& counts, uint32_t& longest) {
  const auto lengths = bench::huffman_lengths(counts);
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
template <uint32_t Symbols, uint32_t Most> void expect_rounded_lengths() {
  std::mt19937_64 random(6);
  uint64_t ours = 0, best = 0;
  for (uint32_t i = 0; i < 2000; ++i) {
    uint32_t counts[Symbols] = {};
    const uint32_t present = 1 + static_cast<uint32_t>(random() % Symbols);
    const uint64_t spread = 1 + random() % 16;
    for (uint32_t k = 0; k < present; ++k)
      counts[random() % Symbols] = static_cast<uint32_t>(1 + random() % (1u << random() % spread));
    uint8_t length[Symbols];
    huffman_format::round_lengths<Symbols, Most>(counts, length);
    const auto expected = expected_lengths(counts, Most);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), length));
    uint32_t longest = 0, slots = 0;
    for (uint32_t s = 0; s < Symbols; ++s) {
      ours += uint64_t{counts[s]} * length[s];
      slots += length[s] == 0 ? 0 : huffman_format::slots_of(length[s]);
    }
    ASSERT_EQ(slots, huffman_format::slots);
    best += optimal_bits({std::begin(counts), std::end(counts)}, longest);
  }
  EXPECT_LE(static_cast<double>(ours), 1.02 * static_cast<double>(best));
}
TEST(huffman_codes, are_rounded_by_the_rules) {
  expect_rounded_lengths<64, 10>();
  expect_rounded_lengths<16, 7>();
  expect_rounded_lengths<288, 10>();
}

}  // namespace
}  // namespace tuck::test
