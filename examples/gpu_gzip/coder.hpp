// Who encodes and decodes members, a batch at a time: the host or the device.
#pragma once

#include "bgzf.hpp"

#include <tuck/codec/deflate/deflate.hpp>
#include <tuck/codec/inflate/inflate.hpp>
#include <tuck/frame/format.hpp>

#include <memory>

namespace gpu_gzip {

// A chunk is a member's input.
using codec = tuck::deflate<uint8_t>;
inline constexpr tuck::frame_options frame_shape{.chunk_values = member_input, .alignment = 16};

// Where in a batch's output that of a member goes: at a multiple of 2^output_alignment_log2.
struct decode_item {
  const_bytes stream;
  uint64_t at = 0;
  uint32_t size = 0;
};
inline constexpr unsigned output_alignment_log2 = 4;

struct decoded {
  tuck::inflate_result result;
  uint32_t crc = 0;  // of the output, where the result is ok and it is full
};

class coder {
 public:
  virtual ~coder() = default;

  // Encodes the input of up to `batch` members, not empty, into a frame, which has room for max_frame_bytes, and
  // finds the CRC-32 of each. Returns the frame's bytes.
  virtual uint64_t encode(tuck::span<const uint8_t> input, bytes frame, tuck::span<uint32_t> crcs) = 0;

  // Decodes up to `batch` streams, all of them in `file`, into `out`.
  virtual void decode(const_bytes file, tuck::span<const decode_item> items, bytes out,
                      tuck::span<decoded> results) = 0;
};

// `batch`: the most members of a call. The device has its memory for them at once; the host takes any number.
std::unique_ptr<coder> make_host_coder();
std::unique_ptr<coder> make_device_coder(uint64_t batch);

}  // namespace gpu_gzip
