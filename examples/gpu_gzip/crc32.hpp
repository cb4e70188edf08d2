// CRC-32 as gzip has it (RFC 1952): a remainder of polynomials over GF(2), which is why pieces can be summed apart.
//
// A word stands for a polynomial below x^32, its highest bit for x^0 and its lowest for x^31. Bytes A before n bytes B:
// the remainder of both is that of A times x^(8n), plus that of B. The CRC also has its first 32 bits and all of its
// own inverted; crc32_combine knows how to leave that alone.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/span.hpp>

#include <array>

namespace gpu_gzip {

inline constexpr uint32_t crc32_polynomial = 0xedb88320;  // x^32 is not in it
inline constexpr uint32_t crc32_one = 0x80000000;         // x^0

// a times x.
TUCK_HD constexpr uint32_t crc32_times_x(uint32_t a) noexcept { return a >> 1 ^ ((0 - (a & 1)) & crc32_polynomial); }

TUCK_HD constexpr uint32_t crc32_multiply(uint32_t a, uint32_t b) noexcept {
  uint32_t product = 0;
  for (int i = 0; i < 32; ++i, a <<= 1, b = crc32_times_x(b)) product ^= (0 - (a >> 31)) & b;
  return product;
}

// x^(8n): what n more bytes multiply a remainder by.
TUCK_HD constexpr uint32_t crc32_shift(uint64_t n) noexcept {
  uint32_t power = crc32_one;
  for (uint32_t square = crc32_one >> 8; n != 0; n /= 2, square = crc32_multiply(square, square))
    if (n % 2 != 0) power = crc32_multiply(power, square);
  return power;
}

// The CRC of bytes whose CRC is `first`, followed by `count` bytes whose CRC is `second`.
TUCK_HD constexpr uint32_t crc32_combine(uint32_t first, uint32_t second, uint64_t count) noexcept {
  return crc32_multiply(first, crc32_shift(count)) ^ second;
}

// The remainder after one byte more.
TUCK_HD constexpr uint32_t crc32_add_byte(uint32_t remainder, uint32_t byte) noexcept {
  remainder ^= byte;
  for (int i = 0; i < 8; ++i) remainder = crc32_times_x(remainder);
  return remainder;
}

namespace detail {

inline constexpr int crc32_slices = 8;

// By slice and byte: the remainder of that byte and as many zero bytes.
inline constexpr auto crc32_tables = [] {
  std::array<std::array<uint32_t, 256>, crc32_slices> of{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = crc32_add_byte(0, byte);
    for (auto& table : of) {
      table[byte] = remainder;
      remainder = crc32_add_byte(remainder, 0);
    }
  }
  return of;
}();

}  // namespace detail

// The CRC of all of `data`, on one thread.
inline uint32_t crc32(tuck::const_bytes data) noexcept {
  const auto& table = detail::crc32_tables;
  uint32_t remainder = ~0u;
  uint64_t i = 0;
  for (; i + detail::crc32_slices <= data.size(); i += detail::crc32_slices) {
    const uint64_t word = tuck::load_unaligned<uint64_t>(data.data() + i) ^ remainder;
    remainder = 0;
    for (int k = 0; k < detail::crc32_slices; ++k)
      remainder ^= table[static_cast<size_t>(detail::crc32_slices - 1 - k)][word >> (8 * k) & 0xff];
  }
  for (; i < data.size(); ++i)
    remainder = remainder >> 8 ^ table[0][(remainder ^ static_cast<uint32_t>(data[i])) & 0xff];
  return ~remainder;
}

}  // namespace gpu_gzip
