// RLE, run-length encoding by masks: a mask has one bit per value, only the values at its ones are stored, and the mask
// compresses itself. Runs can have any length. packed_zvc is ZVC with such a mask.
//
// The mask of a chunk of n values v[0] to v[n-1] is of one of four kinds. Values are compared as bit patterns, so NaN
// payloads and denormals survive. -0 is the value of which only the highest bit is set, such as -0.0.
//
//   kind  bit i is set if               v[i] of a bit that is not set is
//   0     v[i] is not 0                 0
//   1     v[i] != v[i-1], with v[-1]=0  v[i-1]
//   2     v[i] is neither 0 nor -0      -0 if its sign is 1, else 0
//   3     v[i] is not -0                -0
//
// A chunk has
//
//   u32 head      bits 1 to 0: kind; bits 4 to 2: rule, and bit 5: is the mask packed (packed.hpp)? The others are 0
//   u8  mask[]    packed, or u32 mask[ceil(n / 32)] with bit i % 32 of mask[i / 32] for value i, and rule 0
//   u8  signs[]   of kind 2: one bit for each value whose bit is not set, in order, the lowest bit of a byte first
//   u8  0[]       up to a multiple of sizeof(T) from the beginning of the chunk
//   T   values[]  the values at the ones of the mask, in order
//
// Encoders take kind 0; or for floats 3, if there is -0 and no 0; or 2, if that takes fewer bytes for the signs than it
// saves of the values. rle, but not packed_zvc, then takes kind 1 if it has fewer than 15/16 of the ones. If a chunk would have n sizeof(T) bytes or more, it is incompressible. Host and device write the same
// bytes. Decoders reject chunks of other sizes, chunks that are not smaller than their values, kinds that the codec does
// not write, and unused bits and padding that are not 0.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/mask/packed.hpp>

namespace tuck::inline TUCK_ABI {

namespace detail {

// The first word of a chunk.
struct packed_head {
  enum kind_of_mask : uint32_t { zeros, runs, both_zeros, negative_zeros };

  uint32_t word;

  TUCK_HD static constexpr packed_head make(uint32_t kind, uint32_t rule, bool packed) noexcept {
    return {kind | (packed ? rule << 2 | 1u << 5 : 0)};
  }
  TUCK_HD constexpr uint32_t kind() const noexcept { return word & 3; }
  TUCK_HD constexpr uint32_t rule() const noexcept { return word >> 2 & 7; }
  TUCK_HD constexpr bool packed() const noexcept { return (word >> 5 & 1) != 0; }
  // Returns whether an encoder can have written it.
  TUCK_HD constexpr bool fits(bool has_runs) const noexcept {
    return word >> 6 == 0 && (packed() ? rule() < packed_masks::rules : rule() == 0) && (has_runs || kind() != runs);
  }
};

// What rle and packed_zvc have in common. Runs: whether a mask may be of kind 1.
template <class C, element T, codec_id Id, bool Runs> struct packed_mask_codec {
  using value_type = T;
  using residual_type = T;

  static constexpr uint32_t chunk_bytes = 16 * 1024;
  static constexpr bool has_runs = Runs;  ///< whether masks of kind 1 are written and read

  TUCK_HD static constexpr stage description() noexcept {
    return {.id = Id, .version = 1, .mode = Id == codec_id::zvc ? uint8_t{1} : uint8_t{0}};
  }
  TUCK_HD constexpr stage_list stages() const noexcept { return {{description()}}; }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, C&) noexcept {
    return match_single_stage(stages, description());
  }
  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count * uint32_t{sizeof(T)}; }

  // Returns the codec for values of type t: it looks for negative zeros if these are floats.
  TUCK_HD constexpr C of_type(dtype t) const noexcept {
    C codec{static_cast<const C&>(*this)};
    codec.floats = is_floating(t);
    return codec;
  }
  bool floats = floating_element<T>;

  static constexpr uint32_t max_growth = 0;
  TUCK_HD static constexpr bool side_fits(uint32_t side, uint32_t, uint32_t) noexcept {
    return side >= 4 && side % sizeof(T) == 0;
  }

  // Returns the bytes of the signs of `zeros` values of a kind.
  TUCK_HD static constexpr uint32_t sign_bytes(uint32_t kind, uint32_t zeros) noexcept {
    return kind == packed_head::both_zeros ? (zeros + 7) / 8 : 0;
  }
  // Returns the kind for zeros, if so many values are 0 or -0, and of them so many -0.
  TUCK_HD static constexpr uint32_t kind_of_zeros(uint32_t zeros, uint32_t negative) noexcept {
    if (negative == 0) return packed_head::zeros;
    if (negative == zeros) return packed_head::negative_zeros;
    return negative * uint32_t{sizeof(T)} > sign_bytes(packed_head::both_zeros, zeros) ? packed_head::both_zeros
                                                                                       : packed_head::zeros;
  }
  // Returns whether a mask of so many changes is better than one of so many ones.
  TUCK_HD static constexpr bool takes_runs(uint32_t changes, uint32_t ones) noexcept {
    return 16 * changes < 15 * ones;
  }
  // Returns the offset of the values, if what is before them ends at `end`.
  TUCK_HD static constexpr uint32_t values_begin(uint32_t end) noexcept {
    constexpr uint32_t low = sizeof(T) - 1;
    return (end + low) & ~low;
  }

#if defined(TUCK_HOST)
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept;
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;
  static uint32_t side_bytes(const_bytes encoded, uint32_t count) noexcept {
    packed_masks::host_mask mask(count);
    side of_mask;
    return read_side(encoded, count, mask, of_mask) ? of_mask.values_begin : 0;
  }

 private:
  using bits = bits_t<T>;
  static constexpr auto negative_zero = static_cast<bits>(bits{1} << (8 * sizeof(T) - 1));

  struct side {
    uint32_t kind, ones, signs_begin, values_begin;
  };

  static uint32_t count_negative_zeros(const std::byte* from, uint32_t count) noexcept;
  static bool read_side(const_bytes encoded, uint32_t count, packed_masks::host_mask& mask, side& of_mask) noexcept;
  // Calls visit(i) for each value i whose bit is not set.
  template <class Visit>
  static void each_zero(const packed_masks::host_mask& mask, uint32_t count, const Visit& visit) noexcept {
    for (uint32_t w = 0; w < mask_words(count); ++w)
      for (uint32_t x = ~mask.words[w] & packed_masks::valid_bits(w, count); x != 0; x &= x - 1)
        visit(32 * w + trailing_zeros(x));
  }
#endif
};

#if defined(TUCK_HOST)
template <class C, element T, codec_id Id, bool Runs>
uint32_t packed_mask_codec<C, T, Id, Runs>::encode_chunk(span<const T> values, bytes out) const noexcept {
  using non_zeros = mask_loops<ones::non_zeros, sizeof(T)>;
  using changes = mask_loops<ones::changes, sizeof(T)>;
  if (values.size_bytes() > max_chunk_raw_bytes) return incompressible;
  const auto count = static_cast<uint32_t>(values.size());
  const std::byte* const from = as_bytes(values).data();
  packed_masks::host_mask mask(count);
  auto* const words = reinterpret_cast<std::byte*>(mask.words);
  uint32_t kind = packed_head::zeros, ones = non_zeros::masks_of(from, count, words);
  if (floats)
    if (const uint32_t negative = count_negative_zeros(from, count); negative != 0) {
      kind = kind_of_zeros(count - ones + negative, negative);
      if (kind != packed_head::zeros) ones -= negative;
    }
  if constexpr (Runs) {
    std::byte of_changes[4 * packed_masks::host_mask::most_words];
    if (const uint32_t n = changes::masks_of(from, count, of_changes); takes_runs(n, ones)) {
      kind = packed_head::runs;
      ones = n;
      std::memcpy(words, of_changes, 4 * mask_words(count));
    }
  }
  const uint32_t zeros = count - ones, of_signs = sign_bytes(kind, zeros);
  std::byte signs[max_chunk_raw_bytes / sizeof(T) / 8];
  if (kind >= packed_head::both_zeros) {
    for (uint32_t i = 0; i < count; ++i)
      if (bits_at(values.data(), i) == negative_zero) mask.words[i / 32] &= ~(1u << i % 32);
    std::memset(signs, 0, of_signs);
    uint32_t at = 0;
    if (of_signs != 0)
      each_zero(mask, count, [&](uint32_t i) {
        if (bits_at(values.data(), i) != 0) signs[at / 8] |= std::byte{1} << at % 8;
        ++at;
      });
  }

  const uint32_t plain_bytes = 4 * mask_words(count), packed_bytes = mask.pack(sizeof(T));
  const bool packs = packed_bytes < plain_bytes;
  const uint32_t signs_begin = 4 + (packs ? packed_bytes : plain_bytes);
  const uint32_t begin = values_begin(signs_begin + of_signs), all = begin + ones * uint32_t{sizeof(T)};
  if (all >= values.size_bytes()) return incompressible;
  std::byte* const to = out.data();
  store_unaligned(to, packed_head::make(kind, mask.rule(), packs).word);
  if (packs)
    mask.write(to + 4);
  else
    std::memcpy(to + 4, words, plain_bytes);
  std::memcpy(to + signs_begin, signs, of_signs);
  std::memset(to + signs_begin + of_signs, 0, begin - signs_begin - of_signs);
  value_loops<sizeof(T)>::pack(from, count, words, to + begin, to + values.size_bytes());
  return all;
}

template <class C, element T, codec_id Id, bool Runs>
status packed_mask_codec<C, T, Id, Runs>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  const auto count = static_cast<uint32_t>(restored.size());
  if (encoded.size() >= restored.size_bytes() || restored.size_bytes() > max_chunk_raw_bytes)
    return status::bad_payload;
  packed_masks::host_mask mask(count);
  side s;
  if (!read_side(encoded, count, mask, s) || s.values_begin + uint64_t{s.ones} * sizeof(T) != encoded.size())
    return status::bad_payload;
  const auto* const words = reinterpret_cast<const std::byte*>(mask.words);
  const std::byte* const packed = encoded.data() + s.values_begin;
  const std::byte* const end = encoded.data() + encoded.size();
  std::byte* const to = as_writable_bytes(restored).data();
  if (Runs && s.kind == packed_head::runs) {
    mask_loops<ones::changes, sizeof(T)>::spread(words, packed, end, to, count);
    return status::ok;
  }
  mask_loops<ones::non_zeros, sizeof(T)>::spread(words, packed, end, to, count);
  if (s.kind == packed_head::zeros) return status::ok;
  const std::byte* const signs = encoded.data() + s.signs_begin;
  uint32_t at = 0;
  each_zero(mask, count, [&](uint32_t i) {
    if (s.kind == packed_head::negative_zeros || (signs[at / 8] >> at % 8 & std::byte{1}) != std::byte{})
      store_unaligned(to + i * sizeof(T), negative_zero);
    ++at;
  });
  return status::ok;
}

// Reads what is before the values. Returns false if encoding does not write such bytes.
template <class C, element T, codec_id Id, bool Runs>
bool packed_mask_codec<C, T, Id, Runs>::read_side(const_bytes encoded, uint32_t count, packed_masks::host_mask& mask,
                                                  side& of_mask) noexcept {
  if (encoded.size() < 4) return false;
  const packed_head head{load_unaligned<uint32_t>(encoded.data())};
  if (!head.fits(Runs)) return false;
  const const_bytes rest = encoded.subspan(4);
  uint32_t used = 4 * mask_words(count);
  if (head.packed()) {
    used = mask.unpack(rest, head.rule());
    if (used == 0) return false;
  } else {
    if (rest.size() < used) return false;
    std::memcpy(mask.words, rest.data(), used);
    if (count != 0 && (mask.words[used / 4 - 1] & ~packed_masks::valid_bits(used / 4 - 1, count)) != 0) return false;
  }
  of_mask.kind = head.kind();
  of_mask.ones = count_ones(reinterpret_cast<const std::byte*>(mask.words), 4 * mask_words(count));
  of_mask.signs_begin = 4 + used;
  const uint32_t zeros = count - of_mask.ones, end = of_mask.signs_begin + sign_bytes(of_mask.kind, zeros);
  of_mask.values_begin = values_begin(end);
  if (of_mask.values_begin > encoded.size()) return false;
  for (uint32_t i = end; i < of_mask.values_begin; ++i)
    if (encoded[i] != std::byte{}) return false;
  return of_mask.kind != packed_head::both_zeros || zeros % 8 == 0 || encoded[end - 1] >> zeros % 8 == std::byte{};
}

// Mostly there is none. Then no value, taken as an integer, is the lowest one.
template <class C, element T, codec_id Id, bool Runs>
uint32_t packed_mask_codec<C, T, Id, Runs>::count_negative_zeros(const std::byte* from, uint32_t count) noexcept {
  constexpr uint32_t window = 32;
  using integer = std::make_signed_t<bits>;
  const bool some = on_cpu([=]<class Cpu>(Cpu) {
    integer lowest = 0, highest;
    uint32_t i = 0;
    for (; i + window <= count && static_cast<bits>(lowest) != negative_zero; i += window)
      Cpu::template find_range<integer>(from + i * sizeof(bits), lowest, highest);
    for (; i < count && static_cast<bits>(lowest) != negative_zero; ++i)
      lowest = load_unaligned<integer>(from + i * sizeof(bits));
    return static_cast<bits>(lowest) == negative_zero;
  });
  uint32_t sum = 0;
  for (uint32_t i = 0; some && i < count; ++i) sum += load_unaligned<bits>(from + i * sizeof(bits)) == negative_zero;
  return sum;
}
#endif

}  // namespace detail

/// Codec for zeros and for runs of equal values. Lossless. As a stage of a chain: the values at the ones of the mask are
/// the residual values, and all that is before them is the side stream.
/// concept.hpp documents the members.
/// @tparam T element type
template <element T> struct rle : detail::packed_mask_codec<rle<T>, T, codec_id::rle, true> {
  template <element U> using rebind = rle<U>;  ///< for by_width
};

/// The same for zeros alone: zvc with a mask that compresses itself. For chains; its stage has mode 1.
/// @tparam T element type
template <element T> struct packed_zvc : detail::packed_mask_codec<packed_zvc<T>, T, codec_id::zvc, false> {
  template <element U> using rebind = packed_zvc<U>;  ///< for by_width
};

static_assert(splitter<rle<float>> && splitter<packed_zvc<float>>);

}  // namespace tuck::inline TUCK_ABI
