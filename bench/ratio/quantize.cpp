#include "coders.hpp"

#include <tuck/host.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace tuck::bench {
namespace {

void require(const outcome& o) {
  if (!o) throw std::runtime_error(message(o.code));
}

template <codec C> double bytes_of(const C& codec, span<const float> values, double& max_error) {
  std::vector<std::byte> frame(max_frame_bytes(codec, values.size()));
  const outcome packed = host::encode(codec, values, frame);
  require(packed);
  std::vector<float> restored(values.size());
  require(host::decode(codec, const_bytes(frame).subspan(0, packed.bytes), restored));
  for (uint64_t i = 0; i < values.size(); ++i)
    max_error = std::max(max_error, std::abs(static_cast<double>(values[i]) - static_cast<double>(restored[i])));
  return static_cast<double>(packed.bytes);
}

}  // namespace

double tuck_quantize_bytes(span<const float> values, double range_bound, double& max_error) {
  return bytes_of(quantize<float>(error_bound::range_relative(range_bound)), values, max_error);
}
double tuck_quantize_chain_bytes(span<const float> values, double range_bound, double& max_error) {
  return bytes_of(quantize_delta_huffman<float>(error_bound::range_relative(range_bound)), values, max_error);
}

}  // namespace tuck::bench
