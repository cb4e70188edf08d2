// SPDX-License-Identifier: Apache-2.0
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
// saves of the values. rle, but not packed_zvc, then takes kind 1 if it has fewer than 15/16 of the ones of that kind.
// Values are floats if the tensor's are; what a delta has is none, nor what differences and quantize pass on. If a
// chunk would have n sizeof(T) bytes or more, it is incompressible. Host and device write the same bytes. Decoders
// reject chunks of other sizes, chunks that are not smaller than their values, kinds that the codec does not write, and
// unused bits and padding that are not 0. They do not look at the type, nor whether another kind would have been
// better.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/codec/mask/packed.hpp>

#if defined(TUCK_HOST)
#include <tuck/codec/mask/host_packed.hpp>
#endif

namespace tuck::inline TUCK_ABI {

namespace detail {

// What rle and packed_zvc have in common. Runs: whether a mask may be of kind 1.
template <class C, element T, codec_id Id, bool Runs> struct packed_mask_codec : packed_masks::layout<sizeof(T)> {
  using value_type = T;
  using residual_type = T;

  static constexpr uint32_t chunk_bytes = 16 * 1024;
  static constexpr bool has_runs = Runs;  ///< whether masks of kind 1 are written and read

  TUCK_HD static constexpr stage description() noexcept {
    stage s{.version = 1};  // nvcc writes initializers that depend on a parameter in a way that clang warns of
    s.id = Id;
    s.mode = Id == codec_id::zvc ? 1 : 0;
    return s;
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

#if defined(TUCK_HOST)
  uint32_t encode_chunk(span<const T> values, bytes out) const noexcept {
    if (values.size_bytes() > max_chunk_raw_bytes) return incompressible;
    return packed_masks::host_coder<sizeof(T)>::encode(as_bytes(values), floats, Runs, out.data());
  }
  status decode_chunk(const_bytes encoded, span<T> restored) const noexcept {
    if (encoded.size() >= restored.size_bytes() || restored.size_bytes() > max_chunk_raw_bytes)
      return status::bad_payload;
    return packed_masks::host_coder<sizeof(T)>::decode(encoded, Runs, as_writable_bytes(restored));
  }
  static uint32_t side_bytes(const_bytes encoded, uint32_t count) noexcept {
    return packed_masks::host_coder<sizeof(T)>::side_bytes(encoded, count, Runs);
  }
#endif
};

}  // namespace detail

/// Codec for zeros and for runs of equal values. Lossless. As a stage of a chain: the values at the ones of the mask
/// are the residual values, and all that is before them is the side stream.
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
