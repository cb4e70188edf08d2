// ZVC by one thread block: the bytes of zvc.hpp. The chunk is put together in shared memory, which it leaves 16 bytes
// at a time.
#pragma once

#include <tuck/codec/mask_block.cuh>
#include <tuck/codec/zvc/zvc.hpp>

namespace tuck::inline TUCK_ABI {

template <element T, int Threads> struct block_codec<zvc<T>, Threads> {
  using masks = block_masks<T, Threads>;
  using tile = typename masks::tile;

  struct TempStorage {
    alignas(16) std::byte encoded[tile_bytes + 16];  // the chunk as it stands in the frame; it is less than raw
    typename masks::TempStorage of_masks;
  };

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp) {}

  __device__ uint32_t measure(const zvc<T>&, const tile& values) {
    masks_.find_non_zeros(values);
    masks::prepare_put(temp_.of_masks);
    if constexpr (sizeof(T) == 1) zero_shared<Threads>(temp_.encoded);
    const typename masks::sums ones = sum();
    before_ = ones.before;
    size_ = zvc<T>::mask_bytes(values.count) + ones.all * uint32_t{sizeof(T)};
    return size_;
  }

  __device__ void pack(const zvc<T>& codec, const tile& values, bytes out) {
    if constexpr (sizeof(T) != 1)
      for (uint32_t i = size_ + threadIdx.x; i < out.size(); i += Threads) temp_.encoded[i] = std::byte{};
    assemble(codec, values);
    device::sync_block();
    copy_from_shared<Threads>(out, temp_.encoded);
  }

  template <class Sink> __device__ status decode(const zvc<T>& codec, const_bytes encoded, uint32_t count, Sink& sink) {
    if (encoded.size() > tile_bytes) return status::bad_payload;
    copy_to_shared<Threads>(temp_.encoded, encoded);
    device::sync_block();
    return decode_assembled(codec, 0, static_cast<uint32_t>(encoded.size()), count, sink);
  }

  // -- for chains
  __device__ uint32_t side_bytes(uint32_t count) const { return zvc<T>::mask_bytes(count); }
  __device__ std::byte* encoded(uint32_t) { return temp_.encoded; }

  __device__ void assemble(const zvc<T>&, const tile& values) {
    const uint32_t mask_bytes = zvc<T>::mask_bytes(values.count);
    masks_.store(temp_.encoded, mask_bytes);
    masks_.put(temp_.of_masks, values, masks_.find_places(before_), temp_.encoded + mask_bytes);
  }

  template <class Sink>
  __device__ status decode_assembled(const zvc<T>&, uint32_t, uint32_t size, uint32_t count, Sink& sink) {
    return count == tile::capacity ? decode_assembled<true>(size, count, sink)
                                   : decode_assembled<false>(size, count, sink);
  }

 private:
  template <bool Full, class Sink> __device__ status decode_assembled(uint32_t size, uint32_t count, Sink& sink) {
    const uint32_t mask_bytes = Full ? masks::most_bytes : zvc<T>::mask_bytes(count);
    if (size < mask_bytes) return status::bad_payload;
    if constexpr (sizeof(T) == 1)
      if (threadIdx.x < 8) temp_.encoded[size + threadIdx.x] = std::byte{};
    masks::prepare_get(temp_.of_masks);
    masks_.load(temp_.encoded, mask_bytes);
    uint32_t past_the_end = 0;
    if constexpr (!Full) {
      past_the_end = masks_.ones();
      masks_.clip(count);
      past_the_end -= masks_.ones();
    }
    const typename masks::sums ones = sum();
    bool bad = mask_bytes + ones.all * sizeof(T) != size;
    if constexpr (!Full) bad = device::sync_block_or(bad || past_the_end != 0);
    if (bad) return status::bad_payload;
    const typename masks::places places = masks_.find_places(ones.before);
#pragma unroll
    for (int r = 0; r < tile::rows; ++r)
      if (const uint32_t first = tile::first_value(r * tile::row_words); Full || first < count)
        sink(first, masks_.template get<false>(temp_.of_masks, r, places, temp_.encoded + mask_bytes));
    return status::ok;
  }

  // Of the masks' ones; with a barrier.
  __device__ typename masks::sums sum() {
    const uint32_t ones = device::warp_sum(masks_.ones());
    if (device::lane_id() == 0) temp_.of_masks.of_warp[device::warp_id()] = ones;
    device::sync_block();
    return masks::sum_warps(temp_.of_masks.of_warp);
  }

  TempStorage& temp_;
  masks masks_;
  uint32_t before_ = 0, size_ = 0;
};

}  // namespace tuck::inline TUCK_ABI
