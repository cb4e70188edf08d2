// Any bytes as a DEFLATE stream: zlib's verdict, zlib's bytes.
#include "fuzz/fuzz.hpp"

#include <tuck/codec/inflate/inflate.hpp>

#include <zlib.h>

using namespace tuck;
using namespace tuck::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  with_stream(data, size, [](const_bytes stream, size_t room) {
    const exact_room<std::byte> out(room), expected(room);
    const inflate_result mine = inflate(stream, out.all());

    z_stream z{};
    Bytef none = 0;
    require(inflateInit2(&z, -15) == Z_OK, "zlib starts");
    z.next_in = stream.empty() ? &none : reinterpret_cast<Bytef*>(const_cast<std::byte*>(stream.data()));
    z.avail_in = static_cast<uInt>(stream.size());
    z.next_out = room == 0 ? &none : reinterpret_cast<Bytef*>(expected.data());
    z.avail_out = static_cast<uInt>(room);
    const bool accepted = ::inflate(&z, Z_FINISH) == Z_STREAM_END;
    const uint64_t consumed = z.total_in, produced = z.total_out;
    inflateEnd(&z);

    require(bool(mine) == accepted, "zlib's verdict");
    const uint64_t both = std::min(mine.bytes, produced);
    require(both == 0 || std::memcmp(out.data(), expected.data(), both) == 0, "zlib's bytes");
    require(!accepted || (mine.consumed == consumed && mine.bytes == produced), "zlib's counts");
  });
  return 0;
}
