// Decodes rows of values and side streams from untrusted bytes on one thread block. layout.hpp describes the format.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/huffman/huffman.hpp>
#include <tuck/codec/huffman/rests.cuh>
#include <tuck/codec/huffman/sides.cuh>
#include <tuck/codec/huffman/warp_code.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

template <element T, int Threads, uint32_t RowBytes> class huffman_decoder {
  static constexpr uint32_t width = sizeof(T), warps = Threads / device::warp_size;
  using quad = number_quad<width>;
  using group = number_group<width>;
  using word = typename quad::word;
  using scan = device::block_scan<Threads>;
  using codes = device::shared_codes<max_length>;
  using nibble_codes = device::shared_codes<nibble_length>;
  using tile = block_tile<T, Threads>;
  using known = known_float<T>;

 public:
  static constexpr int registers = 64;
  static constexpr bool reads_global = false;

  struct TempStorage {
    alignas(16) uint16_t table[slots];
    uint16_t entries[symbols];                        // of the symbols with a code, by code
    uint32_t firsts[slots / 32], before[slots / 32];  // a bit for each slot where a code begins; their number before
    alignas(16) uint16_t nibble_table[2][1u << nibble_length];
    uint32_t flags[RowBytes / 32 + 1];
    typename scan::TempStorage scan_storage;
  };

  __device__ explicit huffman_decoder(TempStorage& temp) : temp_(temp) {}

  // Decodes the row. `from` is shared memory. The word behind its bytes is read too.
  template <class Sink>
  __device__ status read(const huffman<T>&, const std::byte* from, uint32_t size, const row_sections& sections,
                         std::byte* row, Sink& sink) {
    from_ = reinterpret_cast<const uint32_t*>(from);
    const uint32_t words = size / 4;
    shape_ = {width, sections.list.size(0) / width, padded_sides(sections.list)};
    if (size % 4 != 0 || words < shape::head_words) return status::bad_payload;
    shape_.head[0] = from_[0];
    shape_.head[1] = from_[1];
    if (!shape_.fits()) return status::bad_payload;
    at_ = shape_.find();
    if (at_.bits > words) return status::bad_payload;
    auto* const sides = reinterpret_cast<uint32_t*>(row + sections.sides);
    // Decoded marks lie at the end of the side streams that replace them one by one.
    marks_ = sides + shape_.sides / 4 + 1 - (shape_.marks() + 3) / 4;
    const bool sound = read_codes();
    const uint32_t value_bytes = shape_.values * width;  // the last group is read whole
    if (threadIdx.x < (0 - value_bytes) % (16 * group::vectors)) row[value_bytes + threadIdx.x] = std::byte{};
    uint32_t bits = 0, total;
    const uint32_t t = threadIdx.x, streams = at_.streams, directory = at_.directory;
    if (t < streams)
      bits = shape_.least() + (device::shared_window(from_ + directory, t * shape_.more()) & low_mask(shape_.more()));
    const uint32_t begin = scan::exclusive_sum(temp_.scan_storage, bits, total);
    if (device::sync_block_or(!sound) || (total + 31) / 32 != words - at_.bits) return status::bad_payload;
    if (shape_.codes_values()) {
      fill_table();
      device::sync_block();
    }
    bool whole = true;
    if (t < streams) whole = read_stream(t, streams, words, begin, bits, row);
    if (device::sync_block_or(!whole)) return status::bad_payload;
    if (shape_.sides != 0) {
      const uint32_t* const flags = shape_.codes_flags() ? temp_.flags : from_ + at_.flags;
      const uint32_t* const marks = shape_.codes_marks() ? marks_ : from_ + at_.marks;
      const bool fits =
          block_sides<Threads>::from_marks(temp_.scan_storage, flags, reinterpret_cast<const std::byte*>(marks),
                                           shape_.marks(), shape_.sides, shape_.rule(), sides);
      if (device::sync_block_or(!fits)) return status::bad_payload;
    }
    if (known::exponent != 0 && shape_.exponent() == known::exponent)
      give_values<known::exponent>(row, sink);
    else
      give_values<0>(row, sink);
    return status::ok;
  }

 private:
  // Reads the lengths of the codes, each by a warp. Returns false in a warp that finds no complete code.
  __device__ bool read_codes() {
    bool sound = true;
    if (device::warp_id() == 0 && shape_.codes_values()) sound = read_code();
    uint32_t at = at_.tables + (shape_.codes_values() ? shape_.table_words() : 0);
#pragma unroll 1
    for (uint32_t p = 0; p < 2; ++p) {
      if (!(p == 0 ? shape_.codes_flags() : shape_.codes_marks())) continue;
      if (device::warp_id() == (p + 1) % warps) sound &= read_nibble_table(from_ + at, temp_.nibble_table[p]);
      at += 2;
    }
    return sound;
  }
  // Lists the entries of symbols by their codes, and marks the first slot of each.
  __device__ bool read_code() {
    const uint32_t lane = device::lane_id(), place = place_of(2 * lane, shape_.exponent());
    const uint32_t pair = place / 8 < shape_.table_words() ? from_[at_.tables + place / 8] >> place % 8 * 4 : 0;
    warp_lengths<2> all;
    bool sound = true;
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      const uint32_t s = 2 * lane + k, l = s == escape ? shape_.escape_length() : pair >> 4 * k & 15;
      sound &= l <= max_length && (l == 0 || shape_.can_have(s));
      all.count[k] = all.length[k] = l;
    }
    if (!device::all(sound) || all.used() != slots) return false;
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
            static_cast<uint16_t>((2 * lane + k) << 8 | all.length[k] | (2 * lane + k == escape ? escape_mark : 0));
    return true;
  }
  // Returns how many codes begin before a slot.
  __device__ uint32_t rank_of(uint32_t slot) const {
    return temp_.before[slot / 32] + popcount(temp_.firsts[slot / 32] & ((1u << slot % 32) - 1));
  }
  // Gives each slot the entry of its code.
  __device__ void fill_table() {
    constexpr uint32_t each = slots / Threads < 8 ? slots / Threads : 8;
    const uint32_t first = each * threadIdx.x;
    if (first >= slots) return;
    uint32_t rank = rank_of(first), starts = temp_.firsts[first / 32] >> first % 32;
    uint32_t pair[each / 2];
#pragma unroll
    for (uint32_t i = 0; i < each / 2; ++i) {
      rank += starts & 1;
      const uint32_t low = temp_.entries[rank - 1];
      rank += starts >> 1 & 1;
      pair[i] = low | uint32_t{temp_.entries[rank - 1]} << 16;
      starts >>= 2;
    }
#pragma unroll
    for (uint32_t i = 0; i < each / 2; ++i) reinterpret_cast<uint32_t*>(temp_.table)[first / 2 + i] = pair[i];
  }
  // Makes the table of a code of nibbles, on one warp. Each lane has four slots.
  __device__ static bool read_nibble_table(const uint32_t* from, uint16_t* table) {
    const uint32_t lane = device::lane_id();
    const uint32_t l = lane < nibbles ? from[lane / 8] >> 4 * (lane % 8) & 15 : 0;
    const warp_lengths<1> mine{{l}, {l}};
    if (!device::all(l <= nibble_length) || mine.used() != slots) return false;
    uint32_t first[1] = {};
    mine.assign(first);
    constexpr uint32_t each = slots >> nibble_length;
    uint32_t entry[4] = {};
#pragma unroll 1
    for (uint32_t s = 0; s < nibbles; ++s) {
      const uint32_t length = device::shfl(l, static_cast<int>(s)),
                     begin = device::shfl(first[0], static_cast<int>(s)) / each;
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k)
        if (const uint32_t i = 4 * lane + k; length != 0 && i >= begin && i < begin + (1u << (nibble_length - length)))
          entry[k] = s << 8 | length;
    }
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) table[4 * lane + k] = static_cast<uint16_t>(entry[k]);
    return true;
  }

  using bits_type = device::bits_in_shared;
  __device__ static uint32_t take(const bits_type& in, uint32_t& at, uint32_t count) {
    const uint32_t x = count == 0 ? 0 : in.from(at) >> (32 - count);
    at += count;
    return x;
  }
  __device__ bool read_stream(uint32_t t, uint32_t streams, uint32_t words, uint32_t begin, uint32_t bits,
                              std::byte* row) {
    const bits_type in(from_, words);
    uint32_t at = 32 * at_.bits + begin;
    const uint32_t end = at + bits;
    bool sound = true;
    if (shape_.codes_values()) {
      const codes code(temp_.table);
      const uint32_t whole = shape_.values / 4;
      uint32_t q = t;
#pragma unroll 1
      for (; q < whole; q += streams) {
        uint32_t w = in.from(at);
        const uint32_t a = code.of(w);
        w = codes::behind(w, a);
        const uint32_t b = code.of(w);
        w = codes::behind(w, b);
        const uint32_t c = code.of(w);
        w = codes::behind(w, c);
        const uint32_t d = code.of(w);
        const uint32_t s = device::byte_perm<0x5410>(device::byte_perm<0x5151>(a, b), device::byte_perm<0x5151>(c, d));
        const uint32_t used = (a + b + c + d) & 255;
        if (used > 32) {  // or there is an escape, whose length is marked
          sound &= read_quad(in, at, q, 4, row);
        } else {
          at += used;
          quad x;
          x.set_bytes(s);
          x.store(row, q);
        }
      }
      if (q == whole && shape_.values % 4 != 0) sound &= read_quad(in, at, q, shape_.values % 4, row);
    }
    if (shape_.codes_flags()) read_nibbles(in, at, t, streams, shape_.flag_bytes(), temp_.nibble_table[0], temp_.flags);
    if (shape_.codes_marks()) read_nibbles(in, at, t, streams, shape_.marks(), temp_.nibble_table[1], marks_);
    return sound && at == end;
  }
  // Decodes up to four values, with escapes.
  __device__ bool read_quad(const bits_type& in, uint32_t& at, uint32_t q, uint32_t count, std::byte* row) const {
    const codes code(temp_.table);
    bool sound = true;
#pragma unroll 1
    for (uint32_t k = 0; k < count; ++k) {
      const uint32_t e = code.of(in.from(at));
      at += e & ~escape_mark & 255;
      word x = e >> 8;
      if (x == escape) {
        const uint32_t bits = shape_.escape_bits();
        x = 0;
        if constexpr (width == 8)
          if (bits > 32) x = static_cast<word>(take(in, at, bits - 32)) << 32;
        x |= take(in, at, bits < 32 ? bits : 32);
      }
      reinterpret_cast<bits_t<T>*>(row)[4 * q + k] = static_cast<bits_t<T>>(x);
    }
    return sound;
  }
  __device__ void read_nibbles(const bits_type& in, uint32_t& at, uint32_t t, uint32_t streams, uint32_t bytes,
                               const uint16_t* table, uint32_t* to) const {
    const nibble_codes code(table);
#pragma unroll 1
    for (uint32_t i = t; 4 * i < bytes; i += streams) {
      uint32_t x = 0;
      const uint32_t bits = bytes - 4 * i < 4 ? 8 * (bytes - 4 * i) : 32;
#pragma unroll 1
      for (uint32_t b = 0; b < bits; b += 4) {
        const uint32_t e = code.of(in.from(at));
        at += e & 255;
        x |= e >> 8 << b;
      }
      to[i] = x;
    }
  }

  // Passes the values to the sink. The row has what is above their rests.
  template <uint32_t Exponent, class Sink> __device__ void give_values(const std::byte* row, Sink& sink) const {
    const uint32_t groups = group::number(shape_.values), top = shape_.top();
    const uint32_t exponent = Exponent != 0 ? Exponent : shape_.exponent();
    const bool zigzag = Exponent == 0 && shape_.zigzag();
    const rest_planes<width, const uint32_t> rests(shape_, Exponent != 0 ? known::shift : shape_.shift(),
                                                   from_ + shape::head_words);
#pragma unroll 2
    for (uint32_t g = threadIdx.x; g < groups; g += Threads) {
      group x;
      if (shape_.plain()) {
#pragma unroll
        for (uint32_t v = 0; v < group::vectors; ++v) {
          device::vec128 y;
#pragma unroll
          for (uint32_t i = 0; i < 4; ++i) y.w[i] = from_[shape::head_words + 4 * (g * group::vectors + v) + i];
          x.set_vector(v, y);
        }
      } else {
        x = group::load(row, g);
        rests.add(x, g);
#pragma unroll
        for (uint32_t i = 0; i < group::quads; ++i) x.at[i].to_values(exponent, zigzag, top);
      }
#pragma unroll
      for (uint32_t v = 0; v < group::vectors; ++v) {
        const uint32_t first = g * group::values + v * tile::lane_values;
        if (first + tile::lane_values <= shape_.values)
          sink(first, x.vector(v));
        else if (v == 0 || first < shape_.values)
          sink(first, tile::clip(x.vector(v), shape_.values - first));
      }
    }
  }
  static constexpr uint32_t escape_mark = 32;  // in the length of an entry: more than a window has

  TempStorage& temp_;
  const uint32_t* from_ = nullptr;
  uint32_t* marks_ = nullptr;
  shape shape_{};
  shape::places at_{};
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
