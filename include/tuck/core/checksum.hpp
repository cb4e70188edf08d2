// SPDX-License-Identifier: Apache-2.0
// Checksums that many threads can compute in any order.
//
// Data are read as 32-bit little-endian words w[0], w[1], ..., the last one padded with zero bytes. The digest of
// `size` bytes is
//
//   seed(i) = floor(i / 4) * 0x9e3779b97f4a7c15 + 0xd6e8feb86659fd93                    modulo 2^64
//   key(i)   = ((low half of seed(i) XOR its high half) OR 1)
//              * {1, 0xcc9e2d53, 0x85ebca6b, 0x1b873593}[i % 4]                           modulo 2^32
//   sum      = sum of key(i) * w[i]                                                       modulo 2^64
//   digest   = mix(sum XOR (size * 0x9e3779b97f4a7c15 modulo 2^64))
//
// `mix` is below; keys are odd (core/word_keys.hpp). The sum is a plain addition, so blocks add their
// parts in any order. For each size, the digest is a permutation of the sum.
//
// The sum is linear in the words. Keys are not linear in the index of their word, and the digest of a tensor is not
// linear in the digests of its chunks.
//
// A change of a single word always changes the digest. Any other change goes unnoticed with a probability of about
// 2^-32 if few words change, each by a small power of two, and of 2^-64 if more changes. Keys are public: the digest
// finds accidental damage and does not protect against forgery.
#pragma once

#include <tuck/core/span.hpp>
#include <tuck/core/word_keys.hpp>

#if defined(TUCK_HOST)
#include <tuck/core/cpu.hpp>
#endif

namespace tuck::inline TUCK_ABI {

namespace detail {

// Mixes the bits of x; a permutation.
TUCK_HD constexpr uint64_t mix(uint64_t x) noexcept {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  x = (x ^ (x >> 29)) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 32);
}

}  // namespace detail

/// The sum of the keyed words of some data. Sums of disjoint parts add up to the sum of the whole.
struct word_sum {
  uint64_t sum = 0;  ///< modulo 2^64

  /// Adds word `index` of the data. Each index may be added once, in any order.
  TUCK_HD constexpr void add(uint32_t word, uint64_t index) noexcept {
    sum += uint64_t{detail::word_keys::of(index)} * word;
  }
  /// Adds the sum of another part of the same data.
  TUCK_HD constexpr word_sum& operator+=(const word_sum& other) noexcept {
    sum += other.sum;
    return *this;
  }
};

/// Sums the words of `data`, whose first word has index `first_index`, a multiple of 4.
TUCK_HD inline word_sum sum_words(const_bytes data, uint64_t first_index = 0) noexcept {
  word_sum all;
  const uint64_t words = data.size() / 4;
  uint64_t done = 0;
#if defined(TUCK_AVX2) || defined(TUCK_NEON)
  if (words >= 64) {  // a header has fewer
    constexpr uint64_t round = 32;
    detail::on_cpu([&]<class Cpu>(Cpu) { all.sum = Cpu::sum_words(data.data(), words / round, first_index / 4); });
    done = words / round * round;
  } else if (first_index == 0) {
    for (; done < words && done < detail::first_word_keys.size(); ++done)
      all.sum += uint64_t{detail::first_word_keys[done]} * load_unaligned<uint32_t>(data.data() + 4 * done);
  }
#endif
  for (; done + 4 <= words; done += 4) {
    const uint32_t key = detail::word_keys::of_four((first_index + done) / 4);
    for (uint32_t k = 0; k < 4; ++k)
      all.sum +=
          uint64_t{key * detail::word_keys::multiple(k)} * load_unaligned<uint32_t>(data.data() + 4 * (done + k));
  }
  for (; done < words; ++done) all.add(load_unaligned<uint32_t>(data.data() + 4 * done), first_index + done);
  if (const uint64_t tail = data.size() % 4; tail != 0) {
    uint32_t word = 0;
    std::memcpy(&word, data.data() + 4 * words, tail);
    all.add(word, first_index + words);
  }
  return all;
}

/// Returns the digest of `size` bytes whose words have this sum.
TUCK_HD constexpr uint64_t digest(const word_sum& all, uint64_t size) noexcept {
  return detail::mix(all.sum ^ size * 0x9e3779b97f4a7c15u);
}

/// Returns the digest of `data`.
TUCK_HD inline uint64_t checksum(const_bytes data) noexcept { return digest(sum_words(data), data.size()); }

/// Returns what chunk `i` of a tensor adds to the digest of the tensor. It is not linear in the checksum, so changes in
/// several chunks do not cancel out.
/// @param checksum  the digest of the chunk
TUCK_HD constexpr uint64_t share_of_digest(uint64_t checksum, uint64_t i) noexcept {
  return detail::mix(checksum ^ (i + 1) * 0xd6e8feb86659fd93u);
}

/// Returns the digest of a tensor: the sum of share_of_digest over its chunks, modulo 2^64. It depends on
/// `chunk_bytes`, the bytes of a chunk; the last chunk may be shorter. Without values it is 0.
TUCK_HD inline uint64_t tensor_digest(const_bytes values, uint64_t chunk_bytes) noexcept {
  uint64_t all = 0;
  for (uint64_t at = 0; at < values.size(); at += chunk_bytes) {
    const uint64_t left = values.size() - at;
    all += share_of_digest(checksum(values.subspan(at, left < chunk_bytes ? left : chunk_bytes)), at / chunk_bytes);
  }
  return all;
}

}  // namespace tuck::inline TUCK_ABI
