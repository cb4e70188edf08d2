// A checksum that many threads can compute in any order.
//
// Data are read as 32-bit little-endian words w[0], w[1], ..., the last one padded with zero bytes. Two sums
// are kept: sum of w[i] modulo 2^32, and sum of (i + 1) * w[i] modulo 2^64. Both are plain additions, so blocks
// add their shares in any order, at two instructions a word. A change of a single word always changes the
// first sum and thus the digest. Not cryptographic: it finds accidents, not forgers.
#pragma once

#include <tuck/core/cpu.hpp>
#include <tuck/core/span.hpp>

namespace tuck::inline TUCK_ABI {

struct word_sums {
  uint32_t plain = 0;
  uint64_t weighted = 0;

  // Adds the word at `index` of the data. An index may be added once, in any order.
  TUCK_HD constexpr void add(uint32_t word, uint64_t index) noexcept {
    plain += word;
    weighted += (index + 1) * word;
  }
  TUCK_HD constexpr word_sums& operator+=(const word_sums& other) noexcept {
    plain += other.plain;
    weighted += other.weighted;
    return *this;
  }
};

// The words of `data` (bytes), its first one having index `first_index`.
TUCK_HD inline word_sums sum_words(const_bytes data, uint64_t first_index = 0) noexcept {
  word_sums sums;
  const uint64_t words = data.size() / 4;
  uint64_t done = 0;
#if defined(TUCK_AVX2) || defined(TUCK_NEON)
  if (words >= 64) {  // a header has fewer
    uint64_t plain = 0;
    detail::on_cpu([&]<class Cpu>(Cpu) { Cpu::sum_words(data.data(), words / 8, plain, sums.weighted); });
    sums.plain = static_cast<uint32_t>(plain);
    sums.weighted += (first_index + 1) * plain;
    done = words / 8 * 8;
  }
#endif
  for (uint64_t i = done; i < words; ++i) sums.add(load_unaligned<uint32_t>(data.data() + 4 * i), first_index + i);
  if (const uint64_t tail = data.size() % 4; tail != 0) {
    uint32_t word = 0;
    std::memcpy(&word, data.data() + 4 * words, tail);
    sums.add(word, first_index + words);
  }
  return sums;
}

// The digest of `size` bytes with these sums:
//   [63:32] plain sum / [31:0] weighted sum and size, mixed
TUCK_HD constexpr uint64_t digest(const word_sums& sums, uint64_t size) noexcept {
  const uint64_t mixed = (sums.weighted ^ (size * 0xd6e8feb86659fd93u)) * 0x9e3779b97f4a7c15u;
  return (uint64_t{sums.plain} << 32) | (mixed >> 32);
}

TUCK_HD inline uint64_t checksum(const_bytes data) noexcept { return digest(sum_words(data), data.size()); }

}  // namespace tuck::inline TUCK_ABI
