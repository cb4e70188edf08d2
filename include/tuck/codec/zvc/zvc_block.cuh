// ZVC by one thread block. It writes the bytes of zvc.hpp.
#pragma once

#include <tuck/codec/mask_block.cuh>
#include <tuck/codec/zvc/zvc.hpp>

namespace tuck::inline TUCK_ABI {

/// The mask format of zvc.
template <element T, int Threads> struct block_zvc_mask {
  using masks = block_masks<T, Threads>;
  struct TempStorage {
    typename masks::TempStorage of_masks;
  };

  static constexpr uint32_t kinds = 1;

  __device__ static uint32_t measure(TempStorage& temp, const typename masks::tile& values, masks& mask,
                                     typename masks::sums& ones) {
    mask.find_non_zeros(values);
    ones = mask.sum(temp.of_masks);
    return zvc<T>::mask_bytes(values.count);
  }
  __device__ static void write(TempStorage&, const masks& mask, uint32_t, std::byte* to) {
    mask.store(to);
    device::sync_block();
  }
  template <bool Full>
  __device__ static bool read(TempStorage&, const std::byte* from, uint32_t size, uint32_t count, masks& mask,
                              uint32_t& values_begin, uint32_t&) {
    values_begin = Full ? masks::most_bytes : zvc<T>::mask_bytes(count);
    if (size < values_begin) return false;
    mask.template load<Full>(from, values_begin);
    return true;
  }
};

template <element T, int Threads>
struct block_codec<zvc<T>, Threads> : block_mask_codec<zvc<T>, block_zvc_mask<T, Threads>, Threads> {
  using block_mask_codec<zvc<T>, block_zvc_mask<T, Threads>, Threads>::block_mask_codec;
};

}  // namespace tuck::inline TUCK_ABI
