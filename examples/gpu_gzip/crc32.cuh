// CRC-32 on the device: one block a piece.
//
// Thread t of T takes the words t, t + T, t + 2T ... and multiplies what it has by x^(32T) before it adds the next:
// four look-ups in tables that the block makes. Words are counted as if zeros before the piece made them a multiple of
// T, for zeros in front leave a remainder as it is. Shuffles fold what the threads have.
#pragma once

#include "crc32.hpp"

#include <tuck/core/device.cuh>

namespace gpu_gzip {

template <int Threads> struct block_crc32 {
  static constexpr int warps = Threads / tuck::device::warp_size;
  static_assert(warps * tuck::device::warp_size == Threads && warps <= tuck::device::warp_size);

  struct TempStorage {
    uint32_t table[4][256];  // by byte of a remainder: what it is times x^(32 Threads)
    uint32_t of_warp[warps];
  };

  // The CRC-32 of `data`, which begins at a multiple of 4 bytes and which the kernel has not written. All threads call
  // it, and the first one gets it.
  __device__ static uint32_t run(TempStorage& temp, tuck::const_bytes data) {
    make_table(temp);
    tuck::device::sync_block();
    const auto words = static_cast<uint32_t>(data.size() / 4);
    const auto* const word = reinterpret_cast<const uint32_t*>(data.data());
    uint32_t remainder = 0;
    for (uint32_t i = (threadIdx.x + words) % Threads; i < words; i += Threads)
      remainder = times_stride(temp, remainder) ^ tuck::device::load(word + i) ^ (i == 0 ? ~0u : 0);
    remainder = fold_block(temp, remainder);
    if (threadIdx.x != 0) return 0;
    if (words == 0) remainder = ~0u;
    for (uint64_t i = uint64_t{words} * 4; i < data.size(); ++i)
      remainder = crc32_add_byte(remainder, static_cast<uint32_t>(data[i]));
    return ~remainder;
  }

 private:
  __device__ static void make_table(TempStorage& temp) {
    constexpr uint32_t stride = crc32_shift(4 * Threads);
    for (uint32_t i = threadIdx.x; i < 4 * 256; i += Threads)
      temp.table[i / 256][i % 256] = crc32_multiply(i % 256 << (8 * (i / 256)), stride);
  }

  __device__ static uint32_t times_stride(const TempStorage& temp, uint32_t remainder) {
    return temp.table[0][remainder & 0xff] ^ temp.table[1][remainder >> 8 & 0xff] ^
           temp.table[2][remainder >> 16 & 0xff] ^ temp.table[3][remainder >> 24];
  }

  // The first lane gets the remainder of the first `Lanes` lanes' bytes, of which each has `Bytes`.
  template <unsigned Lanes, uint32_t Bytes, unsigned Delta = 1>
  __device__ static uint32_t fold_warp(uint32_t remainder) {
    if constexpr (Delta < Lanes) {
      constexpr uint32_t shift = crc32_shift(Bytes * Delta);
      const uint32_t next = tuck::device::shfl_down(remainder, Delta);
      return fold_warp<Lanes, Bytes, 2 * Delta>(crc32_multiply(remainder, shift) ^ next);
    } else {
      return remainder;
    }
  }

  // The first thread gets the remainder of all words.
  __device__ static uint32_t fold_block(TempStorage& temp, uint32_t remainder) {
    const unsigned lane = tuck::device::lane_id();
    remainder = fold_warp<tuck::device::warp_size, 4>(remainder);
    if (lane == 0) temp.of_warp[tuck::device::warp_id()] = remainder;
    tuck::device::sync_block();
    if (tuck::device::warp_id() != 0) return 0;
    remainder = fold_warp<warps, 4 * tuck::device::warp_size>(lane < warps ? temp.of_warp[lane] : 0);
    return crc32_multiply(remainder, crc32_shift(4));
  }
};

}  // namespace gpu_gzip
