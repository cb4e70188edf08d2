// The loops of core/masks.hpp and core/checksum.hpp for x86 CPUs with AVX2, compiled whatever the flags and chosen at
// run time. They do whole vectors as far as they may read and write; what is left is their caller's.
#pragma once

#include <tuck/core/bits.hpp>

#if defined(TUCK_AVX2)
#include <immintrin.h>

#include <array>

namespace tuck::inline TUCK_ABI::avx2 {

// All that TUCK_AVX2 names: a virtual machine may have one and hide another.
inline bool available() noexcept {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
}

// Calls body(), compiled for AVX2 with all that it calls.
template <class Body> TUCK_AVX2 __attribute__((flatten)) inline auto run(const Body& body) noexcept { return body(); }

// A byte for each of eight lanes, by a mask of eight bits.
using lane_table = std::array<std::array<uint8_t, 8>, 256>;

constexpr lane_table make_lane_table(auto&& lane) noexcept {
  lane_table table{};
  for (uint32_t mask = 0; mask < 256; ++mask)
    for (uint32_t i = 0; i < 8; ++i) table[mask][i] = static_cast<uint8_t>(lane(mask, i));
  return table;
}

inline constexpr uint32_t no_lane = 0x80;  // byte shuffles make it zero

// Where lane i comes from if the lanes with a one move to the front.
inline constexpr lane_table gathered = make_lane_table([](uint32_t mask, uint32_t i) {
  for (; i > 0; --i) mask &= mask - 1;
  return mask == 0 ? 0 : std::countr_zero(mask);
});
// Where lane i comes from if the ones take the front lanes in order.
inline constexpr lane_table scattered = make_lane_table([](uint32_t mask, uint32_t i) {
  return mask >> i & 1 ? static_cast<uint32_t>(std::popcount(mask & low_mask(i))) : no_lane;
});
// The same if the others take what the last one did; of a row that begins at the first one, if that is lane 0, else
// before it.
inline constexpr lane_table repeated = make_lane_table([](uint32_t mask, uint32_t i) {
  return static_cast<uint32_t>(std::popcount(mask & low_mask(i + 1))) - (mask & 1);
});

// Rows of `step` lanes of Size bytes.
template <size_t Size> struct row;

template <> struct row<1> {
  static constexpr uint32_t step = 8;
  TUCK_AVX2 static void move(const lane_table& from, uint32_t mask, const std::byte* in, std::byte* out) noexcept {
    const __m128i lanes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from[mask].data()));
    const __m128i values = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_shuffle_epi8(values, lanes));
  }
  // Which of 32 values differ from those at `others`, or from zero.
  TUCK_AVX2 static uint32_t differ(const std::byte* values, const std::byte* others) noexcept {
    return ~static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(load(values), load(others))));
  }
  TUCK_AVX2 static __m256i load(const std::byte* from) noexcept {
    return from == nullptr ? _mm256_setzero_si256() : _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
};

template <> struct row<2> {
  static constexpr uint32_t step = 8;
  TUCK_AVX2 static void move(const lane_table& from, uint32_t mask, const std::byte* in, std::byte* out) noexcept {
    const __m128i lanes = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from[mask].data())));
    const __m128i both = _mm_add_epi16(_mm_mullo_epi16(lanes, _mm_set1_epi16(0x0202)), _mm_set1_epi16(0x0100));
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
    const __m128i moved = _mm_shuffle_epi8(values, _mm_or_si128(both, _mm_srai_epi16(lanes, 15)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), moved);
  }
  TUCK_AVX2 static uint32_t differ(const std::byte* values, const std::byte* others) noexcept {
    const std::byte* const there = others == nullptr ? nullptr : others + 32;
    const __m256i bytes = _mm256_packs_epi16(_mm256_cmpeq_epi16(row<1>::load(values), row<1>::load(others)),
                                             _mm256_cmpeq_epi16(row<1>::load(values + 32), row<1>::load(there)));
    return ~static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_permute4x64_epi64(bytes, 0xd8)));
  }
};

template <> struct row<4> {
  static constexpr uint32_t step = 8;
  TUCK_AVX2 static void move(const lane_table& from, uint32_t mask, const std::byte* in, std::byte* out) noexcept {
    const __m256i lanes = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from[mask].data())));
    const __m256i moved = _mm256_permutevar8x32_epi32(row<1>::load(in), lanes);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_andnot_si256(_mm256_srai_epi32(lanes, 31), moved));
  }
  TUCK_AVX2 static uint32_t differ(const std::byte* values, const std::byte* others) noexcept {
    uint32_t equal = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      const std::byte* const there = others == nullptr ? nullptr : others + 32 * i;
      const __m256i same = _mm256_cmpeq_epi32(row<1>::load(values + 32 * i), row<1>::load(there));
      equal |= static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(same))) << 8 * i;
    }
    return ~equal;
  }
};

template <> struct row<8> {
  static constexpr uint32_t step = 4;
  TUCK_AVX2 static void move(const lane_table& from, uint32_t mask, const std::byte* in, std::byte* out) noexcept {
    const __m256i lanes = _mm256_cvtepi8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from[mask].data())));
    const __m256i low = _mm256_slli_epi64(lanes, 1);
    const __m256i halves = _mm256_or_si256(
        _mm256_or_si256(_mm256_blend_epi32(low, _mm256_setzero_si256(), 0xaa), _mm256_slli_epi64(low, 32)),
        _mm256_set1_epi64x(int64_t{1} << 32));
    const __m256i moved = _mm256_permutevar8x32_epi32(row<1>::load(in), halves);
    const __m256i none = _mm256_cmpgt_epi64(_mm256_setzero_si256(), lanes);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_andnot_si256(none, moved));
  }
  TUCK_AVX2 static uint32_t differ(const std::byte* values, const std::byte* others) noexcept {
    uint32_t equal = 0;
    for (uint32_t i = 0; i < 8; ++i) {
      const std::byte* const there = others == nullptr ? nullptr : others + 32 * i;
      const __m256i same = _mm256_cmpeq_epi64(row<1>::load(values + 32 * i), row<1>::load(there));
      equal |= static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(same))) << 4 * i;
    }
    return ~equal;
  }
};

// Masks of windows of 32 values: which are not zero, or, where `before` is the value before each, differ from it.
template <size_t Size>
TUCK_AVX2 inline void masks_of(const std::byte* values, bool changes, uint32_t windows, std::byte* masks) noexcept {
  for (uint32_t w = 0; w < windows; ++w) {
    store_unaligned(masks + 4 * w,
                    changes ? row<Size>::differ(values, values - Size) : row<Size>::differ(values, nullptr));
    values += 32 * Size;
  }
}

// The values at the ones of `windows` masks, one behind the other from `to`, as long as a whole window fits in before
// `end`. Returns the windows done; `to` moves on.
template <size_t Size>
TUCK_AVX2 inline uint32_t pack(const std::byte* values, const std::byte* masks, uint32_t windows, std::byte*& to,
                               const std::byte* end) noexcept {
  using lanes = row<Size>;
  std::byte* at = to;
  uint32_t w = 0;
  for (; w < windows && end - at >= static_cast<ptrdiff_t>(32 * Size); ++w) {
    for (uint32_t mask = load_unaligned<uint32_t>(masks + 4 * w), i = 0; i < 32; i += lanes::step) {
      const uint32_t ones = mask & low_mask(lanes::step);
      lanes::move(gathered, ones, values, at);
      at += static_cast<uint32_t>(__builtin_popcount(ones)) * Size;
      values += lanes::step * Size;
      mask >>= lanes::step;
    }
  }
  to = at;
  return w;
}

// The reverse, as long as a whole window may be read before `end`: a value for each one, and for each zero 0 or, of
// runs, the value before it, of which there is one before `packed`.
template <size_t Size, bool Runs>
TUCK_AVX2 inline uint32_t spread(const std::byte* masks, const std::byte*& packed, const std::byte* end,
                                 uint32_t windows, std::byte* out) noexcept {
  using lanes = row<Size>;
  const std::byte* at = packed;
  uint32_t w = 0;
  for (; w < windows && end - at >= static_cast<ptrdiff_t>(32 * Size); ++w) {
    for (uint32_t mask = load_unaligned<uint32_t>(masks + 4 * w), i = 0; i < 32; i += lanes::step) {
      const uint32_t ones = mask & low_mask(lanes::step);
      lanes::move(Runs ? repeated : scattered, ones, Runs && (ones & 1) == 0 ? at - Size : at, out);
      at += static_cast<uint32_t>(__builtin_popcount(ones)) * Size;
      out += lanes::step * Size;
      mask >>= lanes::step;
    }
  }
  packed = at;
  return w;
}

// Of `words` words of a mask how many are not zero, how many bytes are not, and how many bits.
TUCK_AVX2 inline void count(const std::byte* masks, uint32_t words, uint32_t& groups, uint32_t& bytes,
                            uint32_t& bits) noexcept {
  uint32_t before = 0;
  for (uint32_t w = 0; w < words; ++w) {
    const auto mask = load_unaligned<uint32_t>(masks + 4 * w);
    groups += (mask | before) != 0 && (w % 2 != 0 || w + 1 == words);
    before = w % 2 == 0 ? mask : 0;
    bytes += static_cast<uint32_t>(__builtin_popcount((((mask & 0x7f7f7f7fu) + 0x7f7f7f7fu) | mask) & 0x80808080u));
    bits += static_cast<uint32_t>(__builtin_popcount(mask));
  }
}

// Of each 32 of `bytes`, but for the first, those that equal the byte before them: to every second word of `masks`, and
// to the others those that equal what is `distance` bytes before them.
TUCK_AVX2 inline void repeats(const std::byte* bytes, size_t distance, uint32_t windows, uint32_t* masks) noexcept {
  for (uint32_t w = 1; w < windows; ++w) {
    const std::byte* const from = bytes + 32 * w;
    masks[2 * w] = ~row<1>::differ(from, from - 1);
    masks[2 * w + 1] = ~row<1>::differ(from, from - distance);
  }
}

// Adds 8 * `rounds` words: their sum to `plain`, and to `weighted` their sum with weights from 0.
TUCK_AVX2 inline void sum_words(const std::byte* words, uint64_t rounds, uint64_t& plain, uint64_t& weighted) noexcept {
  // Of each lane the sum s and the sum of its prefixes p, so that word k of n counts n - k times in p.
  __m256i s[2] = {}, p[2] = {};
  for (uint64_t i = 0; i < rounds; ++i) {
    for (uint32_t half = 0; half < 2; ++half) {
      const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(words + 32 * i + 16 * half));
      s[half] = _mm256_add_epi64(s[half], _mm256_cvtepu32_epi64(four));
      p[half] = _mm256_add_epi64(p[half], s[half]);
    }
  }
  uint64_t sums[8], prefixes[8];
  std::memcpy(sums, s, sizeof sums);
  std::memcpy(prefixes, p, sizeof prefixes);
  for (uint32_t lane = 0; lane < 8; ++lane) {
    plain += sums[lane];
    weighted += 8 * (rounds * sums[lane] - prefixes[lane]) + lane * sums[lane];
  }
}

template <class Word> TUCK_AVX2 inline __m256i all(Word x) noexcept {
  return sizeof(Word) == 4 ? _mm256_set1_epi32(static_cast<int>(x)) : _mm256_set1_epi64x(static_cast<int64_t>(x));
}

template <class Word> TUCK_AVX2 inline __m256i sum(__m256i a, __m256i b) noexcept {
  return sizeof(Word) == 4 ? _mm256_add_epi32(a, b) : _mm256_add_epi64(a, b);
}

// `base` + each of 32 fields of `width` bits, which begin at bit `bit`: of up to 25 bits to 4-byte words, of up to 57,
// an even number, to 8-byte words. Reads whole vectors, up to 32 bytes more than the fields have.
template <class Word>
TUCK_AVX2 inline void take_fields(const std::byte* from, uint32_t bit, uint32_t width, Word base,
                                  std::byte* to) noexcept {
  constexpr uint32_t size = sizeof(Word), lanes = 32 / size;
  struct table {
    Word number[lanes];
    uint8_t first[32], byte[32];  // of each byte of a vector: the first one of its lane, and which of the lane's it is
  };
  static constexpr table lane = [] {
    table t{};
    for (uint32_t i = 0; i < lanes; ++i) t.number[i] = i;
    for (uint32_t i = 0; i < 32; ++i) t.first[i] = static_cast<uint8_t>(i % 16 / size * size);
    for (uint32_t i = 0; i < 32; ++i) t.byte[i] = static_cast<uint8_t>(i % size);
    return t;
  }();
  const auto in = [](const auto& of_lanes) { return reinterpret_cast<const std::byte*>(of_lanes); };
  // A row of fields begins as far into its byte as the one before it. Half a vector has the fields of 16 bytes.
  const uint32_t first = bit % 8, half = (first + lanes / 2 * width) / 8;
  const __m256i begin =
      _mm256_add_epi32(_mm256_mullo_epi32(row<1>::load(in(lane.number)), all<Word>(width)), all<Word>(first));
  const __m256i at = _mm256_srli_epi32(begin, 3), shift = _mm256_and_si256(begin, _mm256_set1_epi32(7));
  const __m256i of_half = _mm256_shuffle_epi8(at, _mm256_setzero_si256());
  const __m256i bytes = _mm256_add_epi8(_mm256_sub_epi8(_mm256_shuffle_epi8(at, row<1>::load(in(lane.first))), of_half),
                                        row<1>::load(in(lane.byte)));
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

// Of 32 zigzag differences makes the words that they follow, of which the first is known.
template <class Word> TUCK_AVX2 inline void add_differences(Word first, std::byte* words) noexcept {
  constexpr bool small = sizeof(Word) == 4;
  const __m256i zero = _mm256_setzero_si256(), one = all(Word{1});
  __m256i before = all(first);
  for (std::byte* const end = words + 32 * sizeof(Word); words != end; words += 32) {
    const __m256i z = row<1>::load(words);
    const __m256i sign = _mm256_and_si256(z, one), half = small ? _mm256_srli_epi32(z, 1) : _mm256_srli_epi64(z, 1);
    const __m256i d = _mm256_xor_si256(half, small ? _mm256_sub_epi32(zero, sign) : _mm256_sub_epi64(zero, sign));
    // Up to each lane: first in both halves, then what the low half adds up to in the high one.
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

namespace tuck::inline TUCK_ABI::detail {

// Calls body(), which is compiled a second time for CPUs with AVX2, for loops that compilers turn into vectors.
template <class Body> auto vectorized(const Body& body) noexcept {
#if defined(TUCK_AVX2)
  if (avx2::available()) return avx2::run(body);
#endif
  return body();
}

}  // namespace tuck::inline TUCK_ABI::detail
