// Byte planes: the bytes of values sorted by their place, so that those that are alike lie beside each other. Signs and
// exponents of floats, the upper bytes of small integers say little; the lowest bytes are noise or zero.
//
//   n values of w bytes     a0 a1 .. b0 b1 .. c0 c1 ..     a0: the lowest byte of the first value
//   w planes of n bytes     a0 b0 c0 .. a1 b1 c1 ..
//
// For values of one byte that is the values themselves.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/bits.hpp>

namespace tuck::inline TUCK_ABI {

template <element T> struct byte_planes {
  using value_type = T;
  using result_type = uint8_t;

  static constexpr uint32_t planes = sizeof(T);

  TUCK_HD static constexpr stage description() noexcept { return {.id = codec_id::planes, .version = 1}; }
  TUCK_HD constexpr stage describe() const noexcept { return description(); }
  TUCK_HD static constexpr status from_stage(const stage& described, byte_planes&) noexcept {
    return match_stage(described, description());
  }

  // results.size() == values.size() * planes, and the other way round; they do not alias.
  TUCK_HD void apply(span<const T> values, span<uint8_t> results) const noexcept {
    const uint64_t count = values.size();
    const auto* const from = reinterpret_cast<const unsigned char*>(values.data());
    for (uint32_t p = 0; p < planes; ++p)
      for (uint64_t i = 0; i < count; ++i) results[p * count + i] = from[i * planes + p];
  }
  TUCK_HD void invert(span<const uint8_t> results, span<T> restored) const noexcept {
    const uint64_t count = restored.size();
    auto* const to = reinterpret_cast<unsigned char*>(restored.data());
    for (uint32_t p = 0; p < planes; ++p)
      for (uint64_t i = 0; i < count; ++i) to[i * planes + p] = results[p * count + i];
  }
};

static_assert(transform<byte_planes<float>>);

}  // namespace tuck::inline TUCK_ABI
