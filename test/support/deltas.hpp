// Tensors and their deltas, for tests.
#pragma once

#include "support/frames.hpp"

#include <random>

namespace tuck::test {

// A tensor, and the same with a share of its values changed.
template <element T> struct two_tensors {
  std::vector<T> base, values;

  two_tensors(uint64_t count, double changed, uint64_t seed = 3)
      : base(sparse_tensor<T>(count, .3, pattern::iid, seed)) {
    values = base;
    std::mt19937_64 random(seed);
    for (T& v : values)
      if (std::uniform_real_distribution<>()(random) < changed)
        v = __builtin_bit_cast(T, static_cast<bits_t<T>>(bits_of(v) ^ (1 + random() % 60)));
  }
};

template <codec C>
frame_bytes delta_of(const two_tensors<value_t<C>>& of, const frame_options& options = {}, unsigned threads = 1) {
  frame_bytes frame(max_delta_bytes(C{}, of.values.size(), options));
  const outcome o = host::encode_delta(C{}, of.values, of.base, frame, options, {.threads = threads});
  EXPECT_EQ(o.code, status::ok);
  frame.resize(o.bytes);
  return frame;
}

}  // namespace tuck::test
