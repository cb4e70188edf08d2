// Delta: differences of neighbouring values, so that slowly changing values become small numbers. All arithmetic is on
// bit patterns as unsigned integers of b = 8 sizeof(T) bits, modulo 2^b:
//
//   d[i] = v[i] - v[i-1], with v[-1] = 0      result[i] = 2 d[i] if d[i] < 2^(b-1), else 2 (2^b - d[i]) - 1
//
// This is the zigzag code of the differences as signed integers: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4. The results have
// the same number and size as the values.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/bits.hpp>
#include <tuck/core/zigzag.hpp>

namespace tuck::inline TUCK_ABI {

/// Transform for slowly changing values: zigzag codes of the differences of neighbours. Lossless.
/// concept.hpp documents the members that are not described here.
/// @tparam T element type; the results are unsigned integers of the same size
template <element T> struct delta {
  using value_type = T;
  using result_type = bits_t<T>;

  /// Returns the stage that frame headers store; the transform has no parameters.
  TUCK_HD static constexpr stage description() noexcept { return stage{.id = codec_id::delta, .version = 1}; }
  TUCK_HD constexpr stage_list stages() const noexcept { return {{description()}}; }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, delta&) noexcept {
    return match_single_stage(stages, description());
  }

  /// Writes the zigzag codes of the differences of `values`. Both spans have the same size and do not alias.
  TUCK_HD void apply(span<const T> values, span<bits_t<T>> results) const noexcept {
    if (values.empty()) return;
    results[0] = zigzag(tuck::bits_of(values[0]));
    for (uint64_t i = 1; i < values.size(); ++i)
      results[i] = zigzag(static_cast<bits_t<T>>(bits_at(values.data(), i) - bits_at(values.data(), i - 1)));
  }
  /// Restores the values; undoes `apply`. Both spans have the same size and do not alias.
  TUCK_HD void invert(span<const bits_t<T>> results, span<T> restored) const noexcept {
    bits_t<T> value = 0;
    for (uint64_t i = 0; i < restored.size(); ++i) {
      value = static_cast<bits_t<T>>(value + unzigzag(results[i]));
      // Not by bit_cast: GCC 12 fails with an internal error when it vectorizes that loop over structs.
      tuck::store_unaligned(reinterpret_cast<std::byte*>(&restored[i]), value);
    }
  }
};

static_assert(transform<delta<float>>);

}  // namespace tuck::inline TUCK_ABI
