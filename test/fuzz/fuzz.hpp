// What the fuzzers share: the codecs that they know, and memory that ends where it says, so that AddressSanitizer sees
// each byte beyond.
#pragma once

#include <tuck/host.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace tuck::fuzz {

using all_codecs =
    codec_list<zvc<uint8_t>, zvc<f16>, zvc<float>, zvc<double>, rle<uint8_t>, rle<f16>, rle<float>, rle<double>,
               rle_zero<float>, deflate<uint8_t>, deflate<float>, bitpack<uint8_t>, bitpack<uint16_t>,
               bitpack<uint32_t>, bitpack<int64_t>, quantize<f16>, quantize<bf16>, quantize<float>, quantize<double>,
               zvc_planes_deflate<float>, zvc_rle_planes_deflate<f16>, planes_deflate<bf16>,
               delta_rle_bitpack<int32_t>, quantize_delta_planes_deflate<float>, quantize_delta_deflate<f16>>;

template <codec... Cs> constexpr size_t number_of(codec_list<Cs...>) { return sizeof...(Cs); }

// visitor(codec) for the one of that number, modulo how many there are; lossy ones have that bound.
template <codec... Cs, class Visitor>
void with_codec(codec_list<Cs...>, size_t number, const error_bound& bound, const Visitor& visitor) {
  size_t i = 0;
  const auto one = [&]<class C>(std::type_identity<C>) {
    if (i++ != number % sizeof...(Cs)) return;
    if constexpr (is_lossy<C>)
      visitor(C(bound));
    else
      visitor(C{});
  };
  (one(std::type_identity<Cs>{}), ...);
}

// Exactly so many values, none more.
template <class T> class exact_room {
 public:
  explicit exact_room(size_t count) : size_(count), all_(static_cast<T*>(std::malloc(count * sizeof(T))), &std::free) {
    if (count != 0) std::memset(static_cast<void*>(all_.get()), 0xee, count * sizeof(T));
  }
  exact_room(const void* from, size_t count) : exact_room(count) {
    if (count != 0) std::memcpy(static_cast<void*>(all_.get()), from, count * sizeof(T));
  }
  T* data() const { return all_.get(); }
  size_t size() const { return size_; }
  span<T> all() const { return {all_.get(), size_}; }
  bool operator==(const exact_room& other) const {
    return size_ == other.size_ && (size_ == 0 || std::memcmp(data(), other.data(), size_ * sizeof(T)) == 0);
  }

 private:
  size_t size_;
  std::unique_ptr<T, decltype(&std::free)> all_;
};

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace tuck::fuzz
