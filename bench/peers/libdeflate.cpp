#include "bench/peers/chunked_coder.hpp"

#include <libdeflate.h>

namespace tuck::bench {
namespace {

class libdeflate_chunks {
 public:
  static constexpr const char* library = "libdeflate";

  libdeflate_chunks(uint64_t, int level)
      : compressor_(libdeflate_alloc_compressor(level)), decompressor_(libdeflate_alloc_decompressor()) {
    require(compressor_ != nullptr, library, "libdeflate_alloc_compressor failed");
    require(decompressor_ != nullptr, library, "libdeflate_alloc_decompressor failed");
  }

  uint64_t bound(uint64_t chunk) { return libdeflate_deflate_compress_bound(compressor_.get(), chunk); }

  uint64_t encode(const_bytes chunk, bytes room) {
    const size_t written =
        libdeflate_deflate_compress(compressor_.get(), chunk.data(), chunk.size(), room.data(), room.size());
    require(written != 0, library, "libdeflate_deflate_compress failed");
    return written;
  }

  uint64_t decode(const_bytes encoded, bytes chunk) {
    size_t written = 0;
    require(libdeflate_deflate_decompress(decompressor_.get(), encoded.data(), encoded.size(), chunk.data(),
                                          chunk.size(), &written) == LIBDEFLATE_SUCCESS,
            library, "libdeflate_deflate_decompress failed");
    return written;
  }

 private:
  handle<libdeflate_compressor, libdeflate_free_compressor> compressor_;
  handle<libdeflate_decompressor, libdeflate_free_decompressor> decompressor_;
};

}  // namespace

std::vector<peer> libdeflate_peers() {
  const std::string version = "libdeflate " LIBDEFLATE_VERSION_STRING;  // only the header says it
  return {{"libdeflate-1", version, false, takes_any, make_chunked<libdeflate_chunks, 1>},
          {"libdeflate-6", version, false, takes_any, make_chunked<libdeflate_chunks, 6>}};
}

}  // namespace tuck::bench
