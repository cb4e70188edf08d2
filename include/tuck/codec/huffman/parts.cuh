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

// Four values of Width bytes: values 4 q to 4 q + 3 of a row.
template <uint32_t Width> struct quad {
  uint32_t w[Width];  // the values, or one word of each plane, lowest plane first

  __device__ static quad load(const std::byte* row, uint32_t q) {
    quad x;
    const auto* const from = reinterpret_cast<const uint32_t*>(row + 4 * Width * q);
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
  // Returns value k.
  __device__ auto value(uint32_t k) const {
    if constexpr (Width == 8)
      return device::join_words(w[2 * k], w[2 * k + 1]);
    else
      return static_cast<typename uint_of_size<Width>::type>(w[k * Width / 4] >> (8 * Width * k % 32));
  }
  // Sets all bits that are set in `other`.
  __device__ void merge(const quad& other) {
#pragma unroll
    for (uint32_t i = 0; i < Width; ++i) w[i] |= other.w[i];
  }

  // raise() and lower() shift each value left and right by `bytes` < Width bytes.
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

  // The same as raise() or rotate_values(), then to_planes(). If `dropped` is 1, only the upper plane is correct.
  __device__ void to_planes_of_two(bool rotated, uint32_t dropped) {
    static_assert(Width == 2);
    const uint32_t signs = device::byte_signs<0x7531>(w[0], w[1]);
    const uint32_t a = w[0] << (rotated ? 1 : 0), b = w[1] << (rotated ? 1 : 0);
    w[0] = device::select_bits(rotated ? 0x01010101 : 0, signs, device::byte_perm<0x6420>(a, b));
    w[1] = device::byte_perm(a, b, dropped == 0 ? 0x7531 : 0x6420);
  }
  // to_planes() converts values to words of planes, and from_planes() converts them back.
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

// squeeze() packs bits 1 to 7 of four bytes into 28 bits. widen() is the inverse.
__device__ __forceinline__ uint32_t squeeze(uint32_t x) {
  return (x >> 1 & 0x7f) | (x >> 2 & 0x7f << 7) | (x >> 3 & 0x7f << 14) | (x >> 4 & 0x7f << 21);
}
__device__ __forceinline__ uint32_t widen(uint32_t x) {
  return (x & 0x7f) << 1 | (x & 0x7f << 7) << 2 | (x & 0x7f << 14) << 3 | (x & 0x7f << 21) << 4;
}

// Constants and types of encoder and decoder.
template <element T, int Threads> struct block_sizes {
  static constexpr uint32_t width = sizeof(T);
  static constexpr uint32_t most_values = tile_bytes / width;
  static constexpr uint32_t warps = Threads / device::warp_size;
  static constexpr uint32_t byte_parts = width < 5 ? width : 5;  // planes that may be coded
  static constexpr uint32_t coded_parts = upper_part + byte_parts;
  static constexpr bool may_have_heads = width > 1;
  using scan = device::block_scan<Threads>;
  using four = quad<width>;
  static_assert(coded_parts <= most_coded);
  static_assert(Threads >= 128 && Threads <= 1024, "tuck: huffman wants blocks of 128 to 1024 threads");
};

// Returns the offset of word i of the side streams in the row, in bytes. Sets `bytes` to the number of its bytes that
// are not padding. Side streams follow the values in order, at multiples of 16.
__device__ inline uint32_t place_of(const row_sections& sections, uint32_t i, uint32_t& bytes) {
  i *= 4;
  for (uint32_t s = 1; s < sections.list.count; ++s) {
    const uint32_t size = sections.list.size(s), padded = round_up_pow2(size, 2);
    if (i < padded) {
      bytes = size - i < 4 ? size - i : 4;
      return sections.at[s] + i;
    }
    i -= padded;
  }
  bytes = 0;
  return 0;
}
// Returns the offset of the first side stream in the row. Edges overwrite side streams from there, because they have no
// more bytes.
__device__ inline uint32_t edges_begin(const row_sections& sections) {
  return sections.list.count > 1 ? sections.at[1] : 0;
}

// Replaces the side streams in the row by edges, and writes the flags. One warp calls it. Returns the bytes of edges.
__device__ inline uint32_t sides_to_edges(std::byte* row, const row_sections& sections, uint32_t bytes,
                                          uint32_t* flags) {
  const uint32_t lane = device::lane_id(), words = bytes / 4;
  auto* const edges = row + edges_begin(sections);
  uint32_t found = 0, carry = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < words; first += device::warp_size) {
    const uint32_t i = first + lane;
    uint32_t mask = 0, filled = 0;
    if (i < words) {
      const uint32_t at = place_of(sections, i, filled);
      mask = *reinterpret_cast<const uint32_t*>(row + at) & low_mask(8 * filled);
    }
    uint32_t before = device::shfl_up(mask, 1);
    if (lane == 0) before = carry;
    const uint32_t edge = i < words ? mask ^ (mask << 1 | before >> 31) : 0;
    carry = device::shfl(mask, device::warp_size - 1);
    const uint32_t nibble = non_zero_nibble(edge);
    const uint32_t mine = popcount(nibble), up_to = device::warp_inclusive_sum(mine);
    device::sync_warp();  // these words have been read
    uint32_t to = found + up_to - mine;
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k)
      if ((nibble >> k & 1) != 0) edges[to++] = static_cast<std::byte>(edge >> 8 * k);
    found += device::shfl(up_to, device::warp_size - 1);
    uint32_t of_eight = nibble << 4 * (lane % 8);
#pragma unroll
    for (int lanes = 1; lanes < 8; lanes *= 2) of_eight |= device::shfl_xor(of_eight, lanes);
    if (lane % 8 == 0 && i < words) flags[i / 8] = of_eight;
  }
  if (lane < (0 - found) % 4) edges[found + lane] = std::byte{};
  device::sync_warp();
  return found;
}

// Restores the side streams. One warp calls it. Returns false if the flags do not match `found`, the number of edge
// bytes.
__device__ inline bool edges_to_sides(const uint32_t* flags, const std::byte* edges, uint32_t found,
                                      const row_sections& sections, uint32_t bytes, std::byte* row) {
  const uint32_t lane = device::lane_id(), words = bytes / 4;
  uint32_t used = 0, carry = 0;
  bool sound = words % 8 == 0 || (flags[words / 8] >> words % 8 * 4) == 0;
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
    const uint32_t odd = device::ballot(x >> 31 != 0);
    if ((popcount(odd & ((1u << lane) - 1)) + carry) % 2 != 0) x = ~x;
    carry = (carry + popcount(odd)) % 2;
    if (i < words) {
      uint32_t filled;
      const uint32_t at = place_of(sections, i, filled);
      *reinterpret_cast<uint32_t*>(row + at) = x;
    }
  }
  return device::all(sound) && used == found;
}

// Finds the heads among the upper bytes that this warp has. own[r] of a lane has four bytes, from value
// 4 (first + 32 r) on. `carry` is the byte before the warp's first byte, or 256 if there is none. Returns the number of
// heads.
template <uint32_t Rounds>
__device__ uint32_t find_heads(uint32_t values, uint32_t first, const uint32_t (&own)[Rounds], uint32_t carry,
                               uint32_t* heads) {
  const uint32_t lane = device::lane_id();
  uint32_t found = 0;
#pragma unroll
  for (uint32_t r = 0; r < Rounds; ++r) {
    const uint32_t q = first + r * device::warp_size;
    if (4 * (q - lane) >= values) break;
    uint32_t before = device::shfl_up(own[r], 1) >> 24;
    if (lane == 0) before = carry;
    uint32_t nibble = non_zero_nibble(own[r] ^ (own[r] << 8 | (before & 255)));
    if (before == 256) nibble |= 1;
    const uint32_t left = 4 * q < values ? values - 4 * q : 0;
    if (left < 4) nibble &= low_mask(left);
    carry = device::shfl(own[r], device::warp_size - 1) >> 24;
    uint32_t of_eight = nibble << 4 * (lane % 8);
#pragma unroll
    for (int lanes = 1; lanes < 8; lanes *= 2) of_eight |= device::shfl_xor(of_eight, lanes);
    if (lane % 8 == 0 && left != 0) heads[q / 8] = of_eight;
    found += popcount(nibble);
  }
  return device::warp_sum(found);
}
// Writes the bytes of the same values that are heads to `to`, from index `before` on, and counts them in `counts`.
template <uint32_t Rounds>
__device__ void keep_heads(uint32_t values, uint32_t first, const uint32_t (&own)[Rounds], uint32_t before,
                           const uint32_t* heads, uint32_t* to, uint32_t* counts) {
  const uint32_t lane = device::lane_id();
  auto* const kept = reinterpret_cast<uint8_t*>(to);
  const device::shared_words count(counts);
#pragma unroll
  for (uint32_t r = 0; r < Rounds; ++r) {
    const uint32_t q = first + r * device::warp_size;
    if (4 * (q - lane) >= values) break;
    const uint32_t nibble = 4 * q < values ? heads[q / 8] >> q % 8 * 4 & 15 : 0;
    const auto mine = popcount(nibble);
    const uint32_t up_to = device::warp_inclusive_sum(mine);
    uint32_t at = before + up_to - mine;
    before += device::shfl(up_to, device::warp_size - 1);
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k)
      if ((nibble >> k & 1) != 0) {
        const uint32_t x = own[r] >> 8 * k & 255;
        kept[at++] = static_cast<uint8_t>(x);
        count.count<0, 8>(x);
      }
  }
}

// The range of words of heads that a warp has.
template <int Threads> struct head_range {
  uint32_t begin, end;
  __device__ explicit head_range(uint32_t values) {
    constexpr uint32_t warps = Threads / device::warp_size;
    const uint32_t words = (values + 31) / 32, each = (words + warps - 1) / warps;
    begin = device::warp_id() * each;
    end = begin + each < words ? begin + each : words;
  }
};

// Calls visit(index, rank, is_head) for this warp's values. The rank is the number of heads up to and including the
// value. `before` is the number of heads before the warp's values.
template <int Threads, class Visit>
__device__ void visit_heads(uint32_t values, const uint32_t* heads, uint32_t before, const Visit& visit) {
  const head_range<Threads> mine(values);
  const uint32_t lane = device::lane_id();
#pragma unroll 1
  for (uint32_t h = mine.begin; h < mine.end; ++h) {
    const uint32_t word = heads[h], i = 32 * h + lane;
    const uint32_t rank = before + popcount(word << (31 - lane));
    if (i < values) visit(i, rank, (word >> lane & 1) != 0);
    before += popcount(word);
  }
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
