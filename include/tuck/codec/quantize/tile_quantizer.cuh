// SPDX-License-Identifier: Apache-2.0
// Quantizes the values of a tile by one thread block, and writes its exceptions to the side stream.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/quantize/quantize.hpp>
#include <tuck/core/block_reduce.cuh>

namespace tuck::inline TUCK_ABI {

/// 16 bytes as a shift register: values enter at the top and leave at the bottom, because registers cannot be indexed.
template <element T> struct long_row {
  using bits = bits_t<T>;
  uint64_t low = 0, high = 0;

  long_row() = default;
  __device__ explicit long_row(const device::vec128& x)
      : low(x.w[0] | static_cast<uint64_t>(x.w[1]) << 32), high(x.w[2] | static_cast<uint64_t>(x.w[3]) << 32) {}
  __device__ bits next() const { return static_cast<bits>(low); }
  __device__ bits push(bits value) {
    constexpr int size = 8 * sizeof(T);
    const bits out = next();
    if constexpr (size == 64) {
      low = high;
      high = value;
    } else {
      low = low >> size | high << (64 - size);
      high = high >> size | static_cast<uint64_t>(value) << (64 - size);
    }
    return out;
  }
  /// Pushes the value if `one` is true. Otherwise pushes the value that leaves at the bottom.
  __device__ void replace(bool one, bits value) {
    const bits out = push(value);
    if (one) return;
    constexpr int size = 8 * sizeof(T);
    high = (size == 64 ? 0 : high << size % 64 >> size % 64) | static_cast<uint64_t>(out) << (64 - size);
  }
  __device__ device::vec128 row() const {
    return {{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
             static_cast<uint32_t>(high >> 32)}};
  }
};

/// Converts two values of a 16-bit type to the bits of two f32.
template <floating_element T> __device__ void widen_two(uint32_t x, uint32_t& low, uint32_t& high) {
  const auto widen = [](uint32_t half) { return bits_of(float_format<T>::widen(static_cast<uint16_t>(half))); };
  low = widen(x);
  high = dtype_of<T> == dtype::bf16 ? x & 0xffff0000u : widen(x >> 16);
}

/// Quantizes a tile, for the block codecs of quantize and quantize_codes.
template <floating_element T, int Threads> class tile_quantizer {
 public:
  using tile = block_tile<T, Threads>;

 private:
  using format = float_format<T>;
  using real = typename format::real;
  using bits = bits_t<T>;
  using word = typename step_quantizer<T>::word;
  using steps = step_quantizer<T>;
  using side = quantize_side<T>;
  template <uint32_t N> using word_array = word[N];
  using marks = std::conditional_t<(tile::capacity / Threads > 32), uint64_t, uint32_t>;  // a bit per value of a thread

  using of_warps = device::block_reduce<Threads>;
  static constexpr uint32_t lane_values = tile::lane_values;  // values of a thread in a row
  static_assert(Threads >= 128, "tuck: quantize is encoded and decoded by 128 threads or more");

 public:
  struct TempStorage {
    typename of_warps::TempStorage of_warp;  // exponents, then numbers of exceptions
    device::uninitialized<steps> quantizer;  // used by 16-bit types only
  };

  __device__ explicit tile_quantizer(TempStorage& temp) : temp_(temp) {}

  /// Calls visit(quantizer). The codec must be usable. Has a barrier.
  template <class Visit>
  __device__ void with_quantizer(const quantize<T>& codec, uint32_t exponent, const Visit& visit) {
    if (codec.pointwise()) return visit(codec.mantissas(exponent));
    if constexpr (sizeof(T) == 2) {
      if (threadIdx.x == 0) temp_.quantizer.get() = codec.steps(exponent);
      device::sync_block();
      visit(temp_.quantizer.get());
    } else {
      visit(codec.steps(0));
    }
  }

  /// Returns the exponent of the chunk, see quantizer.hpp. Has a barrier if the chunk has an exponent.
  __device__ uint32_t find_exponent(const quantize<T>& codec, const tile& values) {
    if (!codec.has_exponent()) return 0;
    bits largest = 0;
    if constexpr (sizeof(T) == 2) {
      uint32_t both = 0;
#pragma unroll
      for (int j = 0; j < tile::words; ++j) both = device::most_pair(both, values.w[j] & 0x7fff7fffu);
      largest = static_cast<bits>(both >> 16 > (both & 0xffffu) ? both >> 16 : both);
    }
    if (codec.pointwise() || largest >= format::infinity) {
      largest = 0;
#pragma unroll
      for (int r = 0; r < tile::rows; ++r) {
        long_row<T> row(values.row(r));
#pragma unroll 1
        for (uint32_t k = 0; k < lane_values; ++k) {
          const bits rank = codec.rank(row.push(0));
          largest = rank > largest ? rank : largest;
        }
      }
    }
    const uint32_t all = of_warps::largest(temp_.of_warp, static_cast<uint32_t>(largest >> format::mantissa_bits));
    return codec.exponent_of(static_cast<bits>(bits{static_cast<bits>(all)} << format::mantissa_bits));
  }

  /// Calls store(r, codes, restored) for the 16 bytes of this thread in each row, and finds the exceptions.
  template <class Quantizer, class Store>
  __device__ void quantize_rows(const Quantizer& quantizer, const tile& values, const Store& store) {
    exceptional_ = 0;
#pragma unroll
    for (int r = 0; r < tile::rows; ++r) {
      const device::vec128 x = values.row(r);
      device::vec128 codes{}, restored{};
      bool plain = false;
      if constexpr (std::is_same_v<Quantizer, steps>) plain = quantize_plain(quantizer, x, codes, restored);
      if (!plain) exceptional_ |= static_cast<marks>(quantize_any(quantizer, x, codes, restored)) << (r * lane_values);
      store(static_cast<uint32_t>(r), codes, restored);
    }
  }
  /// Returns the number of exceptions of the block to all threads. Has barriers.
  __device__ uint32_t count_exceptions() {
    if (!device::sync_block_or(exceptional_ != 0)) return 0;
    const uint64_t all{exceptional_};
    const uint32_t own =
        device::warp_sum(popcount(static_cast<uint32_t>(all)) + popcount(static_cast<uint32_t>(all >> 32)));
    return device::warp_sum(of_warps::exchange(temp_.of_warp, own));
  }

  /// Writes the side stream after a barrier: the exponent and `exceptions` values. `to` is a multiple of 4 in shared
  /// memory that is zero. The value_of of `values` returns the exceptions.
  template <class Values>
  __device__ void write_side(const side& layout, std::byte* to, uint32_t exponent, uint32_t exceptions,
                             const Values& values) const {
    if (layout.positions != 0 && threadIdx.x == 0) *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(exponent);
    if (exceptions == 0) return;
    // Positions ascend with the warp, the row, the lane, and the offset in the 16 bytes of the lane.
    uint32_t next = of_warps::sum_before(of_warps::get(temp_.of_warp));
#pragma unroll
    for (int r = 0; r < tile::rows; ++r) {
      const auto mine = static_cast<uint32_t>(exceptional_ >> (r * lane_values)) & low_mask(lane_values);
      const uint32_t up_to = device::warp_inclusive_sum(popcount(mine));
      uint32_t at = next + up_to - popcount(mine);
      next += device::shfl(up_to, device::warp_size - 1);
#pragma unroll 1
      for (uint32_t left = mine; left != 0; left &= left - 1) {
        const uint32_t k = trailing_zeros(left);
        reinterpret_cast<uint16_t*>(to + layout.positions)[at] =
            static_cast<uint16_t>(tile::first_value(r * tile::row_words) + k);
        put(to + layout.values(exceptions) + at++ * sizeof(T), values.value_of(r, k));
      }
    }
  }

  /// Returns the exponent of a side stream in shared memory.
  __device__ static uint32_t exponent(const side& layout, const std::byte* of_side) {
    return layout.positions != 0 ? *reinterpret_cast<const uint16_t*>(of_side) : 0;
  }
  /// Returns to all threads whether the positions ascend and are below `count`. Has a barrier.
  __device__ static bool are_sound(const uint16_t* position, uint32_t exceptions, uint32_t count) {
    bool sound = true;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < exceptions; i += Threads)
      sound &= position[i] < count && (i == 0 || position[i - 1] < position[i]);
    return !device::sync_block_or(!sound);
  }

  /// Writes `restored` to row r of the tile, except for the exceptions, which keep their values.
  __device__ void keep_exceptions(int r, const device::vec128& restored, tile& values) const {
    const auto mine = static_cast<uint32_t>(exceptional_ >> (r * lane_values)) & low_mask(lane_values);
    if (mine == 0) return values.set_row(r, restored);
    long_row<T> kept(values.row(r)), row(restored);
#pragma unroll 1
    for (uint32_t k = 0; k < lane_values; ++k) row.replace((mine >> k & 1) != 0, kept.push(0));
    values.set_row(r, row.row());
  }

  /// Returns the values that 16 bytes of codes stand for. Those of a step_quantizer are shifted: `zero` is added.
  template <class Quantizer, uint32_t N>
  __device__ static device::vec128 values_of(const Quantizer& quantizer, const word_array<N>& codes) {
    word x[N];
#pragma unroll
    for (uint32_t i = 0; i < N; ++i) {
      if constexpr (!std::is_same_v<Quantizer, steps>)
        x[i] = quantizer.value(codes[i]);
      else if constexpr (sizeof(T) == 2)  // uses the low 16 bits of a code
        x[i] = quantizer.wide_value(device::byte_perm(codes[i], steps::least, 0x7610));
      else
        x[i] = quantizer.wide_value(codes[i]);
    }
    if constexpr (std::is_same_v<Quantizer, steps> && sizeof(T) == 2)
      return {{format::narrow_two(x[0], x[1]), format::narrow_two(x[2], x[3]), format::narrow_two(x[4], x[5]),
               format::narrow_two(x[6], x[7])}};
    else
      return tile::row_of(x);
  }
  /// Returns the values that 16 bytes of codes of a chain stand for. The codes may be any bit patterns.
  template <class Quantizer>
  __device__ static device::vec128 restored(const Quantizer& quantizer, const device::vec128& codes) {
    word x[lane_values];
#pragma unroll
    for (uint32_t i = 0; i < lane_values; ++i) {
      if constexpr (sizeof(T) == 8)
        x[i] = device::join_words(codes.w[2 * i], codes.w[2 * i + 1]);
      else
        x[i] = codes.w[i * sizeof(T) / 4] >> 8 * sizeof(T) * i % 32;
      if constexpr (std::is_same_v<Quantizer, steps>)
        x[i] = sizeof(T) == 2 ? x[i] ^ (steps::zero & 0xffffu) : steps::from_chain(x[i]) + steps::zero;
    }
    return values_of(quantizer, x);
  }
  /// Returns the 16 bytes of this thread in row r of values or codes in shared memory, at a multiple of 16. Their order
  /// is that of the chunk, so a warp has consecutive rows, as in a block_tile.
  __device__ static device::vec128& row_at(std::byte* row, int r) {
    return reinterpret_cast<device::vec128*>(row + tile::first_value() * sizeof(T))[r * device::warp_size];
  }

  // -- a value in shared memory, at a multiple of sizeof(T) or of 4
  __device__ static void put(std::byte* to, bits value) {
    if constexpr (sizeof(T) == 8) {
      reinterpret_cast<uint32_t*>(to)[0] = static_cast<uint32_t>(value);
      reinterpret_cast<uint32_t*>(to)[1] = static_cast<uint32_t>(value >> 32);
    } else {
      *reinterpret_cast<bits*>(to) = value;
    }
  }
  __device__ static bits get(const std::byte* from) {
    if constexpr (sizeof(T) == 8)
      return reinterpret_cast<const uint32_t*>(from)[0] |
             static_cast<uint64_t>(reinterpret_cast<const uint32_t*>(from)[1]) << 32;
    else
      return *reinterpret_cast<const bits*>(from);
  }

 private:
  // Computes step_quantizer::code for all values. Returns false if there is an exception; the outputs are then invalid.
  __device__ static bool quantize_plain(const steps& quantizer, const device::vec128& x, device::vec128& codes,
                                        device::vec128& restored) {
    if constexpr (sizeof(T) == 8) {
      const uint64_t inverse = bits_of(quantizer.inverse), step = bits_of(quantizer.step);
      bool special = false;
      uint64_t beyond = 0;
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const uint64_t value = device::join_words(x.w[2 * k], x.w[2 * k + 1]);
        const auto one = steps::nearest_to(value, inverse, step);
        special |= format::magnitude(exact::sub(value, one.product)) > bits_of(quantizer.tolerance);
        beyond |= one.shifted ^ steps::least;
        device::split_words(one.shifted - steps::zero, codes.w[2 * k], codes.w[2 * k + 1]);
        device::split_words(one.product, restored.w[2 * k], restored.w[2 * k + 1]);
      }
      return !special && beyond < steps::codes;
    } else {
      const uint32_t inverse = bits_of(quantizer.inverse), step = bits_of(quantizer.step);
      uint32_t beyond = 0;
      bool special = false;
#pragma unroll
      for (int first = 0; first < static_cast<int>(lane_values); first += 4) {
        uint32_t wide[4], back[4], error[4], shifted[4];
        if constexpr (sizeof(T) == 2) {
          widen_two<T>(x.w[first / 2], wide[0], wide[1]);
          widen_two<T>(x.w[first / 2 + 1], wide[2], wide[3]);
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          if constexpr (sizeof(T) == 4) wide[k] = x.w[k];
          const auto one = steps::nearest_to(wide[k], inverse, step);
          shifted[k] = one.shifted;
          back[k] = one.product;
        }
        beyond = device::or_differences<steps::least>(beyond, shifted);
        if constexpr (sizeof(T) == 2) {
#pragma unroll
          for (int k = 0; k < 4; k += 2) {
            const int w = (first + k) / 2;
            codes.w[w] = device::byte_perm(shifted[k], shifted[k + 1], 0x5410) ^ (steps::zero & 0xffffu) * 0x10001u;
            // Of NaN any number: the error is NaN all the same, which is above the tolerance.
            restored.w[w] = format::narrow_two(back[k], back[k + 1]);
            widen_two<T>(restored.w[w], back[k], back[k + 1]);
          }
        } else {
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            codes.w[k] = shifted[k] - steps::zero;
            restored.w[k] = back[k];
          }
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) error[k] = exact::sub(wide[k], back[k]);
        special |= device::any_above(error, bits_of(quantizer.tolerance));
      }
      return !special && beyond < steps::codes;
    }
  }

  // Quantizes any values one by one. Returns one bit per value that is set for exceptions.
  template <class Quantizer>
  __device__ static uint32_t quantize_any(const Quantizer& quantizer, const device::vec128& x, device::vec128& codes,
                                          device::vec128& restored) {
    uint32_t exceptions = 0;
    long_row<T> row(x), back;
#pragma unroll 1
    for (uint32_t k = 0; k < lane_values; ++k) {
      const auto one = quantizer.code(word{row.next()});
      row.push(static_cast<bits>(one.code));
      back.push(static_cast<bits>(one.restored));
      exceptions |= (one.holds != 0 ? 0u : 1u) << k;
    }
    codes = row.row();
    restored = back.row();
    return exceptions;
  }

  TempStorage& temp_;
  marks exceptional_ = 0;  // one bit per value of this thread
};

}  // namespace tuck::inline TUCK_ABI
