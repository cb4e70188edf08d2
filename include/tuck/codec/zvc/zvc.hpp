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
#include <tuck/core/bits.hpp>

namespace tuck::inline TUCK_ABI {

template <element T> struct zvc {
  using value_type = T;

  static constexpr uint32_t window = 32;  // values a mask
  static constexpr uint32_t chunk_bytes = 16 * 1024;

  TUCK_HD static constexpr uint32_t mask_bytes(uint32_t count) noexcept { return 4 * ceil_div(count, window); }

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

 private:
  TUCK_HD static void expand(uint32_t mask, const std::byte* packed, T* out, uint32_t count) noexcept;
  TUCK_HD static uint64_t size_from_masks(const_bytes encoded, uint32_t count) noexcept;
};

template <element T> TUCK_HD uint32_t zvc<T>::encode_chunk(span<const T> values, bytes room) const noexcept {
  const auto count = static_cast<uint32_t>(values.size());
  std::byte* packed = room.data() + mask_bytes(count);
  for (uint32_t begin = 0; begin < count; begin += window) {
    const uint32_t length = count - begin < window ? count - begin : window;
    uint32_t mask = 0;
    for (uint32_t i = 0; i < length; ++i) {
      // Always stores and advances only past what counts: no branch, and never beyond the room of all values.
      const T value = values[begin + i];
      const uint32_t keep = tuck::bits_of(value) != 0;
      tuck::store_unaligned(packed, value);
      packed += keep * sizeof(T);
      mask |= keep << i;
    }
    store_unaligned(room.data() + begin / window * 4, mask);
  }
  return static_cast<uint32_t>(packed - room.data());
}

template <element T> TUCK_HD status zvc<T>::decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
  const auto count = static_cast<uint32_t>(restored.size());
  if (size_from_masks(encoded, count) != encoded.size()) return status::bad_payload;
  const std::byte* packed = encoded.data() + mask_bytes(count);
  for (uint32_t begin = 0; begin < count; begin += window) {
    const uint32_t length = count - begin < window ? count - begin : window;
    const auto mask = load_unaligned<uint32_t>(encoded.data() + begin / window * 4);
    if (mask == low_mask(length)) {
      std::memcpy(&restored[begin], packed, length * sizeof(T));
    } else {
      expand(mask, packed, &restored[begin], length);
    }
    packed += popcount(mask) * sizeof(T);
  }
  return status::ok;
}

// Spreads the non-zeros of one window, not all of whose bits are set.
template <element T>
TUCK_HD void zvc<T>::expand(uint32_t mask, const std::byte* packed, T* out, uint32_t count) noexcept {
  std::memset(out, 0, count * sizeof(T));
  for (; mask != 0; mask &= mask - 1) {
    std::memcpy(out + popcount((mask & (0 - mask)) - 1), packed, sizeof(T));
    packed += sizeof(T);
  }
}

// The only size that a chunk with these masks can have; one that none has where they do not fit or set bits past the
// end.
template <element T> TUCK_HD uint64_t zvc<T>::size_from_masks(const_bytes encoded, uint32_t count) noexcept {
  constexpr uint64_t impossible = ~uint64_t{0};
  if (encoded.size() < mask_bytes(count)) return impossible;
  uint64_t non_zeros = 0;
  uint32_t last = 0;
  for (uint32_t at = 0; at < mask_bytes(count); at += 4) {
    last = load_unaligned<uint32_t>(encoded.data() + at);
    non_zeros += popcount(last);
  }
  const uint32_t tail = count % window;
  if (tail != 0 && (last & ~low_mask(tail)) != 0) return impossible;
  return mask_bytes(count) + non_zeros * sizeof(T);
}

static_assert(codec<zvc<float>>);

}  // namespace tuck::inline TUCK_ABI
