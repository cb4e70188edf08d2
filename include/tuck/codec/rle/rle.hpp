// RLE, run-length encoding by masks: a bit a value says whether it begins a run, and only the values at the ones are
// kept. Runs have any length, and what stands alone costs one bit.
//
// The mask of a chunk of n values is of one of two kinds. Values are compared as bit patterns, so -0.0, NaN payloads
// and denormals survive.
//
//   0  bit i: v[i] is not zero          v[i] = bit i ? the value of the last one up to i : 0
//   1  bit i: v[i] != v[i-1], v[-1] = 0  v[i] = there is a one up to i ? the value of the last one : 0
//
// rle takes the kind with fewer ones in the chunk, kind 0 where they are equal; rle_zero always takes kind 0. The
// mask's byte i / 8 has bit i as its bit i % 8. It is stored in three levels:
//
//   u8  kind, 0, 0, 0
//   u32 L2[ceil(n / 2048)]  bit g % 32 of L2[g / 32]: of the mask bytes 8 g to 8 g + 7, a group, any is not zero
//   u8  L1[]                for each such group, in order: bit b: its byte b is not zero
//   u8  L0[]                the mask bytes that are not zero, in order
//   T   values[]            the values at the ones, in order
//
// All that is unused is zero: L2's bits past the last group, the mask's bits past n, and the 0 to sizeof(T) - 1 bytes
// between L0 and the values, which begin at a multiple of sizeof(T) from the chunk's begin. No chunk has as many bytes
// as its values; where it would, encoding declines. The bytes are canonical: host and device write the same. Decoders
// refuse other sizes, anything unused that is not zero, bytes of L1 and L0 that are zero, and kinds that the codec does
// not write.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/masks.hpp>

namespace tuck::inline TUCK_ABI {

// Sizes and places in a chunk, for all that read or write one.
template <element T> struct rle_layout {
  static constexpr uint32_t group = 64;  // values of 8 mask bytes

  TUCK_HD static constexpr uint32_t groups(uint32_t count) noexcept { return ceil_div(count, group); }
  TUCK_HD static constexpr uint32_t l1_begin(uint32_t count) noexcept { return 4 + 4 * ceil_div(count, 32 * group); }
  TUCK_HD static constexpr uint32_t values_begin(uint32_t l0_end) noexcept {
    constexpr uint32_t low = sizeof(T) - 1;
    return (l0_end + low) & ~low;
  }

  // Which bytes of a group are not zero.
  TUCK_HD static constexpr uint32_t non_zeros(uint32_t low, uint32_t high) noexcept {
    return detail::non_zero_bytes(low) * 0x00204081u >> 28 | detail::non_zero_bytes(high) * 0x00204081u >> 28 << 4;
  }
};

// What the two codecs share, which differ in the kinds that they write and read.
template <element T, codec_id Id, uint32_t Kinds> struct rle_codec {
  using value_type = T;
  using kept_type = T;  // in chains
  using layout = rle_layout<T>;

  static constexpr uint32_t kinds = Kinds;
  static constexpr uint32_t chunk_bytes = 16 * 1024;

  TUCK_HD static constexpr stage description() noexcept { return {.id = Id, .version = 1}; }
  TUCK_HD constexpr stage_list stages() const noexcept { return {{description()}}; }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, rle_codec&) noexcept {
    return match_single_stage(stages, description());
  }
  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count * uint32_t{sizeof(T)}; }
  TUCK_HD uint32_t encode_chunk(span<const T> values, bytes room) const noexcept;
  TUCK_HD status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

  static constexpr uint32_t max_growth = 0;
  TUCK_HD static uint32_t side_bytes(const_bytes encoded, uint32_t count) noexcept;  // 0 where they do not fit in
  TUCK_HD static constexpr bool side_fits(uint32_t side, uint32_t, uint32_t count) noexcept {
    return side >= layout::l1_begin(count) && side % sizeof(T) == 0;
  }

 private:
  static constexpr uint32_t most_groups = max_chunk_raw_bytes / sizeof(T) / layout::group;

  // Where L0 begins, behind as many bytes of L1 as L2 has ones.
  TUCK_HD static uint32_t l0_begin(const std::byte* encoded, uint32_t count) noexcept {
    return layout::l1_begin(count) + count_mask(encoded + 4, layout::l1_begin(count) / 4 - 1).ones;
  }
  TUCK_HD static void write_levels(const std::byte* masks, uint32_t count, std::byte* to, std::byte* l0) noexcept;
  TUCK_HD static bool read_levels(const std::byte* encoded, uint32_t side, uint32_t count, std::byte* masks) noexcept;
};

// Whichever kind has fewer ones, chunk by chunk: runs of anything.
template <element T> struct rle : rle_codec<T, codec_id::rle, 2> {};

// Kind 0 always: runs of zeros, encoded faster.
template <element T> struct rle_zero : rle_codec<T, codec_id::rle_zero, 1> {};

template <element T, codec_id Id, uint32_t Kinds>
TUCK_HD uint32_t rle_codec<T, Id, Kinds>::encode_chunk(span<const T> values, bytes room) const noexcept {
  const auto count = static_cast<uint32_t>(values.size());
  if (layout::groups(count) > most_groups) return declined;
  std::byte masks[Kinds][8 * most_groups];
  mask_counts of_kind[Kinds];
  for (uint32_t kind = 0; kind < Kinds; ++kind) {
    masks_of(values, kind == 0 ? ones::non_zeros : ones::changes, masks[kind]);
    of_kind[kind] = count_mask(masks[kind], mask_words(count));
  }
  const uint32_t kind = Kinds == 2 && of_kind[Kinds - 1].ones < of_kind[0].ones;
  const mask_counts& chosen = of_kind[kind];
  const uint32_t l0_begin = layout::l1_begin(count) + chosen.groups, l0_end = l0_begin + chosen.bytes;
  const uint32_t side = layout::values_begin(l0_end);
  if (side + uint64_t{chosen.ones} * sizeof(T) >= values.size_bytes()) return declined;
  std::byte* const out = room.data();
  std::memset(out, 0, layout::l1_begin(count));
  store_unaligned(out, kind);
  write_levels(masks[kind], count, out, out + l0_begin);
  std::memset(out + l0_end, 0, side - l0_end);
  return static_cast<uint32_t>(pack(values, masks[kind], out + side, out + values.size_bytes()) - out);
}

template <element T, codec_id Id, uint32_t Kinds>
TUCK_HD status rle_codec<T, Id, Kinds>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  const auto count = static_cast<uint32_t>(restored.size());
  if (encoded.size() >= restored.size_bytes() || layout::groups(count) > most_groups) return status::bad_payload;
  const uint32_t side = side_bytes(encoded, count);
  std::byte masks[8 * most_groups];
  if (side == 0 || !read_levels(encoded.data(), side, count, masks)) return status::bad_payload;
  const uint64_t kept = uint64_t{count_mask(masks, mask_words(count)).ones} * sizeof(T);
  const auto kind = load_unaligned<uint32_t>(encoded.data());  // and the three zeros behind it
  if (kind >= Kinds || side + kept != encoded.size()) return status::bad_payload;
  const std::byte* const packed = encoded.data() + side;
  if (kind == 0)
    spread<ones::non_zeros>(masks, packed, packed + kept, restored);
  else
    spread<ones::changes>(masks, packed, packed + kept, restored);
  return status::ok;
}

template <element T, codec_id Id, uint32_t Kinds>
TUCK_HD uint32_t rle_codec<T, Id, Kinds>::side_bytes(const_bytes encoded, uint32_t count) noexcept {
  const uint32_t l1_begin = layout::l1_begin(count);
  if (encoded.size() < l1_begin) return 0;
  const uint32_t l1_end = l0_begin(encoded.data(), count);
  if (encoded.size() < l1_end) return 0;
  uint32_t l0_end = l1_end;
  for (uint32_t i = l1_begin; i < l1_end; ++i) l0_end += popcount(static_cast<uint32_t>(encoded[i]));
  const uint32_t side = layout::values_begin(l0_end);
  return encoded.size() < side ? 0 : side;
}

// L2, behind which all is zero up to L1, L1 and L0.
template <element T, codec_id Id, uint32_t Kinds>
TUCK_HD void rle_codec<T, Id, Kinds>::write_levels(const std::byte* masks, uint32_t count, std::byte* to,
                                                   std::byte* l0) noexcept {
  std::byte* l1 = to + layout::l1_begin(count);
  for (uint32_t group = 0; group < layout::groups(count); ++group) {
    const uint32_t low = detail::mask_at(masks, 2 * group);
    const uint32_t high = 2 * group + 1 < mask_words(count) ? detail::mask_at(masks, 2 * group + 1) : 0;
    const uint32_t not_zero = layout::non_zeros(low, high);
    if (not_zero == 0) continue;
    to[4 + group / 8] = static_cast<std::byte>(static_cast<uint32_t>(to[4 + group / 8]) | 1u << group % 8);
    *l1++ = static_cast<std::byte>(not_zero);
    for (uint64_t eight = low | uint64_t{high} << 32; eight != 0; eight >>= 8) {
      *l0 = static_cast<std::byte>(eight);
      l0 += (eight & 0xff) != 0;
    }
  }
}

// The mask, from a side that fits in; false where encoding writes no such side.
template <element T, codec_id Id, uint32_t Kinds>
TUCK_HD bool rle_codec<T, Id, Kinds>::read_levels(const std::byte* encoded, uint32_t side, uint32_t count,
                                                  std::byte* masks) noexcept {
  const std::byte *l1 = encoded + layout::l1_begin(count), *const l1_end = encoded + l0_begin(encoded, count);
  const std::byte* l0 = l1_end;
  bool sound = true;
  uint64_t eight = 0;
  for (uint32_t group = 0; group < layout::groups(count); ++group) {
    eight = 0;
    if ((static_cast<uint32_t>(encoded[4 + group / 8]) >> group % 8 & 1) != 0) {
      const auto not_zero = static_cast<uint32_t>(*l1++);
      for (uint32_t b = 0; b < 8; ++b)
        if ((not_zero >> b & 1) != 0) eight |= uint64_t{static_cast<uint8_t>(*l0++)} << (8 * b);
      sound &= not_zero != 0 &&
               layout::non_zeros(static_cast<uint32_t>(eight), static_cast<uint32_t>(eight >> 32)) == not_zero;
    }
    store_unaligned(masks + 8 * group, eight);
  }
  if (const uint32_t tail = count % layout::group; tail != 0) sound &= eight >> tail == 0;
  sound &= l1 == l1_end;  // else L2 has bits past the last group
  while (l0 != encoded + side) sound &= *l0++ == std::byte{};
  return sound;
}

static_assert(splitter<rle<float>> && splitter<rle_zero<float>>);

}  // namespace tuck::inline TUCK_ABI
