// The last stage of a chain by one thread block: it encodes the row of values and side streams, or restores it.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/huffman/huffman_block.cuh>

namespace tuck::inline TUCK_ABI::detail {

// Encodes the row that reaches the last stage: here, of any codec that encodes only the values. The side streams follow
// as they are.
template <class C, int Threads, uint32_t RowBytes> class row_encoder {
  using coder = block_codec<C, Threads>;
  using tile = block_tile<value_t<C>, Threads>;

 public:
  static constexpr int registers = 96;  // shared memory allows no more blocks
  using TempStorage = encoder_storage<coder>;

  __device__ row_encoder(TempStorage& temp, std::byte* row) : coder_(temp.codec), temp_(temp), row_(row) {}

  __device__ uint32_t measure(const C& codec, const row_sections& sections) {
    const uint32_t raw = sections.list.size(0);
    used_ = incompressible;
    if (raw != 0) {
      tile chunk = values(sections);
      used_ = coder_.measure(codec, chunk);
    }
    shrinks_ = used_ != incompressible && used_ < raw;
    if (!shrinks_) used_ = raw;
    return used_ + sections.list.total() - raw;
  }
  __device__ std::byte* chunk() { return temp_.chunk(coder_); }
  __device__ void write(const C& codec, const row_sections& sections) {
    if (shrinks_) {
      coder_.write(codec, values(sections), chunk());
      device::sync_block();  // side streams overwrite its last bytes
    } else {
      copy_in_shared<Threads>(chunk(), row_, 0, used_);
    }
    uint32_t at = used_, from = sections.sides;
    for (uint32_t i = 1; i < sections.list.count; ++i) {
      const uint32_t size = sections.list.size(i);
      copy_in_shared<Threads>(chunk() + at, row_ + from, 0, size);
      at += size;
      from += round_up_pow2(size, 2);
    }
  }

 private:
  __device__ tile values(const row_sections& sections) const {
    tile values;
    load_from_row(values, sections.list.size(0) / uint32_t{sizeof(value_t<C>)}, row_);
    return values;
  }

  coder coder_;
  TempStorage& temp_;
  std::byte* row_;
  uint32_t used_ = 0;
  bool shrinks_ = false;
};
// Restores the row that reached the last stage.
template <class C, int Threads, uint32_t RowBytes> class row_decoder {
  using decoder = block_decoder<C, Threads>;

 public:
  static constexpr int registers = 80;  // shared memory allows no more blocks
  using TempStorage = typename decoder::TempStorage;

  __device__ explicit row_decoder(TempStorage& temp) : decoder_(temp) {}

  static constexpr bool reads_global = false;

  template <class Sink>
  __device__ status read(const C& codec, std::byte* from, uint32_t size, const row_sections& sections, std::byte* row,
                         Sink& sink) {
    const uint32_t raw = sections.list.size(0), sides = sections.list.total() - raw;
    if (size < sides || size - sides > raw) return status::bad_payload;
    const uint32_t used = size - sides;
    uint32_t at = used, to = sections.sides;
    for (uint32_t i = 1; i < sections.list.count; ++i) {
      const uint32_t bytes = sections.list.size(i);
      copy_in_shared<Threads>(row + to, from, at, bytes);
      at += bytes;
      to += round_up_pow2(bytes, 2);
    }
    if (used == raw) {
      copy_in_shared<Threads>(row, from, 0, used);
      return status::ok;
    }
    if (used == 0) return status::bad_payload;
    device::sync_block();
    return decoder_.read(codec, from, used, raw / uint32_t{sizeof(value_t<C>)}, sink);
  }

 private:
  decoder decoder_;
};

template <element T, int Threads, uint32_t RowBytes>
class row_encoder<huffman<T>, Threads, RowBytes> : public huffman_format::huffman_encoder<T, Threads, RowBytes> {
  using huffman_format::huffman_encoder<T, Threads, RowBytes>::huffman_encoder;
};
template <element T, int Threads, uint32_t RowBytes>
class row_decoder<huffman<T>, Threads, RowBytes> : public huffman_format::huffman_decoder<T, Threads, RowBytes> {
  using huffman_format::huffman_decoder<T, Threads, RowBytes>::huffman_decoder;
};

}  // namespace tuck::inline TUCK_ABI::detail
