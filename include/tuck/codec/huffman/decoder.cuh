// Decodes rows of values and side streams from untrusted bytes on one thread block. layout.hpp describes the format.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/huffman/huffman.hpp>
#include <tuck/codec/huffman/parts.cuh>
#include <tuck/codec/huffman/warp_code.cuh>
#include <tuck/core/bit_lanes.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

template <element T, int Threads, uint32_t RowBytes> class huffman_decoder : block_sizes<T, Threads> {
  using sizes = block_sizes<T, Threads>;
  using sizes::byte_parts, sizes::coded_parts, sizes::may_have_heads, sizes::most_values, sizes::warps, sizes::width;
  using typename sizes::four;
  using typename sizes::scan;
  using codes = device::shared_codes<max_length>;
  using tile = block_tile<T, Threads>;
  static_assert(RowBytes >= tile_bytes + 16 && RowBytes >= coded_parts * slots * sizeof(uint16_t));

 public:
  static constexpr int registers = 96;
  static constexpr bool reads_global = true;

  struct TempStorage {
    uint32_t parts[RowBytes / 4];  // edges, then planes, upper plane first; not larger than the row
    uint32_t flags[RowBytes / 32 + 1];
    uint32_t heads[may_have_heads ? most_values / 32 : 1];
    uint32_t kept[may_have_heads ? most_values / 4 * 5 / 8 + 1 : 1];
    warp_symbols symbols[warps];
    typename scan::TempStorage scan_storage;
    uint32_t coded_at[coded_parts];  // offset of each table, in words of the chunk
    struct {
      uint32_t* words;         // target of decoding
      uint32_t bytes, stored;  // `stored`: offset if it is stored, in words of the chunk
    } part[most_parts];
    uint32_t streams, bits_begin, stored_begin;  // the last two are offsets in words of the chunk
    uint32_t sound;
    device::uninitialized<shape> of_chunk;
  };

  __device__ explicit huffman_decoder(TempStorage& temp) : temp_(temp) {}

  // Decodes the row. `row` holds the lookup tables until values are written.
  template <class Sink>
  __device__ status read(const huffman<T>&, const std::byte* from, uint32_t size, const row_sections& sections,
                         std::byte* row, Sink& sink) {
    if (size % 4 != 0 || size < 4 * shape::head_words) return status::bad_payload;
    words_ = size / 4;
    from_ = reinterpret_cast<const uint32_t*>(from);
    if (threadIdx.x == 0) {
      shape s{width, sections.list.size(0) / width, padded_sides(sections.list)};
      s.read(device::load(from_), device::load(from_ + 1));
      temp_.sound = s.fits();
      temp_.of_chunk.get() = s;
      if (temp_.sound != 0) find_tables(s);
    }
    if (device::warp_id() == 0) {
      device::sync_warp();
      if (temp_.sound != 0) list_parts(temp_.of_chunk.get());
    }
    device::sync_block();
    if (temp_.sound == 0) return status::bad_payload;
    const shape s = temp_.of_chunk.get();
    if (!read_tables(s, row)) return status::bad_payload;
    if (!read_streams(s, row)) return status::bad_payload;
    if (!undo_parts(s, reinterpret_cast<uint32_t*>(row + sections.sides))) return status::bad_payload;
    give_values(s, sink);
    return status::ok;
  }

 private:
  __device__ static uint32_t coded_mask(const shape& s) { return s.header & low_mask(coded_parts); }

  // Finds the offset of each table, on one thread. Sets bits_begin to the end of the last table.
  __device__ void find_tables(const shape& s) {
    uint32_t at = shape::head_words;
    for (uint32_t left = coded_mask(s); left != 0; left &= left - 1) {
      const uint32_t p = lowest(left);
      temp_.coded_at[p] = at;
      if (p < nibble_parts)
        at += 2;
      else if (at < words_)
        at += 1 + popcount(device::load(from_ + at));
      else
        ++at;
    }
    temp_.bits_begin = at;
    if (at > words_) temp_.sound = 0;
  }
  // Finds the source and target of each part, on one warp.
  __device__ void list_parts(const shape& s) {
    const uint32_t p = device::lane_id();
    const bool is_part = p < s.parts(), is_coded = is_part && s.coded(p);
    const uint32_t stored = is_part && !is_coded ? s.stored_words(p) : 0;
    const uint32_t up_to = device::warp_inclusive_sum(stored);
    const uint32_t all = device::shfl(up_to, device::warp_size - 1);
    const uint32_t streams = streams_of(device::warp_sum(is_coded ? s.symbols(p) : 0));
    const uint32_t begin = temp_.bits_begin + stream_words(streams, s.wide());
    if (is_part) temp_.part[p] = {target(s, p), s.bytes(p), words_ - all + up_to - stored};
    device::sync_warp();  // all lanes have read bits_begin
    if (p != 0) return;
    temp_.streams = streams;
    temp_.bits_begin = begin;
    temp_.stored_begin = words_ - all;
    if (begin + all > words_) temp_.sound = 0;
  }
  __device__ static uint16_t (&table(std::byte* row, uint32_t p))[slots] {
    return reinterpret_cast<uint16_t(*)[slots]>(row)[p];
  }
  __device__ bool read_tables(const shape& s, std::byte* row) {
    const uint32_t lane = device::lane_id();
    bool sound = true;
#pragma unroll 1
    for (uint32_t i = device::warp_id(); i < coded_parts; i += warps) {
      const uint32_t p = (i + upper_part) % coded_parts;
      if (!s.coded(p)) continue;
      uint32_t at = temp_.coded_at[p], groups = 3;
      if (p >= nibble_parts) groups = device::load_uniform(from_ + at++);
      const uint32_t rank = popcount(groups & ((1u << lane) - 1));
      const uint32_t word = (groups >> lane & 1) != 0 ? device::load(from_ + at + rank) : 0;
      sound &= fill_lookup(word, table(row, p), temp_.symbols[device::warp_id()]);
    }
    return !device::sync_block_or(!sound);
  }

  __device__ bool read_streams(const shape& s, std::byte* row) {
    const uint32_t streams = temp_.streams, t = threadIdx.x, begin = temp_.bits_begin;
    const uint32_t words = temp_.stored_begin - begin;
    uint32_t bits = 0, total;
    if (t < streams) {
      const auto* const directory = from_ + begin - stream_words(streams, s.wide());
      bits = s.shortest + (s.wide() ? device::load(reinterpret_cast<const uint16_t*>(directory) + t)
                                    : device::load(reinterpret_cast<const uint8_t*>(directory) + t));
    }
    const uint32_t first = scan::exclusive_sum(temp_.scan_storage, bits, total);
    bool sound = (total + 31) / 32 == words;
    if (t < streams && sound) {
      // If there are no words, the reader gets a valid one, and any stream that reads bits is malformed.
      device::bits_from_global in(words != 0 ? from_ + begin : from_, words != 0 ? words : 1, first);
#pragma unroll 1
      for (uint32_t left = coded_mask(s); left != 0; left &= left - 1) {
        const uint32_t p = lowest(left);
        const codes code(table(row, p));
        if (p < nibble_parts)
          read_part<4>(temp_.part[p].words, temp_.part[p].bytes, t, streams, code, in);
        else
          read_part<8>(temp_.part[p].words, temp_.part[p].bytes, t, streams, code, in);
      }
      sound = in.skipped() == bits;
    }
    return !device::sync_block_or(!sound);
  }
  // Returns the words that part p is decoded to.
  __device__ uint32_t* target(const shape& s, uint32_t p) {
    return p == 0                             ? temp_.flags
           : p == 1                           ? temp_.parts
           : p == 2                           ? temp_.heads
           : p == upper_part && s.has_heads() ? temp_.kept
                                              : plane(s, p - upper_part);
  }
  __device__ uint32_t* plane(const shape& s, uint32_t k) {
    return temp_.parts + (s.edges + 3) / 4 + k * ((s.values + 3) / 4);
  }
  // Decodes this stream's words of a part whose symbols have `Bits` bits.
  template <uint32_t Bits>
  __device__ static void read_part(uint32_t* words, uint32_t size, uint32_t t, uint32_t streams, const codes& code,
                                   device::bits_from_global& in) {
    const uint32_t whole = size / 4, tail = (whole & (streams - 1)) == t ? size % 4 : 0;  // bytes of the last word
    device::shared_steps to(words, t, whole, streams);
#pragma unroll 1
    while (to.has_more()) {
      uint32_t word = read_four(code, in);
      if constexpr (Bits == 4) {
        const uint32_t more = read_four(code, in);
        word = device::byte_perm<0x6420>(word | word >> 4, more | more >> 4);
      }
      to.put(word);
    }
    if (tail == 0) return;
    uint32_t word = 0;
    for (uint32_t at = 0; at < 8 * tail; at += Bits) {
      const uint32_t entry = code.of(in.peek());
      word |= entry >> 8 << at;
      in.skip(entry);
    }
    words[whole] = word;
  }
  // Decodes four symbols, one per byte.
  __device__ static uint32_t read_four(const codes& code, device::bits_from_global& in) {
    uint32_t pair[2];
#pragma unroll
    for (uint32_t& x : pair) {
      const uint32_t window = in.peek(), a = code.of(window), b = code.of(codes::behind(window, a));
      x = device::byte_perm<0x5151>(a, b);
      in.skip(a + b);
    }
    return device::byte_perm<0x5410>(pair[0], pair[1]);
  }

  // Copies the words of a stored part to the target of decoding.
  __device__ void copy_stored(uint32_t p) {
    const uint32_t bytes = temp_.part[p].bytes;
    const uint32_t* const from = from_ + temp_.part[p].stored;
    for (uint32_t i = threadIdx.x; 4 * i < bytes; i += Threads) {
      const uint32_t left = bytes - 4 * i;
      temp_.part[p].words[i] = device::load(from + i) & low_mask(left < 4 ? 8 * left : 32);
    }
  }
  // Restores the side streams and the upper bytes from the first parts. Returns false if these are malformed.
  __device__ bool undo_parts(const shape& s, uint32_t* sides) {
    if (s.sides == 0 && !s.has_heads()) return true;
#pragma unroll 1
    for (uint32_t left = ~s.header & low_mask(s.has_heads() ? upper_part + 1 : upper_part); left != 0; left &= left - 1)
      copy_stored(lowest(left));
    device::sync_block();
    bool sound = true;
    if (device::warp_id() == warps - 1)
      sound = edges_to_sides(temp_.flags, reinterpret_cast<const std::byte*>(temp_.parts), s.edges, s.sides, sides);
    if constexpr (may_have_heads) {
      if (s.has_heads()) sound &= join_heads(s);
    }
    return !device::sync_block_or(!sound);
  }
  // Restores the upper bytes. Returns false if their heads are malformed. Has a barrier.
  __device__ bool join_heads(const shape& s) {
    const uint32_t lane = device::lane_id(), words = ceil_div(s.values, 32u), each = ceil_div(words, uint32_t{warps});
    const uint32_t begin = device::warp_id() * each, end = begin + each < words ? begin + each : words;
    uint32_t found = 0, all;
    for (uint32_t h = begin + lane; h < end; h += device::warp_size) found += popcount(temp_.heads[h]);
    uint32_t before = scan::exclusive_sum(temp_.scan_storage, found, all);
    const uint32_t tail = s.values % 32;
    if (all != s.heads() || (temp_.heads[0] & 1) == 0 ||
        (tail != 0 && (temp_.heads[s.values / 32] & ~low_mask(tail)) != 0))
      return false;
    const auto* const kept = reinterpret_cast<const uint8_t*>(temp_.kept);
    auto* const upper = reinterpret_cast<uint8_t*>(plane(s, 0));
    before = device::shfl(before, 0);
#pragma unroll 1
    for (uint32_t h = begin; h < end; ++h) {  // the rank of a value is the number of heads up to and including it
      const uint32_t word = temp_.heads[h], i = 32 * h + lane, rank = before + popcount(word << (31 - lane));
      if (i < round_up_pow2(s.values, 2)) upper[i] = kept[rank - 1];
      before += popcount(word);
    }
    return true;
  }

  // Passes the values of the chunk to the sink.
  template <class Sink> __device__ void give_values(const shape& s, Sink& sink) {
    const uint32_t quads = (s.values + 3) / 4, lowest_part = s.parts() - 1;
    const bool is_narrow = s.narrow_if_stored(lowest_part) && !s.coded(lowest_part);
    if (is_narrow) {
      widen_plane(from_ + temp_.part[lowest_part].stored, quads, temp_.part[lowest_part].words);
      device::sync_block();
    }
    const uint32_t* from[width];
    bool in_chunk[width];
#pragma unroll
    for (uint32_t k = 0; k < width; ++k) {
      const uint32_t p = upper_part + k;
      const bool here = (k == 0 && s.has_heads()) || (p == lowest_part && is_narrow) || s.coded(p);
      in_chunk[k] = !here;
      from[k] = p > lowest_part ? from_ : here ? plane(s, k) : from_ + temp_.part[p].stored;
    }
    constexpr int some = tile::rows < 4 ? tile::rows : 4;  // rows in registers
    constexpr uint32_t each = quad_row<width>::quads, row_quads = tile::row_values / 4;
    if constexpr (width <= 4) {
      const uint32_t first = tile::first_value() / 4;
      if (s.values == tile::capacity)
        return give<some>(s, from, in_chunk, first, first + tile::rows * row_quads, row_quads, sink);
    }
    give<1>(s, from, in_chunk, each * threadIdx.x, quads, each * Threads, sink);
  }
  // Passes the values of quads q, q + step, ... to the sink, Rows rows at a time. The words of each plane, upper plane
  // first, are in the chunk or in shared memory. Those of dropped planes are not read.
  template <uint32_t Rows, class Sink>
  __device__ void give(const shape& s, const uint32_t* const (&from)[width], const bool (&in_chunk)[width], uint32_t q,
                       uint32_t end, uint32_t step, Sink& sink) {
    using quads = quad_row<width>;
#pragma unroll 1
    for (; q < end; q += Rows * step) {
      quads row[Rows];
#pragma unroll
      for (uint32_t k = 0; k < width; ++k) {
        const uint32_t* const words = from[k] + q;
        const auto fill = [&](const auto& word) {
#pragma unroll
          for (uint32_t r = 0; r < Rows; ++r)
#pragma unroll
            for (uint32_t j = 0; j < quads::quads; ++j)  // a single row may be incomplete
              row[r].at[j].w[width - 1 - k] = Rows > 1 || j == 0 || q + j < end ? word(words + r * step + j) : 0;
        };
        if (k != 0 && k >= s.planes())
          fill([](const uint32_t*) { return 0u; });
        else if (in_chunk[k])
          fill([](const uint32_t* p) { return device::load(p); });
        else
          fill([](const uint32_t* p) { return *p; });
      }
      device::vec128 x[Rows * quads::vectors];
#pragma unroll
      for (uint32_t r = 0; r < Rows; ++r) row[r].get(sizes::rotation(s), x + r * quads::vectors);
      if constexpr (Rows > 1) {
        sink(4 * q, x);
      } else {
#pragma unroll
        for (uint32_t i = 0; i < quads::vectors; ++i)
          if (const uint32_t first = 4 * q + i * tile::lane_values; i == 0 || first < s.values)
            sink(first, tile::clip(x[i], s.values - first));
      }
    }
  }
  // Restores a plane that is stored with seven bits per value.
  __device__ static void widen_plane(const uint32_t* from, uint32_t quads, uint32_t* to) {
    const uint32_t rounds = (quads + Threads - 1) / Threads, lane = threadIdx.x % 8;
#pragma unroll 1
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint32_t q = r * Threads + threadIdx.x;
      const uint32_t own = lane < 7 && q < quads ? device::load(from + q / 8 * 7 + lane) : 0;
      const uint32_t eighth = or_of_eight(lane < 7 ? own >> 28 << 4 * lane : 0);
      if (q < quads) to[q] = widen(lane < 7 ? own : eighth);
    }
  }

  TempStorage& temp_;
  const uint32_t* from_ = nullptr;
  uint32_t words_ = 0;
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
