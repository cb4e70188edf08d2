// Stages of a user's own, written to what codec/concept.hpp says: a transform, a splitter and a codec.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/bits.hpp>

namespace mine {

inline constexpr auto transform_id = static_cast<tuck::codec_id>(0x8001);
inline constexpr auto codec_id = static_cast<tuck::codec_id>(0x8002);
inline constexpr auto splitter_id = static_cast<tuck::codec_id>(0x8003);

// A transform with a parameter: each value's bits, rotated left, against a key.
struct masked {
  using value_type = float;
  using result_type = uint32_t;
  static constexpr uint32_t forms = 1;
  uint32_t key = 0x5a5a5a5a;

  TUCK_HD tuck::stage_list stages() const noexcept {
    return {{{.id = transform_id, .version = 3, .small_value = key}}};
  }
  TUCK_HD static tuck::status from_stages(const tuck::stage_list& stages, masked& x) noexcept {
    x.key = stages.at[0].small_value;
    return tuck::match_single_stage(stages, x.stages().at[0]);
  }
  TUCK_HD static constexpr uint32_t rotated(uint32_t x) noexcept { return x << 1 | x >> 31; }
  void apply(tuck::span<const float> values, tuck::span<uint32_t> results, uint32_t) const noexcept {
    for (uint64_t i = 0; i < values.size(); ++i) results[i] = rotated(tuck::bits_of(values[i])) ^ key;
  }
  void invert(tuck::span<const uint32_t> stored, tuck::span<float> restored, uint32_t) const noexcept {
    for (uint64_t i = 0; i < restored.size(); ++i) {
      const uint32_t x = stored[i] ^ key;
      restored[i] = __builtin_bit_cast(float, x >> 1 | x << 31);
    }
  }
};
static_assert(tuck::transform<masked>);

// A splitter that takes the highest bit of every value:
//
//   u32 highest[ceil(n / 32)]   the side stream. Bit k of highest[i]: of value 32 i + k; bits past n are 0
//   u32 rest[n]                 the residual values
struct signs {
  using value_type = uint32_t;
  using residual_type = uint32_t;
  static constexpr uint32_t chunk_bytes = 16 * 1024;
  static constexpr uint32_t max_growth = 516;  // chunks of 4096 values are 512 bytes larger

  TUCK_HD static constexpr tuck::stage description() noexcept { return {.id = splitter_id, .version = 1}; }
  TUCK_HD tuck::stage_list stages() const noexcept { return {{description()}}; }
  TUCK_HD static tuck::status from_stages(const tuck::stage_list& stages, signs&) noexcept {
    return tuck::match_single_stage(stages, description());
  }
  TUCK_HD static uint32_t side(uint32_t count) noexcept { return tuck::ceil_div(count, 32u) * 4; }
  TUCK_HD uint32_t max_chunk_bytes(uint32_t count) const noexcept { return side(count) + 4 * count; }
  static uint32_t side_bytes(tuck::const_bytes, uint32_t count) noexcept { return side(count); }
  TUCK_HD static bool side_fits(uint32_t bytes, uint32_t residuals, uint32_t count) noexcept {
    return bytes == side(count) && residuals == count;
  }
  uint32_t encode_chunk(tuck::span<const uint32_t> values, tuck::bytes room) const noexcept {
    const auto count = static_cast<uint32_t>(values.size());
    for (uint32_t i = 0; i < side(count); ++i) room[i] = std::byte{};
    for (uint32_t i = 0; i < count; ++i) {
      room[i / 8] |= static_cast<std::byte>(values[i] >> 31 << i % 8);
      tuck::store_unaligned(room.data() + side(count) + 4 * i, values[i] & 0x7fffffffu);
    }
    return max_chunk_bytes(count);
  }
  tuck::status decode_chunk(tuck::const_bytes encoded, tuck::span<uint32_t> restored) const noexcept {
    const auto count = static_cast<uint32_t>(restored.size());
    if (encoded.size() != max_chunk_bytes(count)) return tuck::status::bad_payload;
    for (uint32_t i = 0; i < count; ++i)
      restored[i] = tuck::load_unaligned<uint32_t>(encoded.data() + side(count) + 4 * i) ^
                    static_cast<uint32_t>(encoded[i / 8]) >> i % 8 << 31;
    return tuck::status::ok;
  }
};
static_assert(tuck::splitter<signs>);

// A codec that drops the upper half of every value that has the same as the first, if all have.
struct halved {
  using value_type = uint32_t;
  static constexpr uint32_t chunk_bytes = 4096;

  TUCK_HD tuck::stage_list stages() const noexcept { return {{{.id = codec_id, .version = 1}}}; }
  TUCK_HD static tuck::status from_stages(const tuck::stage_list& stages, halved&) noexcept {
    return tuck::match_single_stage(stages, {.id = codec_id, .version = 1});
  }
  TUCK_HD uint32_t max_chunk_bytes(uint32_t count) const noexcept { return 2 + 2 * count; }
  uint32_t encode_chunk(tuck::span<const uint32_t> values, tuck::bytes room) const noexcept {
    const auto upper = static_cast<uint16_t>(values[0] >> 16);
    tuck::store_unaligned(room.data(), upper);
    for (uint64_t i = 0; i < values.size(); ++i) {
      if (values[i] >> 16 != upper) return tuck::incompressible;
      tuck::store_unaligned(room.data() + 2 + 2 * i, static_cast<uint16_t>(values[i]));
    }
    return static_cast<uint32_t>(2 + 2 * values.size());
  }
  tuck::status decode_chunk(tuck::const_bytes encoded, tuck::span<uint32_t> restored) const noexcept {
    if (encoded.size() != 2 + 2 * restored.size()) return tuck::status::bad_payload;
    const uint32_t upper = tuck::load_unaligned<uint16_t>(encoded.data());
    for (uint64_t i = 0; i < restored.size(); ++i)
      restored[i] = upper << 16 | tuck::load_unaligned<uint16_t>(encoded.data() + 2 + 2 * i);
    return tuck::status::ok;
  }
};
static_assert(tuck::codec<halved>);

}  // namespace mine
