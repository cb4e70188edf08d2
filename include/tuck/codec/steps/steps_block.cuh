// SPDX-License-Identifier: Apache-2.0
// Steps on one thread block. The bytes are those of layout.hpp.
#pragma once

#include <tuck/codec/steps/decoder.cuh>

namespace tuck::inline TUCK_ABI {

template <floating_element T, int Threads> class block_codec<steps<T>, Threads> : block_steps<T, Threads> {
  using base = block_steps<T, Threads>;
  using masks = block_masks<T, Threads>;
  using base::classes, base::rows, base::words;
  using typename base::own_range, typename base::strings, typename base::word;
  static constexpr uint32_t fields = steps_format::exponent_fields<T>;

 public:
  using tile = block_tile<T, Threads>;

  struct TempStorage : strings {
    alignas(16) std::byte chunk[tile_bytes];  // the step of each value, then the encoded chunk
    union {
      struct {
        uint32_t values[fields], changes[fields];  // with each exponent field, or more
      } have;                                      // until the threshold is chosen
      word step[tile::capacity];                   // of the values that change, class by class
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
    store_to_strip(values, tile_bytes, temp_.chunk);
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
    const uint32_t bits = lane > top ? ~0u : steps_format::estimated_bits(top - lane, have.values, have.changes);
    const uint32_t least = device::warp_min(bits);
    const unsigned best = device::ballot(bits == least);
    if (lane == 0) temp_.threshold = all_changed == 0 ? 0 : top - static_cast<uint32_t>(device::ffs(best) - 1);
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
          visit(32 * w + bit, temp_.begin[0][c] + base::of_class(before, c) + popcount(of_class & low_mask(bit)));
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
    // Three sums. A chunk has at most 16384 values, with 2^17 bits in all.
    //
    //    63               40 39               20 19                0
    //   +-------------------+-------------------+-------------------+
    //   | bit widths of x   | magnitudes over 2 | magnitudes over 1 |   x: a magnitude over 2, less 3
    //   +-------------------+-------------------+-------------------+
    constexpr uint32_t field = 20;
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
    set_begin(2);  // its barriers lie before what reads the order and the bits of row 2
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
  // Sums for the extras of this thread: [63:32] bits of the extras, [31:0] bits of their unary numbers.
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
  __device__ static void put_one(std::byte* to, uint32_t bit) { base::set_one(reinterpret_cast<uint32_t*>(to), bit); }

  TempStorage& temp_;
  const T* base_ = nullptr;
};

}  // namespace tuck::inline TUCK_ABI
