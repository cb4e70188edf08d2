// Numbers and their rests on one thread block, four values at a time. layout.hpp describes both.
#pragma once

#include <tuck/codec/block_tile.cuh>
#include <tuck/codec/huffman/layout.hpp>
#include <tuck/core/bit_lanes.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// Four values of Width bytes: values 4 q to 4 q + 3 of a row, which begins at a multiple of 16.
template <uint32_t Width> struct alignas(Width < 4 ? 4 * Width : 16) number_quad {
  using word = std::conditional_t<Width == 8, uint64_t, uint32_t>;
  using lanes = lanes_of<word, Width>;
  static constexpr uint32_t words = 4 * Width / sizeof(word);

  uint32_t w[Width];

  __device__ static number_quad load(const std::byte* row, uint32_t q) {
    return reinterpret_cast<const number_quad*>(row)[q];
  }
  __device__ void store(std::byte* row, uint32_t q) const { reinterpret_cast<number_quad*>(row)[q] = *this; }
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

  // Takes the larger of `most` and each value without its sign. The values are at the top of words.
  __device__ void add_magnitudes(word& most) const {
    constexpr uint32_t lanes_of_word = sizeof(word) / Width;
    constexpr word field = ((word{1} << (8 * Width - 1)) - 1) << (8 * (sizeof(word) - Width));
#pragma unroll
    for (uint32_t i = 0; i < words; ++i)
#pragma unroll
      for (uint32_t k = 0; k < lanes_of_word; ++k) {
        const word x = at(i) << 8 * Width * k & field;
        most = x > most ? x : most;
      }
  }
  // Returns the exponent of what add_magnitudes found.
  __device__ static uint32_t exponent_of(word most, uint32_t exponent) {
    return static_cast<uint32_t>(most << 1 >> (8 * sizeof(word) - exponent));
  }
  __device__ void to_numbers(uint32_t exponent, bool zigzag, uint32_t top, word& any) {
#pragma unroll
    for (uint32_t i = 0; i < words; ++i) {
      const word y = lanes::number(at(i), exponent, zigzag, top);
      any |= y;
      set(i, y);
    }
  }
  __device__ void to_values(uint32_t exponent, bool zigzag, uint32_t top) {
#pragma unroll
    for (uint32_t i = 0; i < words; ++i) set(i, lanes::value(at(i), exponent, zigzag, top));
  }

  // Returns the symbols of these numbers, one per byte.
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
      uint32_t s, over;
      const uint32_t large = ~lanes::low(shift + symbol_bits < 8 * Width ? shift + symbol_bits : 8 * Width - 1);
      if constexpr (Width == 2) {
        over = (w[0] | w[1]) & large;
        s = device::byte_perm<0x6420>(w[0] >> shift, w[1] >> shift);
      } else {
        over = w[0] & large;
        s = w[0] >> shift;
      }
      if (shift + symbol_bits >= 8 * Width) over = 0;
      s &= 0x3f3f3f3f;
      if (over != 0) {
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k)
          if ((w[k * Width / 4] >> (8 * Width * k % 32) & large & low_mask(8 * Width)) != 0) s |= escape << 8 * k;
      }
      return s;
    }
  }
  // Returns byte b of these numbers.
  __device__ uint32_t bytes(uint32_t b) const {
    if constexpr (Width == 1) return w[0];
    if constexpr (Width == 2) return device::byte_perm(w[0], w[1], 0x6420 + 0x1111 * b);
    if constexpr (Width == 4) return gather(w[0], w[1], w[2], w[3], b);
    if constexpr (Width == 8)
      return b < 4 ? gather(w[0], w[2], w[4], w[6], b) : gather(w[1], w[3], w[5], w[7], b - 4);
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
  __device__ static number_group load(const std::byte* row, uint32_t g) {
    number_group x;
    const auto* const from = reinterpret_cast<const device::vec128*>(row) + g * vectors;
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

  // Writes byte b of the numbers to a plane of `words` words.
  __device__ void store_bytes(uint32_t* plane, uint32_t words, uint32_t g, uint32_t b) const {
#pragma unroll
    for (uint32_t i = 0; i < quads; ++i)
      if (g * quads + i < words) plane[g * quads + i] = at[i].bytes(b);
  }
  // Writes K bits of byte b of the numbers, from bit `from` on.
  template <uint32_t K>
  __device__ void store_bits(uint32_t* plane, uint32_t words, uint32_t g, uint32_t b, uint32_t from) const {
    uint32_t x[quads];
#pragma unroll
    for (uint32_t i = 0; i < quads; ++i) x[i] = squeeze<K>(at[i].bytes(b) >> from);
    using piece = std::conditional_t<K * values == 8, uint8_t, std::conditional_t<K * values == 16, uint16_t, uint32_t>>;
    constexpr uint32_t pieces = K * values / 8 / sizeof(piece), each = quads / pieces;
    static_assert(K * values >= 8);
#pragma unroll
    for (uint32_t j = 0; j < pieces; ++j) {
      uint32_t joined = 0;
#pragma unroll
      for (uint32_t i = 0; i < each; ++i) joined |= x[j * each + i] << 4 * K * i;
      if ((g * pieces + j) * sizeof(piece) < 4 * words)
        reinterpret_cast<piece*>(plane)[g * pieces + j] = static_cast<piece>(joined);
    }
  }
  // Returns these bits of quad i, one number per byte, from a plane.
  template <uint32_t K> __device__ static uint32_t load_bits(const uint32_t* plane, uint32_t g, uint32_t i) {
    using piece = std::conditional_t<4 * K * quads == 8 || K < 4, uint8_t, uint16_t>;
    if constexpr (K == 1) {
      const uint32_t q = g * quads + i;
      return widen<1>(reinterpret_cast<const uint8_t*>(plane)[q / 2] >> q % 2 * 4 & 15);
    } else {
      return widen<K>(reinterpret_cast<const piece*>(plane)[g * quads + i]);
    }
  }

 private:
  // Moves the lowest K bits of each byte together, and back.
  template <uint32_t K> __device__ static uint32_t squeeze(uint32_t x) {
    if constexpr (K == 4) {
      x &= 0x0f0f0f0f;
      x = (x | x >> 4) & 0x00ff00ff;
      return (x | x >> 8) & 0xffff;
    }
    if constexpr (K == 2) return (x & 0x03030303) * 0x01041040 >> 24;
    return ((x & 0x01010101) * 0x01020408 >> 24) & 15;
  }
  template <uint32_t K> __device__ static uint32_t widen(uint32_t x) {
    if constexpr (K == 4) {
      x = (x | x << 8) & 0x00ff00ff;
      return (x | x << 4) & 0x0f0f0f0f;
    }
    if constexpr (K == 2) {
      x = (x | x << 12) & 0x000f000f;
      return (x | x << 6) & 0x03030303;
    }
    return x * 0x00204081 & 0x01010101;
  }
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
