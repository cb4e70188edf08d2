// SPDX-License-Identifier: Apache-2.0
// deflate by one thread block. It writes the bytes of layout.hpp.
//
// Each thread finds the tokens that begin in its cells. They are listed in shared memory, in place of the values: a
// byte for each token, and flags. Then all threads have the same number of tokens, whose bits they count and write.
#pragma once

#include <tuck/codec/deflate/decoder.cuh>
#include <tuck/codec/deflate/deflate.hpp>
#include <tuck/codec/deflate/tokens.cuh>
#include <tuck/core/bit_lanes.cuh>

namespace tuck::inline TUCK_ABI {

namespace deflate_format {

// The block codec of deflate.
template <element T, int Threads> class deflate_encoder {
  static constexpr uint32_t width = sizeof(T);
  static constexpr uint32_t warps = Threads / device::warp_size;
  static constexpr uint32_t max_cells = cells_of(tile_bytes);
  static constexpr uint32_t max_sub_blocks = sub_block_plan::most(tile_bytes);
  using own_cells = thread_cells<width, max_cells / Threads>;
  using bits_of_cells = typename own_cells::bits;
  static constexpr uint32_t each = own_cells::each, unit_lanes = own_cells::unit_lanes;
  static constexpr uint32_t kinds = 512, no_token = kinds - 1;  // literals, and 256 + the length of a match - 3
  static constexpr uint32_t pairs = (whole_segments + 1) / 2;   // of segments
  // No match is longer than two lines.
  static_assert(256 + 2 * line_cells * cell_bytes - min_match < no_token);
  using scan = device::block_scan<Threads>;

  // A bit for each byte of a cell: whether a token begins there, and whether it is a literal.
  struct alignas(8) cell_tokens {
    uint32_t begins, literals;
  };
  struct found_tokens {
    cell_tokens cells[max_cells];
    uint16_t before[max_cells];  // number of tokens before each cell
  };
  struct coded_tokens {
    uint32_t entries[kinds];                       // the encoder_entry of each kind of token
    uint32_t piece_bit[Threads + 1];               // where the tokens of each thread begin in the stream
    uint32_t first_bits[pairs], pair_bits[pairs];  // of pairs of segments: bits of the first, and of both
  };

 public:
  using tile = block_tile<T, Threads>;
  static constexpr int registers = 96;  // shared memory allows no more blocks
  static constexpr bool keeps_tile = false;

  struct TempStorage {
    alignas(16) uint32_t row[tile_bytes / 4];  // the values, then the bytes of tokens: literals, or lengths - 3
    // A byte for four tokens: [7:4] whether each is a far match, [3:0] whether it is a match; lowest bit first.
    alignas(16) uint32_t flags[tile_bytes / 4 / 4];
    uint32_t counts[counted_symbols];  // of symbols, then their codes
    union {
      found_tokens found;
      coded_tokens coded;
    };
    uint32_t longer[3][3];                    // of make_code: by how much k is larger, for each round and warp
    uint32_t begin_cell[max_sub_blocks + 1];  // of sub-blocks
    uint32_t begin_at[max_sub_blocks + 1];    // first the number of tokens before them, then of bits
    typename scan::TempStorage scan_storage;
  };

  __device__ explicit deflate_encoder(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t measure(const deflate<T>&, const tile& values) {
    bytes_ = values.count * width;
#pragma unroll
    for (int r = 0; r < tile::rows; ++r)
      unit(tile::first_value(r * tile::row_words) * width) = values.row(r);  // with zeros after the values
    clear();
    device::sync_block();
    list_tokens();
    device::sync_block();
    make_code();
    device::sync_block();
    for (uint32_t kind = threadIdx.x; kind < kinds; kind += Threads) {
      const uint32_t token = kind < 256 ? kind : kind + min_match;
      const uint32_t code = kind == no_token ? 0 : temp_.counts[symbol_of_token(token)];
      temp_.coded.entries[kind] = kind == no_token ? 0 : encoder_entry(token, code & ~15u, code & 15);
    }
    for_fields([&](uint32_t pair, const header_field&, uint32_t up_to) {
      if (device::lane_id() == segment_symbols - 1) temp_.coded.first_bits[pair] = up_to;
      if (device::lane_id() == device::warp_size - 1) temp_.coded.pair_bits[pair] = up_to;
    });
    device::sync_block();
    return measure_bits();
  }

  template <class Values> __device__ void write(const deflate<T>&, const Values&, std::byte* to) {
    zero_shared<Threads>(to);
    device::sync_block();
    auto* const staged = reinterpret_cast<uint32_t*>(to);
    write_header(staged);
    write_tokens(staged);
    write_index(staged);
  }

 private:
  // Permutes the 16-byte units of 128 bytes. Without this, threads that read at equal distances conflict on one bank of
  // shared memory.
  __device__ static uint32_t spread(uint32_t byte) { return device::xor_masked<0x70>(byte, byte >> 3); }
  __device__ device::vec128& unit(uint32_t byte) const {
    return *reinterpret_cast<device::vec128*>(reinterpret_cast<std::byte*>(temp_.row) + spread(byte));
  }

  __device__ void clear() {
    for (uint32_t i = threadIdx.x; i < counted_symbols; i += Threads) temp_.counts[i] = i == end_of_block;
    for (uint32_t i = threadIdx.x; i < tile_bytes / 64; i += Threads)
      reinterpret_cast<device::vec128*>(temp_.flags)[i] = {};
    if (threadIdx.x == 0) temp_.begin_cell[0] = 0;
  }

  // -- tokens ----------------------------------------------------------------------------------------------------

  __device__ void list_tokens() {
    const uint32_t cell = threadIdx.x * each;
    bits_of_cells near_bytes, far_bits;
    own_cells::find_equal_bytes([&](uint32_t byte) -> const device::vec128& { return unit(byte); }, bytes_, near_bytes,
                                far_bits);
    plan_sub_blocks(near_bytes, far_bits);
    const typename own_cells::token_begins begins(near_bytes, far_bits, bytes_);
    uint32_t at = scan::exclusive_sum(temp_.scan_storage, begins.count, tokens_);
    bits_of_cells before;  // numbers of tokens
#pragma unroll
    for (uint32_t c = 0; c < each; ++c) {
      temp_.found.cells[cell + c] = {begins.all[c], begins.all[c] & ~begins.matches[c]};
      temp_.found.before[cell + c] = static_cast<uint16_t>(before[c] = at);
      at += popcount(begins.all[c]);
    }
    list_literals();
    list_matches(begins, before);
    if (threadIdx.x < sub_blocks_) temp_.begin_at[threadIdx.x] = temp_.found.before[temp_.begin_cell[threadIdx.x]];
    if (const uint32_t i = tokens_ + threadIdx.x; i < round_up_pow2(tokens_, 2)) add_match(i, no_token, false);
  }
  // Finds the sub-blocks, and lets no run reach before them.
  __device__ void plan_sub_blocks(bits_of_cells& near_bytes, bits_of_cells& far_bits) {
    const typename own_cells::token_begins begins(near_bytes, far_bits, bytes_);
    const uint32_t first = threadIdx.x * each, cells = cells_of(bytes_);
    uint32_t all, before = scan::exclusive_sum(temp_.scan_storage, begins.count, all);
    const sub_block_plan plan(bytes_, all);
    sub_blocks_ = plan.count;
    uint32_t sub_block[each + 1];  // of the cells, and of the next one
#pragma unroll
    for (uint32_t c = 0; c <= each; ++c) {
      sub_block[c] = plan.at(first + c, before);
      if (c != 0 && first + c <= cells && sub_block[c] != sub_block[c - 1]) temp_.begin_cell[sub_block[c]] = first + c;
      if (c < each) before += popcount(begins.all[c]);
    }
    device::sync_block();
#pragma unroll
    for (uint32_t c = 0; c < each; ++c)
      if (first + c < cells && temp_.begin_cell[sub_block[c]] == first + c) own_cells::cut(near_bytes[c], far_bits[c]);
  }

  // Lists and counts the literals. No token is listed behind its first byte: so all bytes of a round are read before
  // any of its tokens are written. Has barriers.
  __device__ void list_literals() {
    constexpr uint32_t unit_lines = unit_cells / line_cells, line_bytes = line_cells * cell_bytes;  // a warp has a unit
    const uint32_t lane = device::lane_id(), bit = 4 * lane % cell_bytes;
    for (uint32_t round = 0; round < bytes_; round += warps * unit_lines * line_bytes) {
      const uint32_t begin = round + device::warp_id() * unit_lines * line_bytes;
      uint32_t x[unit_lines];
#pragma unroll
      for (uint32_t i = 0; i < unit_lines; ++i) x[i] = temp_.row[begin / 4 + 32 * i + (lane ^ 4 * i)];
      device::sync_block();
#pragma unroll
      for (uint32_t i = 0; i < unit_lines; ++i) {
        const uint32_t cell = begin / cell_bytes + line_cells * i + 4 * lane / cell_bytes;
        const cell_tokens here = temp_.found.cells[cell];
        const uint32_t match = (here.begins ^ here.literals) >> bit & 1;  // before the literals of this word
        list_literals(temp_.found.before[cell] + popcount(here.begins & low_mask(bit)) + match, here.literals >> bit,
                      x[i]);
      }
    }
  }
  // Lists those of four bytes that `literals` has bits of, as tokens from number `at` on.
  __device__ void list_literals(uint32_t at, uint32_t literals, uint32_t x) {
    const device::shared_words counts(temp_.counts);
    auto* const to = reinterpret_cast<uint8_t*>(temp_.row);
    detail::unrolled<4>([&]<int K>() {
      if ((literals & 1u << K) == 0) return;
      to[at++] = static_cast<uint8_t>(x >> 8 * K);
      counts.template count<8 * K, 8>(x);
    });
  }

  // Lists and counts the matches, by whole warps. Only after list_literals: all threads have then read all values, and
  // tokens overwrite these. `before`: number of tokens before each cell.
  __device__ void list_matches(const typename own_cells::token_begins& begins, const bits_of_cells& before) {
    const uint32_t lane = device::lane_id() % unit_lanes, first = threadIdx.x * each * cell_bytes;
    const uint32_t unit_end = first + (unit_lanes - lane) * each * cell_bytes,
                   limit = unit_end < bytes_ ? unit_end : bytes_;
    uint32_t next = limit;  // where the first token of this thread, or of the next ones in the unit, begins
#pragma unroll
    for (uint32_t c = each; c-- != 0;)
      if (begins.all[c] != 0) next = first + c * cell_bytes + trailing_zeros(begins.all[c]);
#pragma unroll
    for (uint32_t d = 1; d + 1 < unit_lanes; d *= 2) {
      const uint32_t other = device::shfl_down(next, d);
      if (lane + d < unit_lanes && other < next) next = other;
    }
    next = device::shfl_down(next, 1);  // that of the next thread
    if (lane == unit_lanes - 1) next = limit;
#pragma unroll
    for (uint32_t c = each; c-- != 0;) {
      const uint32_t begin = first + c * cell_bytes;
      for (uint32_t left = begins.matches[c]; left != 0;) {
        const uint32_t bit = bit_width(left) - 1, later = begins.all[c] >> bit >> 1;
        const uint32_t length = (later != 0 ? begin + bit + 1 + trailing_zeros(later) : next) - (begin + bit);
        add_match(before[c] + popcount(begins.all[c] & low_mask(bit)), 256 + length - min_match,
                  (begins.far_bits[c] >> bit & 1) != 0);
        device::atomic_add(&temp_.counts[length_symbol(length)], 1u);
        left ^= 1u << bit;
      }
      if (begins.all[c] != 0) next = begin + trailing_zeros(begins.all[c]);
    }
  }
  __device__ void add_match(uint32_t i, uint32_t kind, bool is_far) {
    reinterpret_cast<uint8_t*>(temp_.row)[i] = static_cast<uint8_t>(kind);
    device::atomic_or(&temp_.flags[i / 16], (is_far ? 0x11u : 1u) << (i % 4 + i / 4 % 4 * 8));
  }

  // -- the code --------------------------------------------------------------------------------------------------

  // Makes the code of round_lengths. Three warps try a value of x each. Has barriers.
  __device__ void make_code() {
    constexpr int of_lane = counted_symbols / device::warp_size;
    uint32_t* const mine = temp_.counts + of_lane * device::lane_id();
    huffman_format::warp_lengths<of_lane> all;
    uint32_t first[of_lane];
#pragma unroll
    for (int k = 0; k < of_lane; ++k) all.count[k] = mine[k];
    const uint32_t total = all.total();
    uint32_t low = 0, round = 0;
#pragma unroll 1
    for (uint32_t step = 16; step != 0; step /= 4, ++round) {
      for (uint32_t w = device::warp_id(); w < 3; w += warps) {
        const bool fits = all.round_to(huffman_format::round_begin(total, low + (w + 1) * step - 1));
        if (device::lane_id() == 0) temp_.longer[round][w] = fits ? 0 : step;
      }
      device::sync_block();
      for (uint32_t w = 0; w < 3; ++w) low += temp_.longer[round][w];
    }
    if (device::warp_id() != tokens_ % warps) return;  // not the same warp in all blocks of a multiprocessor
    all.round_to(huffman_format::round_begin(total, low));
    all.shorten();
    all.assign(first);
#pragma unroll
    for (int k = 0; k < of_lane; ++k)
      if (all.count[k] != 0) mine[k] = huffman_format::code_entry(first[k], all.length[k]);
  }
  // Calls visit(pair, field, up_to) for a field of the header for each lane, which may be empty. A warp has a pair of
  // segments. `up_to` is the number of their bits up to the end of the field.
  template <class Visit> __device__ void for_fields(const Visit& visit) const {
    static_assert(2 * segment_symbols == device::warp_size && whole_segments % 2 == 1);
    const uint32_t lane = device::lane_id(), segment = lane < segment_symbols ? 0xffff : 0xffff0000;
    for (uint32_t pair = device::warp_id(); pair < pairs; pair += warps) {
      const uint32_t s = pair * device::warp_size + lane;
      const uint32_t length = s < coded_symbols ? temp_.counts[s] & 15 : 1;
      const uint32_t runs = in_runs(0, device::ballot(length == 0) & segment, 0), here = runs >> lane;
      header_field f = length_field(length, (here & 1) != 0 ? trailing_zeros(~here) : 0);
      if ((here & ~(run_begins(0, runs) >> lane) & 1) != 0 || s > coded_symbols) f = {};
      if (s == coded_symbols) f = distance_fields<width>();
      visit(pair, f, device::warp_inclusive_sum(f.count));
    }
  }
  // Returns the first bit of a pair of segments; of `pairs`, that behind the header. measure sets pair_bits.
  __device__ uint32_t pair_begin(uint32_t pair) const {
    uint32_t begin = prefix_bits;
    for (uint32_t i = 0; i < pair; ++i) begin += temp_.coded.pair_bits[i];
    return begin;
  }

  // -- bits ------------------------------------------------------------------------------------------------------

  // Token i to i + 3, i a multiple of 4: their entries.
  struct four_entries {
    uint32_t of[4], far_bits;  // far_bits: a bit for each far match

    __device__ four_entries(const TempStorage& temp, uint32_t i) {
      const uint32_t x = temp.row[i / 4], flags = reinterpret_cast<const uint8_t*>(temp.flags)[i / 4];
      far_bits = flags >> 4;
      const uint32_t matches = (flags & 15) * 0x00204081 & 0x01010101;  // a byte for each token
      const device::shared_words entries(temp.coded.entries);
      detail::unrolled<4>(
          [&]<int K>() { of[K] = entries.template of<0, 9>(device::byte_perm < (4 + K) << 4 | K > (x, matches)); });
    }
    // Returns the bits of the first `count` tokens.
    __device__ uint32_t bits(uint32_t count) const {
      uint32_t sum = width == 8 ? popcount(far_bits & low_mask(count)) : 0;
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) sum += k < count ? of[k] >> 27 : 0;
      return sum;
    }
  };
  // Returns the end of the tokens of this thread.
  __device__ uint32_t piece_end() const {
    const uint32_t end = (threadIdx.x + 1) * piece_;
    return end < tokens_ ? end : tokens_;
  }

  __device__ uint32_t measure_bits() {
    piece_ = 4 * ((tokens_ + 4 * Threads - 1) / (4 * Threads) | 1);  // odd, against conflicts
    uint32_t bits = 0, all;
    for (uint32_t i = threadIdx.x * piece_; i < piece_end(); i += 4) bits += four_entries(temp_, i).bits(4);
    const uint32_t header = pair_begin(pairs);
    temp_.coded.piece_bit[threadIdx.x] = header + scan::exclusive_sum(temp_.scan_storage, bits, all);
    device::sync_block();
    if (threadIdx.x < sub_blocks_) temp_.begin_at[threadIdx.x] = bit_of(temp_.begin_at[threadIdx.x]);
    if (threadIdx.x == 0) temp_.begin_at[sub_blocks_] = header + all;
    device::sync_block();
    uint32_t cells = 0;
    bits = 0;
    for (uint32_t i = device::lane_id(); i < sub_blocks_; i += device::warp_size) {
      cells |= sub_block_cells(i) - 1;
      bits |= sub_block_bits(i);
    }
    footer_ = {(header + all + (temp_.counts[end_of_block] & 15) + 7) / 8, bit_width(device::warp_or(cells)),
               bit_width(device::warp_or(bits)), sub_blocks_};
    const uint32_t size = footer_.begin() + 4;
    return size >= bytes_ ? incompressible : size;
  }
  // Returns the first bit of a token.
  __device__ uint32_t bit_of(uint32_t token) const {
    const uint32_t piece = token / piece_;
    uint32_t bit = temp_.coded.piece_bit[piece], i = piece * piece_;
    for (; i + 4 <= token; i += 4) bit += four_entries(temp_, i).bits(4);
    return i < token ? bit + four_entries(temp_, i).bits(token - i) : bit;
  }
  __device__ uint32_t sub_block_bits(uint32_t i) const { return temp_.begin_at[i + 1] - temp_.begin_at[i]; }
  __device__ uint32_t sub_block_cells(uint32_t i) const { return temp_.begin_cell[i + 1] - temp_.begin_cell[i]; }

  __device__ static void put(uint32_t* staged, uint32_t at, uint32_t bits, uint32_t count) {
    device::shared_bit_writer out(staged, at);
    out.put(bits, count);
    out.finish();
  }
  __device__ void write_header(uint32_t* staged) const {
    if (threadIdx.x < 3) device::atomic_or(staged + threadIdx.x, prefix_word<width>(threadIdx.x));
    for_fields([&](uint32_t pair, const header_field& f, uint32_t up_to) {
      put(staged, pair_begin(pair) + up_to - f.count, f.bits, f.count);
    });
  }
  __device__ void write_tokens(uint32_t* staged) const {
    device::shared_bit_writer out(staged, temp_.coded.piece_bit[threadIdx.x]);
    for (uint32_t i = threadIdx.x * piece_; i < piece_end(); i += 4) {
      four_entries e(temp_, i);
      if (width > 1 && e.far_bits != 0) {
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
          if ((e.far_bits >> k & 1) != 0) e.of[k] = far_entry<width>(e.of[k]);
          out.put(e.of[k], e.of[k] >> 27);
        }
      } else {  // two have 32 bits at most
#pragma unroll
        for (uint32_t k = 0; k < 4; k += 2) {
          const uint32_t bits = e.of[k] >> 27;
          out.put((e.of[k] & low_mask(27)) | e.of[k + 1] << bits, bits + (e.of[k + 1] >> 27));
        }
      }
    }
    out.finish();
    if (threadIdx.x == 0) {
      const uint32_t code = temp_.counts[end_of_block];
      put(staged, temp_.begin_at[sub_blocks_], reversed(code >> 16, 16), code & 15);
    }
  }
  __device__ void write_index(uint32_t* staged) const {
    if (threadIdx.x < whole_segments) {
      const uint32_t first = temp_.coded.first_bits[threadIdx.x / 2];
      put(staged, footer_.segment(threadIdx.x),
          threadIdx.x % 2 == 0 ? first : temp_.coded.pair_bits[threadIdx.x / 2] - first, segment_bits);
    }
    if (threadIdx.x < sub_blocks_)
      put(staged, footer_.entry(threadIdx.x),
          (sub_block_cells(threadIdx.x) - 1) | sub_block_bits(threadIdx.x) << footer_.cell_bits, footer_.width());
    if (threadIdx.x == 0) staged[footer_.begin() / 4] = footer_.packed();
  }

  TempStorage& temp_;
  uint32_t bytes_ = 0, tokens_ = 0, sub_blocks_ = 0;
  uint32_t piece_ = 0;  // number of tokens of a thread, the last one may have fewer
  chunk_footer footer_{};
};

}  // namespace deflate_format

/// Block codec of deflate; block.cuh documents the members.
template <element T, int Threads>
class block_codec<deflate<T>, Threads> : public deflate_format::deflate_encoder<T, Threads> {
  using deflate_format::deflate_encoder<T, Threads>::deflate_encoder;
};

}  // namespace tuck::inline TUCK_ABI
