// deflate-lite by one thread block: the bytes of deflate.hpp.
//
// The chunk is seen twice, piece by piece: first its symbols are counted, then, with the codes known, written. Each
// time a piece stands in shared memory and each thread has cells of it, for which the functions of tokens.hpp say what
// to do.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/deflate/deflate.hpp>
#include <tuck/codec/deflate/deflate_block_decoder.cuh>
#include <tuck/codec/deflate/shared_codes.cuh>

namespace tuck::inline TUCK_ABI {

namespace deflate_format {

// The codec's measure and pack.
template <element T, int Threads> class block_encoder {
  static constexpr uint32_t width = sizeof(T);

  using tile = block_tile<T, Threads>;
  using scan = device::block_scan<Threads>;
  using analysis = piece_analysis<width, Threads>;
  using maker = code_maker<width, Threads, 1>;
  using writer = piece_writer<width, Threads>;
  using stream = typename writer::stream;

  static_assert(tile_bytes == piece_bytes);
  static_assert(4 * stream::words >= 48 + index_bytes(max_sub_blocks));

 public:
  static constexpr uint32_t chunk_capacity = max_chunk_bytes;
  static constexpr int blocks_a_processor = 4;  // 128 registers

  struct TempStorage {
    shared_cell cells[piece_cells + 1];
    uint8_t sub_blocks[max_pieces];
    shared_codes block[1];
    uint32_t bytes, pieces, stream_bytes;  // of the chunk
    union {                                // codes are made before bits are staged
      code_plan plan[1];
      alignas(16) uint32_t staged[stream::words];
    };
    sub_block_begin begins[max_sub_blocks + max_pieces];
    typename analysis::TempStorage analysis_storage;
    typename scan::TempStorage scan_storage;
  };

  __device__ explicit block_encoder(TempStorage& temp) : temp_(temp) {}

  __device__ void begin(const deflate<T>&, uint32_t count) {
    maker::clear(temp_.block);
    if (threadIdx.x == 0) {
      temp_.bytes = count * width;
      temp_.pieces = ceil_div(temp_.bytes, piece_bytes);
    }
  }

  __device__ void count(const deflate<T>&, const tile& values, uint32_t k) {
    const shared_piece piece = put_piece(values);
    const uint32_t n = analysis(temp_.analysis_storage)(piece);
    if (threadIdx.x == 0) temp_.sub_blocks[k] = static_cast<uint8_t>(n);
    symbol_counter symbols{temp_.block[0].counts};
    for (uint32_t c = threadIdx.x; c < piece.cells(); c += Threads) visit_symbols<width>(piece, c, symbols);
  }

  __device__ uint32_t measure(const deflate<T>&) {
    const shared_codes& block = temp_.block[0];
    maker::make(temp_.block, temp_.plan);
    uint32_t bits = 0;
    for (uint32_t i = threadIdx.x; i < literal_symbols; i += Threads)
      bits += bits_of_symbol(block.counts, block.codes, i);
    bits = scan::sum(temp_.scan_storage, bits) + block.header.bits + bits_of_distances<width>(block.counts);
    const uint32_t stream_bytes = ceil_div(bits, 8u);
    if (threadIdx.x == 0) temp_.stream_bytes = stream_bytes;
    return stream_bytes + index_bytes(plan_index(temp_.sub_blocks, temp_.pieces, stream_bytes).entries);
  }

  template <class Tiles> __device__ void pack(const deflate<T>&, Tiles& tiles, bytes out) {
    const shared_codes& block = temp_.block[0];
    stream staged(temp_.staged, out);
    staged.clear();
    if (threadIdx.x == 0) {
      shared_bit_writer header = staged.writer(0);
      write_header(block.header, true, header);
      header.finish();
    }
    uint32_t at = block.header.bits, first_group = 0, first_begin = 0;
    staged.flush(at);
    for (uint32_t k = 0; k < temp_.pieces; ++k) {
      const shared_piece piece = put_piece(tiles(k));
      const uint32_t n = analysis(temp_.analysis_storage)(piece);
      at = writer::write(temp_.scan_storage, block, piece, at, first_group, n, temp_.begins + first_begin, staged);
      first_group += piece_groups;
      first_begin += n + 1;
    }
    write_end(at, staged);
  }

 private:
  __device__ shared_piece put_piece(const tile& values) {
    constexpr uint32_t each = sizeof(typename tile::word) / 4;
#pragma unroll
    for (int j = 0; j < tile::words; ++j) {
      const uint32_t first = tile::first_value(j) / tile::per_word * each;
      temp_.cells[first / 8].words[first % 8] = static_cast<uint32_t>(values.w[j]);
      if constexpr (each == 2)
        temp_.cells[first / 8].words[first % 8 + 1] = static_cast<uint32_t>(uint64_t{values.w[j]} >> 32);
    }
    device::sync_block();
    return {temp_.cells, values.count * width};
  }

  // The block's end, the index and zeros, behind the last symbol.
  __device__ void write_end(uint32_t at, stream& staged) {
    if (threadIdx.x == 0) {
      const uint16_t code = temp_.block[0].codes.literal[end_of_block];
      shared_bit_writer end = staged.writer(at);
      end.put(code_bits(code), code_length(code));
      end.finish();
    }
    device::sync_block();
    const auto joined = plan_index(temp_.sub_blocks, temp_.pieces, temp_.stream_bytes);
    std::byte* const index = staged.at_byte(temp_.stream_bytes);
    for (uint32_t i = threadIdx.x; i < joined.entries; i += Threads)
      write_entry(joined_entry(joined, temp_.sub_blocks, temp_.pieces, temp_.begins, i), index + index_entry_bytes * i);
    if (threadIdx.x == Threads - 1) index[index_entry_bytes * joined.entries] = static_cast<std::byte>(joined.entries);
    staged.finish(temp_.stream_bytes + index_bytes(joined.entries));
  }

  TempStorage& temp_;
};

}  // namespace deflate_format

template <element T, int Threads> struct block_codec<deflate<T>, Threads> : deflate_format::block_encoder<T, Threads> {
  using deflate_format::block_encoder<T, Threads>::block_encoder;
};

}  // namespace tuck::inline TUCK_ABI
