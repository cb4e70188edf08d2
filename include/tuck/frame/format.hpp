// The frame: one tensor as self-describing bytes. This file is the specification of its layout.
//
//   header               128 bytes: frame_header below, its fields one behind the other without gaps
//   metadata             metadata_bytes of the user's, zero-padded to a multiple of 8
//   directory            one 64-bit entry a chunk
//   chunk checksums      one 64-bit digest of the chunk's *decoded* bytes a chunk; only with flag_checksums
//   result digest        64 bits; only with flag_delta
//   payloads             each from a multiple of 2^alignment_log2, of 16 to 4096 bytes, as the frame's end is one;
//                        encoders fill the gaps with zeros, decoders do not look at them
//
// All integers are little-endian, all digests those of core/checksum.hpp; types are numbered in core/dtype.hpp, codecs
// and the fields of a stage in codec/concept.hpp. What follows frame_bytes is not the frame's. The tensor is cut into
// chunks of chunk_values values, the last one shorter; a tensor of no values has no chunks. Where payloads lie is the
// directory's word alone: they may come in any order, with holes, and share bytes, though the encoders here write
// them in order, and frame_bytes may be more than they need. Sizes before the payloads follow from the header, so an
// encoder knows where the first payload goes before it has encoded anything.
//
// A delta (flag_delta) is a tensor against a base of the same type and size. What its chunks decode to is, value by
// value, the tensor's bits XOR the base's. It always has chunk checksums, of what the chunks decode to as in any frame,
// and base_digest is tensor_digest of the base, the result digest that of the tensor, both in chunks as the frame's.
// Decoders need not look at the result's: a sound frame and its base leave no other. It is for chains of deltas: of two
// in a row, of as many values a chunk, the result of one is the base of the other.
//
// What an encoded payload is says the header of the codec; of several stages, codec/chain/chain.hpp. Readers refuse
// versions, flags, types, kinds and codecs that they do not know, and unused fields and stages behind the last one
// that are not 0. Metadata's padding they do not look at.
//
// A flag, kind, type or field that is added comes with another version, a codec with an id of its own: what is unknown
// under version 1 is damage, and a newer frame is bad_version or codec_mismatch. Magic and version are the first 6
// bytes of every version. test/format has a reader in Python.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/bits.hpp>
#include <tuck/core/checksum.hpp>

#include <bit>
#include <cstddef>

namespace tuck::inline TUCK_ABI {

inline constexpr uint32_t frame_magic = 0x4b435554;  // "TUCK"
inline constexpr uint16_t frame_version = 1;
inline constexpr uint32_t flag_checksums = 1;
inline constexpr uint32_t flag_delta = 2;  // with flag_checksums only
inline constexpr uint32_t min_alignment_log2 = 4, max_alignment_log2 = 12;

// offset  0 magic            8 flags            24 frame_bytes      104 base_digest
//         4 version         12 chunk_values     32 metadata_bytes   112 contents_digest
//         6 type            16 value_count      40 stages, 16 bytes 120 header_digest
//         7 alignment_log2                         each
struct frame_header {
  uint32_t magic = frame_magic;
  uint16_t version = frame_version;
  dtype type = dtype::none;
  uint8_t alignment_log2 = 5;    // 2^5 bytes
  uint32_t flags = 0;            // flag_checksums, flag_delta; all others are 0
  uint32_t chunk_values = 0;     // a multiple of 32; a chunk has at most max_chunk_raw_bytes
  uint64_t value_count = 0;      // of the whole tensor; less than 2^61
  uint64_t frame_bytes = 0;      // a multiple of 2^alignment_log2
  uint64_t metadata_bytes = 0;   // without its padding
  stage_list stages;             // the codec, as encoding applies it
  uint64_t base_digest = 0;      // 0 without flag_delta
  uint64_t contents_digest = 0;  // of all between header and payloads, but for the gap
  uint64_t header_digest = 0;    // of all the above
};
static_assert(sizeof(frame_header) == 128 && std::is_trivially_copyable_v<frame_header>);

enum class chunk_kind : uint8_t {
  encoded = 0,  // what the codec's encode_chunk wrote
  raw = 1,      // the values as they are
  uniform = 2,  // all values have the same bits: that value once, or no bytes at all where it is zero
};

TUCK_HD constexpr const char* name(chunk_kind kind) noexcept {
  switch (kind) {
    case chunk_kind::encoded: return "encoded";
    case chunk_kind::raw: return "raw";
    case chunk_kind::uniform: return "uniform";
  }
  return "unknown";
}

// A directory entry: where a chunk's payload is.
//   // [63:60] kind / [59:40] exact bytes / [39:0] start in units of 2^alignment_log2, from the frame's begin
// An encoded chunk has fewer bytes than its values, a raw one as many, a uniform one those of a value or none. Payloads
// lie between the first multiple of 2^alignment_log2 behind what is in front of them and frame_bytes; one without bytes
// may start anywhere up to frame_bytes.
// All zero, as fresh memory is, is no valid entry: an encoded chunk has at least one byte.
struct directory_entry {
  uint64_t word = 0;

  static constexpr uint64_t max_start = (uint64_t{1} << 40) - 1;
  static constexpr uint32_t max_bytes = (1u << 20) - 1;

  TUCK_HD static constexpr directory_entry make(chunk_kind kind, uint32_t size, uint64_t start) noexcept {
    return {(uint64_t{static_cast<uint8_t>(kind)} << 60) | (uint64_t{size} << 40) | start};
  }
  TUCK_HD constexpr chunk_kind kind() const noexcept { return static_cast<chunk_kind>(word >> 60); }
  TUCK_HD constexpr uint32_t bytes() const noexcept { return static_cast<uint32_t>(word >> 40) & max_bytes; }
  TUCK_HD constexpr uint64_t start() const noexcept { return word & max_start; }
};
static_assert(max_chunk_raw_bytes <= directory_entry::max_bytes);

// Where things are, in bytes from the frame's begin. All arithmetic is 64-bit and saturates, so that
// numbers from an untrusted header end up larger than any buffer.
struct frame_layout {
  uint64_t chunks = 0;
  uint64_t directory = 0;
  uint64_t checksums = 0;
  uint64_t result = 0;  // the digest of a delta's; == contents_end without flag_delta
  uint64_t contents_end = 0;
  uint64_t payloads = 0;
};

// Of a header whose chunk_values and alignment_log2 are what check_header wants; the sizes may be anything.
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

// Values of chunk i < layout_of(h).chunks: chunk_values but for the last.
TUCK_HD constexpr uint32_t values_in_chunk(const frame_header& h, uint64_t i) noexcept {
  const uint64_t left = h.value_count - i * h.chunk_values;
  return left < h.chunk_values ? static_cast<uint32_t>(left) : h.chunk_values;
}

// With every chunk raw.
TUCK_HD constexpr uint64_t worst_case_bytes(const frame_header& h) noexcept {
  const frame_layout at = layout_of(h);
  if (at.chunks == 0) return at.payloads;
  const uint32_t value_bytes = size_of(h.type);
  const uint64_t slot = round_up_pow2(uint64_t{h.chunk_values} * value_bytes, h.alignment_log2);
  const uint64_t last = round_up_pow2(uint64_t{values_in_chunk(h, at.chunks - 1)} * value_bytes, h.alignment_log2);
  return saturating_add(at.payloads, saturating_add(saturating_mul(at.chunks - 1, slot), last));
}

TUCK_HD inline uint64_t digest_of(const frame_header& h) noexcept {
  return checksum({reinterpret_cast<const std::byte*>(&h), offsetof(frame_header, header_digest)});
}

// How the writer of a frame may shape it. The bytes depend on these and on the values, on nothing else.
struct frame_options {
  uint32_t chunk_values = 0;            // a multiple of 32, up to 64 KiB of them; 0: the codec's own choice
  uint32_t alignment = 32;              // of payloads, bytes; a power of two from 16 to 4096
  bool checksums = false;               // keep a digest of each chunk's values
  const_bytes metadata = {};            // the user's own, kept verbatim: for host calls, in host memory
  const_bytes metadata_on_device = {};  // the same for calls on a stream, in memory that the device can read
  dtype type = dtype::none;  // of the elements, which codecs of untyped ones must be told; none: the codec's own
};

// Can a delta be encoded by this codec? Not where it changes values, or wants to know the range of a tensor's.
template <codec C> inline constexpr bool takes_deltas = !is_lossy<C> && !adaptive_codec<C>;

// How decode_delta runs.
struct delta_options {
  bool chunk_by_chunk = false;  // one pass that writes each chunk as it is, not a verifying pass before the first write
};

// The header of a frame of `count` values, all but frame_bytes, the digests and what an adaptive codec learns of the
// tensor, for sizes alone: such a codec may have no parameters yet. invalid_argument where an option has a value that
// no frame can have, size_overflow where the worst case would not fit.
template <codec C>
constexpr status plan_header(const C& codec, uint64_t count, const frame_options& options, frame_header& h) noexcept {
  constexpr uint32_t value_bytes = sizeof(value_t<C>);
  static_assert(adaptive_codec<C> || !detail::half_adaptive<C>,
                "tuck: this codec has some of what an adaptive codec has, but not all; see tuck/codec/concept.hpp");
  const frame_header fresh;
  h = fresh;
  h.type = options.type != dtype::none ? options.type : dtype_of<value_t<C>>;
  if (!holds<value_t<C>>(h.type)) return status::invalid_argument;
  h.flags = options.checksums ? flag_checksums : 0;
  h.chunk_values = options.chunk_values != 0 ? options.chunk_values : C::chunk_bytes / value_bytes;
  h.value_count = count;
  if (!options.metadata.empty() && !options.metadata_on_device.empty()) return status::wrong_metadata;
  h.metadata_bytes = options.metadata.size() + options.metadata_on_device.size();
  h.stages = codec.stages();
  if ((options.alignment & (options.alignment - 1)) != 0 || options.alignment < 1u << min_alignment_log2 ||
      options.alignment > 1u << max_alignment_log2)
    return status::invalid_argument;
  h.alignment_log2 = static_cast<uint8_t>(std::countr_zero(options.alignment));
  if (h.stages.at[0].id == codec_id::none || h.chunk_values == 0) return status::invalid_argument;
  if (h.chunk_values % 32 != 0 || h.chunk_values > max_chunk_raw_bytes / value_bytes) return status::invalid_argument;
  if (worst_case_bytes(h) > directory_entry::max_start << h.alignment_log2) return status::size_overflow;
  return status::ok;
}

// The same to encode with: else what an adaptive codec has to complain about.
template <codec C>
constexpr status make_header(const C& codec, uint64_t count, const frame_options& options,
                             frame_header& header) noexcept {
  if constexpr (adaptive_codec<C>)
    if (const status s = codec.check(); s != status::ok) return s;
  return tuck::plan_header(codec, count, options, header);
}

// The most bytes that a frame of `count` values can have: header, metadata, directory, and every chunk raw.
// 0 where the codec, the options or the size are impossible; encode then says why.
template <codec C>
constexpr uint64_t max_frame_bytes(const C& codec, uint64_t count, const frame_options& options = {}) noexcept {
  frame_header header;
  return tuck::make_header(codec, count, options, header) == status::ok ? worst_case_bytes(header) : 0;
}

// The same of a delta.
template <codec C>
constexpr uint64_t max_delta_bytes(const C& codec, uint64_t count, frame_options options = {}) noexcept {
  options.checksums = true;
  frame_header header;
  if (tuck::make_header(codec, count, options, header) != status::ok) return 0;
  header.flags |= flag_delta;
  return worst_case_bytes(header);
}

template <no_codec X> constexpr uint64_t max_frame_bytes(const X&, uint64_t, const frame_options& = {}) noexcept {
  static_assert(codec<X>, TUCK_NO_CODEC);
  return 0;
}

// What anyone may want to know of a frame before choosing types for it.
struct frame_info {
  dtype type = dtype::none;
  stage_list stages;
  uint64_t values = 0;
  uint64_t bytes = 0;  // of the whole frame
  uint64_t chunks = 0;
  uint32_t chunk_values = 0;
  uint32_t alignment = 0;
  uint64_t metadata_bytes = 0;
  bool checksums = false;
  bool delta = false;
  uint64_t base_digest = 0;  // of a delta
};

}  // namespace tuck::inline TUCK_ABI
