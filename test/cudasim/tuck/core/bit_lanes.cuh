// The simulator's version of include/tuck/core/bit_lanes.cuh.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::device {

class shared_words {
 public:
  explicit shared_words(const std::uint32_t* first) : first_(first) {}
  template <std::uint32_t First, std::uint32_t Bits> std::uint32_t of(std::uint32_t x) const {
    return first_[x >> First & ((1u << Bits) - 1)];
  }
  template <std::uint32_t First, std::uint32_t Bits> void count(std::uint32_t x) const {
    atomic_add(const_cast<std::uint32_t*>(first_) + (x >> First & ((1u << Bits) - 1)), 1u);
  }

 private:
  const std::uint32_t* first_;
};

template <std::uint32_t Bits, class Entry = std::uint16_t> class shared_codes {
 public:
  explicit shared_codes(const Entry* first) : first_(first) {}
  std::uint32_t of(std::uint32_t window) const { return first_[window >> (32 - Bits)]; }
  static std::uint32_t behind(std::uint32_t window, std::uint32_t entry) { return window << (entry & 31); }

 private:
  const Entry* first_;
};

class shared_steps {
 public:
  shared_steps(const std::uint32_t* words, std::uint32_t begin, std::uint32_t end, std::uint32_t step)
      : words_(const_cast<std::uint32_t*>(words)), at_(begin), end_(end), step_(step) {}
  bool has_more() const { return at_ < end_; }
  std::uint32_t get() {
    const std::uint32_t word = words_[at_];
    at_ += step_;
    return word;
  }
  void put(std::uint32_t word) {
    words_[at_] = word;
    at_ += step_;
  }

 private:
  std::uint32_t* words_;
  std::uint32_t at_, end_, step_;
};

class codes_to_shared {
 public:
  codes_to_shared(std::uint32_t* words, std::uint32_t first_bit, std::uint32_t step)
      : at_(words + first_bit / 32), step_(step), fill_(first_bit % 32) {}
  void put(std::uint32_t a, std::uint32_t b) {
    append(a);
    append(b);
  }
  bool put_four(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
    if (((a + b + c + d) & 255) > 32) return false;
    put(a, b);
    put(c, d);
    return true;
  }
  void put_bits(std::uint32_t x, std::uint32_t bits) {
    append_bits(x & ~static_cast<std::uint32_t>((std::uint64_t{1} << (32 - bits)) - 1), bits);
  }
  void stay_before(std::uint32_t* last) { at_ = (std::min)(at_, last); }
  std::uint32_t bits() const { return bits_; }
  void finish() { *at_ = static_cast<std::uint32_t>(word_ >> 32); }
  void finish_any() {
    if (fill_ != 0) finish();
  }
  void merge() {
    if (fill_ != 0) atomic_or(at_, static_cast<std::uint32_t>(word_ >> 32));
  }

 private:
  void append(std::uint32_t code) {
    const std::uint32_t length = code & 15;
    append_bits(code - length, length);
  }
  void append_bits(std::uint32_t x, std::uint32_t length) {
    word_ |= static_cast<std::uint64_t>(x) << 32 >> fill_;
    bits_ += length;
    fill_ += length;
    if (fill_ < 32) return;
    finish();
    at_ += step_;
    fill_ -= 32;
    word_ <<= 32;
  }

  std::uint32_t* at_;
  std::uint32_t step_, fill_, bits_ = 0;
  std::uint64_t word_ = 0;  // the highest 32 bits are not written yet
};

class bits_in_shared {
 public:
  bits_in_shared(const std::uint32_t* words, std::uint32_t count) : words_(words), last_(count - 1) {}
  std::uint32_t from(std::uint32_t bit) const {
    const std::uint32_t i = (std::min)(bit / 32, last_);
    return static_cast<std::uint32_t>((std::uint64_t{words_[i]} << 32 | words_[i + 1]) << bit % 32 >> 32);
  }

 private:
  const std::uint32_t* words_;
  std::uint32_t last_;
};

template <class U> class shared_position {
  static constexpr std::ptrdiff_t size = sizeof(U);
  using word = std::conditional_t<size == 8, std::uint64_t, std::uint32_t>;
  using aligned =
      std::conditional_t<size == 1, std::uint8_t, std::conditional_t<size == 2, std::uint16_t, std::uint32_t>>;

 public:
  shared_position() = default;
  shared_position(const void* base, std::uint32_t offset)
      : at_(static_cast<std::byte*>(const_cast<void*>(base)) + offset) {}

  shared_position after(std::uint32_t count) const {
    shared_position p = *this;
    p.at_ += count * size;
    return p;
  }
  template <int Byte> shared_position after_byte(std::uint32_t counts) const {
    return after(counts >> (8 * Byte) & 255);
  }
  std::uint32_t values_from(shared_position begin) const {
    return static_cast<std::uint32_t>((at_ - begin.at_) / size);
  }

  template <std::uint32_t Bits> void put_if(std::uint32_t mask, word v, call_site at = {}) const {
    if ((mask & Bits) == 0) return;
    check(at_, at);
    auto* const to = reinterpret_cast<aligned*>(at_);
    to[0] = static_cast<aligned>(v);
    if constexpr (size == 8) to[1] = static_cast<aligned>(v >> 32);
  }
  template <std::uint32_t Bits> word get_if(std::uint32_t mask, call_site at = {}) const {
    return (mask & Bits) != 0 ? after(1).before(at) : 0;
  }
  word before(call_site at = {}) const {
    check(at_ - size, at);
    const auto* const from = reinterpret_cast<const aligned*>(at_ - size);
    if constexpr (size == 8)
      return from[0] | static_cast<word>(from[1]) << 32;
    else
      return from[0];
  }
  std::uint32_t four_bytes() const {
    const auto byte = reinterpret_cast<std::uintptr_t>(at_) % 4;
    const auto* const words = reinterpret_cast<const std::uint32_t*>(at_ - byte);
    return funnel_shift_right(words[0], words[1], static_cast<std::uint32_t>(8 * byte));
  }

 private:
  friend class shared_bit_writer;
  static void check(const std::byte* p, call_site at) {
    if (reinterpret_cast<std::uintptr_t>(p) % sizeof(aligned) != 0) ::cudasim::detail::misaligned(p, sizeof(U), at);
  }
  std::byte* at_;
};

class shared_bit_writer {
 public:
  shared_bit_writer(void* base, std::uint32_t bit)
      : at_(static_cast<std::uint32_t*>(base) + bit / 32), fill_(bit % 32) {}
  explicit shared_bit_writer(shared_position<std::uint8_t> begin)
      : fill_(8 * static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(begin.at_) % 4)) {
    at_ = reinterpret_cast<std::uint32_t*>(begin.at_ - fill_ / 8);
  }

  void put(std::uint32_t x, std::uint32_t bits, call_site at = {}) {
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    pending_ |= (x & mask) << fill_;
    fill_ += bits;
    if (fill_ < 32) return;
    atomicOr(at_++, static_cast<std::uint32_t>(pending_), at);
    pending_ >>= 32;
    fill_ -= 32;
  }
  template <class Word> void put_word(Word x, std::uint32_t bits, call_site at = {}) {
    put(static_cast<std::uint32_t>(x), (std::min)(bits, 32u), at);
    if (bits > 32) put(static_cast<std::uint32_t>(std::uint64_t{x} >> 32), bits - 32, at);
  }
  void finish(call_site at = {}) {
    if (pending_ != 0) atomicOr(at_, static_cast<std::uint32_t>(pending_), at);
  }

 private:
  std::uint32_t* at_;
  std::uint32_t fill_;
  std::uint64_t pending_ = 0;
};

inline void join_if_not_zero(std::uint32_t x, std::uint32_t field, std::uint32_t& piece, std::uint32_t& bits,
                             std::uint32_t factor, std::uint32_t width) {
  if (x == 0) return;
  piece = piece * factor + field;
  bits += width;
}
inline std::uint32_t shared_window(const std::uint32_t* words, std::uint32_t bit) {
  words += bit / 32;
  return funnel_shift_right(words[0], words[1], bit);
}
template <class Word> Word shared_bits(const std::uint32_t* words, std::uint32_t bit, std::uint32_t bits) {
  const std::uint64_t high = bits > 32 ? shared_window(words, bit + 32) & low_mask(bits - 32) : 0;
  return static_cast<Word>((shared_window(words, bit) & low_mask(bits)) | high << 32);
}
template <std::uint32_t Bit>
inline std::uint32_t unpack_if(std::uint32_t mask, std::uint32_t& window, std::uint32_t field, std::uint32_t width,
                               std::uint32_t base, std::uint32_t absent) {
  if ((mask & Bit) == 0) return absent;
  const std::uint32_t x = (window & field) + base;
  window = width < 32 ? window >> width : 0;
  return x;
}

}  // namespace tuck::inline TUCK_ABI::device
