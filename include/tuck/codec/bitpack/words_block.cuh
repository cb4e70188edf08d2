// SPDX-License-Identifier: Apache-2.0
// Groups of integers of 2 bytes, which stay two in a word, on one thread. groups_block.cuh uses these functions.
#pragma once

#include <tuck/codec/bitpack/groups.hpp>
#include <tuck/codec/block.cuh>
#include <tuck/core/bit_lanes.cuh>

namespace tuck::inline TUCK_ABI::detail {

// Returns ~d for the difference d of each integer of a pair and the one before it.
__device__ __forceinline__ uint32_t fall_of_pair(uint32_t pair, uint32_t before) {
  return device::add_pair(device::funnel_shift_right(before, pair, 16), ~pair);
}

// Of integers, and of the differences of neighbours.
template <class Number> struct group_extremes {
  Number lowest, highest, least_step, most_step;
  uint32_t non_zeros;
};

// Finds the extremes of the integers that a thread has of a group.
template <uint32_t Words>
__device__ group_extremes<int32_t> find_extremes(const device::vec128* own, bool differences) {
  const auto low = [](uint32_t pair) { return static_cast<int32_t>(pair << 16) >> 16; };
  const auto high = [](uint32_t pair) { return static_cast<int32_t>(pair) >> 16; };
  const auto least = [&](uint32_t pair) { return low(pair) < high(pair) ? low(pair) : high(pair); };
  const auto most = [&](uint32_t pair) { return low(pair) > high(pair) ? low(pair) : high(pair); };
  const uint32_t first = own[0].w[0];
  uint32_t lowest = first, highest = first, least_fall = ~0u, most_fall = ~0u, before = first << 16, non_zeros = 0;
  unrolled<Words / 4>([&]<int Q>() {
    const device::vec128 x = own[Q];
    uint32_t eight = 0;
    unrolled<4>([&]<int Index>() {
      lowest = device::least_pair(lowest, x.w[Index]);
      highest = device::most_pair(highest, x.w[Index]);
      eight = device::dot4<0x00020001u << 2 * Index>(device::non_zero_pair(x.w[Index]), eight);
    });
    non_zeros |= eight << 8 * Q;
    if (differences) {
      unrolled<4>([&]<int Index>() {
        const uint32_t fall = fall_of_pair(x.w[Index], before);
        least_fall = device::least_pair(least_fall, fall);
        most_fall = device::most_pair(most_fall, fall);
        before = x.w[Index];
      });
    }
  });
  group_extremes<int32_t> e{least(lowest), most(highest), ~most(most_fall), ~least(least_fall), non_zeros};
  if (differences && e.highest - e.lowest >= 1 << 15) {  // not all differences need fit in 16 bits
    int32_t last = low(first);
    e.least_step = e.most_step = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < 2 * Words; ++i) {
      const int32_t x = reinterpret_cast<const int16_t*>(own)[i], step = x - last;
      e.least_step = step < e.least_step ? step : e.least_step;
      e.most_step = step > e.most_step ? step : e.most_step;
      last = x;
    }
  }
  return e;
}

// Writes a thread's part of a group: the encoder uses at most 16 bits for an integer. `base` is the group's, and
// `before` is the integer before the part. If `leads`, the part begins the group.
template <uint32_t Words>
__device__ void put_pairs(device::shared_bit_writer& out, const device::vec128* own, integer_groups<2>::shape coding,
                          uint32_t base, uint32_t before, bool leads) {
  const uint32_t width = coding.width(), field = low_mask(width);
  if (coding.is_sparse()) {
    // By the centered scheme, x is stored as its low bits with the top one changed.
    const uint32_t top = coding.scheme() == integer_groups<2>::centered ? 1u << (width - 1) : 0,
                   tops = top << width | top;
#pragma unroll
    for (uint32_t i = 0; i < Words; ++i) {
      const uint32_t x = own[i / 4].w[i % 4], there = device::non_zero_pair(x);
      const uint32_t high = (x >> 16) << device::dot4(there, width, 0);
      out.put(device::xor_masked(high ^ tops, x, field), device::dot4(there, width * 0x00010001u, 0));
    }
    return;
  }
  const uint32_t biases = coding.is_difference() ? 0 : ((0u - base) & 0xffffu) * 0x00010001u;
  const uint32_t closer = (1u << width) - (1u << 16);  // times the high integer moves it next to the low one
  before <<= 16;
#pragma unroll
  for (uint32_t i = 0; i < Words; ++i) {
    uint32_t x = device::add_pair(own[i / 4].w[i % 4], biases), bits = 2 * width;
    if (coding.is_difference()) {
      const uint32_t fall = fall_of_pair(x, before);
      before = x;
      x = (device::add_pair(fall, fall) | 0x00010001u) ^ device::byte_signs<0x3311>(fall, fall);  // zigzag
    }
    if (i == 0 && leads && coding.is_difference()) {  // The first integer of the group was written before.
      x >>= 16;
      bits = width;
    } else {
      x += (x >> 16) * closer;
    }
    out.put(x, bits);
  }
}

}  // namespace tuck::inline TUCK_ABI::detail
