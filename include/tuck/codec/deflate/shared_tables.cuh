// What a thread block needs before its lanes can decode: the header of a block, tables made of it, and the index.
#pragma once

#include <tuck/codec/deflate/encoder_codes.hpp>
#include <tuck/codec/deflate/sub_block.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI::deflate_format {

// A canonical code, symbols ordered by the lengths of their codes.
struct canonical_code {
  uint32_t count[max_code_bits + 1];
  uint32_t first_codeword[max_code_bits + 1];
  uint32_t first_symbol[max_code_bits + 1];
};

// What decodes the symbols of a block, and what that is made of.
struct shared_tables {
  decode_tables tables;
  code_lengths lengths;
  canonical_code literals, distances;
  uint16_t symbol[literal_symbols + distance_symbols];
};

// The header of a block, for the thread that reads it: at most 3 + 14 + 19 * 3 + (286 + 30) * 14 bits, of which the
// first may be any of a byte.
struct shared_header {
  static constexpr uint32_t capacity = 576;
  static_assert(8 * capacity >= 7 + 3 + 14 + 19 * 3 + (286 + 30) * 14);

  alignas(16) std::byte bytes[capacity];
  precode_memory precode;

  // By the whole block, from this byte of the stream on; how many there are.
  template <int Threads> __device__ uint32_t load(const_bytes stream, uint32_t first) {
    const uint64_t left = stream.size() - first;
    const uint32_t size = left < capacity ? static_cast<uint32_t>(left) : capacity;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < size; i += Threads) bytes[i] = device::load(stream.data() + first + i);
    device::sync_block();
    return size;
  }
};

// Fills the tables from the lengths, by the whole block.
template <int Threads> class table_builder {
 public:
  __device__ static void build(shared_tables& block) {
    const auto& lengths = block.lengths;
    if (threadIdx.x < 2) {
      canonical_code& code = threadIdx.x == 0 ? block.literals : block.distances;
      for (uint32_t l = 0; l <= max_code_bits; ++l) code.count[l] = 0;
    }
    device::sync_block();
    const uint32_t symbols = lengths.literals + lengths.distances;
    for (uint32_t i = threadIdx.x; i < symbols; i += Threads)
      if (const uint32_t l = lengths.of[i]; l != 0)
        device::atomic_add(&(i < lengths.literals ? block.literals : block.distances).count[l], 1u);
    device::sync_block();
    if (threadIdx.x < 2) {
      canonical_code& code = threadIdx.x == 0 ? block.literals : block.distances;
      first_codewords(code.count, code.first_codeword);
      uint32_t first = threadIdx.x == 0 ? 0 : lengths.literals;
      for (uint32_t l = 0; l <= max_code_bits; ++l) {
        code.first_symbol[l] = first;
        first += code.count[l];
      }
    }
    device::sync_block();
    for (uint32_t i = threadIdx.x; i < symbols; i += Threads) {
      const uint32_t l = lengths.of[i], begin = i < lengths.literals ? 0 : lengths.literals;
      if (l == 0) continue;
      uint32_t at = (begin == 0 ? block.literals : block.distances).first_symbol[l];
      for (uint32_t other = begin; other < i; ++other) at += lengths.of[other] == l;
      block.symbol[at] = static_cast<uint16_t>(i - begin);
    }
    device::sync_block();
    fill<max_literal_bits>(block, block.literals, block.tables.literal, 9);
    fill<max_distance_bits>(block, block.distances, block.tables.distance, 5);
    device::sync_block();
  }

 private:
  template <uint32_t Bits, class Entry>
  __device__ static void fill(const shared_tables& block, const canonical_code& code, Entry* table, uint32_t shift) {
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < 1u << Bits; i += Threads) {
      const uint32_t bits = reversed(i, Bits);
      uint32_t found = 0;
#pragma unroll 1
      for (uint32_t l = 1; l <= Bits && found == 0; ++l) {
        const uint32_t rank = (bits >> (Bits - l)) - code.first_codeword[l];
        if (rank < code.count[l]) found = block.symbol[code.first_symbol[l] + rank] | l << shift;
      }
      table[i] = static_cast<Entry>(found);
    }
  }
};

// The index, in global memory: neighbouring entries are a thread's.
template <int Threads> struct shared_index {
  using scan = device::block_scan<Threads>;
  static constexpr uint32_t own = ceil_div(255u, uint32_t{Threads});

  __device__ static index_entry entry(const_bytes index, uint32_t i) {
    const std::byte* const p = index.data() + index_entry_bytes * i;
    const auto byte = [p](int k) { return static_cast<uint32_t>(device::load(p + k)); };
    return {byte(0) + 1, byte(1) | byte(2) << 8};
  }
  // Of the entries before this thread's, and of all.
  __device__ static index_sums sums_before(typename scan::TempStorage& storage, const_bytes index, uint32_t entries,
                                           index_sums& all) {
    index_sums mine;
    for (uint32_t i = threadIdx.x * own; i < (threadIdx.x + 1) * own && i < entries; ++i) mine.add(entry(index, i));
    uint64_t both;
    const uint64_t before = scan::exclusive_sum(storage, uint64_t{mine.groups} << 32 | mine.bits, both);
    all = {static_cast<uint32_t>(both >> 32), static_cast<uint32_t>(both)};
    return {static_cast<uint32_t>(before >> 32), static_cast<uint32_t>(before)};
  }
};

}  // namespace tuck::inline TUCK_ABI::deflate_format
