// Windows of values on x86 CPUs with no more than SSE2, which all have.
#pragma once

#include <tuck/core/cpu_windows.hpp>

#if defined(TUCK_AVX2)
#include <emmintrin.h>

namespace tuck::inline TUCK_ABI::detail {

// How 4-byte values move in a row of four, for each mask of 4 bits. SSE2 cannot move lanes by a table. So all lanes
// move twice, and each takes the moved value or keeps its own. pack moves values by one lane, then by two; spread by
// two lanes, then by one.
struct alignas(64) row_moves {
  uint32_t first[4], second[4];  // all ones in lanes that take the moved value, else 0
  uint32_t kept[4];              // all ones in lanes of values, 0 in lanes of zeros
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
    for (uint32_t i = 0; i < 4; ++i) table[mask].kept[i] = Runs || (mask >> i & 1) != 0 ? ~0u : 0;
  }
  return table;
}

struct sse2_cpu : plain_cpu {
  template <class Body> static auto run(const Body& body) noexcept { return body(sse2_cpu{}); }

  // Compares 16 bytes in lanes of Size bytes: all bits of a lane are 1 if it equals that of `others`, or 0 if `others`
  // is null; else all are 0.
  template <size_t Size> static __m128i equal(const std::byte* values, const std::byte* others) noexcept {
    const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values));
    const __m128i b =
        others == nullptr ? _mm_setzero_si128() : _mm_loadu_si128(reinterpret_cast<const __m128i*>(others));
    if constexpr (Size == 1) return _mm_cmpeq_epi8(a, b);
    if constexpr (Size == 2) return _mm_cmpeq_epi16(a, b);
    const __m128i words = _mm_cmpeq_epi32(a, b);
    return Size == 4 ? words : _mm_and_si128(words, _mm_shuffle_epi32(words, 0xb1));
  }
  // The same for 16 values, with one byte for each.
  template <size_t Size, bool Changes> static __m128i equal_bytes(const std::byte* values) noexcept {
    __m128i lanes[Size];
    TUCK_UNROLL(8)
    for (size_t i = 0; i < Size; ++i)
      lanes[i] = equal<Size>(values + 16 * i, Changes ? values + 16 * i - Size : nullptr);
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
    const auto low = static_cast<uint32_t>(_mm_movemask_epi8(equal_bytes<Size, Changes>(values)));
    const auto high = static_cast<uint32_t>(_mm_movemask_epi8(equal_bytes<Size, Changes>(values + 16 * Size)));
    return ~(low | high << 16);
  }

  template <bool Packs, bool Runs> static constexpr std::array<row_moves, 16> moves = make_row_moves<Packs, Runs>();

  static __m128i load(const void* from) noexcept { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
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
      if (!Runs) x = _mm_and_si128(x, *reinterpret_cast<const __m128i*>(move.kept));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 4 * i), x);
      from += move.bytes;
    }
    return from;
  }
};

}  // namespace tuck::inline TUCK_ABI::detail

#endif
