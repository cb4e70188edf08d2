// RLE, run-length encoding by masks: a mask has one bit per value, and only the values at the ones of the mask are
// stored. Runs can have any length. An isolated value costs one bit more than its own size.
//
// The mask of a chunk of n values v[0] to v[n-1] has one of two kinds. Values are compared as bit patterns, so -0.0,
// NaN payloads and denormals survive.
//
//   kind  bit i is set if               v[i] is
//   0     v[i] is not zero              the stored value of bit i if bit i is set, else 0
//   1     v[i] != v[i-1], with v[-1]=0  the stored value of the last set bit at or before i; 0 without such a bit
//
// The encoder takes the kind with fewer ones in the chunk, and kind 0 if they are equal. Bit i of the mask is bit i % 8
// of mask byte i / 8. Group g is the mask bytes 8 g to 8 g + 7. A chunk has
//
//   u8  kind, 0, 0, 0
//   u32 L2[ceil(n / 2048)]  bit g % 32 of L2[g / 32] is set if group g has a non-zero byte
//   u8  L1[popcount(L2)]    for each such group in order: bit b is set if byte b of the group is not zero
//   u8  L0[popcount(L1)]    the non-zero mask bytes in order
//   u8  0[]                 up to a multiple of sizeof(T) from the beginning of the chunk
//   T   values[]            the values at the ones of the mask, in order
//
// The bits of L2 after the last group and the mask bits after value n - 1 are 0. If a chunk would have n sizeof(T)
// bytes or more, it is incompressible. Host and device write the same bytes. Decoders reject chunks of other sizes,
// chunks that are not smaller than their values, unused bits and padding that are not zero, zero bytes in L1 and L0,
// and other kinds.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/masks.hpp>

namespace tuck::inline TUCK_ABI {

/// Codec for runs of any value: takes the mask kind with fewer ones in each chunk. Lossless.
/// In chains the side stream is everything before the values, and the residual values are those at the ones.
/// concept.hpp documents the members that are not described here.
/// @tparam T element type
template <element T> struct rle : plain_codec<rle<T>, T, codec_id::rle> {
  template <element U> using rebind = rle<U>;  ///< for by_width
  using residual_type = T;

  static constexpr uint32_t group = 64;  ///< values per 8 mask bytes

#if defined(TUCK_HOST)
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept;
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;
  static uint32_t side_bytes(const_bytes encoded, uint32_t count) noexcept {
    counts of_mask;
    return read_counts(encoded, count, of_mask) ? of_mask.values_begin(count) : 0;
  }
#endif

  static constexpr uint32_t max_growth = 0;
  TUCK_HD static constexpr bool side_fits(uint32_t side, uint32_t, uint32_t count) noexcept {
    return side >= l1_begin(count) && side % sizeof(T) == 0;
  }

  /// Returns the number of groups of `count` values.
  TUCK_HD static constexpr uint32_t groups(uint32_t count) noexcept { return ceil_div(count, group); }
  /// Returns the offset of L1 in bytes.
  TUCK_HD static constexpr uint32_t l1_begin(uint32_t count) noexcept { return 4 + 4 * ceil_div(count, 32 * group); }
  /// Returns the offset of the values in bytes: `l0_end`, rounded up to a multiple of sizeof(T).
  TUCK_HD static constexpr uint32_t values_begin(uint32_t l0_end) noexcept {
    constexpr uint32_t low = sizeof(T) - 1;
    return (l0_end + low) & ~low;
  }

#if defined(TUCK_HOST)
 private:
  static constexpr uint32_t most_groups = max_chunk_raw_bytes / sizeof(T) / group;

  // The number of groups with a non-zero byte, of non-zero mask bytes, and of ones in the mask.
  struct counts {
    uint32_t groups = 0, bytes = 0, ones = 0;

    constexpr uint32_t l0_begin(uint32_t count) const noexcept { return l1_begin(count) + groups; }
    constexpr uint32_t l0_end(uint32_t count) const noexcept { return l0_begin(count) + bytes; }
    constexpr uint32_t values_begin(uint32_t count) const noexcept { return rle::values_begin(l0_end(count)); }
    constexpr uint64_t size(uint32_t count) const noexcept { return values_begin(count) + uint64_t{ones} * sizeof(T); }
  };
  // Each level is the mask of the non-zero bytes of the level below.
  struct levels {
    std::byte l0[8 * most_groups], l1[most_groups + 4], l2[(most_groups + 31) / 32 * 4];
  };

  using non_zeros = mask_loops<ones::non_zeros, sizeof(T)>;
  using changes = mask_loops<ones::changes, sizeof(T)>;
  using bytes_of_masks = mask_loops<ones::non_zeros, 1>;

  static bool read_counts(const_bytes encoded, uint32_t count, counts& of_mask) noexcept;
  static bool read_levels(const std::byte* encoded, const counts& of_mask, uint32_t count, levels& masks) noexcept;
#endif
};

#if defined(TUCK_HOST)
template <element T> uint32_t rle<T>::encode_chunk(span<const T> values, bytes out) const noexcept {
  const auto count = static_cast<uint32_t>(values.size());
  const uint32_t all_groups = groups(count);
  if (all_groups > most_groups) return incompressible;
  const std::byte* const from = as_bytes(values).data();
  levels masks;
  counts of_mask;
  uint32_t kind = 0;
  of_mask.ones = non_zeros::masks_of(from, count, masks.l0);
  std::byte of_changes_mask[8 * most_groups];
  const uint32_t of_changes = changes::masks_of(from, count, of_changes_mask);
  if (of_changes < of_mask.ones) {
    kind = 1;
    of_mask.ones = of_changes;
    std::memcpy(masks.l0, of_changes_mask, 4 * mask_words(count));
  }
  std::memset(masks.l0 + 4 * mask_words(count), 0, 8 * all_groups - 4 * mask_words(count));
  of_mask.bytes = bytes_of_masks::masks_of(masks.l0, 8 * all_groups, masks.l1);
  of_mask.groups = bytes_of_masks::masks_of(masks.l1, all_groups, masks.l2);
  if (of_mask.size(count) >= values.size_bytes()) return incompressible;

  // `pack` may write past the end of a level; the next level overwrites that.
  std::byte* const to = out.data();
  const std::byte* const end = to + values.size_bytes();
  store_unaligned(to, kind);
  std::memcpy(to + 4, masks.l2, l1_begin(count) - 4);
  value_loops<1>::pack(masks.l1, all_groups, masks.l2, to + l1_begin(count), end);
  value_loops<1>::pack(masks.l0, 8 * all_groups, masks.l1, to + of_mask.l0_begin(count), end);
  const uint32_t begin = of_mask.values_begin(count);
  std::memset(to + of_mask.l0_end(count), 0, begin - of_mask.l0_end(count));
  value_loops<sizeof(T)>::pack(from, count, masks.l0, to + begin, end);
  return static_cast<uint32_t>(of_mask.size(count));
}

template <element T> status rle<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  const auto count = static_cast<uint32_t>(restored.size());
  if (encoded.size() >= restored.size_bytes() || groups(count) > most_groups) return status::bad_payload;
  counts of_mask;
  if (!read_counts(encoded, count, of_mask) || of_mask.size(count) != encoded.size()) return status::bad_payload;
  const auto kind = load_unaligned<uint32_t>(encoded.data());  // includes the three zeros
  if (kind > 1) return status::bad_payload;
  for (uint32_t i = of_mask.l0_end(count); i < of_mask.values_begin(count); ++i)
    if (encoded[i] != std::byte{}) return status::bad_payload;
  levels masks;
  if (!read_levels(encoded.data(), of_mask, count, masks)) return status::bad_payload;
  const std::byte* const packed = encoded.data() + of_mask.values_begin(count);
  const std::byte* const end = encoded.data() + encoded.size();
  std::byte* const to = as_writable_bytes(restored).data();
  if (kind == 0)
    non_zeros::spread(masks.l0, packed, end, to, count);
  else
    changes::spread(masks.l0, packed, end, to, count);
  return status::ok;
}

// Counts the mask of `encoded`. Returns false if `encoded` is too short for the bytes before the values.
template <element T> bool rle<T>::read_counts(const_bytes encoded, uint32_t count, counts& of_mask) noexcept {
  const std::byte* const from = encoded.data();
  const uint32_t l1 = l1_begin(count);
  if (encoded.size() < l1) return false;
  of_mask.groups = count_ones(from + 4, l1 - 4);
  if (encoded.size() < of_mask.l0_begin(count)) return false;
  of_mask.bytes = count_ones(from + l1, of_mask.groups);
  if (encoded.size() < of_mask.values_begin(count)) return false;
  of_mask.ones = count_ones(from + of_mask.l0_begin(count), of_mask.bytes);
  return true;
}

// Restores the mask. Returns false if a level is not what encode writes, or has bits past its end.
template <element T>
bool rle<T>::read_levels(const std::byte* encoded, const counts& of_mask, uint32_t count, levels& masks) noexcept {
  const uint32_t all_groups = groups(count), tail = count % group;
  const std::byte *const l1 = encoded + l1_begin(count), *const l0 = encoded + of_mask.l0_begin(count);
  std::memset(masks.l1 + all_groups, 0, 4);
  bytes_of_masks::spread(encoded + 4, l1, l0, masks.l1, all_groups);
  bytes_of_masks::spread(masks.l1, l0, l0 + of_mask.bytes, masks.l0, 8 * all_groups);
  // Every stored byte must be non-zero and inside its level. Then each level has as many non-zero bytes as the level
  // above has ones.
  std::byte above[most_groups + 4];
  if (bytes_of_masks::masks_of(masks.l1, all_groups, above) != of_mask.groups) return false;
  if (bytes_of_masks::masks_of(masks.l0, 8 * all_groups, above) != of_mask.bytes) return false;
  return tail == 0 || load_unaligned<uint64_t>(masks.l0 + 8 * all_groups - 8) >> tail == 0;
}
#endif

static_assert(splitter<rle<float>>);

}  // namespace tuck::inline TUCK_ABI
