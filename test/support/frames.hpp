// Frames for tests, and the forger's tool: digests made right again after a change.
#pragma once

#include "support/tensors.hpp"

#include <tuck/host.hpp>

#include <gtest/gtest.h>

namespace tuck::test {

using frame_bytes = std::vector<std::byte>;

// A codec's complaint about the bytes of a chunk.
constexpr bool is_payload_error(status s) noexcept {
  return s == status::bad_payload || (s >= status::deflate_ends_early && s <= status::deflate_too_long);
}

template <codec C>
frame_bytes encoded(const C& codec, const std::vector<value_t<C>>& values, const frame_options& options = {},
                    unsigned threads = 1) {
  frame_bytes frame(max_frame_bytes(codec, values.size(), options));
  const outcome o = host::encode(codec, values, frame, options, {.threads = threads});
  EXPECT_EQ(o.code, status::ok);
  frame.resize(o.bytes);
  return frame;
}

template <codec C> std::vector<value_t<C>> decoded(const C& codec, const frame_bytes& frame, unsigned threads = 1) {
  frame_header header;
  EXPECT_EQ(inspect(frame, header), status::ok);
  std::vector<value_t<C>> values(header.value_count);
  EXPECT_EQ(host::decode(codec, frame, values, 0, {.threads = threads}).code, status::ok);
  return values;
}

inline frame_header header_of(const frame_bytes& frame) { return load_unaligned<frame_header>(frame.data()); }

// How the chunks of a sound frame are stored.
inline std::vector<chunk_kind> kinds_of(const frame_bytes& frame) {
  frame_view view;
  EXPECT_EQ(frame_view::open(frame, view), status::ok);
  std::vector<chunk_kind> kinds;
  for (uint64_t i = 0; i < view.chunks(); ++i) {
    chunk_view chunk;
    EXPECT_EQ(view.chunk(i, chunk), status::ok);
    kinds.push_back(chunk.kind);
  }
  return kinds;
}

// Makes all digests fit what the frame says, so that what lies behind them is reached. Where the header's sizes
// do not fit the frame, the contents keep the digest they have.
inline void reseal(frame_bytes& frame) {
  if (frame.size() < sizeof(frame_header)) return;
  frame_header h = header_of(frame);
  if (h.chunk_values != 0 && h.alignment_log2 <= max_alignment_log2) {
    const frame_layout at = layout_of(h);
    if (at.contents_end <= frame.size())
      h.contents_digest = checksum(const_bytes(frame).subspan(sizeof h, at.contents_end - sizeof h));
  }
  h.header_digest = digest_of(h);
  store_unaligned(frame.data(), h);
}

// The frame with its header changed, and digests that fit.
template <class Change> frame_bytes forged(frame_bytes frame, const Change& change) {
  frame_header h = header_of(frame);
  change(h);
  store_unaligned(frame.data(), h);
  reseal(frame);
  return frame;
}

}  // namespace tuck::test
