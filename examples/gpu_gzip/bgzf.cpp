#include "bgzf.hpp"

#include <tuck/core/bits.hpp>

#include <cstring>

namespace gpu_gzip {
namespace {

using tuck::load_unaligned;
using tuck::store_unaligned;

constexpr uint32_t fixed_header_bytes = 12;  // up to the extra field
constexpr uint8_t header_start[] = {0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, 'B', 'C', 2, 0};
constexpr uint8_t whole_end_member[end_bytes] = {0x1f, 0x8b, 8,  4, 0, 0, 0, 0, 0, 0xff, 6, 0, 'B', 'C',
                                                 2,    0,    27, 0, 3, 0, 0, 0, 0, 0,    0, 0, 0,   0};

// The member's bytes by its subfield BC; 0 where there is none.
uint32_t find_size(const_bytes extra) noexcept {
  while (extra.size() >= 4) {
    const uint32_t length = load_unaligned<uint16_t>(extra.data() + 2);
    if (length > extra.size() - 4) return 0;
    if (std::memcmp(extra.data(), header_start + 12, 4) == 0) return load_unaligned<uint16_t>(extra.data() + 4) + 1u;
    extra = extra.subspan(4 + length);
  }
  return 0;
}

std::string cut_short(const_bytes file, uint32_t needed) {
  return "truncated: of its " + std::to_string(needed) + " bytes " + std::to_string(file.size()) + " are there";
}

// The bytes of the header and of the member.
std::string parse_header(const_bytes file, uint32_t& header, uint32_t& size) {
  if (!begins_gzip(file)) return "garbage: no member begins here";
  if (file.size() < fixed_header_bytes) return cut_short(file, header_bytes);
  const auto flags = static_cast<uint8_t>(file[3]);
  if (static_cast<uint8_t>(file[2]) != 8) return "the compression method is not DEFLATE";
  if (flags != 4) return (flags & 4) == 0 ? "gzip, but not BGZF: it has no field BC" : "BGZF has no such header flags";
  header = fixed_header_bytes + load_unaligned<uint16_t>(file.data() + 10);
  if (header + trailer_bytes > max_member_bytes) return "the header leaves no room for a stream";
  if (header > file.size()) return cut_short(file, header);
  size = find_size(file.subspan(fixed_header_bytes, header - fixed_header_bytes));
  if (size == 0) return "gzip, but not BGZF: it has no field BC";
  if (size < header + trailer_bytes) return "BSIZE is wrong: " + std::to_string(size) + " bytes hold no member";
  return {};
}

}  // namespace

const_bytes end_member() noexcept { return {reinterpret_cast<const std::byte*>(whole_end_member), end_bytes}; }

std::byte* write_header(std::byte* to, uint32_t stream_bytes) noexcept {
  std::memcpy(to, header_start, sizeof header_start);
  store_unaligned(to + sizeof header_start, static_cast<uint16_t>(header_bytes + stream_bytes + trailer_bytes - 1));
  return to + header_bytes;
}

std::byte* write_trailer(std::byte* to, uint32_t crc, uint32_t size) noexcept {
  store_unaligned(to, crc);
  store_unaligned(to + 4, size);
  return to + trailer_bytes;
}

bool begins_gzip(const_bytes file) noexcept {
  return std::memcmp(file.data(), header_start, file.size() < 2 ? file.size() : 2) == 0;
}

bool is_end_member(const_bytes all) noexcept {
  return all.size() == end_bytes && std::memcmp(all.data(), whole_end_member, end_bytes) == 0;
}

std::string parse_member(const_bytes file, member& found) {
  uint32_t header = 0, size = 0;
  if (std::string wrong = parse_header(file, header, size); !wrong.empty()) return wrong;
  if (size > file.size()) return cut_short(file, size);
  const const_bytes all = file.subspan(0, size);
  if (!is_end_member(all) && size != file.size() && !begins_gzip(file.subspan(size)))
    return "no member begins where BSIZE says that it ends";
  const std::byte* const trailer = all.data() + size - trailer_bytes;
  found = {all, all.subspan(header, size - header - trailer_bytes), load_unaligned<uint32_t>(trailer),
           load_unaligned<uint32_t>(trailer + 4)};
  return found.size <= max_output ? "" : "ISIZE is wrong: " + std::to_string(found.size) + " bytes";
}

}  // namespace gpu_gzip
