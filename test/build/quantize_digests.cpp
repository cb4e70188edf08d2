// Prints digests of what quantize makes of some tensors, to be compared between compilers and flags. The tensors are
// made by whole numbers, so that they are the same whatever the flags do to arithmetic.
#include <tuck/host.hpp>

#include <cstdio>
#include <vector>

namespace {

// Walks through neighbouring patterns, values of a few magnitudes, of any magnitude, zeros, NaNs and denormals.
template <tuck::floating_element T> std::vector<T> tensor(uint32_t count) {
  using format = tuck::float_format<T>;
  using bits = typename format::bits;
  std::vector<T> values(count);
  uint64_t state = 1;
  const auto random = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 11;
  };
  const auto one = static_cast<bits>(static_cast<bits>(format::bias) << format::mantissa_bits);
  bits walk = one;
  for (uint32_t i = 0; i < count; ++i) {
    if (i % 32 == 0) walk = static_cast<bits>(one + random() % (3 * format::smallest_normal));
    walk = static_cast<bits>(walk + random() % (format::smallest_normal / 64 + 1));
    const auto any = static_cast<bits>(random() * 0x9e3779b97f4a7c15u >> 3);
    const auto near = static_cast<bits>((any & (format::sign | (format::smallest_normal - 1))) |
                                        (one - (any >> 5) % 8 * format::smallest_normal));
    const bits of_kind[] = {walk,
                            near,
                            near,
                            bits{0},
                            static_cast<bits>(near & (bits{0} - format::smallest_normal)),
                            (i & 15) == 0 ? any : near,
                            (i & 31) == 3 ? static_cast<bits>(any % format::smallest_normal) : walk,
                            static_cast<bits>((i & 1) != 0 ? format::sign : bits{0})};
    values[i] = __builtin_bit_cast(T, of_kind[i / 32 % 8]);
  }
  return values;
}

// So small that half a value may be denormal, and a few that are.
template <tuck::floating_element T> std::vector<T> small_tensor(uint32_t count, uint32_t exponent) {
  using format = tuck::float_format<T>;
  using bits = typename format::bits;
  auto values = tensor<T>(count);
  for (uint32_t i = 0; i < count; ++i)
    values[i] = __builtin_bit_cast(T, static_cast<bits>((tuck::bits_of(values[i]) & (format::smallest_normal - 1)) +
                                                        exponent * format::smallest_normal));
  values[7] = __builtin_bit_cast(T, static_cast<bits>(format::sign | (format::smallest_normal + 1)));
  values[9] = __builtin_bit_cast(T, static_cast<bits>(format::sign | 3));
  return values;
}

int telling = 0;

template <tuck::floating_element T> void digest(const tuck::quantize<T>& codec, const std::vector<T>& values) {
  std::vector<std::byte> frame(tuck::max_frame_bytes(codec, values.size(), {.checksums = true}));
  const tuck::outcome o = tuck::host::encode(codec, values, frame, {.checksums = true});
  std::vector<T> restored(values.size());
  const tuck::outcome back = tuck::host::decode(codec, tuck::const_bytes(frame).subspan(0, o.bytes), restored);
  telling += o.bytes < values.size() * sizeof(T) / 10 * 9 ? 1 : -1;
  std::printf("%s %s %s: %s, %s, %lu bytes, %016lx, %016lx\n", name(tuck::dtype_of<T>), name(codec.mode()),
              codec.predicts() ? "automatic" : "none", message(o.code), message(back.code),
              static_cast<unsigned long>(o.bytes),
              static_cast<unsigned long>(tuck::checksum(tuck::const_bytes(frame).subspan(0, o.bytes))),
              static_cast<unsigned long>(tuck::checksum(as_bytes(tuck::span<const T>(restored)))));
}

template <tuck::floating_element T> void digests() {
  const auto values = tensor<T>(40000);
  for (const double bound :
       {0x1.3p-100, 0x1p-20, 0x1.5555555555555p-13, 0x1.47ae147ae147bp-7, 0x1p-7, 0x1.8p-3, 1., 0x1p40})
    for (const auto& of :
         {tuck::error_bound::absolute, tuck::error_bound::range_relative, tuck::error_bound::pointwise})
      for (const auto prediction : {tuck::predictor::automatic, tuck::predictor::none})
        digest(tuck::quantize<T>(of(bound), prediction), values);
  for (const uint32_t exponent : {0u, 1u, 2u, 10u})
    for (const double bound : {0x1.47ae147ae147bp-7, 0x1.8p-3, 8., 0x1p40})
      digest(tuck::quantize<T>(tuck::error_bound::range_relative(bound)), small_tensor<T>(9000, exponent));
}

}  // namespace

int main() {
  digests<tuck::f16>();
  digests<tuck::bf16>();
  digests<float>();
  digests<double>();
  return telling > 0 ? 0 : 1;
}
