// Huffman on one thread block, for chunks and for rows of chains. The bytes are those of layout.hpp.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/huffman/decoder.cuh>
#include <tuck/codec/huffman/huffman.hpp>
#include <tuck/codec/huffman/numbers.cuh>

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
    uint32_t lengths[8], nibble_lengths[2][2];
    uint32_t flags[flag_words];
    typename scan::TempStorage scan_storage;
    uint32_t any[2];  // of all numbers
    uint32_t edges, coded, least, most;
    uint32_t spare[max_streams];  // for a word of each stream, if the chunk has no room for streams
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
    look(how, values);
    if (shape_.sides != 0 && device::warp_id() == warps - 1) {
      const uint32_t edges = sides_to_edges(sides_, shape_.sides, temp_.flags);
      if (device::lane_id() == 0) temp_.edges = edges;
    }
    device::sync_block();
    shift_ = how.exponent != 0 ? float_shift(width, how.exponent) : integer_shift();
    const uint32_t top = how.exponent != 0 ? find_top(how.exponent) : 0;
    shape_.head[0] = shift_ | how.exponent << 9 | uint32_t{how.zigzag} << 13 | top << 21;
    shape_.head[1] = temp_.edges;
    if (how.exponent == 0) {  // the counts of widths have been read
      device::sync_block();
      if (threadIdx.x < symbols) temp_.codes[threadIdx.x] = 0;
      device::sync_block();
    }
    with_exponent([&]<uint32_t Exponent>() { make_numbers<Exponent>(top, values); });
    if (shape_.sides != 0) count_nibbles();
    device::sync_block();
    shape_.head[0] |= find_dropped() << 6;
    make_codes();
    if (shape_.values != 0) with_exponent([&]<uint32_t Exponent>() { write_rests<Exponent>(); });
    device::sync_block();
    shape_.head[0] |= temp_.coded << 15;
    if ((temp_.coded & 4) != 0) make_plain();
    return encode_streams();
  }

  // The encoded row.
  __device__ std::byte* chunk() { return reinterpret_cast<std::byte*>(temp_.chunk); }

  // Writes the encoded row, except for rests, which are there already.
  __device__ void write(const huffman<T>&, const row_sections&) {
    if (joins_) {
      join();
      device::sync_block();
    }
    uint32_t* const to = temp_.chunk;
    const shape::places places = shape_.find();
    if (threadIdx.x < shape::head_words) to[threadIdx.x] = shape_.head[threadIdx.x];
    if (shape_.sides != 0) {
      if (!shape_.codes_flags()) copy(to + places.flags, temp_.flags, (shape_.flag_bytes() + 3) / 4);
      if (!shape_.codes_edges()) copy(to + places.edges, sides_, (shape_.edges() + 3) / 4);
    }
    uint32_t at = places.tables;
    const auto put_table = [&](bool coded, const uint32_t* lengths, uint32_t words) {
      if (coded && threadIdx.x < words) to[at + threadIdx.x] = lengths[threadIdx.x];
      at += coded ? words : 0;
    };
    put_table(shape_.codes_values(), temp_.lengths, 8);
    put_table(shape_.codes_flags(), temp_.nibble_lengths[0], 2);
    put_table(shape_.codes_edges(), temp_.nibble_lengths[1], 2);
    for (uint32_t i = at + threadIdx.x; i < places.bits; i += Threads) to[i] = 0;
    if (joins_) copy(to + places.bits, reinterpret_cast<const uint32_t*>(row_), bit_words_);
    device::sync_block();
    if (threadIdx.x < places.streams) {
      device::shared_bit_writer directory(to + at, threadIdx.x * shape_.more());
      directory.put(bits_ - shape_.least(), shape_.more());
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
    if (threadIdx.x < 2 * nibbles) temp_.nibble_codes[0][threadIdx.x] = 0;
    if (threadIdx.x == 0) {
      temp_.any[0] = temp_.any[1] = temp_.edges = temp_.coded = temp_.most = 0;
      temp_.least = ~0u;
    }
    constexpr uint32_t group_bytes = group::values * width;
    const uint32_t bytes = shape_.values * width;  // the last group has zeros behind the values
    if (threadIdx.x < group_bytes - bytes % group_bytes) row_[bytes + threadIdx.x] = std::byte{};
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

  // Counts the exponents of the sample by bins, in the chunk, or the widths of integers.
  template <class Values> __device__ void look(mapping how, const Values& values) {
    if (how.exponent == 0) {
      values.visit(shape_.values, [&](uint32_t g, const group& x) {
#pragma unroll
        for (uint32_t i = 0; i < group::quads; ++i)
#pragma unroll
          for (uint32_t k = 0; k < 4; ++k) {
            const word y = lanes::low_value(lanes::number(x.at[i].value(k), 0, how.zigzag, 0));
            const uint32_t b = bit_width(y);
            if (b > symbol_bits && g * group::values + 4 * i + k < shape_.values)
              device::atomic_add(&temp_.codes[b - symbol_bits - 1], 1u);
          }
      });
      return;
    }
    static_assert(group::values == sample_group(width));
    const uint32_t from = (8 * width - 1 - how.exponent + bin_shift(how.exponent)) % 32;
    const uint32_t field = low_mask(how.exponent - bin_shift(how.exponent));
    values.visit(shape_.values, [&](uint32_t g, const group& x) {
      const uint32_t k = g % group::values;
      if (g * group::values + k < shape_.values)
        device::atomic_add(&temp_.chunk[x.upper_word(k) >> (from + 8 * width * k) % 32 & field], 1u);
    });
  }
  // Returns the top by the bins' counts, in each warp.
  __device__ uint32_t find_top(uint32_t exponent) const {
    constexpr uint32_t each = bins / device::warp_size, lanes_of_window = window_bins / each;
    const uint32_t lane = device::lane_id();
    uint32_t sum[each], best = 0;
#pragma unroll
    for (uint32_t k = 0; k < each; ++k) sum[k] = temp_.chunk[each * lane + k] + (k == 0 ? 0 : sum[k - 1]);
    const uint32_t before = device::warp_inclusive_sum(sum[each - 1]) - sum[each - 1];
#pragma unroll
    for (uint32_t k = 0; k < each; ++k) {
      sum[k] += before;
      const uint32_t out = device::shfl_up(sum[k], lanes_of_window);
      const uint32_t key = (sum[k] - (lane >= lanes_of_window ? out : 0)) * bins + (bins - 1 - each * lane - k);
      best = key > best ? key : best;
    }
    return top_of_bin(bins - 1 - device::warp_max(best) % bins, exponent);
  }
  __device__ uint32_t integer_shift() const {
    uint32_t above = 0;
    for (uint32_t b = 8 * width; b > symbol_bits; --b) {
      above += temp_.codes[b - symbol_bits - 1];
      if (64 * above > shape_.values)
        return (b - symbol_bits + shift_step(width) - 1) / shift_step(width) * shift_step(width);
    }
    return 0;
  }
  // Replaces the values by numbers, and counts their symbols.
  template <uint32_t Exponent, class Values> __device__ void make_numbers(uint32_t top, const Values& values) {
    const device::shared_words count(temp_.codes);
    const uint32_t shift = shift_of<Exponent>(), exponent = Exponent != 0 ? Exponent : shape_.exponent();
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
      x.store(row_, g);
    });
    uint32_t low = device::warp_or(static_cast<uint32_t>(any)), high = 0;
    if constexpr (width == 8) high = device::warp_or(static_cast<uint32_t>(any >> 32));
    if (device::lane_id() == 0) {
      device::atomic_or(&temp_.any[0], low);
      if constexpr (width == 8) device::atomic_or(&temp_.any[1], high);
    }
  }
  __device__ uint32_t find_dropped() const {
    uint32_t low = temp_.any[0];
    if constexpr (width == 1) low |= low >> 8 | low >> 16 | low >> 24;
    if constexpr (width == 2) low |= low >> 16;
    const uint64_t any = low | uint64_t{temp_.any[1]} << 32;
    uint32_t n = 0;
    while (n < shift_ / 8 && (any >> 8 * n & 255) == 0) ++n;
    return n;
  }
  __device__ uint32_t part_bytes(uint32_t p) const { return p == 0 ? shape_.flag_bytes() : shape_.edges(); }
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

  // Makes the codes on a warp each. Sets temp_.coded: flags, edges; 4: values are plain.
  __device__ void make_codes() {
    if (device::warp_id() == 0 && shape_.values != 0) {
      const uint32_t escapes = temp_.codes[escape];
      device::sync_warp();
      if (device::lane_id() == 0 && escapes == 0) temp_.codes[escape] = 1;
      device::sync_warp();
      const uint32_t bits = round_code<symbols, max_length>(temp_.codes, temp_.lengths);
      device::sync_warp();
      // Symbols without a code, and the escape, have a mark, and the code of the escape.
      const uint32_t of_escape = temp_.codes[escape] | escape_mark;
      device::sync_warp();
#pragma unroll
      for (uint32_t s = device::lane_id(); s < symbols; s += device::warp_size)
        if (temp_.codes[s] == 0 || s == escape) temp_.codes[s] = of_escape;
      if (device::lane_id() == 0 && !pays(shape_.values, bits + escapes * shape_.escape_bits(), shape_.saved_bits()))
        device::atomic_or(&temp_.coded, 4u);
    }
    if (shape_.sides == 0) return;
#pragma unroll 1
    for (uint32_t p = device::warp_id(); p < 2 + 1; p += warps) {
      if (p == 0) continue;  // the warp of the values
      const uint32_t bits = round_code<nibbles, nibble_length>(temp_.nibble_codes[p - 1], temp_.nibble_lengths[p - 1]);
      if (device::lane_id() == 0 && nibbles_pay(part_bytes(p - 1), bits))
        device::atomic_or(&temp_.coded, 1u << (p - 1));
    }
  }

  // Writes the planes of the rests, by all warps but the first one, which makes a code meanwhile.
  template <uint32_t Exponent> __device__ void write_rests() {
    const uint32_t shift = shift_of<Exponent>(), bytes = shift / 8, dropped = bytes == 0 ? 0 : shape_.dropped();
    const uint32_t groups = group::number(shape_.values), plane = shape_.plane_words(8);
    const uint32_t of_four = shape_.plane_words(4), of_two = shape_.plane_words(2), of_one = shape_.plane_words(1);
    if (device::warp_id() == 0) return;
#pragma unroll 2
    for (uint32_t g = threadIdx.x - device::warp_size; g < (groups + 3) / 4 * 4; g += Threads - device::warp_size) {
      const group x = g < groups ? group::load(row_, g) : group{};  // also the zeros behind the planes
      uint32_t* to = temp_.chunk + shape::head_words;
#pragma unroll
      for (uint32_t b = 0; b + 1 < width; ++b)
        if (b >= dropped && b < bytes) {
          x.store_bytes(to, plane, g, b);
          to += plane;
        }
      if (shift % 8 == 0) continue;
      uint32_t part[group::quads];
#pragma unroll
      for (uint32_t i = 0; i < group::quads; ++i) part[i] = x.at[i].bytes(bytes);
      if ((shift & 4) != 0) {
        group::template store_bits<4>(to, of_four, g, part, 0);
        to += of_four;
      }
      if ((shift & 2) != 0) {
        group::template store_bits<2>(to, of_two, g, part, shift & 4);
        to += of_two;
      }
      if constexpr (width < 4)
        if ((shift & 1) != 0) group::template store_bits<1>(to, of_one, g, part, shift & 6);
    }
  }
  // Restores the values, as the rests.
  __device__ void make_plain() {
    const uint32_t exponent = shape_.exponent(), top = shape_.top();
    const bool zigzag = shape_.zigzag();
    shape_.head[0] = 1u << 14 | (temp_.coded & 3) << 15;
    auto* const to = reinterpret_cast<std::byte*>(temp_.chunk + shape::head_words);
    for (uint32_t q = threadIdx.x; q < quads(); q += Threads) {
      quad x = quad::load(row_, q);
      x.to_values(exponent, zigzag, top);
      auto* const words = reinterpret_cast<uint32_t*>(to) + q * width;
#pragma unroll
      for (uint32_t i = 0; i < width; ++i)
        if (4 * i < (shape_.values - 4 * q) * width && shape::head_words + q * width + i < chunk_words)
          words[i] = x.w[i];
    }
  }

  // Appends quad q to a stream. Calls check() after each word at most.
  template <class Check>
  __device__ void put_quad(device::codes_to_shared& to, uint32_t q, uint32_t shift, uint32_t count,
                           const Check& check) const {
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
      for (uint32_t left = 8 * width - shift; left != 0;) {  // up to 10 bits at a time
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
        uint32_t q = t;
#pragma unroll 1
        for (; q < whole; q += streams) put_quad(to, q, shift, 4, check);
        if (q == whole && shape_.values % 4 != 0) put_quad(to, q, shift, shape_.values % 4, check);
      });
#pragma unroll 1
    for (uint32_t p = 0; p < 2; ++p)
      if (p == 0 ? shape_.codes_flags() : shape_.codes_edges())
#pragma unroll 1
        for (uint32_t i = t; 4 * i < part_bytes(p); i += streams) put_nibbles(to, p, i, check);
  }

  // Encodes the streams. Returns the size of the encoded row in bytes.
  __device__ uint32_t encode_streams() {
    const uint32_t t = threadIdx.x, streams = streams_ = shape_.streams();
    const uint32_t front = front_ = shape::head_words + shape_.rest_words();
    if (streams == 0) {
      joins_ = false;
      bit_words_ = 0;
      return 4 * shape_.find().bits;
    }
    const uint32_t room = chunk_words > front ? (chunk_words - front) / streams : 0;  // words of a stream
    joins_ = room != 0;
    uint32_t* const staged = temp_.chunk + front;
    begin_ = 0;
    bits_ = 0;
    if (t < streams) {
      uint32_t* const first = joins_ ? staged + t : temp_.spare + t;
      device::codes_to_shared to(first, 0, joins_ ? streams : 0);
      uint32_t* const last = first + (joins_ ? (room - 1) * streams : 0);
      put_stream(to, t, streams, [&] { to.stay_before(last); });  // what does not fit is written again later
      bits_ = to.bits();
      if (joins_) to.finish();
      device::atomic_min(&temp_.least, bits_);
      device::atomic_max(&temp_.most, bits_);
    }
    uint32_t total;
    begin_ = scan::exclusive_sum(temp_.scan_storage, bits_, total);  // has barriers
    bit_words_ = (total + 31) / 32;
    const uint32_t least = temp_.least / 2 * 2 < 2 * low_mask(15) ? temp_.least / 2 * 2 : 2 * low_mask(15);
    const uint32_t more = bit_width(temp_.most - least);
    if (more > 15) return 1u << 22;
    shape_.head[0] |= more << 17;
    shape_.head[1] |= least / 2 << 17;
    const uint32_t bits_at = shape_.find().bits, words = bits_at + bit_words_;
    const auto sides_at = static_cast<uint32_t>(reinterpret_cast<const std::byte*>(sides_) - row_);
    if (temp_.most >= 32 * room || (shape_.sides != 0 && 4 * bit_words_ > sides_at)) joins_ = false;
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
  // Moves this thread's stream from its words in the chunk to where it belongs among the bits of all, in place of the
  // numbers. Has a barrier.
  __device__ void join() {
    const uint32_t t = threadIdx.x, streams = streams_, shift = begin_ % 32, words = (shift + bits_) / 32;
    const uint32_t* const staged = temp_.chunk + front_;
    auto* const all = reinterpret_cast<uint32_t*>(row_);
    if (t == 0 && bit_words_ != 0) all[bit_words_ - 1] = 0;
    device::sync_block();
    uint32_t* const to = all + begin_ / 32;
    uint32_t before = 0;
    if (t < streams) {
      device::shared_steps from(staged, t, chunk_words, streams);
#pragma unroll 1
      for (uint32_t i = 0; i < words; ++i) {
        const uint32_t now = from.take();
        to[i] = device::funnel_shift_right(now, before, shift);
        before = now;
      }
    }
    device::sync_block();
    if (t < streams && (shift + bits_) % 32 != 0) {
      const uint32_t last = words <= bits_ / 32 ? staged[words * streams + t] : 0;
      device::atomic_or(to + words, device::funnel_shift_right(last, before, shift));
    }
  }

  static constexpr uint32_t escape_mark = 32;  // in entries of codes

  TempStorage& temp_;
  std::byte* row_;
  uint32_t* sides_ = nullptr;
  shape shape_{};
  uint32_t shift_ = 0, front_ = 0, streams_ = 0;
  uint32_t bits_ = 0, begin_ = 0, bit_words_ = 0;  // of this thread's stream; of all
  bool joins_ = false;
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
    return encoder_.measure(codec, row, of_tile{values});
  }
  __device__ std::byte* chunk() { return encoder_.chunk(); }
  template <class Values> __device__ void write(const huffman<T>& codec, const Values&, std::byte*) {
    encoder_.write(codec, {});
  }

 private:
  struct of_tile {
    const tile& values;
    template <class Visit> __device__ void visit(uint32_t count, const Visit& f) const {
      using group = huffman_format::number_group<sizeof(T)>;
      constexpr int rows = group::vectors;  // a group of 8-byte values is that of two lanes
      if constexpr (rows == 1) {
#pragma unroll
        for (int r = 0; r < tile::rows; ++r) {
          const uint32_t first = tile::first_value(r * tile::row_words);
          group x;
          x.set_vector(0, values.row(r));
          if (first < count) f(first / group::values, x);
        }
      } else {
#pragma unroll
        for (int r = 0; r < tile::rows; r += 2) {
          // Even lanes take the groups of row r, odd lanes those of row r + 1.
          const bool odd = threadIdx.x % 2 != 0;
          const device::vec128 a = values.row(r), b = values.row(r + 1);
          device::vec128 keep = odd ? b : a, give = odd ? a : b, got;
#pragma unroll
          for (int i = 0; i < 4; ++i) got.w[i] = device::shfl_xor(give.w[i], 1);
          group x;
          x.set_vector(0, odd ? got : keep);
          x.set_vector(1, odd ? keep : got);
          const uint32_t first = tile::first_value((r + odd) * tile::row_words) / group::values * group::values;
          if (first < count) f(first / group::values, x);
        }
      }
    }
  };

  TempStorage& temp_;
  encoder encoder_;
};

template <element T, int Threads> class block_decoder<huffman<T>, Threads> {
  static constexpr uint32_t row_bytes = tile_bytes + 32;
  using decoder = huffman_format::huffman_decoder<T, Threads, row_bytes>;

 public:
  static constexpr int registers = decoder::registers;

  struct TempStorage {
    typename decoder::TempStorage storage;
    alignas(16) std::byte row[row_bytes];
  };

  __device__ explicit block_decoder(TempStorage& temp) : temp_(temp) {}

  template <class Sink>
  __device__ status read(const huffman<T>& codec, std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    if (size >= count * sizeof(T)) return status::bad_payload;
    const row_sections row{{1, {count * uint32_t{sizeof(T)}}}, 0};
    return decoder(temp_.storage).read(codec, from, size, row, temp_.row, sink);
  }

 private:
  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI
