// SPDX-License-Identifier: Apache-2.0
// Planes of rests, on one thread. layout.hpp describes them.
#pragma once

#include <tuck/codec/huffman/layout.hpp>

#include <algorithm>
#include <cstring>

namespace tuck::inline TUCK_ABI::huffman_format {

// Returns the lowest K bits of eight bytes, one after the other from the lowest bit on. K is 4, 2 or 1.
template <uint32_t K> constexpr uint64_t squeeze_bytes(uint64_t x) noexcept {
  x &= 0x0101010101010101u * ((1u << K) - 1);
  x |= x >> (8 - K);
  x &= 0x0001000100010001u * ((1u << 2 * K) - 1);
  x |= x >> (16 - 2 * K);
  x &= 0x0000000100000001u * ((1ull << 4 * K) - 1);
  return x | x >> (32 - 4 * K);
}
// Undoes it; bits above the lowest 8 K must be 0.
template <uint32_t K> constexpr uint64_t spread_bytes(uint64_t x) noexcept {
  x = (x | x << (32 - 4 * K)) & 0x0000000100000001u * ((1ull << 4 * K) - 1);
  x = (x | x << (16 - 2 * K)) & 0x0001000100010001u * ((1u << 2 * K) - 1);
  return (x | x << (8 - K)) & 0x0101010101010101u * ((1u << K) - 1);
}

// Rests are converted in blocks of values, by loops that compilers vectorise: nothing that they use is in memory that
// they might write to.
template <class Value> class host_planes {
 public:
  explicit host_planes(const shape& s) noexcept
      : values_(s.values), shift_(s.shift()), whole_(shift_ / 8), partial_(shift_ % 8) {
    for (const uint32_t k : {1u, 2u, 4u, 8u}) plane_bytes_[k] = 4 * size_t{s.plane_words(k)};
  }

  // Writes the rests of numbers to zeroed memory.
  void write(const Value* numbers, std::byte* to) const noexcept {
    const uint32_t upper_shift = 8 * whole_;
    for (uint32_t first = 0; first < values_; first += block) {
      const uint32_t n = (std::min)(values_ - first, block);
      const Value* const __restrict x = numbers + first;
      std::byte* plane = to;
      for (uint32_t b = 0; b < whole_; ++b, plane += plane_bytes_[8]) {
        std::byte* const __restrict out = plane + first;
        for (uint32_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(x[i] >> 8 * b);
      }
      if (partial_ == 0) continue;
      uint8_t upper[block];
      for (uint32_t i = 0; i < n; ++i) upper[i] = static_cast<uint8_t>(x[i] >> upper_shift);
      std::memset(upper + n, 0, (0 - n) % 8);
      for_planes_of_bits<std::byte>(plane, first, [&]<uint32_t K>(std::byte* bits, uint32_t below) {
        for (uint32_t i = 0; i < n; i += 8, bits += K) {
          uint64_t of_eight;
          std::memcpy(&of_eight, upper + i, 8);
          of_eight = squeeze_bytes<K>(of_eight >> below);
          std::memcpy(bits, &of_eight, K);
        }
      });
    }
  }
  // Moves symbols up and adds their rests.
  void add(const std::byte* from, Value* numbers) const noexcept {
    for (uint32_t first = 0; first < values_; first += block) {
      const uint32_t n = (std::min)(values_ - first, block);
      const std::byte* const bytes = from + first;
      uint8_t upper[block + 8] = {};
      for_planes_of_bits<const std::byte>(from + whole_ * plane_bytes_[8], first,
                                          [&]<uint32_t K>(const std::byte* bits, uint32_t below) {
                                            for (uint32_t i = 0; i < n; i += 8, bits += K) {
                                              uint64_t packed = 0, of_eight;
                                              std::memcpy(&packed, bits, K);
                                              std::memcpy(&of_eight, upper + i, 8);
                                              of_eight |= spread_bytes<K>(packed) << below;
                                              std::memcpy(upper + i, &of_eight, 8);
                                            }
                                          });
      Value* const x = numbers + first;
      if (whole_ == 0)
        join<0>(x, n, upper, bytes);
      else if (whole_ == 1)
        join<1>(x, n, upper, bytes);
      else
        join<2>(x, n, upper, bytes);
      for (uint32_t p = 2; p < whole_; ++p) {
        const std::byte* const plane = bytes + p * plane_bytes_[8];
        for (uint32_t i = 0; i < n; ++i)
          x[i] = static_cast<Value>(x[i] | uint64_t{static_cast<uint8_t>(plane[i])} << 8 * p);
      }
    }
  }

 private:
  static constexpr uint32_t block = 512;
  using word = std::conditional_t<sizeof(Value) == 8, uint64_t, uint32_t>;

  // The same for the partial byte and the first Planes planes of bytes.
  template <uint32_t Planes>
  void join(Value* __restrict x, uint32_t n, const uint8_t* __restrict upper, const std::byte* low) const noexcept {
    const uint32_t shift = shift_, up = 8 * whole_ % (8 * sizeof(word));
    const std::byte* const __restrict a = low;
    const std::byte* const __restrict b = Planes > 1 ? low + plane_bytes_[8] : low;
    for (uint32_t i = 0; i < n; ++i) {
      word y = word{x[i]} << shift | word{upper[i]} << up;
      if (Planes > 0) y |= word{static_cast<uint8_t>(a[i])};
      if (Planes > 1) y |= word{static_cast<uint8_t>(b[i])} << 8;
      x[i] = static_cast<Value>(y);
    }
  }
  // Calls f<K>(bits of the values from `first` on, the lower bits of the partial byte) for its planes, which begin at
  // `plane`. Their padding has room for eight values at a time.
  template <class Byte, class F> void for_planes_of_bits(Byte* plane, uint32_t first, const F& f) const noexcept {
    const auto one = [&]<uint32_t K>() {
      if ((partial_ & K) == 0) return;
      f.template operator()<K>(plane + first / 8 * K, partial_ & (8 - 2 * K));
      plane += plane_bytes_[K];
    };
    one.template operator()<4>();
    one.template operator()<2>();
    one.template operator()<1>();
  }

  uint32_t values_, shift_, whole_, partial_;
  size_t plane_bytes_[9] = {};  // of planes of 1, 2, 4 and 8 bits
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
