#include "bench/peers/chunked_coder.hpp"

#include <lz4.h>

namespace tuck::bench {
namespace {

const char* chars(const_bytes b) { return reinterpret_cast<const char*>(b.data()); }
char* chars(bytes b) { return reinterpret_cast<char*>(b.data()); }

struct lz4_chunks {
  static constexpr const char* library = "lz4";

  explicit lz4_chunks(uint64_t) {}

  uint64_t bound(uint64_t chunk) { return static_cast<uint64_t>(LZ4_compressBound(static_cast<int>(chunk))); }

  // Its tables lie on the stack.
  uint64_t encode(const_bytes chunk, bytes room) {
    const int written =
        LZ4_compress_default(chars(chunk), chars(room), static_cast<int>(chunk.size()), static_cast<int>(room.size()));
    require(written > 0, library, "LZ4_compress_default failed");
    return static_cast<uint64_t>(written);
  }

  uint64_t decode(const_bytes encoded, bytes chunk) {
    const int written = LZ4_decompress_safe(chars(encoded), chars(chunk), static_cast<int>(encoded.size()),
                                            static_cast<int>(chunk.size()));
    require(written >= 0, library, "LZ4_decompress_safe failed");
    return static_cast<uint64_t>(written);
  }
};

}  // namespace

std::vector<peer> lz4_peers() {
  return {{"lz4", std::string("lz4 ") + LZ4_versionString(), false, takes_any, make_chunked<lz4_chunks>}};
}

}  // namespace tuck::bench
