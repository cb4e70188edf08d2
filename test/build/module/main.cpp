// Encodes and decodes with names that a module exports: templates are instantiated where only the module is imported.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

import tuck;

template <class C, class T> bool restores(const C& codec, const std::vector<T>& x) {
  std::vector<T> decoded(x.size());
  std::vector<std::byte> frame(tuck::max_frame_bytes(codec, x.size()));
  const tuck::outcome encoded = tuck::host::encode(codec, x, frame);
  const tuck::outcome read = tuck::host::decode(codec, frame, decoded);
  if (!encoded || !read || x != decoded) std::printf("%s, %s\n", tuck::message(encoded.code), tuck::message(read.code));
  return encoded && read && x == decoded;
}
template <class T> bool restores_all() {
  std::vector<T> x(10000);
  for (size_t i = 0; i < x.size(); i += 3) x[i] = static_cast<T>(i % 100);
  using codecs = tuck::codec_list<tuck::zvc<T>, tuck::rle<T>>;
  std::vector<std::byte> frame(tuck::max_delta_bytes(tuck::zvc<T>{}, x.size()));
  const tuck::bytes in = tuck::as_writable_bytes(tuck::span<T>(x));
  bool good = restores(tuck::zvc<T>{}, x) && restores(tuck::rle<T>{}, x) && restores(tuck::bitpack<T>{}, x) &&
              restores(tuck::huffman<T>{}, x) && restores(tuck::deflate<T>{}, x) &&
              restores(tuck::zvc_rle_huffman<T>{}, x) && restores(tuck::rows_zvc_huffman<T>{}, x) &&
              restores(tuck::delta_rle_bitpack<T>{}, x) && tuck::host::encode(tuck::zvc<T>{}, x, frame) &&
              tuck::host::decode(codecs{}, frame, in) && tuck::host::encode_delta(tuck::zvc<T>{}, x, x, frame);
  if constexpr (T{1} / 2 != 0)
    good &= tuck::host::encode(tuck::quantize<T>{tuck::error_bound::absolute(1)}, x, frame) &&
            tuck::host::decode(tuck::quantize<T>{}, frame, x) &&
            tuck::host::encode(tuck::quantize_delta_huffman<T>{tuck::error_bound::absolute(1)}, x, frame);
  if constexpr (sizeof(T) == 4) good &= restores(tuck::codebooks<T>{}, x) && restores(tuck::steps<T>{}, x);
  return good;
}

int main() {
  return restores_all<uint8_t>() && restores_all<uint16_t>() && restores_all<float>() && restores_all<double>() ? 0 : 1;
}
