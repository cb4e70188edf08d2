// SPDX-License-Identifier: Apache-2.0
// Numbers and their rests on one thread block, four values at a time. layout.hpp describes both.
#pragma once

#include <tuck/codec/block_tile.cuh>
#include <tuck/codec/huffman/layout.hpp>
#include <tuck/core/bit_lanes.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// Four values of Width bytes: values 4 q to 4 q + 3 of a strip, which begins at a multiple of 16.
template <uint32_t Width> struct alignas(Width < 4 ? 4 * Width : 16) number_quad {
  using word = std::conditional_t<Width == 8, uint64_t, uint32_t>;
  using lanes = lanes_of<word, Width>;
  static constexpr uint32_t words = 4 * Width / sizeof(word);

  uint32_t w[Width];

  __device__ static number_quad load(const std::byte* strip, uint32_t q) {
    return reinterpret_cast<const number_quad*>(strip)[q];
  }
  __device__ void store(std::byte* strip, uint32_t q) const { reinterpret_cast<number_quad*>(strip)[q] = *this; }
  __device__ word at(uint32_t i) const {
    if constexpr (Width == 8)
      return device::join_words(w[2 * i], w[2 * i + 1]);
    else
      return w[i];
  }
  __device__ void set(uint32_t i, word x) {
    if constexpr (Width == 8)
      device::split_words(x, w[2 * i], w[2 * i + 1]);
    else
      w[i] = x;
  }

  // Returns value k, with other values above it.
  __device__ word value(uint32_t k) const {
    return at(static_cast<uint32_t>(k * Width / sizeof(word))) >> (8 * Width * k % (8 * sizeof(word)));
  }

  // Adds the bits that any of the values has to `any`.
  __device__ void to_numbers(uint32_t exponent, bool zigzag, uint32_t top, word& any) {
#pragma unroll
    for (uint32_t i = 0; i < words; ++i) {
      any |= at(i);
      set(i, lanes::number(at(i), exponent, zigzag, top));
    }
  }
  __device__ void to_values(uint32_t exponent, bool zigzag, uint32_t top, uint32_t zeros) {
    const auto add_zeros = [&] {
#pragma unroll
      for (uint32_t i = 0; i < words; ++i) set(i, lanes::up(at(i), zeros));
    };
    if (zeros != 0 && exponent != 0) add_zeros();
#pragma unroll
    for (uint32_t i = 0; i < words; ++i) set(i, lanes::value(at(i), exponent, zigzag, top));
    if (zeros != 0 && exponent == 0) add_zeros();
  }

  // Returns the symbols of these numbers, one per byte. They still have their `zeros`, and `shift` counts these too.
  __device__ uint32_t symbols(uint32_t shift) const {
    if constexpr (Width >= 4) {
      uint32_t s[4];
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) {
        const word x = at(k) >> shift;
        s[k] = x < escape ? static_cast<uint32_t>(x) : escape;
      }
      return device::byte_perm<0x5410>(device::byte_perm<0x0040>(s[0], s[1]), device::byte_perm<0x0040>(s[2], s[3]));
    } else {
      const uint32_t large = shift + symbol_bits < 8 * Width ? ~lanes::low(shift + symbol_bits) : 0;
      const auto joined = [](uint32_t a, uint32_t b) { return Width == 1 ? a : device::byte_perm<0x6420>(a, b); };
      uint32_t s = joined(w[0] >> shift, w[Width - 1] >> shift) & 0x3f3f3f3fu;
      if (const uint32_t a = w[0] & large, b = w[Width - 1] & large; (a | b) != 0) {
        const uint32_t some = Width == 1 ? a : joined(a, b) | device::byte_perm<0x7531>(a, b);  // not 0: an escape
        const uint32_t tops = (((some & 0x7f7f7f7fu) + 0x7f7f7f7fu) | some) & 0x80808080u;
        static_assert(escape == 0x3f);
        s |= (tops >> 1) - (tops >> 7);
      }
      return s;
    }
  }
  // Returns byte b of these numbers.
  __device__ uint32_t bytes(uint32_t b) const {
    if constexpr (Width == 1) return w[0];
    if constexpr (Width == 2) return device::byte_perm(w[0], w[1], 0x6420 + 0x1111 * b);
    if constexpr (Width == 4) return gather(w[0], w[1], w[2], w[3], b);
    if constexpr (Width == 8) return b < 4 ? gather(w[0], w[2], w[4], w[6], b) : gather(w[1], w[3], w[5], w[7], b - 4);
  }
  // Sets numbers from the bytes of a word each.
  __device__ void set_bytes(uint32_t x) {
    if constexpr (Width == 1) w[0] = x;
    if constexpr (Width == 2) {
      w[0] = device::byte_perm<0x4140>(x, 0);
      w[1] = device::byte_perm<0x4342>(x, 0);
    }
    if constexpr (Width >= 4) {
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) {
        w[k * Width / 4] = x >> 8 * k & 255;
        if constexpr (Width == 8) w[2 * k + 1] = 0;
      }
    }
  }
  // Sets numbers from the upper bits of a word each: of the upper half, or for Width 1 of the highest byte.
  __device__ void set_upper(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    if constexpr (Width == 1)
      w[0] = device::byte_perm<0x5410>(device::byte_perm<0x0073>(a, b), device::byte_perm<0x0073>(c, d));
    if constexpr (Width == 2) {
      w[0] = device::byte_perm<0x7632>(a, b);
      w[1] = device::byte_perm<0x7632>(c, d);
    }
    if constexpr (Width >= 4) {
      const uint32_t x[4] = {a, b, c, d};
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) {
        w[(k + 1) * Width / 4 - 1] = x[k] & 0xffff0000;
        if constexpr (Width == 8) w[2 * k] = 0;
      }
    }
  }
  // Moves the bits of each number up. Lanes must have as many zeros there.
  __device__ void shift_up(uint32_t bits) {
#pragma unroll
    for (uint32_t i = 0; i < words; ++i) set(i, at(i) << bits);
  }

 private:
  __device__ static uint32_t gather(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t byte) {
    const uint32_t pick = byte | (byte + 4) << 4;
    return device::byte_perm<0x5410>(device::byte_perm(a, b, pick), device::byte_perm(c, d, pick));
  }
};

// 16 bytes of numbers, or 32 bytes of those of 8 bytes: four or more numbers, whose planes have whole bytes.
template <uint32_t Width> struct number_group {
  static constexpr uint32_t quads = Width < 4 ? 4 / Width : 1, vectors = Width < 8 ? 1 : 2, values = 4 * quads;
  number_quad<Width> at[quads];

  __device__ static uint32_t number(uint32_t count) { return (count + values - 1) / values; }
  __device__ static number_group load(const std::byte* strip, uint32_t g) {
    number_group x;
    const auto* const from = reinterpret_cast<const device::vec128*>(strip) + g * vectors;
#pragma unroll
    for (uint32_t v = 0; v < vectors; ++v) x.set_vector(v, from[v]);
    return x;
  }
  __device__ void set_vector(uint32_t v, const device::vec128& x) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) at[(4 * v + i) / Width].w[(4 * v + i) % Width] = x.w[i];
  }
  __device__ device::vec128 vector(uint32_t v) const {
    device::vec128 x;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) x.w[i] = at[(4 * v + i) / Width].w[(4 * v + i) % Width];
    return x;
  }

  // Returns the word that has value k, or its upper word.
  __device__ uint32_t upper_word(uint32_t k) const {
    const uint32_t which = Width < 4 ? k * Width / 4 : k;
    uint32_t x = 0;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t at_word = i * vectors + vectors - 1;
      x = which == i ? at[at_word / Width].w[at_word % Width] : x;
    }
    return x;
  }

  // Returns these numbers without their lowest bits. Above them are bits of others.
  __device__ number_group shifted_down(uint32_t bits) const {
    number_group x;
#pragma unroll
    for (uint32_t q = 0; q < quads; ++q)
#pragma unroll
      for (uint32_t i = 0; i < number_quad<Width>::words; ++i) x.at[q].set(i, at[q].at(i) >> bits);
    return x;
  }
  __device__ void store(std::byte* strip, uint32_t g) const {
    auto* const to = reinterpret_cast<device::vec128*>(strip) + g * vectors;
#pragma unroll
    for (uint32_t v = 0; v < vectors; ++v) to[v] = vector(v);
  }

  // Writes byte b of the numbers to a plane of `words` words.
  __device__ void store_bytes(uint32_t* plane, uint32_t words, uint32_t g, uint32_t b) const {
#pragma unroll
    for (uint32_t i = 0; i < quads; ++i)
      if (g * quads + i < words) plane[g * quads + i] = at[i].bytes(b);
  }
  // Writes K bits of a byte of each number, from bit `from` on. All lanes of a warp call it, with groups in order.
  template <uint32_t K>
  __device__ static void store_bits(uint32_t* plane, uint32_t words, uint32_t g, const uint32_t (&part)[quads],
                                    uint32_t from) {
    constexpr uint32_t bits = K * values;  // of all quads
    uint32_t x[quads];
#pragma unroll
    for (uint32_t i = 0; i < quads; ++i) x[i] = squeeze<K>(part[i] >> from);
    if constexpr (bits == 64) {
      if (2 * g < words) plane[2 * g] = joined<K>(x[0], x[1]);
      if (2 * g + 1 < words) plane[2 * g + 1] = joined<K>(x[2], x[3]);
    } else if constexpr (bits == 4) {  // of half a byte, which even lanes write with that of the next lane
      const uint32_t mine = joined<K>(x[0], 0), other = device::shfl_xor(mine, 1);
      if (g % 2 == 0 && g / 2 < 4 * words)
        reinterpret_cast<uint8_t*>(plane)[g / 2] = static_cast<uint8_t>(mine | other << 4);
    } else {
      using piece = std::conditional_t<bits == 8, uint8_t, std::conditional_t<bits == 16, uint16_t, uint32_t>>;
      uint32_t all = joined<K>(x[0], quads > 1 ? x[quads > 1] : 0);
      if constexpr (quads == 4) all |= joined<K>(x[2], x[3]) << 8 * K;
      if (g * sizeof(piece) < 4 * words) reinterpret_cast<piece*>(plane)[g] = static_cast<piece>(all);
    }
  }
  // Returns these bits of quad q, one number per byte, from a plane.
  template <uint32_t K> __device__ static uint32_t load_bits(const uint32_t* plane, uint32_t q) {
    if constexpr (K == 1)
      return widen<1>(reinterpret_cast<const uint8_t*>(plane)[q / 2] >> q % 2 * 4 & 15);
    else
      return widen<K>(reinterpret_cast<const std::conditional_t<K == 2, uint8_t, uint16_t>*>(plane)[q]);
  }
  // Adds these bits of group g, moved up by `up` bits, to a word of bytes for each quad.
  template <uint32_t K>
  __device__ static void add_bits(const uint32_t* plane, uint32_t g, uint32_t up, uint32_t (&part)[quads]) {
    constexpr uint32_t bits = K * values, of_quad = 4 * K;
    static_assert(quads > 1, "a group of one quad may have half a byte");
    uint32_t x[bits == 64 ? 2 : 1];
    if constexpr (bits == 64) {  // `plane` is at a multiple of 8: see rest_planes::load_partial
      const uint2 two = reinterpret_cast<const uint2*>(plane)[g];
      x[0] = two.x;
      x[1] = two.y;
    } else {
      using piece = std::conditional_t<bits == 8, uint8_t, std::conditional_t<bits == 16, uint16_t, uint32_t>>;
      x[0] = reinterpret_cast<const piece*>(plane)[g];
    }
#pragma unroll
    for (uint32_t i = 0; i < quads; ++i)
      part[i] |= widen<K>(x[of_quad * i / 32] >> of_quad * i % 32 & low_mask(of_quad)) << up;
  }

 private:
  // Moves the lowest K bits of each byte together: to the lower halves of both halves of a word for 4, else to the
  // highest byte.
  template <uint32_t K> __device__ static uint32_t squeeze(uint32_t x) {
    if constexpr (K == 4) return device::or_masked(x & 0x0f0f0f0f, (x & 0x0f0f0f0f) >> 4, 0x00ff00ff);
    if constexpr (K == 2) return (x & 0x03030303) * 0x01041040;
    return (x & 0x01010101) * 0x01020408;
  }
  // Returns the bits of two quads.
  template <uint32_t K> __device__ static uint32_t joined(uint32_t a, uint32_t b) {
    if constexpr (K == 4) return device::byte_perm<0x6420>(a, b);
    if constexpr (K == 2) return device::byte_perm<0x4473>(a, b) & 0xffff;
    return (a >> 24 & 15) | (b >> 20 & 0xf0);
  }
  // Moves K bits each to a byte each.
  template <uint32_t K> __device__ static uint32_t widen(uint32_t x) {
    if constexpr (K == 4) {
      x = device::or_masked(x, x << 8, 0x00ff00ff);
      return device::or_masked(x, x << 4, 0x0f0f0f0f);
    }
    if constexpr (K == 2) {
      x = device::or_masked(x, x << 12, 0x000f000f);
      return device::or_masked(x, x << 6, 0x03030303);
    }
    return x * 0x00204081 & 0x01010101;
  }
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
