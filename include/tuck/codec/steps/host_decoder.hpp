// SPDX-License-Identifier: Apache-2.0
// How `steps` decodes a chunk on the CPU.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/steps/classes.hpp>

#include <bit>

namespace tuck::inline TUCK_ABI::steps_format {

/// Flips the bits [begin, end). The words that they are in are memory of the caller.
inline void flip(std::byte* bits, uint32_t begin, uint32_t end) noexcept {
  while (begin < end) {
    const uint32_t skipped = begin % 32, count = end - begin < 32 - skipped ? end - begin : 32 - skipped;
    std::byte* const at = bits + begin / 32 * 4;
    store_unaligned(at, load_unaligned<uint32_t>(at) ^ low_mask(count) << skipped);
    begin += count;
  }
}

/// The decoder of one chunk of up to Most values. Its members return false if encoders write no such chunk. Call them
/// in this order.
template <floating_element T, uint32_t Most> class host_decoder {
  using word = bits_t<T>;

  static constexpr uint32_t zero_bytes = 48;  // a header that is cut short has zeros in place of the rest

 public:
  /// Working memory.
  struct memory {
    class_masks<T, Most> of_class;
    std::byte bits[rows][Most / 8 + 16];
    word step[Most];
    uint16_t positions[Most + positions_at_once];  // of the steps with an extra; then of the values that change
    std::byte chunk[Most * sizeof(T) + zero_bytes];
  };
  /// `encoded` has fewer bytes than `count` values.
  host_decoder(memory& m, const_bytes encoded, span<const T> base, uint32_t count) noexcept
      : base_{base}, count_(count), end_(8 * encoded.size()), m_(m) {
    std::memcpy(m_.chunk, encoded.data(), encoded.size());
    std::memset(m_.chunk + encoded.size(), 0, zero_bytes);
  }

  bool read_header() noexcept {
    threshold_ = read_bits(threshold_bits);
    if (threshold_ >= exponent_fields<T>) return false;
    m_.of_class.find(base_, count_, threshold_);
    uint64_t remainders = 0;
    for (uint32_t c = 0; c < classes; ++c) length_[0][c] = m_.of_class.values[c];
    uint32_t sum = 1;
    for (uint32_t row = 0; row < rows; ++row) {
      const uint32_t width = sum != 0 ? read_bits(width_bits) : 0;
      if (width > max_width) return false;
      sum = 0;
      for (uint32_t c = 0; c < classes; ++c) {
        const uint32_t k = length_[row + 1][c] = read_bits(width);
        if (k > length_[row][c]) return false;
        lists_[row][c] = list::of(k, length_[row][c]);
        sum += k;
        remainders += uint64_t{lists_[row][c].entries} * lists_[row][c].remainder;
      }
      if (width != 0 && sum == 0) return false;
      if (row == 0) changes_ = sum;
    }
    extras_ = sum;
    order_ = extras_ != 0 ? read_bits(order_bits) : 0;
    signs_ = static_cast<uint32_t>(at_ + remainders);
    return at_ + remainders + changes_ <= end_;
  }

  // Finds the strings and the steps, class by class.
  bool read_steps() noexcept {
    rice::unary_reader unary(m_.chunk, signs_ + changes_, end_);
    for (uint32_t row = 0; row < rows; ++row)
      if (!read_row(row, unary)) return false;
    uint32_t next_2 = 0, extra = 0;
    const auto bit_of = [](const std::byte* bits, uint32_t i) {
      return static_cast<uint32_t>(bits[i / 8]) >> i % 8 & 1;
    };
    for (uint32_t i = 0; i < changes_; ++i) {  // without branches
      const uint32_t over_1 = bit_of(m_.bits[1], i), over_2 = bit_of(m_.bits[2], next_2) & over_1;
      next_2 += over_1;
      m_.positions[extra] = static_cast<uint16_t>(i);
      extra += over_2;
      const uint32_t magnitude = 1 + over_1 + over_2, negative = bit_of(m_.chunk, signs_ + i);
      m_.step[i] = static_cast<word>((magnitude ^ (0 - negative)) + negative);
    }
    return read_extras(unary);
  }

  void write(span<T> restored) noexcept {
    detail::vectorized([&]<class Cpu>(Cpu) {
      std::memset(static_cast<void*>(restored.data()), 0, restored.size_bytes());
      std::byte* const to = as_writable_bytes(restored).data();
      uint32_t bit_at[classes], step_at[classes];
      for (uint32_t c = 0, first_bit = 0, first_step = 0; c < classes; ++c) {
        bit_at[c] = first_bit;
        step_at[c] = first_step;
        first_bit += length_[0][c];
        first_step += length_[1][c];
      }
      std::byte* const changed = m_.bits[1];  // whose bits are steps now
      for (uint32_t begin = 0; begin < count_; begin += mask_window) {
        const auto w = m_.of_class.at(begin, count_);
        uint32_t ones = 0;
        for (uint32_t c = 0; c < classes; ++c) {
          const uint32_t of_class = w.of_class(c);
          ones |= Cpu::spread_bits(static_cast<uint32_t>(bit_window(m_.bits[0], bit_at[c])), of_class);
          bit_at[c] += Cpu::popcount(of_class);
        }
        store_unaligned(changed + begin / 8, ones);
      }
      find_positions<Cpu>(changed, count_, m_.positions);
      for (uint32_t k = 0; k < changes_; ++k) {
        const uint32_t i = m_.positions[k];
        const word base = base_.at(i);
        const word step = m_.step[step_at[class_of(exponent_of<T>(base), threshold_)]++];
        store_unaligned(to + i * sizeof(T), change_of<T>(step, base));
      }
    });
  }

 private:
  uint32_t read_bits(uint32_t width) noexcept {
    const auto x = bits_from<uint32_t>(m_.chunk, at_, width);
    at_ += width;
    return x;
  }

  // Restores the strings of a row, one after the other.
  bool read_row(uint32_t row, rice::unary_reader& unary) noexcept {
    std::byte* const bits = m_.bits[row];
    uint32_t first = 0;
    for (const uint32_t length : length_[row]) first += length;
    std::memset(bits, 0, first / 8 + 16);
    first = 0;
    for (uint32_t c = 0; c < classes; ++c) {
      const list& l = lists_[row][c];
      const uint32_t length = length_[row][c];
      uint64_t next = 0;
      for (uint32_t i = 0; i < l.entries; ++i) {
        uint32_t q;
        if (!unary.get(q)) return false;
        next += uint64_t{q} << l.remainder | read_bits(l.remainder);
        if (next >= length) return false;
        const uint32_t at = first + static_cast<uint32_t>(next++);
        bits[at / 8] |= static_cast<std::byte>(1u << at % 8);
      }
      if (l.inverted) flip(bits, first, first + length);
      first += length;
    }
    return true;
  }
  // Replaces the magnitudes of 3 by what they are.
  bool read_extras(rice::unary_reader& unary) noexcept {
    rice::unary_reader extents = unary;
    uint32_t u;
    for (uint32_t i = 0; i < extras_; ++i)
      if (!extents.get(u)) return false;
    uint64_t last = extents.position();
    for (uint32_t i = 0; i < extras_; ++i) {
      static_cast<void>(unary.get(u));
      const uint32_t width = order_ + u;
      if (width >= 8 * sizeof(T) || last + width > end_) return false;
      const uint32_t x = (1u << width) + bits_from<uint32_t>(m_.chunk, last, width) - (1u << order_) + 3;
      last += width;
      word& step = m_.step[m_.positions[i]];
      step = static_cast<word>(is_negative<T>(step) ? 0 - x : x);
    }
    return last <= end_ && end_ - last < 8 &&
           bits_from<uint32_t>(m_.chunk, last, static_cast<uint32_t>(end_ - last)) == 0;
  }

  base_of_chunk<T> base_;
  uint32_t count_, threshold_ = 0, changes_ = 0, extras_ = 0, order_ = 0, signs_ = 0;
  uint64_t end_, at_ = 0;
  list lists_[rows][classes];
  uint32_t length_[rows + 1][classes];  // of strings; after the last row its ones
  memory& m_;
};

}  // namespace tuck::inline TUCK_ABI::steps_format
