#include "swap/swap_codecs.hpp"

#include "support/codecs.hpp"

namespace tuck::test {
namespace {

template <class T> std::vector<T> values_of(const std::vector<std::byte>& raw) {
  std::vector<T> values(raw.size() / sizeof(T));
  if (!raw.empty()) std::memcpy(values.data(), raw.data(), raw.size());
  return values;
}

template <codec C> swap_codec make_swap_codec(bool slow = false) {
  using T = value_t<C>;
  swap_codec c;
  c.name = codec_names::GetName<C>(0);
  c.value_bytes = sizeof(T);
  c.slow = slow;
  c.make = [](uint64_t count, uint64_t seed) {
    const double sparsity = static_cast<double>(seed % 11) / 10;
    const auto values =
        seed % 13 == 0 ? sample<C>::noise(count, seed) : sample<C>::tensor(count, sparsity, pattern::iid, seed);
    const const_bytes raw = as_bytes(span<const T>(values));
    return std::vector<std::byte>(raw.begin(), raw.end());
  };
  c.out = [](swap_stream& swap, const_bytes raw, cudaStream_t stream, swap_handle& handle, swap_path path) {
    const span<const T> values(reinterpret_cast<const T*>(raw.data()), raw.size() / sizeof(T));
    return swap.out(sample<C>::codec(), values, stream, handle, path);
  };
  c.allows = [](const std::vector<std::byte>& raw, const std::vector<std::byte>& restored) {
    return static_cast<bool>(restores(sample<C>::codec(), values_of<T>(raw), values_of<T>(restored)));
  };
  c.max_frame_bytes = [](uint64_t count, bool checksums) {
    return max_frame_bytes(sample<C>::codec(), count, {.alignment = append_alignment, .checksums = checksums});
  };
  return c;
}

}  // namespace

const std::vector<swap_codec>& swap_codecs() {
  static const std::vector<swap_codec> all{make_swap_codec<zvc<float>>(),
                                           make_swap_codec<zvc<uint8_t>>(),
                                           make_swap_codec<rle<f16>>(),
                                           make_swap_codec<rle<float>>(),
                                           make_swap_codec<bitpack<uint32_t>>(),
                                           make_swap_codec<quantize<float>>(),
                                           make_swap_codec<deflate<float>>(true),
                                           make_swap_codec<zvc_huffman<float>>(true),
                                           make_swap_codec<quantize_delta_huffman<float>>(true)};
  return all;
}

}  // namespace tuck::test
