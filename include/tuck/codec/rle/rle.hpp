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

  // Which bytes of half a group are not zero.
  TUCK_HD static constexpr uint32_t nibble_of(uint32_t mask) noexcept {
    return detail::non_zero_bytes(mask) * 0x00204081u >> 28;
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
  TUCK_HD static uint32_t side_bytes(const_bytes encoded, uint32_t count) noexcept {
    counts of_mask;
    return read_counts(encoded, count, of_mask) ? of_mask.values_begin(count) : 0;
  }
  TUCK_HD static constexpr bool side_fits(uint32_t side, uint32_t, uint32_t count) noexcept {
    return side >= layout::l1_begin(count) && side % sizeof(T) == 0;
  }

 private:
  static constexpr uint32_t most_groups = max_chunk_raw_bytes / sizeof(T) / layout::group;

  struct counts : mask_counts {
    TUCK_HD constexpr uint32_t l0_begin(uint32_t count) const noexcept { return layout::l1_begin(count) + groups; }
    TUCK_HD constexpr uint32_t l0_end(uint32_t count) const noexcept { return l0_begin(count) + bytes; }
    TUCK_HD constexpr uint32_t values_begin(uint32_t count) const noexcept {
      return layout::values_begin(l0_end(count));
    }
    TUCK_HD constexpr uint64_t size(uint32_t count) const noexcept {
      return values_begin(count) + uint64_t{ones} * sizeof(T);
    }
  };

  TUCK_HD static void write_levels(const std::byte* masks, uint32_t kind, const counts&, uint32_t count,
                                   std::byte* to) noexcept;
  TUCK_HD static bool read_counts(const_bytes encoded, uint32_t count, counts& of_mask) noexcept;
  TUCK_HD static bool read_levels(const std::byte* encoded, const counts&, uint32_t count, std::byte* masks) noexcept;
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
  counts of_kind[Kinds];
  for (uint32_t kind = 0; kind < Kinds; ++kind) {
    masks_of(values, kind == 0 ? ones::non_zeros : ones::changes, masks[kind]);
    of_kind[kind] = {count_mask(masks[kind], mask_words(count))};
  }
  const uint32_t kind = Kinds == 2 && of_kind[Kinds - 1].ones < of_kind[0].ones;
  const counts& chosen = of_kind[kind];
  if (chosen.size(count) >= values.size_bytes()) return declined;
  std::byte* const out = room.data();
  write_levels(masks[kind], kind, chosen, count, out);
  std::byte* const end = pack(values, masks[kind], out + chosen.values_begin(count), out + values.size_bytes());
  return static_cast<uint32_t>(end - out);
}

template <element T, codec_id Id, uint32_t Kinds>
TUCK_HD status rle_codec<T, Id, Kinds>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  const auto count = static_cast<uint32_t>(restored.size());
  if (encoded.size() >= restored.size_bytes() || encoded.size() < layout::l1_begin(count)) return status::bad_payload;
  if (layout::groups(count) > most_groups) return status::bad_payload;
  const auto kind = load_unaligned<uint32_t>(encoded.data());  // and the three zeros behind it
  if (kind >= Kinds) return status::bad_payload;
  counts of_mask;
  if (!read_counts(encoded, count, of_mask) || of_mask.size(count) != encoded.size()) return status::bad_payload;
  for (uint32_t i = of_mask.l0_end(count); i < of_mask.values_begin(count); ++i)
    if (encoded[i] != std::byte{}) return status::bad_payload;
  std::byte masks[8 * most_groups];
  if (!read_levels(encoded.data(), of_mask, count, masks)) return status::bad_payload;
  const std::byte* const packed = encoded.data() + of_mask.values_begin(count);
  const std::byte* const end = encoded.data() + encoded.size();
  if (kind == 0)
    spread<ones::non_zeros>(masks, packed, end, restored);
  else
    spread<ones::changes>(masks, packed, end, restored);
  return status::ok;
}

// All in front of the values.
template <element T, codec_id Id, uint32_t Kinds>
TUCK_HD void rle_codec<T, Id, Kinds>::write_levels(const std::byte* masks, uint32_t kind, const counts& of_mask,
                                                   uint32_t count, std::byte* to) noexcept {
  std::memset(to, 0, layout::l1_begin(count));
  store_unaligned(to, kind);
  std::byte *l1 = to + layout::l1_begin(count), *l0 = to + of_mask.l0_begin(count);
  for (uint32_t group = 0; group < layout::groups(count); ++group) {
    uint32_t not_zero = 0;
    for (uint32_t half = 0; half < 2 && 2 * group + half < mask_words(count); ++half) {
      const uint32_t mask = detail::mask_at(masks, 2 * group + half);
      if (mask == 0) continue;
      not_zero |= layout::nibble_of(mask) << 4 * half;
      for (uint32_t b = 0; b < 4; ++b) {
        const uint32_t byte = mask >> (8 * b) & 0xff;
        *l0 = static_cast<std::byte>(byte);  // one too far at the end: the padding or a value comes later
        l0 += byte != 0;
      }
    }
    if (not_zero == 0) continue;
    to[4 + group / 8] = static_cast<std::byte>(static_cast<uint32_t>(to[4 + group / 8]) | 1u << group % 8);
    *l1++ = static_cast<std::byte>(not_zero);
  }
  std::memset(to + of_mask.l0_end(count), 0, of_mask.values_begin(count) - of_mask.l0_end(count));
}

// Counts the mask that `encoded`, at least l1_begin(count) bytes, holds. False where a level does not fit in, or one is
// not what write_levels writes.
template <element T, codec_id Id, uint32_t Kinds>
TUCK_HD bool rle_codec<T, Id, Kinds>::read_counts(const_bytes encoded, uint32_t count, counts& of_mask) noexcept {
  const std::byte* const from = encoded.data();
  uint32_t last = 0;
  for (uint32_t at = 4; at < layout::l1_begin(count); at += 4) {
    last = load_unaligned<uint32_t>(from + at);
    of_mask.groups += popcount(last);
  }
  const uint32_t groups = layout::groups(count);
  if (groups % 32 != 0 && (last & ~low_mask(groups % 32)) != 0) return false;

  const auto count_bytes = [&](uint32_t begin, uint32_t end, uint32_t& bits) {
    if (encoded.size() < end) return false;
    uint32_t at = begin;
    for (; at + 4 <= end; at += 4) {
      const auto four = load_unaligned<uint32_t>(from + at);
      if (layout::nibble_of(four) != 15) return false;
      bits += popcount(four);
    }
    for (; at < end; ++at) {
      if (from[at] == std::byte{}) return false;
      bits += popcount(static_cast<uint32_t>(from[at]));
    }
    return true;
  };
  return count_bytes(layout::l1_begin(count), of_mask.l0_begin(count), of_mask.bytes) &&
         count_bytes(of_mask.l0_begin(count), of_mask.l0_end(count), of_mask.ones);
}

// The mask that write_levels wrote; false where bits are set past its end.
template <element T, codec_id Id, uint32_t Kinds>
TUCK_HD bool rle_codec<T, Id, Kinds>::read_levels(const std::byte* encoded, const counts& of_mask, uint32_t count,
                                                  std::byte* masks) noexcept {
  const std::byte *l1 = encoded + layout::l1_begin(count), *l0 = encoded + of_mask.l0_begin(count);
  const uint32_t groups = layout::groups(count);
  for (uint32_t group = 0; group < groups; ++group) {
    uint64_t eight = 0;
    if ((static_cast<uint32_t>(encoded[4 + group / 8]) >> group % 8 & 1) != 0) {
      const auto not_zero = static_cast<uint32_t>(*l1++);
      for (uint32_t b = 0; b < 8; ++b)
        if ((not_zero >> b & 1) != 0) eight |= uint64_t{static_cast<uint8_t>(*l0++)} << (8 * b);
    }
    store_unaligned(masks + 8 * group, eight);
    if (const uint32_t tail = count % layout::group; group + 1 == groups && tail != 0 && eight >> tail != 0)
      return false;
  }
  return true;
}

static_assert(splitter<rle<float>> && splitter<rle_zero<float>>);

}  // namespace tuck::inline TUCK_ABI
