// Any bytes as a DEFLATE stream, for a warp on the simulator: the verdict, the counts and the bytes of inflate on the
// host.
#include "fuzz/device.hpp"

using namespace tuck;
using namespace tuck::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  with_stream(data, size, [](const_bytes stream, size_t room) {
    const exact_room<std::byte> out(room), expected(room);
    const exact_room<inflate_item> item(1);
    const exact_room<inflate_result> result(1);
    item.data()[0] = {stream, out.all()};
    const detail::inflate_job job{{item.data(), 1}, result.data()};
    run_block(device::warp_size, inflate_batch_kernel<device::warp_size>, job);
    const inflate_result mine = result.data()[0], host = inflate(stream, expected.all());
    require(mine.code == host.code, "the host's verdict");
    require(mine.consumed == host.consumed && mine.bytes == host.bytes, "the host's counts");
    require(mine.bytes == 0 || std::memcmp(out.data(), expected.data(), mine.bytes) == 0, "the host's bytes");
  });
  return 0;
}
