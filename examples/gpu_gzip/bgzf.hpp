// BGZF: gzip files of small members that say how long they are (SAM/BAM specification, section 4.1). What reads gzip
// reads them; who knows of the lengths decodes members at once.
//
//   0   1f 8b 08 04         gzip, DEFLATE, an extra field
//   4   00 00 00 00 00 ff   no time, nothing else, unknown system
//   10  06 00               bytes of the extra field; readers allow for more subfields
//   12  42 43 02 00         subfield BC, of 2 bytes
//   16  BSIZE               the member's bytes, less 1
//   18  DEFLATE stream
//       CRC-32, ISIZE       of what it gives: the remainder, and the bytes; 32 bits each
//
// A file ends with the member `end_member`, which holds nothing: without it, it may have been cut.
#pragma once

#include <tuck/core/span.hpp>

#include <cstdint>
#include <string>

namespace gpu_gzip {

using tuck::bytes;
using tuck::const_bytes;

inline constexpr uint32_t max_member_bytes = 64 * 1024;  // as a file has it
inline constexpr uint32_t max_output = 64 * 1024;        // that a member gives
inline constexpr uint32_t member_input = 16 * 1024;      // that we put into one: a chunk as kernels have them
inline constexpr uint32_t header_bytes = 18;
inline constexpr uint32_t trailer_bytes = 8;
inline constexpr uint32_t end_bytes = 28;

const_bytes end_member() noexcept;

// What stands before and behind a stream of `stream_bytes`; each returns its end.
std::byte* write_header(std::byte* to, uint32_t stream_bytes) noexcept;
std::byte* write_trailer(std::byte* to, uint32_t crc, uint32_t size) noexcept;

struct member {
  const_bytes all;
  const_bytes stream;
  uint32_t crc = 0;
  uint32_t size = 0;  // of what the stream gives, by its own account at most max_output
};

// How much of a file parse_member wants to see, if there is as much.
inline constexpr uint32_t parse_bytes = max_member_bytes + 2;

// The member that `file`, untrusted and not empty, begins with. Returns what is wrong, or nothing. The stream is not
// looked at.
std::string parse_member(const_bytes file, member& found);

// The first two bytes are gzip's, as far as they are there.
bool begins_gzip(const_bytes file) noexcept;

bool is_end_member(const_bytes all) noexcept;

}  // namespace gpu_gzip
