#include <tuck/host.hpp>

#include <cmath>

int main() {
  std::vector<float> values(1 << 20), restored(values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(float(i) * 1e-3f);

  tuck::quantize<float> codec(tuck::error_bound::absolute(1e-3));  // |x - x'| <= 1e-3
  // error_bound::range_relative(1e-3): of highest - lowest      error_bound::pointwise(1e-3): of each |x|
  std::vector<std::byte> frame(tuck::max_frame_bytes(codec, values.size()));
  tuck::outcome packed = tuck::host::encode(codec, values, frame);
  tuck::outcome unpacked = tuck::host::decode(tuck::quantize<float>{}, frame, restored);  // the frame knows its bound

  for (size_t i = 0; i < values.size(); ++i)
    if (!(std::abs(values[i] - restored[i]) <= 1e-3f)) return 1;
  return packed && unpacked ? 0 : 1;
}
