// Any bytes as a DEFLATE stream: zlib's verdict, zlib's bytes. The first two say how much room there is.
#include "fuzz/fuzz.hpp"

#include <tuck/codec/deflate/inflate.hpp>

#include <zlib.h>

using namespace tuck;
using namespace tuck::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const exact_room<std::byte> stream(data + 2, size - 2), out(data[0] | data[1] << 8), expected(out.size());
  const inflate_result mine = inflate(stream.all(), out.all());

  z_stream z{};
  Bytef none = 0;
  require(inflateInit2(&z, -15) == Z_OK, "zlib starts");
  z.next_in = stream.size() == 0 ? &none : reinterpret_cast<Bytef*>(stream.data());
  z.avail_in = static_cast<uInt>(stream.size());
  z.next_out = out.size() == 0 ? &none : reinterpret_cast<Bytef*>(expected.data());
  z.avail_out = static_cast<uInt>(out.size());
  const bool accepted = ::inflate(&z, Z_FINISH) == Z_STREAM_END;
  const uint64_t consumed = z.total_in, produced = z.total_out;
  inflateEnd(&z);

  require(bool(mine) == accepted, "zlib's verdict");
  const uint64_t both = std::min(mine.produced, produced);
  require(both == 0 || std::memcmp(out.data(), expected.data(), both) == 0, "zlib's bytes");
  require(!accepted || (mine.consumed == consumed && mine.produced == produced), "zlib's counts");
  return 0;
}
