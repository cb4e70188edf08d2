// Any bytes as a frame, for decode on the simulator: what host::decode says and writes, of the whole and of a part.
#include "fuzz/device.hpp"

using namespace tuck;
using namespace tuck::fuzz;

namespace {

scratch_span scratch() {
  static const scratch_span one = [] {
    void* fresh = nullptr;
    require(cudaMalloc(&fresh, scratch_head_bytes) == cudaSuccess, "there is memory");
    const scratch_span room({static_cast<std::byte*>(fresh), scratch_head_bytes});
    require(bool(initialize(room, stream())), "scratch is prepared");
    return room;
  }();
  return one;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  with_frame(data, size, [](const_bytes frame, const frame_header& header, uint64_t value_bytes) {
    for (const bool all : {true, false}) {
      const uint64_t first = all ? 0 : header.value_count / 3,
                     count = all ? header.value_count : header.value_count / 2;
      const exact_room<std::byte> out(count * value_bytes), expected(out.size());
      outcome mine, host = host::decode(device_codecs{}, frame, expected.all(), first, {.threads = 1});
      const result started =
          decode(device_codecs{}, header, frame, out.all(), scratch(), &mine, stream(), first, {.max_blocks = 2});
      wait();
      if (!started) mine = {.code = started.code};
      const bool unsupported = mine.code == status::unsupported;  // the one status that only the device has
      require(unsupported || mine.code == host.code, "the host's verdict");
      if (unsupported || !started) {
        require(out == exact_room<std::byte>(out.size()), "what is refused is left alone");
      } else {
        require(mine.bytes == host.bytes && mine.first_bad_chunk == host.first_bad_chunk, "to the chunk");
        require(out == expected, "the host's values");
      }
      if (!host) return;
    }
  });
  return 0;
}
