// Any bytes as an encoded chunk, for each codec's scalar decoder.
#include "fuzz/fuzz.hpp"

using namespace tuck;
using namespace tuck::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  with_chunk(data, size, []<class C>(const C& codec, uint32_t wanted, const_bytes payload) {
    using T = value_t<C>;
    const uint32_t count = wanted % max_chunk_values(codec.stages(), sizeof(T)) + 1;
    const exact_room<T> out(count), again(count);
    const status s = codec.decode_chunk(payload, out.all());
    require(codec.decode_chunk(payload, again.all()) == s, "the verdict is the same every time");
    require(s != status::ok || out == again, "so are the values");
  });
  return 0;
}
