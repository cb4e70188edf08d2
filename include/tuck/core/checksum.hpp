// Checksums that many threads can compute in any order.
//
// Data are read as 32-bit little-endian words w[0], w[1], ..., the last one padded with zero bytes. The sum of
// key(i) * w[i] modulo 2^64 is a plain addition, so blocks add their shares in any order. Keys are odd numbers of 32
// bits (word_keys in core/cpu_windows.hpp):
//
//   place(i) = floor(i / 4) * 0x9e3779b97f4a7c15 + 0xd6e8feb86659fd93 modulo 2^64
//   key(i) = ((low half of place XOR its high half) OR 1) * {1, 0xcc9e2d53, 0x85ebca6b, 0x1b873593}[i % 4] modulo 2^32
//
// The digest is a permutation of the sum, for each number of bytes another one. The sum is linear in the words. The
// keys are not linear in their places, nor is a tensor's digest in those of its chunks.
//
// A change of a single word always changes the digest. Any other leaves it with a probability of about 2^-32 where few
// words change by small powers of two, and of 2^-64 where more does. Keys are known: it finds accidents, not forgers.
#pragma once

#include <tuck/core/cpu.hpp>
#include <tuck/core/span.hpp>

#include <algorithm>

namespace tuck::inline TUCK_ABI {

namespace detail {

// Mixes the bits of x; a permutation.
TUCK_HD constexpr uint64_t mix(uint64_t x) noexcept {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  x = (x ^ (x >> 29)) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 32);
}

}  // namespace detail

struct word_sum {
  uint64_t sum = 0;

  // Adds the word at `index` of the data. An index may be added once, in any order.
  TUCK_HD constexpr void add(uint32_t word, uint64_t index) noexcept {
    sum += uint64_t{detail::word_keys::of(index)} * word;
  }
  TUCK_HD constexpr word_sum& operator+=(const word_sum& other) noexcept {
    sum += other.sum;
    return *this;
  }
};

// The words of `data` (bytes), its first one having index `first_index`, a multiple of 4.
TUCK_HD inline word_sum sum_words(const_bytes data, uint64_t first_index = 0) noexcept {
  word_sum all;
  const uint64_t words = data.size() / 4;
  uint64_t done = 0;
#if defined(TUCK_AVX2) || defined(TUCK_NEON)
  if (words >= 64) {  // a header has fewer
    constexpr uint64_t round = 32;
    detail::on_cpu([&]<class Cpu>(Cpu) { all.sum = Cpu::sum_words(data.data(), words / round, first_index / 4); });
    done = words / round * round;
  }
#endif
  for (uint64_t i = done; i < words; ++i) all.add(load_unaligned<uint32_t>(data.data() + 4 * i), first_index + i);
  if (const uint64_t tail = data.size() % 4; tail != 0) {
    uint32_t word = 0;
    std::memcpy(&word, data.data() + 4 * words, tail);
    all.add(word, first_index + words);
  }
  return all;
}

// The digest of `size` bytes with this sum.
TUCK_HD constexpr uint64_t digest(const word_sum& all, uint64_t size) noexcept {
  return detail::mix(all.sum ^ size * 0x9e3779b97f4a7c15u);
}

TUCK_HD inline uint64_t checksum(const_bytes data) noexcept { return digest(sum_words(data), data.size()); }

// What chunk `i` of a tensor, of this checksum, adds to the tensor's digest, which is the sum over all chunks. It is no
// linear function of the checksum, so that changes in several chunks cannot make up for each other.
TUCK_HD constexpr uint64_t share_of_digest(uint64_t checksum, uint64_t i) noexcept {
  return detail::mix(checksum ^ (i + 1) * 0xd6e8feb86659fd93u);
}

// The digest of a tensor in chunks of so many bytes; that of no values is 0.
inline uint64_t tensor_digest(const_bytes values, uint64_t chunk_bytes) noexcept {
  uint64_t all = 0;
  for (uint64_t at = 0; at < values.size(); at += chunk_bytes)
    all += share_of_digest(checksum(values.subspan(at, std::min(chunk_bytes, values.size() - at))), at / chunk_bytes);
  return all;
}

}  // namespace tuck::inline TUCK_ABI
