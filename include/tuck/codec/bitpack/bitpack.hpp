// Bitpack: values in as many bits as the largest of their group needs. For small unsigned integers: counts, indices,
// codes, zigzag numbers of differences. Bit patterns are taken for unsigned integers, whatever the element type.
//
// A chunk of n values, in groups of 32, the last of n % 32 unless that is 0:
//
//   u8  width[ceil(n / 32)]  of each group: the bits of its largest value, 0 where all are 0; then zeros up to a
//                            multiple of 4
//   u32 payload[]            the lowest width bits of each value, in order, with nothing between values or groups;
//                            the lowest bit of a word comes first, and the last word is filled up with zeros
//
// As 32 values of w bits are w words, every group begins at a word. No chunk has as many bytes as its values; where it
// would, encoding declines. The bytes are canonical: host and device write the same, and decoders refuse all that
// encoding does not give: a width of more bits than a value has or than the group needs, another size, anything unused
// that is not zero.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/bit_stream.hpp>
#include <tuck/core/bits.hpp>

namespace tuck::inline TUCK_ABI {

template <element T> struct bitpack {
  using value_type = T;

  static constexpr uint32_t group = 32;  // values of one width
  static constexpr uint32_t value_bits = 8 * sizeof(T);
  static constexpr uint32_t chunk_bytes = 16 * 1024;

  TUCK_HD static constexpr uint32_t groups(uint32_t count) noexcept { return ceil_div(count, group); }
  // Bytes in front of the payload.
  TUCK_HD static constexpr uint32_t width_bytes(uint32_t count) noexcept { return (groups(count) + 3) / 4 * 4; }
  // Values of the g-th group of a chunk of `count`, of which there may be no such group.
  TUCK_HD static constexpr uint32_t length_of(uint32_t g, uint32_t count) noexcept {
    const uint32_t left = g * group < count ? count - g * group : 0;
    return left < group ? left : group;
  }
  // Words of a group's payload.
  TUCK_HD static constexpr uint32_t words_of(uint32_t width, uint32_t length) noexcept {
    return (width * length + 31) / 32;
  }

  TUCK_HD static constexpr stage description() noexcept { return {.id = codec_id::bitpack, .version = 1}; }
  TUCK_HD constexpr stage_list stages() const noexcept { return {{description()}}; }
  TUCK_HD static constexpr status from_stages(const stage_list& stages, bitpack&) noexcept {
    return match_single_stage(stages, description());
  }
  TUCK_HD constexpr uint32_t max_chunk_bytes(uint32_t count) const noexcept {
    return width_bytes(count) + (count * uint32_t{sizeof(T)} + 3) / 4 * 4;
  }
  TUCK_HD uint32_t encode_chunk(span<const T> values, bytes room) const noexcept;
  TUCK_HD status decode_chunk(const_bytes encoded, span<T> restored) const noexcept;

 private:
  using wide = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

  TUCK_HD static uint64_t size_from_widths(const_bytes encoded, uint32_t count) noexcept;
};

template <element T> TUCK_HD uint32_t bitpack<T>::encode_chunk(span<const T> values, bytes room) const noexcept {
  const auto count = static_cast<uint32_t>(values.size());
  bit_writer out(room.data() + width_bytes(count));
  uint32_t words = 0;
  for (uint32_t g = 0; g < groups(count); ++g) {
    const T* const v = values.data() + g * group;
    const uint32_t length = length_of(g, count);
    wide all = 0;
    for (uint32_t i = 0; i < length; ++i) all |= bits_at(v, i);
    const uint32_t width = tuck::bit_width(all);
    room[g] = static_cast<std::byte>(width);
    words += words_of(width, length);
    for (uint32_t i = 0; i < length; ++i) out.put_wide(tuck::bits_of(v[i]), width);
  }
  out.finish();
  for (uint32_t g = groups(count); g < width_bytes(count); ++g) room[g] = std::byte{};
  const uint32_t size = width_bytes(count) + 4 * words;
  return size < values.size_bytes() ? size : declined;
}

template <element T> TUCK_HD status bitpack<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  const auto count = static_cast<uint32_t>(restored.size());
  if (encoded.size() >= restored.size_bytes() || size_from_widths(encoded, count) != encoded.size())
    return status::bad_payload;
  const uint32_t payload = static_cast<uint32_t>(encoded.size()) - width_bytes(count);
  bit_reader in(encoded.data() + width_bytes(count), payload);
  uint32_t last_bits = 0;  // of the last group
  for (uint32_t g = 0; g < groups(count); ++g) {
    const auto width = static_cast<uint32_t>(encoded[g]);
    T* const v = restored.data() + g * group;
    const uint32_t length = length_of(g, count);
    wide all = 0;
    for (uint32_t i = 0; i < length; ++i) {
      const auto value = static_cast<bits_t<T>>(in.take_wide(width));
      all |= value;
      v[i] = __builtin_bit_cast(T, value);
    }
    if (tuck::bit_width(all) != width) return status::bad_payload;
    last_bits = width * length;
  }
  return in.take((0 - last_bits) % 32) == 0 ? status::ok : status::bad_payload;
}

// The only size that a chunk with these widths can have; one that none has where they do not fit or are none.
template <element T> TUCK_HD uint64_t bitpack<T>::size_from_widths(const_bytes encoded, uint32_t count) noexcept {
  constexpr uint64_t impossible = ~uint64_t{0};
  if (encoded.size() < width_bytes(count)) return impossible;
  uint64_t words = 0;
  for (uint32_t g = 0; g < width_bytes(count); ++g) {
    const auto width = static_cast<uint32_t>(encoded[g]);
    if (width > (g < groups(count) ? value_bits : 0)) return impossible;
    words += words_of(width, length_of(g, count));
  }
  return width_bytes(count) + 4 * words;
}

static_assert(codec<bitpack<float>>);

}  // namespace tuck::inline TUCK_ABI
