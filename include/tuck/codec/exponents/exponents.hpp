// Exponents: floats without loss, where those close together have exponents close together, as in weights, keys and
// values. Signs and mantissas stay as they are; a group of 32 values has a base and a width for its exponents.
//
// Each value's bits are rotated left by one, so that its exponent stands above mantissa and sign. The least exponent of
// the chunk, m, is subtracted from each: x = rotated - (m << mantissa_bits + 1). groups.hpp has the format of these
// integers, with m as `more`, and mantissa_bits + 1 as Low. Decoders take what is above an exponent's bits in m for 0.
// A chunk has fewer bytes than its values; where it would not, encoding declines.
#pragma once

#include <tuck/codec/bitpack/host_groups.hpp>
#include <tuck/core/floating.hpp>

namespace tuck::inline TUCK_ABI {

template <floating_element T> struct exponents {
  using value_type = T;

  static constexpr uint32_t chunk_bytes = 16 * 1024;
  static constexpr uint32_t low = float_format<T>::mantissa_bits + 1;  // bits below the exponent
  static constexpr uint32_t max_width = 8 * sizeof(T) == 64 ? 64 : 8 * sizeof(T) + (sizeof(T) < 4 ? 1 : 0);  // bits

  TUCK_HD static constexpr stage description() noexcept { return {.id = codec_id::exponents, .version = 1}; }
  TUCK_HD constexpr stage_list stages() const noexcept { return {{description()}}; }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, exponents&) noexcept {
    return match_single_stage(stages, description());
  }
  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count * uint32_t{sizeof(T)}; }
  TUCK_HD static constexpr uint32_t limit(uint32_t count) noexcept { return count * uint32_t{sizeof(T)} - 1; }

  uint32_t encode_chunk(span<const T> values, bytes room) const noexcept {
    if (values.empty() || values.size_bytes() > max_chunk_raw_bytes) return declined;
    const auto count = static_cast<uint32_t>(values.size());
    bits integers[max_chunk_raw_bytes / sizeof(T)], least = static_cast<bits>(~bits{0});
    for (uint32_t i = 0; i < count; ++i) {
      const bits x = bits_at(values.data(), i);
      integers[i] = static_cast<bits>(x << 1 | x >> (8 * sizeof(T) - 1));
      least = integers[i] < least ? integers[i] : least;
    }
    const auto steps = static_cast<uint32_t>(least >> low);
    const auto all_steps = static_cast<bits>(bits{static_cast<bits>(steps)} << low);
    for (uint32_t i = 0; i < count; ++i) integers[i] = static_cast<bits>(integers[i] - all_steps);
    const auto* const from = reinterpret_cast<const std::byte*>(integers);
    return groups::encode(from, count, false, steps, limit(count), room.data());
  }

  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
    const auto count = static_cast<uint32_t>(restored.size());
    std::byte* const to = as_writable_bytes(restored).data();
    uint32_t end;
    if (encoded.size() > limit(count) || !groups::decode(encoded, count, max_width, to, end) || end != encoded.size())
      return status::bad_payload;
    const auto all_steps = static_cast<bits>(uint64_t{load_unaligned<uint16_t>(encoded.data() + 2)} << low);
    for (uint32_t i = 0; i < count; ++i) {
      const auto x = static_cast<bits>(load_unaligned<bits>(to + i * sizeof(T)) + all_steps);
      store_unaligned(to + i * sizeof(T), static_cast<bits>(x >> 1 | x << (8 * sizeof(T) - 1)));
    }
    return status::ok;
  }

 private:
  using bits = bits_t<T>;
  using groups = detail::host_groups<sizeof(T), low>;
};

static_assert(codec<exponents<float>>);

}  // namespace tuck::inline TUCK_ABI
