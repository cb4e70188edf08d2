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
  default_stream = 8,      // work is not put on the default stream, which waits for all others
  cuda_error = 9,          // a CUDA call failed; the result says how
  scratch_too_small = 10,  // the scratch has fewer bytes than scratch_bytes says
  bad_bound = 11,          // the error bound is zero, negative, infinite or no number

  // The frame is not for this call.
  type_mismatch = 16,   // the frame holds another element type
  codec_mismatch = 17,  // the frame was written by another codec, or by none of the given ones

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
    case status::default_stream: return "the default stream is refused: pass one of your own";
    case status::cuda_error: return "a CUDA call failed";
    case status::scratch_too_small: return "the scratch is too small";
    case status::bad_bound: return "the error bound is not a positive, finite number";
    case status::type_mismatch: return "the frame holds another element type";
    case status::codec_mismatch: return "the frame was written by another codec";
    case status::truncated: return "the frame is truncated";
    case status::bad_magic: return "not a tuck frame";
    case status::bad_version: return "unknown format version";
    case status::bad_header: return "the frame's header is damaged";
    case status::bad_directory: return "the frame's directory or metadata is damaged";
    case status::bad_chunk_entry: return "a directory entry is impossible";
    case status::bad_payload: return "a chunk's payload is damaged";
    case status::bad_checksum: return "a chunk's values fail their checksum";
    case status::bad_parameters: return "the codec's parameters are out of range";
  }
  return "unknown status";
}

// The frame may be in order, only not for this call, which then leaves its output as it was.
TUCK_HD constexpr bool is_mismatch(status s) noexcept {
  return s == status::type_mismatch || s == status::codec_mismatch || s == status::bad_range ||
         s == status::unsupported;
}

// No chunk is bad, or the error is not one of a chunk.
inline constexpr uint32_t no_chunk = 0xffffffffu;

// The outcome of an encode or decode. On the device a kernel writes it; on the host it is returned.
struct [[nodiscard]] alignas(16) outcome {
  uint64_t bytes = 0;  // of the frame written (or needed), or of the values restored
  status code = status::ok;
  uint32_t first_bad_chunk = no_chunk;  // lowest index of a chunk that could not be restored

  TUCK_HD constexpr explicit operator bool() const noexcept { return code == status::ok; }
};

}  // namespace tuck::inline TUCK_ABI
