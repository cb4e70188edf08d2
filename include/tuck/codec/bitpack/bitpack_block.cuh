// Bitpack by one thread block: the bytes of bitpack.hpp.
//
// A group is a word of 32, 16 or 8 lanes, or two for 8-byte values. One reduction over a warp gives the widths of all
// groups in a row of its words, one scan over the rows says where each begins. Lanes then merge their values with those
// of their neighbours while both fit in 32 bits, and each of these pieces makes the payload word that begins in it.
// Decoding reads the 32 bits that hold a word's values wherever they lie.
#pragma once

#include <tuck/codec/bitpack/bitpack.hpp>
#include <tuck/codec/block_copies.cuh>

namespace tuck::inline TUCK_ABI {

template <element T, int Threads> class block_codec<bitpack<T>, Threads> {
 public:
  using tile = block_tile<T, Threads>;

 private:
  using word = typename tile::word;
  using layout = bitpack<T>;
  using scan = device::block_scan<Threads>;

  static constexpr uint32_t per_word = tile::per_word;
  static constexpr uint32_t lanes = layout::group / per_word;          // that hold a group
  static constexpr uint32_t groups_a_row = device::warp_size / lanes;  // of a warp's words
  static constexpr uint32_t groups = tile::capacity / layout::group;
  static constexpr uint32_t rows = tile::words;
  static constexpr uint32_t most_widths = layout::width_bytes(tile::capacity);
  static_assert(rows <= device::warp_size, "tuck: the bitpack block codec takes 128 threads or more");

 public:
  struct TempStorage {
    // The chunk as it stands in the frame, less than raw; decoding looks up to 8 bytes behind it.
    alignas(16) uint32_t encoded[tile_bytes / 4 + 4 + most_widths / 4];
    uint16_t begin[groups];  // of each group in the payload, in words
    typename scan::TempStorage scan_storage;
  };

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t measure(const bitpack<T>&, const tile& values) {
    const uint32_t count = values.count;
    tile dealt;
    deal(values, dealt);
    const word all = or_of_own_row(dealt);
    device::sync_block();
    const uint32_t first = (device::warp_id() * rows + device::lane_id()) * groups_a_row;
    const bool in_charge = device::lane_id() < rows && first < layout::width_bytes(count);
    uint32_t width[groups_a_row], words = 0;
#pragma unroll
    for (uint32_t i = 0; i < groups_a_row; ++i) {
      width[i] = tuck::bit_width(static_cast<word>(tile::value(all, static_cast<int>(i))));
      words += in_charge ? layout::words_of(width[i], layout::length_of(first + i, count)) : 0;
    }
    uint32_t total;
    uint32_t before = scan::exclusive_sum(temp_.scan_storage, words, total);
    if (in_charge) {
#pragma unroll
      for (uint32_t i = 0; i < groups_a_row; ++i) {
        widths()[first + i] = static_cast<uint8_t>(width[i]);
        temp_.begin[first + i] = static_cast<uint16_t>(before);
        before += layout::words_of(width[i], layout::length_of(first + i, count));
      }
    }
    size_ = layout::width_bytes(count) + 4 * total;
    return size_ < count * sizeof(T) ? size_ : declined;
  }

  __device__ void pack(const bitpack<T>&, const tile& values, bytes out) {
    tile dealt;
    deal(values, dealt);
    device::sync_block();
    if (threadIdx.x < 4) temp_.encoded[size_ / 4 + threadIdx.x] = 0;
#pragma unroll
    for (int j = 0; j < tile::words; ++j) {
      if (row_begin(j) >= values.count) break;
      const uint32_t g = tile::first_dealt(j) / layout::group;  // past the end, there are widths of 0
      const uint32_t width = widths()[g];
      piece own{join(dealt.w[j], width), per_word * width, rank() * per_word * width, 1};
      own.merge();
      own.store(payload(values.count) + temp_.begin[g], layout::words_of(width, layout::length_of(g, values.count)));
    }
    device::sync_block();
    copy_from_shared<Threads>(out, reinterpret_cast<const std::byte*>(temp_.encoded), size_);
  }

  template <class Sink> __device__ status decode(const bitpack<T>&, const_bytes encoded, uint32_t count, Sink& sink) {
    if (encoded.size() >= count * sizeof(T) || encoded.size() % 4 != 0) return status::bad_payload;
    const auto size = static_cast<uint32_t>(encoded.size());
    if (size < layout::width_bytes(count)) return status::bad_payload;
    copy_to_shared<Threads>(reinterpret_cast<std::byte*>(temp_.encoded), encoded);
    device::sync_block();
    if (threadIdx.x < 2) temp_.encoded[size / 4 + threadIdx.x] = 0;
    if (layout::width_bytes(count) + 4 * widths_to_begins(count) != size) return status::bad_payload;
    device::sync_block();
    bool wrong = has_bits_behind(count, size);
#pragma unroll 2
    for (int j = 0; j < tile::words; ++j) {
      if (row_begin(j) >= count) break;
      const uint32_t first = tile::first_dealt(j), g = first / layout::group;
      const bool here = first < count;
      const uint32_t width = here ? widths()[g] : 0;
      word x = 0;
      if (width != 0) x = split(payload(count) + temp_.begin[g], first % layout::group * width, width);
      // One value of each group has its highest bit set, or else the width is too large.
      const word highest = width != 0 ? tile::repeat(static_cast<bits_t<T>>(bits_t<T>{1} << (width - 1))) : 0;
      const unsigned needed = device::ballot(here && (width == 0 || (x & highest) != 0));
      wrong |= here && (needed >> (device::lane_id() - rank()) & low_mask(lanes)) == 0;
      if (here) sink(first, x);
    }
    return device::sync_block_or(wrong) ? status::bad_payload : status::ok;
  }

 private:
  __device__ uint8_t* widths() { return reinterpret_cast<uint8_t*>(temp_.encoded); }
  __device__ uint32_t* payload(uint32_t count) { return temp_.encoded + layout::width_bytes(count) / 4; }

  // The lane's place in its group.
  __device__ static uint32_t rank() { return device::lane_id() % lanes; }
  // Index of the first value of this warp's j-th words.
  __device__ static uint32_t row_begin(int j) { return tile::first_dealt(j) - device::lane_id() * per_word; }

  // The tile's words dealt out to lanes one by one, through shared memory behind the widths.
  __device__ void deal(const tile& values, tile& dealt) {
    auto* const row = temp_.encoded + most_widths / 4 + device::warp_id() * (tile::row_values * sizeof(T) / 4);
#pragma unroll
    for (int r = 0; r < tile::rows; ++r) {
      reinterpret_cast<device::vec128*>(row)[device::lane_id()] = values.row(r);
      device::sync_warp();
#pragma unroll
      for (int k = 0; k < tile::row_words; ++k)
        dealt.w[r * tile::row_words + k] =
            reinterpret_cast<const word*>(row)[k * device::warp_size + static_cast<int>(device::lane_id())];
      device::sync_warp();
    }
  }

  // -- widths ----------------------------------------------------------------------------------------------------

  // Of the warp's row that this lane is in charge of, which has the lane's number: the bits of each group's values, one
  // beside the other where a word has several.
  __device__ static word or_of_own_row(const tile& values) {
    word own = 0;
#pragma unroll
    for (int j = 0; j < tile::words; ++j) {
      const word all = or_of_groups(values.w[j]);
      if (device::lane_id() == static_cast<unsigned>(j)) own = all;
    }
    return own;
  }
  __device__ static word or_of_groups(word x) {
    if constexpr (sizeof(T) == 8) {
      const uint32_t low = device::warp_or(static_cast<uint32_t>(x));
      return low | static_cast<word>(device::warp_or(static_cast<uint32_t>(x >> 32))) << 32;
    } else {
      if constexpr (per_word >= 2) x |= x >> 16;
      if constexpr (per_word == 4) x |= x >> 8;
      constexpr uint32_t one_value = low_mask(layout::value_bits);
      return device::warp_or((x & one_value) << device::lane_id() / lanes * layout::value_bits % 32);
    }
  }

  // Fills `begin` from the widths and returns the words of the payload; more than any chunk has where there is a width
  // that no value has, or one of no group.
  __device__ uint32_t widths_to_begins(uint32_t count) {
    constexpr uint32_t each = ceil_div(groups, uint32_t{Threads}), impossible = 1 << 20;
    const uint32_t first = threadIdx.x * each;
    uint32_t words = 0;
    for (uint32_t g = first; g < first + each && g < layout::width_bytes(count); ++g) {
      const uint32_t width = widths()[g];
      words += layout::words_of(width, layout::length_of(g, count));
      if (width > (g < layout::groups(count) ? layout::value_bits : 0)) words += impossible;
    }
    uint32_t total;
    uint32_t before = scan::exclusive_sum(temp_.scan_storage, words, total);
    for (uint32_t g = first; g < first + each && g < layout::groups(count); ++g) {
      temp_.begin[g] = static_cast<uint16_t>(before);
      before += layout::words_of(widths()[g], layout::length_of(g, count));
    }
    return total;
  }

  // Is there a bit behind those of the last group?
  __device__ bool has_bits_behind(uint32_t count, uint32_t size) {
    const uint32_t last = layout::groups(count) - 1;
    const uint32_t in_last_word = widths()[last] * layout::length_of(last, count) % 32;
    return in_last_word != 0 && temp_.encoded[size / 4 - 1] >> in_last_word != 0;
  }

  // -- values of a word to bits and back -----------------------------------------------------------------------------

  // The values of x, `width` bits each, beside each other.
  __device__ static word join(word x, uint32_t width) {
    if constexpr (per_word == 1) return x;
    word joined = 0;
#pragma unroll
    for (uint32_t k = 0; k < per_word; ++k)
      joined |= static_cast<word>(tile::value(x, static_cast<int>(k))) << k * width;
    return joined;
  }

  // The word of the values that begin at bit `bit` of `from`, of which the two words behind their last one are read.
  __device__ static word split(const uint32_t* from, uint32_t bit, uint32_t width) {
    from += bit / 32;
    const uint32_t low = device::funnel_shift_right(from[0], from[1], bit);
    if constexpr (per_word == 1) {
      word x = low & low_mask(width);
      if constexpr (sizeof(T) == 8)
        if (width > 32)
          x |= static_cast<word>(device::funnel_shift_right(from[1], from[2], bit) & low_mask(width - 32)) << 32;
      return x;
    } else {
      word x = 0;
#pragma unroll
      for (uint32_t k = 0; k < per_word; ++k) x |= (low >> k * width & low_mask(width)) << k * layout::value_bits;
      return x;
    }
  }

  // Some bits of a group, of one lane: those of `span` lanes, which begin at a multiple of as many.
  struct piece {
    word x;
    uint32_t bits;
    uint32_t begin;  // in the group
    uint32_t span;   // a power of two

    // Doubles the pieces of at most 16 bits, as often as that goes; no other piece has less than 17 then, or it is the
    // whole group. The first of the lanes has it.
    __device__ void merge() {
#pragma unroll 1
      for (uint32_t step = 1; step < lanes && device::any(bits - 1 < 16); step *= 2) {
        const uint32_t next = device::shfl_down(static_cast<uint32_t>(x), step);
        if (bits - 1 < 16) {
          x |= static_cast<word>(next) << bits;
          bits *= 2;
          span *= 2;
        }
      }
    }

    // Writes the words that begin in this piece, up to three of which one word holds.
    __device__ void store(uint32_t* to, uint32_t words) const {
      const auto low = static_cast<uint32_t>(x);
      const uint32_t next = device::shfl(low, static_cast<int>((device::lane_id() + span) % device::warp_size));
      const uint32_t third = device::shfl(low, static_cast<int>((device::lane_id() + 2 * span) % device::warp_size));
      const uint32_t skipped = (0 - begin) % 32, at = (begin + skipped) / 32;
      if ((rank() & (span - 1)) != 0 || skipped >= bits || at >= words) return;
      to[at] = static_cast<uint32_t>(x >> skipped) | shifted(next, bits - skipped) | shifted(third, 2 * bits - skipped);
      if constexpr (sizeof(T) == 8)
        if (skipped + 32 < bits && at + 1 < words)
          to[at + 1] = static_cast<uint32_t>(x >> (skipped + 32)) | shifted(next, bits - skipped - 32);
    }
    __device__ static uint32_t shifted(uint32_t x, uint32_t n) { return n < 32 ? x << n : 0; }
  };

  TempStorage& temp_;
  uint32_t size_ = 0;
};

}  // namespace tuck::inline TUCK_ABI
