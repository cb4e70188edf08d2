// Exponents stores floats without loss. It suits tensors whose neighbouring values have similar exponents, such as
// weights, keys and values. The bits of each value are rotated left by one, so that its exponent begins at the highest
// bit and its sign is the lowest bit. Its highest byte is then the exponent of a bf16 or f32; the exponent and three
// bits of the mantissa of an f16; all bits of an 8-bit float. The highest bytes are stored in groups of 32, each in as
// few bits as the group needs. Other bytes are stored unchanged. A chunk of n values:
//
//   groups     the highest bytes, as unsigned integers, in the format of bitpack/groups.hpp. Encoders
//              do not write the scheme `difference`; decoders accept it
//   u8 plane[] the second highest byte of each value, then the third highest byte of each value, and so on. Each plane
//              has n bytes, padded with zeros to a multiple of 4 bytes
//
// If a chunk would not be smaller than its values, it is incompressible, and the frame stores it raw. Decoders ignore
// the padding.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/floating.hpp>
#include <tuck/core/standard.hpp>

#if defined(TUCK_HOST)
#include <tuck/codec/bitpack/host_groups.hpp>
#endif

namespace tuck::inline TUCK_ABI {

/// Codec for floats whose neighbours have similar exponents. Lossless.
/// concept.hpp documents the members that are not described here.
/// @tparam T f16, bf16, f32, f8e4m3 or f8e5m2
template <floating_element T> struct exponents : plain_codec<exponents<T>, T, codec_id::exponents> {
  static_assert(sizeof(T) <= 4, "tuck: exponents are of floats of 1, 2 or 4 bytes");

  static constexpr uint32_t max_width = 8;  ///< maximum number of bits of a stored integer

  /// Returns the largest size of an encoded chunk of `count` values in bytes: one less than that of the values.
  TUCK_HD static constexpr uint32_t limit(uint32_t count) noexcept { return count * uint32_t{sizeof(T)} - 1; }
  /// Returns the size of one plane of `count` values with its padding, in bytes.
  TUCK_HD static constexpr uint32_t plane_bytes(uint32_t count) noexcept { return (count + 3) / 4 * 4; }
  /// Returns the size of all planes of `count` values, in bytes.
  TUCK_HD static constexpr uint32_t planes_bytes(uint32_t count) noexcept {
    return (sizeof(T) - 1) * plane_bytes(count);
  }

#if defined(TUCK_HOST)
  static constexpr uint32_t workspace_bytes(uint32_t count) noexcept {
    return workspace::bytes_of<std::byte>(count < max_values ? count : max_values) + groups::workspace_bytes(count);
  }
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept {
    return detail::with_workspace(workspace_bytes(static_cast<uint32_t>(values.size())), incompressible,
                                  [&](workspace memory) { return encode_chunk(values, out, memory); });
  }
  uint32_t encode_chunk(span<const T> values, bytes out, workspace memory) const noexcept {
    if (values.empty() || values.size_bytes() > max_chunk_raw_bytes) return incompressible;
    const auto count = static_cast<uint32_t>(values.size());
    if (planes_bytes(count) > limit(count)) return incompressible;
    auto* const upper = memory.take<std::byte>(count);
    detail::vectorized([&] { put_plane(values.data(), count, sizeof(T) - 1, upper); });
    const uint32_t end = groups::encode(upper, count, false, 0, limit(count) - planes_bytes(count), out.data(), memory);
    if (end == incompressible) return incompressible;
    std::byte* to = out.data() + end;
    std::memset(to, 0, planes_bytes(count));
    for (uint32_t byte = sizeof(T) - 1; byte-- > 0; to += plane_bytes(count))
      detail::vectorized([&] { put_plane(values.data(), count, byte, to); });
    return end + planes_bytes(count);
  }

  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
    return detail::with_workspace(workspace_bytes(static_cast<uint32_t>(restored.size())), status::out_of_memory,
                                  [&](workspace memory) { return decode_chunk(encoded, restored, memory); });
  }
  status decode_chunk(const_bytes encoded, span<T> restored, workspace memory) const noexcept {
    if (restored.size() > max_values) return status::bad_payload;
    const auto count = static_cast<uint32_t>(restored.size());
    auto* const upper = memory.take<std::byte>(count);
    uint32_t end;
    if (encoded.size() > limit(count) || !groups::decode(encoded, count, max_width, upper, end) ||
        end + planes_bytes(count) != encoded.size())
      return status::bad_payload;
    std::byte* const to = as_writable_bytes(restored).data();
    detail::vectorized([&] { join_planes(upper, encoded.data() + end, count, to); });
    return status::ok;
  }

 private:
  using groups = detail::host_groups<1, true>;
  static constexpr uint32_t max_values = max_chunk_raw_bytes / sizeof(T);

  // Writes one byte of each value, whose lowest bit is now the sign.
  static void put_plane(const T* from, uint32_t count, uint32_t byte, std::byte* to) noexcept {
    for (uint32_t i = 0; i < count; ++i) to[i] = static_cast<std::byte>(std::rotl(bits_at(from, i), 1) >> 8 * byte);
  }
  static void join_planes(const std::byte* upper, const std::byte* planes, uint32_t count, std::byte* to) noexcept {
    for (uint32_t i = 0; i < count; ++i) {
      const std::byte* plane = planes + i;
      uint32_t x = static_cast<uint32_t>(upper[i]);
      for (uint32_t k = 1; k < sizeof(T); ++k, plane += plane_bytes(count)) x = x << 8 | static_cast<uint32_t>(*plane);
      store_unaligned(to + i * sizeof(T), std::rotr(static_cast<bits_t<T>>(x), 1));
    }
  }
#endif
};

static_assert(codec<exponents<float>>);

}  // namespace tuck::inline TUCK_ABI
