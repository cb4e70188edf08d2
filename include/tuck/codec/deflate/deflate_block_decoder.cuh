// Decodes deflate-lite by one thread block: one thread reads the header of the DEFLATE block, all build its tables, and
// then each has a sub-block, which it finds by the index and keeps to by sub_block.hpp. Shared memory holds the tables
// only; what a thread restores leaves it 16 bytes at a time.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/deflate/deflate.hpp>
#include <tuck/codec/deflate/lanes.cuh>
#include <tuck/codec/deflate/shared_tables.cuh>

namespace tuck::inline TUCK_ABI {

namespace deflate_format {

// The codec's decode.
template <element T, int Threads> class block_decoder {
  using index = shared_index<Threads>;

 public:
  static constexpr int blocks_a_processor = 6;  // 80 registers

  struct TempStorage {
    shared_tables tables;
    shared_header header;
    typename index::scan::TempStorage scan_storage;
    uint32_t first_bit;  // of the symbols
    uint32_t failure;    // sub-block << 16 | status of the first that failed
    status verdict;      // on the header
  };

  __device__ explicit block_decoder(TempStorage& temp) : temp_(temp) {}

  template <class Sink> __device__ status decode(const deflate<T>&, const_bytes encoded, uint32_t count, Sink& sink) {
    if (encoded.empty()) return status::deflate_ends_early;
    const uint32_t sub_blocks =
        device::load_uniform(reinterpret_cast<const uint8_t*>(encoded.data() + encoded.size() - 1));
    chunk_parts parts;
    if (!split(encoded, sub_blocks, parts)) return status::deflate_index;
    if (const status s = read_header(parts.stream); s != status::ok) return s;
    table_builder<Threads>::build(temp_.tables);

    const uint32_t size = count * uint32_t{sizeof(T)};
    index_sums all;
    index_sums before = index::sums_before(temp_.scan_storage, parts.index, sub_blocks, all);
    if (sub_blocks != 0 && !all.fit(size, temp_.first_bit, parts.stream.size())) return status::deflate_index;
    for (uint32_t i = threadIdx.x * index::own; i < (threadIdx.x + 1) * index::own && (i == 0 || i < sub_blocks); ++i) {
      sub_block part{temp_.first_bit + before.bits,
                     static_cast<uint32_t>(8 * parts.stream.size()),
                     before.groups * group_bytes,
                     size,
                     sub_blocks != 0,
                     i + 1 >= sub_blocks};
      if (part.indexed) {
        before.add(index::entry(parts.index, i));
        part.end_bit = temp_.first_bit + before.bits;
        if (!part.is_last) part.end_byte = before.groups * group_bytes;
      }
      decode_sub_block(parts.stream, part, i, sink);
    }
    device::sync_block();
    return temp_.failure == no_failure ? status::ok : static_cast<status>(temp_.failure & 0xffff);
  }

 private:
  static constexpr uint32_t no_failure = ~0u;

  __device__ status read_header(const_bytes stream) {
    const uint32_t size = temp_.header.template load<Threads>(stream, 0);
    if (threadIdx.x == 0) {
      bit_input in({temp_.header.bytes, size});
      temp_.verdict = read_block_header(in, true, temp_.tables.lengths, temp_.header.precode);
      temp_.first_bit = static_cast<uint32_t>(in.position());
      temp_.failure = no_failure;
    }
    device::sync_block();
    return temp_.verdict;
  }

  template <class Sink>
  __device__ void decode_sub_block(const_bytes stream, const sub_block& part, uint32_t i, Sink& sink) {
    lane_input in(stream, part.first_bit);
    lane_output<T, Sink> out(part.first_byte, sink);
    status s = deflate_format::decode_sub_block(temp_.tables.tables, part, in, out);
    if (s == status::ok && part.is_last) {
      out.finish();
      s = read_end(temp_.tables.tables, in);
    }
    if (s != status::ok) device::atomic_min(&temp_.failure, i << 16 | static_cast<uint32_t>(s));
  }

  TempStorage& temp_;
};

}  // namespace deflate_format

template <element T, int Threads>
struct block_decoder<deflate<T>, Threads> : deflate_format::block_decoder<T, Threads> {
  using deflate_format::block_decoder<T, Threads>::block_decoder;
};

}  // namespace tuck::inline TUCK_ABI
