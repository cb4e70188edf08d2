// What a thread block works on when it encodes: a piece in shared memory, what is known of its cells, and bits on their
// way out of it.
#pragma once

#include <tuck/codec/deflate/tokens.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::deflate_format {

// A cell and what is known of it. Its eleven words keep threads that read the same of theirs at once from meeting in a
// bank.
struct shared_cell {
  uint32_t words[cell_bytes / 4];
  cell_bits runs;
  uint32_t state;  // [31:24] rank of the sub-block that begins here / [16] does one? / [15:0] begin of the open run

  static constexpr uint32_t begins = 1u << 16;
};
static_assert(sizeof(shared_cell) == 44);

// A piece as visit_symbols wants it: so many cells, and one behind them.
struct shared_piece {
  shared_cell* cell;
  uint32_t bytes;

  __device__ uint32_t cells() const { return ceil_div(bytes, cell_bytes); }
  __device__ uint32_t size() const { return bytes; }
  __device__ uint32_t word(uint32_t i) const { return cell[i / 8].words[i % 8]; }
  __device__ uint32_t byte(uint32_t i) const { return word(i / 4) >> (8 * (i % 4)) & 255; }
  __device__ cell_bits runs(uint32_t c) const { return cell[c].runs; }
  __device__ uint32_t open(uint32_t c) const { return cell[c].state & 0xffff; }
  __device__ bool begins_sub_block(uint32_t c) const { return (cell[c].state & shared_cell::begins) != 0; }
  __device__ uint32_t rank(uint32_t c) const { return cell[c].state >> 24; }
};

// Finds out what is to be known of a piece's cells, by the whole block.
template <uint32_t Width, int Threads> class piece_analysis {
  using scan = device::block_scan<Threads>;

  static constexpr uint32_t own_cells = Threads < piece_cells ? piece_cells / Threads : 1;
  static constexpr uint32_t own_groups = Threads < piece_groups ? piece_groups / Threads : 1;  // neighbours, to cut
  static_assert(piece_cells % Threads == 0, "tuck: the deflate block codec is for up to 512 threads");

 public:
  struct TempStorage {
    uint32_t of_warp[Threads / device::warp_size];
    typename scan::TempStorage scan_storage;
  };

  __device__ explicit piece_analysis(TempStorage& temp) : temp_(temp) {}

  // Of a piece whose words all threads see; so they do its cells afterwards. Returns how many sub-blocks it is cut
  // into.
  __device__ uint32_t operator()(const shared_piece& piece) {
    find_repeats(piece);
    join_rows(piece, byte_run);
    if constexpr (Width > 1) join_rows(piece, element_run);
    const uint32_t sub_blocks = cut(piece);
    find_open_runs(piece);
    return sub_blocks;
  }

 private:
  __device__ static void find_repeats(const shared_piece& piece) {
    const auto word = [&piece](uint32_t i) { return piece.word(i); };
    for (uint32_t c = threadIdx.x; c < piece.cells(); c += Threads)
      piece.cell[c].runs = repeats_in_cell<Width>(word, c, piece.bytes);
    if (threadIdx.x == 0) piece.cell[piece.cells()].runs = {};
    device::sync_block();
  }
  // Every Threads-th cell is a thread's, which reads their neighbours too.
  __device__ static void join_rows(const shared_piece& piece, int kind) {
    const auto bits = [&piece, kind](uint32_t c) {
      const uint32_t taken = kind == byte_run ? 0 : piece.cell[c].runs.of[byte_run];
      return piece.cell[c].runs.of[kind] & ~taken;
    };
    uint32_t mine[own_cells];
#pragma unroll
    for (uint32_t j = 0; j < own_cells; ++j) {
      const uint32_t c = threadIdx.x + j * Threads;
      mine[j] = c < piece.cells() ? rows_of_three(c == 0 ? 0 : bits(c - 1), bits(c), bits(c + 1)) : 0;
    }
    device::sync_block();
#pragma unroll
    for (uint32_t j = 0; j < own_cells; ++j)
      if (const uint32_t c = threadIdx.x + j * Threads; c < piece.cells()) piece.cell[c].runs.of[kind] = mine[j];
    device::sync_block();
  }

  // Into sub-blocks.
  __device__ uint32_t cut(const shared_piece& piece) {
    const uint32_t first = device::thread_id_anew() * own_groups;
    uint32_t mine = 0;
    for (uint32_t j = 0; j < own_groups; ++j) mine += symbols_in_group(piece, first + j);
    uint32_t all;
    uint32_t before = scan::exclusive_sum(temp_.scan_storage, mine, all);
    const uint32_t n = sub_blocks_of(all);
    uint32_t last = 0;
    if (first != 0) last = symbols_in_group(piece, first - 1);
    for (uint32_t j = 0; j < own_groups; ++j) {
      const uint32_t group = first + j, c = 2 * group;
      if (c >= piece.cells()) break;
      const bool begins = c == 0 || deflate_format::begins_sub_block(before, last, all, n);
      piece.cell[c].state = begins ? shared_cell::begins | before * n / all << 24 : 0;
      if (c + 1 < piece.cells()) piece.cell[c + 1].state = 0;
      last = symbols_in_group(piece, group);
      before += last;
    }
    if (threadIdx.x == 0) piece.cell[piece.cells()].state = shared_cell::begins;
    device::sync_block();
    return n;
  }
  __device__ static uint32_t symbols_in_group(const shared_piece& piece, uint32_t group) {
    uint32_t symbols = 0;
    for (uint32_t c = 2 * group; c < 2 * group + 2 && c < piece.cells(); ++c) {
      const uint32_t left = piece.bytes - c * cell_bytes;
      symbols += symbols_in_cell(c == 0 ? cell_bits{} : piece.runs(c - 1), piece.runs(c),
                                 left < cell_bytes ? left : cell_bytes);
    }
    return symbols;
  }

  // By a running maximum.
  __device__ void find_open_runs(const shared_piece& piece) {
    constexpr uint32_t own = 2 * own_groups;
    const auto opened = [&piece](uint32_t c) { return c < piece.cells() ? open_run<Width>(piece, c) : 0; };
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
    for (uint32_t c = threadIdx.x * own; c < (threadIdx.x + 1) * own && c < piece.cells(); ++c) {
      const uint32_t begin = opened(c);
      piece.cell[c].state |= before;
      if (begin != 0) before = begin;
    }
    device::sync_block();
  }

  TempStorage& temp_;
};

// Writes bits into words of shared memory that were zero; the first and the last it shares with others.
class shared_bit_writer {
 public:
  __device__ shared_bit_writer(uint32_t* words, uint32_t first_bit)
      : word_(words + first_bit / 32), fill_(first_bit % 32) {}

  // The low `width` <= 32 bits of x, those above them 0.
  __device__ void put(uint32_t x, uint32_t width) {
    pending_ |= uint64_t{x} << fill_;
    fill_ += width;
    if (fill_ < 32) return;
    flush();
    pending_ >>= 32;
    fill_ -= 32;
  }
  __device__ void finish() {
    if (fill_ == 0) return;
    shared_ = true;
    flush();
  }

 private:
  __device__ void flush() {
    if (shared_)
      device::atomic_or(word_, static_cast<uint32_t>(pending_));
    else
      *word_ = static_cast<uint32_t>(pending_);
    shared_ = false;
    ++word_;
  }

  uint32_t* word_;
  uint64_t pending_ = 0;
  uint32_t fill_;
  bool shared_ = true;
};

}  // namespace tuck::inline TUCK_ABI::deflate_format
