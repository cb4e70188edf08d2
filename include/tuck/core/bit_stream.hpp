// Strings of bits in little-endian words, lowest bit first.
#pragma once

#include <tuck/core/bits.hpp>

namespace tuck::inline TUCK_ABI {

// Writes 32 bits at a time into memory that is long enough.
class bit_writer {
 public:
  TUCK_HD explicit constexpr bit_writer(std::byte* to) noexcept : begin_(to), to_(to) {}

  // The low `width` <= 32 bits of x; those above them are 0.
  TUCK_HD void put(uint32_t x, uint32_t width) noexcept {
    pending_ |= uint64_t{x} << fill_;
    fill_ += width;
    if (fill_ < 32) return;
    store_unaligned(to_, static_cast<uint32_t>(pending_));
    to_ += 4;
    pending_ >>= 32;
    fill_ -= 32;
  }
  // The same of `width` <= 64.
  TUCK_HD void put_wide(uint64_t x, uint32_t width) noexcept {
    put(static_cast<uint32_t>(x), width < 32 ? width : 32);
    if (width > 32) put(static_cast<uint32_t>(x >> 32), width - 32);
  }
  TUCK_HD uint64_t position() const noexcept { return 8 * static_cast<uint64_t>(to_ - begin_) + fill_; }  // bits so far

  // The rest of them, filled up with zeros to a word, or only to a byte.
  TUCK_HD void finish() noexcept {
    if (fill_ != 0) store_unaligned(to_, static_cast<uint32_t>(pending_));
  }
  TUCK_HD void finish_bytes() noexcept {
    for (uint32_t k = 0; 8 * k < fill_; ++k) to_[k] = static_cast<std::byte>(pending_ >> 8 * k);
  }

 private:
  std::byte* begin_;
  std::byte* to_;
  uint64_t pending_ = 0;
  uint32_t fill_ = 0;  // < 32
};

// Reads them; past the end, which is `size` bytes from the begin, there are zeros.
class bit_reader {
 public:
  TUCK_HD constexpr bit_reader(const std::byte* from, uint32_t size) noexcept : from_(from), left_(size / 4) {}

  // The next `width` <= 32 bits.
  TUCK_HD uint32_t take(uint32_t width) noexcept {
    if (fill_ < width && left_ != 0) {
      pending_ |= uint64_t{load_unaligned<uint32_t>(from_)} << fill_;
      from_ += 4;
      --left_;
      fill_ += 32;
    }
    const auto x = static_cast<uint32_t>(pending_) & low_mask(width);
    pending_ >>= width;
    fill_ = fill_ < width ? 0 : fill_ - width;
    return x;
  }
  // The next `width` <= 64.
  TUCK_HD uint64_t take_wide(uint32_t width) noexcept {
    const uint64_t low = take(width < 32 ? width : 32);
    return width > 32 ? low | uint64_t{take(width - 32)} << 32 : low;
  }

 private:
  const std::byte* from_;
  uint32_t left_;  // words
  uint64_t pending_ = 0;
  uint32_t fill_ = 0;
};

}  // namespace tuck::inline TUCK_ABI
