// SPDX-License-Identifier: Apache-2.0
// The writer of a string of bits, lowest bit of a byte first.
#pragma once

#include <tuck/core/bits.hpp>

namespace tuck::inline TUCK_ABI {

/// Writes a string of bits into memory that is large enough.
class bit_writer {
 public:
  explicit constexpr bit_writer(std::byte* to) noexcept : begin_(to), to_(to) {}

  /// Appends the low `width` <= 64 bits of x; the bits above them must be 0.
  void put(uint64_t x, uint32_t width) noexcept {
    pending_ |= x << fill_;
    fill_ += width;
    if (fill_ < 64) return;
    store_unaligned(to_, pending_);
    to_ += 8;
    fill_ -= 64;
    pending_ = x >> 1 >> (width - fill_ - 1);
  }
  /// Returns the number of bits written so far.
  uint64_t position() const noexcept { return 8 * static_cast<uint64_t>(to_ - begin_) + fill_; }

  /// Writes the remaining bits, padded with zeros to a byte.
  void finish() noexcept {
    for (uint32_t k = 0; 8 * k < fill_; ++k) to_[k] = static_cast<std::byte>(pending_ >> 8 * k);
  }

 private:
  std::byte* begin_;
  std::byte* to_;
  uint64_t pending_ = 0;
  uint32_t fill_ = 0;  // < 64
};

}  // namespace tuck::inline TUCK_ABI
