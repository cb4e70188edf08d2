// Huffman on one thread block, for chunks and for rows of chains. The bytes are those of layout.hpp.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/huffman/decoder.cuh>
#include <tuck/codec/huffman/huffman.hpp>
#include <tuck/codec/huffman/plane_parts.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// Encodes a row in shared memory, at a multiple of 16. The row must not be changed from outside until `write` ends.
// Values take at most tile_bytes.
template <element T, int Threads, uint32_t RowBytes> class huffman_encoder : block_sizes<T, Threads> {
  using plane_parts = block_plane_parts<T, Threads, RowBytes>;
  using sizes = block_sizes<T, Threads>;
  using sizes::coded_parts, sizes::warps, sizes::width;
  using typename sizes::four;
  using typename sizes::scan;

  static constexpr uint32_t staged_words = tile_bytes / 4;  // encoded streams are smaller than the values

 public:
  static constexpr int registers = 128;

  struct TempStorage {
    typename plane_parts::TempStorage parts;
    union {
      alignas(16) uint32_t staged[staged_words];
      warp_symbols symbols[warps];  // used before `staged`, while codes are made
    };
    uint32_t tables[coded_parts][32];
    uint32_t groups[coded_parts];
    struct {
      const uint32_t* words;
      uint32_t bytes, stored_words;
    } part[most_parts];
    uint32_t coded, stored;   // one bit per part; parts without bytes have none
    uint32_t streams, words;  // `words` without directory and bits of the streams
    uint32_t front;           // words of head and tables
    uint32_t bit_words;       // words of all streams
    uint32_t least, most;
    uint32_t coded_bits;
    uint32_t joins;  // Are streams written apart and then joined, in place of the upper bytes?
  };

  __device__ huffman_encoder(TempStorage& temp, std::byte* row) : temp_(temp), parts_(temp.parts, row) {}

  // Returns the size of the encoded row in bytes.
  __device__ uint32_t measure(const huffman<T>&, const row_sections& sections) {
    if (threadIdx.x == 0) {
      temp_.coded = temp_.most = temp_.coded_bits = 0;
      temp_.least = ~0u;
    }
    parts_.split(sections);
    device::sync_block();
    make_codes();
    device::sync_block();
    return write_streams();
  }

  // The encoded row. It overwrites what streams were joined from.
  __device__ std::byte* chunk() { return reinterpret_cast<std::byte*>(temp_.staged); }

  // Writes the encoded row, except for streams that are there already.
  __device__ void write(const huffman<T>&, const row_sections&) {
    uint32_t* const to = temp_.staged;
    const shape s = temp_.parts.of_chunk.get();
    uint32_t at = shape::head_words;
    if (threadIdx.x < shape::head_words) to[threadIdx.x] = threadIdx.x == 0 ? s.header : s.sizes();
#pragma unroll 1
    for (uint32_t left = temp_.coded; left != 0; left &= left - 1) at = write_table(lowest(left), to, at);
    write_directory(s, to + at);
    at += stream_words(temp_.streams, s.wide());
    if (temp_.joins != 0) copy(to + at, parts_.upper(), temp_.bit_words);
    at += temp_.bit_words;
#pragma unroll 1
    for (uint32_t left = temp_.stored; left != 0; left &= left - 1) {
      const uint32_t p = lowest(left), words = temp_.part[p].stored_words;
      if (s.narrow_if_stored(p))
        write_narrow(temp_.part[p].words, (s.values + 3) / 4, to + at);
      else
        copy(to + at, temp_.part[p].words, words);
      at += words;
    }
  }

 private:
  __device__ void make_codes() {
    const shape s = temp_.parts.of_chunk.get();
#pragma unroll 1
    for (uint32_t i = device::warp_id(); i < coded_parts; i += warps) {
      const uint32_t p = (i + upper_part) % coded_parts;  // planes first, because they take longest
      if (p >= s.parts() || s.bytes(p) == 0 || parts_.is_hopeless(p)) continue;
      warp_symbols& room = temp_.symbols[device::warp_id()];
      const warp_table made = p < nibble_parts ? warp_code_maker<16>::make(parts_.codes(p), room)
                                               : warp_code_maker<256>::make(parts_.codes(p), room);
      temp_.tables[p][device::lane_id()] = made.word;
      if (device::lane_id() == 0) {
        temp_.groups[p] = made.groups;
        if (pays(4 * s.stored_words(p), made.bits, table_words(p))) {
          device::atomic_or(&temp_.coded, 1u << p);
          device::atomic_add(&temp_.coded_bits, made.bits);
        }
      }
    }
    device::sync_block();
    if (device::warp_id() == 0) list_parts(s);
  }
  // Decides for each part whether it is coded or stored, on one warp.
  __device__ void list_parts(const shape& s) {
    const uint32_t p = device::lane_id();
    uint32_t symbols = 0, words = 0;
    bool is_stored = false;
    if (p < s.parts()) {
      const uint32_t bytes = s.bytes(p), stored_words = s.stored_words(p);
      temp_.part[p] = {parts_.part_words(p), bytes, stored_words};
      if ((temp_.coded >> p & 1) != 0) {
        symbols = s.symbols(p);
        words = table_words(p);
      } else {
        is_stored = bytes != 0;
        words = stored_words;
      }
    }
    const uint32_t streams = streams_of(device::warp_sum(symbols));
    // The most words that the streams can take, each beside the others: 10 bits for each symbol of each word.
    static_assert(max_length == 10);
    const uint32_t in_fours = symbols == 0 ? 0 : (p < nibble_parts ? 10 : 5) * (s.words(p) + streams);
    const bool fits = device::warp_sum(in_fours) / 4 + 2 * streams <= staged_words;
    const uint32_t front = device::warp_sum(is_stored ? 0 : words) + shape::head_words;
    words = device::warp_sum(words) + shape::head_words;
    const uint32_t stored = device::ballot(is_stored);
    if (p != 0) return;
    temp_.front = front;
    temp_.parts.of_chunk.get().header = s.header | temp_.coded;
    temp_.stored = stored;
    temp_.streams = streams;
    temp_.joins = fits && (temp_.coded >> upper_part & 1) != 0 && temp_.coded_bits / 32 < (s.values + 3) / 4;
    temp_.words = words;
  }

  // Calls visit(entry, entry) for pairs of codes of stream t, part after part. The second entry may be 0: no bits.
  template <class Visit> __device__ void visit_stream(uint32_t t, uint32_t streams, const Visit& visit) {
#pragma unroll 1
    for (uint32_t left = temp_.coded; left != 0; left &= left - 1) {
      const uint32_t p = lowest(left);
      if (p < nibble_parts)
        visit_part<4>(p, t, streams, visit);
      else
        visit_part<8>(p, t, streams, visit);
    }
  }
  // The same for a part whose symbols have `Bits` bits.
  template <uint32_t Bits, class Visit>
  __device__ void visit_part(uint32_t p, uint32_t t, uint32_t streams, const Visit& visit) {
    const uint32_t size = temp_.part[p].bytes, whole = size / 4;
    const device::shared_words code(parts_.codes(p));
    const uint32_t* const words = temp_.part[p].words;
    device::shared_steps from(words, t, whole, streams);
#pragma unroll 1
    while (from.has_more()) {
      const uint32_t word = from.take();
      detail::unrolled<16 / Bits>(
          [&]<int K>() { visit(code.of<2 * Bits * K, Bits>(word), code.of<2 * Bits * K + Bits, Bits>(word)); });
    }
    const uint32_t tail = (whole & (streams - 1)) == t ? size % 4 : 0;  // bytes of the last word
    for (uint32_t i = 0; i < tail; ++i) {
      const uint32_t byte = words[whole] >> 8 * i;
      visit(code.of<0, Bits>(byte), Bits == 4 ? code.of<4, 4>(byte) : 0);
    }
  }
  // Encodes the streams. Returns the size of the encoded row in bytes. Streams that are not joined get to where they
  // belong at once, if the row fits.
  __device__ uint32_t write_streams() {
    const uint32_t t = threadIdx.x, streams = temp_.streams;
    const bool joins = temp_.joins != 0;
    uint32_t size = 0;
    // Without room for all streams, the first pass only counts bits: each thread overwrites one word again and again.
    device::codes_to_shared to(temp_.staged + t, 0, joins ? streams : 0);
    uint32_t begin = 0;
#pragma unroll 1
    for (bool is_placed = false;; is_placed = true) {
      if (t < streams) visit_stream(t, streams, [&](uint32_t a, uint32_t b) { to.put(a, b); });
      if (is_placed) break;
      bits_ = t < streams ? to.bits() : 0;
      if (joins && t < streams) to.finish();
      begin = place_streams(t, streams);
      size = temp_.words + stream_words(streams, temp_.parts.of_chunk.get().wide()) + temp_.bit_words;
      if (joins || size > staged_words) break;
      to = device::codes_to_shared(joined(), begin, 1);
    }
    if (joins) {
      join(t, streams, begin);
    } else if (size <= staged_words) {
      device::sync_block();
      if (t < streams) to.merge();
    }
    return 4 * size;
  }
  // Returns where this thread's stream begins, in bits. Has barriers.
  __device__ uint32_t place_streams(uint32_t t, uint32_t streams) {
    if (t < streams) {
      device::atomic_min(&temp_.least, bits_);
      device::atomic_max(&temp_.most, bits_);
    }
    uint32_t total;
    const uint32_t begin = scan::exclusive_sum(temp_.parts.scan_storage, bits_, total);
    if (t == 0) temp_.bit_words = (total + 31) / 32;
    device::sync_block();  // all have read their symbols, and merged `least` and `most`
    if (t == 0 && streams != 0) {
      temp_.parts.of_chunk.get().shortest = temp_.least / 2 * 2;
      if (temp_.most - temp_.least / 2 * 2 > 255) temp_.parts.of_chunk.get().header |= 1u << 10;
      if (uint32_t* const last = joined() + total / 32; temp_.joins != 0 || last < temp_.staged + staged_words)
        *last = 0;
    }
    device::sync_block();
    return begin;
  }
  // The words of all streams without gaps.
  __device__ uint32_t* joined() {
    if (temp_.joins != 0) return parts_.upper();
    return temp_.staged + temp_.front + stream_words(temp_.streams, temp_.parts.of_chunk.get().wide());
  }
  // Moves this thread's stream from its words in `staged` to where it belongs. Has a barrier.
  __device__ void join(uint32_t t, uint32_t streams, uint32_t begin) {
    const uint32_t shift = begin % 32, words = (shift + bits_) / 32;
    uint32_t* const to = joined() + begin / 32;
    uint32_t before = 0;
    if (t < streams) {
      device::shared_steps from(temp_.staged, t, staged_words, streams);
#pragma unroll 1
      for (uint32_t i = 0; i < words; ++i) {
        const uint32_t now = from.take();
        to[i] = device::funnel_shift_right(now, before, shift);
        before = now;
      }
    }
    device::sync_block();
    if (t < streams && (shift + bits_) % 32 != 0) {
      const uint32_t last = words <= bits_ / 32 ? temp_.staged[words * streams + t] : 0;
      device::atomic_or(to + words, device::funnel_shift_right(last, before, shift));
    }
  }

  __device__ uint32_t table_words(uint32_t p) const { return (p < nibble_parts ? 0 : 1) + popcount(temp_.groups[p]); }
  __device__ uint32_t write_table(uint32_t p, uint32_t* to, uint32_t at) const {
    const uint32_t lane = threadIdx.x, groups = temp_.groups[p], end = at + table_words(p);
    if (p >= nibble_parts && lane == 0) to[at] = groups;
    at = end - popcount(groups);
    if (lane < 32 && (groups >> lane & 1) != 0) to[at + popcount(groups & ((1u << lane) - 1))] = temp_.tables[p][lane];
    return end;
  }
  __device__ void write_directory(const shape& s, uint32_t* to) const {
    if (threadIdx.x >= temp_.streams) return;
    const uint32_t more = bits_ - s.shortest;
    if (s.wide())
      reinterpret_cast<uint16_t*>(to)[threadIdx.x] = static_cast<uint16_t>(more);
    else
      reinterpret_cast<uint8_t*>(to)[threadIdx.x] = static_cast<uint8_t>(more);
  }

  __device__ static void copy(uint32_t* to, const uint32_t* from, uint32_t words) {
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < words; i += Threads) to[i] = from[i];
  }
  // Writes a plane with seven bits per value.
  __device__ static void write_narrow(const uint32_t* from, uint32_t quads, uint32_t* to) {
    const uint32_t warp_begin = threadIdx.x - device::lane_id();
#pragma unroll 1
    for (uint32_t first = warp_begin; first < quads; first += Threads) {
      const uint32_t q = first + device::lane_id(), lane = q % 8;
      const uint32_t own = q < quads ? squeeze(from[q]) : 0;
      const uint32_t eighth = device::shfl(own, static_cast<int>(device::lane_id() | 7));
      if (lane < 7 && q < quads) to[q / 8 * 7 + lane] = own | (eighth >> 4 * lane & 15) << 28;
    }
  }

  TempStorage& temp_;
  plane_parts parts_;
  uint32_t bits_ = 0;  // of this thread's stream
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
namespace tuck::inline TUCK_ABI {

template <element T, int Threads> class block_codec<huffman<T>, Threads> {
  static constexpr uint32_t row_bytes = tile_bytes + 32;
  using encoder = huffman_format::huffman_encoder<T, Threads, row_bytes>;

 public:
  using tile = block_tile<T, Threads>;
  static constexpr int registers = encoder::registers;
  static constexpr bool keeps_tile = false;

  struct TempStorage {
    typename encoder::TempStorage storage;
    alignas(16) std::byte row[row_bytes];
  };

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp), encoder_(temp.storage, temp.row) {}

  __device__ uint32_t measure(const huffman<T>& codec, const tile& values) {
    const row_sections row{{1, {values.count * uint32_t{sizeof(T)}}}, 0};
    store_to_row(values, row.list.total(), temp_.row);
    device::sync_block();
    return encoder_.measure(codec, row);
  }
  __device__ std::byte* chunk() { return encoder_.chunk(); }
  template <class Values> __device__ void write(const huffman<T>& codec, const Values&, std::byte*) {
    encoder_.write(codec, {});
  }

 private:
  TempStorage& temp_;
  encoder encoder_;
};

template <element T, int Threads> class block_decoder<huffman<T>, Threads> {
  static constexpr uint32_t row_bytes = tile_bytes + 32;
  using decoder = huffman_format::huffman_decoder<T, Threads, row_bytes>;

 public:
  static constexpr int registers = decoder::registers;
  static constexpr bool reads_global = true;

  struct TempStorage {
    typename decoder::TempStorage storage;
    alignas(16) std::byte row[row_bytes];
  };

  __device__ explicit block_decoder(TempStorage& temp) : temp_(temp) {}

  template <class Sink>
  __device__ status read(const huffman<T>& codec, const std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    if (size >= count * sizeof(T)) return status::bad_payload;
    const row_sections row{{1, {count * uint32_t{sizeof(T)}}}, 0};
    return decoder(temp_.storage).read(codec, from, size, row, temp_.row, sink);
  }

 private:
  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI
