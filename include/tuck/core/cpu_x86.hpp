// SPDX-License-Identifier: Apache-2.0
// Windows of values on x86 CPUs with AVX2 or AVX-512. This code is compiled whatever the compiler flags are, and is
// chosen at run time.
#pragma once

#include <tuck/core/cpu_windows.hpp>

#if defined(TUCK_AVX2)
#include <immintrin.h>

namespace tuck::inline TUCK_ABI::detail {

TUCK_AVX2 inline __m256i load_vector(const void* from) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

struct avx2_cpu : moves_rows<avx2_cpu>, plain_integers {
  template <class Body> TUCK_AVX2 TUCK_LOOPS __attribute__((flatten)) static auto run(const Body& body) noexcept {
    return call<avx2_cpu>(body);
  }

  TUCK_AVX2 static uint32_t spread_bits(uint32_t bits, uint32_t mask) noexcept { return _pdep_u32(bits, mask); }
  TUCK_AVX2 static uint32_t gather_bits(uint32_t bits, uint32_t mask) noexcept { return _pext_u32(bits, mask); }
  TUCK_AVX2 static uint32_t popcount(uint64_t x) noexcept { return static_cast<uint32_t>(__builtin_popcountll(x)); }

  // Compares the lanes of vector i of a window with 0. With Changes: with the values before them.
  template <size_t Size, bool Changes> TUCK_AVX2 static __m256i equal(const std::byte* values, size_t i) noexcept {
    const __m256i a = load_vector(values + 32 * i);
    const __m256i b = Changes ? load_vector(values + 32 * i - Size) : _mm256_setzero_si256();
    using lanes [[gnu::vector_size(32)]] = typename uint_of_size<Size>::type;
    return __builtin_bit_cast(__m256i,
                              __builtin_bit_cast(lanes, a) == __builtin_bit_cast(lanes, b) ? ~lanes{} : lanes{});
  }
  template <size_t Size, bool Changes> TUCK_AVX2 static uint32_t mask_of(const std::byte* values) noexcept {
    if constexpr (Size <= 2) {
      const __m256i first = equal<Size, Changes>(values, 0);
      if constexpr (Size == 1) return ~static_cast<uint32_t>(_mm256_movemask_epi8(first));
      const __m256i second = equal<Size, Changes>(values, 1), bytes = _mm256_packs_epi16(first, second);
      return ~static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_permute4x64_epi64(bytes, 0xd8)));
    }
    uint32_t mask = 0;
    TUCK_UNROLL(8)
    for (size_t i = 0; i < Size; ++i) {
      const __m256i lanes = equal<Size, Changes>(values, i);
      if constexpr (Size == 4) mask |= static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(lanes))) << 8 * i;
      if constexpr (Size == 8) mask |= static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(lanes))) << 4 * i;
    }
    return ~mask;
  }

  template <size_t Size> struct row;

  TUCK_AVX2 static uint64_t sum_words(const std::byte* words, uint64_t rounds, uint64_t four) noexcept {
    const auto key = [](uint64_t i) { return static_cast<int64_t>(i * word_keys::step + word_keys::first); };
    const auto column = [](size_t i) { return static_cast<int>(word_keys::multiple(i)); };
    const __m256i column_of =
        _mm256_setr_epi32(column(0), column(1), column(2), column(3), column(0), column(1), column(2), column(3));
    const __m256i step = _mm256_set1_epi64x(static_cast<int64_t>(8 * word_keys::step));
    __m256i low = _mm256_setr_epi64x(key(four), key(four + 1), key(four + 2), key(four + 3));
    __m256i high = _mm256_setr_epi64x(key(four + 4), key(four + 5), key(four + 6), key(four + 7));
    // `fours` has the common factors of 8 groups of 4 words, in the order 0 4 1 5 2 6 3 7. select[k] selects those of 8
    // words.
    const __m256i select[4] = {_mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2), _mm256_setr_epi32(4, 4, 4, 4, 6, 6, 6, 6),
                               _mm256_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3), _mm256_setr_epi32(5, 5, 5, 5, 7, 7, 7, 7)};
    __m256i even = _mm256_setzero_si256(), odd = even;
    for (uint64_t i = 0; i < rounds; ++i, words += 128) {
      const __m256i of_low = _mm256_xor_si256(low, _mm256_srli_epi64(low, 32));
      const __m256i of_high = _mm256_xor_si256(high, _mm256_slli_epi64(high, 32));
      const __m256i fours = _mm256_or_si256(_mm256_blend_epi32(of_low, of_high, 0xaa), _mm256_set1_epi32(1));
      for (uint32_t k = 0; k < 4; ++k) {
        const __m256i keys = _mm256_mullo_epi32(_mm256_permutevar8x32_epi32(fours, select[k]), column_of);
        const __m256i eight = load_vector(words + 32 * k);
        even = _mm256_add_epi64(even, _mm256_mul_epu32(eight, keys));
        odd = _mm256_add_epi64(odd, _mm256_mul_epu32(_mm256_srli_epi64(eight, 32), _mm256_srli_epi64(keys, 32)));
      }
      low = _mm256_add_epi64(low, step);
      high = _mm256_add_epi64(high, step);
    }
    uint64_t sums[4];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), _mm256_add_epi64(even, odd));
    return sums[0] + sums[1] + sums[2] + sums[3];
  }

  // Finds the range of a window of integers.
  template <class T> TUCK_AVX2 static __m256i lower(__m256i a, __m256i b) noexcept {
    using lanes [[gnu::vector_size(32)]] = T;
    return __builtin_bit_cast(__m256i, __builtin_bit_cast(lanes, a) < __builtin_bit_cast(lanes, b)
                                           ? __builtin_bit_cast(lanes, a)
                                           : __builtin_bit_cast(lanes, b));
  }
  template <class T> TUCK_AVX2 static void find_range(const std::byte* values, T& lowest, T& highest) noexcept {
    // The highest values are the complements of the lowest complements.
    __m256i low = load_vector(values), high = ~low;
    TUCK_UNROLL(8)
    for (size_t i = 1; i < sizeof(T); ++i) {
      low = lower<T>(low, load_vector(values + 32 * i));
      high = lower<T>(high, ~load_vector(values + 32 * i));
    }
    // The lower halves of both become one vector.
    __m256i both = lower<T>(_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31));
    both = lower<T>(both, _mm256_shuffle_epi32(both, 0x4e));
    if constexpr (sizeof(T) < 8) both = lower<T>(both, _mm256_shuffle_epi32(both, 0xb1));
    if constexpr (sizeof(T) < 4) both = lower<T>(both, _mm256_srli_epi32(both, 16));
    if constexpr (sizeof(T) < 2) both = lower<T>(both, _mm256_srli_epi16(both, 8));
    lowest = static_cast<T>(_mm256_extract_epi64(both, 0));
    highest = static_cast<T>(~_mm256_extract_epi64(both, 2));
  }

  // Loads a vector of words from signed integers of type T.
  template <class T, class Word> TUCK_AVX2 static __m256i load_words(const std::byte* values) noexcept {
    if constexpr (sizeof(T) == sizeof(Word)) return load_vector(values);
    const auto* const from = reinterpret_cast<const __m128i*>(values);
    if constexpr (sizeof(T) == 2) return _mm256_cvtepi16_epi32(_mm_loadu_si128(from));
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(from));
  }
  template <class T, class Word>
  TUCK_AVX2 static void subtract(const std::byte* values, uint32_t count, Word base, Word (&to)[32]) noexcept {
    using lanes [[gnu::vector_size(32)]] = Word;
    constexpr uint32_t each = 32 / sizeof(Word);
    lanes index;
    for (uint32_t i = 0; i < each; ++i) index[i] = i;
    TUCK_UNROLL(8)
    for (uint32_t i = 0; i < 32; i += each, index += each) {
      const lanes x = __builtin_bit_cast(lanes, load_words<T, Word>(values + i * sizeof(T))) - base;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), __builtin_bit_cast(__m256i, index < count ? x : lanes{}));
    }
  }

  template <class Word, size_t N>
  TUCK_AVX2 static void merge(const Word* from, uint32_t width, uint64_t (&to)[N]) noexcept {
    const __m128i by = _mm_cvtsi32_si128(static_cast<int>(width));
    TUCK_UNROLL(4)
    for (size_t i = 0; i < N; i += 4) {
      const __m256i a = load_vector(from + 2 * i), b = load_vector(from + 2 * i + (sizeof(Word) == 8 ? 4 : 0));
      __m256i both;
      if constexpr (sizeof(Word) == 4)
        both = _mm256_blend_epi32(a, _mm256_setzero_si256(), 0xaa) | _mm256_sll_epi64(_mm256_srli_epi64(a, 32), by);
      else
        both = _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(a, b) | _mm256_sll_epi64(_mm256_unpackhi_epi64(a, b), by),
                                        0xd8);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), both);
    }
  }
  TUCK_AVX2 static void shift(const uint32_t* words, uint32_t bits, uint64_t before, std::byte* to) noexcept {
    const __m128i up = _mm_cvtsi32_si128(static_cast<int>(bits)), down = _mm_cvtsi32_si128(64 - static_cast<int>(bits));
    __m256i last = _mm256_set1_epi64x(static_cast<int64_t>(before << 1 << (63 - bits)));
    TUCK_UNROLL(4)
    for (uint32_t i = 0; i < 4; ++i, to += 32) {
      const __m256i x = load_vector(words + 8 * i), turned = _mm256_permute4x64_epi64(x, 0x93);
      const __m256i low = _mm256_srl_epi64(_mm256_blend_epi32(turned, last, 3), down);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_or_si256(_mm256_sll_epi64(x, up), low));
      last = turned;
    }
    store_unaligned(to, _mm256_extract_epi64(_mm256_srl_epi64(last, down), 0));
  }

  // Fields of 8-byte words have an even number of bits.
  template <class Word>
  TUCK_AVX2 static void unpack_fields(const std::byte* from, uint32_t bit, uint32_t width, Word base,
                                      std::byte* to) noexcept {
    using words [[gnu::vector_size(32)]] = Word;
    using words32 [[gnu::vector_size(32)]] = uint32_t;
    constexpr uint32_t size = sizeof(Word), lanes = 32 / size;
    if (width > (size == 8 ? 57 : 25)) return plain_integers::unpack_fields(from, bit, width, base, to);
    struct table {
      Word number[lanes];
      uint8_t first[32], byte[32];  // for each byte of a vector: the first byte of its lane, and its index in the lane
    };
    static constexpr table lane = [] {
      table t{};
      for (uint32_t i = 0; i < lanes; ++i) t.number[i] = i;
      for (uint32_t i = 0; i < 32; ++i) t.first[i] = static_cast<uint8_t>(i % 16 / size * size);
      for (uint32_t i = 0; i < 32; ++i) t.byte[i] = static_cast<uint8_t>(i % size);
      return t;
    }();
    const auto in = [](const auto& of_lanes) { return reinterpret_cast<const std::byte*>(of_lanes); };
    // Each row of fields begins at the same bit of a byte. Each half of a vector takes its fields from 16 bytes.
    const uint32_t first = bit % 8, half = (first + lanes / 2 * width) / 8;
    const words32 begin = __builtin_bit_cast(words32, load_vector(in(lane.number))) * width + first;
    const __m256i at = __builtin_bit_cast(__m256i, begin >> 3),
                  of_half = _mm256_shuffle_epi8(at, _mm256_setzero_si256());
    const __m256i in_first = load_vector(in(lane.first)), in_lane = load_vector(in(lane.byte));
    const __m256i bytes = _mm256_add_epi8(_mm256_sub_epi8(_mm256_shuffle_epi8(at, in_first), of_half), in_lane);
    const words shift = __builtin_bit_cast(words, begin) & 7;
    from += bit / 8;
    for (uint32_t i = 0; i < 32; i += lanes, from += width * lanes / 8) {
      const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + half));
      const auto parts = __builtin_bit_cast(words, _mm256_shuffle_epi8(_mm256_set_m128i(high, low), bytes));
      const words values = (parts >> shift & ((Word{1} << width) - 1)) + base;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * size), __builtin_bit_cast(__m256i, values));
    }
  }

  template <class Word> TUCK_AVX2 static void add_differences(Word first, std::byte* words) noexcept {
    constexpr bool is_small = sizeof(Word) == 4;
    using lanes [[gnu::vector_size(32)]] = Word;
    lanes before = lanes{} + first;
    for (std::byte* const end = words + 32 * sizeof(Word); words != end; words += 32) {
      const auto z = __builtin_bit_cast(lanes, load_vector(words)), d = z >> 1 ^ -(z & 1);
      // Prefix sums: first within each half, then the sum of the low half is added to the high half.
      lanes s = d + __builtin_bit_cast(lanes, _mm256_bslli_epi128(__builtin_bit_cast(__m256i, d), sizeof(Word)));
      if (is_small) s += __builtin_bit_cast(lanes, _mm256_bslli_epi128(__builtin_bit_cast(__m256i, s), 8));
      const __m256i low =
          _mm256_permute2x128_si256(__builtin_bit_cast(__m256i, s), __builtin_bit_cast(__m256i, s), 0x08);
      s += __builtin_bit_cast(lanes, _mm256_shuffle_epi32(low, is_small ? 0xff : 0xee));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), __builtin_bit_cast(__m256i, before + (s - d)));
      const __m256i last = _mm256_permute4x64_epi64(__builtin_bit_cast(__m256i, s), 0xff);
      before += __builtin_bit_cast(lanes, is_small ? _mm256_shuffle_epi32(last, 0xff) : last);
    }
  }
};

// Shuffles of bytes move values of up to 2 bytes; those of words move larger ones. For no_lane the highest bit is set.
template <size_t Size> struct avx2_cpu::row {
  static constexpr uint32_t step = Size == 8 ? 4 : 8;
  TUCK_AVX2 static void move(const uint8_t* from, const std::byte* in, std::byte* out) noexcept {
    const __m128i lanes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    if constexpr (Size <= 2) {
      const auto* const values = reinterpret_cast<const __m128i*>(in);
      const __m128i twice = _mm_adds_epi8(lanes, lanes);
      const __m128i bytes = _mm_unpacklo_epi8(twice, _mm_add_epi8(twice, _mm_set1_epi8(1)));
      auto* const to = reinterpret_cast<__m128i*>(out);
      if constexpr (Size == 2) _mm_storeu_si128(to, _mm_shuffle_epi8(_mm_loadu_si128(values), bytes));
      if constexpr (Size == 1) _mm_storel_epi64(to, _mm_shuffle_epi8(_mm_loadl_epi64(values), lanes));
    } else {
      __m256i words = Size == 4 ? _mm256_cvtepi8_epi32(lanes) : _mm256_shuffle_epi32(_mm256_cvtepi8_epi64(lanes), 0xa0);
      const __m256i none = _mm256_srai_epi32(words, 31);
      if constexpr (Size == 8)
        words = _mm256_add_epi32(_mm256_add_epi32(words, words), _mm256_set1_epi64x(int64_t{1} << 32));
      const __m256i moved = _mm256_permutevar8x32_epi32(load_vector(in), words);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_andnot_si256(none, moved));
    }
  }
};

// Compresses and expands whole vectors. `spread` of runs is that of AVX2.
struct avx512_cpu : avx2_cpu {
  template <class Body> TUCK_AVX512 TUCK_LOOPS __attribute__((flatten)) static auto run(const Body& body) noexcept {
    return call<avx512_cpu>(body);
  }

  // Lanes of a vector: of 32 bytes for 1-byte values, else of 64 bytes.
  template <size_t Size> static constexpr uint32_t lanes = Size == 1 ? 32 : 64 / Size;

  // Moves a mask to a general register at once. Otherwise g++ 12 may store the 8 or 16 bits of a mask register, and
  // then read 32.
  TUCK_AVX512 static uint32_t widened(uint32_t mask) noexcept {
    asm("" : "+r"(mask));
    return mask;
  }
  template <size_t Size, bool Changes> TUCK_AVX512 static uint32_t mask_of(const std::byte* values) noexcept {
    if constexpr (Size == 1) return avx2_cpu::mask_of<1, Changes>(values);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < 32; i += lanes<Size>, values += 64) {
      const __m512i a = _mm512_loadu_si512(values);
      const __m512i b = Changes ? _mm512_loadu_si512(values - Size) : _mm512_setzero_si512();
      if constexpr (Size == 2) mask = _mm512_cmpneq_epi16_mask(a, b);
      if constexpr (Size == 4) mask |= widened(_mm512_cmpneq_epi32_mask(a, b)) << i;
      if constexpr (Size == 8) mask |= widened(_mm512_cmpneq_epi64_mask(a, b)) << i;
    }
    return mask;
  }

  // All vectors of a window are counted from its beginning, so that none waits for the one before it.
  template <size_t Size>
  TUCK_AVX512 static std::byte* pack(const std::byte* values, uint32_t mask, std::byte* to) noexcept {
    TUCK_UNROLL(4)
    for (uint32_t i = 0; i < 32; i += lanes<Size>) {
      const uint32_t ones = mask >> i & low_mask(lanes<Size>);
      std::byte* const next = to + popcount(mask & low_mask(i)) * Size;
      if constexpr (Size == 1) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(next), _mm256_maskz_compress_epi8(ones, load_vector(values)));
      } else {
        const __m512i x = _mm512_loadu_si512(values + i * Size);
        if constexpr (Size == 2) _mm512_storeu_si512(next, _mm512_maskz_compress_epi16(ones, x));
        if constexpr (Size == 4)
          _mm512_storeu_si512(next, _mm512_maskz_compress_epi32(static_cast<__mmask16>(ones), x));
        if constexpr (Size == 8) _mm512_storeu_si512(next, _mm512_maskz_compress_epi64(static_cast<__mmask8>(ones), x));
      }
    }
    return to + popcount(mask) * Size;
  }

  template <size_t Size, bool Runs>
  TUCK_AVX512 static const std::byte* spread(uint32_t mask, const std::byte* from, std::byte* to) noexcept {
    if constexpr (Runs) return avx2_cpu::spread<Size, true>(mask, from, to);
    TUCK_UNROLL(4)
    for (uint32_t i = 0; i < 32; i += lanes<Size>) {
      const uint32_t ones = mask >> i & low_mask(lanes<Size>);
      const std::byte* const next = from + popcount(mask & low_mask(i)) * Size;
      if constexpr (Size == 1) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_maskz_expand_epi8(ones, load_vector(next)));
      } else {
        const __m512i x = _mm512_loadu_si512(next);
        std::byte* const out = to + i * Size;
        if constexpr (Size == 2) _mm512_storeu_si512(out, _mm512_maskz_expand_epi16(ones, x));
        if constexpr (Size == 4) _mm512_storeu_si512(out, _mm512_maskz_expand_epi32(static_cast<__mmask16>(ones), x));
        if constexpr (Size == 8) _mm512_storeu_si512(out, _mm512_maskz_expand_epi64(static_cast<__mmask8>(ones), x));
      }
    }
    return from + popcount(mask) * Size;
  }
};

}  // namespace tuck::inline TUCK_ABI::detail

#endif
