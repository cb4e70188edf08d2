// SPDX-License-Identifier: Apache-2.0
// The decoder of `steps` on one thread block.
#pragma once

#include <tuck/codec/steps/strings.cuh>

namespace tuck::inline TUCK_ABI {

template <floating_element T, int Threads> class block_decoder<steps<T>, Threads> : block_steps<T, Threads> {
  using base = block_steps<T, Threads>;
  using base::classes, base::rows, base::words;
  using typename base::own_range, typename base::scan, typename base::strings, typename base::tile, typename base::word;

 public:
  struct TempStorage : strings {
    uint32_t sign[words + 1];
    uint32_t signs, unary_end;  // in bits of the chunk
    union {
      // Before the one that ends each quotient of a row. A list has at most half as many as its string has bits.
      uint16_t zeros[tile::capacity / 2];
      word extra[tile::capacity];  // u, then the magnitude
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
    device::sync_warp();  // the header may end in these
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
    emit_strip<tile>(count, from, sink);
    return status::ok;
  }

 private:
  // Returns 32 bits of the chunk from a bit on that is at most its end, or in the header. 32 zeros follow the chunk.
  __device__ uint32_t get(uint32_t bit) const { return base::window(reinterpret_cast<const uint32_t*>(from_), bit); }

  // Reads the header with one thread. `signs` is then where it ends. Returns false if encoders write no such header.
  __device__ bool read_header() {
    // Its end may be in the zeros behind the chunk. `read` refuses that later.
    static_assert(steps_format::threshold_bits + steps_format::order_bits +
                      rows * (steps_format::width_bits + classes * steps_format::max_width) <=
                  8 * 32);
    uint32_t at = 0;
    const auto read_bits = [&](uint32_t bits) {
      const uint32_t x = get(at) & low_mask(bits);
      at += bits;
      return x;
    };
    temp_.threshold = read_bits(steps_format::threshold_bits);
    uint32_t ones = 1;
    bool good = temp_.threshold < steps_format::exponent_fields<T>;
#pragma unroll 1
    for (uint32_t row = 0; row < rows; ++row) {
      const uint32_t width = ones != 0 ? read_bits(steps_format::width_bits) : 0;
      good &= width <= steps_format::max_width;
      ones = 0;
#pragma unroll 1
      for (uint32_t c = 0; c < classes; ++c) {
        temp_.begin[row + 1][c] = ones;
        ones += read_bits(width < steps_format::max_width ? width : steps_format::max_width);
      }
      temp_.begin[row + 1][classes] = ones;
      good &= width == 0 || ones != 0;
    }
    temp_.order = ones != 0 ? read_bits(steps_format::order_bits) : 0;
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
        return i + 1 != entries || zeros <= 0xffff;  // they ascend: if the last fits in 16 bits, all do
      };
      if (device::sync_block_or(!find_ones(entries, end, set))) return false;
      if (device::sync_block_or(!set_ones(row, remainders))) return false;
    } else {
      device::sync_block();
    }
    const own_range own(words);
#pragma unroll 1
    for (uint32_t w = own.begin; w < own.end; ++w) temp_.bits[row][w] = base::inverted(temp_, row, w);
    device::sync_block();
    base::find_ranks(temp_, row);
    return true;
  }
  // Finds `wanted` > 0 ones from unary_end on, and moves it behind the last. Calls set(i, zeros before one i, zeros
  // since the one before it, up to 32). Returns false if there are too few ones or if `set` does. Has barriers; the
  // caller puts one behind it.
  template <class Set> __device__ bool find_ones(uint32_t wanted, uint32_t end, const Set& set) {
    const uint32_t first = temp_.unary_end;  // all threads read it before a barrier of scan_sum; then one may write it
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
    return good && found >= wanted;
  }
  // Sets the ones of a row, or zeros as ones, from its entries. Returns false if one is not in its string. Has
  // barriers.
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
        static_assert(sizeof(T) <= 4);  // the shifts below are then by less than 32
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
          const uint32_t i = 32 * w + steps_format::position_of_one(of_class, k), step = base::rank(temp_, 0, at + k);
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
