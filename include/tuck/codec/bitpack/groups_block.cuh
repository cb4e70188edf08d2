// SPDX-License-Identifier: Apache-2.0
// Groups of integers on one thread block: the encoder. The bytes are those of groups.hpp.
//
// Each warp moves its integers through shared memory, so that each thread gets consecutive integers. A thread has whole
// groups, or a part of a group that it shares with a team of neighbouring lanes. Sums of groups and of bits over the
// block give the offset of each group, and each thread writes the bits of its own integers.
#pragma once

#include <tuck/codec/bitpack/groups.hpp>
#include <tuck/codec/bitpack/words_block.cuh>
#include <tuck/codec/block.cuh>
#include <tuck/core/bit_lanes.cuh>
#include <tuck/core/block_reduce.cuh>

namespace tuck::inline TUCK_ABI {

template <uint32_t Bytes, int Threads> class block_groups {
  using layout = integer_groups<Bytes>;
  using number = typename layout::number;
  using word = typename layout::word;
  using shape = typename layout::shape;
  using summary = typename layout::summary;
  using of_warps = device::block_reduce<Threads>;
  using leads = device::block_reduce<Threads, word>;

  static constexpr uint32_t group = layout::group;
  static constexpr uint32_t of_thread = tile_bytes / Bytes / Threads;      // integers of a thread
  static constexpr uint32_t part = of_thread < group ? of_thread : group;  // of these in one group
  static constexpr uint32_t rounds = of_thread / part;                     // groups of a thread
  static constexpr uint32_t team = group / part;                           // threads of a group
  static constexpr uint32_t in_quad = 16 / Bytes;                          // integers in 16 bytes
  static constexpr uint32_t quads = part / in_quad;
  static constexpr bool in_pairs = Bytes == 2;
  // measure() counts the groups and bits of a warp in one word.
  static_assert(Threads >= 128 && Threads <= 1024, "tuck: bitpack and quantize are encoded by 128 to 1024 threads");

 public:
  struct TempStorage {
    // The integers, with 16 unused bytes in each 144. Later the encoded chunk, unless it has another place.
    alignas(16) uint32_t words[tile_bytes / 4 * 9 / 8];
    typename of_warps::TempStorage sums;
    typename leads::TempStorage leads_of_warps[2];
    typename layout::offsets at;  // uniform; kept here to save registers
    uint32_t head;
  };

  __device__ explicit block_groups(TempStorage& temp) : temp_(temp) {}

  // Sets the integers that this thread has of the r-th row of its warp's part of a tile. Set all rows before measure().
  __device__ void set_row(uint32_t r, const device::vec128& integers) {
    constexpr uint32_t vectors_of_row = device::warp_size, rows = tile_bytes / 16 / Threads;
    const uint32_t of_lane = padded(device::warp_id() * (rows * vectors_of_row) + device::lane_id());
    vectors()[of_lane + padded(r * vectors_of_row)] = integers;
  }

  // Returns the size of a chunk of `count` integers plus `bytes_after`, or `incompressible` if that is more than
  // `limit`, which is at most tile_bytes: `write` has no more memory. Integers past the end must be 0. Has barriers.
  __device__ uint32_t measure(uint32_t count, bool differences, uint32_t extra, uint32_t bytes_after, uint32_t limit) {
    device::sync_warp();
    summary of_group[rounds];
    word firsts = 0, bases = 0;
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      of_group[r] = summarize(r, differences);
      own_[r].non_zeros = of_group[r].non_zeros;
      if (of_group[r].non_zeros == 0) continue;
      if (rank() == 0 && differences) firsts |= zigzag(of_group[r].first);
      bases |= zigzag(of_group[r].lowest);
    }
    block_or(firsts, bases);
    const uint32_t first_bits = tuck::bit_width(firsts), base_bits = tuck::bit_width(bases);

    // Sums of a warp, which has at most 4096 bytes of integers: at most 128 groups, and 32768 bits. The payload has no
    // more bits than the integers, because a plain or centered group has no more.
    //
    //    31           24 23             16 15              0
    //   +---------------+-----------------+-----------------+
    //   | sparse groups | non-zero groups | bits of payload |
    //   +---------------+-----------------+-----------------+
    uint32_t counts = 0;
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      own_group& mine = own_[r];
      if (mine.non_zeros == 0) continue;
      const shape coding =
          layout::choose(of_group[r], popcount(of_group[r].non_zeros), first_bits, base_bits, differences).coding;
      mine.shape_byte = coding.byte;
      mine.base = coding.base(zigzag(coding.is_difference() ? of_group[r].first : of_group[r].lowest));
      if (rank() == 0) counts += mine.counts(first_bits, base_bits);
    }
    const uint32_t up_to = device::warp_inclusive_sum(counts);
    const uint32_t of_warp = of_warps::exchange(temp_.sums, up_to, device::warp_size - 1);
    // [31:16] sparse groups, [15:0] non-zero groups. A block has at most 512.
    const uint32_t groups = device::byte_perm(of_warp, 0, 0x4342), bits = of_warp & 0xffffu;
    const uint32_t all_groups = device::warp_sum(groups);
    const auto at = layout::offsets_of(count, all_groups & 0xffffu, all_groups >> 16, device::warp_sum(bits));
    if (at.end + bytes_after > limit) return incompressible;
    const uint32_t groups_before = of_warps::sum_before(groups), own_before = up_to - counts;
    bits_before_ = of_warps::sum_before(bits) + (own_before & 0xffffu);
    groups_before_ = groups_before + device::byte_perm(own_before, 0, 0x4342);
    if constexpr (team > 1) {  // the sums before the group, not before the thread
      const int first = static_cast<int>(device::lane_id() / team * team);
      bits_before_ = device::shfl(bits_before_, first);
    }
    if (threadIdx.x == 0) {
      temp_.at = at;
      // A width is at most 64. `extra` is at most the number of integers.
      //
      //    31     16 15       8 7          0
      //   +---------+-----------+------------+
      //   |  extra  | base_bits | first_bits |
      //   +---------+-----------+------------+
      temp_.head = first_bits | base_bits << 8 | extra << 16;
    }
    return at.end + bytes_after;
  }

  // Writes the chunk to `to`, up to end(), and zeros up to tile_bytes. Call it after a barrier. Has barriers. `to` is
  // chunk(), where the integers were, or other shared memory at a multiple of 16.
  __device__ void write(std::byte* to) {
    device::vec128 own[rounds * quads];
#pragma unroll
    for (uint32_t q = 0; q < rounds * quads; ++q) own[q] = own_vector(q);
    if (to == chunk()) device::sync_block();  // the chunk overwrites the integers
    zero_shared<Threads>(to);
    device::sync_block();
    auto* const words = reinterpret_cast<uint32_t*>(to);
    if (threadIdx.x == 0) words[0] = temp_.head;
    uint32_t bit = bits_before_, groups = groups_before_;
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      const own_group& mine = own_[r];
      word last = 0;  // the integer before this thread's integers
      if constexpr (team > 1) last = device::shfl_up(static_cast<word>(integer(own[quads - 1], in_quad - 1)), 1u);
      if (mine.non_zeros != 0) {
        if (rank() == 0) {
          to[temp_.at.shapes + (groups & 0xffffu)] = static_cast<std::byte>(mine.shape_byte);
          if (mine.is_sparse()) words[temp_.at.masks / 4 + (groups >> 16)] = mine.non_zeros;
        }
        put_integers(words, mine, own + r * quads, last, bit);
      }
      put_non_zero_bits(words, r);
      if (rounds > 1 && mine.non_zeros != 0) {
        const uint32_t counts = mine.counts(temp_.head & 255, temp_.head >> 8 & 255);
        bit += counts & 0xffffu;
        groups += device::byte_perm(counts, 0, 0x4342);
      }
    }
  }
  __device__ std::byte* chunk() { return reinterpret_cast<std::byte*>(temp_.words); }
  __device__ uint32_t end() const { return temp_.at.end; }

 private:
  struct own_group {
    uint32_t non_zeros;   // one bit per integer
    uint32_t shape_byte;  // the byte of the shape
    word base;            // or the first integer

    __device__ shape as_shape() const { return {static_cast<uint8_t>(shape_byte)}; }
    __device__ bool is_sparse() const { return as_shape().is_sparse(); }
    __device__ bool is_difference() const { return shape_byte >= layout::difference << 6; }
    __device__ uint32_t counts(uint32_t first_bits, uint32_t base_bits) const {  // packed as in measure
      return (is_sparse() ? 1u << 24 | 1u << 16 : 1u << 16) +
             as_shape().payload_bits(popcount(non_zeros), first_bits, base_bits);
    }
  };

  // The index of this thread in its team.
  __device__ static uint32_t rank() { return threadIdx.x % team; }
  __device__ static uint32_t group_of(uint32_t r) { return threadIdx.x / team * rounds + r; }
  // Returns the index in vectors() of the 16 bytes with number `quad`. It avoids bank conflicts both by rows and by
  // threads. Within a row, and within the quads of a thread, padded(a + b) is padded(a) + padded(b).
  __device__ static constexpr uint32_t padded(uint32_t quad) { return quad + quad / 8; }
  // Returns the q-th 16 bytes of this thread.
  __device__ const device::vec128& own_vector(uint32_t q) const {
    constexpr uint32_t vectors_of_thread = rounds * quads;
    return vectors()[padded(threadIdx.x * vectors_of_thread) + padded(q)];
  }

  __device__ device::vec128* vectors() const { return reinterpret_cast<device::vec128*>(temp_.words); }

  __device__ static number integer(const device::vec128& x, uint32_t i) {
    if constexpr (Bytes == 8)
      return static_cast<number>(device::join_words(x.w[2 * i], x.w[2 * i + 1]));
    else
      return static_cast<int32_t>(x.w[i * Bytes / 4] << (32 - 8 * Bytes - 8 * Bytes * i % 32)) >> (32 - 8 * Bytes);
  }

  // -- summaries -----------------------------------------------------------------------------------------------------

  using extremes = detail::group_extremes<number>;

  __device__ summary summarize(uint32_t r, bool differences) const {
    number first = integer(own_vector(r * quads), 0);
    const number last = integer(own_vector(r * quads + quads - 1), in_quad - 1);
    extremes e = find_extremes(r * quads, differences);
    e.non_zeros <<= rank() * part;
    if constexpr (team > 1) {
      if (differences) {
        const number before = device::shfl_up(last, 1u);
        if (rank() != 0) add_step(e, first, before);
      }
#pragma unroll
      for (uint32_t lanes = 1; lanes < team; lanes *= 2) {
        const int other = static_cast<int>(lanes);
        e.lowest = least(e.lowest, device::shfl_xor(e.lowest, other));
        e.highest = most(e.highest, device::shfl_xor(e.highest, other));
        e.non_zeros |= device::shfl_xor(e.non_zeros, other);
        if (differences) {
          e.least_step = least(e.least_step, device::shfl_xor(e.least_step, other));
          e.most_step = most(e.most_step, device::shfl_xor(e.most_step, other));
        }
      }
      first = device::shfl(first, static_cast<int>(device::lane_id() / team * team));
    }
    return {e.lowest, e.highest, first, zigzag(e.least_step) | zigzag(e.most_step), e.non_zeros};
  }
  // Finds the extremes of the integers that this thread has of a group, from 16 bytes number `begin` on.
  __device__ extremes find_extremes(uint32_t begin, bool differences) const {
    if constexpr (in_pairs) return detail::find_extremes<4 * quads>(&own_vector(begin), differences);
    number last = integer(own_vector(begin), 0);  // so the first step is 0; `summarize` adds that between threads
    extremes e{last, last, 0, 0, 0};
#pragma unroll((quads + 1) / 2)  // limits registers: otherwise all would be loaded at once
    for (uint32_t q = 0; q < quads; ++q) {
      const device::vec128 own = own_vector(begin + q);
      number x[in_quad];
#pragma unroll
      for (uint32_t i = 0; i < in_quad; ++i) x[i] = integer(own, i);
      e.non_zeros >>= in_quad;
      detail::unrolled<in_quad>([&]<int Index>() {
        e.lowest = least(e.lowest, x[Index]);
        e.highest = most(e.highest, x[Index]);
        e.non_zeros =
            device::or_if_differ<1u << (group - in_quad + Index)>(e.non_zeros, static_cast<word>(x[Index]), word{0});
      });
      if (differences) {
#pragma unroll
        for (uint32_t i = 0; i < in_quad; ++i) {
          add_step(e, x[i], last);
          last = x[i];
        }
      }
    }
    e.non_zeros >>= group - part;
    return e;
  }
  __device__ static void add_step(extremes& e, number x, number before) {
    const auto step = static_cast<number>(static_cast<word>(x) - static_cast<word>(before));
    e.least_step = least(e.least_step, step);
    e.most_step = most(e.most_step, step);
  }
  template <class U> __device__ static U least(U a, U b) { return a < b ? a : b; }
  template <class U> __device__ static U most(U a, U b) { return a > b ? a : b; }

  // Sets each word to its OR over all threads. Has a barrier.
  __device__ void block_or(word& a, word& b) {
    leads::set(temp_.leads_of_warps[0], warp_or(a));
    leads::set(temp_.leads_of_warps[1], warp_or(b));
    device::sync_block();
    a = warp_or(leads::get(temp_.leads_of_warps[0]));
    b = warp_or(leads::get(temp_.leads_of_warps[1]));
  }
  __device__ static word warp_or(word x) {
    if constexpr (sizeof(word) == 8)
      return device::warp_or(static_cast<uint32_t>(x)) |
             static_cast<word>(device::warp_or(static_cast<uint32_t>(x >> 32))) << 32;
    else
      return device::warp_or(x);
  }

  // -- bytes ---------------------------------------------------------------------------------------------------------

  // The bits of a warp's groups lie in few words, so each word is combined in the warp first.
  __device__ void put_non_zero_bits(uint32_t* words, uint32_t r) {
    constexpr uint32_t spanned = ceil_div(device::warp_size / team * rounds, 32u);
    const bool speaks = rank() == 0 && own_[r].non_zeros != 0;
    const uint32_t first_word = device::warp_id() * (device::warp_size / team * rounds) / 32;
#pragma unroll
    for (uint32_t w = first_word; w < first_word + spanned; ++w) {
      const uint32_t bits = device::warp_or(speaks && group_of(r) / 32 == w ? 1u << group_of(r) % 32 : 0);
      if (device::lane_id() == 0 && bits != 0) device::atomic_or(words + layout::head_bytes / 4 + w, bits);
    }
  }

  // Writes this thread's part of a group whose payload begins at `bit`.
  __device__ void put_integers(uint32_t* words, const own_group& mine, device::vec128* own, word last, uint32_t bit) {
    const uint32_t width = mine.as_shape().width();
    const uint32_t lead_bits = mine.as_shape().lead_bits(temp_.head & 255, temp_.head >> 8 & 255);
    if (rank() != 0) {
      const uint32_t before = rank() * part;
      const uint32_t integers = mine.is_sparse()       ? popcount(mine.non_zeros & low_mask(before))
                                : mine.is_difference() ? before - 1
                                                       : before;
      bit += lead_bits + integers * width;
    }
    device::shared_bit_writer out(words + temp_.at.payload / 4, bit);
    if (rank() == 0 && lead_bits != 0) out.put_word(zigzag(mine.base), lead_bits);
    // Writes as many integers at once as fit in 32 bits.
    if constexpr (in_pairs)
      detail::put_pairs<4 * quads>(out, own, {static_cast<uint8_t>(mine.shape_byte)}, mine.base, last, rank() == 0);
    else if (width > 32)
      put_all<word, 1>(out, mine, own, last);
    else if (width > 16)
      put_all<uint32_t, 1>(out, mine, own, last);
    else if (width > 8)
      put_all<uint32_t, 2>(out, mine, own, last);
    else
      put_all < uint32_t, in_quad<4 ? in_quad : 4>(out, mine, own, last);
    out.finish();
  }
  // Writes `Together` integers at once. U: as many of their low bits as are needed.
  template <class U, uint32_t Together>
  __device__ static void put_all(device::shared_bit_writer& out, const own_group& mine, const device::vec128* own,
                                 word before) {
    const bool sparse = mine.is_sparse(), difference = mine.is_difference();
    const U base = difference ? 0 : static_cast<U>(mine.base);
    const uint32_t width = mine.as_shape().width(), radix = width - 1 < 31 ? 1u << width : 0;
    uint32_t bases = static_cast<uint32_t>(base);  // in the field of each integer
#pragma unroll
    for (uint32_t k = 1; k < Together; ++k) bases = bases * radix + static_cast<uint32_t>(base);
    U last = static_cast<U>(before);
#pragma unroll
    for (uint32_t q = 0; q < quads; ++q) {
      U x[in_quad];
#pragma unroll
      for (uint32_t i = 0; i < in_quad; ++i)
        x[i] = Bytes == 8 && sizeof(U) == 4 ? own[q].w[2 * i] : static_cast<U>(integer(own[q], i));
      if (difference) {
#pragma unroll
        for (uint32_t i = 0; i < in_quad; ++i) {
          const U now = x[i];
          x[i] = zigzag(now - last);
          last = now;
        }
      }
      // The first integer of a difference group was written before.
      const bool leads = q == 0 && difference && rank() == 0;
      const uint32_t skipped = leads ? width : 0;
      if (leads) x[0] = 0;
#pragma unroll
      for (uint32_t i = 0; i < in_quad; i += Together) {
        if constexpr (sizeof(U) == 8) {
          if (!sparse || x[i] != 0) out.put_word(x[i] - base, i == 0 ? width - skipped : width);
        } else if (sparse) {
          uint32_t piece = 0, bits = 0;
#pragma unroll
          for (uint32_t k = Together; k-- > 0;)
            device::join_if_not_zero(x[i + k], x[i + k] - base, piece, bits, radix, width);
          out.put(piece, bits);
        } else {
          uint32_t piece = x[i + Together - 1];
#pragma unroll
          for (uint32_t k = Together - 1; k-- > 0;) piece = piece * radix + x[i + k];
          piece -= bases;
          const uint32_t rest = Together == 1 ? piece : piece >> skipped;  // of a single integer: all bits or none
          i == 0 ? out.put(rest, Together * width - skipped) : out.put(piece, Together * width);
        }
      }
    }
  }

  TempStorage& temp_;
  own_group own_[rounds];
  uint32_t bits_before_ = 0, groups_before_ = 0;  // groups: [31:16] sparse ones, [15:0] non-zero ones
};

}  // namespace tuck::inline TUCK_ABI
