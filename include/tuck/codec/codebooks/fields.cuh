// SPDX-License-Identifier: Apache-2.0
// 16 bytes of floats as fields, on one thread: exponents, and rests of sign and mantissa.
#pragma once

#include <tuck/codec/codebooks/layout.hpp>
#include <tuck/codec/huffman/rests.cuh>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::codebooks_format {

// Values are in quads of four. Byte b of a word of a quad belongs to its value b.
template <floating_element T> struct fields {
  using shape = shape_of<T>;
  using quad = huffman_format::number_quad<shape::width>;
  using group = huffman_format::number_group<shape::width>;
  using lanes = typename quad::lanes;
  static constexpr uint32_t width = shape::width, quads = group::quads;
  static constexpr uint32_t whole = shape::rest / 8, partial = shape::rest % 8;  // bytes of a rest, and bits besides
  static constexpr uint32_t below = shape::mantissa % 8;  // bits of the mantissa in the byte of the exponent, or 7
  // If a rest is whole bytes, the exponent has 8 bits: 7 in the highest byte, the lowest atop the byte before.
  static_assert(partial != 0 || (width >= 2 && shape::exponent == 8));

  uint32_t exponent[quads];
  uint32_t rest[quads][whole + (partial != 0)];  // bytes of the rest, the lowest first

  __device__ void split(const device::vec128& x) {
    group g;
    g.set_vector(0, x);
#pragma unroll
    for (uint32_t q = 0; q < quads; ++q) {
      uint32_t byte[width];
      to_bytes(g.at[q].w, byte);
      const uint32_t high = byte[width - 1];
#pragma unroll
      for (uint32_t b = 0; b + 1 < width; ++b) rest[q][b] = byte[b];
      if constexpr (partial == 0) {
        const uint32_t next = byte[width - 2];
        exponent[q] = select_bits<uint32_t>(0xfefefefe, high << 1, next >> 7);
        rest[q][whole - 1] = select_bits<uint32_t>(0x7f7f7f7f, next, high);
      } else {
        constexpr uint32_t low = low_mask(below) * 0x01010101, all = low_mask(below + 1) * 0x01010101;
        exponent[q] = high >> below & low_mask(shape::exponent) * 0x01010101;
        rest[q][whole] = select_bits<uint32_t>(low, high, high >> (7 - below)) & all;
      }
    }
  }
  // Adds the bits that any value has, and values whose exponents are the largest, for any_of and most_of.
  __device__ void add_to(const device::vec128& x, uint32_t& any, uint32_t& most) const {
    any = device::or3(any, x.w[0], x.w[1]);
    any = device::or3(any, x.w[2], x.w[3]);
    if constexpr (width == 4) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) most = most > x.w[i] << 1 ? most : x.w[i] << 1;
    } else {
#pragma unroll
      for (uint32_t q = 0; q < quads; ++q)
        most = device::most_unsigned_pair(device::most_unsigned_pair(most, exponent[q]), exponent[q] << 8);
    }
  }
  // Return of a thread's `any` the bits of a mantissa, and of its `most` what is to be compared with other threads'.
  __device__ static uint32_t any_of(uint32_t any) {
    if constexpr (width < 4) any |= any >> 16;
    if constexpr (width < 2) any |= any >> 8;
    return any & low_mask(shape::mantissa);
  }
  __device__ static uint32_t most_of(uint32_t most) {
    if constexpr (width == 4) return most >> 24;
    return (most > most << 16 ? most : most << 16) >> 24;
  }

  // Writes the rests of group g to planes of values, of whose bytes each has plane_words words.
  __device__ void store(uint32_t* planes, uint32_t plane_words, uint32_t g,
                        const huffman_format::rest_planes<width, uint32_t>& all) const {
#pragma unroll
    for (uint32_t b = 0; b != whole; ++b)
#pragma unroll
      for (uint32_t q = 0; q < quads; ++q)
        if (g * quads + q < plane_words) planes[b * plane_words + g * quads + q] = rest[q][b];
    if constexpr (partial != 0) {
      uint32_t part[quads];
#pragma unroll
      for (uint32_t q = 0; q < quads; ++q) part[q] = rest[q][whole];
      all.store_partial(part, g);
    }
  }
  // Reads them, of whole groups. `planes` is at a multiple of 8, and plane_words is even.
  __device__ void load(const uint32_t* planes, uint32_t plane_words, uint32_t g) {
#pragma unroll
    for (uint32_t b = 0; b != whole; ++b) {
      const uint32_t* const from = planes + b * plane_words + g * quads;
      if constexpr (quads == 2) {
        const uint2 two = *reinterpret_cast<const uint2*>(from);
        rest[0][b] = two.x;
        rest[1][b] = two.y;
      } else {
#pragma unroll
        for (uint32_t q = 0; q < quads; ++q) rest[q][b] = from[q];
      }
    }
    if constexpr (partial != 0) {
      const huffman_format::rest_planes<width, const uint32_t> all(shape::planes(4 * plane_words, shape::rest),
                                                                   shape::rest, planes);
      uint32_t part[quads];
      all.load_partial(part, g);
#pragma unroll
      for (uint32_t q = 0; q < quads; ++q) rest[q][whole] = part[q];
    }
  }

  __device__ device::vec128 join() const {
    group g;
#pragma unroll
    for (uint32_t q = 0; q < quads; ++q) {
      uint32_t byte[width];
#pragma unroll
      for (uint32_t b = 0; b + 1 < width; ++b) byte[b] = rest[q][b];
      if constexpr (partial == 0) {
        const uint32_t upper = rest[q][whole - 1];
        byte[width - 1] = select_bits<uint32_t>(0x7f7f7f7f, exponent[q] >> 1, upper);
        byte[width - 2] = select_bits<uint32_t>(0x80808080, exponent[q] << 7, upper);
      } else {
        constexpr uint32_t low = low_mask(below) * 0x01010101;
        const uint32_t part = rest[q][whole];
        byte[width - 1] = (exponent[q] << below | (part & low)) | (part << (7 - below) & 0x80808080);
      }
      from_bytes(byte, g.at[q].w);
    }
    return g.vector(0);
  }

  // Adds exponents to rests without their lowest `zeros` bits.
  __device__ static void set_values(quad& x, uint32_t exponents, uint32_t zeros) {
    quad e;
    e.set_bytes(exponents);
#pragma unroll
    for (uint32_t i = 0; i < quad::words; ++i) {
      const auto y = lanes::up(x.at(i), zeros);
      x.set(i, (y & lanes::low(shape::mantissa)) | (y >> shape::mantissa & lanes::low(1)) << (8 * width - 1) |
                   e.at(i) << shape::mantissa);
    }
  }

 private:
  // Byte b of value i becomes byte i of word b.
  __device__ static void to_bytes(const uint32_t (&w)[width], uint32_t (&byte)[width]) {
    if constexpr (width == 1) byte[0] = w[0];
    if constexpr (width == 2) {
      byte[0] = device::byte_perm<0x6420>(w[0], w[1]);
      byte[1] = device::byte_perm<0x7531>(w[0], w[1]);
    }
    if constexpr (width == 4) transpose(w, byte);
  }
  __device__ static void from_bytes(const uint32_t (&byte)[width], uint32_t (&w)[width]) {
    if constexpr (width == 1) w[0] = byte[0];
    if constexpr (width == 2) {
      w[0] = device::byte_perm<0x5140>(byte[0], byte[1]);
      w[1] = device::byte_perm<0x7362>(byte[0], byte[1]);
    }
    if constexpr (width == 4) transpose(byte, w);
  }
  __device__ static void transpose(const uint32_t (&x)[width], uint32_t (&y)[width]) {
    const uint32_t a = device::byte_perm<0x5140>(x[0], x[1]), b = device::byte_perm<0x5140>(x[2], x[3]);
    const uint32_t c = device::byte_perm<0x7362>(x[0], x[1]), d = device::byte_perm<0x7362>(x[2], x[3]);
    y[0] = device::byte_perm<0x5410>(a, b);
    y[1] = device::byte_perm<0x7632>(a, b);
    y[2] = device::byte_perm<0x5410>(c, d);
    y[3] = device::byte_perm<0x7632>(c, d);
  }
};

}  // namespace tuck::inline TUCK_ABI::codebooks_format
