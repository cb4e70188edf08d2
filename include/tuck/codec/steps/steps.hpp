// Steps stores the changes of floating-point values from those of a base: how many steps of the type each value moves.
// It is for deltas (frame/host_delta.hpp) of weights. layout.hpp specifies the format.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/steps/layout.hpp>
#include <tuck/core/masks.hpp>

#include <bit>

namespace tuck::inline TUCK_ABI {

/// Codec for the changes of floats from a base that both sides have, such as weights before a training step. Lossless.
/// In a frame that is not a delta, all values of the base are 0.
/// concept.hpp documents the members that are not described here.
/// @tparam T f16, bf16, f32, f8e4m3 or f8e5m2
template <floating_element T>
  requires(sizeof(T) <= 4)
struct steps : plain_codec<steps<T>, T, codec_id::steps> {
  uint32_t encode_chunk(span<const T> changes, bytes room) const noexcept { return encode_chunk(changes, {}, room); }
  status decode_chunk(const_bytes encoded, span<T> changes) const noexcept {
    return decode_chunk(encoded, {}, changes);
  }
  /// @param changes  the bits of the values XOR those of the base
  /// @param base     as many values as `changes`; none: zeros
  uint32_t encode_chunk(span<const T> changes, span<const T> base, bytes room) const noexcept {
    return detail::vectorized([&] { return encode(changes, base, room); });
  }
  status decode_chunk(const_bytes encoded, span<const T> base, span<T> changes) const noexcept {
    return detail::vectorized([&] { return decode(encoded, base, changes); });
  }

 private:
  using word = bits_t<T>;
  static constexpr uint32_t max_values = max_chunk_values({{steps::description()}}, sizeof(T));
  static constexpr uint32_t classes = steps_format::classes, rows = steps_format::rows;

  struct class_masks;
  static uint32_t encode(span<const T> changes, span<const T> base, bytes room) noexcept;
  static status decode(const_bytes encoded, span<const T> base, span<T> changes) noexcept;
  static uint32_t best_threshold(span<const T> base, uint32_t count, const std::byte* changed) noexcept;
};

// For each of the first three classes, a mask of the values of this class or one before it.
template <floating_element T>
  requires(sizeof(T) <= 4)
struct steps<T>::class_masks {
  alignas(8) std::byte up_to[classes - 1][max_values / 8];
  uint32_t values[classes] = {};  // of each class

  // The values of each class in a window.
  struct window {
    uint32_t mask[classes];
  };
  window at(uint32_t begin, uint32_t count) const noexcept {
    window w;
    uint32_t before = 0;
    for (uint32_t c = 0; c + 1 < classes; ++c) {
      const auto up = load_unaligned<uint32_t>(up_to[c] + begin / 8);
      w.mask[c] = up & ~before;
      before = up;
    }
    w.mask[classes - 1] = ~before & low_mask(count - begin);
    return w;
  }

  void find(span<const T> base, uint32_t count, uint32_t threshold) noexcept {
    uint32_t before = 0;
    for (uint32_t c = 0; c < classes; ++c) {
      uint32_t all = count;
      if (c + 1 < classes) {
        const uint32_t least = steps_format::least_exponent(threshold, c);
        all = base.empty() ? find_all(up_to[c], least == 0 ? count : 0) : find_least(up_to[c], base, least);
      }
      values[c] = all - before;
      before = all;
    }
  }

 private:
  // Makes a mask of which the first `ones` values are 1. Returns `ones`.
  static uint32_t find_all(std::byte* masks, uint32_t ones) noexcept {
    for (uint32_t begin = 0; begin < max_values; begin += mask_window)
      store_unaligned(masks + begin / 8, low_mask(ones > begin ? ones - begin : 0));
    return ones;
  }
  // Makes a mask of the values whose exponent field is `least` or more. Returns their number.
  static uint32_t find_least(std::byte* masks, span<const T> base, uint32_t least) noexcept {
    return detail::vectorized([&]<class Cpu>(Cpu) {
      using lane = std::make_signed_t<word>;
      using lanes [[gnu::vector_size(32), gnu::aligned(1), gnu::may_alias]] = lane;
      constexpr uint32_t window_bytes = mask_window * sizeof(T);
      const auto count = static_cast<uint32_t>(base.size());
      const auto most = static_cast<lane>((least << float_format<T>::mantissa_bits) - 1u);
      constexpr auto magnitude = static_cast<lane>(~float_format<T>::sign);
      uint32_t sum = 0;
      const auto find = [&](const std::byte* from, uint32_t begin, uint32_t left) __attribute__((always_inline)) {
        std::byte window[window_bytes];
        for (uint32_t i = 0; i < window_bytes; i += 32)
          *reinterpret_cast<lanes*>(window + i) =
              static_cast<lanes>((*reinterpret_cast<const lanes*>(from + i) & magnitude) > most);
        const uint32_t mask = Cpu::template mask_of<sizeof(T), false>(window) & low_mask(left);
        store_unaligned(masks + begin / 8, mask);
        sum += Cpu::popcount(mask);
      };
      const std::byte* const from = as_bytes(base).data();
      const uint32_t whole = count / mask_window * mask_window;
      for (uint32_t begin = 0; begin < whole; begin += mask_window) find(from + begin * sizeof(T), begin, mask_window);
      if (whole < count) {
        std::byte last[window_bytes] = {};
        std::memcpy(last, from + whole * sizeof(T), (count - whole) * sizeof(T));
        find(last, whole, count - whole);
      }
      return sum;
    });
  }
};

namespace steps_format {

// Makes the gaps of a list from the zeros before each one of a string.
class gap_writer {
 public:
  gap_writer() = default;
  gap_writer(const list& of, uint16_t* to) noexcept : to_(to), remainder_(of.remainder), inverted_(of.inverted) {}

  // Adds zeros and a one.
  void add(uint32_t zeros) noexcept {
    if (!inverted_) return put(zeros);
    end(zeros);
    ++run_;
  }
  // Adds zeros.
  void end(uint32_t zeros) noexcept {
    if (!inverted_ || zeros == 0) return;
    put(run_);
    for (run_ = 0; zeros > 1; --zeros) put(0);
  }
  // Returns the sum of the quotients.
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

// Flips the bits [begin, end). The words that they are in are memory of the caller.
inline void flip(std::byte* bits, uint32_t begin, uint32_t end) noexcept {
  while (begin < end) {
    const uint32_t skipped = begin % 32, count = end - begin < 32 - skipped ? end - begin : 32 - skipped;
    std::byte* const at = bits + begin / 32 * 4;
    store_unaligned(at, load_unaligned<uint32_t>(at) ^ low_mask(count) << skipped);
    begin += count;
  }
}
inline void flip(std::byte* bits, uint32_t bit) noexcept { bits[bit / 8] ^= static_cast<std::byte>(1u << bit % 8); }
inline bool is_one(const std::byte* bits, uint32_t bit) noexcept {
  return (static_cast<uint32_t>(bits[bit / 8]) >> bit % 8 & 1) != 0;
}

}  // namespace steps_format

template <floating_element T>
  requires(sizeof(T) <= 4)
uint32_t steps<T>::best_threshold(span<const T> base, uint32_t count, const std::byte* changed) noexcept {
  using namespace steps_format;
  constexpr uint32_t fields = exponent_fields<T>;
  const auto exponent_at = [&](uint32_t i) { return base.empty() ? 0 : exponent_of<T>(bits_at(base.data(), i)); };
  // How many values, and changed values, have exponent e or more.
  uint32_t values[fields + 1] = {}, changes[fields + 1] = {};
  for (uint32_t begin = 0; begin < count; begin += sample_group)
    if (const uint32_t i = begin + begin / sample_group % sample_group; i < count)
      values[exponent_at(i)] += sample_group;
  for (uint32_t begin = 0; begin < count; begin += mask_window)
    for (auto left = load_unaligned<uint32_t>(changed + begin / 8); left != 0; left &= left - 1)
      ++changes[exponent_at(begin + static_cast<uint32_t>(std::countr_zero(left)))];
  uint32_t top = 0;
  for (uint32_t e = fields; e-- != 0;) {
    if (top == 0 && (values[e] | changes[e]) != 0) top = e;
    values[e] += values[e + 1];
    changes[e] += changes[e + 1];
  }
  top = top + 1 < fields ? top + 1 : top;
  uint32_t best = top, least = ~0u;
  for (uint32_t i = 0; i < candidates && i <= top; ++i) {
    const uint32_t bits = estimated_bits(top - i, values, changes);
    if (bits < least) best = top - i, least = bits;
  }
  return best;
}

template <floating_element T>
  requires(sizeof(T) <= 4)
uint32_t steps<T>::encode(span<const T> of, span<const T> base, bytes room) noexcept {
  using namespace steps_format;
  const auto count = static_cast<uint32_t>(of.size());
  if (count > max_values) return incompressible;
  std::byte changed[max_values / 8];
  const uint32_t changes = masks_of(of, ones::non_zeros, changed);
  const uint32_t threshold = changes == 0 ? 0 : best_threshold(base, count, changed);
  class_masks of_class;
  of_class.find(base, count, threshold);

  // Steps, class by class; and the strings of row 0.
  uint32_t ones_of[rows][classes] = {};
  for (uint32_t begin = 0; begin < count; begin += mask_window)
    if (const auto any = load_unaligned<uint32_t>(changed + begin / 8); any != 0) {
      const auto w = of_class.at(begin, count);
      for (uint32_t c = 0; c < classes; ++c) ones_of[0][c] += popcount(w.mask[c] & any);
    }
  word step[max_values];
  uint16_t gaps[max_values];  // of all lists
  list lists[rows][classes];
  gap_writer gaps_of[rows][classes];
  uint32_t gap_count = 0, step_at[classes], first_step = 0, values_before[classes] = {}, next[classes] = {};
  const auto set_list = [&](uint32_t row, uint32_t c, uint32_t length) {
    lists[row][c] = list::of(ones_of[row][c], length);
    gaps_of[row][c] = gap_writer(lists[row][c], gaps + gap_count);
    gap_count += lists[row][c].entries;
  };
  for (uint32_t c = 0; c < classes; ++c) {
    set_list(0, c, of_class.values[c]);
    step_at[c] = first_step;
    first_step += ones_of[0][c];
  }
  uint32_t widths = 0, extras = 0;
  for (uint32_t begin = 0; begin < count; begin += mask_window) {
    const auto w = of_class.at(begin, count);
    for (auto left = load_unaligned<uint32_t>(changed + begin / 8); left != 0; left &= left - 1) {
      const auto bit = static_cast<uint32_t>(std::countr_zero(left));
      uint32_t c = 0;
      while ((w.mask[c] >> bit & 1) == 0) ++c;
      const uint32_t at = values_before[c] + popcount(w.mask[c] & low_mask(bit));
      gaps_of[0][c].add(at - next[c]);
      next[c] = at + 1;
      const word before = base.empty() ? word{0} : bits_at(base.data(), begin + bit);
      const word s = step[step_at[c]++] = step_of<T>(bits_at(of.data(), begin + bit), before);
      const uint32_t magnitude = magnitude_of<T>(s);
      ones_of[1][c] += magnitude > 1;
      ones_of[2][c] += magnitude > 2;
      extras += magnitude > 2;
      widths += magnitude > 2 ? tuck::bit_width(magnitude - 3) : 0;
    }
    for (uint32_t c = 0; c < classes; ++c) values_before[c] += popcount(w.mask[c]);
  }
  for (uint32_t c = 0; c < classes; ++c) gaps_of[0][c].end(of_class.values[c] - next[c]);
  for (uint32_t row = 1; row < rows; ++row) {
    uint32_t i = 0;
    for (uint32_t c = 0; c < classes; ++c) {
      set_list(row, c, ones_of[row - 1][c]);
      uint32_t zeros = 0;
      for (const uint32_t end = i + ones_of[0][c]; i < end; ++i) {
        const uint32_t magnitude = magnitude_of<T>(step[i]);
        if (magnitude < row) continue;
        if (magnitude == row) {
          ++zeros;
        } else {
          gaps_of[row][c].add(zeros);
          zeros = 0;
        }
      }
      gaps_of[row][c].end(zeros);
    }
  }

  // The size.
  const uint32_t order = best_order(widths, extras);
  uint64_t bits = threshold_bits + (extras != 0 ? order_bits : 0) + changes + uint64_t{extras} * (order + 1);
  uint32_t width[rows] = {};
  for (uint32_t row = 0; row < rows; ++row) {
    uint32_t any = 0;
    for (uint32_t c = 0; c < classes; ++c) {
      any |= ones_of[row][c];
      bits += uint64_t{lists[row][c].entries} * (lists[row][c].remainder + 1) + gaps_of[row][c].quotients();
    }
    width[row] = tuck::bit_width(any);
    if (row == 0 || width[row - 1] != 0) bits += width_bits + classes * width[row];
  }
  const auto extended = [&](uint32_t magnitude) { return magnitude - 3 + (uint64_t{1} << order); };
  if (extras != 0)
    for (uint32_t i = 0; i < changes; ++i)
      if (const uint32_t magnitude = magnitude_of<T>(step[i]); magnitude > 2)
        bits += 2 * (tuck::bit_width(extended(magnitude)) - 1 - order);
  const uint64_t size = ceil_div(bits, uint64_t{8});
  if (size >= of.size_bytes()) return incompressible;

  bit_writer out(room.data());
  out.put(threshold, threshold_bits);
  for (uint32_t row = 0; row < rows && (row == 0 || width[row - 1] != 0); ++row) {
    out.put(width[row], width_bits);
    for (uint32_t c = 0; c < classes && width[row] != 0; ++c) out.put(ones_of[row][c], width[row]);
  }
  if (extras != 0) out.put(order, order_bits);
  const auto for_gaps = [&](const auto& put) {
    uint32_t i = 0;
    for (const auto& row : lists)
      for (const list& l : row)
        for (const uint32_t end = i + l.entries; i < end; ++i) put(uint32_t{gaps[i]}, l.remainder);
  };
  for_gaps([&](uint32_t gap, uint32_t r) { out.put(gap & low_mask(r), r); });
  for (uint32_t i = 0; i < changes; ++i) out.put(is_negative<T>(step[i]), 1);
  for_gaps([&](uint32_t gap, uint32_t r) { rice::put_unary(out, gap >> r); });
  if (extras != 0) {
    const auto for_extras = [&](const auto& put) {
      for (uint32_t i = 0; i < changes; ++i)
        if (const uint32_t magnitude = magnitude_of<T>(step[i]); magnitude > 2) {
          const uint64_t x = extended(magnitude);
          put(x, tuck::bit_width(x) - 1);
        }
    };
    for_extras([&](uint64_t, uint32_t below) { rice::put_unary(out, below - order); });
    for_extras([&](uint64_t x, uint32_t below) { out.put(x ^ uint64_t{1} << below, below); });
  }
  out.finish();
  return static_cast<uint32_t>(size);
}

template <floating_element T>
  requires(sizeof(T) <= 4)
status steps<T>::decode(const_bytes encoded, span<const T> base, span<T> restored) noexcept {
  using namespace steps_format;
  const auto count = static_cast<uint32_t>(restored.size());
  if (encoded.empty() || encoded.size() >= restored.size_bytes() || count > max_values) return status::bad_payload;
  constexpr uint32_t header_bytes = 32;  // at most, rounded up
  alignas(16) std::byte chunk[max_values * sizeof(T) + header_bytes + 16];
  std::memcpy(chunk, encoded.data(), encoded.size());
  std::memset(chunk + encoded.size(), 0, header_bytes + 16);
  const uint64_t end = 8 * encoded.size();

  uint64_t at = 0;
  const auto take = [&](uint32_t width) {
    const auto x = bits_from<uint32_t>(chunk, at, width);
    at += width;
    return x;
  };
  const uint32_t threshold = take(threshold_bits);
  if (threshold >= exponent_fields<T>) return status::bad_payload;
  class_masks of_class;
  of_class.find(base, count, threshold);
  list lists[rows][classes];
  uint32_t length[rows + 1][classes] = {}, sum[rows] = {};  // of strings; row r + 1: the ones of row r
  uint64_t remainder_bits = 0;
  for (uint32_t c = 0; c < classes; ++c) length[0][c] = of_class.values[c];
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t width = row == 0 || sum[row - 1] != 0 ? take(width_bits) : 0;
    if (width > max_width) return status::bad_payload;
    for (uint32_t c = 0; c < classes; ++c) {
      const uint32_t k = length[row + 1][c] = take(width);
      if (k > length[row][c]) return status::bad_payload;
      lists[row][c] = list::of(k, length[row][c]);
      sum[row] += k;
      remainder_bits += uint64_t{lists[row][c].entries} * lists[row][c].remainder;
    }
    if (width != 0 && sum[row] == 0) return status::bad_payload;
  }
  const uint32_t changes = sum[0], extras = sum[rows - 1], order = extras != 0 ? take(order_bits) : 0;
  const uint64_t signs = at + remainder_bits;
  if (signs + changes > end) return status::bad_payload;
  rice::unary_reader unary(chunk, signs + changes, end);

  // The strings, those of a row one after the other.
  alignas(8) std::byte bits[rows][max_values / 8 + 16];
  for (uint32_t row = 0; row < rows; ++row) {
    uint32_t first = 0, all = 0;
    for (uint32_t c = 0; c < classes; ++c) all += length[row][c];
    std::memset(bits[row], 0, all / 8 + 16);
    for (uint32_t c = 0; c < classes; ++c) {
      const list& l = lists[row][c];
      uint64_t next = 0;
      for (uint32_t i = 0; i < l.entries; ++i) {
        uint32_t q;
        if (!unary.get(q)) return status::bad_payload;
        next += uint64_t{q} << l.remainder | take(l.remainder);
        if (next >= length[row][c]) return status::bad_payload;
        flip(bits[row], first + static_cast<uint32_t>(next++));
      }
      if (l.inverted) flip(bits[row], first, first + length[row][c]);
      first += length[row][c];
    }
  }

  // Steps, class by class.
  word step[max_values];
  uint16_t extra_at[max_values];  // steps with an extra
  uint32_t next[rows] = {}, extra = 0;
  for (uint32_t i = 0; i < changes; ++i) {
    uint32_t magnitude = 1;
    for (uint32_t row = 1; row < rows && magnitude == row && is_one(bits[row], next[row]++); ++row) ++magnitude;
    if (magnitude == rows) extra_at[extra++] = static_cast<uint16_t>(i);
    step[i] = static_cast<word>(is_one(chunk, static_cast<uint32_t>(signs) + i) ? 0 - magnitude : magnitude);
  }
  uint64_t last = unary.bit();
  if (extras != 0) {
    rice::unary_reader extents = unary;
    for (uint32_t i = 0; i < extras; ++i) {
      uint32_t u;
      if (!extents.get(u)) return status::bad_payload;
    }
    last = extents.bit();
    for (uint32_t i = 0; i < extras; ++i) {
      uint32_t u;
      static_cast<void>(unary.get(u));
      if (order + u >= 8 * sizeof(T) || last + order + u > end) return status::bad_payload;
      const uint32_t width = order + u;
      const uint64_t x = (uint64_t{1} << width) + bits_from<uint32_t>(chunk, last, width) - (uint64_t{1} << order);
      last += width;
      word& s = step[extra_at[i]];
      const auto magnitude = static_cast<word>(x + 3);
      s = static_cast<word>(is_negative<T>(s) ? 0 - magnitude : magnitude);
    }
  }
  if (last > end || end - last >= 8) return status::bad_payload;
  if (bits_from<uint32_t>(chunk, last, static_cast<uint32_t>(end - last)) != 0) return status::bad_payload;

  std::memset(static_cast<void*>(restored.data()), 0, restored.size_bytes());
  std::byte* const to = as_writable_bytes(restored).data();
  uint32_t bit_at[classes], step_at[classes];
  for (uint32_t c = 0, first_bit = 0, first_step = 0; c < classes; ++c) {
    bit_at[c] = first_bit;
    step_at[c] = first_step;
    first_bit += length[0][c];
    first_step += length[1][c];
  }
  for (uint32_t begin = 0; begin < count; begin += mask_window) {
    const auto w = of_class.at(begin, count);
    for (uint32_t c = 0; c < classes; ++c) {
      const uint32_t values = popcount(w.mask[c]);
      for (auto left = bits_from<uint32_t>(bits[0], bit_at[c], values); left != 0; left &= left - 1) {
        const uint32_t i = begin + place_of_one(w.mask[c], static_cast<uint32_t>(std::countr_zero(left)));
        const word before = base.empty() ? word{0} : bits_at(base.data(), i);
        store_unaligned(to + i * sizeof(T), change_of<T>(step[step_at[c]++], before));
      }
      bit_at[c] += values;
    }
  }
  return status::ok;
}

static_assert(codec<steps<float>>);

}  // namespace tuck::inline TUCK_ABI
