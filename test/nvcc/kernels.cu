// All kernels of the library, for ptxas.sh to measure: a codec or an element type is one more line at the end.
#include <tuck/device.cuh>

template <tuck::codec C> struct kernels {
  using values = tuck::span<tuck::value_t<C>>;
  using source = tuck::span<const tuck::value_t<C>>;

  static void instantiate(values data, tuck::bytes memory, tuck::outcome* outcome, cudaStream_t stream) {
    (void)tuck::encode(C{}, source(data), memory, memory, outcome, stream);
    (void)tuck::encoded_bytes(C{}, source(data), memory, outcome, stream);
    (void)tuck::decode(C{}, memory, data, memory, outcome, stream);
  }
};

template struct kernels<tuck::zvc<uint8_t>>;
template struct kernels<tuck::zvc<tuck::f16>>;
template struct kernels<tuck::zvc<float>>;
template struct kernels<tuck::zvc<double>>;
template struct kernels<tuck::quantize<tuck::f16>>;
template struct kernels<tuck::quantize<tuck::bf16>>;
template struct kernels<tuck::quantize<float>>;
template struct kernels<tuck::quantize<double>>;
template struct kernels<tuck::rle<uint8_t>>;
template struct kernels<tuck::rle<tuck::f16>>;
template struct kernels<tuck::rle<float>>;
template struct kernels<tuck::rle<double>>;
template struct kernels<tuck::rle_zero<float>>;
template struct kernels<tuck::deflate<uint8_t>>;
template struct kernels<tuck::deflate<tuck::f16>>;
template struct kernels<tuck::deflate<float>>;
template struct kernels<tuck::deflate<double>>;

void instantiate_inflate(tuck::span<const tuck::inflate_item> items, tuck::span<tuck::inflate_result> results,
                         cudaStream_t stream) {
  (void)tuck::inflate_batch(items, results, stream);
}
