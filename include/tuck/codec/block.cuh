// SPDX-License-Identifier: Apache-2.0
// The contracts of block codecs and block transforms. A block codec writes and reads the same bytes as the scalar
// codec, by one thread block.
//
// A block holds the chunk that it encodes in registers as a block_tile: the chunk is read from memory once, whether it
// is then counted, packed, stored raw, or summed. Between the stages of a chain its values are a strip: in their order,
// in shared memory, from a multiple of 16 on. A decoder passes all values to a sink, 16 bytes at a time, each once
// and in any order, in one of these forms:
//
//   sink(index of the first value, device::vec128)          16 bytes, at a multiple of 16 bytes in the chunk
//   sink(index of the first value, device::vec128 (&)[N])   N consecutive rows of a tile
//
// A codec specialises block_codec<C, Threads>:
//
//   struct TempStorage
//       shared memory of the block codec, trivially constructible
//   block_codec(TempStorage&)
//       must not access it: in a chain, other stages use the same memory before measure or read
//   uint32_t measure(const C&, tile&)
//       returns the exact size of the encoded chunk in bytes, or `incompressible`, to all threads
//   void     write(const C&, const tile&, std::byte* to)
//       writes the encoded chunk to `to`: shared memory of tile_bytes at a multiple of 16. Follows a measure of the
//       same tile that returned less than its size; in a chain, of a splitter, less than its size + max_growth, and
//       `to` has so many bytes more. The bytes after the chunk may become anything; up to a multiple of 16 they are
//       read, and not used. All members may have barriers
//   status   read(const C&, std::byte* from, size, count, Sink&)
//       restores `count` values from `size` <= tile_bytes untrusted bytes. `from` is shared memory of tile_bytes +
//       32 at a multiple of 16, which the codec may overwrite. Returns the same status to all threads. If it is ok,
//       the sink has got all values, with zeros past the last one; if it is not, the sink may have got any
//
// It may also have:
//
//   void     approximate(const C&, tile&)
//       of a lossy codec, which must have it: replaces the values by those that decoding will restore. Comes before
//       measure, which sees only these: keep in the object what it must know of the others. If the chunk is not
//       encoded after all, the frame reads it again. A lossy splitter has a `write` with tile& that does this instead
//   void     use_base(const T*)
//       of a codec that uses a base (concept.hpp): comes before measure or read, if there is a base. As many values as
//       the chunk has are there in global memory, at a multiple of sizeof(T). They do not change until these return
//   std::byte* chunk()
//       returns memory for a chunk (tile_bytes, of a splitter + max_growth) in TempStorage, which measure uses too.
//       Then `to` is there, or elsewhere if a multiprocessor has the memory
//   static constexpr bool keeps_tile
//       false: `write` is a template, and gets something else than a tile, whose value_of(r, k) returns the k-th value
//       of the 16 bytes of this thread in row r. It reads global memory: not for values past the last one, whose
//       number measure must keep. So no registers hold the values after measure, which may change the tile. Lossy
//       codecs that block_encode takes have it: `write` then gets the values before approximate. In chains, `write`
//       gets the tile, which measure of a splitter then must not change
//   static constexpr bool fetches
//       false, of a block_decoder: kernels do not fetch the next chunk while it decodes one, because it is faster by
//       the blocks that then have memory
//   class of_strip
//       encodes the values of a strip, as the last stage of a chain, where no registers then hold the values. The
//       values may be changed, and up to 128 bytes behind them, which may have any value. The strip is not in
//       TempStorage. static_assert(encodes_strips<C>) says what is missing. It has TempStorage,
//       of_strip(TempStorage&, std::byte* strip), and
//         uint32_t measure(const C&, count)   of count >= 1 values, like the other. What is not less than the size of
//                                             the values is `incompressible`, and the strip then has the values again
//         std::byte* chunk()                  memory of tile_bytes in TempStorage, at a multiple of 16
//         void     write(const C&)            like the other, to chunk(). The chain adds its own bytes behind a barrier
//         static constexpr int registers      as below; kernels that encode such chains have at least so many
//   static constexpr int registers
//       registers that a thread needs in kernels, if 64 are too few: 80, 96 or 128. The fewer, the more blocks a
//       multiprocessor holds (block_policy.cuh). Chains have numbers of their own
//
// The block codec of a splitter also has, for chains:
//
//   uint32_t side_bytes(count)
//       returns the size of the side stream of the chunk that was measured, to all threads. The residual values are
//       then at a multiple of their size or of 4
//   status   read_parts(const C&, std::byte* side, side_bytes, std::byte* values, bytes, count, Sink&)
//       like read, of a side stream at a multiple of 4 and `bytes` bytes of residual values at a multiple of 16. May
//       overwrite 16 bytes before and after the values, and read 8 bytes after the side stream. side_fits
//       (concept.hpp) has accepted the sizes; others than encoding writes are bad_payload
//
// The whole block of exactly Threads threads calls each member. Threads is a power of two; a codec may restrict it. The
// caller puts a sync_block() between two calls, also between measure and write. Kernels call C::from_stages, which must
// be TUCK_HD, and the TUCK_HD members of an adaptive codec.
#pragma once

#include <tuck/codec/block_policy.cuh>
#include <tuck/codec/block_tile.cuh>
#include <tuck/codec/concept.hpp>

namespace tuck::inline TUCK_ABI {

/// The block codec of C: a specialisation for each codec that kernels use, with the members described in this file.
template <class C, int Threads> struct block_codec {
  static_assert(
      sizeof(C) == 0,
      "tuck: this codec has no block codec, which kernels need; see tuck/codec/block.cuh. That of a codec with "
      "rebind must be for all types, as kernels take it of untyped<N>");
};

/// The class that decodes chunks of C: the block codec, or a specialisation with what decoding needs.
template <class C, int Threads> struct block_decoder : block_codec<C, Threads> {
  using block_codec<C, Threads>::block_codec;
};

namespace detail {
template <class C, int Threads>
concept approximates = requires(block_codec<C, Threads>& block, const C& c, block_tile<value_t<C>, Threads>& values) {
  block.approximate(c, values);
};
// What encoders assert. A lossy codec without approximate, or one that approximates and is not declared lossy, would
// write chunks whose checksums are wrong.
template <codec C, int Threads> TUCK_HD constexpr bool approximates_as_declared() noexcept {
  static_assert(!is_lossy<C> || approximates<C, Threads>,
                "tuck: the block codec of a lossy codec needs approximate; see tuck/codec/block.cuh");
  constexpr bool has_block_codec = requires { typename block_codec<C, Threads>::TempStorage; };
  static_assert(is_lossy<C> || !has_block_codec || !approximates<C, Threads>,
                "tuck: a codec that approximates is lossy, and says so: static constexpr bool lossy = true");
  return true;
}
}  // namespace detail

/// A codec whose block codec has a class of_strip.
template <class C, int Threads = block_threads>
concept encodes_strips = requires(typename block_codec<C, Threads>::of_strip& coder, const C& codec, uint32_t count) {
  requires std::is_constructible_v<typename block_codec<C, Threads>::of_strip,
                                   typename block_codec<C, Threads>::of_strip::TempStorage&, std::byte*>;
  { coder.measure(codec, count) } -> std::same_as<uint32_t>;
  { coder.chunk() } -> std::same_as<std::byte*>;
  { coder.write(codec) } -> std::same_as<void>;
  { block_codec<C, Threads>::of_strip::registers } -> std::convertible_to<int>;
};

// The contract of block transforms. They write the same results as the scalar transform, in place, by one thread block.
// A transform specialises block_transform<X, Threads>:
//
//   struct TempStorage                                  additional shared memory, trivially constructible
//   block_transform(TempStorage&)
//   uint32_t apply(const X&, std::byte* values, uint32_t count)  replaces `count` values in shared memory, at a
//                                                       multiple of 16 and in at most tile_bytes, by their results, in
//                                                       the form that the scalar transform chooses. Returns the form to
//                                                       all threads: 0 if there is one only
//   void invert(const X&, std::byte* results, uint32_t count, uint32_t form)   restores the values
//
// The whole block of exactly Threads threads calls each; Threads is a power of two. The caller puts a sync_block()
// before and after each call. In between only this block transform accesses the values. It may read the bytes after the
// values up to a multiple of 16, and overwrite them up to a multiple of 4; they may have any value.
/// The block transform of X: a specialisation for each transform that kernels use.
template <class X, int Threads> struct block_transform {
  static_assert(sizeof(X) == 0, "tuck: this transform has no block transform; see tuck/codec/block.cuh");
};

/// The largest number of values of a chunk that kernels accept.
template <codec C> inline constexpr uint32_t max_device_chunk_values = tile_bytes / uint32_t{sizeof(value_t<C>)};

/// The values of a chunk in global memory.
template <element T, int Threads> struct plain_values {
  const T* values;

  /// Reads the first `count` values.
  __device__ void load(block_tile<T, Threads>& tile, uint32_t count) { tile.load(values, count); }
  /// Reads one value.
  __device__ bits_t<T> at(uint32_t i) const { return device::load(reinterpret_cast<const bits_t<T>*>(values) + i); }
  /// Reads one value, numbered as in a tile.
  __device__ bits_t<T> value_of(int r, uint32_t k) const {
    return at(block_tile<T, Threads>::first_value(r * block_tile<T, Threads>::row_words) + k);
  }
};

/// The values of a chunk XOR those of a base. Sums both as it loads them.
template <element T, int Threads> struct values_against {
  using tile = block_tile<T, Threads>;

  const T* values;
  const T* base;
  typename tile::delta_sums sums;  ///< valid after load

  __device__ void load(tile& to, uint32_t count) {
    to.load(values, count);
    sums = to.exclusive_or(base);
  }
  __device__ bits_t<T> at(uint32_t i) const {
    return device::load(reinterpret_cast<const bits_t<T>*>(values) + i) ^
           device::load(reinterpret_cast<const bits_t<T>*>(base) + i);
  }
  __device__ bits_t<T> value_of(int r, uint32_t k) const { return at(tile::first_value(r * tile::row_words) + k); }
};

/// The sink of decoders. Of a chunk of `count` values, stores those with lo <= index < hi at p[index]; p is a multiple
/// of sizeof(T). If `summed`, adds all values to the checksum.
template <element T, int Threads> class block_output {
  using tile = block_tile<T, Threads>;
  using word = typename tile::word;
  static constexpr uint32_t lane_values = tile::lane_values;

 public:
  word_sum sums;

  /// Returns whether the range is the whole chunk, in whole rows.
  __device__ static bool is_whole(const T* p, uint32_t lo, uint32_t hi, uint32_t count) {
    return lo == 0 && hi == count && count % lane_values == 0 &&
           reinterpret_cast<uintptr_t>(p) % sizeof(device::vec128) == 0;
  }
  __device__ block_output(T* p, uint32_t lo, uint32_t hi, uint32_t count, bool summed)
      : block_output(p, lo, hi, is_whole(p, lo, hi, count), summed) {}
  /// Constructs a sink with the result of is_whole.
  __device__ block_output(T* p, uint32_t lo, uint32_t hi, bool whole, bool summed)
      : p_(p), lo_(lo), hi_(hi), whole_(whole), summed_(summed) {}

  /// Stores the 16 bytes of one thread in a row.
  __device__ void operator()(uint32_t first, const device::vec128& x) {
    const device::vec128 one[] = {x};
    (*this)(first, one);
  }
  /// Stores the 16 bytes of this thread in consecutive rows; `first` is the index of its first value in the first row.
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
