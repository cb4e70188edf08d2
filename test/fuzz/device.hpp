// Kernels under the fuzzers, on the simulator. Its device memory is memory of the host, and the other way round:
// kernels take an exact_room as it is.
#pragma once

#include "fuzz/fuzz.hpp"

#include <tuck/device.cuh>

#include <cudasim.hpp>

namespace tuck::fuzz {

// The codecs whose kernels are fuzzed: each kind of code once, or all with the CMake option TUCK_LONG_TESTS.
#if defined(TUCK_LONG_TESTS)
using device_codecs = fuzzed_codecs;
#else
using device_codecs =
    codec_list<zvc<f16>, rle<uint8_t>, rle<uint32_t>, deflate<uint8_t>, bitpack<int64_t>, quantize<float>,
               zvc_rle_huffman<f16>, huffman<bf16>, chain<zvc<float>, differences<float>, huffman<uint32_t> >,
               zvc_huffman<bf16>, steps<bf16>, codebooks<f8e4m3> >;
#endif

template <codec C, codec... Cs> constexpr bool has(codec_list<Cs...>) { return (std::is_same_v<C, Cs> || ...); }

// The one stream, which has hardly any threads behind it.
inline cudaStream_t stream() {
  static const cudaStream_t one = [] {
    cudasim::settings settings;
    settings.workers = 1;
    settings.stream_delays = false;
    cudasim::configure(settings);
    cudaStream_t fresh = nullptr;
    require(cudaStreamCreateWithFlags(&fresh, cudaStreamNonBlocking) == cudaSuccess, "there is a stream");
    return fresh;
  }();
  return one;
}
inline void wait() { require(cudaStreamSynchronize(stream()) == cudaSuccess, "kernels end as they should"); }

// One block of that many threads, which ends before this returns.
template <class... Parameters, class... Arguments>
void run_block(unsigned threads, void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(threads);
  config.stream = stream();
  require(cudaLaunchKernelEx(&config, kernel, arguments...) == cudaSuccess, "the kernel starts");
  wait();
}

}  // namespace tuck::fuzz
