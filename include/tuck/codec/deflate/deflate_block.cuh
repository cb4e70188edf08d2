// deflate-lite by one thread block: the bytes of deflate.hpp.
//
// The chunk is seen twice, piece by piece: first its symbols are counted, then, with the codes known, written. Each
// time a piece stands in shared memory and each thread has cells of it, for which the functions of tokens.hpp say what
// to do. Sorting and summing are the block's; the code itself is made by one thread, while other blocks have the
// processor.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/deflate/deflate.hpp>
#include <tuck/codec/deflate/deflate_block_decoder.cuh>
#include <tuck/codec/deflate/shared_piece.cuh>

namespace tuck::inline TUCK_ABI {

namespace deflate_format {

// The codec's measure and pack.
template <element T, int Threads> class block_encoder {
  using tile = block_tile<T, Threads>;
  using scan = device::block_scan<Threads>;

  static constexpr uint32_t width = sizeof(T);
  static constexpr uint32_t cells = piece_cells;
  static constexpr uint32_t warps = Threads / device::warp_size;
  static constexpr uint32_t groups = piece_groups;
  static constexpr uint32_t own_groups = Threads < groups ? groups / Threads : 1;  // neighbours that a thread cuts
  static_assert(cells % Threads == 0, "tuck: the deflate block codec is for up to 512 threads");
  static_assert(tile_bytes == piece_bytes);
  // Of a piece, so many cells are written at a time, at most 11 bits for each of their bytes and those of a run of
  // zeros that leaves them. 32 bytes more are what is left of the cells before.
  static constexpr uint32_t cells_at_once = Threads < 256 ? Threads : 256;
  static constexpr uint32_t staged_bits = (cells_at_once * cell_bytes + min_match + gated_lengths) * max_literal_bits;
  static constexpr uint32_t sector_bits = 256, sector_words = sector_bits / 32;  // what leaves it is a multiple
  static constexpr uint32_t staged_words = sector_words + ceil_div(staged_bits, sector_bits) * sector_words;
  static_assert(4 * staged_words >= 48 + index_bytes(max_sub_blocks));

  // Where a sub-block begins.
  struct sub_block_begin {
    uint32_t bit;    // of the stream
    uint16_t group;  // of the chunk
  };

 public:
  static constexpr uint32_t chunk_capacity = max_chunk_bytes;
  static constexpr int blocks_a_processor = 3;  // 80 registers

  struct TempStorage {
    shared_piece piece;
    // Of the chunk.
    uint32_t begins[max_pieces][piece_groups / 32];
    uint8_t sub_blocks[max_pieces];
    histogram counts;
    device::uninitialized<gate> skipped;
    encoder_codes codes;
    block_header header;
    uint32_t bytes, pieces, stream_bytes;
    // Codes are made before bits are staged.
    union {
      struct {
        code_memory memory;
        uint32_t first_codeword[max_code_bits + 1];
        uint8_t length[literal_symbols];
      } plan;
      alignas(16) uint32_t staged[staged_words];
    };
    sub_block_begin begin[max_sub_blocks + 1];
    uint32_t of_warp[warps];
    typename scan::TempStorage scan_storage;
  };

  __device__ explicit block_encoder(TempStorage& temp) : temp_(temp) {}

  __device__ void begin(const deflate<T>&, uint32_t count) {
    for (uint32_t i = threadIdx.x; i < literal_symbols; i += Threads)
      temp_.counts.literal[i] = i == end_of_block ? 1 : 0;
    if (threadIdx.x < gated_lengths) temp_.counts.zero_match[threadIdx.x] = 0;
    if (threadIdx.x < 2) temp_.counts.distance[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
      temp_.bytes = count * width;
      temp_.pieces = ceil_div(temp_.bytes, piece_bytes);
    }
  }

  __device__ void count(const deflate<T>&, const tile& values, uint32_t k) {
    put_piece(values);
    find_runs();
    cut(k);
    find_open_runs();
    counter symbols{&temp_.counts};
    for (uint32_t c = threadIdx.x; c < temp_.piece.cells(); c += Threads) visit_symbols<width>(temp_.piece, c, symbols);
  }

  __device__ uint32_t measure(const deflate<T>&) {
    make_codes();
    uint32_t bits = 0;
    for (uint32_t i = threadIdx.x; i < literal_symbols; i += Threads)
      bits += bits_of_symbol<width>(temp_.counts, temp_.codes, i);
    bits = scan::sum(temp_.scan_storage, bits) + temp_.header.bits + bits_of_distances<width>(temp_.counts);
    const uint32_t stream_bytes = ceil_div(bits, 8u);
    if (threadIdx.x == 0) temp_.stream_bytes = stream_bytes;
    return stream_bytes + index_bytes(plan_index(temp_.sub_blocks, temp_.pieces, stream_bytes).entries);
  }

  template <class Tiles> __device__ void pack(const deflate<T>&, Tiles& tiles, bytes out) {
    sectors_out_ = 0;
    for (uint32_t i = threadIdx.x; i < staged_words; i += Threads) temp_.staged[i] = 0;
    device::sync_block();
    if (threadIdx.x == 0) {
      shared_bit_writer writer(temp_.staged, 0);
      write_header(temp_.header, writer);
      writer.finish();
    }
    uint32_t at = temp_.header.bits, first_group = 0, first_rank = 0;
    flush(at, out);
    for (uint32_t k = 0; k < temp_.pieces; ++k) {
      put_piece(tiles(k));
      if (threadIdx.x < piece_groups / 32) temp_.piece.begins[threadIdx.x] = temp_.begins[k][threadIdx.x];
      find_runs();
      find_open_runs();
      const uint32_t end = temp_.piece.cells();  // which the next piece changes while others still ask
      for (uint32_t first = 0; first < end; first += cells_at_once)
        at += write_cells(first + threadIdx.x, at, first_group, first_rank, out);
      first_group += piece_groups;
      first_rank += temp_.sub_blocks[k];
    }
    write_end(at, first_rank, out);
  }

 private:
  struct counter {
    histogram* counts;

    __device__ void literal(uint32_t byte) { device::atomic_add(&counts->literal[byte], 1u); }
    __device__ bool skips(uint32_t, int, uint32_t) const { return false; }
    __device__ void match(uint32_t length, int kind, uint32_t byte) {
      device::atomic_add(&counts->literal[length_symbol(length)], 1u);
      device::atomic_add(&counts->distance[kind], 1u);
      if (kind == byte_run && byte == 0 && length < min_match + gated_lengths)
        device::atomic_add(&counts->zero_match[length - min_match], 1u);
    }
  };
  struct bit_counter {
    const encoder_codes& codes;
    gate skipped;
    uint32_t bits = 0;

    __device__ void literal(uint32_t byte) { bits += code_length(codes.literal[byte]); }
    __device__ bool skips(uint32_t length, int kind, uint32_t byte) const { return skipped.skips(length, kind, byte); }
    __device__ void match(uint32_t length, int kind, uint32_t) {
      const uint32_t symbol = length_symbol(length);
      literal(symbol);
      bits += tail_of_match<width>(codes, symbol, length, kind).width;
    }
  };
  struct emitter {
    const encoder_codes& codes;
    gate skipped;
    shared_bit_writer out;

    __device__ void literal(uint32_t symbol) {
      const uint16_t code = codes.literal[symbol];
      out.put(code_bits(code), code_length(code));
    }
    __device__ bool skips(uint32_t length, int kind, uint32_t byte) const { return skipped.skips(length, kind, byte); }
    __device__ void match(uint32_t length, int kind, uint32_t) {
      const uint32_t symbol = length_symbol(length);
      literal(symbol);
      const auto tail = tail_of_match<width>(codes, symbol, length, kind);
      out.put(tail.bits, tail.width);
    }
  };

  __device__ void put_piece(const tile& values) {
    constexpr uint32_t each = sizeof(typename tile::word) / 4;
#pragma unroll
    for (int j = 0; j < tile::words; ++j) {
      const uint32_t first = tile::first_value(j) / tile::per_word * each;
      temp_.piece.words[shared_piece::place(first)] = static_cast<uint32_t>(values.w[j]);
      if constexpr (each == 2)
        temp_.piece.words[shared_piece::place(first + 1)] = static_cast<uint32_t>(uint64_t{values.w[j]} >> 32);
    }
    if (threadIdx.x == 0) temp_.piece.bytes = values.count * width;
    device::sync_block();
  }

  // Every Threads-th cell is a thread's, which reads their neighbours too.
  __device__ void find_runs() {
    auto& piece = temp_.piece;
    const auto word = [&piece](uint32_t i) { return piece.words[shared_piece::place(i)]; };
    for (uint32_t c = threadIdx.x; c < cells; c += Threads)
      piece.of_cell[c] = c < piece.cells() ? repeats_in_cell<width>(word, c, piece.bytes) : cell_bits{};
    if (threadIdx.x == 0) piece.of_cell[cells] = {};
    device::sync_block();
    rows(byte_run);
    if constexpr (width > 1) rows(element_run);
  }
  __device__ void rows(int kind) {
    auto& piece = temp_.piece;
    const auto bits = [&](uint32_t c) {
      const uint32_t taken = kind == byte_run ? 0 : piece.of_cell[c].of[byte_run];
      return piece.of_cell[c].of[kind] & ~taken;
    };
    uint32_t mine[cells / Threads];
#pragma unroll
    for (uint32_t j = 0; j < cells / Threads; ++j) {
      const uint32_t c = threadIdx.x + j * Threads;
      mine[j] = rows_of_three(c == 0 ? 0 : bits(c - 1), bits(c), bits(c + 1));
    }
    device::sync_block();
#pragma unroll
    for (uint32_t j = 0; j < cells / Threads; ++j) piece.of_cell[threadIdx.x + j * Threads].of[kind] = mine[j];
    device::sync_block();
  }

  // Into sub-blocks.
  __device__ void cut(uint32_t k) {
    auto& piece = temp_.piece;
    if (threadIdx.x < groups / 32) piece.begins[threadIdx.x] = 0;
    uint32_t mine = 0;
    for (uint32_t j = 0; j < own_groups; ++j) mine += symbols_in_group(threadIdx.x * own_groups + j);
    uint32_t all;
    uint32_t before = scan::exclusive_sum(temp_.scan_storage, mine, all);
    const uint32_t n = sub_blocks_of(all);
    device::sync_block();
    for (uint32_t j = 0; j < own_groups; ++j) {
      const uint32_t group = threadIdx.x * own_groups + j, symbols = own_groups == 1 ? mine : symbols_in_group(group);
      before += symbols;
      if (begins_sub_block(before, symbols, all, n)) device::atomic_or(&piece.begins[group / 32], 1u << (group % 32));
    }
    if (threadIdx.x == 0) temp_.sub_blocks[k] = static_cast<uint8_t>(n);
    device::sync_block();
    if (threadIdx.x < groups / 32) temp_.begins[k][threadIdx.x] = piece.begins[threadIdx.x];
  }
  __device__ uint32_t symbols_in_group(uint32_t group) const {
    const auto& piece = temp_.piece;
    uint32_t symbols = 0;
    for (uint32_t c = 2 * group; c < 2 * group + 2 && c < piece.cells(); ++c) {
      const uint32_t left = piece.bytes - c * cell_bytes;
      symbols += symbols_in_cell(c == 0 ? cell_bits{} : piece.runs(c - 1), piece.runs(c),
                                 left < cell_bytes ? left : cell_bytes);
    }
    return symbols;
  }

  // By a running maximum.
  __device__ void find_open_runs() {
    auto& piece = temp_.piece;
    constexpr uint32_t own = 2 * own_groups;
    const auto opened = [&piece](uint32_t c) { return c < piece.cells() ? open_run<width>(piece, c) : 0; };
    uint32_t last = 0;
    for (uint32_t j = 0; j < own; ++j)
      if (const uint32_t begin = opened(threadIdx.x * own + j); begin != 0) last = begin;
    for (unsigned delta = 1; delta < device::warp_size; delta *= 2) {
      const uint32_t below = device::shfl_up(last, delta);
      if (device::lane_id() >= delta && below > last) last = below;
    }
    if (device::lane_id() == device::warp_size - 1) temp_.of_warp[device::warp_id()] = last;
    uint32_t before = device::shfl_up(last, 1);
    if (device::lane_id() == 0) before = 0;
    device::sync_block();
    for (uint32_t warp = 0; warp < device::warp_id(); ++warp)
      if (temp_.of_warp[warp] > before) before = temp_.of_warp[warp];
    for (uint32_t c = threadIdx.x * own; c < (threadIdx.x + 1) * own && c < cells; ++c) {
      piece.open_run[c] = static_cast<uint16_t>(before);
      if (const uint32_t begin = opened(c); begin != 0) before = begin;
    }
    device::sync_block();
  }

  __device__ void make_codes() {
    auto& plan = temp_.plan;
    const auto& counts = temp_.counts;
    if (threadIdx.x == 0) temp_.skipped.get() = choose_gate(temp_.counts);
    device::sync_block();
    uint32_t occurring = 0;
    for (uint32_t first = 0; first < literal_symbols; first += Threads) {
      const uint32_t i = first + threadIdx.x;
      const bool occurs = i < literal_symbols && counts.literal[i] != 0;
      if (i < literal_symbols) plan.length[i] = 0;
      if (occurs) {
        const uint32_t key = sort_key(counts.literal[i], i);
        uint32_t rank = 0;
        for (uint32_t other = 0; other < literal_symbols; ++other)
          if (const uint32_t n = counts.literal[other]; n != 0) rank += sort_key(n, other) < key;
        plan.memory.key[rank] = key;
      }
      occurring += static_cast<uint32_t>(device::sync_block_count(occurs));
    }
    if (threadIdx.x == 0) {
      assign_lengths(plan.memory, occurring, max_literal_bits, plan.length);
      first_codewords(plan.memory.count, plan.first_codeword);
      make_distance_codes(counts, temp_.codes);
    }
    device::sync_block();
    for (uint32_t i = threadIdx.x; i < literal_symbols; i += Threads) {
      const uint32_t length = plan.length[i];
      uint32_t codeword = plan.first_codeword[length];
      for (uint32_t other = 0; other < i; ++other) codeword += plan.length[other] == length;
      temp_.codes.literal[i] = length == 0 ? uint16_t{0} : make_code(codeword, length);
    }
    device::sync_block();
    if (threadIdx.x == 0) plan_header<width>(plan.length, temp_.codes, plan.memory, temp_.header);
    device::sync_block();
  }

  // Writes the symbols of a cell for each of the first threads, from bit `at` of the stream on; their bits.
  __device__ uint32_t write_cells(uint32_t cell, uint32_t at, uint32_t first_group, uint32_t first_rank, bytes out) {
    const auto& piece = temp_.piece;
    const bool has_cell = threadIdx.x < cells_at_once && cell < piece.cells();
    bit_counter counted{temp_.codes, temp_.skipped.get()};
    if (has_cell) visit_symbols<width>(piece, cell, counted);
    uint32_t all;
    const uint32_t begin = at + scan::exclusive_sum(temp_.scan_storage, counted.bits, all);
    if (has_cell) {
      if (piece.begins_sub_block(cell)) temp_.begin[first_rank + rank_of(cell)] = {begin, group(first_group, cell)};
      emitter emit{temp_.codes, temp_.skipped.get(),
                   shared_bit_writer(temp_.staged, begin - sector_bits * sectors_out_)};
      visit_symbols<width>(piece, cell, emit);
      emit.out.finish();
    }
    flush(at + all, out);
    return all;
  }
  __device__ static uint16_t group(uint32_t first_group, uint32_t cell) {
    return static_cast<uint16_t>(first_group + cell / 2);
  }
  // The sub-blocks of the piece that begin before this one, whose first cell it is.
  __device__ uint32_t rank_of(uint32_t cell) const {
    if (cell == 0) return 0;
    const uint32_t bit = cell / 2 - 1;
    uint32_t rank = 1;
    for (uint32_t i = 0; i < bit / 32; ++i) rank += popcount(temp_.piece.begins[i]);
    return rank + popcount(temp_.piece.begins[bit / 32] & low_mask(bit % 32));
  }

  // Sends the whole sectors of what is staged, up to bit `end` of the stream, on their way.
  __device__ void flush(uint32_t end, bytes out) {
    device::sync_block();
    const uint32_t whole = end / sector_bits - sectors_out_;
    const auto* const staged = reinterpret_cast<const std::byte*>(temp_.staged);
    copy_from_shared<Threads>({out.data() + sector_bits / 8 * sectors_out_, sector_bits / 8 * whole}, staged);
    const uint32_t rest = threadIdx.x < sector_words ? temp_.staged[sector_words * whole + threadIdx.x] : 0;
    device::sync_block();
    for (uint32_t i = threadIdx.x; i < staged_words; i += Threads) temp_.staged[i] = i < sector_words ? rest : 0;
    sectors_out_ += whole;
    device::sync_block();
  }

  // The block's end, the index and zeros, behind the last symbol.
  __device__ void write_end(uint32_t at, uint32_t sub_blocks, bytes out) {
    const uint32_t first_byte = sector_bits / 8 * sectors_out_;
    auto* const staged = reinterpret_cast<std::byte*>(temp_.staged);
    if (threadIdx.x == 0) {
      const uint16_t end = temp_.codes.literal[end_of_block];
      shared_bit_writer writer(temp_.staged, at - 8 * first_byte);
      writer.put(code_bits(end), code_length(end));
      writer.finish();
      temp_.begin[sub_blocks] = {at, static_cast<uint16_t>(ceil_div(temp_.bytes, group_bytes))};
    }
    device::sync_block();
    const auto joined = plan_index(temp_.sub_blocks, temp_.pieces, temp_.stream_bytes);
    std::byte* const index = staged + temp_.stream_bytes - first_byte;
    for (uint32_t i = threadIdx.x; i < joined.entries; i += Threads) write_entry(joined, i, index);
    if (threadIdx.x == Threads - 1) index[index_entry_bytes * joined.entries] = static_cast<std::byte>(joined.entries);
    device::sync_block();
    const uint32_t size = temp_.stream_bytes + index_bytes(joined.entries);
    copy_from_shared<Threads>({out.data() + first_byte, size - first_byte}, staged);
    for (uint64_t i = size + threadIdx.x; i < out.size(); i += Threads) device::store(out.data() + i, std::byte{});
  }
  __device__ void write_entry(const index_plan& joined, uint32_t number, std::byte* index) const {
    uint32_t i = number, first = 0, n = 0;  // the i-th of a piece whose n sub-blocks begin with the first-th
    for (uint32_t k = 0; k < temp_.pieces; ++k) {
      n = temp_.sub_blocks[k];
      if (i < ceil_div(n, joined.run)) break;
      i -= ceil_div(n, joined.run);
      first += n;
    }
    const uint32_t end = (i + 1) * joined.run < n ? (i + 1) * joined.run : n;
    const sub_block_begin from = temp_.begin[first + i * joined.run], to = temp_.begin[first + end];
    std::byte* const entry = index + index_entry_bytes * number;
    const uint32_t bits = to.bit - from.bit;
    entry[0] = static_cast<std::byte>(to.group - from.group - 1);
    entry[1] = static_cast<std::byte>(bits);
    entry[2] = static_cast<std::byte>(bits >> 8);
  }

  TempStorage& temp_;
  uint32_t sectors_out_ = 0;  // of the stream
};

}  // namespace deflate_format

template <element T, int Threads> struct block_codec<deflate<T>, Threads> : deflate_format::block_encoder<T, Threads> {
  using deflate_format::block_encoder<T, Threads>::block_encoder;
};

}  // namespace tuck::inline TUCK_ABI
