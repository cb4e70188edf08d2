// quantize_codes by one thread block, for chains. It writes the bytes of codes.hpp. Values are quantized in the tile,
// and codes are replaced by restored values in shared memory.
#pragma once

#include <tuck/codec/block.cuh>
#include <tuck/codec/quantize/codes.hpp>
#include <tuck/codec/quantize/tile_quantizer.cuh>

namespace tuck::inline TUCK_ABI {

/// Block codec of quantize_codes; block.cuh documents the members.
template <floating_element T, int Threads> class block_codec<quantize_codes<T>, Threads> {
 public:
  using tile = block_tile<T, Threads>;
  static constexpr int blocks_a_processor = 6;  ///< 80 registers per thread

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
  __device__ std::byte* encoded(uint32_t side_bytes) { return temp_.encoded + max_side - side_bytes; }

  /// Leaves the restored values in the tile.
  __device__ void assemble(const quantize_codes<T>& codec, tile& values) {
    for (uint32_t i = threadIdx.x; i < size_; i += Threads) encoded(size_)[i] = std::byte{};
    device::sync_block();
    quantizer_.write_side(codec.rule().side(), encoded(size_), exponent_, exceptions_, values);
    quantizer_.with_quantizer(codec.rule(), exponent_, [&](const auto& quantizer) {
#pragma unroll
      for (int r = 0; r < tile::rows; ++r) {
        device::vec128 row = row_at(r);
        restore(quantizer, row);
        quantizer_.keep_exceptions(r, row, values);
      }
    });
  }

  template <class Sink>
  __device__ status decode_assembled(const quantize_codes<T>& codec, uint32_t side_bytes, uint32_t, uint32_t count,
                                     Sink& sink) {
    const quantize_side<T> side = codec.rule().side();
    if (!codec.rule().is_usable() || !quantize_codes<T>::is_side(side, side_bytes)) return status::bad_payload;
    const uint32_t exceptions = side.exceptions(side_bytes);
    const std::byte* const of_side = encoded(side_bytes);
    const uint32_t exponent = quantizer_of_tile::exponent(side, of_side);
    if (!codec.rule().exponent_is_sound(exponent)) return status::bad_payload;
    quantizer_.with_quantizer(codec.rule(), exponent, [&](const auto& quantizer) {
#pragma unroll 1
      for (int r = 0; r < tile::rows; ++r)
        if (tile::first_value(r * tile::row_words) < count) restore(quantizer, row_at(r));
    });
    device::sync_block();
    const auto* const position = reinterpret_cast<const uint16_t*>(of_side + side.positions);
    if (!quantizer_of_tile::are_sound(position, exceptions, count)) return status::bad_payload;
    for (uint32_t i = threadIdx.x; i < exceptions; i += Threads)
      quantizer_of_tile::put(codes() + position[i] * sizeof(T),
                             quantizer_of_tile::get(of_side + side.values(exceptions) + i * sizeof(T)));
    device::sync_block();
#pragma unroll 1
    for (int r = 0; r < tile::rows; ++r)
      if (const uint32_t first = tile::first_value(r * tile::row_words); first < count)
        sink(first, tile::clip(row_at(r), count - first));
    return status::ok;
  }

 private:
  __device__ std::byte* codes() { return temp_.encoded + max_side; }
  // Returns the 16 bytes of this thread in row r.
  __device__ device::vec128& row_at(int r) {
    return reinterpret_cast<device::vec128*>(codes() + tile::first_value() * sizeof(T))[r * device::warp_size];
  }
  // Replaces the codes of a row by the values that they stand for.
  template <class Quantizer> __device__ static void restore(const Quantizer& quantizer, device::vec128& row) {
    long_row<T> codes(row), restored;
#pragma unroll 1
    for (uint32_t k = 0; k < tile::lane_values; ++k)
      restored.push(
          static_cast<bits_t<T>>(quantizer.value(quantizer.from_chain(typename Quantizer::word{codes.push(0)}))));
    row = restored.row();
  }

  TempStorage& temp_;
  quantizer_of_tile quantizer_;
  uint32_t exponent_ = 0, exceptions_ = 0, size_ = 0;
};

}  // namespace tuck::inline TUCK_ABI
