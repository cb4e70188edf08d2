// SPDX-License-Identifier: Apache-2.0
// Decodes values from untrusted bytes on one thread block. layout.hpp describes the format.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/huffman/huffman.hpp>
#include <tuck/codec/huffman/rests.cuh>
#include <tuck/codec/huffman/warp_code.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// An entry of the table of a code:
//
//    31                  16 15       8 7   6    5     4        0
//   +----------------------+----------+-----+--------+----------+
//   |      upper bits      |    0     |  0  | escape |  length  |
//   +----------------------+----------+-----+--------+----------+
//
// The upper bits are those of a value that has this symbol, sign and exponent, where the mapping is that of most values
// of T. Otherwise they are the symbol. Values of one byte are in bits 24 to 31.
template <element T, int Threads> class huffman_decoder {
  static constexpr uint32_t width = sizeof(T), warps = Threads / device::warp_size;
  using quad = number_quad<width>;
  using group = number_group<width>;
  using word = typename quad::word;
  using word_array = word[4];
  using lanes = typename quad::lanes;
  using scan = device::block_scan<Threads>;
  using codes = device::shared_codes<max_length, uint32_t>;
  using tile = block_tile<T, Threads>;
  using known = known_float<T>;

 public:
  static constexpr int registers = 64;

  struct TempStorage {
    alignas(16) uint32_t table[all_slots];
    uint32_t entries[symbols];  // of the symbols with a code, by code
    // A bit for each slot where a code begins; their number before.
    uint32_t firsts[all_slots / 32], before[all_slots / 32];
    typename scan::TempStorage scan_storage;
  };

  __device__ explicit huffman_decoder(TempStorage& temp) : temp_(temp) {}

  // Passes `count` values to the sink. `from` is shared memory. The word behind its bytes is read too.
  template <class Sink>
  __device__ status read(const huffman<T>&, const std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    from_ = reinterpret_cast<const uint32_t*>(from);
    const uint32_t words = size / 4;
    shape_ = {width, count};
    if (size % 4 != 0 || words < shape::head_words) return status::bad_payload;
    shape_.head[0] = from_[0];
    shape_.head[1] = from_[1];
    if (!shape_.fits()) return status::bad_payload;
    at_ = shape_.find();
    if (at_.bits > words) return status::bad_payload;
    const bool sound = device::warp_id() != 0 || read_code();
    uint32_t bits = 0, total;
    const uint32_t t = threadIdx.x, streams = at_.streams, directory = at_.directory;
    if (t < streams)
      bits = shape_.least() +
             (device::shared_window(from_ + directory, t * shape_.entry_bits()) & low_mask(shape_.entry_bits()));
    const uint32_t begin = scan::exclusive_sum(temp_.scan_storage, bits, total);
    if (device::sync_block_or(!sound) || (total + 31) / 32 != words - at_.bits) return status::bad_payload;
    fill_table();
    device::sync_block();
    return device::sync_block_or(!read_stream(words, begin, bits, sink)) ? status::bad_payload : status::ok;
  }

 private:
  // Lists the entries of symbols by their codes, and marks the first slot of each, on one warp. Returns false if the
  // code is not complete.
  __device__ bool read_code() {
    const uint32_t lane = device::lane_id(), index = length_index(2 * lane, shape_.exponent());
    const uint32_t pair = index / 8 < shape_.table_words() ? from_[at_.tables + index / 8] >> index % 8 * 4 : 0;
    warp_lengths<2> all;
    bool sound = true;
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      const uint32_t s = 2 * lane + k, l = s == escape ? shape_.escape_length() : pair >> 4 * k & 15;
      sound &= l <= max_length && (l == 0 || shape_.can_have(s));
      all.count[k] = all.length[k] = l;
    }
    if (!device::all(sound) || all.used() != all_slots) return false;
    uint32_t first[2] = {};
    all.assign(first);
    temp_.firsts[lane] = 0;
    device::sync_warp();
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k)
      if (all.length[k] != 0) device::atomic_or(&temp_.firsts[first[k] / 32], 1u << first[k] % 32);
    device::sync_warp();
    const uint32_t mine = popcount(temp_.firsts[lane]);
    temp_.before[lane] = device::warp_inclusive_sum(mine) - mine;
    device::sync_warp();
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k)
      if (all.length[k] != 0)
        temp_.entries[rank_of(first[k])] =
            upper_bits(2 * lane + k) << 16 | all.length[k] | (2 * lane + k == escape ? escape_mark : 0);
    return true;
  }
  // Returns how many codes begin before a slot.
  __device__ uint32_t rank_of(uint32_t slot) const {
    return temp_.before[slot / 32] + popcount(temp_.firsts[slot / 32] & ((1u << slot % 32) - 1));
  }
  // Gives each slot the entry of its code.
  __device__ void fill_table() {
    constexpr uint32_t each = all_slots / Threads < 8 ? all_slots / Threads : 8;
    const uint32_t first = each * threadIdx.x;
    if (first >= all_slots) return;
    uint32_t rank = rank_of(first), starts = temp_.firsts[first / 32] >> first % 32;
    uint32_t x[each];
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) {
      rank += starts >> i & 1;
      x[i] = temp_.entries[rank - 1];
    }
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) temp_.table[first + i] = x[i];
  }
  __device__ bool is_known() const {
    return known::exponent != 0 && shape_.exponent() == known::exponent && shape_.shift() == known::shift;
  }
  // Returns the upper bits of an entry.
  __device__ uint32_t upper_bits(uint32_t symbol) const {
    if constexpr (known::exponent != 0)
      if (is_known()) return upper_bits_of_value(symbol);
    return symbol << (width == 1 ? 8 : 0);
  }
  // Returns the upper 16 bits of the value that has these bits above its rest, which is 0.
  __device__ uint32_t upper_bits_of_value(uint32_t above) const {
    const word x =
        lanes::low_value(lanes::value(static_cast<word>(above) << known::shift, known::exponent, false, shape_.top()));
    return static_cast<uint32_t>(width == 1 ? x << 8 : x >> (width == 1 ? 0 : 8 * width - 16));
  }

  using bits_type = device::bits_in_shared;
  __device__ static uint32_t read_bits(const bits_type& in, uint32_t& at, uint32_t count) {
    const uint32_t x = count == 0 ? 0 : in.from(at) >> (32 - count);
    at += count;
    return x;
  }
  // Reads this thread's stream, which has `bits` bits. Returns whether it ends there.
  template <class Sink> __device__ bool read_stream(uint32_t words, uint32_t begin, uint32_t bits, Sink& sink) {
    const bits_type in(from_, words);
    uint32_t at = 32 * at_.bits + begin;
    const uint32_t end = at + bits, t = threadIdx.x;
    if (is_known())
      read_values<known::exponent>(in, at, sink);
    else
      read_values<0>(in, at, sink);
    return t >= at_.streams || at == end;
  }
  // Passes the values of this thread's stream to the sink.
  template <uint32_t Exponent, class Sink> __device__ void read_values(const bits_type& in, uint32_t& at, Sink& sink) {
    const uint32_t t = threadIdx.x, streams = at_.streams, values = shape_.values;
    const uint32_t end = t < streams ? values : 0;  // of this thread's values
    const uint32_t zeros = Exponent != 0 ? 0 : shape_.zeros();
    const rest_planes<width, const uint32_t> rests(shape_, Exponent != 0 ? known::shift : shape_.shift(),
                                                   from_ + shape::head_words);
    const auto next = [&](uint32_t q) {
      quad x{};
      if (4 * q < end) x = read_quad<Exponent>(in, at, end - 4 * q, rests, q, zeros);
      return x;
    };
    // All lanes of a warp come to each step, and exchange quads until each has 16 bytes.
#pragma unroll 1
    for (uint32_t before = 0; 4 * before < values; before += steps * streams) {
      const uint32_t q = before + t;
      if constexpr (width == 2) {
        const quad a = next(q), b = next(q + streams);
        const bool odd = t % 2 != 0;
        device::vec128 x;
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
          const uint32_t got = device::shfl_xor(odd ? a.w[i] : b.w[i], 1);
          x.w[i] = odd ? got : a.w[i];
          x.w[2 + i] = odd ? b.w[i] : got;
        }
        pass_vector(sink, 4 * (odd ? q + streams - 1 : q), end, x);
      } else if constexpr (width == 1) {
        const quad a = next(q);
        device::vec128 x;
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i)
          x.w[i] = device::shfl(a.w[0], static_cast<int>(t % device::warp_size / 4 * 4 + i));
        if (t % 4 == 0) pass_vector(sink, 4 * q, end, x);
      } else {
        const quad a = next(q);
#pragma unroll
        for (uint32_t v = 0; v < width / 4; ++v)
          pass_vector(sink, 4 * q + v * tile::lane_values, end,
                      {{a.w[4 * v], a.w[4 * v + 1], a.w[4 * v + 2], a.w[4 * v + 3]}});
      }
    }
  }
  static constexpr uint32_t steps = width == 2 ? 2 : 1;
  // Passes 16 bytes to the sink, of which those up to value `end` are there.
  template <class Sink>
  __device__ static void pass_vector(Sink& sink, uint32_t first, uint32_t end, const device::vec128& x) {
    if (first + tile::lane_values <= end)
      sink(first, x);
    else if (first < end)
      sink(first, tile::clip(x, end - first));
  }
  // Decodes quad q, of which `count` values are there, or more.
  template <uint32_t Exponent>
  __device__ quad read_quad(const bits_type& in, uint32_t& at, uint32_t count,
                            const rest_planes<width, const uint32_t>& rests, uint32_t q, uint32_t zeros) const {
    constexpr bool has_upper = Exponent != 0 || width < 4;  // each x[k] is an entry, else a symbol or what it escapes
    const codes code(temp_.table);
    uint32_t w = in.from(at);
    const uint32_t a = code.of(w);
    w = codes::behind(w, a);
    const uint32_t b = code.of(w);
    w = codes::behind(w, b);
    const uint32_t c = code.of(w);
    w = codes::behind(w, c);
    const uint32_t d = code.of(w), used = (a + b + c + d) & 255;
    word x[4] = {a, b, c, d};
    if (used > 32 || count < 4) {  // or there is an escape, whose length is marked
      read_slowly<Exponent>(in, at, count, x);
    } else {
      at += used;
      if constexpr (!has_upper) {
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) x[k] >>= 16;
      }
    }
    quad y;
    if constexpr (has_upper) {
      y.set_upper(static_cast<uint32_t>(x[0]), static_cast<uint32_t>(x[1]), static_cast<uint32_t>(x[2]),
                  static_cast<uint32_t>(x[3]));
    } else {
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) y.set(k, x[k]);
    }
    if constexpr (Exponent == 0) y.shift_up(shape_.shift());
    rests.add(y, q);
    if constexpr (Exponent == 0) y.to_values(shape_.exponent(), shape_.zigzag(), shape_.top(), zeros);
    return y;
  }
  // Decodes up to four values, with escapes.
  template <uint32_t Exponent>
  __device__ void read_slowly(const bits_type& in, uint32_t& at, uint32_t count, word_array& x) const {
    const codes code(temp_.table);
#pragma unroll 1
    for (uint32_t k = 0; k < 4; ++k) {
      word y = 0;
      if (k < count) {
        const uint32_t window = in.from(at), e = code.of(window);
        at += e & 31;
        y = e;
        if ((e & escape_mark) != 0) {
          const uint32_t bits = shape_.escape_bits();
          if constexpr (width <= 2) {  // the window has all of them
            static_assert(max_length + 8 * width <= 32);
            y = window << (e & 31) >> 1 >> (31 - bits);
            at += bits;
          } else {
            y = 0;
            if constexpr (width == 8)
              if (bits > 32) y = static_cast<word>(read_bits(in, at, bits - 32)) << 32;
            y |= read_bits(in, at, bits < 32 ? bits : 32);
          }
          if constexpr (Exponent != 0)
            y = upper_bits_of_value(static_cast<uint32_t>(y)) << 16;
          else if constexpr (width < 4)
            y <<= 32 - 8 * width;
        } else if constexpr (Exponent == 0 && width >= 4) {
          y >>= 16;
        }
      }
      x[0] = x[1];
      x[1] = x[2];
      x[2] = x[3];
      x[3] = y;
    }
  }
  static constexpr uint32_t escape_mark = 32;  // in the length of an entry: more than a window has

  TempStorage& temp_;
  const uint32_t* from_ = nullptr;
  shape shape_{};
  shape::offsets at_{};
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
