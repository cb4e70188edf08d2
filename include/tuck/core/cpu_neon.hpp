// Windows of values on 64-bit ARM CPUs, which all have NEON.
#pragma once

#include <tuck/core/cpu_windows.hpp>

#if defined(TUCK_NEON)
#include <arm_neon.h>

namespace tuck::inline TUCK_ABI::detail {

struct neon_cpu : moves_rows<neon_cpu>, plain_integers {
  template <class Body> static auto run(const Body& body) noexcept { return body(neon_cpu{}); }

  static uint32_t popcount(uint64_t x) noexcept { return vaddv_u8(vcnt_u8(vcreate_u8(x))); }
  static uint8x16_t load(const std::byte* from) noexcept { return vld1q_u8(reinterpret_cast<const uint8_t*>(from)); }
  static void store(std::byte* to, uint8x16_t x) noexcept { vst1q_u8(reinterpret_cast<uint8_t*>(to), x); }

  // One byte for each of 16 values: all ones if the value is 0. With Changes: if it equals the value before it.
  template <size_t Size, bool Changes> static uint8x16_t equal_bytes(const std::byte* values) noexcept {
    uint8x16_t lanes[Size];
    for (size_t i = 0; i < Size; ++i) {
      const uint8x16_t a = load(values + 16 * i), b = Changes ? load(values + 16 * i - Size) : vdupq_n_u8(0);
      if constexpr (Size == 1) lanes[i] = vceqq_u8(a, b);
      if constexpr (Size == 2)
        lanes[i] = vreinterpretq_u8_u16(vceqq_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
      if constexpr (Size == 4)
        lanes[i] = vreinterpretq_u8_u32(vceqq_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
      if constexpr (Size == 8)
        lanes[i] = vreinterpretq_u8_u64(vceqq_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
    }
    // Keeps every second byte of two vectors until each value has one byte.
    for (size_t n = Size / 2; n > 0; n /= 2)
      for (size_t i = 0; i < n; ++i) lanes[i] = vuzp1q_u8(lanes[2 * i], lanes[2 * i + 1]);
    return lanes[0];
  }
  template <size_t Size, bool Changes> static uint32_t mask_of(const std::byte* values) noexcept {
    const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
    const uint8x16_t low = vbicq_u8(bits, equal_bytes<Size, Changes>(values));
    const uint8x16_t high = vbicq_u8(bits, equal_bytes<Size, Changes>(values + 16 * Size));
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
        const uint8x16_t first = vqshlq_n_u8(vcombine_u8(vld1_u8(lanes), vdup_n_u8(0)), std::countr_zero(Size));
        const uint8x16_t in_lane = vandq_u8(counting, vdupq_n_u8(Size - 1));
        const uint8x16_t half = vshrq_n_u8(counting, std::countr_zero(Size));
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

  static uint64_t sum_words(const std::byte* words, uint64_t rounds, uint64_t four) noexcept {
    return plain_cpu::sum_words(words, rounds, four);
  }
};

}  // namespace tuck::inline TUCK_ABI::detail

#endif
