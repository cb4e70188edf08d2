// deflate by one thread block. It writes the bytes of layout.hpp.
//
// Lanes find the tokens that begin in their cells. Each sub-block is then divided into up to four pieces, one per
// thread. Each thread walks its piece three times: to count tokens, to count bits, and to write the bits.
#pragma once

#include <tuck/codec/deflate/decoder.cuh>
#include <tuck/codec/deflate/deflate.hpp>
#include <tuck/core/bit_lanes.cuh>

namespace tuck::inline TUCK_ABI {

namespace deflate_format {

// The block codec of deflate.
template <element T, int Threads> class deflate_encoder {
  static constexpr uint32_t width = sizeof(T);
  static constexpr uint32_t warps = Threads / device::warp_size;
  static constexpr uint32_t parts = warps < 4 ? warps : 4;     // pieces of a sub-block, one per thread
  static constexpr uint32_t max_cells = cells_of(tile_bytes);  // of the values
  static constexpr uint32_t rounds = (max_cells + Threads - 1) / Threads;
  static constexpr uint32_t max_pieces = 32 * parts;
  static constexpr uint32_t kinds = 256 + 256 + 1;  // literals, and 256 + the length of a match
  using scan = device::block_scan<Threads>;
  static_assert(sub_block_plan::most(tile_bytes) <= 32);

  // One bit per byte of a cell, the first lowest: whether it equals the byte before it (near) or that of the value
  // before (far); whether a token begins there, and whether that token repeats far bytes.
  struct equal_bits {
    uint32_t near, far;
  };
  struct token_bits {
    uint32_t begins, far;
  };

 public:
  using tile = block_tile<T, Threads>;
  static constexpr int registers = width < 4 ? 128 : 96;  // shared memory allows no more blocks
  static constexpr bool keeps_tile = false;

  struct TempStorage {
    alignas(16) uint32_t row[tile_bytes / 4];
    alignas(8) token_bits tokens[max_cells + 1];
    uint32_t entries[kinds];                            // first the counts of tokens, then their encoder_entry
    uint32_t counts[counted_symbols];                   // first the counts of symbols, then their codes
    uint32_t begin_cell[32 + 1], begin_weight[32 + 1];  // of sub-blocks
    uint32_t piece_begin[max_pieces + 1];               // in bytes
    uint32_t piece_bit[max_pieces + 1];
    uint32_t segment_bits[whole_segments + 1];
    huffman_format::warp_symbols symbols;
    uint32_t stream, words;  // size of the stream in bytes, and of the chunk in words
    typename scan::TempStorage scan_storage;
  };

  __device__ explicit deflate_encoder(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t measure(const deflate<T>&, const tile& values) {
    bytes_ = values.count * width;
    cells_ = cells_of(bytes_);
#pragma unroll
    for (int r = 0; r < tile::rows; ++r)
      if (const uint32_t at = tile::first_value(r * tile::row_words) * width; at < bytes_) unit(at) = values.row(r);
    clear();
    device::sync_block();
    find_tokens();
    device::sync_block();
    walk([&](uint32_t at, uint32_t length, bool) { device::atomic_add(&temp_.entries[token_of(at, length)], 1u); });
    device::sync_block();
    count_symbols();
    device::sync_block();
    if (device::warp_id() == 0) huffman_format::warp_code_maker<counted_symbols>::make(temp_.counts, temp_.symbols);
    device::sync_block();
    for (uint32_t t = threadIdx.x; t < kinds; t += Threads) {
      const uint32_t code = temp_.counts[t >= 256 && t < 256 + min_match ? 0 : symbol_of_token(t)];
      temp_.entries[t] = encoder_entry(t, code & ~15u, code & 15);
    }
    if (threadIdx.x <= whole_segments) {
      uint32_t bits = 0;
      visit_segment<width>(threadIdx.x, lengths_of(threadIdx.x), [&](uint32_t, uint32_t count) { bits += count; });
      temp_.segment_bits[threadIdx.x] = bits;
    }
    device::sync_block();
    return measure_bits();
  }

  template <class Values> __device__ void write(const deflate<T>&, const Values&, std::byte* to) {
    zero_shared<Threads>(to);
    device::sync_block();
    write_stream(reinterpret_cast<uint32_t*>(to));
    device::sync_block();
    write_index(reinterpret_cast<uint32_t*>(to));
  }

 private:
  // Permutes the 16-byte units of the row. Without this, threads that walk at equal distances conflict on one bank of
  // shared memory.
  __device__ static uint32_t spread(uint32_t byte) { return device::xor_masked<0x70>(byte, byte >> 3); }
  __device__ uint32_t byte_at(uint32_t i) const { return reinterpret_cast<const uint8_t*>(temp_.row)[spread(i)]; }
  __device__ device::vec128& unit(uint32_t byte) const {
    return *reinterpret_cast<device::vec128*>(reinterpret_cast<std::byte*>(temp_.row) + spread(byte));
  }
  // Returns a cell of this thread.
  __device__ static uint32_t cell_of(uint32_t round) { return round * Threads + threadIdx.x; }

  // Returns a function that gives the code lengths of a segment of the header.
  __device__ auto lengths_of(uint32_t segment) const {
    return [this, segment](uint32_t i) -> uint32_t {
      const uint32_t s = segment * segment_symbols + i;
      return s < coded_symbols ? temp_.counts[s] & 15 : distance_length<width>(s - coded_symbols);
    };
  }

  __device__ void clear() {
    for (uint32_t i = threadIdx.x; i < counted_symbols; i += Threads) temp_.counts[i] = i == end_of_block;
    for (uint32_t i = threadIdx.x; i < kinds; i += Threads) temp_.entries[i] = 0;
    auto* const row = reinterpret_cast<uint8_t*>(temp_.row);
    const uint32_t stored = round_up_pow2(bytes_, 4);  // with the zeros of the last row
    for (uint32_t i = stored + threadIdx.x; i < cells_ * cell_bytes; i += Threads) row[spread(i)] = 0;
    if (threadIdx.x == 0) {
      temp_.tokens[cells_] = {1u << 31, 0};
      temp_.begin_cell[0] = temp_.begin_weight[0] = 0;
    }
  }

  // -- tokens ----------------------------------------------------------------------------------------------------

  // Returns the near and the far bytes of a cell.
  __device__ equal_bits equal_bytes(uint32_t cell) const {
    uint32_t x[2 + 8] = {};  // beginning with the two words before the cell
    if (cell != 0) {
      const device::vec128& before = unit(cell * cell_bytes - 16);
      if constexpr (width == 8) x[0] = before.w[2];
      x[1] = before.w[3];
    }
#pragma unroll
    for (uint32_t q = 0; q < 2; ++q) {
      const device::vec128 here = unit(cell * cell_bytes + 16 * q);
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) x[2 + 4 * q + k] = here.w[k];
    }
    equal_bits found{};
#pragma unroll
    for (int k = 9; k >= 2; --k) {
      add_zero_bytes(found.near, x[k] ^ device::byte_perm<0x6543>(x[k - 1], x[k]));
      if constexpr (width == 2) add_zero_bytes(found.far, x[k] ^ device::byte_perm<0x5432>(x[k - 1], x[k]));
      if constexpr (width == 4) add_zero_bytes(found.far, x[k] ^ x[k - 1]);
      if constexpr (width == 8) add_zero_bytes(found.far, x[k] ^ x[k - 2]);
    }
    const uint32_t here = low_mask(bytes_ - cell * cell_bytes);
    return {found.near & here, found.far & here};
  }
  // Shifts a bit for each byte of a word into `bits`, which is set if the byte is 0.
  __device__ static void add_zero_bytes(uint32_t& bits, uint32_t x) {
    const uint32_t high = device::nor_masked<0x7f7f7f7f>((x & 0x7f7f7f7f) + 0x7f7f7f7f, x);
    bits = device::funnel_shift_right(high * 0x00204081u, bits, 28);
  }

  // Returns where tokens begin in the cell of this lane, and which of them are far, from its near and far bytes.
  // `begins` and `next_begins` say whether this cell, and the next cell, begins a sub-block.
  __device__ static token_bits mark(const equal_bits& equal, bool begins, bool next_begins) {
    const bool first = begins || device::lane_id() % unit_cells == 0;
    const bool last = next_begins || device::lane_id() % unit_cells == unit_cells - 1;
    const auto runs_of = [&](uint32_t x) {
      const uint32_t before = device::shfl_up(x, 1), after = device::shfl_down(x, 1);
      return in_runs(first ? 0 : before, x, last ? 0 : after);
    };
    const auto begins_of = [&](uint32_t runs) {
      const uint32_t before = device::shfl_up(runs, 1);
      return run_begins(first ? 0 : before, runs);
    };
    const uint32_t near = runs_of(begins ? equal.near & ~1u : equal.near);
    token_bits found{~near | begins_of(near), 0};
    if constexpr (width > 1) {
      const uint32_t far = runs_of((begins ? equal.far & ~low_mask(width) : equal.far) & ~near);
      found.far = begins_of(far);
      found.begins = (found.begins & ~far) | found.far;
    }
    return found;
  }

  __device__ void find_tokens() {
    equal_bits equal[rounds];
    constexpr uint32_t even = round_up_pow2(rounds, 1);
    uint32_t own[even] = {}, before[even], all = 0;  // numbers of tokens
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint32_t c = cell_of(r);
      equal[r] = c < cells_ ? equal_bytes(c) : equal_bits{};
      const token_bits found = mark(equal[r], c == 0, false);
      own[r] = c < cells_ ? popcount(found.begins & low_mask(bytes_ - c * cell_bytes)) : 0;
    }
#pragma unroll
    for (uint32_t r = 0; r < rounds; r += 2) {  // the numbers of two rounds, 16 bits each, are added at once
      uint32_t sums;
      if (r != 0) device::sync_block();
      const uint32_t earlier = scan::exclusive_sum(temp_.scan_storage, own[r] | own[r + 1] << 16, sums);
      before[r] = all + (earlier & 0xffff);
      before[r + 1] = all + (sums & 0xffff) + (earlier >> 16);
      all += (sums & 0xffff) + (sums >> 16);
    }
    const sub_block_plan plan(bytes_, all);
    sub_blocks_ = plan.count;
    uint32_t sub_block[rounds], next[rounds];  // of the cell, and of the next cell
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint32_t c = cell_of(r);
      sub_block[r] = plan.at(c, before[r]);
      next[r] = plan.at(c + 1, before[r] + own[r]);
      if (c < cells_ && next[r] != sub_block[r]) {
        temp_.begin_cell[next[r]] = c + 1;
        temp_.begin_weight[next[r]] = before[r] + own[r] + c + 1;
      }
    }
    device::sync_block();
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint32_t c = cell_of(r);
      bool begins = false, next_begins = false;
      if (c < cells_) {
        begins = temp_.begin_cell[sub_block[r]] == c;
        next_begins = next[r] != sub_block[r];
        place_pieces(sub_block[r], c, before[r] + c, own[r] + 1);
      }
      const token_bits found = mark(equal[r], begins, next_begins);
      if (c < cells_) temp_.tokens[c] = {reverse_bits(found.begins), reverse_bits(found.far)};
    }
    if (threadIdx.x < sub_blocks_) temp_.piece_begin[threadIdx.x * parts] = temp_.begin_cell[threadIdx.x] * cell_bytes;
    if (threadIdx.x == 0) temp_.piece_begin[sub_blocks_ * parts] = bytes_;
  }
  // Divides a sub-block into pieces of equal weight. This cell has the weights from `begin` to `begin + weight`.
  __device__ void place_pieces(uint32_t sub_block, uint32_t cell, uint32_t begin, uint32_t weight) {
    const uint32_t first = temp_.begin_weight[sub_block], all = temp_.begin_weight[sub_block + 1] - first;
#pragma unroll
    for (uint32_t k = 1; k < parts; ++k)
      if (const uint32_t before = first + k * all / parts - begin; before < weight)
        temp_.piece_begin[sub_block * parts + k] = (cell + 1) * cell_bytes - (weight - before) * cell_bytes / weight;
  }

  // Calls visit(begin, length, is_far) for the tokens that begin in the piece of this thread.
  template <class Visit> __device__ void walk(const Visit& visit) const {
    if (threadIdx.x >= sub_blocks_ * parts) return;
    const uint32_t begin = temp_.piece_begin[threadIdx.x], end = temp_.piece_begin[threadIdx.x + 1];
    const uint32_t stop = end < bytes_ ? end : bytes_;
    uint32_t cell = begin / cell_bytes * sizeof(token_bits);  // byte offset of the token_bits of the cell
    token_bits here = tokens_at(cell);
    here.begins &= ~0u >> begin % cell_bytes;
    const auto next = [&](uint32_t& far) {
      if (here.begins == 0) do
          here = tokens_at(cell += sizeof(token_bits));
        while (here.begins == 0);
      const auto bit = 32 - bit_width(here.begins);
      const uint32_t first = 0x80000000u >> bit;
      here.begins ^= first;
      far = here.far & first;
      return cell * (cell_bytes / uint32_t{sizeof(token_bits)}) + bit;
    };
    uint32_t far, far_after;
    for (uint32_t at = next(far); at < stop;) {
      const uint32_t after = next(far_after);
      visit(at, after - at, far != 0);
      at = after;
      far = far_after;
    }
  }
  __device__ const token_bits& tokens_at(uint32_t byte) const {
    return *reinterpret_cast<const token_bits*>(reinterpret_cast<const std::byte*>(temp_.tokens) + byte);
  }
  __device__ uint32_t token_of(uint32_t at, uint32_t length) const {
    const uint32_t byte = byte_at(at);
    return length == 1 ? byte : 256 + length;
  }
  __device__ void count_symbols() {
    for (uint32_t i = threadIdx.x; i < kinds; i += Threads)
      if (temp_.entries[i] != 0) device::atomic_add(&temp_.counts[symbol_of_token(i)], temp_.entries[i]);
  }

  // -- bits ------------------------------------------------------------------------------------------------------

  __device__ uint32_t measure_bits() {
    uint32_t bits = 0, all, header = prefix_bits;
    walk([&](uint32_t at, uint32_t length, bool is_far) {
      bits += (temp_.entries[token_of(at, length)] >> 27) + (width == 8 && is_far ? 1 : 0);
    });
    for (uint32_t i = 0; i <= whole_segments; ++i) header += temp_.segment_bits[i];
    const uint32_t before = header + scan::exclusive_sum(temp_.scan_storage, bits, all);
    if (threadIdx.x < sub_blocks_ * parts) temp_.piece_bit[threadIdx.x] = before;
    if (threadIdx.x == 0) temp_.piece_bit[sub_blocks_ * parts] = header + all;
    device::sync_block();
    const bool is_long = threadIdx.x < sub_blocks_ && sub_block_bits(threadIdx.x) >= max_entry_bits;
    const uint32_t stream = (header + all + (temp_.counts[end_of_block] & 15) + 7) / 8;
    const uint32_t size = stream + index_bytes(stream, sub_blocks_);
    if (threadIdx.x == 0) temp_.stream = stream, temp_.words = size / 4;
    return device::sync_block_or(is_long) || size >= bytes_ ? incompressible : size;
  }
  __device__ uint32_t sub_block_bits(uint32_t i) const {
    return temp_.piece_bit[(i + 1) * parts] - temp_.piece_bit[i * parts];
  }
  __device__ uint32_t sub_block_cells(uint32_t i) const { return temp_.begin_cell[i + 1] - temp_.begin_cell[i]; }

  __device__ void write_stream(uint32_t* staged) {
    if (threadIdx.x < 3) device::atomic_or(staged + threadIdx.x, prefix_word<width>(threadIdx.x));
    if (threadIdx.x <= whole_segments) {
      uint32_t begin = prefix_bits;
      for (uint32_t i = 0; i < threadIdx.x; ++i) begin += temp_.segment_bits[i];
      device::shared_bit_writer header(staged, begin);
      visit_segment<width>(threadIdx.x, lengths_of(threadIdx.x),
                           [&](uint32_t bits, uint32_t count) { header.put(bits, count); });
      header.finish();
    }
    if (threadIdx.x < sub_blocks_ * parts) {
      device::shared_bit_writer out(staged, temp_.piece_bit[threadIdx.x]);
      walk([&](uint32_t at, uint32_t length, bool is_far) {
        uint32_t entry = temp_.entries[token_of(at, length)];
        if (width > 1 && is_far) entry = far_entry<width>(entry);
        out.put(entry, entry >> 27);
      });
      out.finish();
    }
    if (threadIdx.x == 0) {
      device::shared_bit_writer last(staged, temp_.piece_bit[sub_blocks_ * parts]);
      const uint32_t code = temp_.counts[end_of_block];
      last.put(reversed(code >> 16, 16), code & 15);
      last.finish();
    }
  }
  __device__ void write_index(uint32_t* staged) {
    auto* const to = reinterpret_cast<uint8_t*>(staged) + temp_.stream;
    if (threadIdx.x < whole_segments) to[threadIdx.x] = static_cast<uint8_t>(temp_.segment_bits[threadIdx.x]);
    if (threadIdx.x < sub_blocks_) {
      const uint32_t entry = entry_of(sub_block_cells(threadIdx.x), sub_block_bits(threadIdx.x));
      for (uint32_t k = 0; k < 3; ++k) to[whole_segments + 3 * threadIdx.x + k] = static_cast<uint8_t>(entry >> 8 * k);
    }
    if (threadIdx.x == 0) staged[temp_.words - 1] = chunk_end(temp_.stream | sub_blocks_ << 24).word();
  }

  TempStorage& temp_;
  uint32_t bytes_ = 0, cells_ = 0, sub_blocks_ = 0;
};

}  // namespace deflate_format

/// Block codec of deflate; block.cuh documents the members.
template <element T, int Threads>
class block_codec<deflate<T>, Threads> : public deflate_format::deflate_encoder<T, Threads> {
  using deflate_format::deflate_encoder<T, Threads>::deflate_encoder;
};

}  // namespace tuck::inline TUCK_ABI
