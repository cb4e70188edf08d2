// SPDX-License-Identifier: Apache-2.0
// Bitpack stores integers in as few bits as their group of 32 needs. It suits counts, indices, codes, and other
// integers that are small or close to their neighbours. Values of any element type are read as integers in two's
// complement.
//
// groups.hpp describes the format. The field `extra` is 0. An integer of 1, 2, 4 or 8 bytes takes at most 9, 17, 32
// or 64 bits: a difference of 8-bit integers needs 9 bits. A chunk that would not be smaller than its values is
// incompressible. In the frame header, stage::mode says whether the encoder looked for differences (enum predictor).
// Decoders do not need it.
#pragma once

#include <tuck/codec/bitpack/groups.hpp>
#include <tuck/codec/concept.hpp>

#if defined(TUCK_HOST)
#include <tuck/codec/bitpack/host_groups.hpp>
#endif

namespace tuck::inline TUCK_ABI {

/// Codec for small integers and integers close to their neighbours. Lossless.
/// concept.hpp documents the members that are not described here.
/// @tparam T element type, read as an integer in two's complement
template <element T> class bitpack {
 public:
  using value_type = T;

  template <element U> using rebind = bitpack<U>;  ///< for by_width
  static constexpr uint32_t chunk_bytes = 16 * 1024;
  /// Maximum number of bits in which a chunk stores an integer.
  static constexpr uint32_t max_width = 8 * sizeof(T) == 64 ? 64 : 8 * sizeof(T) + (sizeof(T) < 4 ? 1 : 0);

  bitpack() = default;
  /// Constructs a codec that may also store differences of neighbouring integers. This takes longer to encode.
  /// @param prediction predictor::automatic to look for differences
  TUCK_HD constexpr explicit bitpack(predictor prediction) noexcept : predictor_(prediction) {}
  /// Returns whether encoding looks for differences.
  TUCK_HD constexpr bool predicts() const noexcept { return predictor_ == predictor::automatic; }

  TUCK_HD constexpr stage_list stages() const noexcept {
    return {{{.id = codec_id::bitpack, .version = 1, .mode = static_cast<uint8_t>(predicts())}}};
  }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, bitpack& parsed) noexcept {
    parsed.predictor_ = stages.at[0].mode == 0 ? predictor::none : predictor::automatic;
    return match_single_stage(stages, parsed.stages().at[0]);
  }
  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count * uint32_t{sizeof(T)}; }
  /// Returns the maximum size in bytes of an encoded chunk of `count` values: one byte less than the values.
  TUCK_HD static constexpr uint32_t limit(uint32_t count) noexcept { return count * uint32_t{sizeof(T)} - 1; }

#if defined(TUCK_HOST)
  static constexpr uint32_t workspace_bytes(uint32_t count) noexcept { return groups::workspace_bytes(count); }
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept {
    return detail::with_workspace(workspace_bytes(static_cast<uint32_t>(values.size())), incompressible,
                                  [&](workspace memory) { return encode_chunk(values, out, memory); });
  }
  uint32_t encode_chunk(span<const T> values, bytes out, workspace memory) const noexcept {
    const auto count = static_cast<uint32_t>(values.size());
    return groups::encode(as_bytes(values).data(), count, predicts(), 0, limit(count), out.data(), memory);
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
#endif

 private:
#if defined(TUCK_HOST)
  using groups = detail::host_groups<sizeof(T)>;
#endif

  predictor predictor_ = predictor::none;
};

static_assert(codec<bitpack<float>>);

}  // namespace tuck::inline TUCK_ABI
