// How `steps` encodes a chunk on the CPU.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/steps/classes.hpp>

#include <bit>
#include <utility>

namespace tuck::inline TUCK_ABI::steps_format {

/// Makes the gaps of a list from the zeros before each one of a string.
class gap_writer {
 public:
  gap_writer() = default;
  gap_writer(const list& of, uint16_t* to) noexcept : to_(to), remainder_(of.remainder), inverted_(of.inverted) {}

  /// Adds zeros and a one.
  void add(uint32_t zeros) noexcept {
    if (!inverted_) return put(zeros);
    end(zeros);
    ++run_;
  }
  /// Adds zeros.
  void end(uint32_t zeros) noexcept {
    if (!inverted_ || zeros == 0) return;
    put(run_);
    for (run_ = 0; zeros > 1; --zeros) put(0);
  }
  /// Returns the sum of the quotients.
  uint64_t quotients() const noexcept { return quotients_; }

 private:
  void put(uint32_t gap) noexcept {
    *to_++ = static_cast<uint16_t>(gap);
    quotients_ += gap >> remainder_;
  }

  uint16_t* to_ = nullptr;
  uint64_t quotients_ = 0;
  uint32_t remainder_ = 0, run_ = 0;  // ones since the last zero
  bool inverted_ = false;
};

/// Returns the threshold for `count` values. `changed`: a mask of those that change.
template <floating_element T>
uint32_t best_threshold(const base_of_chunk<T>& base, uint32_t count, const std::byte* changed) noexcept {
  constexpr uint32_t fields = exponent_fields<T>;
  // How many values, and changed values, have exponent e or more. Neighbours count apart, so that one need not wait for
  // the other.
  uint32_t values[fields] = {}, changes[fields] = {}, others[fields] = {};
  const auto count_sample = [&](uint32_t begin, uint32_t(&to)[fields]) {
    if (const uint32_t i = begin + begin / sample_group % sample_group; i < count)
      to[exponent_of<T>(base.at(i))] += sample_group;
  };
  for (uint32_t begin = 0; begin < count; begin += 2 * sample_group) {
    count_sample(begin, values);
    count_sample(begin + sample_group, others);
  }
  for (uint32_t begin = 0; begin < count; begin += mask_window)
    for (auto left = load_unaligned<uint32_t>(changed + begin / 8); left != 0; left &= left - 1)
      ++changes[exponent_of<T>(base.at(begin + static_cast<uint32_t>(std::countr_zero(left))))];
  uint32_t top = 0, sum = 0, changed_sum = 0;
  for (uint32_t e = fields; e-- != 0;) {
    sum += values[e] + others[e];
    changed_sum += changes[e];
    if (top == 0 && (sum | changed_sum) != 0) top = e;
    values[e] = sum;
    changes[e] = changed_sum;
  }
  top = top + 1 < fields ? top + 1 : top;
  uint32_t best = top, least = ~0u;
  for (uint32_t i = 0; i < candidates && i <= top; ++i) {
    const uint32_t bits = estimated_bits(top - i, values, changes);
    if (bits < least) best = top - i, least = bits;
  }
  return best;
}

/// The encoder of one chunk of up to Most values: first `measure`, then `write`.
template <floating_element T, uint32_t Most> class host_encoder {
  using word = bits_t<T>;

 public:
  /// Returns the size of the encoded chunk in bytes.
  uint64_t measure(span<const T> of, span<const T> base_values) noexcept {
    const base_of_chunk<T> base{base_values};
    const auto count = static_cast<uint32_t>(of.size());
    std::byte changed[Most / 8];
    changes_ = masks_of(of, ones::non_zeros, changed);
    threshold_ = changes_ == 0 ? 0 : best_threshold(base, count, changed);
    class_masks<T, Most> of_class;
    of_class.find(base, count, threshold_);
    count_changes(of_class, changed, count);
    find_steps(of, base, of_class, changed);
    find_magnitudes();
    return ceil_div(bits(), uint64_t{8});
  }

  void write(std::byte* to) const noexcept {
    bit_writer out(to);
    for_header([&](uint32_t x, uint32_t width) { out.put(x, width); });
    for_gaps([&](uint32_t gap, uint32_t r) { out.put(gap & low_mask(r), r); });
    for (uint32_t i = 0; i < changes_; i += 64) {
      const uint32_t some = changes_ - i < 64 ? changes_ - i : 64;
      uint64_t signs = 0;
      for (uint32_t k = 0; k < some; ++k) signs |= uint64_t{is_negative<T>(step_[i + k])} << k;
      out.put(signs, some);
    }
    for_gaps([&](uint32_t gap, uint32_t r) { rice::put_unary(out, gap >> r); });
    for_extras([&](uint64_t, uint32_t below) { rice::put_unary(out, below - order_); });
    for_extras([&](uint64_t x, uint32_t below) { out.put(x ^ uint64_t{1} << below, below); });
    out.finish();
  }

 private:
  using masks = class_masks<T, Most>;

  void set_list(uint32_t row, uint32_t c, uint32_t length) noexcept {
    lists_[row][c] = list::of(ones_[row][c], length);
    gaps_of_[row][c] = gap_writer(lists_[row][c], gaps_ + gap_count_);
    gap_count_ += lists_[row][c].entries;
  }
  void count_changes(const masks& of_class, const std::byte* changed, uint32_t count) noexcept {
    for (uint32_t begin = 0; begin < count; begin += mask_window)
      if (const auto any = load_unaligned<uint32_t>(changed + begin / 8); any != 0) {
        const auto w = of_class.at(begin, count);
        for (uint32_t c = 0; c < classes; ++c) ones_[0][c] += popcount(w.of_class(c) & any);
      }
    for (uint32_t c = 0; c < classes; ++c) set_list(0, c, of_class.values[c]);
  }

  // Finds the steps, class by class, and the gaps of row 0.
  void find_steps(span<const T> of, const base_of_chunk<T>& base, const masks& of_class,
                  const std::byte* changed) noexcept {
    const auto count = static_cast<uint32_t>(of.size());
    uint32_t step_at[classes], values_up_to[classes + 1] = {}, next[classes] = {};
    for (uint32_t c = 0, first = 0; c < classes; ++c) step_at[c] = std::exchange(first, first + ones_[0][c]);
    for (uint32_t begin = 0; begin < count; begin += mask_window) {
      const auto w = of_class.at(begin, count);
      for (auto left = load_unaligned<uint32_t>(changed + begin / 8); left != 0; left &= left - 1) {
        const auto bit = static_cast<uint32_t>(std::countr_zero(left));
        const uint32_t c = w.class_of(bit);
        const uint32_t at = values_up_to[c + 1] - values_up_to[c] + popcount(w.of_class(c) & low_mask(bit));
        gaps_of_[0][c].add(at - next[c]);
        next[c] = at + 1;
        const word s = step_[step_at[c]++] = step_of<T>(bits_at(of.data(), begin + bit), base.at(begin + bit));
        const uint32_t magnitude = magnitude_of<T>(s);
        ones_[1][c] += magnitude > 1;
        ones_[2][c] += magnitude > 2;
      }
      for (uint32_t c = 1; c <= classes; ++c) values_up_to[c] += popcount(w.mask[c]);
    }
    for (uint32_t c = 0; c < classes; ++c) gaps_of_[0][c].end(of_class.values[c] - next[c]);
  }
  // Finds the gaps of rows 1 and 2, and the extras.
  void find_magnitudes() noexcept {
    for (uint32_t row = 1; row < rows; ++row)
      for (uint32_t c = 0; c < classes; ++c) set_list(row, c, ones_[row - 1][c]);
    uint32_t i = 0, widths = 0;
    for (uint32_t c = 0; c < classes; ++c) {
      uint32_t zeros = 0, zeros_of_2 = 0;
      for (const uint32_t end = i + ones_[0][c]; i < end; ++i) {
        const uint32_t magnitude = magnitude_of<T>(step_[i]);
        if (magnitude == 1) {
          ++zeros;
          continue;
        }
        gaps_of_[1][c].add(std::exchange(zeros, 0));
        if (magnitude == 2) {
          ++zeros_of_2;
          continue;
        }
        gaps_of_[2][c].add(std::exchange(zeros_of_2, 0));
        extra_[extras_++] = static_cast<word>(magnitude - 3);
        widths += tuck::bit_width(magnitude - 3);
      }
      gaps_of_[1][c].end(zeros);
      gaps_of_[2][c].end(zeros_of_2);
    }
    order_ = best_order(widths, extras_);
  }

  // Calls put(x, bits) for each field of the header.
  template <class Put> void for_header(const Put& put) const noexcept {
    put(threshold_, threshold_bits);
    uint32_t width = 1;
    for (uint32_t row = 0; row < rows && width != 0; ++row) {
      uint32_t any = 0;
      for (const uint32_t k : ones_[row]) any |= k;
      put(width = tuck::bit_width(any), width_bits);
      for (uint32_t c = 0; c < classes && width != 0; ++c) put(ones_[row][c], width);
    }
    if (extras_ != 0) put(order_, order_bits);
  }
  // Calls put(gap, r) for each entry.
  template <class Put> void for_gaps(const Put& put) const noexcept {
    uint32_t i = 0;
    for (const auto& row : lists_)
      for (const list& l : row)
        for (const uint32_t end = i + l.entries; i < end; ++i) put(uint32_t{gaps_[i]}, l.remainder);
  }
  // Calls put(x + 2^order, bits after its highest one) for each extra.
  template <class Put> void for_extras(const Put& put) const noexcept {
    for (uint32_t i = 0; i < extras_; ++i) {
      const uint64_t x = extra_[i] + (uint64_t{1} << order_);
      put(x, tuck::bit_width(x) - 1);
    }
  }
  uint64_t bits() const noexcept {
    uint64_t sum = changes_;
    for_header([&](uint32_t, uint32_t width) { sum += width; });
    for (uint32_t row = 0; row < rows; ++row)
      for (uint32_t c = 0; c < classes; ++c)
        sum += uint64_t{lists_[row][c].entries} * (lists_[row][c].remainder + 1) + gaps_of_[row][c].quotients();
    for_extras([&](uint64_t, uint32_t below) { sum += 2 * below + 1 - order_; });
    return sum;
  }

  uint32_t threshold_ = 0, changes_ = 0, extras_ = 0, order_ = 0, gap_count_ = 0;
  uint32_t ones_[rows][classes] = {};
  list lists_[rows][classes];
  gap_writer gaps_of_[rows][classes];
  word step_[Most];      // of the values that change, class by class
  word extra_[Most];     // magnitudes above 2, minus 3
  uint16_t gaps_[Most];  // of all lists
};

}  // namespace tuck::inline TUCK_ABI::steps_format
