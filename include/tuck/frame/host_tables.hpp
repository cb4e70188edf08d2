// Writes all of a frame but its payloads, on the CPU.
#pragma once

#include <tuck/frame/format.hpp>

namespace tuck::inline TUCK_ABI::host::detail {

// Sets the first `size` bytes of `to` to 0, and perhaps bytes after them: if `size` is at most 32, it sets 32 bytes. A
// constant number of bytes needs no call of memset, which saves time for small tensors.
inline void fill_zeros(bytes to, uint64_t size) noexcept {
  constexpr uint64_t few = 32;
  if (size <= few && to.size() >= few)
    std::memset(to.data(), 0, few);
  else
    std::memset(to.data(), 0, size);
}

// Writes the metadata and the zeros before and after the tables, which are written later.
inline void write_metadata(bytes frame, const_bytes metadata, const frame_layout& at) noexcept {
  if (!metadata.empty()) std::memcpy(frame.data() + sizeof(frame_header), metadata.data(), metadata.size());
  const uint64_t end = sizeof(frame_header) + metadata.size();
  fill_zeros(frame.subspan(end, frame.size() - end), at.directory - end);
  fill_zeros(frame.subspan(at.contents_end, frame.size() - at.contents_end), at.payloads - at.contents_end);
}

// Writes a header in two parts: at first what is known before the chunks are encoded, at last the other three fields.
// So little is left to do at the end, which saves time for small tensors. Between them the frame is invalid.
class header_writer {
 public:
  // The three fields of `header` and its digest must be 0. If `frame` is too short, writes nothing.
  header_writer(bytes frame, const frame_header& header) noexcept : frame_(frame.data()) {
    if (frame.size() < sizeof header) return;
    std::memcpy(frame_, &header, sizeof header);
    std::memcpy(&first_, frame_, sizeof first_);
    store_unaligned(frame_, uint64_t{0});
    sum_ = sum_words(tuck::as_bytes(span(&header, 1)).subspan(0, offsetof(frame_header, header_digest)));
  }
  void finish(uint64_t frame_bytes, uint64_t base_digest, uint64_t contents_digest) noexcept {
    set(offsetof(frame_header, frame_bytes), frame_bytes);
    set(offsetof(frame_header, base_digest), base_digest);
    set(offsetof(frame_header, contents_digest), contents_digest);
    constexpr uint32_t end = offsetof(frame_header, header_digest);
    store_unaligned(frame_ + end, digest(sum_, end));
    store_unaligned(frame_, first_);
  }

 private:
  void set(uint32_t at, uint64_t value) noexcept {
    sum_.add(static_cast<uint32_t>(value), at / 4);
    sum_.add(static_cast<uint32_t>(value >> 32), at / 4 + 1);
    store_unaligned(frame_ + at, value);
  }

  std::byte* frame_;
  word_sum sum_;
  uint64_t first_ = 0;  // the first 8 bytes of the header
};

}  // namespace tuck::inline TUCK_ABI::host::detail
