#include "bench/peers/chunked_coder.hpp"

#include <zstd.h>

namespace tuck::bench {
namespace {

class zstd_chunks {
 public:
  static constexpr const char* library = "zstd";

  // A context gets its tables with the first chunk and keeps them: they are not to be part of what is timed.
  zstd_chunks(uint64_t longest, int level)
      : level_(level), compressor_(ZSTD_createCCtx()), decompressor_(ZSTD_createDCtx()) {
    require(compressor_ != nullptr, library, "ZSTD_createCCtx failed");
    require(decompressor_ != nullptr, library, "ZSTD_createDCtx failed");
    const std::vector<std::byte> chunk(longest);
    std::vector<std::byte> room(bound(longest));
    encode(chunk, room);
  }

  uint64_t bound(uint64_t chunk) { return ZSTD_compressBound(chunk); }

  uint64_t encode(const_bytes chunk, bytes room) {
    return checked(ZSTD_compressCCtx(compressor_.get(), room.data(), room.size(), chunk.data(), chunk.size(), level_));
  }

  uint64_t decode(const_bytes encoded, bytes chunk) {
    return checked(
        ZSTD_decompressDCtx(decompressor_.get(), chunk.data(), chunk.size(), encoded.data(), encoded.size()));
  }

 private:
  static size_t checked(size_t result) {
    if (ZSTD_isError(result)) require(false, library, ZSTD_getErrorName(result));
    return result;
  }

  int level_;
  handle<ZSTD_CCtx, ZSTD_freeCCtx> compressor_;
  handle<ZSTD_DCtx, ZSTD_freeDCtx> decompressor_;
};

}  // namespace

std::vector<peer> zstd_peers() {
  const std::string version = std::string("zstd ") + ZSTD_versionString();
  return {{"zstd-1", version, false, takes_any, make_chunked<zstd_chunks, 1>},
          {"zstd-3", version, false, takes_any, make_chunked<zstd_chunks, 3>},
          {"zstd-19", version, false, takes_any, make_chunked<zstd_chunks, 19>, true}};
}

}  // namespace tuck::bench
