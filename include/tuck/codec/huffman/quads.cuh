// Four values as the words of their planes and back, by one thread.
#pragma once

#include <tuck/codec/huffman/layout.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// The bytes of four words as four others: byte j of word i becomes byte i of word j.
__device__ __forceinline__ void transpose_bytes(uint32_t (&w)[4]) {
  const uint32_t a = device::byte_perm<0x5140>(w[0], w[1]), b = device::byte_perm<0x5140>(w[2], w[3]);
  const uint32_t c = device::byte_perm<0x7362>(w[0], w[1]), d = device::byte_perm<0x7362>(w[2], w[3]);
  w[0] = device::byte_perm<0x5410>(a, b);
  w[1] = device::byte_perm<0x7632>(a, b);
  w[2] = device::byte_perm<0x5410>(c, d);
  w[3] = device::byte_perm<0x7632>(c, d);
}

// Values 4 q to 4 q + 3 of a row of values of Width bytes.
template <uint32_t Width> struct quad {
  uint32_t w[Width];  // as they stand, or the planes: the lowest first

  __device__ static quad load(const std::byte* row, uint32_t q) {
    quad x;
    const auto* const from = reinterpret_cast<const uint32_t*>(row) + Width * q;
    if constexpr (Width >= 4) {
#pragma unroll
      for (uint32_t i = 0; i < Width / 4; ++i) {
        const auto v = reinterpret_cast<const device::vec128*>(from)[i];
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) x.w[4 * i + k] = v.w[k];
      }
    } else if constexpr (Width == 2) {
      device::split_words(*reinterpret_cast<const uint64_t*>(from), x.w[0], x.w[1]);
    } else {
      x.w[0] = *from;
    }
    return x;
  }
  // Sets all bits that another has.
  __device__ void merge(const quad& other) {
#pragma unroll
    for (uint32_t i = 0; i < Width; ++i) w[i] |= other.w[i];
  }

  // Rotates each value left by one bit.
  __device__ void rotate() {
    if constexpr (Width == 2) {
#pragma unroll
      for (uint32_t& x : w) x = device::select_bits<0xfffefffe>(x << 1, x >> 15);
    } else if constexpr (Width == 4) {
#pragma unroll
      for (uint32_t& x : w) x = device::funnel_shift_right(x, x, 31);
    } else if constexpr (Width == 8) {
#pragma unroll
      for (uint32_t i = 0; i < 8; i += 2) {
        const uint32_t top = w[i + 1] >> 31;
        w[i + 1] = w[i + 1] << 1 | w[i] >> 31;
        w[i] = w[i] << 1 | top;
      }
    }
  }
  // Shifts each value up by so many bytes, fewer than it has, and down.
  __device__ void raise(uint32_t bytes) {
    if constexpr (Width == 2) {
#pragma unroll
      for (uint32_t& x : w) x = device::byte_perm(x, 0, bytes == 0 ? 0x3210 : 0x2404);
    } else if constexpr (Width == 4) {
#pragma unroll
      for (uint32_t& x : w) x <<= 8 * bytes;
    } else if constexpr (Width == 8) {
#pragma unroll
      for (uint32_t i = 0; i < 8; i += 2)
        device::split_words(device::join_words(w[i], w[i + 1]) << 8 * bytes, w[i], w[i + 1]);
    }
  }
  __device__ void lower(uint32_t bytes) {
    if constexpr (Width == 2) {
#pragma unroll
      for (uint32_t& x : w) x = device::byte_perm(x, 0, bytes == 0 ? 0x3210 : 0x4341);
    } else if constexpr (Width == 4) {
#pragma unroll
      for (uint32_t& x : w) x >>= 8 * bytes;
    } else if constexpr (Width == 8) {
#pragma unroll
      for (uint32_t i = 0; i < 8; i += 2)
        device::split_words(device::join_words(w[i], w[i + 1]) >> 8 * bytes, w[i], w[i + 1]);
    }
  }
  __device__ void rotate_back() {
    if constexpr (Width == 2) {
#pragma unroll
      for (uint32_t& x : w) x = device::select_bits<0x7fff7fff>(x >> 1, x << 15);
    } else if constexpr (Width == 4) {
#pragma unroll
      for (uint32_t& x : w) x = device::funnel_shift_right(x, x, 1);
    } else if constexpr (Width == 8) {
#pragma unroll
      for (uint32_t i = 0; i < 8; i += 2) {
        const uint32_t bottom = w[i] << 31;
        w[i] = w[i] >> 1 | w[i + 1] << 31;
        w[i + 1] = w[i + 1] >> 1 | bottom;
      }
    }
  }

  // To the words of planes, and back.
  __device__ void to_planes() {
    if constexpr (Width == 2) {
      const uint32_t low = device::byte_perm<0x6420>(w[0], w[1]);
      w[1] = device::byte_perm<0x7531>(w[0], w[1]);
      w[0] = low;
    } else if constexpr (Width == 4) {
      transpose_bytes(w);
    } else if constexpr (Width == 8) {
      uint32_t low[4] = {w[0], w[2], w[4], w[6]}, high[4] = {w[1], w[3], w[5], w[7]};
      transpose_bytes(low);
      transpose_bytes(high);
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) {
        w[k] = low[k];
        w[4 + k] = high[k];
      }
    }
  }
  __device__ void from_planes() {
    if constexpr (Width == 2) {
      const uint32_t low = device::byte_perm<0x5140>(w[0], w[1]);
      w[1] = device::byte_perm<0x7362>(w[0], w[1]);
      w[0] = low;
    } else if constexpr (Width == 4) {
      transpose_bytes(w);
    } else if constexpr (Width == 8) {
      uint32_t low[4] = {w[0], w[1], w[2], w[3]}, high[4] = {w[4], w[5], w[6], w[7]};
      transpose_bytes(low);
      transpose_bytes(high);
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) {
        w[2 * k] = low[k];
        w[2 * k + 1] = high[k];
      }
    }
  }
};

// Seven bits of each of four bytes, from bit 1 on, as 28, and back.
__device__ __forceinline__ uint32_t squeeze(uint32_t x) {
  return (x >> 1 & 0x7f) | (x >> 2 & 0x7f << 7) | (x >> 3 & 0x7f << 14) | (x >> 4 & 0x7f << 21);
}
__device__ __forceinline__ uint32_t widen(uint32_t x) {
  return (x & 0x7f) << 1 | (x & 0x7f << 7) << 2 | (x & 0x7f << 14) << 3 | (x & 0x7f << 21) << 4;
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
