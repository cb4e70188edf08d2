// The forms of zeros (zero_forms in stages.hpp) by one thread block.
#pragma once

#include <tuck/codec/chain/stages.hpp>
#include <tuck/codec/mask_block.cuh>

namespace tuck::inline TUCK_ABI::detail {

// Finds and drops the negative zeros of a tile, before zvc encodes it.
template <element T, int Threads> struct block_zeros {
  using masks = block_masks<T, Threads>;
  using tile = typename masks::tile;
  using word = typename tile::word;

  struct TempStorage {
    typename masks::TempStorage of_masks;
  };

  // Returns true if this thread has a negative zero. May also return true if it has a denormal.
  __device__ static bool may_have(const tile& values) {
    if constexpr (tile::per_word == 1) {
      int32_t least = 0;  // of the highest 4 bytes of each value: a negative zero has the least integer
#pragma unroll
      for (int j = 0; j < tile::words; ++j) {
        const auto x = static_cast<int32_t>(static_cast<uint32_t>(values.w[j] >> (8 * sizeof(word) - 32)));
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

  // Chooses the form of a chunk that the block codec of zvc has measured. If it is not 0, makes its negative zeros
  // positive, and sets the new mask and `used`, the new size of the chunk. If it is 1, writes the signs behind which
  // `end` is. Has barriers, also before it returns.
  template <class Coder>
  __device__ static uint32_t drop_negative_zeros(TempStorage& temp, Coder& coder, tile& values, std::byte* end,
                                                 uint32_t& used) {
    const masks all = coder.mask();
    masks residuals;
    tile bare;
#pragma unroll
    for (int j = 0; j < tile::words; ++j) bare.w[j] = values.w[j] & ~top();
    residuals.find_non_zeros(bare);
    // Counts both at once:
    //
    //    31                     16 15                      0
    //   +-------------------------+-------------------------+
    //   | values other than 0     | also than negative zero |
    //   +-------------------------+-------------------------+
    const auto ones = masks::sum_warps(temp.of_masks, device::warp_sum(all.ones() << 16 | residuals.ones()));
    const uint32_t residual_count = ones.all & 0xffffu, zeros = values.count - residual_count;
    const uint32_t form = zero_forms::choose(values.count, zeros, (ones.all >> 16) - residual_count, sizeof(T));
    if (form != 0) {
      if (form == 1) write_signs(all, residuals, ones.before & 0xffffu, end - zero_forms::sign_bytes(form, zeros), end);
      used = coder.replace_mask(residuals, {ones.before & 0xffffu, residual_count});
#pragma unroll
      for (int j = 0; j < tile::words; ++j) values.w[j] &= ~negative_zeros(values.w[j]);
    }
    device::sync_block();
    return form;
  }

 private:
  // The top bit of each value of a word.
  __device__ static word top() { return tile::repeat(static_cast<bits_t<T>>(bits_t<T>{1} << (8 * sizeof(T) - 1))); }
  // Returns the top bits of the values that are negative zeros.
  __device__ static word negative_zeros(word x) { return x & top() & ~((x & ~top()) + ~top()); }

  __device__ static void write_signs(const masks& all, const masks& residuals, uint32_t residuals_before,
                                     std::byte* begin, std::byte* end) {
    auto* const words = reinterpret_cast<uint32_t*>(begin);
    for (uint32_t i = threadIdx.x; words + i < reinterpret_cast<uint32_t*>(end); i += Threads) words[i] = 0;
    device::sync_block();
    const auto positions = residuals.find_positions(begin, residuals_before);
    unrolled<tile::rows>([&]<int R>() {
      const uint32_t others = residuals.template row<R>(), not_positive = all.template row<R>();
      uint32_t signs = 0, count = 0;
#pragma unroll
      for (uint32_t k = 0; k < tile::lane_values; ++k) {
        const uint32_t zero = ~others >> k & 1;
        signs |= (not_positive >> k & zero) << count;
        count += zero;
      }
      device::shared_bit_writer out(begin, masks::template zeros_before<R>(begin, positions));
      out.put(signs, count);
      out.finish();
    });
  }
};

}  // namespace tuck::inline TUCK_ABI::detail
