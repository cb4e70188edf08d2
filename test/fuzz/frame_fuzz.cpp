// Any bytes as a frame: the reader and the decoders of all codecs behind it. The digests are made right first, else
// hardly an input would get beyond them.
#include "fuzz/fuzz.hpp"

using namespace tuck;
using namespace tuck::fuzz;

namespace {

void mend(span<std::byte> frame) {
  frame_header h;
  if (frame.size() < sizeof h) return;
  std::memcpy(&h, frame.data(), sizeof h);
  const bool has_layout = h.chunk_values != 0 && h.alignment_log2 <= max_alignment_log2;
  if (has_layout)
    if (const uint64_t end = layout_of(h).contents_end; end <= frame.size())
      h.contents_digest = checksum(const_bytes(frame.data(), frame.size()).subspan(sizeof h, end - sizeof h));
  h.header_digest = digest_of(h);
  std::memcpy(frame.data(), &h, sizeof h);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const exact_room<std::byte> frame(data, size);
  mend(frame.all());
  const const_bytes all = frame.all();
  frame_info info;
  if (inspect(all, info) != status::ok) return 0;
  const uint64_t value_bytes = size_of(info.type);
  if (info.values > (1 << 20) / value_bytes) return 0;  // a few bytes may stand for very many values
  const exact_room<std::byte> out(info.values * value_bytes), again(info.values * value_bytes);
  const host::execution alone{.threads = 1};
  const outcome whole = host::decode(all_codecs{}, all, out.all(), 0, alone);
  const outcome twice = host::decode(all_codecs{}, all, again.all(), 0, alone);
  require(whole.code == twice.code && out == again, "decoding is the same every time");
  if (!whole) return 0;
  const uint64_t first = info.values / 3, count = info.values / 2;
  const exact_room<std::byte> part(count * value_bytes);
  require(bool(host::decode(all_codecs{}, all, part.all(), first, alone)), "parts of a good frame decode");
  require(count == 0 || std::memcmp(part.data(), out.data() + first * value_bytes, part.size()) == 0,
          "a part is what the whole has there");
  return 0;
}
