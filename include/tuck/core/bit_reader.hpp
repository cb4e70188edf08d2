// SPDX-License-Identifier: Apache-2.0
// Readers of a string of bits, lowest bit of a byte first.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/span.hpp>

namespace tuck::inline TUCK_ABI {

#if defined(TUCK_HOST)
/// Returns 57 bits or more from bit `bit` on, and zeros above them. Reads 8 bytes.
inline uint64_t bit_window(const std::byte* from, uint64_t bit) noexcept {
  return load_unaligned<uint64_t>(from + bit / 8) >> bit % 8;
}
/// Returns `width` <= 8 sizeof(Word) bits from bit `bit` on. Reads 8 bytes, or 9 for more than 56 bits.
template <class Word>
[[gnu::__always_inline__]] inline Word bits_from(const std::byte* from, uint64_t bit, uint32_t width) noexcept {
  uint64_t x = bit_window(from, bit);
  if (sizeof(Word) == 8 && width > 56) x |= static_cast<uint64_t>(from[bit / 8 + 8]) << 1 << (63 - bit % 8);
  return width < 8 * sizeof(Word) ? static_cast<Word>(x) & ((Word{1} << width) - 1) : static_cast<Word>(x);
}
#endif

/// The next bits of a string. Classes that derive from it add `refill`.
class bit_buffer {
 public:
  /// Returns the available bits, without consuming them.
  TUCK_HD uint32_t peek() const noexcept { return static_cast<uint32_t>(bits_); }
  /// Consumes bits that are available.
  TUCK_HD void drop(uint32_t width) noexcept {
    bits_ >>= width;
    fill_ -= width;
  }
  /// Consumes and returns the next `width` <= 16 bits, which must be available.
  TUCK_HD uint32_t read_bits(uint32_t width) noexcept {
    const uint32_t x = peek() & low_mask(width);
    drop(width);
    return x;
  }
  /// Drops bits up to the next byte boundary.
  TUCK_HD void align() noexcept { drop(fill_ % 8); }

 protected:
  uint64_t bits_ = 0;
  uint32_t fill_ = 0;  // number of valid bits in bits_
};

/// Reads a string of bits from memory. Bits past its end are zeros.
class bit_reader : public bit_buffer {
 public:
  static constexpr uint32_t refilled_bits = 48;  ///< bits that `refill` makes available

  TUCK_HD explicit constexpr bit_reader(const_bytes stream) noexcept : stream_(stream) {}

  /// Makes the next refilled_bits bits available.
  TUCK_HD void refill() noexcept {
    if (ample()) {
      bits_ |= load_unaligned<uint64_t>(stream_.data() + next_) << fill_;
      const uint32_t taken = (63 - fill_) / 8;
      next_ += taken;
      fill_ += 8 * taken;
    } else {
      for (; fill_ <= 56; fill_ += 8, ++next_)
        if (next_ < stream_.size()) bits_ |= uint64_t{static_cast<uint8_t>(stream_[next_])} << fill_;
    }
  }

  /// Returns whether the next refill reads no byte past the end.
  TUCK_HD bool ample() const noexcept { return next_ + 8 <= stream_.size(); }
  /// Returns the number of bits consumed.
  TUCK_HD uint64_t position() const noexcept { return 8 * next_ - fill_; }
  /// Returns whether bits past the end were consumed.
  TUCK_HD bool overrun() const noexcept { return position() > 8 * stream_.size(); }
  /// Continues with the first bit of a byte.
  TUCK_HD void seek(uint64_t byte) noexcept {
    next_ = byte;
    bits_ = 0;
    fill_ = 0;
  }

 private:
  const_bytes stream_;
  uint64_t next_ = 0;  // offset of the next byte
};

}  // namespace tuck::inline TUCK_ABI
