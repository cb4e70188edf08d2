// SPDX-License-Identifier: Apache-2.0
// What the encoder and the decoder of `steps` on one thread block share.
//
// The strings of a row are one bitmap in shared memory, class by class. Each thread has consecutive words of it. Where
// a value is in its class follows from the numbers of values of each class before it: two bits a value say the class. A
// one of row 0 has as many ones before it as its step has steps before it, class by class. So ranks in the bitmaps lead
// from a value to its bits in rows 1 and 2, its sign and its extra. No list of changed values is needed.
#pragma once

#include <tuck/codec/mask/block_masks.cuh>
#include <tuck/codec/steps/steps.hpp>

namespace tuck::inline TUCK_ABI {

/// The values of a chunk's base in global memory; null: zeros. Written: the kernel may write them, because the output
/// of a delta may be its base. It writes those of a chunk only behind the barrier that follows their last read here.
template <element T, bool Written> class base_values {
 public:
  __device__ explicit base_values(const T* p) : p_(reinterpret_cast<const bits_t<T>*>(p)) {}

  /// Reads one value.
  __device__ bits_t<T> at(uint32_t i) const { return p_ == nullptr ? bits_t<T>{0} : read(p_ + i); }
  /// Reads 16 bytes from value `first` on, with zeros past the first `count` values.
  __device__ device::vec128 row(uint32_t first, uint32_t count) const {
    constexpr uint32_t values = sizeof(device::vec128) / sizeof(T), per_word = 4 / sizeof(T);
    device::vec128 x{};
    if (p_ == nullptr) return x;
    if (first + values <= count && reinterpret_cast<uintptr_t>(p_ + first) % sizeof x == 0)
      return read(reinterpret_cast<const device::vec128*>(p_ + first));
#pragma unroll
    for (uint32_t k = 0; k < values; ++k)
      if (first + k < count)
        x.w[k / per_word] |= static_cast<uint32_t>(read(p_ + first + k)) << (8 * sizeof(T) * (k % per_word));
    return x;
  }

 private:
  template <class U> __device__ static U read(const U* p) {
    return Written ? device::load_written(p) : device::load(p);
  }

  const bits_t<T>* p_;
};

/// What encoder and decoder share.
template <element T, int Threads> struct block_steps {
  using tile = block_tile<T, Threads>;
  using scan = device::block_scan<Threads>;
  using word = bits_t<T>;
  using list = steps_format::list;
  static constexpr uint32_t classes = steps_format::classes, rows = steps_format::rows;
  static constexpr uint32_t words = tile::capacity / 32;  // of a bitmap

  // In shared memory. Rows of `begin`: where the string of each class begins in the bitmap of the row, and the end of
  // the last one. Row 3: the extras.
  struct strings {
    uint32_t threshold, order;  // of the header (layout.hpp); one thread sets them
    uint32_t begin[rows + 1][classes + 1];
    uint32_t entries[rows][classes], remainder[rows][classes], inverted[rows][classes];
    uint32_t bits[rows][words + 2];
    uint32_t plane[2][words];               // bit 0 and bit 1 of the class of each value
    uint16_t ones_before[rows][words / 4];  // of four words
    typename scan::TempStorage of_scan;
  };

  using own_range = detail::own_range<Threads>;  // of words, or of entries

  // Returns one of four sums, one of each class. 16 bits hold each number of values: a chunk has at most 16384. They
  // need not hold the remainders of a malformed chunk. Before a sum of these overflows, an entry leaves its string,
  // because a remainder has at most 13 bits. The chunk is then rejected.
  //
  //    63     48 47     32 31     16 15      0
  //   +---------+---------+---------+---------+
  //   | class 3 | class 2 | class 1 | class 0 |
  //   +---------+---------+---------+---------+
  __device__ static uint32_t of_class(uint64_t sums, uint32_t c) {
    return static_cast<uint32_t>(sums >> (16 * c)) & 0xffff;
  }
  // The sum of the threads before this one, and of all. The second barrier frees of_scan for the next sum.
  template <class U> __device__ static U scan_sum(strings& s, U mine, U& all) {
    const U before = scan::exclusive_sum(s.of_scan, mine, all);
    device::sync_block();
    return before;
  }

  // Value k of 16 bytes.
  template <uint32_t K> __device__ static word value(const device::vec128& x) {
    constexpr uint32_t per_word = 4 / sizeof(T);
    return static_cast<word>(x.w[K / per_word] >> (8 * sizeof(T) * (K % per_word)));
  }

  // Finds the class of each value, after a barrier behind the write of s.threshold. Has no barrier.
  template <class Base> __device__ static void find_classes(strings& s, const Base& base, uint32_t count) {
    const uint32_t threshold = s.threshold;
#pragma unroll 1
    for (int r = 0; r < tile::rows; ++r) {
      const uint32_t first = tile::first_value(r * tile::row_words);
      const device::vec128 x = base.row(first, count);
      uint32_t both = 0;  // of up to 16 values: [31:16] bit 1 of their classes, [15:0] bit 0, lowest value first
      detail::unrolled<static_cast<int>(tile::lane_values)>([&]<int K>() {
        const uint32_t c = steps_format::class_of(steps_format::exponent_of<T>(value<K>(x)), threshold);
        both |= (c & 1) << K | (c >> 1) << (16 + K);
      });
      if constexpr (tile::lane_values == 4) {
        both |= device::shfl_xor(both, 1) << 4;
        if (device::lane_id() % 2 != 0) continue;
      }
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        using piece = std::conditional_t<tile::lane_values == 16, uint16_t, uint8_t>;
        reinterpret_cast<piece*>(s.plane[i])[first / (8 * sizeof(piece))] = static_cast<piece>(both >> (16 * i));
      }
    }
  }
  // Returns the values of class c among 32.
  __device__ static uint32_t class_mask(const strings& s, uint32_t w, uint32_t c, uint32_t count) {
    const uint32_t low = s.plane[0][w], high = s.plane[1][w];
    return ((c & 1) != 0 ? low : ~low) & ((c & 2) != 0 ? high : ~high) & low_mask(count - 32 * w);
  }
  // Sets begin[0]. Returns the numbers of values of each class before the words of this thread. Has barriers.
  __device__ static uint64_t count_values(strings& s, uint32_t count) {
    uint64_t mine = 0, all;
    const own_range own(mask_words(count));
#pragma unroll 1
    for (uint32_t w = own.begin; w < own.end; ++w)
      for (uint32_t c = 0; c < classes; ++c) mine += uint64_t{popcount(class_mask(s, w, c, count))} << (16 * c);
    const uint64_t before = scan::exclusive_sum(s.of_scan, mine, all);
    if (threadIdx.x == 0) {
      uint32_t sum = 0;
      for (uint32_t c = 0; c < classes; ++c) {
        s.begin[0][c] = sum;
        sum += of_class(all, c);
      }
      s.begin[0][classes] = sum;
    }
    device::sync_block();
    return before;
  }

  // Finds out how each string is stored. Returns whether a string has at most as many ones as bits, to threads that
  // look at one. Has no barrier.
  __device__ static bool set_lists(strings& s) {
    const uint32_t row = threadIdx.x / classes, c = threadIdx.x % classes;
    if (row >= rows) return true;
    const uint32_t length = s.begin[row][c + 1] - s.begin[row][c];
    const uint32_t ones = s.begin[row + 1][c + 1] - s.begin[row + 1][c];
    if (ones > length) return false;
    const list l = list::of(ones, length);
    s.entries[row][c] = l.entries;
    s.remainder[row][c] = l.remainder;
    s.inverted[row][c] = l.inverted;
    return true;
  }
  __device__ static uint32_t entries_of(const strings& s, uint32_t row) {
    uint32_t sum = 0;
    for (uint32_t c = 0; c < classes; ++c) sum += s.entries[row][c];
    return sum;
  }
  __device__ static uint32_t remainder_bits(const strings& s, uint32_t row) {
    uint32_t sum = 0;
    for (uint32_t c = 0; c < classes; ++c) sum += s.entries[row][c] * s.remainder[row][c];
    return sum;
  }

  // Returns a word of a row with the strings inverted that are stored by their zeros.
  __device__ static uint32_t inverted(const strings& s, uint32_t row, uint32_t w) {
    uint32_t x = s.bits[row][w];
    const auto in_word = [&](uint32_t i) { return low_mask(i > 32 * w ? i - 32 * w : 0); };
    for (uint32_t c = 0; c < classes; ++c)
      if (s.inverted[row][c] != 0) x ^= in_word(s.begin[row][c + 1]) & ~in_word(s.begin[row][c]);
    return x;
  }
  // Counts the ones before each group of words of a row. Returns all ones. Has barriers.
  __device__ static uint32_t find_ranks(strings& s, uint32_t row) {
    const own_range own(words / 4);
    const auto ones_of = [&](uint32_t group) {
      const uint32_t* const x = s.bits[row] + 4 * group;
      return popcount(x[0]) + popcount(x[1]) + popcount(x[2]) + popcount(x[3]);
    };
    uint32_t mine = 0, all;
#pragma unroll 1
    for (uint32_t g = own.begin; g < own.end; ++g) mine += ones_of(g);
    uint32_t before = scan::exclusive_sum(s.of_scan, mine, all);
#pragma unroll 1
    for (uint32_t g = own.begin; g < own.end; ++g) {
      s.ones_before[row][g] = static_cast<uint16_t>(before);
      before += ones_of(g);
    }
    device::sync_block();
    return all;
  }
  // Returns the number of ones before bit i of a row.
  __device__ static uint32_t rank(const strings& s, uint32_t row, uint32_t i) {
    uint32_t sum = s.ones_before[row][i / 128];
#pragma unroll 1
    for (uint32_t w = i / 128 * 4; w < i / 32; ++w) sum += popcount(s.bits[row][w]);
    return sum + popcount(s.bits[row][i / 32] & low_mask(i % 32));
  }
  // Returns 32 bits from bit i on.
  __device__ static uint32_t window(const uint32_t* bits, uint32_t i) {
    return device::funnel_shift_right(bits[i / 32], bits[i / 32 + 1], i % 32);
  }
  __device__ static bool is_one(const uint32_t* bits, uint32_t i) { return (bits[i / 32] >> i % 32 & 1) != 0; }
  // Sets bit i, which the caller bounds, while other threads set others. A barrier lies behind what cleared the words.
  __device__ static void set_one(uint32_t* bits, uint32_t i) { device::atomic_or(bits + i / 32, 1u << i % 32); }
  __device__ static void clear(uint32_t* bits, uint32_t count) {
    for (uint32_t w = threadIdx.x; w < count; w += Threads) bits[w] = 0;
  }
};

}  // namespace tuck::inline TUCK_ABI
