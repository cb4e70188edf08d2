// SPDX-License-Identifier: Apache-2.0
// The keys of words in checksums (checksum.hpp).
#pragma once

#include <tuck/core/config.hpp>
#include <tuck/core/standard.hpp>

namespace tuck::inline TUCK_ABI::detail {

// All keys are odd.
struct word_keys {
  static constexpr uint64_t step = 0x9e3779b97f4a7c15, first = 0xd6e8feb86659fd93;

  // The common factor of the keys of words 4 i to 4 i + 3.
  TUCK_HD static constexpr uint32_t of_four(uint64_t i) noexcept {
    const uint64_t seed = i * step + first;
    return static_cast<uint32_t>(seed ^ (seed >> 32)) | 1;
  }
  // The other factor of the key of word i.
  TUCK_HD static constexpr uint32_t multiple(uint64_t i) noexcept {
    return i % 4 == 0 ? 1 : i % 4 == 1 ? 0xcc9e2d53 : i % 4 == 2 ? 0x85ebca6b : 0x1b873593;
  }
  TUCK_HD static constexpr uint32_t of(uint64_t i) noexcept { return of_four(i / 4) * multiple(i); }
};

}  // namespace tuck::inline TUCK_ABI::detail
