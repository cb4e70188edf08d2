// Digests of the frames of many random tensors: the same whatever CPU, compiler or level of vectors made them.
#include "support/tensors.hpp"

#include <tuck/host.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace tuck::test {
namespace {

// FNV-1a, which the library has no part in.
uint64_t add(uint64_t digest, const_bytes bytes) {
  for (const std::byte b : bytes) digest = (digest ^ static_cast<uint64_t>(b)) * 0x100000001b3;
  return digest;
}

template <codec C> void print(const char* name, uint64_t tensors) {
  using T = value_t<C>;
  uint64_t digest = 0xcbf29ce484222325;
  std::mt19937_64 random(7);
  for (uint64_t i = 0; i < tensors; ++i) {
    const uint64_t count = random() % 64 == 0 ? random() % 20000 : random() % 600;
    const double sparsity = static_cast<double>(random() % 101) / 100;
    auto values = sparse_tensor<T>(count, sparsity, i % 2 == 0 ? pattern::iid : pattern::clustered, i);
    if (i % 3 == 0)
      for (size_t at = 1; at < values.size(); ++at)
        if (random() % 4 != 0) values[at] = values[at - 1];
    const frame_options options{.checksums = i % 5 == 0};
    std::vector<std::byte> frame(max_frame_bytes(C{}, count, options));
    std::vector<T> restored(count);
    const outcome packed = host::encode(C{}, span<const T>(values), bytes(frame.data(), frame.size()), options);
    const outcome unpacked = host::decode(C{}, const_bytes(frame.data(), packed.bytes), span<T>(restored));
    if (!packed || !unpacked || !same_bits(values, restored)) {
      std::printf("%s: tensor %d is not restored\n", name, static_cast<int>(i));
      std::exit(1);
    }
    digest = add(digest, {frame.data(), packed.bytes});
  }
  std::printf("%s %016llx\n", name, static_cast<unsigned long long>(digest));
}

template <element T> void print_all(const char* type, uint64_t tensors) {
  std::puts(type);
  print<zvc<T>>("zvc", tensors);
  print<rle<T>>("rle", tensors);
}

}  // namespace
}  // namespace tuck::test

// frame_digests [TENSORS]: so many of each codec and type.
int main(int argc, char** argv) {
  const uint64_t tensors = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10000;
  tuck::test::print_all<uint8_t>("u8", tensors);
  tuck::test::print_all<uint16_t>("u16", tensors);
  tuck::test::print_all<float>("f32", tensors);
  tuck::test::print_all<double>("f64", tensors);
  tuck::test::print<tuck::bitpack<int32_t>>("bitpack i32", tensors);
  tuck::test::print<tuck::codebooks<tuck::bf16>>("codebooks bf16", tensors);
  tuck::test::print<tuck::steps<tuck::bf16>>("steps bf16", tensors);
  // Slower ones: as many as make each of their choices.
  tuck::test::print<tuck::huffman<float>>("huffman f32", tensors / 20);
  tuck::test::print<tuck::zvc_rle_huffman<float>>("zvc+rle+huffman f32", tensors / 20);
  tuck::test::print<tuck::deflate<uint16_t>>("deflate u16", tensors / 20);
  tuck::test::print<tuck::delta_rle_bitpack<uint32_t>>("delta+rle+bitpack u32", tensors / 20);
}
