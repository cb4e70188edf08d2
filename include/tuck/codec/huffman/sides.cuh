// Side streams on one thread block: conversion to marks, and back. layout.hpp describes both.
#pragma once

#include <tuck/codec/huffman/layout.hpp>
#include <tuck/core/bits.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// A thread has two words at a time, whose flags are a byte.
template <int Threads> struct block_sides {
  using scan = device::block_scan<Threads>;
  struct TempStorage {
    typename scan::TempStorage scan_storage;
    uint32_t set, changes;  // both 0 before to_marks
  };

  // Replaces side streams of `bytes` bytes by marks, which have no more bytes, and writes the flags. Returns head[1]:
  // the bytes of marks and their rule. Has barriers.
  __device__ static uint32_t to_marks(TempStorage& temp, uint32_t* sides, uint32_t bytes, uint32_t* flags) {
    const uint32_t words = bytes / 4;
    if (words == 0) return 0;
    const uint32_t rule = find_rule(temp, sides, words);
    auto* const marks = reinterpret_cast<uint8_t*>(sides);
    uint32_t found = 0, before_all = 0;  // the latter: the word before the first
#pragma unroll 1
    for (uint32_t first = 0; first < words; first += 2 * Threads) {
      const uint32_t i = first + 2 * threadIdx.x, next = first + 2 * Threads;
      const uint32_t last = next < words ? sides[next - 1] : 0;
      const uint32_t before = threadIdx.x == 0 ? before_all : i < words ? sides[i - 1] : 0;
      uint32_t mark[2] = {i < words ? sides[i] : 0, i + 1 < words ? sides[i + 1] : 0};
      if (i + 1 < words) mark[1] = mark_of(mark[1], mark[0], rule);
      if (i < words) mark[0] = mark_of(mark[0], before, rule);
      const uint32_t flag = non_zero_nibble(mark[0]) | non_zero_nibble(mark[1]) << 4;
      if (first != 0) device::sync_block();  // for the scan
      uint32_t total, at = found + scan::template exclusive_sum<uint32_t>(temp.scan_storage, popcount(flag), total);
#pragma unroll
      for (uint32_t k = 0; k < 8; ++k)  // all threads have read their words
        if ((flag >> k & 1) != 0) marks[at++] = static_cast<uint8_t>(mark[k / 4] >> 8 * (k % 4));
      if (i < words) reinterpret_cast<uint8_t*>(flags)[i / 2] = static_cast<uint8_t>(flag);
      found += total;
      before_all = last;
    }
    if (threadIdx.x < (0 - found) % 4) marks[found + threadIdx.x] = 0;
    if (threadIdx.x < (0 - (words + 1) / 2) % 4) reinterpret_cast<uint8_t*>(flags)[(words + 1) / 2 + threadIdx.x] = 0;
    return found | rule << 15;
  }

  // Restores the side streams from `found` bytes of marks, which may end a word behind them. Returns false if the flags
  // do not match these. Has barriers.
  __device__ static bool from_marks(typename scan::TempStorage& temp, const uint32_t* flags, const std::byte* marks,
                                    uint32_t found, uint32_t bytes, uint32_t rule, uint32_t* sides) {
    const uint32_t words = bytes / 4;
    const bool sound = words % 2 == 0 || static_cast<uint32_t>(reinterpret_cast<const uint8_t*>(flags)[words / 2]) < 16;
    uint32_t used = 0, carry = 0;
#pragma unroll 1
    for (uint32_t first = 0; first < words; first += 2 * Threads) {
      const uint32_t i = first + 2 * threadIdx.x;
      const uint32_t flag = i < words ? reinterpret_cast<const uint8_t*>(flags)[i / 2] : 0;
      if (first != 0) device::sync_block();  // for the scan
      uint32_t total, x[2] = {};
      uint32_t from = used + scan::template exclusive_sum<uint32_t>(temp, popcount(flag), total);
#pragma unroll
      for (uint32_t k = 0; k < 8; ++k)
        if ((flag >> k & 1) != 0 && from < found) x[k / 4] |= static_cast<uint32_t>(marks[from++]) << 8 * (k % 4);
      used += total;
      device::sync_block();  // all threads have read their marks and used the scan
      uint32_t flips = rule == inverted;
      if (rule == differences) {
#pragma unroll
        for (uint32_t k = 0; k < 2; ++k)
#pragma unroll
          for (uint32_t shift = 1; shift < 32; shift *= 2) x[k] ^= x[k] << shift;
        x[1] ^= 0 - (x[0] >> 31);
        uint32_t odd;
        flips = carry + scan::template exclusive_sum<uint32_t>(temp, x[1] >> 31, odd);
        carry += odd;
      }
#pragma unroll
      for (uint32_t k = 0; k < 2; ++k)
        if (i + k < words) sides[i + k] = x[k] ^ (0 - flips % 2);
    }
    return sound && used == found;
  }

 private:
  __device__ static uint32_t mark_of(uint32_t x, uint32_t before, uint32_t rule) {
    return rule == differences ? x ^ (x << 1 | before >> 31) : rule == inverted ? ~x : x;
  }
  // Returns the best rule for the side streams. Has a barrier.
  __device__ static uint32_t find_rule(TempStorage& temp, const uint32_t* sides, uint32_t words) {
    uint32_t set = 0, changes = 0;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < words; i += Threads) {
      const uint32_t x = sides[i];
      set += popcount(x);
      changes += popcount(mark_of(x, i == 0 ? 0 : sides[i - 1], differences));
    }
    set = device::warp_sum(set);
    changes = device::warp_sum(changes);
    if (device::lane_id() == 0) {
      device::atomic_add(&temp.set, set);
      device::atomic_add(&temp.changes, changes);
    }
    device::sync_block();
    return best_rule(temp.set, 32 * words - temp.set, temp.changes);
  }
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
