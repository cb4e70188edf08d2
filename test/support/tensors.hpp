// Tensors for tests: seeded, with a wanted share of zeros, alone or in runs.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/dtype.hpp>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tuck::test {

enum class pattern { iid, clustered };

// Names typed tests by the element, for GoogleTest.
struct element_names {
  template <class T> static std::string GetName(int) { return name(dtype_of<T>); }
};

// A value that is not zero, of any bit pattern else: NaNs, infinities, denormals and -0.0 among them.
template <element T> T non_zero(std::mt19937_64& random) {
  for (;;) {
    const auto bits = static_cast<bits_t<T>>(random() >> (random() % 64));
    if (bits != 0) return __builtin_bit_cast(T, bits);
  }
}

// `count` values, a share `sparsity` of them zero; clustered: zeros come in runs of 32 on average.
template <element T>
std::vector<T> sparse_tensor(uint64_t count, double sparsity, pattern how = pattern::iid, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<T> values(count);
  const double leave_zeros = 1.0 / 32;
  const double enter_zeros = sparsity >= 1 ? 1 : std::min(1.0, leave_zeros * sparsity / (1 - sparsity));
  bool zero = uniform(random) < sparsity;
  for (T& value : values) {
    if (how == pattern::iid || sparsity >= 1)
      zero = uniform(random) < sparsity;
    else
      zero = zero ? uniform(random) >= leave_zeros : uniform(random) < enter_zeros;
    value = zero ? T{} : non_zero<T>(random);
  }
  return values;
}

// Sparse floats, a share `negative` of whose zeros are -0.0; with NaNs and denormals of both signs.
template <element T>
std::vector<T> tensor_with_negative_zeros(uint64_t count, double sparsity, double negative, uint64_t seed = 1) {
  using bits = bits_t<T>;
  constexpr auto sign = static_cast<bits>(bits{1} << (8 * sizeof(T) - 1));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  auto values = sparse_tensor<T>(count, sparsity, pattern::iid, seed);
  for (T& value : values) {
    const uint64_t odd = random() % 64;
    if (bits_of(value) == 0)
      value = uniform(random) < negative ? __builtin_bit_cast(T, sign) : value;
    else if (odd < 4)
      value = __builtin_bit_cast(T, static_cast<bits>((odd % 2 == 0 ? 0 : sign) | (odd < 2 ? 1 : sign - 1)));
  }
  return values;
}

// Values of which a mask has few marks by this rule: few are not 0, few are 0; the mask changes seldom, or each row of
// 2, 16 or 32 values is mostly like the one before.
template <element T> std::vector<T> tensor_for_rule(uint32_t rule, uint64_t count, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  const uint64_t distance = rule < 2 ? 1 : rule == 2 ? 1 : rule == 3 ? 2 : rule == 4 ? 16 : 32;
  std::vector<char> mask(count);
  for (uint64_t i = 0; i < count; ++i) {
    const bool odd = random() % 40 == 0;
    if (rule < 2)
      mask[i] = odd != (rule == 1);
    else
      mask[i] = i < distance ? static_cast<char>(rule == 2 ? i % 2 : random() % 2) : mask[i - distance] ^ odd;
  }
  std::vector<T> values(count);
  for (uint64_t i = 0; i < count; ++i)
    if (mask[i] != 0) values[i] = non_zero<T>(random);
  return values;
}

// Integers for which delta chooses this form: a walk, values of either sign, positive values. sparse: most results are
// zero, else none is.
template <class Integer> std::vector<Integer> values_for_form(uint32_t form, uint32_t count, bool sparse) {
  std::mt19937 random(form + count);
  std::vector<Integer> values(count);
  uint32_t walk = 100;
  for (Integer& value : values) {
    const bool zero = sparse && random() % 4 != 0;
    if (form == 0 && !zero) walk += random() % 2 == 0 ? 1 : 2;
    const auto number = static_cast<int>(form == 0 ? walk : zero ? 0 : 33 + random() % 31);
    value = static_cast<Integer>(form == 1 && random() % 2 != 0 ? -number : number);
  }
  return values;
}

// What no codec makes smaller: no zeros, hardly a value twice, and as floats large numbers, infinities and NaNs.
template <element T> std::vector<T> noise(uint64_t count, uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (T& value : values)
    value = __builtin_bit_cast(T, static_cast<bits_t<T>>(random() | uint64_t{1} << (8 * sizeof(T) - 2)));
  return values;
}

// Equality of bits: NaN equals itself, -0.0 differs from 0.0.
template <element T> bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <element T> uint64_t count_non_zeros(const std::vector<T>& values) {
  uint64_t count = 0;
  for (const T& value : values) count += bits_of(value) != 0;
  return count;
}

}  // namespace tuck::test
