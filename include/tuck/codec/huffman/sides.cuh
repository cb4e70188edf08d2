// Side streams on one thread block: conversion to edges, and back. layout.hpp describes both.
#pragma once

#include <tuck/codec/huffman/layout.hpp>
#include <tuck/core/bits.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

template <int Threads> struct block_sides {
  using scan = device::block_scan<Threads>;

  // Replaces side streams of `bytes` bytes by edges, which have no more bytes, and writes the flags. Returns the bytes
  // of edges. Has barriers.
  __device__ static uint32_t to_edges(typename scan::TempStorage& temp, uint32_t* sides, uint32_t bytes,
                                      uint32_t* flags) {
    const uint32_t words = bytes / 4;
    auto* const edges = reinterpret_cast<uint8_t*>(sides);
    uint32_t found = 0, before_all = 0;  // the latter: the word before the first
#pragma unroll 1
    for (uint32_t first = 0; first < words; first += Threads) {
      const uint32_t i = first + threadIdx.x;
      const uint32_t mask = i < words ? sides[i] : 0, last = first + Threads < words ? sides[first + Threads - 1] : 0;
      const uint32_t before = threadIdx.x == 0 ? before_all : i < words ? sides[i - 1] : 0;
      const uint32_t edge = i < words ? mask ^ (mask << 1 | before >> 31) : 0, nibble = non_zero_nibble(edge);
      if (first != 0) device::sync_block();  // for the scan
      uint32_t total, at = found + scan::template exclusive_sum<uint32_t>(temp, popcount(nibble), total);
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k)  // all threads have read their words
        if ((nibble >> k & 1) != 0) edges[at++] = static_cast<uint8_t>(edge >> 8 * k);
      const uint32_t word = or_of_eight(nibble << 4 * (device::lane_id() % 8));
      if (device::lane_id() % 8 == 0 && i < words) flags[i / 8] = word;
      found += total;
      before_all = last;
    }
    if (threadIdx.x < (0 - found) % 4) edges[found + threadIdx.x] = 0;
    return found;
  }

  // Restores the side streams from `found` bytes of edges, which may end a word behind them. Returns false if the flags
  // do not match these. Has barriers.
  __device__ static bool from_edges(typename scan::TempStorage& temp, const uint32_t* flags, const std::byte* edges,
                                    uint32_t found, uint32_t bytes, uint32_t* sides) {
    const uint32_t words = bytes / 4, tail = words % 8 * 4;  // flags in the last word; bytes behind them are padding
    const bool sound = tail == 0 || (flags[words / 8] & low_mask((tail + 7) / 8 * 8)) >> tail == 0;
    uint32_t used = 0, carry = 0;
#pragma unroll 1
    for (uint32_t first = 0; first < words; first += Threads) {
      const uint32_t i = first + threadIdx.x;
      const uint32_t nibble = i < words ? flags[i / 8] >> i % 8 * 4 & 15 : 0;
      if (first != 0) device::sync_block();  // for the scan
      uint32_t total, odd;
      uint32_t from = used + scan::template exclusive_sum<uint32_t>(temp, popcount(nibble), total), x = 0;
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k)
        if ((nibble >> k & 1) != 0 && from < found) x |= static_cast<uint32_t>(edges[from++]) << 8 * k;
#pragma unroll
      for (uint32_t shift = 1; shift < 32; shift *= 2) x ^= x << shift;
      used += total;
      device::sync_block();  // for the scan
      const uint32_t before = scan::template exclusive_sum<uint32_t>(temp, x >> 31, odd);
      if (i < words) sides[i] = (before + carry) % 2 != 0 ? ~x : x;  // all threads have read their edges
      carry += odd;
    }
    return sound && used == found;
  }

 private:
  // Returns the bits that any of eight neighbouring lanes has.
  __device__ static uint32_t or_of_eight(uint32_t x) {
#pragma unroll
    for (int lanes = 1; lanes < 8; lanes *= 2) x |= device::shfl_xor(x, lanes);
    return x;
  }
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
