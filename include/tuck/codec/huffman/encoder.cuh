// SPDX-License-Identifier: Apache-2.0
// Encodes values on one thread block. The bytes are those of layout.hpp.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/huffman/huffman.hpp>
#include <tuck/codec/huffman/rests.cuh>
#include <tuck/codec/huffman/streams.cuh>
#include <tuck/codec/huffman/survey.cuh>
#include <tuck/codec/huffman/warp_code.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// Encodes up to tile_bytes of values. `strip` is shared memory of strip_bytes at a multiple of 16, for their numbers:
// nobody else may write there until `write` ends.
template <element T, int Threads> class huffman_encoder {
  static constexpr uint32_t width = sizeof(T), warps = Threads / device::warp_size;
  using quad = number_quad<width>;
  using group = number_group<width>;
  using word = typename quad::word;
  using lanes = typename quad::lanes;
  using known = known_float<T>;
  using scan = device::block_scan<Threads>;
  static constexpr uint32_t chunk_words = tile_bytes / 4, too_many = 1u << 22;  // the latter: bytes

 public:
  static constexpr int registers = 80;
  static constexpr uint32_t strip_bytes = tile_bytes + 32;

  struct TempStorage {
    alignas(16) uint32_t chunk[chunk_words];
    alignas(16) uint32_t codes[symbols];  // counts, then entries
    typename scan::TempStorage scan_storage;
    uint32_t any[2];                   // the bits that any value has
    uint32_t head, bits, least, most;  // head: table and escape of head[0]; bits: of all codes, or too_many
    uint32_t spare[max_streams];       // for a word of each stream, if the chunk has no capacity for streams
  };

  __device__ huffman_encoder(TempStorage& temp, std::byte* strip) : temp_(temp), strip_(strip) {}

  // Encodes `count` values of the strip. Returns the size of the chunk in bytes, or `incompressible`; the strip then
  // has the values again.
  __device__ uint32_t measure(const huffman<T>& codec, uint32_t count) {
    const uint32_t used = measure(codec, count, of_strip{strip_});
    if (used == incompressible) restore();
    return used;
  }
  // The same for values that are not in the strip yet: values.visit(count, f) calls f(index, group) for each group that
  // this thread has.
  template <class Values> __device__ uint32_t measure(const huffman<T>& codec, uint32_t count, const Values& values) {
    const mapping how = codec.how;
    shape_ = {width, count};
    clear();
    device::sync_block();
    if (how.exponent != 0)
      survey<width>::count_exponents(values, count, how.exponent, temp_.chunk);
    else
      survey<width>::count_widths(values, count, how.zigzag, temp_.codes);
    device::sync_block();
    shift_ = how.exponent != 0 ? float_shift(width, how.exponent) : survey<width>::shift_of(temp_.codes, count);
    const uint32_t bin = how.exponent != 0 ? survey<width>::bin_of(temp_.chunk) : 0;
    shape_.head[0] = shape::values_head(how, bin, shift_);
    if (how.exponent == 0) {  // the counts of widths have been read
      device::sync_block();
      if (threadIdx.x < symbols) temp_.codes[threadIdx.x] = 0;
      device::sync_block();
    }
    with_exponent([&]<uint32_t Exponent>() { make_numbers<Exponent>(values); });
    device::sync_block();
    shape_.set_zeros(survey<width>::zeros_of(temp_.any, shift_));
    if (device::warp_id() == 0) make_code();
    with_exponent([&]<uint32_t Exponent>() { write_rests<Exponent>(); });
    device::sync_block();
    if (temp_.bits == too_many) return incompressible;
    shape_.head[0] |= temp_.head;
    const uint32_t used = encode_streams();
    return used < count * width ? used : incompressible;
  }

  // The chunk.
  __device__ std::byte* chunk() { return reinterpret_cast<std::byte*>(temp_.chunk); }

  // Writes the chunk, except for rests, which are there already.
  __device__ void write(const huffman<T>&) {
    if (joins_) {  // in place of the numbers
      join_streams(temp_.chunk + offsets_.tables, offsets_.streams, begin_, bits_, reinterpret_cast<uint32_t*>(strip_),
                   bit_words_);
      device::sync_block();
    }
    uint32_t* const to = temp_.chunk;
    if (threadIdx.x < shape::head_words) to[threadIdx.x] = threadIdx.x == 0 ? shape_.head[0] : shape_.head[1];
    for (uint32_t i = offsets_.tables + threadIdx.x; i < offsets_.bits; i += Threads) to[i] = 0;
    if (joins_) copy(to + offsets_.bits, reinterpret_cast<const uint32_t*>(strip_), bit_words_);
    device::sync_block();
    if (threadIdx.x < symbols)
      if (const uint32_t entry = temp_.codes[threadIdx.x]; (entry & escape_mark) == 0) {
        const uint32_t index = length_index(threadIdx.x, shape_.exponent());
        device::atomic_or(to + offsets_.tables + index / 8, (entry & 15) << index % 8 * 4);
      }
    if (threadIdx.x < offsets_.streams) {
      device::shared_bit_writer directory(to + offsets_.directory, threadIdx.x * shape_.entry_bits());
      directory.put(bits_ - shape_.least(), shape_.entry_bits());
      directory.finish();
    }
  }

 private:
  struct of_strip {
    const std::byte* strip;
    template <class Visit> __device__ void visit(uint32_t count, const Visit& f) const {
      const uint32_t groups = group::number(count);
#pragma unroll 2
      for (uint32_t g = threadIdx.x; g < groups; g += Threads) f(g, group::load(strip, g));
    }
  };
  __device__ static void copy(uint32_t* to, const uint32_t* from, uint32_t words) {
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < words; i += Threads) to[i] = from[i];
  }
  __device__ void clear() {
    if (threadIdx.x < symbols) temp_.codes[threadIdx.x] = 0;
    for (uint32_t b = threadIdx.x; b < bins; b += Threads) temp_.chunk[b] = 0;
    if (threadIdx.x == 0) {
      temp_.any[0] = temp_.any[1] = temp_.head = temp_.bits = temp_.most = 0;
      temp_.least = ~0u;
    }
    constexpr uint32_t group_bytes = group::values * width;
    const uint32_t bytes = shape_.values * width;  // the last group has zeros behind the values
    if (threadIdx.x < group_bytes - bytes % group_bytes) strip_[bytes + threadIdx.x] = std::byte{};
  }
  // Calls f<E>(): E is the exponent of floats of type T, or 0 for values whose mapping is known only now.
  template <class F> __device__ void with_exponent(const F& f) const {
    if (known::exponent != 0 && shape_.exponent() == known::exponent)
      f.template operator()<known::exponent>();
    else
      f.template operator()<0>();
  }
  template <uint32_t Exponent> __device__ uint32_t shift_of() const { return Exponent != 0 ? known::shift : shift_; }
  __device__ uint32_t quads() const { return (shape_.values + 3) / 4; }

  // Replaces the values by numbers, and counts their symbols.
  template <uint32_t Exponent, class Values> __device__ void make_numbers(const Values& values) {
    const device::shared_words count(temp_.codes);
    const uint32_t shift = shift_of<Exponent>(), exponent = Exponent != 0 ? Exponent : shape_.exponent();
    const uint32_t top = top_of_bin(shape_.bin(), exponent);
    const bool zigzag = Exponent == 0 && shape_.zigzag();
    word any = 0;
    values.visit(shape_.values, [&](uint32_t g, group x) {
#pragma unroll
      for (uint32_t i = 0; i < group::quads; ++i) {
        x.at[i].to_numbers(exponent, zigzag, top, any);
        const uint32_t s = x.at[i].symbols(shift), first = g * group::values + 4 * i;
        if (first + 4 <= shape_.values) {
          count.template count<0, 8>(s);
          count.template count<8, 8>(s);
          count.template count<16, 8>(s);
          count.template count<24, 8>(s);
        } else {
#pragma unroll 1
          for (uint32_t k = 0; first + k < shape_.values; ++k) count.template count<0, 8>(s >> 8 * k);
        }
      }
      x.store(strip_, g);
    });
    uint32_t low = device::warp_or(static_cast<uint32_t>(any)), high = 0;
    if constexpr (width == 8) high = device::warp_or(static_cast<uint32_t>(any >> 32));
    if (device::lane_id() == 0) {
      device::atomic_or(&temp_.any[0], low);
      if constexpr (width == 8) device::atomic_or(&temp_.any[1], high);
    }
  }

  // Makes the code on a warp, and sets temp_.head and temp_.bits by it.
  __device__ void make_code() {
    const uint32_t escapes = temp_.codes[escape];
    device::sync_warp();
    if (device::lane_id() == 0 && escapes == 0) temp_.codes[escape] = 1;
    device::sync_warp();
    const uint32_t bits = round_code<symbols>(temp_.codes) + escapes * shape_.escape_bits();
    device::sync_warp();
    // Symbols without a code, and the escape, have a mark, and the code of the escape.
    const uint32_t of_escape = temp_.codes[escape] | escape_mark;
    device::sync_warp();
    uint32_t last = 0;
#pragma unroll
    for (uint32_t s = device::lane_id(); s < symbols; s += device::warp_size) {
      if (temp_.codes[s] == 0 || s == escape)
        temp_.codes[s] = of_escape;
      else if (const uint32_t index = length_index(s, shape_.exponent()); index > last)
        last = index;
    }
    last = device::warp_max(last);
    if (device::lane_id() != 0) return;
    temp_.head = (of_escape & 15) << 25 | last / 8 << 29;
    temp_.bits = pays(shape_.values, bits, last / 8 + 1, shape_.saved_bits()) ? bits : too_many;
  }

  // Writes the planes of the rests, by all warps but the first one, which makes a code meanwhile.
  template <uint32_t Exponent> __device__ void write_rests() {
    if (device::warp_id() == 0) return;
    if (const uint32_t zeros = shape_.zeros(); zeros == 0)
      write_planes(shift_of<Exponent>(), [](group x) { return x; });
    else
      write_planes(shape_.shift(), [=](group x) { return x.shifted_down(zeros); });
  }
  template <class Of> __device__ void write_planes(uint32_t shift, const Of& rests_of) {
    const rest_planes<width, uint32_t> rests(shape_, shift, temp_.chunk + shape::head_words);
    const uint32_t groups = group::number(shape_.values);
    const uint32_t end = round_up_pow2(groups, 5);  // of whole warps; also the zeros behind the planes
#pragma unroll 2
    for (uint32_t g = threadIdx.x - device::warp_size; g < end; g += Threads - device::warp_size)
      rests.store(g < groups ? rests_of(group::load(strip_, g)) : group{}, g);
  }
  // Turns the numbers of the strip into values. All threads have read the numbers, behind a barrier.
  __device__ void restore() {
    const uint32_t exponent = shape_.exponent(), top = shape_.top();
    const bool zigzag = shape_.zigzag();
    for (uint32_t q = threadIdx.x; q < quads(); q += Threads) {
      quad x = quad::load(strip_, q);
      x.to_values(exponent, zigzag, top, 0);
      x.store(strip_, q);
    }
  }

  // Appends quad q to a stream. Calls check() after each word at most.
  template <class Check>
  __device__ void put_quad(device::codes_to_shared& to, uint32_t q, uint32_t shift, uint32_t count,
                           const Check& check) const {
    const device::shared_words code(temp_.codes);
    const quad x = quad::load(strip_, q);
    const uint32_t s = x.symbols(shift);
    const uint32_t e[4] = {code.template of<0, 8>(s), code.template of<8, 8>(s), code.template of<16, 8>(s),
                           code.template of<24, 8>(s)};
    if (count == 4 && to.put_four(e[0], e[1], e[2], e[3])) return check();
#pragma unroll 1
    for (uint32_t k = 0; k < count; ++k) {
      const uint32_t entry = code.template of<0, 8>(s >> 8 * k), length = entry & 15;
      const bool escapes = (entry & escape_mark) != 0;
      const word y = static_cast<word>(reinterpret_cast<const bits_t<T>*>(strip_)[4 * q + k]) >> shift;
      const uint32_t more = 8 * width - shift;  // bits of y
      if constexpr (width <= 2) {
        static_assert(max_length + 8 * width <= 32);
        to.put_bits(escapes ? (entry & ~escape_mark & ~15u) | y << (32 - length - more) : entry,
                    escapes ? length + more : length);
      } else {
        to.put_bits(entry, length);
        check();
        if (!escapes) continue;
        if constexpr (width == 8)
          if (more > 32) {
            to.put_bits(static_cast<uint32_t>(y >> 32) << (64 - more), more - 32);
            check();
          }
        const uint32_t low = more < 32 ? more : 32;
        to.put_bits(static_cast<uint32_t>(y) << (32 - low), low);
      }
      check();
    }
  }
  // Writes the symbols of stream t.
  template <class Check>
  __device__ void put_stream(device::codes_to_shared& to, uint32_t t, uint32_t streams, const Check& check) const {
    with_exponent([&]<uint32_t Exponent>() {
      const uint32_t shift = shift_of<Exponent>(), whole = shape_.values / 4;
      uint32_t q = t;
#pragma unroll 1
      for (; q < whole; q += streams) put_quad(to, q, shift, 4, check);
      if (q == whole && shape_.values % 4 != 0) put_quad(to, q, shift, shape_.values % 4, check);
    });
  }

  // Encodes the streams. Returns the size of the chunk in bytes.
  __device__ uint32_t encode_streams() {
    offsets_ = shape_.find();
    const uint32_t t = threadIdx.x, front = offsets_.tables, streams = streams_of(offsets_.directory + temp_.bits / 32);
    const uint32_t capacity = chunk_words > front ? (chunk_words - front) / streams : 0;  // words of a stream
    joins_ = capacity != 0;
    uint32_t* const staged = temp_.chunk + front;
    begin_ = 0;
    bits_ = 0;
    if (t < streams) {
      uint32_t* const first = joins_ ? staged + t : temp_.spare + t;
      device::codes_to_shared to(first, 0, joins_ ? streams : 0);
      uint32_t* const last = first + (joins_ ? (capacity - 1) * streams : 0);
      put_stream(to, t, streams, [&] { to.stay_before(last); });  // what does not fit is written again later
      bits_ = to.bits();
      if (joins_) to.finish();
      device::atomic_min(&temp_.least, bits_);
      device::atomic_max(&temp_.most, bits_);
    }
    uint32_t total;
    begin_ = scan::exclusive_sum(temp_.scan_storage, bits_, total);  // has barriers
    bit_words_ = (total + 31) / 32;
    if (!shape_.set_streams(streams, temp_.least, temp_.most)) return too_many;
    shape_.set_stream_offsets(offsets_);
    const uint32_t bits_at = offsets_.bits, words = bits_at + bit_words_;
    if (temp_.most >= 32 * capacity) joins_ = false;
    if (!joins_ && words <= chunk_words) {  // once more, to where the bits belong; the scan's barrier lies between
      uint32_t* const at = temp_.chunk + bits_at;
      if (t == 0) at[bit_words_ - 1] = 0;
      device::sync_block();
      device::codes_to_shared to(at, begin_, 1);
      if (t < streams) put_stream(to, t, streams, [] {});
      device::sync_block();
      if (t < streams) to.merge();
    }
    return 4 * words;
  }

  // In temp_.codes. The escape, and symbols without a code, have the code of the escape with a mark. The lengths of
  // four entries, marks included, are added in 8 bits: at most 4 * 42.
  //
  //    31      22 21     6   5    4   3      0
  //   +----------+--------+------+---+--------+
  //   |   code   |   0    | mark | 0 | length |
  //   +----------+--------+------+---+--------+
  static constexpr uint32_t escape_mark = 32;

  TempStorage& temp_;
  std::byte* strip_;
  shape shape_{};
  shape::offsets offsets_{};
  uint32_t shift_ = 0;
  uint32_t bits_ = 0, begin_ = 0, bit_words_ = 0;  // of this thread's stream; of all
  bool joins_ = false;
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
