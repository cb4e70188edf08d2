// Any bytes as an encoded chunk, for each codec's scalar decoder. The first byte chooses the codec, the next three how
// many values the chunk has.
#include "fuzz/fuzz.hpp"

using namespace tuck;
using namespace tuck::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 5) return 0;
  const uint32_t wanted = data[1] | data[2] << 8 | data[3] << 16;
  const exact_room<std::byte> payload(data + 4, size - 4);
  with_codec(all_codecs{}, data[0], error_bound::absolute(1e-3), [&]<class C>(const C& codec) {
    using T = value_t<C>;
    const uint32_t count = wanted % (max_chunk_raw_bytes / sizeof(T)) + 1;
    const exact_room<T> out(count), again(count);
    const status s = codec.decode_chunk(payload.all(), out.all());
    require(codec.decode_chunk(payload.all(), again.all()) == s, "the verdict is the same every time");
    require(s != status::ok || out == again, "so are the values");
  });
  return 0;
}
