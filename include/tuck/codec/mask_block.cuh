// Masks by one thread block: what ZVC and RLE are made of, as masks.hpp has them.
//
// A lane has 16 bytes of each of its warp's rows and so 2 to 16 consecutive bits of each row's mask. Rows whose counts
// fit in a byte (of 1-byte values: in 16 bits) are counted and scanned together, as fields of one word. The values at
// the ones are then written, or read, one behind the other, row by row, without a branch.
#pragma once

#include <tuck/codec/block_copies.cuh>
#include <tuck/core/masks.hpp>
#include <tuck/core/shared_values.cuh>

namespace tuck::inline TUCK_ABI {

template <element T, int Threads> class block_masks {
 public:
  using tile = block_tile<T, Threads>;
  using word = typename tile::word;

  static constexpr uint32_t most_bytes = tile::capacity / 8;  // of a chunk's mask

 private:
  static constexpr int per_word = tile::per_word;
  static constexpr int rows = tile::rows, row_words = tile::row_words;
  static constexpr uint32_t row_bits = tile::lane_values;  // a lane's
  static constexpr uint32_t field = row_bits > 8 ? 16 : 8;
  static constexpr int rows_a_word = 32 / field;
  static constexpr int words = ceil_div(rows, rows_a_word);
  static constexpr uint32_t group = row_bits < 8 ? 8 / row_bits : 1;  // lanes whose bits share a byte
  static constexpr uint32_t row_bytes = device::warp_size * row_bits / 8;
  static constexpr uint32_t warps = Threads / device::warp_size;

 public:
  struct TempStorage {
    uint32_t of_warp[warps];
    uint32_t turn[sizeof(T) == 1 ? 16 : 1];  // of each four bits
  };

  uint32_t bits[words];  // this thread's: a field a row

  // -- from values to masks ------------------------------------------------------------------------------------------

  __device__ void find_non_zeros(const tile& values) {
    find(values, [](int, int) { return word{0}; });
  }
  // Values that differ from the one before them, which is `last` for the warp's first. The caller clips what lies past
  // the chunk's end.
  __device__ void find_changes(const tile& values, bits_t<T> last) {
    word before[rows], carried = static_cast<word>(last) << (8 * (sizeof(word) - sizeof(T)));
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const word below =
          device::shfl(values.w[(r + 1) * row_words - 1], static_cast<int>((device::lane_id() + 31) % 32));
      before[r] = device::lane_id() == 0 ? carried : below;
      carried = below;
    }
    find(values, [&](int r, int k) {
      const word w = values.w[r * row_words + k], below = k == 0 ? before[r] : values.w[r * row_words + k - 1];
      if constexpr (per_word == 1)
        return below;
      else
        return device::funnel_shift_right(below, w, 32 - 8 * sizeof(T));
    });
  }
  // Leaves the bits of the first `count` values alone.
  __device__ void clip(uint32_t count) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const uint32_t first = tile::first_value(r * row_words), left = count > first ? count - first : 0;
      if (left < row_bits) bits[r / rows_a_word] &= ~((low_mask(row_bits) & ~low_mask(left)) << shift_of(r));
    }
  }
  __device__ uint32_t ones() const {
    uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < words; ++i) sum += popcount(bits[i]);
    return sum;
  }

  // Writes the mask's bytes below `size` to shared memory, and reads them; all of them where it is most_bytes.
  __device__ void store(std::byte* to, uint32_t size) const {
    if (size == most_bytes)
      store_below<true>(to, size);
    else
      store_below<false>(to, size);
  }
  template <bool Whole> __device__ void load(const std::byte* from, uint32_t size = most_bytes) {
    const uint32_t first = first_byte();
#pragma unroll
    for (int i = 0; i < words; ++i) {
      uint32_t of_rows[4] = {};
#pragma unroll
      for (int r = 0; r < rows_a_word && i * rows_a_word + r < rows; ++r) {
        const uint32_t at = first + static_cast<uint32_t>(i * rows_a_word + r) * row_bytes;
        if (!Whole && at >= size) continue;
        if constexpr (row_bits > 8)
          of_rows[r] = *reinterpret_cast<const uint16_t*>(from + at);
        else
          of_rows[r] = static_cast<uint32_t>(from[at]);
      }
      if constexpr (row_bits > 8) {
        bits[i] = of_rows[0] | of_rows[1] << 16;
      } else {
        const uint32_t all = of_rows[0] | of_rows[1] << 8 | of_rows[2] << 16 | of_rows[3] << 24;
        bits[i] = group == 1 ? all : all >> device::lane_id() % group * row_bits & low_mask(row_bits) * 0x01010101u;
      }
    }
  }

  // -- where the values at the ones are ------------------------------------------------------------------------------

  // Ones of the warps before this one, and of all.
  struct sums {
    uint32_t before, all;
  };
  __device__ sums sum(TempStorage& temp) const {  // with a barrier
    const uint32_t own = device::warp_sum(ones());
    if (device::lane_id() == 0) temp.of_warp[device::warp_id()] = own;
    device::sync_block();
    uint32_t both = device::lane_id() < warps ? temp.of_warp[device::lane_id()] : 0;
    if (device::lane_id() < device::warp_id()) both *= 0x10001u;
    both = device::warp_sum(both);
    return {both >> 16, both & 0xffffu};
  }

  // With `before` ones in front of this warp's, bytes from the begin of the values to each row of this thread.
  struct places {
    uint32_t of_row[rows];
  };
  __device__ places find_places(uint32_t before) const {
    places p;
    uint32_t begin = before * uint32_t{sizeof(T)};
#pragma unroll
    for (int i = 0; i < words; ++i) {
      const uint32_t own = count_fields(bits[i]);
      // Fields of a sum of 32 lanes may overflow, but not those of 31: the difference is right.
      const uint32_t below = device::warp_inclusive_sum(own) - own;
      const uint32_t last_below = device::shfl(below, 31), last_own = device::shfl(own, 31);
      if constexpr (field == 16) {
        const uint32_t total = last_below + last_own;
        p.of_row[2 * i] = begin + (below & 0xffffu);
        begin += total & 0xffffu;
        if (2 * i + 1 < rows) p.of_row[2 * i + 1] = begin + (below >> 16);
        begin += total >> 16;
      } else {
        find_places_of<4>(p, i, below, last_below, last_own, begin);
      }
    }
    return p;
  }

  // -- values --------------------------------------------------------------------------------------------------------

  // What put (or get) of 1-byte values wants in `turn`; a barrier follows.
  template <bool Put> __device__ static void prepare(TempStorage& temp) {
    if constexpr (sizeof(T) == 1)
      if (threadIdx.x < 16) temp.turn[threadIdx.x] = selectors<Put>(threadIdx.x);
  }

  // Writes the values at the ones to `packed`, in shared memory, at a multiple of sizeof(T) or of 4; 1-byte values
  // where all was zero.
  __device__ void put(const TempStorage& temp, const tile& values, const places& p, std::byte* packed) const {
#pragma unroll
    for (int r = 0; r < rows; ++r)
      put_row(temp, values, r, p.of_row[r], packed, std::make_integer_sequence<int, row_words>{});
  }

  // This thread's 16 bytes of a row: the values at the ones, and zeros; or at each zero the value at the last one,
  // which may be the one in front of `packed`. Of 1-byte values at the ones, up to 8 bytes behind the last are read.
  template <bool Repeats>
  __device__ device::vec128 get(const TempStorage& temp, int r, const places& p, const std::byte* packed) const {
    if constexpr (sizeof(T) == 1 && !Repeats)
      return get_bytes(temp, r, p.of_row[r], packed);
    else
      return get_row<Repeats>(r, p.of_row[r], packed, std::make_integer_sequence<int, static_cast<int>(row_bits)>{});
  }

 private:
  // Of the first `Rows` of four: where this thread's part of each is, and in `begin` where the next four are.
  template <int Rows>
  __device__ static void find_places_of(places& p, int i, uint32_t below, uint32_t last_below, uint32_t last_own,
                                        uint32_t& begin) {
    constexpr uint32_t size = sizeof(T);
    if constexpr (Rows == 0) {
      begin = device::dot4<0x01010101u * size>(last_own, device::dot4<0x01010101u * size>(last_below, begin));
    } else {
      constexpr int r = 4 - Rows;
      constexpr uint32_t rows_before = low_mask(8 * r) & 0x01010101u * size;
      uint32_t row = begin;
      if constexpr (r != 0) row = device::dot4<rows_before>(last_own, device::dot4<rows_before>(last_below, begin));
      if (4 * i + r < rows) p.of_row[4 * i + r] = device::dot4<size << (8 * r)>(below, row);
      find_places_of<Rows - 1>(p, i, below, last_below, last_own, begin);
    }
  }

  __device__ static constexpr uint32_t shift_of(int r) { return static_cast<uint32_t>(r % rows_a_word) * field; }
  // Of this thread's bits of the first row.
  __device__ static uint32_t first_byte() {
    return device::warp_id() * (rows * row_bytes) + (row_bits > 8 ? device::lane_id() * 2 : device::lane_id() / group);
  }

  template <bool Whole> __device__ void store_below(std::byte* to, uint32_t size) const {
    const uint32_t first = first_byte();
#pragma unroll
    for (int i = 0; i < words; ++i) {
      uint32_t together = bits[i];
#pragma unroll
      for (uint32_t lanes = 1; lanes < group; lanes *= 2) {
        const uint32_t other = device::shfl_xor(together, static_cast<int>(lanes));
        const uint32_t shift = row_bits * lanes;
        together = (device::lane_id() & lanes) != 0 ? together << shift | other : other << shift | together;
      }
      // Every lane of a group has its bytes of all rows now, and writes some.
#pragma unroll
      for (uint32_t r = 0; r < static_cast<uint32_t>(rows_a_word) && i * rows_a_word + r < rows; r += group) {
        const uint32_t row = r + device::lane_id() % group, at = first + (i * rows_a_word + row) * row_bytes;
        if ((!Whole && at >= size) || (rows < static_cast<int>(group) && row >= rows)) continue;
        if constexpr (row_bits > 8)
          *reinterpret_cast<uint16_t*>(to + at) = static_cast<uint16_t>(together >> (row * field));
        else
          to[at] = static_cast<std::byte>(together >> (row * field));
      }
    }
  }
  template <class Before> __device__ void find(const tile& values, const Before& before) {
#pragma unroll
    for (int i = 0; i < words; ++i) bits[i] = 0;
    find_bits(values, before, std::make_integer_sequence<int, tile::words>{});
  }
  template <class Before, int... J>
  __device__ void find_bits(const tile& values, const Before& before, std::integer_sequence<int, J...>) {
    if constexpr (per_word == 1) {
      (find_word<J>(values.w[J], before(J / row_words, J % row_words)), ...);
    } else {
      // In the top bit of each value: is it not zero? Four words of two values, or two of four, make a byte.
      constexpr uint32_t tops = per_word == 4 ? 0x80808080u : 0x80008000u;
      uint32_t eights[tile::words * per_word / 8] = {};
      ((eights[J * per_word / 8] = device::dot4<(per_word == 4 ? 0x08040201u : 0x02000100u) << (J * per_word % 8)>(
            non_zeros(values.w[J] ^ before(J / row_words, J % row_words)) & tops, eights[J * per_word / 8])),
       ...);
#pragma unroll
      for (int b = 0; b < tile::words * per_word / 8; ++b)
        bits[b / 4] |= b % 4 == 0 ? eights[b] >> 7 : eights[b] << (8 * (b % 4) - 7);
    }
  }
  template <int J> __device__ void find_word(word x, word before) {
    constexpr int r = J / row_words, k = J % row_words;
    bits[r / rows_a_word] = device::or_if_differ<1u << (shift_of(r) + k)>(bits[r / rows_a_word], x, before);
  }
  __device__ static uint32_t non_zeros(uint32_t x) {
    constexpr uint32_t rest = per_word == 4 ? 0x7f7f7f7fu : 0x7fff7fffu;
    return ((x & rest) + rest) | x;
  }

  // The ones of each field.
  __device__ static uint32_t count_fields(uint32_t x) {
    if constexpr (field == 16) return popcount(x & 0xffffu) + (popcount(x >> 16) << 16);
    x -= x >> 1 & 0x55555555u;
    if constexpr (row_bits > 2) x = (x & 0x33333333u) + (x >> 2 & 0x33333333u);
    if constexpr (row_bits > 4) x = (x + (x >> 4)) & 0x0f0f0f0fu;
    return x;
  }

  // byte_perm's selectors for the four bytes that these bits speak of: Packed moves the ones to the front, and says in
  // its upper half how many bits they have; else from there to their places, and how many bytes they are. Other bytes
  // become zero.
  template <bool Packed> __device__ static uint32_t selectors(uint32_t bits) {
    uint32_t at[4] = {4, 4, 4, 4}, n = 0, all = 0;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i)
      if ((bits >> i & 1) != 0) {
        if constexpr (Packed)
          all |= i << (4 * n);
        else
          at[i] = n;
        ++n;
      }
    if constexpr (Packed) return all | (0x4444u << (4 * n) & 0xffffu) | n << 19;
    return at[0] | at[1] << 4 | at[2] << 8 | at[3] << 12 | n << 16;
  }
  __device__ uint32_t turn_of(const TempStorage& temp, int r, int k) const {
    return temp.turn[bits[r / rows_a_word] >> (shift_of(r) + 4 * static_cast<uint32_t>(k)) & 15];
  }

  template <int... K>
  __device__ void put_row(const TempStorage& temp, const tile& values, int r, uint32_t at, std::byte* packed,
                          std::integer_sequence<int, K...>) const {
    const word* const w = values.w + r * row_words;
    if constexpr (sizeof(T) == 1) {
      device::shared_bit_writer out(packed - reinterpret_cast<uintptr_t>(packed) % 4,
                                    8 * (at + static_cast<uint32_t>(reinterpret_cast<uintptr_t>(packed) % 4)));
#pragma unroll
      for (int k = 0; k < row_words; ++k) {
        const uint32_t turn = turn_of(temp, r, k);
        out.put(device::byte_perm(w[k], 0, turn), turn >> 16);
      }
      out.finish();
    } else {
      device::shared_cursor<T> out(packed, at);
      const uint32_t mask = bits[r / rows_a_word] >> shift_of(r);
      (put_word<K>(out, mask, w[K]), ...);
    }
  }
  template <int K> __device__ static void put_word(device::shared_cursor<T>& out, uint32_t mask, word w) {
    if constexpr (per_word == 2) {
      out.template put_if<1u << (2 * K)>(mask, w);
      out.template put_if<2u << (2 * K)>(mask, w >> 16);
    } else {
      out.template put_if<1u << K>(mask, w);
    }
  }

  __device__ device::vec128 get_bytes(const TempStorage& temp, int r, uint32_t at, const std::byte* packed) const {
    device::vec128 x;
    const auto begin = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(packed) % 4) + at;
    const auto* const from = reinterpret_cast<const uint32_t*>(packed - reinterpret_cast<uintptr_t>(packed) % 4);
    uint32_t byte = begin;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const uint32_t turn = turn_of(temp, r, k);
      const uint32_t four = device::funnel_shift_right(from[byte / 4], from[byte / 4 + 1], 8 * byte);
      x.w[k] = device::byte_perm(four, 0, turn);
      byte += turn >> 16;
    }
    return x;
  }
  template <bool Repeats, int... I>
  __device__ device::vec128 get_row(int r, uint32_t at, const std::byte* packed,
                                    std::integer_sequence<int, I...>) const {
    device::shared_cursor<T> in(packed, at);
    const uint32_t mask = bits[r / rows_a_word] >> shift_of(r);
    word w[row_words] = {};
    ((w[I / per_word] |= (Repeats ? in.template step_if<1u << I>(mask) : in.template get_if<1u << I>(mask))
                         << (8 * sizeof(T) * (I % per_word))),
     ...);
    tile row;
#pragma unroll
    for (int k = 0; k < row_words; ++k) row.w[k] = w[k];
    return row.row(0);
  }
};

}  // namespace tuck::inline TUCK_ABI
