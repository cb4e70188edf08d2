// What a block codec is: the scalar codec's bytes, made by one thread block.
//
// A block holds the chunk that it encodes in its registers as a block_tile, so that a chunk is read once whatever
// becomes of it - counted, packed, stored raw, summed. Decoders hand over words as they come to be, in any order
// but each once, as sink(index of the word's first value, word); or four at once, a device::vec128 of 16 bytes whose
// first value is at a multiple of 16 bytes; or such of several rows of a tile, where the sink takes them. A codec
// specialises block_codec<C, Threads>:
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
//   static constexpr int blocks_a_processor            optional: fewer than 8, where it needs more registers
//
// A codec that needs a tile's registers for something else takes the chunk first. Instead of measure and pack it has:
//
//   void     take(const C&, tile&)                     the chunk; a lossy codec leaves in it what decoding will give
//   uint32_t measure(const C&)                         as above
//   void     pack(const C&, Chunk& chunk, bytes out)   as above; chunk.value_of(r, k) is the k-th value of the 16 bytes
//                                                      that this thread had of row r
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

#include <tuck/codec/block_tile.cuh>
#include <tuck/codec/concept.hpp>

namespace tuck::inline TUCK_ABI {

inline constexpr int block_threads = 128;
inline constexpr int blocks_a_processor = 8;  // whose registers must fit at once: 64 a thread

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
//   void apply(const X&, std::byte* values, uint32_t count)    turns `count` values in shared memory, at a multiple of
//                                                       16 bytes and at most tile_bytes, into their results
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

// Does this block codec take a chunk first?
template <class B>
concept takes_chunk = requires { &B::take; };

// Does a sink take several rows at once, one behind the other?
template <class Sink, int Rows>
concept takes_rows = requires(Sink& sink, const device::vec128 (&x)[Rows]) { sink(0u, x); };
}  // namespace detail

// The most values of a chunk that kernels take.
template <codec C> inline constexpr uint32_t max_device_chunk_values = tile_bytes / uint32_t{sizeof(value_t<C>)};

// Where a chunk's values are: in global memory, as they are.
template <element T, int Threads> struct plain_values {
  const T* values;

  __device__ void load(block_tile<T, Threads>& tile, uint32_t count) { tile.load(values, count); }
  __device__ bits_t<T> at(uint32_t i) const { return device::load(reinterpret_cast<const bits_t<T>*>(values) + i); }
};

// Where a chunk's values against a base are. Sums them as it loads them.
template <element T, int Threads> struct values_against {
  using tile = block_tile<T, Threads>;

  const T* values;
  const T* base;
  typename tile::delta_sums sums;  // once loaded

  __device__ void load(tile& to, uint32_t count) {
    to.load(values, count);
    sums = to.exclusive_or(base);
  }
  __device__ bits_t<T> at(uint32_t i) const {
    return device::load(reinterpret_cast<const bits_t<T>*>(values) + i) ^
           device::load(reinterpret_cast<const bits_t<T>*>(base) + i);
  }
};

// A chunk of `count` values in global memory: read once and kept in registers, or, where these are wanted for something
// else, read whenever asked for; then `count` stays in memory. A tile is such a chunk too.
template <element T, int Threads, bool Kept, class Values = plain_values<T, Threads>> class block_chunk {
 public:
  using tile = block_tile<T, Threads>;

  __device__ block_chunk(const Values& values, const uint32_t& count) : values_(values), count_(count) {
    if constexpr (Kept) values_.load(tile_, count);
  }

  __device__ uint32_t count() const { return Kept ? tile_.count : count_; }  // values
  __device__ const Values& source() const { return values_; }
  __device__ tile& values() {
    if constexpr (!Kept) values_.load(tile_, count_);
    return tile_;
  }
  // As a tile has it: reads that value alone.
  __device__ bits_t<T> value_of(int r, uint32_t k) const {
    return values_.at(tile::first_value(r * tile::row_words) + k);
  }

 private:
  Values values_;
  const uint32_t& count_;
  tile tile_;
};

namespace detail {

// A chunk encoded by either kind of block codec: its bytes, or `declined`; then, behind a barrier, these into `out`.
template <class Coder, class C, class Chunk>
__device__ uint32_t measure_taken(Coder& coder, const C& codec, Chunk& chunk) {
  if constexpr (takes_chunk<Coder>)
    return coder.measure(codec);
  else
    return coder.measure(codec, chunk.values());
}
template <class Coder, class C, class Chunk>
__device__ uint32_t measure_chunk(Coder& coder, const C& codec, Chunk& chunk) {
  if constexpr (takes_chunk<Coder>) {
    coder.take(codec, chunk.values());
    device::sync_block();
  }
  return measure_taken(coder, codec, chunk);
}
template <class Coder, class C, class Chunk>
__device__ void pack_chunk(Coder& coder, const C& codec, Chunk& chunk, bytes out) {
  if constexpr (takes_chunk<Coder>)
    coder.pack(codec, chunk, out);
  else
    coder.pack(codec, chunk.values(), out);
}

}  // namespace detail

// What decoders hand words to: stores the values with lo <= index < hi of a chunk of `count` at p[index], p a
// multiple of sizeof(T), and, where they are `summed`, sums all of them.
template <element T, int Threads> class block_output {
  using tile = block_tile<T, Threads>;
  using word = typename tile::word;
  static constexpr uint32_t lane_values = tile::lane_values;

 public:
  word_sum sums;

  // Are these all values of a chunk of `count`, in whole rows?
  __device__ static bool is_whole(const T* p, uint32_t lo, uint32_t hi, uint32_t count) {
    return lo == 0 && hi == count && count % lane_values == 0 &&
           reinterpret_cast<uintptr_t>(p) % sizeof(device::vec128) == 0;
  }
  __device__ block_output(T* p, uint32_t lo, uint32_t hi, uint32_t count, bool summed)
      : block_output(p, lo, hi, is_whole(p, lo, hi, count), summed) {}
  // The same where that has been found out already.
  __device__ block_output(T* p, uint32_t lo, uint32_t hi, bool whole, bool summed)
      : p_(p), lo_(lo), hi_(hi), whole_(whole), summed_(summed) {}

  __device__ void operator()(uint32_t first, word x) {
    if (summed_) tile::add_word(sums, x, first);
    store_values(first, x);
  }

  // The same of 16 bytes of values that one thread has.
  __device__ void operator()(uint32_t first, const device::vec128& x) {
    const device::vec128 one[] = {x};
    (*this)(first, one);
  }
  // Of some rows, one behind the other, the first of which has this thread's 16 bytes at `first`.
  template <int Rows> __device__ void operator()(uint32_t first, const device::vec128 (&x)[Rows]) {
    if (summed_) tile::add_rows(sums, first * uint32_t{sizeof(T)} / 4, x);
    if (whole_) {
      auto* const to = reinterpret_cast<device::vec128*>(p_ + first);
#pragma unroll
      for (int r = 0; r < Rows; ++r) device::store(to + r * device::warp_size, x[r]);
    } else {
#pragma unroll
      for (int r = 0; r < Rows; ++r) store_row(first + static_cast<uint32_t>(r) * tile::row_values, x[r]);
    }
  }

 private:
  __device__ void store_row(uint32_t first, const device::vec128& x) const {
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
  bool whole_, summed_;
};

}  // namespace tuck::inline TUCK_ABI
