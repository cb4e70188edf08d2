// What the last stage of a chain gets: a row of bytes, of which values are the first section and sides the others.
#pragma once

#include <tuck/core/bits.hpp>

#include <cstdint>

namespace tuck::inline TUCK_ABI {

// Sections of a row, from its begin on. `{}` has none.
struct section_list {
  static constexpr uint32_t capacity = 8;

  uint32_t count;
  uint32_t end[capacity];  // in bytes of the row

  TUCK_HD constexpr void add(uint32_t size) noexcept {
    end[count] = total() + size;
    ++count;
  }
  TUCK_HD constexpr uint32_t begin(uint32_t i) const noexcept { return i == 0 ? 0 : end[i - 1]; }
  TUCK_HD constexpr uint32_t size(uint32_t i) const noexcept { return end[i] - begin(i); }
  TUCK_HD constexpr uint32_t total() const noexcept { return begin(count); }
};

// The bytes of all sides, each padded to a multiple of 4.
TUCK_HD constexpr uint32_t padded_sides(const section_list& sections) noexcept {
  uint32_t sum = 0;
  for (uint32_t i = 1; i < sections.count; ++i) sum += round_up_pow2(sections.size(i), 2);
  return sum;
}

// Sections of a row in shared memory, where each begins at any of its bytes.
struct row_sections {
  section_list list;
  uint32_t at[section_list::capacity];
};

}  // namespace tuck::inline TUCK_ABI
