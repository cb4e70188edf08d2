// The codecs of the tests and fuzzers: a new codec is one more line at the end of each list.
#pragma once

#include <tuck/all_codecs.hpp>

namespace tuck::test {

// clang-format off
// With the types by which they differ.
using listed_codecs = codec_list<
    zvc<uint8_t>, zvc<f16>, zvc<float>, zvc<double>,
    rle<uint8_t>, rle<f16>, rle<float>, rle<double>,
    deflate<uint8_t>, deflate<f16>, deflate<float>, deflate<double>,
    bitpack<uint8_t>, bitpack<uint16_t>, bitpack<uint32_t>, bitpack<int64_t>,
    steps<f8e4m3>, steps<f8e5m2>, steps<f16>, steps<bf16>, steps<float>,
    codebooks<f8e4m3>, codebooks<f16>, codebooks<bf16>, codebooks<float>,
    quantize<f16>, quantize<bf16>, quantize<float>, quantize<double>,
    huffman<bf16>,
    zvc_huffman<float>,
    zvc_rle_huffman<bf16>,
    rows_zvc_huffman<float>,
    delta_rle_bitpack<int32_t>,
    quantize_delta_huffman<float>>;
// clang-format on
// One of each kind, which the usual tests take. The program's tests have every codec and type, whose frames and chunks
// are made the same way.
using quick_codecs =
    codec_list<zvc<uint8_t>, zvc<float>, rle<f16>, deflate<float>, bitpack<uint16_t>, steps<bf16>, quantize<float>,
               quantize<double>, codebooks<bf16>, huffman<bf16>, zvc_huffman<f16>, delta_rle_bitpack<uint64_t>>;

}  // namespace tuck::test
