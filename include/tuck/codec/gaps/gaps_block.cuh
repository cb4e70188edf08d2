// Gaps on one thread block. The bytes are those of gaps.hpp.
//
// The indices and bits of the non-zero values are two lists in shared memory. Each thread has consecutive entries, and
// a scan computes the offsets of their bits. Decoding finds the 1 bits of the quotients in parallel: the i-th 1 bit
// ends the i-th quotient, and the number of zeros before it is the sum of all quotients up to that point.
#pragma once

#include <tuck/codec/gaps/gaps.hpp>
#include <tuck/codec/mask_block.cuh>

namespace tuck::inline TUCK_ABI {

/// What encoder and decoder share.
template <element T, int Threads> struct block_gaps {
  using tile = block_tile<T, Threads>;
  using scan = device::block_scan<Threads>;
  using word = bits_t<T>;
  using header = gaps_format::header;
  static constexpr uint32_t most_values = tile::capacity / 4;

  struct lists {
    uint16_t at[2 * most_values];  // indices; decoding: first the zeros before each 1 bit, of classes from k on
    word value[most_values];
    typename scan::TempStorage of_scan;
  };

  using own_entries = detail::own_range<Threads>;
  // Three sums in one word: bits of quotients, bits of classes, and number of stored values.
  struct sums {
    uint64_t word = 0;
    __device__ void add(uint32_t quotients, uint32_t classes, bool is_stored) {
      word += quotients + (uint64_t{classes} << field) + (uint64_t{is_stored} << (2 * field));
    }
    __device__ uint32_t quotients() const { return static_cast<uint32_t>(word) & low_mask(field); }
    __device__ uint32_t classes() const { return static_cast<uint32_t>(word >> field) & low_mask(field); }
    __device__ uint32_t stored() const { return static_cast<uint32_t>(word >> (2 * field)); }
    static constexpr uint32_t field = 20;
  };
};

template <element T, int Threads> class block_codec<gaps<T>, Threads> : block_gaps<T, Threads> {
  using base = block_gaps<T, Threads>;
  using masks = block_masks<T, Threads>;
  using typename base::header, typename base::own_entries, typename base::scan, typename base::sums,
      typename base::word;

 public:
  using tile = block_tile<T, Threads>;

  struct TempStorage : base::lists {
    alignas(16) std::byte chunk[tile_bytes];  // the values, then the encoded chunk
    alignas(16) std::byte mask[masks::most_bytes];
    uint32_t all_wide, stored_wide;  // bits of the widest value, and of the widest stored one
  };

  static constexpr int registers = 80;
  static constexpr bool keeps_tile = false;

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t measure(const gaps<T>&, const tile& values) {
    masks mask;
    mask.find_non_zeros(values);
    mask.store(temp_.mask);
    store_to_row(values, tile_bytes, temp_.chunk);
    if (threadIdx.x == 0) temp_.all_wide = temp_.stored_wide = 0;
    device::sync_block();
    const uint32_t k = list(values.count / 4);
    if (k > values.count / 4) return incompressible;
    device::sync_block();
    const uint32_t r = rice::remainder_bits(k, values.count);
    const sums all = sum(k, r);
    const uint32_t all_wide = temp_.all_wide, stored_wide = temp_.stored_wide;
    const uint32_t with_classes = all.classes() + all.stored() * stored_wide, without = k * all_wide;
    const bool has_classes = with_classes < without;
    header_ = header::make(k, r, has_classes ? stored_wide : all_wide, has_classes);
    classes_ = gaps_format::header_bits + k * r + all.quotients();
    stored_ = classes_ + (has_classes ? all.classes() : 0);
    return ceil_div(stored_ + (has_classes ? all.stored() : k) * header_.value_bits(), 8u);
  }

  __device__ std::byte* chunk() { return temp_.chunk; }
  template <class Values> __device__ void write(const gaps<T>&, const Values&, std::byte* to) {
    zero_shared<Threads>(to);
    device::sync_block();
    if (threadIdx.x == 0) *reinterpret_cast<uint32_t*>(to) = header_.word;
    const uint32_t k = header_.values(), r = header_.remainder_bits(), w = header_.value_bits();
    const bool has_classes = header_.has_classes();
    const own_entries own(k);
    uint32_t quotient = gaps_format::header_bits + k * r + before_.quotients(), c_at = classes_ + before_.classes();
    device::shared_bit_writer remainders(to, gaps_format::header_bits + own.begin * r);
    device::shared_bit_writer stored(to, stored_ + (has_classes ? before_.stored() : own.begin) * w);
#pragma unroll 1
    for (uint32_t i = own.begin; i < own.end; ++i) {
      const uint32_t gap = gap_of(i);
      const word x = temp_.value[i];
      const uint32_t c = gaps_format::class_of(x);
      remainders.put(gap & low_mask(r), r);
      put_one(to, quotient += gap >> r);
      ++quotient;
      if (has_classes) put_one(to, c_at += c);
      ++c_at;
      if (has_classes && c != gaps_format::stored_class) continue;
      stored.put_word(x, w);
    }
    remainders.finish();
    stored.finish();
  }

 private:
  // Lists the indices and bits of the non-zero values; each thread lists those of some mask words. Returns their
  // number. If it exceeds `most`, lists nothing.
  __device__ uint32_t list(uint32_t most) {
    constexpr uint32_t words = tile::capacity / 32, each = ceil_div(words, uint32_t{Threads});
    const uint32_t first = each * threadIdx.x;
    uint32_t ones[each], own = 0, all;
#pragma unroll
    for (uint32_t j = 0; j < each; ++j) {
      ones[j] = first + j < words ? reinterpret_cast<const uint32_t*>(temp_.mask)[first + j] : 0;
      own += popcount(ones[j]);
    }
    uint32_t i = scan::exclusive_sum(temp_.of_scan, own, all);
    if (all > most) return all;
#pragma unroll
    for (uint32_t j = 0; j < each; ++j)
#pragma unroll 1
      for (uint32_t left = ones[j]; left != 0; left &= left - 1, ++i) {
        const uint32_t at = 32 * (first + j) + static_cast<uint32_t>(device::ffs(left) - 1);
        temp_.at[i] = static_cast<uint16_t>(at);
        temp_.value[i] = reinterpret_cast<const word*>(temp_.chunk)[at];
      }
    return all;
  }
  __device__ uint32_t gap_of(uint32_t i) const { return temp_.at[i] - (i != 0 ? temp_.at[i - 1] + 1u : 0u); }

  // Returns the sums over all entries, and sets before_ to the sums before this thread's entries. Has barriers.
  __device__ sums sum(uint32_t k, uint32_t r) {
    sums mine;
    word any = 0, any_stored = 0;
    const own_entries own(k);
#pragma unroll 1
    for (uint32_t i = own.begin; i < own.end; ++i) {
      const word x = temp_.value[i];
      const uint32_t c = gaps_format::class_of(x);
      const bool is_stored = c == gaps_format::stored_class;
      mine.add((gap_of(i) >> r) + 1, c + 1, is_stored);
      any |= x;
      any_stored |= is_stored ? x : word{0};
    }
    const uint32_t all_wide = device::warp_max(gaps_format::width_of(any));
    const uint32_t stored_wide = device::warp_max(gaps_format::width_of(any_stored));
    if (device::lane_id() == 0) {
      device::atomic_max(&temp_.all_wide, all_wide);
      device::atomic_max(&temp_.stored_wide, stored_wide);
    }
    sums all;
    before_.word = scan::exclusive_sum(temp_.of_scan, mine.word, all.word);
    device::sync_block();
    return all;
  }
  __device__ static void put_one(std::byte* to, uint32_t bit) {
    device::atomic_or(reinterpret_cast<uint32_t*>(to) + bit / 32, 1u << bit % 32);
  }

  TempStorage& temp_;
  // Of the measured chunk.
  header header_;
  sums before_;
  uint32_t classes_ = 0, stored_ = 0;  // offsets of classes and of stored values, in bits
};

template <element T, int Threads> class block_decoder<gaps<T>, Threads> : block_gaps<T, Threads> {
  using base = block_gaps<T, Threads>;
  using typename base::header, typename base::own_entries, typename base::scan, typename base::sums,
      typename base::tile, typename base::word;

 public:
  struct TempStorage : base::lists {
    uint32_t unary_end;
  };

  static constexpr int registers = 80;

  __device__ explicit block_decoder(TempStorage& temp) : temp_(temp) {}

  /// The values are restored where the chunk was.
  template <class Sink>
  __device__ status read(const gaps<T>&, std::byte* from, uint32_t end, uint32_t count, Sink& sink) {
    if (end < gaps_format::header_bits / 8 || end >= count * sizeof(T)) return status::bad_payload;
    from_ = from;
    if (threadIdx.x < 16) from[end + threadIdx.x] = std::byte{};
    device::sync_block();
    const header h{*reinterpret_cast<const uint32_t*>(from)};
    if (!h.fits(count, 8 * sizeof(T)) || gaps_format::header_bits + h.values() * h.remainder_bits() > 8 * end ||
        device::sync_block_or(!find_ones(h, 8 * end)) || device::sync_block_or(!restore(h, 8 * end, count)))
      return status::bad_payload;
    zero_shared<Threads>(from);
    device::sync_block();
    for (uint32_t i = threadIdx.x; i < h.values(); i += Threads)
      reinterpret_cast<word*>(from)[temp_.at[i]] = temp_.value[i];
    device::sync_block();
    emit_row<tile>(count, from, sink);
    return status::ok;
  }

 private:
  // Returns 32 bits of the chunk from a bit on that is at most its end. Zeros follow the chunk.
  __device__ uint32_t get(uint32_t bit) const { return device::shared_window(words(), bit); }
  __device__ const uint32_t* words() const { return reinterpret_cast<const uint32_t*>(from_); }

  // Finds the 1 bits that end quotients and classes, and stores the zeros before each. Returns false if there are too
  // few 1 bits, or more zeros than any chunk has.
  __device__ bool find_ones(const header& h, uint32_t end) {
    const uint32_t k = h.values(), wanted = h.has_classes() ? 2 * k : k;
    const uint32_t first = gaps_format::header_bits + k * h.remainder_bits();
    if (threadIdx.x == 0 && wanted == 0) temp_.unary_end = first;
    uint32_t found = 0;
    bool good = true;
    for (uint32_t begin = first; found < wanted && begin < end; begin += 32 * Threads) {
      const uint32_t bit = begin + 32 * threadIdx.x;
      uint32_t ones = bit < end ? get(bit) : 0, all;
      uint32_t i = found + scan::exclusive_sum(temp_.of_scan, popcount(ones), all);
#pragma unroll 1
      for (; ones != 0 && i < wanted; ones &= ones - 1, ++i) {
        const uint32_t at = bit + static_cast<uint32_t>(device::ffs(ones) - 1), zeros = at - first - i;
        temp_.at[i] = static_cast<uint16_t>(zeros);
        if (i + 1 != wanted) continue;
        good = zeros <= 0xffff;
        temp_.unary_end = at + 1;
      }
      found += all;
      device::sync_block();
    }
    return good && found >= wanted;
  }

  // Makes the lists from what find_ones stored. Returns false if no encoder writes such a chunk.
  __device__ bool restore(const header& h, uint32_t end, uint32_t count) {
    const uint32_t k = h.values(), r = h.remainder_bits(), w = h.value_bits(), values = temp_.unary_end;
    const own_entries own(k);
    const uint32_t quotients = k != 0 ? temp_.at[k - 1] : 0;
    const auto class_at = [&](uint32_t i) {
      return h.has_classes() ? temp_.at[k + i] - (i != 0 ? temp_.at[k + i - 1] : quotients) : gaps_format::stored_class;
    };
    const auto remainder = [&](uint32_t i) { return get(gaps_format::header_bits + i * r) & low_mask(r); };
    sums mine;
#pragma unroll 1
    for (uint32_t i = own.begin; i < own.end; ++i) mine.add(remainder(i), 0, class_at(i) == gaps_format::stored_class);
    uint64_t all;
    mine.word = scan::exclusive_sum(temp_.of_scan, mine.word, all);
    const uint32_t last = values + static_cast<uint32_t>(all >> (2 * sums::field)) * w;
    device::sync_block();  // class_at reads what the next loop overwrites
    if (last > end || end - last >= 8 || get(last) != 0) return false;
    uint32_t before = static_cast<uint32_t>(mine.word), at = values + mine.stored() * w;
    bool good = true;
#pragma unroll 1
    for (uint32_t i = own.begin; i < own.end; ++i) {
      const uint32_t c = class_at(i);
      before += remainder(i);
      const uint32_t index = (uint32_t{temp_.at[i]} << r) + before + i;
      good &= index < count && c <= 8 * sizeof(T);
      temp_.at[i] = static_cast<uint16_t>(index);
      const bool is_stored = c == gaps_format::stored_class;
      temp_.value[i] = is_stored ? device::shared_bits<word>(words(), at, w) : static_cast<word>(gaps_format::ones(c));
      at += is_stored ? w : 0;
    }
    return good;
  }

  TempStorage& temp_;
  const std::byte* from_ = nullptr;
};

}  // namespace tuck::inline TUCK_ABI
