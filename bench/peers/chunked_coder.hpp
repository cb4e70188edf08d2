// A coder of tensors from a library's coder of one chunk.
#pragma once

#include "bench/peers/peers.hpp"

#include <algorithm>
#include <concepts>
#include <vector>

namespace tuck::bench {

// Constructed from the bytes of the longest chunk to come and options of its own. Throws where the library fails.
template <class T>
concept chunk_codec = requires(T codec, const_bytes in, bytes out) {
  { T::library } -> std::convertible_to<const char*>;
  { codec.bound(uint64_t{}) } -> std::convertible_to<uint64_t>;  // bytes that a chunk of so many may take, if encoded
  { codec.encode(in, out) } -> std::convertible_to<uint64_t>;    // bytes written; `out` has the bound at least
  { codec.decode(in, out) } -> std::convertible_to<uint64_t>;    // bytes written; `out` is as long as the chunk was
};

template <chunk_codec Codec> class chunked_coder final : public coder {
 public:
  template <class... Options>
  explicit chunked_coder(const coder_request& request, Options... options)
      : raw_bytes_(request.raw_bytes),
        chunk_bytes_(checked(request.chunk_bytes)),
        codec_(std::min(chunk_bytes_, raw_bytes_), options...),
        room_(codec_.bound(std::min(chunk_bytes_, raw_bytes_))),
        sizes_(raw_bytes_ / chunk_bytes_ + (raw_bytes_ % chunk_bytes_ != 0)),
        encoded_(sizes_.size() * room_) {}

  uint64_t encode(const_bytes raw) override {
    require(raw.size() == raw_bytes_, Codec::library, "the tensor to encode has another length");
    uint64_t end = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      sizes_[i] = static_cast<uint32_t>(codec_.encode(chunk(raw, i), bytes(encoded_).subspan(end, room_)));
      end += sizes_[i];
    }
    return end + sizes_.size() * sizeof(sizes_[0]);
  }

  void decode(bytes out) override {
    require(out.size() == raw_bytes_, Codec::library, "the room to decode into has another length");
    uint64_t begin = 0;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const bytes to = chunk(out, i);
      const uint64_t written = codec_.decode(const_bytes(encoded_).subspan(begin, sizes_[i]), to);
      require(written == to.size(), Codec::library, "a chunk decodes to fewer bytes than it had");
      begin += sizes_[i];
    }
  }

 private:
  // All libraries take a chunk of so many, and its bound is far from where 32 bits end.
  static uint64_t checked(uint64_t chunk_bytes) {
    require(chunk_bytes >= 1 && chunk_bytes <= 1u << 30, Codec::library, "the chunk is not of 1 byte to 1 GiB");
    return chunk_bytes;
  }

  template <class Bytes> Bytes chunk(Bytes of, uint64_t i) const {
    const uint64_t begin = i * chunk_bytes_;
    return of.subspan(begin, std::min(chunk_bytes_, of.size() - begin));
  }

  uint64_t raw_bytes_;
  uint64_t chunk_bytes_;
  Codec codec_;
  uint64_t room_;                // for any chunk
  std::vector<uint32_t> sizes_;  // of the chunks, encoded
  std::vector<std::byte> encoded_;
};

// For `peer`: lossless coders of bytes, whatever these are.
inline bool takes_any(dtype) { return true; }

template <class Codec, auto... options> std::unique_ptr<coder> make_chunked(const coder_request& request) {
  return std::make_unique<chunked_coder<Codec>>(request, options...);
}

}  // namespace tuck::bench
