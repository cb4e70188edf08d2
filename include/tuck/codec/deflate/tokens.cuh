// SPDX-License-Identifier: Apache-2.0
// The tokens of deflate by the lanes of a warp: where they begin in the cells of a thread.
#pragma once

#include <tuck/codec/deflate/layout.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::deflate_format {

// The cells of a thread: `Each` in a row. Thread 0 has the first ones. The cells of a unit are all in one warp.
// All lanes of a warp construct token_begins together, also lanes behind the last cell, because they exchange bits.
// Single lanes may call find_equal_bytes and cut.
template <uint32_t Width, uint32_t Each> class thread_cells {
  static_assert(Each != 0 && Each <= 2 * line_cells, "tuck: deflate needs blocks of 64 to 512 threads");
  static constexpr uint32_t width = Width, lanes = device::warp_size;
  static constexpr uint32_t line_lanes = Each < line_cells ? line_cells / Each : 1;  // lanes that have a line

 public:
  static constexpr uint32_t each = Each;
  static constexpr uint32_t unit_lanes = unit_cells / each;  // lanes that have a unit
  using bits = uint32_t[each];                               // a bit for each byte of the cells of a thread

  // Finds the near and the far bytes. unit(i) returns the 16 bytes from byte i on.
  template <class Unit>
  __device__ static void find_equal_bytes(const Unit& unit, uint32_t bytes, bits& near_bytes, bits& far_bits) {
    const uint32_t first = threadIdx.x * each * cell_bytes;
    uint32_t x[2 + 8] = {};  // beginning with the two words before the cell
    if (first != 0) {
      const device::vec128& before = unit(first - 16);
      x[0] = before.w[2];
      x[1] = before.w[3];
    }
#pragma unroll
    for (uint32_t c = 0; c < each; ++c) {
#pragma unroll
      for (uint32_t q = 0; q < 2; ++q) {
        const device::vec128 here = unit(first + c * cell_bytes + 16 * q);
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) x[2 + 4 * q + k] = here.w[k];
      }
      near_bytes[c] = far_bits[c] = 0;
#pragma unroll
      for (int k = 9; k >= 2; --k) {
        add_zero_bytes(near_bytes[c], x[k] ^ device::byte_perm<0x6543>(x[k - 1], x[k]));
        if constexpr (width == 2) add_zero_bytes(far_bits[c], x[k] ^ device::byte_perm<0x5432>(x[k - 1], x[k]));
        if constexpr (width == 4) add_zero_bytes(far_bits[c], x[k] ^ x[k - 1]);
        if constexpr (width == 8) add_zero_bytes(far_bits[c], x[k] ^ x[k - 2]);
      }
      near_bytes[c] &= valid_bytes(c, bytes);
      far_bits[c] &= valid_bytes(c, bytes);
      x[0] = x[8];
      x[1] = x[9];
    }
    if (first == 0) cut(near_bytes[0], far_bits[0]);
  }
  // Lets no run reach before the beginning of a cell.
  __device__ static void cut(uint32_t& near_bytes, uint32_t& far_bits) {
    near_bytes &= ~1u;
    far_bits &= ~low_mask(width);
  }
  // Where tokens, matches and far matches begin in the cells of a thread.
  struct token_begins {
    bits all, matches, far_bits;
    uint32_t count = 0;  // of tokens

    __device__ token_begins(const bits& near_bytes, const bits& far_bytes, uint32_t bytes) : far_bits{} {
      bits runs, others;
      find_runs(near_bytes, runs, matches);
#pragma unroll
      for (uint32_t c = 0; c < each; ++c) {
        all[c] = ~runs[c] | matches[c];
        others[c] = far_bytes[c] & ~runs[c];
      }
      if constexpr (width > 1) {
        find_runs(others, runs, far_bits);
#pragma unroll
        for (uint32_t c = 0; c < each; ++c) {
          all[c] = (all[c] & ~runs[c]) | far_bits[c];
          matches[c] |= far_bits[c];
        }
      }
#pragma unroll
      for (uint32_t c = 0; c < each; ++c) {
        all[c] &= valid_bytes(c, bytes);
        count += popcount(all[c]);
      }
    }
  };

 private:
  // Returns the bytes of a cell of this thread that the chunk has.
  __device__ static uint32_t valid_bytes(uint32_t cell, uint32_t bytes) {
    const uint32_t begin = (threadIdx.x * each + cell) * cell_bytes;
    return bytes > begin ? low_mask(bytes - begin) : 0;
  }
  // Shifts a bit for each byte of a word into `to`, which is set if the byte is 0.
  __device__ static void add_zero_bytes(uint32_t& to, uint32_t x) {
    const uint32_t high = device::nor_masked<0x7f7f7f7f>((x & 0x7f7f7f7f) + 0x7f7f7f7f, x);
    to = device::funnel_shift_right(high * 0x00204081u, to, 28);
  }

  // Returns whether runs end: [1] after the last cell of this thread, [0] before its first one. Other bits are 0.
  __device__ static uint32_t ends_of_runs(const bits& x) {
    uint32_t first = 0, last = 0;  // a bit for each lane: whether all bytes of its first, and last, line are in x
    if constexpr (each < line_cells) {
      uint32_t all = x[0];
#pragma unroll
      for (uint32_t c = 1; c < each; ++c) all &= x[c];
      first = device::ballot(all == ~0u);
#pragma unroll
      for (uint32_t d = 1; d < line_lanes; d *= 2) first &= first >> d;  // of the lane with the first cell of a line
      last = first << (line_lanes - 1);
    } else {
      first = device::ballot(is_full(x));
      last = each == line_cells ? first : device::ballot(is_full(x + each - line_cells));
    }
    // A bit for each lane: whether a unit, or a line after a full one or a full line, begins there.
    constexpr uint32_t parts = ~0u / low_mask(2 * line_cells / each), units = ~0u / low_mask(unit_lanes);
    const uint32_t begins = (parts & (first | last << 1)) | units;
    return (begins >> device::lane_id() & 1) | (device::lane_id() == lanes - 1 ? 2 : begins >> device::lane_id() & 2);
  }
  // Finds the bytes that are in runs, and those that begin one.
  __device__ static void find_runs(const bits& x, bits& runs, bits& begins) {
    const uint32_t ends = ends_of_runs(x);
    const bool first = (ends & 1) != 0;
    uint32_t before = device::shfl_up(x[each - 1], 1), after = device::shfl_down(x[0], 1);
    if (first) before = 0;
    if ((ends & 2) != 0) after = 0;
#pragma unroll
    for (uint32_t c = 0; c < each; ++c)
      runs[c] = in_runs(c == 0 ? before : x[c - 1], x[c], c + 1 == each ? after : x[c + 1]);
    before = device::shfl_up(runs[each - 1], 1);
    if (first) before = 0;
#pragma unroll
    for (uint32_t c = 0; c < each; ++c) begins[c] = run_begins(c == 0 ? before : runs[c - 1], runs[c]);
  }
};

}  // namespace tuck::inline TUCK_ABI::deflate_format
