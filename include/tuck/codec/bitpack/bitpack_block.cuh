// SPDX-License-Identifier: Apache-2.0
// Bitpack on one thread block. The bytes are those of bitpack.hpp.
#pragma once

#include <tuck/codec/bitpack/bitpack.hpp>
#include <tuck/codec/bitpack/groups_block.cuh>
#include <tuck/codec/bitpack/groups_block_reader.cuh>

namespace tuck::inline TUCK_ABI {

template <element T, int Threads> class block_codec<bitpack<T>, Threads> {
 public:
  using tile = block_tile<T, Threads>;
  using groups = block_groups<sizeof(T), Threads>;
  using TempStorage = typename groups::TempStorage;

  static constexpr int registers = sizeof(T) == 1 ? 96 : sizeof(T) == 2 ? 80 : 64;
  static constexpr bool keeps_tile = false;

  __device__ explicit block_codec(TempStorage& temp) : groups_(temp) {}

  __device__ uint32_t measure(const bitpack<T>& codec, const tile& values) {
#pragma unroll
    for (int r = 0; r < tile::rows; ++r) groups_.set_row(static_cast<uint32_t>(r), values.row(r));
    return groups_.measure(values.count, codec.predicts(), 0, 0, bitpack<T>::limit(values.count));
  }
  __device__ std::byte* chunk() { return groups_.chunk(); }
  template <class Values> __device__ void write(const bitpack<T>&, const Values&, std::byte* to) { groups_.write(to); }

 private:
  groups groups_;
};

template <element T, int Threads> class block_decoder<bitpack<T>, Threads> {
 public:
  using groups = block_group_reader<sizeof(T), Threads>;
  using TempStorage = typename groups::TempStorage;

  static constexpr int registers = sizeof(T) < 4 ? 80 : 64;

  __device__ explicit block_decoder(TempStorage& temp) : groups_(temp) {}

  template <class Sink>
  __device__ status read(const bitpack<T>&, std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    if (size > bitpack<T>::limit(count) || !groups_.open(from, size, count, bitpack<T>::max_width, 0) ||
        groups_.extra() != 0 || groups_.end() != size)
      return status::bad_payload;
    groups_.decode(count, [](uint32_t, const auto& x) { return block_tile<T, Threads>::row_of(x); }, sink);
    return status::ok;
  }

 private:
  groups groups_;
};

}  // namespace tuck::inline TUCK_ABI
