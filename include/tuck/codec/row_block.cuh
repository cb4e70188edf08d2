// Codecs that work on a row of bytes in shared memory: values and, in chains, sides.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/sections.hpp>

namespace tuck::inline TUCK_ABI {

// A codec of sections has here, of rows of up to RowBytes:
//
//   encoder     TempStorage, measure(sections), pack(sections, words to follow, how many, out)
//   decoder     TempStorage, decode(encoded, sections, row, sink)
//
// `sections` are row_sections (sections.hpp). The row stands at the begin of the encoder's TempStorage, which keeps it.
// The decoder's has room for what it likes; sides come where they belong, and values go to the sink, which may be
// that row.
// Both have blocks_a_processor, as block codecs may (block.cuh).
template <class C, int Threads, uint32_t RowBytes> struct row_block {
  static_assert(sizeof(C) == 0, "tuck: this codec of sections has no row_block; see tuck/codec/row_block.cuh");
};

namespace detail {

// A tile to the begin of a row and back; nothing past a multiple of 16 bytes is touched.
template <class Tile> __device__ void store_to_row(const Tile& values, uint32_t bytes, std::byte* row) {
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r) {
    const uint32_t at = Tile::first_value(r * Tile::row_words) / Tile::lane_values;
    if (at * sizeof(device::vec128) < bytes) reinterpret_cast<device::vec128*>(row)[at] = values.row(r);
  }
}
// The 16 bytes of which `first` is the first value, zeros past the last one.
template <class Tile> __device__ device::vec128 read_row(uint32_t first, uint32_t count, const std::byte* row) {
  const uint32_t at = first / Tile::lane_values, words = (count * (16 / Tile::lane_values) + 3) / 4;
  if (first + Tile::lane_values <= count) return reinterpret_cast<const device::vec128*>(row)[at];
  device::vec128 x{};
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k)
    if (4 * at + k < words) x.w[k] = reinterpret_cast<const uint32_t*>(row)[4 * at + k];
  return Tile::clip(x, first < count ? count - first : 0);
}

// A row as a sink.
template <element T, int Threads> struct row_sink {
  using tile = block_tile<T, Threads>;
  std::byte* row;

  __device__ void operator()(uint32_t first, typename tile::word x) {
    reinterpret_cast<typename tile::word*>(row)[first / tile::per_word] = x;
  }
  __device__ void operator()(uint32_t first, const device::vec128& x) {
    reinterpret_cast<device::vec128*>(row)[first * sizeof(T) / sizeof x] = x;
  }
};

// The values of a row to a sink.
template <class Tile, class Sink> __device__ void give_row(const std::byte* row, uint32_t count, Sink& sink) {
#pragma unroll 2
  for (int r = 0; r < Tile::rows; ++r)
    if (const uint32_t first = Tile::first_value(r * Tile::row_words); first < count)
      sink(first, read_row<Tile>(first, count, row));
}

// Of values alone.
inline constexpr uint32_t plain_row = tile_bytes + 32;

template <class Sections> __device__ void list_values(Sections& sections, uint32_t bytes) {
  if (threadIdx.x == 0) {
    sections.list = {};
    sections.list.add(bytes);
    sections.at[0] = 0;
    sections.at[1] = 0;  // where sides would be
  }
}

// The block codec of such a codec alone.
template <class C, int Threads> class row_block_codec {
  using encoder = typename row_block<C, Threads, plain_row>::encoder;

 public:
  using tile = block_tile<value_t<C>, Threads>;
  static constexpr int blocks_a_processor = encoder::blocks_a_processor;

  struct TempStorage {
    typename encoder::TempStorage storage;
    row_sections sections;
  };

  __device__ explicit row_block_codec(TempStorage& temp) : temp_(temp), encoder_(temp.storage) {}

  __device__ void take(const C&, tile& values) {
    const uint32_t bytes = values.count * uint32_t{sizeof(value_t<C>)};
    list_values(temp_.sections, bytes);
    store_to_row(values, bytes, reinterpret_cast<std::byte*>(&temp_.storage));
  }
  __device__ uint32_t measure(const C&) { return encoder_.measure(temp_.sections); }
  template <class Chunk> __device__ void pack(const C&, Chunk&, bytes out) {
    encoder_.pack(temp_.sections, nullptr, 0, out);
  }

 private:
  TempStorage& temp_;
  encoder encoder_;
};

template <class C, int Threads> class row_block_decoder {
  using decoder = typename row_block<C, Threads, plain_row>::decoder;

 public:
  static constexpr int blocks_a_processor = decoder::blocks_a_processor;

  struct TempStorage {
    typename decoder::TempStorage storage;
    row_sections sections;
    alignas(16) std::byte row[plain_row];
  };

  __device__ explicit row_block_decoder(TempStorage& temp) : temp_(temp) {}

  template <class Sink> __device__ status decode(const C&, const_bytes encoded, uint32_t count, Sink& sink) {
    if (encoded.size() >= count * sizeof(value_t<C>)) return status::bad_payload;
    list_values(temp_.sections, count * uint32_t{sizeof(value_t<C>)});
    device::sync_block();
    return decoder(temp_.storage).decode(encoded, temp_.sections, temp_.row, sink);
  }

 private:
  TempStorage& temp_;
};

}  // namespace detail
}  // namespace tuck::inline TUCK_ABI
