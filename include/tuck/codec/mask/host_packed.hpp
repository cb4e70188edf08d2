// SPDX-License-Identifier: Apache-2.0
// Chunks of rle and packed_zvc on one thread: the bytes of rle.hpp. Only the width of the values matters.
#pragma once

#include <tuck/codec/mask/packed.hpp>
#include <tuck/core/bit_reader.hpp>
#include <tuck/core/bit_writer.hpp>
#include <tuck/core/status.hpp>

#include <algorithm>

namespace tuck::inline TUCK_ABI::packed_masks {

/// A mask of up to 65536 bits that is packed or restored.
class host_mask {
 public:
  static constexpr uint32_t most_words = 65536 / 32;

  explicit host_mask(uint32_t n) noexcept : n_(n), count_(mask_words(n)) {}

  /// The words of the mask. Bits past its end are 0.
  uint32_t words[most_words];

  /// Packs the mask, of values of this width. Returns the bytes of the packed mask.
  uint32_t pack(uint32_t width) noexcept {
    return detail::on_cpu([&]<class Cpu>(Cpu) {
      uint32_t found[rules] = {};
      for (uint32_t w = 0; w < count_; ++w) {
        if (!is_sample(w, width)) continue;
        const uint32_t before = w == 0 ? 0 : words[w - 1], valid = valid_bits(w, n_);
        TUCK_UNROLL(6)
        for (uint32_t r = 0; r < rules; ++r)
          found[r] += Cpu::popcount(mark_bytes::tops(marks_of(words[w], before, r, valid)));
      }
      rule_ = static_cast<uint32_t>(std::min_element(found, found + rules) - found);
      sizes_ = {};
      std::byte* set = set_;
      bit_writer of_some(some_), of_more(more_), of_ones(ones_);
      uint32_t before = 0;
      for (uint32_t w = 0; w < count_; set += 4) {
        uint32_t of_words = 0;
        for (uint32_t bit = 1; bit != 0 && w < count_; bit <<= 1, before = words[w++]) {
          const uint32_t marks = marks_of(words[w], before, rule_, valid_bits(w, n_));
          if (marks == 0) continue;
          of_words |= bit;
          const mark_bytes x(marks);
          const uint32_t fields = x.fields(), bytes = Cpu::popcount(x.some), bits = Cpu::popcount(fields);
          of_some.put(mark_bytes::joined(x.some), 4);
          of_more.put(Cpu::gather_bits(x.more, x.some), bytes);
          of_ones.put(Cpu::gather_bits(x.pack(marks), fields), bits);
          ++sizes_.words;
          sizes_.bytes += bytes;
          sizes_.more += (bits - 3 * bytes) / 5;
        }
        store_unaligned(set, of_words);
      }
      of_some.finish();
      of_more.finish();
      of_ones.finish();
      return sizes_.end(n_);
    });
  }
  /// Of the packed mask.
  uint32_t rule() const noexcept { return rule_; }
  /// Writes the packed mask.
  void write(std::byte* to) const noexcept {
    const uint32_t some = sizes::some_begin(n_), more = sizes_.more_begin(n_), ones = sizes_.ones_begin(n_);
    std::memcpy(to, set_, some);
    std::memcpy(to + some, some_, more - some);
    std::memcpy(to + more, more_, ones - more);
    std::memcpy(to + ones, ones_, sizes_.end(n_) - ones);
  }

  /// Restores the words from untrusted bytes. Returns the bytes of the packed mask, or 0 if an encoder does not write
  /// them.
  uint32_t unpack(const_bytes from, uint32_t rule) noexcept {
    return detail::on_cpu([&]<class Cpu>(Cpu) -> uint32_t {
      // Behind the mask there are zeros, so that windows of bits can be read up to its end.
      const uint32_t plain = 4 * count_;
      const auto size = static_cast<uint32_t>((std::min)(from.size(), size_t{plain}));
      std::byte p[4 * most_words + 16];
      std::memcpy(p, from.data(), size);
      std::memset(p + size, 0, 16);
      const auto count_ones = [&](uint32_t begin, uint32_t end) {
        uint32_t sum = 0;
        for (; begin < end; begin += 8)
          sum += Cpu::popcount(load_unaligned<uint64_t>(p + begin) &
                               (end - begin < 8 ? (uint64_t{1} << 8 * (end - begin)) - 1 : ~uint64_t{0}));
        return sum;
      };
      sizes s;
      const uint32_t some_begin = sizes::some_begin(n_);
      if (some_begin > size) return 0;
      s.words = count_ones(0, some_begin);
      const uint32_t more_begin = s.more_begin(n_);
      if (more_begin > size) return 0;
      s.bytes = count_ones(some_begin, more_begin);
      const uint32_t ones_begin = s.ones_begin(n_);
      if (ones_begin > size) return 0;
      s.more = count_ones(more_begin, ones_begin);
      const uint32_t end = s.end(n_);
      if (end > size || end >= plain) return 0;
      const uint32_t distance = rule >= first_difference ? distance_of(rule) : 32;
      uint32_t some_bit = 8 * some_begin, more_bit = 8 * more_begin, one_bit = 8 * ones_begin, carry = 0, bad = 0;
      for (uint32_t w = 0; w < count_; ++w) {
        uint32_t marks = 0;
        if ((load_unaligned<uint32_t>(p + w / 32 * 4) >> w % 32 & 1) != 0) {
          const auto some = static_cast<uint32_t>(bit_window(p, some_bit)) & 15;
          some_bit += 4;
          mark_bytes x;
          x.some = mark_bytes::split(some);
          x.more = Cpu::spread_bits(static_cast<uint32_t>(bit_window(p, more_bit)), x.some);
          more_bit += Cpu::popcount(some);
          const uint32_t fields = x.fields();
          marks = x.unpack(Cpu::spread_bits(static_cast<uint32_t>(bit_window(p, one_bit)), fields));
          one_bit += Cpu::popcount(fields);
          bad |= uint32_t{some == 0} | uint32_t{!x.fits(marks)} | (marks & ~valid_bits(w, n_));
        }
        uint32_t word = rule == inverted ? ~marks : marks;
        if (rule >= first_difference) {
          word = sum_bits(marks, distance) ^ carry;
          carry = repeat_last(word, distance, every(distance));
        }
        words[w] = word & valid_bits(w, n_);
      }
      // Words of marks behind the last one, and padding.
      if (count_ % 32 != 0) bad |= load_unaligned<uint32_t>(p + some_begin - 4) >> count_ % 32;
      for (const uint32_t bit : {some_bit, more_bit, one_bit})
        if (bit % 8 != 0) bad |= static_cast<uint32_t>(p[bit / 8]) >> bit % 8;
      return bad != 0 ? 0 : end;
    });
  }

 private:
  uint32_t n_, count_, rule_ = 0;
  sizes sizes_;
  // The parts of the packed mask; a writer of bits stores eight bytes at a time.
  std::byte set_[most_words / 8], some_[most_words / 2 + 8], more_[most_words / 2 + 8], ones_[4 * most_words + 8];
};

/// Encodes and decodes chunks of up to 64 KiB of values of `Width` bytes.
template <uint32_t Width> class host_coder : layout<Width> {
  using bits = bits_t<untyped<Width>>;
  static constexpr auto negative_zero = static_cast<bits>(bits{1} << (8 * Width - 1));

  struct side {
    uint32_t kind, ones, signs_begin, values_begin;
  };

 public:
  /// Returns the size of the chunk in bytes, or 0 if it is not smaller than its values.
  /// @param floats whether to look for negative zeros
  /// @param runs   whether a mask may be of changes
  /// @param to     memory of the size of the values
  static uint32_t encode(const_bytes values, bool floats, bool runs, std::byte* to) noexcept;
  /// Decodes untrusted bytes, which are fewer than the values.
  static status decode(const_bytes encoded, bool runs, bytes values) noexcept;
  /// Returns the bytes before the values of a chunk, or 0 if it is damaged.
  static uint32_t side_bytes(const_bytes encoded, uint32_t count, bool runs) noexcept;

 private:
  static uint32_t count_negative_zeros(const std::byte* from, uint32_t count) noexcept;
  static bool read_side(const_bytes encoded, uint32_t count, bool runs, host_mask& mask, side& of_mask) noexcept;
  // Calls visit(i) for each value i whose bit is not set.
  template <class Visit> static void each_zero(const host_mask& mask, uint32_t count, const Visit& visit) noexcept {
    for (uint32_t w = 0; w < mask_words(count); ++w)
      for (uint32_t x = ~mask.words[w] & valid_bits(w, count); x != 0; x &= x - 1) visit(32 * w + trailing_zeros(x));
  }
  static bits value(const std::byte* values, uint32_t i) noexcept { return load_unaligned<bits>(values + i * Width); }
};

template <uint32_t Width>
uint32_t host_coder<Width>::encode(const_bytes values, bool floats, bool runs, std::byte* to) noexcept {
  const auto count = static_cast<uint32_t>(values.size() / Width);
  const std::byte* const from = values.data();
  host_mask mask(count);
  auto* const words = reinterpret_cast<std::byte*>(mask.words);
  uint32_t kind = head::zeros, ones = mask_loops<ones::non_zeros, Width>::masks_of(from, count, words);
  if (floats)
    if (const uint32_t negative = count_negative_zeros(from, count); negative != 0) {
      kind = layout<Width>::kind_of_zeros(count - ones + negative, negative);
      if (kind != head::zeros) ones -= negative;
    }
  if (runs) {
    std::byte of_changes[4 * host_mask::most_words];
    const uint32_t n = mask_loops<tuck::ones::changes, Width>::masks_of(from, count, of_changes);
    if (layout<Width>::takes_runs(n, ones)) {
      kind = head::runs;
      ones = n;
      std::memcpy(words, of_changes, 4 * mask_words(count));
    }
  }
  const uint32_t zeros = count - ones, of_signs = layout<Width>::sign_bytes(kind, zeros);
  std::byte signs[host_mask::most_words * 4 / Width];
  if (kind >= head::both_zeros) {
    for (uint32_t i = 0; i < count; ++i)
      if (value(from, i) == negative_zero) mask.words[i / 32] &= ~(1u << i % 32);
    std::memset(signs, 0, of_signs);
    uint32_t at = 0;
    if (of_signs != 0)
      each_zero(mask, count, [&](uint32_t i) {
        if (value(from, i) != 0) signs[at / 8] |= std::byte{1} << at % 8;
        ++at;
      });
  }

  const uint32_t plain_bytes = 4 * mask_words(count), packed_bytes = mask.pack(Width);
  const bool packs = packed_bytes < plain_bytes;
  const uint32_t signs_begin = 4 + (packs ? packed_bytes : plain_bytes);
  const uint32_t begin = layout<Width>::values_begin(signs_begin + of_signs), all = begin + ones * Width;
  if (all >= values.size()) return 0;
  store_unaligned(to, head::make(kind, mask.rule(), packs).word);
  if (packs)
    mask.write(to + 4);
  else
    std::memcpy(to + 4, words, plain_bytes);
  std::memcpy(to + signs_begin, signs, of_signs);
  std::memset(to + signs_begin + of_signs, 0, begin - signs_begin - of_signs);
  value_loops<Width>::pack(from, count, words, to + begin, to + values.size());
  return all;
}

template <uint32_t Width> status host_coder<Width>::decode(const_bytes encoded, bool runs, bytes values) noexcept {
  const auto count = static_cast<uint32_t>(values.size() / Width);
  host_mask mask(count);
  side s;
  if (!read_side(encoded, count, runs, mask, s) || s.values_begin + uint64_t{s.ones} * Width != encoded.size())
    return status::bad_payload;
  const auto* const words = reinterpret_cast<const std::byte*>(mask.words);
  const std::byte* const packed = encoded.data() + s.values_begin;
  const std::byte* const end = encoded.data() + encoded.size();
  if (s.kind == head::runs) {
    mask_loops<ones::changes, Width>::spread(words, packed, end, values.data(), count);
    return status::ok;
  }
  mask_loops<ones::non_zeros, Width>::spread(words, packed, end, values.data(), count);
  if (s.kind == head::zeros) return status::ok;
  const std::byte* const signs = encoded.data() + s.signs_begin;
  uint32_t at = 0;
  each_zero(mask, count, [&](uint32_t i) {
    if (s.kind == head::negative_zeros || (signs[at / 8] >> at % 8 & std::byte{1}) != std::byte{})
      store_unaligned(values.data() + i * Width, negative_zero);
    ++at;
  });
  return status::ok;
}

template <uint32_t Width>
uint32_t host_coder<Width>::side_bytes(const_bytes encoded, uint32_t count, bool runs) noexcept {
  host_mask mask(count);
  side s;
  return read_side(encoded, count, runs, mask, s) ? s.values_begin : 0;
}

// Reads what is before the values. Returns false if encoding does not write such bytes.
template <uint32_t Width>
bool host_coder<Width>::read_side(const_bytes encoded, uint32_t count, bool runs, host_mask& mask,
                                  side& of_mask) noexcept {
  if (encoded.size() < 4) return false;
  const head of_chunk{load_unaligned<uint32_t>(encoded.data())};
  if (!of_chunk.fits(runs)) return false;
  const const_bytes rest = encoded.subspan(4);
  uint32_t used = 4 * mask_words(count);
  if (of_chunk.packed()) {
    used = mask.unpack(rest, of_chunk.rule());
    if (used == 0) return false;
  } else {
    if (rest.size() < used) return false;
    std::memcpy(mask.words, rest.data(), used);
    if (count != 0 && (mask.words[used / 4 - 1] & ~valid_bits(used / 4 - 1, count)) != 0) return false;
  }
  of_mask.kind = of_chunk.kind();
  of_mask.ones = count_ones(reinterpret_cast<const std::byte*>(mask.words), 4 * mask_words(count));
  of_mask.signs_begin = 4 + used;
  const uint32_t zeros = count - of_mask.ones;
  const uint32_t end = of_mask.signs_begin + layout<Width>::sign_bytes(of_mask.kind, zeros);
  of_mask.values_begin = layout<Width>::values_begin(end);
  if (of_mask.values_begin > encoded.size()) return false;
  for (uint32_t i = end; i < of_mask.values_begin; ++i)
    if (encoded[i] != std::byte{}) return false;
  return of_mask.kind != head::both_zeros || zeros % 8 == 0 || (encoded[end - 1] >> zeros % 8) == std::byte{};
}

// Mostly there is none. Then no value, taken as an integer, is the lowest one.
template <uint32_t Width>
uint32_t host_coder<Width>::count_negative_zeros(const std::byte* from, uint32_t count) noexcept {
  constexpr uint32_t window = 32;
  using integer = std::make_signed_t<bits>;
  const bool some = detail::on_cpu([=]<class Cpu>(Cpu) {
    integer lowest = 0, highest;
    uint32_t i = 0;
    for (; i + window <= count && static_cast<bits>(lowest) != negative_zero; i += window)
      Cpu::template find_range<integer>(from + i * Width, lowest, highest);
    for (; i < count && static_cast<bits>(lowest) != negative_zero; ++i) lowest = static_cast<integer>(value(from, i));
    return static_cast<bits>(lowest) == negative_zero;
  });
  uint32_t sum = 0;
  for (uint32_t i = 0; some && i < count; ++i) sum += value(from, i) == negative_zero;
  return sum;
}

}  // namespace tuck::inline TUCK_ABI::packed_masks
