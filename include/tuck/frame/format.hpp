// SPDX-License-Identifier: Apache-2.0
// The frame: one tensor as self-describing bytes. This file specifies its layout. docs/format.md describes the same,
// with the payloads of all codecs and an example. test/format has a reader in Python.
//
//   0              header            frame_header: 128 bytes, its fields in order without gaps
//   128            metadata          metadata_bytes bytes of the user, then zeros up to a multiple of 8
//   D              directory         one 64-bit directory_entry per chunk
//   C              chunk checksums   one 64-bit digest per chunk; only with flag_checksums
//   R              result digest     64 bits; only with flag_delta
//   E              zeros             up to the next multiple of the alignment
//   P              payloads          each at a multiple of the alignment, which is 2^alignment_log2 = 16 to 4096 bytes
//   frame_bytes    end               a multiple of the alignment
//
// C is D + 8 * chunks. R is C, or C + 8 * chunks with flag_checksums. E is R, or R + 8 with flag_delta.
//
// Conventions. All integers are little-endian. core/dtype.hpp numbers the types. codec/concept.hpp numbers the codecs
// and has the fields of a stage. core/checksum.hpp defines all digests. Bytes after frame_bytes are not part of the
// frame. All offsets up to P follow from the header, so an encoder knows where the first payload goes before it encodes
// a chunk.
//
// Chunks. The tensor is cut into chunks of chunk_values values. The last chunk may be shorter. A tensor without values
// has no chunks. The header of each codec specifies the payload of an encoded chunk; codec/chain/chain.hpp does so for
// codecs of several stages. The directory says where payloads are. They may be in any order, leave gaps and share
// bytes, and frame_bytes may be more than they need. Encoders of this library write them in order and fill gaps with
// zeros. Decoders ignore gaps.
//
// Digests. header_digest covers the bytes 0 to 119, contents_digest the bytes 128 to E - 1. A chunk checksum is the
// digest of the bytes that the chunk decodes to. With a lossy codec these are the restored values, not the original
// ones.
//
// Deltas. With flag_delta, the frame is a tensor relative to a base of the same type and size. A chunk decodes to the
// bits of the tensor's values XOR the bits of the base's values. Some codecs need the base for that.
// A delta always has chunk checksums. base_digest is the tensor_digest of the base, the result digest is that of the
// tensor, both in chunks of chunk_values values. Decoders need not check the result digest: valid chunks and the right
// base always give the right tensor. The result digest links deltas: with equal chunk_values, it is the base_digest of
// the next delta.
//
// Validity. Readers reject versions, flags, types, kinds and codecs that they do not know. They reject unused fields
// and unused stages that are not 0. Unused stages are at the end. Readers ignore the padding of metadata.
//
// Versions. Magic and version are the first 6 bytes of every version. A new flag, kind, type or field comes with
// another version, a new codec with a new id. So in version 1, an unknown flag, kind or type is damage. Readers report
// a newer frame as bad_version or codec_mismatch.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/bits.hpp>
#include <tuck/core/checksum.hpp>
#include <tuck/core/standard.hpp>

namespace tuck::inline TUCK_ABI {

inline constexpr uint32_t frame_magic = 0x4b435554;  ///< the first 4 bytes of a frame: "TUCK"
inline constexpr uint16_t frame_version = 1;         ///< the only version that is known
inline constexpr uint32_t flag_checksums = 1;        ///< the frame has a checksum per chunk
inline constexpr uint32_t flag_delta = 2;            ///< the frame is a delta; only together with flag_checksums
inline constexpr uint32_t min_alignment_log2 = 4;    ///< payloads are aligned to at least 16 bytes
inline constexpr uint32_t max_alignment_log2 = 12;   ///< payloads are aligned to at most 4096 bytes

/// The first 128 bytes of a frame.
///
///     0 magic            8 flags          24 frame_bytes              104 base_digest
///     4 version         12 chunk_values   32 metadata_bytes           112 contents_digest
///     6 type            16 value_count    40 4 stages, 16 bytes each  120 header_digest
///     7 alignment_log2
struct frame_header {
  uint32_t magic = frame_magic;      ///< frame_magic
  uint16_t version = frame_version;  ///< frame_version
  dtype type = dtype::none;          ///< type of the values; not none
  uint8_t alignment_log2 = 5;        ///< payloads are aligned to 2^alignment_log2 bytes; 4 to 12
  uint32_t flags = 0;                ///< 0, flag_checksums, or flag_checksums | flag_delta
  uint32_t chunk_values = 0;         ///< values per chunk: a multiple of 32, at most max_chunk_values, not 0
  uint64_t value_count = 0;          ///< values of the whole tensor; less than 2^61
  uint64_t frame_bytes = 0;          ///< bytes of the frame: a multiple of 2^alignment_log2, at least P
  uint64_t metadata_bytes = 0;       ///< bytes of the metadata, without padding
  stage_list stages;                 ///< the codec, in the order in which the encoder applies its stages
  uint64_t base_digest = 0;          ///< tensor_digest of the base; 0 without flag_delta
  uint64_t contents_digest = 0;  ///< digest of the bytes 128 to E - 1: metadata, directory, checksums, result digest
  uint64_t header_digest = 0;    ///< digest of the bytes 0 to 119: all fields above
};
static_assert(sizeof(frame_header) == 128 && std::is_trivially_copyable_v<frame_header>);

/// Says how a chunk is stored.
enum class chunk_kind : uint8_t {
  encoded = 0,  ///< what encode_chunk of the codec wrote; fewer bytes than the values
  raw = 1,      ///< the values as they are
  uniform = 2,  ///< all values have the same bits: the value once, or no bytes if it is 0
};

/// Returns the name of a kind; "unknown" for other numbers.
TUCK_HD constexpr const char* name(chunk_kind kind) noexcept {
  constexpr const char* names[] = {"encoded", "raw", "uniform", "unknown"};
  return names[kind <= chunk_kind::uniform ? static_cast<uint8_t>(kind) : 3];
}

/// Says where the payload of a chunk is.
///
///      63    60 59             40 39                                      0
///     +--------+-----------------+-----------------------------------------+
///     |  kind  |  payload bytes  |  offset in the frame / 2^alignment_log2 |
///     +--------+-----------------+-----------------------------------------+
///
/// An encoded chunk has 1 to n * w - 1 bytes (n values of w bytes), a raw chunk n * w bytes, a uniform chunk w bytes or
/// none. A payload lies between P and frame_bytes. A payload without bytes may have any offset up to frame_bytes. A
/// word of zeros, as in fresh memory, is not a valid entry: an encoded chunk has at least 1 byte.
struct directory_entry {
  uint64_t word = 0;  ///< the entry, as in the frame

  static constexpr uint64_t max_start =
      (uint64_t{1} << 40) - 1;                           ///< highest offset, in units of 2^alignment_log2 bytes
  static constexpr uint32_t max_bytes = (1u << 20) - 1;  ///< largest value of the field

  /// Makes an entry. `size` is in bytes, at most max_bytes; `start` is in units of 2^alignment_log2 bytes.
  TUCK_HD static constexpr directory_entry make(chunk_kind kind, uint32_t size, uint64_t start) noexcept {
    return {(uint64_t{static_cast<uint8_t>(kind)} << 60) | (uint64_t{size} << 40) | start};
  }
  /// How the chunk is stored. In an untrusted entry this may be a number without an enumerator.
  TUCK_HD constexpr chunk_kind kind() const noexcept { return static_cast<chunk_kind>(word >> 60); }
  /// Size of the payload in bytes.
  TUCK_HD constexpr uint32_t bytes() const noexcept { return static_cast<uint32_t>(word >> 40) & max_bytes; }
  /// Offset of the payload in the frame, in units of 2^alignment_log2 bytes.
  TUCK_HD constexpr uint64_t start() const noexcept { return word & max_start; }
};
static_assert(2 * max_chunk_raw_bytes <= directory_entry::max_bytes);

/// Offsets of the parts of a frame, in bytes from its beginning. All arithmetic has 64 bits and saturates: numbers from
/// an untrusted header give offsets beyond any buffer.
struct frame_layout {
  uint64_t chunks = 0;        ///< number of chunks: ceil(value_count / chunk_values)
  uint64_t directory = 0;     ///< D, the directory
  uint64_t checksums = 0;     ///< C, where chunk checksums are or would be
  uint64_t result = 0;        ///< R, the result digest of a delta; equals contents_end without flag_delta
  uint64_t contents_end = 0;  ///< E, the end of what contents_digest covers
  uint64_t payloads = 0;      ///< P, the first offset that a payload can have
};

/// Computes the layout of a frame. chunk_values and alignment_log2 must satisfy check_header. The other fields may have
/// any value.
TUCK_HD constexpr frame_layout layout_of(const frame_header& h) noexcept {
  frame_layout at;
  at.chunks = ceil_div(h.value_count, uint64_t{h.chunk_values});
  const uint64_t table_bytes = saturating_mul(at.chunks, 8);
  at.directory = saturating_add(sizeof(frame_header), saturating_add(h.metadata_bytes, 7)) & ~uint64_t{7};
  at.checksums = saturating_add(at.directory, table_bytes);
  at.result = saturating_add(at.checksums, (h.flags & flag_checksums) != 0 ? table_bytes : 0);
  at.contents_end = saturating_add(at.result, (h.flags & flag_delta) != 0 ? 8 : 0);
  const uint64_t low = (uint64_t{1} << h.alignment_log2) - 1;
  at.payloads = saturating_add(at.contents_end, low);
  if (at.payloads != ~uint64_t{0}) at.payloads &= ~low;
  return at;
}

/// Returns the number of values in chunk i < layout_of(h).chunks: chunk_values, or fewer in the last chunk.
TUCK_HD constexpr uint32_t values_in_chunk(const frame_header& h, uint64_t i) noexcept {
  const uint64_t left = h.value_count - i * h.chunk_values;
  return left < h.chunk_values ? static_cast<uint32_t>(left) : h.chunk_values;
}

/// Returns the maximum size of a frame with this header in bytes: its size if all chunks are raw. Saturates.
TUCK_HD constexpr uint64_t worst_case_bytes(const frame_header& h) noexcept {
  const frame_layout at = layout_of(h);
  if (at.chunks == 0) return at.payloads;
  const uint32_t value_bytes = size_of(h.type);
  const uint64_t slot = round_up_pow2(uint64_t{h.chunk_values} * value_bytes, h.alignment_log2);
  const uint64_t last = round_up_pow2(uint64_t{values_in_chunk(h, at.chunks - 1)} * value_bytes, h.alignment_log2);
  return saturating_add(at.payloads, saturating_add(saturating_mul(at.chunks - 1, slot), last));
}

/// Computes the header_digest of a header: the digest of its first 120 bytes.
TUCK_HD inline uint64_t digest_of(const frame_header& h) noexcept {
  return checksum({reinterpret_cast<const std::byte*>(&h), offsetof(frame_header, header_digest)});
}

/// Options of a frame. The bytes of a frame depend only on these options, the codec and the values.
struct frame_options {
  uint32_t chunk_values = 0;            ///< values per chunk, as in frame_header; 0: the codec's default
  uint32_t alignment = 32;              ///< alignment of payloads in bytes: a power of two from 16 to 4096
  bool checksums = false;               ///< store a digest of the decoded values of each chunk
  const_bytes metadata = {};            ///< bytes to store in the frame, in host memory; for host calls only
  const_bytes metadata_on_device = {};  ///< the same for calls on a stream, in memory that the device can read
  dtype type = dtype::none;             ///< type of the values; required for codecs of `untyped`
};

#if defined(TUCK_HOST)
/// Returns the codec for the values of a frame: those of a delta are the XOR of two values.
template <codec C> constexpr C codec_of_values(const C& codec, const frame_header& h) noexcept {
  return codec_of_type(codec, (h.flags & flag_delta) != 0 ? dtype_of<bits_t<value_t<C>>> : h.type);
}
#endif

/// Whether a codec can encode deltas: it is lossless and not an adaptive_codec (concept.hpp). Of the library's codecs,
/// only quantize and chains that begin with quantize_codes cannot.
template <codec C> inline constexpr bool supports_deltas = !is_lossy<C> && !adaptive_codec<C>;

/// The passes of decode_delta. `verify` alone writes nothing. `write` alone follows a call with `verify` and the same
/// arguments, whose outcome is ok; nothing is verified again. Between both calls it can be seen whether all deltas of a
/// model are valid, also those of other codecs and types.
enum class delta_passes : uint8_t { both, verify, write };

/// Options of decode_delta.
struct delta_options {
  /// If true, decodes in one pass, which writes each chunk as soon as it is decoded and verified. If false, a first
  /// pass verifies the whole frame and the base, and nothing is written unless both are valid.
  bool chunk_by_chunk = false;
  /// Which passes this call does. `chunk_by_chunk` needs `both`, else invalid_argument.
  delta_passes passes = delta_passes::both;
};

#if defined(TUCK_HOST)
namespace detail {
// plan_header for a codec with these stages. `natural`: the type of its values; none: any of `value_bytes` bytes.
constexpr status plan_header(const stage_list& stages, dtype natural, uint32_t value_bytes, uint32_t chunk_bytes,
                             uint64_t count, const frame_options& options, frame_header& h) noexcept {
  const frame_header fresh;
  h = fresh;
  h.type = options.type != dtype::none ? options.type : natural;
  if (natural == dtype::none ? size_of(h.type) != value_bytes : h.type != natural) return status::unsupported_type;
  h.flags = options.checksums ? flag_checksums : 0;
  h.chunk_values = options.chunk_values != 0 ? options.chunk_values : chunk_bytes / value_bytes;
  h.value_count = count;
  if (!options.metadata.empty() && !options.metadata_on_device.empty()) return status::wrong_metadata;
  h.metadata_bytes = options.metadata.size() + options.metadata_on_device.size();
  h.stages = stages;
  if ((options.alignment & (options.alignment - 1)) != 0 || options.alignment < 1u << min_alignment_log2 ||
      options.alignment > 1u << max_alignment_log2)
    return status::invalid_argument;
  h.alignment_log2 = static_cast<uint8_t>(std::countr_zero(options.alignment));
  if (h.stages.at[0].id == codec_id::none || h.chunk_values == 0) return status::invalid_argument;
  if (h.chunk_values % 32 != 0 || h.chunk_values > max_chunk_values(h.stages, value_bytes))
    return status::invalid_argument;
  if (worst_case_bytes(h) > directory_entry::max_start << h.alignment_log2) return status::size_overflow;
  return status::ok;
}
}  // namespace detail

/// Makes a header of a frame with `count` values, to compute sizes. frame_bytes and the digests stay 0. An adaptive
/// codec may still lack its parameters.
/// @return unsupported_type if options.type does not fit the elements, or is missing for untyped ones;
///         invalid_argument for an option that no frame can have, wrong_metadata if both kinds of metadata are given,
///         size_overflow if the worst case does not fit the fields of the directory
template <codec C>
constexpr status plan_header(const C& codec, uint64_t count, const frame_options& options, frame_header& h) noexcept {
  static_assert(adaptive_codec<C> || !detail::half_adaptive<C>,
                "tuck: this codec has some of what an adaptive codec has, but not all; see tuck/codec/concept.hpp");
  using T = value_t<C>;
  return detail::plan_header(codec.stages(), is_untyped<T> ? dtype::none : dtype_of<T>, sizeof(T), C::chunk_bytes,
                             count, options, h);
}

/// Makes a header to encode with. First checks the parameters of an adaptive codec, then does the same as plan_header.
/// @return the error of codec.check(), or what plan_header returns
template <codec C>
constexpr status make_header(const C& codec, uint64_t count, const frame_options& options,
                             frame_header& header) noexcept {
  if constexpr (adaptive_codec<C>)
    if (const status s = codec.check(); s != status::ok) return s;
  return tuck::plan_header(codec, count, options, header);
}

/// Returns the maximum size of a frame of `count` values in bytes: its size if all chunks are raw. Returns 0 if the
/// codec, the options or the size are invalid. encode then returns the reason.
template <codec C>
constexpr uint64_t max_frame_bytes(const C& codec, uint64_t count, const frame_options& options = {}) noexcept {
  frame_header header;
  return tuck::make_header(codec, count, options, header) == status::ok ? worst_case_bytes(header) : 0;
}

/// Returns the maximum size of a delta of `count` values in bytes. Returns 0 in the cases in which max_frame_bytes
/// does, and if supports_deltas is false. A delta always has checksums.
template <codec C>
constexpr uint64_t max_delta_bytes(const C& codec, uint64_t count, frame_options options = {}) noexcept {
  options.checksums = true;
  frame_header header;
  if (!supports_deltas<C> || tuck::make_header(codec, count, options, header) != status::ok) return 0;
  header.flags |= flag_delta;
  return worst_case_bytes(header);
}
#endif

}  // namespace tuck::inline TUCK_ABI
