// Any bytes as a delta: decode_delta restores exactly what the frame without its base gives, XOR the base, or leaves
// the base as it was and says what decode would. Of a codec that uses the base, two ways of decoding do the same.
#include "fuzz/fuzz.hpp"

using namespace tuck;
using namespace tuck::fuzz;

namespace {

frame_header header_of(span<std::byte> frame) {
  frame_header h;
  std::memcpy(&h, frame.data(), sizeof h);
  return h;
}
void put(span<std::byte> frame, const frame_header& h) {
  std::memcpy(frame.data(), &h, sizeof h);
  mend(frame);
}

outcome apply(const_bytes frame, const frame_header& header, const_bytes base, bytes out,
              const delta_options& options) {
  outcome answer;
  const status found = visit(fuzzed_codecs{}, header, [&]<class C>(const C& codec) {
    using T = value_t<C>;
    answer = host::decode_delta(codec, frame, {reinterpret_cast<const T*>(base.data()), base.size() / sizeof(T)},
                                {reinterpret_cast<T*>(out.data()), out.size() / sizeof(T)}, options, {.threads = 1});
  });
  return found == status::ok ? answer : outcome{.code = found};
}

bool needs_base(const frame_header& header) {
  bool answer = false;
  visit(fuzzed_codecs{}, header, [&]<class C>(const C&) { answer = uses_base<C>; });
  return answer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < sizeof(frame_header)) return 0;
  const exact_room<std::byte> frame(data, size), plain(data, size);
  frame_header h = header_of(frame.all());
  const uint64_t value_bytes = size_of(h.type);
  if (value_bytes == 0 || h.value_count > (1 << 20) / value_bytes) return 0;
  const auto base = delta_base(h.value_count * value_bytes);
  if (data[size - 1] % 4 != 0) {  // else the base may be another
    h.flags |= flag_delta;
    h.base_digest = h.chunk_values == 0 ? 0 : tensor_digest(base.all(), h.chunk_values * value_bytes);
  }
  put(frame.all(), h);
  frame_header header;
  if (inspect(frame.all(), header) != status::ok) return 0;
  std::memcpy(plain.data(), frame.data(), size);
  const uint64_t payloads = layout_of(h).payloads;
  h.flags &= ~flag_delta;
  h.base_digest = 0;
  put(plain.all(), h);

  const exact_room<std::byte> restored(base.data(), base.size()), changes(base.size()), at_once(base.size());
  const outcome done = apply(frame.all(), header, restored.all(), restored.all(), {});
  if (!done) require(restored == base && done.bytes == 0, "what is refused changes nothing");
  if ((header.flags & flag_delta) == 0) require(!done, "a frame that is no delta is refused");
  if ((header.flags & flag_delta) == 0 || done.code == status::wrong_base || done.code == status::lossy_delta) return 0;
  if (layout_of(h).payloads != payloads) return 0;  // what may be a payload's place is another
  const bool uses_base = needs_base(header);
  if (!uses_base) {
    const outcome of_plain = host::decode(fuzzed_codecs{}, plain.all(), changes.all(), 0, {.threads = 1});
    require(done.code == of_plain.code && done.first_bad_chunk == of_plain.first_bad_chunk, "decode's verdict");
  }
  const outcome one_pass = apply(frame.all(), header, base.all(), at_once.all(), {.chunk_by_chunk = true});
  require(one_pass.code == done.code && one_pass.first_bad_chunk == done.first_bad_chunk, "in one pass, too");
  if (!done) return 0;
  for (size_t i = 0; i < base.size() && !uses_base; ++i)
    require(restored.data()[i] == (base.data()[i] ^ changes.data()[i]), "the values of the frame XOR the base's");
  require(at_once == restored, "in one pass the same");
  return 0;
}
