// Kernels that device_codecs.cu has, and that tests and other programs use as well: one that includes this and links
// tuck_device_codecs does not compile them again. Only for the simulator: nvcc gives each file kernels of its own.
#pragma once

#include <tuck/frame/delta.cuh>
#include <tuck/host.hpp>

#define TUCK_KERNELS(...)                                                                              \
  extern template void encode_kernel<encode_job<__VA_ARGS__>, block_threads>(encode_job<__VA_ARGS__>); \
  extern template void decode_kernel<decode_job<__VA_ARGS__>, block_threads>(decode_job<__VA_ARGS__>)
#define TUCK_DELTA_DECODER(...) \
  extern template void decode_kernel<decode_delta_job<__VA_ARGS__>, block_threads>(decode_delta_job<__VA_ARGS__>)
#define TUCK_DELTA_KERNELS(...)                                                                                    \
  extern template void encode_kernel<encode_delta_job<__VA_ARGS__>, block_threads>(encode_delta_job<__VA_ARGS__>); \
  TUCK_DELTA_DECODER(__VA_ARGS__, delta_pass::verify);                                                             \
  TUCK_DELTA_DECODER(__VA_ARGS__, delta_pass::apply);                                                              \
  TUCK_DELTA_DECODER(__VA_ARGS__, delta_pass::both)

namespace tuck::inline TUCK_ABI {

TUCK_KERNELS(zvc<untyped<1>>);
TUCK_KERNELS(zvc<untyped<2>>);
TUCK_KERNELS(zvc<untyped<4>>);
TUCK_KERNELS(zvc<untyped<8>>);
TUCK_KERNELS(rle<untyped<1>>);
TUCK_KERNELS(rle<untyped<2>>);
TUCK_KERNELS(rle<untyped<4>>);
TUCK_KERNELS(rle<untyped<8>>);
TUCK_KERNELS(deflate<untyped<1>>);
TUCK_KERNELS(deflate<untyped<4>>);
TUCK_KERNELS(bitpack<untyped<2>>);
TUCK_KERNELS(bitpack<untyped<4>>);
TUCK_KERNELS(huffman<untyped<2>>);
TUCK_KERNELS(huffman<untyped<4>>);
TUCK_KERNELS(steps<bf16>);
TUCK_KERNELS(steps<f8e4m3>);
TUCK_KERNELS(codebooks<bf16>);
TUCK_KERNELS(quantize<f16>);
TUCK_KERNELS(quantize<bf16>);
TUCK_KERNELS(quantize<float>);
TUCK_KERNELS(quantize<double>);
TUCK_KERNELS(zvc_huffman<untyped<2>>);
TUCK_KERNELS(zvc_huffman<untyped<4>>);
TUCK_KERNELS(zvc_rle_huffman<untyped<2>>);
TUCK_KERNELS(zvc_rle_huffman<untyped<4>>);
TUCK_KERNELS(delta_rle_bitpack<untyped<4>>);
TUCK_KERNELS(delta_rle_bitpack<untyped<8>>);
TUCK_KERNELS(quantize_delta_huffman<f16>);
TUCK_KERNELS(quantize_delta_huffman<bf16>);
TUCK_KERNELS(quantize_delta_huffman<float>);

TUCK_DELTA_KERNELS(zvc<untyped<1>>);
TUCK_DELTA_KERNELS(zvc<untyped<4>>);
TUCK_DELTA_KERNELS(zvc<untyped<8>>);
TUCK_DELTA_KERNELS(rle<untyped<2>>);
TUCK_DELTA_KERNELS(steps<bf16>);
TUCK_DELTA_KERNELS(steps<f8e4m3>);
TUCK_DELTA_KERNELS(zvc_huffman<untyped<2>>);

}  // namespace tuck::inline TUCK_ABI

#undef TUCK_KERNELS
#undef TUCK_DELTA_DECODER
#undef TUCK_DELTA_KERNELS
