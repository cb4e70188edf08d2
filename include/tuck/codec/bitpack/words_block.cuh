// Groups on one thread block whose integers stay several in a word: signed integers of 2 bytes, two in a word, and
// unsigned bytes, four in a word. groups_block.cuh and groups_block_reader.cuh use these functions.
#pragma once

#include <tuck/codec/bitpack/groups.hpp>
#include <tuck/codec/block.cuh>
#include <tuck/core/bit_lanes.cuh>

namespace tuck::inline TUCK_ABI::detail {

// -- bytes ------------------------------------------------------------------------------------------------------------

// The number of words that `Count` bytes fill.
template <uint32_t Count> inline constexpr uint32_t bytes_words = (Count + 3) / 4;

// Returns a mask of the non-zero bytes of `Words` words.
template <uint32_t Words> __device__ uint32_t find_non_zeros(const device::vec128* own) {
  uint32_t bits = 0;
#pragma unroll
  for (uint32_t i = 0; i < Words; ++i) bits |= non_zero_nibble(own[i / 4].w[i % 4]) << 4 * i;
  return bits;
}

// Writes each byte of `Words` words minus `base`, in `width` bits. `Together` bytes are written at once. A product
// joins two fields of 8 bits, then two fields of 16 bits.
template <uint32_t Together, uint32_t Words>
__device__ __forceinline__ void put_bytes(device::shared_bit_writer& out, const device::vec128* own, uint32_t width,
                                          uint32_t base) {
  const uint32_t radix = 1u << width, closer = radix - 256, much_closer = radix * radix - (1u << 16);
  const uint32_t bases = base * (radix + 1) * (radix * radix + 1);
#pragma unroll
  for (uint32_t i = 0; i < Words; i += Together / 4) {
    uint32_t piece = 0;
#pragma unroll
    for (uint32_t k = Together / 4; k-- > 0;) {
      const uint32_t x = own[(i + k) / 4].w[(i + k) % 4];
      const uint32_t pairs = device::byte_perm<0x4341>(x, 0) * closer + x;
      if (k + 1 < Together / 4) piece <<= 4 * width;  // A single word may have fields of 8 bits.
      piece += (pairs >> 16) * much_closer + pairs - bases;
    }
    out.put(piece, Together * width);
  }
}

// Reads `Words` words of bytes, from byte `column` of the group whose bytes begin at `bit`. `fields` and `bases` hold
// four bytes each. The sum of a field and a base must fit in a byte.
template <uint32_t Together, uint32_t Words>
__device__ __forceinline__ void unpack_bytes(uint32_t (&words)[Words], const uint32_t* payload, uint32_t bit,
                                             uint32_t column, uint32_t width, uint32_t fields, uint32_t bases) {
  const uint32_t two = 2 * width, four = 4 * width;
  bit += column * width;
#pragma unroll
  for (uint32_t i = 0; i < Words; i += Together / 4, bit += Together * width) {
    uint32_t bits = device::shared_window(payload, bit);
#pragma unroll
    for (uint32_t k = 0; k < Together / 4; ++k) {
      if (k > 0) bits >>= four;
      const uint32_t pairs = device::byte_perm<0x5410>(bits, bits >> two);
      words[i + k] = (device::byte_perm<0x6240>(pairs, pairs >> width) & fields) + bases;
    }
  }
}

// The lowest bytes of integers, four in a word.
template <uint32_t Words> struct byte_words {
  uint32_t w[Words];
};
template <uint32_t Count> __device__ byte_words<bytes_words<Count>> bytes_of(const uint32_t (&x)[Count]) {
  byte_words<bytes_words<Count>> made;
#pragma unroll
  for (uint32_t i = 0; i < Count; i += 4) {
    const uint32_t low = device::byte_perm<0x0040>(x[i], x[i + 1]);
    const uint32_t high = device::byte_perm<0x0040>(x[i + 2], x[i + 3]);
    made.w[i / 4] = device::byte_perm<0x5410>(low, high);
  }
  return made;
}

// -- pairs ------------------------------------------------------------------------------------------------------------

// Returns ~d for the difference d of each integer of a pair and the one before it.
__device__ __forceinline__ uint32_t fall_of_pair(uint32_t pair, uint32_t before) {
  return device::add_pair(device::funnel_shift_right(before, pair, 16), ~pair);
}

// Of integers, and of the differences of neighbours.
template <class Number> struct group_extremes {
  Number lowest, highest, least_step, most_step;
  uint32_t non_zeros;
};

// Finds the extremes of the integers that a thread has of a group.
template <uint32_t Words>
__device__ group_extremes<int32_t> find_extremes(const device::vec128* own, bool differences) {
  const auto low = [](uint32_t pair) { return static_cast<int32_t>(pair << 16) >> 16; };
  const auto high = [](uint32_t pair) { return static_cast<int32_t>(pair) >> 16; };
  const auto least = [&](uint32_t pair) { return low(pair) < high(pair) ? low(pair) : high(pair); };
  const auto most = [&](uint32_t pair) { return low(pair) > high(pair) ? low(pair) : high(pair); };
  const uint32_t first = own[0].w[0];
  uint32_t lowest = first, highest = first, least_fall = ~0u, most_fall = ~0u, before = first << 16, non_zeros = 0;
  unrolled<Words / 4>([&]<int Q>() {
    const device::vec128 x = own[Q];
    uint32_t eight = 0;
    unrolled<4>([&]<int Index>() {
      lowest = device::least_pair(lowest, x.w[Index]);
      highest = device::most_pair(highest, x.w[Index]);
      eight = device::dot4<0x00020001u << 2 * Index>(device::non_zero_pair(x.w[Index]), eight);
    });
    non_zeros |= eight << 8 * Q;
    if (differences) {
      unrolled<4>([&]<int Index>() {
        const uint32_t fall = fall_of_pair(x.w[Index], before);
        least_fall = device::least_pair(least_fall, fall);
        most_fall = device::most_pair(most_fall, fall);
        before = x.w[Index];
      });
    }
  });
  group_extremes<int32_t> e{least(lowest), most(highest), ~most(most_fall), ~least(least_fall), non_zeros};
  if (differences && e.highest - e.lowest >= 1 << 15) {  // not all differences need fit in 16 bits
    int32_t last = low(first);
    e.least_step = e.most_step = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < 2 * Words; ++i) {
      const int32_t x = reinterpret_cast<const int16_t*>(own)[i], step = x - last;
      e.least_step = step < e.least_step ? step : e.least_step;
      e.most_step = step > e.most_step ? step : e.most_step;
      last = x;
    }
  }
  return e;
}

// Writes a thread's part of a group: the encoder uses at most 16 bits for an integer. `base` is the group's, and
// `before` is the integer before the part. If `leads`, the part begins the group.
template <uint32_t Words>
__device__ void put_pairs(device::shared_bit_writer& out, const device::vec128* own, integer_groups<2>::shape coding,
                          uint32_t base, uint32_t before, bool leads) {
  const uint32_t width = coding.width(), field = low_mask(width);
  if (coding.is_sparse()) {
    // By the centered scheme, x is stored as its low bits with the top one changed.
    const uint32_t top = coding.scheme() == integer_groups<2>::centered ? 1u << (width - 1) : 0,
                   tops = top << width | top;
#pragma unroll
    for (uint32_t i = 0; i < Words; ++i) {
      const uint32_t x = own[i / 4].w[i % 4], there = device::non_zero_pair(x);
      const uint32_t high = (x >> 16) << device::dot4(there, width, 0);
      out.put(device::xor_masked(high ^ tops, x, field), device::dot4(there, width * 0x00010001u, 0));
    }
    return;
  }
  const uint32_t biases = coding.is_difference() ? 0 : ((0u - base) & 0xffffu) * 0x00010001u;
  const uint32_t closer = (1u << width) - (1u << 16);  // times the high integer moves it next to the low one
  before <<= 16;
#pragma unroll
  for (uint32_t i = 0; i < Words; ++i) {
    uint32_t x = device::add_pair(own[i / 4].w[i % 4], biases), bits = 2 * width;
    if (coding.is_difference()) {
      const uint32_t fall = fall_of_pair(x, before);
      before = x;
      x = (device::add_pair(fall, fall) | 0x00010001u) ^ device::byte_signs<0x3311>(fall, fall);  // zigzag
    }
    if (i == 0 && leads && coding.is_difference()) {  // The first integer of the group was written before.
      x >>= 16;
      bits = width;
    } else {
      x += (x >> 16) * closer;
    }
    out.put(x, bits);
  }
}

}  // namespace tuck::inline TUCK_ABI::detail
