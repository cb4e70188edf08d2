// What can go wrong, one value each, and the outcome of an operation.
#pragma once

#include <tuck/core/config.hpp>

#include <cstdint>

namespace tuck::inline TUCK_ABI {

// Values are stored by kernels and printed by tools: append, never renumber.
enum class status : uint32_t {
  ok = 0,

  // The call was wrong, or the machine could not serve it; known before any data was looked at.
  invalid_argument = 1,    // an argument is impossible: an option no frame can have, a null pointer
  size_overflow = 2,       // the sizes asked for do not fit the frame's fields or 64 bits
  output_too_small = 3,    // the output has fewer bytes or values than the result needs
  bad_range = 4,           // the values asked for lie outside the frame
  out_of_memory = 5,       // working memory could not be allocated
  misaligned = 6,          // a pointer is not a multiple of what its use needs
  unsupported = 7,         // the device codec does not take chunks of that size
  wrong_metadata = 8,      // host calls take frame_options::metadata, calls on a stream metadata_on_device
  cuda_error = 9,          // a CUDA call failed; the result says how
  scratch_too_small = 10,  // the scratch has fewer bytes than scratch_bytes says
  bad_bound = 11,          // the error bound is zero, negative, infinite or no number
  batch_too_large = 12,    // an item of a batch, or the batch, has more values than batch_sizes promised
  pool_full = 13,          // the pinned pool has no room for the tensor, which stays where it is
  not_ready = 14,          // the work is still under way
  not_swappable = 15,      // a swap_stream takes neither streams that are captured nor bounds in device memory

  // The frame is not for this call.
  type_mismatch = 16,    // the frame holds another element type
  codec_mismatch = 17,   // the frame was written by another codec, or by none of the given ones
  needs_base = 18,       // the frame is a delta, which decode_delta applies to its base
  not_a_delta = 19,      // decode_delta takes deltas only
  wrong_base = 20,       // the base has other values, or another number of them, than the delta was made against
  lossy_delta = 21,      // a delta is lossless: no codec that changes values can encode it
  not_consecutive = 22,  // a delta is not against what the one before it restores, in chunks of the same values

  // The frame is damaged, hostile, or not a frame.
  truncated = 32,        // fewer bytes than the header announces, or than a header has
  bad_magic = 33,        // it does not begin with "TUCK"
  bad_version = 34,      // a frame or codec format version that this library does not know
  bad_header = 35,       // the header fails its checksum, or a field is out of range
  bad_directory = 36,    // metadata, directory or chunk checksums fail their checksum
  bad_chunk_entry = 37,  // a directory entry points outside the payloads or has an impossible size or kind
  bad_payload = 38,      // a chunk's bytes are not what its codec writes
  bad_checksum = 39,     // a chunk's decoded values fail the chunk's checksum
  bad_parameters = 40,   // the header's codec parameters are out of range

  // The DEFLATE stream is damaged, or is none.
  deflate_ends_early = 64,       // it has no final block, or ends within one
  deflate_block_type = 65,       // a block of type 3
  deflate_stored_length = 66,    // LEN of a stored block is not the complement of NLEN
  deflate_code_counts = 67,      // HLIT announces more than 286 codes, or HDIST more than 30
  deflate_precode = 68,          // the code of the code lengths is over-subscribed or incomplete
  deflate_first_repeat = 69,     // the first code length repeats the one before it
  deflate_long_repeat = 70,      // a repeat of code lengths goes past their number
  deflate_no_end_code = 71,      // no code for the end of the block
  deflate_literal_code = 72,     // the literal/length code is over-subscribed or incomplete
  deflate_distance_code = 73,    // the distance code is
  deflate_codeword = 74,         // bits that are no symbol's code
  deflate_length_symbol = 75,    // length symbol 286 or 287
  deflate_distance_symbol = 76,  // distance symbol 30 or 31
  deflate_distance = 77,         // a match that begins before the output does
  deflate_too_long = 78,         // more output than there is room for
};

// One line of meaning in plain English, without a full stop; never null.
TUCK_HD constexpr const char* message(status s) noexcept {
  switch (s) {
    case status::ok: return "ok";
    case status::invalid_argument: return "an argument or option is impossible";
    case status::size_overflow: return "the size does not fit the frame's fields";
    case status::output_too_small: return "the output is too small";
    case status::bad_range: return "the values asked for lie outside the frame";
    case status::out_of_memory: return "working memory could not be allocated";
    case status::misaligned: return "a pointer is misaligned";
    case status::unsupported: return "the device codec does not take chunks of that size";
    case status::wrong_metadata: return "host calls take `metadata`, calls on a stream `metadata_on_device`";
    case status::cuda_error: return "a CUDA call failed";
    case status::scratch_too_small: return "the scratch is too small";
    case status::bad_bound: return "the error bound is not a positive, finite number";
    case status::batch_too_large: return "the batch has more values than was promised";
    case status::pool_full: return "the pool of pinned memory has no room for it";
    case status::not_ready: return "the work is still under way";
    case status::not_swappable: return "a swap stream takes no captured stream and no bound in device memory";
    case status::type_mismatch: return "the frame holds another element type";
    case status::codec_mismatch: return "the frame was written by another codec";
    case status::needs_base: return "the frame is a delta and needs its base";
    case status::not_a_delta: return "the frame is not a delta";
    case status::wrong_base: return "the base is not the tensor that the delta was made against";
    case status::lossy_delta: return "a delta takes a lossless codec";
    case status::not_consecutive: return "the delta is not against what the one before it restores";
    case status::truncated: return "the frame is truncated";
    case status::bad_magic: return "not a tuck frame";
    case status::bad_version: return "unknown format version";
    case status::bad_header: return "the frame's header is damaged";
    case status::bad_directory: return "the frame's directory or metadata is damaged";
    case status::bad_chunk_entry: return "a directory entry is impossible";
    case status::bad_payload: return "a chunk's payload is damaged";
    case status::bad_checksum: return "a chunk's values fail their checksum";
    case status::bad_parameters: return "the codec's parameters are out of range";
    case status::deflate_ends_early: return "the DEFLATE stream ends early";
    case status::deflate_block_type: return "the DEFLATE stream has a block of no known type";
    case status::deflate_stored_length: return "a stored block's length does not match its complement";
    case status::deflate_code_counts: return "a DEFLATE block announces too many codes";
    case status::deflate_precode: return "the code of the code lengths is over-subscribed or incomplete";
    case status::deflate_first_repeat: return "the first code length repeats one before it";
    case status::deflate_long_repeat: return "a repeat of code lengths goes past their number";
    case status::deflate_no_end_code: return "a DEFLATE block has no code for its end";
    case status::deflate_literal_code: return "a literal/length code is over-subscribed or incomplete";
    case status::deflate_distance_code: return "a distance code is over-subscribed or incomplete";
    case status::deflate_codeword: return "the DEFLATE stream has bits that are no symbol's code";
    case status::deflate_length_symbol: return "the DEFLATE stream has a length symbol that means nothing";
    case status::deflate_distance_symbol: return "the DEFLATE stream has a distance symbol that means nothing";
    case status::deflate_distance: return "a DEFLATE match begins before the output";
    case status::deflate_too_long: return "the DEFLATE stream gives more output than there is room for";
  }
  return "unknown status";
}

// The frame may be in order, only not for this call, which then leaves its output as it was.
TUCK_HD constexpr bool is_mismatch(status s) noexcept {
  return s == status::bad_range || s == status::unsupported ||
         (s >= status::type_mismatch && s <= status::not_consecutive);
}

// No chunk is bad, or the error is not one of a chunk.
inline constexpr uint32_t no_chunk = 0xffffffffu;

// What a call says when it returns, before the data are looked at: misuse, and errors of the CUDA calls that it made.
struct [[nodiscard]] result {
  status code = status::ok;
  int cuda = 0;  // with status::cuda_error, the cudaError_t

  constexpr explicit operator bool() const noexcept { return code == status::ok; }
};

// The outcome of an encode or decode, which is true where that went well. On the device a kernel writes it; on the host
// it is returned. Zeroed memory, which no kernel has written, is false: where all is well, no chunk is named.
struct [[nodiscard]] alignas(16) outcome {
  uint64_t bytes = 0;  // of the frame written (or needed), or of the values restored
  status code = status::ok;
  uint32_t first_bad_chunk = no_chunk;  // lowest index of a chunk that could not be restored

  TUCK_HD constexpr explicit operator bool() const noexcept {
    return code == status::ok && first_bad_chunk == no_chunk;
  }
};

}  // namespace tuck::inline TUCK_ABI
