// Windows of 32 values of Size bytes, and what the vector instructions of each CPU do with one: the masks of
// core/masks.hpp and core/checksum.hpp are loops over these. A CPU is a type with
//
//   run(body)                    body(CPU), compiled for it with all that it calls
//   popcount(word)               of 64 bits
//   mask_of<Size, Changes>(v)    bit i: value i is not zero, or differs from the one in front of it
//   pack<Size>(v, mask, to)      the values at the ones, one behind the other; their end. May write a whole window
//   spread<Size, Runs>(mask, from, to)
//                                the reverse: for each one the next value, for each zero 0 or, of runs, the value last
//                                taken, at first the one in front of `from`; the end of what it took. May read a whole
//                                window
//   sum_words(words, rounds, four)
//                                the sum of 32 * rounds words, each times its key; the first is word 4 * four
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/cpu_level.hpp>

#include <array>

namespace tuck::inline TUCK_ABI::detail {

// The keys of core/checksum.hpp: odd numbers.
struct word_keys {
  static constexpr uint64_t step = 0x9e3779b97f4a7c15, first = 0xd6e8feb86659fd93;

  // Of words 4 * i to 4 * i + 3, each of which has a multiple of it.
  TUCK_HD static constexpr uint32_t of_four(uint64_t i) noexcept {
    const uint64_t place = i * step + first;
    return static_cast<uint32_t>(place ^ (place >> 32)) | 1;
  }
  TUCK_HD static constexpr uint32_t multiple(uint64_t i) noexcept {
    return i % 4 == 0 ? 1 : i % 4 == 1 ? 0xcc9e2d53 : i % 4 == 2 ? 0x85ebca6b : 0x1b873593;
  }
  TUCK_HD static constexpr uint32_t of(uint64_t i) noexcept { return of_four(i / 4) * multiple(i); }
};

// Any CPU.
struct plain_cpu {
  template <class Body> static auto run(const Body& body) noexcept { return body(plain_cpu{}); }

  static uint32_t popcount(uint64_t x) noexcept {
    return tuck::popcount(static_cast<uint32_t>(x)) + tuck::popcount(static_cast<uint32_t>(x >> 32));
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
    // Always stores and advances only past what counts: no branch. Two at a time, where a word holds two.
    if constexpr (Size < 8) {
      using pair = typename uint_of_size<2 * Size>::type;
      for (uint32_t i = 0; i < 32; i += 2, mask >>= 2) {
        const auto two = load_unaligned<pair>(values + i * Size);
        store_unaligned(to, static_cast<pair>(two >> 8 * Size * (~mask & 1)));
        to += ((mask & 1) + (mask >> 1 & 1)) * Size;
      }
    } else {
      for (uint32_t i = 0; i < 32; ++i, mask >>= 1) {
        std::memcpy(to, values + i * Size, Size);
        to += (mask & 1) * Size;
      }
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
    if constexpr (!Runs && Size < 8) {
      using pair = typename uint_of_size<2 * Size>::type;
      constexpr auto all = static_cast<pair>(~pair{0}), low = static_cast<pair>(static_cast<bits>(~bits{0}));
      constexpr pair kept[4] = {0, low, static_cast<pair>(all ^ low), all};
      for (uint32_t i = 0; i < 32; i += 2, mask >>= 2) {
        const auto two = static_cast<pair>(load_unaligned<pair>(from) << 8 * Size * (~mask & 1));
        store_unaligned(to + i * Size, static_cast<pair>(two & kept[mask & 3]));
        from += ((mask & 1) + (mask >> 1 & 1)) * Size;
      }
    } else {
      for (uint32_t i = 0; i < 32; ++i, mask >>= 1) {
        const auto x = load_unaligned<bits>(Runs ? from + (mask & 1) * Size - Size : from);
        store_unaligned(to + i * Size, Runs ? x : static_cast<bits>(x & (bits{0} - static_cast<bits>(mask & 1))));
        from += (mask & 1) * Size;
      }
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

// A byte for each of eight lanes, by a mask of eight bits.
using lane_table = std::array<std::array<uint8_t, 8>, 256>;

constexpr lane_table make_lane_table(auto&& lane) noexcept {
  lane_table table{};
  for (uint32_t mask = 0; mask < 256; ++mask)
    for (uint32_t i = 0; i < 8; ++i) table[mask][i] = static_cast<uint8_t>(lane(mask, i));
  return table;
}

inline constexpr uint32_t no_lane = 0x80;  // byte shuffles make it zero

// Where lane i comes from if the lanes with a one move to the front.
inline constexpr lane_table gathered = make_lane_table([](uint32_t mask, uint32_t i) {
  for (; i > 0; --i) mask &= mask - 1;
  return mask == 0 ? 0 : std::countr_zero(mask);
});
// Where lane i comes from if the ones take the front lanes in order.
inline constexpr lane_table scattered = make_lane_table([](uint32_t mask, uint32_t i) {
  return mask >> i & 1 ? static_cast<uint32_t>(std::popcount(mask & low_mask(i))) : no_lane;
});
// The same if the others take what the last one did; of a row that begins at the first one, if that is lane 0, else
// before it.
inline constexpr lane_table repeated = make_lane_table([](uint32_t mask, uint32_t i) {
  return static_cast<uint32_t>(std::popcount(mask & low_mask(i + 1))) - (mask & 1);
});

// pack and spread of a CPU that moves rows of up to 8 lanes by such tables: Cpu::row<Size> has their number, `step`,
// and
//   move(lanes, from, to)  lane i of `to` is lane lanes[i] of `from`, or zero
template <class Cpu> struct moves_rows {
  template <size_t Size>
  [[gnu::always_inline]] static std::byte* pack(const std::byte* values, uint32_t mask, std::byte* to) noexcept {
    using row = typename Cpu::template row<Size>;
    for (uint32_t i = 0; i < 32; i += row::step, mask >>= row::step, values += row::step * Size) {
      const uint32_t ones = mask & low_mask(row::step);
      row::move(gathered[ones].data(), values, to);
      to += Cpu::popcount(ones) * Size;
    }
    return to;
  }
  template <size_t Size, bool Runs>
  [[gnu::always_inline]] static const std::byte* spread(uint32_t mask, const std::byte* from, std::byte* to) noexcept {
    using row = typename Cpu::template row<Size>;
    for (uint32_t i = 0; i < 32; i += row::step, mask >>= row::step, to += row::step * Size) {
      const uint32_t ones = mask & low_mask(row::step);
      row::move((Runs ? repeated : scattered)[ones].data(), Runs && (ones & 1) == 0 ? from - Size : from, to);
      from += Cpu::popcount(ones) * Size;
    }
    return from;
  }
};

}  // namespace tuck::inline TUCK_ABI::detail
