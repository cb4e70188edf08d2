// Operations on windows of 32 values of Size bytes, for the vector instructions of each CPU. core/masks.hpp and
// core/checksum.hpp are loops over windows. A CPU is a type with
//
//   run(body)                    calls body(CPU), compiled for this CPU together with all functions that it inlines
//   popcount(word)               counts ones in 64 bits
//   mask_of<Size, Changes>(v)    returns a mask: bit i is 1 if value i is not 0. With Changes: if value i differs from
//                                the value before it in memory
//   pack<Size>(v, mask, to)      stores the values whose bit is 1 one behind the other, and returns their end. It may
//                                write a whole window
//   spread<Size, Runs>(mask, from, to)
//                                undoes that: stores the next value of `from` for each 1, and 0 for each 0. With Runs:
//                                for each 0 the value taken last, at first the value before `from`. Returns the end of
//                                the values taken. It may read a whole window
//   sum_words(words, rounds, four)
//                                returns the sum of 32 * rounds words, each times its key. The first has index 4 * four
//   find_range(v, lowest, highest)
//                                finds the range of the window, as integers of their type
//   subtract<T>(v, count, base, to)
//                                sets word to[i] to value i of type T minus `base`, or to 0 from `count` on
//   merge(from, width, to)       sets to[i] to from[2 i] | from[2 i + 1] << width, for a multiple of 4 words
//   shift(words, bits, before, to)
//                                stores 1024 + bits bits: `before`, which has bits < 8 bits, then 32 words; then zeros
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/cpu_level.hpp>

#include <array>

namespace tuck::inline TUCK_ABI::detail {

// The keys of core/checksum.hpp. They are odd.
struct word_keys {
  static constexpr uint64_t step = 0x9e3779b97f4a7c15, first = 0xd6e8feb86659fd93;

  // The common factor of the keys of words 4 i to 4 i + 3.
  TUCK_HD static constexpr uint32_t of_four(uint64_t i) noexcept {
    const uint64_t place = i * step + first;
    return static_cast<uint32_t>(place ^ (place >> 32)) | 1;
  }
  // The other factor of the key of word i.
  TUCK_HD static constexpr uint32_t multiple(uint64_t i) noexcept {
    return i % 4 == 0 ? 1 : i % 4 == 1 ? 0xcc9e2d53 : i % 4 == 2 ? 0x85ebca6b : 0x1b873593;
  }
  TUCK_HD static constexpr uint32_t of(uint64_t i) noexcept { return of_four(i / 4) * multiple(i); }
};
// The keys of the first words, as many as a frame header has.
inline constexpr std::array<uint32_t, 32> first_word_keys = [] {
  std::array<uint32_t, 32> keys{};
  for (uint32_t i = 0; i < 32; ++i) keys[i] = word_keys::of(i);
  return keys;
}();

// Loops of integers that compilers vectorize, for any CPU.
struct plain_integers {
  template <class T> static void find_range(const std::byte* values, T& lowest, T& highest) noexcept {
    lowest = highest = load_unaligned<T>(values);
    for (uint32_t i = 1; i < 32; ++i) {
      const auto v = load_unaligned<T>(values + i * sizeof(T));
      lowest = v < lowest ? v : lowest;
      highest = v > highest ? v : highest;
    }
  }
  template <class T, class Word>
  static void subtract(const std::byte* values, uint32_t count, Word base, Word (&to)[32]) noexcept {
    for (uint32_t i = 0; i < 32; ++i)
      to[i] = select(i < count, static_cast<Word>(load_unaligned<T>(values + i * sizeof(T))) - base, Word{0});
  }
  template <class Word, size_t N> static void merge(const Word* from, uint32_t width, uint64_t (&to)[N]) noexcept {
    for (size_t i = 0; i < N; ++i) to[i] = from[2 * i] | static_cast<uint64_t>(from[2 * i + 1]) << width;
  }
  static void shift(const uint32_t* words, uint32_t bits, uint64_t before, std::byte* to) noexcept {
    for (uint32_t i = 0; i < 16; ++i) {
      const uint64_t two = words[2 * i] | static_cast<uint64_t>(words[2 * i + 1]) << 32;
      store_unaligned(to + 8 * i, before | two << bits);
      before = two >> 1 >> (63 - bits);
    }
    store_unaligned(to + 128, before);
  }
};

// Runs on any CPU.
struct plain_cpu : plain_integers {
  template <class Body> static auto run(const Body& body) noexcept { return body(plain_cpu{}); }

  static uint32_t popcount(uint64_t x) noexcept {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    return static_cast<uint32_t>(((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u >> 56);
  }

  template <size_t Size, bool Changes> static uint32_t mask_of(const std::byte* values) noexcept {
    using bits = typename uint_of_size<Size>::type;
    uint32_t mask = 0;
    for (uint32_t i = 0; i < 32; ++i) {
      const auto before = Changes ? load_unaligned<bits>(values + i * Size - Size) : bits{0};
      mask |= uint32_t{load_unaligned<bits>(values + i * Size) != before} << i;
    }
    return mask;
  }

  template <size_t Size> static std::byte* pack(const std::byte* values, uint32_t mask, std::byte* to) noexcept {
    // Without branches: stores every value and advances only past those whose bit is 1.
    TUCK_UNROLL(32)
    for (uint32_t i = 0; i < 32; ++i) {
      std::memcpy(to, values + i * Size, Size);
      to += (mask >> i & 1) * Size;
    }
    return to;
  }

  template <size_t Size, bool Runs>
  static const std::byte* spread(uint32_t mask, const std::byte* from, std::byte* to) noexcept {
    using bits = typename uint_of_size<Size>::type;
    if (!Runs && mask == 0) {
      std::memset(to, 0, 32 * Size);
      return from;
    }
    if (mask == ~0u) {
      std::memcpy(to, from, 32 * Size);
      return from + 32 * Size;
    }
    TUCK_UNROLL(32)
    for (uint32_t i = 0; i < 32; ++i) {
      const auto one = static_cast<bits>(mask >> i & 1);
      const auto x = load_unaligned<bits>(Runs ? from + one * Size - Size : from);
      store_unaligned(to + i * Size, Runs ? x : static_cast<bits>(x & static_cast<bits>(bits{0} - one)));
      from += one * Size;
    }
    return from;
  }

  static uint64_t sum_words(const std::byte* words, uint64_t rounds, uint64_t four) noexcept {
    uint64_t sum = 0;
    for (const uint64_t end = four + 8 * rounds; four < end; ++four, words += 16) {
      const uint32_t key = word_keys::of_four(four);
      for (uint32_t i = 0; i < 4; ++i)
        sum += uint64_t{key * word_keys::multiple(i)} * load_unaligned<uint32_t>(words + 4 * i);
    }
    return sum;
  }
};

// -- Tables ----------------------------------------------------------------------------------------------------------

// For each mask of 8 bits, one byte for each of 8 lanes.
using lane_table = std::array<std::array<uint8_t, 8>, 256>;

constexpr lane_table make_lane_table(auto&& lane) noexcept {
  lane_table table{};
  for (uint32_t mask = 0; mask < 256; ++mask)
    for (uint32_t i = 0; i < 8; ++i) table[mask][i] = static_cast<uint8_t>(lane(mask, i));
  return table;
}

inline constexpr uint32_t no_lane = 0x80;  // byte shuffles turn it into 0

// Source of lane i if the lanes whose bit is 1 move to the front.
inline constexpr lane_table gathered = make_lane_table([](uint32_t mask, uint32_t i) {
  for (; i > 0; --i) mask &= mask - 1;
  return mask == 0 ? 0 : std::countr_zero(mask);
});
// Source of lane i if the lanes whose bit is 1 take the front lanes in order. Other lanes have none.
inline constexpr lane_table scattered = make_lane_table([](uint32_t mask, uint32_t i) {
  return mask >> i & 1 ? static_cast<uint32_t>(std::popcount(mask & low_mask(i))) : no_lane;
});
// The same, but other lanes repeat the last value taken. The source begins with the value for lane 0: the next value if
// bit 0 is 1, else the value taken before.
inline constexpr lane_table repeated = make_lane_table([](uint32_t mask, uint32_t i) {
  return static_cast<uint32_t>(std::popcount(mask & low_mask(i + 1))) - (mask & 1);
});

// pack and spread for a CPU that moves rows of up to 8 lanes by these tables. Cpu::row<Size> has `step`, the number of
// lanes, and
//   move(lanes, from, to)  sets lane i of `to` to lane lanes[i] of `from`, or to 0 for no_lane
// All rows of a window are counted from its beginning, so that none waits for the one before it.
template <class Cpu> struct moves_rows {
  template <size_t Size>
  [[gnu::always_inline]] static std::byte* pack(const std::byte* values, uint32_t mask, std::byte* to) noexcept {
    using row = typename Cpu::template row<Size>;
    TUCK_UNROLL(8)
    for (uint32_t i = 0; i < 32; i += row::step) {
      const uint32_t ones = mask >> i & low_mask(row::step);
      row::move(gathered[ones].data(), values + i * Size, to + Cpu::popcount(mask & low_mask(i)) * Size);
    }
    return to + Cpu::popcount(mask) * Size;
  }
  template <size_t Size, bool Runs>
  [[gnu::always_inline]] static const std::byte* spread(uint32_t mask, const std::byte* from, std::byte* to) noexcept {
    using row = typename Cpu::template row<Size>;
    TUCK_UNROLL(8)
    for (uint32_t i = 0; i < 32; i += row::step) {
      const uint32_t ones = mask >> i & low_mask(row::step);
      const std::byte* const next = from + Cpu::popcount(mask & low_mask(i)) * Size;
      row::move((Runs ? repeated : scattered)[ones].data(), Runs && (ones & 1) == 0 ? next - Size : next,
                to + i * Size);
    }
    return from + Cpu::popcount(mask) * Size;
  }
};

}  // namespace tuck::inline TUCK_ABI::detail
