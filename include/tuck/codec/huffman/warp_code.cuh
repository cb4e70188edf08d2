// SPDX-License-Identifier: Apache-2.0
// Huffman codes on one warp. The lengths are those of code.hpp, and the table words those of layout.hpp.
#pragma once

#include <tuck/codec/huffman/layout.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// Returns the entry of a code in an encoder. A code of less than 10 bits (max_length) has zeros after it.
//
//    31      22 21     4 3      0
//   +----------+--------+--------+
//   |   code   |   0    | length |
//   +----------+--------+--------+
TUCK_HD constexpr uint32_t code_entry(uint32_t first_slot, uint32_t length) noexcept {
  return first_slot << (32 - max_length) | length;
}

// The lengths of a warp's symbols, K per lane.
template <int K> struct warp_lengths {
  uint32_t count[K], length[K];  // both 0 for symbols that do not occur

  __device__ uint32_t used() const {
    uint32_t sum = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) sum += count[k] != 0 ? slots_of(length[k]) : 0;
    return device::warp_sum(sum);
  }

  // Sets the lengths by the rules of round_lengths (code.hpp). More than one symbol occurs.
  __device__ void round_lengths() {
    const uint32_t all = total();
    uint32_t low = 0;
#pragma unroll 1
    for (uint32_t step = 32; step != 0; step /= 2)
      if (!round_to(round_begin(all, low + step - 1))) low += step;
    round_to(round_begin(all, low));
    shorten();
  }
  // Returns the sum of the counts.
  __device__ uint32_t total() const {
    uint32_t sum = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) sum += count[k];
    return device::warp_sum(sum);
  }
  // The rule `round` for a given x. Returns whether Kraft's sum is at most 1.
  __device__ bool round_to(uint32_t x) {
#pragma unroll
    for (int k = 0; k < K; ++k) length[k] = count[k] != 0 ? rounded_length(count[k], x) : 0;
    return used() <= all_slots;
  }
  // The rule `shorter`.
  __device__ void shorten() {
    for (uint32_t taken = used(); taken < all_slots;) {
      uint32_t key[K], best = 0, mine = 0, last = 0;
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const uint32_t l = length[k];
        key[k] = l > 1 && taken + slots_of(l) <= all_slots ? count[k] << l : 0;
        best = key[k] > best ? key[k] : best;
      }
      best = device::warp_max(best);
#pragma unroll
      for (int k = 0; k < K; ++k) mine += key[k] == best ? slots_of(length[k]) : 0;
      uint32_t to = taken + device::warp_inclusive_sum(mine) - mine;
#pragma unroll
      for (int k = 0; k < K; ++k) {
        if (key[k] != best) continue;
        to += slots_of(length[k]);
        if (to > all_slots) continue;
        --length[k];
        last = to;
      }
      taken = device::warp_max(last);
    }
  }
  __device__ uint32_t bits() const {
    uint32_t sum = 0;
#pragma unroll
    for (int k = 0; k < K; ++k) sum += count[k] * length[k];
    return device::warp_sum(sum);
  }

  // Sets the first slot of each code. Returns the number of slots that all codes take.
  __device__ uint32_t assign(uint32_t (&first)[K]) const {
    // `before` and `all` have the numbers of codes of one length, or of three. Only deflate has K > 2: 288 symbols.
    //
    //    31 30 29       20 19       10 9          0
    //   +-----+-----------+-----------+------------+
    //   |  0  | least + 2 | least + 1 |   least    |
    //   +-----+-----------+-----------+------------+
    constexpr uint32_t at_once = K <= 2 ? 1 : 3, field = 10;
    uint32_t next = 0;
#pragma unroll
    for (uint32_t least = 1; least <= max_length; least += at_once) {
      uint32_t before = 0, all = 0;
      if constexpr (K <= 2) {
        const uint32_t below = (1u << device::lane_id()) - 1;
#pragma unroll
        for (int k = 0; k < K; ++k) {
          const uint32_t who = device::ballot(length[k] == least);
          before += popcount(who & below);
          all += popcount(who);
        }
      } else {
        uint32_t mine = 0;
#pragma unroll
        for (int k = 0; k < K; ++k)
          if (const uint32_t d = length[k] - least; d < at_once) mine += 1u << field * d;
        before = device::warp_inclusive_sum(mine) - mine;
        all = device::shfl(before + mine, device::warp_size - 1);
      }
#pragma unroll
      for (uint32_t d = 0; d < at_once && least + d <= max_length; ++d) {
        const uint32_t l = least + d;
        uint32_t at = next + (before >> field * d & low_mask(field)) * slots_of(l);
#pragma unroll
        for (int k = 0; k < K; ++k)
          if (length[k] == l) {
            first[k] = at;
            at += slots_of(l);
          }
        next += (all >> field * d & low_mask(field)) * slots_of(l);
      }
    }
    return next;
  }
};

// Makes a code by the rules of round_lengths (code.hpp) on one warp. The counts of `Symbols` <= 64 symbols in shared
// memory are replaced by entries, or 0 for symbols without a code. Returns the bits of all counted symbols.
template <uint32_t Symbols> __device__ uint32_t round_code(uint32_t* counts) {
  constexpr int each = Symbols > device::warp_size ? 2 : 1;
  const uint32_t lane = device::lane_id(), first_symbol = each * lane;
  warp_lengths<each> all;
  uint32_t here = 0;
#pragma unroll
  for (int k = 0; k < each; ++k) {
    all.count[k] = first_symbol < Symbols ? counts[first_symbol + static_cast<uint32_t>(k)] : 0;
    here |= all.count[k] != 0 ? 1u << k : 0;
  }
  const uint32_t with = device::ballot(here != 0);
  if (popcount(with) <= 1 && !device::any(here == 3)) {  // one symbol: it and its neighbour get a bit
    const uint32_t pair = each == 2 ? with : with | (with & 0x55555555) << 1 | (with & 0xaaaaaaaa) >> 1;
#pragma unroll
    for (int k = 0; k < each; ++k) all.length[k] = pair >> lane & 1;
  } else {
    all.round_lengths();
  }
  uint32_t first[each] = {};
  all.assign(first);
  const uint32_t bits = all.bits();
  device::sync_warp();
#pragma unroll
  for (int k = 0; k < each; ++k)
    if (first_symbol < Symbols)
      counts[first_symbol + static_cast<uint32_t>(k)] = all.length[k] != 0 ? code_entry(first[k], all.length[k]) : 0;
  return bits;
}

}  // namespace tuck::inline TUCK_ABI::huffman_format
