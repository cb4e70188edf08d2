// Any bytes as an encoded chunk, for each codec's scalar decoder. One that uses a base gets one that the chunk was not
// made against, too.
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
    if constexpr (uses_base<C>) {
      const auto bytes_of_base = delta_base(count * sizeof(T));
      const exact_room<T> base(bytes_of_base.data(), count);
      const status of_base = codec.decode_chunk(payload, base.all(), out.all());
      require(codec.decode_chunk(payload, base.all(), again.all()) == of_base, "the verdict is the same every time");
      require(of_base != status::ok || out == again, "so are the values");
    }
  });
  return 0;
}
