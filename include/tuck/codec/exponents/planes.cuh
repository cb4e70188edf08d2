// 16 bytes of floats as planes of bytes, on one thread.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI {

// Floats of Width bytes, each rotated left by a bit, so that its upper byte has 8 bits of its exponent. Quad q has four
// of them: byte b of word k of a quad is byte k of its value b.
template <uint32_t Width> struct exponent_planes {
  static constexpr uint32_t quads = 4 / Width;
  uint32_t w[quads][Width];

  __device__ void set(const device::vec128& x) {
#pragma unroll
    for (uint32_t q = 0; q < quads; ++q) {
      const uint32_t* const from = x.w + Width * q;
      uint32_t(&to)[Width] = w[q];
      if constexpr (Width == 1) {
        to[0] = select_bits<uint32_t>(0xfefefefe, from[0] << 1, from[0] >> 7);
      } else if constexpr (Width == 2) {
        const uint32_t signs = device::byte_signs<0x7531>(from[0], from[1]), a = from[0] << 1, b = from[1] << 1;
        to[0] = select_bits<uint32_t>(0x01010101, signs, device::byte_perm<0x6420>(a, b));
        to[1] = device::byte_perm<0x7531>(a, b);
      } else {
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) to[k] = device::funnel_shift_right(from[k], from[k], 31);
        transpose(to);
      }
    }
  }
  __device__ device::vec128 get() const {
    device::vec128 x;
#pragma unroll
    for (uint32_t q = 0; q < quads; ++q) {
      uint32_t from[Width];
#pragma unroll
      for (uint32_t k = 0; k < Width; ++k) from[k] = w[q][k];
      uint32_t* const to = x.w + Width * q;
      if constexpr (Width == 1) {
        to[0] = select_bits<uint32_t>(0x7f7f7f7f, from[0] >> 1, from[0] << 7);
      } else if constexpr (Width == 2) {
        const uint32_t a = device::byte_perm<0x5140>(from[0], from[1]), b = device::byte_perm<0x7362>(from[0], from[1]);
        to[0] = select_bits<uint32_t>(0x7fff7fff, a >> 1, a << 15);
        to[1] = select_bits<uint32_t>(0x7fff7fff, b >> 1, b << 15);
      } else {
        transpose(from);
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) to[k] = device::funnel_shift_right(from[k], from[k], 1);
      }
    }
    return x;
  }

 private:
  // Byte j of word i becomes byte i of word j.
  __device__ static void transpose(uint32_t (&w)[Width]) {
    const uint32_t a = device::byte_perm<0x5140>(w[0], w[1]), b = device::byte_perm<0x5140>(w[2], w[3]);
    const uint32_t c = device::byte_perm<0x7362>(w[0], w[1]), d = device::byte_perm<0x7362>(w[2], w[3]);
    w[0] = device::byte_perm<0x5410>(a, b);
    w[1] = device::byte_perm<0x7632>(a, b);
    w[2] = device::byte_perm<0x5410>(c, d);
    w[3] = device::byte_perm<0x7632>(c, d);
  }
};

}  // namespace tuck::inline TUCK_ABI
