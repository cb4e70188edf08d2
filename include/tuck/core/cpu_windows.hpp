// SPDX-License-Identifier: Apache-2.0
// Operations on windows of 32 values of Size bytes, for the vector instructions of each CPU. core/masks.hpp and
// core/checksum.hpp are loops over windows. A CPU is a type with
//
//   run(body)                    calls body(CPU), or body() if it takes no argument, compiled for this CPU together
//                                with all functions that it inlines
//   popcount(word)               counts ones in 64 bits
//   spread_bits(bits, mask)      moves the lowest bits to the ones of the mask
//   gather_bits(bits, mask)      moves the bits at the ones of the mask to the lowest bits
//   mask_of<Size, Changes>(v)    returns a mask. Bit i is 1 if value i is not 0; with Changes, if value i differs from
//                                the value before it in memory
//   pack<Size>(v, mask, to)      stores the values whose bit is 1 one behind the other, and returns their end. It may
//                                write a whole window
//   spread<Size, Runs>(mask, from, to)
//                                undoes that: stores the next value of `from` for each 1, and 0 for each 0. With Runs:
//                                for each 0 the value taken last, at first the value before `from`. Returns the end of
//                                the values taken. It may read a whole window
//   sum_words(words, rounds, four)
//                                returns the sum of 32 * rounds words, each times its key. The first has index 4 * four
//   find_range(v, lowest, highest)
//                                finds the range of the window, as integers of their type
//   subtract<T>(v, count, base, to)
//                                sets word to[i] to value i of the signed type T minus `base`, or to 0 from `count` on
//   merge(from, width, to)       sets to[i] to from[2 i] | from[2 i + 1] << width, for a multiple of 4 words
//   unpack_fields(from, bit, width, base, to)
//                                reads 32 fields of `width` bits, which begin at bit `bit` of `from`, and stores `base`
//                                plus field as a word for each. It may read 32 bytes beyond the fields
//   add_differences(first, words)
//                                turns 32 zigzag differences into words, in place. Word 0 is `first`, and word i + 1 is
//                                word i plus difference i
//   shift(words, bits, before, to)
//                                stores 1024 + bits bits: `before`, which has bits < 8 bits, then 32 words; then zeros
#pragma once

#include <tuck/core/bit_reader.hpp>
#include <tuck/core/word_keys.hpp>
#include <tuck/core/zigzag.hpp>

#include <algorithm>
#include <array>
#if defined(TUCK_AVX2)
#include <emmintrin.h>
#elif defined(TUCK_NEON)
#include <arm_neon.h>
#endif

namespace tuck::inline TUCK_ABI::detail {

// The keys of the first words, as many as a frame header has.
inline constexpr std::array<uint32_t, 32> first_word_keys = [] {
  std::array<uint32_t, 32> keys{};
  for (uint32_t i = 0; i < 32; ++i) keys[i] = word_keys::of(i);
  return keys;
}();

// Calls body(Cpu), or body() if it takes no argument.
template <class Cpu, class Body> auto call(const Body& body) noexcept {
  if constexpr (requires { body(Cpu{}); })
    return body(Cpu{});
  else
    return body();
}

// Loops over integers for any CPU. Compilers vectorize most of them.
struct plain_integers {
  static uint32_t spread_bits(uint32_t bits, uint32_t mask) noexcept {
    uint32_t spread = 0;
    for (; mask != 0; mask &= mask - 1, bits >>= 1)
      if ((bits & 1) != 0) spread |= mask & (0 - mask);
    return spread;
  }
  static uint32_t gather_bits(uint32_t bits, uint32_t mask) noexcept {
    uint32_t gathered = 0;
    for (uint32_t to = 1; mask != 0; mask &= mask - 1, to <<= 1)
      if ((bits & mask & (0 - mask)) != 0) gathered |= to;
    return gathered;
  }
  static uint64_t sum_words(const std::byte* words, uint64_t rounds, uint64_t four) noexcept {
    uint64_t sum = 0;
    for (const uint64_t end = four + 8 * rounds; four < end; ++four, words += 16) {
      const uint32_t key = word_keys::of_four(four);
      for (uint32_t i = 0; i < 4; ++i)
        sum += uint64_t{key * word_keys::multiple(i)} * load_unaligned<uint32_t>(words + 4 * i);
    }
    return sum;
  }
  template <class T> static void find_range(const std::byte* values, T& lowest, T& highest) noexcept {
    lowest = highest = load_unaligned<T>(values);
    for (uint32_t i = 1; i < 32; ++i) {
      const auto v = load_unaligned<T>(values + i * sizeof(T));
      lowest = v < lowest ? v : lowest;
      highest = v > highest ? v : highest;
    }
  }
  template <class T, class Word>
  static void subtract(const std::byte* values, uint32_t count, Word base, Word (&to)[32]) noexcept {
    for (uint32_t i = 0; i < 32; ++i)
      to[i] = select(i < count, static_cast<Word>(load_unaligned<T>(values + i * sizeof(T))) - base, Word{0});
  }
  template <class Word, size_t N> static void merge(const Word* from, uint32_t width, uint64_t (&to)[N]) noexcept {
    for (size_t i = 0; i < N; ++i) to[i] = from[2 * i] | static_cast<uint64_t>(from[2 * i + 1]) << width;
  }
  static void shift(const uint32_t* words, uint32_t bits, uint64_t before, std::byte* to) noexcept {
    for (uint32_t i = 0; i < 16; ++i) {
      const uint64_t two = words[2 * i] | static_cast<uint64_t>(words[2 * i + 1]) << 32;
      store_unaligned(to + 8 * i, before | two << bits);
      before = two >> 1 >> (63 - bits);
    }
    store_unaligned(to + 128, before);
  }
  template <class Word>
  static void unpack_fields(const std::byte* from, uint32_t bit, uint32_t width, Word base, std::byte* to) noexcept {
    constexpr uint32_t all = 8 * sizeof(Word);
    if (width != all) {
      for (uint32_t i = 0; i < 32; ++i)
        store_unaligned(to + i * sizeof(Word), base + bits_from<Word>(from, bit + i * width, width));
    } else {  // a loop that compilers vectorize
      from += bit / 8;
      for (uint32_t i = 0; i < 32; ++i) {
        const auto low = load_unaligned<Word>(from + i * sizeof(Word));
        const auto high = load_unaligned<Word>(from + (i + 1) * sizeof(Word));
        store_unaligned(to + i * sizeof(Word), base + (low >> bit % 8 | high << 1 << (all - 1 - bit % 8)));
      }
    }
  }
  template <class Word> static void add_differences(Word first, std::byte* words) noexcept {
    for (uint32_t i = 0; i < 32; ++i) {
      const auto z = load_unaligned<Word>(words + i * sizeof(Word));
      store_unaligned(words + i * sizeof(Word), first);
      first += unzigzag(z);
    }
  }
};

// Runs on any CPU.
struct plain_cpu : plain_integers {
  template <class Body> TUCK_LOOPS static auto run(const Body& body) noexcept { return call<plain_cpu>(body); }

  static uint32_t popcount(uint64_t x) noexcept {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    return static_cast<uint32_t>(((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
  }

  template <size_t Size, bool Changes> static uint32_t mask_of(const std::byte* values) noexcept {
    using bits = typename uint_of_size<Size>::type;
    uint32_t mask = 0;
    for (uint32_t i = 0; i < 32; ++i) {
      const auto before = Changes ? load_unaligned<bits>(values + i * Size - Size) : bits{0};
      mask |= uint32_t{load_unaligned<bits>(values + i * Size) != before} << i;
    }
    return mask;
  }

  template <size_t Size> static std::byte* pack(const std::byte* values, uint32_t mask, std::byte* to) noexcept {
    // Without branches: stores every value and advances only past those whose bit is 1.
    TUCK_UNROLL(32)
    for (uint32_t i = 0; i < 32; ++i) {
      std::memcpy(to, values + i * Size, Size);
      to += (mask >> i & 1) * Size;
    }
    return to;
  }

  template <size_t Size, bool Runs>
  static const std::byte* spread(uint32_t mask, const std::byte* from, std::byte* to) noexcept {
    using bits = typename uint_of_size<Size>::type;
    if (!Runs && mask == 0) {
      std::memset(to, 0, 32 * Size);
      return from;
    }
    if (mask == ~0u) {
      std::memcpy(to, from, 32 * Size);
      return from + 32 * Size;
    }
    TUCK_UNROLL(32)
    for (uint32_t i = 0; i < 32; ++i) {
      const auto one = static_cast<bits>(mask >> i & 1);
      const auto x = load_unaligned<bits>(Runs ? from + one * Size - Size : from);
      store_unaligned(to + i * Size, Runs ? x : static_cast<bits>(x & static_cast<bits>(bits{0} - one)));
      from += one * Size;
    }
    return from;
  }
};

// -- Tables ----------------------------------------------------------------------------------------------------------

// For each mask of 8 bits, one byte for each of 8 lanes.
using lane_table = std::array<std::array<uint8_t, 8>, 256>;

constexpr lane_table make_lane_table(auto&& lane) noexcept {
  lane_table table{};
  for (uint32_t mask = 0; mask < 256; ++mask)
    for (uint32_t i = 0; i < 8; ++i) table[mask][i] = static_cast<uint8_t>(lane(mask, i));
  return table;
}

inline constexpr uint32_t no_lane = 0x80;  // byte shuffles turn it into 0

// Source of lane i if the lanes whose bit is 1 move to the front.
inline constexpr lane_table gathered = make_lane_table([](uint32_t mask, uint32_t i) {
  for (; i > 0; --i) mask &= mask - 1;
  return mask == 0 ? 0 : std::countr_zero(mask);
});
// Source of lane i if the lanes whose bit is 1 take the front lanes in order. Other lanes have none.
inline constexpr lane_table scattered = make_lane_table([](uint32_t mask, uint32_t i) {
  return mask >> i & 1 ? static_cast<uint32_t>(std::popcount(mask & low_mask(i))) : no_lane;
});
// The same, but other lanes repeat the last value taken. The source begins with the value for lane 0: the next value if
// bit 0 is 1, else the value taken before.
inline constexpr lane_table repeated = make_lane_table([](uint32_t mask, uint32_t i) {
  return static_cast<uint32_t>(std::popcount(mask & low_mask(i + 1))) - (mask & 1);
});

// pack and spread for a CPU that moves rows of up to 8 lanes by these tables. Cpu::row<Size> has `step`, the number of
// lanes, and
//   move(lanes, from, to)  sets lane i of `to` to lane lanes[i] of `from`, or to 0 for no_lane
// All rows of a window are counted from its beginning, so that none waits for the one before it.
template <class Cpu> struct moves_rows {
  template <size_t Size>
  [[gnu::__always_inline__]] static std::byte* pack(const std::byte* values, uint32_t mask, std::byte* to) noexcept {
    using row = typename Cpu::template row<Size>;
    TUCK_UNROLL(8)
    for (uint32_t i = 0; i < 32; i += row::step) {
      const uint32_t ones = mask >> i & low_mask(row::step);
      row::move(gathered[ones].data(), values + i * Size, to + Cpu::popcount(mask & low_mask(i)) * Size);
    }
    return to + Cpu::popcount(mask) * Size;
  }
  template <size_t Size, bool Runs>
  [[gnu::__always_inline__]] static const std::byte* spread(uint32_t mask, const std::byte* from,
                                                            std::byte* to) noexcept {
    using row = typename Cpu::template row<Size>;
    TUCK_UNROLL(8)
    for (uint32_t i = 0; i < 32; i += row::step) {
      const uint32_t ones = mask >> i & low_mask(row::step);
      const std::byte* const next = from + Cpu::popcount(mask & low_mask(i)) * Size;
      row::move((Runs ? repeated : scattered)[ones].data(), Runs && (ones & 1) == 0 ? next - Size : next,
                to + i * Size);
    }
    return from + Cpu::popcount(mask) * Size;
  }
};

#if defined(TUCK_AVX2)

// -- x86 CPUs with no more than SSE2, which all have -----------------------------------------------------------------

// How 4-byte values move in a row of four, for each mask of 4 bits. SSE2 cannot move lanes by a table. So all lanes
// move twice, and each takes the moved value or keeps its own. pack moves values by one lane, then by two; spread by
// two lanes, then by one.
struct alignas(64) row_moves {
  uint32_t first[4], second[4];  // all ones in lanes that take the moved value, else 0
  uint32_t value_lanes[4];       // all ones in lanes of values, 0 in lanes of zeros
  int64_t bytes, begin;          // of the packed values: how many, and where spread begins to read
};

template <bool Packs, bool Runs> constexpr std::array<row_moves, 16> make_row_moves() noexcept {
  std::array<row_moves, 16> table{};
  for (uint32_t mask = 0; mask < 16; ++mask) {
    const uint32_t ones = popcount(mask);
    table[mask].bytes = int64_t{4} * ones;
    table[mask].begin = Runs && (mask & 1) == 0 ? -4 : 0;
    for (uint32_t i = 0; i < (Packs ? ones : 4); ++i) {
      const uint32_t taken = popcount(mask & low_mask(i));
      const uint32_t by = Packs ? gathered[mask][i] - i : i - (Runs ? repeated[mask][i] : taken);
      const uint32_t last = by & (Packs ? 2 : 1);
      table[mask].second[i] = last != 0 ? ~0u : 0;
      table[mask].first[Packs ? i + last : i - last] = last != by ? ~0u : 0;
    }
    for (uint32_t i = 0; i < 4; ++i) table[mask].value_lanes[i] = Runs || (mask >> i & 1) != 0 ? ~0u : 0;
  }
  return table;
}

// Arguments of intrinsics have types that do not depend on template parameters, also in cpu_x86.hpp. Otherwise clang++
// looks for the intrinsic where the template is instantiated. If that is in an importer of a module that includes tuck,
// it does not find it, because intrinsics are static functions.
struct sse2_cpu : plain_cpu {
  template <class Body> TUCK_LOOPS static auto run(const Body& body) noexcept { return call<sse2_cpu>(body); }

  static __m128i load(const void* from) noexcept { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }

  // One byte for each of 16 values: all ones if the value is 0. With Changes: if it equals the value before it.
  template <size_t Size, bool Changes> static __m128i equal_bytes(const std::byte* values) noexcept {
    __m128i lanes[8];  // the first Size
    TUCK_UNROLL(8)
    for (size_t i = 0; i < Size; ++i) {
      const __m128i a = load(values + 16 * i), b = Changes ? load(values + 16 * i - Size) : _mm_setzero_si128();
      using integers [[gnu::vector_size(16)]] = typename uint_of_size<std::min<size_t>(Size, 4)>::type;
      lanes[i] = __builtin_bit_cast(
          __m128i, __builtin_bit_cast(integers, a) == __builtin_bit_cast(integers, b) ? ~integers{} : integers{});
      if (Size == 8) lanes[i] = _mm_and_si128(lanes[i], _mm_shuffle_epi32(lanes[i], 0xb1));
    }
    if constexpr (Size == 8) {
      TUCK_UNROLL(4)
      for (size_t i = 0; i < 4; ++i)
        lanes[i] =
            _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(lanes[2 * i]), _mm_castsi128_ps(lanes[2 * i + 1]), 0x88));
    }
    if constexpr (Size >= 4) {
      TUCK_UNROLL(2)
      for (size_t i = 0; i < 2; ++i) lanes[i] = _mm_packs_epi32(lanes[2 * i], lanes[2 * i + 1]);
    }
    return Size == 1 ? lanes[0] : _mm_packs_epi16(lanes[0], lanes[Size == 1 ? 0 : 1]);
  }
  template <size_t Size, bool Changes> static uint32_t mask_of(const std::byte* values) noexcept {
    const __m128i low = equal_bytes<Size, Changes>(values), high = equal_bytes<Size, Changes>(values + 16 * Size);
    return ~(static_cast<uint32_t>(_mm_movemask_epi8(low)) | static_cast<uint32_t>(_mm_movemask_epi8(high)) << 16);
  }

  template <bool Packs, bool Runs> static constexpr std::array<row_moves, 16> moves = make_row_moves<Packs, Runs>();

  // Returns lanes of `moved` where `ones` is all ones, else of x.
  static __m128i choose(const uint32_t (&ones)[4], __m128i moved, __m128i x) noexcept {
    return _mm_xor_si128(x, _mm_and_si128(_mm_xor_si128(moved, x), *reinterpret_cast<const __m128i*>(ones)));
  }

  template <size_t Size> static std::byte* pack(const std::byte* values, uint32_t mask, std::byte* to) noexcept {
    if constexpr (Size != 4) return plain_cpu::pack<Size>(values, mask, to);
    TUCK_UNROLL(8)
    for (uint32_t i = 0; i < 32; i += 4) {
      const row_moves& move = moves<true, false>[mask >> i & 15];
      __m128i x = load(values + 4 * i);
      x = choose(move.first, _mm_shuffle_epi32(x, 0xf9), x);
      x = choose(move.second, _mm_shuffle_epi32(x, 0xfe), x);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), x);
      to += move.bytes;
    }
    return to;
  }
  template <size_t Size, bool Runs>
  static const std::byte* spread(uint32_t mask, const std::byte* from, std::byte* to) noexcept {
    if constexpr (Size != 4) return plain_cpu::spread<Size, Runs>(mask, from, to);
    TUCK_UNROLL(8)
    for (uint32_t i = 0; i < 32; i += 4) {
      const row_moves& move = moves<false, Runs>[mask >> i & 15];
      __m128i x = load(from + (Runs ? move.begin : 0));
      x = choose(move.first, _mm_shuffle_epi32(x, 0x44), x);
      x = choose(move.second, _mm_shuffle_epi32(x, 0x90), x);
      if (!Runs) x = _mm_and_si128(x, *reinterpret_cast<const __m128i*>(move.value_lanes));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 4 * i), x);
      from += move.bytes;
    }
    return from;
  }
};

#elif defined(TUCK_NEON)

// -- 64-bit ARM CPUs, which all have NEON ----------------------------------------------------------------------------

struct neon_cpu : moves_rows<neon_cpu>, plain_integers {
  template <class Body> TUCK_LOOPS static auto run(const Body& body) noexcept { return call<neon_cpu>(body); }

  static uint32_t popcount(uint64_t x) noexcept { return vaddv_u8(vcnt_u8(vcreate_u8(x))); }
  static uint8x16_t load(const std::byte* from) noexcept { return vld1q_u8(reinterpret_cast<const uint8_t*>(from)); }
  static void store(std::byte* to, uint8x16_t x) noexcept { vst1q_u8(reinterpret_cast<uint8_t*>(to), x); }

  // One byte for each of 16 values: all ones if the value is 0. With Changes: if it equals the value before it.
  template <size_t Size, bool Changes> static uint8x16_t equal_bytes(const std::byte* values) noexcept {
    uint8x16_t lanes[8];  // the first Size
    for (size_t i = 0; i < Size; ++i) {
      const uint8x16_t a = load(values + 16 * i), b = Changes ? load(values + 16 * i - Size) : vdupq_n_u8(0);
      using integers [[gnu::vector_size(16)]] = typename uint_of_size<Size>::type;
      lanes[i] = __builtin_bit_cast(
          uint8x16_t, __builtin_bit_cast(integers, a) == __builtin_bit_cast(integers, b) ? ~integers{} : integers{});
    }
    // Keeps every second byte of two vectors until each value has one byte.
    for (size_t n = Size / 2; n > 0; n /= 2)
      for (size_t i = 0; i < n; ++i) lanes[i] = vuzp1q_u8(lanes[2 * i], lanes[2 * i + 1]);
    return lanes[0];
  }
  template <size_t Size, bool Changes> static uint32_t mask_of(const std::byte* values) noexcept {
    const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
    const uint8x16_t first = equal_bytes<Size, Changes>(values),
                     second = equal_bytes<Size, Changes>(values + 16 * Size);
    const uint8x16_t low = vbicq_u8(bits, first), high = vbicq_u8(bits, second);
    uint8x16_t sums = vpaddq_u8(low, high);
    sums = vpaddq_u8(sums, sums);
    return vgetq_lane_u32(vreinterpretq_u32_u8(vpaddq_u8(sums, sums)), 0);
  }

  template <size_t Size> struct row {
    static constexpr uint32_t step = Size == 8 ? 4 : 8;
    static void move(const uint8_t* lanes, const std::byte* from, std::byte* to) noexcept {
      if constexpr (Size == 1) {
        vst1_u8(reinterpret_cast<uint8_t*>(to),
                vtbl1_u8(vld1_u8(reinterpret_cast<const uint8_t*>(from)), vld1_u8(lanes)));
      } else {
        // The source of each byte: first byte of its lane, plus its index in the lane. no_lane gives an index beyond
        // all bytes, for which the instruction returns 0.
        constexpr int shift = std::countr_zero(Size);  // a constant without optimisation, too
        const uint8x16_t first = vqshlq_n_u8(vcombine_u8(vld1_u8(lanes), vdup_n_u8(0)), shift);
        const uint8x16_t in_lane = vandq_u8(counting, vdupq_n_u8(Size - 1));
        const uint8x16_t half = vshrq_n_u8(counting, shift);
        const uint8x16_t low = vqaddq_u8(vqtbl1q_u8(first, half), in_lane);
        if constexpr (Size == 2) {
          store(to, vqtbl1q_u8(load(from), low));
        } else {
          const uint8x16_t high = vqaddq_u8(vqtbl1q_u8(first, vaddq_u8(half, vdupq_n_u8(16 / Size))), in_lane);
          const uint8x16x2_t in{{load(from), load(from + 16)}};
          store(to, vqtbl2q_u8(in, low));
          store(to + 16, vqtbl2q_u8(in, high));
        }
      }
    }
    static constexpr uint8x16_t counting{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  };
};

#endif

}  // namespace tuck::inline TUCK_ABI::detail
