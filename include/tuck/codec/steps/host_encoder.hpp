// SPDX-License-Identifier: Apache-2.0
// How `steps` encodes a chunk on the CPU.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/steps/classes.hpp>

#include <bit>
#include <utility>

namespace tuck::inline TUCK_ABI::steps_format {

/// Returns the threshold for `count` values. `changed`: the positions of those that change.
template <floating_element T>
uint32_t best_threshold(const base_of_chunk<T>& base, uint32_t count, span<const uint16_t> changed) noexcept {
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
  for (const uint16_t i : changed) ++changes[exponent_of<T>(base.at(i))];
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
    if (bits >= least) continue;
    best = top - i;
    least = bits;
  }
  return best;
}

/// The encoder of one chunk of up to Most values: first `measure`, then `write`.
template <floating_element T, uint32_t Most> class host_encoder {
  using word = bits_t<T>;
  static_assert(exponent_fields<T> <= 1u << threshold_bits, "tuck: a threshold of steps must fit in its field");

 public:
  /// Working memory.
  struct memory {
    word step[Most];  // of the values that change, class by class; then their magnitudes; then extras
    uint64_t signs[Most / 64];
    uint16_t positions[Most];                 // of ones
    uint16_t gaps[Most + positions_at_once];  // of all lists
    std::byte changed[Most / 8];
    class_masks<T, Most> of_class;
    uint64_t values[Most / 64][classes];  // masks of the values of each class
    uint16_t before[Most / 64][classes];  // how many of them are before each mask
  };
  explicit host_encoder(memory& m) noexcept : m_(m) {}

  /// Returns the size of the encoded chunk in bytes. For CPUs with the instructions of Cpu.
  template <class Cpu> uint64_t measure(Cpu, span<const T> of, span<const T> base_values) noexcept {
    const base_of_chunk<T> base{base_values};
    const auto count = static_cast<uint32_t>(of.size());
    changes_ = mask_loops<ones::non_zeros, sizeof(T)>::masks_of(as_bytes(of).data(), count, m_.changed);
    find_positions<Cpu>(m_.changed, count, m_.gaps);  // there until there are gaps
    threshold_ = changes_ == 0 ? 0 : best_threshold(base, count, {m_.gaps, changes_});
    find_steps<Cpu>(of, base);
    find_signs();
    find_magnitudes();
    return ceil_div(bits(), uint64_t{8});
  }

  /// Writes the chunk that was measured: as many bytes as measure() returned, no more.
  void write(std::byte* to) const noexcept {
    bit_writer out(to);
    for_header([&](uint32_t x, uint32_t width) { out.put(x, width); });
    for_gaps([&](uint32_t gap, uint32_t r) { out.put(gap & low_mask(r), r); });
    for (uint32_t i = 0; i < changes_; i += 64) out.put(m_.signs[i / 64], changes_ - i < 64 ? changes_ - i : 64);
    for_gaps([&](uint32_t gap, uint32_t r) { rice::put_unary(out, gap >> r); });
    for_extras([&](uint64_t, uint32_t below) { rice::put_unary(out, below - order_); });
    for_extras([&](uint64_t x, uint32_t below) { out.put(x ^ uint64_t{1} << below, below); });
    out.finish();
  }

 private:
  // Makes the list of a string of `length` bits from the positions of its ones.
  void set_list(uint32_t row, uint32_t c, const uint16_t* positions, uint32_t count, uint32_t length) noexcept {
    ones_[row][c] = count;
    const list l = lists_[row][c] = list::of(count, length);
    uint16_t* const gaps = m_.gaps + gap_count_;
    gap_count_ += l.entries;
    if (l.inverted) {
      uint32_t made = 0;
      for (uint32_t i = 0, next = 0, run = 0; made < l.entries; ++i, ++next, ++run)
        for (const uint32_t end = i < count ? positions[i] : length; next < end; ++next)
          gaps[made++] = static_cast<uint16_t>(std::exchange(run, 0));
    } else if (count != 0) {
      gaps[0] = positions[0];
      for (uint32_t i = 1; i < count; ++i) gaps[i] = static_cast<uint16_t>(positions[i] - positions[i - 1] - 1);
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < l.entries; ++i) sum += uint32_t{gaps[i]} >> l.remainder;
    quotients_ += sum;
  }

  // Finds the steps, class by class, and the lists of row 0.
  template <class Cpu> void find_steps(span<const T> of, const base_of_chunk<T>& base) noexcept {
    const auto count = static_cast<uint32_t>(of.size());
    m_.of_class.find(base, count, threshold_);
    auto& values = m_.values;
    auto& before = m_.before;
    uint32_t sums[classes] = {};
    for (uint32_t w = 0; w < ceil_div(count, 64u); ++w)
      for (uint32_t c = 0; c < classes; ++c) {
        values[w][c] = m_.of_class.of_class(c, 64 * w, count);
        before[w][c] = static_cast<uint16_t>(sums[c]);
        sums[c] += Cpu::popcount(values[w][c]);
        ones_[0][c] += Cpu::popcount(values[w][c] & load_unaligned<uint64_t>(m_.changed + 8 * w));
      }
    uint32_t first[classes] = {}, next[classes];
    for (uint32_t c = 0, sum = 0; c < classes; ++c) first[c] = next[c] = std::exchange(sum, sum + ones_[0][c]);
    for (uint32_t k = 0; k < changes_; ++k) {
      const uint32_t i = m_.gaps[k], w = i / 64, c = class_of(exponent_of<T>(base.at(i)), threshold_), at = next[c]++;
      m_.positions[at] =
          static_cast<uint16_t>(before[w][c] + Cpu::popcount(values[w][c] & ((uint64_t{1} << i % 64) - 1)));
      m_.step[at] = step_of<T>(bits_at(of.data(), i), base.at(i));
    }
    for (uint32_t c = 0; c < classes; ++c) set_list(0, c, m_.positions + first[c], ones_[0][c], sums[c]);
  }
  // Takes the signs off the steps.
  void find_signs() noexcept {
    for (uint32_t i = 0; i < changes_; i += 64) {
      uint64_t signs = 0;
      for (uint32_t k = 0; k < 64 && i + k < changes_; ++k) {
        signs |= uint64_t{is_negative<T>(m_.step[i + k])} << k;
        m_.step[i + k] = magnitude_of<T>(m_.step[i + k]);
      }
      m_.signs[i / 64] = signs;
    }
  }
  // Finds the lists of rows 1 and 2, and the extras.
  void find_magnitudes() noexcept {
    const word* from = m_.step;
    word* to = m_.step;  // of each row, the magnitudes at its ones take the place of what is no longer needed
    for (uint32_t row = 1; row < rows; ++row) {
      from = to = m_.step;
      for (uint32_t c = 0; c < classes; ++c) {
        const uint32_t length = ones_[row - 1][c];
        uint32_t found = 0;
        for (uint32_t i = 0; i < length; ++i) {
          const word magnitude = from[i];
          m_.positions[found] = static_cast<uint16_t>(i);
          to[found] = magnitude;
          found += magnitude > row;
        }
        set_list(row, c, m_.positions, found, length);
        from += length;
        to += found;
      }
    }
    extras_ = static_cast<uint32_t>(to - m_.step);
    uint32_t widths = 0;
    for (uint32_t i = 0; i < extras_; ++i) widths += tuck::bit_width(uint32_t{m_.step[i] -= 3});
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
        for (const uint32_t end = i + l.entries; i < end; ++i) put(uint32_t{m_.gaps[i]}, l.remainder);
  }
  // Calls put(x + 2^order, bits after its highest one) for each extra.
  template <class Put> void for_extras(const Put& put) const noexcept {
    for (uint32_t i = 0; i < extras_; ++i) {
      const uint64_t x = m_.step[i] + (uint64_t{1} << order_);
      put(x, tuck::bit_width(x) - 1);
    }
  }
  uint64_t bits() const noexcept {
    uint64_t sum = changes_ + quotients_;
    for_header([&](uint32_t, uint32_t width) { sum += width; });
    for (const auto& row : lists_)
      for (const list& l : row) sum += uint64_t{l.entries} * (l.remainder + 1);
    for_extras([&](uint64_t, uint32_t below) { sum += 2 * below + 1 - order_; });
    return sum;
  }

  uint32_t threshold_ = 0, changes_ = 0, extras_ = 0, order_ = 0, gap_count_ = 0;
  uint32_t ones_[rows][classes] = {};
  list lists_[rows][classes];
  uint64_t quotients_ = 0;  // their sum
  memory& m_;
};

}  // namespace tuck::inline TUCK_ABI::steps_format
