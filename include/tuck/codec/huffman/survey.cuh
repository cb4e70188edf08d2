// SPDX-License-Identifier: Apache-2.0
// What an encoder learns about values before it makes numbers of them, on one thread block. layout.hpp says what for.
#pragma once

#include <tuck/codec/huffman/numbers.cuh>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// `values.visit(count, f)` calls f(index, group) for each group of values that this thread has.
template <uint32_t Width> struct survey {
  using group = number_group<Width>;
  using lanes = typename number_quad<Width>::lanes;

  // Adds the exponents of the sample to `of_bin`.
  template <class Values>
  __device__ static void count_exponents(const Values& values, uint32_t count, uint32_t exponent, uint32_t* of_bin) {
    static_assert(group::values == sample_group(Width));
    const uint32_t from = (8 * Width - 1 - exponent + bin_shift(exponent)) % 32;
    const uint32_t field = low_mask(exponent - bin_shift(exponent));
    values.visit(count, [&](uint32_t g, const group& x) {
      const uint32_t k = g % group::values;
      if (g * group::values + k < count)
        device::atomic_add(&of_bin[x.upper_word(k) >> (from + 8 * Width * k) % 32 & field], 1u);
    });
  }
  // Returns the bin of top, in each warp.
  __device__ static uint32_t bin_of(const uint32_t* of_bin) {
    constexpr uint32_t each = bins / device::warp_size, lanes_of_window = window_bins / each;
    const uint32_t lane = device::lane_id();
    uint32_t sum[each], best = 0;
#pragma unroll
    for (uint32_t k = 0; k < each; ++k) sum[k] = of_bin[each * lane + k] + (k == 0 ? 0 : sum[k - 1]);
    const uint32_t before = device::warp_inclusive_sum(sum[each - 1]) - sum[each - 1];
#pragma unroll
    for (uint32_t k = 0; k < each; ++k) {
      sum[k] += before;
      const uint32_t out = device::shfl_up(sum[k], lanes_of_window);
      const uint32_t key = (sum[k] - (lane >= lanes_of_window ? out : 0)) * bins + (bins - 1 - each * lane - k);
      best = key > best ? key : best;
    }
    return bins - 1 - device::warp_max(best) % bins;
  }

  static_assert(8 * Width - symbol_bits <= symbols);
  // Adds the integers of more than symbol_bits bits to `of_width`, the narrowest of them first: of a counter for each
  // symbol, 8 Width - symbol_bits are used.
  template <class Values>
  __device__ static void count_widths(const Values& values, uint32_t count, bool zigzag, uint32_t* of_width) {
    values.visit(count, [&](uint32_t g, const group& x) {
#pragma unroll
      for (uint32_t i = 0; i < group::quads; ++i)
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
          const uint32_t b = bit_width(lanes::low_value(lanes::number(x.at[i].value(k), 0, zigzag, 0)));
          if (b > symbol_bits && g * group::values + 4 * i + k < count)
            device::atomic_add(&of_width[b - symbol_bits - 1], 1u);
        }
    });
  }
  __device__ static uint32_t shift_of(const uint32_t* of_width, uint32_t count) {
    uint32_t above = 0;
    for (uint32_t b = 8 * Width; b > symbol_bits; --b) {
      above += of_width[b - symbol_bits - 1];
      if (64 * above > count) return round_shift(b - symbol_bits, Width);
    }
    return 0;
  }

  // Returns the zeros of a chunk, of whose words any has these bits.
  __device__ static uint32_t zeros_of(const uint32_t (&any)[2], uint32_t shift) {
    uint32_t low = any[0];
    if constexpr (Width == 1) low |= low >> 8 | low >> 16 | low >> 24;
    if constexpr (Width == 2) low |= low >> 16;
    return huffman_format::zeros_of(low | uint64_t{any[1]} << 32, shift);
  }
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
