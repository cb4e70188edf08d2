// Encodes rows of values and side streams on one thread block. The bytes are those of layout.hpp.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/huffman/huffman.hpp>
#include <tuck/codec/huffman/rests.cuh>
#include <tuck/codec/huffman/sides.cuh>
#include <tuck/codec/huffman/streams.cuh>
#include <tuck/codec/huffman/survey.cuh>
#include <tuck/codec/huffman/warp_code.cuh>

namespace tuck::inline TUCK_ABI::huffman_format {

// Encodes a row in shared memory, at a multiple of 16. The row must not be changed from outside until `write` ends.
// Values take at most tile_bytes.
template <element T, int Threads, uint32_t RowBytes> class huffman_encoder {
  static constexpr uint32_t width = sizeof(T), warps = Threads / device::warp_size;
  using quad = number_quad<width>;
  using group = number_group<width>;
  using word = typename quad::word;
  using lanes = typename quad::lanes;
  using known = known_float<T>;
  using scan = device::block_scan<Threads>;
  static constexpr uint32_t chunk_words = tile_bytes / 4, flag_words = RowBytes / 32 + 1;

 public:
  static constexpr int registers = 80;

  struct TempStorage {
    alignas(16) uint32_t chunk[chunk_words];
    alignas(16) uint32_t codes[symbols], nibble_codes[2][nibbles];  // counts, then entries
    uint32_t flags[flag_words];
    typename block_sides<Threads>::TempStorage sides;
    uint32_t any[2];                   // the bits that any value has
    uint32_t head, bits, least, most;  // head: of head[0] table, escape, marks and flags; or `plain`, marks and flags
    uint32_t spare[max_streams];       // for a word of each stream, if the chunk has no capacity for streams
  };

  __device__ huffman_encoder(TempStorage& temp, std::byte* row) : temp_(temp), row_(row) {}

  // Returns the size of the encoded row in bytes.
  __device__ uint32_t measure(const huffman<T>& codec, const row_sections& sections) {
    return measure(codec, sections, of_row{row_});
  }
  // The same for values that are not in the row yet: values.visit(f) calls f(index, group) for each group that this
  // thread has.
  template <class Values>
  __device__ uint32_t measure(const huffman<T>& codec, const row_sections& sections, const Values& values) {
    const mapping how = codec.how;
    sides_ = reinterpret_cast<uint32_t*>(row_ + sections.sides);
    shape_ = {width, sections.list.size(0) / width, padded_sides(sections.list)};
    clear();
    device::sync_block();
    const uint64_t any = how.exponent != 0
                             ? survey<width>::count_exponents(values, shape_.values, how.exponent, temp_.chunk)
                             : survey<width>::count_widths(values, shape_.values, how.zigzag, temp_.codes);
    add_bits(any);
    const uint32_t marks = block_sides<Threads>::to_marks(temp_.sides, sides_, shape_.sides, temp_.flags);
    device::sync_block();
    const uint32_t zeros = survey<width>::zeros_of(temp_.any, how.exponent);
    shift_ = how.exponent != 0 ? float_shift(width, how.exponent) - zeros
                               : survey<width>::shift_of(temp_.codes, shape_.values, zeros);
    const uint32_t bin = how.exponent != 0 ? survey<width>::bin_of(temp_.chunk) : 0;
    shape_.head[0] = shape::values_head(how, bin, shift_, zeros);
    shape_.head[1] = marks;
    if (how.exponent == 0) {  // the counts of widths have been read
      device::sync_block();
      if (threadIdx.x < symbols) temp_.codes[threadIdx.x] = 0;
      device::sync_block();
    }
    with_exponent([&]<uint32_t Exponent>() { make_numbers<Exponent>(values); });
    if (shape_.sides != 0) count_nibbles();
    device::sync_block();
    make_codes();
    if (shape_.values != 0) with_exponent([&]<uint32_t Exponent>() { write_rests<Exponent>(); });
    device::sync_block();
    if ((temp_.head & is_plain) != 0)
      make_plain();
    else
      shape_.head[0] |= temp_.head;
    return encode_streams();
  }

  // The encoded row.
  __device__ std::byte* chunk() { return reinterpret_cast<std::byte*>(temp_.chunk); }

  // Writes the encoded row, except for rests, which are there already.
  __device__ void write(const huffman<T>&, const row_sections&) {
    if (joins_) {  // in place of the numbers
      join_streams(temp_.chunk + offsets_.flags, offsets_.streams, begin_, bits_, reinterpret_cast<uint32_t*>(row_),
                   bit_words_);
      device::sync_block();
    }
    uint32_t* const to = temp_.chunk;
    if (threadIdx.x < shape::head_words) to[threadIdx.x] = threadIdx.x == 0 ? shape_.head[0] : shape_.head[1];
    if (shape_.sides != 0) {
      if (!shape_.codes_flags()) copy(to + offsets_.flags, temp_.flags, (shape_.flag_bytes() + 3) / 4);
      if (!shape_.codes_marks()) copy(to + offsets_.marks, sides_, (shape_.marks() + 3) / 4);
    }
    for (uint32_t i = offsets_.tables + threadIdx.x; i < offsets_.bits; i += Threads) to[i] = 0;
    if (joins_) copy(to + offsets_.bits, reinterpret_cast<const uint32_t*>(row_), bit_words_);
    device::sync_block();
    uint32_t* table = to + offsets_.tables;
    const auto put_length = [&](uint32_t entry, uint32_t index) {
      if ((entry & escape_mark) == 0) device::atomic_or(table + index / 8, (entry & 15) << index % 8 * 4);
    };
    if (shape_.codes_values()) {
      if (threadIdx.x < symbols) put_length(temp_.codes[threadIdx.x], length_index(threadIdx.x, shape_.exponent()));
      table += shape_.table_words();
    }
#pragma unroll
    for (uint32_t p = 0; p < 2; ++p)
      if (p == 0 ? shape_.codes_flags() : shape_.codes_marks()) {
        if (threadIdx.x < nibbles) put_length(temp_.nibble_codes[p][threadIdx.x], threadIdx.x);
        table += nibbles / 8;
      }
    if (threadIdx.x < offsets_.streams) {
      device::shared_bit_writer directory(to + offsets_.directory, threadIdx.x * shape_.entry_bits());
      directory.put(bits_ - shape_.least(), shape_.entry_bits());
      directory.finish();
    }
  }

 private:
  struct of_row {
    const std::byte* row;
    template <class Visit> __device__ void visit(uint32_t count, const Visit& f) const {
      const uint32_t groups = group::number(count);
#pragma unroll 2
      for (uint32_t g = threadIdx.x; g < groups; g += Threads) f(g, group::load(row, g));
    }
  };
  __device__ static void copy(uint32_t* to, const uint32_t* from, uint32_t words) {
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < words; i += Threads) to[i] = from[i];
  }
  __device__ void clear() {
    if (threadIdx.x < symbols) temp_.codes[threadIdx.x] = 0;
    for (uint32_t b = threadIdx.x; b < bins; b += Threads) temp_.chunk[b] = 0;
    if (threadIdx.x < 2 * nibbles) temp_.nibble_codes[threadIdx.x / nibbles][threadIdx.x % nibbles] = 0;
    if (threadIdx.x == 0) {
      temp_.any[0] = temp_.any[1] = temp_.head = temp_.bits = temp_.most = 0;
      temp_.sides.set = temp_.sides.changes = 0;
      temp_.least = ~0u;
    }
    constexpr uint32_t group_bytes = group::values * width;
    const uint32_t bytes = shape_.values * width;  // the last group has zeros behind the values
    if (threadIdx.x < group_bytes - bytes % group_bytes) row_[bytes + threadIdx.x] = std::byte{};
  }
  // Calls f<E>(): E is the exponent of floats of type T without zeros, or 0 for values whose mapping is known only now.
  template <class F> __device__ void with_exponent(const F& f) const {
    if (known::exponent != 0 && shape_.exponent() == known::exponent && shift_ == known::shift)
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
    const uint32_t zeros = Exponent != 0 ? 0 : shape_.zeros();
    values.visit(shape_.values, [&](uint32_t g, group x) {
#pragma unroll
      for (uint32_t i = 0; i < group::quads; ++i) {
        x.at[i].to_numbers(exponent, zigzag, top, zeros);
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
      x.store(row_, g);
    });
  }
  __device__ void add_bits(uint64_t any) {
    const uint32_t low = device::warp_or(static_cast<uint32_t>(any));
    uint32_t high = 0;
    if constexpr (width == 8) high = device::warp_or(static_cast<uint32_t>(any >> 32));
    if (device::lane_id() == 0) {
      device::atomic_or(&temp_.any[0], low);
      if constexpr (width == 8) device::atomic_or(&temp_.any[1], high);
    }
  }
  __device__ uint32_t part_bytes(uint32_t p) const { return p == 0 ? shape_.flag_bytes() : shape_.marks(); }
  __device__ const uint32_t* part(uint32_t p) const { return p == 0 ? temp_.flags : sides_; }
  __device__ void count_nibbles() {
#pragma unroll 1
    for (uint32_t p = 0; p < 2; ++p) {
      const device::shared_words count(temp_.nibble_codes[p]);
      for (uint32_t i = threadIdx.x; i < part_bytes(p); i += Threads) {
        const uint32_t x = reinterpret_cast<const uint8_t*>(part(p))[i];
        count.template count<0, 4>(x);
        count.template count<4, 4>(x);
      }
    }
  }

  // Makes the codes on a warp each, and sets temp_.head and temp_.bits by them.
  __device__ void make_codes() {
    if (device::warp_id() == 0 && shape_.values != 0) {
      const uint32_t escapes = temp_.codes[escape];
      device::sync_warp();
      if (device::lane_id() == 0 && escapes == 0) temp_.codes[escape] = 1;
      device::sync_warp();
      const uint32_t bits = round_code<symbols, max_length>(temp_.codes) + escapes * shape_.escape_bits();
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
      if (device::lane_id() == 0 && pays(shape_.values, bits, last / 8 + 1, shape_.saved_bits())) {
        device::atomic_or(&temp_.head, (of_escape & 15) << 25 | last / 8 << 29);
        device::atomic_add(&temp_.bits, bits);
      } else if (device::lane_id() == 0) {
        device::atomic_or(&temp_.head, is_plain);
      }
    }
    if (shape_.sides == 0) return;
#pragma unroll 1
    for (uint32_t p = device::warp_id(); p < 2 + 1; p += warps) {
      if (p == 0) continue;  // the warp of the values
      const uint32_t bits = round_code<nibbles, nibble_length>(temp_.nibble_codes[p - 1]);
      if (device::lane_id() == 0 && nibbles_pay(part_bytes(p - 1), bits)) {
        device::atomic_or(&temp_.head, 1u << (11 + p));
        device::atomic_add(&temp_.bits, bits);
      }
    }
  }

  // Writes the planes of the rests, by all warps but the first one, which makes a code meanwhile.
  template <uint32_t Exponent> __device__ void write_rests() {
    const rest_planes<width, uint32_t> rests(shape_, shift_of<Exponent>(), temp_.chunk + shape::head_words);
    const uint32_t groups = group::number(shape_.values);
    if (device::warp_id() == 0) return;
    const uint32_t end = round_up_pow2(groups, 5);  // of whole warps; also the zeros behind the planes
#pragma unroll 2
    for (uint32_t g = threadIdx.x - device::warp_size; g < end; g += Threads - device::warp_size)
      rests.store(g < groups ? group::load(row_, g) : group{}, g);
  }
  // Restores the values, as the rests.
  __device__ void make_plain() {
    const uint32_t exponent = shape_.exponent(), top = shape_.top(), zeros = shape_.zeros();
    const bool zigzag = shape_.zigzag();
    shape_.head[0] = temp_.head;
    auto* const to = reinterpret_cast<std::byte*>(temp_.chunk + shape::head_words);
    for (uint32_t q = threadIdx.x; q < quads(); q += Threads) {
      quad x = quad::load(row_, q);
      x.to_values(exponent, zigzag, top, zeros);
      auto* const words = reinterpret_cast<uint32_t*>(to) + q * width;
#pragma unroll
      for (uint32_t i = 0; i < width; ++i)
        if (4 * i < (shape_.values - 4 * q) * width && shape::head_words + q * width + i < chunk_words)
          words[i] = x.w[i];
    }
  }

  // Appends quad q to a stream. Calls check() after each word at most.
  template <class Check>
  __device__ void put_quad(device::codes_to_shared& to, uint32_t q, uint32_t shift, uint32_t escape_bits,
                           uint32_t count, const Check& check) const {
    const device::shared_words code(temp_.codes);
    const quad x = quad::load(row_, q);
    const uint32_t s = x.symbols(shift);
    const uint32_t e[4] = {code.template of<0, 8>(s), code.template of<8, 8>(s), code.template of<16, 8>(s),
                           code.template of<24, 8>(s)};
    if (count == 4 && to.put_four(e[0], e[1], e[2], e[3])) return check();
#pragma unroll 1
    for (uint32_t k = 0; k < count; ++k) {
      const uint32_t entry = code.template of<0, 8>(s >> 8 * k);
      to.put(entry & ~escape_mark, 0);
      check();
      if ((entry & escape_mark) == 0) continue;
      const word y = static_cast<word>(reinterpret_cast<const bits_t<T>*>(row_)[4 * q + k]) >> shift;
      for (uint32_t left = escape_bits; left != 0;) {  // up to 10 bits at a time
        const uint32_t bits = left < max_length ? left : max_length;
        left -= bits;
        to.put(static_cast<uint32_t>(y >> left) << (32 - bits) | bits, 0);
        check();
      }
    }
  }
  template <class Check>
  __device__ void put_nibbles(device::codes_to_shared& to, uint32_t p, uint32_t i, const Check& check) const {
    const device::shared_words code(temp_.nibble_codes[p]);
    const uint32_t x = part(p)[i], bytes = part_bytes(p) - 4 * i;
#pragma unroll 1
    for (uint32_t k = 0; k < 4 && k < bytes; ++k) {
      to.put(code.template of<0, 4>(x >> 8 * k), code.template of<4, 4>(x >> 8 * k));
      check();
    }
  }
  // Writes the symbols of stream t.
  template <class Check>
  __device__ void put_stream(device::codes_to_shared& to, uint32_t t, uint32_t streams, const Check& check) const {
    if (shape_.codes_values())
      with_exponent([&]<uint32_t Exponent>() {
        const uint32_t shift = shift_of<Exponent>(), whole = shape_.values / 4;
        const uint32_t escape_bits = Exponent != 0 ? 8 * width - shift : shape_.escape_bits();
        uint32_t q = t;
#pragma unroll 1
        for (; q < whole; q += streams) put_quad(to, q, shift, escape_bits, 4, check);
        if (q == whole && shape_.values % 4 != 0) put_quad(to, q, shift, escape_bits, shape_.values % 4, check);
      });
#pragma unroll 1
    for (uint32_t p = 0; p < 2; ++p)
      if (p == 0 ? shape_.codes_flags() : shape_.codes_marks())
#pragma unroll 1
        for (uint32_t i = t; 4 * i < part_bytes(p); i += streams) put_nibbles(to, p, i, check);
  }

  // Encodes the streams. Returns the size of the encoded row in bytes.
  __device__ uint32_t encode_streams() {
    offsets_ = shape_.find();
    const uint32_t t = threadIdx.x, front = offsets_.flags;
    const uint32_t streams = shape_.has_streams() ? streams_of(offsets_.directory + temp_.bits / 32) : 0;
    if (streams == 0) {
      joins_ = false;
      bit_words_ = 0;
      return 4 * offsets_.bits;
    }
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
    begin_ = scan::exclusive_sum(temp_.sides.scan_storage, bits_, total);  // has barriers
    bit_words_ = (total + 31) / 32;
    if (!shape_.set_streams(streams, temp_.least, temp_.most)) return 1u << 22;
    shape_.set_stream_offsets(offsets_);
    const uint32_t bits_at = offsets_.bits, words = bits_at + bit_words_;
    const auto sides_at = static_cast<uint32_t>(reinterpret_cast<const std::byte*>(sides_) - row_);
    if (temp_.most >= 32 * capacity || (shape_.sides != 0 && 4 * bit_words_ > sides_at)) joins_ = false;
    if (!joins_ && words <= chunk_words) {  // once more, to where the bits belong
      uint32_t* const at = temp_.chunk + bits_at;
      device::sync_block();
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
  static constexpr uint32_t is_plain = shape::plain_mapping << 9;

  TempStorage& temp_;
  std::byte* row_;
  uint32_t* sides_ = nullptr;
  shape shape_{};
  shape::offsets offsets_{};
  uint32_t shift_ = 0;
  uint32_t bits_ = 0, begin_ = 0, bit_words_ = 0;  // of this thread's stream; of all
  bool joins_ = false;
};

}  // namespace tuck::inline TUCK_ABI::huffman_format
