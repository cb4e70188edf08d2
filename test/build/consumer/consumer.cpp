#include <tuck/host.hpp>

#include <cstdio>

#if TUCK_VERSION < 10000 || TUCK_VERSION_MAJOR < 1
#error "the preprocessor does not know the version"
#endif

tuck::outcome decode_elsewhere(tuck::const_bytes frame, tuck::span<float> values);

int main() {
  std::vector<float> values(100000), restored(values.size());
  for (size_t i = 0; i < values.size(); i += 3) values[i] = static_cast<float>(i);
  const tuck::zvc<float> codec;
  std::vector<std::byte> frame(tuck::max_frame_bytes(codec, values.size()));
  const tuck::outcome packed = tuck::host::encode(codec, values, frame);
  const tuck::outcome unpacked = decode_elsewhere(frame, restored);
  std::printf("tuck %d.%d.%d: %zu bytes in a frame of %llu\n", tuck::version_major, tuck::version_minor,
              tuck::version_patch, 4 * values.size(), static_cast<unsigned long long>(packed.bytes));
  return packed && unpacked && values == restored && packed.bytes < 2 * values.size() ? 0 : 1;
}
