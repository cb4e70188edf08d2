// The bits of a DEFLATE stream, lowest first.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/span.hpp>

namespace tuck::inline TUCK_ABI::deflate_format {

// Past the end there are zeros; overrun() says whether any were taken.
class bit_input {
 public:
  static constexpr uint32_t refilled_bits = 48;

  TUCK_HD explicit constexpr bit_input(const_bytes stream) noexcept : stream_(stream) {}

  // Makes the next 48 bits available.
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
  // Those bits, which a refill has made available and no drop has used up.
  TUCK_HD uint32_t peek() const noexcept { return static_cast<uint32_t>(bits_); }
  TUCK_HD void drop(uint32_t width) noexcept {
    bits_ >>= width;
    fill_ -= width;
  }
  // The next `width` <= 16 bits, by a refill of its own.
  TUCK_HD uint32_t take(uint32_t width) noexcept {
    refill();
    const uint32_t x = peek() & low_mask(width);
    drop(width);
    return x;
  }

  // Can the bits of the next refill not overrun?
  TUCK_HD bool ample() const noexcept { return next_ + 8 <= stream_.size(); }
  TUCK_HD uint64_t position() const noexcept { return 8 * next_ - fill_; }  // in bits from the begin
  TUCK_HD bool overrun() const noexcept { return position() > 8 * stream_.size(); }
  TUCK_HD void align() noexcept { drop(fill_ % 8); }  // to the begin of a byte
  TUCK_HD void seek(uint64_t byte) noexcept {
    next_ = byte;
    bits_ = 0;
    fill_ = 0;
  }

 private:
  const_bytes stream_;
  uint64_t next_ = 0;  // byte
  uint64_t bits_ = 0;
  uint32_t fill_ = 0;  // of them known
};

}  // namespace tuck::inline TUCK_ABI::deflate_format
