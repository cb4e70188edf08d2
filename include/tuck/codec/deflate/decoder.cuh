// Decodes a chunk of deflate-lite from untrusted bytes by one thread block; layout.hpp has the format. Each lane of one
// warp decodes a sub-block.
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
  static constexpr uint32_t lanes = device::warp_size;
  static_assert(sub_block_plan::most(tile_bytes) <= lanes);

 public:
  static constexpr int registers = 80;

  struct header_storage {
    alignas(16) uint16_t codes[huffman_format::slots];
    huffman_format::warp_symbols symbols;
    static constexpr uint32_t length_words =
        (whole_segments * segment_symbols + segment_size<8>(whole_segments) + 3) / 4;
    alignas(4) uint8_t lengths[4 * length_words];
    uint16_t precode[128];
  };
  struct TempStorage {
    alignas(16) uint8_t row[tile_bytes];
    union {
      uint32_t table[huffman_format::slots];
      header_storage before;
    };
    uint32_t first_bit;
  };

  __device__ explicit deflate_decoder(TempStorage& temp) : temp_(temp) {}

  template <class Sink>
  __device__ status read(const deflate<T>&, const std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    from_ = from;
    bytes_ = count * width;
    if (size >= bytes_ || size % 4 != 0 || size < 4) return status::bad_payload;
    const uint32_t last = reinterpret_cast<const uint32_t*>(from)[size / 4 - 1];
    const chunk_end end(last);
    if (!end.fits(last, size, bytes_)) return status::bad_payload;
    auto* const rows = reinterpret_cast<device::vec128*>(temp_.row);
    for (uint32_t i = threadIdx.x; 128 * (i / 8) < bytes_; i += Threads) rows[i] = {};
    prepare_header();
    device::sync_block();
    bool sound = true;
    if (device::warp_id() == 0) sound = read_header(end);
    if (device::sync_block_or(!sound)) return status::bad_payload;
    expand_table();
    device::sync_block();
    if (device::warp_id() == 0) sound = decode_sub_blocks(end);
    if (device::sync_block_or(!sound)) return status::bad_payload;
    for (uint32_t i = threadIdx.x; 16 * i < bytes_; i += Threads) sink(16 / width * i, rows[swizzled(16 * i) / 16]);
    return status::ok;
  }

 private:
  // Permutes the 16-byte units of the row. Without this, lanes with sub-blocks of equal size conflict on one bank of
  // shared memory.
  __device__ static uint32_t swizzled(uint32_t byte) { return device::xor_masked<0x70>(byte, byte >> 5); }

  __device__ uint32_t window(uint32_t at) const {  // the next 32 bits
    return device::shared_window(reinterpret_cast<const uint32_t*>(from_), at);
  }
  __device__ uint32_t index_byte(const chunk_end& end, uint32_t i) const {
    return static_cast<uint8_t>(from_[end.stream + i]);
  }

  __device__ void prepare_header() {
    for (uint32_t i = threadIdx.x; i < 128; i += Threads)
      temp_.before.precode[i] = static_cast<uint16_t>(precode_entry(i));
    for (uint32_t i = threadIdx.x; i < header_storage::length_words; i += Threads)
      reinterpret_cast<uint32_t*>(temp_.before.lengths)[i] = 0;
  }
  // Called by one warp. Reads all code lengths, one segment per lane, and makes the codes. Returns whether the header
  // is valid.
  __device__ bool read_header(const chunk_end& end) {
    const uint32_t lane = device::lane_id();
    const uint32_t own = lane < whole_segments ? index_byte(end, lane) : 0;
    const uint32_t up_to = prefix_bits + device::warp_inclusive_sum(own);
    bool sound = lane >= 3 || (window(32 * lane) & low_mask(prefix_bits - 32 * lane)) == prefix_word<width>(lane);
    if (lane <= whole_segments) {
      const uint32_t to = read_segment<width>(
          lane, up_to - own, [&](uint32_t at) { return window(at); },
          [&](uint32_t bits) -> uint32_t { return temp_.before.precode[bits]; },
          [&](uint32_t i, uint32_t length) {
            temp_.before.lengths[lane * segment_symbols + i] = static_cast<uint8_t>(length);
          });
      sound &= to != 0 && (lane == whole_segments || to == up_to);
      if (lane == whole_segments) temp_.first_bit = to;
    }
    device::sync_warp();
    if (lane < distance_codes<width>)
      sound &= temp_.before.lengths[coded_symbols + lane] == distance_length<width>(lane);
    huffman_format::warp_lengths<9> all;
#pragma unroll
    for (uint32_t k = 0; k < 9; ++k) {
      const uint32_t s = 9 * lane + k;
      all.length[k] = all.count[k] = s < coded_symbols ? temp_.before.lengths[s] : 0;
    }
    if (!device::all(sound) || all.used() != huffman_format::slots || temp_.before.lengths[end_of_block] == 0)
      return false;
    huffman_format::place_codes<4>(all, temp_.before.codes, temp_.before.symbols);
    device::sync_warp();
    huffman_format::spread_entries(reinterpret_cast<device::vec128*>(temp_.before.codes));
    return true;
  }
  __device__ void expand_table() {
    constexpr uint32_t each = huffman_format::slots / Threads;
    uint32_t entries[each];
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) {
      const uint32_t code = temp_.before.codes[i * Threads + threadIdx.x];
      entries[i] = decoder_entry(code >> 4, code & 15);
    }
    device::sync_block();
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) temp_.table[i * Threads + threadIdx.x] = entries[i];
  }

  // Called by one warp, one sub-block per lane.
  __device__ bool decode_sub_blocks(const chunk_end& end) {
    const uint32_t lane = device::lane_id();
    uint32_t cells = 0, bits = 0;
    if (lane < end.sub_blocks) {
      uint32_t entry = 0;
      for (uint32_t k = 0; k < 3; ++k) entry |= index_byte(end, whole_segments + 3 * lane + k) << 8 * k;
      cells = entry_cells(entry);
      bits = entry_bits(entry);
    }
    const uint32_t last_cell = device::warp_inclusive_sum(cells), first = last_cell - cells;
    const uint32_t to = temp_.first_bit + device::warp_inclusive_sum(bits), all = device::shfl(to, lanes - 1);
    bool sound = device::shfl(last_cell, lanes - 1) == cells_of(bytes_) && all < 8 * end.stream;
    sound &= padding_is_zero(end);
    if (!device::all(sound)) return false;
    const uint32_t code = temp_.table[reverse_bits(window(all)) >> (32 - max_length)];
    sound = (code >> 4) == 0 && (all + (code & 15) + 7) / 8 == end.stream;
    if (lane < end.sub_blocks) {
      const uint32_t row_end = last_cell * cell_bytes < bytes_ ? last_cell * cell_bytes : bytes_;
      sound &= decode_sub_block(to - bits, to, first * cell_bytes, row_end);
    }
    return device::all(sound);
  }
  __device__ bool padding_is_zero(const chunk_end& end) const {
    const uint32_t begin = end.stream + whole_segments + 3 * end.sub_blocks;
    const uint32_t size = round_up_pow2(begin, 2) - begin;
    return device::lane_id() >= size || from_[begin + device::lane_id()] == std::byte{};
  }

  // Decodes up to two literals and one more token per iteration. The row is zero where nothing has been written.
  __device__ bool decode_sub_block(uint32_t at, uint32_t end, uint32_t begin, uint32_t row_end) {
    uint8_t* const row = temp_.row;
    uint32_t to = begin, last = 0;  // `last` is the table entry of the last byte
    const auto put_literal = [&](uint32_t entry) {
      row[swizzled(to++)] = static_cast<uint8_t>(entry >> 8);
      last = entry;
    };
    while (to < row_end && at < end) {
      const uint32_t codes = reverse_bits(window(at));
      uint32_t entry = temp_.table[codes >> (32 - max_length)], skipped = entry & 15;
      if (to + 2 < row_end && is_literal(entry)) {
        put_literal(entry);
        entry = temp_.table[codes << skipped >> (32 - max_length)];
        skipped += entry & 15;
        if (is_literal(entry)) {
          put_literal(entry);
          entry = temp_.table[codes << skipped >> (32 - max_length)];
          skipped += entry & 15;
        }
      }
      at += skipped;
      if (is_literal(entry)) {
        put_literal(entry);
        continue;
      }
      const uint32_t more = window(at), extra = entry >> 4 & 15;
      const uint32_t length = (entry >> 8) + (more & ((1u << extra) - 1));
      const bool is_far = (more >> extra & 1) != 0;
      const uint32_t distance = is_far ? width : 1;
      at += extra + distance_bits<width>(is_far);
      if (length - 1 >= row_end - to || to - begin < distance ||  // the end of a block has length 0
          (is_far && (width == 1 || (width == 8 && (more >> extra & 2) == 0))))
        return false;
      const uint32_t from = to;
      to += length;
      if (!is_far && (last & 0xff00) == 0) continue;
#pragma unroll 1
      for (uint32_t i = from; i < to; ++i) row[swizzled(i)] = row[swizzled(i - distance)];
      last = uint32_t{row[swizzled(to - 1)]} << 8;
    }
    return to == row_end && at == end;
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
