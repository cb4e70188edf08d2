#include "bench/peers/chunked_coder.hpp"

#define ZLIB_CONST
#include <zlib.h>

namespace tuck::bench {
namespace {

// zlib keeps the address of its stream, which thus stays where it is.
template <int (*end)(z_stream*)> struct stream : z_stream {
  stream() : z_stream{} {}
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  ~stream() { end(this); }  // does nothing to one that never began

  void point(const_bytes in, bytes out) {
    next_in = reinterpret_cast<const Bytef*>(in.data());
    avail_in = static_cast<uInt>(in.size());
    next_out = reinterpret_cast<Bytef*>(out.data());
    avail_out = static_cast<uInt>(out.size());
  }
};

class zlib_chunks {
 public:
  static constexpr const char* library = "zlib";

  zlib_chunks(uint64_t, int level) {
    constexpr int raw = -15, memory = 8;  // neither header nor checksum; memory is the default
    require(deflateInit2(&out_, level, Z_DEFLATED, raw, memory, Z_DEFAULT_STRATEGY) == Z_OK, library,
            "deflateInit2 failed");
    require(inflateInit2(&in_, raw) == Z_OK, library, "inflateInit2 failed");
  }

  uint64_t bound(uint64_t chunk) { return deflateBound(&out_, static_cast<uLong>(chunk)); }

  uint64_t encode(const_bytes chunk, bytes room) {
    require(deflateReset(&out_) == Z_OK, library, "deflateReset failed");
    out_.point(chunk, room);
    require(deflate(&out_, Z_FINISH) == Z_STREAM_END, library, "deflate failed");
    return out_.total_out;
  }

  uint64_t decode(const_bytes encoded, bytes chunk) {
    require(inflateReset(&in_) == Z_OK, library, "inflateReset failed");
    in_.point(encoded, chunk);
    require(inflate(&in_, Z_FINISH) == Z_STREAM_END, library, "inflate failed");
    return in_.total_out;
  }

 private:
  stream<deflateEnd> out_;
  stream<inflateEnd> in_;
};

}  // namespace

std::vector<peer> zlib_peers() {
  const std::string version = std::string("zlib ") + zlibVersion();
  return {{"zlib-1", version, false, takes_any, make_chunked<zlib_chunks, 1>},
          {"zlib-6", version, false, takes_any, make_chunked<zlib_chunks, 6>}};
}

}  // namespace tuck::bench
