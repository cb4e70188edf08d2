// The masks of rle and packed_zvc, which compress themselves. A mask has one bit per value. A packed one is replaced by
// its marks, of which few are 1, and of these only the bytes are stored that are not 0.
//
// The marks of a mask of n bits are n bits too, in W = ceil(n / 32) words. Mark i is
//
//   rule 0        bit i of the mask
//   rule 1        bit i, inverted
//   rules 2 to 5  bit i XOR bit i - d of the mask, with d = 1, 2, 16 and 32; bits before the first are 0
//
// d is 16 or 32 where rows of an image are so long, and 2 where channels alternate.
//
// A packed mask has these parts, each padded with zeros to a byte:
//
//   u32 set[ceil(W / 32)]   bit w % 32 of set[w / 32]: is word w of the marks not 0?
//   bits some[]             of each such word, in order, four bits: bit k is set if its byte k is not 0
//   bits more[]             of each such byte, in order: has it more than one 1?
//   bits ones[]             of each such byte, in order: if it has one 1, the three bits of its position, else the byte
//
// Strings of bits begin with the lowest bit of a byte. Encoders take the rule with the fewest bytes that are not 0, of
// equal ones the first; of values of one or two bytes they look only at words of even number. They pack a mask if that
// makes it smaller. Decoders reject what encoders do not write, but do not look whether another rule would have been
// better.
#pragma once

#include <tuck/core/masks.hpp>
#include <tuck/core/span.hpp>

#if defined(TUCK_HOST)
#include <tuck/core/bit_reader.hpp>
#include <tuck/core/bit_writer.hpp>

#include <algorithm>
#endif

namespace tuck::inline TUCK_ABI::packed_masks {

inline constexpr uint32_t rules = 6, inverted = 1, first_difference = 2;

/// Returns d of a rule of differences.
TUCK_HD constexpr uint32_t distance_of(uint32_t rule) noexcept {
  return 0x20100201u >> 8 * (rule - first_difference) & 63;
}

/// Returns the marks of a word of a mask. `before` is the word before it, or 0; `valid` has the bits that are there.
TUCK_HD constexpr uint32_t marks_of(uint32_t word, uint32_t before, uint32_t rule, uint32_t valid) noexcept {
  if (rule < first_difference) return (rule == inverted ? ~word : word) & valid;
  const uint32_t down = 32 - distance_of(rule);  // 0 to 31
#if defined(__CUDA_ARCH__)
  const uint32_t earlier = __funnelshift_r(before, word, down);
#else
  const auto earlier = static_cast<uint32_t>((static_cast<uint64_t>(word) << 32 | before) >> down);
#endif
  return (word ^ earlier) & valid;
}
/// Returns for each bit the XOR of the bits up to it at a distance of d, 2 d, ...
TUCK_HD constexpr uint32_t sum_bits(uint32_t x, uint32_t d) noexcept {
  for (; d < 32; d *= 2) x ^= x << d;
  return x;
}
/// Returns what is 1 at the multiples of d.
TUCK_HD constexpr uint32_t every(uint32_t d) noexcept {
  return d == 1 ? ~0u : d == 2 ? 0x55555555u : d == 16 ? 0x00010001u : 1;
}
/// Returns the highest d bits, repeated: what the sums of the next word have to be XORed with. `ones` is every(d).
TUCK_HD constexpr uint32_t repeat_last(uint32_t x, uint32_t d, uint32_t ones) noexcept {
  return (x >> (32 - d)) * ones;
}
/// Returns the bits of word w of a mask of n bits that are there.
TUCK_HD constexpr uint32_t valid_bits(uint32_t w, uint32_t n) noexcept {
  return n > 32 * w ? low_mask(n - 32 * w < 32 ? n - 32 * w : 32) : 0;
}

/// Returns whether encoders look at word w of the mask of values of this width to choose a rule.
TUCK_HD constexpr bool is_sample(uint32_t w, uint32_t width) noexcept { return width > 2 || w % 2 == 0; }

/// The bytes of a word of marks: byte k as bit 8 k.
struct mark_bytes {
  uint32_t some = 0;  ///< those that are not 0
  uint32_t more = 0;  ///< those with more than one 1

  mark_bytes() = default;
  TUCK_HD constexpr explicit mark_bytes(uint32_t marks) noexcept
      : some(non_zeros(marks)), more(non_zeros(marks & (marks - some))) {}  // without the lowest 1 of each

  /// Returns the highest bit of each byte that is not 0; or the lowest.
  TUCK_HD static constexpr uint32_t tops(uint32_t x) noexcept {
    return (((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x) & 0x80808080u;
  }
  TUCK_HD static constexpr uint32_t non_zeros(uint32_t x) noexcept { return tops(x) >> 7; }
  /// Returns the lowest bit of each byte as the lowest bits of a word.
  TUCK_HD static constexpr uint32_t joined(uint32_t x) noexcept { return x * 0x10204080u >> 28; }
  /// Undoes it.
  TUCK_HD static constexpr uint32_t split(uint32_t x) noexcept { return x * 0x00204081u & 0x01010101u; }

  /// Returns the number of bits of each byte that are stored.
  TUCK_HD constexpr uint32_t widths() const noexcept { return some * 3 + more * 5; }
  /// Returns these bits of each byte: its low end.
  TUCK_HD constexpr uint32_t fields() const noexcept { return some * 7 | more * 255; }
  /// Returns what is stored of each byte, in these bits.
  TUCK_HD constexpr uint32_t pack(uint32_t marks) const noexcept {
    // Of a byte with one 1: whether that is in the upper half, and its place there.
    const uint32_t high = marks >> 4 & 0x0f0f0f0fu, one = (marks & 0x0f0f0f0fu) | high;
    const uint32_t place =
        (one >> 1 & 0x07070707u) - (one >> 3 & 0x01010101u) + ((high + 0x0f0f0f0fu) >> 2 & 0x04040404u);
    return select_bits(more * 255, marks, place) & fields();
  }
  /// Undoes it.
  TUCK_HD constexpr uint32_t unpack(uint32_t x) const noexcept {
    const uint32_t one = some & ~more, low = x, middle = x >> 1;
    const uint32_t nibble =
        (one & ~low & ~middle) | (one & low & ~middle) << 1 | (one & ~low & middle) << 2 | (one & low & middle) << 3;
    const uint32_t high = (x >> 2 & one) * 15;
    return (x & more * 255) | (nibble & ~high) | (nibble & high) << 4;
  }
  /// Returns whether the bytes with more than one 1 have so many, in marks that `unpack` has returned.
  TUCK_HD constexpr bool fits(uint32_t marks) const noexcept {
    const uint32_t x = marks & more * 255;
    return non_zeros(x & (x - more)) == more;
  }
};

/// What a packed mask has: words of marks and bytes that are not 0, and bytes with more than one 1.
struct sizes {
  uint32_t words = 0, bytes = 0, more = 0;

  /// Offsets of the parts of a mask of n bits in bytes.
  TUCK_HD static constexpr uint32_t some_begin(uint32_t n) noexcept { return 4 * ceil_div(mask_words(n), 32u); }
  TUCK_HD constexpr uint32_t more_begin(uint32_t n) const noexcept { return some_begin(n) + (words + 1) / 2; }
  TUCK_HD constexpr uint32_t ones_begin(uint32_t n) const noexcept { return more_begin(n) + (bytes + 7) / 8; }
  TUCK_HD constexpr uint32_t end(uint32_t n) const noexcept { return ones_begin(n) + (3 * bytes + 5 * more + 7) / 8; }
};

#if defined(TUCK_HOST)
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
      std::byte* set = part_[0];
      bit_writer of_some(part_[1]), of_more(part_[2]), of_ones(part_[3]);
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
    const uint32_t begin[] = {0, sizes::some_begin(n_), sizes_.more_begin(n_), sizes_.ones_begin(n_), sizes_.end(n_)};
    for (uint32_t i = 0; i < 4; ++i) std::memcpy(to + begin[i], part_[i], begin[i + 1] - begin[i]);
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
  std::byte part_[4][4 * most_words];  // of the packed mask; `ones` has at most as many bits as the mask
};
#endif

}  // namespace tuck::inline TUCK_ABI::packed_masks
