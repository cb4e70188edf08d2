// All kernels of the library, for ptxas.sh to measure: a codec or an element type is one more line. TUCK_FEW_KERNELS:
// each kernel, but with a type or two.
#include <tuck/device.cuh>
#include <tuck/swap.cuh>

template <tuck::codec C> struct kernels {
  using values = tuck::span<tuck::value_t<C>>;
  using source = tuck::span<const tuck::value_t<C>>;

  static void instantiate(values data, tuck::bytes memory, tuck::scratch_span scratch, tuck::outcome* outcome,
                          cudaStream_t stream) {
    (void)tuck::encode(C{}, source(data), memory, scratch, outcome, stream);
    (void)tuck::encoded_bytes(C{}, source(data), scratch, outcome, stream);
    (void)tuck::decode(C{}, memory, data, scratch, outcome, stream);
    // nvcc reads host code for the device, too.
    (void)tuck::host::encode(C{}, source(data), memory);
    (void)tuck::host::decode(C{}, memory, data);
  }
};

template struct kernels<tuck::zvc<float>>;
template struct kernels<tuck::quantize<float>>;
template struct kernels<tuck::rle<float>>;
template struct kernels<tuck::deflate<float>>;
template struct kernels<tuck::bitpack<uint32_t>>;
template struct kernels<tuck::codebooks<tuck::bf16>>;
template struct kernels<tuck::steps<tuck::bf16>>;
template struct kernels<tuck::zvc_huffman<float>>;
#if !defined(TUCK_FEW_KERNELS)
template struct kernels<tuck::zvc<uint8_t>>;
template struct kernels<tuck::zvc<tuck::f16>>;
template struct kernels<tuck::zvc<double>>;
template struct kernels<tuck::quantize<tuck::f16>>;
template struct kernels<tuck::quantize<double>>;
template struct kernels<tuck::rle<uint8_t>>;
template struct kernels<tuck::rle<tuck::f16>>;
template struct kernels<tuck::deflate<uint8_t>>;
template struct kernels<tuck::bitpack<uint8_t>>;
template struct kernels<tuck::codebooks<tuck::f8e4m3>>;
template struct kernels<tuck::steps<tuck::f8e4m3>>;
template struct kernels<tuck::zvc_rle_huffman<float>>;
template struct kernels<tuck::rows_zvc_huffman<tuck::bf16>>;
template struct kernels<tuck::huffman<tuck::bf16>>;
template struct kernels<tuck::delta_rle_bitpack<int32_t>>;
template struct kernels<tuck::quantize_delta_huffman<float>>;
template struct kernels<tuck::quantize<tuck::bf16>>;
template struct kernels<tuck::rle<double>>;
template struct kernels<tuck::deflate<tuck::f16>>;
template struct kernels<tuck::deflate<double>>;
template struct kernels<tuck::bitpack<uint16_t>>;
template struct kernels<tuck::bitpack<uint64_t>>;
template struct kernels<tuck::codebooks<float>>;
template struct kernels<tuck::steps<float>>;
template struct kernels<tuck::zvc_huffman<double>>;
#endif

// Of deltas, too: those that hold most.
template <tuck::codec C> struct delta_kernels {
  using values = tuck::span<tuck::value_t<C>>;
  using source = tuck::span<const tuck::value_t<C>>;

  static void instantiate(values data, source base, tuck::bytes memory, tuck::scratch_span scratch,
                          tuck::outcome* outcome, cudaStream_t stream, const tuck::delta_options& options) {
    (void)tuck::encode_delta(C{}, source(data), base, memory, scratch, outcome, stream);
    (void)tuck::decode_delta(C{}, memory, base, data, scratch, outcome, stream, options);
  }
};

template struct delta_kernels<tuck::zvc<tuck::bf16>>;
#if !defined(TUCK_FEW_KERNELS)
template struct delta_kernels<tuck::zvc<uint8_t>>;
template struct delta_kernels<tuck::zvc_huffman<tuck::bf16>>;
template struct delta_kernels<tuck::steps<tuck::f8e4m3>>;
template struct delta_kernels<tuck::steps<tuck::bf16>>;
template struct delta_kernels<tuck::zvc<float>>;
template struct delta_kernels<tuck::zvc<double>>;
template struct delta_kernels<tuck::steps<float>>;
#endif

template <tuck::codec C> struct delta_batch_kernels {
  static void instantiate(tuck::span<const tuck::encode_delta_item<tuck::value_t<C>>> from,
                          tuck::span<const tuck::decode_delta_item<tuck::value_t<C>>> to, tuck::scratch_span scratch,
                          tuck::span<tuck::outcome> outcomes, cudaStream_t stream, const tuck::delta_options& options) {
    (void)tuck::encode_delta_batch(C{}, from, {}, scratch, outcomes, stream);
    (void)tuck::decode_delta_batch(C{}, to, {}, scratch, outcomes, stream, options);
  }
};

template struct delta_batch_kernels<tuck::zvc<tuck::bf16>>;
#if !defined(TUCK_FEW_KERNELS)
template struct delta_batch_kernels<tuck::steps<tuck::bf16>>;
#endif

// Of batches a few will do: one of each codec, and those that are short of registers.
template <tuck::codec C> struct batch_kernels {
  static void instantiate(tuck::span<const tuck::encode_item<tuck::value_t<C>>> from,
                          tuck::span<const tuck::decode_item<tuck::value_t<C>>> to, tuck::scratch_span scratch,
                          tuck::span<tuck::outcome> outcomes, cudaStream_t stream) {
    (void)tuck::encode_batch(C{}, from, {}, scratch, outcomes, stream);
    (void)tuck::decode_batch(C{}, to, {}, scratch, outcomes, stream);
  }
};

template struct batch_kernels<tuck::zvc<float>>;
#if !defined(TUCK_FEW_KERNELS)
template struct batch_kernels<tuck::quantize<tuck::f16>>;
template struct batch_kernels<tuck::rle<tuck::f16>>;
template struct batch_kernels<tuck::deflate<float>>;
template struct batch_kernels<tuck::zvc_huffman<float>>;
template struct batch_kernels<tuck::zvc<uint8_t>>;
template struct batch_kernels<tuck::quantize<float>>;
#endif

void instantiate_inflate(tuck::span<const tuck::inflate_item> items, tuck::span<tuck::inflate_result> results,
                         cudaStream_t stream) {
  (void)tuck::inflate_batch(items, results, stream);
}

tuck::result instantiate_copy(const tuck::frame_copy_job& job, cudaStream_t stream) {
  return tuck::copy_frame(job, {}, stream);
}

template <tuck::element T>
tuck::result instantiate_statistics(tuck::span<const T> values, tuck::tensor_statistics* seen,
                                    tuck::scratch_span scratch, cudaStream_t stream) {
  return tuck::gather_statistics(values, seen, scratch, stream);
}
template tuck::result instantiate_statistics(tuck::span<const float>, tuck::tensor_statistics*, tuck::scratch_span,
                                             cudaStream_t);
#if !defined(TUCK_FEW_KERNELS)
template tuck::result instantiate_statistics(tuck::span<const tuck::bf16>, tuck::tensor_statistics*, tuck::scratch_span,
                                             cudaStream_t);
#endif
