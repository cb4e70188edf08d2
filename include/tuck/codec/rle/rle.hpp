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
// mask, as u32 words of 32 bits of which bit i % 32 of word i / 32 is bit i, is stored in three levels:
//
//   u8  kind, 0, 0, 0
//   u32 L2[ceil(n / 1024)]  bit w % 32 of L2[w / 32]: mask word w is not zero
//   u4  L1[]                for each mask word that is not zero, in order: bit b: its byte b (bits 8 b to 8 b + 7) is
//                           not zero. Two to a byte, the first in the low half
//   u8  L0[]                the mask bytes that are not zero, in order
//   T   values[]            the values at the ones, in order
//
// All that is unused is zero: the last half byte of an odd number of L1, L2's bits past the last word, the mask's
// bits past n, and the 0 to sizeof(T) - 1 bytes between L0 and the values, which begin at a multiple of sizeof(T) from
// the chunk's begin. No chunk has as many bytes as its values; where it would, encoding declines. The bytes
// are canonical: host and device write the same. Decoders refuse other sizes, anything unused that is not zero, nibbles
// of L1 and bytes of L0 that are zero, and kinds that the codec does not write.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/masks.hpp>

namespace tuck::inline TUCK_ABI {

// Sizes and places in a chunk, for all that read or write one.
template <element T> struct rle_layout {
  static constexpr uint32_t window = mask_window;

  TUCK_HD static constexpr uint32_t l2_words(uint32_t count) noexcept { return ceil_div(count, window * window); }
  TUCK_HD static constexpr uint32_t l1_begin(uint32_t count) noexcept { return 4 + 4 * l2_words(count); }
  TUCK_HD static constexpr uint32_t l0_begin(uint32_t count, uint32_t words) noexcept {
    return l1_begin(count) + ceil_div(words, 2u);
  }
  TUCK_HD static constexpr uint32_t values_begin(uint32_t l0_end) noexcept {
    constexpr uint32_t low = sizeof(T) - 1;
    return (l0_end + low) & ~low;
  }

  // Which bytes of a mask word are not zero.
  TUCK_HD static constexpr uint32_t nibble_of(uint32_t mask) noexcept {
    const uint32_t top_bits = (((mask & 0x7f7f7f7fu) + 0x7f7f7f7fu) | mask) & 0x80808080u;
    return top_bits * 0x00204081u >> 28;
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
  static constexpr uint32_t window = layout::window;
  static constexpr uint32_t most_words = max_chunk_raw_bytes / sizeof(T) / window;

  struct counts : mask_counts {
    TUCK_HD constexpr uint32_t l0_end(uint32_t count) const noexcept { return layout::l0_begin(count, words) + bytes; }
    TUCK_HD constexpr uint32_t values_begin(uint32_t count) const noexcept {
      return layout::values_begin(l0_end(count));
    }
    TUCK_HD constexpr uint64_t size(uint32_t count) const noexcept {
      return values_begin(count) + uint64_t{ones} * sizeof(T);
    }
  };

  TUCK_HD static void add_bits(std::byte& to, uint32_t bits) noexcept {  // std::byte's operators are the host's
    to = static_cast<std::byte>(static_cast<uint32_t>(to) | bits);
  }
  TUCK_HD static void write_levels(const std::byte* masks, uint32_t kind, const counts&, uint32_t count,
                                   std::byte* to) noexcept;
  TUCK_HD static bool read_counts(const_bytes encoded, uint32_t count, counts& of_mask) noexcept;
  TUCK_HD static uint32_t read_mask(uint32_t nibble, const std::byte*& l0) noexcept;
  TUCK_HD static void read_levels(const std::byte* encoded, const counts&, uint32_t count, std::byte* masks) noexcept;
};

// Whichever kind has fewer ones, chunk by chunk: runs of anything.
template <element T> struct rle : rle_codec<T, codec_id::rle, 2> {};

// Kind 0 always: runs of zeros, encoded faster.
template <element T> struct rle_zero : rle_codec<T, codec_id::rle_zero, 1> {};

template <element T, codec_id Id, uint32_t Kinds>
TUCK_HD uint32_t rle_codec<T, Id, Kinds>::encode_chunk(span<const T> values, bytes room) const noexcept {
  const auto count = static_cast<uint32_t>(values.size());
  const uint32_t words = mask_words(count);
  if (words > most_words) return declined;
  std::byte masks[Kinds][4 * most_words];
  counts of_kind[Kinds];
  for (uint32_t kind = 0; kind < Kinds; ++kind) {
    masks_of(values, kind == 0 ? ones::non_zeros : ones::changes, masks[kind]);
    of_kind[kind] = {count_mask(masks[kind], words)};
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
  if (mask_words(count) > most_words) return status::bad_payload;
  const auto kind = load_unaligned<uint32_t>(encoded.data());  // and the three zeros behind it
  if (kind >= Kinds) return status::bad_payload;
  counts of_mask;
  if (!read_counts(encoded, count, of_mask) || of_mask.size(count) != encoded.size()) return status::bad_payload;
  for (uint32_t i = of_mask.l0_end(count); i < of_mask.values_begin(count); ++i)
    if (encoded[i] != std::byte{}) return status::bad_payload;
  std::byte masks[4 * most_words];
  read_levels(encoded.data(), of_mask, count, masks);
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
  const uint32_t l1_begin = layout::l1_begin(count), l0_begin = layout::l0_begin(count, of_mask.words);
  std::memset(to, 0, l0_begin);
  store_unaligned(to, kind);
  std::byte* l0 = to + l0_begin;
  uint32_t words = 0;
  for (uint32_t word = 0; word < mask_words(count); ++word) {
    const auto mask = load_unaligned<uint32_t>(masks + 4 * word);
    if (mask == 0) continue;
    add_bits(to[4 + word / 8], 1u << word % 8);
    add_bits(to[l1_begin + words / 2], layout::nibble_of(mask) << words % 2 * 4);
    ++words;
    for (uint32_t b = 0; b < 4; ++b) {
      const uint32_t byte = mask >> (8 * b) & 0xff;
      *l0 = static_cast<std::byte>(byte);  // one too far at the end: the padding or a value comes later
      l0 += byte != 0;
    }
  }
  std::memset(to + of_mask.l0_end(count), 0, of_mask.values_begin(count) - of_mask.l0_end(count));
}

// Counts the mask that `encoded`, at least l1_begin(count) bytes, holds. False where a level does not fit in, or one is
// not what write_levels writes.
template <element T, codec_id Id, uint32_t Kinds>
TUCK_HD bool rle_codec<T, Id, Kinds>::read_counts(const_bytes encoded, uint32_t count, counts& of_mask) noexcept {
  const std::byte* const from = encoded.data();
  const uint32_t l1_begin = layout::l1_begin(count), words = mask_words(count);
  uint32_t last = 0;
  for (uint32_t at = 4; at < l1_begin; at += 4) {
    last = load_unaligned<uint32_t>(from + at);
    of_mask.words += popcount(last);
  }
  if (words % window != 0 && (last & ~low_mask(words % window)) != 0) return false;

  const uint32_t l0_begin = layout::l0_begin(count, of_mask.words);
  if (encoded.size() < l0_begin) return false;
  uint32_t last_nibble = 0;
  for (uint32_t i = 0; i < of_mask.words; ++i) {
    last_nibble = static_cast<uint32_t>(from[l1_begin + i / 2]) >> i % 2 * 4 & 15;
    if (last_nibble == 0) return false;
    of_mask.bytes += popcount(last_nibble);
  }
  if (of_mask.words % 2 != 0 && static_cast<uint32_t>(from[l0_begin - 1]) >> 4 != 0) return false;

  const uint32_t l0_end = of_mask.l0_end(count);
  if (encoded.size() < l0_end) return false;
  uint32_t at = l0_begin;
  for (; at + 4 <= l0_end; at += 4) {
    const auto four = load_unaligned<uint32_t>(from + at);
    if (layout::nibble_of(four) != 15) return false;
    of_mask.ones += popcount(four);
  }
  for (; at < l0_end; ++at) {
    if (from[at] == std::byte{}) return false;
    of_mask.ones += popcount(static_cast<uint32_t>(from[at]));
  }

  // Of the mask's bits past the end only those of the last word can be set, where that is not zero.
  if (count % window == 0 || (last >> (words - 1) % window & 1) == 0) return true;
  const std::byte* l0 = from + l0_end - popcount(last_nibble);
  return l0_end < encoded.size() && (read_mask(last_nibble, l0) & ~low_mask(count % window)) == 0;
}

// Puts a mask word together and steps past its bytes. Reads one byte behind them.
template <element T, codec_id Id, uint32_t Kinds>
TUCK_HD uint32_t rle_codec<T, Id, Kinds>::read_mask(uint32_t nibble, const std::byte*& l0) noexcept {
  uint32_t mask = 0;
  for (uint32_t b = 0; b < 4; ++b) {
    const uint32_t there = nibble >> b & 1;
    mask |= (static_cast<uint32_t>(*l0) & (0 - there)) << (8 * b);
    l0 += there;
  }
  return mask;
}

// The mask that write_levels wrote.
template <element T, codec_id Id, uint32_t Kinds>
TUCK_HD void rle_codec<T, Id, Kinds>::read_levels(const std::byte* encoded, const counts& of_mask, uint32_t count,
                                                  std::byte* masks) noexcept {
  const std::byte* const l1 = encoded + layout::l1_begin(count);
  const std::byte* l0 = encoded + layout::l0_begin(count, of_mask.words);
  uint32_t words = 0;
  for (uint32_t word = 0; word < mask_words(count); ++word) {
    uint32_t mask = 0;
    if ((static_cast<uint32_t>(encoded[4 + word / 8]) >> word % 8 & 1) != 0) {
      mask = read_mask(static_cast<uint32_t>(l1[words / 2]) >> words % 2 * 4 & 15, l0);
      ++words;
    }
    store_unaligned(masks + 4 * word, mask);
  }
}

static_assert(splitter<rle<float>> && splitter<rle_zero<float>>);

}  // namespace tuck::inline TUCK_ABI
