// SPDX-License-Identifier: Apache-2.0
// Decodes a chunk of deflate-lite from untrusted bytes by one thread block; layout.hpp has the format. The lanes of two
// warps decode a sub-block each.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/deflate/deflate.hpp>
#include <tuck/codec/huffman/warp_code.cuh>
#include <tuck/core/bit_lanes.cuh>

namespace tuck::inline TUCK_ABI {

namespace deflate_format {

// The block decoder of deflate.
template <element T, int Threads> class deflate_decoder {
  static constexpr uint32_t width = sizeof(T);
  static constexpr uint32_t lanes = device::warp_size, warps = Threads / lanes;
  static constexpr uint32_t all_slots = huffman_format::all_slots;
  static constexpr uint32_t max_cells = cells_of(tile_bytes), max_sub_blocks = sub_block_plan::most(tile_bytes);
  static constexpr uint32_t skew = 8;
  static constexpr int of_lane = (coded_symbols + lanes - 1) / lanes;  // symbols
  static_assert(max_sub_blocks <= 2 * lanes && warps >= 2);

 public:
  static constexpr int registers = 80;

  struct header_storage {
    uint32_t precode[128];
    static constexpr uint32_t all_lengths = whole_segments * segment_symbols + segment_size<8>(whole_segments);
    alignas(4) uint8_t lengths[round_up_pow2(all_lengths, 2)];
  };
  struct TempStorage {
    // The values: each sub-block with 8 bytes more before it, against conflicts of lanes at equal distances.
    alignas(16) uint8_t row[tile_bytes + skew * max_sub_blocks];
    union {
      // By the next bits: at first with the first bit highest, and only some slots of each code are filled; then with
      // the first bit lowest.
      alignas(16) uint32_t table[all_slots];
      header_storage header;
    };
    alignas(8) uint32_t begins[max_cells / lanes];  // a bit for each cell: whether a sub-block begins
    uint32_t first_bit;
  };

  __device__ explicit deflate_decoder(TempStorage& temp) : temp_(temp) {}

  template <class Sink>
  __device__ status read(const deflate<T>&, const std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    from_ = from;
    bytes_ = count * width;
    if (size >= bytes_ || size % 4 != 0 || size < 4) return status::bad_payload;
    const auto footer = chunk_footer::of(reinterpret_cast<const uint32_t*>(from)[size / 4 - 1]);
    if (!footer.fits(size, bytes_)) return status::bad_payload;
    // Of many blocks on a multiprocessor, different warps have the work that not all warps share.
    const uint32_t role = (device::warp_id() + footer.stream) % warps;
    auto* const rows = reinterpret_cast<device::vec128*>(temp_.row);
    const uint32_t row_bytes = round_up_pow2(bytes_, 4) + skew * footer.sub_blocks;
    for (uint32_t i = threadIdx.x; 16 * i < row_bytes; i += Threads) rows[i] = {};
    if (threadIdx.x < max_cells / lanes) temp_.begins[threadIdx.x] = 0;
    for (uint32_t i = threadIdx.x; i < sizeof temp_.header.lengths / 4; i += Threads)
      reinterpret_cast<uint32_t*>(temp_.header.lengths)[i] = 0;
    for (uint32_t i = threadIdx.x; i < 128; i += Threads) temp_.header.precode[i] = precode_entry(i);
    device::sync_block();
    bool sound = true;
    if (role == 0) sound = read_header(footer);
    if (device::sync_block_or(!sound)) return status::bad_payload;
    spread_codes();
    device::sync_block();
    if (role < 2) sound = decode_sub_blocks(footer, role);
    if (device::sync_block_or(!sound)) return status::bad_payload;
    pass_row(sink);
    return status::ok;
  }

 private:
  __device__ uint32_t window(uint32_t at) const {  // the next 32 bits
    return device::shared_window(reinterpret_cast<const uint32_t*>(from_), at);
  }

  // Passes the row to a sink, 16 bytes at a time.
  template <class Sink> __device__ void pass_row(Sink& sink) const {
    constexpr uint32_t units = 2 * lanes;  // whose cells have a bit each in a word of begins
    uint32_t word = 0, before = 0;         // begins before this word
    for (uint32_t i = threadIdx.x; 16 * i < bytes_; i += Threads) {
      for (; word != i / units; ++word) before += popcount(temp_.begins[word]);
      const uint32_t skews = before + popcount(temp_.begins[word] & low_mask(i / 2 % lanes + 1));
      const auto* const from = reinterpret_cast<const uint64_t*>(temp_.row) + 2 * i + skews;
      device::vec128 x;
      device::split_words(from[0], x.w[0], x.w[1]);
      device::split_words(from[1], x.w[2], x.w[3]);
      sink(16 / width * i, x);
    }
  }

  // Called by one warp. Reads all code lengths, one segment per lane, and makes the codes. Returns whether the header
  // is valid.
  __device__ bool read_header(const chunk_footer& footer) {
    const uint32_t lane = device::lane_id();
    const uint32_t own = lane < whole_segments ? window(footer.segment(lane)) & low_mask(segment_bits) : 0;
    const uint32_t up_to = prefix_bits + device::warp_inclusive_sum(own);
    bool sound = lane >= 3 || (reinterpret_cast<const uint32_t*>(from_)[lane] & low_mask(prefix_bits - 32 * lane)) ==
                                  prefix_word<width>(lane);
    if (lane <= whole_segments) {
      uint8_t* const lengths = temp_.header.lengths + lane * segment_symbols;
      const uint32_t to = read_segment<width>(
          lane, up_to - own, [&](uint32_t at) { return window(at); },
          [&](uint32_t bits) { return temp_.header.precode[bits]; },
          [&](uint32_t i, uint32_t length) { lengths[i] = static_cast<uint8_t>(length); });
      sound &= to != 0 && (lane == whole_segments || to == up_to);
      if (lane == whole_segments) temp_.first_bit = to;
    }
    device::sync_warp();
    if (lane < distance_codes<width>)
      sound &= temp_.header.lengths[coded_symbols + lane] == distance_length<width>(lane);
    huffman_format::warp_lengths<of_lane> all;
    uint32_t first[of_lane];
#pragma unroll
    for (uint32_t k = 0; k < of_lane; ++k) {
      const uint32_t s = of_lane * lane + k;
      all.length[k] = s < coded_symbols ? temp_.header.lengths[s] : 0;
    }
    sound &= all.assign(first) == all_slots && temp_.header.lengths[end_of_block] != 0;
    if (!device::all(sound)) return false;
    device::sync_warp();  // the table is where the lengths were
    for (uint32_t i = lane; i < all_slots / 4; i += lanes) reinterpret_cast<device::vec128*>(temp_.table)[i] = {};
    device::sync_warp();
#pragma unroll
    for (uint32_t k = 0; k < of_lane; ++k) {
      if (all.length[k] == 0) continue;
      const uint32_t entry = decoder_entry(of_lane * lane + k, all.length[k]);
      const uint32_t stop = first[k] + huffman_format::slots_of(all.length[k]);
      for (uint32_t slot = first[k]; slot < stop; slot += all_slots / warps) temp_.table[slot] = entry;
    }
    return true;
  }
  // Copies each entry to the slots after it that are empty. The first slot of each warp is not. Has a barrier.
  __device__ void spread_codes() {
    constexpr uint32_t each = all_slots / Threads;
    uint32_t mine[each], last = 0;
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) {
      mine[i] = temp_.table[threadIdx.x * each + i];
      last = mine[i] != 0 ? mine[i] : last;
    }
#pragma unroll
    for (unsigned delta = 1; delta < lanes; delta *= 2) {
      const uint32_t before = device::shfl_up(last, delta);
      if (last == 0) last = before;
    }
    last = device::shfl_up(last, 1);
    device::sync_block();
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) {
      last = mine[i] != 0 ? mine[i] : last;
      temp_.table[reversed(threadIdx.x * each + i, huffman_format::max_length)] = last;
    }
  }

  // Called by two warps: the second one has the sub-blocks from 32 on.
  __device__ bool decode_sub_blocks(const chunk_footer& footer, uint32_t second) {
    const uint32_t lane = device::lane_id();
    uint32_t first = 0, at = temp_.first_bit;                   // of the next sub-block
    uint32_t begin = 0, from = 0, own_cells = 0, own_bits = 0;  // of this lane's
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {  // both warps read all entries
      const uint32_t i = lane + k * lanes, entry = i < footer.sub_blocks ? window(footer.entry(i)) : 0;
      const uint32_t cells = i < footer.sub_blocks ? footer.cells(entry) : 0,
                     bits = i < footer.sub_blocks ? footer.bits(entry) : 0;
      const uint32_t up_to_cell = first + device::warp_inclusive_sum(cells);
      const uint32_t up_to_bit = at + device::warp_inclusive_sum(bits);
      if (k == 0 || second != 0) {
        begin = up_to_cell - cells;
        from = up_to_bit - bits;
        own_cells = cells;
        own_bits = bits;
      }
      first = device::shfl(up_to_cell, lanes - 1);
      at = device::shfl(up_to_bit, lanes - 1);
    }
    const uint32_t index_end = footer.entry(footer.sub_blocks);
    if (first != cells_of(bytes_) || at >= 8 * footer.stream ||
        (window(index_end) & low_mask(8 * footer.begin() - index_end)) != 0)
      return false;
    const uint32_t entry = temp_.table[window(at) % all_slots];
    bool sound = is_end(entry) && (at + token_bits(entry) + 7) / 8 == footer.stream;
    if (lane + second * lanes < footer.sub_blocks) {
      const uint32_t row_end = (begin + own_cells) * cell_bytes, shift = skew * (lane + second * lanes + 1);
      device::atomic_or(&temp_.begins[begin / lanes], 1u << begin % lanes);
      sound &= decode_sub_block(from, from + own_bits, shift + begin * cell_bytes,
                                shift + (row_end < bytes_ ? row_end : bytes_));
    }
    return device::all(sound);
  }

  // Returns the bits after the first n mod 32.
  __device__ static uint32_t after(uint32_t bits, uint32_t n) { return device::funnel_shift_right(bits, 0, n); }

  // Decodes up to two tokens per iteration, the first a literal. The row is zero where nothing has been written.
  __device__ bool decode_sub_block(uint32_t at, const uint32_t end, const uint32_t begin, const uint32_t row_end) {
    const auto entry_of = [table = device::shared_words(temp_.table)](uint32_t bits) {
      return table.template of<0, huffman_format::max_length>(bits);
    };
    uint8_t* const row = temp_.row;
    const auto* next = reinterpret_cast<const uint32_t*>(from_) + at / 32;
    uint32_t now = next[0], then = next[1], later = next[2];  // words of the stream
    next += 3;
    uint32_t to = begin, last = ~0u, seen = 0;  // `last` is the table entry of the last byte
    uint32_t bits = device::funnel_shift_right(now, then, at), entry = entry_of(bits);
    while ((to < row_end) & (at < end)) {
      const uint32_t word = at / 32;
      if (is_literal(entry) & (to < row_end - 1)) {
        row[to++] = static_cast<uint8_t>(entry >> 8);
        last = entry;
        at += token_bits(entry);
        bits = after(bits, entry);
        entry = entry_of(bits);
      }
      at += token_bits(entry);
      const uint32_t token = entry, length = token_bytes(token, after(bits, code_bits(token))),
                     distance = after(bits, token - 1);
      const bool has_extra_bit = width == 8 && !is_literal(token) && (distance & 1) != 0;
      if (has_extra_bit) ++at;  // the extra bit of distance 8
      if (at / 32 != word) {
        now = then;
        then = later;
        later = *next++;
      }
      bits = device::funnel_shift_right(now, then, at);  // early, so that nothing waits for the entry
      entry = entry_of(bits);
      seen |= token;
      if (is_literal(token)) {
        row[to] = static_cast<uint8_t>(token >> 8);
        last = token;
      } else if (((distance & 1) | (last & 0xff00)) != 0) {
        if (!copy(length, distance, begin, row_end, to, last)) return false;
      }
      to += length;
    }
    return to == row_end && at == end && !is_end(seen);
  }
  // Copies the bytes of a match that is far, or not of zeros. The lowest bits of `distance` are those of its distance.
  __device__ bool copy(uint32_t length, uint32_t distance, uint32_t begin, uint32_t row_end, uint32_t to,
                       uint32_t& last) const {
    const bool is_far = (distance & 1) != 0;
    const uint32_t back = is_far ? width : 1;
    if (length > row_end - to || to - begin < back || (is_far && (width == 1 || (width == 8 && (distance & 2) == 0))))
      return false;
    uint8_t* const row = temp_.row;
#pragma unroll 1
    for (const uint32_t stop = to + length; to < stop; ++to) row[to] = row[to - back];
    last = uint32_t{row[to - 1]} << 8;
    return true;
  }

  TempStorage& temp_;
  const std::byte* from_ = nullptr;
  uint32_t bytes_ = 0;
};

}  // namespace deflate_format

/// Block decoder of deflate; block.cuh documents the members.
template <element T, int Threads>
class block_decoder<deflate<T>, Threads> : public deflate_format::deflate_decoder<T, Threads> {
  using deflate_format::deflate_decoder<T, Threads>::deflate_decoder;
};

}  // namespace tuck::inline TUCK_ABI
