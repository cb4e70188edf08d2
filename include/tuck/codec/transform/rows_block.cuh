// SPDX-License-Identifier: Apache-2.0
// Rows by one thread block. It writes the results of rows.hpp.
//
// Let x be the step from a value to the one a row above. Form 0 multiplies the values by 1 + x, over the field of two
// elements. Its inverse is 1 / (1 + x) = (1 + x)(1 + x^2)(1 + x^4) ..., up to the first power that is longer than the
// chunk. So the same function undoes the XOR: with rows of N, 2 N, 4 N, ... values.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/transform/rows.hpp>

namespace tuck::inline TUCK_ABI {

/// Block transform of rows; block.cuh documents the members.
template <element T, int Threads> class block_transform<rows<T>, Threads> {
  static constexpr uint32_t group = 8;  // words of a thread between two barriers

 public:
  struct TempStorage {
    uint32_t gained;
  };

  __device__ explicit block_transform(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t apply(const rows<T>& x, std::byte* values, uint32_t count) const {
    const uint32_t form = choose_form(x, values, count);
    if (form == rows<T>::exclusive_or) add_above(values, x.length(), count);
    return form;
  }
  __device__ uint32_t choose_form(const rows<T>& x, const std::byte* from, uint32_t count) const {
    if (threadIdx.x == 0) temp_.gained = 0;
    device::sync_block();
    const auto* const values = reinterpret_cast<const bits_t<T>*>(from);
    uint32_t gained = 0;
    if (x.length() < count)
#pragma unroll 1
      for (uint32_t i = x.length() + threadIdx.x; i < count; i += Threads)
        gained += rows<T>::gain(values[i], values[i - x.length()]);
    gained = device::warp_sum(gained);
    if (device::lane_id() == 0) device::atomic_add(&temp_.gained, gained);
    device::sync_block();
    return rows<T>::form_of(temp_.gained, count);
  }

  __device__ void apply(const rows<T>& x, std::byte* values, uint32_t count, uint32_t form) const {
    if (form == rows<T>::exclusive_or) add_above(values, x.length(), count);
  }
  __device__ void invert(const rows<T>& x, std::byte* results, uint32_t count, uint32_t form) const {
    if (form != rows<T>::exclusive_or) return;
#pragma unroll 1
    for (uint32_t length = x.length(); length != 0 && length < count; length *= 2) {
      add_above(results, length, count);
      device::sync_block();
    }
  }

 private:
  // XORs each value with the value `length` before it. Works on words, the highest first: a group of words reads what
  // lies below it before it is written.
  __device__ static void add_above(std::byte* values, uint32_t length, uint32_t count) {
    if (length >= count) return;
    auto* const words = reinterpret_cast<uint32_t*>(values);
    constexpr uint32_t at_a_time = group * Threads;
    const uint32_t distance = length * uint32_t{sizeof(T)}, back = distance / 4, shift = 8 * (distance % 4);
    const uint32_t end = ceil_div(count * uint32_t{sizeof(T)}, 4u);
#pragma unroll 1
    for (uint32_t first = (end - 1) / at_a_time * at_a_time; first + at_a_time > back; first -= at_a_time) {
      uint32_t above[group];
#pragma unroll
      for (uint32_t j = 0; j < group; ++j) {
        const uint32_t at = first + j * Threads + threadIdx.x;
        const bool has_above = at >= back && at < end;
        above[j] = has_above ? words[at - back] : 0;
        if constexpr (sizeof(T) < 4) {
          const uint32_t before = has_above && at > back ? words[at - back - 1] : 0;
          above[j] = static_cast<uint32_t>(device::join_words(before, above[j]) << shift >> 32);
        }
      }
      device::sync_block();
#pragma unroll
      for (uint32_t j = 0; j < group; ++j)
        if (const uint32_t at = first + j * Threads + threadIdx.x; at >= back && at < end) words[at] ^= above[j];
      if (first == 0) break;
    }
  }

  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI
