// Bitpack: integers in as few bits as their group of 32 needs. For counts, indices, codes, and whatever else is small
// or close to its neighbours. Values are taken for integers in two's complement, whatever the element type.
//
// groups.hpp has the format, with 0 as `more`, and widths of up to 9 bits for 1-byte integers, 17 for 2-byte ones, 32
// and 64. A chunk has fewer bytes than its values; where it would not, encoding declines. In the frame's header the
// stage's mode is the predictor; decoding does not depend on it.
#pragma once

#include <tuck/codec/bitpack/host_groups.hpp>

namespace tuck::inline TUCK_ABI {

template <element T> class bitpack {
 public:
  using value_type = T;

  static constexpr uint32_t chunk_bytes = 16 * 1024;
  static constexpr uint32_t max_width = 8 * sizeof(T) == 64 ? 64 : 8 * sizeof(T) + (sizeof(T) < 4 ? 1 : 0);  // bits

  bitpack() = default;
  // Whether encoding looks for differences, too, which takes longer.
  TUCK_HD constexpr explicit bitpack(predictor prediction) noexcept : predictor_(prediction) {}
  TUCK_HD constexpr bool predicts() const noexcept { return predictor_ == predictor::automatic; }

  TUCK_HD constexpr stage_list stages() const noexcept {
    return {{{.id = codec_id::bitpack, .version = 1, .mode = static_cast<uint8_t>(predictor_)}}};
  }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, bitpack& parsed) noexcept {
    parsed.predictor_ = stages.at[0].mode == 0 ? predictor::none : predictor::automatic;
    return match_single_stage(stages, parsed.stages().at[0]);
  }
  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count * uint32_t{sizeof(T)}; }
  TUCK_HD static constexpr uint32_t limit(uint32_t count) noexcept { return count * uint32_t{sizeof(T)} - 1; }

  uint32_t encode_chunk(span<const T> values, bytes room) const noexcept {
    const auto count = static_cast<uint32_t>(values.size());
    return groups::encode(as_bytes(values).data(), count, predicts(), 0, limit(count), room.data());
  }
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
    const auto count = static_cast<uint32_t>(restored.size());
    uint32_t end;
    if (encoded.size() > limit(count)) return status::bad_payload;
    if (encoded.size() >= 4 && load_unaligned<uint16_t>(encoded.data() + 2) != 0) return status::bad_payload;
    return groups::decode(encoded, count, max_width, as_writable_bytes(restored).data(), end) && end == encoded.size()
               ? status::ok
               : status::bad_payload;
  }

 private:
  using groups = detail::host_groups<sizeof(T)>;

  predictor predictor_ = predictor::none;
};

static_assert(codec<bitpack<float>>);

}  // namespace tuck::inline TUCK_ABI
