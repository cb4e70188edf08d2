// SPDX-License-Identifier: Apache-2.0
// Status codes, their texts, and the result types of calls and kernels.
#pragma once

#include <tuck/core/config.hpp>
#include <tuck/core/standard.hpp>

namespace tuck::inline TUCK_ABI {

/// Why an operation failed, or ok. Kernels store these numbers and tools print them: never renumber. New ones: 41 to 47
/// for damaged frames, 48 to 63 for wrong calls, 79 to 127 for DEFLATE streams. Those of the second group, 16 to 22,
/// leave the output unchanged (is_mismatch).
enum class status : uint32_t {
  ok = 0,  ///< success

  // The call is wrong, or a resource is missing.
  invalid_argument = 1,    ///< an argument is invalid, for example an option out of range or a null pointer
  size_overflow = 2,       ///< a size is too large for the fields of a frame, for 64 bits, or for one launch
  output_too_small = 3,    ///< the output buffer is smaller than the result
  bad_range = 4,           ///< the requested values lie outside the frame
  out_of_memory = 5,       ///< working memory or a thread could not be allocated
  misaligned = 6,          ///< a pointer is less aligned than its use requires
  unsupported = 7,         ///< device codecs do not support chunks of this size
  wrong_metadata = 8,      ///< host calls take frame_options::metadata, calls on a stream metadata_on_device
  cuda_error = 9,          ///< a CUDA call failed; result::cuda has its error code
  scratch_too_small = 10,  ///< the scratch buffer is smaller than the call requires
  bad_bound = 11,          ///< the error bound is zero, negative, infinite or NaN
  batch_too_large = 12,    ///< the batch or one of its items exceeds the batch_sizes of the call
  pool_full = 13,          ///< the pinned pool has too little space left for the tensor
  not_ready = 14,          ///< the operation has not finished
  not_swappable = 15,      ///< a swap_stream accepts neither capturing streams nor error bounds in device memory

  // The frame does not fit the call.
  type_mismatch = 16,    ///< the frame holds another element type
  codec_mismatch = 17,   ///< the frame was written by another codec, or by none of the given codecs
  needs_base = 18,       ///< the frame is a delta; decode_delta applies it to its base
  not_a_delta = 19,      ///< decode_delta accepts only deltas
  wrong_base = 20,       ///< the values of the base, or their number, are not those of the delta's base
  lossy_delta = 21,      ///< a delta is lossless: a lossy codec cannot encode it
  not_consecutive = 22,  ///< the base of a delta is not the result of the delta before it, or their chunk sizes differ

  // As in the first group: the call is wrong.
  pool_too_small = 23,    ///< swap_options::pinned_bytes is less than the tensor needs, or 0
  empty_handle = 24,      ///< the swap_handle has no tensor: `out` has not set it, or it was reset or moved from
  foreign_handle = 25,    ///< the swap_handle is of another swap_stream
  null_pointer = 26,      ///< a pointer passed to a swap_stream is null, and its size is not 0
  wrong_size = 27,        ///< the destination has another size than the offloaded tensor
  wrong_type = 28,        ///< the destination has another element type than the offloaded tensor
  unknown_codec = 29,     ///< no codec of the list has the name or index, or any_codec has no codec
  unsupported_type = 30,  ///< the codec does not support the element type
  overlapping = 31,       ///< the output of an item of a batch overlaps memory of another item

  // The frame is damaged, malicious, or not a frame.
  truncated = 32,        ///< fewer bytes than a header has, or than the header announces
  bad_magic = 33,        ///< the first bytes are not "TUCK"
  bad_version = 34,      ///< the format version of the frame or the codec is unknown
  bad_header = 35,       ///< the header fails its checksum, or a field is out of range
  bad_directory = 36,    ///< metadata, directory, chunk checksums or result digest do not match contents_digest
  bad_chunk_entry = 37,  ///< a directory entry points outside the payloads, or its size or kind is invalid
  bad_payload = 38,      ///< a chunk's bytes are not a valid encoding
  bad_checksum = 39,     ///< a chunk's decoded values fail the chunk's checksum
  bad_parameters = 40,   ///< the codec parameters in the header are out of range

  // The DEFLATE stream is damaged, or is not a DEFLATE stream.
  deflate_ends_early = 64,       ///< no final block, or the end lies within a block
  deflate_block_type = 65,       ///< a block of type 3
  deflate_stored_length = 66,    ///< LEN of a stored block is not the complement of NLEN
  deflate_code_counts = 67,      ///< HLIT announces more than 286 codes, or HDIST more than 30
  deflate_precode = 68,          ///< the code length code is over-subscribed or incomplete
  deflate_first_repeat = 69,     ///< the first code length repeats a previous length
  deflate_long_repeat = 70,      ///< a repeat exceeds the number of code lengths
  deflate_no_end_code = 71,      ///< no code for the end of the block
  deflate_literal_code = 72,     ///< the literal/length code is over-subscribed or incomplete
  deflate_distance_code = 73,    ///< the distance code is over-subscribed or incomplete
  deflate_codeword = 74,         ///< bits that are not the code of any symbol
  deflate_length_symbol = 75,    ///< length symbol 286 or 287
  deflate_distance_symbol = 76,  ///< distance symbol 30 or 31
  deflate_distance = 77,         ///< a match starts before the beginning of the output
  deflate_too_long = 78,         ///< the stream decodes to more bytes than the output holds
};

/// Returns a one-line text for a status: lower case, without a full stop, never null.
TUCK_HD constexpr const char* message(status s) noexcept {
  switch (s) {
    case status::ok: return "ok";
    case status::invalid_argument: return "invalid argument or option";
    case status::size_overflow: return "the size exceeds what a frame or a launch can hold";
    case status::output_too_small: return "the output buffer is too small";
    case status::bad_range: return "the requested values lie outside the frame";
    case status::out_of_memory: return "working memory could not be allocated";
    case status::misaligned: return "a pointer is misaligned";
    case status::unsupported: return "the device codec does not support chunks of this size";
    case status::wrong_metadata: return "use option `metadata` in host calls and `metadata_on_device` on a stream";
    case status::cuda_error: return "a CUDA call failed";
    case status::scratch_too_small: return "the scratch buffer is too small";
    case status::bad_bound: return "the error bound must be positive and finite";
    case status::batch_too_large: return "the batch has more items or values than its batch_sizes";
    case status::pool_full: return "the pinned memory pool is full";
    case status::not_ready: return "the operation has not finished";
    case status::not_swappable: return "a swap stream accepts no capturing stream and no bound in device memory";
    case status::type_mismatch: return "the frame holds another element type";
    case status::codec_mismatch: return "the frame was written by another codec";
    case status::needs_base: return "the frame is a delta and needs its base";
    case status::not_a_delta: return "the frame is not a delta";
    case status::wrong_base: return "the base is not the tensor that the delta was made against";
    case status::lossy_delta: return "a delta needs a lossless codec";
    case status::not_consecutive: return "the base of the delta is not the result of the delta before it";
    case status::pool_too_small: return "the pinned pool is too small for the tensor; raise pinned_bytes";
    case status::empty_handle: return "the swap_handle is empty";
    case status::foreign_handle: return "the swap_handle belongs to another swap_stream";
    case status::null_pointer: return "a pointer is null, and its size is not 0";
    case status::wrong_size: return "the destination does not have the size of the offloaded tensor";
    case status::wrong_type: return "the destination does not have the element type of the offloaded tensor";
    case status::unknown_codec: return "no codec of the list has this name or index, or none was chosen";
    case status::unsupported_type: return "the chosen codec does not support this element type";
    case status::overlapping: return "the output overlaps memory of another item of the batch";
    case status::truncated: return "the frame is truncated";
    case status::bad_magic: return "not a tuck frame";
    case status::bad_version: return "unknown format version";
    case status::bad_header: return "the frame's header is damaged";
    case status::bad_directory: return "the frame's directory or metadata is damaged";
    case status::bad_chunk_entry: return "a directory entry is invalid";
    case status::bad_payload: return "a chunk's payload is damaged";
    case status::bad_checksum: return "a chunk's values fail their checksum";
    case status::bad_parameters: return "the codec's parameters are out of range";
    case status::deflate_ends_early: return "the DEFLATE stream ends early";
    case status::deflate_block_type: return "the DEFLATE stream has a block of unknown type";
    case status::deflate_stored_length: return "a stored DEFLATE block's length does not match its complement";
    case status::deflate_code_counts: return "a DEFLATE block announces too many codes";
    case status::deflate_precode: return "the DEFLATE code length code is over-subscribed or incomplete";
    case status::deflate_first_repeat: return "the first DEFLATE code length repeats a previous length";
    case status::deflate_long_repeat: return "a repeat exceeds the number of DEFLATE code lengths";
    case status::deflate_no_end_code: return "a DEFLATE block has no code for its end";
    case status::deflate_literal_code: return "a DEFLATE literal/length code is over-subscribed or incomplete";
    case status::deflate_distance_code: return "a DEFLATE distance code is over-subscribed or incomplete";
    case status::deflate_codeword: return "the DEFLATE stream has bits that are not a code";
    case status::deflate_length_symbol: return "the DEFLATE stream has an invalid length symbol";
    case status::deflate_distance_symbol: return "the DEFLATE stream has an invalid distance symbol";
    case status::deflate_distance: return "a DEFLATE match starts before the output";
    case status::deflate_too_long: return "the DEFLATE stream decodes to more bytes than the output holds";
  }
  return "unknown status";
}

/// Returns whether the frame may be valid but does not fit the call. A decoding call that returns such a status leaves
/// its output unchanged. Exception: decode_delta with `chunk_by_chunk` may return wrong_base after it has written.
TUCK_HD constexpr bool is_mismatch(status s) noexcept {
  return s == status::bad_range || s == status::unsupported ||
         (s >= status::type_mismatch && s <= status::not_consecutive);
}

/// Value of outcome::first_bad_chunk if no chunk is bad or the error concerns no chunk.
inline constexpr uint32_t no_chunk = 0xffffffffu;

/// What a call on a stream returns before the data is processed. Reports misuse, or the error of a CUDA call in the
/// function.
struct [[nodiscard]] result {
  status code = status::ok;  ///< ok, or why the call failed
  int cuda = 0;              ///< the cudaError_t if `code` is cuda_error, else 0

  /// Returns whether the call succeeded.
  TUCK_HD constexpr explicit operator bool() const noexcept { return code == status::ok; }
};

/// How an encode or decode ended. Host calls return it; on a stream a kernel writes it, to memory aligned to 16 bytes.
/// Zeroed memory that no kernel has written converts to false, because success stores no_chunk and not 0.
struct [[nodiscard]] alignas(16) outcome {
  uint64_t bytes = 0;                   ///< size of the frame written or needed, or of the values restored
  status code = status::ok;             ///< ok, or why it failed
  uint32_t first_bad_chunk = no_chunk;  ///< lowest index of a chunk that could not be restored

  /// Returns whether it succeeded.
  TUCK_HD constexpr explicit operator bool() const noexcept {
    return code == status::ok && first_bad_chunk == no_chunk;
  }
};

}  // namespace tuck::inline TUCK_ABI
