// What a thread block works on when it encodes: a piece of a chunk in shared memory, and bits on their way out of it.
#pragma once

#include <tuck/codec/deflate/tokens.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::deflate_format {

// A piece of a chunk in shared memory, and what is known of its cells. A cell has a word to spare behind its eight, so
// that threads that read theirs at once do not meet in a bank.
struct shared_piece {
  static constexpr uint32_t cell_words = cell_bytes / 4;

  uint32_t words[piece_cells * (cell_words + 1)];
  cell_bits of_cell[piece_cells + 1];
  uint16_t open_run[piece_cells];
  uint32_t begins[piece_groups / 32];  // bit g: group g + 1 begins a sub-block
  uint32_t bytes;

  __device__ static uint32_t place(uint32_t word) { return word + word / cell_words; }
  __device__ uint32_t cells() const { return ceil_div(bytes, cell_bytes); }

  __device__ uint32_t size() const { return bytes; }
  __device__ uint32_t byte(uint32_t i) const { return words[place(i / 4)] >> (8 * (i % 4)) & 255; }
  __device__ cell_bits runs(uint32_t cell) const { return of_cell[cell]; }
  __device__ uint32_t open(uint32_t cell) const { return open_run[cell]; }
  __device__ bool begins_sub_block(uint32_t cell) const {
    if (cell == 0 || cell >= cells()) return true;
    const uint32_t before = cell / 2 - 1;
    return cell % 2 == 0 && (begins[before / 32] >> (before % 32) & 1) != 0;
  }
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
