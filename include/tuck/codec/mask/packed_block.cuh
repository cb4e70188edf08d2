// SPDX-License-Identifier: Apache-2.0
// Masks that compress themselves (packed.hpp), by one thread block.
//
// The mask lies in shared memory. Each thread has some consecutive words of it, makes their marks, and counts what
// these have; one scan gives the offsets of all parts. The decoder needs a scan for each part whose size the part
// before it tells.
#pragma once

#include <tuck/codec/mask/block_masks.cuh>
#include <tuck/codec/mask/rle.hpp>

namespace tuck::inline TUCK_ABI {

/// The mask of rle and packed_zvc (C), as block_mask_codec uses it.
template <class C, int Threads> class packed_mask {
  using T = value_t<C>;
  using head = packed_masks::head;
  using masks = block_masks<T, Threads>;
  using sums = typename masks::sums;
  using tile = typename masks::tile;
  using scan = device::block_scan<Threads>;
  using mark_bytes = packed_masks::mark_bytes;
  // Sizes in one word, for scans: words, bytes, and bytes with more than one 1.
  using packed_sizes = std::conditional_t<(sizeof(T) > 1), uint32_t, uint64_t>;
  static constexpr uint32_t field = sizeof(T) > 1 ? 11 : 21;
  static_assert(tile::capacity / 8 < 1u << field && tile::capacity / 32 < 1u << (8 * sizeof(packed_sizes) - 2 * field));

  static constexpr uint32_t warps = Threads / device::warp_size;
  static constexpr uint32_t most_words = tile::capacity / 32;
  static constexpr uint32_t each = ceil_div(most_words, uint32_t{Threads});  // words of a thread
  static_assert(most_words <= 32 * 32, "a lane for each word of `set`");

 public:
  static constexpr bool has_runs = C::has_runs, has_signs = true;

  struct TempStorage {
    typename masks::TempStorage of_masks;
    alignas(16) uint32_t mask[most_words];
    bits_t<T> last[warps];  // the last value of each warp
    typename scan::TempStorage scans[2];
    uint32_t of_warps[warps][packed_masks::rules / 2];
  };

  __device__ explicit packed_mask(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t kind() const { return head_.kind(); }
  __device__ uint32_t signs_begin() const { return signs_begin_; }

  __device__ uint32_t measure(const C& codec, const tile& values, masks& mask, sums& ones) {
    count_ = values.count;
    const uint32_t kind = find(codec, values, mask, ones);
    mask.store(reinterpret_cast<std::byte*>(temp_.mask));
    device::sync_block();
    uint32_t words[each + 1] = {};  // the word before this thread's, and these
    if (const uint32_t w = threadIdx.x * each; w > 0 && w < most_words) words[0] = temp_.mask[w - 1];
    each_word([&](uint32_t w, uint32_t r) { words[r + 1] = temp_.mask[w]; });
    const uint32_t rule = best_rule(words);
    // Behind its barrier the marks take the place of the mask.
    packed_sizes mine = 0, all;
    each_word([&](uint32_t w, uint32_t r) {
      const uint32_t marks = packed_masks::marks_of(words[r + 1], words[r], rule, valid(w));
      temp_.mask[w] = marks;
      const mark_bytes x(marks);
      mine += packed_sizes{x.some != 0} << 2 * field | packed_sizes{popcount(x.some)} << field | popcount(x.more);
    });
    before_ = sizes_of(scan::exclusive_sum(temp_.scans[0], mine, all));
    all_ = sizes_of(all);
    const uint32_t plain = 4 * mask_words(count_), packed = all_.end(count_);
    head_ = head::make(kind, rule, packed < plain);
    signs_begin_ = 4 + (packed < plain ? packed : plain);
    return C::values_begin(signs_begin_ + C::sign_bytes(kind, count_ - ones.all));
  }

  __device__ void write(const masks& mask, uint32_t values_begin, std::byte* to) {
    auto* const words = reinterpret_cast<uint32_t*>(to);
    if constexpr (sizeof(T) > 1) {  // otherwise all of it is 0
      for (uint32_t i = threadIdx.x; 4 * i < values_begin; i += Threads) words[i] = 0;
      device::sync_block();
    }
    if (threadIdx.x == 0) words[0] = head_.word;
    if (!head_.packed()) {
      mask.store(to + 4);
      device::sync_block();
    } else {
      uint32_t set = 0;
      device::shared_bit_writer some(to, 8 * (4 + packed_masks::sizes::some_begin(count_)) + 4 * before_.words);
      device::shared_bit_writer more(to, 8 * (4 + all_.more_begin(count_)) + before_.bytes);
      device::shared_bit_writer ones(to, 8 * (4 + all_.ones_begin(count_)) + 3 * before_.bytes + 5 * before_.more);
      each_word([&](uint32_t w, uint32_t) {
        const uint32_t marks = temp_.mask[w];
        if (marks == 0) return;
        set |= 1u << w % 32;
        const mark_bytes x(marks);
        const uint32_t packed = x.pack(marks);
        // Where each byte ends: in bytes [7:0], [15:8], ...
        const uint32_t flag_ends = x.some * 0x01010101u, field_ends = x.widths() * 0x01010101u;
        uint32_t flags = x.more & 1, fields = packed & 255;
#pragma unroll
        for (uint32_t k = 1; k < 4; ++k) {
          flags |= (x.more >> 8 * k & 1) << (flag_ends >> 8 * (k - 1) & 255);
          fields |= (packed >> 8 * k & 255) << (field_ends >> 8 * (k - 1) & 31);
        }
        some.put(mark_bytes::joined(x.some), 4);
        more.put(flags, flag_ends >> 24);
        ones.put(fields, field_ends >> 24);
      });
      if (set != 0) device::atomic_or(words + 1 + threadIdx.x * each / 32, set);
      some.finish();
      more.finish();
      ones.finish();
    }
    if constexpr (sizeof(T) < 4) device::sync_block();  // values may share a word with what is before them
  }

  template <bool Full>
  __device__ bool read(const C&, const std::byte* from, uint32_t size, uint32_t count, masks& mask) {
    count_ = Full ? tile::capacity : count;
    const auto* const words = reinterpret_cast<const uint32_t*>(from);
    head_ = {size < 4 ? ~0u : words[0]};
    if (!head_.fits(has_runs)) return false;
    bool sound = true;
    if (head_.packed()) {
      if (!unpack(from, size, sound)) return false;
    } else {
      signs_begin_ = 4 + 4 * mask_words(count_);
      if (signs_begin_ > size) return false;
      each_word([&](uint32_t w, uint32_t) {
        const uint32_t x = w < mask_words(count_) ? words[1 + w] : 0;
        sound &= (x & ~valid(w)) == 0;
        temp_.mask[w] = x;
      });
    }
    if (head_.kind() != head::both_zeros && device::warp_id() == 0) {
      device::sync_warp();  // its first threads have written what lies behind the chunk (mask_block.cuh)
      sound &= ends_well(from, size, 0);
    }
    if (device::sync_block_or(!sound)) return false;
    mask.template load<true>(reinterpret_cast<const std::byte*>(temp_.mask));
    return true;
  }
  __device__ uint32_t values_begin(const std::byte* from, uint32_t size, uint32_t zeros) const {
    if (head_.kind() != head::both_zeros) return C::values_begin(signs_begin_);
    return ends_well(from, size, zeros) ? C::values_begin(signs_begin_ + C::sign_bytes(head::both_zeros, zeros)) : ~0u;
  }

 private:
  __device__ uint32_t valid(uint32_t w) const { return packed_masks::valid_bits(w, count_); }
  // Calls visit(w, r) for each word w of this thread; r counts them.
  template <class Visit> __device__ static void each_word(const Visit& visit) {
#pragma unroll
    for (uint32_t r = 0; r < each; ++r)
      if (const uint32_t w = threadIdx.x * each + r; w < most_words) visit(w, r);
  }
  __device__ static packed_masks::sizes sizes_of(packed_sizes x) {
    return {static_cast<uint32_t>(x >> 2 * field), static_cast<uint32_t>(x >> field) & low_mask(field),
            static_cast<uint32_t>(x) & low_mask(field)};
  }

  // Returns the rule of the mask, of which `words` has the word before this thread's, and these. Has a barrier.
  __device__ uint32_t best_rule(const uint32_t (&words)[each + 1]) {
    using packed_masks::rules;
    uint32_t found[rules / 2] = {};  // two rules each: the latter in the upper half
    each_word([&](uint32_t w, uint32_t r) {
      if (!packed_masks::is_sample(w, sizeof(T))) return;
      const uint32_t there = valid(w);
      detail::unrolled<rules>([&]<int R>() {
        const uint32_t marks = packed_masks::marks_of(words[r + 1], words[r], R, there);
        found[R / 2] += popcount(mark_bytes::tops(marks)) << R % 2 * 16;
      });
    });
    const uint32_t lane = device::lane_id();
#pragma unroll
    for (uint32_t i = 0; i < rules / 2; ++i) {
      found[i] = device::warp_sum(found[i]);
      if (lane == 0) temp_.of_warps[device::warp_id()][i] = found[i];
    }
    device::sync_block();
    uint32_t best = ~0u;
#pragma unroll
    for (uint32_t i = 0; i < rules / 2; ++i) {
      found[i] = device::warp_sum(lane < warps ? temp_.of_warps[lane][i] : 0);
      const uint32_t first = (found[i] & 0xffffu) * rules + 2 * i, second = (found[i] >> 16) * rules + 2 * i + 1;
      best = first < best ? first : best;
      best = second < best ? second : best;
    }
    return best % rules;
  }

  // Finds the mask and its ones, and returns its kind.
  __device__ uint32_t find(const C& codec, const tile& values, masks& mask, sums& ones) {
    mask.find_non_zeros(values);
    uint32_t own = mask.ones();
    [[maybe_unused]] masks changes;
    if constexpr (has_runs) {
      const uint32_t warp = device::warp_id();
      if (device::lane_id() == 31) temp_.last[warp] = tile::value(values.w[tile::words - 1], tile::per_word - 1);
      device::sync_block();
      changes.find_changes(values, warp == 0 ? bits_t<T>{0} : temp_.last[warp - 1]);
      if (!values.is_full()) changes.clip(values.count);
      own |= changes.ones() << 16;
    }
    bool any;
    const sums both =
        masks::sum_warps(temp_.of_masks, device::warp_sum(own), codec.floats && may_have_negative_zeros(values), any);
    ones = {both.before & 0xffffu, both.all & 0xffffu};
    const uint32_t kind = any ? drop_negative_zeros(values, mask, ones) : uint32_t{head::zeros};
    if constexpr (has_runs)
      if (C::takes_runs(both.all >> 16, ones.all)) {
        ones = {both.before >> 16, both.all >> 16};
        mask = changes;
        return head::runs;
      }
    return kind;
  }

  // Returns true if this thread has a negative zero. May also return true if it has a denormal.
  __device__ static bool may_have_negative_zeros(const tile& values) {
    if constexpr (tile::per_word == 1) {
      int32_t least = 0;  // of the highest 4 bytes of each value: a negative zero has the least integer
#pragma unroll
      for (int j = 0; j < tile::words; ++j) {
        const auto x = static_cast<int32_t>(static_cast<uint32_t>(values.w[j] >> (8 * sizeof(values.w[j]) - 32)));
        least = x < least ? x : least;
      }
      return static_cast<uint32_t>(least) == 0x80000000u;
    } else {
      uint32_t found = 0;  // subtracting 1 clears the highest bit of a negative zero
#pragma unroll
      for (int j = 0; j < tile::words; ++j)
        found = device::or_and_not(found, values.w[j], values.w[j] - tile::repeat(bits_t<T>{1}));
      return (found & top()) != 0;
    }
  }
  // The highest bit of each value of a word.
  __device__ static typename tile::word top() {
    return tile::repeat(static_cast<bits_t<T>>(bits_t<T>{1} << (8 * sizeof(T) - 1)));
  }

  // Chooses the kind for a mask of non-zeros. If it is not `zeros`, clears the ones of negative zeros. Has barriers.
  __device__ uint32_t drop_negative_zeros(const tile& values, masks& mask, sums& ones) {
    masks others;
    tile bare;
#pragma unroll
    for (int j = 0; j < tile::words; ++j) bare.w[j] = values.w[j] & ~top();
    others.find_non_zeros(bare);
    device::sync_block();  // all threads have read the sums
    const sums of_others = masks::sum_warps(temp_.of_masks, device::warp_sum(others.ones()));
    const uint32_t kind = C::kind_of_zeros(count_ - of_others.all, ones.all - of_others.all);
    if (kind != head::zeros) {
      mask = others;
      ones = of_others;
    }
    return kind;
  }

  // Restores the mask from its packed form. Returns false to all threads if a part does not fit; clears `sound` of
  // threads that find what encoding does not write. Has barriers.
  __device__ __forceinline__ bool unpack(const std::byte* from, uint32_t size, bool& sound) {
    using packed_masks::sizes;
    const auto* const words = reinterpret_cast<const uint32_t*>(from);
    const uint32_t lane = device::lane_id(), count = mask_words(count_), end = size - 4;
    sizes all;
    if (sizes::some_begin(count_) > end) return false;
    // Words of `set`, one a lane.
    const uint32_t set = lane < sizes::some_begin(count_) / 4 ? words[1 + lane] : 0;
    if (lane == count / 32 && set >> count % 32 != 0) sound = false;
    const uint32_t up_to = device::warp_inclusive_sum(popcount(set));
    all.words = device::shfl(up_to, 31);
    const uint32_t more_begin = all.more_begin(count_);
    if (more_begin > end) return false;
    const uint32_t first = threadIdx.x * each;  // the lane that has the set of word w is w / 32
    const auto owner = static_cast<int>(first < most_words ? first / 32 : 31);
    const uint32_t there = device::shfl(set, owner);
    uint32_t bit = 8 * (4 + sizes::some_begin(count_)) +
                   4 * (device::shfl(up_to - popcount(set), owner) + popcount(there & low_mask(first % 32)));
    mark_bytes x[each];
    uint32_t mine = 0;
    each_word([&](uint32_t w, uint32_t r) {
      if ((there >> w % 32 & 1) == 0) return;
      const uint32_t some = static_cast<uint32_t>(from[bit / 8]) >> bit % 8 & 15;
      bit += 4;
      sound &= some != 0;
      x[r].some = mark_bytes::split(some);
      mine += popcount(some);
    });
    bit = scan::exclusive_sum(temp_.scans[0], mine, all.bytes);
    if (threadIdx.x == 0) sound &= zeros_up_to_byte(words, 8 * (4 + sizes::some_begin(count_)) + 4 * all.words);
    const uint32_t ones_begin = all.ones_begin(count_);
    if (ones_begin > end) return false;
    uint32_t ones_bit = 8 * (4 + ones_begin) + 3 * bit;
    bit += 8 * (4 + more_begin);
    mine = 0;
    each_word([&](uint32_t, uint32_t r) {
      const uint32_t flags = device::shared_window(words, bit), ends = x[r].some * 0x01010101u;
      bit += ends >> 24;
      x[r].more = flags & 1;
#pragma unroll
      for (uint32_t k = 1; k < 4; ++k) x[r].more |= (flags >> (ends >> 8 * (k - 1) & 31) & 1) << 8 * k;
      x[r].more &= x[r].some;
      mine += popcount(x[r].more);
    });
    ones_bit += 5 * scan::exclusive_sum(temp_.scans[1], mine, all.more);
    if (all.end(count_) > end || all.end(count_) >= 4 * count) return false;
    signs_begin_ = 4 + all.end(count_);
    if (threadIdx.x == 0) sound &= zeros_up_to_byte(words, 8 * (4 + more_begin) + all.bytes);
    if (threadIdx.x == 1) sound &= zeros_up_to_byte(words, 8 * (4 + ones_begin) + 3 * all.bytes + 5 * all.more);
    const bool adds = head_.rule() >= packed_masks::first_difference;
    const uint32_t distance = adds ? packed_masks::distance_of(head_.rule()) : 32;
    const uint32_t ones_at = packed_masks::every(distance);
    uint32_t mask[each], last = 0;
    each_word([&](uint32_t w, uint32_t r) {
      const uint32_t bits = device::shared_window(words, ones_bit), ends = x[r].widths() * 0x01010101u;
      ones_bit += ends >> 24;
      uint32_t fields = bits & 255;
#pragma unroll
      for (uint32_t k = 1; k < 4; ++k) fields |= (bits >> (ends >> 8 * (k - 1) & 31) & 255) << 8 * k;
      const uint32_t marks = x[r].unpack(fields & x[r].fields());
      sound &= x[r].fits(marks) && (marks & ~valid(w)) == 0;
      mask[r] = adds ? packed_masks::sum_bits(marks, distance) ^ last : marks;
      last = packed_masks::repeat_last(mask[r], distance, ones_at);
    });
    const uint32_t flips = adds ? exclusive_xor(last) : head_.rule() == packed_masks::inverted ? ~0u : 0;
    each_word([&](uint32_t w, uint32_t r) { temp_.mask[w] = (mask[r] ^ flips) & valid(w); });
    return true;
  }
  // Returns the XOR of what the threads before this one have. Has a barrier.
  __device__ uint32_t exclusive_xor(uint32_t mine) {
    const uint32_t lane = device::lane_id();
    uint32_t up_to = mine, before = 0;
#pragma unroll
    for (uint32_t by = 1; by < device::warp_size; by *= 2)
      if (const uint32_t other = device::shfl_up(up_to, by); lane >= by) up_to ^= other;
    if (lane == device::warp_size - 1) temp_.of_warps[device::warp_id()][0] = up_to;
    device::sync_block();
#pragma unroll
    for (uint32_t w = 0; w + 1 < warps; ++w) before ^= w < device::warp_id() ? temp_.of_warps[w][0] : 0;
    return before ^ up_to ^ mine;
  }
  // Returns whether the bits from `bit` up to the next byte are 0.
  __device__ static bool zeros_up_to_byte(const uint32_t* words, uint32_t bit) {
    return (device::shared_window(words, bit) & low_mask((0 - bit) % 8)) == 0;
  }
  // Returns whether the bits from the last sign, of those of `zeros` values, up to the values are 0.
  __device__ bool ends_well(const std::byte* from, uint32_t size, uint32_t zeros) const {
    const uint32_t begin = C::values_begin(signs_begin_ + C::sign_bytes(head_.kind(), zeros));
    const uint32_t end = 8 * signs_begin_ + (head_.kind() == head::both_zeros ? zeros : 0);
    using bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;  // fewer than 8 + 8 sizeof(T)
    return begin <= size &&
           device::shared_bits<bits>(reinterpret_cast<const uint32_t*>(from), end, 8 * begin - end) == 0;
  }

  TempStorage& temp_;
  // Of the chunk that is encoded or decoded.
  uint32_t count_ = 0, signs_begin_ = 0;
  head head_{};
  // Encoding: what the marks before this thread's have, and all marks.
  packed_masks::sizes before_, all_;
};

}  // namespace tuck::inline TUCK_ABI
