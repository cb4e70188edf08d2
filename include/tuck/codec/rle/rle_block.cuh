// RLE by one thread block. It writes the bytes of rle.hpp.
//
// The encoder makes masks of both kinds and keeps the one with fewer ones. It stores that mask in shared memory. Each
// thread then takes a group of 8 mask bytes, and one scan gives the offsets of the group in L1 and L0. The decoder
// reverses these steps.
#pragma once

#include <tuck/codec/mask_block.cuh>
#include <tuck/codec/rle/rle.hpp>

namespace tuck::inline TUCK_ABI {

/// The mask format of rle.
template <element T, int Threads> struct block_rle_mask {
  using C = rle<T>;
  using masks = block_masks<T, Threads>;
  using sums = typename masks::sums;
  using tile = typename masks::tile;

  using scan = device::block_scan<Threads>;

  static constexpr uint32_t kinds = 2;
  static constexpr uint32_t warps = Threads / device::warp_size;
  static constexpr uint32_t groups = tile::capacity / C::group;
  static constexpr uint32_t rounds = ceil_div(groups, uint32_t{Threads});  // groups per thread, Threads apart
  static constexpr uint32_t most_levels =
      round_up_pow2(C::l1_begin(tile::capacity) + C::groups(tile::capacity) + masks::most_bytes + sizeof(T), 2);

  struct TempStorage {
    typename masks::TempStorage of_masks;
    alignas(8) std::byte mask[masks::most_bytes];  // the mask bytes of rle.hpp, in order
    alignas(4) std::byte levels[most_levels];      // what comes before the values
    bits_t<T> last[warps];                         // the last value of each warp
    typename scan::TempStorage of_levels[rounds];
  };

  __device__ static uint32_t measure(TempStorage& temp, const tile& values, masks& mask, sums& ones) {
    const uint32_t kind = find(temp, values, mask, ones);
    mask.store(temp.mask);
    device::sync_block();
    return write_levels(temp, kind, values.count);
  }
  __device__ static void write(TempStorage& temp, const masks&, uint32_t values_begin, std::byte* to) {
    for (uint32_t i = threadIdx.x; 4 * i < values_begin; i += Threads)
      reinterpret_cast<uint32_t*>(to)[i] = reinterpret_cast<const uint32_t*>(temp.levels)[i];
    if constexpr (sizeof(T) < 4) device::sync_block();
  }

  template <bool Full>
  __device__ static bool read(TempStorage& temp, const std::byte* from, uint32_t size, uint32_t count, masks& mask,
                              uint32_t& values_begin, uint32_t& kind) {
    if (size < C::l1_begin(count)) return false;
    kind = reinterpret_cast<const uint32_t*>(from)[0];  // includes the three zeros
    if (kind >= kinds || !read_levels(temp, from, size, count, values_begin)) return false;
    mask.template load<true>(temp.mask);
    return true;
  }

 private:
  // Returns a mask of the 8 bytes of a group, one bit for each non-zero byte.
  __device__ static uint32_t non_zeros(uint32_t low, uint32_t high) {
    return non_zero_nibble(low) | non_zero_nibble(high) << 4;
  }

  // Finds the mask and its ones, and returns its kind.
  __device__ static uint32_t find(TempStorage& temp, const tile& values, masks& mask, sums& ones) {
    mask.find_non_zeros(values);
    const uint32_t warp = device::warp_id();
    if (device::lane_id() == 31) temp.last[warp] = tile::value(values.w[tile::words - 1], tile::per_word - 1);
    device::sync_block();
    masks changes;
    changes.find_changes(values, warp == 0 ? bits_t<T>{0} : temp.last[warp - 1]);
    if (!values.is_full()) changes.clip(values.count);
    const sums both = masks::sum_warps(temp.of_masks, device::warp_sum(changes.ones() << 16 | mask.ones()));
    ones = {both.before & 0xffffu, both.all & 0xffffu};
    if (both.all >> 16 >= ones.all) return 0;
    ones = {both.before >> 16, both.all >> 16};
    mask = changes;
    return 1;
  }

  // Writes everything before the values, for the mask in shared memory. Returns the offset of the values. Has barriers.
  __device__ static uint32_t write_levels(TempStorage& temp, uint32_t kind, uint32_t count) {
    const auto* const mask = reinterpret_cast<const uint32_t*>(temp.mask);
    auto* const head = reinterpret_cast<uint32_t*>(temp.levels);
    // `before` and `total` count two levels at once:
    //
    //    31             16 15              0
    //   +-----------------+-----------------+
    //   |   bytes of L1   |   bytes of L0   |
    //   +-----------------+-----------------+
    uint32_t l1[rounds], before[rounds], total = 0;
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint32_t g = r * Threads + threadIdx.x;
      l1[r] = g < groups ? non_zeros(mask[2 * g], mask[2 * g + 1]) : 0;
      const uint32_t l2 = device::ballot(l1[r] != 0);
      if (device::lane_id() == 0 && g / 32 * 32 < C::groups(count)) head[1 + g / 32] = l2;
      uint32_t all;
      before[r] = total + scan::exclusive_sum(temp.of_levels[r], (l1[r] != 0 ? 1u << 16 : 0) | popcount(l1[r]), all);
      total += all;
    }
    const uint32_t l0_begin = C::l1_begin(count) + (total >> 16), l0_end = l0_begin + (total & 0xffffu);
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      if (l1[r] == 0) continue;
      const uint32_t g = r * Threads + threadIdx.x;
      temp.levels[C::l1_begin(count) + (before[r] >> 16)] = static_cast<std::byte>(l1[r]);
      const uint32_t eight[] = {mask[2 * g], mask[2 * g + 1]};
      device::shared_position<uint8_t> l0(temp.levels, l0_begin + (before[r] & 0xffffu));
      detail::unrolled<8>([&]<int B>() {
        l0.template put_if<1u << B>(l1[r], eight[B / 4] >> (B % 4 * 8));
        l0 = l0.after(l1[r] >> B & 1);
      });
    }
    const uint32_t values_begin = C::values_begin(l0_end);
    if (l0_end + threadIdx.x < round_up_pow2(values_begin, 2)) temp.levels[l0_end + threadIdx.x] = std::byte{};
    if (threadIdx.x == 0) head[0] = kind;
    return values_begin;
  }

  // -- decoding ------------------------------------------------------------------------------------------------------

  // Restores the mask and finds the offset of the values. Returns false to all threads if the levels are not what
  // encoding writes. Bits of L2 past the last group become ones past the end of the mask, which block_mask_codec
  // rejects.
  __device__ static bool read_levels(TempStorage& temp, const std::byte* from, uint32_t size, uint32_t count,
                                     uint32_t& values_begin) {
    const uint32_t l1_begin = C::l1_begin(count), l2_words = l1_begin / 4 - 1;
    const auto* const l2 = reinterpret_cast<const uint32_t*>(from) + 1;
    // One lane per word of L2.
    const uint32_t l2_ones = device::lane_id() < l2_words ? popcount(l2[device::lane_id()]) : 0;
    const uint32_t l0_begin = l1_begin + device::warp_sum(l2_ones);
    if (l0_begin > size) return false;
    bool bad = false;
    uint32_t l1[rounds], before[rounds], total = 0;
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint32_t word = r * warps + device::warp_id();
      const uint32_t mine = word < l2_words ? l2[word] : 0;
      const uint32_t rank =
          device::warp_sum(device::lane_id() < word ? l2_ones : 0) + popcount(mine & low_mask(device::lane_id()));
      const bool there = (mine >> device::lane_id() & 1) != 0;
      l1[r] = there ? static_cast<uint32_t>(from[l1_begin + rank]) : 0;
      bad |= there && l1[r] == 0;
      uint32_t all;
      before[r] = total + scan::exclusive_sum(temp.of_levels[r], popcount(l1[r]), all);
      total += all;
    }
    const uint32_t l0_end = l0_begin + total;
    values_begin = C::values_begin(l0_end);
    if (values_begin > size) return false;
    bad |= l0_end + threadIdx.x < values_begin && from[l0_end + threadIdx.x] != std::byte{};
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint32_t g = r * Threads + threadIdx.x;
      if (g >= groups) continue;
      uint32_t eight[2] = {};
      if (l1[r] != 0) {
        device::shared_position<uint8_t> l0(from, l0_begin + before[r]);
        detail::unrolled<8>([&]<int B>() {
          eight[B / 4] |= l0.template get_if<1u << B>(l1[r]) << (B % 4 * 8);
          l0 = l0.after(l1[r] >> B & 1);
        });
        bad |= non_zeros(eight[0], eight[1]) != l1[r];
      }
      reinterpret_cast<uint64_t*>(temp.mask)[g] = eight[0] | uint64_t{eight[1]} << 32;
    }
    return !device::sync_block_or(bad);
  }
};

template <element T, int Threads>
struct block_codec<rle<T>, Threads> : block_mask_codec<rle<T>, block_rle_mask<T, Threads>, Threads> {
  using block_mask_codec<rle<T>, block_rle_mask<T, Threads>, Threads>::block_mask_codec;
};

}  // namespace tuck::inline TUCK_ABI
