// Steps on one thread block. The bytes are those of layout.hpp.
//
// The strings of a row are one bitmap in shared memory, class by class. Each thread has consecutive words of it. Where a
// value is in its class follows from the numbers of values of each class before it: two bits a value say the class. A
// one of row 0 has as many ones before it as its step has before it, class by class; so ranks in the bitmaps lead from
// a value to its bits in rows 1 and 2, its sign and its extra. No list of changed values is needed.
#pragma once

#include <tuck/codec/mask_block.cuh>
#include <tuck/codec/steps/steps.hpp>

namespace tuck::inline TUCK_ABI {

/// The values of a chunk's base in global memory; null: zeros. Written: threads of this block may have written them.
template <element T, bool Written> class base_values {
 public:
  __device__ explicit base_values(const T* p) : p_(reinterpret_cast<const bits_t<T>*>(p)) {}

  /// Reads one value.
  __device__ bits_t<T> at(uint32_t i) const { return p_ == nullptr ? bits_t<T>{0} : read(p_ + i); }
  /// Reads 16 bytes from value `first` on, with zeros past the first `count` values.
  __device__ device::vec128 row(uint32_t first, uint32_t count) const {
    constexpr uint32_t values = sizeof(device::vec128) / sizeof(T), per_word = 4 / sizeof(T);
    device::vec128 x{};
    if (p_ == nullptr) return x;
    if (first + values <= count && reinterpret_cast<uintptr_t>(p_ + first) % sizeof x == 0)
      return read(reinterpret_cast<const device::vec128*>(p_ + first));
#pragma unroll
    for (uint32_t k = 0; k < values; ++k)
      if (first + k < count)
        x.w[k / per_word] |= static_cast<uint32_t>(read(p_ + first + k)) << (8 * sizeof(T) * (k % per_word));
    return x;
  }

 private:
  template <class U> __device__ static U read(const U* p) {
    return Written ? device::load_written(p) : device::load(p);
  }

  const bits_t<T>* p_;
};

/// What encoder and decoder share.
template <element T, int Threads> struct block_steps {
  using tile = block_tile<T, Threads>;
  using scan = device::block_scan<Threads>;
  using word = bits_t<T>;
  using list = steps_format::list;
  static constexpr uint32_t classes = steps_format::classes, rows = steps_format::rows;
  static constexpr uint32_t words = tile::capacity / 32;  // of a bitmap

  // In shared memory. Rows of `begin`: where the string of each class begins in the bitmap of the row, and the end of
  // the last one. Row 3: the extras.
  struct strings {
    uint32_t threshold, order;
    uint32_t begin[rows + 1][classes + 1];
    uint32_t entries[rows][classes], remainder[rows][classes], inverted[rows][classes];
    uint32_t bits[rows][words + 2];
    uint32_t plane[2][words];              // bit 0 and bit 1 of the class of each value
    uint16_t ones_before[rows][words / 4];  // of four words
    typename scan::TempStorage of_scan;
  };

  // The range of words, or of entries, that a thread has.
  struct own_range {
    uint32_t begin, end;
    __device__ explicit own_range(uint32_t all) {
      const uint32_t each = ceil_div(all, uint32_t{Threads});
      begin = each * threadIdx.x < all ? each * threadIdx.x : all;
      end = begin + each < all ? begin + each : all;
    }
  };

  // Sums of four numbers of 16 bits, one of each class.
  __device__ static uint32_t of_class(uint64_t sums, uint32_t c) {
    return static_cast<uint32_t>(sums >> (16 * c)) & 0xffff;
  }
  template <class U> __device__ static U scan_sum(strings& s, U mine, U& all) {
    const U before = scan::exclusive_sum(s.of_scan, mine, all);
    device::sync_block();
    return before;
  }

  // Value k of 16 bytes.
  template <uint32_t K> __device__ static word value(const device::vec128& x) {
    constexpr uint32_t per_word = 4 / sizeof(T);
    return static_cast<word>(x.w[K / per_word] >> (8 * sizeof(T) * (K % per_word)));
  }

  // Finds the class of each value. Has no barrier.
  template <class Base> __device__ static void find_classes(strings& s, const Base& base, uint32_t count) {
    const uint32_t threshold = s.threshold;
#pragma unroll 1
    for (int r = 0; r < tile::rows; ++r) {
      const uint32_t first = tile::first_value(r * tile::row_words);
      const device::vec128 x = base.row(first, count);
      uint32_t both = 0;  // the planes, each in 16 bits
      detail::unrolled<static_cast<int>(tile::lane_values)>([&]<int K>() {
        const uint32_t c = steps_format::class_of(steps_format::exponent_of<T>(value<K>(x)), threshold);
        both |= (c & 1) << K | (c >> 1) << (16 + K);
      });
      if constexpr (tile::lane_values == 4) {
        both |= device::shfl_xor(both, 1) << 4;
        if (device::lane_id() % 2 != 0) continue;
      }
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        using piece = std::conditional_t<tile::lane_values == 16, uint16_t, uint8_t>;
        reinterpret_cast<piece*>(s.plane[i])[first / (8 * sizeof(piece))] = static_cast<piece>(both >> (16 * i));
      }
    }
  }
  // Returns the values of class c among 32.
  __device__ static uint32_t class_mask(const strings& s, uint32_t w, uint32_t c, uint32_t count) {
    const uint32_t low = s.plane[0][w], high = s.plane[1][w];
    return ((c & 1) != 0 ? low : ~low) & ((c & 2) != 0 ? high : ~high) & low_mask(count - 32 * w);
  }
  // Sets begin[0]. Returns the numbers of values of each class before the words of this thread. Has barriers.
  __device__ static uint64_t count_values(strings& s, uint32_t count) {
    uint64_t mine = 0, all;
    const own_range own(mask_words(count));
#pragma unroll 1
    for (uint32_t w = own.begin; w < own.end; ++w)
      for (uint32_t c = 0; c < classes; ++c) mine += uint64_t{popcount(class_mask(s, w, c, count))} << (16 * c);
    const uint64_t before = scan_sum(s, mine, all);
    if (threadIdx.x == 0) {
      uint32_t sum = 0;
      for (uint32_t c = 0; c < classes; ++c) {
        s.begin[0][c] = sum;
        sum += of_class(all, c);
      }
      s.begin[0][classes] = sum;
    }
    device::sync_block();
    return before;
  }

  // Finds out how each string is stored. Returns whether a string has at most as many ones as bits, to threads that
  // look at one. Has no barrier.
  __device__ static bool set_lists(strings& s) {
    const uint32_t row = threadIdx.x / classes, c = threadIdx.x % classes;
    if (row >= rows) return true;
    const uint32_t length = s.begin[row][c + 1] - s.begin[row][c];
    const uint32_t ones = s.begin[row + 1][c + 1] - s.begin[row + 1][c];
    if (ones > length) return false;
    const list l = list::of(ones, length);
    s.entries[row][c] = l.entries;
    s.remainder[row][c] = l.remainder;
    s.inverted[row][c] = l.inverted;
    return true;
  }
  __device__ static uint32_t entries_of(const strings& s, uint32_t row) {
    uint32_t sum = 0;
    for (uint32_t c = 0; c < classes; ++c) sum += s.entries[row][c];
    return sum;
  }
  __device__ static uint32_t remainder_bits(const strings& s, uint32_t row) {
    uint32_t sum = 0;
    for (uint32_t c = 0; c < classes; ++c) sum += s.entries[row][c] * s.remainder[row][c];
    return sum;
  }

  // Returns a word of a row with the strings inverted that are stored by their zeros.
  __device__ static uint32_t inverted(const strings& s, uint32_t row, uint32_t w) {
    uint32_t x = s.bits[row][w];
    const auto in_word = [&](uint32_t i) { return low_mask(i > 32 * w ? i - 32 * w : 0); };
    for (uint32_t c = 0; c < classes; ++c)
      if (s.inverted[row][c] != 0) x ^= in_word(s.begin[row][c + 1]) & ~in_word(s.begin[row][c]);
    return x;
  }
  // Counts the ones before each group of words of a row. Returns all ones. Has barriers.
  __device__ static uint32_t find_ranks(strings& s, uint32_t row) {
    const own_range own(words / 4);
    const auto ones_of = [&](uint32_t group) {
      const uint32_t* const x = s.bits[row] + 4 * group;
      return popcount(x[0]) + popcount(x[1]) + popcount(x[2]) + popcount(x[3]);
    };
    uint32_t mine = 0, all;
#pragma unroll 1
    for (uint32_t g = own.begin; g < own.end; ++g) mine += ones_of(g);
    uint32_t before = scan_sum(s, mine, all);
#pragma unroll 1
    for (uint32_t g = own.begin; g < own.end; ++g) {
      s.ones_before[row][g] = static_cast<uint16_t>(before);
      before += ones_of(g);
    }
    device::sync_block();
    return all;
  }
  // Returns the number of ones before bit i of a row.
  __device__ static uint32_t rank(const strings& s, uint32_t row, uint32_t i) {
    uint32_t sum = s.ones_before[row][i / 128];
#pragma unroll 1
    for (uint32_t w = i / 128 * 4; w < i / 32; ++w) sum += popcount(s.bits[row][w]);
    return sum + popcount(s.bits[row][i / 32] & low_mask(i % 32));
  }
  // Returns 32 bits from bit i on.
  __device__ static uint32_t window(const uint32_t* bits, uint32_t i) {
    return device::funnel_shift_right(bits[i / 32], bits[i / 32 + 1], i % 32);
  }
  __device__ static bool is_one(const uint32_t* bits, uint32_t i) { return (bits[i / 32] >> i % 32 & 1) != 0; }
  __device__ static void set_one(uint32_t* bits, uint32_t i) { device::atomic_or(bits + i / 32, 1u << i % 32); }
  __device__ static void clear(uint32_t* bits, uint32_t count) {
    for (uint32_t w = threadIdx.x; w < count; w += Threads) bits[w] = 0;
  }
};

template <floating_element T, int Threads> class block_codec<steps<T>, Threads> : block_steps<T, Threads> {
  using base = block_steps<T, Threads>;
  using masks = block_masks<T, Threads>;
  using typename base::own_range, typename base::strings, typename base::word;
  using base::classes, base::rows, base::words;
  static constexpr uint32_t fields = steps_format::exponent_fields<T>;

 public:
  using tile = block_tile<T, Threads>;

  struct TempStorage : strings {
    alignas(16) std::byte chunk[tile_bytes];  // the step of each value, then the encoded chunk
    union {
      struct {
        uint32_t values[fields], changes[fields];  // with each exponent field, or more
      } have;
      word step[tile::capacity];  // of the values that change, class by class
    } of;
  };

  static constexpr int registers = 96;
  static constexpr bool keeps_tile = false;

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp) {}

  __device__ void use_base(const T* base_of_chunk) { base_ = base_of_chunk; }

  __device__ uint32_t measure(const steps<T>&, const tile& values) {
    const uint32_t count = values.count;
    masks mask;
    mask.find_non_zeros(values);
    mask.store(reinterpret_cast<std::byte*>(changed()));
    store_to_row(values, tile_bytes, temp_.chunk);
    base::clear(temp_.of.have.values, fields);
    base::clear(temp_.of.have.changes, fields);
    base::clear(temp_.bits[0], words + 2);
    device::sync_block();
    find_steps(count);
    device::sync_block();
    if (device::warp_id() == 0) find_threshold();
    device::sync_block();
    base::find_classes(temp_, base_values<T, false>(base_), count);
    device::sync_block();
    const uint64_t before = base::count_values(temp_, count);
    for_changes(before, count, [&](uint32_t, uint32_t at) { base::set_one(temp_.bits[0], at); });
    device::sync_block();
    set_begin(1);
    for_changes(before, count, [&](uint32_t i, uint32_t at) {
      temp_.of.step[base::rank(temp_, 0, at)] = reinterpret_cast<const word*>(temp_.chunk)[i];
    });
    device::sync_block();
    find_rows();
    base::set_lists(temp_);
    device::sync_block();

    uint32_t bits = header_bits() + changes() + (changes() == 0 ? 0 : measured_extras());
#pragma unroll 1
    for (uint32_t row = 0; row < rows; ++row) {
      uint32_t all;
      base::scan_sum(temp_, quotient_bits(row), all);
      bits += base::remainder_bits(temp_, row) + all;
    }
    return ceil_div(bits, 8u);
  }

  __device__ std::byte* chunk() { return temp_.chunk; }
  template <class Values> __device__ void write(const steps<T>&, const Values&, std::byte* to) {
    zero_shared<Threads>(to);
    device::sync_block();
    if (threadIdx.x == 0) write_header(to);
    uint32_t remainder_at = header_bits(), signs = remainder_at;
    for (uint32_t row = 0; row < rows; ++row) signs += base::remainder_bits(temp_, row);
    write_signs(to, signs);
    uint32_t quotient_at = signs + changes();
#pragma unroll 1
    for (uint32_t row = 0; row < rows; ++row) {
      uint32_t mine = 0, all;
      for_entries(row, [&](uint32_t, uint32_t r) { mine += r; });
      const uint32_t remainders = base::scan_sum(temp_, mine, all);
      device::shared_bit_writer out(to, remainder_at + remainders);
      remainder_at += all;
      uint32_t quotient = quotient_at + base::scan_sum(temp_, quotient_bits(row), all);
      quotient_at += all;
      for_entries(row, [&](uint32_t gap, uint32_t r) {
        out.put(gap & low_mask(r), r);
        put_one(to, quotient += gap >> r);
        ++quotient;
      });
      out.finish();
    }
    if (extras() != 0) write_extras(to, quotient_at);
  }

 private:
  // A mask of the values that change, until row 2 takes its place.
  __device__ uint32_t* changed() const { return temp_.bits[2]; }
  __device__ uint32_t changes() const { return temp_.begin[1][classes]; }
  __device__ uint32_t extras() const { return temp_.begin[rows][classes]; }

  // Replaces changes by steps, and counts exponent fields.
  __device__ void find_steps(uint32_t count) {
    const base_values<T, false> of_base(base_);
#pragma unroll 1
    for (int r = 0; r < tile::rows; ++r) {
      const uint32_t first = tile::first_value(r * tile::row_words);
      const device::vec128 b = of_base.row(first, count);
      device::vec128& row = *reinterpret_cast<device::vec128*>(temp_.chunk + first * sizeof(T));
      device::vec128 x{};
      detail::unrolled<static_cast<int>(tile::lane_values)>([&]<int K>() {
        constexpr uint32_t per_word = 4 / sizeof(T);
        const word before = base::template value<K>(b);
        const word step = steps_format::step_of<T>(base::template value<K>(row), before);
        x.w[K / per_word] |= static_cast<uint32_t>(step) << (8 * sizeof(T) * (K % per_word));
        const uint32_t i = first + K, e = steps_format::exponent_of<T>(before);
        constexpr uint32_t group = steps_format::sample_group;
        if (step != 0) device::atomic_add(temp_.of.have.changes + e, 1u);
        if (i % group == i / group % group && i < count) device::atomic_add(temp_.of.have.values + e, group);
      });
      row = x;
    }
  }
  // Chooses the threshold with one warp.
  __device__ void find_threshold() {
    auto& have = temp_.of.have;
    constexpr uint32_t each = fields > device::warp_size ? fields / device::warp_size : 1;
    const uint32_t lane = device::lane_id(), first = lane * each;
    uint32_t values = 0, changed = 0, top = 0;
    if (first < fields)
#pragma unroll 1
      for (uint32_t e = first; e < first + each; ++e) {
        values += have.values[e];
        changed += have.changes[e];
        top = (have.values[e] | have.changes[e]) != 0 ? e : top;
      }
    top = device::warp_max(top);
    top = top + 1 < fields ? top + 1 : top;
    const uint32_t values_up_to = device::warp_inclusive_sum(values);
    const uint32_t changed_up_to = device::warp_inclusive_sum(changed);
    values = device::shfl(values_up_to, 31) - values_up_to;
    const uint32_t all_changed = device::shfl(changed_up_to, 31);
    changed = all_changed - changed_up_to;
    if (first < fields)
#pragma unroll 1
      for (uint32_t e = first + each; e-- > first;) {
        have.values[e] = values += have.values[e];
        have.changes[e] = changed += have.changes[e];
      }
    device::sync_warp();
    const uint32_t bits =
        lane > top ? ~0u : steps_format::estimated_bits(top - lane, have.values, have.changes);
    const uint32_t least = device::warp_min(bits);
    const unsigned best = device::ballot(bits == least);
    if (lane == 0)
      temp_.threshold = all_changed == 0 ? 0 : top - static_cast<uint32_t>(device::ffs(best) - 1);
  }

  // Calls visit(index of the value, index of its bit in row 0) for the values that change in the words of this thread.
  // `before`: the numbers of values of each class before them.
  template <class Visit> __device__ void for_changes(uint64_t before, uint32_t count, const Visit& visit) {
    const own_range own(mask_words(count));
#pragma unroll 1
    for (uint32_t w = own.begin; w < own.end; ++w)
#pragma unroll 1
      for (uint32_t c = 0; c < classes; ++c) {
        const uint32_t of_class = base::class_mask(temp_, w, c, count);
#pragma unroll 1
        for (uint32_t left = of_class & changed()[w]; left != 0; left &= left - 1) {
          const auto bit = static_cast<uint32_t>(device::ffs(left) - 1);
          visit(32 * w + bit,
                temp_.begin[0][c] + base::of_class(before, c) + popcount(of_class & low_mask(bit)));
        }
        before += uint64_t{popcount(of_class)} << (16 * c);
      }
  }
  // Sets begin[row] to the ones of the row before it. Has barriers.
  __device__ void set_begin(uint32_t row) {
    const uint32_t all = base::find_ranks(temp_, row - 1), c = threadIdx.x;
    if (c <= classes) {
      const uint32_t at = temp_.begin[row - 1][c];
      temp_.begin[row][c] = at < temp_.begin[row - 1][classes] ? base::rank(temp_, row - 1, at) : all;
    }
    device::sync_block();
  }
  // Fills rows 1 and 2, and finds where their strings begin, and the order. Has barriers.
  __device__ void find_rows() {
    base::clear(temp_.bits[1], words + 2);
    base::clear(temp_.bits[2], words + 2);
    device::sync_block();
    const own_range own(changes());
    constexpr uint32_t field = 20;  // two sums of 20 bits, one of 24
    uint64_t mine = 0, all;
#pragma unroll 1
    for (uint32_t i = own.begin; i < own.end; ++i) {
      const uint32_t magnitude = steps_format::magnitude_of<T>(temp_.of.step[i]);
      if (magnitude < 2) continue;
      base::set_one(temp_.bits[1], i);
      ++mine;
      if (magnitude < 3) continue;
      mine += (uint64_t{1} << field) + (uint64_t{tuck::bit_width(magnitude - 3)} << (2 * field));
    }
    auto above_1 = static_cast<uint32_t>(base::scan_sum(temp_, mine, all)) & low_mask(field);
#pragma unroll 1
    for (uint32_t i = own.begin; i < own.end; ++i) {
      const uint32_t magnitude = steps_format::magnitude_of<T>(temp_.of.step[i]);
      if (magnitude > 2) base::set_one(temp_.bits[2], above_1);
      above_1 += magnitude > 1;
    }
    if (threadIdx.x == 0)
      temp_.order = steps_format::best_order(static_cast<uint32_t>(all >> (2 * field)),
                                             static_cast<uint32_t>(all >> field) & low_mask(field));
    device::sync_block();
    set_begin(2);
    set_begin(3);
  }

  __device__ uint32_t width_of(uint32_t row) const {
    uint32_t any = 0;
    for (uint32_t c = 0; c < classes; ++c) any |= temp_.begin[row + 1][c + 1] - temp_.begin[row + 1][c];
    return tuck::bit_width(any);
  }
  // Calls put(x, bits) for each field of the header.
  template <class Put> __device__ void for_header(const Put& put) const {
    put(temp_.threshold, steps_format::threshold_bits);
#pragma unroll 1
    for (uint32_t row = 0; row < rows && (row == 0 || temp_.begin[row][classes] != 0); ++row) {
      const uint32_t width = width_of(row);
      put(width, steps_format::width_bits);
#pragma unroll 1
      for (uint32_t c = 0; c < classes; ++c) put(temp_.begin[row + 1][c + 1] - temp_.begin[row + 1][c], width);
    }
    if (extras() != 0) put(temp_.order, steps_format::order_bits);
  }
  __device__ uint32_t header_bits() const {
    uint32_t sum = 0;
    for_header([&](uint32_t, uint32_t bits) { sum += bits; });
    return sum;
  }
  __device__ void write_header(std::byte* to) const {
    device::shared_bit_writer out(to, 0);
    for_header([&](uint32_t x, uint32_t bits) { out.put(x, bits); });
    out.finish();
  }
  __device__ void write_signs(std::byte* to, uint32_t at) const {
    const own_range own(changes());
    device::shared_bit_writer out(to, at + own.begin);
#pragma unroll 1
    for (uint32_t i = own.begin; i < own.end; ++i) out.put(steps_format::is_negative<T>(temp_.of.step[i]), 1);
    out.finish();
  }

  // Calls visit(gap, bits of its remainder) for the entries in the words of this thread.
  template <class Visit> __device__ void for_entries(uint32_t row, const Visit& visit) const {
    const uint32_t* const begin = temp_.begin[row];
    const own_range own(ceil_div(begin[classes], 32u));
    uint32_t from = ~0u, c = 0;  // from: the bit after the entry before
#pragma unroll 1
    for (uint32_t w = own.begin; w < own.end; ++w)
#pragma unroll 1
      for (uint32_t left = base::inverted(temp_, row, w); left != 0; left &= left - 1) {
        const uint32_t at = 32 * w + static_cast<uint32_t>(device::ffs(left) - 1);
        if (from == ~0u) from = after_entry_before(row, own.begin);
        while (at >= begin[c + 1]) ++c;
        from = from < begin[c] ? begin[c] : from;
        visit(at - from, temp_.remainder[row][c]);
        from = at + 1;
      }
  }
  // Returns the index of the bit after the last entry before a word; 0 if there is none.
  __device__ uint32_t after_entry_before(uint32_t row, uint32_t w) const {
#pragma unroll 1
    while (w-- != 0)
      if (const uint32_t x = base::inverted(temp_, row, w); x != 0) return 32 * w + tuck::bit_width(x);
    return 0;
  }
  __device__ uint32_t quotient_bits(uint32_t row) const {
    uint32_t sum = 0;
    for_entries(row, [&](uint32_t gap, uint32_t r) { sum += (gap >> r) + 1; });
    return sum;
  }

  // Calls visit(u, x + 2^order) for the extras among the steps of this thread.
  template <class Visit> __device__ void for_extras(const Visit& visit) const {
    const own_range own(changes());
    const uint32_t order = temp_.order;
#pragma unroll 1
    for (uint32_t i = own.begin; i < own.end; ++i) {
      const uint32_t magnitude = steps_format::magnitude_of<T>(temp_.of.step[i]);
      if (magnitude < 3) continue;
      const uint32_t x = magnitude - 3 + (1u << order);
      visit(tuck::bit_width(x) - 1 - order, x);
    }
  }
  // Sums for the extras of this thread: of their bits in unary, and above these 32 bits, of those that follow.
  __device__ uint64_t extra_bits() const {
    uint64_t sum = 0;
    for_extras([&](uint32_t u, uint32_t) { sum += u + 1 + (uint64_t{temp_.order + u} << 32); });
    return sum;
  }
  __device__ uint32_t measured_extras() {
    uint64_t all;
    base::scan_sum(temp_, extra_bits(), all);
    return static_cast<uint32_t>(all) + static_cast<uint32_t>(all >> 32);
  }
  __device__ void write_extras(std::byte* to, uint32_t at) {
    uint64_t all;
    const uint64_t before = base::scan_sum(temp_, extra_bits(), all);
    uint32_t unary = at + static_cast<uint32_t>(before);
    device::shared_bit_writer out(to, at + static_cast<uint32_t>(all) + static_cast<uint32_t>(before >> 32));
    const uint32_t order = temp_.order;
    for_extras([&](uint32_t u, uint32_t x) {
      put_one(to, unary += u);
      ++unary;
      out.put(x & low_mask(order + u), order + u);
    });
    out.finish();
  }
  __device__ static void put_one(std::byte* to, uint32_t bit) {
    base::set_one(reinterpret_cast<uint32_t*>(to), bit);
  }

  TempStorage& temp_;
  const T* base_ = nullptr;
};

template <floating_element T, int Threads> class block_decoder<steps<T>, Threads> : block_steps<T, Threads> {
  using base = block_steps<T, Threads>;
  using typename base::own_range, typename base::scan, typename base::strings, typename base::tile,
      typename base::word;
  using base::classes, base::rows, base::words;

 public:
  struct TempStorage : strings {
    uint32_t sign[words + 1];
    uint32_t signs, unary_end;  // in bits of the chunk
    union {
      uint16_t zeros[tile::capacity / 2];  // before the one that ends each quotient of a row
      word extra[tile::capacity];          // u, then the magnitude
    } of;
  };

  static constexpr int registers = 96;

  __device__ explicit block_decoder(TempStorage& temp) : temp_(temp) {}

  __device__ void use_base(const T* base_of_chunk) { base_ = base_of_chunk; }

  /// The values are restored where the chunk was.
  template <class Sink>
  __device__ status read(const steps<T>&, std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    if (size == 0 || size >= count * sizeof(T)) return status::bad_payload;
    from_ = from;
    if (threadIdx.x < 32) from[size + threadIdx.x] = std::byte{};
    device::sync_block();
    if (device::sync_block_or(threadIdx.x == 0 && !read_header())) return status::bad_payload;
    const base_values<T, true> of_base(base_);
    base::find_classes(temp_, of_base, count);
    device::sync_block();
    const uint64_t before = base::count_values(temp_, count);
    if (device::sync_block_or(!base::set_lists(temp_))) return status::bad_payload;
    const uint32_t end = 8 * size, changes = temp_.begin[1][classes], extras = temp_.begin[rows][classes];
    uint32_t remainders = temp_.signs, signs = remainders;
    for (uint32_t row = 0; row < rows; ++row) signs += base::remainder_bits(temp_, row);
    device::sync_block();
    if (signs + changes > end) return status::bad_payload;
    if (threadIdx.x == 0) {
      temp_.signs = signs;
      temp_.unary_end = signs + changes;
    }
    device::sync_block();
#pragma unroll 1
    for (uint32_t row = 0; row < rows; ++row) {
      if (!restore_row(row, remainders, end)) return status::bad_payload;
      remainders += base::remainder_bits(temp_, row);
    }
    if (device::sync_block_or(!restore_extras(extras, end))) return status::bad_payload;
    for (uint32_t i = threadIdx.x; 32 * i < changes; i += Threads) temp_.sign[i] = get(temp_.signs + 32 * i);
    device::sync_block();
    zero_shared<Threads>(from);
    device::sync_block();
    restore_values(before, count, of_base);
    device::sync_block();
    give_row<tile>(count, from, sink);
    return status::ok;
  }

 private:
  // Returns 32 bits of the chunk from a bit on that is at most its end. Zeros follow the chunk.
  __device__ uint32_t get(uint32_t bit) const {
    return base::window(reinterpret_cast<const uint32_t*>(from_), bit);
  }

  // Reads the header with one thread. `signs` is then where it ends. Returns false if encoders write no such header.
  __device__ bool read_header() {
    uint32_t at = 0;
    const auto take = [&](uint32_t bits) {
      const uint32_t x = get(at) & low_mask(bits);
      at += bits;
      return x;
    };
    temp_.threshold = take(steps_format::threshold_bits);
    uint32_t ones = 1;
    bool good = temp_.threshold < steps_format::exponent_fields<T>;
#pragma unroll 1
    for (uint32_t row = 0; row < rows; ++row) {
      const uint32_t width = ones != 0 ? take(steps_format::width_bits) : 0;
      good &= width <= steps_format::max_width;
      ones = 0;
#pragma unroll 1
      for (uint32_t c = 0; c < classes; ++c) {
        temp_.begin[row + 1][c] = ones;
        ones += take(width < steps_format::max_width ? width : steps_format::max_width);
      }
      temp_.begin[row + 1][classes] = ones;
      good &= width == 0 || ones != 0;
    }
    temp_.order = ones != 0 ? take(steps_format::order_bits) : 0;
    temp_.signs = at;
    return good;
  }

  // Restores the bits of a row. `remainders`: where those of the row begin. Returns the same to all threads.
  __device__ bool restore_row(uint32_t row, uint32_t remainders, uint32_t end) {
    base::clear(temp_.bits[row], words + 2);
    const uint32_t entries = base::entries_of(temp_, row);
    if (entries != 0) {
      const auto set = [&](uint32_t i, uint32_t zeros, uint32_t) {
        temp_.of.zeros[i] = static_cast<uint16_t>(zeros);
        return i + 1 != entries || zeros <= 0xffff;
      };
      if (device::sync_block_or(!find_ones(entries, end, set))) return false;
      if (device::sync_block_or(!set_ones(row, remainders))) return false;
    }
    device::sync_block();
    const own_range own(words);
#pragma unroll 1
    for (uint32_t w = own.begin; w < own.end; ++w) temp_.bits[row][w] = base::inverted(temp_, row, w);
    device::sync_block();
    base::find_ranks(temp_, row);
    return true;
  }
  // Finds `wanted` > 0 ones from unary_end on, and moves it behind the last. Calls set(i, zeros before one i, zeros
  // since the one before it, up to 32). Returns false if there are too few ones or if `set` does. Has barriers.
  template <class Set> __device__ bool find_ones(uint32_t wanted, uint32_t end, const Set& set) {
    const uint32_t first = temp_.unary_end;
    uint32_t found = 0;
    bool good = true;
    for (uint32_t begin = first; found < wanted && begin < end; begin += 32 * Threads) {
      const uint32_t bit = begin + 32 * threadIdx.x;
      uint32_t ones = bit < end ? get(bit) : 0, all;
      uint32_t i = found + base::scan_sum(temp_, popcount(ones), all);
      // The ones before this word; there is one at first - 1 too.
      uint32_t last = 0;
      if (ones != 0) {
        const uint32_t before = bit == first ? 1u << 31 : get(bit - 32);
        last = bit - 32 + tuck::bit_width(before);
      }
#pragma unroll 1
      for (; ones != 0 && i < wanted; ones &= ones - 1, ++i) {
        const uint32_t at = bit + static_cast<uint32_t>(device::ffs(ones) - 1);
        good &= set(i, at - first - i, at - last);
        last = at + 1;
        if (i + 1 == wanted) temp_.unary_end = at + 1;
      }
      found += all;
    }
    device::sync_block();
    return good && found >= wanted;
  }
  // Sets the ones of a row, or zeros as ones, from its entries. Returns false if one is not in its string. Has barriers.
  __device__ bool set_ones(uint32_t row, uint32_t remainders) {
    const own_range own(base::entries_of(temp_, row));
    const auto for_entries = [&](const auto& visit) {
      uint32_t c = 0, begin = 0, at = remainders;  // of the entries of class c
#pragma unroll 1
      for (uint32_t i = own.begin; i < own.end; ++i) {
        while (i >= begin + temp_.entries[row][c]) {
          begin += temp_.entries[row][c];
          at += temp_.entries[row][c] * temp_.remainder[row][c];
          ++c;
        }
        const uint32_t r = temp_.remainder[row][c];
        visit(i, c, begin, get(at + (i - begin) * r) & low_mask(r), r);
      }
    };
    uint64_t mine = 0, all;
    for_entries([&](uint32_t, uint32_t c, uint32_t, uint32_t x, uint32_t) { mine += uint64_t{x} << (16 * c); });
    uint64_t before = base::scan_sum(temp_, mine, all);
    bool good = true;
    for_entries([&](uint32_t i, uint32_t c, uint32_t begin, uint32_t x, uint32_t r) {
      before += uint64_t{x} << (16 * c);
      const uint32_t zeros = temp_.of.zeros[i] - (begin != 0 ? temp_.of.zeros[begin - 1] : 0u);
      const uint32_t at = temp_.begin[row][c] + (zeros << r) + base::of_class(before, c) + (i - begin);
      if (at < temp_.begin[row][c + 1])
        base::set_one(temp_.bits[row], at);
      else
        good = false;
    });
    return good;
  }
  // Restores the magnitudes above 2. Has barriers.
  __device__ bool restore_extras(uint32_t extras, uint32_t end) {
    const uint32_t order = temp_.order;
    bool good = true;
    if (extras != 0)
      good = find_ones(extras, end, [&](uint32_t i, uint32_t, uint32_t u) {
        temp_.of.extra[i] = static_cast<word>(u);
        return order + u < 8 * sizeof(T);
      });
    if (device::sync_block_or(!good)) return false;
    const own_range own(extras);
    uint32_t mine = 0, all;
#pragma unroll 1
    for (uint32_t i = own.begin; i < own.end; ++i) mine += order + temp_.of.extra[i];
    uint32_t at = temp_.unary_end + base::scan_sum(temp_, mine, all);
    const uint32_t last = temp_.unary_end + all;
    if (last > end || end - last >= 8 || get(last) != 0) return false;
#pragma unroll 1
    for (uint32_t i = own.begin; i < own.end; ++i) {
      const uint32_t width = order + temp_.of.extra[i];
      const uint32_t x = (1u << width) + (get(at) & low_mask(width)) - (1u << order);
      temp_.of.extra[i] = static_cast<word>(x + 3);
      at += width;
    }
    return true;
  }
  // Writes what changes to the row. `before`: the numbers of values of each class before the words of this thread.
  template <class Base> __device__ void restore_values(uint64_t before, uint32_t count, const Base& of_base) {
    const own_range own(mask_words(count));
#pragma unroll 1
    for (uint32_t w = own.begin; w < own.end; ++w)
#pragma unroll 1
      for (uint32_t c = 0; c < classes; ++c) {
        const uint32_t of_class = base::class_mask(temp_, w, c, count), values = popcount(of_class);
        const uint32_t at = temp_.begin[0][c] + base::of_class(before, c);
#pragma unroll 1
        for (uint32_t left = base::window(temp_.bits[0], at) & low_mask(values); left != 0; left &= left - 1) {
          const auto k = static_cast<uint32_t>(device::ffs(left) - 1);
          const uint32_t i = 32 * w + steps_format::place_of_one(of_class, k), step = base::rank(temp_, 0, at + k);
          uint32_t magnitude = 1;
          if (base::is_one(temp_.bits[1], step)) {
            const uint32_t second = base::rank(temp_, 1, step);
            magnitude = base::is_one(temp_.bits[2], second) ? temp_.of.extra[base::rank(temp_, 2, second)] : 2;
          }
          const auto x = static_cast<word>(base::is_one(temp_.sign, step) ? 0 - magnitude : magnitude);
          reinterpret_cast<word*>(const_cast<std::byte*>(from_))[i] = steps_format::change_of<T>(x, of_base.at(i));
        }
        before += uint64_t{values} << (16 * c);
      }
  }

  TempStorage& temp_;
  const std::byte* from_ = nullptr;
  const T* base_ = nullptr;
};

}  // namespace tuck::inline TUCK_ABI
