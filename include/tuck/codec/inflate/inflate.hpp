// Decodes raw DEFLATE streams of any encoder (RFC 1951), as zlib's inflate does: what it accepts is accepted, with the
// same bytes, and nothing else.
#pragma once

#include <tuck/codec/inflate/codes.hpp>

namespace tuck::inline TUCK_ABI {

// What became of a stream: an outcome, whose `bytes` are those of output, the stream's first ones whatever the code.
struct [[nodiscard]] inflate_result : outcome {
  uint64_t consumed = 0;  // bytes of the stream, up to the one in which its final block ends; 0 where it is not ok
};

namespace deflate_format {

// One stream on one thread. Nothing costs more than its input and output do: tables are no larger than a block's codes
// need, and a fixed block after a fixed block finds them made.
class inflater {
 public:
  inflater(const_bytes stream, bytes out) noexcept : stream_(stream), out_(out), in_(stream) {}

  inflate_result run() noexcept {
    status s = status::ok;
    for (bool final = false; !final && s == status::ok;) s = decode_block(final);
    return {{produced_, s}, s == status::ok ? ceil_div(in_.position(), uint64_t{8}) : 0};
  }

 private:
  status decode_block(bool& final) noexcept {
    const uint32_t header = in_.take(3);
    if (in_.overrun()) return status::deflate_ends_early;
    final = (header & 1) != 0;
    switch (header >> 1) {
      case stored: return copy_stored();
      case fixed:
        if (!fixed_codes_) {
          set_fixed(lengths_);
          make_codes();
        }
        fixed_codes_ = true;
        return decode_tokens();
      case dynamic:
        fixed_codes_ = false;
        if (const status s = read_code_lengths(in_, lengths_, precode_); s != status::ok) return s;
        make_codes();
        return decode_tokens();
      default: return status::deflate_block_type;
    }
  }

  void make_codes() noexcept {
    codes_.sort(lengths_);
    codes_.fill(lengths_, 0, 1);
  }

  status copy_stored() noexcept {
    in_.align();
    const uint32_t length = in_.take(16), complement = in_.take(16);
    if (in_.overrun()) return status::deflate_ends_early;
    if (length != (~complement & 0xffff)) return status::deflate_stored_length;
    const uint64_t from = in_.position() / 8, left = stream_.size() - from, room = out_.size() - produced_;
    uint64_t count = length < left ? length : left;
    if (count > room) count = room;
    if (count != 0) std::memcpy(out_.data() + produced_, stream_.data() + from, count);
    produced_ += count;
    in_.seek(from + count);
    return count == length ? status::ok : count == room ? status::deflate_too_long : status::deflate_ends_early;
  }

  status decode_tokens() noexcept {
    bit_input in = in_;  // apart from this object, any of which a store of bytes could change
    uint64_t produced = produced_;
    const status s = decode_tokens(in, produced);
    in_ = in;
    produced_ = produced;
    return s;
  }

  status decode_tokens(bit_input& in, uint64_t& produced) const noexcept {
    std::byte* const out = out_.data();
    const uint64_t size = out_.size();
    for (;;) {
      const bool ample = in.ample() && size - produced >= max_match + 8;
      const token t = take_token(in, codes_);
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

  // Writes up to 7 bytes more.
  static void copy_match(std::byte* to, uint64_t distance, uint32_t length) noexcept {
    const std::byte* const end = to + length;
    for (; distance < 8 && to < end; distance *= 2) {  // the period of what has been written doubles
      store_unaligned(to, load_unaligned<uint64_t>(to - distance));
      to += distance;
    }
    for (; to < end; to += 8) store_unaligned(to, load_unaligned<uint64_t>(to - distance));
  }

  const_bytes stream_;
  bytes out_;
  bit_input in_;
  uint64_t produced_ = 0;
  bool fixed_codes_ = false;  // codes_ are those of fixed blocks
  block_codes codes_;
  code_lengths lengths_;
  precode_memory precode_;
};

}  // namespace deflate_format

// Decodes the stream that `stream` begins with; what follows it is not consumed. Stored, fixed and dynamic blocks, and
// matches as far back as there is output, at most 32 KiB. Where there is more output than `out` has room for,
// deflate_too_long, with `out` full; else a status for each way in which a stream can be wrong. Bytes of `out` behind
// those `bytes` may have been written; `out` and the stream do not overlap. Needs less than 5 KiB of stack and no
// heap; takes time in proportion to input and output.
inline inflate_result inflate(const_bytes stream, bytes out) noexcept {
  return deflate_format::inflater(stream, out).run();
}

}  // namespace tuck::inline TUCK_ABI
