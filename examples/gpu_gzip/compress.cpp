#include "gzip.hpp"
#include "support/files.hpp"

#include <tuck/frame/reader.hpp>

#include <cstring>
#include <vector>

namespace gpu_gzip {
namespace {

using tuck::chunk_kind;
using tuck::tools::byte_buffer;

void require(tuck::status s) {
  if (s != tuck::status::ok) throw std::runtime_error(message(s));
}

// Writes values as one stored block, the final one. Returns its size.
uint32_t store_block(const_bytes values, std::byte* to) noexcept {
  const auto size = static_cast<uint16_t>(values.size());
  *to++ = std::byte{1};
  tuck::store_unaligned(to, size);
  tuck::store_unaligned(to + 2, static_cast<uint16_t>(~size));
  std::memcpy(to + 4, values.data(), size);
  return 5 + size;
}

// Makes a frame's chunks members.
class member_writer {
 public:
  // The most bytes that write() gives for `members`.
  static constexpr uint64_t most_bytes(uint64_t members) noexcept { return members * max_member_bytes; }

  // The frame's chunks as members, into `out`; their bytes.
  uint64_t write(const_bytes frame, tuck::span<const uint32_t> crcs, bytes out) {
    tuck::frame_view view;
    require(tuck::frame_view::open(frame, view));
    std::byte* to = out.data();
    for (uint64_t i = 0; i < view.chunks(); ++i) {
      tuck::chunk_view chunk;
      require(view.chunk(i, chunk));
      std::byte* const stream = to + header_bytes;
      const uint32_t size = write_stream(chunk, stream);
      write_header(to, size);
      to = write_trailer(stream + size, crcs[i], chunk.values);
    }
    return static_cast<uint64_t>(to - out.data());
  }

 private:
  uint32_t write_stream(const tuck::chunk_view& chunk, std::byte* to) {
    if (chunk.kind == chunk_kind::raw) return store_block(chunk.payload, to);
    if (chunk.kind == chunk_kind::uniform) return write_constant(chunk, to);
    return copy(codec::stream_of(chunk.payload), to);
  }

  // Where one chunk is uniform, the next one often is so too.
  uint32_t write_constant(const tuck::chunk_view& chunk, std::byte* to) {
    const auto value = chunk.payload.empty() ? uint8_t{0} : static_cast<uint8_t>(chunk.payload[0]);
    if (constant_.size() != chunk.values || constant_[0] != value) {
      constant_.assign(chunk.values, value);
      encoded_.resize(codec{}.max_chunk_bytes(chunk.values));
      encoded_.resize(codec{}.encode_chunk(constant_, encoded_));
    }
    const tuck::span<const uint8_t> values(constant_);
    return encoded_.empty() ? store_block(as_bytes(values), to) : copy(codec::stream_of(encoded_), to);
  }
  static uint32_t copy(const_bytes stream, std::byte* to) {
    std::memcpy(to, stream.data(), stream.size());
    return static_cast<uint32_t>(stream.size());
  }

  std::vector<uint8_t> constant_;
  std::vector<std::byte> encoded_;  // constant_ encoded, empty if that is not smaller
};

}  // namespace

void compress(const source& in, const sink& out, coder& by, uint64_t batch) {
  byte_buffer input(batch * member_input), members(member_writer::most_bytes(batch));
  byte_buffer frame(max_frame_bytes(codec{}, input.size(), frame_shape));
  std::vector<uint32_t> crcs(batch);
  member_writer writer;
  while (const uint64_t size = in(input.all())) {
    const tuck::span<const uint8_t> values(reinterpret_cast<const uint8_t*>(input.all().data()), size);
    const uint64_t frame_size = by.encode(values, frame.all(), crcs);
    out(members.all().subspan(0, writer.write(frame.all().subspan(0, frame_size), crcs, members.all())));
  }
  out(end_member());
}

}  // namespace gpu_gzip
