// SPDX-License-Identifier: Apache-2.0
// Codebooks on a thread block of 128 threads. Each warp has a part, and waits for the others only to learn where its
// part begins. The bytes are those of layout.hpp.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/codebooks/codebooks.hpp>
#include <tuck/codec/codebooks/fields.cuh>
#include <tuck/codec/huffman/rests.cuh>
#include <tuck/core/bit_lanes.cuh>

namespace tuck::inline TUCK_ABI {
namespace codebooks_format {

static __device__ constexpr book_tables device_tables{};

// Reads a vector of the tables. They stay in L1, where device::load would not leave them.
__device__ __forceinline__ device::vec128 load_often(const void* p) {
  const uint4 x = __ldg(static_cast<const uint4*>(p));
  return {{x.x, x.y, x.z, x.w}};
}
// Copies Bytes, a multiple of 512, to shared memory, on one warp.
template <uint32_t Bytes> __device__ void copy_by_warp(void* to, const void* from) {
  static_assert(Bytes % 512 == 0);
  const uint32_t lane = device::thread_id_anew() % device::warp_size;  // else registers keep the address of the tables
#pragma unroll
  for (uint32_t i = 0; i < Bytes / 16; i += device::warp_size)
    static_cast<device::vec128*>(to)[i + lane] = load_often(static_cast<const device::vec128*>(from) + i + lane);
}

}  // namespace codebooks_format

template <floating_element T, int Threads> class block_codec<codebooks<T>, Threads> {
  using shape = codebooks_format::shape_of<T>;
  using fields = codebooks_format::fields<T>;
  using group = huffman_format::number_group<shape::width>;
  using part_head = codebooks_format::part_head;
  static constexpr uint32_t quads = fields::quads, lane_values = shape::lane_values;
  static constexpr uint32_t parts = 4, half = codebooks_format::first_of_second;
  static_assert(Threads == 128, "tuck: codebooks are encoded by 128 threads: a warp has a part");

 public:
  using tile = block_tile<T, Threads>;
  static constexpr int registers = sizeof(T) == 1 ? 128 : 96;
  static_assert(tile::rows == codebooks_format::rows && Threads / device::warp_size == parts);

  struct TempStorage {
    struct of_part {
      // The streams: word i of stream l is at 32 i + l. A stream that is too long ends in the row behind them, where
      // nobody reads. Before, what symbols cost in each book.
      alignas(16) uint32_t staged[(shape::stream_words + 1) * device::warp_size];
      uint32_t pair[256];  // of the book
    } part[parts];
    static_assert(sizeof(of_part::staged) >= sizeof(codebooks_format::book_tables::cost[0]));
    uint32_t words[parts];
  };

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t measure(const codebooks<T>&, const tile& values) {
    auto& mine = temp_.part[device::warp_id()];
    const uint32_t lane = device::lane_id(), first = device::warp_id() * shape::part_values;
    count_ = values.count > first ? values.count - first : 0;
    if (count_ > shape::part_values) count_ = shape::part_values;
    codebooks_format::copy_by_warp<sizeof(codebooks_format::book_tables::cost[0])>(
        mine.staged, codebooks_format::device_tables.cost[0]);
    symbols_of_part s;
    zeros_ = split(values, s);
    stored_ = rows();
    device::sync_warp();  // the costs are there
    uint32_t least, book = best_book(s, mine.staged, least);
    const bool second = !is_good(s, least) || s.top == 0;
    if (second) {
      if (is_full()) find_masks(values);
      look_again(s);
      device::sync_warp();
      codebooks_format::copy_by_warp<sizeof(codebooks_format::book_tables::cost[0])>(
          mine.staged, codebooks_format::device_tables.cost[1]);
      device::sync_warp();
      book = half + best_book(s, mine.staged, least);
    }
    codebooks_format::copy_by_warp<sizeof mine.pair>(mine.pair, codebooks_format::device_tables.pair[book]);
    device::sync_warp();
    bits_ = put_stream(s, second, codebooks_format::device_tables.single[book], mine);
    uint32_t most = device::warp_max(bits_);
    if (most > shape::most_stream_bits) {
      book = codebooks_format::raw;
      bits_ = cells() * lane_values * 8;
      most = device::warp_max(bits_);
      device::sync_warp();
      if (most <= shape::most_stream_bits) put_raw(s, second, mine.staged);
    }
    const uint32_t end = device::warp_inclusive_sum(bits_), all = device::shfl(end, 31);
    begin_ = end - bits_;
    const uint32_t values_stored = is_masked() ? device::warp_sum(cells()) * lane_values : count_;
    plane_words_ = shape::planes(values_stored, shape::rest - zeros_).rest_words();
    head_.set(part_head::fixed(s.top, zeros_, book), is_masked(), plane_words_, device::warp_min(bits_), most, all);
    words_ = most > shape::most_stream_bits ? tile_bytes : count_ != 0 ? head_.words() : 0;
    if (lane == 0) temp_.words[device::warp_id()] = words_;
    device::sync_block();
    return 4 * (codebooks_format::head_words * shape::parts(values.count) + temp_.words[0] + temp_.words[1] +
                temp_.words[2] + temp_.words[3]);
  }

  __device__ void write(const codebooks<T>&, const tile& values, std::byte* chunk) {
    auto* part = reinterpret_cast<uint32_t*>(chunk) + codebooks_format::head_words * shape::parts(values.count);
    const uint32_t lane = device::lane_id(), warp = device::warp_id();
    if (count_ == 0) return;
#pragma unroll
    for (uint32_t p = 0; p + 1 < parts; ++p)
      if (p < warp) part += temp_.words[p];
    if (lane < 2) reinterpret_cast<uint32_t*>(chunk)[2 * warp + lane] = lane == 0 ? head_.word[0] : head_.word[1];
    if (is_masked()) {
      detail::unrolled<tile::rows>([&]<int R>() {
        const uint32_t mask = device::ballot((stored_ >> R & 1) != 0);
        if (lane == 0) part[R] = mask;
      });
      part += head_.mask_words();
    }
    put_planes(values, part);
    join(part + plane_words_, words_ - head_.mask_words() - plane_words_, temp_.part[warp].staged);
  }

 private:
  // The symbols of this thread, four to a word, in the rows of its part.
  struct symbols_of_part {
    uint32_t four[tile::rows][quads];
    uint32_t top;
  };

  // Returns whether all cells of the part are stored, and full.
  __device__ bool is_whole() const { return is_full() && !is_masked(); }
  // Returns whether the part has masks, and how many cells of this thread are stored.
  __device__ bool is_masked() const { return (stored_ & masked) != 0; }
  __device__ uint32_t cells() const { return popcount(stored_ & ~masked); }
  // Returns the index in the part of the first value of this thread in row r.
  __device__ static uint32_t index(int r) {
    return static_cast<uint32_t>(r) * shape::row_values + device::lane_id() * lane_values;
  }
  __device__ bool is_full() const { return count_ == shape::part_values; }
  // Returns which of this thread's cells have values, a bit for each row.
  __device__ uint32_t rows() const {
    const uint32_t first = index(0);
    return low_mask(count_ > first ? (count_ - first + shape::row_values - 1) / shape::row_values : 0);
  }
  // Returns whether value R % lane_values of this thread's cell in row R, which is in the sample, is there.
  template <int R> __device__ bool in_sample() const {
    return (stored_ >> R & 1) != 0 && index(R) + R % lane_values < count_;
  }
  // Returns that value's symbol.
  template <int R> __device__ static uint32_t sampled_of(const symbols_of_part& s) {
    constexpr uint32_t k = static_cast<uint32_t>(R) % lane_values;
    return s.four[R][k / 4] >> 8 * (k % 4) & 255;
  }
  // Returns whether the first look is enough, whose book costs `least`.
  __device__ bool is_good(const symbols_of_part& s, uint32_t least) const {
    uint32_t n = codebooks_format::rows;
    if (!is_full()) {
      n = 0;
      detail::unrolled<tile::rows>([&]<int R>() { n += in_sample<R>(); });
    }
    if constexpr (shape::exponent < 8)
      detail::unrolled<tile::rows>([&]<int R>() { n += in_sample<R>() && sampled_of<R>(s) == s.top ? 1u << 16 : 0; });
    n = device::warp_sum(n);
    const uint32_t zeros = n >> 16;
    n &= 0xffff;
    return 16 * least <= codebooks_format::dear * n && (4 * zeros < n || n == 0);
  }

  // Makes symbols. Returns how many bits of all mantissas are 0.
  __device__ uint32_t split(const tile& values, symbols_of_part& s) const {
    uint32_t any = 0, most = 0;
#pragma unroll
    for (int r = 0; r < tile::rows; ++r) {
      fields x;
      x.split(values.row(r));
      x.add_to(values.row(r), any, most);
#pragma unroll
      for (uint32_t q = 0; q < quads; ++q) s.four[r][q] = x.exponent[q];
    }
    s.top = device::warp_max(fields::most_of(most));
#pragma unroll
    for (int r = 0; r < tile::rows; ++r)
#pragma unroll
      for (uint32_t q = 0; q < quads; ++q) s.four[r][q] = s.top * 0x01010101 - s.four[r][q];
    clear_missing(s);
    const uint32_t zeros = huffman_format::zeros_of(device::warp_or(fields::any_of(any)), shape::mantissa);
    return shape::width == 4 ? zeros / 2 * 2 : zeros;
  }
  // Writes the planes of the rests.
  __device__ void put_planes(const tile& values, uint32_t* planes) const {
    const uint32_t lane = device::lane_id();
    if (zeros_ == 0 && !is_masked()) {
      const huffman_format::rest_planes<shape::width, uint32_t> rests(shape::planes(count_, shape::rest), shape::rest,
                                                                      planes);
#pragma unroll
      for (int r = 0; r < tile::rows; ++r) {
        fields x;
        x.split(values.row(r));
        x.store(planes, (count_ + 3) / 4, index(r) / lane_values, rests);
      }
      return;
    }
    const uint32_t all = device::warp_sum(cells()), rest = shape::rest - zeros_;
    const huffman_format::rest_planes<shape::width, uint32_t> rests(
        shape::planes(is_masked() ? all * lane_values : count_, rest), rest, planes);
    for (uint32_t i = lane; i < plane_words_; i += device::warp_size) planes[i] = 0;
    device::sync_warp();
    uint32_t before = 0;
#pragma unroll 1  // which needs fewer registers
    for (int r = 0; r < tile::rows; ++r) {
      const bool is_stored = (stored_ >> r & 1) != 0;
      const uint32_t mask = device::ballot(is_stored);
      device::vec128 row = values.row(0);
      detail::unrolled<tile::rows>([&]<int R>() {
        if (R == r) row = values.row(R);
      });
      group x;
      x.set_vector(0, row);
      typename huffman_format::number_quad<shape::width>::word unused = 0;
#pragma unroll
      for (uint32_t q = 0; q < quads; ++q) x.at[q].to_numbers(shape::exponent, false, 0, unused);
      // No cell has half a byte in a plane, for which lanes would have to work together: see `zeros` in layout.hpp.
      if (is_stored) rests.store(x.shifted_down(zeros_), before + popcount(mask & low_mask(lane)));
      before += popcount(mask);
    }
    device::sync_warp();
  }
  // Gives values that are missing symbol 0.
  __device__ void clear_missing(symbols_of_part& s) const {
    if (is_full()) return;
#pragma unroll
    for (int r = 0; r < tile::rows; ++r)
#pragma unroll
      for (uint32_t q = 0; q < quads; ++q) {
        const uint32_t at = index(r) + 4 * q, here = at < count_ ? count_ - at : 0;
        s.four[r][q] &= low_mask(here < 4 ? 8 * here : 32);
      }
  }

  // Returns the book with the least cost for the sample, of those of the look whose costs are given; and its cost.
  __device__ uint32_t best_book(const symbols_of_part& s, const uint32_t* cost, uint32_t& least) const {
    device::vec128 sum{};  // of 16 books a byte each: 8 of at most 15
    const auto add = [&]<bool Whole>() {
      detail::unrolled<tile::rows>([&]<int R>() {
        if (Whole || in_sample<R>()) {
          const uint32_t symbol = sampled_of<R>(s);
          const device::vec128 x = reinterpret_cast<const device::vec128*>(
              cost)[symbol < codebooks_format::escape ? symbol : codebooks_format::escape];
#pragma unroll
          for (uint32_t i = 0; i < 4; ++i) sum.w[i] += x.w[i];
        }
      });
    };
    if (is_whole())
      add.template operator()<true>();
    else
      add.template operator()<false>();
    // Of two books in a word: the sums, at most 256 * 15, and below them the numbers of the books.
    uint32_t best = ~0u;
#pragma unroll
    for (uint32_t b = 0; b < 8; ++b) {
      const uint32_t pair = device::warp_sum(sum.w[b / 2] >> 8 * (b % 2) & 0x00ff00ff);
      const uint32_t first = 4 * (b / 2) + b % 2;
      best = device::least_unsigned_pair(best, pair * half + (first | (first + 2) << 16));
    }
    best = best >> 16 < (best & 0xffff) ? best >> 16 : best & 0xffff;
    least = best / half;
    return best % half;
  }

  // Finds which cells of a full part are zeros, if that is worth it.
  __device__ void find_masks(const tile& values) {
    uint32_t stored = 0;
    detail::unrolled<tile::rows>([&]<int R>() {
      const device::vec128 x = values.row(R);
      if ((x.w[0] | x.w[1] | x.w[2] | x.w[3]) != 0) stored |= 1u << R;
    });
    const uint32_t all = device::warp_sum(popcount(stored));
    if (tile::rows * device::warp_size - all >= codebooks_format::worth_masks) stored_ = masked | stored;
  }

  // The second look: another top, and symbol 0 for exponent 0.
  __device__ void look_again(symbols_of_part& s) const {
    uint32_t most = 0;
    detail::unrolled<tile::rows>([&]<int R>() {
#pragma unroll
      for (uint32_t q = 0; q < quads; ++q) s.four[R][q] = s.top * 0x01010101 - s.four[R][q];
      if (const uint32_t exponent = sampled_of<R>(s); in_sample<R>() && exponent > most) most = exponent;
    });
    uint32_t top = 0;  // the 8th largest of the lanes' largest
    for (uint32_t bit = 128; bit != 0; bit /= 2)
      if (popcount(device::ballot(most >= (top | bit))) >= 8) top |= bit;
    // Missing values have the exponent of a value that is there.
    for (bool taken = true; taken;) {
      ++top;
      uint32_t equal = 0;
#pragma unroll
      for (int r = 0; r < tile::rows; ++r)
#pragma unroll
        for (uint32_t q = 0; q < quads; ++q) {
          const uint32_t x = s.four[r][q] ^ top * 0x01010101;
          equal |= (x - 0x01010101) & ~x & 0x80808080;
        }
      taken = top < 256 && device::any(equal != 0);
    }
    s.top = top & 255;
#pragma unroll
    for (int r = 0; r < tile::rows; ++r)
#pragma unroll
      for (uint32_t q = 0; q < quads; ++q) {
        const uint32_t exponents = s.four[r][q];
        s.four[r][q] = subtract_bytes(s.top, exponents) & non_zero_bytes(exponents);
      }
    clear_missing(s);
  }

  // Writes this thread's stream. Returns its bits.
  __device__ uint32_t put_stream(const symbols_of_part& s, bool second, const uint32_t* single,
                                 typename TempStorage::of_part& mine) const {
    device::codes_to_shared to(mine.staged, 32 * device::lane_id(), device::warp_size);
    const device::shared_words pair(mine.pair);
    const bool whole = is_whole();
    constexpr int some = quads < 2 ? 1 : 2, steps = tile::rows * static_cast<int>(quads) / some;  // quads of a step
    constexpr bool ahead = quads < 4;  // entries of the next step are read before one is written, if registers allow it
    uint32_t next[2 * some];
    const auto quad = [&](int step, int q) -> uint32_t {
      const auto at = static_cast<uint32_t>(step * some + q);
      return s.four[at / quads][at % quads];
    };
    const auto look_up = [&](int step) {
#pragma unroll
      for (int q = 0; q < some; ++q) {
        const uint32_t two = quad(step, q) | quad(step, q) >> 4;
        next[2 * q] = pair.template of<0, 8>(two);
        next[2 * q + 1] = pair.template of<16, 8>(two);
      }
    };
    if (ahead) look_up(0);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      if (!ahead) look_up(step);
      uint32_t e[2 * some], marks = 0, large = 0;
#pragma unroll
      for (int q = 0; q < some; ++q) {
        e[2 * q] = next[2 * q];
        e[2 * q + 1] = next[2 * q + 1];
        marks = device::or3(marks, e[2 * q], e[2 * q + 1]);
        large |= quad(step, q);
      }
      if (ahead && step + 1 < steps) look_up(step + 1);
      if (!whole && (stored_ >> step * some / static_cast<int>(quads) & 1) == 0) continue;
      if (((marks & codebooks_format::no_code) | (large & 0xf0f0f0f0)) == 0) {
#pragma unroll
        for (int q = 0; q < some; ++q) put_four(to, e[2 * q], e[2 * q + 1]);
      } else {
#pragma unroll 1
        for (int q = 0; q < some; ++q) {
          const bool is_first = q == 0;
          const uint32_t four = is_first ? quad(step, 0) : quad(step, some - 1);
          const uint32_t a = is_first ? e[0] : e[2 * some - 2], b = is_first ? e[1] : e[2 * some - 1];
          if ((((a | b) & codebooks_format::no_code) | (four & 0xf0f0f0f0)) == 0)
            put_four(to, a, b);
          else
            put_slowly(to, four, s.top, second, single, mine.staged);
        }
      }
      to.stay_before(last_word(mine.staged));
    }
    to.finish_any();
    return to.bits();
  }
  // Returns the last word that there is room for of this thread's stream.
  __device__ static uint32_t* last_word(uint32_t* staged) {
    return staged + device::warp_size * (shape::stream_words - 1) + device::lane_id();
  }
  // Writes this thread's stream of exponents without codes.
  __device__ void put_raw(const symbols_of_part& s, bool second, uint32_t* staged) const {
    uint32_t* to = staged + device::lane_id();
#pragma unroll
    for (int r = 0; r < tile::rows; ++r) {
      if ((stored_ >> r & 1) == 0) continue;
#pragma unroll
      for (uint32_t q = 0; q < quads; ++q) {
        const uint32_t exponents = subtract_bytes(s.top, s.four[r][q]);
        *to = device::byte_perm<0x0123>(second ? exponents & non_zero_bytes(s.four[r][q]) : exponents, 0);
        to += device::warp_size;
      }
    }
  }
  // Return, of four bytes each, x - y modulo 256; and 255 for those that are not 0.
  __device__ static uint32_t subtract_bytes(uint32_t x, uint32_t y) {
    const uint32_t xs = x * 0x01010101;
    return ((xs | 0x80808080) - (y & 0x7f7f7f7f)) ^ (~(xs ^ y) & 0x80808080);
  }
  __device__ static uint32_t non_zero_bytes(uint32_t y) {
    return ((((y & 0x7f7f7f7f) + 0x7f7f7f7f) | y) >> 7 & 0x01010101) * 255;
  }
  // Writes the codes of four symbols, two to an entry.
  __device__ static void put_four(device::codes_to_shared& to, uint32_t a, uint32_t b) {
    to.put_bits(device::or_part(device::funnel_shift_right(b, 0, a), a, 0xffff0000), (a + b) & 63);
  }
  // Writes four symbols, of which some have no code or are not in the table of pairs.
  __device__ static void put_slowly(device::codes_to_shared& to, uint32_t four, uint32_t top, bool second,
                                    const uint32_t* single, uint32_t* staged) {
    uint32_t* const last = last_word(staged);
    uint32_t e[4];
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
      const uint32_t symbol = four >> 8 * k & 255;
      e[k] = __ldg(single + (symbol < codebooks_format::escape ? symbol : codebooks_format::escape));
    }
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
      to.put_bits(e[k] & 0xff000000, e[k] & 15);
      to.stay_before(last);
      if ((e[k] & codebooks_format::no_code) == 0) continue;
      const uint32_t symbol = four >> 8 * k & 255;
      to.put_bits((second && symbol == 0 ? 0 : top - symbol) << 24, 8);
      to.stay_before(last);
    }
  }

  // Writes the directory and the streams of this warp's part to its remaining words.
  __device__ void join(uint32_t* part, uint32_t words, const uint32_t* staged) const {
    const uint32_t lane = device::lane_id(), entry = head_.entry();
    if (lane < entry) part[lane] = 0;
    if (lane < 2 && words > entry + lane) part[words - 1 - lane] = 0;  // the last word of bits, and padding
    device::sync_warp();
    device::shared_bit_writer directory(part, lane * entry);
    directory.put(bits_ - head_.least(), entry);
    directory.finish();
    const uint32_t shift = begin_ % 32, whole = (shift + bits_) / 32;  // words to its last bit
    uint32_t* const to = part + entry + begin_ / 32;
    uint32_t before = 0;
    device::shared_steps from(staged, lane, shape::stream_words * device::warp_size, device::warp_size);
#pragma unroll 1
    for (uint32_t i = 0; i < whole; ++i) {
      const uint32_t now = from.get();  // i < stream_words, as bits_ <= most_stream_bits
      to[i] = device::funnel_shift_right(now, before, shift);
      before = now;
    }
    device::sync_warp();
    if ((shift + bits_) % 32 != 0) {
      const uint32_t last = whole < (bits_ + 31) / 32 ? staged[whole * 32 + lane] : 0;
      device::atomic_or(to + whole, device::funnel_shift_right(last, before, shift));
    }
  }

  TempStorage& temp_;
  // Of this warp's part: its values; its words, of which plane_words_ are planes.
  uint32_t count_ = 0, words_ = 0, plane_words_ = 0, zeros_ = 0;
  part_head head_;
  static constexpr uint32_t masked = 1u << 31;  // in stored_: the part has masks
  static_assert(tile::rows < 32);
  uint32_t stored_ = 0, bits_ = 0, begin_ = 0;  // of this thread's stream: which of its cells are stored; its bits
};

template <floating_element T, int Threads> class block_decoder<codebooks<T>, Threads> {
  using shape = codebooks_format::shape_of<T>;
  using fields = codebooks_format::fields<T>;
  using group = huffman_format::number_group<shape::width>;
  using part_head = codebooks_format::part_head;
  using codes = device::shared_codes<codebooks_format::code_bits, uint16_t>;
  static constexpr uint32_t quads = fields::quads, parts = 4, mask = low_mask(shape::exponent);
  static_assert(Threads == 128, "tuck: codebooks are decoded by 128 threads: a warp has a part");

 public:
  using tile = block_tile<T, Threads>;
  static constexpr int registers = 64;
  static constexpr bool fetches = false;
  struct TempStorage {
    alignas(16) uint16_t table[parts][1u << codebooks_format::code_bits];
  };

  __device__ explicit block_decoder(TempStorage& temp) : temp_(temp) {}

  template <class Sink>
  __device__ status read(const codebooks<T>&, std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    auto* const words = reinterpret_cast<uint32_t*>(from);
    const uint32_t total = size / 4, here = shape::parts(count), warp = device::warp_id();
    uint32_t at = codebooks_format::head_words * here, sum = at, odd = 0;
    if (size % 4 != 0 || size >= count * shape::width || total < sum) return status::bad_payload;
#pragma unroll
    for (uint32_t p = 0; p < parts; ++p) {
      const uint32_t n = p < here ? words[2 * p + 1] & 0xffff : 0;
      if (p < warp) at += n;
      sum += n;
      odd |= n;
    }
    // Warps read 8 bytes at a time, before others know that their parts are bad: all begin at multiples of that.
    if (sum != total || odd % 2 != 0) return status::bad_payload;
    bool sound = true;
    // Windows have a word more.
    if (warp + 1 == here && device::lane_id() == 0) words[total] = 0;
    if (warp < here) {
      const uint32_t first = warp * shape::part_values, left = count - first;
      sound = read_part(words + at, {{words[2 * warp], words[2 * warp + 1]}}, first,
                        left < shape::part_values ? left : shape::part_values, sink);
    }
    return device::sync_block_or(!sound) ? status::bad_payload : status::ok;
  }

 private:
  template <class Sink>
  __device__ bool read_part(const uint32_t* part, part_head head, uint32_t first, uint32_t count, Sink& sink) {
    const uint32_t lane = device::lane_id(), entry = head.entry(), zeros = head.zeros();
    if (!head.fits(count, shape::part_values, shape::mantissa) || head.words() < head.mask_words()) return false;
    uint32_t stored = count;
    const uint32_t* const masks = part;
    if (head.masked()) {
      stored = device::warp_sum(lane < tile::rows ? popcount(masks[lane]) : 0) * shape::lane_values;
      part += tile::rows;
    }
    const huffman_format::shape rests = shape::planes(stored, shape::rest - zeros);
    const uint32_t plane_words = rests.rest_words();
    if (head.words() < head.mask_words() + plane_words + entry) return false;
    make_table(head, temp_.table[device::warp_id()]);
    device::sync_warp();
    // Windows have a word more: of the streams, or what is behind the part.
    const uint32_t* const directory = part + plane_words;
    const uint32_t bits = head.least() + (device::shared_window(directory, lane * entry) & low_mask(entry));
    const uint32_t end = device::warp_inclusive_sum(bits), all = device::shfl(end, 31);
    if (head.words_of(plane_words, all) != head.words()) return false;
    const device::bits_in_shared in(directory + entry, all == 0 ? 1 : (all + 31) / 32);
    const codes code(temp_.table[device::warp_id()]);
    uint32_t at = end - bits;
    if (count == shape::part_values && zeros == 0 && !head.masked()) {
      detail::emit_rows<tile, true>(tile::capacity, sink, [&]<int R>() {
        fields x;
#pragma unroll
        for (uint32_t q = 0; q < quads; ++q) x.exponent[q] = read_quad(in, at, code);
        x.load(part, shape::part_values / 4, R * device::warp_size + lane);
        return x.join();
      });
    } else {
      const huffman_format::rest_planes<shape::width, const uint32_t> planes(rests, shape::rest - zeros, part);
      uint32_t before = 0;  // cells
#pragma unroll 1
      for (uint32_t r = 0; r < tile::rows; ++r) {
        const uint32_t i = r * shape::row_values + lane * shape::lane_values;
        const uint32_t here = head.masked() ? masks[r] : ~0u;
        const uint32_t cell = before + popcount(here & low_mask(lane));
        before += popcount(here);
        group x{};
        if ((here >> lane & 1) != 0 && i < count) {
#pragma unroll
          for (uint32_t q = 0; q < quads; ++q) {
            const uint32_t exponents = read_quad(in, at, code);
            if (i + 4 * q < count) planes.add(x.at[q], cell * quads + q);
            fields::set_values(x.at[q], exponents, zeros);
          }
        }
        if (i < count) sink(first + i, first_bytes(x.vector(0), (count - i) * shape::width));
      }
    }
    return at == end;
  }
  // Makes the table of a book, with exponents in place of symbols.
  __device__ static void make_table(part_head head, uint16_t* table) {
    const uint32_t lane = device::lane_id(), top = head.top();
    device::vec128 x = codebooks_format::load_often(
        reinterpret_cast<const device::vec128*>(codebooks_format::device_tables.decode[head.book()]) + lane);
    const uint32_t tops = top << 24 | top << 8 | 0x00ff00ff, kept = mask << 24 | mask << 8;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t symbols = x.w[i];
      uint32_t exponents = tops - symbols;
      if (head.book() >= codebooks_format::first_of_second) {  // symbol 0 is exponent 0
        if ((symbols & 0xff00) == 0) exponents &= 0xffff00ff;
        if ((symbols & 0xff000000) == 0) exponents &= 0x00ffffff;
      }
      x.w[i] = (exponents & kept) | (symbols & 0x00ff00ff);
    }
    reinterpret_cast<device::vec128*>(table)[lane] = x;
  }
  // Returns the exponents of four values.
  __device__ static uint32_t read_quad(const device::bits_in_shared& in, uint32_t& at, const codes& code) {
    uint32_t w = in.from(at);
    const uint32_t a = code.of(w);
    w = codes::behind(w, a);
    const uint32_t b = code.of(w);
    w = codes::behind(w, b);
    const uint32_t c = code.of(w);
    w = codes::behind(w, c);
    const uint32_t d = code.of(w), used = (a + b + c + d) & 255;
    uint32_t exponents = device::byte_perm<0x5410>(device::byte_perm<0x0051>(a, b), device::byte_perm<0x0051>(c, d));
    if (used <= 32) {
      at += used;
      return exponents;
    }
#pragma unroll 1
    for (uint32_t k = 0; k < 4; ++k) {
      uint32_t e = code.of(in.from(at));
      at += e & 31;
      if ((e & codebooks_format::no_code) != 0) {
        e = (in.from(at) >> 24 & mask) << 8;
        at += 8;
      }
      exponents = exponents >> 8 | e >> 8 << 24;
    }
    return exponents;
  }

  TempStorage& temp_;
};

}  // namespace tuck::inline TUCK_ABI
