// The parts of a chunk on one thread block: conversion of values to planes and of side streams to edges, and back, and
// the heads of upper bytes. layout.hpp describes the parts.
#pragma once

#include <tuck/codec/block_tile.cuh>
#include <tuck/codec/huffman/layout.hpp>
#include <tuck/core/bit_lanes.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// Transposes the bytes of four words: byte j of word i becomes byte i of word j.
__device__ __forceinline__ void transpose_bytes(uint32_t (&w)[4]) {
  const uint32_t a = device::byte_perm<0x5140>(w[0], w[1]), b = device::byte_perm<0x5140>(w[2], w[3]);
  const uint32_t c = device::byte_perm<0x7362>(w[0], w[1]), d = device::byte_perm<0x7362>(w[2], w[3]);
  w[0] = device::byte_perm<0x5410>(a, b);
  w[1] = device::byte_perm<0x7632>(a, b);
  w[2] = device::byte_perm<0x5410>(c, d);
  w[3] = device::byte_perm<0x7632>(c, d);
}

// Rotates each value right by n bits, 0 <= n <= 8 * Width.
template <uint32_t Width> __device__ __forceinline__ void rotate_right(uint32_t (&w)[Width], uint32_t n) {
  constexpr uint32_t bits = 8 * Width;
  if (Width == 1 && n % bits == 0) return;  // known at compile time
#pragma unroll
  for (uint32_t i = 0; i < Width; i += Width == 8 ? 2 : 1) {
    if constexpr (Width == 8) {
      const uint64_t x = device::join_words(w[i], w[i + 1]);
      device::split_words(x >> n % 64 | x << (64 - n) % 64, w[i], w[i + 1]);
    } else if constexpr (Width == 4) {
      w[i] = device::funnel_shift_right(w[i], w[i], n);
    } else {
      const uint32_t kept = (low_mask(bits) >> n) * (Width == 1 ? 0x01010101 : 0x00010001);
      w[i] = select_bits<uint32_t>(kept, w[i] >> n, w[i] << (bits - n));
    }
  }
}

// Four values of Width bytes: values 4 q to 4 q + 3 of a row, which begins at a multiple of 16.
template <uint32_t Width> struct alignas(Width < 4 ? 4 * Width : 16) quad {
  uint32_t w[Width];  // the values, or one word of each plane, lowest plane first

  __device__ static quad load(const std::byte* row, uint32_t q) { return reinterpret_cast<const quad*>(row)[q]; }
  // Returns value k.
  __device__ auto value(uint32_t k) const {
    if constexpr (Width == 8)
      return device::join_words(w[2 * k], w[2 * k + 1]);
    else
      return static_cast<typename uint_of_size<Width>::type>(w[k * Width / 4] >> (8 * Width * k % 32));
  }

  // Rotates values left by `rotation` bits (0, 1, or those of whole bytes) and converts them to words of planes.
  __device__ void to_planes(uint32_t rotation) {
    if constexpr (Width == 2) {
      const bool rotates = rotation == 1;
      const uint32_t signs = device::byte_signs<0x7531>(w[0], w[1]);
      const uint32_t a = w[0] << (rotates ? 1 : 0), b = w[1] << (rotates ? 1 : 0);
      w[0] = select_bits<uint32_t>(rotates ? 0x01010101 : 0, signs, device::byte_perm<0x6420>(a, b));
      w[1] = device::byte_perm(a, b, rotation < 8 ? 0x7531 : 0x6420);  // 0x6420: the lower plane is dropped, so wrong
    } else {
      rotate_right(w, 8 * Width - rotation);
      transpose<false>();
    }
  }
  // Undoes to_planes.
  __device__ void from_planes(uint32_t rotation) {
    if constexpr (Width == 2) {
      const uint32_t low = device::byte_perm<0x5140>(w[0], w[1]);
      w[1] = device::byte_perm<0x7362>(w[0], w[1]);
      w[0] = low;
    } else {
      transpose<true>();
    }
    rotate_right(w, rotation);
  }

 private:
  template <bool Back> __device__ void transpose() {
    if constexpr (Width == 4) transpose_bytes(w);
    if constexpr (Width == 8) {  // the lower words of the values make the lower planes
      uint32_t half[2][4];
#pragma unroll
      for (uint32_t k = 0; k < 8; ++k) half[Back ? k / 4 : k % 2][Back ? k % 4 : k / 2] = w[k];
      transpose_bytes(half[0]);
      transpose_bytes(half[1]);
#pragma unroll
      for (uint32_t k = 0; k < 8; ++k) w[k] = half[Back ? k % 2 : k / 4][Back ? k / 2 : k % 4];
    }
  }
};
// 16 bytes of values as quads, or 32 bytes of values of 8 bytes.
template <uint32_t Width> struct quad_row {
  static constexpr uint32_t quads = Width < 4 ? 4 / Width : 1, vectors = Width < 8 ? 1 : 2;
  quad<Width> at[quads];

  // Converts values to words of planes.
  __device__ void set(uint32_t rotation, const device::vec128* x) {
#pragma unroll
    for (uint32_t q = 0; q < quads; ++q) {
#pragma unroll
      for (uint32_t k = 0; k < Width; ++k) at[q].w[k] = x[(Width * q + k) / 4].w[(Width * q + k) % 4];
      at[q].to_planes(rotation);
    }
  }
  // Converts words of planes to values.
  __device__ void get(uint32_t rotation, device::vec128* x) {
#pragma unroll
    for (uint32_t q = 0; q < quads; ++q) {
      at[q].from_planes(rotation);
#pragma unroll
      for (uint32_t k = 0; k < Width; ++k) x[(Width * q + k) / 4].w[(Width * q + k) % 4] = at[q].w[k];
    }
  }
};

// Returns the bits that any of eight neighbouring lanes has.
__device__ inline uint32_t or_of_eight(uint32_t x) {
#pragma unroll
  for (int lanes = 1; lanes < 8; lanes *= 2) x |= device::shfl_xor(x, lanes);
  return x;
}
// Stores a nibble for each word i of a string; a warp has consecutive words. `has`: there is such a word.
__device__ inline void store_nibbles(uint32_t* to, uint32_t i, uint32_t nibble, bool has) {
  const uint32_t word = or_of_eight(nibble << 4 * (device::lane_id() % 8));
  if (device::lane_id() % 8 == 0 && has) to[i / 8] = word;
}

// Writes the bytes of each lane's word that its nibble selects to `to`, lane after lane, and calls each(byte) for them.
// Returns their number.
template <class Each> __device__ uint32_t append_bytes(uint8_t* to, uint32_t word, uint32_t nibble, const Each& each) {
  const uint32_t mine = popcount(nibble), up_to = device::warp_inclusive_sum(mine);
  uint32_t at = up_to - mine;
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k)
    if ((nibble >> k & 1) != 0) {
      const uint32_t byte = word >> 8 * k & 255;
      to[at++] = static_cast<uint8_t>(byte);
      each(byte);
    }
  return device::shfl(up_to, device::warp_size - 1);
}

// Replaces side streams of `bytes` bytes by edges, which have no more bytes, and writes the flags. One warp calls it.
// Returns the bytes of edges.
__device__ inline uint32_t sides_to_edges(uint32_t* sides, uint32_t bytes, uint32_t* flags) {
  const uint32_t lane = device::lane_id(), words = bytes / 4;
  auto* const edges = reinterpret_cast<uint8_t*>(sides);
  uint32_t found = 0, carry = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < words; first += device::warp_size) {
    const uint32_t i = first + lane;
    const uint32_t mask = i < words ? sides[i] : 0;
    uint32_t before = device::shfl_up(mask, 1);
    if (lane == 0) before = carry;
    const uint32_t edge = i < words ? mask ^ (mask << 1 | before >> 31) : 0;
    carry = device::shfl(mask, device::warp_size - 1);
    const uint32_t nibble = non_zero_nibble(edge);
    device::sync_warp();  // these words have been read
    found += append_bytes(edges + found, edge, nibble, [](uint32_t) {});
    store_nibbles(flags, i, nibble, i < words);
  }
  if (lane < (0 - found) % 4) edges[found + lane] = 0;
  device::sync_warp();
  return found;
}

// Restores the side streams. `edges` may end a word behind them. One warp calls it. Returns false if the flags do not match `found`, the number of edge
// bytes.
__device__ inline bool edges_to_sides(const uint32_t* flags, const std::byte* edges, uint32_t found, uint32_t bytes,
                                      uint32_t* sides) {
  const uint32_t lane = device::lane_id(), words = bytes / 4;
  uint32_t used = 0, carry = 0;
  const uint32_t tail = words % 8 * 4;  // flags in the last word; bytes behind them are padding
  bool sound = tail == 0 || (flags[words / 8] & low_mask((tail + 7) / 8 * 8)) >> tail == 0;
#pragma unroll 1
  for (uint32_t first = 0; first < words; first += device::warp_size) {
    const uint32_t i = first + lane;
    const uint32_t nibble = i < words ? flags[i / 8] >> i % 8 * 4 & 15 : 0;
    const auto mine = popcount(nibble);
    const uint32_t up_to = device::warp_inclusive_sum(mine);
    uint32_t from = used + up_to - mine, x = 0;
    used += device::shfl(up_to, device::warp_size - 1);
    sound &= used <= found;
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k)
      if ((nibble >> k & 1) != 0 && from < found) x |= static_cast<uint32_t>(edges[from++]) << 8 * k;
#pragma unroll
    for (uint32_t shift = 1; shift < 32; shift *= 2) x ^= x << shift;
    device::sync_warp();  // these edges have been read
    const uint32_t odd = device::ballot(x >> 31 != 0);
    if ((popcount(odd & ((1u << lane) - 1)) + carry) % 2 != 0) x = ~x;
    carry = (carry + popcount(odd)) % 2;
    if (i < words) sides[i] = x;
  }
  return device::all(sound) && used == found;
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
