// RLE by one thread block: the bytes of rle.hpp.
//
// Masks of both kinds are made at once, and the one with fewer ones goes on. It is put into shared memory, where a
// thread then has a group of 8 bytes of it and one scan says where its parts of L1 and L0 go. Decoding goes the same
// way back.
#pragma once

#include <tuck/codec/mask_block.cuh>
#include <tuck/codec/rle/rle.hpp>

namespace tuck::inline TUCK_ABI {

namespace detail {
// clang-format off
template <class C>
concept any_rle = std::is_same_v<C, rle<typename C::value_type>> || std::is_same_v<C, rle_zero<typename C::value_type>>;
// clang-format on
}  // namespace detail

template <detail::any_rle C, int Threads> struct block_codec<C, Threads> {
  using T = value_t<C>;
  using layout = rle_layout<T>;
  using masks = block_masks<T, Threads>;
  using tile = typename masks::tile;

  static constexpr uint32_t warps = Threads / device::warp_size;
  static constexpr uint32_t groups = tile::capacity / layout::group;
  static constexpr uint32_t rounds = ceil_div(groups, uint32_t{Threads});  // groups of a thread, Threads apart

  struct TempStorage {
    alignas(16) std::byte encoded[tile_bytes + 16];  // the chunk as it stands in the frame, which is less than raw
    alignas(8) std::byte mask[masks::most_bytes];
    bits_t<T> first[warps], last[warps];
    typename masks::TempStorage of_masks;
  };

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t measure(const C&, const tile& values) {
    masks::prepare_put(temp_.of_masks);
    if constexpr (sizeof(T) == 1) zero_shared<Threads>(temp_.encoded);
    const uint32_t kind = find_masks(values);
    masks_.store(temp_.mask, masks::most_bytes);
    device::sync_block();
    values_begin_ = write_levels(kind, values.count);
    size_ = values_begin_ + ones_.all * uint32_t{sizeof(T)};
    return size_;
  }

  __device__ void pack(const C& codec, const tile& values, bytes out) {
    if constexpr (sizeof(T) != 1)
      for (uint32_t i = size_ + threadIdx.x; i < out.size(); i += Threads) temp_.encoded[i] = std::byte{};
    assemble(codec, values);
    device::sync_block();
    copy_from_shared<Threads>(out, temp_.encoded);
  }

  template <class Sink> __device__ status decode(const C& codec, const_bytes encoded, uint32_t count, Sink& sink) {
    if (encoded.size() > tile_bytes) return status::bad_payload;
    copy_to_shared<Threads>(temp_.encoded, encoded);
    device::sync_block();
    return decode_assembled(codec, any_side, static_cast<uint32_t>(encoded.size()), count, sink);
  }

  // -- for chains
  __device__ uint32_t side_bytes(uint32_t) const { return values_begin_; }
  __device__ std::byte* encoded(uint32_t) { return temp_.encoded; }

  __device__ void assemble(const C&, const tile& values) {
    masks_.put(temp_.of_masks, values, masks_.find_places(ones_.before), temp_.encoded + values_begin_);
  }

  template <class Sink>
  __device__ status decode_assembled(const C&, uint32_t side, uint32_t size, uint32_t count, Sink& sink) {
    if (size >= count * sizeof(T) || size < layout::l1_begin(count)) return status::bad_payload;
    const uint32_t kind = reinterpret_cast<const uint32_t*>(temp_.encoded)[0];
    uint32_t values_begin;
    if (kind >= C::kinds || !read_levels(size, count, values_begin)) return status::bad_payload;
    if (side != any_side && side != values_begin) return status::bad_payload;
    std::byte* const packed = temp_.encoded + values_begin;
    masks::prepare_get(temp_.of_masks);
    if constexpr (sizeof(T) == 1)
      if (threadIdx.x < 8) temp_.encoded[size + threadIdx.x] = std::byte{};
    if (kind == 1 && threadIdx.x < sizeof(T))
      packed[static_cast<int>(threadIdx.x) - static_cast<int>(sizeof(T))] = std::byte{};
    masks_.load(temp_.mask, masks::most_bytes);
    const uint32_t ones = device::warp_sum(masks_.ones());
    if (device::lane_id() == 0) temp_.of_masks.of_warp[device::warp_id()] = ones;
    device::sync_block();
    ones_ = masks::sum_warps(temp_.of_masks.of_warp);
    if (values_begin + ones_.all * sizeof(T) != size) return status::bad_payload;
    const typename masks::places places = masks_.find_places(ones_.before);
    if (kind == 0)
      get_values<false>(places, packed, count, sink);
    else
      get_values<true>(places, packed, count, sink);
    return status::ok;
  }

 private:
  static constexpr uint32_t any_side = ~0u;

  // -- encoding ------------------------------------------------------------------------------------------------------

  // Into masks_, and their ones; returns their kind. With a barrier.
  __device__ uint32_t find_masks(const tile& values) {
    masks_.find_non_zeros(values);
    if constexpr (C::kinds == 1) {
      const uint32_t ones = device::warp_sum(masks_.ones());
      if (device::lane_id() == 0) temp_.of_masks.of_warp[device::warp_id()] = ones;
      device::sync_block();
      ones_ = masks::sum_warps(temp_.of_masks.of_warp);
      return 0;
    } else {
      masks changes;
      changes.find_changes(values);
      if (!values.is_full()) changes.clip(values.count);
      const uint32_t both = device::warp_sum(masks_.ones() << 16 | changes.ones());
      if (device::lane_id() == 0) {
        temp_.of_masks.of_warp[device::warp_id()] = both;
        temp_.first[device::warp_id()] = tile::value(values.w[0], 0);
      }
      if (device::lane_id() == 31)
        temp_.last[device::warp_id()] = tile::value(values.w[tile::words - 1], tile::per_word - 1);
      device::sync_block();
      // A lane a warp: is its first value a change?
      const uint32_t warp = device::lane_id();
      uint32_t counted = 0;
      bool change = false;
      if (warp < warps) {
        const bits_t<T> before = warp == 0 ? bits_t<T>{0} : temp_.last[warp - 1];
        change = warp * (tile::capacity / warps) < values.count && temp_.first[warp] != before;
        counted = temp_.of_masks.of_warp[warp] + change;
      }
      const uint32_t first_changes = device::ballot(change);
      const uint32_t all = device::warp_sum(counted), before = device::warp_sum(warp < device::warp_id() ? counted : 0);
      const uint32_t kind = (all & 0xffffu) < all >> 16;
      ones_ = kind == 0 ? typename masks::sums{before >> 16, all >> 16}
                        : typename masks::sums{before & 0xffffu, all & 0xffffu};
      if (kind == 1) {
        masks_ = changes;
        if (device::lane_id() == 0) masks_.bits[0] |= first_changes >> device::warp_id() & 1;
      }
      return kind;
    }
  }

  // All in front of the values, of the mask in shared memory; returns where they begin. With barriers.
  __device__ uint32_t write_levels(uint32_t kind, uint32_t count) {
    const auto* const mask = reinterpret_cast<const uint32_t*>(temp_.mask);
    auto* const head = reinterpret_cast<uint32_t*>(temp_.encoded);
    uint32_t l1[rounds], before[rounds], total = 0;
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint32_t g = r * Threads + threadIdx.x;
      l1[r] = g < groups ? layout::nibble_of(mask[2 * g]) | layout::nibble_of(mask[2 * g + 1]) << 4 : 0;
      const uint32_t l2 = device::ballot(l1[r] != 0);
      if (device::lane_id() == 0 && g / 32 * 32 < layout::groups(count)) head[1 + g / 32] = l2;
      before[r] = sum_levels((l1[r] != 0 ? 1u << 16 : 0) | popcount(l1[r]), total);
    }
    const uint32_t l0_begin = layout::l1_begin(count) + (total >> 16), l0_end = l0_begin + (total & 0xffffu);
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      if (l1[r] == 0) continue;
      const uint32_t g = r * Threads + threadIdx.x;
      temp_.encoded[layout::l1_begin(count) + (before[r] >> 16)] = static_cast<std::byte>(l1[r]);
      put_bytes(l1[r], mask[2 * g], mask[2 * g + 1], temp_.encoded + l0_begin + (before[r] & 0xffffu),
                std::make_integer_sequence<int, 8>{});
    }
    const uint32_t values_begin = layout::values_begin(l0_end);
    if (l0_end + threadIdx.x < values_begin) temp_.encoded[l0_end + threadIdx.x] = std::byte{};
    if (threadIdx.x == 0) head[0] = kind;
    return values_begin;
  }
  template <int... B>
  __device__ static void put_bytes(uint32_t which, uint32_t low, uint32_t high, std::byte* to,
                                   std::integer_sequence<int, B...>) {
    device::shared_cursor<uint8_t> out(to, 0);
    (out.template put_if<1u << B>(which, (B < 4 ? low : high) >> (B % 4 * 8)), ...);
  }

  // What is counted in the threads before this one, and in `total`, which it is added to. With two barriers.
  __device__ uint32_t sum_levels(uint32_t counted, uint32_t& total) {
    const uint32_t up_to = device::warp_inclusive_sum(counted);
    device::sync_block();
    if (device::lane_id() == 31) temp_.of_masks.of_warp[device::warp_id()] = up_to;
    device::sync_block();
    const uint32_t of_warp = device::lane_id() < warps ? temp_.of_masks.of_warp[device::lane_id()] : 0;
    const uint32_t before =
        total + device::warp_sum(device::lane_id() < device::warp_id() ? of_warp : 0) + up_to - counted;
    total += device::warp_sum(of_warp);
    return before;
  }

  // -- decoding ------------------------------------------------------------------------------------------------------

  // The mask, and where the values begin; false, to all threads, where there is anything that encoding does not write.
  __device__ bool read_levels(uint32_t size, uint32_t count, uint32_t& values_begin) {
    const uint32_t used = layout::groups(count), l1_begin = layout::l1_begin(count), l2_words = l1_begin / 4 - 1;
    const auto* const l2 = reinterpret_cast<const uint32_t*>(temp_.encoded) + 1;
    // A lane a word of L2.
    const uint32_t l2_word = device::lane_id() < l2_words ? l2[device::lane_id()] : 0;
    const uint32_t l0_begin = l1_begin + device::warp_sum(popcount(l2_word));
    bool bad = device::lane_id() + 1 == l2_words && (l2_word & ~low_mask(used - device::lane_id() * 32)) != 0;
    if (l0_begin > size) return false;
    uint32_t l1[rounds], before[rounds], total = 0;
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint32_t word = r * warps + device::warp_id();
      const uint32_t mine = word < l2_words ? l2[word] : 0;
      const uint32_t rank = device::warp_sum(device::lane_id() < word ? popcount(l2_word) : 0) +
                            popcount(mine & low_mask(device::lane_id()));
      const bool there = (mine >> device::lane_id() & 1) != 0 && l1_begin + rank < l0_begin;
      l1[r] = there ? static_cast<uint32_t>(temp_.encoded[l1_begin + rank]) : 0;
      bad |= there && l1[r] == 0;
      before[r] = sum_levels(popcount(l1[r]), total);
    }
    const uint32_t l0_end = l0_begin + total;
    values_begin = layout::values_begin(l0_end);
    if (values_begin > size) return false;
    bad |= l0_end + threadIdx.x < values_begin && temp_.encoded[l0_end + threadIdx.x] != std::byte{};
#pragma unroll
    for (uint32_t r = 0; r < rounds; ++r) {
      const uint32_t g = r * Threads + threadIdx.x;
      if (g >= groups) continue;
      uint32_t eight[2] = {};
      if (l1[r] != 0) {
        get_bytes(l1[r], eight, temp_.encoded + l0_begin + before[r], std::make_integer_sequence<int, 8>{});
        bad |= (layout::nibble_of(eight[0]) | layout::nibble_of(eight[1]) << 4) != l1[r];
        if (g + 1 == used && count % layout::group != 0) {
          const uint32_t tail = count % layout::group;
          bad |= ((eight[0] & ~low_mask(tail)) | (eight[1] & ~low_mask(tail < 32 ? 0 : tail - 32))) != 0;
        }
      }
      reinterpret_cast<uint64_t*>(temp_.mask)[g] = eight[0] | uint64_t{eight[1]} << 32;
    }
    return !device::sync_block_or(bad);
  }
  template <int... B>
  __device__ static void get_bytes(uint32_t which, uint32_t (&eight)[2], const std::byte* from,
                                   std::integer_sequence<int, B...>) {
    device::shared_cursor<uint8_t> in(from, 0);
    ((eight[B / 4] |= in.template get_if<1u << B>(which) << (B % 4 * 8)), ...);
  }

  template <bool Repeats, class Sink>
  __device__ void get_values(const typename masks::places& places, const std::byte* packed, uint32_t count,
                             Sink& sink) {
#pragma unroll
    for (int r = 0; r < tile::rows; ++r)
      if (const uint32_t first = tile::first_value(r * tile::row_words); first < count) {
        const device::vec128 x = masks_.template get<Repeats>(temp_.of_masks, r, places, packed);
        sink(first, Repeats ? tile::clip(x, count - first) : x);
      }
  }

  TempStorage& temp_;
  // Of the chunk that was measured.
  masks masks_;
  typename masks::sums ones_{};
  uint32_t values_begin_ = 0, size_ = 0;
};

}  // namespace tuck::inline TUCK_ABI
