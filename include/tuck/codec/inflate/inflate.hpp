// SPDX-License-Identifier: Apache-2.0
// Decodes raw DEFLATE streams (RFC 1951) from any encoder. Accepts exactly the streams that zlib's inflate accepts, and
// restores the same bytes.
#pragma once

#include <tuck/codec/inflate/codes.hpp>

#include <algorithm>

namespace tuck::inline TUCK_ABI {

/// Result of inflate. `bytes` is the size of the output in bytes. After an error it is the size of the part that was
/// decoded before.
struct [[nodiscard]] inflate_result : outcome {
  uint64_t consumed = 0;  ///< bytes of the stream up to the end of its final block; 0 on errors
};

namespace deflate_format {

// Decodes one stream on one thread. The time is proportional to the sizes of input and output: tables are no larger
// than the codes of a block need, and successive fixed blocks share their tables.
class inflater {
 public:
  inflater(const_bytes stream, bytes out) noexcept : stream_(stream), out_(out), in_(stream) {}

  inflate_result run() noexcept {
    status s = status::ok;
    do s = decode_block();
    while (s == status::ok && !block_.is_final);
    return {{produced_, s}, s == status::ok ? ceil_div(in_.position(), uint64_t{8}) : 0};
  }

 private:
  status decode_block() noexcept {
    if (const status s = block_.read(in_, fixed_codes_); s != status::ok) return s;
    if (block_.type == stored) return copy_stored();
    if (block_.type == dynamic || !fixed_codes_) block_.fill(0, 1);
    fixed_codes_ = block_.type == fixed;
    return decode_tokens();
  }

  status copy_stored() noexcept {
    const uint64_t from = in_.position() / 8, left = stream_.size() - from, capacity = out_.size() - produced_;
    const uint64_t count = (std::min)({uint64_t{block_.stored_bytes}, left, capacity});
    if (count != 0) std::memcpy(out_.data() + produced_, stream_.data() + from, count);
    produced_ += count;
    in_.seek(from + count);
    return block_.after_stored(count, capacity);
  }

  status decode_tokens() noexcept {
    bit_reader in = in_;  // a copy, because stores of bytes might alias this object
    uint64_t produced = produced_;
    const status s = decode_tokens(in, produced);
    in_ = in;
    produced_ = produced;
    return s;
  }

  status decode_tokens(bit_reader& in, uint64_t& produced) const noexcept {
    std::byte* const out = out_.data();
    const uint64_t size = out_.size();
    for (;;) {
      const bool ample = in.ample() && size - produced >= max_match + 8;
      const token t = read_token(in, block_);
      if (!ample && in.overrun()) return status::deflate_ends_early;
      if (t.is_literal() && (ample || produced != size)) {
        out[produced++] = t.byte();
        continue;
      }
      if (!t.is_literal() && !t.is_match()) return t.why();
      if (t.distance() > produced) return status::deflate_distance;
      if (ample) {
        copy_match(out + produced, t.distance(), t.length());
        produced += t.length();
      } else {
        const uint64_t end = size - produced < t.length() ? size : produced + t.length();
        const bool whole = end - produced == t.length();
        for (; produced != end; ++produced) out[produced] = out[produced - t.distance()];
        if (!whole) return status::deflate_too_long;
      }
    }
  }

  // Copies a match; may write up to 7 bytes past its end.
  static void copy_match(std::byte* to, uint64_t distance, uint32_t length) noexcept {
    const std::byte* const end = to + length;
    for (; distance < 8 && to < end; distance *= 2) {  // each iteration doubles the period of the bytes written
      store_unaligned(to, load_unaligned<uint64_t>(to - distance));
      to += distance;
    }
    for (; to < end; to += 8) store_unaligned(to, load_unaligned<uint64_t>(to - distance));
  }

  const_bytes stream_;
  bytes out_;
  bit_reader in_;
  uint64_t produced_ = 0;
  bool fixed_codes_ = false;  // the codes of block_ are those of fixed blocks
  block block_;
};

}  // namespace deflate_format

/// Decodes a raw DEFLATE stream on the host: stored, fixed and dynamic blocks, and distances up to 32 KiB.
/// Uses less than 5 KiB of stack and no heap. The time is proportional to the sizes of input and output.
/// @param stream begins with the stream; bytes after its final block are ignored
/// @param out must not overlap `stream`. Bytes of `out` after the result may be overwritten too
/// @return the size of the output and of the stream in bytes. deflate_too_long if the output is larger than `out`,
///   which is then full. Another deflate_ status if the stream is invalid; invalid_argument for a null pointer
inline inflate_result inflate(const_bytes stream, bytes out) noexcept {
  if (stream.is_null() || out.is_null()) return {{0, status::invalid_argument}};
  return deflate_format::inflater(stream, out).run();
}

}  // namespace tuck::inline TUCK_ABI
