// Calls of the CPU with every codec, which instantiate what headers alone do not: no compiler may warn of it.
#include <tuck/host.hpp>
#include <tuck/model.hpp>

namespace {

template <tuck::codec C> bool call(const C& codec, tuck::span<tuck::value_t<C>> x, tuck::bytes frame) {
  const tuck::decode_item<tuck::value_t<C>> items[] = {{frame, x}};
  tuck::outcome outcomes[1];
  tuck::outcome all[] = {tuck::host::encode(codec, x, frame), tuck::host::decode(codec, frame, x, 1)};
  if constexpr (!tuck::is_lossy<C>) {
    all[0] = tuck::host::encode_delta(codec, x, x, frame);
    all[1] = tuck::host::decode_delta(codec, frame, x, x);
  }
  return all[0] && all[1] && tuck::host::decode_batch(codec, items, outcomes);
}
template <class T> bool call_all(tuck::span<T> x, tuck::bytes frame) {
  using codecs = tuck::codec_list<tuck::zvc<T>, tuck::rle<T>, tuck::bitpack<T>, tuck::huffman<T>, tuck::deflate<T>,
                                  tuck::zvc_huffman<T>, tuck::zvc_rle_huffman<T>, tuck::rows_zvc_huffman<T>,
                                  tuck::delta_rle_bitpack<T>>;
  const auto in = tuck::as_writable_bytes(x);
  bool good = tuck::host::decode(codecs{}, frame, in) && tuck::host::encode(tuck::any_codec<codecs>{}, in, frame);
  good &= call(tuck::zvc<T>{}, x, frame) && call(tuck::huffman<T>{}, x, frame);
  if constexpr (tuck::floating_element<T> && sizeof(T) <= 4)
    good &= call(tuck::codebooks<T>{}, x, frame) && call(tuck::steps<T>{}, x, frame);
  if constexpr (tuck::floating_element<T> && sizeof(T) > 1)
    good &= call(tuck::quantize<T>{}, x, frame) && call(tuck::quantize_delta_huffman<T>{}, x, frame);
  return good;
}

}  // namespace

int main() {
  const tuck::bytes none;
  return call_all<uint8_t>({}, none) && call_all<tuck::f16>({}, none) && call_all<int32_t>({}, none) &&
         call_all<float>({}, none) && call_all<double>({}, none);
}
