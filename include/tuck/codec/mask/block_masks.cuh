// SPDX-License-Identifier: Apache-2.0
// Masks by one thread block, with the bits of masks.hpp.
//
// A lane has 16 bytes of each row of its warp, and so 2 to 16 consecutive bits of the mask of each row. They are fields
// of one word, so that rows are counted and scanned together:
//
//   1-byte values           2 to 8 bytes
//    31      16 15       0   31  24 23  16 15   8 7     0
//   +----------+----------+ +------+------+------+------+
//   | row r + 1|  row r   | | r + 3| r + 2| r + 1| row r|   of a byte, the lowest 8, 4 or 2 bits: lowest value first
//   +----------+----------+ +------+------+------+------+
//
// The values at the ones are then written or read row by row, without branches: the ones before bit k of all rows of a
// word are counted together, and one dot product adds them to the position of a row.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/core/bit_lanes.cuh>
#include <tuck/core/block_reduce.cuh>
#include <tuck/core/masks.hpp>

namespace tuck::inline TUCK_ABI {

/// The mask of a tile, one field per row in the words of a thread.
template <element T, int Threads> class block_masks {
 public:
  using tile = block_tile<T, Threads>;
  using word = typename tile::word;
  using position = device::shared_position<bits_t<T>>;

  static constexpr uint32_t most_bytes = tile::capacity / 8;  ///< size of the mask of a full tile

 private:
  static constexpr int per_word = tile::per_word, rows = tile::rows, row_words = tile::row_words;
  static constexpr uint32_t row_bits = tile::lane_values;  // of a lane
  static constexpr uint32_t field = row_bits > 8 ? 16 : 8;
  static constexpr int rows_a_word = 32 / field;
  static constexpr int words = ceil_div(rows, rows_a_word);
  static constexpr uint32_t group = row_bits < 8 ? 8 / row_bits : 1;  // lanes whose bits share a byte
  static constexpr uint32_t row_bytes = device::warp_size * row_bits / 8;
  using of_warps = device::block_reduce<Threads>;
  using piece = std::conditional_t<field == 16, uint16_t, uint8_t>;  // the bits of a group in a row

 public:
  struct TempStorage {
    typename of_warps::TempStorage ones;
    uint32_t selector[sizeof(T) == 1 ? 16 : 1];  // byte_perm selectors for each value of four bits
  };

  /// Of this thread: one field per row, of 2 to 16 bits as in the diagram above. All bits outside of the fields are 0.
  uint32_t bits[words];

  // -- from values to masks ------------------------------------------------------------------------------------------

  /// Sets the bits of values that are not zero.
  __device__ void find_non_zeros(const tile& values) { find(values, tile{}); }
  /// Sets the bits of values that differ from the value before them. `last` is the value before the first of the warp.
  /// The caller clips the bits past the end of the chunk.
  __device__ void find_changes(const tile& values, bits_t<T> last) {
    tile before;
    // `last`, in place of the highest value of a word.
    word carried = static_cast<word>(last) << (8 * (sizeof(word) - sizeof(T)));
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const word* const w = values.w + r * row_words;
      const word below = device::shfl(w[row_words - 1], static_cast<int>((device::lane_id() + 31) % 32));
#pragma unroll
      for (int k = 0; k < row_words; ++k) {
        word& b = before.w[r * row_words + k];
        b = k != 0 ? w[k - 1] : device::lane_id() == 0 ? carried : below;
        if constexpr (per_word > 1) b = device::funnel_shift_right(b, w[k], 32 - 8 * sizeof(T));
      }
      carried = below;
    }
    find(values, before);
  }
  /// Clears all bits except those of the first `count` values.
  __device__ void clip(uint32_t count) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const uint32_t first = tile::first_value(r * row_words), left = count > first ? count - first : 0;
      if (left < row_bits) bits[r / rows_a_word] &= ~((low_mask(row_bits) & ~low_mask(left)) << shift_of(r));
    }
  }
  /// Returns the number of ones of this thread.
  __device__ uint32_t ones() const {
    uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < words; ++i) sum += popcount(bits[i]);
    return sum;
  }

  /// Writes most_bytes of mask to shared memory.
  __device__ void store(std::byte* to) const {
#pragma unroll
    for (int i = 0; i < words; ++i) {
      uint32_t together = bits[i];
#pragma unroll
      for (uint32_t lanes = 1; lanes < group; lanes *= 2) {
        const uint32_t other = device::shfl_xor(together, static_cast<int>(lanes));
        const uint32_t shift = row_bits * lanes;
        together = (device::lane_id() & lanes) != 0 ? together << shift | other : other << shift | together;
      }
      // Now each lane of a group has its bytes of all rows, and writes some of them.
#pragma unroll
      for (uint32_t r = 0; r < static_cast<uint32_t>(rows_a_word) && i * rows_a_word + r < rows; r += group) {
        const uint32_t row = r + device::lane_id() % group;
        if (rows < static_cast<int>(group) && row >= rows) continue;
        *piece_at(to, i * rows_a_word + row) = static_cast<piece>(together >> (row * field));
      }
    }
  }
  /// Reads the bytes of the mask below `size`, which is most_bytes if Whole.
  template <bool Whole> __device__ void load(const std::byte* from, uint32_t size = most_bytes) {
#pragma unroll
    for (int i = 0; i < words; ++i) {
      uint32_t all = 0;
#pragma unroll
      for (int r = 0; r < rows_a_word && i * rows_a_word + r < rows; ++r) {
        const auto* const at = piece_at(from, static_cast<uint32_t>(i * rows_a_word + r));
        if (Whole || reinterpret_cast<const std::byte*>(at) < from + size) all |= uint32_t{*at} << (r * field);
      }
      bits[i] = group == 1 ? all : all >> device::lane_id() % group * row_bits & low_mask(row_bits) * 0x01010101u;
    }
  }

  // -- positions of the values at the ones ----------------------------------------------------------------------------

  /// The sum of one number of each warp: over the warps before this one, and over all warps. sum_warps has a barrier.
  struct sums {
    uint32_t before, all;
  };
  __device__ static sums sum_warps(TempStorage& temp, uint32_t own) {
    set_of_warp(temp, own);
    device::sync_block();
    return sum_set(temp);
  }
  /// The same, and sets `any` to whether any thread has `mine`.
  __device__ static sums sum_warps(TempStorage& temp, uint32_t own, bool mine, bool& any) {
    set_of_warp(temp, own);
    any = device::sync_block_or(mine);
    return sum_set(temp);
  }

 private:
  __device__ static void set_of_warp(TempStorage& temp, uint32_t own) {
    const uint32_t lane = device::lane_id(), warp = device::warp_id();
    device::shared_position<uint32_t>(temp.ones.of_warp, 4 * warp).put_if<1>(1u >> lane, own);  // without a branch
  }
  __device__ static sums sum_set(TempStorage& temp) {
    const uint32_t of_warp = of_warps::get(temp.ones);
    return {of_warps::sum_before(of_warp), device::warp_sum(of_warp)};
  }

 public:
  /// Returns the numbers of ones.
  __device__ sums sum(TempStorage& temp) const { return sum_warps(temp, device::warp_sum(ones())); }

  /// Where this thread's first value at a one is in each row, among the values at the ones from `packed` on. `before`
  /// is the number of ones of the warps before this one.
  struct positions {
    position of_row[rows];
  };
  __device__ positions find_positions(const void* packed, uint32_t before) const {
    // A field of 8 bits holds the count of 32 lanes, except with 2-byte values: these allow only 31 lanes.
    constexpr bool fits = row_bits != 8;
    positions p;
    position begin(packed, before * uint32_t{sizeof(T)});
#pragma unroll
    for (int i = 0; i < words; ++i) {
      const uint32_t own = ones_before<row_bits>(bits[i]), up_to = device::warp_inclusive_sum(own), below = up_to - own;
      const uint32_t last = device::shfl(fits ? up_to : below, 31), last_own = fits ? 0 : device::shfl(own, 31);
      detail::unrolled<rows_a_word>([&]<int R>() {
        if (rows_a_word * i + R >= rows) return;
        p.of_row[rows_a_word * i + R] = after<R>(begin, below);
        begin = after<R>(begin, last);
        if constexpr (!fits) begin = after<R>(begin, last_own);
      });
    }
    return p;
  }

  /// Returns the bits of this thread in row R, and how many zeros are before them. `p`: from find_positions(packed).
  template <int R> __device__ uint32_t row() const { return bits[R / rows_a_word] >> shift_of(R) & low_mask(row_bits); }
  template <int R> __device__ static uint32_t zeros_before(const void* packed, const positions& p) {
    return tile::first_value(R * row_words) - p.of_row[R].values_from(position(packed, 0));
  }

  // -- values --------------------------------------------------------------------------------------------------------

  /// Prepares `selector` for put, or for get, of 1-byte values. The caller adds a barrier.
  template <bool Put> __device__ static void prepare(TempStorage& temp) {
    if constexpr (sizeof(T) == 1)
      if (threadIdx.x < 16) temp.selector[threadIdx.x] = selectors<Put>(threadIdx.x);
  }

  /// Writes the values at the ones to their positions in shared memory. For 1-byte values that memory must be zero.
  __device__ void put(const TempStorage& temp, const tile& values, const positions& p) const {
    detail::unrolled<rows>([&]<int R>() {
      const word* const w = values.w + R * row_words;
      const uint32_t mask = bits[R / rows_a_word];
      if constexpr (sizeof(T) == 1) {
        device::shared_bit_writer out(p.of_row[R]);
#pragma unroll
        for (int k = 0; k < row_words; ++k) {
          const uint32_t selector = temp.selector[mask >> (shift_of(R) + 4 * k) & 15];
          out.put(device::byte_perm(w[k], 0, selector), selector >> 16);
        }
        out.finish();
      } else {
        detail::unrolled<static_cast<int>(row_bits)>([&]<int Index>() {
          position_of<R, Index>(p).template put_if<1u << (shift_of(R) + Index)>(
              mask, w[Index / per_word] >> (8 * sizeof(T) * (Index % per_word)));
        });
      }
    });
  }

  /// Returns the 16 bytes of this thread in row R: values at the ones, and zeros elsewhere. If Repeats, other positions
  /// get the value of the last one, which may be the value before the first. Without Repeats, 1-byte values read up to
  /// 8 bytes past the last value.
  template <bool Repeats, int R> __device__ device::vec128 get(const TempStorage& temp, const positions& p) const {
    const uint32_t mask = bits[R / rows_a_word];
    tile row{};
    if constexpr (sizeof(T) == 1 && !Repeats) {
      position at = p.of_row[R];
#pragma unroll
      for (int k = 0; k < row_words; ++k) {
        const uint32_t selector = temp.selector[mask >> (shift_of(R) + 4 * k) & 15];
        row.w[k] = device::byte_perm(at.four_bytes(), 0, selector);
        at = at.after(selector >> 16);
      }
    } else {
      detail::unrolled<static_cast<int>(row_bits)>([&]<int Index>() {
        const word x = Repeats ? position_of<R, Index + 1>(p).before()
                               : position_of<R, Index>(p).template get_if<1u << (shift_of(R) + Index)>(mask);
        row.w[Index / per_word] |= x << (8 * sizeof(T) * (Index % per_word));
      });
    }
    return row.row(0);
  }

  /// Sets the highest bit of values at zeros in the 16 bytes of row R: of each zero, one bit of `signs`.
  template <int R> __device__ device::vec128 with_signs(device::vec128 x, uint32_t signs) const {
    const uint32_t zeros = ~row<R>();
    detail::unrolled<static_cast<int>(row_bits)>([&]<int Index>() {
      constexpr uint32_t top = 8 * sizeof(T) * (Index + 1) - 1;  // the bit of the 128
      const uint32_t zero = zeros >> Index & 1;
      x.w[top / 32] |= (signs & zero) << top % 32;
      signs >>= zero;
    });
    return x;
  }

 private:
  __device__ static constexpr uint32_t shift_of(int r) { return static_cast<uint32_t>(r % rows_a_word) * field; }
  // Returns the address of this thread's bits of a row in a mask in shared memory.
  template <class Byte> __device__ static auto* piece_at(Byte* mask, uint32_t row) {
    using pointer = std::conditional_t<std::is_const_v<Byte>, const piece, piece>*;
    return reinterpret_cast<pointer>(mask + tile::first_value() / 8 + row * row_bytes);
  }

  // Sets the bits of values that differ from those of `before`.
  __device__ void find(const tile& values, const tile& before) {
#pragma unroll
    for (int i = 0; i < words; ++i) bits[i] = 0;
    if constexpr (per_word == 1) {
      detail::unrolled<tile::words>([&]<int J>() {
        constexpr int r = J / row_words, k = J % row_words;
        uint32_t& of_rows = bits[r / rows_a_word];
        of_rows = device::or_if_differ<1u << (shift_of(r) + k)>(of_rows, values.w[J], before.w[J]);
      });
    } else {
      // The lowest byte of a word of masks apart, as it would not fit beside three that begin at bit 7.
      detail::unrolled<words>([&]<int M>() {
        uint32_t upper = 0;
        detail::unrolled<3>([&]<int K>() { upper = add_eight<4 * M + 3 - K>(values, before, upper << 8); });
        bits[M] = upper << 1 | add_eight<4 * M>(values, before, 0) >> 7;
      });
    }
  }
  // Adds byte B of the masks to `sum`, from bit 7 on: the bits of 8 values that differ from those of `before`.
  template <int B> __device__ static uint32_t add_eight(const tile& values, const tile& before, uint32_t sum) {
    constexpr uint32_t tops = per_word == 4 ? 0x80808080u : 0x80008000u;
    constexpr int each = 8 / per_word;
    if constexpr (B * each < tile::words)
      detail::unrolled<each>([&]<int K>() {
        constexpr uint32_t weights = (per_word == 4 ? 0x08040201u : 0x02000100u) << K * per_word;
        const uint32_t x = values.w[B * each + K] ^ before.w[B * each + K];
        // The top bit of each value is set if it is not zero.
        sum = device::dot4<weights>((((x & ~tops) + ~tops) | x) & tops, sum);
      });
    return sum;
  }

  // Returns the number of ones among the first Count bits of each field.
  template <uint32_t Count> __device__ static uint32_t ones_before(uint32_t x) {
    if constexpr (Count == 0)
      return 0;
    else if constexpr (Count == 16)
      return popcount(x & 0xffffu) + (popcount(x >> 16) << 16);
    else
      return ones_before<Count - 1>(x) + (x >> (Count - 1) & (field == 16 ? 0x00010001u : 0x01010101u));
  }
  // Returns the position after as many values as field R counts.
  template <int R> __device__ static position after(position begin, uint32_t fields) {
    if constexpr (field == 16)
      return begin.after(fields >> (16 * R) & 0xffffu);
    else
      return begin.template after_byte<R>(fields);
  }
  // Returns where the value of bit Index of row R is, if the bit is set.
  template <int R, uint32_t Index> __device__ position position_of(const positions& p) const {
    if constexpr (Index == 0) return p.of_row[R];
    return after<R % rows_a_word>(p.of_row[R], ones_before<Index>(bits[R / rows_a_word]));
  }

  // Returns byte_perm selectors for the four bytes of a mask of four bits. Packed: moves the bytes at the ones to the
  // front; their size is in bits. Otherwise: moves them from the front to their positions; their size is in bytes. All
  // other bytes become zero.
  //
  //    31      16 15    12 11     8 7      4 3      0
  //   +----------+--------+--------+--------+--------+
  //   |   size   | byte 3 | byte 2 | byte 1 | byte 0 |   where each byte comes from: byte 0 to 3, or 4 for zero
  //   +----------+--------+--------+--------+--------+
  template <bool Packed> __device__ static uint32_t selectors(uint32_t bits) {
    uint32_t all = 0x4444, n = 0;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i)
      if ((bits >> i & 1) != 0) {
        all ^= Packed ? (4 ^ i) << (4 * n) : (4 ^ n) << (4 * i);
        ++n;
      }
    return all | n << (Packed ? 19 : 16);
  }
};

}  // namespace tuck::inline TUCK_ABI
