// SPDX-License-Identifier: Apache-2.0
// Groups of integers on one thread block: the decoder. It restores and rejects the same chunks as host_groups.hpp.
//
// First, one thread per group finds where the group begins and stores what is needed to read its integers. Then each
// lane reads the integers of 16 bytes of output.
#pragma once

#include <tuck/codec/bitpack/groups.hpp>
#include <tuck/codec/block.cuh>
#include <tuck/core/bit_lanes.cuh>
#include <tuck/core/block_reduce.cuh>

namespace tuck::inline TUCK_ABI {

template <uint32_t Bytes, int Threads> class block_group_reader {
  using layout = integer_groups<Bytes>;
  using word = typename layout::word;
  using shape = typename layout::shape;
  using tile = block_tile<untyped<Bytes>, Threads>;
  using of_warps = device::block_reduce<Threads>;

  static constexpr uint32_t group = layout::group;
  static constexpr uint32_t most_groups = tile::capacity / group;
  static constexpr uint32_t each = ceil_div(most_groups, uint32_t{Threads});  // groups of a thread
  static constexpr uint32_t in_lane = tile::lane_values;                      // integers per 16 bytes of output
  template <uint32_t N> using word_array = word[N];

  // How to read the integers of a group.
  struct alignas(Bytes == 8 ? 8 : 16) entry {
    word base;     // added to each integer; includes `zero`. Difference groups: zigzag of the first integer plus `zero`
    uint32_t bit;  // offset of the integers in the payload
    uint32_t width_and_flags;
    uint32_t mask;  // one bit per integer: whether it is in the payload

    // Returns the mask from integer `first` on.
    __device__ uint32_t present(uint32_t first = 0) const { return mask >> first; }
  };
  // width_and_flags. `wide`: the width is over 8. `not_all`: some integers are not in the payload. The flags ascend:
  // the OR of the words of several rows is at least over_16 or `wide` if one of the rows has that flag. The OR of their
  // widths has no meaning.
  //
  //    31      12   11      10      9             8         7      0
  //   +----------+---------+------+-------------+---------+---------+
  //   |     0    | over_16 | wide | differences | not_all |  width  |
  //   +----------+---------+------+-------------+---------+---------+
  static constexpr uint32_t not_all = 1 << 8, differences = 1 << 9, wide = 1 << 10, over_16 = 1 << 11;

 public:
  struct TempStorage {
    entry of_group[most_groups];
    uint32_t selectors[Bytes == 8 ? 1 : 16];  // selectors_of() for each value of four bits
    typename of_warps::TempStorage sparse, bits;
    uint32_t payload, end;  // offsets in bytes; uniform, kept here to save registers
  };

  __device__ explicit block_group_reader(TempStorage& temp) : temp_(temp) {}

  // Opens a chunk of `count` integers: `size` bytes in shared memory, which may continue after the groups. Overwrites
  // up to 16 bytes after them. `zero` is added to each integer. Returns false, to all threads, if the groups are
  // malformed. Has barriers.
  __device__ bool open(std::byte* encoded, uint32_t size, uint32_t count, uint32_t max_width, word zero) {
    encoded_ = reinterpret_cast<uint32_t*>(encoded);
    zero_ = zero;
    const uint32_t groups = layout::count(count), words = (groups + 31) / 32;
    const uint32_t shapes = layout::head_bytes + 4 * words;
    if (size < shapes) return false;
    if (threadIdx.x < 3) encoded_[(size + 3) / 4 + threadIdx.x] = 0;
    if (Bytes < 8 && threadIdx.x < 16) temp_.selectors[threadIdx.x] = selectors_of(threadIdx.x);
    const uint32_t first_bits = head() & 255, base_bits = head() >> 8 & 255;
    bool bad = (first_bits > max_width) | (base_bits > max_width);

    const uint32_t non_zero_groups = device::warp_sum(popcount(own_word(words)));
    const uint32_t masks = shapes + (non_zero_groups + 3) / 4 * 4;
    if (size < masks) return false;
    bad |= (groups % 32 != 0) & (non_zero(words - 1) >> groups % 32 != 0);
    own_groups own;
    if (has_groups()) {
      find_shapes(own, words, shapes);
    } else {
      of_warps::set(temp_.sparse, 0);
      of_warps::set(temp_.bits, 0);
    }
    device::sync_block();
    const uint32_t sparse_of_warp = of_warps::get(temp_.sparse);
    const uint32_t sparse_groups = device::warp_sum(sparse_of_warp);
    if (size < masks + 4 * sparse_groups) return false;
    if (has_groups()) find_sizes(own, masks / 4 + of_warps::sum_before(sparse_of_warp), max_width);
    device::sync_block();
    const uint32_t bits_of_warp = of_warps::get(temp_.bits);
    const uint32_t payload_bits = device::warp_sum(bits_of_warp);
    const auto at = layout::offsets_of(count, non_zero_groups, sparse_groups, payload_bits);
    if (bad | (payload_bits >= too_many) | (at.end > size)) return false;
    if (threadIdx.x == 0) {
      temp_.payload = at.payload;
      temp_.end = at.end;
    }
    if (has_groups()) put_entries(own, at.payload, of_warps::sum_before(bits_of_warp));
    device::sync_block();
    return true;
  }

  // The `extra` field, the bytes, and the end of the groups of an open chunk.
  __device__ uint32_t extra() const { return head() >> 16; }
  __device__ const std::byte* encoded() const { return reinterpret_cast<const std::byte*>(encoded_); }
  __device__ uint32_t end() const { return temp_.end; }

  // Passes `count` values to the sink. `row(first, x)` makes 16 bytes of values from the integers x, with `zero` added;
  // `first` is the index of the first value. Rows past the last value are made too.
  template <class Row, class Sink> __device__ void decode(uint32_t count, const Row& row, Sink& sink) const {
    constexpr int some = tile::rows < 4 ? tile::rows : 4;  // rows in registers
#pragma unroll 1
    for (int begin = 0; begin < tile::rows; begin += some) {
      const uint32_t first = tile::first_value(begin * tile::row_words);
      device::vec128 x[some];
      decode_rows(first, row, x);
      if (count == tile::capacity) {
        sink(first, x);
        continue;
      }
#pragma unroll
      for (int r = 0; r < some; ++r)
        if (const uint32_t at = first + static_cast<uint32_t>(r) * tile::row_values; at < count)
          sink(at, tile::clip(x[r], count - at));
    }
  }

 private:
  // What a thread knows about its groups.
  struct own_groups {
    shape coding[each];
    uint32_t there = 0;   // one bit per group: does it have a non-zero integer?
    uint32_t sparse = 0;  // sparse groups of this warp before those of this thread
    uint32_t present[each], bits[each];
    uint32_t before = 0;  // bits of this warp's payload before those of this thread
  };
  static constexpr uint32_t too_many = 1 << 20;  // bits; more than any chunk has

  __device__ uint32_t head() const { return encoded_[0]; }
  __device__ uint32_t non_zero(uint32_t word_index) const { return encoded_[layout::head_bytes / 4 + word_index]; }
  // Returns this lane's word of non_zero[], 0 past its end.
  __device__ uint32_t own_word(uint32_t words) const {
    return device::lane_id() < words ? non_zero(device::lane_id()) : 0;
  }
  // Returns whether this warp has groups.
  __device__ static bool has_groups() { return device::warp_id() * (device::warp_size * each) < most_groups; }

  __device__ void find_shapes(own_groups& own, uint32_t words, uint32_t shapes) {
    const uint32_t first = threadIdx.x * each, w = first / 32, bits = w < words ? non_zero(w) : 0;
    const uint32_t of_lane = popcount(own_word(words));
    uint32_t rank;  // of the first group among the non-zero groups
    if constexpr (each == 1)
      rank = device::warp_sum(device::lane_id() < w ? of_lane : 0);
    else
      rank = device::shfl(device::warp_inclusive_sum(of_lane) - of_lane, static_cast<int>(w % 32));
    rank += popcount(bits & low_mask(first % 32));
    own.there = bits >> first % 32 & low_mask(each);
    uint32_t sparse = 0;
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) {
      own.coding[i] = {};
      if ((own.there >> i & 1) != 0) own.coding[i] = {reinterpret_cast<const uint8_t*>(encoded_)[shapes + rank++]};
      sparse += own.coding[i].is_sparse() ? 1 : 0;
    }
    uint32_t up_to;
    if constexpr (each == 1)
      up_to = popcount(device::ballot(sparse != 0) & low_mask(device::lane_id() + 1));
    else
      up_to = device::warp_inclusive_sum(sparse);
    own.sparse = up_to - sparse;
    of_warps::set(temp_.sparse, up_to, device::warp_size - 1);
  }

  // `masks` is the word at which this warp's masks begin.
  __device__ void find_sizes(own_groups& own, uint32_t masks, uint32_t max_width) {
    uint32_t mask_at = masks + own.sparse, bits = 0;
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) {
      const shape coding = own.coding[i];
      own.present[i] = coding.is_difference() ? ~1u : ~0u;
      if (coding.is_sparse()) own.present[i] = encoded_[mask_at++];
      own.bits[i] = coding.is_sound(max_width)
                        ? coding.payload_bits(popcount(own.present[i]), head() & 255, head() >> 8 & 255)
                        : too_many;
      if ((own.there >> i & 1) == 0) own.bits[i] = 0;
      bits += own.bits[i];
    }
    const uint32_t up_to = device::warp_inclusive_sum(bits);
    own.before = up_to - bits;
    of_warps::set(temp_.bits, up_to, device::warp_size - 1);
  }

  // `bit` is the offset in the payload at which this warp's groups begin.
  __device__ void put_entries(const own_groups& own, uint32_t payload, uint32_t bit) {
    const uint32_t first = threadIdx.x * each;
    bit += own.before;
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) {
      const shape coding = own.coding[i];
      const uint32_t lead = coding.lead_bits(head() & 255, head() >> 8 & 255), width = coding.width();
      const bool is_zero = (own.there >> i & 1) == 0;  // no bits and no base
      word base = zero_ + (is_zero ? 0 : coding.base(device::shared_bits<word>(encoded_ + payload / 4, bit, lead)));
      if (coding.is_difference()) base = zigzag(base);
      const uint32_t flags = width | (coding.is_sparse() ? not_all : 0) |
                             (coding.is_difference() ? not_all | differences : 0) | (width > 8 ? wide : 0) |
                             (width > 16 ? over_16 : 0);
      temp_.of_group[first + i] = {base, bit + lead, is_zero ? 0 : flags, own.present[i]};
      bit += own.bits[i];
    }
  }

  // Decodes this thread's 16 bytes of some rows. `first` is their value index in the first row. The whole warp calls
  // it.
  template <class Row, int Rows>
  __device__ void decode_rows(uint32_t first, const Row& row, device::vec128 (&rows)[Rows]) const {
    entry e[Rows];
    uint32_t all = 0;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      e[r] = temp_.of_group[first / group + static_cast<uint32_t>(r) * (tile::row_values / group)];
      all |= e[r].width_and_flags;
    }
    all = device::warp_or(all);
    // Reads as many integers at once as one window of 32 bits holds.
    if (Bytes == 8 || all >= over_16)
      decode_rows_by<1, true>(first, all, e, row, rows);
    else if (all >= wide)
      (all & not_all) != 0 ? decode_rows_by<Bytes == 8 ? 1 : 2, true>(first, all, e, row, rows)
                           : decode_rows_by<Bytes == 8 ? 1 : 2, false>(first, all, e, row, rows);
    else
      (all & not_all) != 0 ? decode_rows_by<Bytes == 8 ? 1 : 4, true>(first, all, e, row, rows)
                           : decode_rows_by<Bytes == 8 ? 1 : 4, false>(first, all, e, row, rows);
  }
  template <uint32_t Together, bool SomeAbsent, class Row, int Rows>
  __device__ void decode_rows_by(uint32_t first, uint32_t all, const entry (&e)[Rows], const Row& row,
                                 device::vec128 (&rows)[Rows]) const {
    const uint32_t column = first % group;
    const uint32_t* const payload = encoded_ + temp_.payload / 4;
    const bool any_differences = (all & differences) != 0;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const uint32_t at = first + static_cast<uint32_t>(r) * tile::row_values;
      word x[in_lane];
      if constexpr (Together == 4)
        unpack_small<SomeAbsent>(x, payload, e[r], column);
      else
        unpack_large<Together, SomeAbsent>(x, payload, e[r], column);
      if (SomeAbsent && any_differences) sum_differences(x, e[r].base, (e[r].width_and_flags & differences) != 0);
      rows[r] = row(at, x);
    }
  }

  // Reads integers of at most 8 bits, four at once.
  template <bool SomeAbsent>
  __device__ void unpack_small(word_array<in_lane>& x, const uint32_t* payload, const entry& e, uint32_t column) const {
    const uint32_t width = e.width_and_flags & 255, fields = (0x01010101u << width) - 0x01010101u,
                   present = e.present(column);
    const uint32_t first = e.bit + (SomeAbsent ? popcount(e.present() & low_mask(column)) : column) * width;
    const uint32_t absent = device::byte_perm(zero_ - e.base, 0, 0);  // added to the base, it gives `zero`
    detail::unrolled<in_lane / 4>([&]<int Window>() {
      constexpr uint32_t i = 4 * Window;
      const uint32_t before = SomeAbsent ? popcount(present & low_mask(i)) : i, two = 2 * width;
      const uint32_t bits = device::shared_window(payload, first + before * width);
      const uint32_t pairs = device::byte_perm<0x5410>(bits, bits >> two);
      uint32_t four = device::byte_perm<0x6240>(pairs, pairs >> width) & fields;
      if (SomeAbsent) four = device::byte_perm(four, absent, device::shared_words(temp_.selectors).of<i, 4>(present));
      detail::unrolled<4>([&]<int K>() { x[i + K] = device::dot4<1u << 8 * K>(four, e.base); });
    });
  }
  // Returns byte_perm selectors for the presence bits of four bytes. They move the bytes that are present from the
  // front to their positions, and select the second operand elsewhere.
  __device__ static uint32_t selectors_of(uint32_t bits) {
    const uint32_t ones = (bits & 1) | (bits & 2) << 3 | (bits & 4) << 6 | (bits & 8) << 9;  // a nibble each
    return ones * (0x1110 - 4) + 0x4444;  // the number of ones before a nibble, plus 4 if it is not one
  }
  // Reads integers of any width.
  template <uint32_t Together, bool SomeAbsent>
  __device__ void unpack_large(word_array<in_lane>& x, const uint32_t* payload, const entry& e, uint32_t column) const {
    const uint32_t width = e.width_and_flags & 255, present = e.present(column);
    const uint32_t bit = e.bit + (SomeAbsent ? popcount(e.present() & low_mask(column)) : column) * width;
    if constexpr (Bytes == 8) {
      x[0] = (present & 1) != 0 ? device::shared_bits<word>(payload, bit, width) + e.base : zero_;
      x[1] =
          (present & 2) != 0 ? device::shared_bits<word>(payload, bit + (present & 1) * width, width) + e.base : zero_;
    } else {
      const uint32_t field = Together == 1 ? low_mask(width) : (1u << width) - 1;
      detail::unrolled<in_lane / Together>([&]<int Window>() {
        constexpr uint32_t i = Window * Together;
        const uint32_t before = SomeAbsent ? popcount(present & low_mask(i)) : i;
        uint32_t bits = device::shared_window(payload, bit + before * width);
        detail::unrolled<Together>([&]<int Index>() {
          if constexpr (SomeAbsent) {
            x[i + Index] = device::unpack_if<1u << (i + Index)>(present, bits, field, width, e.base, zero_);
          } else {
            x[i + Index] = (bits & field) + e.base;
            bits >>= width;
          }
        });
      });
    }
  }

  // Sums up the differences of a difference group over the lanes that share it. The first integer, in zigzag form, has
  // been added to each difference, and takes the place of the missing first difference. The whole warp calls it.
  __device__ static void sum_differences(word_array<in_lane>& x, word first, bool is_difference) {
    constexpr uint32_t lanes = group / in_lane;
    word sums[in_lane], sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < in_lane; ++i)
      sums[i] = sum += unzigzag(i == 0 && device::lane_id() % lanes == 0 ? first : x[i] - first);
    word before = sum;
#pragma unroll
    for (uint32_t delta = 1; delta < lanes; delta *= 2) {
      const word other = device::shfl_up(before, delta);
      if (device::lane_id() % lanes >= delta) before += other;
    }
    before -= sum;
#pragma unroll
    for (uint32_t i = 0; i < in_lane; ++i)
      if (is_difference) x[i] = before + sums[i];
  }

  TempStorage& temp_;
  uint32_t* encoded_ = nullptr;
  word zero_ = 0;  // added to each integer
};

}  // namespace tuck::inline TUCK_ABI
