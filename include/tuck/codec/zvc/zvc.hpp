// ZVC, zero-value compression: a bit a value says whether it is zero, and only the others are kept. The
// format of cDMA (Rhu et al., HPCA 2018), with the masks of a chunk gathered in front of its values.
//
// A chunk of n values, in windows of 32:
//
//   u32 mask[ceil(n / 32)]     bit i of mask[w]: value 32 w + i is not zero; bits past n are 0
//   T   values[popcount(mask)] the non-zero values in order
//
// that is 4 ceil(n / 32) + sizeof(T) nnz bytes. Zero means that all bits are zero, so -0.0, NaN payloads and
// denormals survive. The bytes are canonical: host and device write the same.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/masks.hpp>

namespace tuck::inline TUCK_ABI {

template <element T> struct zvc {
  using value_type = T;
  using kept_type = T;  // in chains

  static constexpr uint32_t window = mask_window;
  static constexpr uint32_t chunk_bytes = 16 * 1024;

  TUCK_HD static constexpr uint32_t mask_bytes(uint32_t count) noexcept { return 4 * mask_words(count); }

  TUCK_HD static constexpr stage description() noexcept { return {.id = codec_id::zvc, .version = 1}; }
  TUCK_HD constexpr stage_list stages() const noexcept { return {{description()}}; }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, zvc&) noexcept {
    return match_single_stage(stages, description());
  }
  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept {
    return mask_bytes(count) + count * uint32_t{sizeof(T)};
  }
  TUCK_HD uint32_t encode_chunk(span<const T> values, bytes room) const noexcept;
  TUCK_HD status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

  static constexpr uint32_t max_growth = 0;
  TUCK_HD static constexpr uint32_t side_bytes(const_bytes, uint32_t count) noexcept { return mask_bytes(count); }
  TUCK_HD static constexpr bool side_fits(uint32_t side, uint32_t, uint32_t count) noexcept {
    return side == mask_bytes(count);
  }
};

template <element T> TUCK_HD uint32_t zvc<T>::encode_chunk(span<const T> values, bytes room) const noexcept {
  std::byte* const masks = room.data();
  masks_of(values, ones::non_zeros, masks);
  const auto count = static_cast<uint32_t>(values.size());
  std::byte* const end = pack(values, masks, masks + mask_bytes(count), masks + max_chunk_bytes(count));
  return static_cast<uint32_t>(end - masks);
}

template <element T> TUCK_HD status zvc<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  const auto count = static_cast<uint32_t>(restored.size());
  const uint32_t side = mask_bytes(count);
  const std::byte *const masks = encoded.data(), *const packed = masks + side;
  if (encoded.size() < side) return status::bad_payload;
  const auto last = load_unaligned<uint32_t>(packed - 4);
  if ((last & ~low_mask((count - 1) % window + 1)) != 0) return status::bad_payload;
  if (side + uint64_t{count_mask(masks, side / 4).ones} * sizeof(T) != encoded.size()) return status::bad_payload;
  spread<ones::non_zeros>(masks, packed, masks + encoded.size(), restored);
  return status::ok;
}

static_assert(splitter<zvc<float>>);

}  // namespace tuck::inline TUCK_ABI
