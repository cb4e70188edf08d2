// SPDX-License-Identifier: Apache-2.0
// ZVC, zero-value compression: a mask has one bit per value, and only the non-zero values are stored.
// This is the format of cDMA (Rhu et al., HPCA 2018), except that all masks of a chunk precede its values.
//
// A chunk of n values has one mask word per window of 32 values. First all masks are stored, then the values:
//
//   u32 mask[ceil(n / 32)]      bit i of mask[j] is set if value 32 j + i is not zero. The unused high bits of
//                               the last mask are 0
//   T   values[ones]            the non-zero values in order; `ones` is the number of 1 bits in all masks
//
// The size is 4 * ceil(n / 32) + sizeof(T) * ones bytes. If this is n * sizeof(T) or more, the chunk is incompressible.
// A value is zero if all its bits are zero, so -0.0, NaN payloads and denormals survive. Host and device write the same
// bytes. Decoders reject a chunk if its size is not the one that its masks give, if it is not smaller than its values,
// or if the last mask has an unused bit that is 1.
//
// packed_zvc (rle.hpp) has the same id, with mode 1.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/masks.hpp>

namespace tuck::inline TUCK_ABI {

/// Codec for scattered zeros: one mask bit per value, followed by the non-zero values. Lossless.
/// As a splitter in a chain: the masks are the side stream, and the non-zero values are the residual values.
/// concept.hpp documents the members that are not described here.
/// @tparam T element type
template <element T> struct zvc : plain_codec<zvc<T>, T, codec_id::zvc> {
  template <element U> using rebind = zvc<U>;  ///< for by_width
  using residual_type = T;

  /// Returns the size of the masks of `count` values in bytes.
  TUCK_HD static constexpr uint32_t mask_bytes(uint32_t count) noexcept { return 4 * mask_words(count); }
#if defined(TUCK_HOST)
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept;
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;
#endif

  static constexpr uint32_t max_growth = 0;
  TUCK_HD static constexpr uint32_t side_bytes(const_bytes, uint32_t count) noexcept { return mask_bytes(count); }
  TUCK_HD static constexpr bool side_fits(uint32_t side, uint32_t, uint32_t count) noexcept {
    return side == mask_bytes(count);
  }
};

#if defined(TUCK_HOST)
template <element T> uint32_t zvc<T>::encode_chunk(span<const T> values, bytes out) const noexcept {
  const auto count = static_cast<uint32_t>(values.size());
  const uint32_t side = mask_bytes(count), raw = this->max_chunk_bytes(count);
  if (side >= raw) return incompressible;
  std::byte* const masks = out.data();
  const std::byte* const end =
      value_loops<sizeof(T)>::mask_and_pack(as_bytes(values).data(), count, masks, masks + side, masks + raw);
  return end == nullptr || end == masks + raw ? incompressible : static_cast<uint32_t>(end - masks);
}

template <element T> status zvc<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  const auto count = static_cast<uint32_t>(restored.size());
  const std::byte *const masks = encoded.data(), *const packed = masks + mask_bytes(count);
  if (encoded.size() < mask_bytes(count) || encoded.size() >= restored.size_bytes()) return status::bad_payload;
  const uint32_t tail = count % mask_window;
  if (tail != 0 && (load_unaligned<uint32_t>(masks + count / mask_window * 4) & ~low_mask(tail)) != 0)
    return status::bad_payload;
  const uint64_t residuals = count_ones(masks, mask_bytes(count));
  if (encoded.size() != mask_bytes(count) + residuals * sizeof(T)) return status::bad_payload;
  mask_loops<ones::non_zeros, sizeof(T)>::spread(masks, packed, packed + residuals * sizeof(T),
                                                 as_writable_bytes(restored).data(), count);
  return status::ok;
}

#endif

static_assert(splitter<zvc<float>>);

}  // namespace tuck::inline TUCK_ABI
