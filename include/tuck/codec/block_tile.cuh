// SPDX-License-Identifier: Apache-2.0
// The values that a thread block holds in registers, and copies between these, shared memory and global memory.
#pragma once

#include <tuck/core/bits.hpp>
#include <tuck/core/checksum.hpp>
#include <tuck/core/device.cuh>
#include <tuck/core/dtype.hpp>
#include <tuck/core/span.hpp>

namespace tuck::inline TUCK_ABI {

inline constexpr uint32_t tile_bytes = 16 * 1024;  ///< largest chunk that kernels accept, in bytes

template <element T, int Threads> class block_output;

namespace detail {

// Calls f<0>(), f<1>(), ... f<N - 1>(): a loop whose body needs its index as a constant.
template <int N, class F> __device__ __forceinline__ void unrolled(const F& f) {
  [&]<int... Index>(std::integer_sequence<int, Index...>) {
    (f.template operator()<Index>(), ...);
  }(std::make_integer_sequence<int, N>{});
}

// The part of a range of `all` numbers that this thread has. Neighbouring threads have neighbouring parts.
template <int Threads> struct own_range {
  uint32_t begin, end;
  __device__ explicit own_range(uint32_t all) {
    const uint32_t each = ceil_div(all, uint32_t{Threads});
    begin = each * threadIdx.x < all ? each * threadIdx.x : all;
    end = begin + each < all ? begin + each : all;
  }
};

// Passes the rows of this thread in a chunk of `count` values to a sink, some at a time if the chunk fills the tile:
// Full. row.operator()<R>() returns the 16 bytes of row R, with zeros past the last value.
template <class Tile, bool Full, class Sink, class Row>
__device__ void emit_rows(uint32_t count, Sink& sink, const Row& row) {
  constexpr int some = Tile::rows < 4 ? Tile::rows : 4;  // rows that registers can hold
  unrolled<Tile::rows / some>([&]<int Part>() {
    const uint32_t first = Tile::first_value(Part * some * Tile::row_words);
    if constexpr (Full) {
      device::vec128 x[some];
      unrolled<some>([&]<int R>() { x[R] = row.template operator()<Part * some + R>(); });
      sink(first, x);
    } else {
      unrolled<some>([&]<int R>() {
        if (const uint32_t at = first + R * Tile::row_values; at < count)
          sink(at, row.template operator()<Part * some + R>());
      });
    }
  });
}

}  // namespace detail

/// Returns the first n < 16 bytes of 16, followed by zeros.
__device__ inline device::vec128 first_bytes(device::vec128 x, uint32_t n) {
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t left = n > 4 * k ? n - 4 * k : 0;
    x.w[k] &= low_mask(8 * (left < 4 ? left : 4));
  }
  return x;
}

/// At most 16 KiB of values in the registers of a block. Each warp has a contiguous part of the chunk, in rows of 512
/// bytes. Each lane has 16 bytes of a row: 4 words of 4 bytes, or 2 words of 8-byte values.
template <element T, int Threads> struct block_tile {
  /// Type of a word: 8 bytes for 8-byte values, otherwise 4.
  using word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

  static constexpr int per_word = sizeof(word) / sizeof(T);                    ///< values per word
  static constexpr int words = tile_bytes / sizeof(word) / Threads;            ///< words per thread
  static constexpr int row_words = sizeof(device::vec128) / sizeof(word);      ///< words of a thread in a row
  static constexpr int rows = words / row_words;                               ///< rows per warp
  static constexpr uint32_t lane_values = sizeof(device::vec128) / sizeof(T);  ///< values of a thread in a row
  static constexpr uint32_t row_values = lane_values * device::warp_size;      ///< values per row
  static constexpr uint32_t capacity = tile_bytes / sizeof(T);                 ///< values per tile
  static_assert(words * sizeof(word) * Threads == tile_bytes && rows * row_words == words &&
                    Threads % device::warp_size == 0,
                "tuck: a block has a power of two of threads, 32 to 1024");

  word w[words];       ///< the words of this thread; zero past the values of the chunk
  uint32_t count = 0;  ///< number of values of the chunk

  /// Returns the index in the chunk of the first value of word j of this thread.
  __device__ static uint32_t first_value(int j = 0) { return first_value(threadIdx.x, j); }
  /// Returns the index in the chunk of the first value of word j of a thread.
  __device__ static uint32_t first_value(uint32_t thread, int j) {
    const auto row = static_cast<uint32_t>(j / row_words), k = static_cast<uint32_t>(j % row_words);
    return thread / device::warp_size * (rows * row_values) + thread % device::warp_size * lane_values +
           row * row_values + k * per_word;
  }
  /// Returns the k-th value of a word.
  __device__ static bits_t<T> value(word x, int k) {
    return static_cast<bits_t<T>>(x >> (8 * sizeof(T) * static_cast<unsigned>(k)));
  }
  /// Returns whether the chunk fills the tile.
  __device__ bool is_full() const { return count == capacity; }

  /// Reads n <= capacity values from global memory that the kernel does not write. p is a multiple of the word size.
  __device__ void load(const T* p, uint32_t n) {
    count = n;
    if (!is_full() || reinterpret_cast<uintptr_t>(p) % 16 != 0) return load_words(p, n);
    const auto* const from = reinterpret_cast<const device::vec128*>(p + first_value());
#pragma unroll
    for (int r = 0; r < rows; ++r) set_row(r, device::load(from + r * device::warp_size));
  }
  /// Like load, word by word: for a tile that is not full, or a p that is no multiple of 16.
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

  /// This thread's parts of three checksums of a chunk: of its values XOR its base, of the base, of the values.
  struct delta_sums {
    word_sum left, base, values;
  };

  /// XORs each value with the value of the same index at p; p is as for load.
  __device__ delta_sums exclusive_or(const T* p) {
    return is_full() && reinterpret_cast<uintptr_t>(p) % 16 == 0 ? exclusive_or<true>(p) : exclusive_or<false>(p);
  }

  /// Writes all values to p, a multiple of sizeof(T).
  __device__ void store(std::byte* p) const {
    block_output<T, Threads> out(reinterpret_cast<T*>(p), 0, count, count, false);
    detail::emit_rows<block_tile, false>(count, out, [&]<int R>() { return row(R); });
  }

  /// Returns the 16 bytes of this thread in row r.
  __device__ device::vec128 row(int r) const {
    if constexpr (sizeof(word) == 4) {
      return {{w[4 * r], w[4 * r + 1], w[4 * r + 2], w[4 * r + 3]}};
    } else {
      device::vec128 x;
      device::split_words(w[2 * r], x.w[0], x.w[1]);
      device::split_words(w[2 * r + 1], x.w[2], x.w[3]);
      return x;
    }
  }
  /// Returns the k-th value of the 16 bytes of this thread in row r.
  __device__ bits_t<T> value_of(int r, uint32_t k) const {
    const device::vec128 x = row(r);
    const uint32_t bit = 8 * sizeof(T) * k;
    const uint64_t half = bit < 64 ? device::join_words(x.w[0], x.w[1]) : device::join_words(x.w[2], x.w[3]);
    return static_cast<bits_t<T>>(half >> bit % 64);
  }
  /// Sets the 16 bytes of this thread in row r.
  __device__ void set_row(int r, const device::vec128& x) {
#pragma unroll
    for (int k = 0; k < row_words; ++k) {
      if constexpr (sizeof(word) == 4)
        w[row_words * r + k] = x.w[k];
      else
        w[row_words * r + k] = device::join_words(x.w[2 * k], x.w[2 * k + 1]);
    }
  }

  /// Returns false if this thread sees at once that the values of the chunk are not all equal.
  __device__ bool may_be_uniform() const { return !is_full() || w[0] == w[words - 1]; }
  /// Returns whether all values of this thread equal `value_bits`.
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

  /// Returns this thread's part of the checksum of the chunk.
  __device__ word_sum sums() const {
    device::vec128 x[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) x[r] = row(r);
    word_sum sums;
    add_rows(sums, first_value(device::thread_id_anew(), 0) * uint32_t{sizeof(T)} / 4, x);
    return sums;
  }
  /// Adds the 16 bytes of this thread in consecutive rows to a checksum. `at` is the index of their first word.
  template <int Rows> __device__ static void add_rows(word_sum& sums, uint32_t at, const device::vec128 (&x)[Rows]) {
    with_keys<Rows>(at, [&]<int R, int K>(uint32_t key) { sums.sum = device::add_product(sums.sum, x[R].w[K], key); });
  }
  /// Calls add<r, k>(key) for each word k of the 16 bytes of this thread in each row r, with the key of the checksum.
  template <int Rows, class Add> __device__ __forceinline__ static void with_keys(uint32_t at, const Add& add) {
    using keys = detail::word_keys;
    const uint64_t seed = uint64_t{at / 4} * keys::step + keys::first;
    detail::unrolled<Rows>([&]<int R>() {
      uint32_t low, high;
      device::split_words(seed + R * device::warp_size * keys::step, low, high);
      const uint32_t key = device::odd_xor(low, high);
      detail::unrolled<4>([&]<int K>() { add.template operator()<R, K>(key * keys::multiple(K)); });
    });
  }
  /// Adds a word to a checksum. `first` is the index of its first value.
  __device__ static void add_word(word_sum& sums, word x, uint32_t first) {
    const uint32_t at = first * uint32_t{sizeof(T)} / 4;
    sums.add(static_cast<uint32_t>(x), at);
    if constexpr (sizeof(T) == 8) sums.add(static_cast<uint32_t>(x >> 32), at + 1);
  }

  /// Returns the first n < per_word values of a word, followed by zeros.
  __device__ static word clip(word x, uint32_t n) { return x & ((word{1} << (8 * sizeof(T) * n)) - 1); }

  /// Returns the first n values of 16 bytes, followed by zeros.
  __device__ static device::vec128 clip(const device::vec128& x, uint32_t n) {
    return n < lane_values ? first_bytes(x, n * uint32_t{sizeof(T)}) : x;
  }

  /// Packs 16 bytes of values, each in the low bits of a word, into a row.
  template <class Word, uint32_t N> __device__ static device::vec128 row_of(const Word (&x)[N]) {
    static_assert(N == lane_values);
    device::vec128 row{};
#pragma unroll
    for (uint32_t i = 0; i < N; ++i) {
      if constexpr (sizeof(T) == 8)
        device::split_words(x[i], row.w[2 * i], row.w[2 * i + 1]);
      else if constexpr (sizeof(T) == 4)
        row.w[i] = x[i];
      else
        row.w[i * sizeof(T) / 4] |= static_cast<uint32_t>(static_cast<bits_t<T>>(x[i])) << (8 * sizeof(T) * i % 32);
    }
    return row;
  }

  /// Returns a word of equal values.
  __device__ static word repeat(bits_t<T> value_bits) {
    if constexpr (per_word == 4) return value_bits * 0x01010101u;
    if constexpr (per_word == 2) return value_bits * 0x00010001u;
    return value_bits;
  }

 private:
  // Whole: all values of the tile are there, and p is a multiple of 16.
  template <bool Whole> __device__ delta_sums exclusive_or(const T* p) {
    constexpr int some = rows < 4 ? rows : 4;  // rows that registers can hold
    delta_sums sums;
    block_tile other;
    if constexpr (!Whole) other.load_words(p, count);
    const auto* const from = reinterpret_cast<const device::vec128*>(p + first_value());
#pragma unroll
    for (int r = 0; r < rows; r += some) {
      device::vec128 base[some], left[some];
#pragma unroll
      for (int k = 0; k < some; ++k)
        base[k] = Whole ? device::load(from + (r + k) * device::warp_size) : other.row(r + k);
      with_keys<some>(first_value(r * row_words) * uint32_t{sizeof(T)} / 4, [&]<int K, int Index>(uint32_t key) {
        const uint32_t x = row(r + K).w[Index], y = base[K].w[Index];
        left[K].w[Index] = x ^ y;
        sums.values.sum = device::add_product(sums.values.sum, x, key);
        sums.base.sum = device::add_product(sums.base.sum, y, key);
        sums.left.sum = device::add_product(sums.left.sum, x ^ y, key);
      });
#pragma unroll
      for (int k = 0; k < some; ++k) set_row(r + k, left[k]);
    }
    return sums;
  }
};

// -- copies by a whole block: none has a barrier ----------------------------------------------------------------------

// copy_to_shared and copy_from_shared copy up to tile_bytes, 16 bytes at a time, between addresses that are multiples
// of 16.

/// Copies to shared memory. Also accesses the bytes after the last one, up to a multiple of 16.
template <int Threads> __device__ void copy_to_shared(std::byte* to, const_bytes from) {
  const auto* const source = reinterpret_cast<const device::vec128*>(from.data()) + threadIdx.x;
  auto* const target = reinterpret_cast<device::vec128*>(to) + threadIdx.x;
  const auto left = static_cast<int>(from.size()) - static_cast<int>(16 * threadIdx.x);
#pragma unroll
  for (int i = 0; i < static_cast<int>(tile_bytes / 16) && 16 * i < left; i += Threads)
    target[i] = device::load(source + i);
}
/// Copies `size` bytes from shared memory, then writes zeros up to to.size(), which is a multiple of 16.
template <int Threads> __device__ void copy_from_shared(bytes to, const std::byte* from, uint32_t size) {
  const auto* const source = reinterpret_cast<const device::vec128*>(from) + threadIdx.x;
  auto* const target = reinterpret_cast<device::vec128*>(to.data()) + threadIdx.x;
  const auto left = static_cast<int>(size) - static_cast<int>(16 * threadIdx.x);
#pragma unroll
  for (int i = 0; i < static_cast<int>(tile_bytes / 16) && 16 * i + 16 <= left; i += Threads)
    device::store(target + i, source[i]);
  const auto capacity = static_cast<uint32_t>(to.size());
#pragma unroll 1
  for (uint32_t i = size / 16 + threadIdx.x; 16 * i < capacity; i += Threads)
    device::store(reinterpret_cast<device::vec128*>(to.data()) + i,
                  16 * i < size ? first_bytes(reinterpret_cast<const device::vec128*>(from)[i], size - 16 * i)
                                : device::vec128{});
}
/// Sets tile_bytes bytes to zero.
template <int Threads> __device__ void zero_shared(std::byte* to) {
#pragma unroll
  for (uint32_t i = 0; i < tile_bytes / sizeof(device::vec128); i += Threads)
    reinterpret_cast<device::vec128*>(to)[i + threadIdx.x] = {};
}

/// Copies a tile to a strip, which is shared memory at a multiple of 16. Writes `size` bytes, rounded up to a multiple
/// of 16.
template <class Tile> __device__ void store_to_strip(const Tile& values, uint32_t size, std::byte* strip) {
  auto* const to = reinterpret_cast<device::vec128*>(strip) + Tile::first_value() / Tile::lane_values;
  const auto store = [&](uint32_t end) {
#pragma unroll
    for (int r = 0; r < Tile::rows; ++r) {
      const uint32_t at = Tile::first_value(r * Tile::row_words) / Tile::lane_values;
      if (end == tile_bytes || at * sizeof(device::vec128) < end) to[r * device::warp_size] = values.row(r);
    }
  };
  size == tile_bytes ? store(tile_bytes) : store(size);  // a whole tile without comparisons
}
/// Reads the 16 bytes of a strip that begin at value `first`, with zeros past the last value.
template <class Tile> __device__ device::vec128 read_strip(uint32_t first, uint32_t count, const std::byte* strip) {
  const uint32_t at = first / Tile::lane_values, words = (count * (16 / Tile::lane_values) + 3) / 4;
  if (first + Tile::lane_values <= count) return reinterpret_cast<const device::vec128*>(strip)[at];
  device::vec128 x{};
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k)
    if (4 * at + k < words) x.w[k] = reinterpret_cast<const uint32_t*>(strip)[4 * at + k];
  return Tile::clip(x, first < count ? count - first : 0);
}

/// Passes `count` values of a strip to a sink, 16 bytes at a time, as `map` changes these, if there is one.
template <class Tile, class Sink, class Map = decltype(nullptr)>
__device__ void emit_strip(uint32_t count, const std::byte* strip, Sink& sink, [[maybe_unused]] const Map& map = {}) {
  constexpr bool changes = !std::is_same_v<Map, decltype(nullptr)>;
  const auto* const vectors = reinterpret_cast<const device::vec128*>(strip) + Tile::first_value() / Tile::lane_values;
  if (count == Tile::capacity)
    detail::emit_rows<Tile, true>(count, sink, [&]<int R>() {
      device::vec128 x = vectors[R * device::warp_size];
      if constexpr (changes) x = map(x);
      return x;
    });
  else
    detail::emit_rows<Tile, false>(count, sink, [&]<int R>() {
      const uint32_t first = Tile::first_value(R * Tile::row_words);
      device::vec128 x = read_strip<Tile>(first, count, strip);
      if constexpr (changes) x = Tile::clip(map(x), first < count ? count - first : 0);
      return x;
    });
}
/// Reads `count` values of a strip.
template <class Tile> __device__ void load_from_strip(Tile& values, uint32_t count, const std::byte* strip) {
  values.count = count;
#pragma unroll
  for (int r = 0; r < Tile::rows; ++r)
    values.set_row(r, read_strip<Tile>(Tile::first_value(r * Tile::row_words), count, strip));
}
/// Copies `size` bytes from `from` + `begin` to `to` in shared memory. `from` is a multiple of 4. The ranges do not
/// overlap.
template <int Threads>
__device__ void copy_in_shared(std::byte* to, const std::byte* from, uint32_t begin, uint32_t size) {
  uint32_t whole = 0;  // bytes that are copied 16 at a time, or as words
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from + begin)) % sizeof(device::vec128) == 0) {
    whole = size / 16 * 16;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; 16 * i < whole; i += Threads)
      reinterpret_cast<device::vec128*>(to)[i] = reinterpret_cast<const device::vec128*>(from + begin)[i];
  } else if (reinterpret_cast<uintptr_t>(to) % 4 == 0) {
    whole = size / 4 * 4;
    const uint32_t skipped = begin % 4;
    const auto* const words = reinterpret_cast<const uint32_t*>(from) + begin / 4;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; 4 * i < whole; i += Threads)
      reinterpret_cast<uint32_t*>(to)[i] =
          skipped == 0 ? words[i] : device::funnel_shift_right(words[i], words[i + 1], 8 * skipped);
  }
#pragma unroll 1
  for (uint32_t i = whole + threadIdx.x; i < size; i += Threads) to[i] = from[begin + i];
}

}  // namespace tuck::inline TUCK_ABI
