// What the RLE codecs are measured by: older layouts, as far as sizes go, and the tensors to try them on.
#pragma once

#include "bench/support/random.hpp"

#include <tuck/codec/concept.hpp>
#include <tuck/core/bits.hpp>

#include <cstdint>
#include <vector>

namespace tuck::bench {

// Runs of up to 255 equal values, each a value and a u8.
struct pairs {
  template <class T> static uint64_t bytes(span<const T> values) noexcept {
    uint64_t runs = 0;
    uint32_t length = 255;
    for (uint64_t i = 0; i < values.size(); ++i) {
      const bool goes_on = i != 0 && bits_of(values[i]) == bits_of(values[i - 1]) && length < 255;
      length = goes_on ? length + 1 : 1;
      runs += goes_on ? 0 : 1;
    }
    return runs * (1 + sizeof(T));
  }
};

// A u8 of zeros and the value after them, which is a zero itself where there are more.
struct zero_runs {
  template <class T> static uint64_t bytes(span<const T> values) noexcept {
    uint64_t tokens = 0;
    uint32_t zeros = 0;
    for (const T value : values) {
      const bool goes_on = bits_of(value) == 0 && zeros < 255;
      zeros = goes_on ? zeros + 1 : 0;
      tokens += goes_on ? 0 : 1;
    }
    return (tokens + (zeros != 0 ? 1 : 0)) * (1 + sizeof(T));
  }
};

// A bit for each value: does it differ from the one before? Then those that do.
struct one_level_heads {
  template <class T> static uint64_t bytes(span<const T> values) noexcept {
    uint64_t heads = 0;
    bits_t<T> before = 0;
    for (const T value : values) {
      heads += bits_of(value) != before ? 1 : 0;
      before = bits_of(value);
    }
    return 4 * ceil_div<uint64_t>(values.size(), 32) + heads * sizeof(T);
  }
};

// A model as a codec, so that the frame itself counts what stands around a chunk: alignment, directory, header, chunks
// that are raw or uniform. It writes no byte: for host::encoded_bytes alone.
template <class Model, element T> struct size_of_model {
  using value_type = T;
  static constexpr uint32_t chunk_bytes = 16 * 1024;

  stage_list stages() const noexcept { return {{{.id = codec_id::custom, .version = 1}}}; }
  static status from_stages(const stage_list&, size_of_model&) noexcept { return status::codec_mismatch; }
  uint32_t max_chunk_bytes(uint32_t count) const noexcept { return count * uint32_t{sizeof(T)}; }
  uint32_t encode_chunk(span<const T> values, tuck::bytes) const noexcept {
    const uint64_t size = Model::bytes(values);
    return size < values.size_bytes() ? static_cast<uint32_t>(size) : incompressible;
  }
  status decode_chunk(const_bytes, span<T>) const noexcept { return status::bad_payload; }
};
static_assert(codec<size_of_model<pairs, float>>);

// Any bits but zero.
template <class T> T non_zero(generator& random) {
  for (;;)
    if (const auto bits = static_cast<bits_t<T>>(random()); bits != 0) return __builtin_bit_cast(T, bits);
}

// A share `sparsity` < 1 of zeros, each value by itself.
template <class T> std::vector<T> iid(uint64_t count, double sparsity) {
  generator random(1);
  std::vector<T> values(count);
  for (T& value : values) value = uniform(random) < sparsity ? T{} : non_zero<T>(random);
  return values;
}

// A share `sparsity` < 1 of zeros in runs of 32 on average.
template <class T> std::vector<T> clustered(uint64_t count, double sparsity) {
  constexpr double leave = 1.0 / 32;
  const double enter = leave * sparsity / (1 - sparsity);
  generator random(2);
  std::vector<T> values(count);
  bool zero = true;
  for (T& value : values) {
    zero = zero ? uniform(random) >= leave : uniform(random) < enter;
    value = zero ? T{} : non_zero<T>(random);
  }
  return values;
}

// Runs of one length, each of a random value.
template <class T> std::vector<T> equal_runs(uint64_t count, uint64_t length) {
  generator random(3);
  std::vector<T> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = i % length == 0 ? non_zero<T>(random) : values[i - 1];
  return values;
}

}  // namespace tuck::bench
