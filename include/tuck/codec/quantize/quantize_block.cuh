// SPDX-License-Identifier: Apache-2.0
// Quantize and quantize_codes by one thread block. They write the bytes of quantize.hpp.
#pragma once

#include <tuck/codec/bitpack/groups_block.cuh>
#include <tuck/codec/bitpack/groups_block_reader.cuh>
#include <tuck/codec/quantize/tile_quantizer.cuh>

namespace tuck::inline TUCK_ABI {

/// Block codec of quantize; block.cuh documents the members.
template <floating_element T, int Threads> class block_codec<quantize<T>, Threads> {
 public:
  using tile = block_tile<T, Threads>;
  using groups = block_groups<sizeof(T), Threads>;
  using quantizer_of_tile = tile_quantizer<T, Threads>;

  static constexpr int registers = sizeof(T) == 4 ? 64 : sizeof(T) == 8 ? 80 : 96;
  static constexpr bool keeps_tile = false;

  struct TempStorage {
    typename groups::TempStorage of_groups;
    typename quantizer_of_tile::TempStorage of_tile;
    uint32_t exceptions;  // the same for all threads; kept here to save registers
  };

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp), groups_(temp.of_groups), quantizer_(temp.of_tile) {}

  /// Exceptions keep their values. `write` reads these again, so that no registers hold values while codes are packed.
  __device__ void approximate(const quantize<T>& codec, tile& values) {
    if (!codec.is_usable()) return;
    exponent_ = quantizer_.find_exponent(codec, values);
    quantizer_.with_quantizer(codec, exponent_, [&](const auto& quantizer) {
      quantizer_.quantize_rows(quantizer, values,
                               [&](uint32_t r, const device::vec128& codes, const device::vec128& restored) {
                                 groups_.set_row(r, codes);
                                 values.set_row(static_cast<int>(r), restored);
                               });
    });
  }
  __device__ uint32_t measure(const quantize<T>& codec, const tile& values) {
    if (!codec.is_usable()) return incompressible;
    const uint32_t exceptions = quantizer_.count_exceptions();
    if (threadIdx.x == 0) temp_.exceptions = exceptions;
    return groups_.measure(values.count, codec.predicts(), exceptions, codec.side().bytes(exceptions),
                           quantize<T>::limit(values.count));
  }
  __device__ std::byte* chunk() { return groups_.chunk(); }
  template <class Values> __device__ void write(const quantize<T>& codec, const Values& values, std::byte* to) {
    groups_.write(to);
    quantizer_.write_side(codec.side(), to + groups_.end(), exponent_, temp_.exceptions, values);
  }

 private:
  TempStorage& temp_;
  groups groups_;
  quantizer_of_tile quantizer_;
  uint32_t exponent_ = 0;
};

/// Block decoder of quantize; block.cuh documents the members.
template <floating_element T, int Threads> class block_decoder<quantize<T>, Threads> {
  using groups = block_group_reader<sizeof(T), Threads>;
  using quantizer_of_tile = tile_quantizer<T, Threads>;

  using steps = step_quantizer<T>;
  using mantissas = mantissa_quantizer<T>;
  using word = typename steps::word;

  static constexpr uint32_t words = block_tile<T, Threads>::capacity / 32;  // one bit per value

 public:
  static constexpr int registers = sizeof(T) == 4 ? 64 : 80;

  struct TempStorage {
    typename groups::TempStorage of_groups;
    typename quantizer_of_tile::TempStorage of_tile;
    uint32_t exceptions[words];         // one bit per value
    uint16_t exceptions_before[words];  // number of exceptions before each word that has any
  };

  __device__ explicit block_decoder(TempStorage& temp) : temp_(temp), groups_(temp.of_groups) {}

  template <class Sink>
  __device__ status read(const quantize<T>& codec, std::byte* from, uint32_t size, uint32_t count, Sink& sink) {
    const bool pointwise = codec.pointwise();
    const uint32_t max_width = pointwise ? mantissas::max_width : steps::max_width;
    const word zero = pointwise ? word{0} : steps::zero;
    if (!codec.is_usable() || size > quantize<T>::limit(count) || !groups_.open(from, size, count, max_width, zero))
      return status::bad_payload;
    const uint32_t exceptions = groups_.extra(), end = groups_.end();
    const quantize_side<T> side = codec.side();
    if (end + side.bytes(exceptions) != size) return status::bad_payload;
    const std::byte* const of_side = groups_.encoded() + end;  // at a multiple of 4, as groups end there
    uint32_t exponent = 0;
    if (codec.has_exponent()) {
      exponent = quantizer_of_tile::exponent(side, of_side);
      if (!codec.exponent_is_sound(exponent)) return status::bad_payload;
    }
    const std::byte* of_exceptions = nullptr;
    if (exceptions != 0) {
      of_exceptions = of_side + side.values(exceptions);
      if (!find_exceptions(reinterpret_cast<const uint16_t*>(of_side + side.positions), exceptions, count))
        return status::bad_payload;
    }
    quantizer_of_tile(temp_.of_tile).with_quantizer(codec, exponent, [&](const auto& quantizer) {
      groups_.decode(
          count,
          [&](uint32_t first, const auto& codes) {
            device::vec128 row = quantizer_of_tile::values_of(quantizer, codes);
            if (exceptions != 0) patch(of_exceptions, first, row);
            return row;
          },
          sink);
    });
    return status::ok;
  }

 private:
  // Marks the exceptions. Returns false to all threads if positions do not ascend or are past the end. Has barriers.
  __device__ bool find_exceptions(const uint16_t* position, uint32_t exceptions, uint32_t count) {
    for (uint32_t i = threadIdx.x; i < words; i += Threads) temp_.exceptions[i] = 0;
    if (!quantizer_of_tile::are_sound(position, exceptions, count)) return false;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < exceptions; i += Threads) {
      const uint32_t at = position[i];
      if (i == 0 || position[i - 1] / 32u != at / 32) temp_.exceptions_before[at / 32] = static_cast<uint16_t>(i);
      device::atomic_or(&temp_.exceptions[at / 32], 1u << at % 32);
    }
    device::sync_block();
    return true;
  }
  // Writes the exceptions among the 16 bytes of values that begin at value `first`.
  __device__ void patch(const std::byte* exceptions, uint32_t first, device::vec128& row) const {
    constexpr uint32_t lane_values = 16 / sizeof(T);
    const uint32_t mask = temp_.exceptions[first / 32], column = first % 32;
    if ((mask >> column & low_mask(lane_values)) == 0) return;
    long_row<T> values(row);
    uint32_t at = temp_.exceptions_before[first / 32] + popcount(mask & low_mask(column));
#pragma unroll 1
    for (uint32_t k = 0; k < lane_values; ++k) {
      const bool is_one = (mask >> (column + k) & 1) != 0;
      const bits_t<T> instead = is_one ? quantizer_of_tile::get(exceptions + at++ * uint32_t{sizeof(T)}) : bits_t<T>{};
      values.replace(is_one, instead);
    }
    row = values.row();
  }

  TempStorage& temp_;
  groups groups_;
};

/// Block codec of quantize_codes, for chains; block.cuh documents the members.
template <floating_element T, int Threads> class block_codec<quantize_codes<T>, Threads> {
 public:
  using tile = block_tile<T, Threads>;
  static constexpr int registers = 80;

 private:
  using quantizer_of_tile = tile_quantizer<T, Threads>;

  static constexpr uint32_t max_side = quantize_codes<T>::max_side;
  static_assert(max_side % 16 == 0);

 public:
  struct TempStorage {
    alignas(16) std::byte encoded[max_side + tile_bytes];  // the side stream ends, and the codes begin, at max_side
    typename quantizer_of_tile::TempStorage of_tile;
  };

  __device__ explicit block_codec(TempStorage& temp) : temp_(temp), quantizer_(temp.of_tile) {}

  __device__ uint32_t measure(const quantize_codes<T>& codec, const tile& values) {
    if (!codec.rule().is_usable()) return incompressible;
    exponent_ = quantizer_.find_exponent(codec.rule(), values);
    quantizer_.with_quantizer(codec.rule(), exponent_, [&](const auto& quantizer) {
      quantizer_.quantize_rows(quantizer, values, [&](uint32_t r, const device::vec128& row, const device::vec128&) {
        row_at(static_cast<int>(r)) = row;
      });
    });
    exceptions_ = quantizer_.count_exceptions();
    if (exceptions_ > quantize_codes<T>::max_exceptions) return incompressible;
    size_ = codec.rule().side().bytes(exceptions_);
    return size_ + values.count * uint32_t{sizeof(T)};
  }

  __device__ uint32_t side_bytes(uint32_t) const { return size_; }
  __device__ std::byte* chunk() { return temp_.encoded + max_side - size_; }

  /// For chains: the codes are at chunk() already.
  __device__ void write(const quantize_codes<T>& codec, tile& values, std::byte* to) {
    for (uint32_t i = threadIdx.x; i < size_; i += Threads) to[i] = std::byte{};
    device::sync_block();
    quantizer_.write_side(codec.rule().side(), to, exponent_, exceptions_, values);
    quantizer_.with_quantizer(codec.rule(), exponent_, [&](const auto& quantizer) {
#pragma unroll
      for (int r = 0; r < tile::rows; ++r) {
        quantizer_.keep_exceptions(r, quantizer_of_tile::restored(quantizer, row_at(r)), values);
        device::in_order();
      }
    });
  }

 private:
  // Returns the 16 bytes of this thread in row r of the codes.
  __device__ device::vec128& row_at(int r) { return quantizer_of_tile::row_at(temp_.encoded + max_side, r); }

  TempStorage& temp_;
  quantizer_of_tile quantizer_;
  uint32_t exponent_ = 0, exceptions_ = 0, size_ = 0;
};

/// Block decoder of quantize_codes, for chains; block.cuh documents the members. If there are exceptions, the values
/// replace the codes in place, and the exceptions some of these.
template <floating_element T, int Threads> class block_decoder<quantize_codes<T>, Threads> {
  using tile = block_tile<T, Threads>;
  using quantizer_of_tile = tile_quantizer<T, Threads>;

 public:
  using TempStorage = typename quantizer_of_tile::TempStorage;

  __device__ explicit block_decoder(TempStorage& temp) : quantizer_(temp) {}

  template <class Sink>
  __device__ status read_parts(const quantize_codes<T>& codec, std::byte* of_side, uint32_t side_bytes,
                               std::byte* values, uint32_t, uint32_t count, Sink& sink) {
    const quantize_side<T> side = codec.rule().side();
    if (!codec.rule().is_usable() || !quantize_codes<T>::is_side(side, side_bytes)) return status::bad_payload;
    const uint32_t exceptions = side.exceptions(side_bytes);
    const uint32_t exponent = quantizer_of_tile::exponent(side, of_side);
    if (!codec.rule().exponent_is_sound(exponent)) return status::bad_payload;
    const auto* const position = reinterpret_cast<const uint16_t*>(of_side + side.positions);
    if (!quantizer_of_tile::are_sound(position, exceptions, count)) return status::bad_payload;
    quantizer_.with_quantizer(codec.rule(), exponent, [&](const auto& quantizer) {
      const auto restored = [&](const device::vec128& codes) { return quantizer_of_tile::restored(quantizer, codes); };
      if (exceptions == 0) return emit_strip<tile>(count, values, sink, restored);
#pragma unroll 1
      for (int r = 0; r < tile::rows; ++r)
        if (tile::first_value(r * tile::row_words) < count) {
          device::vec128& row = quantizer_of_tile::row_at(values, r);
          row = restored(row);
        }
    });
    if (exceptions == 0) return status::ok;
    device::sync_block();
    for (uint32_t i = threadIdx.x; i < exceptions; i += Threads)
      quantizer_of_tile::put(values + position[i] * sizeof(T),
                             quantizer_of_tile::get(of_side + side.values(exceptions) + i * sizeof(T)));
    device::sync_block();
    emit_strip<tile>(count, values, sink);
    return status::ok;
  }

 private:
  quantizer_of_tile quantizer_;
};

}  // namespace tuck::inline TUCK_ABI
