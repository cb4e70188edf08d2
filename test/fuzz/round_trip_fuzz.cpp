// Any bytes as a tensor: what is encoded comes back, bit for bit or within its bound, and encoding again, on other
// threads, gives the same bytes. The first byte chooses the codec, the next two the bound and the frame's form.
#include "fuzz/fuzz.hpp"

#include <cmath>

using namespace tuck;
using namespace tuck::fuzz;

namespace {

template <class T> double number(T v) {
  if constexpr (floating_element<T>)
    return static_cast<double>(float_format<T>::widen(bits_of(v)));
  else
    return 0;
}

template <class T> void check_bound(span<const T> from, span<const T> back, const error_bound& bound) {
  for (size_t i = 0; i < from.size(); ++i) {
    const double x = number(from[i]), y = number(back[i]);
    if (!std::isfinite(x)) {
      require(std::memcmp(&from[i], &back[i], sizeof(T)) == 0, "what is not finite comes back bit for bit");
    } else {
      const double most = bound.mode == bound_mode::pointwise ? bound.value * std::fabs(x) : bound.value;
      require(std::fabs(x - y) <= most, "finite values stay within the bound");
      const bool same = std::memcmp(&from[i], &back[i], sizeof(T)) == 0;
      const bool may_be_zero = y == 0 && !std::signbit(y);
      require(x != 0 || same || may_be_zero, "zeros come back as zeros");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const error_bound bound{data[1] % 2 == 0 ? bound_mode::absolute : bound_mode::pointwise,
                          std::ldexp(1., data[1] / 2 - 64)};
  with_codec(fuzzed_codecs{}, data[0], bound, [&]<class C>(const C& codec) {
    using T = value_t<C>;
    const exact_room<T> values(data + 3, (size - 3) / sizeof(T));
    const frame_options options{
        .chunk_values = (data[2] % 8 + 1u) * 32, .alignment = 16u << data[2] / 8 % 8, .checksums = data[2] >= 128};
    const span<const T> from(values.data(), values.size());
    const uint64_t room = max_frame_bytes(codec, from.size(), options);
    const exact_room<std::byte> frame(room), other(room);
    const outcome packed = host::encode(codec, from, frame.all(), options, {.threads = 1});
    const outcome same = host::encode(codec, from, other.all(), options, {.threads = 2});
    require(packed.code == same.code && packed.bytes == same.bytes, "encoding is the same every time");
    require(bool(packed) || is_lossy<C>, "encoding succeeds");
    if (!packed) return;
    require(std::memcmp(frame.data(), other.data(), packed.bytes) == 0, "to the byte");
    const exact_room<T> back(from.size());
    require(bool(host::decode(codec_list<C>{}, {frame.data(), packed.bytes},
                              {reinterpret_cast<std::byte*>(back.data()), back.size() * sizeof(T)}, 0, {.threads = 1})),
            "what was encoded decodes");
    if constexpr (is_lossy<C>)
      check_bound<T>(from, {back.data(), back.size()}, bound);
    else
      require(back == values, "bit for bit");
  });
  return 0;
}
