// Byte planes by one thread block: the results of byte_planes.hpp.
//
// A thread turns four values at a time, which are as many words as they have planes, into a word of each plane, by
// permutations of bytes. All are in registers before the first one is written.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/transform/byte_planes.hpp>

namespace tuck::inline TUCK_ABI {

template <element T, int Threads> class block_transform<byte_planes<T>, Threads> {
  static constexpr uint32_t planes = sizeof(T);
  static constexpr uint32_t each = tile_bytes / (4 * planes) / Threads;  // fours of values a thread
  static_assert(each * 4 * planes * Threads == tile_bytes, "tuck: a block has a power of two of threads, 512 at most");

 public:
  struct TempStorage {};

  __device__ explicit block_transform(TempStorage&) {}

  __device__ void apply(const byte_planes<T>&, std::byte* values, uint32_t count) const {
    if constexpr (planes > 1) {
      four mine[each];
#pragma unroll
      for (uint32_t k = 0; k < each; ++k) {
        mine[k] = load_values(values, first(k), count);
        to_planes(mine[k]);
      }
      device::sync_block();
#pragma unroll
      for (uint32_t k = 0; k < each; ++k) store_planes(values, first(k), count, mine[k]);
    }
  }

  __device__ void invert(const byte_planes<T>&, std::byte* results, uint32_t count) const {
    if constexpr (planes > 1) {
      four mine[each];
#pragma unroll
      for (uint32_t k = 0; k < each; ++k) {
        mine[k] = load_planes(results, first(k), count);
        to_values(mine[k]);
      }
      device::sync_block();
#pragma unroll
      for (uint32_t k = 0; k < each; ++k) store_values(results, first(k), count, mine[k]);
    }
  }

 private:
  // Four values, or the four bytes that each plane has of them.
  struct alignas(planes == 2 ? 8 : 16) four {
    uint32_t w[planes];
  };

  // Index of the first value of this thread's k-th four.
  __device__ static uint32_t first(uint32_t k) { return 4 * (threadIdx.x + k * Threads); }

  // Which word of a four is of plane p: the lower halves of 8-byte values are transposed among each other.
  __device__ static constexpr uint32_t word_of(uint32_t p) { return planes == 8 ? p % 4 * 2 + p / 4 : p; }

  // -- in registers ----------------------------------------------------------------------------------------------

  __device__ static void to_planes(four& x) {
    if constexpr (planes == 2)
      x = {device::byte_perm<0x6420>(x.w[0], x.w[1]), device::byte_perm<0x7531>(x.w[0], x.w[1])};
    else
      transpose(x);
  }
  __device__ static void to_values(four& x) {
    if constexpr (planes == 2)
      x = {device::byte_perm<0x5140>(x.w[0], x.w[1]), device::byte_perm<0x7362>(x.w[0], x.w[1])};
    else
      transpose(x);
  }

  // Byte i of the j-th word of four becomes byte j of the i-th one.
  __device__ static void transpose(four& x) {
    constexpr uint32_t step = planes / 4;
#pragma unroll
    for (uint32_t i = 0; i < step; ++i) {
      uint32_t &a = x.w[i], &b = x.w[i + step], &c = x.w[i + 2 * step], &d = x.w[i + 3 * step];
      const uint32_t ab_low = device::byte_perm<0x5140>(a, b), ab_high = device::byte_perm<0x7362>(a, b);
      const uint32_t cd_low = device::byte_perm<0x5140>(c, d), cd_high = device::byte_perm<0x7362>(c, d);
      a = device::byte_perm<0x5410>(ab_low, cd_low);
      b = device::byte_perm<0x7632>(ab_low, cd_low);
      c = device::byte_perm<0x5410>(ab_high, cd_high);
      d = device::byte_perm<0x7632>(ab_high, cd_high);
    }
  }

  // -- values: the words of a four lie together ------------------------------------------------------------------

  // The 16 bytes of four 8-byte values that this lane takes first, and last: every eighth lane meets all banks so.
  __device__ static uint32_t half(uint32_t turn) { return device::lane_id() / 4 % 2 ^ turn; }

  // What is past the end may be anything.
  __device__ static four load_values(const std::byte* values, uint32_t first, uint32_t count) {
    four x{};
    const std::byte* const from = values + first * planes;
    if constexpr (planes == 8) {
      device::vec128 turn[2] = {};
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i)
        if (first + 2 * half(i) < count) turn[i] = reinterpret_cast<const device::vec128*>(from)[half(i)];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        x.w[i] = half(0) == 0 ? turn[0].w[i] : turn[1].w[i];
        x.w[4 + i] = half(0) == 0 ? turn[1].w[i] : turn[0].w[i];
      }
    } else {
      if (first < count) x = *reinterpret_cast<const four*>(from);
    }
    return x;
  }

  __device__ static void store_values(std::byte* values, uint32_t first, uint32_t count, const four& x) {
    std::byte* const to = values + first * planes;
    if (first + 4 > count) {
#pragma unroll
      for (uint32_t i = 0; i < planes; ++i)
        if (first * planes + 4 * i < count * planes) reinterpret_cast<uint32_t*>(to)[i] = x.w[i];
    } else if constexpr (planes == 8) {
#pragma unroll
      for (uint32_t turn = 0; turn < 2; ++turn) {
        device::vec128 out;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) out.w[i] = half(turn) == 0 ? x.w[i] : x.w[4 + i];
        reinterpret_cast<device::vec128*>(to)[half(turn)] = out;
      }
    } else {
      *reinterpret_cast<four*>(to) = x;
    }
  }

  // -- planes: the words of a four lie `count` bytes apart, anywhere -----------------------------------------------

  __device__ static four load_planes(const std::byte* results, uint32_t first, uint32_t count) {
    four x{};
    if (first >= count) return x;
    const auto* const words = reinterpret_cast<const uint32_t*>(results);
#pragma unroll
    for (uint32_t p = 0; p < planes; ++p) {
      const uint32_t at = p * count + first, next = at / 4 + 1;
      // The next word has nothing for us where planes begin at words, and may lie behind everything.
      const uint32_t upper = at % 4 != 0 && 4 * next < planes * count ? words[next] : 0;
      x.w[word_of(p)] = device::funnel_shift_right(words[at / 4], upper, 8 * (at % 4));
    }
    return x;
  }

  __device__ static void store_planes(std::byte* results, uint32_t first, uint32_t count, const four& x) {
    if (first >= count) return;
    if (count % 4 == 0) {
#pragma unroll
      for (uint32_t p = 0; p < planes; ++p) *reinterpret_cast<uint32_t*>(results + p * count + first) = x.w[word_of(p)];
    } else {
      // Planes begin anywhere, and a word may hold bytes of two threads.
      const uint32_t length = count - first < 4 ? count - first : 4;
#pragma unroll
      for (uint32_t p = 0; p < planes; ++p)
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i)
          if (i < length) results[p * count + first + i] = static_cast<std::byte>(x.w[word_of(p)] >> (8 * i));
    }
  }
};

}  // namespace tuck::inline TUCK_ABI
