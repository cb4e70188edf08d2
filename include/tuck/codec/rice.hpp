// SPDX-License-Identifier: Apache-2.0
// Rice codes of gaps, for codecs that store where few of many values are. A gap is the number of values between one of
// them and the one before it, or the beginning. Its lowest r bits are the remainder, the other bits q the quotient in
// unary: q zeros, then a one.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/standard.hpp>

#if defined(TUCK_HOST)
#include <tuck/core/bit_reader.hpp>
#include <tuck/core/bit_writer.hpp>
#endif

namespace tuck::inline TUCK_ABI::rice {

/// Returns r for k of `count` values.
TUCK_HD constexpr uint32_t remainder_bits(uint32_t k, uint32_t count) noexcept {
  return k == 0 ? 0 : tuck::bit_width(31 * (count - k) / (64 * k));
}

#if defined(TUCK_HOST)
/// Writes n zeros and a one.
[[gnu::__always_inline__]] inline void put_unary(bit_writer& out, uint32_t n) noexcept {
  for (; n >= 64; n -= 64) out.put(0, 64);
  out.put(uint64_t{1} << n, n + 1);
}

/// Reads numbers in unary. `end` is the end of the chunk in bits. 16 bytes of zeros must follow the chunk.
class unary_reader {
 public:
  unary_reader(const std::byte* from, uint64_t bit, uint64_t end) noexcept : from_(from), next_(bit), end_(end) {}

  /// Returns the index of the first bit that was not read.
  uint64_t position() const noexcept { return next_ - bits_; }
  /// Returns false if all bits that were not read yet are 0.
  bool get(uint32_t& n) noexcept {
    for (n = 0; pending_ == 0; bits_ = 56, next_ += 56) {
      n += bits_;
      if (next_ >= end_) return false;
      pending_ = bit_window(from_, next_) & ((uint64_t{1} << 56) - 1);
    }
    const auto zeros = static_cast<uint32_t>(std::countr_zero(pending_));
    n += zeros;
    pending_ >>= zeros + 1;
    bits_ -= zeros + 1;
    return true;
  }

 private:
  const std::byte* from_;
  uint64_t next_, end_;
  uint64_t pending_ = 0;
  uint32_t bits_ = 0;  // of pending_
};
#endif

}  // namespace tuck::inline TUCK_ABI::rice
