// Decodes rows of values and side streams from untrusted bytes on one thread block. layout.hpp describes the format.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/huffman/huffman.hpp>
#include <tuck/codec/huffman/numbers.cuh>
#include <tuck/codec/huffman/parts.cuh>
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

 public:
  static constexpr int registers = 64;
  static constexpr bool reads_global = false;

  struct TempStorage {
    alignas(16) uint16_t table[slots];
    alignas(16) uint16_t nibble_table[2][1u << nibble_length];
    uint32_t flags[RowBytes / 32 + 1];
    warp_symbols room;
    typename scan::TempStorage scan_storage;
  };

  __device__ explicit huffman_decoder(TempStorage& temp) : temp_(temp) {}

  // Decodes the row. `from` is shared memory.
  template <class Sink>
  __device__ status read(const huffman<T>&, const std::byte* from, uint32_t size, const row_sections& sections,
                         std::byte* row, Sink& sink) {
    from_ = reinterpret_cast<const uint32_t*>(from);
    const uint32_t words = size / 4;
    shape_ = {width, sections.list.size(0) / width, padded_sides(sections.list)};
    if (size % 4 != 0 || words < shape::head_words) return status::bad_payload;
    shape_.head[0] = from_[0];
    shape_.head[1] = from_[1];
    if (!shape_.fits() || shape_.bits_at() > words) return status::bad_payload;
    auto* const sides = reinterpret_cast<uint32_t*>(row + sections.sides);
    // Decoded edges lie at the end of the side streams that replace them one by one.
    edges_ = sides + shape_.sides / 4 + 1 - (shape_.edges() + 3) / 4;
    const bool sound = read_tables();
    uint32_t bits = 0, total;
    const uint32_t t = threadIdx.x, streams = shape_.streams(), directory = shape_.directory_at();
    if (t < streams)
      bits = shape_.least() + (device::shared_window(from_ + directory, t * shape_.more()) & low_mask(shape_.more()));
    const uint32_t begin = scan::exclusive_sum(temp_.scan_storage, bits, total);
    if (device::sync_block_or(!sound) || (total + 31) / 32 != words - shape_.bits_at()) return status::bad_payload;
    bool whole = true;
    if (t < streams) whole = read_stream(t, streams, words, begin, bits, row);
    if (device::sync_block_or(!whole)) return status::bad_payload;
    if (shape_.sides != 0) {
      bool fits = true;
      if (device::warp_id() == warps - 1) {
        const uint32_t* const flags = shape_.codes_flags() ? temp_.flags : from_ + shape_.flags_at();
        const uint32_t* const edges = shape_.codes_edges() ? edges_ : from_ + shape_.edges_at();
        fits = edges_to_sides(flags, reinterpret_cast<const std::byte*>(edges), shape_.edges(), shape_.sides, sides);
      }
      if (device::sync_block_or(!fits)) return status::bad_payload;
    }
    give_values(row, sink);
    return status::ok;
  }

 private:
  __device__ bool read_tables() {
    bool sound = true;
    const uint32_t lane = device::lane_id();
    if (device::warp_id() == 0 && shape_.codes_values()) {
      const uint32_t pair = from_[shape_.tables_at() + lane / 4] >> 8 * (lane % 4);
      warp_lengths<2> all;
#pragma unroll
      for (uint32_t k = 0; k < 2; ++k) {
        const uint32_t l = pair >> 4 * k & 15, s = 2 * lane + k;
        sound &= l <= max_length && (l == 0 || s == escape || s <= shape_.largest());
        all.count[k] = all.length[k] = l;
      }
      sound = device::all(sound) && all.used() == slots;
      if (sound) {
        place_codes<8>(all, temp_.table, temp_.room);
        device::sync_warp();
        spread_entries(reinterpret_cast<device::vec128*>(temp_.table));
      }
    }
    uint32_t at = shape_.tables_at() + (shape_.codes_values() ? symbols / 8 : 0);
#pragma unroll 1
    for (uint32_t p = 0; p < 2; ++p) {
      if (!(p == 0 ? shape_.codes_flags() : shape_.codes_edges())) continue;
      if (device::warp_id() == (p + 1) % warps) sound &= read_nibble_table(from_ + at, temp_.nibble_table[p]);
      at += 2;
    }
    return sound;
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
      const uint32_t length = device::shfl(l, static_cast<int>(s)), begin = device::shfl(first[0], static_cast<int>(s)) / each;
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k)
        if (const uint32_t i = 4 * lane + k; length != 0 && i >= begin && i < begin + (1u << (nibble_length - length)))
          entry[k] = s << 8 | length;
    }
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) table[4 * lane + k] = static_cast<uint16_t>(entry[k]);
    return true;
  }

  // The next 32 bits, highest first. Behind the last word come other words of the chunk's buffer.
  __device__ uint32_t window(uint32_t bit) const {
    uint32_t i = bit / 32;
    i = i < last_ ? i : last_;
    return device::funnel_shift_left(from_[i + 1], from_[i], bit);
  }
  __device__ uint32_t take(uint32_t& at, uint32_t count) const {
    const uint32_t x = count == 0 ? 0 : window(at) >> (32 - count);
    at += count;
    return x;
  }
  __device__ bool read_stream(uint32_t t, uint32_t streams, uint32_t words, uint32_t begin, uint32_t bits,
                              std::byte* row) {
    last_ = words - 1;
    uint32_t at = 32 * shape_.bits_at() + begin;
    const uint32_t end = at + bits;
    bool sound = true;
    if (shape_.codes_values()) {
      const codes code(temp_.table);
      const uint32_t whole = shape_.values / 4;
      uint32_t q = t;
#pragma unroll 1
      for (; q < whole; q += streams) {
        uint32_t w = window(at);
        const uint32_t a = code.of(w);
        w = codes::behind(w, a);
        const uint32_t b = code.of(w);
        w = codes::behind(w, b);
        const uint32_t c = code.of(w);
        w = codes::behind(w, c);
        const uint32_t d = code.of(w);
        const uint32_t s = device::byte_perm<0x5410>(device::byte_perm<0x5151>(a, b), device::byte_perm<0x5151>(c, d));
        const uint32_t used = (a + b + c + d) & 255;
        if (used > 32 || ((s + 0x01010101) & 0x40404040) != 0) {
          sound &= read_quad(at, q, 4, row);
        } else {
          at += used;
          quad x;
          x.set_bytes(s);
          x.store(row, q);
        }
      }
      if (q == whole && shape_.values % 4 != 0) sound &= read_quad(at, q, shape_.values % 4, row);
    }
    if (shape_.codes_flags()) read_nibbles(at, t, streams, shape_.flag_bytes(), temp_.nibble_table[0], temp_.flags);
    if (shape_.codes_edges()) read_nibbles(at, t, streams, shape_.edges(), temp_.nibble_table[1], edges_);
    return sound && at == end;
  }
  // Decodes up to four values, with escapes.
  __device__ bool read_quad(uint32_t& at, uint32_t q, uint32_t count, std::byte* row) const {
    const codes code(temp_.table);
    bool sound = true;
#pragma unroll 1
    for (uint32_t k = 0; k < count; ++k) {
      const uint32_t e = code.of(window(at));
      at += e & 255;
      word x = e >> 8;
      if (x == escape) {
        const uint32_t bits = shape_.escape_bits();
        x = 0;
        if constexpr (width == 8)
          if (bits > 32) x = static_cast<word>(take(at, bits - 32)) << 32;
        x |= take(at, bits < 32 ? bits : 32);
        sound &= x <= shape_.largest();
      }
      reinterpret_cast<bits_t<T>*>(row)[4 * q + k] = static_cast<bits_t<T>>(x);
    }
    return sound;
  }
  __device__ void read_nibbles(uint32_t& at, uint32_t t, uint32_t streams, uint32_t bytes, const uint16_t* table,
                               uint32_t* to) const {
    const nibble_codes code(table);
#pragma unroll 1
    for (uint32_t i = t; 4 * i < bytes; i += streams) {
      uint32_t x = 0;
      const uint32_t bits = bytes - 4 * i < 4 ? 8 * (bytes - 4 * i) : 32;
#pragma unroll 1
      for (uint32_t b = 0; b < bits; b += 4) {
        const uint32_t e = code.of(window(at));
        at += e & 255;
        x |= e >> 8 << b;
      }
      to[i] = x;
    }
  }

  // Passes the values to the sink. The row has what is above their rests.
  template <class Sink> __device__ void give_values(const std::byte* row, Sink& sink) const {
    const uint32_t shift = shape_.shift(), dropped = shape_.dropped(), groups = group::number(shape_.values);
    const uint32_t* const rests = from_ + shape::head_words;
#pragma unroll 1
    for (uint32_t g = threadIdx.x; g < groups; g += Threads) {
      group x;
      if (shape_.plain()) {
#pragma unroll
        for (uint32_t v = 0; v < group::vectors; ++v) {
          device::vec128 y;
#pragma unroll
          for (uint32_t i = 0; i < 4; ++i) y.w[i] = rests[4 * (g * group::vectors + v) + i];
          x.set_vector(v, y);
        }
      } else {
        x = group::load(row, g);
        add_rests(x, g, shift, dropped);
#pragma unroll
        for (uint32_t i = 0; i < group::quads; ++i)
          x.at[i].to_values(shape_.exponent(), shape_.zigzag(), shape_.top());
      }
#pragma unroll
      for (uint32_t v = 0; v < group::vectors; ++v) {
        const uint32_t first = g * group::values + v * tile::lane_values;
        if (v == 0 || first < shape_.values) sink(first, tile::clip(x.vector(v), shape_.values - first));
      }
    }
  }
  __device__ void add_rests(group& x, uint32_t g, uint32_t shift, uint32_t dropped) const {
    const uint32_t* plane = from_ + shape::head_words;
    // Each number: the upper part moves up, and the planes come below it.
    constexpr uint32_t per = number_quad<width>::words;
#pragma unroll
    for (uint32_t i = 0; i < group::quads; ++i)
#pragma unroll
      for (uint32_t k = 0; k < per; ++k) x.at[i].set(k, x.at[i].at(k) << shift);  // lanes have room for it
#pragma unroll
    for (uint32_t b = 0; b + 1 < width; ++b)
      if (b >= dropped && b < shift / 8) {
#pragma unroll
        for (uint32_t i = 0; i < group::quads; ++i) or_bytes(x.at[i], plane[g * group::quads + i], b);
        plane += shape_.plane_words(8);
      }
    if (shift % 8 == 0) return;
    uint32_t rest[group::quads] = {}, from = 0;
    const auto add = [&]<uint32_t K>() {
      if ((shift & K) == 0) return;
#pragma unroll
      for (uint32_t i = 0; i < group::quads; ++i) rest[i] |= group::template load_bits<K>(plane, g, i) << from;
      plane += shape_.plane_words(K);
      from += K;
    };
    add.template operator()<4>();
    add.template operator()<2>();
    if constexpr (width < 4) add.template operator()<1>();
#pragma unroll
    for (uint32_t b = 0; b < width; ++b)
      if (b == shift / 8)
#pragma unroll
        for (uint32_t i = 0; i < group::quads; ++i) or_bytes(x.at[i], rest[i], b);
  }
  // Adds four bytes as byte b of the numbers.
  __device__ static void or_bytes(quad& x, uint32_t bytes, uint32_t b) {
    quad y;
    y.set_bytes(bytes);
#pragma unroll
    for (uint32_t i = 0; i < quad::words; ++i) x.set(i, x.at(i) | y.at(i) << 8 * b);
  }

  TempStorage& temp_;
  const uint32_t* from_ = nullptr;
  uint32_t* edges_ = nullptr;
  uint32_t last_ = 0;
  shape shape_{};
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
