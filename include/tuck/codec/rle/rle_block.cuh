// RLE by one thread block: the bytes of rle.hpp.
//
// A value begins a run where it differs from the one before it, which the lane below has (or, once a warp, the warp
// below); from there on both kinds of mask are made alike, of words whose values are zero or not. Then a lane is in
// charge of each mask word, and one scan over counts of all three levels says where everything goes. Decoding goes the
// same way back: a lane in charge of each mask word, then all lanes for the values.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/rle/rle.hpp>

#include <bit>

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
  using tile = block_tile<T, Threads>;
  using word = typename tile::word;
  using scan = device::block_scan<Threads>;

  static constexpr int per_word = tile::per_word;
  static constexpr int blocks_a_processor = sizeof(T) == 1 ? 3 : 4;  // 80 registers: with 64, four values a word spill
  static constexpr uint32_t windows = tile::capacity / layout::window;
  static constexpr uint32_t warps = Threads / device::warp_size;
  static constexpr uint32_t warp_windows = windows / warps;
  static constexpr uint32_t warp_values = tile::warp_words * per_word;
  // Windows that a lane is in charge of: those from own_window() on, if it has_windows().
  static constexpr uint32_t own = ceil_div(warp_windows, uint32_t{device::warp_size});
  static_assert(own <= per_word, "tuck: the RLE block codec takes 128 threads or more");

  // A window's mask words, one a kind.
  struct alignas(4 * C::kinds) window_masks {
    uint32_t of_kind[C::kinds];
  };
  // What other warps must know of a warp to choose the kind of mask.
  struct edges {
    bits_t<T> first, last;
    uint32_t excess;  // of run heads over non-zeros, modulo 2^32, without the warp's first value
  };

  struct TempStorage {
    // The chunk as it stands in the frame, which is less than raw; before, masks on their way between lanes.
    alignas(16) std::byte encoded[tile_bytes];
    uint32_t mask[windows];
    uint16_t offset[windows];  // ones before each mask word
    uint8_t nibble[windows];   // L1, one to a byte
    edges of_warp[warps];
    typename scan::TempStorage scan_storage;
  };

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t measure(const C&, const tile& values) {
    uint32_t mine[own];
    kind_ = make_masks(values, mine);
    counts counted = 0;
    for (uint32_t i = 0; i < own; ++i) counted += counts_of(mine[i]);
    counts total;
    const counts before = scan::exclusive_sum(temp_.scan_storage, counted, total);
    words_ = words_of(total);
    const uint32_t l0_begin = layout::l0_begin(values.count, words_);
    l0_end_ = l0_begin + bytes_of(total);
    if (has_windows()) store_masks(mine, before, l0_begin);
    size_ = layout::values_begin(l0_end_) + ones_of(total) * uint32_t{sizeof(T)};
    return size_;
  }

  __device__ void pack(const C& codec, const tile& values, bytes out) {
    for (uint32_t i = size_ + threadIdx.x; i < out.size(); i += Threads) temp_.encoded[i] = std::byte{};
    assemble(codec, values);
    device::sync_block();
    copy_from_shared<Threads>(out, temp_.encoded);
  }

  template <class Sink> __device__ status decode(const C& codec, const_bytes encoded, uint32_t count, Sink& sink) {
    if (encoded.size() > sizeof temp_.encoded) return status::bad_payload;
    copy_to_shared<Threads>(temp_.encoded, encoded);
    device::sync_block();
    return decode_assembled(codec, any_side, static_cast<uint32_t>(encoded.size()), count, sink);
  }

  // -- for chains
  __device__ uint32_t side_bytes(uint32_t) const { return layout::values_begin(l0_end_); }
  __device__ std::byte* encoded(uint32_t) { return temp_.encoded; }

  __device__ void assemble(const C&, const tile& values) {
    auto* const packed = reinterpret_cast<bits_t<T>*>(temp_.encoded + layout::values_begin(l0_end_));
    store_upper_levels(values.count);
    const uint32_t bit = tile::first_value() % layout::window;
#pragma unroll
    for (int j = 0; j < tile::words; ++j) {
      const uint32_t mask = temp_.mask[window_of(j)];
      if ((mask >> bit & low_mask(per_word)) == 0) continue;
      uint32_t at = temp_.offset[window_of(j)] + popcount(mask & low_mask(bit));
#pragma unroll
      for (int k = 0; k < per_word; ++k)
        if ((mask >> (bit + static_cast<uint32_t>(k)) & 1) != 0) packed[at++] = tile::value(values.w[j], k);
    }
  }

  template <class Sink>
  __device__ status decode_assembled(const C&, uint32_t side, uint32_t size, uint32_t count, Sink& sink) {
    if (size >= count * sizeof(T) || size < layout::l1_begin(count)) return status::bad_payload;
    const uint32_t kind = reinterpret_cast<const uint32_t*>(temp_.encoded)[0];
    uint32_t values_begin;
    if (kind >= C::kinds || !read_masks(size, count, kind, values_begin)) return status::bad_payload;
    if (side != any_side && side != values_begin) return status::bad_payload;

    const auto* const before_packed = reinterpret_cast<const bits_t<T>*>(temp_.encoded + values_begin) - 1;
    const uint32_t bit = tile::first_value() % layout::window;
    const uint32_t warp_end = (device::warp_id() + 1) * warp_values, end = count < warp_end ? count : warp_end;
    const uint32_t all = kind == 1 ? ~0u : 0;  // a value of kind 1 is there always, the zero in front included
#pragma unroll 2
    for (uint32_t first = tile::first_value(); first < end; first += tile::step) {
      const uint32_t window = first / layout::window, mask = temp_.mask[window];
      uint32_t at = temp_.offset[window] + popcount(mask & low_mask(bit));
      word x = 0;
#pragma unroll
      for (int k = 0; k < per_word; ++k) {
        const uint32_t shift = bit + static_cast<uint32_t>(k);
        at += mask >> shift & 1;
        if (((mask | all) >> shift & 1) != 0)
          x |= static_cast<word>(before_packed[at]) << (8 * sizeof(T) * static_cast<unsigned>(k));
      }
      if constexpr (per_word > 1)
        if (first + per_word > count) x = tile::clip(x, count - first);
      sink(first, x);
    }
    return status::ok;
  }

 private:
  static constexpr uint32_t any_side = ~0u;

  // Numbers of ones, bytes that are not zero and words that are not zero, in one integer.
  static constexpr int ones_bits = std::bit_width(tile::capacity);
  static constexpr int bytes_bits = std::bit_width(tile::capacity / 8);
  static constexpr int words_bits = std::bit_width(windows);
  using counts = std::conditional_t<ones_bits + bytes_bits + words_bits <= 32, uint32_t, uint64_t>;

  __device__ static uint32_t ones_of(counts c) { return static_cast<uint32_t>(c) & low_mask(ones_bits); }
  __device__ static uint32_t bytes_of(counts c) { return static_cast<uint32_t>(c) >> ones_bits & low_mask(bytes_bits); }
  __device__ static uint32_t words_of(counts c) { return static_cast<uint32_t>(c >> (ones_bits + bytes_bits)); }
  __device__ static counts counts_of(uint32_t mask) {
    return popcount(mask) | popcount(layout::nibble_of(mask)) << ones_bits |
           counts{mask != 0} << (ones_bits + bytes_bits);
  }

  __device__ static uint32_t own_window() { return device::warp_id() * warp_windows + device::lane_id() * own; }
  __device__ static bool has_windows() { return device::lane_id() * own < warp_windows; }
  // Of this thread's j-th word.
  __device__ static uint32_t window_of(int j) {
    return tile::first_value() / layout::window + static_cast<uint32_t>(j * per_word);
  }
  __device__ static uint32_t bits_before(uint32_t window, uint32_t count) {
    return low_mask(count > window * layout::window ? count - window * layout::window : 0);
  }

  // -- encoding: masks -----------------------------------------------------------------------------------------------

  // The mask words that this lane is in charge of, zero where there are none, and their kind.
  __device__ uint32_t make_masks(const tile& values, uint32_t (&mine)[own]) {
    window_masks masks[own] = {};
    if constexpr (per_word == 1)
      ballot_masks(values, masks[0]);
    else
      transpose_masks(values, masks);
#pragma unroll
    for (uint32_t i = 0; i < own; ++i) mine[i] = masks[i].of_kind[0];
    if constexpr (C::kinds == 1) {
      return 0;
    } else {
      uint32_t heads[own];
#pragma unroll
      for (uint32_t i = 0; i < own; ++i) heads[i] = masks[i].of_kind[1];
      return choose_kind(values, mine, heads);
    }
  }

  // Replaces `mine` by `heads`, completed, where the chunk has fewer of those.
  __device__ uint32_t choose_kind(const tile& values, uint32_t (&mine)[own], uint32_t (&heads)[own]) {
    edges& edge = temp_.of_warp[device::warp_id()];
    uint32_t excess = 0;
#pragma unroll
    for (uint32_t i = 0; i < own; ++i) {
      heads[i] &= bits_before(own_window() + i, values.count);  // the zeros past the end may differ from the last value
      excess += popcount(heads[i]) - popcount(mine[i]);
    }
    excess = device::warp_sum(excess);
    if (device::lane_id() == 0) {
      edge.excess = excess;
      edge.first = tile::value(values.w[0], 0);
    }
    if (device::lane_id() == device::warp_size - 1) edge.last = tile::value(values.w[tile::words - 1], per_word - 1);
    device::sync_block();
    // A lane a warp: does its first value begin a run?
    const uint32_t warp = device::lane_id();
    bool head = false;
    excess = 0;
    if (warp < warps) {
      const bits_t<T> before = warp == 0 ? bits_t<T>{0} : temp_.of_warp[warp - 1].last;
      head = warp * warp_values < values.count && temp_.of_warp[warp].first != before;
      excess = temp_.of_warp[warp].excess + head;
    }
    const uint32_t first_heads = device::ballot(head);
    const uint32_t kind = device::warp_sum(excess) >> 31;
    if (kind == 1) {
#pragma unroll
      for (uint32_t i = 0; i < own; ++i) mine[i] = heads[i];
      if (device::lane_id() == 0) mine[0] |= first_heads >> device::warp_id() & 1;
    }
    return kind;
  }

  // The values of a row to be told zero from not zero, for both kinds. `carried` is the row before, for lane 0, of
  // which only the last value matters.
  __device__ static void row_of_kinds(word x, word& carried, word (&row)[C::kinds]) {
    row[0] = x;
    if constexpr (C::kinds == 2) {
      const word below = device::shfl(x, static_cast<int>((device::lane_id() + 31) % device::warp_size));
      const word before = device::lane_id() == 0 ? carried : below;
      carried = below;
      if constexpr (per_word == 1)
        row[1] = x ^ before;
      else
        row[1] = x ^ device::funnel_shift_right(before, x, first_to_last);
    }
  }

  // Both leave, of heads, the bit of the warp's first value zero, and may set one past the chunk's end.

  // A warp's j-th words are window j.
  __device__ static void ballot_masks(const tile& values, window_masks& mine) {
    word carried = values.w[0], row[C::kinds];
#pragma unroll
    for (int j = 0; j < tile::words; ++j) {
      row_of_kinds(values.w[j], carried, row);
      for (uint32_t kind = 0; kind < C::kinds; ++kind) {
        const uint32_t ballot = device::ballot(row[kind] != 0);
        if (device::lane_id() == static_cast<unsigned>(j)) mine.of_kind[kind] = ballot;
      }
    }
  }

  // A warp's j-th words are windows j * per_word and on, each the words of a group of lanes.
  __device__ void transpose_masks(const tile& values, window_masks (&mine)[own]) {
    uint32_t bits[C::kinds][lane_masks] = {};
    word carried = values.w[0] << first_to_last, row[C::kinds];
#pragma unroll
    for (int j = 0; j < tile::words; ++j) {
      row_of_kinds(values.w[j], carried, row);
      const int shift = j * per_word % device::warp_size;
      for (uint32_t kind = 0; kind < C::kinds; ++kind)
        bits[kind][j * per_word / device::warp_size] |=
            non_zeros(row[kind]) >> (device::warp_size - per_word - shift) & low_mask(per_word) << shift;
    }
    // Each lane has windows now, but not those that it is in charge of.
    std::byte* const unused = C::kinds == 2 ? temp_.encoded : reinterpret_cast<std::byte*>(temp_.mask);
    auto* const all = reinterpret_cast<window_masks*>(unused) + device::warp_id() * warp_windows;
    const uint32_t lane_row = device::lane_id() % group, part = device::lane_id() / group;
#pragma unroll
    for (uint32_t i = 0; i < lane_masks; ++i) {
      window_masks masks;
      for (uint32_t kind = 0; kind < C::kinds; ++kind) masks.of_kind[kind] = transposed(bits[kind][i]);
      const uint32_t j = i * group + lane_row;
      if (j < tile::words) all[j * per_word + part] = masks;
    }
    device::sync_warp();
#pragma unroll
    for (uint32_t i = 0; i < own; ++i)
      if (has_windows()) mine[i] = all[device::lane_id() * own + i];
  }

  // Bits by which values move from the first place in a word to the last.
  static constexpr unsigned first_to_last = 8 * (sizeof(word) - sizeof(T));

  // In the top bits: which of a word's values are not zero.
  __device__ static uint32_t non_zeros(word x) {
    constexpr uint32_t tops = per_word == 4 ? 0x80808080u : 0x80008000u;
    constexpr uint32_t gather = per_word == 4 ? 0x00204081u : 0x00008001u;
    return ((((static_cast<uint32_t>(x) & ~tops) + ~tops) | static_cast<uint32_t>(x)) & tops) * gather;
  }

  // Where a word has several values, a lane's rows - a bit a value, per_word a row - fill masks, of which a group of
  // as many lanes as a mask has rows makes windows by exchanging halves, quarters and so on: lane i's row j becomes
  // the i-th part of lane j's window.
  static constexpr uint32_t group = device::warp_size / per_word;
  static constexpr uint32_t lane_masks = ceil_div(uint32_t{tile::words}, group);

  __device__ static uint32_t transposed(uint32_t x) {
#pragma unroll
    for (uint32_t rows = group / 2; rows > 0; rows /= 2) {
      const uint32_t bits = rows * per_word;
      const uint32_t low = ~0u / ((1u << bits) + 1);  // `bits` ones, as many zeros, and so on
      const bool upper = (device::lane_id() & rows) != 0;
      const uint32_t other = device::shfl_xor(x, static_cast<int>(rows));
      const uint32_t kept = upper ? ~low : low;
      x = (x & kept) | (device::funnel_shift_right(other, other, upper ? bits : device::warp_size - bits) & ~kept);
    }
    return x;
  }

  // -- encoding: levels ----------------------------------------------------------------------------------------------

  // What this lane's mask words are of L0, and what pack needs of them.
  __device__ void store_masks(const uint32_t (&mine)[own], counts before, uint32_t l0_begin) {
    uint32_t ones = ones_of(before), words = words_of(before);
    std::byte* l0 = temp_.encoded + l0_begin + bytes_of(before);
#pragma unroll
    for (uint32_t i = 0; i < own; ++i) {
      temp_.mask[own_window() + i] = mine[i];
      temp_.offset[own_window() + i] = static_cast<uint16_t>(ones);
      if (mine[i] == 0) continue;
      ones += popcount(mine[i]);
      temp_.nibble[words++] = static_cast<uint8_t>(layout::nibble_of(mine[i]));
#pragma unroll
      for (int b = 0; b < 4; ++b)
        if (const uint32_t byte = mine[i] >> (8 * b) & 0xff; byte != 0) *l0++ = static_cast<std::byte>(byte);
    }
  }

  // All else in front of the values.
  __device__ void store_upper_levels(uint32_t count) {
    auto* const head = reinterpret_cast<uint32_t*>(temp_.encoded);
    for (uint32_t i = device::warp_id(); i < layout::l2_words(count); i += warps) {
      const uint32_t l2 = device::ballot(temp_.mask[i * device::warp_size + device::lane_id()] != 0);
      if (device::lane_id() == 0) head[1 + i] = l2;
    }
    for (uint32_t i = threadIdx.x; i < ceil_div(words_, 2u); i += Threads) {
      const uint32_t high = 2 * i + 1 < words_ ? temp_.nibble[2 * i + 1] : 0u;
      temp_.encoded[layout::l1_begin(count) + i] = static_cast<std::byte>(temp_.nibble[2 * i] | high << 4);
    }
    if (l0_end_ + threadIdx.x < layout::values_begin(l0_end_)) temp_.encoded[l0_end_ + threadIdx.x] = std::byte{};
    if (threadIdx.x == 0) head[0] = kind_;
  }

  // -- decoding ------------------------------------------------------------------------------------------------------

  // Mask words that a thread decodes, from threadIdx.x * each on.
  static constexpr uint32_t each = ceil_div(windows, uint32_t{Threads});

  // Fills `mask` and `offset` from all in front of the values, and makes the value before the first one zero where
  // kind 1 has use for it. False where there is anything that encoding does not write.
  __device__ bool read_masks(uint32_t size, uint32_t count, uint32_t kind, uint32_t& values_begin) {
    uint32_t nibbles[each] = {}, l0_begin;
    bool bad = false;
    if (!read_nibbles(size, count, nibbles, l0_begin, bad)) return false;
    uint32_t l0_bytes = 0;
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) l0_bytes += popcount(nibbles[i]);
    uint32_t total;
    const uint32_t bytes_before = scan::exclusive_sum(temp_.scan_storage, l0_bytes, total);
    const uint32_t l0_end = l0_begin + total;
    values_begin = layout::values_begin(l0_end);
    if (values_begin > size) return false;
    bad |= l0_end + threadIdx.x < values_begin && temp_.encoded[l0_end + threadIdx.x] != std::byte{};

    uint32_t masks[each] = {}, ones = 0;
    const std::byte* l0 = temp_.encoded + l0_begin + bytes_before;
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) {
#pragma unroll
      for (int b = 0; b < 4; ++b)
        if ((nibbles[i] >> b & 1) != 0) {
          const auto byte = static_cast<uint32_t>(*l0++);
          masks[i] |= byte << (8 * b);
          bad |= byte == 0;
        }
      bad |= (masks[i] & ~bits_before(threadIdx.x * each + i, count)) != 0;
      ones += popcount(masks[i]);
    }
    device::sync_block();  // the scan's storage is free again, and L0 has been read
    if (kind == 1 && threadIdx.x == 0) reinterpret_cast<bits_t<T>*>(temp_.encoded + values_begin)[-1] = 0;
    uint32_t ones_before = scan::exclusive_sum(temp_.scan_storage, ones, total);
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) {
      const uint32_t window = threadIdx.x * each + i;
      if (window >= windows) break;
      temp_.mask[window] = masks[i];
      temp_.offset[window] = static_cast<uint16_t>(ones_before);
      ones_before += popcount(masks[i]);
    }
    bad |= values_begin + total * uint32_t{sizeof(T)} != size;
    return !device::sync_block_or(bad);
  }

  // This thread's nibbles of L1, zero for mask words that are, and where L0 begins. False, to all threads, where that
  // is past the end; `bad` where L2 or L1 is not what encoding writes.
  __device__ bool read_nibbles(uint32_t size, uint32_t count, uint32_t (&nibbles)[each], uint32_t& l0_begin,
                               bool& bad) {
    const uint32_t used = ceil_div(count, layout::window), first = threadIdx.x * each;
    const auto* const l2 = reinterpret_cast<const uint32_t*>(temp_.encoded) + 1;
    // A lane a word of L2: how many mask words there are, and how many before this warp's.
    const uint32_t l2_words = layout::l2_words(count);
    const uint32_t l2_word = device::lane_id() < l2_words ? l2[device::lane_id()] : 0;
    const uint32_t words = device::warp_sum(popcount(l2_word));
    uint32_t rank = device::warp_sum(device::lane_id() < device::warp_id() * each ? popcount(l2_word) : 0);
    bad |= device::lane_id() + 1 == l2_words && (l2_word & ~low_mask(used - device::lane_id() * 32)) != 0;
    l0_begin = layout::l0_begin(count, words);
    if (l0_begin > size) return false;
    bad |= words % 2 != 0 && static_cast<uint32_t>(temp_.encoded[l0_begin - 1]) >> 4 != 0;
    if (first >= used) return true;
    for (uint32_t i = device::warp_id() * each; i < first / 32; ++i) rank += popcount(l2[i]);
    rank += popcount(l2[first / 32] & low_mask(first % 32));
#pragma unroll
    for (uint32_t i = 0; i < each; ++i) {
      if (first + i >= used || (l2[(first + i) / 32] >> (first + i) % 32 & 1) == 0) continue;
      const auto two = static_cast<uint32_t>(temp_.encoded[layout::l1_begin(count) + rank / 2]);
      nibbles[i] = two >> rank % 2 * 4 & 15;
      ++rank;
      bad |= nibbles[i] == 0;
    }
    return true;
  }

  TempStorage& temp_;
  // Of the chunk that was measured.
  uint32_t kind_ = 0, words_ = 0, l0_end_ = 0, size_ = 0;
};

}  // namespace tuck::inline TUCK_ABI
