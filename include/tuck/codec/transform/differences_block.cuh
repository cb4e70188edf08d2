// SPDX-License-Identifier: Apache-2.0
// Differences of neighbours by one thread block. It writes the results of differences.hpp.
//
// A lane has 16 bytes of values, and a warp has rows of 512 consecutive bytes. No lane writes what another lane reads,
// except for the last word before the part of a warp. A difference needs the word before, which the next lower lane
// has. Sums are formed inside the 16 bytes, then over the lanes of each row, then over the rows of the warp, and with
// one exchange over the warps. Values smaller than a word are added side by side, without carries between them.
//
// To choose a form, the threads count the classes of samples in shared memory, and each warp sums their costs.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/transform/differences.hpp>
#include <tuck/core/block_reduce.cuh>

namespace tuck::inline TUCK_ABI {

/// Block transform of differences; block.cuh documents the members.
template <element T, int Threads> class block_transform<differences<T>, Threads> {
  using word = typename block_tile<T, Threads>::word;

  static constexpr unsigned value_bits = 8 * sizeof(T);
  static constexpr uint32_t per_word = sizeof(word) / sizeof(T);            // values per word
  static constexpr uint32_t words = sizeof(device::vec128) / sizeof(word);  // words of a lane in one row
  static constexpr uint32_t rows = tile_bytes / sizeof(device::vec128) / Threads;
  using of_warps = device::block_reduce<Threads, word>;
  static_assert(rows * sizeof(device::vec128) * Threads == tile_bytes && of_warps::warps <= device::warp_size,
                "tuck: a block has a power of two of threads, 32 or more");

  using estimate = detail::difference_estimate<bits_t<T>>;

  struct counts {
    uint32_t of_differences[estimate::classes], of_values[estimate::classes], signs;
  };

 public:
  union TempStorage {
    typename of_warps::TempStorage sums;
    counts samples;
  };

  __device__ explicit block_transform(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t apply(const differences<T>& x, std::byte* values, uint32_t count) const {
    const uint32_t form = choose_form(x, values, count);
    apply(x, values, count, form);  // the last barrier lies behind all reads of the values
    return form;
  }
  __device__ uint32_t choose_form(const differences<T>&, const std::byte* from, uint32_t count) const {
    counts& to = temp_.samples;
    if (threadIdx.x < estimate::classes) to.of_differences[threadIdx.x] = to.of_values[threadIdx.x] = 0;
    if (threadIdx.x == 0) to.signs = 0;
    device::sync_block();
    const auto* const values = reinterpret_cast<const bits_t<T>*>(from);
    const uint32_t log2 = estimate::spacing_log2(count);
    bool negative = false;
#pragma unroll 1
    for (uint32_t k = threadIdx.x; k < count >> log2; k += Threads) {
      const uint32_t i = estimate::sample(k, log2);
      const bits_t<T> v = values[i], before = i == 0 ? bits_t<T>{0} : values[i - 1];
      device::atomic_add(&to.of_differences[estimate::class_of(zigzag(static_cast<bits_t<T>>(v - before)))], 1u);
      device::atomic_add(&to.of_values[estimate::class_of(zigzag(v))], 1u);
      negative |= v >> (value_bits - 1) != 0;
    }
    if (negative) device::atomic_or(&to.signs, 1u);
    device::sync_block();
    const bool signs = to.signs != 0;
    uint32_t gain = 0;
#pragma unroll
    for (uint32_t c = device::lane_id(); c < estimate::classes; c += device::warp_size)
      gain += estimate::cost(c, to.of_differences[c], 0) - estimate::cost(c, to.of_values[c], signs ? 0 : 1);
    return differences<T>::form_of(device::warp_sum(gain), signs);
  }

  __device__ void apply(const differences<T>&, std::byte* values, uint32_t count, uint32_t form) const {
    if (form == differences<T>::as_they_are) return;
    const uint32_t begin = first_quad() * words;
    word before_row = begin != 0 && begin < words_of(count) ? reinterpret_cast<const word*>(values)[begin - 1] : 0;
    device::sync_block();
#pragma unroll 1
    for (uint32_t j = 0; j < rows && has_row(j, count); ++j) {
      quad x = load(values, j, count);
      const word of_lane_below = device::shfl(x.w[words - 1], static_cast<int>((device::lane_id() + 31) % 32));
      word before = device::lane_id() == 0 ? before_row : of_lane_below;
      before_row = of_lane_below;  // lane 0 needs the last word of lane 31
#pragma unroll
      for (uint32_t i = 0; i < words; ++i) {
        const word now = x.w[i];
        x.w[i] = fold(form == differences<T>::of_neighbours ? subtract(now, shifted(now, before)) : now);
        before = now;
      }
      store(values, j, count, x);
    }
  }

  __device__ void invert(const differences<T>&, std::byte* results, uint32_t count, uint32_t form) const {
    if (form != differences<T>::of_neighbours) {
      if (form == differences<T>::zigzags) unfold_all(results, count);
      return;
    }
    word carry = 0;  // the sum of the rows before
#pragma unroll 1
    for (uint32_t j = 0; j < rows && has_row(j, count); ++j) {
      quad x = sums(load(results, j, count));
      const word total = last_value(x.w[words - 1]), up_to = device::warp_inclusive_sum(total);
      add_to_all(x, carry + up_to - total);
      store(results, j, count, x);
      carry += device::shfl(up_to, device::warp_size - 1);
    }
    const word before = of_warps::sum_before(of_warps::exchange(temp_.sums, carry));
    if (device::warp_id() == 0) return;
#pragma unroll 1
    for (uint32_t j = 0; j < rows && has_row(j, count); ++j) {
      quad x = load(results, j, count);
      add_to_all(x, before);
      store(results, j, count, x);
    }
  }

 private:
  struct alignas(16) quad {
    word w[words];
  };

  // -- positions of values ---------------------------------------------------------------------------------------

  __device__ static uint32_t words_of(uint32_t count) { return ceil_div(count, per_word); }
  __device__ static uint32_t first_quad(uint32_t j = 0) { return (device::warp_id() * rows + j) * device::warp_size; }
  __device__ static bool has_row(uint32_t j, uint32_t count) { return first_quad(j) * words < words_of(count); }

  // Bytes past the end may have any value.
  __device__ static quad load(const std::byte* from, uint32_t j, uint32_t count) {
    const uint32_t at = first_quad(j) + device::lane_id();
    return at * words < words_of(count) ? reinterpret_cast<const quad*>(from)[at] : quad{};
  }
  __device__ static void store(std::byte* to, uint32_t j, uint32_t count, const quad& x) {
    const uint32_t at = first_quad(j) + device::lane_id();
    if ((at + 1) * words <= words_of(count)) {
      reinterpret_cast<quad*>(to)[at] = x;
    } else {
#pragma unroll
      for (uint32_t i = 0; i < words; ++i)
        if (at * words + i < words_of(count)) reinterpret_cast<word*>(to)[at * words + i] = x.w[i];
    }
  }

  // -- the values of a word, side by side --------------------------------------------------------------------------

  __device__ static constexpr word repeat(bits_t<T> x) { return block_tile<T, Threads>::repeat(x); }
  __device__ static word lowest() { return repeat(1); }  // the lowest bit of each value
  __device__ static word highest() { return repeat(static_cast<bits_t<T>>(bits_t<T>{1} << (value_bits - 1))); }

  // Returns the predecessors of the values in `now`.
  __device__ static word shifted(word now, word before) {
    if constexpr (per_word == 1) return before;
    return now << value_bits % (8 * sizeof(word)) | before >> (8 * sizeof(word) - value_bits);
  }
  __device__ static word add(word a, word b) {
    if constexpr (per_word == 1) return a + b;
    return ((a & ~highest()) + (b & ~highest())) ^ ((a ^ b) & highest());
  }
  __device__ static word subtract(word a, word b) {
    if constexpr (per_word == 1) return a - b;
    return ((a | highest()) - (b & ~highest())) ^ ((a ^ ~b) & highest());
  }
  // Applies zigzag, or unzigzag, to each value of a word.
  __device__ static word fold(word d) {
    return (d & ~highest()) << 1 ^ ((d & highest()) >> (value_bits - 1)) * static_cast<bits_t<T>>(~bits_t<T>{0});
  }
  __device__ static word unfold(word z) {
    return (z & ~lowest()) >> 1 ^ (z & lowest()) * static_cast<bits_t<T>>(~bits_t<T>{0});
  }
  __device__ static word last_value(word x) { return x >> (8 * sizeof(word) - value_bits); }

  __device__ static void unfold_all(std::byte* results, uint32_t count) {
#pragma unroll 1
    for (uint32_t j = 0; j < rows && has_row(j, count); ++j) {
      quad x = load(results, j, count);
#pragma unroll
      for (uint32_t i = 0; i < words; ++i) x.w[i] = unfold(x.w[i]);
      store(results, j, count, x);
    }
  }

  // -- sums ------------------------------------------------------------------------------------------------------

  // Replaces each code by the sum of the differences up to it within the 16 bytes.
  __device__ static quad sums(quad x) {
    word before = 0;
#pragma unroll
    for (uint32_t i = 0; i < words; ++i) {
      word sum = unfold(x.w[i]);
      if constexpr (per_word == 4) sum = add(sum, sum << 8);
      if constexpr (per_word >= 2) sum = add(sum, sum << 16);
      x.w[i] = add(sum, before);
      before = repeat(static_cast<bits_t<T>>(last_value(x.w[i])));
    }
    return x;
  }
  __device__ static void add_to_all(quad& x, word value) {
#pragma unroll
    for (uint32_t i = 0; i < words; ++i) x.w[i] = add(x.w[i], repeat(static_cast<bits_t<T>>(value)));
  }

  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI
