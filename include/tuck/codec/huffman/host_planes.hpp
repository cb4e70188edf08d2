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

// Rests are converted in blocks of values, by loops that compilers vectorise.
class host_planes {
 public:
  explicit host_planes(const shape& s) noexcept : s_(s) {}

  // Writes the rests of numbers to zeroed memory.
  template <class Value> void write(const Value* numbers, std::byte* to) const noexcept {
    for (uint32_t first = 0; first < s_.values; first += block) {
      const uint32_t n = std::min(s_.values - first, block);
      const Value* const x = numbers + first;
      uint8_t upper[block];
      if (partial() != 0)
        for (uint32_t i = 0; i < n; ++i) upper[i] = static_cast<uint8_t>(x[i] >> 8 * whole());
      std::memset(upper + n, 0, (0 - n) % 8);
      std::byte* plane = to;
      for (uint32_t b = s_.dropped(); b < whole(); ++b, plane += 4 * size_t{s_.plane_words(8)})
        for (uint32_t i = 0; i < n; ++i) plane[first + i] = static_cast<std::byte>(x[i] >> 8 * b);
      plane = write_bits<4>(upper, first, n, plane);
      plane = write_bits<2>(upper, first, n, plane);
      write_bits<1>(upper, first, n, plane);
    }
  }
  // Moves symbols up and adds their rests.
  template <class Value> void add(const std::byte* from, Value* numbers) const noexcept {
    const uint32_t shift = s_.shift();
    for (uint32_t first = 0; first < s_.values; first += block) {
      const uint32_t n = std::min(s_.values - first, block);
      Value* const x = numbers + first;
      for (uint32_t i = 0; i < n; ++i) x[i] = static_cast<Value>(uint64_t{x[i]} << shift);
      const std::byte* plane = from;
      for (uint32_t b = s_.dropped(); b < whole(); ++b, plane += 4 * size_t{s_.plane_words(8)})
        for (uint32_t i = 0; i < n; ++i)
          x[i] = static_cast<Value>(x[i] | uint64_t{static_cast<uint8_t>(plane[first + i])} << 8 * b);
      if (partial() == 0) continue;
      uint8_t upper[block] = {};
      plane = add_bits<4>(plane, first, n, upper);
      plane = add_bits<2>(plane, first, n, upper);
      add_bits<1>(plane, first, n, upper);
      for (uint32_t i = 0; i < n; ++i) x[i] = static_cast<Value>(x[i] | uint64_t{upper[i]} << 8 * whole());
    }
  }

 private:
  static constexpr uint32_t block = 512;

  uint32_t whole() const noexcept { return s_.shift() / 8; }  // bytes
  uint32_t partial() const noexcept { return s_.shift() % 8; }
  // The bits of the partial byte that are below those of the plane of K bits.
  template <uint32_t K> uint32_t below() const noexcept { return partial() & (8 - 2 * K); }

  template <uint32_t K>
  std::byte* write_bits(const uint8_t* upper, uint32_t first, uint32_t n, std::byte* plane) const noexcept {
    if ((partial() & K) == 0) return plane;
    uint8_t packed[block / 8 * K];
    for (uint32_t i = 0; i < n; i += 8) {
      uint64_t x;
      std::memcpy(&x, upper + i, 8);
      x = squeeze_bytes<K>(x >> below<K>());
      std::memcpy(packed + i / 8 * K, &x, K);
    }
    std::memcpy(plane + first / 8 * K, packed, ceil_div(n * K, 8u));
    return plane + 4 * size_t{s_.plane_words(K)};
  }
  template <uint32_t K>
  const std::byte* add_bits(const std::byte* plane, uint32_t first, uint32_t n, uint8_t* upper) const noexcept {
    if ((partial() & K) == 0) return plane;
    uint8_t packed[block / 8 * K];
    std::memcpy(packed, plane + first / 8 * K, ceil_div(n * K, 8u));
    for (uint32_t i = 0; i < n; i += 8) {
      uint64_t bits = 0, x;
      std::memcpy(&bits, packed + i / 8 * K, K);
      std::memcpy(&x, upper + i, 8);
      x |= spread_bytes<K>(bits) << below<K>();
      std::memcpy(upper + i, &x, 8);
    }
    return plane + 4 * size_t{s_.plane_words(K)};
  }

  const shape& s_;
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
