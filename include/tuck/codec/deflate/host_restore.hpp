// What one thread needs to restore sub-blocks: the tables of a block, and where the bytes go.
#pragma once

#include <tuck/codec/deflate/bit_input.hpp>
#include <tuck/codec/deflate/encoder_codes.hpp>
#include <tuck/codec/deflate/sub_block.hpp>

#include <algorithm>

namespace tuck::inline TUCK_ABI::deflate_format {

// Fills the tables for one thread.
inline void build_tables(const code_lengths& lengths, decode_tables& tables) noexcept {
  const auto build = [](const uint8_t* length, uint32_t symbols, uint32_t bits, auto* table, uint32_t shift) {
    std::fill_n(table, 1u << bits, static_cast<std::remove_reference_t<decltype(*table)>>(0));
    uint32_t count[max_code_bits + 1] = {}, next[max_code_bits + 1];
    for (uint32_t i = 0; i < symbols; ++i) ++count[length[i]];
    count[0] = 0;
    first_codewords(count, next);
    for (uint32_t i = 0; i < symbols; ++i) {
      if (length[i] == 0) continue;
      const uint32_t first = reversed(next[length[i]]++, length[i]);
      for (uint32_t at = first; at < 1u << bits; at += 1u << length[i])
        table[at] = static_cast<std::remove_reference_t<decltype(*table)>>(i | uint32_t{length[i]} << shift);
    }
  };
  build(lengths.of, lengths.literals, max_literal_bits, tables.literal, 9);
  build(lengths.of_distances(), lengths.distances, max_distance_bits, tables.distance, 5);
}

// Restores a sub-block in host memory, which ends at `end`.
class memory_output {
 public:
  static constexpr bool takes_literals_at_once = true;

  TUCK_HD memory_output(std::byte* to, std::byte* end) noexcept : to_(to), end_(end) {}

  TUCK_HD void put(uint32_t byte) noexcept { *to_++ = static_cast<std::byte>(byte); }
  TUCK_HD void repeat(uint32_t distance, uint32_t length) noexcept {
    if (distance == 1) {
      std::memset(to_, static_cast<int>(to_[-1]), length);
      to_ += length;
      return;
    }
    if (end_ - to_ >= static_cast<std::ptrdiff_t>(length) + 8) {  // eight at a time, and a few too many
      for (std::byte* p = to_; p < to_ + length; p += 8)
        for (uint32_t k = 0; k < 8; k += distance) std::memcpy(p + k, p + k - distance, distance);
    } else {
      for (uint32_t i = 0; i < length; ++i) to_[i] = to_[static_cast<std::ptrdiff_t>(i) - distance];
    }
    to_ += length;
  }

 private:
  std::byte* to_;
  std::byte* end_;
};

}  // namespace tuck::inline TUCK_ABI::deflate_format
