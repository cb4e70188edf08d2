// Strings of bits in little-endian words, lowest bit first.
#pragma once

#include <tuck/core/bits.hpp>

namespace tuck::inline TUCK_ABI {

// Writes 64 bits at a time into memory that is long enough.
class bit_writer {
 public:
  explicit constexpr bit_writer(std::byte* to) noexcept : begin_(to), to_(to) {}

  // The low `width` <= 64 bits of x; those above them are 0.
  void put(uint64_t x, uint32_t width) noexcept {
    pending_ |= x << fill_;
    fill_ += width;
    if (fill_ < 64) return;
    store_unaligned(to_, pending_);
    to_ += 8;
    fill_ -= 64;
    pending_ = x >> 1 >> (width - fill_ - 1);
  }
  uint64_t position() const noexcept { return 8 * static_cast<uint64_t>(to_ - begin_) + fill_; }  // bits so far

  // The rest of them, filled up with zeros to a word, or only to a byte.
  void finish() noexcept {
    if (fill_ != 0) store_unaligned(to_, static_cast<uint32_t>(pending_));
    if (fill_ > 32) store_unaligned(to_ + 4, static_cast<uint32_t>(pending_ >> 32));
  }
  void finish_bytes() noexcept {
    for (uint32_t k = 0; 8 * k < fill_; ++k) to_[k] = static_cast<std::byte>(pending_ >> 8 * k);
  }

 private:
  std::byte* begin_;
  std::byte* to_;
  uint64_t pending_ = 0;
  uint32_t fill_ = 0;  // < 64
};

}  // namespace tuck::inline TUCK_ABI
