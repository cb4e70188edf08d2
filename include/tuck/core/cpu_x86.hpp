// Windows of values on x86 CPUs with AVX2 or AVX-512. This code is compiled whatever the compiler flags are, and is
// chosen at run time.
#pragma once

#include <tuck/core/cpu_sse2.hpp>

#if defined(TUCK_AVX2)
#include <immintrin.h>

#include <utility>

namespace tuck::inline TUCK_ABI::detail {

TUCK_AVX2 inline __m256i load_vector(const void* from) noexcept {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

// A vector with x in all lanes.
template <class Word> TUCK_AVX2 inline __m256i all(Word x) noexcept {
  return sizeof(Word) == 4 ? _mm256_set1_epi32(static_cast<int>(x)) : _mm256_set1_epi64x(static_cast<int64_t>(x));
}

// Adds lanes of Word.
template <class Word> TUCK_AVX2 inline __m256i sum(__m256i a, __m256i b) noexcept {
  return sizeof(Word) == 4 ? _mm256_add_epi32(a, b) : _mm256_add_epi64(a, b);
}

struct avx2_cpu : moves_rows<avx2_cpu> {
  template <class Body> TUCK_AVX2 __attribute__((flatten)) static auto run(const Body& body) noexcept {
    if constexpr (requires { body(avx2_cpu{}); })
      return body(avx2_cpu{});
    else
      return body();
  }

  TUCK_AVX2 static uint32_t popcount(uint64_t x) noexcept { return static_cast<uint32_t>(__builtin_popcountll(x)); }

  // Compares the lanes of vector i of a window with 0. With Changes: with the values before them.
  template <size_t Size, bool Changes> TUCK_AVX2 static __m256i equal(const std::byte* values, size_t i) noexcept {
    const __m256i a = load_vector(values + 32 * i);
    const __m256i b = Changes ? load_vector(values + 32 * i - Size) : _mm256_setzero_si256();
    if constexpr (Size == 1) return _mm256_cmpeq_epi8(a, b);
    if constexpr (Size == 2) return _mm256_cmpeq_epi16(a, b);
    if constexpr (Size == 4) return _mm256_cmpeq_epi32(a, b);
    return _mm256_cmpeq_epi64(a, b);
  }
  template <size_t Size, bool Changes> TUCK_AVX2 static uint32_t mask_of(const std::byte* values) noexcept {
    if constexpr (Size == 1) return ~static_cast<uint32_t>(_mm256_movemask_epi8(equal<Size, Changes>(values, 0)));
    if constexpr (Size == 2) {
      const __m256i bytes = _mm256_packs_epi16(equal<Size, Changes>(values, 0), equal<Size, Changes>(values, 1));
      return ~static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_permute4x64_epi64(bytes, 0xd8)));
    }
    if constexpr (Size >= 4) return ~equal_lanes<Size, Changes>(values, std::make_index_sequence<Size>{});
  }
  // A fold, because compilers do not unroll a loop of this length at -O2.
  template <size_t Size, bool Changes, size_t... I>
  TUCK_AVX2 static uint32_t equal_lanes(const std::byte* values, std::index_sequence<I...>) noexcept {
    if constexpr (Size == 4)
      return (... |
              static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(equal<Size, Changes>(values, I))) << 8 * I));
    return (... |
            static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(equal<Size, Changes>(values, I))) << 4 * I));
  }

  template <size_t Size> struct row;

  TUCK_AVX2 static uint64_t sum_words(const std::byte* words, uint64_t rounds, uint64_t four) noexcept {
    const auto place = [](uint64_t i) { return static_cast<int64_t>(i * word_keys::step + word_keys::first); };
    const auto column = [](size_t i) { return static_cast<int>(word_keys::multiple(i)); };
    const __m256i columns =
        _mm256_setr_epi32(column(0), column(1), column(2), column(3), column(0), column(1), column(2), column(3));
    const __m256i step = _mm256_set1_epi64x(static_cast<int64_t>(8 * word_keys::step));
    __m256i low = _mm256_setr_epi64x(place(four), place(four + 1), place(four + 2), place(four + 3));
    __m256i high = _mm256_setr_epi64x(place(four + 4), place(four + 5), place(four + 6), place(four + 7));
    // `fours` has the common factors of 8 groups of 4 words, in the order 0 4 1 5 2 6 3 7. take[k] selects those of 8
    // words.
    const __m256i take[4] = {_mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2), _mm256_setr_epi32(4, 4, 4, 4, 6, 6, 6, 6),
                             _mm256_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3), _mm256_setr_epi32(5, 5, 5, 5, 7, 7, 7, 7)};
    __m256i even = _mm256_setzero_si256(), odd = even;
    for (uint64_t i = 0; i < rounds; ++i, words += 128) {
      const __m256i of_low = _mm256_xor_si256(low, _mm256_srli_epi64(low, 32));
      const __m256i of_high = _mm256_xor_si256(high, _mm256_slli_epi64(high, 32));
      const __m256i fours = _mm256_or_si256(_mm256_blend_epi32(of_low, of_high, 0xaa), _mm256_set1_epi32(1));
      for (uint32_t k = 0; k < 4; ++k) {
        const __m256i keys = _mm256_mullo_epi32(_mm256_permutevar8x32_epi32(fours, take[k]), columns);
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

  // Lanes of T, the lower ones or the higher ones of two vectors.
  template <class T> TUCK_AVX2 static __m256i lower(__m256i a, __m256i b) noexcept {
    if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? _mm256_min_epi8(a, b) : _mm256_min_epu8(a, b);
    if constexpr (sizeof(T) == 2) return _mm256_min_epi16(a, b);
    if constexpr (sizeof(T) == 4) return _mm256_min_epi32(a, b);
    return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b));
  }
  template <class T> TUCK_AVX2 static __m256i higher(__m256i a, __m256i b) noexcept {
    if constexpr (sizeof(T) == 1) return std::is_signed_v<T> ? _mm256_max_epi8(a, b) : _mm256_max_epu8(a, b);
    if constexpr (sizeof(T) == 2) return _mm256_max_epi16(a, b);
    if constexpr (sizeof(T) == 4) return _mm256_max_epi32(a, b);
    return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b));
  }
  template <class T> TUCK_AVX2 static void find_range(const std::byte* values, T& lowest, T& highest) noexcept {
    static_assert(std::is_signed_v<T> || sizeof(T) == 1);
    __m256i low = load_vector(values), high = low;
    TUCK_UNROLL(8)
    for (size_t i = 1; i < sizeof(T); ++i) {
      low = lower<T>(low, load_vector(values + 32 * i));
      high = higher<T>(high, load_vector(values + 32 * i));
    }
    // The lower halves of both become one vector, with the complements of `high`: these have a lowest lane, too.
    const __m256i ones = _mm256_set1_epi32(-1);
    high = _mm256_xor_si256(high, ones);
    __m256i both = lower<T>(_mm256_permute2x128_si256(low, high, 0x20), _mm256_permute2x128_si256(low, high, 0x31));
    both = lower<T>(both, _mm256_shuffle_epi32(both, 0x4e));
    if constexpr (sizeof(T) < 8) both = lower<T>(both, _mm256_shuffle_epi32(both, 0xb1));
    if constexpr (sizeof(T) < 4) both = lower<T>(both, _mm256_srli_epi32(both, 16));
    if constexpr (sizeof(T) < 2) both = lower<T>(both, _mm256_srli_epi16(both, 8));
    lowest = static_cast<T>(_mm256_extract_epi64(both, 0));
    highest = static_cast<T>(~_mm256_extract_epi64(both, 2));
  }

  // Loads a vector of words from values of type T.
  template <class T, class Word> TUCK_AVX2 static __m256i load_words(const std::byte* values) noexcept {
    if constexpr (sizeof(T) == sizeof(Word)) return load_vector(values);
    const auto* const from = reinterpret_cast<const __m128i*>(values);
    if constexpr (sizeof(T) == 2) return _mm256_cvtepi16_epi32(_mm_loadu_si128(from));
    const __m128i eight = _mm_loadl_epi64(from);
    return std::is_signed_v<T> ? _mm256_cvtepi8_epi32(eight) : _mm256_cvtepu8_epi32(eight);
  }
  template <class T, class Word>
  TUCK_AVX2 static void subtract(const std::byte* values, uint32_t count, Word base, Word (&to)[32]) noexcept {
    constexpr bool small = sizeof(Word) == 4;
    const __m256i less = all(Word{0} - base), end = all(Word{count}), step = all(Word{32 / sizeof(Word)});
    __m256i i = small ? _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7) : _mm256_setr_epi64x(0, 1, 2, 3);
    TUCK_UNROLL(8)
    for (size_t k = 0; k < sizeof(Word); ++k, i = sum<Word>(i, step)) {
      const __m256i words = sum<Word>(load_words<T, Word>(values + 32 * k / sizeof(Word) * sizeof(T)), less);
      const __m256i within = small ? _mm256_cmpgt_epi32(end, i) : _mm256_cmpgt_epi64(end, i);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to) + k, _mm256_and_si256(words, within));
    }
  }

  template <class Word, size_t N>
  TUCK_AVX2 static void merge(const Word* from, uint32_t width, uint64_t (&to)[N]) noexcept {
    const __m128i by = _mm_cvtsi32_si128(static_cast<int>(width));
    TUCK_UNROLL(4)
    for (size_t i = 0; i < N; i += 4) {
      __m256i even, odd;
      if constexpr (sizeof(Word) == 4) {
        odd = _mm256_srli_epi64(load_vector(from + 2 * i), 32);
        even = _mm256_blend_epi32(load_vector(from + 2 * i), _mm256_setzero_si256(), 0xaa);
      } else {
        const __m256i a = load_vector(from + 2 * i), b = load_vector(from + 2 * i + 4);
        const __m256i low = _mm256_permute2x128_si256(a, b, 0x20), high = _mm256_permute2x128_si256(a, b, 0x31);
        even = _mm256_unpacklo_epi64(low, high);
        odd = _mm256_unpackhi_epi64(low, high);
      }
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_or_si256(even, _mm256_sll_epi64(odd, by)));
    }
  }
  TUCK_AVX2 static void shift(const uint32_t* words, uint32_t bits, uint64_t before, std::byte* to) noexcept {
    const __m128i up = _mm_cvtsi32_si128(static_cast<int>(bits)), down = _mm_cvtsi32_si128(64 - static_cast<int>(bits));
    __m256i last = all(before << 1 << (63 - bits));
    TUCK_UNROLL(4)
    for (uint32_t i = 0; i < 4; ++i, to += 32) {
      const __m256i x = load_vector(words + 8 * i), turned = _mm256_permute4x64_epi64(x, 0x93);
      const __m256i low = _mm256_srl_epi64(_mm256_blend_epi32(turned, last, 3), down);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_or_si256(_mm256_sll_epi64(x, up), low));
      last = turned;
    }
    store_unaligned(to, _mm256_extract_epi64(_mm256_srl_epi64(last, down), 0));
  }
};

template <> struct avx2_cpu::row<1> {
  static constexpr uint32_t step = 8;
  TUCK_AVX2 static void move(const uint8_t* from, const std::byte* in, std::byte* out) noexcept {
    const __m128i lanes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    const __m128i values = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_shuffle_epi8(values, lanes));
  }
};

template <> struct avx2_cpu::row<2> {
  static constexpr uint32_t step = 8;
  TUCK_AVX2 static void move(const uint8_t* from, const std::byte* in, std::byte* out) noexcept {
    const __m128i lanes = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
    const __m128i both = _mm_add_epi16(_mm_mullo_epi16(lanes, _mm_set1_epi16(0x0202)), _mm_set1_epi16(0x0100));
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
    const __m128i moved = _mm_shuffle_epi8(values, _mm_or_si128(both, _mm_srai_epi16(lanes, 15)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), moved);
  }
};

template <> struct avx2_cpu::row<4> {
  static constexpr uint32_t step = 8;
  TUCK_AVX2 static void move(const uint8_t* from, const std::byte* in, std::byte* out) noexcept {
    const __m256i lanes = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
    const __m256i moved = _mm256_permutevar8x32_epi32(load_vector(in), lanes);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_andnot_si256(_mm256_srai_epi32(lanes, 31), moved));
  }
};

template <> struct avx2_cpu::row<8> {
  static constexpr uint32_t step = 4;
  TUCK_AVX2 static void move(const uint8_t* from, const std::byte* in, std::byte* out) noexcept {
    const __m256i lanes = _mm256_cvtepi8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
    const __m256i low = _mm256_slli_epi64(lanes, 1);
    const __m256i halves = _mm256_or_si256(
        _mm256_or_si256(_mm256_blend_epi32(low, _mm256_setzero_si256(), 0xaa), _mm256_slli_epi64(low, 32)),
        _mm256_set1_epi64x(int64_t{1} << 32));
    const __m256i moved = _mm256_permutevar8x32_epi32(load_vector(in), halves);
    const __m256i none = _mm256_cmpgt_epi64(_mm256_setzero_si256(), lanes);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_andnot_si256(none, moved));
  }
};

// Compresses and expands whole vectors. `spread` of runs is that of AVX2.
struct avx512_cpu : avx2_cpu {
  template <class Body> TUCK_AVX512 __attribute__((flatten)) static auto run(const Body& body) noexcept {
    return body(avx512_cpu{});
  }

  // Lanes of a vector: of 32 bytes for 1-byte values, else of 64 bytes.
  template <size_t Size> static constexpr uint32_t lanes = Size == 1 ? 32 : 64 / Size;

  template <size_t Size, bool Changes> TUCK_AVX512 static uint32_t mask_of(const std::byte* values) noexcept {
    if constexpr (Size == 1) return avx2_cpu::mask_of<1, Changes>(values);
    uint32_t mask = 0;
    for (uint32_t i = 0; i < 32; i += lanes<Size>, values += 64) {
      const __m512i a = _mm512_loadu_si512(values);
      const __m512i b = Changes ? _mm512_loadu_si512(values - Size) : _mm512_setzero_si512();
      if constexpr (Size == 2) mask = _mm512_cmpneq_epi16_mask(a, b);
      if constexpr (Size == 4) mask |= uint32_t{_mm512_cmpneq_epi32_mask(a, b)} << i;
      if constexpr (Size == 8) mask |= uint32_t{_mm512_cmpneq_epi64_mask(a, b)} << i;
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

namespace tuck::inline TUCK_ABI::avx2 {

using detail::all;
using detail::load_vector;
using detail::sum;

// Is AVX2 in use?
inline bool available() noexcept { return level_of_cpu() >= cpu_level::avx2; }

// Reads 32 fields of `width` bits, which begin at bit `bit` of `from`, and stores `base` + field for each. Fields have
// up to 25 bits for 4-byte words, and an even number of up to 57 bits for 8-byte words. Reads whole vectors, up to 32
// bytes beyond the fields.
template <class Word>
TUCK_AVX2 inline void take_fields(const std::byte* from, uint32_t bit, uint32_t width, Word base,
                                  std::byte* to) noexcept {
  constexpr uint32_t size = sizeof(Word), lanes = 32 / size;
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
  const __m256i begin =
      _mm256_add_epi32(_mm256_mullo_epi32(load_vector(in(lane.number)), all<Word>(width)), all<Word>(first));
  const __m256i at = _mm256_srli_epi32(begin, 3), shift = _mm256_and_si256(begin, _mm256_set1_epi32(7));
  const __m256i of_half = _mm256_shuffle_epi8(at, _mm256_setzero_si256());
  const __m256i bytes = _mm256_add_epi8(_mm256_sub_epi8(_mm256_shuffle_epi8(at, load_vector(in(lane.first))), of_half),
                                        load_vector(in(lane.byte)));
  const __m256i mask = all<Word>((Word{1} << width) - 1), bases = all(base);
  from += bit / 8;
  for (uint32_t i = 0; i < 32; i += lanes, from += width * lanes / 8) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + half));
    const __m256i parts = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), bytes);
    const __m256i moved = size == 4 ? _mm256_srlv_epi32(parts, shift) : _mm256_srlv_epi64(parts, shift);
    const __m256i values = _mm256_and_si256(moved, mask);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i * size), sum<Word>(values, bases));
  }
}

// The same for fields of 32 bits.
TUCK_AVX2 inline void take_words(const std::byte* from, uint32_t bit, uint32_t base, std::byte* to) noexcept {
  const __m128i down = _mm_cvtsi32_si128(static_cast<int>(bit % 8)),
                up = _mm_cvtsi32_si128(static_cast<int>(32 - bit % 8));
  from += bit / 8;
  for (uint32_t i = 0; i < 128; i += 32) {
    const __m256i low = _mm256_srl_epi32(load_vector(from + i), down),
                  high = _mm256_sll_epi32(load_vector(from + i + 4), up);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), sum<uint32_t>(_mm256_or_si256(low, high), all(base)));
  }
}

// Turns 32 zigzag differences into words, in place. Word 0 is `first`, and word i + 1 is word i plus difference i.
template <class Word> TUCK_AVX2 inline void add_differences(Word first, std::byte* words) noexcept {
  constexpr bool small = sizeof(Word) == 4;
  const __m256i zero = _mm256_setzero_si256(), one = all(Word{1});
  __m256i before = all(first);
  for (std::byte* const end = words + 32 * sizeof(Word); words != end; words += 32) {
    const __m256i z = load_vector(words);
    const __m256i sign = _mm256_and_si256(z, one), half = small ? _mm256_srli_epi32(z, 1) : _mm256_srli_epi64(z, 1);
    const __m256i d = _mm256_xor_si256(half, small ? _mm256_sub_epi32(zero, sign) : _mm256_sub_epi64(zero, sign));
    // Prefix sums: first within each half, then the sum of the low half is added to the high half.
    __m256i s = sum<Word>(d, _mm256_bslli_epi128(d, sizeof(Word)));
    if (small) s = sum<Word>(s, _mm256_bslli_epi128(s, 8));
    const __m256i low = _mm256_permute2x128_si256(s, s, 0x08);
    s = sum<Word>(s, small ? _mm256_shuffle_epi32(low, 0xff) : _mm256_shuffle_epi32(low, 0xee));
    const __m256i without = small ? _mm256_sub_epi32(s, d) : _mm256_sub_epi64(s, d);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), sum<Word>(before, without));
    const __m256i last = _mm256_permute4x64_epi64(s, 0xff);
    before = sum<Word>(before, small ? _mm256_shuffle_epi32(last, 0xff) : last);
  }
}

}  // namespace tuck::inline TUCK_ABI::avx2

#endif
