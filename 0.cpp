#include <tuck/host.hpp>

int main() {
  std::vector<float> values(1 << 20), restored(values.size());
  for (size_t i = 0; i < values.size(); i += 3) values[i] = float(i);

  tuck::zvc<float> codec;
  std::vector<std::byte> frame(tuck::max_frame_bytes(codec, values.size()));
  tuck::outcome packed = tuck::host::encode(codec, values, frame);
  frame.resize(packed.bytes);
  tuck::outcome unpacked = tuck::host::decode(codec, frame, restored);

  return packed && unpacked && values == restored ? 0 : 1;
}
