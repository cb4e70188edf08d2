// The simulator's version of include/tuck/core/shared_values.cuh.
#pragma once

#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::device {

template <class U> class shared_cursor {
  static constexpr std::ptrdiff_t size = sizeof(U);
  using word = std::conditional_t<size == 8, std::uint64_t, std::uint32_t>;
  using aligned =
      std::conditional_t<size == 1, std::uint8_t, std::conditional_t<size == 2, std::uint16_t, std::uint32_t>>;

 public:
  shared_cursor(const void* base, std::uint32_t offset)
      : at_(static_cast<std::byte*>(const_cast<void*>(base)) + offset) {}

  template <std::uint32_t Bits> void put_if(std::uint32_t mask, word v, call_site at = call_site::here()) {
    if ((mask & Bits) == 0) return;
    check(at_, at);
    auto* const to = reinterpret_cast<aligned*>(at_);
    to[0] = static_cast<aligned>(v);
    if constexpr (size == 8) to[1] = static_cast<aligned>(v >> 32);
    at_ += size;
  }
  template <std::uint32_t Bits> word get_if(std::uint32_t mask, call_site at = call_site::here()) {
    if ((mask & Bits) == 0) return 0;
    at_ += size;
    return before(at);
  }
  template <std::uint32_t Bits> word step_if(std::uint32_t mask, call_site at = call_site::here()) {
    if ((mask & Bits) != 0) at_ += size;
    return before(at);
  }

 private:
  static void check(const std::byte* p, call_site at) {
    if (reinterpret_cast<std::uintptr_t>(p) % sizeof(aligned) != 0) ::cudasim::detail::misaligned(p, sizeof(U), at);
  }
  word before(call_site at) const {
    check(at_ - size, at);
    const auto* const from = reinterpret_cast<const aligned*>(at_ - size);
    if constexpr (size == 8)
      return from[0] | static_cast<word>(from[1]) << 32;
    else
      return from[0];
  }
  std::byte* at_;
};

class shared_bit_writer {
 public:
  shared_bit_writer(void* base, std::uint32_t bit)
      : at_(static_cast<std::uint32_t*>(base) + bit / 32), fill_(bit % 32) {}

  void put(std::uint32_t x, std::uint32_t bits, call_site at = call_site::here()) {
    pending_ |= std::uint64_t{x} << fill_;
    fill_ += bits;
    if (fill_ < 32) return;
    atomicOr(at_++, static_cast<std::uint32_t>(pending_), at);
    pending_ >>= 32;
    fill_ -= 32;
  }
  void finish(call_site at = call_site::here()) {
    if (pending_ != 0) atomicOr(at_, static_cast<std::uint32_t>(pending_), at);
  }

 private:
  std::uint32_t* at_;
  std::uint32_t fill_;
  std::uint64_t pending_ = 0;
};

inline void join_if_not_zero(std::uint32_t x, std::uint32_t& piece, std::uint32_t& bits, std::uint32_t factor,
                             std::uint32_t width) {
  if (x == 0) return;
  piece = piece * factor + x;
  bits += width;
}
inline std::uint32_t shared_window(const std::uint32_t* words, std::uint32_t bit) {
  words += bit / 32;
  return funnel_shift_right(words[0], words[1], bit);
}
template <std::uint32_t Bit>
inline std::uint32_t take_if(std::uint32_t mask, std::uint32_t& window, std::uint32_t& bits, std::uint32_t field,
                             std::uint32_t width, std::uint32_t base, std::uint32_t absent) {
  if ((mask & Bit) == 0) return absent;
  const std::uint32_t x = (window & field) + base;
  window = width < 32 ? window >> width : 0;
  bits += width;
  return x;
}

}  // namespace tuck::inline TUCK_ABI::device
