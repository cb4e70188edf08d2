#include "fat_binary.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace cudaptx {
namespace {

struct wrapper_layout {
  std::uint32_t magic, version;
  const std::byte* data;
  const void* file;
};

struct header_layout {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;  // behind the header
};

struct entry_layout {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;  // behind the header
};

constexpr std::uint32_t wrapper_magic = 0x466243b1, header_magic = 0xba55ed50;
constexpr std::uint16_t ptx_kind = 1;

template <class T> T read(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

int target_of(std::string_view text) {
  constexpr std::string_view before = ".target sm_";
  const std::size_t at = text.find(before);
  int target = 0;
  if (at != text.npos) std::from_chars(text.data() + at + before.size(), text.data() + text.size(), target);
  return target;
}

int target_of_gpu() {
  const char* const target = std::getenv("CUDASIM_TARGET");
  return target != nullptr ? std::atoi(target) : std::numeric_limits<int>::max();
}

}  // namespace

image ptx_text(std::string_view text) {
  const int target = target_of(text);
  return target != 0 ? image{text, {}, target} : image{{}, "not PTX: it has no .target of sm_NN", 0};
}

image find_ptx(const void* wrapper) {
  image newest{{}, "a fat binary without PTX for this GPU: compile with -gencode arch=compute_NN,code=compute_NN", 0};
  const auto w = read<wrapper_layout>(static_cast<const std::byte*>(wrapper));
  if (w.magic != wrapper_magic) return {{}, "not a fat binary", 0};
  const auto header = read<header_layout>(w.data);
  if (header.magic != header_magic) return {{}, "a fat binary of an unknown format", 0};
  const std::byte* at = w.data + header.header_bytes;
  const std::byte* const end = at + header.bytes;
  while (at < end) {
    const auto entry = read<entry_layout>(at);
    std::string_view text(reinterpret_cast<const char*>(at + entry.header_bytes), entry.bytes);
    at += entry.header_bytes + entry.bytes;
    if (entry.kind != ptx_kind) continue;
    text = text.substr(0, text.find('\0'));
    const int target = target_of(text);
    if (target == 0) {
      newest.problem = "its PTX is compressed: compile with -Xfatbin --compress=false";
    } else if (target > newest.target && target <= target_of_gpu()) {
      newest = {text, {}, target};
    }
  }
  return newest;
}

}  // namespace cudaptx
