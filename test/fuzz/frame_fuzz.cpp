// Any bytes as a frame: the reader and the decoders of all codecs behind it.
#include "fuzz/fuzz.hpp"

using namespace tuck;
using namespace tuck::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  with_frame(data, size, [](const_bytes frame, const frame_header& header, uint64_t value_bytes) {
    const exact_room<std::byte> out(header.value_count * value_bytes), again(header.value_count * value_bytes);
    const host::execution alone{.threads = 1};
    const outcome whole = host::decode(fuzzed_codecs{}, frame, out.all(), 0, alone);
    const outcome twice = host::decode(fuzzed_codecs{}, frame, again.all(), 0, alone);
    require(whole.code == twice.code && out == again, "decoding is the same every time");
    if (!whole) return;
    const uint64_t first = header.value_count / 3, count = header.value_count / 2;
    const exact_room<std::byte> part(count * value_bytes);
    require(bool(host::decode(fuzzed_codecs{}, frame, part.all(), first, alone)), "parts of a good frame decode");
    require(count == 0 || std::memcmp(part.data(), out.data() + first * value_bytes, part.size()) == 0,
            "a part is what the whole has there");
  });
  return 0;
}
