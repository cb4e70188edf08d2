// What a block codec is: the scalar codec's bytes, made by one thread block.
//
// A block holds the chunk that it encodes in its registers as a block_tile, so that a chunk is read once whatever
// becomes of it - counted, packed, stored raw, summed. Decoders hand over words as they come to be, in any order
// but each once, as sink(index of the word's first value, word); or four at once, a device::vec128 of 16 bytes whose
// first value is at a multiple of 16 bytes. A codec specialises block_codec<C, Threads>:
//
//   struct TempStorage                                what it needs of shared memory, trivially constructible
//   block_codec(TempStorage&)
//   uint32_t measure(const C&, tile&)                  the exact bytes of the encoded chunk, or `declined`; all threads
//                                                      get them. A lossy codec leaves in the tile what decoding will
//                                                      give, unless it declines; others leave it alone
//   void     pack(const C&, const tile&, bytes out)    those bytes, then zeros up to out.size(); after a measure of
//                                                      the same tile that gave less than the raw chunk. `out` is
//                                                      global memory, a multiple of 16 in place and size, which is at
//                                                      most tile_bytes
//   status   decode(const C&, const_bytes, count, Sink& sink)  `count` values from untrusted bytes in global memory, at
//                                                      a multiple of 16, and up to one they may be read; all threads
//                                                      get the same status, and where it is ok, all words have been
//                                                      handed over, with zeros past the last value
//
//   static constexpr int blocks_a_processor            optional: fewer than 4, where it needs more registers
//
// A codec whose chunks are more than a tile sees them tile by tile, twice, and has instead of measure and pack:
//
//   static constexpr uint32_t chunk_capacity           the most bytes of a chunk, a multiple of tile_bytes
//   void     begin(const C&, uint32_t count)           a chunk of so many values
//   void     count(const C&, tile&, uint32_t k)        its k-th tile, in order; a lossy codec leaves in it what
//                                                      decoding will give
//   uint32_t measure(const C&)                         as above
//   void     pack(const C&, Tiles& tiles, bytes out)   as above; tiles(k) is the k-th tile again. `out` is at most
//                                                      chunk_capacity
//
// A splitter's has besides, for chains:
//
//   uint32_t side_bytes(count)                         of the chunk that was measured; all threads get them
//   std::byte* encoded(side)                           where in TempStorage an encoded chunk with such a side stands,
//                                                      at a multiple of 4, and its kept values at one of their size or
//                                                      of 4. Only of a side that fits (see concept.hpp)
//   void     assemble(const C&, tile&)                 as pack, but it is left there; a lossy one leaves in the tile,
//                                                      and not before, what decoding will give
//   status   decode_assembled(const C&, side, size, count, Sink& sink)  as decode, of the `size` bytes that stand
//                                                      there; bad_payload also where another side is theirs
//
// All are called by the whole block of exactly Threads threads, a power of two; a codec may set bounds to it. Between
// two calls, measure and pack too, the caller puts a sync_block(). Kernels call C::from_stages, which is TUCK_HD, and
// what an adaptive codec has besides.
#pragma once

#include <tuck/codec/concept.hpp>
#include <tuck/core/bits.hpp>
#include <tuck/core/checksum.hpp>
#include <tuck/core/device.cuh>

namespace tuck::inline TUCK_ABI {

inline constexpr int block_threads = 256;
inline constexpr int blocks_a_processor = 4;  // whose registers must fit at once: 64 a thread of 256
inline constexpr uint32_t tile_bytes = 16 * 1024;

template <class C, int Threads> struct block_codec {
  static_assert(sizeof(C) == 0, "tuck: this codec has no block codec, which kernels need; see tuck/codec/block.cuh");
};

// What decodes: the block codec, unless a codec specialises this by a class of its own that has TempStorage and decode
// alone, and needs less.
template <class C, int Threads> struct block_decoder : block_codec<C, Threads> {
  using block_codec<C, Threads>::block_codec;
};

// What a block transform is: the scalar transform's results, in place, by one thread block. A transform specialises
// block_transform<X, Threads>:
//
//   struct TempStorage                                  what it needs of shared memory besides, trivially constructible
//   block_transform(TempStorage&)
//   void apply(const X&, std::byte* values, uint32_t count)    turns `count` values in shared memory, at most
//   tile_bytes
//                                                       and at a multiple of 16 bytes, into their results, which take
//                                                       their place
//   void invert(const X&, std::byte* results, uint32_t count)  back
//
// Both are called by the whole block of exactly Threads threads, a power of two; the caller puts a sync_block() before
// and after, and `values` is all threads' between them. What lies behind the values up to a multiple of 16 bytes may be
// read, whatever it is, and up to a multiple of 4 overwritten.
template <class X, int Threads> struct block_transform {
  static_assert(sizeof(X) == 0, "tuck: this transform has no block transform; see tuck/codec/block.cuh");
};

namespace detail {
template <class B> inline constexpr int blocks_a_processor_of = blocks_a_processor;
template <class B>
  requires(B::blocks_a_processor > 0)
inline constexpr int blocks_a_processor_of<B> = B::blocks_a_processor;

// Does this block codec see a chunk tile by tile?
template <class B>
concept sees_tiles = (B::chunk_capacity > 0);

template <class B> inline constexpr uint32_t chunk_capacity_of = tile_bytes;
template <sees_tiles B> inline constexpr uint32_t chunk_capacity_of<B> = B::chunk_capacity;
}  // namespace detail

// The most values of a chunk that kernels take.
template <codec C, int Threads = block_threads>
inline constexpr uint32_t max_device_chunk_values =
    detail::chunk_capacity_of<block_codec<C, Threads>> / uint32_t{sizeof(value_t<C>)};

template <element T, int Threads> class block_output;

// Up to 16 KiB of values in the registers of a block. A warp has a contiguous part of the chunk, in rows of 512
// bytes, of which a lane has 16: 4 words of 4 bytes, or 2 of 8-byte values.
template <element T, int Threads> struct block_tile {
  using word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

  static constexpr int per_word = sizeof(word) / sizeof(T);          // values a word
  static constexpr int words = tile_bytes / sizeof(word) / Threads;  // words a thread
  static constexpr int row_words = sizeof(device::vec128) / sizeof(word);
  static constexpr int rows = words / row_words;  // of a warp
  static constexpr uint32_t lane_values = sizeof(device::vec128) / sizeof(T);
  static constexpr uint32_t row_values = lane_values * device::warp_size;
  static constexpr uint32_t capacity = tile_bytes / sizeof(T);  // values
  static_assert(words * sizeof(word) * Threads == tile_bytes && rows * row_words == words &&
                    Threads % device::warp_size == 0,
                "tuck: a block has a power of two of threads, 32 to 1024");

  word w[words];       // zero past the chunk's values
  uint32_t count = 0;  // values of the chunk

  // Index in the chunk of the first value of this thread's j-th word.
  __device__ static uint32_t first_value(int j = 0) { return first_value(threadIdx.x, j); }
  __device__ static uint32_t first_value(uint32_t thread, int j) {
    const auto row = static_cast<uint32_t>(j / row_words), k = static_cast<uint32_t>(j % row_words);
    return thread / device::warp_size * (rows * row_values) + thread % device::warp_size * lane_values +
           row * row_values + k * per_word;
  }
  // The same if each 32 consecutive words were a lane's each, as codecs have them that look at a few words at a time.
  __device__ static uint32_t first_dealt(int j = 0) {
    return ((device::warp_id() * words + static_cast<uint32_t>(j)) * device::warp_size + device::lane_id()) * per_word;
  }
  __device__ static bits_t<T> value(word x, int k) {
    return static_cast<bits_t<T>>(x >> (8 * sizeof(T) * static_cast<unsigned>(k)));
  }
  __device__ bool is_full() const { return count == capacity; }

  // Reads `n` <= capacity values from p, a multiple of a word's size: global memory that this kernel does not write.
  __device__ void load(const T* p, uint32_t n) {
    count = n;
    if (!is_full() || reinterpret_cast<uintptr_t>(p) % 16 != 0) return load_words(p, n);
    const auto* const from = reinterpret_cast<const device::vec128*>(p + first_value());
#pragma unroll
    for (int r = 0; r < rows; ++r) set_row(r, device::load(from + r * device::warp_size));
  }
  // The same word by word: a tile that is not full, or begins anywhere.
  __device__ void load_words(const T* p, uint32_t n) {
    const uint32_t thread = device::thread_id_anew();
    const auto* const from = reinterpret_cast<const word*>(p);
    const uint32_t whole = n / per_word;
    word last = 0;
    if constexpr (per_word > 1)
      for (uint32_t i = whole * per_word; i < n; ++i)
        last |= static_cast<word>(device::load(reinterpret_cast<const bits_t<T>*>(p) + i))
                << (8 * sizeof(T) * (i % per_word));
#pragma unroll
    for (int j = 0; j < words; ++j) {
      const uint32_t at = first_value(thread, j) / per_word;
      w[j] = at < whole ? device::load(from + at) : at == whole ? last : 0;
    }
  }

  // Writes all values to p, a multiple of sizeof(T).
  __device__ void store(std::byte* p) const {
    using output = block_output<T, Threads>;
    auto* const to = reinterpret_cast<T*>(p);
    output out(to, 0, count, output::is_whole(to, 0, count, count), false);
    const uint32_t first = first_value(device::thread_id_anew(), 0);
#pragma unroll
    for (uint32_t r = 0; r < static_cast<uint32_t>(rows); ++r)
      if (first + r * row_values < count) out(first + r * row_values, row(static_cast<int>(r)));
  }
  // Writes up to tile_bytes, the values and zeros behind them, to p; both multiples of 16.
  __device__ void store_padded(std::byte* p, uint32_t size) const {
    const uint32_t at = first_value(device::thread_id_anew(), 0) * uint32_t{sizeof(T)};
    auto* const to = reinterpret_cast<device::vec128*>(p + at);
    if (size >= tile_bytes) {
#pragma unroll
      for (int r = 0; r < rows; ++r) device::store(to + r * device::warp_size, row(r));
    } else {
#pragma unroll
      for (int r = 0; r < rows; ++r)
        if (at + static_cast<uint32_t>(r) * (16 * device::warp_size) < size)
          device::store(to + r * device::warp_size, row(r));
    }
  }

  // This thread's 16 bytes of a row.
  __device__ device::vec128 row(int r) const {
    if constexpr (sizeof(word) == 4) {
      return {{w[4 * r], w[4 * r + 1], w[4 * r + 2], w[4 * r + 3]}};
    } else {
      return {{static_cast<uint32_t>(w[2 * r]), static_cast<uint32_t>(w[2 * r] >> 32),
               static_cast<uint32_t>(w[2 * r + 1]), static_cast<uint32_t>(w[2 * r + 1] >> 32)}};
    }
  }
  __device__ void set_row(int r, const device::vec128& x) {
#pragma unroll
    for (int k = 0; k < row_words; ++k) {
      if constexpr (sizeof(word) == 4)
        w[row_words * r + k] = x.w[k];
      else
        w[row_words * r + k] = x.w[2 * k] | static_cast<word>(x.w[2 * k + 1]) << 32;
    }
  }

  // Can all values of the chunk be equal, as far as this thread sees at a glance?
  __device__ bool may_be_uniform() const { return !is_full() || w[0] == w[words - 1]; }
  // Are all values that this thread has equal to `value_bits`?
  __device__ bool all_equal(bits_t<T> value_bits) const {
    const word x = repeat(value_bits);
    const uint32_t whole = count / per_word;
    const uint32_t thread = device::thread_id_anew();
    bool equal = true;
#pragma unroll
    for (int j = 0; j < words; ++j) {
      const uint32_t at = first_value(thread, j) / per_word;
      equal &= w[j] == (at < whole ? x : at == whole ? clip(x, count % per_word) : 0);
    }
    return equal;
  }

  // This thread's share of the checksum of a chunk in which `before` values are before these.
  __device__ word_sums sums(uint32_t before = 0) const {
    word_sums sums;
    const uint32_t at = (before + first_value(device::thread_id_anew(), 0)) * uint32_t{sizeof(T)} / 4;
#pragma unroll
    for (int r = 0; r < rows; ++r) add_row(sums, row(r), at + static_cast<uint32_t>(r) * (4 * device::warp_size));
    return sums;
  }
  // 16 bytes whose first word has this index.
  __device__ static void add_row(word_sums& sums, const device::vec128& x, uint32_t at) {
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
      sums.plain += x.w[k];
      sums.weighted += uint64_t{x.w[k]} * (at + k + 1);
    }
  }
  __device__ static void add_word(word_sums& sums, word x, uint32_t first) {
    const uint64_t at = uint64_t{first} * sizeof(T) / 4;
    sums.add(static_cast<uint32_t>(x), at);
    if constexpr (sizeof(T) == 8) sums.add(static_cast<uint32_t>(x >> 32), at + 1);
  }

  // The first `n` < per_word values of a word, zeros after them.
  __device__ static word clip(word x, uint32_t n) { return x & ((word{1} << (8 * sizeof(T) * n)) - 1); }

  // The first `n` values of 16 bytes, zeros after them.
  __device__ static device::vec128 clip(device::vec128 x, uint32_t n) {
    if (n < lane_values) {
#pragma unroll
      for (uint32_t k = 0; k < 4; ++k) {
        const uint32_t left = n * uint32_t{sizeof(T)} > 4 * k ? n * uint32_t{sizeof(T)} - 4 * k : 0;
        x.w[k] &= low_mask(8 * (left < 4 ? left : 4));
      }
    }
    return x;
  }

  // A word of equal values.
  __device__ static word repeat(bits_t<T> value_bits) {
    if constexpr (per_word == 4) return value_bits * 0x01010101u;
    if constexpr (per_word == 2) return value_bits * 0x00010001u;
    return value_bits;
  }
};

// A chunk of `count` values in global memory, tile by tile: read once and kept in registers where it is one tile for
// certain, else read whenever asked for, so that no registers hold it in between, nor `count`, if that is in memory.
template <element T, int Threads, bool Several> class chunk_tiles {
 public:
  using tile = block_tile<T, Threads>;

  __device__ chunk_tiles(const T* values, const uint32_t& count) : values_(values), count_(count) {
    if constexpr (!Several) tile_.load(values, count);
  }

  __device__ uint32_t count() const { return Several ? count_ : tile_.count; }  // values
  __device__ uint32_t size() const { return Several ? ceil_div(count_, tile::capacity) : 1; }
  __device__ tile& operator()(uint32_t k) {
    if constexpr (Several) {
      const uint32_t first = k * tile::capacity, left = count_ - first;
      tile_.load(values_ + first, left < tile::capacity ? left : tile::capacity);
    }
    return tile_;
  }

 private:
  const T* values_;
  const uint32_t& count_;
  tile tile_;
};

namespace detail {

// A tile in registers as all of a chunk's.
template <class Tile> struct one_tile {
  Tile chunk;

  __device__ uint32_t size() const { return 1; }
  __device__ Tile& operator()(uint32_t) { return chunk; }
};

// A chunk encoded, whether a block codec sees tiles or not: its bytes, or `declined`; then, behind a barrier, these
// into `out`. The first has two parts, for a kernel that looks at tiles, too: a barrier is between them.
template <class Coder, class C, class Tiles, class Visit>
__device__ void count_tiles(Coder& coder, const C& codec, Tiles& tiles, uint32_t count, const Visit& visit) {
  if constexpr (sees_tiles<Coder>) {
    coder.begin(codec, count);
    for (uint32_t k = 0; k < tiles.size(); ++k) {
      device::sync_block();
      auto& values = tiles(k);
      visit(values, k, false);
      coder.count(codec, values, k);
      visit(values, k, true);
    }
  }
}
template <class Coder, class C, class Tiles>
__device__ uint32_t measure_counted(Coder& coder, const C& codec, Tiles& tiles) {
  if constexpr (sees_tiles<Coder>)
    return coder.measure(codec);
  else
    return coder.measure(codec, tiles(0));
}
template <class Coder, class C, class Tiles>
__device__ uint32_t measure_chunk(Coder& coder, const C& codec, Tiles& tiles, uint32_t count) {
  count_tiles(coder, codec, tiles, count, [](auto&, uint32_t, bool) {});
  if constexpr (sees_tiles<Coder>) device::sync_block();
  return measure_counted(coder, codec, tiles);
}
template <class Coder, class C, class Tiles>
__device__ void pack_chunk(Coder& coder, const C& codec, Tiles& tiles, bytes out) {
  if constexpr (sees_tiles<Coder>)
    coder.pack(codec, tiles, out);
  else
    coder.pack(codec, tiles(0), out);
}

}  // namespace detail

// What decoders hand words to: stores the values of a chunk with lo <= index < hi at p[index], p a multiple of sizeof(T),
// and, where they are `summed`, sums all of them.
template <element T, int Threads> class block_output {
  using tile = block_tile<T, Threads>;
  using word = typename tile::word;
  static constexpr uint32_t lane_values = tile::lane_values;

 public:
  word_sums sums;

  // Are these all values of a chunk of `count`, in whole rows?
  __device__ static bool is_whole(const T* p, uint32_t lo, uint32_t hi, uint32_t count) {
    return lo == 0 && hi == count && count % lane_values == 0 &&
           reinterpret_cast<uintptr_t>(p) % sizeof(device::vec128) == 0;
  }
  __device__ block_output(T* p, uint32_t lo, uint32_t hi, bool whole, bool summed)
      : p_(p), lo_(lo), hi_(hi), straight_(whole && !summed), summed_(summed) {}

  __device__ void operator()(uint32_t first, word x) {
    if (straight_) {
      device::store(reinterpret_cast<word*>(p_ + first), x);
      return;
    }
    if (summed_) tile::add_word(sums, x, first);
    store_values(first, x);
  }

  // The same of 16 bytes of values that one thread has.
  __device__ void operator()(uint32_t first, const device::vec128& x) {
    if (straight_) {
      device::store(reinterpret_cast<device::vec128*>(p_ + first), x);
      return;
    }
    if (summed_) tile::add_row(sums, x, first * uint32_t{sizeof(T)} / 4);
    if (first >= lo_ && first + lane_values <= hi_ && reinterpret_cast<uintptr_t>(p_) % sizeof x == 0) {
      device::store(reinterpret_cast<device::vec128*>(p_ + first), x);
      return;
    }
    uint64_t low = x.w[0] | uint64_t{x.w[1]} << 32, high = x.w[2] | uint64_t{x.w[3]} << 32;
#pragma unroll 1
    for (uint32_t k = 0; k < lane_values; k += tile::per_word) {
      store_values(first + k, static_cast<word>(low));
      low = sizeof(word) == 8 ? high : low >> 32 | high << 32;
      high >>= 32;
    }
  }

  // The same of some rows, one behind the other, the first of which has this thread's 16 bytes at `first`.
  template <int Rows> __device__ void operator()(uint32_t first, const device::vec128 (&x)[Rows]) {
    if (straight_) {
      auto* const to = reinterpret_cast<device::vec128*>(p_ + first);
#pragma unroll
      for (int r = 0; r < Rows; ++r) device::store(to + r * device::warp_size, x[r]);
      return;
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r) (*this)(first + static_cast<uint32_t>(r) * tile::row_values, x[r]);
  }

 private:
  __device__ void store_values(uint32_t first, word x) const {
    if (first >= lo_ && first + tile::per_word <= hi_ && reinterpret_cast<uintptr_t>(p_) % sizeof x == 0) {
      device::store(reinterpret_cast<word*>(p_ + first), x);
    } else {
      for (uint32_t k = 0; k < tile::per_word; ++k)
        if (first + k >= lo_ && first + k < hi_)
          device::store(reinterpret_cast<bits_t<T>*>(p_ + first + k), tile::value(x, static_cast<int>(k)));
    }
  }

  T* p_;
  uint32_t lo_, hi_;
  bool straight_, summed_;
};

}  // namespace tuck::inline TUCK_ABI
