// A codec with masks by one thread block. The encoded chunk is assembled in shared memory, and decoded there.
//
// A class Form<C, Threads> of static functions finds and stores the mask of codec C. `temp` is its TempStorage, which
// is or derives from mask_storage<T, Threads>:
//
//   kinds                                        number of mask kinds: 2 if masks may be of changes, else 1
//   measure(temp, values, mask, ones)            finds the mask and its ones, and returns the offset of the values.
//                                                Leaves temp.encoded alone. Has a barrier
//   write(temp, mask, values_begin)              writes the bytes before the values. Has a barrier if it may write past
//                                                the offset of the values
//   read<Full>(temp, size, count, mask, values_begin, kind)   reads the mask of `count` values from the `size` bytes in
//                                                temp.encoded; Full: of a full tile. The mask may have ones past
//                                                `count`. Returns false to all threads if encoding does not write such
//                                                bytes
#pragma once

#include <tuck/codec/mask_block.cuh>

namespace tuck::inline TUCK_ABI {

/// Shared memory of a codec with masks.
template <element T, int Threads> struct mask_storage {
  alignas(16) std::byte encoded[tile_bytes + 16];  ///< the encoded chunk, smaller than its values
  typename block_masks<T, Threads>::TempStorage of_masks;
};

/// Block codec with masks; block.cuh documents the members.
template <class C, int Threads, template <class, int> class Form_> class mask_codec_block {
  using Form = Form_<C, Threads>;
  using T = value_t<C>;
  using masks = block_masks<T, Threads>;
  using tile = typename masks::tile;

 public:
  using TempStorage = typename Form::TempStorage;

  static constexpr int blocks_a_processor = sizeof(T) == 1 ? 5 : sizeof(T) == 2 ? 6 : 8;  ///< 96, 80 and 64 registers

  __device__ explicit mask_codec_block(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t measure(const C&, const tile& values) {
    masks::template prepare<true>(temp_.of_masks);
    values_begin_ = Form::measure(temp_, values, masks_, ones_);
    return values_begin_ + ones_.all * uint32_t{sizeof(T)};
  }

  __device__ void pack(const C& codec, const tile& values, bytes out) {
    const uint32_t size = values_begin_ + ones_.all * uint32_t{sizeof(T)};
    assemble(codec, values);
    if (sizeof(T) != 1 && threadIdx.x < 16) temp_.encoded[size + threadIdx.x] = std::byte{};
    device::sync_block();
    copy_from_shared<Threads>(out, temp_.encoded, size);
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
    if constexpr (sizeof(T) == 1) {
      zero_shared<Threads>(temp_.encoded);
      device::sync_block();
    }
    Form::write(temp_, masks_, values_begin_);
    masks_.put(temp_.of_masks, values, masks_.find_offsets(ones_.before), temp_.encoded + values_begin_);
  }

  template <class Sink>
  __device__ status decode_assembled(const C&, uint32_t side, uint32_t size, uint32_t count, Sink& sink) {
    return count == tile::capacity ? decode_assembled<true>(side, size, count, sink)
                                   : decode_assembled<false>(side, size, count, sink);
  }

 private:
  static constexpr uint32_t any_side = ~0u;

  template <bool Full, class Sink>
  __device__ status decode_assembled(uint32_t side, uint32_t size, uint32_t count, Sink& sink) {
    uint32_t kind = 0;
    if (!Form::template read<Full>(temp_, size, count, masks_, values_begin_, kind)) return status::bad_payload;
    if (side != any_side && side != values_begin_) return status::bad_payload;
    if constexpr (!Full) {
      const uint32_t ones = masks_.ones();
      masks_.clip(count);
      if (device::sync_block_or(masks_.ones() != ones)) return status::bad_payload;
    }
    masks::template prepare<false>(temp_.of_masks);
    if constexpr (sizeof(T) == 1)
      if (threadIdx.x < 8) temp_.encoded[size + threadIdx.x] = std::byte{};
    if (Form::kinds == 2 && kind == 1 && threadIdx.x < sizeof(T))  // the value before the first
      temp_.encoded[values_begin_ - sizeof(T) + threadIdx.x] = std::byte{};
    ones_ = masks_.sum(temp_.of_masks);
    if (values_begin_ + ones_.all * sizeof(T) != size) return status::bad_payload;
    if (Form::kinds == 2 && kind == 1)
      get_values<Full, true>(count, sink);
    else
      get_values<Full, false>(count, sink);
    return status::ok;
  }
  template <bool Full, bool Repeats, class Sink> __device__ void get_values(uint32_t count, Sink& sink) {
    constexpr int some = tile::rows < 4 ? tile::rows : 4;  // rows that registers can hold
    const typename masks::offsets offsets = masks_.find_offsets(ones_.before);
    const auto row = [&](int r) {
      return masks_.template get<Repeats>(temp_.of_masks, r, offsets, temp_.encoded + values_begin_);
    };
#pragma unroll
    for (int begin = 0; begin < tile::rows; begin += some) {
      const uint32_t first = tile::first_value(begin * tile::row_words);
      if constexpr (Full && detail::takes_rows<Sink, some>) {
        device::vec128 x[some];
#pragma unroll
        for (int r = 0; r < some; ++r) x[r] = row(begin + r);
        sink(first, x);
      } else {
#pragma unroll
        for (int r = 0; r < some; ++r)
          if (const uint32_t at = first + static_cast<uint32_t>(r) * tile::row_values; Full || at < count)
            sink(at, Repeats && !Full ? tile::clip(row(begin + r), count - at) : row(begin + r));
      }
    }
  }

  TempStorage& temp_;
  // Of the chunk that was measured or is decoded.
  masks masks_;
  typename masks::sums ones_{};
  uint32_t values_begin_ = 0;
};

}  // namespace tuck::inline TUCK_ABI
