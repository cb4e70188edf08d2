// Prints the guide's table of the shared memory that block_encode and block_decode need, in KiB, rounded up to tenths.
#include <tuck/device.cuh>

#include <cstdio>

namespace {

template <tuck::codec C> void show(const char* name) {
  const auto tenths = [](size_t bytes) { return static_cast<double>((bytes * 10 + 1023) / 1024) / 10; };
  std::printf("| `%s` | %.1f | %.1f |\n", name, tenths(sizeof(typename tuck::block_encode<C>::TempStorage)),
              tenths(sizeof(typename tuck::block_decode<C>::TempStorage)));
}

}  // namespace

int main() {
  show<tuck::zvc<float>>("zvc<float>");
  show<tuck::rle<float>>("rle<float>");
  show<tuck::bitpack<int32_t>>("bitpack<int32_t>");
  show<tuck::codebooks<float>>("codebooks<float>");
  show<tuck::quantize<float>>("quantize<float>");
  show<tuck::huffman<float>>("huffman<float>");
  show<tuck::deflate<float>>("deflate<float>");
  show<tuck::zvc_huffman<float>>("zvc_huffman<float>");
  show<tuck::zvc_rle_huffman<float>>("zvc_rle_huffman<float>");
  show<tuck::quantize_delta_huffman<float>>("quantize_delta_huffman<float>");
  show<tuck::delta_rle_bitpack<int32_t>>("delta_rle_bitpack<int32_t>");
}
