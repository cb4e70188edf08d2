// SPDX-License-Identifier: Apache-2.0
// Codecs by one thread block whose chunks are a mask, and the values at its ones: zvc, rle and packed_zvc. They write
// the bytes of zvc.hpp and rle.hpp.
#pragma once

#include <tuck/codec/mask/block_masks.cuh>
#include <tuck/codec/mask/packed_block.cuh>
#include <tuck/codec/mask/zvc.hpp>

namespace tuck::inline TUCK_ABI {

/// The mask of zvc, as it is stored.
template <element T, int Threads> struct plain_mask {
  using C = zvc<T>;
  using masks = block_masks<T, Threads>;
  struct TempStorage {
    typename masks::TempStorage of_masks;
  };

  __device__ explicit plain_mask(TempStorage& temp) : temp_(temp) {}

  static constexpr bool has_runs = false, has_signs = false;

  __device__ uint32_t measure(const C&, const typename masks::tile& values, masks& mask, typename masks::sums& ones) {
    mask.find_non_zeros(values);
    ones = mask.sum(temp_.of_masks);
    return C::mask_bytes(values.count);
  }
  __device__ void write(const masks& mask, uint32_t, std::byte* to) {
    mask.store(to);
    device::sync_block();
  }
  template <bool Full>
  __device__ bool read(const C&, const std::byte* from, uint32_t size, uint32_t count, masks& mask) {
    end_ = Full ? masks::most_bytes : C::mask_bytes(count);
    if (size < end_) return false;
    mask.template load<Full>(from, end_);
    return true;
  }
  __device__ uint32_t values_begin(const std::byte*, uint32_t, uint32_t) const { return end_; }

 private:
  TempStorage& temp_;
  uint32_t end_ = 0;
};

/// Block codec of C, whose encoded chunks are a mask and the values at its ones; block.cuh documents the members.
//
// Format finds and stores the mask. Its TempStorage has block_masks<T, Threads>::TempStorage of_masks:
//
//   has_runs, has_signs                          whether a mask may be of changes, or the values at its zeros may be -0
//   measure(codec, values, mask, ones)           finds the mask and its ones, and returns the offset of the values. Has
//                                                a barrier
//   write(mask, values_begin, to)                writes the bytes before the values, but for signs. Ends with a barrier
//                                                if it may write past the offset of the values
//   read<Full>(codec, from, size, count, mask)   reads the mask of `count` values from the first of `size` bytes; Full:
//                                                of a full tile. The mask may have ones past `count`. Returns false to
//                                                all threads if encoding does not write such bytes
//   values_begin(from, size, zeros)              returns the offset of the values of the mask that was read, which has
//                                                so many zeros, or ~0 if encoding does not write such bytes. If it is a
//                                                mask of changes, the offset does not depend on the zeros
//
// and if has_runs or has_signs:
//
//   kind()                                       of packed_masks::head, of the mask that was measured or read
//   signs_begin()                                if that is both_zeros: the offset of the signs
template <codec C, class Format, int Threads> class block_mask_codec {
  using T = value_t<C>;
  using masks = block_masks<T, Threads>;
  using tile = typename masks::tile;
  using head = packed_masks::head;

 public:
  using TempStorage = typename Format::TempStorage;

  static constexpr int registers = sizeof(T) == 1 ? 96 : sizeof(T) == 2 ? 80 : 64;

  __device__ explicit block_mask_codec(TempStorage& temp) : temp_(temp), format_(temp) {}

  __device__ uint32_t measure(const C& codec, const tile& values) {
    masks::template prepare<true>(temp_.of_masks);
    typename masks::sums ones;
    values_begin_ = format_.measure(codec, values, masks_, ones);
    ones_before_ = ones.before;
    return values_begin_ + ones.all * uint32_t{sizeof(T)};
  }

  __device__ void write(const C&, const tile& values, std::byte* to) {
    if constexpr (sizeof(T) == 1) {
      zero_shared<Threads>(to);
      device::sync_block();
    }
    format_.write(masks_, values_begin_, to);
    const typename masks::positions positions = masks_.find_positions(to + values_begin_, ones_before_);
    if constexpr (Format::has_signs)
      if (format_.kind() == head::both_zeros) {
        put_signs(values, positions, to);
        if constexpr (sizeof(T) == 2) device::sync_block();  // the last signs and the first value may share a word
      }
    masks_.put(temp_.of_masks, values, positions);
  }

  template <class Sink>
  __device__ __forceinline__ status read(const C& codec, std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    if constexpr (Format::has_signs || sizeof(T) == 1)  // windows of bits, or of values, end behind the chunk
      if (threadIdx.x < 8) from[size + threadIdx.x] = std::byte{};
    return read(codec, from, any_side, size, nullptr, count, sink);
  }

  // -- for chains
  __device__ uint32_t side_bytes(uint32_t) const { return values_begin_; }
  template <class Sink>
  __device__ __forceinline__ status read_parts(const C& codec, std::byte* side, uint32_t side_bytes, std::byte* values,
                                               uint32_t rest, uint32_t count, Sink& sink) {
    return read(codec, side, side_bytes, side_bytes + rest, values, count, sink);
  }

 private:
  static constexpr uint32_t any_side = ~0u;

  // `values`: where the values are, if they do not follow the side stream.
  template <class Sink>
  __device__ __forceinline__ status read(const C& codec, std::byte* from, uint32_t side, uint32_t size,
                                         std::byte* values, uint32_t count, Sink& sink) {
    if (size >= count * sizeof(T)) return status::bad_payload;
    return count == tile::capacity ? read<true>(codec, from, side, size, values, count, sink)
                                   : read<false>(codec, from, side, size, values, count, sink);
  }
  template <bool Full, class Sink>
  __device__ __forceinline__ status read(const C& codec, std::byte* from, uint32_t side, uint32_t size,
                                         std::byte* values, uint32_t count, Sink& sink) {
    const uint32_t side_size = side == any_side ? size : side;
    if (!format_.template read<Full>(codec, from, side_size, count, masks_)) return status::bad_payload;
    if constexpr (!Full) {
      const uint32_t before = masks_.ones();
      masks_.clip(count);
      if (device::sync_block_or(masks_.ones() != before)) return status::bad_payload;
    }
    masks::template prepare<false>(temp_.of_masks);
    const bool runs = kind_is(head::runs);
    if constexpr (sizeof(T) == 1)  // behind the last value
      if (values != nullptr && threadIdx.x < 8) values[size - side + threadIdx.x] = std::byte{};
    if (runs && threadIdx.x < sizeof(T))  // before the first, in place of bytes that have been read
      (values == nullptr ? from + format_.values_begin(from, side_size, 0)
                         : values)[static_cast<int>(threadIdx.x) - static_cast<int>(sizeof(T))] = {};
    const typename masks::sums ones = masks_.sum(temp_.of_masks);
    const uint32_t begin = format_.values_begin(from, side_size, count - ones.all);
    if (begin > side_size || (side != any_side && side != begin) || ones.all * sizeof(T) != size - begin)
      return status::bad_payload;
    if (values == nullptr) values = from + begin;
    const typename masks::positions positions = masks_.find_positions(values, ones.before);
    if constexpr (Format::has_signs)
      if (kind_is(head::both_zeros) || kind_is(head::negative_zeros)) {
        expand_signed(from, count, count - ones.all, positions, values, sink);
        return status::ok;
      }
    if (runs)
      expand<Full, true>(count, positions, sink);
    else
      expand<Full, false>(count, positions, sink);
    return status::ok;
  }
  __device__ bool kind_is([[maybe_unused]] uint32_t kind) const {
    if constexpr (Format::has_runs || Format::has_signs) return format_.kind() == kind;
    return false;
  }

  // Passes all values to the sink.
  template <bool Full, bool Runs, class Sink>
  __device__ __forceinline__ void expand(uint32_t count, const typename masks::positions& positions, Sink& sink) const {
    detail::emit_rows<tile, Full>(count, sink, [&]<int R>() {
      const auto x = masks_.template get<Runs, R>(temp_.of_masks, positions);
      return !Full && Runs ? tile::clip(x, count - tile::first_value(R * tile::row_words)) : x;
    });
  }
  // The same with signs of the values at zeros. All are read before a sink may overwrite the side stream.
  template <class Sink>
  __device__ __forceinline__ void expand_signed(const std::byte* from, uint32_t count, uint32_t zeros,
                                                const typename masks::positions& positions, const std::byte* values,
                                                Sink& sink) const {
    uint32_t signs[tile::rows];
    detail::unrolled<tile::rows>([&]<int R>() {
      const uint32_t zero = masks::template zeros_before<R>(values, positions);
      signs[R] = ~0u;
      if (format_.kind() == head::both_zeros)
        signs[R] = device::shared_window(reinterpret_cast<const uint32_t*>(from),
                                         8 * format_.signs_begin() + (zero < zeros ? zero : zeros));
    });
    device::sync_block();
    detail::emit_rows<tile, false>(count, sink, [&]<int R>() {
      const auto x = masks_.template get<false, R>(temp_.of_masks, positions);
      return tile::clip(masks_.template with_signs<R>(x, signs[R]), count - tile::first_value(R * tile::row_words));
    });
  }
  // Writes the sign of each value at a zero, as bits of words that are 0.
  __device__ void put_signs(const tile& values, const typename masks::positions& positions, std::byte* to) const {
    masks of_all;
    of_all.find_non_zeros(values);
    detail::unrolled<tile::rows>([&]<int R>() {
      const uint32_t first = tile::first_value(R * tile::row_words), not_zero = of_all.template row<R>();
      const uint32_t left = values.count > first ? values.count - first : 0;
      const uint32_t there = low_mask(left < tile::lane_values ? left : tile::lane_values);
      uint32_t zeros = ~masks_.template row<R>() & there, signs = 0, count = 0;
      for (; zeros != 0; zeros &= zeros - 1) {  // not unrolled: registers are short here
        const uint32_t lowest = zeros & (0 - zeros);
        signs |= ((not_zero & lowest) != 0 ? 1u : 0u) << count++;
      }
      device::shared_bit_writer out(
          to, 8 * format_.signs_begin() + masks::template zeros_before<R>(to + values_begin_, positions));
      out.put(signs, count);
      out.finish();
    });
  }

  TempStorage& temp_;
  Format format_;
  // Of the chunk that was measured or is decoded.
  masks masks_;
  uint32_t values_begin_ = 0, ones_before_ = 0;
};

template <element T, int Threads>
struct block_codec<zvc<T>, Threads> : block_mask_codec<zvc<T>, plain_mask<T, Threads>, Threads> {
  using block_mask_codec<zvc<T>, plain_mask<T, Threads>, Threads>::block_mask_codec;
};
template <element T, int Threads>
struct block_codec<rle<T>, Threads> : block_mask_codec<rle<T>, packed_mask<rle<T>, Threads>, Threads> {
  using block_mask_codec<rle<T>, packed_mask<rle<T>, Threads>, Threads>::block_mask_codec;
};
template <element T, int Threads>
struct block_codec<packed_zvc<T>, Threads>
    : block_mask_codec<packed_zvc<T>, packed_mask<packed_zvc<T>, Threads>, Threads> {
  using block_mask_codec<packed_zvc<T>, packed_mask<packed_zvc<T>, Threads>, Threads>::block_mask_codec;
};

}  // namespace tuck::inline TUCK_ABI
