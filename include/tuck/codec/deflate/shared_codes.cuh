// The codes of a stream's blocks, made by a thread block: sorting and summing are all threads', the code itself is made
// by one thread of a warp for each of the blocks.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/deflate/encoder_codes.hpp>
#include <tuck/codec/deflate/shared_piece.cuh>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::deflate_format {

// What is needed only until the codes are made.
struct code_plan {
  code_memory memory;
  uint32_t first_codeword[max_code_bits + 1];
  uint32_t symbols;  // that occur
  uint8_t length[literal_symbols];
};

// A block's.
struct shared_codes {
  histogram counts;
  device::uninitialized<gate> skipped;
  encoder_codes codes;
  block_header header;

  __device__ bool skips(uint32_t length, int kind, uint32_t byte) const {
    return skipped.get().skips(length, kind, byte);
  }
};

// Counts symbols; a visitor of visit_symbols, as are the next two.
struct symbol_counter {
  histogram& counts;

  __device__ void literal(uint32_t byte) { device::atomic_add(&counts.literal[byte], 1u); }
  __device__ bool skips(uint32_t, int, uint32_t) const { return false; }
  __device__ void match(uint32_t length, int kind, uint32_t byte) {
    device::atomic_add(&counts.literal[length_symbol(length)], 1u);
    device::atomic_add(&counts.distance[kind], 1u);
    if (kind == byte_run && byte == 0 && length < min_match + gated_lengths)
      device::atomic_add(&counts.zero_match[length - min_match], 1u);
  }
};

template <uint32_t Width> struct bit_counter {
  const shared_codes& block;
  uint32_t bits = 0;

  __device__ void literal(uint32_t byte) { bits += code_length(block.codes.literal[byte]); }
  __device__ bool skips(uint32_t length, int kind, uint32_t byte) const { return block.skips(length, kind, byte); }
  __device__ void match(uint32_t length, int kind, uint32_t) {
    const uint32_t symbol = length_symbol(length);
    literal(symbol);
    bits += tail_of_match<Width>(block.codes, symbol, length, kind).width;
  }
};

template <uint32_t Width> struct symbol_writer {
  const shared_codes& block;
  shared_bit_writer out;

  __device__ void literal(uint32_t symbol) {
    const uint16_t code = block.codes.literal[symbol];
    out.put(code_bits(code), code_length(code));
  }
  __device__ bool skips(uint32_t length, int kind, uint32_t byte) const { return block.skips(length, kind, byte); }
  __device__ void match(uint32_t length, int kind, uint32_t) {
    const uint32_t symbol = length_symbol(length);
    literal(symbol);
    const auto tail = tail_of_match<Width>(block.codes, symbol, length, kind);
    out.put(tail.bits, tail.width);
  }
};

// For `Blocks` blocks at once; those without symbols have no codes.
template <uint32_t Width, int Threads, uint32_t Blocks> class code_maker {
  static constexpr uint32_t warps = Threads / device::warp_size;

 public:
  __device__ static void clear(shared_codes (&blocks)[Blocks]) {
    const uint32_t thread = device::thread_id_anew();
    for (uint32_t k = thread; k < Blocks * literal_symbols; k += Threads)
      blocks[k / literal_symbols].counts.literal[k % literal_symbols] = k % literal_symbols == end_of_block ? 1 : 0;
    if (thread < Blocks * gated_lengths) blocks[thread / gated_lengths].counts.zero_match[thread % gated_lengths] = 0;
    if (thread < Blocks * 2) blocks[thread / 2].counts.distance[thread % 2] = 0;
  }

  __device__ static void make(shared_codes (&blocks)[Blocks], code_plan (&plans)[Blocks]) {
    for_blocks([&](uint32_t b) {
      blocks[b].skipped.get() = choose_gate(blocks[b].counts);
      plans[b].symbols = 0;
    });
    device::sync_block();
    for (uint32_t k = threadIdx.x; k < Blocks * literal_symbols; k += Threads)
      sort(blocks[k / literal_symbols].counts, plans[k / literal_symbols], k % literal_symbols);
    device::sync_block();
    for_blocks([&](uint32_t b) {
      code_plan& plan = plans[b];
      if (plan.symbols < 2) return;
      assign_lengths(plan.memory, plan.symbols, max_literal_bits, plan.length);
      first_codewords(plan.memory.count, plan.first_codeword);
      make_distance_codes(blocks[b].counts, blocks[b].codes);
    });
    device::sync_block();
    for (uint32_t k = threadIdx.x; k < Blocks * literal_symbols; k += Threads) {
      const code_plan& plan = plans[k / literal_symbols];
      const uint32_t i = k % literal_symbols, length = plan.length[i];
      uint32_t codeword = plan.first_codeword[length];
      for (uint32_t other = 0; other < i; ++other) codeword += plan.length[other] == length;
      blocks[k / literal_symbols].codes.literal[i] = length == 0 ? uint16_t{0} : make_code(codeword, length);
    }
    device::sync_block();
    for_blocks([&](uint32_t b) {
      if (plans[b].symbols >= 2)
        plan_header<Width>(plans[b].length, blocks[b].codes, plans[b].memory, blocks[b].header);
    });
    device::sync_block();
  }

 private:
  // By the first thread of a warp each.
  template <class Body> __device__ static void for_blocks(const Body& body) {
    if (device::lane_id() == 0)
      for (uint32_t b = device::warp_id(); b < Blocks; b += warps) body(b);
  }

  // Puts a symbol that occurs at its place.
  __device__ static void sort(const histogram& counts, code_plan& plan, uint32_t symbol) {
    plan.length[symbol] = 0;
    if (counts.literal[symbol] == 0) return;
    const uint32_t key = sort_key(counts.literal[symbol], symbol);
    uint32_t rank = 0;
    for (uint32_t other = 0; other < literal_symbols; ++other)
      if (const uint32_t n = counts.literal[other]; n != 0) rank += sort_key(n, other) < key;
    plan.memory.key[rank] = key;
    device::atomic_add(&plan.symbols, 1u);
  }
};

// The stream on its way out: bits are put into zeroed words of shared memory, which leave it by whole sectors.
template <int Threads, uint32_t Bits> class staged_stream {
  static constexpr uint32_t sector_bits = 256, sector_words = sector_bits / 32;

 public:
  // So many bits fit in between two flushes, wherever the first of them lies.
  static constexpr uint32_t words = sector_words + ceil_div(Bits, sector_bits) * sector_words;

  __device__ staged_stream(uint32_t* staged, bytes out) : staged_(staged), out_(out) {}

  __device__ void clear() {
    for (uint32_t i = threadIdx.x; i < words; i += Threads) staged_[i] = 0;
    device::sync_block();
  }
  // For one thread, from this bit of the stream on.
  __device__ shared_bit_writer writer(uint32_t bit) const { return {staged_, bit - sector_bits * sectors_out_}; }
  __device__ std::byte* at_byte(uint32_t byte) const {
    return reinterpret_cast<std::byte*>(staged_) + (byte - first_byte());
  }
  __device__ uint32_t first_byte() const { return sector_bits / 8 * sectors_out_; }

  // Sends the whole sectors up to bit `end` of the stream on their way, by the whole block.
  __device__ void flush(uint32_t end) {
    device::sync_block();
    const uint32_t whole = end / sector_bits - sectors_out_;
    const uint32_t size = sector_bits / 8 * whole;
    copy_from_shared<Threads>({out_.data() + first_byte(), size}, reinterpret_cast<const std::byte*>(staged_), size);
    const uint32_t rest = threadIdx.x < sector_words ? staged_[sector_words * whole + threadIdx.x] : 0;
    device::sync_block();
    for (uint32_t i = threadIdx.x; i < words; i += Threads) staged_[i] = i < sector_words ? rest : 0;
    sectors_out_ += whole;
    device::sync_block();
  }
  // The rest, up to byte `size` of the stream, and zeros behind it.
  __device__ void finish(uint32_t size) {
    device::sync_block();
    copy_from_shared<Threads>(out_.subspan(first_byte(), out_.size() - first_byte()),
                              reinterpret_cast<const std::byte*>(staged_), size - first_byte());
  }

 private:
  uint32_t* staged_;
  bytes out_;
  uint32_t sectors_out_ = 0;
};

// Writes a piece's symbols, by the whole block.
template <uint32_t Width, int Threads> struct piece_writer {
  using scan = device::block_scan<Threads>;

  // Of a piece, so many cells are written at a time, at most 11 bits for each of their bytes and those of a run of
  // zeros that leaves them. 32 bytes more are what is left of the cells before.
  static constexpr uint32_t cells_at_once = Threads < 256 ? Threads : 256;
  using stream = staged_stream<Threads, (cells_at_once * cell_bytes + min_match + gated_lengths) * max_literal_bits>;

  // From bit `at` of the stream on; where they end. `begins` gets the piece's sub-blocks and its end; its first group
  // is the stream's first_group-th.
  __device__ static uint32_t write(typename scan::TempStorage& storage, const shared_codes& block,
                                   const shared_piece& piece, uint32_t at, uint32_t first_group, uint32_t sub_blocks,
                                   sub_block_begin* begins, stream& out) {
    const uint32_t end = piece.cells();
    for (uint32_t first = 0; first < end; first += cells_at_once) {
      const uint32_t cell = first + threadIdx.x;
      const bool has_cell = threadIdx.x < cells_at_once && cell < end;
      bit_counter<Width> counted{block};
      if (has_cell) visit_symbols<Width>(piece, cell, counted);
      uint32_t all;
      const uint32_t begin = at + scan::exclusive_sum(storage, counted.bits, all);
      if (has_cell) {
        if (piece.begins_sub_block(cell))
          begins[piece.rank(cell)] = {begin, static_cast<uint16_t>(first_group + cell / 2)};
        symbol_writer<Width> writer{block, out.writer(begin)};
        visit_symbols<Width>(piece, cell, writer);
        writer.out.finish();
      }
      at += all;
      if (first + cells_at_once >= end && threadIdx.x == 0)
        begins[sub_blocks] = {at, static_cast<uint16_t>(first_group + ceil_div(end, 2u))};
      out.flush(at);
    }
    return at;
  }
};

}  // namespace tuck::inline TUCK_ABI::deflate_format
