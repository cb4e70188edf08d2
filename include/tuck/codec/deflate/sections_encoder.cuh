// Rows of sections, in shared memory, to deflate-lite by one thread block: the bytes of sections.hpp.
//
// All sections stand in shared memory at once, cell by cell, so that they are analysed once and their codes made
// together.
#pragma once

#include <tuck/codec/deflate/sections.hpp>
#include <tuck/codec/deflate/shared_codes.cuh>

namespace tuck::inline TUCK_ABI::deflate_format {

// Sections of a row in shared memory, where each begins anywhere.
struct row_sections {
  section_list list;  // their sizes
  uint32_t at[max_sections];
};

// Up to `Sections` sections, each of 16 KiB at most, that have RowBytes together.
template <uint32_t Width, int Threads, uint32_t Sections, uint32_t RowBytes> class sections_encoder {
  using scan = device::block_scan<Threads>;
  using analysis = piece_analysis<Width, Threads>;
  using maker = code_maker<Width, Threads, Sections>;
  using writer = piece_writer<Width, Threads>;
  using stream = typename writer::stream;

  static constexpr uint32_t max_sub_blocks = RowBytes / symbols_a_sub_block + Sections;
  static_assert(Sections <= max_sections);
  static_assert(4 * stream::words >= 64 + sections_index_bytes(max_sub_blocks));

 public:
  struct TempStorage {
    shared_cell cells[RowBytes / cell_bytes + 2 * Sections];  // a section has whole ones, and one more
    shared_codes block[Sections];
    union {  // codes are made before bits are staged
      code_plan plan[Sections];
      alignas(16) uint32_t staged[stream::words];
    };
    sub_block_begin begins[max_sub_blocks + Sections];
    uint32_t bits[Sections];        // of the sections' dynamic blocks
    uint8_t cuts[Sections];         // sub-blocks of each section
    uint8_t of_piece[Sections];     // the same of those in dynamic blocks
    uint32_t stored, stream_bytes;  // bits of the sections that are
    device::uninitialized<index_plan> index;
    typename analysis::TempStorage analysis_storage;
    typename scan::TempStorage scan_storage;
  };

  __device__ explicit sections_encoder(TempStorage& temp) : temp_(temp) {}

  // Takes the sections of a row, which may lie in this TempStorage: it is over with that then.
  __device__ void load(const std::byte* row, const row_sections& sections) {
    constexpr uint32_t each = ceil_div(RowBytes / 4 + Sections, uint32_t{Threads});
    uint32_t mine[each];
#pragma unroll
    for (uint32_t j = 0; j < each; ++j) {
      const place p = place_of(sections, threadIdx.x + j * Threads);
      mine[j] = p.section < Sections ? unaligned_word(row + sections.at[p.section] + 4 * p.word) : 0;
    }
    device::sync_block();
#pragma unroll
    for (uint32_t j = 0; j < each; ++j)
      if (const place p = place_of(sections, threadIdx.x + j * Threads); p.section < Sections)
        temp_.cells[p.first_cell + p.word / 8].words[p.word % 8] = mine[j];
    device::sync_block();
  }

  // The bytes of the encoded row.
  __device__ uint32_t measure(const section_list& sections) {
    maker::clear(temp_.block);
    device::sync_block();
    for (uint32_t i = 0; i < sections.count; ++i) {
      if (sections.size(i) == 0) continue;
      const shared_piece piece = piece_of(sections, i);
      const uint32_t n = analysis(temp_.analysis_storage)(piece);
      if (threadIdx.x == 0) temp_.cuts[i] = static_cast<uint8_t>(n);
      symbol_counter symbols{temp_.block[i].counts};
      for (uint32_t c = threadIdx.x; c < piece.cells(); c += Threads) visit_symbols<Width>(piece, c, symbols);
    }
    device::sync_block();
    maker::make(temp_.block, temp_.plan);
    for (uint32_t i = 0; i < sections.count; ++i) {
      const shared_codes& block = temp_.block[i];
      uint32_t bits = 0;
      if (sections.size(i) != 0)
        for (uint32_t k = threadIdx.x; k < literal_symbols; k += Threads)
          bits += bits_of_symbol(block.counts, block.codes, k);
      bits = scan::sum(temp_.scan_storage, bits);
      if (threadIdx.x == 0 && sections.size(i) != 0)
        temp_.bits[i] = bits + block.header.bits + bits_of_distances<Width>(block.counts);
      device::sync_block();
    }
    if (threadIdx.x == 0) plan_stream(sections);
    device::sync_block();
    return temp_.stream_bytes + sections_index_bytes(temp_.index.get().entries);
  }

  // Writes it, behind it some words, and zeros to the end of `out`.
  __device__ void pack(const section_list& sections, const uint32_t* tail, uint32_t tail_words, bytes out) {
    stream staged(temp_.staged, out);
    staged.clear();
    uint32_t at = 0, first_begin = 0;
    for (uint32_t i = 0; i < sections.count; ++i) {
      if (sections.size(i) == 0) continue;
      const shared_piece piece = piece_of(sections, i);
      if (is_stored(i)) {
        at = write_stored(piece, sections.is_last(i), at, staged);
        continue;
      }
      const shared_codes& block = temp_.block[i];
      if (threadIdx.x == 0) {
        shared_bit_writer header = staged.writer(at);
        write_header(block.header, sections.is_last(i), header);
        header.finish();
      }
      at += block.header.bits;
      staged.flush(at);
      at = writer::write(temp_.scan_storage, block, piece, at, 0, temp_.cuts[i], temp_.begins + first_begin, staged);
      first_begin += temp_.cuts[i] + 1u;
      const uint16_t code = block.codes.literal[end_of_block];
      if (threadIdx.x == 0) {
        shared_bit_writer end = staged.writer(at);
        end.put(code_bits(code), code_length(code));
        end.finish();
      }
      at += code_length(code);
      staged.flush(at);
    }
    write_index(tail, tail_words, staged);
  }

 private:
  // Where a word of the sections goes.
  struct place {
    uint32_t section, first_cell, word;
  };
  __device__ static place place_of(const row_sections& sections, uint32_t word) {
    uint32_t cell = 0;
    for (uint32_t i = 0; i < sections.list.count; ++i) {
      const uint32_t size = sections.list.size(i), words = ceil_div(size, 4u);
      if (word < words) return {i, cell, word};
      word -= words;
      cell += cells_of(size);
    }
    return {Sections, 0, 0};
  }
  __device__ static uint32_t cells_of(uint32_t size) { return size == 0 ? 0 : ceil_div(size, cell_bytes) + 1; }
  __device__ shared_piece piece_of(const section_list& sections, uint32_t i) {
    uint32_t cell = 0;
    for (uint32_t before = 0; before < i; ++before) cell += cells_of(sections.size(before));
    return {temp_.cells + cell, sections.size(i)};
  }
  // At any address of shared memory; up to three bytes on either side of it are read.
  __device__ static uint32_t unaligned_word(const std::byte* p) {
    const uint32_t skipped = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p) % 4);
    const auto* const words = reinterpret_cast<const uint32_t*>(p - skipped);
    return skipped == 0 ? words[0] : device::funnel_shift_right(words[0], words[1], 8 * skipped);
  }
  __device__ bool is_stored(uint32_t i) const { return (temp_.stored >> i & 1) != 0; }

  // By one thread.
  __device__ void plan_stream(const section_list& sections) {
    uint32_t at = 0, pieces = 0;
    temp_.stored = 0;
    for (uint32_t i = 0; i < sections.count; ++i) {
      const uint32_t size = sections.size(i);
      if (size == 0) continue;
      if (deflate_format::is_stored(size, temp_.bits[i])) {
        temp_.stored |= 1u << i;
        at = stored_begin(at) + 8 * size;
      } else {
        temp_.of_piece[pieces++] = temp_.cuts[i];
        at += temp_.bits[i];
      }
    }
    temp_.stream_bytes = ceil_div(at, 8u);
    temp_.index.get() = plan_sections_index(temp_.of_piece, pieces, temp_.stream_bytes);
  }
  // The first bit of the bytes of a stored block that begins at bit `at`.
  __device__ static uint32_t stored_begin(uint32_t at) { return (at + 3 + 7) / 8 * 8 + 32; }

  __device__ static uint32_t write_stored(const shared_piece& piece, bool is_last, uint32_t at, stream& staged) {
    const uint32_t begin = stored_begin(at);
    if (threadIdx.x == 0) {
      shared_bit_writer header = staged.writer(at);
      header.put((is_last ? 1u : 0u) | block_type::stored << 1, begin - 32 - at);
      header.put(piece.bytes | (piece.bytes ^ 0xffff) << 16, 32);
      header.finish();
    }
    staged.flush(begin);
    for (uint32_t first = 0; first < piece.cells(); first += writer::cells_at_once) {
      const uint32_t c = first + threadIdx.x, end = first + writer::cells_at_once;
      if (threadIdx.x < writer::cells_at_once && c < piece.cells()) {
        shared_bit_writer out = staged.writer(begin + 8 * cell_bytes * c);
        for (uint32_t left = 8 * (piece.bytes - c * cell_bytes), w = 0; w < 8 && left != 0; ++w) {
          const uint32_t width = left < 32 ? left : 32;
          out.put(piece.cell[c].words[w] & low_mask(width), width);
          left -= width;
        }
        out.finish();
      }
      staged.flush(begin + 8 * (end < piece.cells() ? end * cell_bytes : piece.bytes));
    }
    return begin + 8 * piece.bytes;
  }

  __device__ void write_index(const uint32_t* tail, uint32_t tail_words, stream& staged) {
    const index_plan joined = temp_.index.get();
    std::byte* const index = staged.at_byte(temp_.stream_bytes);
    for (uint32_t i = threadIdx.x; i < joined.entries; i += Threads)
      write_entry(joined_entry(joined, temp_.of_piece, Sections, temp_.begins, i), index + index_entry_bytes * i);
    std::byte* const end = index + index_entry_bytes * joined.entries;
    if (threadIdx.x == Threads - 1) {
      end[0] = static_cast<std::byte>(temp_.stored);
      end[1] = static_cast<std::byte>(joined.entries);
    }
    for (uint32_t i = threadIdx.x; i < 4 * tail_words; i += Threads)
      end[2 + i] = static_cast<std::byte>(tail[i / 4] >> (8 * (i % 4)));
    staged.finish(temp_.stream_bytes + sections_index_bytes(joined.entries) + 4 * tail_words);
  }

  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI::deflate_format
