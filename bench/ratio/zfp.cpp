#include "coders.hpp"

#include <zfp.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <new>
#include <stdexcept>

namespace tuck::bench {

const char* const zfp_row_name = "zfp 2-D, fixed accuracy";

namespace {

struct closer {
  void operator()(zfp_stream* stream) const noexcept { zfp_stream_close(stream); }
  void operator()(zfp_field* field) const noexcept { zfp_field_free(field); }
  void operator()(bitstream* bits) const noexcept { stream_close(bits); }
};
template <class T> using owned = std::unique_ptr<T, closer>;

template <class T> T* checked(T* made) {
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

// Two dimensions: the last one, and all before it in one. Images of a batch and its channels then stand below one
// another, and a block of 4 x 4 seldom reaches across two of them. A tensor of one dimension stays one.
zfp_field* flattened(std::vector<float>& values, const std::vector<uint64_t>& shape) {
  const size_t columns = shape.empty() ? 1 : shape.back();
  const size_t rows = values.size() / columns;
  if (rows == 1) return zfp_field_1d(values.data(), zfp_type_float, columns);
  return zfp_field_2d(values.data(), zfp_type_float, columns, rows);
}

double max_error(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
  return most;
}

coded with_tolerance(const tensor& t, double tolerance) {
  std::vector<float> values = t.values;
  const owned<zfp_field> field(checked(flattened(values, t.shape)));
  const owned<zfp_stream> stream(checked(zfp_stream_open(nullptr)));
  zfp_stream_set_accuracy(stream.get(), tolerance);
  std::vector<std::byte> buffer(zfp_stream_maximum_size(stream.get(), field.get()));
  const owned<bitstream> bits(checked(stream_open(buffer.data(), buffer.size())));
  zfp_stream_set_bit_stream(stream.get(), bits.get());
  zfp_stream_rewind(stream.get());
  const size_t bytes = zfp_compress(stream.get(), field.get());
  if (bytes == 0) throw std::runtime_error("zfp_compress failed");
  std::fill(values.begin(), values.end(), 0.0f);
  zfp_stream_rewind(stream.get());
  if (zfp_decompress(stream.get(), field.get()) == 0) throw std::runtime_error("zfp_decompress failed");
  return {static_cast<double>(bytes), max_error(t.values, values)};
}

}  // namespace

// Of a tolerance zfp uses the power of two below, and its errors are mostly far less: from well above the bound down, a
// power at a time, the first whose error keeps to it. The size never grows with the tolerance. Where none keeps to the
// bound, as it may be for values far from zero and close to each other, the tensor counts as it is.
coded zfp_fixed_accuracy(const tensor& t, double bound) {
  constexpr int above = 8, below = 8;
  for (int power = std::ilogb(bound) + above; power >= std::ilogb(bound) - below; --power) {
    const coded c = with_tolerance(t, std::ldexp(1.0, power));
    if (c.max_error <= bound) return c;
  }
  return {static_cast<double>(t.values.size() * sizeof(float))};
}

}  // namespace tuck::bench
