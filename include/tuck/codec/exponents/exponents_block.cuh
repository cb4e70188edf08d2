// Exponents by one thread block: the bytes of exponents.hpp.
#pragma once

#include <tuck/codec/bitpack/groups_block.cuh>
#include <tuck/codec/bitpack/groups_block_reader.cuh>
#include <tuck/codec/exponents/exponents.hpp>

namespace tuck::inline TUCK_ABI {

template <floating_element T, int Threads> class block_codec<exponents<T>, Threads> {
 public:
  using tile = block_tile<T, Threads>;
  using groups = block_groups<sizeof(T), Threads, exponents<T>::low>;
  struct TempStorage {
    typename groups::TempStorage of_groups;
    uint32_t of_warp[Threads / device::warp_size];
  };

  static constexpr int blocks_a_processor = sizeof(T) < 4 ? 5 : 8;  // 96 registers, or 64

  __device__ explicit block_codec(TempStorage& temp) : groups_(temp.of_groups), temp_(temp) {}

  __device__ uint32_t measure(const exponents<T>&, const tile& values) {
    const uint32_t steps = least_exponent(values), first = tile::first_value();
#pragma unroll
    for (int r = 0; r < tile::rows; ++r) {
      device::vec128 x = values.row(r);
      rotate_values<sizeof(T)>(x.w);
      subtract(x, steps);
      if (!values.is_full()) x = tile::clip(x, there(values, first, r));
      groups_.set_row(static_cast<uint32_t>(r), x);
    }
    return groups_.measure(values.count, false, steps, 0, exponents<T>::limit(values.count));
  }
  __device__ void pack(const exponents<T>&, const tile&, bytes out) {
    groups_.assemble(0);
    device::sync_block();
    copy_from_shared<Threads>(out, groups_.encoded(), groups_.end());
  }

 private:
  static constexpr uint32_t exponent_bits = float_format<T>::exponent_bits;

  // How many values of this thread's 16 bytes of row r the chunk has.
  __device__ static uint32_t there(const tile& values, uint32_t first, int r) {
    const uint32_t at = first + static_cast<uint32_t>(r) * tile::row_values;
    return at < values.count ? values.count - at : 0;
  }

  // Of the chunk; all threads get it. With a barrier.
  __device__ uint32_t least_exponent(const tile& values) {
    uint32_t least = ~0u;
    const auto add = [&](uint32_t x) { least = x < least ? x : least; };  // whose upper bits are an exponent's
    const uint32_t first = tile::first_value();
#pragma unroll
    for (int r = 0; r < tile::rows; ++r) {
      device::vec128 x = values.row(r);
      if (!values.is_full()) {
        const device::vec128 ones = tile::clip({{~0u, ~0u, ~0u, ~0u}}, there(values, first, r));
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) x.w[k] |= ~ones.w[k];
      }
#pragma unroll
      for (uint32_t k = sizeof(T) == 8 ? 1 : 0; k < 4; k += sizeof(T) == 8 ? 2 : 1) {
        add(x.w[k] << 1);
        if constexpr (sizeof(T) == 2) add(x.w[k] << 17);
      }
    }
    least = device::warp_min(least >> (32 - exponent_bits));
    if (device::lane_id() == 0) temp_.of_warp[device::warp_id()] = least;
    device::sync_block();
    return device::warp_min(device::lane_id() < Threads / device::warp_size ? temp_.of_warp[device::lane_id()] : ~0u);
  }

  __device__ static void subtract(device::vec128& x, uint32_t steps) {
    const uint32_t all_steps = sizeof(T) == 8 ? steps << (exponents<T>::low - 32) % 32
                                              : tile::repeat(static_cast<bits_t<T>>(steps << exponents<T>::low % 32));
#pragma unroll
    for (uint32_t k = sizeof(T) == 8 ? 1 : 0; k < 4; k += sizeof(T) == 8 ? 2 : 1) x.w[k] -= all_steps;
  }

  groups groups_;
  TempStorage& temp_;
};

template <floating_element T, int Threads> class block_decoder<exponents<T>, Threads> {
 public:
  using groups = block_group_reader<sizeof(T), Threads, exponents<T>::low>;
  using TempStorage = typename groups::TempStorage;

  static constexpr int blocks_a_processor = sizeof(T) < 4 ? 6 : 8;  // 80 registers, or 64

  __device__ explicit block_decoder(TempStorage& temp) : groups_(temp) {}

  template <class Sink> __device__ status decode(const exponents<T>&, const_bytes encoded, uint32_t count, Sink& sink) {
    if (encoded.size() > exponents<T>::limit(count) || !groups_.open(encoded, count, exponents<T>::max_width, 0) ||
        groups_.end() != encoded.size())
      return status::bad_payload;
    groups_.decode(
        count,
        [](uint32_t, const auto& x) {
          device::vec128 row = groups::as_row(x);
          rotate_values_back<sizeof(T)>(row.w);
          return row;
        },
        sink);
    return status::ok;
  }

 private:
  groups groups_;
};

}  // namespace tuck::inline TUCK_ABI
