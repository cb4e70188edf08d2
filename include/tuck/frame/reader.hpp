// SPDX-License-Identifier: Apache-2.0
// Reads untrusted frames: every field is checked before it is used.
#pragma once

#include <tuck/frame/format.hpp>

namespace tuck::inline TUCK_ABI {

/// A chunk as the directory describes it.
struct chunk_view {
  chunk_kind kind = chunk_kind::encoded;  ///< how it is stored
  uint32_t values = 0;                    ///< number of values
  const_bytes payload;                    ///< its bytes, within the frame
};

/// Checks a header on its own, without the rest of the frame.
/// @param digest  digest_of(h)
/// @return ok, bad_magic, bad_version or bad_header
TUCK_HD constexpr status check_header(const frame_header& h, uint64_t digest) noexcept {
  if (h.magic != frame_magic) return status::bad_magic;
  if (h.version != frame_version) return status::bad_version;
  if (h.header_digest != digest) return status::bad_header;
  const uint32_t value_bytes = size_of(h.type);
  if (value_bytes == 0 || (h.flags & ~(flag_checksums | flag_delta)) != 0 || h.flags == flag_delta)
    return status::bad_header;
  if (h.base_digest != 0 && (h.flags & flag_delta) == 0) return status::bad_header;
  if (h.alignment_log2 < min_alignment_log2 || h.alignment_log2 > max_alignment_log2 ||
      (h.frame_bytes & ((uint64_t{1} << h.alignment_log2) - 1)) != 0)
    return status::bad_header;
  if (h.chunk_values == 0 || h.chunk_values % 32 != 0 || h.chunk_values > max_chunk_values(h.stages, value_bytes))
    return status::bad_header;
  if (h.value_count > ~uint64_t{0} / 8 || h.stages.at[0].id == codec_id::none) return status::bad_header;
  return h.frame_bytes >= layout_of(h).payloads ? status::ok : status::bad_header;
}

/// Checks that a codec of this type wrote a frame with this header, and that the frame has the values [first, first +
/// count). Sets `codec` to the parameters in the header.
/// @param has_base     whether the call is for a delta, all of whose values must be asked for
/// @param base_values  number of values of the base
/// @return ok, what from_stages returns, type_mismatch, needs_base, not_a_delta, wrong_base or bad_range
TUCK_HD_CALLS
template <codec C>
TUCK_HD constexpr status match_header(const frame_header& h, C& codec, uint64_t first, uint64_t count,
                                      bool has_base = false, uint64_t base_values = 0,
                                      dtype wanted = dtype::none) noexcept {
  if (const status s = C::from_stages(h.stages, codec); s != status::ok) return s;
  if (!holds<value_t<C>>(h.type) || (wanted != dtype::none && h.type != wanted)) return status::type_mismatch;
  if (has_base != ((h.flags & flag_delta) != 0)) return has_base ? status::not_a_delta : status::needs_base;
  if (has_base && base_values != h.value_count) return status::wrong_base;
  if (has_base && count != h.value_count) return status::bad_range;
  return first > h.value_count || count > h.value_count - first ? status::bad_range : status::ok;
}

/// Returns the error for a buffer that is shorter than a header. Magic and version are the first 6 bytes of every
/// version.
/// @param first  the first 8 of `size` bytes, filled up with zeros
/// @return bad_magic, bad_version or truncated
TUCK_HD constexpr status why_no_header(uint64_t first, uint64_t size) noexcept {
  const uint64_t known = size < 4 ? (uint64_t{1} << (8 * size)) - 1 : 0xffffffffu;
  if (((first ^ frame_magic) & known) != 0) return status::bad_magic;
  const bool has_version = size >= offsetof(frame_header, version) + sizeof(frame_header::version);
  return has_version && static_cast<uint16_t>(first >> 32) != frame_version ? status::bad_version : status::truncated;
}

/// Reads and checks the header of a frame: type, codec, sizes. Needs only the first 128 bytes of the frame.
/// @return ok, truncated, bad_magic, bad_version or bad_header; `header` is unspecified after an error.
///         invalid_argument: a null pointer
TUCK_HD inline status inspect(const_bytes frame, frame_header& header) noexcept {
  if (frame.is_null()) return status::invalid_argument;
  if (frame.size() < sizeof header) {
    uint64_t first = 0;
    if (!frame.empty()) std::memcpy(&first, frame.data(), frame.size() < 8 ? frame.size() : 8);
    return why_no_header(first, frame.size());
  }
  std::memcpy(&header, frame.data(), sizeof header);
  return check_header(header, digest_of(header));
}

/// A frame whose header and directory have been checked. Chunks are checked when they are requested. A view does not
/// own the frame: its bytes must stay valid and unchanged. A frame may start at any address.
class frame_view {
 public:
  frame_view() = default;  ///< no frame; only for assignment

  /// Makes a view without checks: `h` has passed check_header, and `frame` has h.frame_bytes bytes.
  TUCK_HD constexpr frame_view(const std::byte* frame, const frame_header& h) noexcept
      : frame_(frame), header_(h), at_(layout_of(h)) {}

  /// Returns the header, for writing it in place before set_frame. Kernels have no registers for a copy.
  TUCK_HD constexpr frame_header& header_to_be() noexcept { return header_; }
  /// Sets the frame of a view whose header was written in place, without checks. `at`: layout_of(header())
  TUCK_HD constexpr void set_frame(const std::byte* frame, const frame_layout& at) noexcept {
    frame_ = frame;
    at_ = at;
  }

  /// Reads and checks the header and the directory of a frame. `frame` may be longer than the frame that it contains.
  /// `view` does not change after an error. Complexity: linear in the number of chunks and the size of the metadata.
  /// @return ok, what inspect returns, truncated or bad_directory
  TUCK_HD static status open(const_bytes frame, frame_view& view) noexcept {
    frame_header h;
    if (const status s = inspect(frame, h); s != status::ok) return s;
    const frame_view seen(frame.data(), h);
    if (const status s = seen.check_contents(frame.size()); s != status::ok) return s;
    view = seen;
    return status::ok;
  }
  /// Does the checks of `open` that follow those of the header. `size`: size of the buffer in bytes.
  TUCK_HD status check_contents(uint64_t size) const noexcept {
    if (size < header_.frame_bytes) return status::truncated;
    return checksum(contents()) == header_.contents_digest ? status::ok : status::bad_directory;
  }

  TUCK_HD constexpr const frame_header& header() const noexcept { return header_; }  ///< the header
  TUCK_HD constexpr const frame_layout& layout() const noexcept { return at_; }      ///< offsets within the frame
  TUCK_HD constexpr const std::byte* data() const noexcept { return frame_; }        ///< first byte of the frame
  TUCK_HD constexpr uint64_t chunks() const noexcept { return at_.chunks; }          ///< number of chunks
  /// Returns whether the frame has a digest per chunk.
  TUCK_HD constexpr bool has_checksums() const noexcept { return (header_.flags & flag_checksums) != 0; }
  /// Returns whether the frame is a delta.
  TUCK_HD constexpr bool is_delta() const noexcept { return (header_.flags & flag_delta) != 0; }
  /// Returns the metadata.
  TUCK_HD constexpr const_bytes metadata() const noexcept {
    return {frame_ + sizeof(frame_header), header_.metadata_bytes};
  }
  /// Returns the bytes that contents_digest covers.
  TUCK_HD constexpr const_bytes contents() const noexcept {
    return {frame_ + sizeof(frame_header), at_.contents_end - sizeof(frame_header)};
  }

  /// Sets `view` to chunk i < chunks(), as `entry` describes it. Returns bad_chunk_entry if the entry is invalid.
  TUCK_HD constexpr status chunk(uint64_t i, directory_entry entry, uint32_t value_bytes,
                                 chunk_view& view) const noexcept {
    const uint32_t values = values_in_chunk(header_, i);
    if (!plausible(entry, values, value_bytes)) return status::bad_chunk_entry;
    view = {entry.kind(), values, {frame_ + (entry.start() << header_.alignment_log2), entry.bytes()}};
    return status::ok;
  }
  /// Sets `view` to chunk i < chunks(), as its entry in the directory describes it.
  TUCK_HD status chunk(uint64_t i, chunk_view& view) const noexcept {
    return chunk(i, {load_unaligned<uint64_t>(frame_ + at_.directory + 8 * i)}, size_of(header_.type), view);
  }

  /// Returns the digest of the tensor that a delta restores. The frame must be a delta.
  TUCK_HD uint64_t result_digest() const noexcept { return load_unaligned<uint64_t>(frame_ + at_.result); }
  /// Returns the digest of the decoded bytes of chunk i. The frame must have checksums.
  TUCK_HD uint64_t chunk_digest(uint64_t i) const noexcept {
    return load_unaligned<uint64_t>(frame_ + at_.checksums + 8 * i);
  }

 private:
  TUCK_HD constexpr bool plausible(directory_entry entry, uint32_t values, uint32_t value_bytes) const noexcept {
    const uint32_t size = entry.bytes(), raw_bytes = values * value_bytes;
    const bool right_size = entry.kind() == chunk_kind::encoded ? size != 0 && size < raw_bytes
                            : entry.kind() == chunk_kind::raw   ? size == raw_bytes
                                                                : size == 0 || size == value_bytes;
    if (entry.kind() > chunk_kind::uniform || !right_size) return false;
    // start < 2^40 and alignment <= 2^12: neither the shift nor the sum can wrap.
    const uint64_t start = entry.start() << header_.alignment_log2;
    return start + size <= header_.frame_bytes && (size == 0 || start >= at_.payloads);
  }

  const std::byte* frame_ = nullptr;
  frame_header header_;
  frame_layout at_;
};

#if defined(TUCK_HOST)
/// Calls visitor(codec) with the first codec of the list that can have written the frame, with the frame's parameters.
/// @return what from_stages of that codec returns; the visitor is called only if this is ok. type_mismatch if the codec
///         is in the list, but only for other element types; codec_mismatch if it is not in the list
template <codec... Cs, class Visitor> status visit(codec_list<Cs...>, const frame_header& header, Visitor&& visitor) {
  status answer = status::codec_mismatch;
  [[maybe_unused]] const auto attempt = [&]<class C>(C codec) {
    const status s = C::from_stages(header.stages, codec);
    if (s == status::codec_mismatch) return false;
    if (!holds<value_t<C>>(header.type)) {
      if (answer == status::codec_mismatch) answer = status::type_mismatch;
      return false;
    }
    answer = s;
    if (s == status::ok) visitor(codec);
    return true;
  };
  static_cast<void>((attempt(Cs{}) || ...));
  return answer;
}
#endif

}  // namespace tuck::inline TUCK_ABI
