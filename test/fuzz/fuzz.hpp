// What the fuzzers share: the codecs that they know, and memory that ends where it says, so that AddressSanitizer sees
// each byte beyond.
#pragma once

#include "support/codec_list.hpp"

#include <tuck/host.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace tuck::fuzz {

// Those of the tests, behind some that take other ways. Seeds choose codecs by number, so new ones come at the end.
using fuzzed_codecs = tuck::detail::joined_lists<
    codec_list<rle<uint32_t>, zvc_huffman<uint8_t>, zvc_huffman<bf16>, zvc_huffman<double>, zvc_rle_huffman<f16>,
               rows_zvc_huffman<bf16>, quantize_delta_huffman<f16>, huffman<f8e4m3>, huffman<f8e5m2>, codebooks<f8e5m2>,
               chain<zvc<float>, differences<float>, huffman<uint32_t>>>,
    test::listed_codecs>;

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

// visitor(codec, how many values are wanted, payload) for an encoded chunk of a codec's: the first byte chooses it, the
// next three the number, and the fourth's upper half where the payload begins in a multiple of 16.
template <class Visitor> void with_chunk(const uint8_t* data, size_t size, const Visitor& visitor) {
  if (size < 5) return;
  const auto wanted = static_cast<uint32_t>(data[1] | data[2] << 8 | data[3] << 16);
  const size_t shift = data[3] >> 4;
  const exact_room<std::byte> room(shift + size - 4);
  std::memcpy(room.data() + shift, data + 4, size - 4);
  with_codec(fuzzed_codecs{}, data[0], error_bound::absolute(1e-3),
             [&](const auto& codec) { visitor(codec, wanted, const_bytes(room.all()).subspan(shift, size - 4)); });
}

// visitor(stream, room) for a DEFLATE stream: the first two bytes say how much room there is.
template <class Visitor> void with_stream(const uint8_t* data, size_t size, const Visitor& visitor) {
  if (size < 2) return;
  const exact_room<std::byte> stream(data + 2, size - 2);
  visitor(const_bytes(stream.all()), static_cast<size_t>(data[0] | data[1] << 8));
}

// What deltas are fuzzed against.
inline exact_room<std::byte> delta_base(size_t size) {
  exact_room<std::byte> base(size);
  for (size_t i = 0; i < size; ++i) base.data()[i] = static_cast<std::byte>(i * i / 8 % 251);
  return base;
}

// Makes the digests of a frame right, else hardly an input would get beyond them.
inline void mend(span<std::byte> frame) {
  frame_header h;
  if (frame.size() < sizeof h) return;
  std::memcpy(&h, frame.data(), sizeof h);
  const bool has_layout = h.chunk_values != 0 && h.alignment_log2 <= max_alignment_log2;
  if (has_layout)
    if (const uint64_t end = layout_of(h).contents_end; end <= frame.size())
      h.contents_digest = checksum(const_bytes(frame.data(), frame.size()).subspan(sizeof h, end - sizeof h));
  h.header_digest = digest_of(h);
  std::memcpy(frame.data(), &h, sizeof h);
}

// visitor(frame, what inspect says of it, bytes of a value) for any bytes as a frame, its digests made right.
template <class Visitor> void with_frame(const uint8_t* data, size_t size, const Visitor& visitor) {
  const exact_room<std::byte> frame(data, size);
  mend(frame.all());
  frame_header header;
  if (inspect(frame.all(), header) != status::ok) return;
  const uint64_t value_bytes = size_of(header.type);
  if (header.value_count > (1 << 20) / value_bytes) return;  // a few bytes may stand for very many values
  visitor(const_bytes(frame.all()), header, value_bytes);
}

}  // namespace tuck::fuzz
